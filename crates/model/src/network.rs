//! A network: the part of a custom model between its input and its logits, with gradients by hand or by autodiff.

use trainyard_input::Position;
use trainyard_run_config::{FeatureConfig, Job};
use trainyard_variable::{Access, Gradients, Initializer, Values, VariableSpec};

use crate::{Error, InputLayer};

/// Optimizer group of the variables and tables of a network.
pub(crate) const GROUP: &str = "network";

/// A network from the numbers of a row to its logits. [`crate::NetworkModel`] makes a [`crate::Model`] of it: it reads the
/// job's features, looks embeddings up, and has loss, metrics and predictions of the job's label.
pub trait Network: Send + Sync + Sized + 'static {
    /// The values that a forward pass keeps for its backward pass.
    type Activations: Send + Default;

    /// Builds the network. Every process of a job does so, and some do more than once.
    ///
    /// # Errors
    /// The job describes a network that cannot be built.
    fn build(job: &Job, builder: &mut NetworkBuilder) -> Result<Self, Error>;

    /// Returns the features of a row, in their order; by default those of the job. Numbers take their width, an
    /// embedding its dimension, an indicator the number of ids.
    fn features(job: &Job) -> Vec<FeatureConfig> {
        job.features.clone()
    }

    /// Returns the logits, `rows x units`.
    fn forward(&self, pass: &Pass<'_>, activations: &mut Self::Activations) -> Vec<f32>;

    /// Writes the gradients of the variables, and returns the gradient of the input, `rows x width`. It may be empty
    /// unless [`NetworkBuilder::has_embeddings`]. `of_logits` is the gradient of the logits that the forward pass of
    /// this batch has returned. The gradients are 0 before.
    fn backward(
        &self,
        pass: &Pass<'_>,
        activations: &mut Self::Activations,
        of_logits: &[f32],
        gradients: &mut Gradients,
    ) -> Vec<f32>;
}

/// The purpose of a pass (`tf.estimator.ModeKeys`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// A backward pass follows.
    Train,
    /// Evaluation or prediction.
    Infer,
}

/// A batch on its way through a network.
#[derive(Debug, Clone, Copy)]
pub struct Pass<'a> {
    /// Number of rows.
    pub rows: usize,
    /// `rows x width`, row-major: the features of each row.
    pub input: &'a [f32],
    /// Values of the variables, by the indices that [`NetworkBuilder::add`] has returned.
    pub values: &'a Values,
    /// The purpose.
    pub mode: Mode,
    /// Position of the batch in the input, by which random numbers of training can be seeded.
    pub position: Position,
}

/// Collects the variables of a network, and knows its ends.
#[derive(Debug)]
pub struct NetworkBuilder {
    width: usize,
    units: usize,
    has_embeddings: bool,
    variables: Vec<VariableSpec>,
}

impl NetworkBuilder {
    /// Begins a network over an input, whose tables are the first variables.
    pub(crate) fn new(input: &InputLayer, units: usize, tables: Vec<VariableSpec>) -> Self {
        Self {
            width: input.width(),
            units,
            has_embeddings: !input.learned().is_empty(),
            variables: tables,
        }
    }

    /// Returns whether the input has embeddings that are trained, so that the gradient of the input is needed.
    pub fn has_embeddings(&self) -> bool {
        self.has_embeddings
    }

    /// Returns the number of values of a row of the input.
    pub fn width(&self) -> usize {
        self.width
    }

    /// Returns the number of logits of a row: 1 for two classes and for regression of one value.
    pub fn units(&self) -> usize {
        self.units
    }

    /// Adds a variable, and returns its index among values and gradients. The optimizer of `[model.optimizer]` updates
    /// it. Each process of a job computes the same initial values.
    pub fn add(&mut self, name: &str, shape: &[usize], initializer: Initializer) -> usize {
        self.variables.push(VariableSpec {
            name: name.to_owned(),
            shape: shape.to_vec(),
            access: Access::Whole,
            initializer,
            optimizer_group: GROUP.to_owned(),
        });
        self.variables.len() - 1
    }

    pub(crate) fn into_variables(self) -> Vec<VariableSpec> {
        self.variables
    }
}
