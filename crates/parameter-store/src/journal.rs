//! What somebody else needs to know to bring a store back: its changes, in the order in which they count.
//!
//! The store has no files. It tells a [`Journal`] of each change under the lock that orders it, and of its standing at
//! the instants from which changes may be counted anew. Changes that are made again in that order, on a store that was
//! brought to such a standing, lead to the same store.

use std::fmt::Debug;
use std::sync::Arc;

use bytes::Bytes;
use trainyard_cluster_spec::Task;

use crate::{BatchId, Contribution, RejectedPush, Rejection, Selection, ShardPosition};

/// Takes a record in that has been drawn up, with the version that the change led to. Called under a lock: it must not
/// wait.
pub type Take = Box<dyn FnOnce(u64) + Send>;

/// Told of what changes. Whoever acknowledges a change sees to it first that its record is safe.
pub trait Journal: Debug + Send + Sync {
    /// Draws up the record of a change, while no lock of others is held.
    fn draw_up(&self, change: &Change<'_>) -> Take;

    /// Begins anew: the store has been prepared, and holds nothing of before. `memory` names what it remembers from
    /// here on.
    fn begin(&self, memory: u64, standing: Standing);

    /// The instant of a snapshot: what comes now is counted from there. Called under a lock: it must not wait.
    fn cut(&self, standing: Standing);
}

/// The gradients of a push as they came.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Written {
    /// How they are written, as the journal knows it; 0 = little-endian `f32`.
    pub encoding: i32,
    /// The bytes.
    pub pieces: Vec<Bytes>,
}

/// A change of the store.
#[derive(Debug)]
pub enum Change<'a> {
    /// It was claimed for an epoch.
    Claim {
        /// The epoch.
        epoch: u64,
    },
    /// Workers were let in.
    Open,
    /// The job has ended.
    Finish,
    /// A session was opened behind a sequence number.
    OpenSession {
        /// Its task.
        task: Task,
        /// Its number.
        session: u64,
        /// That sequence number.
        seq: u64,
    },
    /// The task's sessions up to this one were closed.
    CloseSession {
        /// The task.
        task: Task,
        /// The session.
        session: u64,
    },
    /// A step was asked for, whether it was granted or not.
    Reserve {
        /// By this task.
        task: Task,
        /// In this session.
        session: u64,
        /// Its number.
        seq: u64,
    },
    /// A sequence number was used up by a push that changed nothing else, and its ticket given back.
    Use {
        /// By this task.
        task: Task,
        /// In this session.
        session: u64,
        /// The number.
        seq: u64,
    },
    /// A task asks for nothing for now.
    Rest {
        /// The task.
        task: Task,
    },
    /// A push was applied, or taken in as part of a synchronous step.
    Push(PushRecord<'a>),
}

/// A push, as far as it has to be made again.
#[derive(Debug)]
pub struct PushRecord<'a> {
    /// Whose it is.
    pub task: Task,
    /// In which session.
    pub session: u64,
    /// Its number there.
    pub seq: u64,
    /// As [`crate::Push`] has it.
    pub batch: BatchId,
    /// As [`crate::Push`] has it.
    pub batches: u32,
    /// As [`crate::Push`] has it.
    pub pulled_version: u64,
    /// As [`crate::Push`] has it.
    pub contribution: Option<Contribution>,
    /// Seconds of training.
    pub secs: u64,
    /// Why its values were refused, if they were: then it names nothing, and has none.
    pub rejected: Option<Rejection>,
    /// What it updates.
    pub selection: &'a Selection,
    /// Its gradients.
    pub gradients: Written,
}

/// Everything of a store at one instant, but its values and slots.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Standing {
    /// Pushes applied.
    pub version: u64,
    /// Steps applied.
    pub global_step: u64,
    /// Seconds of training.
    pub secs: u64,
    /// Sessions, by task.
    pub sessions: Vec<SessionStanding>,
    /// Data applied.
    pub positions: Vec<ShardPosition>,
    /// Steps that may be pushed: task, session, seq.
    pub tickets: Vec<(Task, u64, u64)>,
    /// Clocks of stale-synchronous training: task, steps finished, whether it rests.
    pub clocks: Vec<(Task, u64, bool)>,
    /// Parts of the synchronous step under way.
    pub parts: Vec<PartStanding>,
    /// What the latest synchronous step has replaced.
    pub replaced: Option<Replaced>,
}

/// A session at one instant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionStanding {
    /// Its task.
    pub task: Task,
    /// Its number.
    pub number: u64,
    /// Whether it is open.
    pub open: bool,
    /// Highest sequence number used.
    pub highest: u64,
    /// Bit `i` says that `highest - i` has been used.
    pub seen: u64,
    /// Pushes whose values were refused, as far as they are remembered.
    pub rejected: Vec<RejectedPush>,
}

/// A part of a synchronous step.
#[derive(Debug, Clone, PartialEq)]
pub struct PartStanding {
    /// Its place.
    pub place: Contribution,
    /// Its batch, or the first of several.
    pub batch: BatchId,
    /// Their number.
    pub batches: u32,
    /// What it updates.
    pub selection: Arc<Selection>,
    /// Its gradients.
    pub values: Vec<f32>,
}

/// Values before the latest synchronous step, as far as it has changed them.
#[derive(Debug, Clone, PartialEq)]
pub struct Replaced {
    /// Their version.
    pub version: u64,
    /// What they are of.
    pub selection: Arc<Selection>,
    /// In the order of the selection.
    pub values: Vec<f32>,
}
