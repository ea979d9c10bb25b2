//! The chief, as a training task sees it: join, renew, leave.

use std::future::Future;
use std::time::Duration;

use tonic::transport::Channel;
use trainyard_cluster_spec::Task;
use trainyard_protocol::v1::session_service_client::SessionServiceClient;
use trainyard_protocol::{convert, limits, v1};

use crate::Error;
use crate::remote::timed;

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
    /// Of the cluster spec it was given.
    pub cluster_fingerprint: u64,
    /// Of the layout it computed.
    pub layout_fingerprint: u64,
    /// Where it runs, for messages.
    pub address: String,
    /// Its process.
    pub process_id: u32,
    /// When it started, seconds since 1970.
    pub started_unix_secs: u64,
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

/// The chief. Every call is made once; retrying is the caller's.
pub trait Coordinator: Clone + Send + Sync + 'static {
    /// Joins the job.
    fn register(&self, join: Join) -> impl Future<Output = Result<Joined, Error>> + Send;
    /// Renews the lease.
    fn heartbeat(&self, pulse: Pulse) -> impl Future<Output = Result<Beat, Error>> + Send;
    /// Leaves the job.
    fn leave(&self, pulse: Pulse, reason: LeaveReason) -> impl Future<Output = Result<(), Error>> + Send;
    /// Returns the name for messages.
    fn name(&self) -> String;
}

/// The chief behind gRPC.
#[derive(Debug, Clone)]
pub struct RemoteCoordinator {
    name: String,
    client: SessionServiceClient<Channel>,
}

impl RemoteCoordinator {
    /// Returns the chief that listens at `address`, behind `channel`.
    pub fn new(address: &str, channel: Channel) -> Self {
        let client = SessionServiceClient::new(channel)
            .max_decoding_message_size(limits::CONTROL_MESSAGE_BYTES_MAX)
            .max_encoding_message_size(limits::CONTROL_MESSAGE_BYTES_MAX);
        Self { name: format!("chief:0 at {address}"), client }
    }
}

impl Coordinator for RemoteCoordinator {
    async fn register(&self, join: Join) -> Result<Joined, Error> {
        let request = v1::RegisterRequest {
            task: Some(convert::task_to_wire(join.task)),
            incarnation: join.incarnation,
            release: trainyard_protocol::RELEASE.into(),
            cluster_fingerprint: join.cluster_fingerprint,
            layout_fingerprint: join.layout_fingerprint,
            address: join.address,
            process_id: join.process_id,
            started_unix_secs: join.started_unix_secs,
        };
        let mut client = self.client.clone();
        let reply = timed(&self.name, limits::CALL_TIMEOUT, client.register(request)).await?.into_inner();
        let cluster_id = convert::cluster_id_from_wire(&reply.cluster_id)
            .map_err(|error| Error::Protocol { peer: self.name.clone(), message: error.to_string() })?;
        Ok(Joined {
            cluster_id,
            epoch: reply.cluster_epoch,
            session: reply.session,
            lease: Duration::from_millis(reply.lease_ms.into()),
            heartbeat_interval: Duration::from_millis(reply.heartbeat_interval_ms.into()),
            state: state_from_wire(reply.state()),
            waiting_for: reply.waiting_for,
            data_shard_index: reply.data_shard_index as usize,
            data_shard_count: reply.data_shard_count as usize,
        })
    }

    async fn heartbeat(&self, pulse: Pulse) -> Result<Beat, Error> {
        let request = v1::HeartbeatRequest {
            task: Some(convert::task_to_wire(pulse.task)),
            incarnation: pulse.incarnation,
            cluster_epoch: pulse.epoch,
            session: pulse.session,
            steps: pulse.steps,
            examples: pulse.examples,
            loss: pulse.loss,
        };
        let mut client = self.client.clone();
        let reply = timed(&self.name, limits::CALL_TIMEOUT, client.heartbeat(request)).await?.into_inner();
        let state = state_from_wire(reply.state());
        Ok(Beat { state, waiting_for: reply.waiting_for, global_step: reply.global_step })
    }

    async fn leave(&self, pulse: Pulse, reason: LeaveReason) -> Result<(), Error> {
        let (reason, message) = match reason {
            LeaveReason::InputExhausted => (v1::LeaveReason::InputExhausted, String::new()),
            LeaveReason::Finished => (v1::LeaveReason::Finished, String::new()),
            LeaveReason::Shutdown => (v1::LeaveReason::Shutdown, String::new()),
            LeaveReason::Failed(message) => (v1::LeaveReason::Failed, message),
        };
        let request = v1::LeaveRequest {
            task: Some(convert::task_to_wire(pulse.task)),
            incarnation: pulse.incarnation,
            cluster_epoch: pulse.epoch,
            session: pulse.session,
            reason: reason.into(),
            message,
            steps: pulse.steps,
            examples: pulse.examples,
            loss: pulse.loss,
        };
        let mut client = self.client.clone();
        timed(&self.name, limits::CALL_TIMEOUT, client.leave(request)).await.map(drop)
    }

    fn name(&self) -> String {
        self.name.clone()
    }
}

fn state_from_wire(state: v1::JobState) -> JobState {
    match state {
        v1::JobState::Waiting | v1::JobState::Unspecified => JobState::Waiting,
        v1::JobState::Training => JobState::Training,
        v1::JobState::Done => JobState::Done,
        v1::JobState::Failed => JobState::Failed,
    }
}
