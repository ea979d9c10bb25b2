//! The journal: the ordered changes from which a store can be restored.
//!
//! The store has no files. It reports each change to a [`Journal`] under the lock that orders the change, and its
//! metadata at the instants from which a log may begin. Replaying the changes in that order, on a store with that
//! metadata, restores the same store.

use std::fmt::Debug;
use std::sync::Arc;

use trainyard_cluster_spec::Task;

use crate::{BatchId, MicroBatch, Push, RejectedPush, Selection, ShardPosition, StepId, Written};

/// Appends a prepared record, with the version that the change led to. It is called under a lock and must not wait.
pub type AppendRecord = Box<dyn FnOnce(u64) + Send>;

/// Receives the changes of a store. A server acknowledges a change only after its record is safe.
pub trait Journal: Debug + Send + Sync {
    /// Prepares the record of a change. For a push it is called before the lock that orders changes is taken.
    fn prepare_record(&self, change: &Change) -> AppendRecord;

    /// Begins a new log: the store has been prepared and keeps nothing from before. `prepared_epoch` identifies its new
    /// values.
    fn begin(&self, prepared_epoch: u64, metadata: StoreMetadata);

    /// Marks the instant of a snapshot: a new part of the log begins here. It is called under a lock and must not wait.
    fn cut(&self, purpose: CutPurpose, metadata: StoreMetadata);
}

/// Purpose of a snapshot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CutPurpose {
    /// A checkpoint.
    Checkpoint,
    /// The log: its former part is not needed once the snapshot is written.
    Log,
}

/// A change of the store.
#[derive(Debug)]
pub enum Change {
    /// A chief claimed the store for a term.
    Claim {
        /// The term.
        epoch: u64,
    },
    /// The store was opened to workers.
    Open,
    /// The job has ended.
    Finish,
    /// A session was opened, whose sequence numbers begin after this one.
    OpenSession(StepId),
    /// The sessions of a task were closed, up to this one.
    CloseSession {
        /// The task.
        task: Task,
        /// The session.
        session: u64,
    },
    /// A ticket was requested, whether it was granted or not.
    Reserve(StepId),
    /// A ticket was granted for a batch that other servers have applied: it holds even beyond the last step.
    ReserveBeyond(StepId),
    /// A push used up its sequence number, returned its ticket and changed nothing else.
    Use(StepId),
    /// A task is idle: it requests nothing for now.
    Rest {
        /// The task.
        task: Task,
    },
    /// A push was applied, or added to a synchronous step.
    Push(PushRecord<Written>),
}

/// A push, with all that replay needs.
#[derive(Debug)]
pub struct PushRecord<G> {
    /// Task that pushed.
    pub task: Task,
    /// Its session.
    pub session: u64,
    /// Seconds of training.
    pub secs: u64,
    /// The push with its selection. A push with rejected values has an empty selection and no values.
    pub push: Push<G>,
}

/// The state of a store at one instant, without values and slots.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct StoreMetadata {
    /// Pushes applied.
    pub version: u64,
    /// Steps applied.
    pub global_step: u64,
    /// Seconds of training.
    pub secs: u64,
    /// Sessions, by task.
    pub sessions: Vec<SessionMetadata>,
    /// Positions of the data shards.
    pub positions: Vec<ShardPosition>,
    /// Steps with an outstanding ticket.
    pub tickets: Vec<StepId>,
    /// Clocks of stale-synchronous training: task, finished steps, whether the task is idle.
    pub clocks: Vec<(Task, u64, bool)>,
    /// Micro-batches of the synchronous step in progress.
    pub parts: Vec<MicroBatchRecord>,
    /// Values that the latest synchronous step has replaced.
    pub replaced: Option<Replaced>,
}

/// A session at one instant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionMetadata {
    /// Task of the session.
    pub task: Task,
    /// Number of the session.
    pub number: u64,
    /// The session is open.
    pub open: bool,
    /// Highest sequence number that has been used.
    pub highest: u64,
    /// Bit `i` says that `highest - i` has been used.
    pub seen: u64,
    /// Rejected pushes that are still remembered.
    pub rejected: Vec<RejectedPush>,
}

/// A micro-batch of a synchronous step.
#[derive(Debug, Clone, PartialEq)]
pub struct MicroBatchRecord {
    /// Its lane, and the number of lanes.
    pub place: MicroBatch,
    /// The first of its batches.
    pub batch: BatchId,
    /// Number of its batches.
    pub batches: u32,
    /// Slices, rows and ids that it updates.
    pub selection: Arc<Selection>,
    /// Gradients of the micro-batch.
    pub values: Vec<f32>,
}

/// Values before the latest synchronous step, restricted to those that the step changed.
#[derive(Debug, Clone, PartialEq)]
pub struct Replaced {
    /// Version of the values.
    pub version: u64,
    /// Slices, rows and ids that the values belong to.
    pub selection: Arc<Selection>,
    /// The values, in the order of the selection.
    pub values: Vec<f32>,
}
