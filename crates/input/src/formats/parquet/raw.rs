//! Columns of Parquet files as the files hold them: values of the physical types with their levels, for copies that have the same
//! types and bits.

use std::fs::File as LocalFile;
use std::io::BufWriter;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
use parquet::column::reader::{ColumnReader, get_column_reader};
use parquet::data_type::{
    BoolType, ByteArrayType, DoubleType, FixedLenByteArrayType, FloatType, Int32Type, Int64Type,
    Int96Type,
};
use parquet::errors::{ParquetError, Result as Outcome};
use parquet::file::metadata::{ParquetMetaData, ParquetMetaDataReader};
use parquet::file::serialized_reader::SerializedPageReader;
use parquet::file::writer::{SerializedColumnWriter, SerializedFileWriter};
use parquet::schema::types::{ColumnDescPtr, TypePtr};
use trainyard_storage::{File, Storage};

use super::arrow_schema::{ArrowColumn, ArrowColumns, arrow_columns, arrow_message};
use super::column::{Buffer, ColumnCursor, ParquetColumn, columns};
use super::column_type::{Class, arrow_name, arrow_path};
use super::pages::{FilledPages, Pages};
use super::rows::{broken, byte_range};
use crate::Error;
use crate::record::failed;

/// Rows of a column that are decoded together.
const CHUNK_ROWS: usize = 8192;

/// Advice where files have other types in a column.
const ONE_TYPE: &str = "write the files with the same type in each column, as `pyarrow.Table.cast` and `pandas.DataFrame.astype` do, or take the files of each type \
                        on their own";

/// Writer of a local file.
pub(super) type FileWriter = SerializedFileWriter<BufWriter<LocalFile>>;

/// What files must agree on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Agreed {
    /// What the values are: times in two zones are.
    Values,
    /// The whole types, which the result has.
    Types,
}

/// A file, which is open while its values are read.
pub(super) struct RawFile {
    path: PathBuf,
    /// Absent while the file is closed.
    file: Option<Arc<File>>,
    bytes: u64,
    metadata: Arc<ParquetMetaData>,
    columns: Vec<ParquetColumn>,
    arrow: ArrowColumns,
}

impl RawFile {
    /// Opens a file and reads its footer.
    pub(super) fn open(path: &Path) -> Result<Self, Error> {
        let file = Storage::default().open(path);
        let file = Arc::new(file.map_err(|error| failed(path, &error))?);
        let bytes = file.bytes().map_err(|error| failed(path, &error))?;
        let pages = Pages::new(&file, bytes, 0..bytes, Bytes::new());
        let metadata = ParquetMetaDataReader::new().parse_and_finish(&pages);
        let metadata = metadata.map_err(|error| broken(path, error))?;
        let arrow = arrow_columns(metadata.file_metadata());
        let columns = columns(metadata.file_metadata().schema_descr(), &arrow);
        Ok(Self {
            path: path.to_owned(),
            file: Some(file),
            bytes,
            arrow,
            metadata: Arc::new(metadata),
            columns,
        })
    }

    /// Closes the file, whose footer stays known: of many files, few are open.
    pub(super) fn close(&mut self) {
        self.file = None;
    }

    /// Opens the file again if it is closed.
    ///
    /// # Errors
    /// The file cannot be opened, or has another size than before.
    pub(super) fn open_again(&mut self) -> Result<(), Error> {
        if self.file.is_some() {
            return Ok(());
        }
        let path = &self.path;
        let file = Storage::default().open(path);
        let file = file.map_err(|error| failed(path, &error))?;
        let bytes = file.bytes().map_err(|error| failed(path, &error))?;
        if bytes != self.bytes {
            let what = format!("it has {bytes} bytes, and had {}", self.bytes);
            let file = path.clone();
            return Err(Error::Changed { file, what });
        }
        self.file = Some(Arc::new(file));
        Ok(())
    }

    /// Returns what Arrow says of a leaf beyond the format.
    pub(super) fn arrow(&self, leaf: usize) -> Option<&ArrowColumn> {
        if self.arrow.is_empty() {
            return None;
        }
        self.arrow.get(&self.arrow_path(leaf))
    }

    /// Returns the message of Arrow's schema.
    pub(super) fn arrow_message(&self) -> Option<Vec<u8>> {
        arrow_message(self.metadata.file_metadata())
    }

    /// Returns the path of a leaf as Arrow has it.
    pub(super) fn arrow_path(&self, leaf: usize) -> String {
        let schema = self.metadata.file_metadata().schema_descr();
        arrow_path(schema, &schema.column(leaf))
    }

    /// Returns what the values of a leaf are.
    pub(super) fn class(&self, leaf: usize, agreed: Agreed) -> Class {
        let arrow = self.arrow(leaf);
        if arrow.is_some_and(|arrow| arrow.list_size.is_some()) {
            return Class::Other(self.type_name(leaf));
        }
        let values = arrow.map(|arrow| match agreed {
            Agreed::Types => arrow.clone(),
            Agreed::Values => ArrowColumn {
                zone: None,
                ..arrow.clone()
            },
        });
        let descriptor = self.descriptor(leaf);
        Class::of(arrow_name(descriptor.self_type(), values.as_ref()))
    }

    /// Returns the type of a leaf in the words of Arrow.
    pub(super) fn type_name(&self, leaf: usize) -> String {
        let arrow = self.arrow(leaf);
        let name = arrow_name(self.descriptor(leaf).self_type(), arrow);
        let lists = usize::try_from(self.descriptor(leaf).max_rep_level()).unwrap_or(0);
        if let Some(size) = arrow.and_then(|arrow| arrow.list_size) {
            return format!("fixed_size_list<{name}>[{size}]");
        }
        format!("{}{name}{}", "list<".repeat(lists), ">".repeat(lists))
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    pub(super) fn metadata(&self) -> &ParquetMetaData {
        &self.metadata
    }

    /// Returns the leaves, in the order of the file.
    pub(super) fn columns(&self) -> &[ParquetColumn] {
        &self.columns
    }

    pub(super) fn descriptor(&self, leaf: usize) -> ColumnDescPtr {
        self.metadata.file_metadata().schema_descr().column(leaf)
    }

    /// Returns the number of rows of a row group; 0 for one that does not exist.
    pub(super) fn rows_of(&self, group: usize) -> usize {
        let groups = self.metadata.row_groups();
        let rows = groups.get(group).map_or(0, |group| group.num_rows());
        usize::try_from(rows).unwrap_or(0)
    }

    /// Returns a cursor at the first row of a row group.
    pub(super) fn cursor(&self, group: usize, leaf: usize) -> Outcome<ColumnCursor> {
        let column = &self.columns[leaf];
        let chunk = self.metadata.row_group(group).column(leaf);
        let place = byte_range(chunk, &column.name, self.bytes)?;
        let file = self
            .file
            .as_ref()
            .ok_or_else(|| ParquetError::General(format!("{} is closed", self.path.display())))?;
        let pages = Pages::new(file, self.bytes, place, Bytes::new());
        let rows = self.rows_of(group);
        let pages = SerializedPageReader::new(Arc::new(pages), chunk, rows, None)?;
        let pages = Box::new(FilledPages(pages));
        let reader: ColumnReader = get_column_reader(chunk.column_descr_ptr(), pages);
        Ok(ColumnCursor::new(column, reader))
    }

    pub(super) fn broken(&self, error: ParquetError) -> Error {
        broken(&self.path, error)
    }
}

/// Returns the error that a column of one file has a type that does not go with that of another one, as `(file, type)`.
pub(super) fn other_type(
    column: &str,
    (file, found): (&Path, &str),
    (first, known): (&Path, &str),
) -> Error {
    Error::Content {
        file: file.to_owned(),
        message: format!(
            "the column `{column}` has another type than in {}: {found}, and {known} there. Files that become one must have one type \
             in each column",
            first.display()
        ),
        help: ONE_TYPE,
    }
}

/// Values of rows of a column, with their levels.
pub(super) struct Piece {
    definitions: Vec<i16>,
    repetitions: Vec<i16>,
    values: Buffer,
}

impl Piece {
    /// Makes levels of options: a value is there, or is not, whatever structure it is in. `defined` is the level of a value that is there.
    pub(super) fn make_optional(&mut self, defined: i16) {
        if self.definitions.is_empty() {
            self.definitions = vec![1; self.values.len()];
            return;
        }
        for level in &mut self.definitions {
            *level = i16::from(*level == defined);
        }
    }

    /// Makes each level that of a row of a column of lists.
    pub(super) fn make_rows(&mut self) {
        self.repetitions = vec![0; self.definitions.len()];
    }

    /// Makes other definition levels.
    pub(super) fn change_levels(&mut self, level: impl Fn(i16) -> i16) {
        for found in &mut self.definitions {
            *found = level(*found);
        }
    }

    /// Makes other values.
    pub(super) fn change_values(&mut self, change: impl FnOnce(Buffer) -> Buffer) {
        let empty = self.values.of_this_type();
        self.values = change(std::mem::replace(&mut self.values, empty));
    }

    /// Writes the values to a column of their type.
    pub(super) fn write(&self, writer: &mut SerializedColumnWriter<'_>) -> Outcome<()> {
        if self.definitions.is_empty() && self.values.len() == 0 {
            return Ok(());
        }
        let definitions = Some(self.definitions.as_slice()).filter(|levels| !levels.is_empty());
        let repetitions = Some(self.repetitions.as_slice()).filter(|levels| !levels.is_empty());
        let levels = (definitions, repetitions);
        match &self.values {
            Buffer::Bool(values) => write::<BoolType>(writer, values, levels),
            Buffer::Int32(values) => write::<Int32Type>(writer, values, levels),
            Buffer::Int64(values) => write::<Int64Type>(writer, values, levels),
            Buffer::Int96(values) => write::<Int96Type>(writer, values, levels),
            Buffer::Float(values) => write::<FloatType>(writer, values, levels),
            Buffer::Double(values) => write::<DoubleType>(writer, values, levels),
            Buffer::Bytes(values) => write::<ByteArrayType>(writer, values, levels),
            Buffer::Fixed(values) => write::<FixedLenByteArrayType>(writer, values, levels),
        }
    }

    /// Makes whole numbers of floats.
    ///
    /// # Errors
    /// The first value that is none.
    pub(super) fn make_whole(&mut self) -> Result<(), f64> {
        let whole = |value: f64| {
            // Larger ones are no whole numbers of 64 bits.
            let is_whole = value.fract() == 0.0 && value.abs() < 2_f64.powi(63);
            if is_whole {
                Ok(value as i64)
            } else {
                Err(value)
            }
        };
        let values: Result<Vec<i64>, f64> = match &self.values {
            Buffer::Float(values) => values
                .iter()
                .map(|value| whole(f64::from(*value)))
                .collect(),
            Buffer::Double(values) => values.iter().map(|value| whole(*value)).collect(),
            _ => return Ok(()),
        };
        self.values = Buffer::Int64(values?);
        Ok(())
    }
}

fn write<T: parquet::data_type::DataType>(
    writer: &mut SerializedColumnWriter<'_>,
    values: &[T::T],
    (definitions, repetitions): (Option<&[i16]>, Option<&[i16]>),
) -> Outcome<()> {
    let typed = writer.typed::<T>();
    typed
        .write_batch(values, definitions, repetitions)
        .map(drop)
}

/// Reads rows of a column, and passes on those of each chunk: the values of the chosen rows. `chosen` has an entry for each row to
/// read.
pub(super) fn read_chosen<const PARTS: usize>(
    cursor: &mut ColumnCursor,
    chosen: &[Option<usize>],
    mut each: impl FnMut([Piece; PARTS]) -> Outcome<()>,
) -> Outcome<()> {
    for chosen in chosen.chunks(CHUNK_ROWS) {
        let found = cursor.read(chosen.len())?;
        if found != chosen.len() {
            let message = format!(
                "column `{}` has {found} of {} values",
                cursor.name(),
                chosen.len()
            );
            return Err(ParquetError::General(message));
        }
        each(divide(cursor, chosen)?)?;
    }
    Ok(())
}

/// Divides the rows in the buffer of a cursor.
fn divide<const PARTS: usize>(
    cursor: &ColumnCursor,
    chosen: &[Option<usize>],
) -> Outcome<[Piece; PARTS]> {
    let (definitions, repetitions, values) = cursor.raw();
    let defined = cursor.defined();
    let mut pieces: [Piece; PARTS] = std::array::from_fn(|_| Piece {
        definitions: Vec::new(),
        repetitions: Vec::new(),
        values: values.of_this_type(),
    });
    let levels = definitions.len().max(repetitions.len());
    let levels = if levels == 0 { chosen.len() } else { levels };
    let mut row = 0;
    let mut value = 0;
    for nth in 0..levels {
        let repetition = repetitions.get(nth).copied();
        // Each level of a flat column is that of a row.
        if nth > 0 && repetition.unwrap_or(0) == 0 {
            row += 1;
        }
        let definition = definitions.get(nth).copied();
        let is_there = definition.is_none_or(|level| level == defined);
        let part = chosen.get(row).copied().flatten();
        if let Some(piece) = part.and_then(|part| pieces.get_mut(part)) {
            piece.definitions.extend(definition);
            piece.repetitions.extend(repetition);
            if is_there && !piece.values.push_from(values, value) {
                return Err(lacks_values(cursor));
            }
        }
        value += usize::from(is_there);
    }
    if value != values.len() || row + 1 != chosen.len() {
        return Err(lacks_values(cursor));
    }
    Ok(pieces)
}

fn lacks_values(cursor: &ColumnCursor) -> ParquetError {
    ParquetError::General(format!(
        "column `{}` has levels of other rows or values than it has",
        cursor.name()
    ))
}

/// Returns the root field of a leaf.
pub(super) fn root_of(file: &RawFile, leaf: usize) -> TypePtr {
    let schema = file.metadata.file_metadata().schema_descr();
    schema.get_column_root_ptr(leaf)
}
