//! Requests for data shards, the chief's replies, and their messages.

use std::ops::Range;

use trainyard_input::{DataShard, Direction, Fault, FileRange, Header, InlineRecords};
use trainyard_protocol::convert::Invalid;
use trainyard_protocol::v1;

use super::heartbeat::{HeartbeatRequest, held};

/// A request for a data shard, under dynamic sharding.
#[derive(Debug, Clone, PartialEq)]
pub struct NextShardRequest {
    /// Heartbeat of the requesting task.
    pub heartbeat: HeartbeatRequest,
    /// First batches of the granted data shards that have been applied completely.
    pub done: Vec<u64>,
    /// Under synchronous training: the lane, and the first batch that may be needed.
    pub lane: Option<(u32, u64)>,
    /// Number of offline shards that the task requests; 0 = none.
    pub reserve: u32,
}

impl From<NextShardRequest> for v1::NextShardRequest {
    fn from(request: NextShardRequest) -> Self {
        Self {
            heartbeat: Some(request.heartbeat.into()),
            done: request.done,
            lane: request.lane.map(|(lane, _)| lane),
            from_batch: request.lane.map_or(0, |(_, from)| from),
            reserve: request.reserve,
        }
    }
}

impl TryFrom<v1::NextShardRequest> for NextShardRequest {
    type Error = Invalid;

    fn try_from(request: v1::NextShardRequest) -> Result<Self, Invalid> {
        Ok(Self {
            heartbeat: held(request.heartbeat)?,
            done: request.done,
            lane: request.lane.map(|lane| (lane, request.from_batch)),
            reserve: request.reserve,
        })
    }
}

/// Reply to a request for a data shard.
#[derive(Debug, Clone, PartialEq)]
pub enum NextShardReply {
    /// A data shard.
    Shard(Box<GrantedShard>),
    /// Other tasks hold all data shards. One of them may be returned.
    Wait,
    /// All batches have been applied, or the lane has no batch left.
    End {
        /// Synchronous step of the first requested batch.
        step: u64,
        /// Number of synchronous steps of all the data; the largest number if the data repeats forever.
        steps: u64,
    },
}

/// A data shard to read.
#[derive(Debug, Clone, PartialEq)]
pub struct GrantedShard {
    /// The shard: where its records are, and the number of each batch.
    pub shard: DataShard,
    /// Batches to read, by their number in the shard.
    pub batches: Range<u32>,
    /// Direction in which the batches are read.
    pub direction: Direction,
    /// Synchronous step of the first requested batch.
    pub step: u64,
    /// Its records, if the task does not read files.
    pub inline_records: Option<InlineRecords>,
    /// Offline shards, which the task may train in this order while the chief is away. Other tasks may train them, too.
    pub reserve: Vec<DataShard>,
    /// Some parameter servers have applied the batches and others have not.
    pub half_applied: bool,
}

impl From<NextShardReply> for v1::NextShardReply {
    fn from(reply: NextShardReply) -> Self {
        match reply {
            NextShardReply::Wait => Self {
                outcome: v1::ShardOutcome::Wait.into(),
                ..Self::default()
            },
            NextShardReply::End { step, steps } => Self {
                outcome: v1::ShardOutcome::End.into(),
                step,
                steps,
                ..Self::default()
            },
            NextShardReply::Shard(granted) => Self {
                outcome: v1::ShardOutcome::Granted.into(),
                shard: Some(shard_to_wire(granted.shard)),
                first: granted.batches.start,
                end: granted.batches.end,
                backward: granted.direction == Direction::Backward,
                step: granted.step,
                inline_records: granted.inline_records.map(records_to_wire),
                steps: 0,
                reserve: granted.reserve.into_iter().map(shard_to_wire).collect(),
                half_applied: granted.half_applied,
            },
        }
    }
}

impl TryFrom<v1::NextShardReply> for NextShardReply {
    type Error = Invalid;

    fn try_from(reply: v1::NextShardReply) -> Result<Self, Invalid> {
        match reply.outcome() {
            v1::ShardOutcome::Wait | v1::ShardOutcome::Unspecified => return Ok(Self::Wait),
            v1::ShardOutcome::End => {
                return Ok(Self::End {
                    step: reply.step,
                    steps: reply.steps,
                });
            }
            v1::ShardOutcome::Granted => {}
        }
        let shard = reply.shard.map(shard_from_wire).ok_or_else(|| Invalid {
            field: "shard",
            rule: "must be set in a granted data shard",
            given: "nothing".to_owned(),
        })?;
        let direction = if reply.backward {
            Direction::Backward
        } else {
            Direction::Forward
        };
        Ok(Self::Shard(Box::new(GrantedShard {
            shard,
            batches: reply.first..reply.end,
            direction,
            step: reply.step,
            inline_records: reply.inline_records.map(records_from_wire),
            reserve: reply.reserve.into_iter().map(shard_from_wire).collect(),
            half_applied: reply.half_applied,
        })))
    }
}

fn shard_to_wire(shard: DataShard) -> v1::DataShard {
    let range = |range: FileRange| v1::FileRange {
        file: range.file,
        rows: range.rows,
        record: range.record,
        line: range.line,
        offset: range.offset,
        bytes: range.bytes,
    };
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
        ranges: shard.ranges.into_iter().map(range).collect(),
    }
}

fn shard_from_wire(shard: v1::DataShard) -> DataShard {
    let range = |range: v1::FileRange| FileRange {
        file: range.file,
        rows: range.rows,
        record: range.record,
        line: range.line,
        offset: range.offset,
        bytes: range.bytes,
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
        ranges: shard.ranges.into_iter().map(range).collect(),
    }
}

fn records_to_wire(records: InlineRecords) -> v1::InlineRecords {
    let fault = |fault: Fault| v1::Fault {
        row: fault.row,
        reason: fault.reason,
    };
    let header = |header: Header| v1::FileHeader {
        file: header.file,
        columns: header.columns,
    };
    v1::InlineRecords {
        bytes: records.bytes.into(),
        lengths: records.lengths,
        lines: records.lines,
        offsets: records.offsets,
        faults: records.faults.into_iter().map(fault).collect(),
        headers: records.headers.into_iter().map(header).collect(),
    }
}

fn records_from_wire(records: v1::InlineRecords) -> InlineRecords {
    let fault = |fault: v1::Fault| Fault {
        row: fault.row,
        reason: fault.reason,
    };
    let header = |header: v1::FileHeader| Header {
        file: header.file,
        columns: header.columns,
    };
    InlineRecords {
        bytes: records.bytes.into(),
        lengths: records.lengths,
        lines: records.lines,
        offsets: records.offsets,
        faults: records.faults.into_iter().map(fault).collect(),
        headers: records.headers.into_iter().map(header).collect(),
    }
}
