//! Update rules: pure arithmetic on slices of values, slots and gradients.
//!
//! A rule is a formula and the slots it needs; where the values live, and who may change them, is the parameter
//! store's business. Formulas are TensorFlow's (`tensorflow/core/kernels/training_ops.cc`), in single precision.

mod adagrad;
mod adam;
mod config;
mod ftrl;
mod sgd;

pub use config::{Error, OptimizerConfig, Slot};
