//! The parameter server: what a server does on claim, prepare, restore, save and recovery.
//!
//! A [`LocalServer`] is one server in this process: a store (`trainyard-parameter-store`) with its part of the
//! checkpoint files. Its [`journal`] writes each change of the store to a log, and a [`recovery`] replays the log. A
//! server that is reached over a network is this server behind gRPC (`trainyard-ps`).

mod background;
mod claim;
mod cutting;
mod error;
mod gradients;
pub mod journal;
mod local_server;
pub mod log_cut;
mod plan;
mod preparation;
mod prepare_request;
#[cfg(any(test, feature = "testing"))]
pub mod random_work;
pub mod record;
pub mod recovery;
pub mod replay;
pub mod replication_log;
mod restore;
mod save;
pub mod wire;

pub use error::Error;
pub use gradients::WireGradients;
pub use local_server::LocalServer;
pub use plan::{Plan, Provenance, Saved, ServerStatus, SnapshotPurpose, SnapshotRequest};
pub use prepare_request::{Slices, plan_of, prepare_request};
pub use save::BegunSave;
