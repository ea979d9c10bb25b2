//! The chief, reached over gRPC.

use std::time::Duration;

use futures_util::future::BoxFuture;
use trainyard_cluster_client::{Error, timed};
use trainyard_input::{DataShard, Direction, Fault, FileRange, Header, InlineRecords};
use trainyard_protocol::Channel;
use trainyard_protocol::v1::session_service_client::SessionServiceClient;
use trainyard_protocol::{convert, limits, v1};

use super::{
    Coordinator, GrantedShard, GroupAssignment, GroupStart, HeartbeatReply, HeartbeatRequest,
    JobState, JoinGroupReply, JoinGroupRequest, LeaveReason, NextShardReply, NextShardRequest,
    RegisterReply, RegisterRequest,
};

/// The chief, reached over gRPC.
#[derive(Debug, Clone)]
pub struct RemoteCoordinator {
    name: String,
    client: SessionServiceClient<Channel>,
}

impl RemoteCoordinator {
    /// Returns the chief that listens at one of `addresses`, reached through `channel`.
    pub fn new(addresses: &[String], channel: Channel) -> Self {
        let client = SessionServiceClient::new(channel)
            .max_decoding_message_size(limits::INLINE_RECORDS_MESSAGE_BYTES_MAX)
            .max_encoding_message_size(limits::CONTROL_MESSAGE_BYTES_MAX);
        Self {
            name: format!("chief:0 at {}", addresses.join(" or ")),
            client,
        }
    }
}

impl RemoteCoordinator {
    /// Follows the leading chief of the model directory with this cluster id. Calls `heard` with the chief's term, 0 if
    /// it has none yet, when the chief answers and at each term that it begins. Returns when the connection breaks.
    ///
    /// # Errors
    /// The chief has not answered, or leads another job.
    pub async fn follow(&self, cluster_id: u128, mut heard: impl FnMut(u64)) -> Result<(), Error> {
        let request = v1::StandByRequest {
            cluster_id: cluster_id.to_be_bytes().to_vec().into(),
        };
        let mut client = self.client.clone();
        let reply = timed(&self.name, limits::CALL_TIMEOUT, client.stand_by(request)).await?;
        let mut signs = reply.into_inner();
        while let Ok(Some(sign)) = signs.message().await {
            heard(sign.cluster_epoch);
        }
        Ok(())
    }
}

impl Coordinator for RemoteCoordinator {
    fn register(&self, join: RegisterRequest) -> BoxFuture<'_, Result<RegisterReply, Error>> {
        Box::pin(async move {
            let request = v1::RegisterRequest {
                task: Some(convert::task_to_wire(join.task)),
                incarnation: join.incarnation,
                release: trainyard_protocol::RELEASE.into(),
                servers: join.servers.lines(),
                layout_fingerprint: join.layout_fingerprint,
                address: join.address,
                process_id: join.process_id,
                started_unix_secs: join.started_unix_secs,
                spent_session: join.spent_session,
                job: join.job.lines(),
            };
            let mut client = self.client.clone();
            let reply = timed(&self.name, limits::CALL_TIMEOUT, client.register(request))
                .await?
                .into_inner();
            let cluster_id = convert::cluster_id_from_wire(&reply.cluster_id).map_err(|error| {
                Error::Protocol {
                    peer: self.name.clone(),
                    message: error.to_string(),
                }
            })?;
            Ok(RegisterReply {
                cluster_id,
                epoch: reply.cluster_epoch,
                session: reply.session,
                lease: Duration::from_millis(reply.lease_ms.into()),
                heartbeat_interval: Duration::from_millis(reply.heartbeat_interval_ms.into()),
                state: state_from_wire(reply.state()),
                waiting_for: reply.waiting_for,
                data_shard_index: reply.data_shard_index as usize,
                data_shard_count: reply.data_shard_count as usize,
                lanes: reply.lanes,
            })
        })
    }

    fn heartbeat(
        &self,
        heartbeat: HeartbeatRequest,
    ) -> BoxFuture<'_, Result<HeartbeatReply, Error>> {
        Box::pin(async move {
            let request = heartbeat_to_wire(&heartbeat);
            let mut client = self.client.clone();
            let reply = timed(&self.name, limits::CALL_TIMEOUT, client.heartbeat(request))
                .await?
                .into_inner();
            let state = state_from_wire(reply.state());
            let v1::HeartbeatReply {
                waiting_for,
                global_step,
                lanes,
                regroup,
                ..
            } = reply;
            Ok(HeartbeatReply {
                state,
                waiting_for,
                global_step,
                lanes,
                regroup,
            })
        })
    }

    fn keep_alive(&self, heartbeat: HeartbeatRequest) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            let mut client = self.client.clone();
            if let Ok(reply) = client.keep_alive(heartbeat_to_wire(&heartbeat)).await {
                let mut attendance = reply.into_inner();
                while let Ok(Some(_)) = attendance.message().await {}
            }
        })
    }

    fn next_shard(&self, ask: NextShardRequest) -> BoxFuture<'_, Result<NextShardReply, Error>> {
        Box::pin(async move {
            let request = v1::NextShardRequest {
                heartbeat: Some(heartbeat_to_wire(&ask.heartbeat)),
                done: ask.done,
                lane: ask.lane.map(|(lane, _)| lane),
                from_batch: ask.lane.map_or(0, |(_, from)| from),
                reserve: ask.reserve,
            };
            let mut client = self.client.clone();
            let reply = timed(&self.name, limits::CALL_TIMEOUT, client.next_shard(request))
                .await?
                .into_inner();
            match reply.outcome() {
                v1::ShardOutcome::Wait | v1::ShardOutcome::Unspecified => {
                    return Ok(NextShardReply::Wait);
                }
                v1::ShardOutcome::End => {
                    return Ok(NextShardReply::End {
                        step: reply.step,
                        steps: reply.steps,
                    });
                }
                v1::ShardOutcome::Granted => {}
            }
            let shard = reply
                .shard
                .map(shard_from_wire)
                .ok_or_else(|| Error::Protocol {
                    peer: self.name.clone(),
                    message: "field `shard` must be set in a granted data shard, given nothing"
                        .to_owned(),
                })?;
            let direction = if reply.backward {
                Direction::Backward
            } else {
                Direction::Forward
            };
            Ok(NextShardReply::Shard(Box::new(GrantedShard {
                shard,
                batches: reply.first..reply.end,
                direction,
                step: reply.step,
                inline_records: reply.inline_records.map(inline_records_from_wire),
                reserve: reply.reserve.into_iter().map(shard_from_wire).collect(),
                half_applied: reply.half_applied,
            })))
        })
    }

    fn join_group(&self, form: JoinGroupRequest) -> BoxFuture<'_, Result<JoinGroupReply, Error>> {
        Box::pin(async move {
            let request = v1::JoinGroupRequest {
                heartbeat: Some(heartbeat_to_wire(&form.heartbeat)),
                generation: form.generation,
            };
            let mut client = self.client.clone();
            let reply = timed(&self.name, limits::CALL_TIMEOUT, client.join_group(request))
                .await?
                .into_inner();
            if reply.generation == 0 {
                return Ok(JoinGroupReply::Waits {
                    waiting_for: reply.waiting_for,
                });
            }
            let member = |member: v1::Member| match convert::task_from_wire(member.task) {
                Ok(task) => Ok((task, member.address)),
                Err(error) => Err(Error::Protocol {
                    peer: self.name.clone(),
                    message: error.to_string(),
                }),
            };
            let members = reply
                .members
                .into_iter()
                .map(member)
                .collect::<Result<Vec<_>, _>>()?;
            let checkpoint = (!reply.checkpoint.is_empty()).then(|| reply.checkpoint.into());
            let start = GroupStart {
                checkpoint,
                forget_positions: reply.forget_positions,
            };
            let generation = reply.generation;
            let rank = reply.rank as usize;
            Ok(JoinGroupReply::Assigned(GroupAssignment {
                generation,
                rank,
                members,
                lanes: reply.lanes,
                start,
            }))
        })
    }

    fn leave(
        &self,
        heartbeat: HeartbeatRequest,
        reason: LeaveReason,
    ) -> BoxFuture<'_, Result<(), Error>> {
        Box::pin(async move {
            let (reason, message) = match reason {
                LeaveReason::InputExhausted => (v1::LeaveReason::InputExhausted, String::new()),
                LeaveReason::Finished => (v1::LeaveReason::Finished, String::new()),
                LeaveReason::Shutdown => (v1::LeaveReason::Shutdown, String::new()),
                LeaveReason::Failed(message) => (v1::LeaveReason::Failed, message),
            };
            let heartbeat = Some(heartbeat_to_wire(&heartbeat));
            let request = v1::LeaveRequest {
                heartbeat,
                reason: reason.into(),
                message,
            };
            let mut client = self.client.clone();
            timed(&self.name, limits::CALL_TIMEOUT, client.leave(request))
                .await
                .map(drop)
        })
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

fn heartbeat_to_wire(heartbeat: &HeartbeatRequest) -> v1::HeartbeatRequest {
    v1::HeartbeatRequest {
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

fn shard_from_wire(shard: v1::DataShard) -> DataShard {
    let piece = |piece: v1::FileRange| FileRange {
        file: piece.file,
        rows: piece.rows,
        record: piece.record,
        line: piece.line,
        offset: piece.offset,
        bytes: piece.bytes,
    };
    DataShard {
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
        ranges: shard.ranges.into_iter().map(piece).collect(),
    }
}

fn inline_records_from_wire(inline_records: v1::InlineRecords) -> InlineRecords {
    let fault = |fault: v1::Fault| Fault {
        row: fault.row,
        reason: fault.reason,
    };
    let header = |header: v1::FileHeader| Header {
        file: header.file,
        columns: header.columns,
    };
    InlineRecords {
        bytes: inline_records.bytes.into(),
        lengths: inline_records.lengths,
        lines: inline_records.lines,
        offsets: inline_records.offsets,
        faults: inline_records.faults.into_iter().map(fault).collect(),
        headers: inline_records.headers.into_iter().map(header).collect(),
    }
}
