//! The messages from a primary to its backup: the log so far, from its files, and new changes.

use bytes::{Bytes, BytesMut};
use trainyard_parameter_server::journal::LogJournal;
use trainyard_parameter_server::log_cut::transfer::SentCut;
use trainyard_parameter_server::record::{HEAD, PUSH, head};
use trainyard_parameter_server::recovery::{
    Begun, Expected, Position, Problem, begin, damaged, io,
};
use trainyard_parameter_server::replay::{base, is_change};
use trainyard_parameter_server::replication_log::Item;
use trainyard_protocol::{limits, v1};
use trainyard_write_ahead_log::{EarlierSegments, Entry, Next, Record, SegmentFile};

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
    use v1::shipped_item::Item as Wire;
    let item = match item {
        Item::Record(entry) => Wire::Record(entry_to_wire(entry)),
        Item::Segment {
            prepared_epoch,
            earlier,
            head,
        } => Wire::Segment(v1::ShippedSegment {
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

/// Collects items into messages of a good size.
struct Batches<F> {
    items: Vec<v1::ShippedItem>,
    bytes: usize,
    send: F,
}

impl<F: FnMut(v1::FollowRequest) -> bool> Batches<F> {
    /// Adds an item. Returns `false` if the receiver is gone.
    fn add(&mut self, item: v1::shipped_item::Item, bytes: usize) -> bool {
        self.items.push(v1::ShippedItem { item: Some(item) });
        self.bytes += bytes;
        self.bytes < limits::SHIPPED_BYTES || self.pass_on()
    }

    fn pass_on(&mut self) -> bool {
        self.bytes = 0;
        let items = std::mem::take(&mut self.items);
        items.is_empty()
            || (self.send)(v1::FollowRequest {
                items,
                ..v1::FollowRequest::default()
            })
    }
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

/// Sends the log from the newest segment from which a backup can begin, up to its `changes`-th change. The log may grow meanwhile.
/// Sends nothing if there is no log. Returns `false` if the receiver is gone.
///
/// # Errors
/// The log cannot be read, or does not hold so many changes.
pub(crate) fn send_log(
    journal: &LogJournal,
    expected: Expected<'_>,
    changes: u64,
    send: impl FnMut(v1::FollowRequest) -> bool,
) -> Result<bool, Problem> {
    use v1::shipped_item::Item as Wire;
    let segments = SegmentFile::all(journal.folder())?;
    let missing = |known: u64| {
        Problem::Damaged(format!(
            "{}: the log has {known} changes, {changes} have been made",
            journal.folder().display()
        ))
    };
    let Some(start) = find_start(journal, &segments, expected)? else {
        return if segments.is_empty() && changes == 0 {
            Ok(true)
        } else {
            Err(missing(0))
        };
    };
    let Start {
        place,
        begun: found,
        cut,
    } = start;
    let prepared_epoch = found.header.origin.prepared_epoch;
    let mut known = found.head.changes;
    let mut lots = Batches {
        items: Vec::new(),
        bytes: 0,
        send,
    };
    let segment = |earlier, records: Vec<Record>| {
        let bytes = records.iter().map(|record| record.body.len()).sum();
        let head = records.into_iter().map(record_to_wire).collect();
        (
            Wire::Segment(v1::ShippedSegment {
                prepared_epoch,
                alone: earlier == EarlierSegments::Obsolete,
                head,
            }),
            bytes,
        )
    };
    let (first, bytes) = segment(EarlierSegments::Obsolete, found.records);
    if !lots.add(first, bytes) {
        return Ok(false);
    }
    for record in cut.into_iter().flatten() {
        let (kind, body) = record?;
        let bytes = body.len();
        let record = v1::ShippedRecord {
            kind: kind.into(),
            number: 0,
            body,
        };
        if !lots.add(Wire::Cut(record), bytes) {
            return Ok(false);
        }
    }
    let mut reader = Some(found.reader);
    for file in &segments[place..] {
        let mut reader = match reader.take() {
            Some(reader) => reader,
            None => file.read()?,
        };
        // Records of a head, and the number of its records that are still missing.
        let mut beginning = Vec::new();
        let mut rest = 0;
        while known < changes || rest > 0 {
            let record = match reader.read().map_err(io(file))? {
                Next::Record(record) => record,
                Next::End => break,
                Next::Bad(bad) => return Err(damaged(file, bad.place, bad.fault)),
            };
            if record.kind == HEAD {
                let (head, _) =
                    head(record.body.clone()).map_err(|what| damaged(file, record.place, what))?;
                rest = 1 + head.parts + u32::from(head.replaced);
            }
            let goes = if rest > 0 {
                beginning.push(record);
                rest -= 1;
                if rest > 0 {
                    continue;
                }
                let (item, bytes) = segment(EarlierSegments::Kept, std::mem::take(&mut beginning));
                lots.add(item, bytes)
            } else {
                known += u64::from(is_change(record.kind));
                let bytes = record.body.len();
                lots.add(Wire::Record(record_to_wire(record)), bytes)
            };
            if !goes {
                return Ok(false);
            }
        }
    }
    if known < changes {
        return Err(missing(known));
    }
    Ok(lots.pass_on())
}
