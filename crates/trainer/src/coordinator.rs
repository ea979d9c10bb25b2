//! The chief, as a training task sees it: join, renew, ask for data, leave.

mod service;

use std::ops::Range;
use std::path::PathBuf;
use std::time::Duration;

use futures_util::future::BoxFuture;
use trainyard_cluster_client::Error;
use trainyard_cluster_spec::{Servers, Task};
use trainyard_input::{DataShard, Direction, Parcel};
use trainyard_run_config::Agreement;

pub use service::RemoteCoordinator;

/// What the job is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum JobState {
    /// It waits for tasks, or for variables to be created or restored.
    Waiting,
    /// It trains.
    Training,
    /// It has ended well.
    Done,
    /// It cannot go on.
    Failed,
}

/// A task that wants to train.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Join {
    /// The task.
    pub task: Task,
    /// Random per process start.
    pub incarnation: u64,
    /// The chief and the parameter servers that it was given.
    pub servers: Servers,
    /// Of the layout it computed.
    pub layout_fingerprint: u64,
    /// What it was told of the job.
    pub job: Agreement,
    /// Where it runs, for messages.
    pub address: String,
    /// Its process.
    pub process_id: u32,
    /// When it started, seconds since 1970.
    pub started_unix_secs: u64,
    /// The latest session of this process, whose numbers it has used: it asks for another. 0 = none.
    pub spent_session: u64,
}

/// A granted session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Joined {
    /// The cluster.
    pub cluster_id: u128,
    /// The chief's incarnation.
    pub epoch: u64,
    /// Higher than every earlier one of the task.
    pub session: u64,
    /// Time after which a silent task counts as gone.
    pub lease: Duration,
    /// Time between heartbeats.
    pub heartbeat_interval: Duration,
    /// What the job is doing.
    pub state: JobState,
    /// What it waits for.
    pub waiting_for: Vec<String>,
    /// The task's data shard.
    pub data_shard_index: usize,
    /// Number of data shards.
    pub data_shard_count: usize,
    /// Slots of each synchronous step that the task computes.
    pub lanes: Vec<u32>,
}

/// A sign of life.
#[derive(Debug, Clone, PartialEq)]
pub struct Pulse {
    /// The task.
    pub task: Task,
    /// Its process start.
    pub incarnation: u64,
    /// Its chief's incarnation.
    pub epoch: u64,
    /// Its session.
    pub session: u64,
    /// Steps applied in the session.
    pub steps: u64,
    /// Examples in them.
    pub examples: u64,
    /// Loss of the latest.
    pub loss: f64,
    /// What they were like.
    pub work: Work,
}

/// What the steps of a session were like, added up. It shows how a run goes; nothing is decided by it.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Work {
    /// Sum of the losses.
    pub loss: f64,
    /// Steps of others between pull and push.
    pub staleness_steps: u64,
    /// Time in which batches were waited for.
    pub input: Duration,
    /// Time in which parameter servers were waited for.
    pub exchange: Duration,
    /// Time of forward and backward passes.
    pub compute: Duration,
}

/// Answer to a sign of life.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Beat {
    /// What the job is doing.
    pub state: JobState,
    /// What it waits for.
    pub waiting_for: Vec<String>,
    /// Steps applied by all.
    pub global_step: u64,
    /// Slots of each synchronous step that the task computes.
    pub lanes: Vec<u32>,
    /// Generation of the group that somebody waits to join; 0 = nobody.
    pub regroup: u64,
}

/// A wish to be one of those who add up their gradients.
#[derive(Debug, Clone, PartialEq)]
pub struct Form {
    /// Who asks.
    pub pulse: Pulse,
    /// Generation of the group it was in; 0 = none.
    pub generation: u64,
}

/// Answer to such a wish.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Forming {
    /// The group.
    Formed(Formed),
    /// Others are missing: ask again.
    Waits {
        /// Their names.
        waiting_for: Vec<String>,
    },
}

/// A group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Formed {
    /// Higher at each forming, from 1.
    pub generation: u64,
    /// The asker's place among the members.
    pub rank: usize,
    /// Tasks, and where they listen.
    pub members: Vec<(Task, String)>,
    /// Batches of a step.
    pub lanes: u32,
    /// What members without parameters start from.
    pub start: Start,
}

/// What a group without parameters starts from.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Start {
    /// Checkpoint; absent = first values.
    pub checkpoint: Option<PathBuf>,
    /// Whether its positions in the data mean nothing to the job.
    pub forget_positions: bool,
}

/// A wish for data, under dynamic sharding.
#[derive(Debug, Clone, PartialEq)]
pub struct Ask {
    /// Who asks.
    pub pulse: Pulse,
    /// First batches of data shards that were granted and have been applied whole.
    pub done: Vec<u64>,
    /// Of synchronous training: the lane, and the first batch that may be wanted.
    pub lane: Option<(u32, u64)>,
    /// Data shards that are to be known for a time without the chief; 0 = none.
    pub reserve: u32,
}

/// Answer to a wish for data.
#[derive(Debug, Clone, PartialEq)]
pub enum Grant {
    /// A data shard.
    Shard(Box<GrantedShard>),
    /// There is none now: all are in others' hands. One of them may come back.
    Wait,
    /// All batches have been applied, or none is left of the lane.
    End {
        /// Synchronous step of the first batch asked for.
        step: u64,
        /// Synchronous steps of all the data; the largest number where it comes again for ever.
        steps: u64,
    },
}

/// A data shard to read.
#[derive(Debug, Clone, PartialEq)]
pub struct GrantedShard {
    /// Where its records are, and what number each batch has.
    pub shard: DataShard,
    /// Batches to read, by their number in the shard.
    pub batches: Range<u32>,
    /// From which end.
    pub direction: Direction,
    /// Synchronous step that the first batch asked for belongs to.
    pub step: u64,
    /// Its records, where the task is not to read files.
    pub parcel: Option<Parcel>,
    /// What the task may read if the chief is away, in this order. It holds nobody off.
    pub reserve: Vec<DataShard>,
    /// Whether some parameter servers have applied the batches, and others have not.
    pub half_applied: bool,
}

/// Why a task leaves.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LeaveReason {
    /// All of its data has been applied.
    InputExhausted,
    /// The last step has been applied.
    Finished,
    /// It was told to stop, and may come back.
    Shutdown,
    /// It cannot go on.
    Failed(String),
}

/// The chief. Every call is made once; retrying is the caller's. It is a trait object so that the training loop is compiled once.
pub trait Coordinator: Send + Sync + 'static {
    /// Joins the job.
    fn register(&self, join: Join) -> BoxFuture<'_, Result<Joined, Error>>;
    /// Renews the lease.
    fn heartbeat(&self, pulse: Pulse) -> BoxFuture<'_, Result<Beat, Error>>;
    /// Is there, until the connection breaks off.
    fn attend(&self, pulse: Pulse) -> BoxFuture<'_, ()>;
    /// Asks for data.
    fn next_shard(&self, ask: Ask) -> BoxFuture<'_, Result<Grant, Error>>;
    /// Asks to be one of those who add up their gradients. The answer may be held for a while.
    fn form(&self, form: Form) -> BoxFuture<'_, Result<Forming, Error>>;
    /// Leaves the job.
    fn leave(&self, pulse: Pulse, reason: LeaveReason) -> BoxFuture<'_, Result<(), Error>>;
    /// Returns the name for messages.
    fn name(&self) -> String;
}
