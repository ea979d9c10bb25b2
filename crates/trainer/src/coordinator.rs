//! The chief, as a training task sees it: registration, heartbeats, data shards and leaving.
//!
//! Each message is a type in a file of its own, which also converts it to and from the generated message. A new field of a
//! heartbeat is a line of `session_service.proto` and two lines of `heartbeat.rs`.

mod heartbeat;
mod join_group;
mod next_shard;
mod registration;
mod remote;

use futures_util::future::BoxFuture;
use trainyard_cluster_client::Error;

pub use heartbeat::{
    HeartbeatReply, HeartbeatRequest, JobState, LeaveReason, LeaveRequest, StepTotals,
};
pub use join_group::{GroupAssignment, GroupStart, JoinGroupReply, JoinGroupRequest, MemberValues};
pub use next_shard::{GrantedShard, NextShardReply, NextShardRequest};
pub use registration::{RegisterReply, RegisterRequest};
pub use remote::RemoteCoordinator;

/// The chief. Each method makes one call, and its caller retries. It is a trait object, so that the training loop is
/// compiled only once.
pub trait Coordinator: Send + Sync + 'static {
    /// Joins the job.
    fn register(&self, join: RegisterRequest) -> BoxFuture<'_, Result<RegisterReply, Error>>;
    /// Renews the lease.
    fn heartbeat(
        &self,
        heartbeat: HeartbeatRequest,
    ) -> BoxFuture<'_, Result<HeartbeatReply, Error>>;
    /// Holds a keep-alive stream open until the connection breaks.
    fn keep_alive(&self, heartbeat: HeartbeatRequest) -> BoxFuture<'_, ()>;
    /// Requests a data shard.
    fn next_shard(&self, ask: NextShardRequest) -> BoxFuture<'_, Result<NextShardReply, Error>>;
    /// Requests to join the allreduce group. The reply may be delayed for a while.
    fn join_group(&self, form: JoinGroupRequest) -> BoxFuture<'_, Result<JoinGroupReply, Error>>;
    /// Leaves the job.
    fn leave(
        &self,
        heartbeat: HeartbeatRequest,
        reason: LeaveReason,
    ) -> BoxFuture<'_, Result<(), Error>>;
    /// Returns the name of the chief, for messages.
    fn name(&self) -> String;
}
