//! Rows of typed columns as bytes. A record of a Parquet file has this form in buffers.
//!
//! Cells are in the order of the columns. Each cell begins with its kind. Whole numbers and floats have 8 bytes,
//! little-endian. Texts and lists begin with their length in 4 bytes, little-endian.

use crate::cells::{Bad, end_row, missing_cells, shown};
use crate::libsvm::push_digits;
use crate::{Batch, Cells, Column, FieldKind, Schema};

/// Kinds of cells.
pub(crate) const MISSING: u8 = 0;
pub(crate) const INT: u8 = 1;
pub(crate) const FLOAT: u8 = 2;
pub(crate) const TEXT: u8 = 3;
pub(crate) const LIST: u8 = 4;

/// A value of a row.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Cell<'a> {
    Missing,
    Int(i64),
    Float(f64),
    Text(&'a [u8]),
    /// A list with the number of its values. The values are the cells that follow.
    List(u32),
}

/// Iterator over the cells of a row. It ends at bytes that are not a cell.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RowCells<'a>(pub(crate) &'a [u8]);

impl<'a> Iterator for RowCells<'a> {
    type Item = Cell<'a>;

    #[inline]
    fn next(&mut self) -> Option<Cell<'a>> {
        let (&kind, rest) = self.0.split_first()?;
        let (cell, rest) = match kind {
            MISSING => (Cell::Missing, rest),
            INT => {
                let (number, rest) = rest.split_first_chunk()?;
                (Cell::Int(i64::from_le_bytes(*number)), rest)
            }
            FLOAT => {
                let (number, rest) = rest.split_first_chunk()?;
                (Cell::Float(f64::from_le_bytes(*number)), rest)
            }
            TEXT => {
                let (length, rest) = rest.split_first_chunk()?;
                let (text, rest) = rest.split_at_checked(u32::from_le_bytes(*length) as usize)?;
                (Cell::Text(text), rest)
            }
            LIST => {
                let (length, rest) = rest.split_first_chunk()?;
                (Cell::List(u32::from_le_bytes(*length)), rest)
            }
            _ => return None,
        };
        self.0 = rest;
        Some(cell)
    }
}

/// Parser of rows into columns.
#[derive(Debug)]
pub(crate) struct RowParser {
    schema: Schema,
    missing: Vec<Vec<u8>>,
    /// For each cell of a row, the columns of the batch that read it.
    targets: Vec<Vec<usize>>,
}

impl RowParser {
    /// Returns a parser of rows with these columns. The error is the first wanted column that is not among them.
    pub(crate) fn new(
        schema: &Schema,
        columns: &[String],
        missing: &[String],
    ) -> Result<Self, String> {
        let mut targets = vec![Vec::new(); columns.len()];
        for (position, field) in schema.fields.iter().enumerate() {
            let place = columns.iter().position(|column| *column == field.name);
            targets[place.ok_or_else(|| field.name.clone())?].push(position);
        }
        let missing = missing
            .iter()
            .map(|text| text.as_bytes().to_vec())
            .collect();
        Ok(Self {
            schema: schema.clone(),
            missing,
            targets,
        })
    }

    /// Appends a row's wanted cells to the batch. An error may leave a part of them in the batch.
    pub(crate) fn append(&self, row: &[u8], batch: &mut Batch) -> Result<(), Bad> {
        let mut cells = RowCells(row);
        let short = || {
            (
                None,
                "the row has fewer cells than its file has columns".to_owned(),
            )
        };
        for targets in &self.targets {
            let cell = cells.next().ok_or_else(short)?;
            let values = match cell {
                Cell::List(count) => {
                    let values = cells;
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
                let outcome = match values {
                    None => self.one(cell, column, kind),
                    Some((values, count)) => self.several(values, count, column, kind),
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

    fn several(
        &self,
        values: RowCells<'_>,
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
        values
            .take(count)
            .try_for_each(|cell| push(cell, &mut column.cells, kind))?;
        end_row(column);
        Ok(())
    }
}

/// Appends a value.
#[inline]
fn push(cell: Cell<'_>, cells: &mut Cells, kind: &FieldKind) -> Result<(), String> {
    let truncate = matches!(kind, FieldKind::Int { truncate: true, .. });
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
