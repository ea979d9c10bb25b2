//! The job file: `RunConfig`, `TrainSpec`, `EvalSpec`, input, features, model and strategy of one training run.
//!
//! A file becomes a [`Job`] only if all of it is valid. Otherwise all mistakes are reported together, each with its
//! line, the rule that it breaks, and the nearest valid name.

mod agreement;
mod as_run;
mod durability;
mod elastic;
mod feature;
mod files;
mod foreign_names;
mod job;
mod local_dir;
mod model;
mod reader;
mod section;

pub use agreement::Agreement;
pub use feature::*;
pub use files::{Ambiguous, ambiguous_files, expand_files, resolve_files, resolve_path};
pub use foreign_names::{FOREIGN_NAMES, ForeignName};
pub use job::*;
pub use model::*;
pub use trainyard_input_options::{BadRows, Compression, Format, IndexBase, Sharding};
pub use trainyard_optimizer::{Guard, Nonfinite, Update};
pub use trainyard_tensor::Encoding;
pub use trainyard_variable::{Partitioner, Placement};
pub use trainyard_write_ahead_log::Durability;
