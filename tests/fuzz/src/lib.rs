//! Fuzz targets: one module each, with a function that takes any bytes and panics on a finding.
//!
//! `libfuzzer/` searches for inputs. `tests/replay.rs` runs the inputs of `corpus/` as an ordinary test.

pub mod checkpoint;
pub mod cluster_file;
pub mod csv;
pub mod dedupe;
pub mod framing;
pub mod increments;
pub mod job_file;
pub mod log_segment;
pub mod payload;
pub mod predictions;
pub mod reshard;
pub mod server_log;
pub mod tensor_bundle;
pub mod tf_config;
pub mod tfrecord;
pub mod wire_message;

mod numbers;
mod rows;
mod scratch;

/// A target: the name of its module and of its folder in `corpus/`, and its function.
pub type Target = (&'static str, fn(&[u8]));

/// Every target.
pub const TARGETS: &[Target] = &[
    ("checkpoint", checkpoint::run),
    ("cluster_file", cluster_file::run),
    ("csv", csv::run),
    ("dedupe", dedupe::run),
    ("framing", framing::run),
    ("increments", increments::run),
    ("job_file", job_file::run),
    ("log_segment", log_segment::run),
    ("payload", payload::run),
    ("predictions", predictions::run),
    ("reshard", reshard::run),
    ("server_log", server_log::run),
    ("tensor_bundle", tensor_bundle::run),
    ("tf_config", tf_config::run),
    ("tfrecord", tfrecord::run),
    ("wire_message", wire_message::run),
];
