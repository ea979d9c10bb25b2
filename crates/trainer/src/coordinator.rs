//! The chief, as a training task sees it: registration, heartbeats, data shards and leaving.

mod service;

use std::ops::Range;
use std::path::PathBuf;
use std::time::Duration;

use futures_util::future::BoxFuture;
use trainyard_cluster_client::Error;
use trainyard_cluster_spec::{Servers, Task};
use trainyard_input::{DataShard, Direction, InlineRecords};
use trainyard_run_config::Agreement;

pub use service::RemoteCoordinator;

/// The state of the job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum JobState {
    /// The job waits for tasks, or until its variables are initialized or restored.
    Waiting,
    /// The job trains.
    Training,
    /// The job has ended successfully.
    Done,
    /// The job cannot continue.
    Failed,
}

/// A request to register.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RegisterRequest {
    /// The task.
    pub task: Task,
    /// Random number of the process start.
    pub incarnation: u64,
    /// The chief and the parameter servers that the task was given.
    pub servers: Servers,
    /// Fingerprint of the layout that the task has computed.
    pub layout_fingerprint: u64,
    /// Settings of the job that all tasks must share.
    pub job: Agreement,
    /// Address of the task, for messages.
    pub address: String,
    /// Process id of the task.
    pub process_id: u32,
    /// Start time of the process, in seconds since 1970.
    pub started_unix_secs: u64,
    /// Latest session of this process, whose sequence numbers have been used, so that it needs another; 0 = none.
    pub spent_session: u64,
}

/// Reply to a registration: the granted session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RegisterReply {
    /// Cluster id.
    pub cluster_id: u128,
    /// Term of the chief.
    pub epoch: u64,
    /// Session number, higher than every earlier one of the task.
    pub session: u64,
    /// Lease: the time after which a silent task counts as gone.
    pub lease: Duration,
    /// Interval of heartbeats.
    pub heartbeat_interval: Duration,
    /// State of the job.
    pub state: JobState,
    /// Names of the tasks that the job waits for.
    pub waiting_for: Vec<String>,
    /// Index of the task's data shard.
    pub data_shard_index: usize,
    /// Number of data shards.
    pub data_shard_count: usize,
    /// Lanes that the task computes in each synchronous step.
    pub lanes: Vec<u32>,
}

/// A heartbeat.
#[derive(Debug, Clone, PartialEq)]
pub struct HeartbeatRequest {
    /// The task.
    pub task: Task,
    /// Random number of the process start.
    pub incarnation: u64,
    /// Term of the chief.
    pub epoch: u64,
    /// Session of the task.
    pub session: u64,
    /// Steps applied in the session.
    pub steps: u64,
    /// Examples in those steps.
    pub examples: u64,
    /// Loss of the latest step.
    pub loss: f64,
    /// Sums over those steps.
    pub totals: StepTotals,
}

/// Sums over the steps of a session. They show how a run proceeds, and no decision depends on them.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct StepTotals {
    /// Sum of the losses.
    pub loss: f64,
    /// Steps of other tasks between pull and push.
    pub staleness_steps: u64,
    /// Time spent waiting for batches.
    pub input: Duration,
    /// Time spent waiting for parameter servers.
    pub exchange: Duration,
    /// Time of forward and backward passes.
    pub compute: Duration,
}

/// Reply to a heartbeat.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HeartbeatReply {
    /// State of the job.
    pub state: JobState,
    /// Names of the tasks that the job waits for.
    pub waiting_for: Vec<String>,
    /// Steps applied by all tasks.
    pub global_step: u64,
    /// Lanes that the task computes in each synchronous step.
    pub lanes: Vec<u32>,
    /// Generation of the group that another task waits to join; 0 = none.
    pub regroup: u64,
}

/// A request to join the allreduce group.
#[derive(Debug, Clone, PartialEq)]
pub struct JoinGroupRequest {
    /// Heartbeat of the requesting task.
    pub heartbeat: HeartbeatRequest,
    /// Generation of the task's former group; 0 = none.
    pub generation: u64,
}

/// Reply to a request to join the group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum JoinGroupReply {
    /// The group has been formed.
    Assigned(GroupAssignment),
    /// Other members are missing. The task must ask again.
    Waits {
        /// Names of the missing members.
        waiting_for: Vec<String>,
    },
}

/// The assignment of a task to a process group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GroupAssignment {
    /// Generation of the group, from 1. It grows each time the group is formed.
    pub generation: u64,
    /// Rank of the requesting task.
    pub rank: usize,
    /// Members by rank: tasks and their addresses.
    pub members: Vec<(Task, String)>,
    /// Number of lanes of a step.
    pub lanes: u32,
    /// The state from which members without parameters start.
    pub start: GroupStart,
}

/// The state from which a group without parameters starts.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct GroupStart {
    /// Checkpoint; absent = initial values.
    pub checkpoint: Option<PathBuf>,
    /// Whether the data positions of the checkpoint are ignored.
    pub forget_positions: bool,
}

/// A request for a data shard, under dynamic sharding.
#[derive(Debug, Clone, PartialEq)]
pub struct NextShardRequest {
    /// Heartbeat of the requesting task.
    pub heartbeat: HeartbeatRequest,
    /// First batches of the granted data shards that have been applied completely.
    pub done: Vec<u64>,
    /// Under synchronous training: the lane, and the first batch that may be needed.
    pub lane: Option<(u32, u64)>,
    /// Number of offline shards that the task requests; 0 = none.
    pub reserve: u32,
}

/// Reply to a request for a data shard.
#[derive(Debug, Clone, PartialEq)]
pub enum NextShardReply {
    /// A data shard.
    Shard(Box<GrantedShard>),
    /// Other tasks hold all data shards. One of them may be returned.
    Wait,
    /// All batches have been applied, or the lane has no batch left.
    End {
        /// Synchronous step of the first requested batch.
        step: u64,
        /// Number of synchronous steps of all the data; the largest number if the data repeats forever.
        steps: u64,
    },
}

/// A data shard to read.
#[derive(Debug, Clone, PartialEq)]
pub struct GrantedShard {
    /// The shard: where its records are, and the number of each batch.
    pub shard: DataShard,
    /// Batches to read, by their number in the shard.
    pub batches: Range<u32>,
    /// Direction in which the batches are read.
    pub direction: Direction,
    /// Synchronous step of the first requested batch.
    pub step: u64,
    /// Its records, if the task does not read files.
    pub inline_records: Option<InlineRecords>,
    /// Offline shards, which the task may train in this order while the chief is away. Other tasks may train them, too.
    pub reserve: Vec<DataShard>,
    /// Whether some parameter servers have applied the batches and others have not.
    pub half_applied: bool,
}

/// The reason why a task leaves.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LeaveReason {
    /// All of its data has been applied.
    InputExhausted,
    /// The last step has been applied.
    Finished,
    /// The task was told to stop, and may return.
    Shutdown,
    /// The task cannot continue.
    Failed(String),
}

impl std::fmt::Display for LeaveReason {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::InputExhausted => out.write_str("all of the task's input is applied"),
            Self::Finished => out.write_str("the last step is applied"),
            Self::Shutdown => out.write_str("the task received a request to stop"),
            Self::Failed(why) => write!(out, "the task has failed: {why}"),
        }
    }
}

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
