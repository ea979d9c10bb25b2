//! Cuts of the log: what keeps the log of a server short.
//!
//! At a cut, the server writes the rows that have changed since the cut before, and the log before the cut is not needed
//! any more. The cuts form a chain. It begins with a whole cut, with the values that the store was prepared with, or with a
//! checkpoint that was committed since. A recovery restores the first of them, lays the others over it in order, and
//! replays the log from the last cut on.
//!
//! The files lie in shared memory as far as there is room. They are not flushed: like the log, they outlive the process, and a restart of the machine makes them useless.

pub(crate) mod file;
pub(crate) mod folders;
pub mod transfer;

use trainyard_parameter_store::{LogCut, LogCutBytes};
use trainyard_protocol::v1;
use trainyard_write_ahead_log::Origin;

use file::{CutError, CutFile};
use folders::CutFolders;

/// A log that has one in so many bytes of its memory is cut if the cut is cheap.
const CHEAP_LOG_DIVISOR: u64 = 8;
/// A cut is cheap if it has at most one in so many bytes of the log.
const CHEAP_CUT_DIVISOR: u64 = 16;
/// A log that has one in so many bytes of its memory is cut even if the cut is less cheap.
const DEAR_LOG_DIVISOR: u64 = 2;
/// A cut that has more than one in so many bytes of the log is not made: writing the log costs less.
const DEAR_CUT_DIVISOR: u64 = 2;
/// The bytes of a cut are counted again when the log has grown by one in so many bytes of its memory.
const LOOK_DIVISOR: u64 = 64;
/// Memory from which parts are counted if the log has none, in bytes.
const ASSUMED_MEMORY_BYTES: u64 = 1 << 30;

/// A cut that is due.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DueCut {
    /// Rows that it holds.
    pub rows: LogCut,
    /// Bytes that it has, about.
    pub bytes: u64,
}

/// A cut of the log that has been written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Held {
    /// Segment that goes on from the cut.
    segment: u64,
    bytes: u64,
    rows: LogCut,
}

/// The chain of cuts.
#[derive(Debug, Clone, Default)]
pub struct CutChain {
    held: Vec<Held>,
    /// The committed checkpoint from which the chain goes on; `None` = the values that the store was prepared with.
    root: Option<v1::CutCheckpoint>,
    /// Cuts for checkpoints since the latest cut of the log.
    checkpoints: Vec<v1::CutCheckpoint>,
    /// Seconds of training when the store was prepared.
    prepared_secs: u64,
    /// A cut was not written, so the next one must be whole.
    lacks_one: bool,
}

impl CutChain {
    /// Returns the chain of a log whose store was prepared at so many seconds of training.
    pub(crate) fn new(prepared_secs: u64) -> Self {
        Self {
            prepared_secs,
            ..Self::default()
        }
    }

    /// Returns the length at which a log may be long enough for a cut, if a cut of the log was due or not at `looked_bytes`.
    pub(crate) fn look_bytes(looked_bytes: u64, memory_bytes: u64) -> u64 {
        let next = looked_bytes + counted_memory_bytes(memory_bytes) / LOOK_DIVISOR;
        next.max(cheap_log_bytes(memory_bytes))
    }

    /// Returns the cut to make now, if one is due. The log has `log_bytes` bytes, of which `memory_bytes` may lie in memory.
    pub(crate) fn due(
        &self,
        log_bytes: u64,
        memory_bytes: u64,
        cut: LogCutBytes,
    ) -> Option<DueCut> {
        let cheap_log = cheap_log_bytes(memory_bytes);
        let dear_log = counted_memory_bytes(memory_bytes) / DEAR_LOG_DIVISOR;
        let next = self.next(memory_bytes, cut);
        let is_due = (log_bytes >= cheap_log && next.bytes <= log_bytes / CHEAP_CUT_DIVISOR)
            || (log_bytes >= dear_log && next.bytes <= log_bytes / DEAR_CUT_DIVISOR);
        is_due.then_some(next)
    }

    /// Returns the next cut, for a log of which `memory_bytes` may lie in memory.
    pub(crate) fn next(&self, memory_bytes: u64, cut: LogCutBytes) -> DueCut {
        let cheap_log = cheap_log_bytes(memory_bytes);
        let increments = self
            .held
            .iter()
            .filter(|held| held.rows == LogCut::Increment);
        let increments: u64 = increments.map(|held| held.bytes).sum();
        // Increments with more bytes than the whole are replaced by it: so at most twice the bytes of increments are
        // written, and a recovery reads at most twice the whole.
        let is_whole = self.lacks_one || increments + cut.increment > cut.whole.max(cheap_log);
        if is_whole {
            DueCut {
                rows: LogCut::Whole,
                bytes: cut.whole,
            }
        } else {
            DueCut {
                rows: LogCut::Increment,
                bytes: cut.increment,
            }
        }
    }

    /// Returns the head of a cut at a segment. `prepare` is the request that prepared the store.
    pub(crate) fn head(
        &self,
        segment: u64,
        cut: LogCut,
        prepare: &v1::PrepareRequest,
    ) -> v1::CutHead {
        let whole = cut == LogCut::Whole;
        let previous = self
            .held
            .last()
            .filter(|_| !whole)
            .map_or(0, |held| held.segment);
        let root = self.root.iter().filter(|_| previous == 0);
        v1::CutHead {
            segment,
            whole,
            previous,
            prepare: (previous == 0 && self.root.is_none()).then(|| prepare.clone()),
            prepared_seconds: self.prepared_secs,
            checkpoints: root.chain(&self.checkpoints).copied().collect(),
            ..v1::CutHead::default()
        }
    }

    /// Records a cut for a checkpoint.
    pub(crate) fn add_checkpoint(&mut self, checkpoint: v1::CutCheckpoint) {
        self.checkpoints.push(checkpoint);
    }

    /// Records that a cut of the log has been written.
    pub(crate) fn hold(&mut self, head: &v1::CutHead, bytes: u64) {
        if head.whole {
            self.held.clear();
            self.lacks_one = false;
        }
        self.held.push(Held {
            segment: head.segment,
            bytes,
            rows: rows_of(head),
        });
        self.checkpoints
            .retain(|checkpoint| checkpoint.segment > head.segment);
    }

    /// Records that a cut was not written.
    pub(crate) fn lose(&mut self) {
        self.lacks_one = true;
    }

    /// Records that the checkpoint of the cut at a segment is committed: earlier cuts are not needed any more.
    pub(crate) fn commit(&mut self, segment: u64) {
        let checkpoint = |checkpoint: &&v1::CutCheckpoint| checkpoint.segment == segment;
        if let Some(found) = self.checkpoints.iter().find(checkpoint) {
            self.root = Some(*found);
        }
        self.held.retain(|held| held.segment > segment);
        self.checkpoints
            .retain(|checkpoint| checkpoint.segment > segment);
    }

    /// Returns whether the chain has the cut at a segment.
    pub(crate) fn needs(&self, segment: u64) -> bool {
        self.held.iter().any(|held| held.segment == segment)
    }
}

fn rows_of(head: &v1::CutHead) -> LogCut {
    if head.whole {
        LogCut::Whole
    } else {
        LogCut::Increment
    }
}

/// Returns the memory of which a log's length is counted in parts.
fn counted_memory_bytes(memory_bytes: u64) -> u64 {
    if memory_bytes == 0 {
        ASSUMED_MEMORY_BYTES
    } else {
        memory_bytes
    }
}

/// Returns the length from which on a log is cut if the cut is cheap.
fn cheap_log_bytes(memory_bytes: u64) -> u64 {
    counted_memory_bytes(memory_bytes) / CHEAP_LOG_DIVISOR
}

/// The state at the begin of a segment: what it is restored from, and the cuts that are laid over it, in order.
#[derive(Debug, Default)]
pub(crate) struct Start {
    /// Request that prepares the store.
    pub(crate) prepare: v1::PrepareRequest,
    /// Seconds of training at which the values that it gives were.
    pub(crate) secs: u64,
    pub(crate) cuts: Vec<CutFile>,
    pub(crate) chain: CutChain,
}

/// Finds the cuts that lead to the state at the begin of a segment; `None` if one is missing. `prepare` is the request of
/// the segment's head. `committed` returns the request that restores the committed checkpoint of a version.
///
/// # Errors
/// A file cannot be read, or is damaged; or `committed` fails.
pub(crate) fn find<E: From<CutError>>(
    folders: &CutFolders,
    origin: Origin,
    segment: u64,
    prepare: &v1::PrepareRequest,
    mut committed: impl FnMut(Root<'_>) -> Result<Option<v1::PrepareRequest>, E>,
) -> Result<Option<Start>, E> {
    let mut start = Start::default();
    let mut at = segment;
    let found = loop {
        let Some(cut) = CutFile::open(folders, origin, at)? else {
            return Ok(None);
        };
        let bytes = cut.bytes;
        let head = cut.head.clone();
        start.chain.held.insert(
            0,
            Held {
                segment: at,
                bytes,
                rows: rows_of(&head),
            },
        );
        start.cuts.insert(0, cut);
        if head.whole {
            break Some(of_whole_cut(prepare));
        }
        let mut checkpoint = None;
        for of in head.checkpoints.iter().rev() {
            checkpoint = committed(Root::Checkpoint(of.version))?;
            if checkpoint.is_some() {
                start.secs = of.seconds;
                break;
            }
        }
        if checkpoint.is_some() {
            break checkpoint;
        }
        if let Some(prepare) = &head.prepare {
            start.secs = head.prepared_seconds;
            start.chain.prepared_secs = head.prepared_seconds;
            break committed(Root::Prepared(prepare))?;
        }
        if head.previous == 0 {
            break None;
        }
        at = head.previous;
    };
    let Some(found) = found else { return Ok(None) };
    start.prepare = found;
    Ok(Some(start))
}

/// Returns the request that prepares a store for a whole cut, which has all values.
pub fn of_whole_cut(prepare: &v1::PrepareRequest) -> v1::PrepareRequest {
    v1::PrepareRequest {
        checkpoint: String::new(),
        warm_start: String::new(),
        ..prepare.clone()
    }
}

/// What a chain may begin with.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Root<'a> {
    /// The committed checkpoint of a version.
    Checkpoint(u64),
    /// The values that a request has prepared.
    Prepared(&'a v1::PrepareRequest),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn increments_are_replaced_by_a_whole_cut_once_they_have_its_bytes_and_follow_it_again() {
        let mut chain = CutChain::new(0);
        let bytes = LogCutBytes {
            increment: 40,
            whole: 100,
        };
        let mut rows = Vec::new();
        for segment in 1..=8 {
            let due = chain.due(1000, 1000, bytes).expect("the log is long");
            rows.push(due.rows == LogCut::Whole);
            let head = chain.head(segment, due.rows, &v1::PrepareRequest::default());
            assert_eq!(
                head.previous == 0,
                due.rows == LogCut::Whole || segment == 1
            );
            chain.hold(&head, due.bytes);
        }
        // The length of a log that is worth a cheap cut, 125, counts as the whole.
        let whole = true;
        assert_eq!(
            rows,
            [false, false, false, whole, false, false, false, whole]
        );
    }
}
