//! Event files as TensorBoard reads them: scalars, histograms and texts by step, written record by record.
//!
//! Names, framing, tags and the order of records are those of TensorFlow's Estimator, so that whatever reads its runs reads
//! ours. Nothing here has a clock: times are given, in seconds since 1970.

mod error;
mod event;
mod histogram;
mod message;
mod writer;

pub use error::Error;
pub use event::Event;
pub use histogram::Histogram;
pub use writer::EventWriter;
