//! The sender of a request, the id of a step, and the id of a batch.

use std::fmt;

use trainyard_cluster_spec::Task;

/// The sender of a request. Every request that changes something carries it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Identity {
    /// Cluster id, drawn once per model directory.
    pub cluster_id: u128,
    /// Term of the chief, from 1.
    pub epoch: u64,
    /// Task that sends the request.
    pub task: Task,
    /// Random number of a process start.
    pub incarnation: u64,
    /// Session number, granted by the chief and strictly increasing per task; 0 for the chief's control calls.
    pub session: u64,
}

impl Identity {
    /// Returns the id of a step of the sender's session.
    pub fn step(&self, seq: u64) -> StepId {
        StepId {
            task: self.task,
            session: self.session,
            seq,
        }
    }
}

/// A step of a session: a ticket is for a step, and a push uses its sequence number up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct StepId {
    /// Task of the session.
    pub task: Task,
    /// Number of the session.
    pub session: u64,
    /// Sequence number per session and server, from 1; 0 for requests that are not counted.
    pub seq: u64,
}

/// A batch of training data. The same batch has the same id, whichever worker computes it and however often.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BatchId {
    /// Pass that its first record belongs to.
    pub pass: u64,
    /// Data shard.
    pub shard: u64,
    /// Number of the batch in its shard, from 0.
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
