//! Parser of rows of typed columns, from a file or in their inline form, into the wanted columns.

use super::TOO_FEW;
use crate::cells::{Bad, end_row, missing_cells, push_digits, shown};
use crate::column_names::first_places;
use crate::record::Content;
use crate::record_format::{FileColumns, RecordParser};
use crate::row::{Cell, RowCells};
use crate::{Batch, Cells, Column, FieldKind, Fraction, Schema};

/// Parser of rows into columns.
#[derive(Debug)]
pub(super) struct RowParser {
    schema: Schema,
    missing: Vec<Vec<u8>>,
    /// For each cell of a row, the columns of the batch that read it.
    targets: Vec<Vec<usize>>,
}

impl RowParser {
    /// Returns a parser of rows with these columns. The error is the first wanted column that is not among them.
    pub(super) fn new(columns: &FileColumns<'_>) -> Result<Self, String> {
        let schema = columns.schema;
        let places = first_places(columns.names);
        let mut targets = vec![Vec::new(); columns.names.len()];
        for (position, field) in schema.fields.iter().enumerate() {
            let place = places.get(field.name.as_str());
            targets[*place.ok_or_else(|| field.name.clone())?].push(position);
        }
        let missing = columns.options.missing.iter();
        Ok(Self {
            schema: schema.clone(),
            missing: missing.map(|text| text.as_bytes().to_vec()).collect(),
            targets,
        })
    }

    /// Appends a row's wanted cells to the batch.
    #[inline]
    fn append_cells<'a>(
        &self,
        mut cells: impl Iterator<Item = Cell<'a>> + Clone,
        batch: &mut Batch,
    ) -> Result<(), Bad> {
        let short = || (None, TOO_FEW.to_owned());
        for targets in &self.targets {
            let cell = cells.next().ok_or_else(short)?;
            let values = match cell {
                Cell::List(count) => {
                    let values = cells.clone();
                    for _ in 0..count {
                        cells.next().ok_or_else(short)?;
                    }
                    Some((values, count as usize))
                }
                _ => None,
            };
            for &target in targets {
                let column = &mut batch.columns[target];
                let kind = &self.schema.fields[target].kind;
                let outcome = match &values {
                    None => self.one(cell, column, kind),
                    Some((values, count)) => {
                        several(values.clone().take(*count), *count, column, kind)
                    }
                };
                outcome.map_err(|reason| (Some(target), reason))?;
            }
        }
        Ok(())
    }

    #[inline]
    fn one(&self, cell: Cell<'_>, column: &mut Column, kind: &FieldKind) -> Result<(), String> {
        let missing = match cell {
            Cell::Missing => true,
            Cell::Text(text) => {
                text.is_empty() || self.missing.iter().any(|missing| missing == text)
            }
            _ => false,
        };
        match kind {
            _ if missing => missing_cells(column, kind),
            FieldKind::Float { width, .. } if *width != 1 => {
                Err(format!("expected {width} values, given 1"))
            }
            _ => {
                push(cell, &mut column.cells, kind)?;
                end_row(column);
                Ok(())
            }
        }
    }
}

impl RecordParser for RowParser {
    fn append(&mut self, content: Content<'_>, batch: &mut Batch) -> Result<(), Bad> {
        match content {
            #[cfg(feature = "parquet")]
            Content::Row(rows, row) => self.append_cells(rows.cells(row), batch),
            Content::Bytes(bytes) => self.append_cells(RowCells(bytes), batch),
        }
    }
}

/// Appends the values of a list.
fn several<'a>(
    mut values: impl Iterator<Item = Cell<'a>>,
    count: usize,
    column: &mut Column,
    kind: &FieldKind,
) -> Result<(), String> {
    let width = match kind {
        FieldKind::Float { width, .. } => Some(*width),
        kind if kind.is_ragged() => None,
        _ => Some(1),
    };
    if count == 0 {
        return missing_cells(column, kind);
    }
    if let Some(width) = width.filter(|width| *width != count) {
        return Err(format!(
            "expected {width} value{}, given {count}",
            if width == 1 { "" } else { "s" }
        ));
    }
    values.try_for_each(|cell| push(cell, &mut column.cells, kind))?;
    end_row(column);
    Ok(())
}

/// Appends a value.
#[inline]
fn push(cell: Cell<'_>, cells: &mut Cells, kind: &FieldKind) -> Result<(), String> {
    let truncate = matches!(
        kind,
        FieldKind::Int {
            fraction: Fraction::Dropped,
            ..
        }
    );
    match (cells, cell) {
        (Cells::Float(cells), Cell::Float(number)) => {
            let number = number as f32;
            if !number.is_finite() {
                return Err(format!("{number} is not a finite number"));
            }
            cells.push(number);
        }
        (Cells::Float(cells), Cell::Int(number)) => cells.push(number as f32),
        (Cells::Int(cells), Cell::Int(number)) => cells.push(number),
        (Cells::Int(cells), Cell::Float(number)) if truncate && number.is_finite() => {
            cells.push(number as i64)
        }
        (Cells::Bytes(cells), Cell::Text(text)) => cells.push(text),
        (Cells::Bytes(cells), Cell::Int(number)) => push_digits(number, cells),
        (cells, cell) => {
            let found = match cell {
                Cell::Missing => "nothing".to_owned(),
                Cell::Int(number) => number.to_string(),
                Cell::Float(number) => number.to_string(),
                Cell::Text(text) => shown(text),
                Cell::List(_) => "a list in a list".to_owned(),
            };
            let wanted = match cells {
                Cells::Float(_) => "a number",
                Cells::Int(_) => "a whole number",
                Cells::Bytes(_) => "a text or a whole number",
            };
            return Err(format!("expected {wanted}, given {found}"));
        }
    }
    Ok(())
}
