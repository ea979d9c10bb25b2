//! The store of one parameter server.

mod build;
mod closing;
mod cut;
mod log_cut;
mod memory_accounting;
mod preparing;
mod previous;
mod push;
mod request;
mod resume;
mod tables;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use dashmap::DashMap;
use trainyard_cluster_spec::{Role, Task, WORKERS_MAX};
use trainyard_variable::{StepNumber, VariableSpec};

use crate::aggregation::Aggregation;
use crate::lru::Timestamp;
use crate::memory_budget::MemoryBudget;
use crate::named_cuts::NamedCuts;
use crate::pending_pulls::PendingPulls;
use crate::selection::Resolved;
use crate::sessions::Sessions;
use crate::slice::Slice;
use crate::steps::Steps;
use crate::sync::{Mutex, RwLock};
use crate::{
    Basis, Change, Error, Guard, Identity, Journal, Reading, Selection, ShardPosition, Snapshot,
    Ticket, Update,
};
use build::BuildStanding;
pub use cut::SnapshotAt;
pub use log_cut::{CutRows, LogCut, LogCutBytes};
use previous::Previous;
pub use request::{
    Claim, FirstValues, Lots, OpenSession, Opened, Prepare, Progress, Pull, Pulled, Pushed,
    Restore, State, Status, StepReply, StepRequest, TensorSource, version_of,
};
use tables::Tables;

/// Most values of one reply, which fit a message of 256 MiB. A pull may name ids without rows in a dynamic table, so
/// the size of the store does not bound it.
const ANSWER_VALUES_MAX: usize = 64 << 20;

/// Place of the count of steps, which one server of a job keeps.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum StepCount {
    /// This store counts steps.
    Here,
    /// Another store does.
    #[default]
    Elsewhere,
}

/// State that the chief controls.
#[derive(Debug, Default)]
struct Control {
    state: State,
    cluster_id: Option<u128>,
    epoch: u64,
    /// Term in which the store was prepared; 0 = not prepared.
    prepared_epoch: u64,
    layout_fingerprint: u64,
    step_count: StepCount,
    update: Update,
    guard: Guard,
}

/// Counters: sessions, batches and steps. One lock, held only for a moment.
#[derive(Debug, Default)]
struct Ledger {
    sessions: Sessions,
    steps: Steps,
    /// Count of the version: synchronous steps, or pushes.
    version: u64,
    /// Version in the latest committed checkpoint, as reported by the chief.
    saved_version: Option<u64>,
}

/// The step of a requested snapshot, and the snapshot once it has been taken.
#[derive(Debug, Default)]
struct Awaited {
    step: Option<StepNumber>,
    basis: Basis,
    cut: Option<Snapshot>,
}

/// The snapshots that increments may count from, by name.
#[derive(Debug, Default)]
struct Bases {
    /// Whole snapshots for checkpoints.
    cuts: NamedCuts,
    /// Bytes of the increments over the committed checkpoint.
    increment_bytes: u64,
    /// Snapshots for publication.
    published: NamedCuts,
}

/// The slices, sessions and steps of one parameter server.
///
/// A push is checked as a whole before any of it is applied. Lock order: `control`, `cut`, the pending pulls of a task,
/// `aggregation`, `step`, `awaited`, `bases`, `ledger`, `previous`, one stripe at a time.
#[derive(Debug)]
pub struct Store {
    ps: usize,
    control: RwLock<Control>,
    /// Pushes hold it shared. A snapshot holds it exclusively, so that it includes each push as a whole or not at all.
    cut: RwLock<()>,
    pending_pulls: DashMap<Task, Arc<Mutex<PendingPulls>>>,
    ledger: Mutex<Ledger>,
    /// Micro-batches of the synchronous step in progress.
    aggregation: Mutex<Aggregation>,
    /// Values that the latest synchronous step has replaced.
    previous: Mutex<Previous>,
    /// Reads hold it shared. A synchronous step holds it exclusively, so that each read is of one version.
    step: RwLock<()>,
    awaited: Mutex<Awaited>,
    bases: Mutex<Bases>,
    variables: RwLock<Arc<[VariableSpec]>>,
    slices: DashMap<u32, Arc<Slice>>,
    /// Slices of tables whose rule changes all rows at each step.
    dense_update_tables: RwLock<Vec<(u32, Arc<Slice>)>>,
    tables: Tables,
    snapshot_taken: Arc<AtomicBool>,
    /// Other servers apply the same synchronous steps, so that one of them may be a step behind.
    has_company: AtomicBool,
    /// Seconds of training, set by [`Store::set_clock`].
    clock_secs: AtomicU64,
    /// Pushes are refused, because the process is about to end.
    closed: AtomicBool,
    journal: RwLock<Option<Arc<dyn Journal>>>,
    memory_budget: MemoryBudget,
    /// Changes that were acknowledged before are being made again.
    is_replaying: AtomicBool,
    building: BuildStanding,
}

impl Store {
    /// Returns the empty store of parameter server `ps`.
    pub fn new(ps: usize) -> Self {
        Self {
            ps,
            control: RwLock::default(),
            cut: RwLock::new(()),
            pending_pulls: DashMap::new(),
            ledger: Mutex::new(Ledger::default()),
            aggregation: Mutex::default(),
            previous: Mutex::default(),
            step: RwLock::new(()),
            awaited: Mutex::default(),
            bases: Mutex::default(),
            variables: RwLock::new(Arc::from([])),
            slices: DashMap::new(),
            dense_update_tables: RwLock::new(Vec::new()),
            tables: Tables::default(),
            snapshot_taken: Arc::default(),
            has_company: AtomicBool::new(false),
            clock_secs: AtomicU64::new(0),
            closed: AtomicBool::new(false),
            journal: RwLock::default(),
            memory_budget: MemoryBudget::default(),
            is_replaying: AtomicBool::new(false),
            building: BuildStanding::default(),
        }
    }

    /// Sets the time, in seconds since any fixed start. The time only decides when unused rows of dynamic tables
    /// expire. A time before the latest one is ignored.
    pub fn set_clock(&self, secs: u64) {
        self.clock_secs.fetch_max(secs, Ordering::Relaxed);
    }

    fn timestamp(&self, pushes: u64) -> Timestamp {
        let secs = self.clock_secs.load(Ordering::Relaxed);
        Timestamp {
            pushes,
            secs: i64::try_from(secs).unwrap_or(i64::MAX),
        }
    }

    /// Returns the status of the store.
    pub fn status(&self) -> Status {
        let control = self.control.read();
        let slowest_lane = self.aggregation.lock().last();
        let ledger = self.ledger.lock();
        let bytes: u64 = self
            .slices
            .iter()
            .map(|slice| slice.row_bytes(slice.held()))
            .sum();
        Status {
            state: control.state,
            cluster_id: control.cluster_id,
            epoch: control.epoch,
            prepared_epoch: control.prepared_epoch,
            layout_fingerprint: control.layout_fingerprint,
            version: version_of(control.update, ledger.version),
            saved_version: ledger.saved_version,
            global_step: ledger.steps.global_step(),
            value_bytes: bytes + self.tables.bytes(),
            progress: match control.state {
                State::Preparing => self.building.progress(),
                _ => Progress::default(),
            },
            slowest_lane,
            dynamic: self.tables.status(),
            rejections: ledger.sessions.rejections(),
            held: self.held(),
            memory_max: self.memory_budget.max(),
        }
    }

    /// Returns the mode of its updates.
    pub fn update_mode(&self) -> Update {
        self.control.read().update
    }

    /// Returns the positions of the data shards.
    pub fn positions(&self) -> Vec<ShardPosition> {
        self.ledger.lock().sessions.positions()
    }

    /// Claims the store for a term. A chief may claim it again for the same term.
    ///
    /// # Errors
    /// Another cluster, or a term lower than the current one.
    pub fn claim(&self, claim: &Claim) -> Result<(), Error> {
        let mut control = self.control.write();
        match control.cluster_id {
            Some(current) if current != claim.cluster_id => {
                return Err(Error::OtherCluster {
                    current,
                    given: claim.cluster_id,
                });
            }
            _ => {}
        }
        if claim.epoch < control.epoch {
            return Err(Error::StaleEpoch {
                current: control.epoch,
                given: claim.epoch,
            });
        }
        control.cluster_id = Some(claim.cluster_id);
        if claim.epoch > control.epoch {
            control.epoch = claim.epoch;
            // Sessions of earlier terms are refused from now on. If a task never returns, a ticket that it holds would
            // leave a step missing at the end.
            let mut ledger = self.ledger.lock();
            ledger.steps.clear();
            self.note(ledger.version, &Change::Claim { epoch: claim.epoch });
        }
        Ok(())
    }

    /// Checks that a chief's request belongs to the claimed term of this store.
    ///
    /// # Errors
    /// Another cluster, or another term.
    pub fn check_chief(&self, identity: &Identity) -> Result<(), Error> {
        check_control(&self.control.read(), identity)
    }

    /// Opens the store to workers.
    ///
    /// # Errors
    /// A stale term, or no variables yet.
    pub fn open(&self, identity: &Identity) -> Result<(), Error> {
        let mut control = self.control.write();
        check_control(&control, identity)?;
        match control.state {
            State::Empty | State::Preparing => Err(Error::NotReady("it holds no variables")),
            State::Prepared | State::Draining => {
                control.state = State::Open;
                self.note(self.ledger.lock().version, &Change::Open);
                Ok(())
            }
            State::Open => Ok(()),
            State::Finished => Err(Error::Ended),
        }
    }

    /// Opens a worker's session. Returns the first batch of its data shard that has not been applied here.
    ///
    /// # Errors
    /// Not open, another layout, a session older than the task's latest, or a task that never trains: the number of sessions
    /// is bounded by that of the tasks.
    pub fn open_session(
        &self,
        identity: &Identity,
        request: &OpenSession,
    ) -> Result<Opened, Error> {
        let control = self.control.read();
        check_worker(&control, identity)?;
        check_trains(identity.task)?;
        if request.layout_fingerprint != control.layout_fingerprint {
            return Err(Error::OtherLayout {
                current: control.layout_fingerprint,
                given: request.layout_fingerprint,
            });
        }
        let mut ledger = self.ledger.lock();
        let before_first = identity.step(request.seq);
        let fresh = ledger.sessions.open(before_first)?;
        ledger.steps.join(identity.task, identity.session);
        if fresh {
            self.note(ledger.version, &Change::OpenSession(before_first));
        }
        Ok(Opened {
            version: ledger.version,
            batches_applied: ledger.sessions.next_batch(request.data_shard),
        })
    }

    /// Closes a session at the chief's request: its later requests are refused, and its tickets are taken back.
    ///
    /// # Errors
    /// A stale term.
    pub fn close_session(
        &self,
        identity: &Identity,
        task: Task,
        session: u64,
    ) -> Result<(), Error> {
        let control = self.control.read();
        check_control(&control, identity)?;
        let mut ledger = self.ledger.lock();
        if ledger.sessions.close(task, session) {
            ledger.steps.leave(task, session);
            self.note(ledger.version, &Change::CloseSession { task, session });
        }
        Ok(())
    }

    /// Records that a worker has pushed and is idle. Under stale-synchronous updates no task waits for it until its
    /// next request for a step.
    ///
    /// # Errors
    /// Not open, or not the open session.
    pub fn rest(&self, identity: &Identity) -> Result<(), Error> {
        check_worker(&self.control.read(), identity)?;
        let mut ledger = self.ledger.lock();
        ledger.sessions.check(identity.task, identity.session)?;
        if ledger.steps.rest(identity.task) {
            self.note(
                ledger.version,
                &Change::Rest {
                    task: identity.task,
                },
            );
        }
        Ok(())
    }

    /// Reads slices and rows. Reads nothing before the version `at_least` is reached and, with `reserve_step`, the
    /// ticket for the step is granted.
    ///
    /// # Errors
    /// Not open, or not the open session; slices or rows do not exist. In the last case the requested ticket is taken
    /// back, and the sequence number is used up.
    pub fn pull(&self, identity: &Identity, pull: &Pull) -> Result<(Pulled, Reading), Error> {
        let synchronous = {
            let control = self.control.read();
            check_worker(&control, identity)?;
            control.update == Update::Sync
        };
        let step = identity.step(pull.seq);
        let one_version = synchronous.then(|| self.step.read());
        let mut pulled = {
            let mut ledger = self.ledger.lock();
            ledger.sessions.check(identity.task, identity.session)?;
            // The pull is a late copy and its step has been pushed, so a ticket would never be used.
            let wanted = pull.reserve_step && !ledger.sessions.used(step);
            let before = one_version.is_some()
                && pull.or_before
                && ledger.version == pull.at_least.saturating_add(1)
                && self.previous.lock().is_of(pull.at_least);
            let ticket = match wanted {
                // Other servers may lack its micro-batch of the last step, even if the job has ended here.
                _ if before => Ticket::Granted,
                _ if ledger.steps.has_ended() && wanted && !pull.half_applied => Ticket::Finished,
                _ if ledger.version < pull.at_least => Ticket::Wait,
                true => {
                    let (ticket, changed) = if pull.half_applied {
                        ledger.steps.reserve_beyond(step)
                    } else {
                        ledger.steps.reserve(step)
                    };
                    if changed {
                        let change = if pull.half_applied {
                            Change::ReserveBeyond(step)
                        } else {
                            Change::Reserve(step)
                        };
                        self.note(ledger.version, &change);
                    }
                    ticket
                }
                false => Ticket::Granted,
            };
            let reached = ledger.version;
            let global_step = ledger.steps.global_step();
            let version = if before { pull.at_least } else { reached };
            let lead = if wanted { ledger.steps.lead(step) } else { 0 };
            Pulled {
                version,
                reached,
                global_step,
                ticket,
                lead,
                updates: Vec::new(),
                without_row: Vec::new(),
            }
        };
        let before = pulled.version < pulled.reached;
        if pulled.ticket != Ticket::Granted {
            return Ok((pulled, Reading::default()));
        }
        let resolved = match self.resolve_answer(&pull.selection) {
            Ok(resolved) => Arc::new(resolved),
            Err(error) => {
                // The step that was just granted would never be pushed.
                if pull.reserve_step {
                    self.use_up(&mut self.ledger.lock(), step);
                }
                return Err(error);
            }
        };
        // Values before the latest step have no count of updates, so the next pull reads all of them again.
        let count = |slice: &Arc<Slice>| if before { 0 } else { slice.updates() };
        pulled.updates = resolved.whole.iter().map(count).collect();
        let known = pull.known.iter().zip(&pulled.updates).zip(0_u32..);
        let unchanged = known
            .filter(|((known, updates), _)| known == updates && !before)
            .map(|(_, place)| place);
        let mut reading = Reading::new(Arc::clone(&resolved), unchanged.collect());
        if one_version.is_some() {
            reading.read_all();
        }
        if before {
            let previous = self.previous.lock();
            reading.change(|wanted, read| previous.lay_over(wanted, read));
        }
        pulled.without_row = reading.take_without_row();
        drop(one_version);
        if step.seq > 0 {
            self.pending_pulls(step.task)
                .lock()
                .remember(step, resolved);
        }
        Ok((pulled, reading))
    }

    fn pending_pulls(&self, task: Task) -> Arc<Mutex<PendingPulls>> {
        Arc::clone(&self.pending_pulls.entry(task).or_default())
    }

    /// As [`Store::resolve`], for a selection that fits a reply.
    fn resolve_answer(&self, selection: &Arc<Selection>) -> Result<Resolved, Error> {
        if !selection.counted.is_empty() {
            return Err(Error::BadRequest(format!(
                "a pull counts no ids, given those of {} slices",
                selection.counted.len()
            )));
        }
        let resolved = self.resolve(selection)?;
        let given = resolved.lengths().map(|(_, length)| length).sum();
        if given > ANSWER_VALUES_MAX {
            Err(Error::TooLarge {
                given,
                max: ANSWER_VALUES_MAX,
            })
        } else {
            Ok(resolved)
        }
    }

    /// Finds all slices that a request names, and checks its rows and ids.
    fn resolve(&self, selection: &Arc<Selection>) -> Result<Resolved, Error> {
        let most = self.slices.len();
        let named = selection.whole.len().saturating_add(selection.rows.len());
        if named > most {
            return Err(Error::BadRequest(format!(
                "a request names each slice of ps:{} at most once, and there are {most}, given {named}",
                self.ps
            )));
        }
        let mut numbers: Vec<u32> = selection.whole.clone();
        numbers.extend(selection.rows.iter().map(|&(number, _)| number));
        numbers.sort_unstable();
        // A push would update the rows of a slice that is named twice by two steps of the optimizer.
        if let Some(twice) = numbers.windows(2).find(|pair| pair[0] == pair[1]) {
            return Err(Error::BadRequest(format!(
                "slice {} must be named once, given twice",
                twice[0]
            )));
        }
        let find = |number: u32| {
            let slice = self
                .slices
                .get(&number)
                .map(|slice| Arc::clone(slice.value()));
            slice.ok_or_else(|| {
                Error::BadRequest(format!("ps:{} does not hold slice {number}", self.ps))
            })
        };
        let of_rows = |&(number, set): &(u32, usize)| {
            let slice = find(number)?;
            let row_sets = &selection.row_sets;
            let rows = row_sets.get(set).ok_or_else(|| {
                Error::BadRequest(format!(
                    "row_set must be below {}, given {set}",
                    row_sets.len()
                ))
            })?;
            slice.check_rows(number, rows)?;
            Ok(slice)
        };
        let tables::Found { ids, counted } = self.tables.resolve(self.ps, selection)?;
        Ok(Resolved {
            whole: selection
                .whole
                .iter()
                .map(|&number| find(number))
                .collect::<Result<_, _>>()?,
            rows: selection
                .rows
                .iter()
                .map(of_rows)
                .collect::<Result<_, _>>()?,
            ids,
            counted,
            selection: Arc::clone(selection),
        })
    }
}

fn check_control(control: &Control, identity: &Identity) -> Result<(), Error> {
    match control.cluster_id {
        Some(current) if current != identity.cluster_id => Err(Error::OtherCluster {
            current,
            given: identity.cluster_id,
        }),
        None => Err(Error::NotReady("no chief has claimed it")),
        Some(_) if identity.epoch < control.epoch => Err(Error::StaleEpoch {
            current: control.epoch,
            given: identity.epoch,
        }),
        Some(_) if identity.epoch > control.epoch => Err(Error::NotReady(
            "its chief has not claimed it for this epoch",
        )),
        Some(_) => Ok(()),
    }
}

/// Checks that a task may have a session: the chief, and as many workers as may join a job.
fn check_trains(task: Task) -> Result<(), Error> {
    match task.role {
        Role::Chief if task.index == 0 => Ok(()),
        Role::Worker if task.index < WORKERS_MAX => Ok(()),
        _ => Err(Error::BadRequest(format!(
            "a session must be of chief:0, or of a worker with an index below {WORKERS_MAX}, given {task}"
        ))),
    }
}

fn check_worker(control: &Control, identity: &Identity) -> Result<(), Error> {
    check_control(control, identity)?;
    match control.state {
        State::Open | State::Draining => Ok(()),
        State::Empty => Err(Error::NotReady("it holds no variables")),
        State::Preparing => Err(Error::NotReady("its variables are being made or restored")),
        State::Prepared => Err(Error::NotReady("the chief has not opened training")),
        State::Finished => Err(Error::Ended),
    }
}

#[cfg(test)]
mod tests;
