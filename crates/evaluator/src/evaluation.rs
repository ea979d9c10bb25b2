//! Evaluation with the parameters of a model.

use std::ops::ControlFlow;

use trainyard_diagnostic::Diagnostic;
use trainyard_input::{Dataset, Options};
use trainyard_model::{AnyModel, Scores};
use trainyard_predictor::{Gathered, Parameters};

/// Evaluates parameters on at most `steps` batches of an input. Calls `each` after every batch. Returns `None` if `each`
/// breaks.
///
/// # Errors
/// The input cannot be read.
pub fn evaluate(
    model: &AnyModel,
    parameters: &Parameters,
    input: Options,
    steps: Option<u64>,
    mut each: impl FnMut() -> ControlFlow<()>,
) -> Result<Option<Scores>, Diagnostic> {
    let dataset = Dataset::open(input, model.schema().clone())?;
    let mut metrics = model.metrics();
    let mut scratch = None;
    let mut gathered = Gathered::default();
    for batch in dataset.take(steps.map_or(usize::MAX, |steps| steps as usize)) {
        let features = model.features(&batch?)?;
        parameters.gather(&model.reads(&features), &mut gathered);
        model.evaluate(&features, gathered.values(), &mut metrics, &mut scratch)?;
        if each().is_break() {
            return Ok(None);
        }
    }
    Ok(Some(model.scores(&metrics)))
}
