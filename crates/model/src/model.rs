//! The model function (`model_fn`): the only interface between a model and the code that trains, evaluates or serves
//! it.

use std::collections::BTreeMap;
use std::fmt;

use trainyard_input::{Batch, Schema};
use trainyard_optimizer::OptimizerConfig;
use trainyard_run_config::FeatureConfig;
use trainyard_variable::{Gradients, Reads, Values, VariableSpec};

use crate::{Callbacks, Error, Scores};

/// One value of a prediction.
#[derive(Debug, Clone, PartialEq)]
pub enum Prediction {
    /// Numbers, for example `logits` or `probabilities`.
    Floats(Vec<f32>),
    /// Class numbers.
    Ints(Vec<i64>),
    /// Class names.
    Texts(Vec<String>),
}

/// Result of a training step.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Outcome {
    /// Training loss, before the update.
    pub loss: f64,
    /// Examples in the batch.
    pub examples: usize,
}

/// Hook that receives the number of a variable and its final gradient.
pub type GradientHook<'a> = dyn FnMut(usize, &[f32]) + Send + 'a;

/// Gradients to compute, and the hook that receives each of them as soon as it is final.
pub struct HookedGradients<'a> {
    /// The gradient of each variable.
    pub gradients: &'a mut Gradients,
    /// The hook.
    pub hook: &'a mut GradientHook<'a>,
}

impl fmt::Debug for HookedGradients<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("HookedGradients")
            .field("gradients", &self.gradients)
            .finish_non_exhaustive()
    }
}

/// A model. The premade estimators use this interface alone, so a custom model has the same capabilities.
///
/// Data flows one way: [`Model::features`] runs on an input thread, [`Model::reads`] names the parameters, then
/// [`Model::train`], [`Model::evaluate`] or [`Model::predict`] see features and parameters together.
pub trait Model: Send + Sync + 'static {
    /// A batch after feature processing: hashed, bucketed, deduplicated.
    type Features: Send + 'static;
    /// Buffers that are reused from step to step, so that a step allocates nothing per row.
    type Scratch: Send + Default;
    /// Running sums of the metrics of one evaluation.
    type Metrics: Send;

    /// Returns the variables. Indices of variables refer to this order.
    fn variables(&self) -> &[VariableSpec];

    /// Returns the update rule of each optimizer group that the variables name.
    fn optimizers(&self) -> BTreeMap<String, OptimizerConfig>;

    /// Returns the columns to read from each training or evaluation record, with label and weight.
    fn schema(&self) -> &Schema;

    /// Returns the columns to read from each record to predict: the schema without the label.
    fn serving_schema(&self) -> &Schema;

    /// Prepares a batch of [`Model::schema`] (with labels) or [`Model::serving_schema`] (without labels).
    ///
    /// # Errors
    /// A value cannot be used. The error names its column.
    fn features(&self, batch: &Batch) -> Result<Self::Features, Error>;

    /// Returns the parameters that a step over these features reads, one entry per variable.
    fn reads(&self, features: &Self::Features) -> Reads;

    /// Computes the loss, and the gradient of each variable into `gradients`, laid out like `values`.
    ///
    /// # Errors
    /// The features hold no label.
    fn train(
        &self,
        features: &Self::Features,
        values: &Values,
        gradients: &mut Gradients,
        scratch: &mut Self::Scratch,
    ) -> Result<Outcome, Error>;

    /// Trains as [`Model::train`], and calls the hook for a variable as soon as its gradient is final, so that the
    /// gradient can be sent while the others are computed. An implementation may report only some variables, and the
    /// default reports none. The caller takes the other gradients at the end.
    ///
    /// # Errors
    /// As [`Model::train`].
    fn train_hooked(
        &self,
        features: &Self::Features,
        values: &Values,
        hooked: &mut HookedGradients<'_>,
        scratch: &mut Self::Scratch,
    ) -> Result<Outcome, Error> {
        self.train(features, values, hooked.gradients, scratch)
    }

    /// Returns empty metrics.
    fn metrics(&self) -> Self::Metrics;

    /// Adds a batch to the metrics.
    ///
    /// # Errors
    /// The features hold no label.
    fn evaluate(
        &self,
        features: &Self::Features,
        values: &Values,
        metrics: &mut Self::Metrics,
        scratch: &mut Self::Scratch,
    ) -> Result<(), Error>;

    /// Returns the values of the metrics so far, `loss` among them. Before the first batch it returns all names, or nothing if
    /// the model does not know them yet.
    fn scores(&self, metrics: &Self::Metrics) -> Scores;

    /// Returns the predictions of each row, by TensorFlow's keys.
    ///
    /// # Errors
    /// The code of a custom model fails.
    fn predict(
        &self,
        features: &Self::Features,
        values: &Values,
        scratch: &mut Self::Scratch,
    ) -> Result<Vec<BTreeMap<String, Prediction>>, Error>;

    /// Returns a description of the model for an exported signature, from which other programs can rebuild the model.
    /// An object gets the key `features` with [`Model::described_features`].
    fn describe(&self) -> serde_json::Value;

    /// Returns the features in the description. They are apart from it, because vocabularies would take many times their
    /// memory as a [`serde_json::Value`]. By default there are none.
    fn described_features(&self) -> &[FeatureConfig] {
        &[]
    }

    /// Returns the values that the model's code makes and no key of the job sets, by name, each with its type and a digest:
    /// processes of a job compare them. By default there are none.
    fn constants(&self) -> BTreeMap<String, String> {
        BTreeMap::new()
    }

    /// Returns the callbacks that receive the events of the run. By default there are none.
    fn callbacks(&self) -> Option<&dyn Callbacks> {
        None
    }
}
