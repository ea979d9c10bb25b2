//! The journal of a server's store: its changes in a log.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use trainyard_checkpoint::{Checkpoint, ShardRecord, list};
use trainyard_daemon::free_bytes;
use trainyard_parameter_store::{AppendRecord, Change, Journal, StoreMetadata};
use trainyard_protocol::v1;
use trainyard_write_ahead_log::{Entry, Error, Log, Origin};

use crate::record::{self, Head};
use crate::replication_log::{NotCommitted, ReplicationLog};

/// What the heads of segments say besides the store's standing.
#[derive(Debug, Clone, Default)]
pub(crate) struct LogState {
    /// What the store was prepared with.
    pub(crate) prepare: v1::PrepareRequest,
    /// For which it is claimed.
    pub(crate) epoch: u64,
    /// Whether workers have been let in.
    pub(crate) open: bool,
    /// How often it was brought back.
    pub(crate) restarts: u64,
    /// Epoch in which it was prepared; 0 = it was not.
    pub(crate) prepared_epoch: u64,
    /// Segments that begin with a checkpoint of which it is not known whether it was committed: number, version.
    pub(crate) cuts: Vec<(u64, u64)>,
}

/// Writes a store's changes into a log.
#[derive(Debug)]
pub(crate) struct LogJournal {
    log: Arc<Log>,
    replication_log: Arc<ReplicationLog>,
    owner: Mutex<u128>,
    member: u32,
    log_state: Arc<Mutex<LogState>>,
    /// Held while the files are read.
    reading: Arc<tokio::sync::RwLock<()>>,
    /// The request that the store is being prepared with.
    staged: Mutex<v1::PrepareRequest>,
    /// Bytes that the disk of the log had room for at the last look; `u64::MAX` before that.
    free: AtomicU64,
    /// Bytes in front of the latest cut: they go once its checkpoint is committed.
    covered_bytes: AtomicU64,
}

/// A log so short that its end makes no room.
const SMALL_LOG_BYTES: u64 = 16 << 20;

/// Nothing that holds one of these locks panics half-way through a change.
fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl LogJournal {
    /// Returns the journal of server `member` in a log that has come to `log_state`.
    pub(crate) fn new(
        log: Log,
        owner: u128,
        member: usize,
        log_state: LogState,
        changes: Option<u64>,
    ) -> Self {
        Self::of(Arc::new(log), owner, member, log_state, changes)
    }

    fn of(
        log: Arc<Log>,
        owner: u128,
        member: usize,
        log_state: LogState,
        changes: Option<u64>,
    ) -> Self {
        Self {
            log,
            replication_log: Arc::new(ReplicationLog::new(changes)),
            owner: Mutex::new(owner),
            member: member as u32,
            log_state: Arc::new(Mutex::new(log_state)),
            reading: Arc::default(),
            staged: Mutex::default(),
            free: AtomicU64::new(u64::MAX),
            covered_bytes: AtomicU64::new(0),
        }
    }

    /// Returns another journal in the same log, which begins anew. This one is closed: nothing that its store still does
    /// is written, or acknowledged.
    pub(crate) fn succeed(&self, owner: u128) -> Self {
        self.replication_log.close();
        Self::of(
            Arc::clone(&self.log),
            owner,
            self.member as usize,
            LogState::default(),
            None,
        )
    }

    /// Keeps every segment until the value is dropped.
    pub(crate) fn pause_retiring(&self) -> Option<tokio::sync::OwnedRwLockReadGuard<()>> {
        Arc::clone(&self.reading).try_read_owned().ok()
    }

    /// Returns the order of what it takes in.
    pub(crate) fn replication_log(&self) -> &ReplicationLog {
        &self.replication_log
    }

    /// Takes note of what the store is about to be prepared with.
    pub(crate) fn stage(&self, owner: u128, prepare: v1::PrepareRequest) {
        *locked(&self.owner) = owner;
        *locked(&self.staged) = prepare;
    }

    /// Takes a segment of another log in, which says how a store stands at `version` after so many changes. `alone`: it
    /// is the first.
    pub(crate) fn follow(
        &self,
        log_state: Option<LogState>,
        version: u64,
        changes: u64,
        head: Vec<Entry>,
    ) {
        let mut own = locked(&self.log_state);
        let alone = log_state.is_some();
        if let Some(log_state) = log_state {
            *own = log_state;
        }
        let number = self.replication_log.follow(
            &self.log,
            self.origin(own.prepared_epoch),
            alone,
            changes,
            head,
        );
        if !alone && number > 0 {
            own.cuts.push((number, version));
        }
    }

    /// Takes a record of another log in.
    pub(crate) fn follow_record(&self, entry: Entry) {
        self.replication_log.add(&self.log, entry);
    }

    /// Takes up what another log has come to.
    pub(crate) fn resume(&self, log_state: &LogState) {
        let mut own = locked(&self.log_state);
        *own = LogState {
            cuts: std::mem::take(&mut own.cuts),
            ..log_state.clone()
        };
    }

    /// Writes that the server was brought back, and how often.
    pub(crate) fn restarted(&self) -> u64 {
        let mut log_state = locked(&self.log_state);
        log_state.restarts += 1;
        self.replication_log
            .add(&self.log, record::of_restart(log_state.restarts));
        log_state.restarts
    }

    /// Waits until everything that the store has told so far is safe: written, and with the backup, if there is one.
    pub(crate) async fn commit(&self) -> Result<(), NotCommitted> {
        let items = self.replication_log.end();
        self.log.commit(self.log.end()).await?;
        self.replication_log.commit(items).await
    }

    /// Writes everything that the store has told so far.
    pub(crate) async fn write(&self) -> Result<(), Error> {
        self.log.commit(self.log.end()).await
    }

    /// Returns why nothing can be made safe any more.
    pub(crate) fn failure(&self) -> Option<Error> {
        self.log.failure()
    }

    /// Returns the fingerprint of the settings that the store was prepared with.
    pub(crate) fn settings(&self) -> u64 {
        locked(&self.log_state).prepare.settings
    }

    /// Returns the bytes of the log.
    pub(crate) fn bytes(&self) -> u64 {
        self.log.bytes()
    }

    /// Looks how much room the disk of the log has.
    pub(crate) fn look_at_disk(&self) {
        if let Some(free) = free_bytes(self.log.folder()) {
            self.free.store(free, Ordering::Relaxed);
        }
    }

    /// Returns the bytes that the disk of the log had room for at the last look; nothing before that.
    pub(crate) fn free(&self) -> Option<u64> {
        Some(self.free.load(Ordering::Relaxed)).filter(|free| *free < u64::MAX)
    }

    /// Returns whether a checkpoint should be written soon, behind which the log begins anew: it is longer than `bytes_max`, or
    /// takes more of the disk than is left there. What a checkpoint covers that is being written, or has just been, does not
    /// count: another one would free no more.
    pub(crate) fn wants_checkpoint(&self, bytes_max: u64) -> bool {
        let covered = self.covered_bytes.load(Ordering::Relaxed);
        let bytes = self.bytes().saturating_sub(covered);
        bytes > bytes_max || (bytes > SMALL_LOG_BYTES && bytes > self.free.load(Ordering::Relaxed))
    }

    /// Removes the log: the job is over.
    pub(crate) fn clear(&self) -> Result<(), Error> {
        locked(&self.log_state).prepared_epoch = 0;
        self.replication_log.forget();
        self.log.clear()
    }

    /// Removes what no checkpoint needs that has been committed. Returns the bytes that were.
    pub(crate) fn retire(&self, model_dir: &Path) -> Result<u64, Error> {
        let (prepare, prepared_epoch, cuts) = {
            let log_state = locked(&self.log_state);
            (
                log_state.prepare.clone(),
                log_state.prepared_epoch,
                log_state.cuts.clone(),
            )
        };
        // A backup that is brought level reads the files.
        let Some(_retiring) = self.reading.try_write().ok() else {
            return Ok(0);
        };
        let found = cuts.iter().rev().find(|(_, version)| {
            let place = prepare.place as usize;
            let num_ps = prepare.num_ps as usize;
            // What cannot be looked at stays, and is looked at again.
            committed(model_dir, place, num_ps, prepared_epoch, *version)
                .is_ok_and(|found| found.is_some())
        });
        let Some(&(segment, _)) = found else {
            return Ok(0);
        };
        let before = self.log.bytes();
        locked(&self.log_state)
            .cuts
            .retain(|(number, _)| *number > segment);
        self.log.retire(segment)?;
        let removed = before.saturating_sub(self.log.bytes());
        let covered = self.covered_bytes.load(Ordering::Relaxed);
        self.covered_bytes
            .store(covered.saturating_sub(removed), Ordering::Relaxed);
        Ok(removed)
    }

    /// Returns whether it waits for a checkpoint to be committed.
    pub(crate) fn waits_for_checkpoint(&self) -> bool {
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

/// Finds the committed checkpoint that holds a server's store at a version. Epochs before `prepared_epoch` wrote those of other
/// values. Of two that were cut at the same version, either will do: they differ in how long rows of dynamic tables have
/// been idle, by the time in which nothing was pushed.
///
/// # Errors
/// One of them cannot be looked at: whether it is the one is not known.
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
            // Damaged, or removed since it was listed.
            Err(error) if error.is_of_files() => continue,
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
    fn prepare_record(&self, change: &Change<'_>) -> AppendRecord {
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
                // Whether the checkpoint of an earlier chief is committed yet, nobody knows.
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
            ..LogState::default()
        };
        let LogState {
            prepare,
            epoch,
            open,
            restarts,
            ..
        } = &*log_state;
        let epoch = *epoch;
        let open = *open;
        let restarts = *restarts;
        let metadata = &metadata;
        let entries = |changes| {
            record::of_head(&Head {
                prepare,
                epoch,
                open,
                restarts,
                prepared_only: true,
                changes,
                metadata,
            })
        };
        self.replication_log
            .begin(&self.log, self.origin(prepared_epoch), true, entries);
    }

    fn cut(&self, metadata: StoreMetadata) {
        let mut log_state = locked(&self.log_state);
        if log_state.prepared_epoch == 0 {
            return;
        }
        let LogState {
            prepare,
            epoch,
            open,
            restarts,
            prepared_epoch,
            ..
        } = &*log_state;
        let epoch = *epoch;
        let open = *open;
        let restarts = *restarts;
        let metadata = &metadata;
        let entries = |changes| {
            record::of_head(&Head {
                prepare,
                epoch,
                open,
                restarts,
                prepared_only: false,
                changes,
                metadata,
            })
        };
        let bytes = self.bytes();
        let number =
            self.replication_log
                .begin(&self.log, self.origin(*prepared_epoch), false, entries);
        if number > 0 {
            self.covered_bytes.store(bytes, Ordering::Relaxed);
            log_state.cuts.push((number, metadata.version));
        }
    }
}
