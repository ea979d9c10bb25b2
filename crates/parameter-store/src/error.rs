//! Why the store refuses a request. A refused request has changed nothing.

use trainyard_cluster_spec::Task;

use crate::{BatchId, Held};

/// A refusal.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// A newer chief has claimed this ps.
    #[error("cluster_epoch must be at least {current}, given {given}")]
    StaleEpoch {
        /// Epoch of the ps.
        current: u64,
        /// Epoch of the request.
        given: u64,
    },
    /// The task has a newer session, or this one was closed.
    #[error("session {given} of {task} is over{}", newer(*current, *given))]
    Fenced {
        /// The task.
        task: Task,
        /// Its latest session here; 0 = none.
        current: u64,
        /// Session of the request.
        given: u64,
    },
    /// The store has no variables yet, or lets nobody in.
    #[error("the ps is not open for training yet: {0}")]
    NotReady(&'static str),
    /// A sequence number beyond the window.
    #[error("seq must be at most {most}, given {given}")]
    SequenceGap {
        /// Highest number that would be taken.
        most: u64,
        /// The number given.
        given: u64,
    },
    /// The peer computed another layout.
    #[error(
        "layout fingerprint must be {current:016x}, given {given:016x}: the tasks run different job files or clusters"
    )]
    OtherLayout {
        /// Fingerprint of the prepared layout.
        current: u64,
        /// Fingerprint of the request.
        given: u64,
    },
    /// The peer belongs to another cluster.
    #[error("the ps belongs to cluster {current:032x}, the request to cluster {given:032x}")]
    OtherCluster {
        /// Cluster of the ps.
        current: u128,
        /// Cluster of the request.
        given: u128,
    },
    /// The request does not fit the slices it names.
    #[error("{0}")]
    BadRequest(String),
    /// The answer would not fit a message.
    #[error("an answer holds at most {max} values, these reads ask for {given}")]
    TooLarge {
        /// Values asked for.
        given: usize,
        /// Most values of an answer.
        max: usize,
    },
    /// The store may not hold as much.
    #[error(
        "the ps may hold {max} bytes ({bound}) and holds {}: {held}; {asked} more are needed for {what}: {} times as many servers, or as much memory, would do",
        held.total(),
        held.total().saturating_add(*asked).div_ceil((*max).max(1))
    )]
    NoRoom {
        /// Most bytes.
        max: u64,
        /// What says so.
        bound: &'static str,
        /// Bytes held.
        held: Held,
        /// Bytes that were asked for.
        asked: u64,
        /// What they are for.
        what: &'static str,
    },
    /// A gradient holds NaN or infinity, and the job is to halt.
    #[error("gradients must be finite: of {task} in batch {batch}, {what}")]
    NotFinite {
        /// Whose push it is.
        task: Task,
        /// Its batch.
        batch: BatchId,
        /// Which value of which variable it is.
        what: String,
    },
    /// A push names nothing, and what its pull named is not known here: the store was brought back since.
    #[error("what the pull of seq {seq} has named is not known here: the push must name it")]
    Forgotten {
        /// The sequence number.
        seq: u64,
    },
    /// The step was pushed without the right to.
    #[error("step of {task} seq {seq} has no ticket: the last step has been applied or given away")]
    NoTicket {
        /// The task.
        task: Task,
        /// Its sequence number.
        seq: u64,
    },
    /// The job has ended.
    #[error("the job has ended")]
    Ended,
    /// Values to restore from could not be read.
    #[error("cannot restore: {0}")]
    Restore(String),
}

/// Says that a task has joined again, where it has.
fn newer(current: u64, given: u64) -> String {
    if current > given {
        format!("; its latest one is {current}")
    } else {
        String::new()
    }
}
