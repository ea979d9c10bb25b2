//! Lists in text: fields of several values with a separator between them.

use crate::cells::{end_row, missing_part, shown};
use crate::number::{float, int};
use crate::{Cells, Column, FieldKind};

/// Appends the values of a field that may hold several. A part that is empty, one of the `missing` texts or, in a list of
/// numbers, NaN, is missing: see [`missing_part`].
#[inline(never)]
pub(crate) fn several(
    column: &mut Column,
    kind: &FieldKind,
    value: &[u8],
    missing: &[Vec<u8>],
) -> Result<(), String> {
    let parts = |separator: u8| value.split(move |byte| *byte == separator);
    let is_missing = |part: &[u8]| part.is_empty() || missing.iter().any(|text| text == part);
    let numbers = |cells: &mut Vec<f32>, separator: u8| {
        for (nth, part) in parts(separator).enumerate() {
            let number = if is_missing(part) {
                f32::NAN
            } else {
                float(part)?
            };
            if number.is_nan() {
                missing_part(cells, kind, nth)?;
            } else {
                cells.push(number);
            }
        }
        Ok::<(), String>(())
    };
    match (&mut column.cells, kind) {
        (
            Cells::Float(cells),
            FieldKind::Float {
                width,
                separator: Some(separator),
                ..
            },
        ) => {
            let given = parts(*separator).count();
            if given != *width {
                return Err(format!(
                    "{} must hold {width} numbers, given {given}",
                    shown(value)
                ));
            }
            numbers(cells, *separator)?;
        }
        (Cells::Float(cells), FieldKind::Floats { separator }) => {
            numbers(cells, *separator)?;
        }
        (
            Cells::Int(cells),
            FieldKind::Int {
                separator: Some(separator),
                fraction,
            },
        ) => {
            for part in parts(*separator).filter(|part| !is_missing(part)) {
                cells.extend(int(part, *fraction)?);
            }
        }
        (
            Cells::Bytes(cells),
            FieldKind::Bytes {
                separator: Some(separator),
            },
        ) => {
            parts(*separator)
                .filter(|part| !is_missing(part))
                .for_each(|part| cells.push(part));
        }
        // The columns were made by the schema, so other pairs do not occur.
        _ => {}
    }
    end_row(column);
    Ok(())
}
