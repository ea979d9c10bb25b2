//! How many slices a variable is cut into.

use serde::{Deserialize, Serialize};

/// A rule that cuts variables into slices along axis 0 (`tf.distribute.experimental.partitioners`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Partitioner {
    /// `FixedShardsPartitioner`.
    Fixed {
        /// Slices of every variable, at most its rows.
        num_shards: usize,
    },
    /// `MinSizePartitioner`: as many slices as keep each at `min_shard_bytes` or more.
    MinSize {
        /// Least bytes of a slice.
        min_shard_bytes: usize,
        /// Most slices.
        max_shards: usize,
    },
    /// `MaxSizePartitioner`: as few slices as keep each at `max_shard_bytes` or less.
    MaxSize {
        /// Most bytes of a slice.
        max_shard_bytes: usize,
        /// Most slices; none = no bound.
        max_shards: Option<usize>,
    },
}
