//! Writer of rows as `tf.train.Example` messages in TFRecord files.

use trainyard_tensorflow_formats::tfrecord::write_frame;

use crate::layout::{float, int, text};
use crate::output::{Output, cannot_write};
use crate::record_format::{RowWriter, Target};
use crate::{Cell, ColumnKind, Layout};

/// Writer of a file.
pub(super) struct ExampleWriter {
    layout: Layout,
    output: Output,
    example: Vec<u8>,
    scratch: Vec<u8>,
}

impl ExampleWriter {
    pub(super) fn new(target: Target<'_>) -> Self {
        Self {
            layout: target.layout.clone(),
            output: Output::new(target.path, target.file),
            example: Vec::new(),
            scratch: Vec::new(),
        }
    }
}

impl RowWriter for ExampleWriter {
    fn write(&mut self, row: &[Cell]) -> Result<(), String> {
        self.example.clear();
        example(&self.layout, row, &mut self.example, &mut self.scratch);
        write_frame(&mut self.output, &self.example).map_err(|error| cannot_write(&error))
    }

    fn finish(self: Box<Self>) -> Result<(), String> {
        self.output.finish().map_err(|error| cannot_write(&error))
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
            ColumnKind::Int => {
                scratch.clear();
                values.for_each(|value| varint(int(value) as u64, scratch));
                field(1, scratch, &mut list);
            }
        }
        let number = match kind {
            ColumnKind::Text => 1,
            ColumnKind::Float => 2,
            ColumnKind::Int => 3,
        };
        field(number, &list, &mut feature);
        field(1, column.name.as_bytes(), &mut entry);
        field(2, &feature, &mut entry);
        field(1, &entry, &mut entries);
    }
    field(1, &entries, out);
}
