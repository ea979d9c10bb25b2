//! Lists in text: fields of several values with a separator between them.

use crate::cells::{LeftOut, end_row, missing_part, shown};
use crate::missing::Missing;
use crate::number::{float, int};
use crate::number_style::{float_of, int_of};
use crate::{Cells, Column, Field, FieldKind, NumberStyle};

/// Appends the values of a field that may hold several. A part that is empty, one of the `missing` texts or, in a list of
/// numbers, NaN, is missing: a list of fixed length takes the default of its position, others leave it out.
#[inline(never)]
pub(crate) fn several(
    column: &mut Column,
    field: &Field,
    value: &[u8],
    missing: &Missing,
    style: Option<&NumberStyle>,
) -> Result<(), String> {
    let parts = |separator: u8| value.split(move |byte| *byte == separator);
    let is_missing = |part: &[u8]| missing.written_in(style, part, &field.kind);
    let number = |part: &[u8]| {
        let number = if is_missing(part) {
            f32::NAN
        } else {
            match style {
                None => float(part)?,
                Some(style) => float_of(style, part)?,
            }
        };
        Ok::<_, String>(Some(number).filter(|number| !number.is_nan()))
    };
    let mut left_out = LeftOut::new(field.gaps);
    match (&mut column.cells, &field.kind) {
        (
            Cells::Float(cells),
            FieldKind::Float {
                width,
                separator: Some(separator),
                default,
            },
        ) => {
            let given = parts(*separator).count();
            if given != *width {
                return Err(format!(
                    "{} must hold {width} numbers, given {given}",
                    shown(value)
                ));
            }
            for (nth, part) in parts(*separator).enumerate() {
                match number(part)? {
                    Some(number) => cells.push(number),
                    None => missing_part(cells, default.as_deref(), nth)?,
                }
            }
        }
        (Cells::Float(cells), FieldKind::Floats { separator }) => {
            for (nth, part) in parts(*separator).enumerate() {
                match number(part)? {
                    Some(number) => {
                        left_out.check()?;
                        cells.push(number);
                    }
                    None => left_out.add(nth),
                }
            }
        }
        (
            Cells::Int(cells),
            FieldKind::Int {
                separator: Some(separator),
                fraction,
            },
        ) => {
            for (nth, part) in parts(*separator).enumerate() {
                let number = if is_missing(part) {
                    None
                } else {
                    match style {
                        None => int(part, *fraction)?,
                        Some(style) => int_of(style, part, *fraction)?,
                    }
                };
                match number {
                    Some(number) => {
                        left_out.check()?;
                        cells.push(number);
                    }
                    None => left_out.add(nth),
                }
            }
        }
        (
            Cells::Bytes(cells),
            FieldKind::Bytes {
                separator: Some(separator),
            },
        ) => {
            for (nth, part) in parts(*separator).enumerate() {
                if is_missing(part) {
                    left_out.add(nth);
                } else {
                    left_out.check()?;
                    cells.push(part);
                }
            }
        }
        // The columns were made by the schema, so other pairs do not occur.
        _ => {}
    }
    end_row(column);
    Ok(())
}
