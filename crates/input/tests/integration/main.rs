//! Integration tests with files on disk: formats, orders, data shards, damage, and recorded results of TensorFlow.

use std::path::PathBuf;

mod conversion;
#[cfg(feature = "parquet")]
mod copies;
mod formats;
mod golden;
mod parquet_types;
mod pipeline;
mod request_values;
mod scan;
mod shards;
mod tfrecord;
mod writer;

/// Returns the path of a file of `testdata/`.
fn testdata(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join("testdata")
        .join(name)
}
