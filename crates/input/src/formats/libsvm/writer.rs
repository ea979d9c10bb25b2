//! Writer of libsvm files.

use std::io::Write as _;

use super::COLUMNS;
use crate::layout::{LIST_SEPARATOR, float, text};
use crate::output::{CompressedFile, Unwritten};
use crate::record_format::{RowWriter, Target};
use crate::{Cell, ColumnKind, Layout, Value};

/// Writer of a file.
pub(super) struct LibSvmWriter {
    layout: Layout,
    output: CompressedFile,
    line: Vec<u8>,
}

impl LibSvmWriter {
    pub(super) fn new(target: Target<'_>) -> Self {
        Self {
            layout: target.layout.clone(),
            output: CompressedFile::new(target.path, target.file),
            line: Vec::new(),
        }
    }

    /// Appends a row to the line. Its pairs are the lists `index` and `value`. Without these columns, they are all
    /// numbers that are not 0, each with the place of its column, counted from 1 without label and query.
    fn append(&mut self, row: &[Cell]) -> Result<(), String> {
        let place = |name: &str| {
            let columns = &self.layout.columns;
            columns.iter().position(|column| column.name == name)
        };
        let [label, query, index, value] = COLUMNS.map(place);
        match cell(row, label).first() {
            Some(label) => text(label, &mut self.line),
            None => {
                return Err(match label {
                    Some(_) => "a row has no label, without which libsvm has no line".to_owned(),
                    None => "libsvm needs a column `label`".to_owned(),
                });
            }
        }
        if let Some(query) = cell(row, query).first() {
            self.line.extend_from_slice(b" qid:");
            text(query, &mut self.line);
        }
        if index.is_some() && value.is_some() {
            return self.append_lists(cell(row, index), cell(row, value));
        }
        let mut number = 0;
        for (place, column) in self.layout.columns.iter().enumerate() {
            if Some(place) == label || Some(place) == query {
                continue;
            }
            if column.kind == Some(ColumnKind::Text) || column.list {
                let what = if column.list { "lists" } else { "texts" };
                let name = &column.name;
                return Err(format!(
                    "column `{name}` holds {what}, libsvm numbers alone"
                ));
            }
            number += 1;
            if let Some(value) = cell(row, Some(place)).first()
                && float(value) != Some(0.0)
            {
                self.line
                    .extend_from_slice(format!(" {number}:").as_bytes());
                text(value, &mut self.line);
            }
        }
        Ok(())
    }

    /// Appends the pairs of two lists.
    fn append_lists(&mut self, indices: &[Value], values: &[Value]) -> Result<(), String> {
        let indices = parts(indices);
        let values = parts(values);
        if indices.len() != values.len() {
            return Err(format!(
                "a row has {} indices and {} values",
                indices.len(),
                values.len()
            ));
        }
        for (index, value) in indices.iter().zip(values) {
            self.line.push(b' ');
            self.line.extend_from_slice(index);
            self.line.push(b':');
            self.line.extend_from_slice(&value);
        }
        Ok(())
    }
}

impl RowWriter for LibSvmWriter {
    fn write(&mut self, row: &[Cell]) -> Result<(), Unwritten> {
        self.line.clear();
        self.append(row)?;
        self.line.push(b'\n');
        Ok(self.output.write_all(&self.line)?)
    }

    fn finish(self: Box<Self>) -> Result<(), Unwritten> {
        Ok(self.output.finish()?)
    }
}

/// Returns the values of a cell, none if the row has no such cell.
fn cell(row: &[Cell], place: Option<usize>) -> &[Value] {
    place
        .and_then(|place| row.get(place))
        .map_or([].as_slice(), |cell| cell.values.as_slice())
}

/// Returns the values of a list, or of a text that holds a list.
fn parts(values: &[Value]) -> Vec<Vec<u8>> {
    let mut whole = Vec::new();
    for value in values {
        if !whole.is_empty() {
            whole.push(LIST_SEPARATOR);
        }
        text(value, &mut whole);
    }
    if whole.is_empty() {
        Vec::new()
    } else {
        whole
            .split(|byte| *byte == LIST_SEPARATOR)
            .map(<[u8]>::to_vec)
            .collect()
    }
}
