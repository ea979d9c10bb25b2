//! The job file: `RunConfig`, `TrainSpec`, `EvalSpec`, input, features, model and strategy of one training run.
//!
//! A file becomes a [`Job`] only when everything in it holds; otherwise every mistake is reported at once, each
//! with its line, the rule it breaks and the nearest name that would have been right.

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
pub use files::{expand_files, resolve_files, resolve_path};
pub use foreign_names::{FOREIGN_NAMES, ForeignName};
pub use job::*;
pub use model::*;
