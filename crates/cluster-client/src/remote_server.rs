//! A parameter server that is reached over gRPC.

use std::future::Future;
use std::path::Path;
use std::time::Duration;

use bytes::Bytes;
use tonic::body::Body;
use tonic::{Response, Status};
use trainyard_cluster_spec::Task;
use trainyard_diagnostic::Diagnostic;
use trainyard_parameter_server::wire::{
    batch_from_wire, part_read_from_wire, position_from_wire, push_to_wire, selection_to_wire,
};
use trainyard_parameter_server::{
    Plan, Saved, ServerStatus, SnapshotRequest, prepare_request, rejection_from_wire,
    rejection_to_wire,
};
use trainyard_parameter_store as store;
use trainyard_parameter_store::{Identity, Opened, Pulled, Pushed, Ticket};
use trainyard_protocol::Channel;
use trainyard_protocol::framing::Outgoing;
use trainyard_protocol::payload::Payload;
use trainyard_protocol::{Pool, Reason, convert, limits, unary_call, v1};
use trainyard_runtime::Network;

use crate::answer::ReceivedAnswer;
use crate::call::{ShardAnswer, ShardCall, ShardPush};
use crate::channel_over;
use crate::gradients::GradientTensor;
use crate::replica_routing::{Client, Replicas};
use crate::{Error, JobEnd, Preparation, ServerClient};

/// The method whose messages carry tensors.
const STEP: &str = "/trainyard.v1.ParameterService/Step";

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

    /// Returns the clients of all parameter servers, in order. `replicated`: the next server has a second replica of
    /// each shard.
    ///
    /// # Errors
    /// An address is invalid.
    pub fn all<'a>(
        network: &Network,
        servers: impl IntoIterator<Item = (Task, &'a str)>,
        replicated: bool,
    ) -> Result<Vec<Self>, Diagnostic> {
        let servers = servers
            .into_iter()
            .map(|(task, address)| Ok((task, address, channel_over(network, task, address)?)));
        let servers = servers.collect::<Result<Vec<_>, Diagnostic>>()?;
        let shard = |(place, (task, address, own)): (usize, &(Task, &str, Channel))| {
            let shard = Self::new(task.index, address, own.clone());
            let (next, at, other) = &servers[(place + 1) % servers.len()];
            if replicated && servers.len() > 1 {
                let replicas = shard
                    .replicas
                    .and(task.index, next.index, at, other.clone());
                Self { replicas, ..shard }
            } else {
                shard
            }
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
        self.status_from_wire(&reply)
    }

    async fn step_once(
        &self,
        identity: Identity,
        call: &ShardCall,
        named: bool,
    ) -> Result<ShardAnswer, Error> {
        let selection = |push: &ShardPush| match &push.selection {
            None if named => Some(selection_to_wire(push.gradients.selection())),
            selection => selection.as_deref().map(selection_to_wire),
        };
        let push = call.push.as_ref().map(|push| v1::Push {
            encoding: convert::encoding_to_wire(push.gradients.encoding()).into(),
            rejected: push.rejected.as_ref().map(rejection_to_wire),
            ..push_to_wire(
                push.seq,
                push.batch,
                push.pulled_version,
                push.micro_batch,
                selection(push),
            )
        });
        let pull = call.pull.as_ref().map(|pull| v1::Pull {
            seq: pull.seq,
            selection: Some(selection_to_wire(&pull.selection)),
            reserve_step: pull.reserve_step,
            known: pull.known.clone(),
            encoding: convert::encoding_to_wire(pull.encoding).into(),
            at_least: pull.at_least,
            or_before: pull.or_before,
            half_applied: pull.half_applied,
        });
        let identity = Some(identity_to_wire(&identity));
        let request = v1::StepRequest {
            identity,
            push,
            pull,
            payload: Bytes::new(),
        };
        let outgoing = call
            .push
            .as_ref()
            .map(|push| GradientTensor::new(&push.gradients, &self.pool));
        let body = Body::new(Outgoing::request(&request, outgoing));
        let (asked, replica) = self.replicas.current();
        let shard = Some(&self.replicas.shard);
        let most = limits::TENSOR_MESSAGE_BYTES_MAX;
        let reply = unary_call::call::<v1::StepReply>(&replica.channel, STEP, shard, body, most);
        let reply = timed(&replica.name, limits::CALL_TIMEOUT, reply).await;
        let (reply, payload) = self.replicas.look(asked, reply)?;
        let missing = |what: &str| Error::Protocol {
            peer: self.name.clone(),
            message: format!("the answer must say what became of the {what}, it says nothing"),
        };
        let pushed = match (reply.pushed, &call.push) {
            (Some(pushed), _) => {
                let v1::Pushed {
                    duplicate,
                    version,
                    global_step,
                    staleness,
                    stale,
                    rejected,
                } = pushed;
                let rejected = rejected.as_ref().map(rejection_from_wire);
                Some(Pushed {
                    duplicate,
                    stale,
                    version,
                    global_step,
                    staleness,
                    rejected,
                })
            }
            (None, Some(_)) => return Err(missing("push")),
            (None, None) => None,
        };
        let Some(pull) = &call.pull else {
            return Ok(ShardAnswer {
                pushed,
                pulled: None,
            });
        };
        let pulled = reply.pulled.ok_or_else(|| missing("pull"))?;
        let ticket = match pulled.ticket() {
            v1::Ticket::Wait => Ticket::Wait,
            v1::Ticket::Finished => Ticket::Finished,
            v1::Ticket::Granted | v1::Ticket::Unspecified => Ticket::Granted,
        };
        let payload = Payload::new(payload, pull.encoding).map_err(|error| Error::Protocol {
            peer: self.name.clone(),
            message: error.to_string(),
        })?;
        let v1::Pulled {
            version,
            global_step,
            updates,
            unchanged,
            lead,
            reached,
            ..
        } = pulled;
        let answer = ReceivedAnswer::new(payload, unchanged);
        let pulled = Pulled {
            version,
            reached,
            global_step,
            ticket,
            lead,
            updates,
        };
        Ok(ShardAnswer {
            pushed,
            pulled: Some((pulled, Box::new(answer))),
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

    fn status_from_wire(&self, reply: &v1::StatusReply) -> Result<ServerStatus, Error> {
        let state = match reply.state() {
            v1::PsState::Empty | v1::PsState::Unspecified => store::State::Empty,
            v1::PsState::Preparing => store::State::Preparing,
            v1::PsState::Prepared => store::State::Prepared,
            v1::PsState::Open => store::State::Open,
            v1::PsState::Draining => store::State::Draining,
            v1::PsState::Finished => store::State::Finished,
        };
        let task = convert::task_from_wire(reply.task);
        let expected = Task {
            role: trainyard_cluster_spec::Role::Ps,
            index: self.ps,
        };
        if task.as_ref() != Ok(&expected) {
            let message = match task {
                Ok(task) => format!("it is {task}, the cluster spec says {expected}"),
                Err(error) => error.to_string(),
            };
            return Err(Error::Protocol {
                peer: self.name.clone(),
                message,
            });
        }
        let cluster_id = if reply.cluster_id.is_empty() {
            None
        } else {
            convert::cluster_id_from_wire(&reply.cluster_id).ok()
        };
        let store = store::Status {
            state,
            cluster_id,
            epoch: reply.cluster_epoch,
            prepared_epoch: reply.prepared_epoch,
            layout_fingerprint: reply.layout_fingerprint,
            version: reply.version,
            saved_version: None,
            global_step: reply.global_step,
            value_bytes: reply.value_bytes,
            progress: reply.progress.map(progress_from_wire).unwrap_or_default(),
            slowest_lane: reply.slowest_lane,
            dynamic: Vec::new(),
            held: store::Held::default(),
            memory_max: None,
            rejections: reply
                .rejections
                .iter()
                .filter_map(rejections_from_wire)
                .collect(),
        };
        let positions = reply.positions.iter().map(position_from_wire).collect();
        Ok(ServerStatus {
            store,
            incarnation: reply.incarnation,
            settings: reply.settings,
            wants_checkpoint: reply.wants_checkpoint,
            positions,
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
            positions: false,
            cluster_epoch,
            saved_version: Some(version),
        };
        self.call(limits::CALL_TIMEOUT, |mut client| async move {
            client.status(request).await
        })
        .await
        .map(drop)
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
        self.status_from_wire(&reply)
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
            v1::PsState::Preparing => {
                Preparation::UnderWay(reply.progress.map(progress_from_wire).unwrap_or_default())
            }
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
        layout_fingerprint: u64,
        data_shard: u64,
    ) -> Result<Opened, Error> {
        let seq = identity.seq;
        let identity = Some(identity_to_wire(&identity));
        let request = v1::OpenSessionRequest {
            identity,
            layout_fingerprint,
            data_shard,
            seq,
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

    async fn step(&self, identity: Identity, call: &ShardCall) -> Result<ShardAnswer, Error> {
        match self.step_once(identity, call, false).await {
            // The server has restarted and lost the selection of the pull.
            Err(error) if error.reason() == Some(Reason::Forgotten) => {
                self.step_once(identity, call, true).await
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
        let directory = directory.to_string_lossy().into_owned();
        let identity = Some(identity_to_wire(&identity));
        let request = v1::SaveShardRequest {
            identity,
            directory,
            at_version: at.version,
            base: at.base,
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

fn identity_to_wire(identity: &Identity) -> v1::Identity {
    v1::Identity {
        cluster_id: convert::cluster_id_to_wire(identity.cluster_id),
        cluster_epoch: identity.epoch,
        task: Some(convert::task_to_wire(identity.task)),
        incarnation: identity.incarnation,
        session: identity.session,
    }
}

fn progress_from_wire(progress: v1::Progress) -> store::Progress {
    store::Progress {
        done_bytes: progress.done_bytes,
        total_bytes: progress.total_bytes,
    }
}

/// Converts a message to rejections; `None` if it names no valid task.
fn rejections_from_wire(told: &v1::Rejections) -> Option<store::Rejections> {
    let latest = told.latest.iter().copied().map(batch_from_wire).collect();
    let task = convert::task_from_wire(told.task).ok()?;
    let session = told.session;
    Some(store::Rejections {
        task,
        session,
        recent: told.recent,
        latest,
    })
}
