//! Copies of rows of Parquet files into other files, with the columns, types and bits of the originals.

use std::io::BufWriter;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parquet::basic::{Compression, Repetition, Type as Physical};
use parquet::errors::{ParquetError, Result as Outcome};
use parquet::file::properties::WriterProperties;
use parquet::file::writer::{SerializedColumnWriter, SerializedFileWriter};
use parquet::schema::types::{Type, TypePtr};
use trainyard_storage::ResultFile;

use super::raw::{FileWriter, Piece, RawFile, other_type, read_chosen, root_of};
use crate::Error;
use crate::output::{cannot_write, sync};

/// Parts into which rows are divided.
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
        let failed = |message: String| Error::File {
            file: path.clone(),
            message,
        };
        let file = self.file.take();
        let written = self.writer.into_inner();
        let written = written.map_err(|error| failed(error.to_string()))?;
        sync(written).map_err(|error| failed(cannot_write(&error)))?;
        let published = file.map_or(Ok(()), ResultFile::publish);
        published.map_err(|error| failed(cannot_write(&error)))
    }
}

/// Copier of rows of files that have the same columns, in any order, into two files.
pub(crate) struct ParquetCopier {
    sources: Vec<RawFile>,
    /// For each file, the leaf that each leaf of the parts has there.
    leaves: Vec<Vec<usize>>,
    /// The leaf whose floats become whole numbers.
    whole: Option<usize>,
    parts: [Part; PARTS],
    /// The current file and row group, and where its rows go that were placed.
    file: usize,
    group: usize,
    placed: Vec<Option<usize>>,
}

impl ParquetCopier {
    pub(crate) fn open(
        files: &[PathBuf],
        parts: [PathBuf; PARTS],
        whole: Option<&str>,
    ) -> Result<Self, Error> {
        let sources = files.iter().map(|file| RawFile::open(file));
        let sources: Vec<RawFile> = sources.collect::<Result<_, _>>()?;
        let mut leaves = Vec::with_capacity(sources.len());
        for source in &sources {
            leaves.push(same_leaves(&sources[0], source)?);
        }
        let whole = whole.and_then(|name| floats_of(sources.first()?, name));
        let [first, second] = parts;
        let create = |path| create(path, sources.first(), whole);
        Ok(Self {
            parts: [create(first)?, create(second)?],
            sources,
            leaves,
            whole,
            file: 0,
            group: 0,
            placed: Vec::new(),
        })
    }

    /// Places the next row of the files in a part, or in none.
    pub(crate) fn place(&mut self, part: Option<usize>) -> Result<(), Error> {
        self.pass_full_groups()?;
        while self.is_at_end_of_file() {
            self.file += 1;
            self.group = 0;
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
        self.file += 1;
        self.group = 0;
        self.placed.clear();
        Ok(())
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
        let has_rows = |part| placed.contains(&Some(part));
        let Some(source) = sources.get(*file) else {
            return Ok(());
        };
        if !has_rows(0) && !has_rows(1) {
            return Ok(());
        }
        let paths = [parts[0].path.clone(), parts[1].path.clone()];
        let [first, second] = parts;
        // The library passes on errors of its own alone.
        let mut fault = None;
        let mut work = || -> Outcome<()> {
            let mut groups = [
                has_rows(0)
                    .then(|| first.writer.next_row_group())
                    .transpose()?,
                has_rows(1)
                    .then(|| second.writer.next_row_group())
                    .transpose()?,
            ];
            for (place, leaf) in leaves[*file].iter().enumerate() {
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

fn unwritten(path: &Path, error: impl ToString) -> Error {
    Error::File {
        file: path.to_owned(),
        message: error.to_string(),
    }
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

/// Returns the leaf of a flat column of floats.
fn floats_of(file: &RawFile, name: &str) -> Option<usize> {
    let leaf = file
        .columns()
        .iter()
        .position(|column| column.name == name)?;
    let descriptor = file.descriptor(leaf);
    let is_float = matches!(
        descriptor.physical_type(),
        Physical::FLOAT | Physical::DOUBLE
    );
    (is_float && descriptor.path().parts().len() == 1).then_some(leaf)
}

/// Returns the leaves of a file in the order of the first one.
///
/// # Errors
/// A column has another type.
fn same_leaves(first: &RawFile, file: &RawFile) -> Result<Vec<usize>, Error> {
    let mut leaves = Vec::with_capacity(first.columns().len());
    let count = file.columns().len();
    for leaf in 0..first.columns().len() {
        let root = root_of(first, leaf);
        let parts = first.descriptor(leaf);
        let found = (0..count).find(|other| {
            file.descriptor(*other).path() == parts.path() && root_of(file, *other) == root
        });
        match found {
            Some(found) => leaves.push(found),
            None => return Err(other_type(&first.columns()[leaf].name, file, first)),
        }
    }
    if count != leaves.len() {
        let more = (0..count).find(|leaf| !leaves.contains(leaf)).unwrap_or(0);
        return Err(other_type(&file.columns()[more].name, file, first));
    }
    Ok(leaves)
}

/// Creates a file with the columns of another one.
fn create(path: PathBuf, like: Option<&RawFile>, whole: Option<usize>) -> Result<Part, Error> {
    let failed = |message: String| Error::File {
        file: path.clone(),
        message,
    };
    let (result, file) = ResultFile::create(&path).map_err(|error| failed(cannot_write(&error)))?;
    let build = || -> Outcome<FileWriter> {
        let metadata = like.map(|like| like.metadata().file_metadata());
        let schema = match metadata {
            Some(metadata) => {
                let schema = metadata.schema_descr().root_schema_ptr();
                match like.zip(whole) {
                    Some((like, leaf)) => with_whole_numbers(&schema, &root_of(like, leaf))?,
                    None => schema,
                }
            }
            None => Arc::new(Type::group_type_builder("schema").build()?),
        };
        // The types of Arrow that the format does not have are named there.
        let keys = metadata.and_then(|metadata| metadata.key_value_metadata().cloned());
        let properties = WriterProperties::builder()
            .set_compression(Compression::SNAPPY)
            .set_key_value_metadata(keys)
            .build();
        SerializedFileWriter::new(BufWriter::new(file), schema, Arc::new(properties))
    };
    let writer = build().map_err(|error| failed(error.to_string()))?;
    Ok(Part {
        path,
        file: Some(result),
        writer,
    })
}

/// Returns a schema whose field `floats` holds whole numbers of 64 bits.
fn with_whole_numbers(schema: &TypePtr, floats: &TypePtr) -> Outcome<TypePtr> {
    let fields = schema.get_fields().iter().map(|field| -> Outcome<TypePtr> {
        if field != floats {
            return Ok(field.clone());
        }
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
    });
    let fields: Vec<TypePtr> = fields.collect::<Outcome<_>>()?;
    let schema = Type::group_type_builder(schema.name()).with_fields(fields);
    schema.build().map(Arc::new)
}
