//! Conversion of changes to records of a log, and back.

use bytes::{BufMut as _, Bytes, BytesMut};
use prost::Message as _;
use trainyard_cluster_spec::Task;
use trainyard_parameter_store::{
    BatchId, Change, MicroBatch, MicroBatchRecord, RejectedPush, Rejection, Replaced, Selection,
    SessionMetadata, StoreMetadata,
};
use trainyard_protocol::payload::{Payload, float_bytes};
use trainyard_protocol::{convert, v1};
use trainyard_write_ahead_log::Entry;

use crate::WireGradients;
use crate::wire::{
    batch_from_wire, batch_to_wire, micro_batch_from_wire, position_from_wire, position_to_wire,
    push_to_wire, selection_from_wire, selection_to_wire,
};
use crate::{rejection_from_wire, rejection_to_wire};

/// Kinds of records.
pub const HEAD: u16 = 1;
pub(crate) const CHANGE: u16 = 2;
pub(crate) const PUSH: u16 = 3;
/// Micro-batch of the synchronous step in progress; follows a head.
pub(crate) const PART: u16 = 4;
/// Values before the latest synchronous step; follows a head and its micro-batches.
pub(crate) const REPLACED: u16 = 5;

fn message(kind: u16, message: &impl prost::Message) -> Entry {
    Entry::new(kind, vec![message.encode_to_vec().into()])
}

/// Returns the record of a change.
pub(crate) fn of_change(change: &Change<'_>) -> Entry {
    use v1::logged_change::Change as Logged;
    let ticket = |task: &Task, session: u64, seq: u64| v1::LoggedTicket {
        task: Some(convert::task_to_wire(*task)),
        session,
        seq,
    };
    let change = match change {
        Change::Claim { epoch } => Logged::Claim(*epoch),
        Change::Open => Logged::Open(true),
        Change::Finish => Logged::Finish(true),
        Change::OpenSession { task, session, seq } => {
            Logged::OpenSession(ticket(task, *session, *seq))
        }
        Change::CloseSession { task, session } => Logged::CloseSession(ticket(task, *session, 0)),
        Change::Reserve { task, session, seq } => Logged::Reserve(ticket(task, *session, *seq)),
        Change::ReserveBeyond { task, session, seq } => {
            Logged::ReserveBeyond(ticket(task, *session, *seq))
        }
        Change::Use { task, session, seq } => Logged::Use(ticket(task, *session, *seq)),
        Change::Rest { task } => Logged::Idle(convert::task_to_wire(*task)),
        Change::Push(push) => {
            let head = v1::LoggedPush {
                task: Some(convert::task_to_wire(push.task)),
                session: push.session,
                push: Some(v1::Push {
                    encoding: push.gradients.encoding,
                    rejected: push.rejected.as_ref().map(rejection_to_wire),
                    ..push_to_wire(
                        push.seq,
                        push.batch,
                        push.pulled_version,
                        push.micro_batch,
                        Some(selection_to_wire(push.selection)),
                    )
                }),
                batches: push.batches,
                seconds: push.secs,
            };
            return with_values(PUSH, &head, push.gradients.pieces.clone());
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

/// Returns a record of a message, preceded by its length, and values, which are not copied.
fn with_values(kind: u16, head: &v1::LoggedPush, pieces: Vec<Bytes>) -> Entry {
    let length = head.encoded_len();
    let mut front = BytesMut::with_capacity(4 + length);
    front.put_u32_le(length as u32);
    // The buffer has the capacity.
    let _ = head.encode(&mut front);
    let mut parts = Vec::with_capacity(1 + pieces.len());
    parts.push(front.freeze());
    parts.extend(pieces);
    Entry::new(kind, parts)
}

/// The contents of a segment's head.
pub(crate) struct Head<'a> {
    pub(crate) prepare: &'a v1::PrepareRequest,
    pub(crate) epoch: u64,
    pub(crate) open: bool,
    pub(crate) restarts: u64,
    pub(crate) prepared_only: bool,
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
    let ticket = |&(task, session, seq): &(Task, u64, u64)| v1::LoggedTicket {
        task: Some(convert::task_to_wire(task)),
        session,
        seq,
    };
    let clock = |&(task, steps, rests): &(Task, u64, bool)| v1::LoggedClock {
        task: Some(convert::task_to_wire(task)),
        steps,
        idle: rests,
    };
    let first = v1::LoggedHead {
        prepare: Some(head.prepare.clone()),
        cluster_epoch: head.epoch,
        open: head.open,
        restarts: head.restarts,
        version: *version,
        prepared_only: head.prepared_only,
        global_step: *global_step,
        seconds: *secs,
        sessions: sessions.iter().map(session).collect(),
        positions: positions.iter().cloned().map(position_to_wire).collect(),
        tickets: tickets.iter().map(ticket).collect(),
        clocks: clocks.iter().map(clock).collect(),
        parts: parts.len() as u32,
        replaced: replaced.is_some(),
        changes: head.changes,
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
        let push = Some(push_to_wire(
            0,
            *batch,
            *version,
            Some(*place),
            Some(selection_to_wire(selection)),
        ));
        let head = v1::LoggedPush {
            push,
            batches: *batches,
            ..v1::LoggedPush::default()
        };
        entries.push(with_values(
            PART,
            &head,
            vec![Bytes::copy_from_slice(float_bytes(values))],
        ));
    }
    if let Some(Replaced {
        version,
        selection,
        values,
    }) = replaced
    {
        let batch = BatchId {
            pass: 0,
            shard: 0,
            batch: 0,
        };
        let push = Some(push_to_wire(
            0,
            batch,
            *version,
            None,
            Some(selection_to_wire(selection)),
        ));
        let head = v1::LoggedPush {
            push,
            ..v1::LoggedPush::default()
        };
        entries.push(with_values(
            REPLACED,
            &head,
            vec![Bytes::copy_from_slice(float_bytes(values))],
        ));
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
    for ticket in &head.tickets {
        metadata
            .tickets
            .push((task(ticket.task)?, ticket.session, ticket.seq));
    }
    for clock in &head.clocks {
        metadata
            .clocks
            .push((task(clock.task)?, clock.steps, clock.idle));
    }
    Ok((head, metadata))
}

/// A logged push.
pub(crate) struct LoggedPush {
    pub(crate) task: Option<v1::Task>,
    pub(crate) session: u64,
    pub(crate) seq: u64,
    pub(crate) batch: BatchId,
    pub(crate) batches: u32,
    pub(crate) pulled_version: u64,
    pub(crate) micro_batch: Option<MicroBatch>,
    pub(crate) secs: u64,
    pub(crate) rejected: Option<Rejection>,
    pub(crate) selection: std::sync::Arc<Selection>,
    pub(crate) gradients: WireGradients,
}

/// Decodes a push, a micro-batch of a step, or replaced values.
///
/// # Errors
/// The bytes are none of these.
pub(crate) fn push(body: &Bytes) -> Result<LoggedPush, String> {
    let wrong = |what: &str| format!("a push that cannot be read: {what}");
    let (length, _) = body
        .split_first_chunk::<4>()
        .ok_or_else(|| wrong("it has no length"))?;
    let end = 4 + u32::from_le_bytes(*length) as usize;
    if end > body.len() {
        return Err(wrong("it is longer than its record"));
    }
    let head =
        v1::LoggedPush::decode(body.slice(4..end)).map_err(|error| wrong(&error.to_string()))?;
    let push = head.push.ok_or_else(|| wrong("it names nothing"))?;
    let encoding =
        convert::encoding_from_wire(push.encoding).map_err(|error| wrong(&error.to_string()))?;
    let values = Payload::new(vec![body.slice(end..)], encoding)
        .map_err(|error| wrong(&error.to_string()))?;
    let named = push
        .selection
        .as_ref()
        .ok_or_else(|| wrong("it names nothing"))?;
    Ok(LoggedPush {
        task: head.task,
        session: head.session,
        seq: push.seq,
        batch: batch_from_wire(push.batch.unwrap_or_default()),
        batches: head.batches,
        pulled_version: push.pulled_version,
        micro_batch: micro_batch_from_wire(&push),
        secs: head.seconds,
        rejected: push.rejected.as_ref().map(rejection_from_wire),
        selection: selection_from_wire(named).map_err(|error| wrong(&error.to_string()))?,
        gradients: WireGradients(values),
    })
}
