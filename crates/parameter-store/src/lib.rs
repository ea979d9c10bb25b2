//! The storage of a parameter server: slices, slots, sessions and their rules, with no network in it.
//!
//! A [`Store`] decides everything that exactness rests on: which epoch and session may write, whether a push or its
//! batch was applied before, who may push the last steps. It is told the time, and has no sockets and no files, so
//! that every rule is driven directly by a test, and the same store serves a daemon or a single process.

mod aggregation;
mod batch_set;
mod clocks;
mod dynamic;
mod error;
mod gradients;
mod guard;
mod identity;
mod journal;
mod memory;
mod reading;
mod recency;
mod selection;
mod sessions;
mod slice;
mod snapshot;
mod spread_map;
mod steps;
mod store;
mod stripe;
mod sync;
mod turn;
mod update;
mod window;

pub use dynamic::DynamicStatus;
pub use error::Error;
pub use gradients::{GRADIENT_ABS_BOUND, Gradients, unfit};
pub use guard::{Fault, Found, Guard, Look, Nonfinite, RejectedPush, Rejection, zero_nonfinite};
pub use identity::{BatchId, Identity};
pub use journal::{
    Change, Journal, PartStanding, PushRecord, Replaced, SessionStanding, Standing, Take, Written,
};
pub use memory::Held;
pub use reading::Reading;
pub use selection::Selection;
pub use snapshot::{Snapshot, SnapshotSlice, SnapshotTable};
pub use steps::Ticket;
pub use store::{
    Claim, FirstValues, Lots, Opened, Prepare, Progress, Pull, Pulled, Push, Pushed, Rejections,
    Restore, ShardPosition, SnapshotAt, State, Status, Store, TensorSource,
};
pub use stripe::SliceValues;
pub use update::{Contribution, Update};
pub use window::WINDOW;
