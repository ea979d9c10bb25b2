//! Files on a real disk, as batches: formats, orders, data shards, damage, and TensorFlow's records of all of it.

mod conversion;
mod formats;
mod golden;
mod pipeline;
mod scan;
mod shards;
mod tfrecord;
mod writer;
