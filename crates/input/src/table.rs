//! Tables: records of any format as rows of cells, for programs that convert files.

mod copier;
mod profile;
mod writer;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use trainyard_storage::Storage;

use crate::cell_parser::CellParser;
use crate::column_names::name_there_twice;
use crate::formats;
use crate::missing::{Missing, MissingValues};
use crate::record_format::Want;
use crate::record_reader::RecordReader;
use crate::row::{Cell as RowCell, RowCells};
use crate::{
    BadRow, Cell, Compression, Error, Format, MissingTexts, Options, Schema, TextStyle, TypeKind,
    Value,
};

pub use copier::{RowCopier, column_types, copy_rows};
use profile::is_missing;
pub use profile::{Absent, ColumnProfile, Numbers, Profile};
pub use writer::TableWriter;

/// Reader of rows, file after file. Columns are identified by name: files may have different columns, in any order.
#[derive(Debug)]
pub struct TableReader {
    options: Options,
    storage: Storage,
    parser: CellParser,
    reader: Option<RecordReader>,
    next_file: usize,
    unreadable: Vec<(String, String)>,
    /// What the columns of the latest file hold, if it says so.
    kinds: BTreeMap<String, TypeKind>,
    missing: MissingValues,
    /// Empty texts stay, except in these columns.
    keeps_empty: Option<Vec<String>>,
    separator: Option<u8>,
}

impl TableReader {
    /// Returns a reader. It opens no file yet. Without `columns`, the first line of each text file names them.
    pub fn new(
        files: Vec<PathBuf>,
        format: Format,
        compression: Option<Compression>,
        columns: Option<Vec<String>>,
    ) -> Self {
        let options = Options {
            compression,
            columns,
            ..Options::new(files, format)
        };
        Self {
            options,
            storage: Storage::default(),
            parser: CellParser::default(),
            reader: None,
            next_file: 0,
            unreadable: Vec::new(),
            kinds: BTreeMap::new(),
            missing: MissingValues::default(),
            keeps_empty: None,
            separator: None,
        }
    }

    /// Drops the spaces around the fields and names of text, as [`Options::trim`]. By default they stay.
    #[must_use]
    pub fn trimmed(mut self) -> Self {
        self.options.trim = true;
        self
    }

    /// Reads text in this style. By default it is UTF-8 with commas. Numbers stay as the files write them.
    #[must_use]
    pub fn in_style(mut self, style: TextStyle) -> Self {
        self.options.text = style;
        self
    }

    /// Reads decimal numbers as features have them: by default, those that a float rounds are texts of all their digits.
    #[must_use]
    pub fn rounding_decimals(mut self) -> Self {
        self.options.keeps_digits = false;
        self
    }

    /// Leaves out the values that stand for a missing one, as [`Options::missing`]: their cells have no value.
    #[must_use]
    pub fn without(mut self, missing: &MissingTexts) -> Self {
        self.missing = MissingValues::new(missing);
        self
    }

    /// Keeps empty texts as such, except in columns of numbers. By default they are missing, as in a job.
    #[must_use]
    pub fn with_empty_texts(mut self, numbers: &[String]) -> Self {
        self.keeps_empty = Some(numbers.to_vec());
        self
    }

    /// Divides texts at a separator into lists.
    #[must_use]
    pub fn divided(mut self, separator: Option<u8>) -> Self {
        self.separator = separator;
        self
    }

    /// Returns the columns of the files and records so far.
    pub fn columns(&self) -> &[String] {
        self.parser.columns()
    }

    /// Returns the columns of the files so far whose values no job can read, with their types in the words of the format. They
    /// are not among [`TableReader::columns`].
    pub fn unreadable(&self) -> &[(String, String)] {
        &self.unreadable
    }

    /// Returns what the columns of the latest row's file hold. Only Parquet says it.
    pub fn kinds(&self) -> &BTreeMap<String, TypeKind> {
        &self.kinds
    }

    /// Calls `each` for the columns of the latest row that have a list without values, or with one that is missing: it has no other
    /// values than a missing list. The second argument is the number of its places, 0 or 1. Only Parquet tells them apart.
    pub fn empty_lists(&self, mut each: impl FnMut(usize, u32)) {
        let Some(reader) = &self.reader else { return };
        if self.options.format != Format::Parquet {
            return;
        }
        let row = reader.record(0).content.bytes();
        let mut cells = RowCells(&row);
        let mut field = 0;
        while let Some(cell) = cells.next() {
            if let RowCell::List(count) = cell {
                let mut values = cells.by_ref().take(count as usize);
                let first = values.next();
                values.for_each(drop);
                let is_empty = count == 0 || count == 1 && first == Some(RowCell::Missing);
                if is_empty && let Some(column) = self.parser.column_of(field) {
                    each(column, count);
                }
            }
            field += 1;
        }
    }

    /// Returns the file of the latest row.
    pub fn file(&self) -> Option<&Path> {
        let place = self.next_file.checked_sub(1)?;
        self.options.files.get(place).map(PathBuf::as_path)
    }

    /// Returns the number of the latest row in its file, from 1: the line of a text, and the record of other files.
    pub fn row(&self) -> u64 {
        self.reader.as_ref().map_or(0, |reader| reader.place().line)
    }

    /// Moves back to the first row. The columns stay.
    pub fn rewind(&mut self) {
        self.reader = None;
        self.next_file = 0;
    }

    /// Reads the next row: a cell for each of [`TableReader::columns`], which may grow. Returns `false` at the end.
    ///
    /// # Errors
    /// A file cannot be read, or a record does not have the format.
    pub fn read(&mut self, row: &mut Vec<Cell>) -> Result<bool, Error> {
        loop {
            if self.reader.is_none() {
                if self.next_file == self.options.files.len() {
                    return Ok(false);
                }
                self.open_next()?;
            }
            let Some(reader) = &mut self.reader else {
                return Ok(false);
            };
            let file = &self.options.files[self.next_file - 1];
            if !reader.next(file, Want::Content)? {
                self.reader = None;
                continue;
            }
            let record = reader.record(0);
            let outcome = self.parser.cells(record, &self.options, row);
            return match outcome {
                Ok(()) => {
                    for (cell, column) in row.iter_mut().zip(self.parser.columns()) {
                        self.refine(cell, column);
                    }
                    Ok(true)
                }
                Err(reason) => Err(Error::Row(Box::new(BadRow {
                    file: file.clone(),
                    unit: formats::format(self.options.format).unit(),
                    line: record.place.line,
                    offset: record.place.offset,
                    column: None,
                    reason,
                }))),
            };
        }
    }

    /// Leaves out a missing value, and divides a text into a list.
    fn refine(&self, cell: &mut Cell, column: &String) {
        let [value] = cell.values.as_slice() else {
            return;
        };
        let missing = self.missing.of(column);
        if self.stays_empty(value, column, missing) {
            return;
        }
        if is_missing(value, missing, &self.options.text.numbers) {
            cell.values.clear();
        } else if let (Value::Text(text), Some(separator)) = (value, self.separator)
            && text.contains(&separator)
        {
            let parts = text.split(|byte| *byte == separator);
            cell.values = parts.map(|part| Value::Text(part.to_vec())).collect();
            cell.list = true;
        }
    }

    fn stays_empty(&self, value: &Value, column: &String, missing: &Missing) -> bool {
        let is_empty = matches!(value, Value::Text(text) if text.is_empty());
        let numbers = self.keeps_empty.as_ref();
        is_empty
            && numbers.is_some_and(|numbers| !numbers.contains(column))
            && !missing.texts().any(str::is_empty)
    }

    fn open_next(&mut self) -> Result<(), Error> {
        let all: Option<&Schema> = None;
        let (reader, named) =
            RecordReader::open_after_header(&self.options, &self.storage, all, self.next_file)?;
        let names = named.as_deref().or(self.options.columns.as_deref());
        let names = names.unwrap_or_default();
        if let Some(column) = name_there_twice(names) {
            // Their values would become one cell.
            return Err(Error::ColumnTwice {
                column: column.clone(),
                file: self.options.files[self.next_file].clone(),
                known: names.to_vec(),
            });
        }
        self.parser.enter(named, &self.options);
        for column in reader.unreadable() {
            if !self.unreadable.contains(column) {
                self.unreadable.push(column.clone());
            }
        }
        self.kinds = reader.kinds().into_iter().collect();
        self.reader = Some(reader);
        self.next_file += 1;
        Ok(())
    }
}
