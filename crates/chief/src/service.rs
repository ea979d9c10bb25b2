//! The session service: converts between the wire and the membership.

use std::pin::Pin;
use std::task::{Context, Poll};

use futures_util::stream::{self, BoxStream};
use tokio::sync::watch;
use tokio_util::sync::WaitForCancellationFutureOwned;
use tonic::{Request, Response, Status};
use trainyard_coordinator::LocalCoordinator;
use trainyard_daemon::Caller;
use trainyard_protocol::convert::Invalid;
use trainyard_protocol::v1::session_service_server::SessionService;
use trainyard_protocol::{Reason, Refusal, convert, shown, v1};
use trainyard_trainer::{
    HeartbeatRequest, JoinGroupRequest, LeaveRequest, NextShardRequest, RegisterRequest,
};

/// The session service of a chief.
#[derive(Debug)]
pub(crate) struct Service {
    coordinator: LocalCoordinator,
    /// Tasks of the job average their gradients in a process group.
    has_group: bool,
}

impl Service {
    pub(crate) fn new(coordinator: LocalCoordinator, has_group: bool) -> Self {
        Self {
            coordinator,
            has_group,
        }
    }
}

fn bad(error: &Invalid) -> Status {
    Refusal::new(Reason::BadRequest, error.to_string()).into()
}

/// Returns the request in a message.
fn parsed<M, R: TryFrom<M, Error = Invalid>>(message: M) -> Result<R, Status> {
    message.try_into().map_err(|error| bad(&error))
}

/// Returns the heartbeat in a message, whose sender is the task that it names.
fn heartbeat(caller: &Caller, message: v1::HeartbeatRequest) -> Result<HeartbeatRequest, Status> {
    let heartbeat: HeartbeatRequest = parsed(message)?;
    caller.speaks_as(heartbeat.task)?;
    Ok(heartbeat)
}

#[tonic::async_trait]
impl SessionService for Service {
    async fn register(
        &self,
        request: Request<v1::RegisterRequest>,
    ) -> Result<Response<v1::RegisterReply>, Status> {
        let caller = Caller::of(request.extensions());
        let request = request.into_inner();
        let task = convert::task_from_wire(request.task).map_err(|error| bad(&error))?;
        caller.speaks_as(task)?;
        if request.release != trainyard_protocol::RELEASE {
            let given = shown(&request.release);
            let own = trainyard_protocol::RELEASE;
            let message = format!(
                "the chief has release {own}, {task} has release {given}: run the same release \
                on every host"
            );
            return Err(Refusal::new(Reason::OtherCluster, message).into());
        }
        let join: RegisterRequest = parsed(request)?;
        let joined = self.coordinator.register_now(join).inspect_err(|error| {
            if error.reason != Reason::NotReady {
                tracing::warn!(%task, peer = %caller.address(), "the chief refused {task}: {error}");
            }
        })?;
        Ok(Response::new(joined.into()))
    }

    async fn heartbeat(
        &self,
        request: Request<v1::HeartbeatRequest>,
    ) -> Result<Response<v1::HeartbeatReply>, Status> {
        let heartbeat = heartbeat(&Caller::of(request.extensions()), request.into_inner())?;
        let reply = self.coordinator.heartbeat_now(&heartbeat)?;
        Ok(Response::new(reply.into()))
    }

    async fn next_shard(
        &self,
        request: Request<v1::NextShardRequest>,
    ) -> Result<Response<v1::NextShardReply>, Status> {
        let caller = Caller::of(request.extensions());
        let ask: NextShardRequest = parsed(request.into_inner())?;
        caller.speaks_as(ask.heartbeat.task)?;
        let reply = self.coordinator.next_shard_now(ask).await?;
        Ok(Response::new(reply.into()))
    }

    async fn join_group(
        &self,
        request: Request<v1::JoinGroupRequest>,
    ) -> Result<Response<v1::JoinGroupReply>, Status> {
        let caller = Caller::of(request.extensions());
        let form: JoinGroupRequest = parsed(request.into_inner())?;
        caller.speaks_as(form.heartbeat.task)?;
        if !self.has_group {
            let message = "the strategy of this job has no process group: the job files differ";
            return Err(Refusal::new(Reason::BadRequest, message).into());
        }
        let reply = self.coordinator.form_now(form).await?;
        Ok(Response::new(reply.into()))
    }

    type KeepAliveStream = KeepAlive;

    async fn keep_alive(
        &self,
        request: Request<v1::HeartbeatRequest>,
    ) -> Result<Response<KeepAlive>, Status> {
        let heartbeat = heartbeat(&Caller::of(request.extensions()), request.into_inner())?;
        self.coordinator.attend_now(&heartbeat)?;
        let coordinator = self.coordinator.clone();
        let over = Box::pin(self.coordinator.over());
        Ok(Response::new(KeepAlive {
            coordinator,
            heartbeat,
            over,
        }))
    }

    type StandByStream = Signs;

    async fn stand_by(
        &self,
        request: Request<v1::StandByRequest>,
    ) -> Result<Response<Signs>, Status> {
        let id = convert::cluster_id_from_wire(&request.into_inner().cluster_id)
            .map_err(|error| Refusal::new(Reason::BadRequest, error.to_string()))?;
        self.coordinator
            .with(|membership, _| membership.check_cluster(id))?;
        Ok(Response::new(signs(self.coordinator.epochs())))
    }

    async fn leave(
        &self,
        request: Request<v1::LeaveRequest>,
    ) -> Result<Response<v1::LeaveReply>, Status> {
        let caller = Caller::of(request.extensions());
        let LeaveRequest { heartbeat, reason } = parsed(request.into_inner())?;
        caller.speaks_as(heartbeat.task)?;
        self.coordinator
            .leave_now(&heartbeat, reason.clone())
            .await?;
        tracing::info!(task = %heartbeat.task, %reason, "{} has left", heartbeat.task);
        Ok(Response::new(v1::LeaveReply {}))
    }
}

/// The stream of a keep-alive call, which has no messages. It is dropped when the connection breaks, and ends when the
/// job is over.
#[derive(Debug)]
pub(crate) struct KeepAlive {
    coordinator: LocalCoordinator,
    heartbeat: HeartbeatRequest,
    over: Pin<Box<WaitForCancellationFutureOwned>>,
}

impl futures_util::Stream for KeepAlive {
    type Item = Result<v1::KeepAliveReply, Status>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.over.as_mut().poll(context).map(|()| None)
    }
}

impl Drop for KeepAlive {
    fn drop(&mut self) {
        self.coordinator.lost_now(&self.heartbeat);
    }
}

/// The replies to a standby chief: one at once, and one for each term that begins.
type Signs = BoxStream<'static, Result<v1::StandByReply, Status>>;

fn signs(epochs: watch::Receiver<u64>) -> Signs {
    let signs = stream::unfold((epochs, true), |(mut epochs, first)| async move {
        if !first {
            epochs.changed().await.ok()?;
        }
        let cluster_epoch = *epochs.borrow_and_update();
        Some((Ok(v1::StandByReply { cluster_epoch }), (epochs, false)))
    });
    Box::pin(signs)
}
