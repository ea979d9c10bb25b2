//! Integration tests with files on disk: formats, orders, data shards, damage, and recorded results of TensorFlow.

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
