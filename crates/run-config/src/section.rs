//! One reader per section of a job file.

pub(crate) mod feature;
pub(crate) mod input;
pub(crate) mod model;
pub(crate) mod run;
pub(crate) mod strategy;
pub(crate) mod train;
