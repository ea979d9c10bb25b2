//! Models: what they compute for a batch, and the premade estimators.
//!
//! [`Model`] is the one interface between a model and everything that trains, scores or serves it. [`Canned`] is
//! every premade estimator: a linear part, a deep part or both, under a head.

mod canned;
mod dnn;
mod error;
mod head;
mod input_fn;
mod linear;
mod metric;
mod model;

pub use canned::{Canned, Example, Scratch, custom_optimizer};
pub use error::Error;
pub use head::{Head, HeadMetrics};
pub use input_fn::{Part, Shard, input_options};
pub use metric::{Auc, ExactAuc};
pub use model::{Model, Outcome, Prediction, Scores};
