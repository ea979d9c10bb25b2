//! The journal of a server's store: it writes the changes to the write-ahead log.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use trainyard_checkpoint::{Checkpoint, ShardRecord, list};
use trainyard_parameter_store::{
    AppendRecord, Change, CutPurpose, Journal, LogCut, LogCutBytes, StoreMetadata,
};
use trainyard_protocol::v1;
use trainyard_runtime::blocking;
use trainyard_write_ahead_log::{EarlierSegments, Entry, Error, Log, Origin, SegmentHeader};

use crate::log_cut::file::CutFile;
use crate::log_cut::folders::CutFolders;
use crate::log_cut::transfer::{CutError, ReceivedCut, SentCut};
use crate::log_cut::{CutChain, DueCut};
use crate::record::{self, Head, LogState};
use crate::replication_log::{NotCommitted, ReplicationLog, SegmentStart};

/// Writes the changes of a store to a log.
#[derive(Debug)]
pub struct LogJournal {
    log: Arc<Log>,
    replication_log: Arc<ReplicationLog>,
    owner: Mutex<u128>,
    member: u32,
    log_state: Arc<Mutex<LogState>>,
    /// Held for reading while the files of the log are read, so that none is removed.
    reading: Arc<tokio::sync::RwLock<()>>,
    /// The request that is preparing the store.
    staged: Mutex<v1::PrepareRequest>,
    /// Free bytes on the disk of the log at the last check; `u64::MAX` before the first.
    free: AtomicU64,
    /// Bytes before the latest cut. They are removed once its checkpoint is committed.
    covered_bytes: AtomicU64,
    is_beside_checkpoints: AtomicBool,
    /// The cut of the log that is being written.
    log_cut: Mutex<Option<LogCutRequest>>,
    /// Length of the log when it was looked at last.
    looked_bytes: AtomicU64,
    cut_folders: CutFolders,
    /// Held while files are removed, and while the log is closed, so that a closed log removes nothing.
    removing: Mutex<()>,
}

/// A cut of the log, from its snapshot until it is written.
#[derive(Debug)]
struct LogCutRequest {
    cut: LogCut,
    /// Segment that goes on from the cut, once the snapshot is taken.
    begun: Option<BegunCut>,
}

/// A cut of the log whose snapshot has been taken.
#[derive(Debug, Clone)]
pub(crate) struct BegunCut {
    pub(crate) origin: Origin,
    pub(crate) head: v1::CutHead,
}

/// Bytes of a log that holds little but the head of its segment: another checkpoint would free nothing.
const HEAD_BYTES_MAX: u64 = 64 << 10;
/// Size up to which a log is too small for its removal to free much space.
const SMALL_LOG_BYTES: u64 = 16 << 20;

/// No holder of these locks panics in the middle of a change, so a poisoned lock is safe to use.
fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl LogJournal {
    /// Returns the journal of server `member` for a log in state `log_state` that holds so many `changes`; absent =
    /// the log has not been begun. Removes cuts at segments that the log does not have: an earlier process has died between
    /// the two, and this one will begin segments of these numbers, at which the store is another.
    ///
    /// # Errors
    /// A folder cannot be read, or a cut cannot be removed.
    pub fn new(
        log: Log,
        owner: u128,
        member: usize,
        log_state: LogState,
        changes: Option<u64>,
    ) -> Result<Self, Error> {
        let journal = Self::of(Arc::new(log), owner, member, log_state, changes);
        let last = journal.log.last();
        let removed = journal.cut_folders.remove(|segment| segment <= last);
        removed.map_err(|error| journal.cut_error("remove a cut of", error))?;
        Ok(journal)
    }

    fn of(
        log: Arc<Log>,
        owner: u128,
        member: usize,
        log_state: LogState,
        changes: Option<u64>,
    ) -> Self {
        Self {
            cut_folders: CutFolders::of(&log),
            log,
            replication_log: Arc::new(ReplicationLog::new(changes)),
            owner: Mutex::new(owner),
            member: member as u32,
            log_state: Arc::new(Mutex::new(log_state)),
            reading: Arc::default(),
            staged: Mutex::default(),
            free: AtomicU64::new(u64::MAX),
            covered_bytes: AtomicU64::new(0),
            is_beside_checkpoints: AtomicBool::new(false),
            log_cut: Mutex::default(),
            looked_bytes: AtomicU64::new(0),
            removing: Mutex::default(),
        }
    }

    /// Closes this journal and returns a new one for the same log, which begins with a new segment. Later changes of
    /// the old store are neither written nor acknowledged.
    pub fn succeed(&self, owner: u128) -> Self {
        {
            let _removing = locked(&self.removing);
            self.replication_log.close();
        }
        Self::of(
            Arc::clone(&self.log),
            owner,
            self.member as usize,
            LogState::default(),
            None,
        )
    }

    /// Keeps all segments until the returned value is dropped; `None` if segments are being removed now.
    pub fn pause_retiring(&self) -> Option<tokio::sync::OwnedRwLockReadGuard<()>> {
        Arc::clone(&self.reading).try_read_owned().ok()
    }

    /// Returns the replication log, which orders the changes.
    pub fn replication_log(&self) -> &ReplicationLog {
        &self.replication_log
    }

    /// Records the request that is about to prepare the store.
    pub fn stage(&self, owner: u128, prepare: v1::PrepareRequest) {
        *locked(&self.owner) = owner;
        *locked(&self.staged) = prepare;
    }

    /// Begins a segment of the primary's log, with the records of its head, of which `first` is the first. A `log_state` is given if
    /// the segment replaces everything before it. Returns the number of the segment in this log; 0 = the log is closed.
    pub fn follow(
        &self,
        first: &v1::LoggedHead,
        log_state: Option<LogState>,
        head: Vec<Entry>,
    ) -> u64 {
        let mut own = locked(&self.log_state);
        let earlier = if log_state.is_some() {
            EarlierSegments::Obsolete
        } else {
            EarlierSegments::Kept
        };
        if let Some(log_state) = log_state {
            *own = LogState {
                chain: CutChain::new(first.seconds),
                ..log_state
            };
        }
        let start = SegmentStart {
            origin: self.origin(own.prepared_epoch),
            earlier,
        };
        let number = self
            .replication_log
            .follow(&self.log, start, first.changes, head);
        if earlier == EarlierSegments::Kept && !first.log_cut && number > 0 {
            own.add_checkpoint(v1::CutCheckpoint {
                segment: number,
                version: first.version,
                seconds: first.seconds,
            });
        }
        number
    }

    /// Begins to receive the cut from which a segment of this log goes on.
    ///
    /// # Errors
    /// The file of the cut cannot be written.
    pub fn receive_cut(&self, segment: u64) -> Result<ReceivedCut, Error> {
        let prepared_epoch = locked(&self.log_state).prepared_epoch;
        let begun = ReceivedCut::begin(&self.cut_folders, self.origin(prepared_epoch), segment);
        begun.map_err(|error| self.cut_error("write a cut of", error))
    }

    /// Takes over a cut that has been received, and returns its file.
    ///
    /// # Errors
    /// The file cannot be written or read.
    pub fn take_received(&self, cut: ReceivedCut) -> Result<CutFile, CutError> {
        let (head, bytes, origin) = cut.finish()?;
        locked(&self.log_state).chain.hold(&head, bytes);
        let file = CutFile::open(&self.cut_folders, origin, head.segment)?;
        file.ok_or_else(|| {
            let folder = self.folder().display();
            let segment = head.segment;
            CutError::Damaged(format!("{folder}: the cut at segment {segment} is missing"))
        })
    }

    /// Returns the whole cut from which a segment goes on, to send it; `None` if there is none.
    ///
    /// # Errors
    /// The file cannot be read, or is damaged.
    pub fn sent_cut(&self, segment: &SegmentHeader) -> Result<Option<SentCut>, CutError> {
        SentCut::open(&self.cut_folders, segment.origin, segment.number)
    }

    /// Appends a record of the primary's log.
    pub fn follow_record(&self, entry: Entry) {
        self.replication_log.add(&self.log, entry);
    }

    /// Sets the state that the primary's log has reached.
    pub fn resume(&self, log_state: &LogState) {
        let mut own = locked(&self.log_state);
        *own = LogState {
            cuts: std::mem::take(&mut own.cuts),
            chain: std::mem::take(&mut own.chain),
            ..log_state.clone()
        };
    }

    /// Logs a recovery of the server. Returns the number of recoveries.
    pub fn restarted(&self) -> u64 {
        let mut log_state = locked(&self.log_state);
        log_state.restarts += 1;
        self.replication_log
            .add(&self.log, record::of_restart(log_state.restarts));
        log_state.restarts
    }

    /// Waits until all changes so far are committed: written, and confirmed by the backup if there is one.
    pub async fn commit(&self) -> Result<(), NotCommitted> {
        let items = self.replication_log.end();
        self.written().await?;
        self.replication_log.commit(items).await
    }

    /// Waits until all changes so far are written. Other calls go on while the disk is waited for.
    pub async fn written(&self) -> Result<(), Error> {
        let end = self.log.end();
        if let Some(done) = self.log.commit_in_memory(end) {
            return done;
        }
        let log = Arc::clone(&self.log);
        match blocking(move || log.commit(end)).await {
            Ok(committed) => committed,
            Err(panic) => Err(Error::Io {
                doing: "write",
                path: self.folder().to_owned(),
                source: Arc::new(std::io::Error::other(panic.to_string())),
            }),
        }
    }

    /// Writes all changes so far, on this thread.
    pub fn write(&self) -> Result<(), Error> {
        self.log.commit(self.log.end())
    }

    /// Returns the failure of the log, if it has failed.
    pub fn failure(&self) -> Option<Error> {
        self.log.failure()
    }

    /// Returns the size of the log in bytes.
    pub fn bytes(&self) -> u64 {
        self.log.bytes()
    }

    /// Returns the bytes of the log's files in shared memory.
    pub fn memory_bytes(&self) -> u64 {
        self.log.memory_bytes()
    }

    /// Returns the position behind which the log is being written; `None` if nothing is. While the disk hangs, it stays
    /// the same.
    pub fn writes_from(&self) -> Option<u64> {
        self.log.writes_from()
    }

    /// Returns the folder of the log.
    pub fn folder(&self) -> &Path {
        self.log.folder()
    }

    /// Returns whether the disk of the log has no room but what a checkpoint takes. Pushes must wait until then.
    pub fn is_short_of_room(&self) -> bool {
        self.log.is_short_of_room()
    }

    /// Sets whether the log lies on the disk of the checkpoints.
    pub fn set_beside_checkpoints(&self, is_beside: bool) {
        self.is_beside_checkpoints
            .store(is_beside, Ordering::Relaxed);
    }

    /// Makes the log leave room to a checkpoint of so many bytes, if it lies on the same disk.
    pub fn leave_room(&self, checkpoint_bytes: impl FnOnce() -> u64) {
        let is_beside = self.is_beside_checkpoints.load(Ordering::Relaxed);
        self.log
            .leave_room(if is_beside { checkpoint_bytes() } else { 0 });
    }

    /// Looks again for room on the disk of the log, if there was none. Returns whether there still is none.
    pub fn check_room(&self) -> bool {
        self.log.check_room()
    }

    /// Returns whether the log has taken room of the next checkpoint that it can give back.
    pub fn may_give_way(&self) -> bool {
        self.log.may_give_way()
    }

    /// Gives the room that the log has taken from the next checkpoint back to it.
    ///
    /// # Errors
    /// A file that was kept for later cannot be removed. The log remains usable.
    pub fn give_way_to_checkpoint(&self) -> Result<(), Error> {
        self.log.give_way_to_checkpoint()
    }

    /// As [`LogJournal::give_way_to_checkpoint`], for a checkpoint that was not requested because of the log, and lacks room.
    ///
    /// # Errors
    /// A file that was kept for later cannot be removed. The log remains usable.
    pub fn make_room_for_checkpoint(&self) -> Result<(), Error> {
        self.log.make_room_for_checkpoint()
    }

    /// Sets the free bytes on the disk of the log.
    pub fn set_free(&self, free: u64) {
        self.free.store(free, Ordering::Relaxed);
    }

    /// Returns the free bytes on the disk of the log at the last check; `None` before the first.
    pub fn free(&self) -> Option<u64> {
        Some(self.free.load(Ordering::Relaxed)).filter(|free| *free < u64::MAX)
    }

    /// Returns whether a checkpoint is due, after which the log is truncated. It is due if the log is longer than
    /// `bytes_max`, takes more of the disk than is free, or has no room there. Bytes that a checkpoint in progress or the
    /// latest one covers do not count, because another checkpoint would not free more. A log without room waits until they
    /// are removed, and until it has given the checkpoint its room, before it counts as such.
    pub fn wants_checkpoint(&self, bytes_max: u64) -> bool {
        let covered = self.covered_bytes.load(Ordering::Relaxed);
        let bytes = self.bytes().saturating_sub(covered);
        let is_covered = covered > 0 && self.waits_for_checkpoint();
        // The checkpoint would find no room.
        if self.may_give_way() {
            return false;
        }
        (self.is_short_of_room() && !is_covered && bytes > HEAD_BYTES_MAX)
            || bytes > bytes_max
            || (bytes > SMALL_LOG_BYTES && bytes > self.free.load(Ordering::Relaxed))
    }

    /// Removes the log of a job that has ended.
    pub fn clear(&self) -> Result<(), Error> {
        {
            let mut log_state = locked(&self.log_state);
            log_state.prepared_epoch = 0;
            log_state.chain = CutChain::default();
        }
        self.replication_log.forget();
        self.log.clear()?;
        let cleared = self.cut_folders.clear();
        cleared.map_err(|error| self.cut_error("remove a cut of", error))
    }

    /// Returns the cut of the log that is due, if the log is longer than its memory is worth. `memory_bytes` of it may lie in
    /// shared memory; `bytes` are those that a cut would write.
    pub fn due_cut(
        &self,
        memory_bytes: u64,
        bytes: impl FnOnce() -> LogCutBytes,
    ) -> Option<DueCut> {
        // A cut begins a file of the log.
        if self.is_short_of_room() {
            return None;
        }
        let log_bytes = self.bytes();
        let looked = self.looked_bytes.load(Ordering::Relaxed);
        // The log may have been cut, or cleared.
        let looked = if looked > log_bytes { 0 } else { looked };
        if log_bytes < CutChain::look_bytes(looked, memory_bytes) || locked(&self.log_cut).is_some()
        {
            return None;
        }
        self.looked_bytes.store(log_bytes, Ordering::Relaxed);
        if locked(&self.log_state).prepared_epoch == 0 {
            return None;
        }
        // A snapshot waits for the lock of the state, so that it is free while rows are counted.
        let bytes = bytes();
        locked(&self.log_state)
            .chain
            .due(log_bytes, memory_bytes, bytes)
    }

    /// Returns the most bytes of the log and its cuts in shared memory.
    pub fn memory_bytes_max(&self) -> u64 {
        self.log.memory_bytes_max()
    }

    /// Returns the next cut of the log, of which `memory_bytes` may lie in shared memory. `bytes` are those that a cut would write.
    pub(crate) fn next_cut(&self, memory_bytes: u64, bytes: LogCutBytes) -> DueCut {
        locked(&self.log_state).chain.next(memory_bytes, bytes)
    }

    /// Begins a cut of the log at a segment that has been begun.
    pub(crate) fn begin_cut(&self, segment: u64, cut: LogCut) -> BegunCut {
        let begun = self.begun_at(&locked(&self.log_state), segment, cut);
        *locked(&self.log_cut) = Some(LogCutRequest {
            cut,
            begun: Some(begun.clone()),
        });
        begun
    }

    fn begun_at(&self, log_state: &LogState, segment: u64, cut: LogCut) -> BegunCut {
        BegunCut {
            origin: self.origin(log_state.prepared_epoch),
            head: log_state.chain.head(segment, cut, &log_state.prepare),
        }
    }

    /// Prepares for the snapshot of a cut of the log.
    pub(crate) fn request_cut(&self, cut: LogCut) {
        *locked(&self.log_cut) = Some(LogCutRequest { cut, begun: None });
    }

    /// Returns the cut whose snapshot has been taken.
    pub(crate) fn begun_cut(&self) -> Option<BegunCut> {
        locked(&self.log_cut).as_ref()?.begun.clone()
    }

    /// Ends a cut whose snapshot could not be taken. The rows that have changed are still known.
    pub(crate) fn withdraw_cut(&self) {
        *locked(&self.log_cut) = None;
    }

    /// Ends a cut whose snapshot was taken and could not be written. The next cut is whole.
    pub(crate) fn lose_cut(&self) {
        self.withdraw_cut();
        locked(&self.log_state).chain.lose();
    }

    /// Ends a cut that was written with `bytes` bytes. The segments before it go.
    ///
    /// # Errors
    /// A file cannot be removed.
    pub(crate) fn hold_cut(&self, cut: &BegunCut, bytes: u64) -> Result<(), Error> {
        self.withdraw_cut();
        let _removing = locked(&self.removing);
        if self.replication_log.is_closed() {
            return Ok(());
        }
        let is_current = {
            let mut log_state = locked(&self.log_state);
            let is_current = log_state.prepared_epoch == cut.origin.prepared_epoch;
            if is_current {
                log_state.chain.hold(&cut.head, bytes);
            }
            is_current
        };
        // The store may have been prepared anew, or its job may have ended.
        if !is_current {
            return self.remove_cuts();
        }
        // The primary reads the files while it brings its backup in sync.
        let Some(_retiring) = self.reading.try_write().ok() else {
            return Ok(());
        };
        self.log.retire(cut.head.segment)?;
        self.covered_bytes.store(0, Ordering::Relaxed);
        self.remove_cuts()
    }

    /// Removes the files of cuts that the chain does not have.
    fn remove_cuts(&self) -> Result<(), Error> {
        let needed = locked(&self.log_state).chain.clone();
        let removed = self.cut_folders.remove(|segment| needed.needs(segment));
        removed.map_err(|error| self.cut_error("remove a cut of", error))
    }

    fn cut_error(&self, doing: &'static str, source: std::io::Error) -> Error {
        Error::Io {
            doing,
            path: self.folder().to_owned(),
            source: Arc::new(source),
        }
    }

    /// Returns the folders of the log's cuts.
    pub(crate) fn cut_folders(&self) -> &CutFolders {
        &self.cut_folders
    }

    /// Removes the segments that the latest committed checkpoint covers. Returns the number of removed bytes.
    pub fn retire(&self, model_dir: &Path) -> Result<u64, Error> {
        let (prepare, prepared_epoch, cuts) = {
            let log_state = locked(&self.log_state);
            (
                log_state.prepare.clone(),
                log_state.prepared_epoch,
                log_state.cuts.clone(),
            )
        };
        // The primary reads the files while it brings its backup in sync.
        let Some(_retiring) = self.reading.try_write().ok() else {
            return Ok(0);
        };
        let found = cuts.iter().rev().find(|(_, version)| {
            let place = prepare.place as usize;
            let num_ps = prepare.num_ps as usize;
            // If the checkpoint cannot be read, the segments stay, and the next call checks again.
            committed(model_dir, place, num_ps, prepared_epoch, *version)
                .is_ok_and(|found| found.is_some())
        });
        let Some(&(segment, _)) = found else {
            return Ok(0);
        };
        let before = self.log.bytes();
        {
            let mut log_state = locked(&self.log_state);
            log_state.cuts.retain(|(number, _)| *number > segment);
            log_state.chain.commit(segment);
        }
        self.log.retire(segment)?;
        self.remove_cuts()?;
        let removed = before.saturating_sub(self.log.bytes());
        // A cut at this moment sets the count anew.
        let _ = self
            .covered_bytes
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |covered| {
                Some(covered.saturating_sub(removed))
            });
        Ok(removed)
    }

    /// Gives back the files that are kept for later cuts. The process is about to end, so there will be none.
    ///
    /// # Errors
    /// A file cannot be removed.
    pub fn trim(&self) -> std::io::Result<()> {
        self.cut_folders.remove_free()
    }

    /// Returns whether a cut waits for its checkpoint to be committed.
    pub fn waits_for_checkpoint(&self) -> bool {
        !locked(&self.log_state).cuts.is_empty()
    }

    fn origin(&self, prepared_epoch: u64) -> Origin {
        Origin {
            owner: *locked(&self.owner),
            member: self.member,
            prepared_epoch,
        }
    }
}

/// Finds the committed checkpoint that holds a server's store at a version. Checkpoints of terms before
/// `prepared_epoch` hold other values. If two were cut at the same version, either fits: they differ only in the idle
/// times of dynamic rows, by the time between them, in which nothing was pushed.
///
/// # Errors
/// A checkpoint cannot be read, so it may be the one.
pub(crate) fn committed(
    model_dir: &Path,
    place: usize,
    num_ps: usize,
    prepared_epoch: u64,
    version: u64,
) -> Result<Option<PathBuf>, trainyard_checkpoint::Error> {
    let found = list(model_dir)?;
    let since = found
        .into_iter()
        .rev()
        .take_while(|found| found.epoch >= prepared_epoch);
    for path in since.map(|found| found.path) {
        let checkpoint = match Checkpoint::open(&path) {
            Ok(checkpoint) => checkpoint,
            // The checkpoint is damaged, or was removed after it was listed.
            Err(error) if !error.is_unreadable() => continue,
            Err(error) => return Err(error),
        };
        let manifest = checkpoint.manifest();
        let holds = |shard: &ShardRecord| shard.ps == place && shard.version == version;
        if manifest.num_ps == num_ps && manifest.shards.iter().any(holds) {
            return Ok(Some(path));
        }
    }
    Ok(None)
}

impl Journal for LogJournal {
    fn prepare_record(&self, change: &Change) -> AppendRecord {
        let log = Arc::clone(&self.log);
        let replication_log = Arc::clone(&self.replication_log);
        let entry = record::of_change(change);
        let log_state = match change {
            Change::Claim { epoch } => Some((*epoch, false)),
            Change::Open => Some((0, true)),
            _ => None,
        };
        match log_state {
            None => Box::new(move |version| replication_log.add(&log, entry.numbered(version))),
            Some((epoch, open)) => {
                let log_state = Arc::clone(&self.log_state);
                // The checkpoint of an earlier chief may never be committed.
                self.covered_bytes.store(0, Ordering::Relaxed);
                Box::new(move |version| {
                    let mut log_state = locked(&log_state);
                    log_state.epoch = log_state.epoch.max(epoch);
                    log_state.open |= open;
                    replication_log.add(&log, entry.numbered(version));
                })
            }
        }
    }

    fn begin(&self, prepared_epoch: u64, metadata: StoreMetadata) {
        let mut log_state = locked(&self.log_state);
        let prepare = locked(&self.staged).clone();
        *log_state = LogState {
            prepare,
            epoch: prepared_epoch,
            prepared_epoch,
            chain: CutChain::new(metadata.secs),
            ..LogState::default()
        };
        let entries = |changes| {
            record::of_head(&Head {
                log_state: &log_state,
                prepared_only: true,
                log_cut: false,
                changes,
                metadata: &metadata,
            })
        };
        let start = SegmentStart {
            origin: self.origin(prepared_epoch),
            earlier: EarlierSegments::Obsolete,
        };
        self.replication_log.begin(&self.log, start, entries);
    }

    fn cut(&self, purpose: CutPurpose, metadata: StoreMetadata) {
        let mut log_state = locked(&self.log_state);
        if log_state.prepared_epoch == 0 {
            return;
        }
        let log_cut = locked(&self.log_cut).as_ref().map(|request| request.cut);
        let log_cut = log_cut.filter(|_| purpose == CutPurpose::Log);
        let entries = |changes| {
            record::of_head(&Head {
                log_state: &log_state,
                prepared_only: false,
                log_cut: log_cut.is_some(),
                changes,
                metadata: &metadata,
            })
        };
        let start = SegmentStart {
            origin: self.origin(log_state.prepared_epoch),
            earlier: EarlierSegments::Kept,
        };
        let bytes = self.bytes();
        let number = self.replication_log.begin(&self.log, start, entries);
        match log_cut {
            _ if number == 0 => {}
            Some(cut) => {
                if let Some(request) = &mut *locked(&self.log_cut) {
                    request.begun = Some(self.begun_at(&log_state, number, cut));
                }
            }
            None => {
                self.covered_bytes.store(bytes, Ordering::Relaxed);
                log_state.add_checkpoint(v1::CutCheckpoint {
                    segment: number,
                    version: metadata.version,
                    seconds: metadata.secs,
                });
            }
        }
    }
}
