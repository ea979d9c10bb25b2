//! Predictions with trained parameters, for files and for requests.
//!
//! [`Predictor`] is the only way from a batch to predictions, so that a request and a line of `trainyard predict` with
//! the same values have equal answers, to the bit. It holds the parameters in memory, does not change, and serves any
//! number of threads.

mod array;
mod file_predictions;
mod parameters;
mod predictor;
mod room;

pub use file_predictions::{Predicted, predict};
pub use parameters::{ALL_IDS, Gathered, Parameters};
pub use predictor::{Predictor, Workspace, nonfinite};
pub use room::check_room;
