//! Cells of a batch's columns: placeholders for missing fields, and the removal of a record that failed.

use crate::{Batch, Bytes, Cells, Column, FieldKind, Gaps, Position, Schema};

/// Longest part of a bad value that messages show, in bytes.
const SHOWN_BYTES_MAX: usize = 256;

/// The reason why a record cannot be used, and the schema's column at fault. `None` is the record as a whole.
pub(crate) type Bad = (Option<usize>, String);

/// Empties a batch and gives it the columns of the schema. Columns that fit keep their memory; new columns have room
/// for `rows`.
pub(crate) fn clear(batch: &mut Batch, schema: &Schema, rows: usize, position: Position) {
    (batch.rows, batch.position) = (0, position);
    batch.columns.truncate(schema.fields.len());
    for (place, field) in schema.fields.iter().enumerate() {
        let kind = &field.kind;
        match batch.columns.get_mut(place) {
            Some(column)
                if column.offsets.is_some() == kind.is_ragged() && fits(&column.cells, kind) =>
            {
                if let Some(offsets) = &mut column.offsets {
                    offsets.clear();
                    offsets.push(0);
                }
                column.cells.truncate(0);
            }
            Some(column) => *column = empty(kind, rows),
            None => batch.columns.push(empty(kind, rows)),
        }
    }
}

fn fits(cells: &Cells, kind: &FieldKind) -> bool {
    matches!(
        (cells, kind),
        (
            Cells::Float(_),
            FieldKind::Float { .. } | FieldKind::Floats { .. }
        ) | (Cells::Int(_), FieldKind::Int { .. })
            | (Cells::Bytes(_), FieldKind::Bytes { .. })
    )
}

fn empty(kind: &FieldKind, rows: usize) -> Column {
    let cells = match kind {
        FieldKind::Float { width, .. } => Cells::Float(Vec::with_capacity(rows * width)),
        FieldKind::Floats { .. } => Cells::Float(Vec::with_capacity(rows)),
        FieldKind::Int { .. } => Cells::Int(Vec::with_capacity(rows)),
        FieldKind::Bytes { .. } => Cells::Bytes(Bytes::default()),
    };
    Column {
        cells,
        offsets: kind.is_ragged().then(|| vec![0]),
    }
}

/// Appends the placeholder of a missing field.
pub(crate) fn missing_cells(column: &mut Column, kind: &FieldKind) -> Result<(), String> {
    match (&mut column.cells, kind) {
        (Cells::Float(cells), FieldKind::Float { default, .. }) => match default {
            Some(default) => cells.extend_from_slice(default),
            None => return Err("the value is missing and has no default".to_owned()),
        },
        (_, kind) if kind.is_ragged() => end_row(column),
        (Cells::Int(cells), kind) => cells.push(kind.missing_integer()),
        (Cells::Bytes(cells), _) => cells.push(b""),
        (Cells::Float(_), _) => {}
    }
    Ok(())
}

/// Appends the placeholder of a missing number in a list of fixed length: the default of its position.
pub(crate) fn missing_part(
    cells: &mut Vec<f32>,
    default: Option<&[f32]>,
    nth: usize,
) -> Result<(), String> {
    let default = default.and_then(|default| default.get(nth));
    let number = nth + 1;
    cells.push(
        *default
            .ok_or_else(|| format!("number {number} of the list is missing and has no default"))?,
    );
    Ok(())
}

/// The values of a list of any length that were left out, because they are missing.
#[derive(Debug)]
pub(crate) struct LeftOut {
    gaps: Gaps,
    /// Place of the first of them in the list.
    first: Option<usize>,
}

impl LeftOut {
    pub(crate) fn new(gaps: Gaps) -> Self {
        Self { gaps, first: None }
    }

    /// Leaves out the value at a place.
    pub(crate) fn add(&mut self, place: usize) {
        self.first.get_or_insert(place);
    }

    /// Checks that a value may follow those that were left out.
    pub(crate) fn check(&self) -> Result<(), String> {
        match self.first.filter(|_| self.gaps == Gaps::Refused) {
            None => Ok(()),
            Some(place) => Err(format!(
                "value {} of the list is missing, and each value needs its weight",
                place + 1
            )),
        }
    }
}

/// Records the place at which the values of a row end.
#[inline]
pub(crate) fn end_row(column: &mut Column) {
    if let Some(offsets) = &mut column.offsets {
        // The records of a batch have far fewer than 2^32 bytes.
        offsets.push(column.cells.len() as u32);
    }
}

/// Keeps the values of the first `rows` records.
pub(crate) fn truncate(column: &mut Column, kind: &FieldKind, rows: usize) {
    let values = match (&mut column.offsets, kind) {
        (Some(offsets), _) => {
            offsets.truncate(rows + 1);
            offsets.last().map_or(0, |end| *end as usize)
        }
        (None, FieldKind::Float { width, .. }) => rows * width,
        (None, _) => rows,
    };
    column.cells.truncate(values);
}

/// Returns a value for a message: quoted, escaped and truncated.
pub(crate) fn shown(value: &[u8]) -> String {
    let cut = &value[..value.len().min(SHOWN_BYTES_MAX)];
    format!(
        "\"{}\"{}",
        cut.escape_ascii(),
        if cut.len() < value.len() { " …" } else { "" }
    )
}

/// Appends the decimal text of a number.
pub(crate) fn push_digits(number: i64, cells: &mut Bytes) {
    let mut digits = [0_u8; 20];
    let mut begin = 20;
    let mut rest = number.unsigned_abs();
    loop {
        begin -= 1;
        digits[begin] = b'0' + (rest % 10) as u8;
        rest /= 10;
        if rest == 0 {
            break;
        }
    }
    if number < 0 {
        begin -= 1;
        digits[begin] = b'-';
    }
    cells.push(&digits[begin..]);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_become_their_digits() {
        let mut cells = Bytes::default();
        let numbers = [0, 7, -1, 1234567890123, i64::MIN, i64::MAX];
        numbers
            .iter()
            .for_each(|number| push_digits(*number, &mut cells));
        for (place, number) in numbers.iter().enumerate() {
            assert_eq!(cells.get(place), number.to_string().as_bytes());
        }
    }
}
