//! Who asks, and for which batch.

use std::fmt;

use trainyard_cluster_spec::Task;

/// Carried by every request that changes something.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Identity {
    /// Minted once per model directory.
    pub cluster_id: u128,
    /// Incarnation of the chief, from 1.
    pub epoch: u64,
    /// The asking task.
    pub task: Task,
    /// Random per process start.
    pub incarnation: u64,
    /// Granted by the chief per task, strictly increasing; 0 for the chief's control calls.
    pub session: u64,
    /// Per session and ps, from 1; 0 where nothing is counted.
    pub seq: u64,
}

/// A batch of training data: the same batch has the same id whoever computes it, and however often.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BatchId {
    /// Pass over the data that its first record belongs to.
    pub pass: u64,
    /// Data shard.
    pub shard: u64,
    /// Running number in the shard, from 0.
    pub batch: u64,
}

impl fmt::Display for BatchId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            formatter,
            "pass {}/shard {}/{}",
            self.pass, self.shard, self.batch
        )
    }
}
