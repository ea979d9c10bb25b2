//! Reasons for which the store refuses a request. A refused request has applied nothing.

use trainyard_cluster_spec::Task;

use crate::{BatchId, Held};

/// The reason why a request was refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// A newer chief has claimed this ps.
    #[error("cluster_epoch must be at least {current}, given {given}")]
    StaleEpoch {
        /// Term of the server.
        current: u64,
        /// Term of the request.
        given: u64,
    },
    /// The task has a newer session, or this one was closed.
    #[error("session {given} of {task} is over{}", newer(*current, *given))]
    Fenced {
        /// The task.
        task: Task,
        /// Latest session of the task on this server; 0 = none.
        current: u64,
        /// Session of the request.
        given: u64,
    },
    /// The store has no variables yet, or does not admit workers.
    #[error("the ps is not open for training yet: {0}")]
    NotReady(&'static str),
    /// The sequence number lies beyond the window.
    #[error("seq must be at most {most}, given {given}")]
    SequenceGap {
        /// Highest number that is accepted.
        most: u64,
        /// Number of the request.
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
    /// The reply would not fit a message.
    #[error("an answer holds at most {max} values, these reads ask for {given}")]
    TooLarge {
        /// Requested values.
        given: usize,
        /// Most values of a reply.
        max: usize,
    },
    /// The request would exceed the memory budget.
    #[error(
        "the ps may hold {max} bytes ({bound}) and holds {}: {held}; {asked} more are needed for {what}: at least {} times as many servers, or as much memory, would do",
        held.total(),
        held.total().saturating_add(*asked).div_ceil((*max).max(1))
    )]
    NoRoom {
        /// Most bytes that may be held.
        max: u64,
        /// The setting or limit that gives the bound.
        bound: String,
        /// Bytes held.
        held: Held,
        /// Requested bytes.
        asked: u64,
        /// Purpose of the requested bytes.
        what: &'static str,
    },
    /// A gradient holds NaN or infinity, and the job halts on such values.
    #[error("gradients must be finite: of {task} in batch {batch}, {what}")]
    NotFinite {
        /// Task that pushed.
        task: Task,
        /// Batch of the push.
        batch: BatchId,
        /// The value and its variable.
        what: String,
    },
    /// The push has no selection, and that of its pull is unknown because the store was restored since.
    #[error("what the pull of seq {seq} has named is not known here: the push must name it")]
    Forgotten {
        /// The sequence number.
        seq: u64,
    },
    /// The step was pushed without a ticket.
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
    /// The values to restore could not be read.
    #[error("cannot restore: {0}")]
    Restore(String),
}

/// Returns a note that names a newer session of the task, if there is one.
fn newer(current: u64, given: u64) -> String {
    if current > given {
        format!("; its latest one is {current}")
    } else {
        String::new()
    }
}
