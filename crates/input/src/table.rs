//! Records of any format as rows of cells, for programs that convert files and do not train.

mod example_rows;
mod layout;
mod writer;

use std::path::PathBuf;

use trainyard_storage::Storage;

use crate::record::RecordReader;
use crate::row::{Cell as RowCell, RowCells};
use crate::source::open_records;
use crate::text::fields;
use crate::{BadRow, Compression, Error, Format, Options, Schema, libsvm};

pub use layout::{ColumnKind, ColumnLayout, Layout};
pub(crate) use layout::{float, int, text};
pub use writer::TableWriter;

/// A value of a cell.
#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    /// A whole number.
    Int(i64),
    /// A float.
    Float(f64),
    /// A text, or any bytes.
    Text(Vec<u8>),
}

/// What a row holds in a column. One without values is missing.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Cell {
    /// The values.
    pub values: Vec<Value>,
    /// Whether there might be several.
    pub list: bool,
}

/// Reads rows, file after file. Columns are known by name: files may have others, and in another order.
#[derive(Debug)]
pub struct TableReader {
    options: Options,
    storage: Storage,
    columns: Vec<String>,
    reader: Option<RecordReader>,
    next_file: usize,
    /// Column of the table for each field of the file's records.
    places: Vec<usize>,
}

impl TableReader {
    /// Prepares to read; nothing is opened yet. Without `columns`, the first line of each text file names them.
    pub fn new(
        files: Vec<PathBuf>,
        format: Format,
        compression: Option<Compression>,
        columns: Option<Vec<String>>,
    ) -> Self {
        let options = Options { compression, columns, ..Options::new(files, format) };
        Self {
            options,
            storage: Storage::default(),
            columns: Vec::new(),
            reader: None,
            next_file: 0,
            places: Vec::new(),
        }
    }

    /// Says whether the spaces around the fields and names of text are dropped, as [`Options::trim`]; they stay by default.
    #[must_use]
    pub fn trimmed(mut self, trim: bool) -> Self {
        self.options.trim = trim;
        self
    }

    /// Returns the columns that were seen so far.
    pub fn columns(&self) -> &[String] {
        &self.columns
    }

    /// Goes back to the first row. Columns that were seen stay.
    pub fn rewind(&mut self) {
        (self.reader, self.next_file) = (None, 0);
    }

    /// Reads the next row: a cell for each of [`TableReader::columns`], which may become more; `false` at the end.
    ///
    /// # Errors
    /// A file cannot be read, or a record is none of the format.
    pub fn read(&mut self, row: &mut Vec<Cell>) -> Result<bool, Error> {
        loop {
            if self.reader.is_none() {
                if self.next_file == self.options.files.len() {
                    return Ok(false);
                }
                self.open_next()?;
            }
            let Some(reader) = &mut self.reader else { return Ok(false) };
            let file = &self.options.files[self.next_file - 1];
            if !reader.next(file, true)? {
                self.reader = None;
                continue;
            }
            row.iter_mut().for_each(|cell| cell.values.clear());
            row.resize_with(self.columns.len().max(row.len()), Cell::default);
            let record = reader.record(0);
            let outcome = match record.fault {
                Some(fault) => Err(fault.to_owned()),
                None => match self.options.format {
                    Format::Csv | Format::Tsv => text_cells(record.bytes, &self.options, &self.places, row),
                    Format::LibSvm(_) => pairs(record.bytes, row),
                    Format::Parquet => row_cells(record.bytes, &self.places, row),
                    Format::TfRecord => example_rows::cells(record.bytes, &mut self.columns, row),
                },
            };
            return match outcome {
                Ok(()) => Ok(true),
                Err(reason) => Err(Error::Row(Box::new(BadRow {
                    file: file.clone(),
                    format: self.options.format,
                    line: record.place.line,
                    offset: record.place.offset,
                    column: None,
                    reason,
                }))),
            };
        }
    }

    fn open_next(&mut self) -> Result<(), Error> {
        let all: Option<&Schema> = None;
        let (reader, named) = open_records(&self.options, &self.storage, all, self.next_file)?;
        let named = match self.options.format {
            Format::LibSvm(_) => libsvm::COLUMNS.map(str::to_owned).to_vec(),
            _ => named.or_else(|| self.options.columns.clone()).unwrap_or_default(),
        };
        let columns = &mut self.columns;
        let place = |name: String| match columns.iter().position(|column| *column == name) {
            Some(place) => place,
            None => {
                columns.push(name);
                columns.len() - 1
            }
        };
        self.places = named.into_iter().map(place).collect();
        (self.reader, self.next_file) = (Some(reader), self.next_file + 1);
        Ok(())
    }
}

fn text_cells(record: &[u8], options: &Options, places: &[usize], row: &mut [Cell]) -> Result<(), String> {
    let mut count = 0;
    fields(record, options.format, |field| {
        let field = if options.trim { field.trim_ascii() } else { field };
        if let Some(cell) = places.get(count).and_then(|place| row.get_mut(*place))
            && !field.is_empty()
        {
            cell.values.push(Value::Text(field.to_vec()));
        }
        count += 1;
    });
    match count == places.len() {
        true => Ok(()),
        false => Err(format!("a record must have {} columns, given {count}", places.len())),
    }
}

/// Reads a line of libsvm, whose indices stay as they are.
fn pairs(line: &[u8], row: &mut [Cell]) -> Result<(), String> {
    let [label, query, index, value, ..] = row else { return Ok(()) };
    (index.list, value.list) = (true, true);
    let shown = |token: &[u8]| crate::cells::shown(token);
    let mut tokens = libsvm::content(line).split(u8::is_ascii_whitespace).filter(|token| !token.is_empty());
    let first = tokens.next().unwrap_or_default();
    if first.contains(&b':') {
        return Err(format!("a line begins with its label, given {}", shown(first)));
    }
    label.values.push(Value::Text(first.to_vec()));
    for token in tokens {
        let (name, number) = match memchr::memchr(b':', token) {
            Some(colon) => (&token[..colon], &token[colon + 1..]),
            None => return Err(format!("expected index:value, given {}", shown(token))),
        };
        if name == b"qid" {
            query.values.push(Value::Text(number.to_vec()));
            continue;
        }
        let pair = |reason| format!("expected index:value, given {}: {reason}", shown(token));
        index.values.push(Value::Int(crate::number::int(name, false).map_err(pair)?));
        value.values.push(Value::Float(f64::from(crate::number::float(number).map_err(pair)?)));
    }
    Ok(())
}

fn row_cells(bytes: &[u8], places: &[usize], row: &mut [Cell]) -> Result<(), String> {
    let mut cells = RowCells(bytes);
    let mut next =
        || cells.next().ok_or_else(|| "the row has fewer cells than its file has columns".to_owned());
    for place in places {
        let Some(cell) = row.get_mut(*place) else { continue };
        let count = match next()? {
            RowCell::List(count) => {
                cell.list = true;
                count
            }
            one => {
                cell.values.extend(value(one));
                0
            }
        };
        for _ in 0..count {
            cell.values.extend(value(next()?));
        }
    }
    Ok(())
}

fn value(cell: RowCell<'_>) -> Option<Value> {
    match cell {
        RowCell::Int(number) => Some(Value::Int(number)),
        RowCell::Float(number) => Some(Value::Float(number)),
        RowCell::Text(text) => Some(Value::Text(text.to_vec())),
        RowCell::Missing | RowCell::List(_) => None,
    }
}
