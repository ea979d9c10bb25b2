//! Conversion of changes to records of a log, and back.

use std::sync::Arc;

use bytes::{BufMut as _, Bytes, BytesMut};
use prost::Message as _;
use trainyard_cluster_spec::Task;
use trainyard_parameter_store::{
    BatchId, Change, MicroBatchRecord, Push, PushHeader, PushRecord, RejectedPush, Replaced,
    SessionMetadata, StepId, StoreMetadata, Written,
};
use trainyard_protocol::payload::float_bytes;
use trainyard_protocol::{convert, v1};
use trainyard_write_ahead_log::Entry;

use crate::WireGradients;
use crate::log_cut::CutChain;
use crate::wire::{
    batch_from_wire, batch_to_wire, position_from_wire, position_to_wire, push_from_wire,
    push_to_wire, rejection_from_wire, rejection_to_wire,
};

/// Kinds of records.
pub const HEAD: u16 = 1;
pub(crate) const CHANGE: u16 = 2;
/// Kind of the record of a push.
pub const PUSH: u16 = 3;
/// Micro-batch of the synchronous step in progress; follows a head.
pub(crate) const PART: u16 = 4;
/// Values before the latest synchronous step; follows a head and its micro-batches.
pub(crate) const REPLACED: u16 = 5;

fn message(kind: u16, message: &impl prost::Message) -> Entry {
    Entry::new(kind, vec![message.encode_to_vec().into()])
}

fn ticket(step: StepId) -> v1::LoggedTicket {
    v1::LoggedTicket {
        task: Some(convert::task_to_wire(step.task)),
        session: step.session,
        seq: step.seq,
    }
}

/// Returns the step that a ticket is for.
///
/// # Errors
/// The ticket names no task.
pub(crate) fn step_of(ticket: &v1::LoggedTicket) -> Result<StepId, String> {
    Ok(StepId {
        task: convert::task_from_wire(ticket.task).map_err(|error| error.to_string())?,
        session: ticket.session,
        seq: ticket.seq,
    })
}

/// Returns the record of a change.
pub(crate) fn of_change(change: &Change) -> Entry {
    use v1::logged_change::Change as Logged;
    let change = match change {
        Change::Claim { epoch } => Logged::Claim(*epoch),
        Change::Open => Logged::Open(true),
        Change::Finish => Logged::Finish(true),
        Change::OpenSession(step) => Logged::OpenSession(ticket(*step)),
        Change::CloseSession { task, session } => Logged::CloseSession(ticket(StepId {
            task: *task,
            session: *session,
            seq: 0,
        })),
        Change::Reserve(step) => Logged::Reserve(ticket(*step)),
        Change::ReserveBeyond(step) => Logged::ReserveBeyond(ticket(*step)),
        Change::Use(step) => Logged::Use(ticket(*step)),
        Change::Rest { task } => Logged::Idle(convert::task_to_wire(*task)),
        Change::Push(record) => {
            let sender = v1::LoggedPush {
                task: Some(convert::task_to_wire(record.task)),
                session: record.session,
                seconds: record.secs,
                ..v1::LoggedPush::default()
            };
            return of_push(PUSH, sender, &record.push);
        }
    };
    message(
        CHANGE,
        &v1::LoggedChange {
            change: Some(change),
        },
    )
}

/// Returns the record of a restart.
pub(crate) fn of_restart(restarts: u64) -> Entry {
    let change = Some(v1::logged_change::Change::Restart(restarts));
    message(CHANGE, &v1::LoggedChange { change })
}

fn logged_rejection(push: &RejectedPush) -> v1::LoggedRejection {
    let batch = Some(batch_to_wire(push.batch));
    let rejection = Some(rejection_to_wire(&push.rejection));
    v1::LoggedRejection {
        seq: push.seq,
        batch,
        rejection,
    }
}

/// Returns the record of a push: a message that names it, preceded by the length of the message, and its values, which
/// are not copied. `sender` is the message without the push.
fn of_push(kind: u16, sender: v1::LoggedPush, push: &Push<Written>) -> Entry {
    let selection = push.selection.as_deref();
    let head = v1::LoggedPush {
        push: Some(push_to_wire(
            &push.header,
            selection,
            push.gradients.encoding,
        )),
        batches: push.header.batches,
        ..sender
    };
    let length = head.encoded_len();
    let mut front = BytesMut::with_capacity(4 + length);
    front.put_u32_le(length as u32);
    // The buffer has the capacity.
    let _ = head.encode(&mut front);
    let mut parts = Vec::with_capacity(1 + push.gradients.pieces.len());
    parts.push(front.freeze());
    parts.extend(push.gradients.pieces.iter().cloned());
    Entry::unchecked(kind, parts)
}

/// Returns values that follow a head, in the form of a push.
fn written(values: &[f32]) -> Written {
    Written {
        encoding: 0,
        pieces: vec![Bytes::copy_from_slice(float_bytes(values))],
    }
}

/// The part of a segment's head that is not the store's metadata.
#[derive(Debug, Clone, Default)]
pub struct LogState {
    /// The request that prepared the store.
    pub prepare: v1::PrepareRequest,
    /// Term that has claimed the store.
    pub epoch: u64,
    /// The store has been opened to workers.
    pub open: bool,
    /// Number of recoveries of the store.
    pub restarts: u64,
    /// Prepared epoch; 0 = not prepared.
    pub prepared_epoch: u64,
    /// Segments that begin at a cut whose checkpoint may not be committed yet: number of the segment, version of the
    /// store.
    pub cuts: Vec<(u64, u64)>,
    /// Cuts of the log.
    pub chain: CutChain,
}

impl LogState {
    /// Records a cut for a checkpoint.
    pub(crate) fn add_checkpoint(&mut self, cut: v1::CutCheckpoint) {
        self.cuts.push((cut.segment, cut.version));
        self.chain.add_checkpoint(cut);
    }
}

/// The contents of a segment's head.
pub(crate) struct Head<'a> {
    pub(crate) log_state: &'a LogState,
    /// The values are those that the store was prepared with, so that no later checkpoint is needed.
    pub(crate) prepared_only: bool,
    /// Whether the segment begins at a cut of the log.
    pub(crate) log_cut: bool,
    /// Changes since the log was begun.
    pub(crate) changes: u64,
    pub(crate) metadata: &'a StoreMetadata,
}

/// Returns the records of a segment's head.
pub(crate) fn of_head(head: &Head<'_>) -> Vec<Entry> {
    let StoreMetadata {
        version,
        global_step,
        secs,
        sessions,
        positions,
        tickets,
        clocks,
        parts,
        replaced,
    } = head.metadata;
    let session = |known: &SessionMetadata| v1::LoggedSession {
        task: Some(convert::task_to_wire(known.task)),
        number: known.number,
        open: known.open,
        highest: known.highest,
        seen: known.seen,
        rejected: known.rejected.iter().map(logged_rejection).collect(),
    };
    let clock = |&(task, steps, rests): &(Task, u64, bool)| v1::LoggedClock {
        task: Some(convert::task_to_wire(task)),
        steps,
        idle: rests,
    };
    let first = v1::LoggedHead {
        prepare: Some(head.log_state.prepare.clone()),
        cluster_epoch: head.log_state.epoch,
        open: head.log_state.open,
        restarts: head.log_state.restarts,
        version: *version,
        prepared_only: head.prepared_only,
        global_step: *global_step,
        seconds: *secs,
        sessions: sessions.iter().map(session).collect(),
        positions: positions.iter().cloned().map(position_to_wire).collect(),
        tickets: tickets.iter().copied().map(ticket).collect(),
        clocks: clocks.iter().map(clock).collect(),
        parts: parts.len() as u32,
        replaced: replaced.is_some(),
        changes: head.changes,
        log_cut: head.log_cut,
    };
    let mut entries = vec![message(HEAD, &first)];
    for MicroBatchRecord {
        place,
        batch,
        batches,
        selection,
        values,
    } in parts
    {
        let push = Push {
            header: PushHeader {
                seq: 0,
                batch: *batch,
                batches: *batches,
                pulled_version: *version,
                micro_batch: Some(*place),
                optimizer_step: None,
                rejected: None,
            },
            selection: Some(Arc::clone(selection)),
            gradients: written(values),
        };
        entries.push(of_push(PART, v1::LoggedPush::default(), &push));
    }
    if let Some(Replaced {
        version,
        selection,
        values,
    }) = replaced
    {
        let push = Push {
            header: PushHeader {
                seq: 0,
                batch: BatchId {
                    pass: 0,
                    shard: 0,
                    batch: 0,
                },
                batches: 0,
                pulled_version: *version,
                micro_batch: None,
                optimizer_step: None,
                rejected: None,
            },
            selection: Some(Arc::clone(selection)),
            gradients: written(values),
        };
        entries.push(of_push(REPLACED, v1::LoggedPush::default(), &push));
    }
    entries
}

/// Decodes the first record of a head.
///
/// # Errors
/// The bytes are not a head.
pub fn head(body: Bytes) -> Result<(v1::LoggedHead, StoreMetadata), String> {
    let head = v1::LoggedHead::decode(body)
        .map_err(|error| format!("a head that cannot be read: {error}"))?;
    let task =
        |task: Option<v1::Task>| convert::task_from_wire(task).map_err(|error| error.to_string());
    let mut metadata = StoreMetadata {
        version: head.version,
        global_step: head.global_step,
        secs: head.seconds,
        ..StoreMetadata::default()
    };
    for known in &head.sessions {
        let v1::LoggedSession {
            number,
            open,
            highest,
            seen,
            ..
        } = *known;
        let rejected = known.rejected.iter().filter_map(|push| {
            let rejection = rejection_from_wire(push.rejection.as_ref()?);
            Some(RejectedPush {
                seq: push.seq,
                batch: batch_from_wire(push.batch?),
                rejection,
            })
        });
        let task = task(known.task)?;
        let rejected = rejected.collect();
        metadata.sessions.push(SessionMetadata {
            task,
            number,
            open,
            highest,
            seen,
            rejected,
        });
    }
    metadata.positions = head.positions.iter().map(position_from_wire).collect();
    metadata.tickets = head.tickets.iter().map(step_of).collect::<Result<_, _>>()?;
    for clock in &head.clocks {
        metadata
            .clocks
            .push((task(clock.task)?, clock.steps, clock.idle));
    }
    Ok((head, metadata))
}

/// Decodes a push, a micro-batch of a step, or replaced values. Returns the message without the push, and the push,
/// whose selection is not absent.
///
/// # Errors
/// The bytes are none of these.
pub(crate) fn values(body: &Bytes) -> Result<(v1::LoggedPush, Push<WireGradients>), String> {
    let wrong = |what: &str| format!("a push that cannot be read: {what}");
    let (length, _) = body
        .split_first_chunk::<4>()
        .ok_or_else(|| wrong("it has no length"))?;
    let end = 4 + u32::from_le_bytes(*length) as usize;
    if end > body.len() {
        return Err(wrong("it is longer than its record"));
    }
    let mut head =
        v1::LoggedPush::decode(body.slice(4..end)).map_err(|error| wrong(&error.to_string()))?;
    let push = head.push.take().ok_or_else(|| wrong("it names nothing"))?;
    if push.selection.is_none() {
        return Err(wrong("it names nothing"));
    }
    let mut push = push_from_wire(&push, vec![body.slice(end..)])
        .map_err(|error| wrong(&error.to_string()))?;
    push.header.batches = head.batches;
    Ok((head, push))
}

/// Decodes a push.
///
/// # Errors
/// The bytes are not a push.
pub(crate) fn push(body: &Bytes) -> Result<PushRecord<WireGradients>, String> {
    let (sender, push) = values(body)?;
    Ok(PushRecord {
        task: convert::task_from_wire(sender.task).map_err(|error| error.to_string())?,
        session: sender.session,
        secs: sender.seconds,
        push,
    })
}

#[cfg(test)]
mod tests {
    use trainyard_cluster_spec::Role;
    use trainyard_parameter_store::{Gradients as _, MicroBatch, Selection};

    use super::*;

    /// The record of a push as every server has written it so far: a length, a `LoggedPush`, and the values.
    const RECORD: &str = "330000000a040802100110051a250807120410031809180622130a0104120a0a08010000000500\
        00001a0208022801300138032002280b0000803f";

    /// A server reads the log that an earlier build has written, so the bytes of a record stay.
    #[test]
    fn the_record_of_a_push_is_made_of_the_same_bytes_as_ever() {
        let push = Push {
            header: PushHeader {
                seq: 7,
                batch: BatchId {
                    pass: 0,
                    shard: 3,
                    batch: 9,
                },
                batches: 2,
                pulled_version: 6,
                micro_batch: Some(MicroBatch { lane: 1, lanes: 3 }),
                optimizer_step: None,
                rejected: None,
            },
            selection: Some(Arc::new(Selection {
                whole: vec![4],
                rows: vec![(2, 0)],
                row_sets: vec![vec![1, 5]],
                ..Selection::default()
            })),
            gradients: Written {
                encoding: 1,
                pieces: vec![Bytes::copy_from_slice(&1.0_f32.to_le_bytes())],
            },
        };
        let task = Task {
            role: Role::Worker,
            index: 1,
        };
        let expected = (push.header, push.selection.clone());
        let entry = of_change(&Change::Push(PushRecord {
            task,
            session: 5,
            secs: 11,
            push,
        }));
        let body = entry.parts().concat();
        let hex: String = body.iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!((entry.kind(), hex.as_str()), (PUSH, RECORD));
        let again = super::push(&body.into()).expect("a push");
        assert_eq!((again.task, again.session, again.secs), (task, 5, 11));
        assert_eq!((again.push.header, again.push.selection), expected);
        assert_eq!(again.push.gradients.copy(), [1.0]);
    }
}
