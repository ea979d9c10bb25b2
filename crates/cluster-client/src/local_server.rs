//! A parameter server in this process: the store, and its part of the checkpoint files.
//!
//! The daemon serves exactly this over gRPC, so that one process and a cluster follow the same rules.

use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::watch;
use tokio::time::Instant;
use tracing::debug;
use trainyard_checkpoint::{
    Checkpoint, HeldView, OnLot, OnRows, Origin, PartRead, PositionRecord, ShardRecord, ShardState,
    SliceSource, SliceView, TableSource, TableView, known_cluster_id, read_back, write_shard,
};
use trainyard_cluster_spec::Task;
use trainyard_parameter_store::{
    Claim, FirstValues, Gradients, Identity, Lots, Opened, Prepare, Pull, Pulled, Push, Pushed,
    Reading, Restore, ShardPosition, SliceValues, Snapshot, SnapshotAt, SnapshotSlice,
    SnapshotTable, Store, TensorSource, Ticket, Update,
};
use trainyard_protocol::{Reason, Refusal};
use trainyard_runtime::blocking;
use trainyard_variable::{FirstRows, Slice};

use crate::background::in_background;
use crate::call::{ShardAnswer, ShardCall, ShardPull, ShardPush};
use crate::{Answer, Error, Plan, Saved, ServerStatus};

/// Longest time for which a pull waits for its ticket or version.
const LONG_POLL_TIMEOUT: Duration = Duration::from_millis(250);
/// Parallel reads of a checkpoint in an object store. Each read waits for a reply and computes nothing.
const READS_OF_STORE_MAX: usize = 32;
/// Longest wait for the version that a snapshot was requested for.
const SNAPSHOT_TIMEOUT: Duration = Duration::from_secs(5);

/// A store and its place in the cluster.
#[derive(Debug, Clone)]
pub struct LocalServer {
    name: String,
    /// Place among the stores of the job, and their number. The cluster spec gives both until the chief does.
    place: Arc<Mutex<(usize, usize)>>,
    incarnation: u64,
    cluster_fingerprint: u64,
    /// Start of the clock of this process. It is monotonic, so that changes of the system time do not matter.
    started: Instant,
    /// Seconds of training before this process started.
    trained_secs: Arc<AtomicU64>,
    store: Arc<Store>,
    /// Notified when a change may let a waiting pull proceed.
    changed: watch::Sender<()>,
    /// Parts that were read of checkpoint tensors which other servers have read too.
    parts_read: Arc<Mutex<Vec<PartRead>>>,
}

/// Outcomes of a push and a pull.
#[derive(Debug)]
pub struct Stepped {
    /// Outcome of the push, if there was one.
    pub pushed: Option<Pushed>,
    /// Outcome of the pull and its values, if there was one.
    pub pulled: Option<(Pulled, Reading)>,
}

impl LocalServer {
    /// Returns the empty server `ps` of `num_ps`.
    pub fn new(ps: usize, num_ps: usize, incarnation: u64, cluster_fingerprint: u64) -> Self {
        let store = Arc::new(Store::new(ps));
        let name = format!("ps:{ps}");
        let started = Instant::now();
        let changed = watch::Sender::new(());
        let place = Arc::new(Mutex::new((ps, num_ps)));
        let trained_secs = Arc::default();
        Self {
            name,
            place,
            incarnation,
            cluster_fingerprint,
            started,
            trained_secs,
            store,
            changed,
            parts_read: Arc::default(),
        }
    }

    /// Sets the clock of the store, which has none of its own.
    fn tell_time(&self) {
        let trained = self.trained_secs.load(Ordering::Relaxed);
        self.store
            .set_clock(trained.saturating_add(self.started.elapsed().as_secs()));
    }

    /// Continues the training time from the store's clock.
    pub fn go_on(&self) {
        self.trained_secs
            .store(self.store.clock(), Ordering::Relaxed);
    }

    /// Returns the store.
    pub fn store(&self) -> &Store {
        &self.store
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    fn refused(&self, reason: Reason, message: impl Into<String>) -> Error {
        Error::Refused {
            peer: self.name.clone(),
            refusal: Refusal::new(reason, message),
        }
    }

    fn check<T>(&self, outcome: Result<T, trainyard_parameter_store::Error>) -> Result<T, Error> {
        outcome.map_err(|error| Error::refused(&self.name, &error))
    }

    /// See [`crate::ServerClient::status`] and [`crate::ServerClient::positions`].
    ///
    /// # Errors
    /// Never.
    pub async fn status(&self, positions: bool) -> Result<ServerStatus, Error> {
        let positions = if positions {
            self.store.positions()
        } else {
            Vec::new()
        };
        Ok(ServerStatus {
            store: self.store.status(),
            incarnation: self.incarnation,
            settings: 0,
            wants_checkpoint: false,
            positions,
        })
    }

    /// See [`crate::ServerClient::saved`].
    ///
    /// # Errors
    /// Never.
    pub async fn saved(&self, epoch: u64, version: u64) -> Result<(), Error> {
        self.store.saved(epoch, version);
        Ok(())
    }

    /// See [`crate::ServerClient::claim`].
    ///
    /// # Errors
    /// The server belongs to another cluster, a later term has claimed it, or its model directory is not the chief's.
    pub async fn claim(
        &self,
        identity: Identity,
        cluster: u64,
        model_dir: &Path,
    ) -> Result<ServerStatus, Error> {
        if cluster != self.cluster_fingerprint {
            let message = "the chief was given other addresses of chief and ps: compare these entries of the cluster files of both hosts";
            return Err(self.refused(Reason::OtherCluster, message));
        }
        let seen = known_cluster_id(model_dir)
            .map_err(|error| self.refused(Reason::Storage, chain(&error)))?;
        if seen != Some(identity.cluster_id) {
            let seen = seen.map_or_else(String::new, |seen| format!("{seen:032x}"));
            let message = format!(
                "model_dir {} is not shared with the chief: cluster_id must be {:032x}, found `{seen}`",
                model_dir.display(),
                identity.cluster_id,
            );
            return Err(self.refused(Reason::OtherCluster, message));
        }
        let claim = Claim {
            cluster_id: identity.cluster_id,
            epoch: identity.epoch,
        };
        self.check(self.store.claim(&claim))?;
        self.changed.send_replace(());
        self.status(false).await
    }

    /// See [`crate::ServerClient::prepare`].
    ///
    /// # Errors
    /// The store refuses, or the checkpoint cannot be read.
    pub async fn prepare(&self, identity: Identity, plan: &Plan) -> Result<Vec<PartRead>, Error> {
        let (place, _) = *self.place.lock();
        let slices = plan
            .layout
            .of_ps(place)
            .map(|(number, slice)| (number as u32, slice.clone()))
            .collect();
        self.prepare_slices(identity, plan.clone(), place, slices)
            .await?;
        Ok(self.parts_read())
    }

    /// Returns the parts that preparing has read of checkpoint tensors which other servers have read too.
    pub fn parts_read(&self) -> Vec<PartRead> {
        self.parts_read.lock().clone()
    }

    /// As [`LocalServer::prepare`], with explicit slices, as the store at `place` of the job.
    ///
    /// # Errors
    /// The store refuses, or the checkpoint cannot be read.
    pub async fn prepare_slices(
        &self,
        identity: Identity,
        plan: Plan,
        place: usize,
        slices: Vec<(u32, Slice)>,
    ) -> Result<(), Error> {
        let this = self.clone();
        let work = move || this.prepare_now(&identity, plan, place, slices);
        blocking(work)
            .await
            .map_err(|error| self.refused(Reason::Storage, error.to_string()))?
    }

    /// As [`LocalServer::prepare_slices`], on this thread.
    ///
    /// # Errors
    /// The store refuses, the checkpoint cannot be read, or a tensor that was read whole is damaged.
    pub fn prepare_now(
        &self,
        identity: &Identity,
        plan: Plan,
        place: usize,
        slices: Vec<(u32, Slice)>,
    ) -> Result<(), Error> {
        *self.place.lock() = (place, plan.layout.num_ps);
        let open = |path: &PathBuf| {
            Checkpoint::open(path).map_err(|error| self.refused(Reason::Storage, chain(&error)))
        };
        let checkpoint = plan.checkpoint.as_ref().map(open).transpose()?;
        let source = checkpoint.as_ref().map(Source::of);
        let mut restore = checkpoint
            .as_ref()
            .zip(source.as_ref())
            .map(|(checkpoint, source)| self.restore(checkpoint, source, plan.update));
        if let Some(restore) = restore.as_mut().filter(|_| plan.forget_positions) {
            restore.positions.clear();
        }
        let origin = match &plan.warm_start {
            Some(start) => Some(
                Origin::open(&start.path)
                    .map_err(|problem| self.refused(Reason::Storage, problem.message))?,
            ),
            None => None,
        };
        let first = origin.as_ref().map(FirstSource);
        let first_values = first
            .as_ref()
            .zip(plan.warm_start)
            .map(|(source, start)| FirstValues {
                source,
                names: start.names,
            });
        let prepare = Prepare {
            variables: plan.variables,
            slices,
            optimizers: plan.optimizers,
            seed: plan.seed,
            layout_fingerprint: plan.fingerprint,
            counts_steps: place == 0,
            global_step_max: plan.global_step_max,
            update: plan.update,
            guard: plan.guard,
            stores: if plan.hybrid { 1 } else { plan.layout.num_ps },
            restore,
            first_values,
        };
        self.check(self.store.prepare(identity, prepare))?;
        *self.parts_read.lock() = source
            .map(|source| source.parts_read.into_inner())
            .unwrap_or_default();
        Ok(())
    }

    /// Returns the values and counters to restore. If the number of servers has changed, the position of a single
    /// server does not apply to the rows that it now holds. The store then starts from the batches that all servers
    /// have applied, so that no batch is lost. After an orderly stop all servers have applied the same batches, so
    /// that none counts twice.
    fn restore<'a>(
        &self,
        checkpoint: &Checkpoint,
        source: &'a Source<'a>,
        update: Update,
    ) -> Restore<'a> {
        let manifest = checkpoint.manifest();
        let (place, num_ps) = *self.place.lock();
        let own = manifest
            .shards
            .iter()
            .find(|shard| shard.ps == place && manifest.num_ps == num_ps);
        let of = |shard: &ShardRecord| -> Vec<ShardPosition> {
            let position = |PositionRecord {
                                shard,
                                pass,
                                batch,
                                ahead,
                            }| ShardPosition {
                shard,
                pass,
                batch,
                ahead,
            };
            shard.positions.iter().cloned().map(position).collect()
        };
        let all: Vec<_> = own
            .map_or(manifest.shards.as_slice(), std::slice::from_ref)
            .iter()
            .map(of)
            .collect();
        let positions = ShardPosition::of_all(all.iter().map(Vec::as_slice));
        let most = manifest
            .shards
            .iter()
            .map(|shard| shard.version)
            .max()
            .unwrap_or(0);
        // Synchronous steps are shared by all servers, so that all servers start from one version.
        let own = own.filter(|_| update != Update::Sync);
        let version = own.map_or(most, |shard| shard.version);
        Restore {
            source,
            version,
            global_step: manifest.global_step,
            positions,
        }
    }

    /// See [`crate::ServerClient::open`].
    ///
    /// # Errors
    /// The store refuses.
    pub async fn open(&self, identity: Identity) -> Result<(), Error> {
        self.check(self.store.open(&identity))
    }

    /// See [`crate::ServerClient::open_session`].
    ///
    /// # Errors
    /// The store refuses.
    pub async fn open_session(
        &self,
        identity: Identity,
        fingerprint: u64,
        data_shard: u64,
    ) -> Result<Opened, Error> {
        self.check(self.store.open_session(&identity, fingerprint, data_shard))
    }

    pub(crate) async fn step(
        &self,
        identity: Identity,
        call: &ShardCall,
    ) -> Result<ShardAnswer, Error> {
        let push = call.push.as_ref().map(|push| {
            let ShardPush {
                seq,
                batch,
                batches,
                pulled_version,
                micro_batch,
                ref selection,
                ref gradients,
                rejected,
            } = *push;
            let selection = selection.clone();
            let gradients = &**gradients;
            (
                Identity { seq, ..identity },
                Push {
                    batch,
                    batches,
                    pulled_version,
                    micro_batch,
                    selection,
                    gradients,
                    rejected,
                },
            )
        });
        let pull = call.pull.as_ref().map(|pull| {
            let ShardPull {
                seq,
                ref selection,
                ref known,
                reserve_step,
                at_least,
                or_before,
                half_applied,
                ..
            } = *pull;
            let selection = Arc::clone(selection);
            let known = known.clone();
            (
                Identity { seq, ..identity },
                Pull {
                    selection,
                    known,
                    reserve_step,
                    at_least,
                    or_before,
                    half_applied,
                },
            )
        });
        let Stepped { pushed, pulled } = self.apply(push, pull).await?;
        Ok(ShardAnswer {
            pushed,
            pulled: pulled.map(|(pulled, reading)| (pulled, Answer::Local(reading))),
        })
    }

    /// Applies a push, then a pull. A pull that must wait is held for up to 250 ms.
    ///
    /// # Errors
    /// The push is refused and nothing was done, or the pull is refused and the push is applied.
    pub async fn apply<G: Gradients + ?Sized>(
        &self,
        push: Option<(Identity, Push<'_, G>)>,
        pull: Option<(Identity, Pull)>,
    ) -> Result<Stepped, Error> {
        self.tell_time();
        let worker = push.as_ref().map(|(identity, _)| *identity);
        let pushed = push.map(|(identity, push)| self.store.push(&identity, &push));
        let pushed = self.check(pushed.transpose())?;
        if let (Some(worker), None) = (worker, &pull) {
            // The push counts, even if the session or the job has ended since.
            let _ = self.store.rest(&worker);
        }
        if pushed.is_some() {
            // A duplicate also returns a ticket and advances a clock.
            self.changed.send_replace(());
        }
        let Some((identity, pull)) = pull else {
            return Ok(Stepped {
                pushed,
                pulled: None,
            });
        };
        let until = Instant::now() + LONG_POLL_TIMEOUT;
        loop {
            let mut changed = self.changed.subscribe();
            let pulled = match self.store.pull(&identity, &pull) {
                // The job ended with this push or right after it. The push counts, so the call is not refused.
                Err(trainyard_parameter_store::Error::Ended) if pushed.is_some() => {
                    let (version, global_step) =
                        pushed.map_or((0, 0), |pushed| (pushed.version, pushed.global_step));
                    let ticket = Ticket::Finished;
                    let reached = version;
                    (
                        Pulled {
                            version,
                            reached,
                            global_step,
                            ticket,
                            lead: 0,
                            updates: Vec::new(),
                        },
                        Reading::default(),
                    )
                }
                pulled => self.check(pulled)?,
            };
            let waits = pulled.0.ticket == Ticket::Wait;
            if !waits
                || tokio::time::timeout_at(until, changed.changed())
                    .await
                    .is_err()
            {
                return Ok(Stepped {
                    pushed,
                    pulled: Some(pulled),
                });
            }
        }
    }

    /// See [`crate::ServerClient::close_session`].
    ///
    /// # Errors
    /// The store refuses.
    pub async fn close_session(
        &self,
        identity: Identity,
        task: Task,
        session: u64,
    ) -> Result<(), Error> {
        self.check(self.store.close_session(&identity, task, session))?;
        self.changed.send_replace(());
        Ok(())
    }

    /// See [`crate::ServerClient::save`].
    ///
    /// # Errors
    /// The store refuses, or the file cannot be written.
    pub async fn save(
        &self,
        identity: Identity,
        directory: &Path,
        at_version: Option<u64>,
    ) -> Result<Saved, Error> {
        self.tell_time();
        let snapshot = match at_version {
            Some(version) => self.snapshot_at(&identity, version).await?,
            None => self.check(self.store.snapshot(&identity))?,
        };
        let this = self.clone();
        let directory = directory.to_owned();
        let work = move || this.save_now(snapshot, &directory);
        in_background("save", work)
            .await
            .map_err(|problem| self.refused(Reason::Storage, problem))?
    }

    /// Waits for the snapshot of a version, for up to 5 s.
    async fn snapshot_at(&self, identity: &Identity, version: u64) -> Result<Snapshot, Error> {
        let until = Instant::now() + SNAPSHOT_TIMEOUT;
        // The caller may drop this future while it waits.
        let _wish = Wish {
            store: &self.store,
            version,
        };
        loop {
            let mut changed = self.changed.subscribe();
            match self.check(self.store.snapshot_at(identity, version))? {
                SnapshotAt::Taken(snapshot) => return Ok(snapshot),
                SnapshotAt::Passed { version: reached } => {
                    let message = format!("version {version} is past: it is at {reached}");
                    return Err(self.refused(Reason::NotReady, message));
                }
                SnapshotAt::NotYet => {}
            }
            if tokio::time::timeout_at(until, changed.changed())
                .await
                .is_err()
            {
                let message = format!(
                    "version {version} has not come within {} s: training stands still",
                    SNAPSHOT_TIMEOUT.as_secs()
                );
                return Err(self.refused(Reason::NotReady, message));
            }
        }
    }

    fn save_now(&self, snapshot: Snapshot, directory: &Path) -> Result<Saved, Error> {
        let failed = |error| self.refused(Reason::Storage, chain(&error));
        let global_step = snapshot.global_step;
        let started = Instant::now();
        let record = self.write(&snapshot, directory).map_err(failed)?;
        // As long as a snapshot exists, rows are copied before they change.
        drop(snapshot);
        let written = Instant::now();
        read_back(directory, &record).map_err(failed)?;
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
                format!("the file's record cannot be told: {error}"),
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
        snapshot: &Snapshot,
        directory: &Path,
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
        };
        let sources: Vec<Stripes<'_>> = snapshot.slices.iter().map(Stripes).collect();
        let views: Vec<SliceView<'_>> = sources
            .iter()
            .map(|source| SliceView {
                variable: &source.0.variable,
                part: source.0.part,
                rows: source.0.rows.clone(),
                width: source.0.width,
                slot_names: source.0.slot_names.clone(),
                held: Some(HeldView {
                    rows: source.0.held(),
                    first: source.0.first_rows(),
                    first_slots: source.0.first_slots(),
                }),
                source,
            })
            .collect();
        let tables: Vec<TableLots<'_>> = snapshot.tables.iter().map(TableLots).collect();
        let tables: Vec<TableView<'_>> = tables
            .iter()
            .map(|source| TableView {
                variable: &source.0.variable,
                part: source.0.part,
                width: source.0.width,
                slot_names: source.0.slot_names.clone(),
                first: Some(source.0.first_rows()),
                source,
            })
            .collect();
        write_shard(directory, &state, &views, &tables)
    }

    /// See [`crate::ServerClient::finish`].
    ///
    /// # Errors
    /// The store refuses.
    pub async fn finish(
        &self,
        identity: Identity,
        _reason: &str,
        _failed: bool,
    ) -> Result<(), Error> {
        self.check(self.store.finish(&identity))?;
        self.changed.send_replace(());
        Ok(())
    }
}

/// A request for a snapshot. Dropping it withdraws the request.
struct Wish<'a> {
    store: &'a Store,
    version: u64,
}

impl Drop for Wish<'_> {
    fn drop(&mut self) {
        self.store.withdraw_snapshot(self.version);
    }
}

/// Returns an error and its cause in one line.
fn chain(error: &trainyard_checkpoint::Error) -> String {
    match std::error::Error::source(error) {
        Some(source) => format!("{error}: {source}"),
        None => error.to_string(),
    }
}

/// The rows of a slice at the start of the checkpoint. One stripe at a time is copied.
struct Stripes<'a>(&'a SnapshotSlice);

impl SliceSource for Stripes<'_> {
    fn read(&self, each: &mut OnRows<'_>) -> Result<(), trainyard_checkpoint::Error> {
        let mut stripe = SliceValues::default();
        for place in 0..self.0.stripes() {
            self.0.read(place, &mut stripe);
            let slots: Vec<&[f32]> = stripe.slots.iter().map(Vec::as_slice).collect();
            each(&stripe.values, &slots)?;
        }
        Ok(())
    }
}

/// The rows of a dynamic table at the start of the checkpoint. One lot at a time is copied.
struct TableLots<'a>(&'a SnapshotTable);

impl TableSource for TableLots<'_> {
    fn counts(&self) -> (usize, usize) {
        self.0.counts()
    }

    fn read(&self, each: &mut OnLot<'_>) -> Result<(), trainyard_checkpoint::Error> {
        self.0.read(&mut |lot| each(&lot))
    }
}

/// Returns the number of parallel reads of a checkpoint.
fn reads_at_once(checkpoint: &Checkpoint) -> usize {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    if checkpoint.is_remote() {
        READS_OF_STORE_MAX.max(cores)
    } else {
        cores
    }
}

struct FirstSource<'a>(&'a Origin);

impl TensorSource for FirstSource<'_> {
    fn read(
        &self,
        variable: &str,
        _slot: Option<&str>,
        rows: Range<usize>,
        out: &mut [f32],
    ) -> Result<(), String> {
        self.0
            .read_rows(variable, rows, out)
            .map_err(|problem| problem.message)
    }

    fn held(&self, variable: &str, rows: Range<usize>) -> Result<Vec<Range<usize>>, String> {
        self.0
            .held(variable, rows)
            .map_err(|problem| problem.message)
    }

    fn read_held(
        &self,
        variable: &str,
        _slot: Option<&str>,
        rows: Range<usize>,
        out: &mut [f32],
    ) -> Result<(), String> {
        self.0
            .read_held(variable, rows, out)
            .map_err(|problem| problem.message)
    }

    fn first_rows(&self, variable: &str) -> Option<FirstRows> {
        self.0.first_rows(variable)
    }

    fn read_dynamic<'a>(
        &'a self,
        variable: &'a str,
        _slots: &'a [&'a str],
        ids: Range<u128>,
    ) -> Result<Lots<'a>, String> {
        let lots = self
            .0
            .lots(variable, ids)
            .map_err(|problem| problem.message)?;
        Ok(Box::new(
            lots.map(|lot| lot.map_err(|problem| chain(&problem))),
        ))
    }

    fn reads_at_once(&self) -> usize {
        match self.0 {
            Origin::Own(checkpoint) => reads_at_once(checkpoint),
            Origin::TensorFlow(_) | Origin::Tensors(_) => {
                std::thread::available_parallelism().map_or(1, usize::from)
            }
        }
    }
}

/// A checkpoint, and the parts that were read of tensors which other servers have read too.
struct Source<'a> {
    checkpoint: &'a Checkpoint,
    parts_read: Mutex<Vec<PartRead>>,
}

impl<'a> Source<'a> {
    fn of(checkpoint: &'a Checkpoint) -> Self {
        Self {
            checkpoint,
            parts_read: Mutex::default(),
        }
    }
}

impl TensorSource for Source<'_> {
    fn read(
        &self,
        variable: &str,
        slot: Option<&str>,
        rows: Range<usize>,
        out: &mut [f32],
    ) -> Result<(), String> {
        #[cfg(feature = "failpoints")]
        fail::fail_point!("ps.restore.read");
        self.checkpoint
            .read_rows(variable, slot, rows, out)
            .map_err(|error| chain(&error))
    }

    fn held(&self, variable: &str, rows: Range<usize>) -> Result<Vec<Range<usize>>, String> {
        self.checkpoint
            .held(variable, rows)
            .map_err(|error| chain(&error))
    }

    fn read_held(
        &self,
        variable: &str,
        slot: Option<&str>,
        rows: Range<usize>,
        out: &mut [f32],
    ) -> Result<(), String> {
        #[cfg(feature = "failpoints")]
        fail::fail_point!("ps.restore.read");
        self.checkpoint
            .read_held(variable, slot, rows, out)
            .map_err(|error| chain(&error))
    }

    fn first_rows(&self, variable: &str) -> Option<FirstRows> {
        self.checkpoint.first_rows(variable)
    }

    fn read_dynamic<'a>(
        &'a self,
        variable: &'a str,
        slots: &'a [&'a str],
        ids: Range<u128>,
    ) -> Result<Lots<'a>, String> {
        let lots = self
            .checkpoint
            .lots(variable, slots, ids)
            .map_err(|error| chain(&error))?;
        Ok(Box::new(lots.map(|lot| lot.map_err(|error| chain(&error)))))
    }

    fn reads_at_once(&self) -> usize {
        reads_at_once(self.checkpoint)
    }

    fn check_read(&self) -> Result<(), String> {
        *self.parts_read.lock() = self
            .checkpoint
            .check_read()
            .map_err(|error| chain(&error))?;
        Ok(())
    }
}
