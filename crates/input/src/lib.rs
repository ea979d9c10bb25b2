//! Input pipelines: from files to batches of columns, on threads of their own.
//!
//! files -> records -> shard -> shuffle -> repeat -> batch -> prefetch, with the meaning that `tf.data` gives each
//! step. The same options give the same batches, so a batch is known by its [`Position`] alone.

mod batch;
mod block;
mod cells;
mod compression;
mod dataset;
mod dead_letter;
mod delimiter;
mod error;
mod example;
mod lines;
mod number;
mod options;
mod parser;
mod prefetch;
mod quoted;
mod record;
mod schema;
mod shuffle;
mod source;
mod text;
mod tfrecord;
mod wire;

pub use batch::{Batch, Bytes, Cells, Column, Position};
pub use compression::Compression;
pub use dataset::{Dataset, Statistics, check};
pub use error::{BadRow, Error};
pub use options::{BadRows, Format, Options, Sharding};
pub use prefetch::{Prefetch, PrefetchError};
pub use schema::{Field, FieldKind, Schema};
