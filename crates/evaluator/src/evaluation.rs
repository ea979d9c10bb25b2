//! Scoring and predicting with the parameters of a checkpoint.

use std::collections::BTreeMap;

use trainyard_checkpoint::{Checkpoint, misfit};
use trainyard_diagnostic::Diagnostic;
use trainyard_input::{Dataset, Options};
use trainyard_model::{AnyModel, Prediction, Scores};

use crate::CheckpointParameters;

/// Scores a checkpoint on an input, at most `steps` batches of it. `each` is called behind every batch.
///
/// # Errors
/// The checkpoint does not fit the model, or the input cannot be read.
pub fn evaluate_checkpoint(
    model: &AnyModel,
    checkpoint: &Checkpoint,
    input: Options,
    steps: Option<u64>,
    mut each: impl FnMut(),
) -> Result<Scores, Diagnostic> {
    let parameters = open(model, checkpoint)?;
    let dataset = Dataset::open(input, model.schema().clone())?;
    let (mut metrics, mut scratch, mut values) = (model.metrics(), None, Vec::new());
    for batch in dataset.take(steps.map_or(usize::MAX, |steps| steps as usize)) {
        let features = model.features(&batch?)?;
        parameters.gather(&model.reads(&features), &mut values);
        model.evaluate(&features, &values, &mut metrics, &mut scratch)?;
        each();
    }
    Ok(model.scores(&metrics))
}

/// Predicts each record of an input, in order, and hands the predictions to `sink`. No label is read.
///
/// # Errors
/// The checkpoint does not fit the model, the input cannot be read, or the sink refuses.
pub fn predict(
    model: &AnyModel,
    checkpoint: &Checkpoint,
    input: Options,
    mut sink: impl FnMut(BTreeMap<String, Prediction>) -> Result<(), Diagnostic>,
) -> Result<u64, Diagnostic> {
    let parameters = open(model, checkpoint)?;
    let dataset = Dataset::open(input, model.serving_schema().clone())?;
    let (mut scratch, mut values, mut rows) = (None, Vec::new(), 0);
    for batch in dataset {
        let features = model.features(&batch?)?;
        parameters.gather(&model.reads(&features), &mut values);
        for prediction in model.predict(&features, &values, &mut scratch) {
            sink(prediction)?;
            rows += 1;
        }
    }
    Ok(rows)
}

fn open(model: &AnyModel, checkpoint: &Checkpoint) -> Result<CheckpointParameters, Diagnostic> {
    match misfit(checkpoint.manifest(), model.variables(), &model.optimizers()) {
        Some(problem) => Err(problem),
        None => Ok(CheckpointParameters::read(checkpoint, model.variables())?),
    }
}
