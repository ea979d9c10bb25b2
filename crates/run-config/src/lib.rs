//! The job file: `RunConfig`, `TrainSpec`, `EvalSpec`, input, features, model and strategy of one training run.

mod job;

pub use job::*;
