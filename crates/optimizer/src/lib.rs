//! Update rules: pure arithmetic on slices of values, slots and gradients.
//!
//! A rule is a formula and the slots that it needs. The parameter store decides where the values live and which updates
//! are applied. Formulas are TensorFlow's (`tensorflow/core/kernels/training_ops.cc`), in single precision.

mod adadelta;
mod adagrad;
mod adagrad_da;
mod adam;
mod clipping;
mod config;
mod error;
mod ftrl;
mod guard;
mod learning_rate;
mod momentum;
mod proximal;
mod rmsprop;
mod rule;
mod sgd;
mod update;
mod vectorize;

pub use adadelta::Adadelta;
pub use adagrad::Adagrad;
pub use adagrad_da::AdagradDa;
pub use adam::Adam;
pub use clipping::Clipping;
pub use config::OptimizerConfig;
pub use error::Error;
pub use ftrl::Ftrl;
pub use guard::{Guard, Nonfinite};
pub use learning_rate::{LearningRate, Schedule};
pub use momentum::Momentum;
pub use proximal::{ProximalAdagrad, ProximalSgd};
pub use rmsprop::{KerasRmsProp, RmsProp};
pub use rule::{RowGradient, SLOTS_MAX, Slot};
pub use sgd::Sgd;
pub use update::Update;
