//! The trait that the user of the adapter implements.

use burn::module::Module;
use burn::tensor::{Device, Tensor};
use trainyard_model::Error;
use trainyard_run_config::{FeatureConfig, Job};
use trainyard_variable::Initializer;

/// A network: a burn module, and how it goes from numbers to logits.
///
/// Loss, metrics and predictions are those of the job's label: softmax or sigmoid cross entropy for
/// `kind = "custom_classifier"`, the mean squared error for `kind = "custom_regressor"`.
///
/// Every task of a cluster builds the module, and all that goes from one to another is its parameters. So a layer that
/// keeps values of its own beside them (`BatchNorm`) is refused; `LayerNorm` and `GroupNorm` are not. Parameters that need
/// no gradient stay as they are built, and have to be built the same everywhere.
pub trait BurnNet: Module + Sync + 'static {
    /// Builds the module on a device. It is called more than once.
    ///
    /// # Errors
    /// The job describes a network that cannot be built.
    fn build(job: &Job, device: &Device) -> Result<Self, Error>;

    /// Returns the features whose values are a row of the input, in that order; the job's by default. A feature with
    /// `deep = { embedding = 16 }` is a vector of 16 values from a table on the parameter servers.
    fn features(job: &Job) -> Vec<FeatureConfig> {
        job.features.clone()
    }

    /// Computes the logits, `[rows, units]`, of an input of `[rows, width]`. Units are 1 for two classes and for
    /// regression, else the number of classes.
    fn forward(&self, input: Tensor<2>) -> Tensor<2>;

    /// Returns the first values of a parameter, such as `conv1/weight`; `None` (the default) leaves the choice to the
    /// adapter. burn's own random first values are never used, because every task has to begin with the same: a
    /// parameter that burn fills with one constant keeps it (bias 0, norm 1), any other random one becomes Glorot
    /// uniform, or 0 where it is a vector.
    fn initializer(name: &str, shape: &[usize]) -> Option<Initializer> {
        let _ = (name, shape);
        None
    }
}
