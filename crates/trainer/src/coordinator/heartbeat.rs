//! Heartbeats of a task, the chief's replies, and the end of a session, with their messages.

use std::time::Duration;

use trainyard_cluster_spec::Task;
use trainyard_protocol::convert::{self, Invalid};
use trainyard_protocol::{shown, v1};

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

impl From<JobState> for v1::JobState {
    fn from(state: JobState) -> Self {
        match state {
            JobState::Waiting => Self::Waiting,
            JobState::Training => Self::Training,
            JobState::Done => Self::Done,
            JobState::Failed => Self::Failed,
        }
    }
}

impl From<v1::JobState> for JobState {
    fn from(state: v1::JobState) -> Self {
        match state {
            v1::JobState::Waiting | v1::JobState::Unspecified => Self::Waiting,
            v1::JobState::Training => Self::Training,
            v1::JobState::Done => Self::Done,
            v1::JobState::Failed => Self::Failed,
        }
    }
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

impl From<HeartbeatRequest> for v1::HeartbeatRequest {
    fn from(heartbeat: HeartbeatRequest) -> Self {
        Self {
            task: Some(convert::task_to_wire(heartbeat.task)),
            incarnation: heartbeat.incarnation,
            cluster_epoch: heartbeat.epoch,
            session: heartbeat.session,
            steps: heartbeat.steps,
            examples: heartbeat.examples,
            loss: heartbeat.loss,
            loss_sum: heartbeat.totals.loss,
            staleness_steps: heartbeat.totals.staleness_steps,
            input_micros: heartbeat.totals.input.as_micros() as u64,
            exchange_micros: heartbeat.totals.exchange.as_micros() as u64,
            compute_micros: heartbeat.totals.compute.as_micros() as u64,
        }
    }
}

impl TryFrom<v1::HeartbeatRequest> for HeartbeatRequest {
    type Error = Invalid;

    fn try_from(request: v1::HeartbeatRequest) -> Result<Self, Invalid> {
        Ok(Self {
            task: convert::task_from_wire(request.task)?,
            incarnation: request.incarnation,
            epoch: request.cluster_epoch,
            session: request.session,
            steps: request.steps,
            examples: request.examples,
            loss: request.loss,
            totals: StepTotals {
                loss: request.loss_sum,
                staleness_steps: request.staleness_steps,
                input: Duration::from_micros(request.input_micros),
                exchange: Duration::from_micros(request.exchange_micros),
                compute: Duration::from_micros(request.compute_micros),
            },
        })
    }
}

/// Returns the heartbeat that a message holds.
pub(super) fn held(heartbeat: Option<v1::HeartbeatRequest>) -> Result<HeartbeatRequest, Invalid> {
    let heartbeat = heartbeat.ok_or_else(|| Invalid {
        field: "heartbeat",
        rule: "must be set",
        given: "nothing".to_owned(),
    })?;
    heartbeat.try_into()
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

impl From<HeartbeatReply> for v1::HeartbeatReply {
    fn from(reply: HeartbeatReply) -> Self {
        Self {
            state: v1::JobState::from(reply.state).into(),
            waiting_for: reply.waiting_for,
            global_step: reply.global_step,
            lanes: reply.lanes,
            regroup: reply.regroup,
        }
    }
}

impl From<v1::HeartbeatReply> for HeartbeatReply {
    fn from(reply: v1::HeartbeatReply) -> Self {
        Self {
            state: reply.state().into(),
            waiting_for: reply.waiting_for,
            global_step: reply.global_step,
            lanes: reply.lanes,
            regroup: reply.regroup,
        }
    }
}

/// The last message of a session: its last heartbeat, and the reason of its end.
#[derive(Debug, Clone, PartialEq)]
pub struct LeaveRequest {
    /// The last heartbeat.
    pub heartbeat: HeartbeatRequest,
    /// Reason for which the task leaves.
    pub reason: LeaveReason,
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

impl From<LeaveRequest> for v1::LeaveRequest {
    fn from(request: LeaveRequest) -> Self {
        let (reason, message) = match request.reason {
            LeaveReason::InputExhausted => (v1::LeaveReason::InputExhausted, String::new()),
            LeaveReason::Finished => (v1::LeaveReason::Finished, String::new()),
            LeaveReason::Shutdown => (v1::LeaveReason::Shutdown, String::new()),
            LeaveReason::Failed(message) => (v1::LeaveReason::Failed, message),
        };
        Self {
            heartbeat: Some(request.heartbeat.into()),
            reason: reason.into(),
            message,
        }
    }
}

impl TryFrom<v1::LeaveRequest> for LeaveRequest {
    type Error = Invalid;

    fn try_from(request: v1::LeaveRequest) -> Result<Self, Invalid> {
        let reason = match request.reason() {
            v1::LeaveReason::InputExhausted => LeaveReason::InputExhausted,
            v1::LeaveReason::Finished => LeaveReason::Finished,
            v1::LeaveReason::Shutdown | v1::LeaveReason::Unspecified => LeaveReason::Shutdown,
            v1::LeaveReason::Failed => LeaveReason::Failed(shown(&request.message)),
        };
        Ok(Self {
            heartbeat: held(request.heartbeat)?,
            reason,
        })
    }
}
