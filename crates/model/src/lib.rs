//! Models: the interface between a model and the rest of Trainyard, and the premade estimators.
//!
//! [`Model`] is the only interface between a model and the code that trains, evaluates or serves it. [`Canned`] is
//! every premade estimator: a linear part, a deep part, or both, with a head. Its pieces [`InputLayer`],
//! [`LinearModel`], [`Head`] and the metrics can also be used in custom models.

mod activation;
mod any;
mod batch_norm;
mod callbacks;
mod canned;
mod composition;
mod cross_layer;
mod dense;
mod error;
mod example_weight;
mod factorization;
mod head;
mod input_fn;
mod input_layer;
mod linear;
pub mod metric;
mod model;
mod network;
mod network_model;
mod onnx;
mod onnx_limits;
mod periodic;
mod records;
mod regularizer;
mod saved_model;
mod scores;
mod table;
mod tower;

pub use any::{
    AnyModel, Build, ErasedModel, Own, PREMADE, add_constants, any, any_of, any_with_callbacks,
    exportable_of, with_constants,
};
pub use callbacks::{AppliedStep, Callbacks};
pub use canned::{Canned, Scratch, custom_optimizer};
pub use dense::Dense;
pub use error::Error;
pub use example_weight::want_example_weight;
pub(crate) use head::NamedHead;
pub use head::{Head, HeadMetrics, Heads, LabelFields, Task};
pub use input_fn::{Part, Shard, inline_options, input_options};
pub use input_layer::InputLayer;
pub use linear::{LinearModel, VariableScope};
pub use model::{GradientHook, HookedGradients, Model, Outcome, Prediction};
pub use network::{Mode, Network, NetworkBuilder, Pass};
pub use network_model::NetworkModel;
pub use onnx::{ExportOnnx, GraphInput, GraphRow, HashedColumns, OnnxModel, Source};
pub use records::Example;
pub use regularizer::add_penalty;
pub use saved_model::{SavedModel, StoredValues};
pub use scores::Scores;
