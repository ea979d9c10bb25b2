//! Models: what they compute for a batch, and the premade estimators.

mod error;
mod model;

pub use error::Error;

pub use model::{Model, Outcome, Prediction, Scores};
