//! Writer of rows as `tf.train.Example` messages in TFRecord files.

use tracing::warn;
use trainyard_tensorflow_formats::tfrecord::write_frame;

use crate::layout::{float, int, text, told};
use crate::output::{CompressedFile, Unwritten};
use crate::record_format::{RowWriter, Target};
use crate::{Cell, ColumnKind, Layout, Value};

/// Writer of a file.
pub(super) struct ExampleWriter {
    layout: Layout,
    output: CompressedFile,
    example: Vec<u8>,
    scratch: Vec<u8>,
    /// Rows that are written.
    rows: u64,
    /// Columns of which a warning has told that their floats are rounded.
    rounded: Vec<bool>,
}

impl ExampleWriter {
    pub(super) fn new(target: Target<'_>) -> Self {
        Self {
            layout: target.layout.clone(),
            output: CompressedFile::new(target.path, target.file),
            example: Vec::new(),
            scratch: Vec::new(),
            rows: 0,
            rounded: vec![false; target.layout.columns.len()],
        }
    }
}

impl ExampleWriter {
    /// Refuses finite numbers that floats of 32 bits do not reach.
    fn refuse_infinite(&self, row: &[Cell]) -> Result<(), String> {
        for (column, cell) in self.layout.columns.iter().zip(row) {
            if column.kind != Some(ColumnKind::Float) {
                continue;
            }
            let mut numbers = cell.values.iter().filter_map(float);
            let beyond = |number: &f64| number.is_finite() && (*number as f32).is_infinite();
            if let Some(number) = numbers.find(beyond) {
                return Err(format!(
                    "tfrecord holds floats of 32 bits, up to 3.4e38: it cannot hold {} of the column `{}` in row {}; parquet can",
                    told(number),
                    column.name,
                    self.rows + 1
                ));
            }
        }
        Ok(())
    }

    /// Refuses a place in a list that has no value: a list would hold the values behind it in other places.
    fn refuse_missing(&self, row: &[Cell]) -> Result<(), String> {
        for (column, cell) in self.layout.columns.iter().zip(row) {
            let place = cell
                .values
                .iter()
                .position(|value| *value == Value::Missing);
            if let Some(place) = place {
                return Err(format!(
                    "row {}, column `{}`: value {} of the list is missing, and a list of tfrecord has values alone; csv, tsv and parquet \
                     can hold it",
                    self.rows + 1,
                    column.name,
                    place + 1
                ));
            }
        }
        Ok(())
    }

    /// Logs once for each column that a float of 32 bits has not the whole part of a number: a time would be another one.
    fn warn_of_rounding(&mut self, row: &[Cell]) {
        let columns = self.layout.columns.iter().zip(row).zip(&mut self.rounded);
        for ((column, cell), rounded) in columns {
            if column.kind != Some(ColumnKind::Float) || *rounded {
                continue;
            }
            if let Some((number, written)) = cell.values.iter().find_map(rounding) {
                *rounded = true;
                warn!(
                    "tfrecord holds floats of 32 bits: {number} of the column `{}` is written as {written}. A time or a label of the \
                     column may be another one; parquet keeps it",
                    column.name
                );
            }
        }
    }
}

/// Returns a number and what a float of 32 bits has in its place, if the whole part is another one, or the number is gone.
fn rounding(value: &Value) -> Option<(String, String)> {
    if let Value::Int(number) = value {
        let written = *number as f32 as i128;
        let is_rounded = written != i128::from(*number);
        return is_rounded.then(|| (number.to_string(), written.to_string()));
    }
    let number = float(value)?;
    let written = f64::from(number as f32);
    let is_gone = written == 0.0 && number != 0.0;
    let is_rounded = number.abs() < WHOLE_BELOW && written.trunc() != number.trunc();
    (is_gone || is_rounded).then(|| (told(number), told(written)))
}

/// Numbers from here on are no times.
const WHOLE_BELOW: f64 = 9_223_372_036_854_775_808.0;

impl RowWriter for ExampleWriter {
    fn write(&mut self, row: &[Cell]) -> Result<(), Unwritten> {
        self.example.clear();
        self.refuse_missing(row)?;
        self.refuse_infinite(row)?;
        self.warn_of_rounding(row);
        example(&self.layout, row, &mut self.example, &mut self.scratch);
        self.rows += 1;
        Ok(write_frame(&mut self.output, &self.example)?)
    }

    fn finish(self: Box<Self>) -> Result<(), Unwritten> {
        Ok(self.output.finish()?)
    }
}

fn varint(mut number: u64, out: &mut Vec<u8>) {
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

/// Appends a protobuf field of bytes.
fn field(number: u8, bytes: &[u8], out: &mut Vec<u8>) {
    out.push(number << 3 | 2);
    varint(bytes.len() as u64, out);
    out.extend_from_slice(bytes);
}

/// Encodes a row as a `tf.train.Example`. Missing values are omitted.
fn example(layout: &Layout, row: &[Cell], out: &mut Vec<u8>, scratch: &mut Vec<u8>) {
    let mut entries = Vec::new();
    for (column, cell) in layout
        .columns
        .iter()
        .zip(row)
        .filter(|(_, cell)| !cell.values.is_empty())
    {
        let mut list = Vec::new();
        let mut feature = Vec::new();
        let mut entry = Vec::new();
        let kind = column.kind.unwrap_or(ColumnKind::Text);
        let values = cell.values.iter();
        match kind {
            ColumnKind::Text => values.for_each(|value| {
                scratch.clear();
                text(value, scratch);
                field(1, scratch, &mut list);
            }),
            ColumnKind::Float => {
                scratch.clear();
                for value in values {
                    scratch.extend_from_slice(&(float(value).unwrap_or(0.0) as f32).to_le_bytes());
                }
                field(1, scratch, &mut list);
            }
            ColumnKind::Boolean | ColumnKind::Int => {
                scratch.clear();
                values.for_each(|value| varint(int(value) as u64, scratch));
                field(1, scratch, &mut list);
            }
        }
        let number = match kind {
            ColumnKind::Text => 1,
            ColumnKind::Float => 2,
            ColumnKind::Boolean | ColumnKind::Int => 3,
        };
        field(number, &list, &mut feature);
        field(1, column.name.as_bytes(), &mut entry);
        field(2, &feature, &mut entry);
        field(1, &entry, &mut entries);
    }
    field(1, &entries, out);
}
