//! Copies of rows of Parquet files into other files, with the columns, types and bits of the originals.

use std::io::BufWriter;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parquet::basic::{Compression, Repetition, Type as Physical};
use parquet::errors::{ParquetError, Result as Outcome};
use parquet::file::metadata::KeyValue;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::{SerializedColumnWriter, SerializedFileWriter};
use parquet::schema::types::{Type, TypePtr};
use trainyard_storage::ResultFile;

use super::merged::{MergedColumns, SourceLeaf};
use super::raw::{FileWriter, Piece, RawFile, read_chosen};
use crate::Error;
use crate::output::{Unwritten, sync};

/// Most parts into which rows are divided.
const PARTS: usize = 2;

/// A file that is being written.
struct Part {
    path: PathBuf,
    /// Absent once the file has its name.
    file: Option<ResultFile>,
    writer: FileWriter,
}

impl Part {
    fn finish(mut self) -> Result<(), Error> {
        let path = self.path.clone();
        let file = self.file.take();
        let written = self.writer.into_inner();
        let written = written.map_err(|error| unwritten(&path, error))?;
        sync(written).map_err(|error| unwritten(&path, error))?;
        let published = file.map_or(Ok(()), ResultFile::publish);
        published.map_err(|error| unwritten(&path, error))
    }
}

/// Copier of rows of files that have the same columns, in any order, into one or two files.
pub(crate) struct ParquetCopier {
    sources: Vec<RawFile>,
    /// For each file, the leaf that each leaf of the parts has there.
    leaves: Vec<Vec<SourceLeaf>>,
    /// The leaf whose floats become whole numbers.
    whole: Option<usize>,
    parts: Vec<Part>,
    /// The current file and row group, and where its rows go that were placed.
    file: usize,
    group: usize,
    placed: Vec<Option<usize>>,
}

impl ParquetCopier {
    pub(crate) fn open(
        files: &[PathBuf],
        parts: &[PathBuf],
        whole: Option<&str>,
    ) -> Result<Self, Error> {
        let open = |file: &PathBuf| {
            let mut file = RawFile::open(file)?;
            file.close();
            Ok(file)
        };
        let sources: Vec<RawFile> = files.iter().map(open).collect::<Result<_, _>>()?;
        let MergedColumns {
            name,
            fields,
            leaves,
            metadata,
        } = MergedColumns::new(&sources)?;
        let whole = whole.and_then(|name| floats_of(&fields, name));
        let create = |path: &PathBuf| {
            let place = whole.map(|(field, _)| field);
            create(path.clone(), (&name, &fields), place, metadata.clone())
        };
        Ok(Self {
            parts: parts
                .iter()
                .take(PARTS)
                .map(create)
                .collect::<Result<_, _>>()?,
            sources,
            leaves,
            whole: whole.map(|(_, leaf)| leaf),
            file: 0,
            group: 0,
            placed: Vec::new(),
        })
    }

    /// Returns the number of rows of the files, and that of their root fields.
    pub(crate) fn size(&self) -> (u64, usize) {
        let rows = |file: &RawFile| file.metadata().file_metadata().num_rows();
        let rows = self
            .sources
            .iter()
            .map(|file| u64::try_from(rows(file)).unwrap_or(0));
        let fields = |file: &RawFile| {
            let schema = file.metadata().file_metadata().schema_descr();
            schema.root_schema().get_fields().len()
        };
        (rows.sum(), self.sources.first().map_or(0, fields))
    }

    /// Places the next row of the files in a part, or in none.
    pub(crate) fn place(&mut self, part: Option<usize>) -> Result<(), Error> {
        self.pass_full_groups()?;
        while self.is_at_end_of_file() {
            self.enter_next_file();
            self.pass_full_groups()?;
        }
        self.placed.push(part);
        Ok(())
    }

    /// Leaves out the other rows of the current file.
    pub(crate) fn end_file(&mut self) -> Result<(), Error> {
        self.pass_full_groups()?;
        if !self.placed.is_empty() {
            let rows = self.sources.get(self.file);
            let rows = rows.map_or(0, |source| source.rows_of(self.group));
            self.placed.resize(rows, None);
            self.copy_group()?;
        }
        self.enter_next_file();
        self.placed.clear();
        Ok(())
    }

    fn enter_next_file(&mut self) {
        if let Some(source) = self.sources.get_mut(self.file) {
            source.close();
        }
        self.file += 1;
        self.group = 0;
    }

    /// Completes the first files.
    pub(crate) fn finish(mut self, parts: usize) -> Result<(), Error> {
        while self.file < self.sources.len() {
            self.end_file()?;
        }
        self.parts
            .into_iter()
            .take(parts)
            .try_for_each(Part::finish)
    }

    /// Returns whether all row groups of the current file are copied. The last file has more rows where the files have changed.
    fn is_at_end_of_file(&self) -> bool {
        let file = self.sources.get(self.file);
        file.is_some_and(|file| self.group >= file.metadata().num_row_groups())
    }

    /// Copies the row group if each of its rows is placed, and moves to the next that has a row.
    fn pass_full_groups(&mut self) -> Result<(), Error> {
        while let Some(source) = self.sources.get(self.file) {
            if self.group >= source.metadata().num_row_groups() {
                break;
            }
            if self.placed.len() < source.rows_of(self.group) {
                break;
            }
            self.copy_group()?;
            self.placed.clear();
            self.group += 1;
        }
        Ok(())
    }

    /// Copies the rows of the current row group to their parts.
    fn copy_group(&mut self) -> Result<(), Error> {
        let Self {
            sources,
            leaves,
            whole,
            parts,
            file,
            group,
            placed,
        } = self;
        let has_rows: Vec<bool> = (0..parts.len())
            .map(|part| placed.contains(&Some(part)))
            .collect();
        let Some(source) = sources.get_mut(*file) else {
            return Ok(());
        };
        if !has_rows.contains(&true) {
            return Ok(());
        }
        source.open_again()?;
        let paths: Vec<PathBuf> = parts.iter().map(|part| part.path.clone()).collect();
        // The library passes on errors of its own alone.
        let mut fault = None;
        let mut work = || -> Outcome<()> {
            let mut groups = Vec::with_capacity(PARTS);
            for (part, has_rows) in parts.iter_mut().zip(&has_rows) {
                let group = has_rows.then(|| part.writer.next_row_group());
                groups.push(group.transpose()?);
            }
            for (place, SourceLeaf { leaf, change }) in leaves[*file].iter().enumerate() {
                let mut cursor = source.cursor(*group, *leaf)?;
                let mut columns: Vec<Option<SerializedColumnWriter<'_>>> =
                    Vec::with_capacity(PARTS);
                for group in &mut groups {
                    let column = group
                        .as_mut()
                        .map(|group| group.next_column())
                        .transpose()?;
                    columns.push(column.flatten());
                }
                read_chosen(&mut cursor, placed, |pieces: [Piece; PARTS]| {
                    for ((nth, mut piece), column) in
                        pieces.into_iter().enumerate().zip(&mut columns)
                    {
                        let Some(column) = column else { continue };
                        if let Some(change) = change
                            && let Err(value) = change.make(&mut piece)
                        {
                            let name = &source.columns()[*leaf].name;
                            fault = Some(no_float(source, name, value));
                            return Err(stopped());
                        }
                        if Some(place) == *whole
                            && let Err(value) = piece.make_whole()
                        {
                            let name = &source.columns()[*leaf].name;
                            fault = Some(no_class(source, name, value));
                            return Err(stopped());
                        }
                        if let Err(error) = piece.write(column) {
                            fault = Some(unwritten(&paths[nth], error));
                            return Err(stopped());
                        }
                    }
                    Ok(())
                })?;
                for (column, path) in columns.into_iter().zip(&paths) {
                    if let Some(Err(error)) = column.map(SerializedColumnWriter::close) {
                        fault = Some(unwritten(path, error));
                        return Err(stopped());
                    }
                }
            }
            for (group, path) in groups.into_iter().zip(&paths) {
                if let Some(Err(error)) = group.map(|group| group.close()) {
                    fault = Some(unwritten(path, error));
                    return Err(stopped());
                }
            }
            Ok(())
        };
        let outcome = work();
        outcome.map_err(|error| fault.unwrap_or_else(|| source.broken(error)))
    }
}

fn stopped() -> ParquetError {
    ParquetError::General("the copy was stopped".to_owned())
}

fn unwritten(path: &Path, error: impl Into<Unwritten>) -> Error {
    error.into().of(path)
}

/// Returns the error of a value that is no whole number, in a column whose first values are.
fn no_class(file: &RawFile, name: &str, value: f64) -> Error {
    Error::Content {
        file: file.path().to_owned(),
        message: format!(
            "the column `{name}` holds {value}, and its first values are whole numbers, which are classes"
        ),
        help: "correct the value",
    }
}

fn no_float(file: &RawFile, name: &str, value: i64) -> Error {
    Error::Content {
        file: file.path().to_owned(),
        message: format!(
            "the column `{name}` holds {value}, and floats in another file: no float of 64 bits is that number"
        ),
        help: "write the files with whole numbers in the column, or with texts",
    }
}

/// Returns the field of a flat column of floats, and its leaf.
fn floats_of(fields: &[TypePtr], name: &str) -> Option<(usize, usize)> {
    let place = fields.iter().position(|field| field.name() == name)?;
    let field = &fields[place];
    let is_float = field.is_primitive()
        && matches!(
            field.get_physical_type(),
            Physical::FLOAT | Physical::DOUBLE
        );
    let before = fields[..place].iter().map(|field| leaves_in(field));
    is_float.then(|| (place, before.sum()))
}

fn leaves_in(field: &Type) -> usize {
    match field.is_primitive() {
        true => 1,
        false => field
            .get_fields()
            .iter()
            .map(|field| leaves_in(field))
            .sum(),
    }
}

/// Creates a file with these root fields. The field `whole` holds whole numbers.
fn create(
    path: PathBuf,
    (name, fields): (&str, &[TypePtr]),
    whole: Option<usize>,
    keys: Option<Vec<KeyValue>>,
) -> Result<Part, Error> {
    let (result, file) = ResultFile::create(&path).map_err(|error| unwritten(&path, error))?;
    let build = || -> Outcome<FileWriter> {
        let mut fields = fields.to_vec();
        if let Some(place) = whole {
            fields[place] = of_whole_numbers(&fields[place])?;
        }
        let schema = Type::group_type_builder(name).with_fields(fields);
        // The types of Arrow that the format does not have are named in the keys.
        let properties = WriterProperties::builder()
            .set_compression(Compression::SNAPPY)
            .set_key_value_metadata(keys)
            .build();
        SerializedFileWriter::new(
            BufWriter::new(file),
            Arc::new(schema.build()?),
            Arc::new(properties),
        )
    };
    let writer = build().map_err(|error| unwritten(&path, error))?;
    Ok(Part {
        path,
        file: Some(result),
        writer,
    })
}

/// Returns the field with whole numbers of 64 bits in the place of floats.
fn of_whole_numbers(field: &Type) -> Outcome<TypePtr> {
    let info = field.get_basic_info();
    let repetition = if info.has_repetition() {
        info.repetition()
    } else {
        Repetition::OPTIONAL
    };
    let whole = Type::primitive_type_builder(field.name(), Physical::INT64)
        .with_repetition(repetition)
        .with_id(info.has_id().then(|| info.id()));
    whole.build().map(Arc::new)
}
