//! Trainyard as a library: what a program with a model of its own links.
//!
//! Such a program is one line: it passes [`main_with`] a function from a job to a [`Model`]. The program then has every
//! role and every command for that model. `docs/custom-models.md` shows how to write one.
//!
//! ```no_run
//! use trainyard::{Canned, main_with};
//!
//! fn main() -> std::process::ExitCode {
//!     main_with(Canned::from_job)
//! }
//! ```

pub use trainyard_chief::Report;
pub use trainyard_command::{Estimator, main_with, main_with_onnx, train_and_evaluate};
pub use trainyard_daemon::{ALLOCATOR, Allocator, LogFormat, report};
pub use trainyard_diagnostic::Diagnostic;
pub use trainyard_feature_column::{FeatureColumns, Features};
pub use trainyard_input::{Batch, Column, FieldKind, Fraction, Schema};
pub use trainyard_model::{
    AppliedStep, Callbacks, Canned, Dense, Error, ExportOnnx, GraphRow, HashedColumns, Head,
    HeadMetrics, Mode, Model, Network, NetworkBuilder, NetworkModel, OnnxModel, Outcome, Pass,
    Prediction, Scores, custom_optimizer,
};
pub use trainyard_optimizer::OptimizerConfig;
pub use trainyard_predictor::Predicted;
pub use trainyard_run_config::{FeatureConfig, Job, ParamError, Params};
/// Arithmetic on `f32` matrices, as in the premade models.
pub use trainyard_tensor as tensor;
pub use trainyard_variable::{Access, Gradients, Initializer, Read, Reads, Values, VariableSpec};
