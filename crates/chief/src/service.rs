//! The session service: between the wire and the roster.

use tonic::{Request, Response, Status};
use trainyard_cluster_client::{JobState, Join, LeaveReason, Pulse};
use trainyard_cluster_spec::Task;
use trainyard_protocol::v1::session_service_server::SessionService;
use trainyard_protocol::{Reason, Refusal, convert, limits, v1};

use crate::LocalCoordinator;

/// The service of a chief.
#[derive(Debug)]
pub(crate) struct Service {
    coordinator: LocalCoordinator,
}

impl Service {
    pub(crate) fn new(coordinator: LocalCoordinator) -> Self {
        Self { coordinator }
    }
}

fn task(task: Option<v1::Task>) -> Result<Task, Status> {
    convert::task_from_wire(task).map_err(|error| Refusal::new(Reason::BadRequest, error.to_string()).into())
}

fn state(state: JobState) -> i32 {
    match state {
        JobState::Waiting => v1::JobState::Waiting,
        JobState::Training => v1::JobState::Training,
        JobState::Done => v1::JobState::Done,
        JobState::Failed => v1::JobState::Failed,
    }
    .into()
}

/// A peer's text, for messages: cut and escaped.
fn shown(text: &str) -> String {
    text.chars().take(limits::PEER_TEXT_BYTES_MAX).flat_map(char::escape_default).collect()
}

#[tonic::async_trait]
impl SessionService for Service {
    async fn register(
        &self,
        request: Request<v1::RegisterRequest>,
    ) -> Result<Response<v1::RegisterReply>, Status> {
        let request = request.into_inner();
        let task = task(request.task)?;
        if request.release != trainyard_protocol::RELEASE {
            let (given, own) = (shown(&request.release), trainyard_protocol::RELEASE);
            let message =
                format!("chief {own} cannot work with {task} {given}: run the same release on every host");
            return Err(Refusal::new(Reason::OtherCluster, message).into());
        }
        let join = Join {
            task,
            incarnation: request.incarnation,
            cluster_fingerprint: request.cluster_fingerprint,
            layout_fingerprint: request.layout_fingerprint,
            address: shown(&request.address),
            process_id: request.process_id,
            started_unix_secs: request.started_unix_secs,
        };
        let joined = self.coordinator.register_now(join)?;
        Ok(Response::new(v1::RegisterReply {
            cluster_id: convert::cluster_id_to_wire(joined.cluster_id),
            cluster_epoch: joined.epoch,
            session: joined.session,
            lease_ms: joined.lease.as_millis() as u32,
            heartbeat_interval_ms: joined.heartbeat_interval.as_millis() as u32,
            state: state(joined.state),
            waiting_for: joined.waiting_for,
            data_shard_index: joined.data_shard_index as u32,
            data_shard_count: joined.data_shard_count as u32,
        }))
    }

    async fn heartbeat(
        &self,
        request: Request<v1::HeartbeatRequest>,
    ) -> Result<Response<v1::HeartbeatReply>, Status> {
        let request = request.into_inner();
        let pulse = Pulse {
            task: task(request.task)?,
            incarnation: request.incarnation,
            epoch: request.cluster_epoch,
            session: request.session,
            steps: request.steps,
            examples: request.examples,
            loss: request.loss,
        };
        let beat = self.coordinator.heartbeat_now(&pulse)?;
        let (waiting_for, global_step) = (beat.waiting_for, beat.global_step);
        Ok(Response::new(v1::HeartbeatReply { state: state(beat.state), waiting_for, global_step }))
    }

    async fn leave(&self, request: Request<v1::LeaveRequest>) -> Result<Response<v1::LeaveReply>, Status> {
        let request = request.into_inner();
        let reason = match request.reason() {
            v1::LeaveReason::InputExhausted => LeaveReason::InputExhausted,
            v1::LeaveReason::Finished => LeaveReason::Finished,
            v1::LeaveReason::Shutdown | v1::LeaveReason::Unspecified => LeaveReason::Shutdown,
            v1::LeaveReason::Failed => LeaveReason::Failed(shown(&request.message)),
        };
        let pulse = Pulse {
            task: task(request.task)?,
            incarnation: request.incarnation,
            epoch: request.cluster_epoch,
            session: request.session,
            steps: request.steps,
            examples: request.examples,
            loss: request.loss,
        };
        self.coordinator.leave_now(&pulse, reason.clone()).await?;
        tracing::info!(task = %pulse.task, ?reason, "left");
        Ok(Response::new(v1::LeaveReply {}))
    }
}
