//! Trainyard as a library and as the operator's command.
//!
//! A program with a model of its own is one line: it passes [`main_with`] a function from a job to a [`Model`]. The
//! program then has every role and every command for that model. `docs/custom-models.md` shows how to write one.
//!
//! ```no_run
//! use trainyard::{Canned, main_with};
//!
//! fn main() -> std::process::ExitCode {
//!     main_with(Canned::from_job)
//! }
//! ```

mod admin_client;
mod arguments;
mod bench;
mod check;
mod command;
mod convert;
mod data_sample;
mod data_warnings;
mod datagen;
mod deploy;
mod evaluate;
mod export;
mod folder;
mod import_tf;
mod init;
mod inspect;
mod output;
mod pki;
mod predict;
mod progress;
mod run;
mod scale;
mod stats;
mod status;
mod train;
mod trained_values;
mod transform;
mod up;

pub use command::main_with;
pub use trainyard_daemon::{ALLOCATOR, Allocator};
pub use trainyard_feature_column::{FeatureColumns, Features};
pub use trainyard_input::{Batch, Column, FieldKind, Schema};
pub use trainyard_model::{
    Canned, Error, GraphRow, HashedColumns, Head, HeadMetrics, Model, OnnxModel, Outcome,
    Prediction, Scores, custom_optimizer,
};
pub use trainyard_optimizer::OptimizerConfig;
pub use trainyard_run_config::{FeatureConfig, Job};
/// Arithmetic on `f32` matrices, as in the premade models.
pub use trainyard_tensor as tensor;
pub use trainyard_variable::{Access, Gradients, Initializer, Read, Reads, Values, VariableSpec};
