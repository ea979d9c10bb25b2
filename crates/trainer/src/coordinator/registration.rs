//! The registration of a task at the chief: request and reply, and their messages.

use std::time::Duration;

use trainyard_cluster_spec::{Servers, Task};
use trainyard_protocol::convert::{self, Invalid};
use trainyard_protocol::{shown, v1};
use trainyard_run_config::Agreement;

use super::heartbeat::JobState;

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

impl From<RegisterRequest> for v1::RegisterRequest {
    fn from(request: RegisterRequest) -> Self {
        Self {
            task: Some(convert::task_to_wire(request.task)),
            incarnation: request.incarnation,
            release: trainyard_protocol::RELEASE.into(),
            servers: request.servers.lines(),
            layout_fingerprint: request.layout_fingerprint,
            address: request.address,
            process_id: request.process_id,
            started_unix_secs: request.started_unix_secs,
            spent_session: request.spent_session,
            job: request.job.lines(),
        }
    }
}

impl TryFrom<v1::RegisterRequest> for RegisterRequest {
    type Error = Invalid;

    fn try_from(request: v1::RegisterRequest) -> Result<Self, Invalid> {
        Ok(Self {
            task: convert::task_from_wire(request.task)?,
            incarnation: request.incarnation,
            servers: Servers::from_lines(request.servers.iter().map(String::as_str)),
            layout_fingerprint: request.layout_fingerprint,
            job: Agreement::from_lines(request.job.iter().map(String::as_str)),
            address: shown(&request.address),
            process_id: request.process_id,
            started_unix_secs: request.started_unix_secs,
            spent_session: request.spent_session,
        })
    }
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

impl From<RegisterReply> for v1::RegisterReply {
    fn from(reply: RegisterReply) -> Self {
        Self {
            cluster_id: convert::cluster_id_to_wire(reply.cluster_id),
            cluster_epoch: reply.epoch,
            session: reply.session,
            lease_ms: reply.lease.as_millis() as u32,
            heartbeat_interval_ms: reply.heartbeat_interval.as_millis() as u32,
            state: v1::JobState::from(reply.state).into(),
            waiting_for: reply.waiting_for,
            data_shard_index: reply.data_shard_index as u32,
            data_shard_count: reply.data_shard_count as u32,
            lanes: reply.lanes,
        }
    }
}

impl TryFrom<v1::RegisterReply> for RegisterReply {
    type Error = Invalid;

    fn try_from(reply: v1::RegisterReply) -> Result<Self, Invalid> {
        Ok(Self {
            cluster_id: convert::cluster_id_from_wire(&reply.cluster_id)?,
            epoch: reply.cluster_epoch,
            session: reply.session,
            lease: Duration::from_millis(reply.lease_ms.into()),
            heartbeat_interval: Duration::from_millis(reply.heartbeat_interval_ms.into()),
            state: reply.state().into(),
            waiting_for: reply.waiting_for,
            data_shard_index: reply.data_shard_index as usize,
            data_shard_count: reply.data_shard_count as usize,
            lanes: reply.lanes,
        })
    }
}
