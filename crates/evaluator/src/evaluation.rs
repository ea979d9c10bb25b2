//! Evaluation with the parameters of a model.

use std::ops::ControlFlow;

use tracing::warn;
use trainyard_diagnostic::Diagnostic;
use trainyard_input::{Batch, Cells, Dataset, Field, FieldKind, Options, Schema};
use trainyard_model::{AnyModel, Scores};
use trainyard_predictor::{Gathered, Parameters};

/// Evaluates parameters on at most `steps` batches of an input. Calls `each` after every batch. Returns `None` if `each`
/// breaks. Warns if the examples have weights, by `weight_column`, and all of them are 0.
///
/// # Errors
/// The input cannot be read.
pub fn evaluate(
    model: &AnyModel,
    parameters: &Parameters,
    weight_column: Option<&str>,
    input: Options,
    steps: Option<u64>,
    mut each: impl FnMut() -> ControlFlow<()>,
) -> Result<Option<Scores>, Diagnostic> {
    let dataset = Dataset::open(input, model.schema().clone())?;
    let mut metrics = model.metrics();
    let mut scratch = None;
    let mut gathered = Gathered::default();
    let mut weights = weight_column.and_then(|column| WeightsSeen::of(column, model.schema()));
    let mut records = 0;
    for batch in dataset.take(steps.map_or(usize::MAX, |steps| steps as usize)) {
        let batch = batch?;
        records += batch.rows;
        if let Some(weights) = &mut weights {
            weights.see(&batch);
        }
        let features = model.features(&batch)?;
        parameters.gather(&model.reads(&features), &mut gathered);
        model.evaluate(&features, gathered.values(), &mut metrics, &mut scratch)?;
        if each().is_break() {
            return Ok(None);
        }
    }
    let mut scores = model.scores(&metrics);
    let of_nothing = if records == 0 {
        Some("no record of the evaluation can be used: its metrics say nothing".to_owned())
    } else {
        weights.and_then(|weights| weights.says_nothing())
    };
    if let Some(message) = of_nothing {
        warn!("{message}");
        // As 0, the loss would be the best.
        scores.values_mut().for_each(|value| *value = f64::NAN);
    }
    Ok(Some(scores))
}

/// The weights of the examples of an evaluation. If all are 0, each metric is 0 or a mean of nothing, which looks like a result
/// whatever the model and its labels are.
#[derive(Debug)]
struct WeightsSeen {
    column: String,
    field: usize,
    records: usize,
    any_counts: bool,
}

impl WeightsSeen {
    /// Returns the weights in a column that a model reads.
    fn of(column: &str, schema: &Schema) -> Option<Self> {
        let is_weight = |field: &Field| field.name == column && field.kind == FieldKind::FLOAT;
        Some(Self {
            column: column.to_owned(),
            field: schema.fields.iter().position(is_weight)?,
            records: 0,
            any_counts: false,
        })
    }

    fn see(&mut self, batch: &Batch) {
        self.records += batch.rows;
        if let Cells::Float(weights) = &batch.columns[self.field].cells {
            self.any_counts |= weights.iter().any(|weight| *weight != 0.0);
        }
    }

    /// Returns why the metrics say nothing, if all weights are 0.
    fn says_nothing(&self) -> Option<String> {
        let Self {
            column, records, ..
        } = self;
        (*records > 0 && !self.any_counts).then(|| {
            format!(
                "all weights of the evaluation are 0, in {records} records: its metrics say nothing. Look at \
                 input.weight_column = \"{column}\", and how the evaluation files write the weight"
            )
        })
    }
}
