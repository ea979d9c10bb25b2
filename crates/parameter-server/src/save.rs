//! A server's part of a checkpoint: a snapshot, written while training goes on.

use std::cell::Cell;
use std::hash::{BuildHasher as _, Hasher as _, RandomState};
use std::io::ErrorKind;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::OwnedMutexGuard;
use tokio::time::Instant;
use tracing::debug;
use trainyard_checkpoint::{
    FilePurpose, HeldView, OnLot, OnRows, OtherRows, PositionRecord, ShardRecord, ShardState,
    SliceSource, SliceView, TableIncrement, TableSource, TableView, read_back, room_needed,
    write_shard,
};
use trainyard_diagnostic::{Code, Diagnostic};
use trainyard_parameter_store::{
    Basis, Identity, ShardPosition, SliceValues, Snapshot, SnapshotAt, SnapshotRows, SnapshotSlice,
    SnapshotTable, SnapshotTableRows, Store,
};
use trainyard_protocol::Reason;
use trainyard_runtime::{FileWork, Progress, tell_if_stuck};
use trainyard_variable::{FirstRows, StepNumber};
use trainyard_write_ahead_log::FILE_BYTES;

use crate::background::{NotRun, in_background};
use crate::error::chain;
use crate::{Error, LocalServer, Saved, SnapshotPurpose, SnapshotRequest};

/// Longest wait for the version that a snapshot was requested for.
const SNAPSHOT_TIMEOUT: Duration = Duration::from_secs(5);

impl LocalServer {
    /// Writes the server's part of a checkpoint to `directory`: the current state or, under synchronous updates, the
    /// state at a version that may still be ahead.
    ///
    /// # Errors
    /// The store refuses, the file cannot be written, or the version is past or was not reached in time.
    pub async fn save(
        &self,
        identity: Identity,
        directory: &Path,
        at: SnapshotRequest,
    ) -> Result<Saved, Error> {
        self.begin_save(identity, at).await?.write(directory).await
    }

    /// Takes the state that a save is of. Later updates do not change it.
    ///
    /// # Errors
    /// The store refuses, or the version is past or was not reached in time.
    pub async fn begin_save(
        &self,
        identity: Identity,
        at: SnapshotRequest,
    ) -> Result<BegunSave, Error> {
        // A cut of the log is another snapshot. It is short.
        let turn = Arc::clone(&self.snapshot_turn).lock_owned().await;
        self.tell_time();
        let name = snapshot_name();
        let is_based = at.base.is_some();
        let base = at.base.filter(|base| !base.is_empty());
        let basis = match at.purpose {
            SnapshotPurpose::Checkpoint if !is_based => Basis::Whole,
            SnapshotPurpose::Checkpoint => Basis::Increments { name, base },
            SnapshotPurpose::Publication => Basis::Publication { name, since: base },
        };
        let snapshot = match at.step {
            Some(step) => self.snapshot_at(&identity, step, basis).await?,
            None => self.check(self.store.snapshot(&identity, basis))?,
        };
        Ok(BegunSave {
            server: self.clone(),
            snapshot,
            purpose: at.purpose,
            _turn: turn,
        })
    }

    /// Waits for the snapshot of a step, for up to 5 s.
    async fn snapshot_at(
        &self,
        identity: &Identity,
        step: StepNumber,
        basis: Basis,
    ) -> Result<Snapshot, Error> {
        let until = Instant::now() + SNAPSHOT_TIMEOUT;
        // The caller may drop this future while it waits.
        let _wish = Wish {
            store: &self.store,
            step,
        };
        loop {
            let mut changed = self.changed.subscribe();
            match self.check(self.store.snapshot_at(identity, step, basis.clone()))? {
                SnapshotAt::Taken(snapshot) => return Ok(snapshot),
                SnapshotAt::Passed { reached } => {
                    let message = format!("step {step} is past: it is at {reached}");
                    return Err(self.refused(Reason::NotReady, message));
                }
                SnapshotAt::NotYet => {}
            }
            if tokio::time::timeout_at(until, changed.changed())
                .await
                .is_err()
            {
                let message = format!(
                    "step {step} has not come within {} s: training stands still",
                    SNAPSHOT_TIMEOUT.as_secs()
                );
                return Err(self.refused(Reason::NotReady, message));
            }
        }
    }

    /// Returns the bytes that a disk must have free for a whole checkpoint of now and for the files that the logs begin with it,
    /// if the other servers' parts are as large.
    pub fn checkpoint_bytes(&self) -> u64 {
        let num_ps = self.place.lock().1 as u64;
        let values = self.store.status().value_bytes.saturating_mul(num_ps);
        room_needed(values).saturating_add(num_ps.saturating_mul(FILE_BYTES))
    }

    fn save_now(
        &self,
        snapshot: Snapshot,
        directory: &Path,
        purpose: SnapshotPurpose,
        progress: &Progress,
    ) -> Result<Saved, Error> {
        let failed = |error: trainyard_checkpoint::Error| {
            let message = chain(&error);
            let reason = match Diagnostic::from(error).code {
                Code::E1202 | Code::E3010 => Reason::Limit,
                _ => Reason::Storage,
            };
            self.refused(reason, message)
        };
        let global_step = snapshot.global_step;
        let started = Instant::now();
        let file_purpose = match purpose {
            SnapshotPurpose::Checkpoint => FilePurpose::Checkpoint,
            SnapshotPurpose::Publication => FilePurpose::Publication,
        };
        let record = self
            .write(snapshot, directory, file_purpose, progress)
            .map_err(failed)?;
        let written = Instant::now();
        // The readers of a published cut compare its checksums, and the next base replaces a damaged one.
        if purpose == SnapshotPurpose::Checkpoint {
            read_back(directory, &record, || progress.step()).map_err(failed)?;
        }
        debug!(
            file = record.file,
            bytes = record.bytes,
            write_seconds = format!("{:.3}", (written - started).as_secs_f64()),
            read_back_seconds = format!("{:.3}", written.elapsed().as_secs_f64()),
            "saved"
        );
        let record = serde_json::to_string(&record).map_err(|error| {
            self.refused(
                Reason::Storage,
                format!("the record of the file cannot be encoded: {error}"),
            )
        })?;
        Ok(Saved {
            record,
            global_step,
        })
    }

    /// Writes the file of a snapshot.
    fn write(
        &self,
        snapshot: Snapshot,
        directory: &Path,
        purpose: FilePurpose,
        progress: &Progress,
    ) -> Result<ShardRecord, trainyard_checkpoint::Error> {
        let positions = snapshot.positions.iter().cloned();
        let positions = positions
            .map(
                |ShardPosition {
                     shard,
                     pass,
                     batch,
                     ahead,
                 }| PositionRecord {
                    shard,
                    pass,
                    batch,
                    ahead,
                },
            )
            .collect();
        let (ps, num_ps) = *self.place.lock();
        let state = ShardState {
            ps,
            num_ps,
            version: snapshot.version,
            positions,
            cut: snapshot.name.clone(),
            base: snapshot.base.clone(),
            secs: snapshot.secs,
            purpose,
        };
        let is_increment = snapshot.base.is_some();
        let slices: Vec<SliceToWrite> = snapshot
            .slices
            .into_iter()
            .map(|slice| SliceToWrite::of(slice, progress.clone()))
            .collect();
        let views: Vec<SliceView<'_>> = slices
            .iter()
            .map(|slice| SliceView {
                variable: &slice.variable,
                part: slice.part,
                rows: slice.rows.clone(),
                width: slice.width,
                slot_names: slice.slot_names.clone(),
                held: Some(HeldView {
                    rows: slice.held.clone(),
                    others: if is_increment {
                        OtherRows::Base
                    } else {
                        OtherRows::Initial {
                            first: &slice.first_rows,
                            first_slots: &slice.first_slots,
                        }
                    },
                }),
                source: &slice.values,
            })
            .collect();
        let tables: Vec<TableToWrite> = snapshot
            .tables
            .into_iter()
            .map(|table| TableToWrite::of(table, progress.clone()))
            .collect();
        let tables: Vec<TableView<'_>> = tables
            .iter()
            .map(|table| TableView {
                variable: &table.variable,
                part: table.part,
                width: table.width,
                slot_names: table.slot_names.clone(),
                first: Some(&table.first_rows),
                increment: table.increment.clone(),
                source: &table.values,
            })
            .collect();
        write_shard(directory, &state, &views, &tables)
    }
}

/// A save whose state is taken, and which has yet to be written.
#[derive(Debug)]
pub struct BegunSave {
    server: LocalServer,
    snapshot: Snapshot,
    purpose: SnapshotPurpose,
    _turn: OwnedMutexGuard<()>,
}

impl BegunSave {
    /// Writes the server's part of a checkpoint to `directory`.
    ///
    /// # Errors
    /// The file cannot be written.
    pub async fn write(self, directory: &Path) -> Result<Saved, Error> {
        let Self {
            server,
            snapshot,
            purpose,
            _turn,
        } = self;
        let file_work = match purpose {
            SnapshotPurpose::Checkpoint => FileWork::Checkpoint,
            SnapshotPurpose::Publication => FileWork::PublishedCut,
        };
        let progress = Progress::default();
        let (this, folder, counted) = (server.clone(), directory.to_owned(), progress.clone());
        let work = move || this.save_now(snapshot, &folder, purpose, &counted);
        let written = in_background("save", work);
        tell_if_stuck(file_work, directory, &progress, written)
            .await
            .map_err(|problem| {
                let reason = match &problem {
                    NotRun::Thread(error) if error.kind() == ErrorKind::WouldBlock => Reason::Limit,
                    _ => Reason::Storage,
                };
                server.refused(reason, problem.to_string())
            })?
    }
}

/// Returns a name that no other snapshot has: the keys of the standard library's hashes are random.
fn snapshot_name() -> String {
    let random = || RandomState::new().build_hasher().finish();
    format!("{:016x}{:016x}", random(), random())
}

/// A request for a snapshot. Dropping it withdraws the request.
struct Wish<'a> {
    store: &'a Store,
    step: StepNumber,
}

impl Drop for Wish<'_> {
    fn drop(&mut self) {
        self.store.withdraw_snapshot(self.step);
    }
}

/// A slice of a snapshot that is being written.
struct SliceToWrite {
    variable: String,
    part: usize,
    rows: Range<usize>,
    width: usize,
    slot_names: Vec<&'static str>,
    held: Vec<Range<usize>>,
    first_rows: FirstRows,
    first_slots: Vec<f32>,
    values: Stripes,
}

impl SliceToWrite {
    fn of(slice: SnapshotSlice, progress: Progress) -> Self {
        Self {
            variable: slice.variable.clone(),
            part: slice.part,
            rows: slice.rows.clone(),
            width: slice.width,
            slot_names: slice.slot_names.clone(),
            held: slice.held(),
            first_rows: slice.first_rows().clone(),
            first_slots: slice.first_slots().to_vec(),
            values: Stripes {
                rows: Cell::new(Some(slice.into_rows())),
                progress,
            },
        }
    }
}

/// A slice of a dynamic table of a snapshot that is being written.
struct TableToWrite {
    variable: String,
    part: usize,
    width: usize,
    slot_names: Vec<&'static str>,
    first_rows: FirstRows,
    increment: Option<TableIncrement>,
    values: TableLots,
}

impl TableToWrite {
    fn of(table: SnapshotTable, progress: Progress) -> Self {
        Self {
            variable: table.variable.clone(),
            part: table.part,
            width: table.width,
            slot_names: table.slot_names.clone(),
            first_rows: table.first_rows().clone(),
            increment: table.gone().map(|gone| TableIncrement {
                gone,
                rows_in_use: table.rows_in_use(),
            }),
            values: TableLots {
                counts: table.counts(),
                rows: Cell::new(Some(table.into_rows())),
                progress,
            },
        }
    }
}

/// Returns the error of a second pass over rows that are read once: it would find other values.
fn spent() -> trainyard_checkpoint::Error {
    let spent = std::io::Error::other("the rows of a snapshot can be read only once");
    trainyard_model_dir::Error::io("read", Path::new("the snapshot"))(spent).into()
}

/// The rows of a slice at the start of the checkpoint. One stripe at a time is copied.
struct Stripes {
    rows: Cell<Option<SnapshotRows>>,
    progress: Progress,
}

impl SliceSource for Stripes {
    fn read(&self, each: &mut OnRows<'_>) -> Result<(), trainyard_checkpoint::Error> {
        let mut rows = self.rows.take().ok_or_else(spent)?;
        let mut stripe = SliceValues::default();
        while rows.next(&mut stripe) {
            let slots: Vec<&[f32]> = stripe.slots.iter().map(Vec::as_slice).collect();
            each(&stripe.values, &slots)?;
            self.progress.step();
        }
        Ok(())
    }
}

/// The rows of a dynamic table at the start of the checkpoint. One lot at a time is copied.
struct TableLots {
    counts: (usize, usize),
    rows: Cell<Option<SnapshotTableRows>>,
    progress: Progress,
}

impl TableSource for TableLots {
    fn counts(&self) -> (usize, usize) {
        self.counts
    }

    fn read(&self, each: &mut OnLot<'_>) -> Result<(), trainyard_checkpoint::Error> {
        let rows = self.rows.take().ok_or_else(spent)?;
        rows.read(&mut |lot| {
            self.progress.step();
            each(&lot)
        })
    }
}
