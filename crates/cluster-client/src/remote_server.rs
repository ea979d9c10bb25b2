//! A parameter server that is reached over gRPC.

use std::future::Future;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tonic::body::Body;
use tonic::{Response, Status};
use trainyard_checkpoint::folder_name;
use trainyard_cluster_spec::Task;
use trainyard_diagnostic::Diagnostic;
use trainyard_parameter_server::wire::{
    identity_to_wire, part_read_from_wire, progress_from_wire, pull_to_wire, pulled_from_wire,
    push_to_wire, pushed_from_wire, status_from_wire,
};
use trainyard_parameter_server::{
    Plan, Saved, ServerStatus, SnapshotPurpose, SnapshotRequest, prepare_request,
};
use trainyard_parameter_store::{Identity, OpenSession, Opened, Push, StepReply, StepRequest};
use trainyard_protocol::Channel;
use trainyard_protocol::framing::Outgoing;
use trainyard_protocol::payload::{Encoding, Payload};
use trainyard_protocol::{Pool, Reason, convert, limits, unary_call, v1};
use trainyard_runtime::Network;
use trainyard_variable::StepNumber;

use crate::answer::ReceivedAnswer;
use crate::channel_over;
use crate::gradients::GradientTensor;
use crate::replica_routing::{Client, Replicas};
use crate::{Answer, Error, JobEnd, Preparation, ServerClient, ShardGradients};

/// The method whose messages carry tensors.
const STEP: &str = "/trainyard.v1.ParameterService/Step";

/// The pushes that name their selection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Selections {
    /// Selections whose pull has not named it.
    OfThePull,
    /// All.
    Named,
}

/// A parameter server and the channel to it. With replication, one shard and the channels to both servers that have a
/// replica of it.
#[derive(Debug, Clone)]
pub struct RemoteServer {
    name: String,
    ps: usize,
    /// Place among the stores of the layout.
    place: usize,
    replicas: Replicas,
    pool: Pool,
}

impl RemoteServer {
    /// Returns server `ps`, which listens at `address` and is reached by `channel`.
    pub fn new(ps: usize, address: &str, channel: Channel) -> Self {
        let name = format!("ps:{ps} at {address}");
        Self {
            name,
            ps,
            place: ps,
            replicas: Replicas::new(ps, address, channel),
            pool: Pool::default(),
        }
    }

    /// Returns the clients of all parameter servers, in order. Each shard has one replica.
    ///
    /// # Errors
    /// An address is invalid.
    pub fn all<'a>(
        network: &Network,
        servers: impl IntoIterator<Item = (Task, &'a str)>,
    ) -> Result<Vec<Self>, Diagnostic> {
        let server = |(task, address): (Task, &'a str)| {
            let channel = channel_over(network, task, address)?;
            Ok(Self::new(task.index, address, channel))
        };
        servers.into_iter().map(server).collect()
    }

    /// Returns the clients of all parameter servers, in order. The next server has a second replica of each shard, if
    /// there is a next server.
    ///
    /// # Errors
    /// An address is invalid.
    pub fn all_replicated<'a>(
        network: &Network,
        servers: impl IntoIterator<Item = (Task, &'a str)>,
    ) -> Result<Vec<Self>, Diagnostic> {
        let channel = |(task, address): (Task, &'a str)| {
            Ok((task, address, channel_over(network, task, address)?))
        };
        let servers = servers
            .into_iter()
            .map(channel)
            .collect::<Result<Vec<_>, Diagnostic>>()?;
        let shard = |(place, (task, address, own)): (usize, &(Task, &str, Channel))| {
            let shard = Self::new(task.index, address, own.clone());
            if servers.len() == 1 {
                return shard;
            }
            let (next, at, other) = &servers[(place + 1) % servers.len()];
            let replicas = shard
                .replicas
                .and(task.index, next.index, at, other.clone());
            Self { replicas, ..shard }
        };
        Ok(servers.iter().enumerate().map(shard).collect())
    }

    /// Returns this server as a later store of the layout. The `others` stores before the servers are not servers.
    pub fn behind(self, others: usize) -> Self {
        Self {
            place: self.ps + others,
            ..self
        }
    }

    async fn ask_status(&self, request: v1::StatusRequest) -> Result<ServerStatus, Error> {
        let reply = self
            .call(limits::CALL_TIMEOUT, |mut client| async move {
                client.status(request).await
            })
            .await?;
        self.status_of(&reply)
    }

    async fn step_once(
        &self,
        identity: Identity,
        request: &StepRequest<Arc<ShardGradients>>,
        encoding: Encoding,
        selections: Selections,
    ) -> Result<StepReply<Box<dyn Answer>>, Error> {
        let push = |push: &Push<Arc<ShardGradients>>| {
            let selection = match (&push.selection, selections) {
                (None, Selections::Named) => Some(push.gradients.selection()),
                (selection, _) => selection.as_deref(),
            };
            let encoding = convert::encoding_to_wire(push.gradients.encoding());
            push_to_wire(&push.header, selection, encoding.into())
        };
        let message = v1::StepRequest {
            identity: Some(identity_to_wire(&identity)),
            push: request.push.as_ref().map(push),
            pull: request
                .pull
                .as_ref()
                .map(|pull| pull_to_wire(pull, encoding)),
            payload: Bytes::new(),
        };
        let outgoing = request
            .push
            .as_ref()
            .map(|push| GradientTensor::new(&push.gradients, &self.pool));
        let body = Body::new(Outgoing::request(&message, outgoing));
        let (asked, replica) = self.replicas.current();
        let shard = Some(&self.replicas.shard);
        let most = limits::TENSOR_MESSAGE_BYTES_MAX;
        let reply = unary_call::call::<v1::StepReply>(&replica.channel, STEP, shard, body, most);
        let reply = timed(&replica.name, limits::CALL_TIMEOUT, reply).await;
        let (reply, payload) = self.replicas.look(asked, reply)?;
        let wrong = |message: String| Error::Protocol {
            peer: self.name.clone(),
            message,
        };
        let missing = |what: &str| {
            wrong(format!(
                "the answer must say what became of the {what}, it says nothing"
            ))
        };
        let pushed = reply.pushed.as_ref().map(pushed_from_wire);
        if pushed.is_none() && request.push.is_some() {
            return Err(missing("push"));
        }
        if request.pull.is_none() {
            return Ok(StepReply {
                pushed,
                pulled: None,
            });
        }
        let pulled = reply.pulled.ok_or_else(|| missing("pull"))?;
        let payload = Payload::new(payload, encoding).map_err(|error| wrong(error.to_string()))?;
        let (pulled, unchanged) = pulled_from_wire(pulled);
        let values: Box<dyn Answer> = Box::new(ReceivedAnswer::new(payload, unchanged));
        Ok(StepReply {
            pushed,
            pulled: Some((pulled, values)),
        })
    }

    async fn call<T, F: Future<Output = Result<Response<T>, Status>>>(
        &self,
        timeout: Duration,
        call: impl FnOnce(Client) -> F,
    ) -> Result<T, Error> {
        let (asked, replica) = self.replicas.current();
        let answer = timed(&replica.name, timeout, call(replica.client.clone())).await;
        self.replicas.look(asked, answer.map(Response::into_inner))
    }

    fn status_of(&self, reply: &v1::StatusReply) -> Result<ServerStatus, Error> {
        let expected = Task {
            role: trainyard_cluster_spec::Role::Ps,
            index: self.ps,
        };
        status_from_wire(reply, expected).map_err(|message| Error::Protocol {
            peer: self.name.clone(),
            message,
        })
    }
}

#[tonic::async_trait]
impl ServerClient for RemoteServer {
    fn name(&self) -> &str {
        &self.name
    }

    fn is_remote(&self) -> bool {
        true
    }

    async fn status(&self) -> Result<ServerStatus, Error> {
        self.ask_status(v1::StatusRequest::default()).await
    }

    async fn positions(&self) -> Result<ServerStatus, Error> {
        let request = v1::StatusRequest {
            positions: true,
            ..v1::StatusRequest::default()
        };
        self.ask_status(request).await
    }

    async fn saved(&self, cluster_epoch: u64, version: u64) -> Result<(), Error> {
        let request = v1::StatusRequest {
            cluster_epoch,
            saved_version: Some(version),
            ..v1::StatusRequest::default()
        };
        self.call(limits::CALL_TIMEOUT, |mut client| async move {
            client.status(request).await
        })
        .await
        .map(drop)
    }

    async fn make_room(&self) -> Result<(), Error> {
        let request = v1::StatusRequest {
            checkpoint_lacks_room: true,
            ..v1::StatusRequest::default()
        };
        self.ask_status(request).await.map(drop)
    }

    async fn claim(
        &self,
        identity: Identity,
        cluster_fingerprint: u64,
        model_dir: &Path,
    ) -> Result<ServerStatus, Error> {
        let request = v1::ClaimRequest {
            identity: Some(identity_to_wire(&identity)),
            cluster_fingerprint,
            release: trainyard_protocol::RELEASE.into(),
            model_dir: model_dir.to_string_lossy().into_owned(),
        };
        let reply = self
            .call(limits::CALL_TIMEOUT, |mut client| async move {
                client.claim(request).await
            })
            .await?;
        self.status_of(&reply)
    }

    async fn prepare(&self, identity: Identity, plan: &Plan) -> Result<Preparation, Error> {
        let request = v1::PrepareRequest {
            identity: Some(identity_to_wire(&identity)),
            ..prepare_request(plan, self.place)
        };
        let reply = self
            .call(limits::CALL_TIMEOUT, |mut client| async move {
                client.prepare(request).await
            })
            .await?;
        Ok(match reply.state() {
            v1::PsState::Preparing => Preparation::UnderWay(progress_from_wire(reply.progress)),
            _ => Preparation::Done(
                reply
                    .parts_read
                    .into_iter()
                    .map(part_read_from_wire)
                    .collect(),
            ),
        })
    }

    async fn open(&self, identity: Identity) -> Result<(), Error> {
        let request = v1::OpenRequest {
            identity: Some(identity_to_wire(&identity)),
        };
        self.call(limits::CALL_TIMEOUT, |mut client| async move {
            client.open(request).await
        })
        .await
        .map(drop)
    }

    async fn open_session(
        &self,
        identity: Identity,
        request: &OpenSession,
    ) -> Result<Opened, Error> {
        let request = v1::OpenSessionRequest {
            identity: Some(identity_to_wire(&identity)),
            layout_fingerprint: request.layout_fingerprint,
            data_shard: request.data_shard,
            seq: request.seq,
        };
        let reply = self
            .call(limits::CALL_TIMEOUT, |mut client| async move {
                client.open_session(request).await
            })
            .await?;
        Ok(Opened {
            version: reply.version,
            batches_applied: reply.batches_applied,
        })
    }

    async fn step(
        &self,
        identity: Identity,
        request: &StepRequest<Arc<ShardGradients>>,
        encoding: Encoding,
    ) -> Result<StepReply<Box<dyn Answer>>, Error> {
        let once = |selections| self.step_once(identity, request, encoding, selections);
        match once(Selections::OfThePull).await {
            // The server has restarted and lost the selection of the pull.
            Err(error) if error.reason() == Some(Reason::Forgotten) => {
                once(Selections::Named).await
            }
            answer => answer,
        }
    }

    async fn close_session(
        &self,
        identity: Identity,
        task: Task,
        session: u64,
    ) -> Result<(), Error> {
        let identity = Some(identity_to_wire(&identity));
        let request = v1::CloseSessionRequest {
            identity,
            task: Some(convert::task_to_wire(task)),
            session,
        };
        self.call(limits::CALL_TIMEOUT, |mut client| async move {
            client.close_session(request).await
        })
        .await
        .map(drop)
    }

    async fn save(
        &self,
        identity: Identity,
        directory: &Path,
        at: SnapshotRequest,
    ) -> Result<Saved, Error> {
        let folder = folder_name(directory);
        let identity = Some(identity_to_wire(&identity));
        let request = v1::SaveShardRequest {
            identity,
            folder,
            at_version: at.step.map(StepNumber::get),
            base: at.base,
            publication: at.purpose == SnapshotPurpose::Publication,
        };
        let reply = self
            .call(limits::CHECKPOINT_CALL_TIMEOUT, |mut client| async move {
                client.save_shard(request).await
            })
            .await?;
        Ok(Saved {
            record: reply.record,
            global_step: reply.global_step,
        })
    }

    async fn finish(&self, identity: Identity, reason: &str, end: JobEnd) -> Result<(), Error> {
        let identity = Some(identity_to_wire(&identity));
        let request = v1::FinishRequest {
            identity,
            reason: reason.to_owned(),
            failed: end == JobEnd::Failed,
        };
        self.call(limits::CALL_TIMEOUT, |mut client| async move {
            client.finish(request).await
        })
        .await
        .map(drop)
    }
}

/// Makes a call with a timeout.
///
/// # Errors
/// The peer refuses, or no reply came.
pub async fn timed<T>(
    peer: &str,
    timeout: Duration,
    call: impl Future<Output = Result<T, Status>>,
) -> Result<T, Error> {
    match tokio::time::timeout(timeout, call).await {
        Ok(Ok(answer)) => Ok(answer),
        Ok(Err(status)) => Err(Error::from_status(peer, &status)),
        Err(_) => {
            let message = format!("no answer within {} s", timeout.as_secs_f32());
            Err(Error::Unreachable {
                peer: peer.to_owned(),
                message,
            })
        }
    }
}
