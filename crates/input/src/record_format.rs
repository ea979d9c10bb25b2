//! The trait of a record format: how files are cut into records, how a record is parsed, and how rows are written.
//!
//! Each format is one file of [`crate::formats`], with a line in its registry.

use std::fmt::Debug;
use std::fs::File;
use std::io::BufWriter;
use std::path::{Path, PathBuf};

use trainyard_storage::Storage;

use crate::block::Block;
use crate::cells::Bad;
use crate::column_names::{self, ColumnNames, places};
use crate::output::Unwritten;
use crate::record::{Content, Place, failed};
use crate::record_unit::RecordUnit;
use crate::{Batch, Cell, Compression, Error, Field, Layout, Options, Schema, TypeKind};

/// What becomes of the blanks around fields of text, in and outside of quotes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum Blanks {
    /// They are dropped if the options say so.
    #[default]
    AsInJob,
    /// They stay, as the file has them.
    Kept,
}

/// A record format.
pub(crate) trait RecordFormat: Sync {
    /// Returns the name of the format in a job file, and after it the other extensions that its files have.
    fn extensions(&self) -> &'static [&'static str];

    /// Returns the unit of a record, for messages.
    fn unit(&self) -> RecordUnit;

    /// Opens a file before its first record. A columnar format reads the columns of the schema; without a schema, all.
    ///
    /// # Errors
    /// The file cannot be read, or a wanted column is missing or has another type.
    fn open(
        &self,
        file: &InputFile<'_>,
        schema: Option<&Schema>,
    ) -> Result<Box<dyn FileRecords>, Error>;

    /// Returns whether each file names its columns, in its first record or in a schema.
    fn names_columns(&self, _options: &Options) -> bool {
        false
    }

    /// Returns the columns that the first record of a file names.
    fn header(&self, _record: &[u8], _options: &Options) -> Vec<String> {
        Vec::new()
    }

    /// Returns a parser of the wanted columns.
    ///
    /// # Errors
    /// A wanted column is missing, or has another type.
    fn parser(&self, columns: &FileColumns<'_>) -> Result<Box<dyn RecordParser>, Error>;

    /// Returns the columns of a table whose file names `named`.
    fn table_columns(&self, named: Option<Vec<String>>, options: &Options) -> Vec<String> {
        named
            .or_else(|| options.columns.clone())
            .unwrap_or_default()
    }

    /// Parses a record into the cells of a row of a table.
    ///
    /// # Errors
    /// The reason why the record does not have the format.
    fn cells(&self, content: Content<'_>, row: TableRow<'_>) -> Result<(), String>;

    /// Returns a writer of the rows of a table.
    ///
    /// # Errors
    /// The file cannot be written, or the program was built without the format.
    fn writer(&self, target: Target<'_>) -> Result<Box<dyn RowWriter>, Error>;
}

/// A file to open.
#[derive(Debug, Clone, Copy)]
pub(crate) struct InputFile<'a> {
    pub(crate) storage: &'a Storage,
    pub(crate) path: &'a Path,
    /// Compression of the file; absent = by its name.
    pub(crate) compression: Option<Compression>,
    /// The spaces around the fields of text are not part of them.
    pub(crate) trim: bool,
    /// Byte between the fields of CSV; absent = the comma.
    pub(crate) delimiter: Option<u8>,
    /// Decimal numbers keep all their digits where all columns are read.
    #[cfg(feature = "parquet")]
    pub(crate) keeps_digits: bool,
}

impl InputFile<'_> {
    /// Opens the decompressed content of the file.
    pub(crate) fn open_block(&self) -> Result<Block, Error> {
        let compression = self
            .compression
            .unwrap_or_else(|| Compression::of(self.path));
        Block::open(self.storage, self.path, compression).map_err(|error| failed(self.path, &error))
    }
}

/// Use of the next record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Want {
    /// Its content is read.
    Content,
    /// Its place is counted. A reader may neither decode nor check it.
    Place,
}

/// Reader of the records of one file.
pub(crate) trait FileRecords: Debug + Send {
    /// Returns the columns of the records, if the file stores their names apart from the records.
    fn columns(&self) -> Option<Vec<String>> {
        None
    }

    /// Returns the columns whose values no job can read, with their types.
    fn unreadable(&self) -> &[(String, String)] {
        &[]
    }

    /// Returns the columns of the records whose types the file says, with what their values are.
    fn kinds(&self) -> Vec<(String, TypeKind)> {
        Vec::new()
    }

    /// Moves to the next record and sets line and offset of its place. Returns `false` at the end of the file.
    ///
    /// # Errors
    /// The file cannot be read.
    fn next(&mut self, file: &Path, place: &mut Place, want: Want) -> Result<bool, Error>;

    /// Moves to the record that begins at `offset`, see [`Place`]. `line` is its [`Place::line`]. The caller reads
    /// nothing from offset `until` on.
    ///
    /// # Errors
    /// The file cannot be read.
    fn seek(&mut self, offset: u64, line: u64, until: u64) -> std::io::Result<()>;

    /// Returns the offset after the record.
    fn end(&self) -> u64;

    /// Returns the content of the record.
    fn content(&self) -> Content<'_>;

    /// Returns the fault of the record as a whole.
    fn fault(&self) -> Option<&str> {
        None
    }
}

/// The columns of a file, and those that the job wants of them.
#[derive(Debug, Clone, Copy)]
pub(crate) struct FileColumns<'a> {
    /// Names of the columns in the file or the options; empty if the format needs none.
    pub(crate) names: &'a [String],
    pub(crate) schema: &'a Schema,
    pub(crate) options: &'a Options,
    /// Place of the file in the options.
    pub(crate) file: usize,
}

impl FileColumns<'_> {
    /// Returns the place of each wanted column among the names, in the order of the schema.
    ///
    /// # Errors
    /// A wanted column is missing, or is there twice.
    pub(crate) fn places(&self) -> Result<Vec<usize>, Error> {
        let places = places(self.names);
        let place = |field: &Field| match places.get(field.name.as_str()) {
            Some(column_names::Place::Once(place)) => Ok(*place),
            Some(column_names::Place::Twice) => Err(Error::ColumnTwice {
                column: field.name.clone(),
                file: self.path(),
                known: self.names.to_vec(),
            }),
            None => Err(self.missing(field.name.clone(), self.names)),
        };
        self.schema.fields.iter().map(place).collect()
    }

    /// Returns the error that wanted columns are not among `known`. `first` is the first of them.
    pub(crate) fn missing(&self, first: String, known: &[String]) -> Error {
        Error::Column {
            columns: self.schema.missing_in(known, first),
            file: self.path(),
            known: known.to_vec(),
        }
    }

    /// Returns the file.
    pub(crate) fn path(&self) -> std::path::PathBuf {
        self.options
            .files
            .get(self.file)
            .cloned()
            .unwrap_or_default()
    }
}

/// Parser of records into the wanted columns of a batch.
pub(crate) trait RecordParser: Debug + Send {
    /// Appends the wanted columns of a record to the batch. An error may leave a part of them in the batch.
    ///
    /// # Errors
    /// The record is bad.
    fn append(&mut self, content: Content<'_>, batch: &mut Batch) -> Result<(), Bad>;

    /// Returns whether each record names its features, so that the parser serves every file.
    fn serves_every_file(&self) -> bool {
        false
    }

    /// Returns the wanted features that no record has held so far, if records name their features.
    fn unseen(&self) -> Vec<&str> {
        Vec::new()
    }

    /// Returns the features of the latest record, if records name their features.
    fn names(&self) -> Vec<String> {
        Vec::new()
    }
}

/// A row of a table, into which a record is parsed.
#[derive(Debug)]
pub(crate) struct TableRow<'a> {
    /// Whether the blanks around a text are part of it, though a job drops them.
    pub(crate) blanks: Blanks,
    pub(crate) options: &'a Options,
    /// Column of the table for each field of the file's records.
    pub(crate) places: &'a [usize],
    /// Columns of the table. A format whose records name their features adds to them.
    pub(crate) columns: &'a mut ColumnNames,
    /// Cells, at least one for each column. Their values are empty.
    pub(crate) cells: &'a mut Vec<Cell>,
}

/// The file that a writer fills.
#[derive(Debug)]
pub(crate) struct Target<'a> {
    /// Final name of the file. It determines the compression.
    pub(crate) path: &'a Path,
    pub(crate) file: BufWriter<File>,
    pub(crate) layout: &'a Layout,
    /// Byte between the fields of CSV; absent = the comma.
    pub(crate) delimiter: Option<u8>,
    /// Columns that stand before those of the layout. Only Parquet has them.
    pub(crate) kept: Option<&'a Kept>,
}

/// Columns of Parquet files that a Parquet file keeps, row by row, with the types and bits that they have there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Kept {
    /// The files. Together they have as many rows as are written.
    pub files: Vec<PathBuf>,
    /// Names of the columns.
    pub columns: Vec<String>,
}

/// Writer of the rows of a table.
pub(crate) trait RowWriter: Send {
    /// Appends a row with the cells of the layout's columns.
    ///
    /// # Errors
    /// The file cannot be written, or the format cannot hold a value.
    fn write(&mut self, row: &[Cell]) -> Result<(), Unwritten>;

    /// Completes the file.
    ///
    /// # Errors
    /// The file cannot be written.
    fn finish(self: Box<Self>) -> Result<(), Unwritten>;
}
