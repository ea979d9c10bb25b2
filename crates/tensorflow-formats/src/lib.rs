//! TensorFlow's file formats, without TensorFlow: TFRecord files, the event files of TensorBoard, V2 checkpoints, and
//! SavedModels.
//!
//! The crate exists so that files of TensorFlow's programs can be read, and its programs read ours. The messages in
//! these files are generated from the definitions in `proto/tensorflow` and committed; `tests/generated.rs` generates
//! them again.

pub mod event_file;
pub mod saved_model;
pub mod tensor_bundle;
pub mod tfrecord;

/// Generated messages of package `tensorflow`, limited to the fields that are read or written.
#[allow(missing_docs, unreachable_pub, clippy::all)]
pub mod generated {
    include!("generated/tensorflow.rs");
}
