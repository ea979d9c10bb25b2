//! The weights of examples: which numbers are weights.

use trainyard_input::{Batch, Cells, FieldKind, RowRule, Schema};

/// The rule that a field holds the weight of an example.
#[derive(Debug)]
struct WeightOfExample {
    field: usize,
}

impl RowRule for WeightOfExample {
    fn check(&self, batch: &Batch, row: usize) -> Result<(), String> {
        let column = &batch.columns[self.field];
        let Cells::Float(weights) = &column.cells else {
            return Ok(());
        };
        let mut places = column.row(row, batch.rows);
        places.try_for_each(|place| match weights[place] {
            weight if weight >= 0.0 && weight.is_finite() => Ok(()),
            // With a weight below 0, the loss has no least value.
            weight => Err(format!(
                "the weight of an example must be a number of 0 or more, given {weight}"
            )),
        })
    }
}

/// Adds the column of the examples' weights to a schema. A record with a negative weight is bad. Returns its field.
pub fn want_example_weight(schema: &mut Schema, column: &str) -> usize {
    let field = schema.want(column, FieldKind::FLOAT);
    schema.require(field, WeightOfExample { field });
    field
}
