//! Predictor: a model with trained parameters.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use trainyard_checkpoint::{Checkpoint, Origin};
use trainyard_diagnostic::{Code, Diagnostic};
use trainyard_input::Batch;
use trainyard_model::{AnyModel, Own, Prediction};
use trainyard_variable::Access;

use crate::{Gathered, Parameters};

/// A model with trained parameters, which predicts batches. It does not change, and threads share it.
pub struct Predictor {
    model: Arc<AnyModel>,
    parameters: Parameters,
}

impl fmt::Debug for Predictor {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Predictor")
            .field("variables", &self.model.variables().len())
            .finish_non_exhaustive()
    }
}

/// Buffers of a thread that predicts. They are reused from batch to batch.
#[derive(Default)]
pub struct Workspace {
    gathered: Gathered,
    scratch: Option<Own>,
}

impl fmt::Debug for Workspace {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Workspace").finish_non_exhaustive()
    }
}

impl Predictor {
    /// Reads all parameters of a model from a checkpoint, an export, or files of other programs. Compares all checksums of a
    /// checkpoint, and of an export those of the variables that every batch reads: its tables are mapped, and
    /// [`trainyard_checkpoint::TensorFiles::verify`] compares theirs.
    ///
    /// # Errors
    /// The parameters belong to another model, are damaged, or cannot be read.
    pub fn open(origin: &Origin, model: Arc<AnyModel>) -> Result<Self, Diagnostic> {
        let parameters = Parameters::read(origin, &*model)?;
        match origin {
            Origin::Own(checkpoint) => drop(checkpoint.check_read()?),
            Origin::Tensors(files) => {
                let variables = model.variables().iter();
                for spec in variables.filter(|spec| spec.access == Access::Whole) {
                    files.verify(&spec.name)?;
                }
            }
            Origin::TensorFlow(_) => {}
        }
        Ok(Self { model, parameters })
    }

    /// Returns the predictor after a published increment, whose checksums are compared. This predictor does not change, and
    /// the two share what is equal.
    ///
    /// # Errors
    /// The increment belongs to another model, is damaged, or cannot be read.
    pub fn after(&self, increment: &Checkpoint) -> Result<Self, Diagnostic> {
        let parameters = self.parameters.after(increment, &*self.model)?;
        increment.check_read()?;
        Ok(Self {
            model: Arc::clone(&self.model),
            parameters,
        })
    }

    /// Returns the model.
    pub fn model(&self) -> &AnyModel {
        &*self.model
    }

    /// Predicts each row of a batch of the model's serving schema. A row has the same predictions, to the bit, in any
    /// batch.
    ///
    /// # Errors
    /// A value cannot be used, and the error names its column; or a custom model has predicted too few rows.
    pub fn predict(
        &self,
        batch: &Batch,
        workspace: &mut Workspace,
    ) -> Result<Vec<BTreeMap<String, Prediction>>, Diagnostic> {
        if batch.rows == 0 {
            return Ok(Vec::new());
        }
        let Workspace { gathered, scratch } = workspace;
        let features = self.model.features(batch)?;
        let reads = self.model.reads(&features);
        self.parameters.gather(&reads, gathered);
        let predictions = self.model.predict(&features, gathered.values(), scratch)?;
        let rows = batch.rows;
        if predictions.len() == rows {
            return Ok(predictions);
        }
        let given = predictions.len();
        let message = format!(
            "the model's `predict` must give {rows} predictions for a batch of {rows} records, gave {given}"
        );
        Err(Diagnostic::error(Code::E9001, message).help("correct Model::predict of the model"))
    }
}

/// Returns why a prediction is none, if a number of it is not finite: the parameters of the model are not, or values of the record
/// are so large that a sum of theirs is not.
pub fn nonfinite(prediction: &BTreeMap<String, Prediction>) -> Option<String> {
    prediction.iter().find_map(|(key, values)| match values {
        Prediction::Floats(values) => {
            let value = values.iter().find(|value| !value.is_finite())?;
            Some(format!("the prediction is not finite: `{key}` is {value}"))
        }
        Prediction::Ints(_) | Prediction::Texts(_) => None,
    })
}
