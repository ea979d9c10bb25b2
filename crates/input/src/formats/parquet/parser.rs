//! Parser of rows of typed columns, from a file or in their inline form, into the wanted columns.

use super::TOO_FEW;
use crate::cells::{Bad, LeftOut, end_row, missing_cells, missing_part, push_digits, shown};
use crate::missing::{Missing, MissingValues};
use crate::number::{narrow, without_fraction};
use crate::record::Content;
use crate::record_format::{FileColumns, RecordParser};
use crate::row::{Cell, RowCells, Ticks};
use crate::{Batch, Cells, Column, Error, Field, FieldKind, Fraction, Schema};

/// Parser of rows into columns.
#[derive(Debug)]
pub(super) struct RowParser {
    schema: Schema,
    /// For each field of the schema.
    missing: Vec<Missing>,
    /// For each cell of a row, the columns of the batch that read it.
    targets: Vec<Vec<usize>>,
}

impl RowParser {
    /// Returns a parser of rows with these columns.
    ///
    /// # Errors
    /// A wanted column is missing, or is there twice.
    pub(super) fn new(columns: &FileColumns<'_>) -> Result<Self, Error> {
        let schema = columns.schema;
        let mut targets = vec![Vec::new(); columns.names.len()];
        for (position, place) in columns.places()?.into_iter().enumerate() {
            targets[place].push(position);
        }
        Ok(Self {
            schema: schema.clone(),
            missing: MissingValues::of_fields(&columns.options.missing, schema),
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
                let field = &self.schema.fields[target];
                let missing = &self.missing[target];
                let outcome = match &values {
                    None => one(number_of(cell, &field.kind), column, &field.kind, missing),
                    Some((values, count)) => {
                        let values = values.clone().take(*count);
                        let values = values.map(|cell| number_of(cell, &field.kind));
                        several(values, *count, column, field, missing)
                    }
                };
                outcome.map_err(|reason| (Some(target), reason))?;
            }
        }
        Ok(())
    }
}

/// Returns the number of a text where a field wants one: decimals that are written elsewhere, too, are texts of all their digits.
#[inline]
fn number_of<'a>(cell: Cell<'a>, kind: &FieldKind) -> Cell<'a> {
    match (cell, kind) {
        (_, FieldKind::Bytes { .. }) => cell,
        (Cell::Text(text), _) => {
            let text = std::str::from_utf8(text).ok();
            let number = text.and_then(|text| text.parse().ok());
            number.map_or(cell, Cell::Float)
        }
        _ => cell,
    }
}

#[inline]
fn is_missing(cell: Cell<'_>, kind: &FieldKind, missing: &Missing) -> bool {
    match cell {
        Cell::Missing => true,
        Cell::Float(number) => number.is_nan() || missing.float(number),
        Cell::Int(number) => missing.integer(number, kind),
        Cell::Unsigned(number) => missing.integer(number, kind),
        Cell::Text(text) => missing.text(text),
        Cell::Time(..) | Cell::List(_) => false,
    }
}

#[inline]
fn one(
    cell: Cell<'_>,
    column: &mut Column,
    kind: &FieldKind,
    missing: &Missing,
) -> Result<(), String> {
    match kind {
        _ if is_missing(cell, kind, missing) => missing_cells(column, kind),
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

/// Appends the values of a list. A missing value of a list of any length is left out.
fn several<'a>(
    values: impl Iterator<Item = Cell<'a>>,
    count: usize,
    column: &mut Column,
    field: &Field,
    missing: &Missing,
) -> Result<(), String> {
    let kind = &field.kind;
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
    let mut left_out = LeftOut::new(field.gaps);
    for (nth, cell) in values.enumerate() {
        match (&mut column.cells, kind) {
            (Cells::Float(cells), FieldKind::Float { default, .. })
                if is_missing(cell, kind, missing) =>
            {
                missing_part(cells, default.as_deref(), nth)?
            }
            _ if is_missing(cell, kind, missing) => left_out.add(nth),
            (cells, _) => {
                left_out.check()?;
                push(cell, cells, kind)?;
            }
        }
    }
    end_row(column);
    Ok(())
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

/// Appends a value.
#[inline]
fn push(cell: Cell<'_>, cells: &mut Cells, kind: &FieldKind) -> Result<(), String> {
    match (cells, cell) {
        (Cells::Float(cells), Cell::Float(number)) => {
            cells.push(narrow(number)?);
        }
        (Cells::Float(cells), Cell::Int(number) | Cell::Time(number, _)) => {
            cells.push(number as f32);
        }
        (Cells::Float(cells), Cell::Unsigned(number)) => cells.push(number as f32),
        (Cells::Int(cells), Cell::Int(number)) => cells.push(number),
        (Cells::Int(cells), Cell::Unsigned(number)) => {
            let beyond = |_| format!("{number} is beyond the whole numbers of 64 bits with a sign");
            cells.push(i64::try_from(number).map_err(beyond)?);
        }
        (Cells::Int(cells), Cell::Time(number, ticks)) => cells.push(time(number, ticks, kind)?),
        (Cells::Int(cells), Cell::Float(number)) if kind.fraction().is_dropped() => {
            cells.push(without_fraction(number, kind.fraction())?);
        }
        (Cells::Bytes(cells), Cell::Text(text)) => cells.push(text),
        (Cells::Bytes(cells), Cell::Int(number) | Cell::Time(number, _)) => {
            push_digits(number, cells);
        }
        (Cells::Bytes(cells), Cell::Unsigned(number)) => cells.push(number.to_string().as_bytes()),
        (cells, cell) => {
            let found = match cell {
                Cell::Missing => "nothing".to_owned(),
                Cell::Int(number) | Cell::Time(number, _) => number.to_string(),
                Cell::Unsigned(number) => number.to_string(),
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

/// Returns a time in the unit that a feature of times wants. Other features get the number of the file.
fn time(number: i64, ticks: Ticks, kind: &FieldKind) -> Result<i64, String> {
    match kind {
        FieldKind::Int {
            fraction: Fraction::Time(unit),
            ..
        } => ticks
            .convert(number, *unit)
            .ok_or_else(|| format!("the time {number} is out of range")),
        _ => Ok(number),
    }
}
