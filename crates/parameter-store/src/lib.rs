//! The storage of a parameter server, without a network: slices, optimizer slots, sessions and their rules.
//!
//! A [`Store`] makes every decision that exactness depends on: which term and session may write, whether a push or its
//! batch was applied before, and which task may push the last steps. Time is an argument, and the store opens no
//! sockets and no files. Tests therefore drive every rule directly, and a daemon and a single process use the same
//! store.

mod aggregation;
mod batch_set;
mod deduplication_window;
mod dynamic;
mod error;
mod extent;
mod gradients;
mod guard;
mod identity;
mod journal;
mod lru;
mod memory_budget;
mod micro_batch;
mod named_cuts;
mod pending_pulls;
mod push;
mod reading;
mod selection;
mod sessions;
mod shard_position;
mod slice;
mod snapshot;
mod spread_map;
mod staleness_clocks;
mod steps;
mod store;
mod stripe;
mod sync;
mod touched;

pub use deduplication_window::WINDOW;
pub use dynamic::DynamicStatus;
pub use error::Error;
pub use gradients::{GRADIENT_ABS_BOUND, Gradients, Written, unfit};
pub use guard::{Fault, Found, Look, RejectedPush, Rejection, Rejections, zero_nonfinite};
pub use identity::{BatchId, Identity, StepId};
pub use journal::{
    AppendRecord, Change, CutPurpose, Journal, MicroBatchRecord, PushRecord, Replaced,
    SessionMetadata, StoreMetadata,
};
pub use memory_budget::{Held, MemoryRoom};
pub use micro_batch::MicroBatch;
pub use push::{Push, PushHeader};
pub use reading::Reading;
pub use selection::Selection;
pub use shard_position::ShardPosition;
pub use snapshot::{
    Basis, Snapshot, SnapshotRows, SnapshotSlice, SnapshotTable, SnapshotTableRows,
};
pub use steps::Ticket;
pub use store::{
    Claim, CutRows, FirstValues, LogCut, LogCutBytes, Lots, OpenSession, Opened, Prepare, Progress,
    Pull, Pulled, Pushed, Restore, SnapshotAt, State, Status, StepReply, StepRequest, Store,
    TensorSource, version_of,
};
pub use stripe::SliceValues;
pub use trainyard_optimizer::{Guard, Nonfinite, Update};
pub use trainyard_variable::{StepNumber, Version};
