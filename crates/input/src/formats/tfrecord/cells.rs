//! Parser of all features of a `tf.train.Example` into cells.

use super::wire::{Malformed, Value as Field, Wire};
use crate::column_names::ColumnNames;
use crate::{Cell, Value};

/// Parses the features of a record. New names become columns.
pub(super) fn cells(
    record: &[u8],
    columns: &mut ColumnNames,
    row: &mut Vec<Cell>,
) -> Result<(), String> {
    features(record, columns, row).map_err(|Malformed { at, expected }| {
        format!(
            "the record is no tf.train.Example: expected {expected} at byte {at} of its {}",
            record.len()
        )
    })
}

fn features(
    record: &[u8],
    columns: &mut ColumnNames,
    row: &mut Vec<Cell>,
) -> Result<(), Malformed> {
    let mut example = Wire::new(record);
    while let Some(field) = example.next()? {
        let (1, Field::Bytes(mut features)) = field else {
            continue;
        };
        while let Some(field) = features.next()? {
            let (1, Field::Bytes(mut entry)) = field else {
                continue;
            };
            let mut name = String::new();
            let mut feature = Wire::new(&[]);
            while let Some(field) = entry.next()? {
                match field {
                    (1, Field::Bytes(key)) => {
                        name = String::from_utf8_lossy(key.bytes()).into_owned()
                    }
                    (2, Field::Bytes(value)) => feature = value,
                    _ => {}
                }
            }
            let place = columns.place(&name);
            row.resize_with(columns.names().len().max(row.len()), Cell::default);
            let cell = &mut row[place];
            // The last feature with a name counts.
            cell.values.clear();
            values(feature, &mut cell.values)?;
            cell.list |= cell.values.len() > 1;
        }
    }
    Ok(())
}

fn values(mut feature: Wire<'_>, out: &mut Vec<Value>) -> Result<(), Malformed> {
    while let Some((kind, list)) = feature.next()? {
        let Field::Bytes(mut list) = list else {
            continue;
        };
        while let Some((number, value)) = list.next()? {
            match (kind, number, value) {
                (1, 1, Field::Bytes(text)) => out.push(Value::Text(text.bytes().to_vec())),
                (2, 1, Field::Bytes(packed)) => {
                    let (numbers, rest) = packed.bytes().as_chunks();
                    if !rest.is_empty() {
                        return Err(packed.malformed("packed floats, of 4 bytes each"));
                    }
                    out.extend(numbers.iter().map(|bytes| float(*bytes)));
                }
                (2, 1, Field::Fixed32(bytes)) => out.push(float(bytes)),
                (3, 1, Field::Bytes(mut packed)) => {
                    while !packed.is_at_end() {
                        out.push(Value::Int(packed.varint()? as i64));
                    }
                }
                (3, 1, Field::Varint(number)) => out.push(Value::Int(number as i64)),
                _ => {}
            }
        }
    }
    Ok(())
}

fn float(bytes: [u8; 4]) -> Value {
    Value::Float(f64::from(f32::from_le_bytes(bytes)))
}
