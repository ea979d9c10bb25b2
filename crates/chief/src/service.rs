//! The session service: converts between the wire and the membership.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use futures_util::stream::{self, BoxStream};
use tokio::sync::watch;
use tokio_util::sync::WaitForCancellationFutureOwned;
use tonic::{Request, Response, Status};
use trainyard_cluster_spec::{Servers, Task};
use trainyard_daemon::Caller;
use trainyard_input::{DataShard, Direction, InlineRecords};
use trainyard_protocol::v1::session_service_server::SessionService;
use trainyard_protocol::{Reason, Refusal, convert, shown, v1};
use trainyard_run_config::Agreement;
use trainyard_trainer::{
    HeartbeatReply, HeartbeatRequest, JobState, JoinGroupReply, JoinGroupRequest, LeaveReason,
    NextShardReply, NextShardRequest, RegisterRequest, StepTotals,
};

use trainyard_coordinator::LocalCoordinator;

/// The session service of a chief.
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
    convert::task_from_wire(task)
        .map_err(|error| Refusal::new(Reason::BadRequest, error.to_string()).into())
}

fn state_to_wire(state: JobState) -> i32 {
    match state {
        JobState::Waiting => v1::JobState::Waiting,
        JobState::Training => v1::JobState::Training,
        JobState::Done => v1::JobState::Done,
        JobState::Failed => v1::JobState::Failed,
    }
    .into()
}

fn heartbeat(caller: Caller, request: v1::HeartbeatRequest) -> Result<HeartbeatRequest, Status> {
    let task = task(request.task)?;
    caller.speaks_as(task)?;
    Ok(HeartbeatRequest {
        task,
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

fn no_heartbeat() -> Status {
    Refusal::new(
        Reason::BadRequest,
        "field `heartbeat` must be set, given nothing",
    )
    .into()
}

fn outcome(outcome: v1::ShardOutcome) -> v1::NextShardReply {
    v1::NextShardReply {
        outcome: outcome.into(),
        ..v1::NextShardReply::default()
    }
}

fn shard_to_wire(shard: DataShard) -> v1::DataShard {
    let ranges = shard.ranges.iter().map(|range| v1::FileRange {
        file: range.file,
        rows: range.rows,
        record: range.record,
        line: range.line,
        offset: range.offset,
        bytes: range.bytes,
    });
    v1::DataShard {
        pass: shard.pass,
        round: shard.round,
        lane: shard.lane,
        lanes: shard.lanes,
        first_batch: shard.first_batch,
        first_step: shard.first_step,
        batches: shard.batches,
        round_batches: shard.round_batches,
        rows: shard.rows,
        batch_size: shard.batch_size,
        shuffle: shard.shuffle,
        seed: shard.seed,
        ranges: ranges.collect(),
    }
}

fn inline_records_to_wire(inline_records: InlineRecords) -> v1::InlineRecords {
    let faults = inline_records.faults.into_iter().map(|fault| v1::Fault {
        row: fault.row,
        reason: fault.reason,
    });
    let headers = inline_records.headers.into_iter();
    let headers = headers.map(|header| v1::FileHeader {
        file: header.file,
        columns: header.columns,
    });
    v1::InlineRecords {
        bytes: inline_records.bytes.into(),
        lengths: inline_records.lengths,
        lines: inline_records.lines,
        offsets: inline_records.offsets,
        faults: faults.collect(),
        headers: headers.collect(),
    }
}

#[tonic::async_trait]
impl SessionService for Service {
    async fn register(
        &self,
        request: Request<v1::RegisterRequest>,
    ) -> Result<Response<v1::RegisterReply>, Status> {
        let caller = Caller::of(request.extensions());
        let request = request.into_inner();
        let task = task(request.task)?;
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
        let join = RegisterRequest {
            task,
            incarnation: request.incarnation,
            servers: Servers::from_lines(request.servers.iter().map(String::as_str)),
            layout_fingerprint: request.layout_fingerprint,
            address: shown(&request.address),
            process_id: request.process_id,
            started_unix_secs: request.started_unix_secs,
            spent_session: request.spent_session,
            job: Agreement::from_lines(request.job.iter().map(String::as_str)),
        };
        let joined = self.coordinator.register_now(join).inspect_err(|error| {
            if error.reason != Reason::NotReady {
                tracing::warn!(%task, "the chief refused {task}: {error}");
            }
        })?;
        Ok(Response::new(v1::RegisterReply {
            cluster_id: convert::cluster_id_to_wire(joined.cluster_id),
            cluster_epoch: joined.epoch,
            session: joined.session,
            lease_ms: joined.lease.as_millis() as u32,
            heartbeat_interval_ms: joined.heartbeat_interval.as_millis() as u32,
            state: state_to_wire(joined.state),
            waiting_for: joined.waiting_for,
            data_shard_index: joined.data_shard_index as u32,
            data_shard_count: joined.data_shard_count as u32,
            lanes: joined.lanes,
        }))
    }

    async fn heartbeat(
        &self,
        request: Request<v1::HeartbeatRequest>,
    ) -> Result<Response<v1::HeartbeatReply>, Status> {
        let heartbeat = heartbeat(Caller::of(request.extensions()), request.into_inner())?;
        let beat = self.coordinator.heartbeat_now(&heartbeat)?;
        let HeartbeatReply {
            state,
            waiting_for,
            global_step,
            lanes,
            regroup,
        } = beat;
        let state = state_to_wire(state);
        Ok(Response::new(v1::HeartbeatReply {
            state,
            waiting_for,
            global_step,
            lanes,
            regroup,
        }))
    }

    async fn next_shard(
        &self,
        request: Request<v1::NextShardRequest>,
    ) -> Result<Response<v1::NextShardReply>, Status> {
        let caller = Caller::of(request.extensions());
        let request = request.into_inner();
        let beat = request.heartbeat.ok_or_else(no_heartbeat)?;
        let lane = request.lane.map(|lane| (lane, request.from_batch));
        let ask = NextShardRequest {
            heartbeat: heartbeat(caller, beat)?,
            done: request.done,
            lane,
            reserve: request.reserve,
        };
        let reply = match self.coordinator.next_shard_now(ask).await? {
            NextShardReply::Wait => outcome(v1::ShardOutcome::Wait),
            NextShardReply::End { step, steps } => v1::NextShardReply {
                step,
                steps,
                ..outcome(v1::ShardOutcome::End)
            },
            NextShardReply::Shard(granted) => v1::NextShardReply {
                first: granted.batches.start,
                end: granted.batches.end,
                backward: granted.direction == Direction::Backward,
                step: granted.step,
                shard: Some(shard_to_wire(granted.shard)),
                inline_records: granted.inline_records.map(inline_records_to_wire),
                reserve: granted.reserve.into_iter().map(shard_to_wire).collect(),
                half_applied: granted.half_applied,
                ..outcome(v1::ShardOutcome::Granted)
            },
        };
        Ok(Response::new(reply))
    }

    async fn join_group(
        &self,
        request: Request<v1::JoinGroupRequest>,
    ) -> Result<Response<v1::JoinGroupReply>, Status> {
        let caller = Caller::of(request.extensions());
        let request = request.into_inner();
        let beat = request.heartbeat.ok_or_else(no_heartbeat)?;
        let form = JoinGroupRequest {
            heartbeat: heartbeat(caller, beat)?,
            generation: request.generation,
        };
        let reply = match self.coordinator.form_now(form).await? {
            JoinGroupReply::Waits { waiting_for } => v1::JoinGroupReply {
                waiting_for,
                ..v1::JoinGroupReply::default()
            },
            JoinGroupReply::Assigned(formed) => {
                let member = |(task, address)| v1::Member {
                    task: Some(convert::task_to_wire(task)),
                    address,
                };
                let checkpoint = formed
                    .start
                    .checkpoint
                    .map(|path| path.to_string_lossy().into_owned());
                v1::JoinGroupReply {
                    generation: formed.generation,
                    rank: formed.rank as u32,
                    members: formed.members.into_iter().map(member).collect(),
                    waiting_for: Vec::new(),
                    checkpoint: checkpoint.unwrap_or_default(),
                    forget_positions: formed.start.forget_positions,
                    lanes: formed.lanes,
                }
            }
        };
        Ok(Response::new(reply))
    }

    type KeepAliveStream = KeepAlive;

    async fn keep_alive(
        &self,
        request: Request<v1::HeartbeatRequest>,
    ) -> Result<Response<KeepAlive>, Status> {
        let heartbeat = heartbeat(Caller::of(request.extensions()), request.into_inner())?;
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
        let request = request.into_inner();
        let reason = match request.reason() {
            v1::LeaveReason::InputExhausted => LeaveReason::InputExhausted,
            v1::LeaveReason::Finished => LeaveReason::Finished,
            v1::LeaveReason::Shutdown | v1::LeaveReason::Unspecified => LeaveReason::Shutdown,
            v1::LeaveReason::Failed => LeaveReason::Failed(shown(&request.message)),
        };
        let heartbeat = heartbeat(caller, request.heartbeat.ok_or_else(no_heartbeat)?)?;
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
