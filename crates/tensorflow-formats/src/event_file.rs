//! Event files for TensorBoard: scalars, histograms and texts by step, written record by record.
//!
//! Names, framing, tags and the order of records are those of TensorFlow's Estimator, so that programs which read its
//! runs also read these. The module has no clock: times are arguments, in seconds since 1970.

mod error;
mod event;
mod histogram;
mod writer;

pub use error::Error;
pub use event::Event;
pub use histogram::Histogram;
pub use writer::EventWriter;
