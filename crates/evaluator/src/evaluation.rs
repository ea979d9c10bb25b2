//! Evaluation and prediction with the parameters of a model.

use std::collections::BTreeMap;
use std::ops::ControlFlow;

use trainyard_diagnostic::{Code, Diagnostic};
use trainyard_input::{BadRow, Batch, Cell, Dataset, Options, Scan, Scanned};
use trainyard_model::{AnyModel, Prediction, Scores};

use crate::Parameters;

/// Evaluates parameters on at most `steps` batches of an input. Calls `each` after every batch.
///
/// # Errors
/// The input cannot be read.
pub fn evaluate(
    model: &AnyModel,
    parameters: &Parameters,
    input: Options,
    steps: Option<u64>,
    mut each: impl FnMut(),
) -> Result<Scores, Diagnostic> {
    let dataset = Dataset::open(input, model.schema().clone())?;
    let mut metrics = model.metrics();
    let mut scratch = None;
    let mut values = Vec::new();
    for batch in dataset.take(steps.map_or(usize::MAX, |steps| steps as usize)) {
        let features = model.features(&batch?)?;
        parameters.gather(&model.reads(&features), &mut values);
        model.evaluate(&features, &values, &mut metrics, &mut scratch)?;
        each();
    }
    Ok(model.scores(&metrics))
}

/// The result of [`predict`] for one record.
#[derive(Debug, Clone, PartialEq)]
pub struct Predicted {
    /// Values of the kept columns of the record; empty if the record as a whole cannot be read.
    pub kept: Vec<Cell>,
    /// The prediction, or the reason why there is none.
    pub outcome: Result<BTreeMap<String, Prediction>, BadRow>,
}

/// Predicts each record of an input, in order, and passes each result to `sink`, including those of records that cannot
/// be read. Stops when `sink` breaks. Reads no labels.
///
/// # Errors
/// The input cannot be read, or `sink` fails.
pub fn predict(
    model: &AnyModel,
    parameters: &Parameters,
    input: Options,
    kept: Vec<String>,
    mut sink: impl FnMut(Predicted) -> Result<ControlFlow<()>, Diagnostic>,
) -> Result<(), Diagnostic> {
    let mut scan = Scan::open(input, model.serving_schema().clone(), kept)?;
    let mut batch = Batch::default();
    let mut records = Vec::new();
    let mut scratch = None;
    let mut values = Vec::new();
    while scan.read(&mut batch, &mut records)? {
        let mut predictions = Vec::new();
        if batch.rows > 0 {
            let features = model.features(&batch)?;
            parameters.gather(&model.reads(&features), &mut values);
            predictions = model.predict(&features, &values, &mut scratch);
        }
        let mut predictions = predictions.into_iter();
        for Scanned { kept, bad } in records.drain(..) {
            let outcome = match bad {
                Some(bad) => Err(bad),
                None => Ok(predictions.next().ok_or_else(|| short(batch.rows))?),
            };
            if sink(Predicted { kept, outcome })?.is_break() {
                return Ok(());
            }
        }
    }
    Ok(())
}

/// Returns the error that a custom model has predicted too few records.
fn short(rows: usize) -> Diagnostic {
    let message = format!(
        "the model's `predict` must give {rows} predictions for a batch of {rows} records, gave fewer"
    );
    Diagnostic::error(Code::E9001, message).help("correct Model::predict of the model")
}
