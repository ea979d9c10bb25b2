//! The messages from a primary to its backup: the log so far, from its files, and new changes.

use std::collections::VecDeque;

use bytes::{Bytes, BytesMut};
use trainyard_parameter_server::journal::LogJournal;
use trainyard_parameter_server::log_cut::transfer::SentCut;
use trainyard_parameter_server::record::{HEAD, PUSH, head};
use trainyard_parameter_server::recovery::{
    Begun, Expected, Position, Problem, begin, damaged, io,
};
use trainyard_parameter_server::replay::{base, is_change};
use trainyard_parameter_server::replication_log::Item;
use trainyard_protocol::v1::shipped_item::Item as Shipped;
use trainyard_protocol::{limits, v1};
use trainyard_write_ahead_log::{EarlierSegments, Entry, Next, Record, SegmentFile, SegmentReader};

/// Returns the body of an entry in one piece.
fn whole(entry: &Entry) -> Bytes {
    match entry.parts() {
        [part] => part.clone(),
        parts => {
            let mut body = BytesMut::with_capacity(parts.iter().map(Bytes::len).sum());
            parts.iter().for_each(|part| body.extend_from_slice(part));
            body.freeze()
        }
    }
}

fn entry_to_wire(entry: &Entry) -> v1::ShippedRecord {
    v1::ShippedRecord {
        kind: entry.kind().into(),
        number: entry.number(),
        body: whole(entry),
    }
}

fn record_to_wire(record: Record) -> v1::ShippedRecord {
    v1::ShippedRecord {
        kind: record.kind.into(),
        number: record.number,
        body: record.body,
    }
}

/// Converts an item of the replication log to a message.
pub(crate) fn item_to_wire(item: &Item) -> v1::ShippedItem {
    let item = match item {
        Item::Record(entry) => Shipped::Record(entry_to_wire(entry)),
        Item::Segment {
            prepared_epoch,
            earlier,
            head,
        } => Shipped::Segment(v1::ShippedSegment {
            prepared_epoch: *prepared_epoch,
            alone: *earlier == EarlierSegments::Obsolete,
            head: head.iter().map(entry_to_wire).collect(),
        }),
    };
    v1::ShippedItem { item: Some(item) }
}

/// Returns the kind of a record.
///
/// # Errors
/// The kind is invalid.
pub(crate) fn kind_of(record: &v1::ShippedRecord) -> Result<u16, String> {
    u16::try_from(record.kind).map_err(|_| format!("the kind of a record is {}", record.kind))
}

/// Converts a message to an entry of a log and its kind.
///
/// # Errors
/// The kind is invalid, or the body is too long.
pub(crate) fn entry_from_wire(record: v1::ShippedRecord) -> Result<(u16, Entry), String> {
    let kind = kind_of(&record)?;
    if record.body.len() > trainyard_write_ahead_log::BODY_BYTES_MAX {
        return Err(format!("a record has {} bytes", record.body.len()));
    }
    let parts = vec![record.body];
    // As in the log of the primary: the values of a push have no digest.
    let entry = match kind {
        PUSH => Entry::unchecked(kind, parts),
        _ => Entry::new(kind, parts),
    };
    Ok((kind, entry.numbered(record.number)))
}

/// The place in a log from which a backup can begin.
struct Start {
    /// Place of the segment in the log.
    place: usize,
    begun: Begun,
    /// The cut from which the segment goes on; `None` = a checkpoint, or what the store was prepared with.
    cut: Option<SentCut>,
}

/// Finds the newest segment that goes on from a committed checkpoint, from the values that the store was prepared with, or from
/// a whole cut.
fn find_start(
    journal: &LogJournal,
    segments: &[SegmentFile],
    expected: Expected<'_>,
) -> Result<Option<Start>, Problem> {
    for (place, segment) in segments.iter().enumerate().rev() {
        let Some(begun) = begin(segment, Position::of(place, segments.len()), expected)? else {
            continue;
        };
        if begun.head.log_cut {
            let cut = journal.sent_cut(&begun.header)?;
            if cut.is_some() {
                return Ok(Some(Start { place, begun, cut }));
            }
            continue;
        }
        let prepared_epoch = begun.header.origin.prepared_epoch;
        if base(&begun.head, prepared_epoch, expected.model_dir)?.is_some() {
            let cut = None;
            return Ok(Some(Start { place, begun, cut }));
        }
    }
    Ok(None)
}

/// Returns whether a backup can begin from the log as it is. If not, the log must be cut before: the cut is then whole.
///
/// # Errors
/// The log cannot be read.
pub(crate) fn has_start(journal: &LogJournal, expected: Expected<'_>) -> Result<bool, Problem> {
    let segments = SegmentFile::all(journal.folder())?;
    Ok(segments.is_empty() || find_start(journal, &segments, expected)?.is_some())
}

/// Reads a log, to send it: from the newest segment from which a backup can begin, up to a change. The log may grow meanwhile.
pub(crate) struct LogReader {
    prepared_epoch: u64,
    /// The log is read up to so many changes.
    changes: u64,
    /// Changes before the next record.
    known: u64,
    state: State,
    segment: SegmentFile,
    reader: SegmentReader,
    later: VecDeque<SegmentFile>,
}

/// Progress of a [`LogReader`]: the part of the log that it reads next.
enum State {
    /// The head of the first segment.
    Begin(Vec<Record>, Option<SentCut>),
    /// The cut that the first segment goes on from.
    Cut(SentCut),
    /// The records of segments.
    Records,
}

impl LogReader {
    /// Returns a reader of a log that has so many `changes`; `None` if there is no log.
    ///
    /// # Errors
    /// The log cannot be read, or no backup can begin from it.
    pub(crate) fn open(
        journal: &LogJournal,
        expected: Expected<'_>,
        changes: u64,
    ) -> Result<Option<Self>, Problem> {
        let segments = SegmentFile::all(journal.folder())?;
        let Some(start) = find_start(journal, &segments, expected)? else {
            return if segments.is_empty() && changes == 0 {
                Ok(None)
            } else {
                let folder = journal.folder().display();
                Err(Problem::Damaged(format!(
                    "{folder}: the log has no changes, {changes} have been made"
                )))
            };
        };
        let Start { place, begun, cut } = start;
        let later = segments.into_iter().skip(place + 1).collect();
        Ok(Some(Self {
            prepared_epoch: begun.header.origin.prepared_epoch,
            changes,
            known: begun.head.changes,
            state: State::Begin(begun.records, cut),
            segment: begun.file,
            reader: begun.reader,
            later,
        }))
    }

    /// Returns the next message, of a good size; `None` at the end.
    ///
    /// # Errors
    /// The log cannot be read, or does not hold so many changes.
    pub(crate) fn next(&mut self) -> Result<Option<v1::FollowRequest>, Problem> {
        let mut items = Vec::new();
        let mut bytes = 0;
        while bytes < limits::SHIPPED_BYTES
            && let Some(item) = self.next_item()?
        {
            bytes += shipped_bytes(&item);
            items.push(v1::ShippedItem { item: Some(item) });
        }
        Ok((!items.is_empty()).then(|| v1::FollowRequest {
            items,
            ..v1::FollowRequest::default()
        }))
    }

    fn next_item(&mut self) -> Result<Option<Shipped>, Problem> {
        match std::mem::replace(&mut self.state, State::Records) {
            State::Begin(head, cut) => {
                self.state = cut.map_or(State::Records, State::Cut);
                Ok(Some(self.shipped_segment(EarlierSegments::Obsolete, head)))
            }
            State::Cut(mut cut) => {
                let Some(record) = cut.next() else {
                    return self.next_item();
                };
                self.state = State::Cut(cut);
                let (kind, body) = record?;
                Ok(Some(Shipped::Cut(v1::ShippedRecord {
                    kind: kind.into(),
                    number: 0,
                    body,
                })))
            }
            State::Records => self.next_of_segments(),
        }
    }

    fn next_of_segments(&mut self) -> Result<Option<Shipped>, Problem> {
        // Records of the head of a segment, and the number of its records that are still missing.
        let mut beginning = Vec::new();
        let mut rest = 0;
        while self.known < self.changes || rest > 0 {
            let record = match self.reader.read().map_err(io(&self.segment))? {
                Next::Record(record) => record,
                Next::End => {
                    let Some(segment) = self.later.pop_front() else {
                        let known = self.known;
                        let changes = self.changes;
                        return Err(damaged(
                            &self.segment,
                            self.reader.place(),
                            format_args!("the log has {known} changes, {changes} have been made"),
                        ));
                    };
                    self.reader = segment.read()?;
                    self.segment = segment;
                    continue;
                }
                Next::Bad(bad) => return Err(damaged(&self.segment, bad.place, bad.fault)),
            };
            if record.kind == HEAD {
                let head = head(record.body.clone());
                let (head, _) = head.map_err(|what| damaged(&self.segment, record.place, what))?;
                rest = 1 + head.parts + u32::from(head.replaced);
            }
            if rest > 0 {
                beginning.push(record);
                rest -= 1;
                if rest == 0 {
                    return Ok(Some(self.shipped_segment(EarlierSegments::Kept, beginning)));
                }
                continue;
            }
            self.known += u64::from(is_change(record.kind));
            return Ok(Some(Shipped::Record(record_to_wire(record))));
        }
        Ok(None)
    }

    fn shipped_segment(&self, earlier: EarlierSegments, head: Vec<Record>) -> Shipped {
        Shipped::Segment(v1::ShippedSegment {
            prepared_epoch: self.prepared_epoch,
            alone: earlier == EarlierSegments::Obsolete,
            head: head.into_iter().map(record_to_wire).collect(),
        })
    }
}

fn shipped_bytes(item: &Shipped) -> usize {
    match item {
        Shipped::Record(record) | Shipped::Cut(record) => record.body.len(),
        Shipped::Segment(segment) => segment.head.iter().map(|record| record.body.len()).sum(),
    }
}
