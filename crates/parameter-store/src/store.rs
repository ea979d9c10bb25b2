//! The store of one parameter server.

mod build;
mod closing;
mod cut;
mod position;
mod preparing;
mod previous;
mod push;
mod request;
mod resume;
mod room;
mod tables;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use dashmap::DashMap;
use trainyard_cluster_spec::Task;
use trainyard_variable::VariableSpec;

use crate::aggregation::Aggregation;
use crate::memory::Memory;
use crate::recency::Moment;
use crate::selection::Resolved;
use crate::sessions::Sessions;
use crate::slice::Slice;
use crate::steps::Steps;
use crate::sync::{Mutex, RwLock};
use crate::turn::Turn;
use crate::{
    Change, Error, Guard, Identity, Journal, Reading, Selection, Snapshot, Ticket, Update,
};
use build::BuildStanding;
pub use cut::SnapshotAt;
pub use position::ShardPosition;
use previous::Previous;
pub use request::{
    Claim, FirstValues, Lots, Opened, Prepare, Progress, Pull, Pulled, Push, Pushed, Rejections,
    Restore, State, Status, TensorSource,
};
use tables::Tables;

/// Most values of one answer: what fits a message of 256 MiB. Rows of a dynamic table may be asked for that are not
/// there, so that not the store's own size bounds what is asked.
const ANSWER_VALUES_MAX: usize = 64 << 20;

/// What the chief has told this ps.
#[derive(Debug, Default)]
struct Control {
    state: State,
    cluster_id: Option<u128>,
    epoch: u64,
    /// Epoch in which it was prepared; 0 = it was not.
    memory: u64,
    layout_fingerprint: u64,
    counts_steps: bool,
    update: Update,
    guard: Guard,
}

/// What is counted: sessions, batches, steps. One lock, held for a moment.
#[derive(Debug, Default)]
struct Ledger {
    sessions: Sessions,
    steps: Steps,
    /// Pushes applied.
    version: u64,
    /// Pushes that the latest committed checkpoint holds, as far as the chief has told.
    saved_version: Option<u64>,
}

/// The version at which a snapshot is to be taken, and that snapshot, once it has been.
#[derive(Debug, Default)]
struct Awaited {
    version: Option<u64>,
    cut: Option<Snapshot>,
}

/// The slices, sessions and steps of one parameter server.
///
/// A push is checked whole before anything of it is applied. Lock order: `control`, `cut`, a task's turn,
/// `aggregation`, `step`, `awaited`, `ledger`, `previous`, one stripe at a time.
#[derive(Debug)]
pub struct Store {
    ps: usize,
    control: RwLock<Control>,
    /// Pushes share it; a snapshot takes it alone, so that it sees each push whole or not at all.
    cut: RwLock<()>,
    turns: DashMap<Task, Arc<Mutex<Turn>>>,
    ledger: Mutex<Ledger>,
    /// Parts of the synchronous step under way.
    aggregation: Mutex<Aggregation>,
    /// What the latest synchronous step has replaced.
    previous: Mutex<Previous>,
    /// Reads share it; a synchronous step takes it alone, so that each read is of one version.
    step: RwLock<()>,
    awaited: Mutex<Awaited>,
    variables: RwLock<Arc<[VariableSpec]>>,
    slices: DashMap<u32, Arc<Slice>>,
    /// Parts of tables whose rule moves all rows at each step.
    restless: RwLock<Vec<(u32, Arc<Slice>)>>,
    tables: Tables,
    snapshot_taken: Arc<AtomicBool>,
    /// Whether others take the same synchronous steps: one of them may be a step behind.
    has_company: AtomicBool,
    /// Seconds of training, as told.
    clock_secs: AtomicU64,
    /// No push is taken in any more.
    closed: AtomicBool,
    journal: RwLock<Option<Arc<dyn Journal>>>,
    memory: Memory,
    building: BuildStanding,
}

impl Store {
    /// Returns the empty store of parameter server `ps`.
    pub fn new(ps: usize) -> Self {
        Self {
            ps,
            control: RwLock::default(),
            cut: RwLock::new(()),
            turns: DashMap::new(),
            ledger: Mutex::new(Ledger::default()),
            aggregation: Mutex::default(),
            previous: Mutex::default(),
            step: RwLock::new(()),
            awaited: Mutex::default(),
            variables: RwLock::new(Arc::from([])),
            slices: DashMap::new(),
            restless: RwLock::new(Vec::new()),
            tables: Tables::default(),
            snapshot_taken: Arc::default(),
            has_company: AtomicBool::new(false),
            clock_secs: AtomicU64::new(0),
            closed: AtomicBool::new(false),
            journal: RwLock::default(),
            memory: Memory::default(),
            building: BuildStanding::default(),
        }
    }

    /// Tells the time, in seconds since any start that stays the same. It decides when unused rows of dynamic tables
    /// are forgotten, and nothing else; a time before the latest told is not taken.
    pub fn set_clock(&self, secs: u64) {
        self.clock_secs.fetch_max(secs, Ordering::Relaxed);
    }

    fn moment(&self, pushes: u64) -> Moment {
        let secs = self.clock_secs.load(Ordering::Relaxed);
        Moment {
            pushes,
            secs: i64::try_from(secs).unwrap_or(i64::MAX),
        }
    }

    /// Returns what the store is and does.
    pub fn status(&self) -> Status {
        let control = self.control.read();
        let slowest_slot = self.aggregation.lock().last();
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
            memory: control.memory,
            layout_fingerprint: control.layout_fingerprint,
            version: ledger.version,
            saved_version: ledger.saved_version,
            global_step: ledger.steps.global_step(),
            value_bytes: bytes + self.tables.bytes(),
            progress: match control.state {
                State::Preparing => self.building.progress(),
                _ => Progress::default(),
            },
            slowest_slot,
            dynamic: self.tables.status(),
            rejections: ledger.sessions.rejections(),
            held: self.held(),
            memory_max: self.memory.max(),
        }
    }

    /// Returns how far the data has been applied.
    pub fn positions(&self) -> Vec<ShardPosition> {
        self.ledger.lock().sessions.positions()
    }

    /// Takes the store over for an epoch. The same epoch may claim again, from the same chief.
    ///
    /// # Errors
    /// Another cluster, or an epoch lower than the current one.
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
            // Whoever was let in for an earlier epoch is refused from now on. A step that it may have taken and not
            // pushed would be missing at the end, if its task never comes back.
            let mut ledger = self.ledger.lock();
            ledger.steps.clear();
            self.note(ledger.version, &Change::Claim { epoch: claim.epoch });
        }
        Ok(())
    }

    /// Checks that a chief speaks for the epoch that this store is claimed for.
    ///
    /// # Errors
    /// Another cluster, or another epoch.
    pub fn check_chief(&self, identity: &Identity) -> Result<(), Error> {
        check_control(&self.control.read(), identity)
    }

    /// Lets workers in.
    ///
    /// # Errors
    /// A stale epoch, or no variables yet.
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

    /// Starts a worker's session, whose next sequence number is one more than that of `identity`, and tells the first batch of `data_shard` that has not been applied here.
    ///
    /// # Errors
    /// Not open, another layout, or an older session than the task's latest.
    pub fn open_session(
        &self,
        identity: &Identity,
        fingerprint: u64,
        data_shard: u64,
    ) -> Result<Opened, Error> {
        let control = self.control.read();
        check_worker(&control, identity)?;
        if fingerprint != control.layout_fingerprint {
            return Err(Error::OtherLayout {
                current: control.layout_fingerprint,
                given: fingerprint,
            });
        }
        let mut ledger = self.ledger.lock();
        let fresh = ledger.sessions.open(identity)?;
        ledger.steps.join(identity.task, identity.session);
        if fresh {
            let Identity {
                task, session, seq, ..
            } = *identity;
            self.note(ledger.version, &Change::OpenSession { task, session, seq });
        }
        Ok(Opened {
            version: ledger.version,
            batches_applied: ledger.sessions.next_batch(data_shard),
        })
    }

    /// Ends a session on the chief's word: nothing more is accepted from it, and its tickets return.
    ///
    /// # Errors
    /// A stale epoch.
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

    /// Takes note that a worker has pushed and asks for nothing more for now: under stale-synchronous updates, nobody
    /// waits for it until it asks again.
    ///
    /// # Errors
    /// Not open, or not the open session.
    pub fn rest(&self, identity: &Identity) -> Result<(), Error> {
        check_worker(&self.control.read(), identity)?;
        let mut ledger = self.ledger.lock();
        ledger.sessions.check(identity)?;
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

    /// Reads slices and rows, unless there is something to wait for: the ticket for `identity.seq`, with `reserve_step`,
    /// or the version asked for.
    ///
    /// # Errors
    /// Not open, not the open session, or slices and rows that do not exist: then the ticket that was asked for is given
    /// back, and the sequence number used up.
    pub fn pull(&self, identity: &Identity, pull: &Pull) -> Result<(Pulled, Reading), Error> {
        let synchronous = {
            let control = self.control.read();
            check_worker(&control, identity)?;
            control.update == Update::Sync
        };
        let one_version = synchronous.then(|| self.step.read());
        let mut pulled = {
            let mut ledger = self.ledger.lock();
            ledger.sessions.check(identity)?;
            // A late copy of a pull whose step has been pushed: a ticket would be nobody's.
            let wanted = pull.reserve_step && !ledger.sessions.used(identity);
            let before = one_version.is_some()
                && pull.or_before
                && ledger.version == pull.at_least.saturating_add(1)
                && self.previous.lock().is_of(pull.at_least);
            let ticket = match wanted {
                // Its part of the last step may be missing elsewhere, even where the job has come to its end here.
                _ if before => Ticket::Granted,
                _ if ledger.steps.has_ended() && wanted && !pull.half_applied => Ticket::Finished,
                _ if ledger.version < pull.at_least => Ticket::Wait,
                true => {
                    let (ticket, changed) = if pull.half_applied {
                        ledger.steps.reserve_beyond(identity)
                    } else {
                        ledger.steps.reserve(identity)
                    };
                    if changed {
                        let Identity {
                            task, session, seq, ..
                        } = *identity;
                        self.note(ledger.version, &Change::Reserve { task, session, seq });
                    }
                    ticket
                }
                false => Ticket::Granted,
            };
            let reached = ledger.version;
            let global_step = ledger.steps.global_step();
            let version = if before { pull.at_least } else { reached };
            let lead = if wanted {
                ledger.steps.lead(identity)
            } else {
                0
            };
            Pulled {
                version,
                reached,
                global_step,
                ticket,
                lead,
                updates: Vec::new(),
            }
        };
        let before = pulled.version < pulled.reached;
        if pulled.ticket != Ticket::Granted {
            return Ok((pulled, Reading::default()));
        }
        let resolved = match self.resolve_answer(&pull.selection) {
            Ok(resolved) => Arc::new(resolved),
            Err(error) => {
                // Nobody would push the step that was just given.
                if pull.reserve_step {
                    self.use_up(&mut self.ledger.lock(), identity);
                }
                return Err(error);
            }
        };
        // Older values stand for no count: the next pull reads all again.
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
            reading.change(|wanted, values| previous.lay_over(wanted, values));
        }
        drop(one_version);
        if identity.seq > 0 {
            self.turn(identity.task).lock().remember(identity, resolved);
        }
        Ok((pulled, reading))
    }

    fn turn(&self, task: Task) -> Arc<Mutex<Turn>> {
        Arc::clone(&self.turns.entry(task).or_default())
    }

    /// The same as [`Store::resolve`], of what fits an answer.
    fn resolve_answer(&self, selection: &Arc<Selection>) -> Result<Resolved, Error> {
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

    /// Finds everything that a request names, and checks its rows and ids.
    fn resolve(&self, selection: &Arc<Selection>) -> Result<Resolved, Error> {
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
            ids: self.tables.resolve(self.ps, selection)?,
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
