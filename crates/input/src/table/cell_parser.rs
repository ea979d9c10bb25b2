//! Parser of records of any format into cells. Columns are identified by name.

use super::{Cell, Value, example_rows};
use crate::record::Record;
use crate::row::{Cell as RowCell, RowCells};
use crate::text::fields;
use crate::{Format, Options, libsvm};

/// Parser of the records of an input. Files may have different columns, in any order.
#[derive(Debug, Default)]
pub(crate) struct CellParser {
    columns: Vec<String>,
    /// Column of the table for each field of the current file's records.
    places: Vec<usize>,
}

impl CellParser {
    /// Returns the columns of the files and records so far.
    pub(crate) fn columns(&self) -> &[String] {
        &self.columns
    }

    /// Returns the number of fields of the current file's records, if the file or the options name them.
    pub(crate) fn fields(&self) -> usize {
        self.places.len()
    }

    /// Begins a file whose records have these columns. Without names in the file, the columns are those of the options.
    pub(crate) fn enter(&mut self, named: Option<Vec<String>>, options: &Options) {
        let named = match options.format {
            Format::LibSvm(_) => libsvm::COLUMNS.map(str::to_owned).to_vec(),
            _ => named
                .or_else(|| options.columns.clone())
                .unwrap_or_default(),
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
    }

    /// Parses a record into a cell for each of [`CellParser::columns`], which may grow.
    pub(crate) fn cells(
        &mut self,
        record: Record<'_>,
        options: &Options,
        row: &mut Vec<Cell>,
    ) -> Result<(), String> {
        row.iter_mut().for_each(|cell| cell.values.clear());
        row.resize_with(self.columns.len().max(row.len()), Cell::default);
        if let Some(fault) = record.fault {
            return Err(fault.to_owned());
        }
        match options.format {
            Format::Csv | Format::Tsv => text_cells(record.bytes, options, &self.places, row),
            Format::LibSvm(_) => pairs(record.bytes, row),
            Format::Parquet => row_cells(record.bytes, &self.places, row),
            Format::TfRecord => example_rows::cells(record.bytes, &mut self.columns, row),
        }
    }
}

fn text_cells(
    record: &[u8],
    options: &Options,
    places: &[usize],
    row: &mut [Cell],
) -> Result<(), String> {
    let mut count = 0;
    fields(record, options.format, |field| {
        let field = if options.trim {
            field.trim_ascii()
        } else {
            field
        };
        if let Some(cell) = places.get(count).and_then(|place| row.get_mut(*place))
            && !field.is_empty()
        {
            cell.values.push(Value::Text(field.to_vec()));
        }
        count += 1;
    });
    if count == places.len() {
        Ok(())
    } else {
        Err(format!(
            "a record must have {} columns, given {count}",
            places.len()
        ))
    }
}

/// Parses a line of libsvm. The indices are not changed.
fn pairs(line: &[u8], row: &mut [Cell]) -> Result<(), String> {
    let [label, query, index, value, ..] = row else {
        return Ok(());
    };
    (index.list, value.list) = (true, true);
    let shown = |token: &[u8]| crate::cells::shown(token);
    let mut tokens = libsvm::content(line)
        .split(u8::is_ascii_whitespace)
        .filter(|token| !token.is_empty());
    let first = tokens.next().unwrap_or_default();
    if first.contains(&b':') {
        return Err(format!(
            "a line begins with its label, given {}",
            shown(first)
        ));
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
        index
            .values
            .push(Value::Int(crate::number::int(name, false).map_err(pair)?));
        value.values.push(Value::Float(f64::from(
            crate::number::float(number).map_err(pair)?,
        )));
    }
    Ok(())
}

fn row_cells(bytes: &[u8], places: &[usize], row: &mut [Cell]) -> Result<(), String> {
    let mut cells = RowCells(bytes);
    let mut next = || {
        cells
            .next()
            .ok_or_else(|| "the row has fewer cells than its file has columns".to_owned())
    };
    for place in places {
        let Some(cell) = row.get_mut(*place) else {
            continue;
        };
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
