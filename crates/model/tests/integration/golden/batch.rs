//! Recorded features as batches.

use std::collections::BTreeMap;

use serde_json::Value;
use trainyard_input::{Batch, Bytes, Cells, Column, FieldKind, Position, Schema};
use trainyard_testing::{flat, list};

/// One row of a column: its recorded values.
type Row = Vec<Value>;

/// A recorded column.
#[derive(Debug, Clone)]
pub(crate) struct Recorded {
    pub(crate) dtype: String,
    pub(crate) sparse: bool,
    pub(crate) rows: Vec<Row>,
}

impl Recorded {
    pub(crate) fn new(value: &Value) -> Self {
        let dtype = value["dtype"].as_str().unwrap().to_owned();
        let Some(indices) = value.get("indices") else {
            let row = |row: &Value| match row {
                Value::Array(_) => leaves(row),
                single => vec![single.clone()],
            };
            return Self {
                dtype,
                sparse: false,
                rows: list(&value["values"]).iter().map(row).collect(),
            };
        };
        let count = value["dense_shape"][0].as_u64().unwrap() as usize;
        let mut rows = vec![Vec::new(); count];
        for (index, value) in list(indices).iter().zip(list(&value["values"])) {
            rows[index[0].as_u64().unwrap() as usize].push(value.clone());
        }
        Self {
            dtype,
            sparse: true,
            rows,
        }
    }
}

fn leaves(value: &Value) -> Row {
    match value {
        Value::Array(items) => items.iter().flat_map(leaves).collect(),
        other => vec![other.clone()],
    }
}

/// Returns a batch of some rows of the recorded columns, or the name of a missing column.
pub(crate) fn batch(
    schema: &Schema,
    columns: &BTreeMap<String, Recorded>,
    rows: &[usize],
    number: u64,
) -> Result<Batch, String> {
    let mut out = Vec::new();
    for field in &schema.fields {
        let recorded = columns
            .get(&field.name)
            .ok_or_else(|| format!("column `{}` is missing", field.name))?;
        let values: Row = rows
            .iter()
            .flat_map(|row| recorded.rows[*row].clone())
            .collect();
        let as_floats = matches!(
            field.kind,
            FieldKind::Float { .. } | FieldKind::Floats { .. }
        );
        let cells = match recorded.dtype.as_str() {
            "string" => {
                let mut texts = Bytes::default();
                values
                    .iter()
                    .for_each(|value| texts.push(value.as_str().unwrap().as_bytes()));
                Cells::Bytes(texts)
            }
            dtype if dtype.starts_with("int") && !as_floats => {
                Cells::Int(values.iter().map(|value| value.as_i64().unwrap()).collect())
            }
            _ => Cells::Float(flat(&Value::Array(values))),
        };
        let offsets = recorded.sparse.then(|| {
            let mut end = 0;
            std::iter::once(0)
                .chain(rows.iter().map(|row| {
                    end += recorded.rows[*row].len() as u32;
                    end
                }))
                .collect()
        });
        out.push(Column { cells, offsets });
    }
    Ok(Batch {
        rows: rows.len(),
        columns: out,
        position: Position {
            batch: number,
            ..Position::default()
        },
    })
}

/// Returns the columns of a recorded object.
pub(crate) fn recorded(features: &Value) -> BTreeMap<String, Recorded> {
    features
        .as_object()
        .unwrap()
        .iter()
        .map(|(name, value)| (name.clone(), Recorded::new(value)))
        .collect()
}
