//! Predictions of the records of files, in order.

use std::collections::BTreeMap;
use std::ops::ControlFlow;

use trainyard_diagnostic::Diagnostic;
use trainyard_input::{BadRow, Batch, Cell, Options, Scan, Scanned};
use trainyard_model::Prediction;

use crate::{Predictor, Workspace};

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
    predictor: &Predictor,
    input: Options,
    kept: Vec<String>,
    mut sink: impl FnMut(Predicted) -> Result<ControlFlow<()>, Diagnostic>,
) -> Result<(), Diagnostic> {
    let mut scan = Scan::open(input, predictor.model().serving_schema().clone(), kept)?;
    let mut batch = Batch::default();
    let mut records = Vec::new();
    let mut workspace = Workspace::default();
    while scan.read(&mut batch, &mut records)? {
        let mut predictions = predictor.predict(&batch, &mut workspace)?.into_iter();
        for Scanned { kept, bad } in records.drain(..) {
            let outcome = match bad {
                Some(bad) => Err(bad),
                None => Ok(predictions
                    .next()
                    .expect("each row of the batch is a record that is not bad")),
            };
            if sink(Predicted { kept, outcome })?.is_break() {
                return Ok(());
            }
        }
    }
    Ok(())
}
