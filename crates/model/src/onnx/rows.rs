//! Inputs of a graph for each record, and the ids of its categorical features, as `trainyard transform` writes them.

use serde_json::{Value, json};
use trainyard_feature_column::Features;
use trainyard_input::{Batch, Cells};

use super::GraphRow;
use super::inputs::{Inputs, Source};
use crate::onnx_limits::{reason, refuse_dynamic};
use crate::{Canned, Error};

/// Returns the rows of a batch: a list of values for each input of the graph and, under `<feature>/ids`, the ids of
/// each categorical feature that is not an input.
pub(super) fn rows(canned: &Canned, batch: &Batch) -> Result<Vec<GraphRow>, Error> {
    refuse_dynamic(&canned.records.columns, None)?;
    let inputs = Inputs::new(canned);
    let features = canned.records.columns.transform(batch)?;
    let row = |row: usize| {
        let mut out = GraphRow::new();
        for (field, input) in &inputs.fields {
            out.insert(
                inputs.list[*input].port.name.clone(),
                cells(batch, *field, row),
            );
        }
        for (feature, input) in &inputs.ids {
            let mut found = ids(canned, &features, *feature, row);
            // A missing value keeps its position beside its weight.
            if found.is_empty()
                && canned.records.columns.categorical[*feature]
                    .weights_field()
                    .is_some()
            {
                found.push(-1);
            }
            out.insert(inputs.list[*input].port.name.clone(), json!(found));
        }
        for (feature, column) in canned.records.columns.categorical.iter().enumerate() {
            let used = column.wide || column.deep.is_some();
            if used && reason(&column.config.kind).is_none() {
                let key = format!("{}/ids", column.name);
                out.entry(key)
                    .or_insert_with(|| json!(ids(canned, &features, feature, row)));
            }
        }
        for input in inputs
            .list
            .iter()
            .filter(|input| input.source == Source::Records)
        {
            out.insert(input.port.name.clone(), json!([1]));
        }
        out
    };
    Ok((0..batch.rows).map(row).collect())
}

/// Returns the values of a field in a row.
fn cells(batch: &Batch, field: usize, row: usize) -> Value {
    let column = &batch.columns[field];
    let places = column.row(row, batch.rows);
    match &column.cells {
        // The shortest decimal text keeps 0.1 from becoming 0.10000000149011612.
        Cells::Float(values) => values[places]
            .iter()
            .map(|value| json!(value.to_string().parse::<f64>().ok()))
            .collect(),
        Cells::Int(values) => json!(values[places]),
        Cells::Bytes(texts) => places
            .map(|place| json!(String::from_utf8_lossy(texts.get(place))))
            .collect(),
    }
}

/// Returns the ids of a feature in a row.
fn ids(canned: &Canned, features: &Features, feature: usize, row: usize) -> Vec<i64> {
    // The ids of a feature with a shared table are those of that table. The feature has ids of its own only if it is
    // also wide.
    let own = &features.ids[feature];
    let ids = if own.offsets.is_empty() {
        &features.ids[canned.records.columns.embedding_ids(feature)]
    } else {
        own
    };
    ids.of_row(row)
        .iter()
        .map(|place| i64::from(ids.unique[*place as usize]))
        .collect()
}
