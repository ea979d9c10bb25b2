//! Lists in text: fields of several values with a separator between them.

use crate::cells::{end_row, shown};
use crate::number::{float, int};
use crate::{Cells, Column, FieldKind};

/// Appends the values of a field that may hold several.
#[inline(never)]
pub(crate) fn several(column: &mut Column, kind: &FieldKind, value: &[u8]) -> Result<(), String> {
    let parts = |separator: u8| value.split(move |byte| *byte == separator);
    match (&mut column.cells, kind) {
        (
            Cells::Float(cells),
            FieldKind::Float {
                width,
                separator: Some(separator),
                ..
            },
        ) => {
            let before = cells.len();
            for part in parts(*separator) {
                cells.push(float(part)?);
            }
            match cells.len() - before {
                given if given == *width => {}
                given => {
                    return Err(format!(
                        "{} must hold {width} numbers, given {given}",
                        shown(value)
                    ));
                }
            }
        }
        (Cells::Float(cells), FieldKind::Floats { separator }) => {
            for part in parts(*separator) {
                cells.push(float(part)?);
            }
        }
        (
            Cells::Int(cells),
            FieldKind::Int {
                separator: Some(separator),
                fraction,
            },
        ) => {
            for part in parts(*separator) {
                cells.push(int(part, *fraction)?);
            }
        }
        (
            Cells::Bytes(cells),
            FieldKind::Bytes {
                separator: Some(separator),
            },
        ) => {
            parts(*separator).for_each(|part| cells.push(part));
        }
        // The columns were made by the schema, so other pairs do not occur.
        _ => {}
    }
    end_row(column);
    Ok(())
}
