//! Readers of the sections of a job file.

pub(crate) mod attention;
pub(crate) mod eval;
pub(crate) mod evaluation;
pub(crate) mod exporter;
pub(crate) mod feature;
pub(crate) mod initializer;
pub(crate) mod input;
mod learning_rate;
pub(crate) mod model;
mod optimizer;
pub(crate) mod parameter_servers;
pub(crate) mod publish;
pub(crate) mod regularizer;
pub(crate) mod run;
pub(crate) mod strategy;
pub(crate) mod task;
pub(crate) mod train;
