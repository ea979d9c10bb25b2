//! The store of one parameter server.

mod build;
mod cut;
mod request;
mod tables;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use dashmap::DashMap;
use trainyard_cluster_spec::Task;
use trainyard_variable::{Access, VariableSpec};

use crate::recency::Moment;
use crate::selection::Resolved;
use crate::sessions::{Admission, Sessions};
use crate::slice::{Scratch, Slice};
use crate::steps::Steps;
use crate::sync::{Mutex, RwLock};
use crate::turn::Turn;
use crate::{Error, Gradients, Identity, Reading, Selection, Ticket};
use build::build_slices;
pub use request::{
    Claim, FirstValues, Prepare, Pull, Pulled, Push, Pushed, Restore, ShardPosition, State, Status,
    TensorSource,
};
use tables::Tables;

/// Most values of one answer: what fits a message of 256 MiB. Rows of a dynamic table may be asked for that are not
/// there, so that not the store's own size bounds what is asked.
const ANSWER_VALUES_MAX: usize = 64 << 20;

/// What the chief has told this ps.
#[derive(Debug)]
struct Control {
    state: State,
    cluster_id: Option<u128>,
    epoch: u64,
    layout_fingerprint: u64,
    variables: Arc<[VariableSpec]>,
}

/// What is counted: sessions, batches, steps. One lock, held for a moment.
#[derive(Debug, Default)]
struct Ledger {
    sessions: Sessions,
    steps: Steps,
    /// Pushes applied.
    version: u64,
    /// Pushes that the latest snapshot holds.
    saved_version: Option<u64>,
}

/// The slices, sessions and steps of one parameter server.
///
/// A push is checked whole before anything of it is applied. Lock order: `control`, `cut`, a task's turn, `ledger`,
/// one stripe at a time.
#[derive(Debug)]
pub struct Store {
    ps: usize,
    control: RwLock<Control>,
    /// Pushes share it; a snapshot takes it alone, so that it sees each push whole or not at all.
    cut: RwLock<()>,
    turns: DashMap<Task, Arc<Mutex<Turn>>>,
    ledger: Mutex<Ledger>,
    slices: DashMap<u32, Arc<Slice>>,
    /// Parts of tables whose rule moves all rows at each step.
    restless: RwLock<Vec<(u32, Arc<Slice>)>>,
    tables: Tables,
    snapshot_taken: Arc<AtomicBool>,
    /// Seconds of training, as told.
    clock_secs: AtomicU64,
}

impl Store {
    /// Returns the empty store of parameter server `ps`.
    pub fn new(ps: usize) -> Self {
        let control = Control {
            state: State::Empty,
            cluster_id: None,
            epoch: 0,
            layout_fingerprint: 0,
            variables: Arc::from([]),
        };
        Self {
            ps,
            control: RwLock::new(control),
            cut: RwLock::new(()),
            turns: DashMap::new(),
            ledger: Mutex::new(Ledger::default()),
            slices: DashMap::new(),
            restless: RwLock::new(Vec::new()),
            tables: Tables::default(),
            snapshot_taken: Arc::default(),
            clock_secs: AtomicU64::new(0),
        }
    }

    /// Tells the time, in seconds since any start that stays the same. It decides when unused rows of dynamic tables
    /// are forgotten, and nothing else; a time before the latest told is not taken.
    pub fn set_clock(&self, secs: u64) {
        self.clock_secs.fetch_max(secs, Ordering::Relaxed);
    }

    fn moment(&self, pushes: u64) -> Moment {
        let secs = self.clock_secs.load(Ordering::Relaxed);
        Moment { pushes, secs: i64::try_from(secs).unwrap_or(i64::MAX) }
    }

    /// Returns what the store is and does.
    pub fn status(&self) -> Status {
        let control = self.control.read();
        let ledger = self.ledger.lock();
        let floats: usize =
            self.slices.iter().map(|slice| slice.len() * (1 + slice.optimizer.slots().len())).sum();
        Status {
            state: control.state,
            cluster_id: control.cluster_id,
            epoch: control.epoch,
            layout_fingerprint: control.layout_fingerprint,
            version: ledger.version,
            saved_version: ledger.saved_version,
            global_step: ledger.steps.global_step(),
            value_bytes: floats as u64 * 4 + self.tables.bytes(),
            dynamic: self.tables.status(),
        }
    }

    /// Takes the store over for an epoch. The same epoch may claim again, from the same chief.
    ///
    /// # Errors
    /// Another cluster, or an epoch lower than the current one.
    pub fn claim(&self, claim: &Claim) -> Result<(), Error> {
        let mut control = self.control.write();
        match control.cluster_id {
            Some(current) if current != claim.cluster_id => {
                return Err(Error::OtherCluster { current, given: claim.cluster_id });
            }
            _ => {}
        }
        if claim.epoch < control.epoch {
            return Err(Error::StaleEpoch { current: control.epoch, given: claim.epoch });
        }
        control.cluster_id = Some(claim.cluster_id);
        control.epoch = claim.epoch;
        Ok(())
    }

    /// Replaces all slices, closes all sessions and counts on from the restored version or from 0.
    ///
    /// # Errors
    /// A stale epoch; slices that name no variable or optimizer; values that cannot be restored. The store is then
    /// empty: nothing half restored is served.
    pub fn prepare(&self, identity: &Identity, prepare: Prepare<'_>) -> Result<(), Error> {
        let mut control = self.control.write();
        check_control(&control, identity)?;
        control.state = State::Empty;
        let _alone = self.cut.write();
        self.slices.clear();
        self.turns.clear();
        self.restless.write().clear();
        self.tables.replace([]);
        let now = self.moment(prepare.restore.as_ref().map_or(0, |restore| restore.version));
        let built = build_slices(&prepare, now)?;
        self.tables.replace(built.tables);
        for (number, slice) in built.slices {
            let by_row = prepare.variables[slice.variable].access == Access::Rows;
            let slice = Arc::new(slice);
            if by_row && slice.optimizer.moves_all_rows() {
                self.restless.write().push((number, Arc::clone(&slice)));
            }
            self.slices.insert(number, slice);
        }
        let restore = prepare.restore.as_ref();
        let mut ledger = Ledger {
            sessions: Sessions::default(),
            steps: Steps::new(restore.map_or(0, |restore| restore.global_step), prepare.global_step_max),
            version: restore.map_or(0, |restore| restore.version),
            saved_version: restore.map(|restore| restore.version),
        };
        for position in restore.into_iter().flat_map(|restore| &restore.positions) {
            ledger.sessions.restore_position(position);
        }
        *self.ledger.lock() = ledger;
        control.layout_fingerprint = prepare.layout_fingerprint;
        control.variables = prepare.variables.into();
        control.state = State::Prepared;
        Ok(())
    }

    /// Lets workers in.
    ///
    /// # Errors
    /// A stale epoch, or no variables yet.
    pub fn open(&self, identity: &Identity) -> Result<(), Error> {
        let mut control = self.control.write();
        check_control(&control, identity)?;
        match control.state {
            State::Empty => Err(Error::NotReady("it holds no variables")),
            State::Prepared | State::Draining => {
                control.state = State::Open;
                Ok(())
            }
            State::Open => Ok(()),
            State::Finished => Err(Error::Ended),
        }
    }

    /// Ends the job for this store.
    ///
    /// # Errors
    /// A stale epoch.
    pub fn finish(&self, identity: &Identity) -> Result<(), Error> {
        let mut control = self.control.write();
        check_control(&control, identity)?;
        control.state = State::Finished;
        Ok(())
    }

    /// Marks the store as about to stop. It goes on serving.
    pub fn drain(&self) {
        let mut control = self.control.write();
        if control.state != State::Finished {
            control.state = State::Draining;
        }
    }

    /// Starts a worker's session, and returns the first batch of `data_shard` that has not been applied here.
    ///
    /// # Errors
    /// Not open, another layout, or an older session than the task's latest.
    pub fn open_session(&self, identity: &Identity, fingerprint: u64, data_shard: u64) -> Result<u64, Error> {
        let control = self.control.read();
        check_worker(&control, identity)?;
        if fingerprint != control.layout_fingerprint {
            return Err(Error::OtherLayout { current: control.layout_fingerprint, given: fingerprint });
        }
        let mut ledger = self.ledger.lock();
        ledger.sessions.open(identity)?;
        ledger.steps.release_below(identity.task, identity.session);
        Ok(ledger.sessions.next_batch(data_shard))
    }

    /// Ends a session on the chief's word: nothing more is accepted from it, and its tickets return.
    ///
    /// # Errors
    /// A stale epoch.
    pub fn close_session(&self, identity: &Identity, task: Task, session: u64) -> Result<(), Error> {
        let control = self.control.read();
        check_control(&control, identity)?;
        let mut ledger = self.ledger.lock();
        ledger.sessions.close(task, session);
        ledger.steps.release_below(task, session.saturating_add(1));
        Ok(())
    }

    /// Reads slices and rows. With `reserve_step`, there is nothing to read unless the ticket for `identity.seq` is
    /// granted.
    ///
    /// # Errors
    /// Not open, not the open session, or slices and rows that do not exist.
    pub fn pull(&self, identity: &Identity, pull: &Pull) -> Result<(Pulled, Reading), Error> {
        check_worker(&self.control.read(), identity)?;
        let (version, global_step, ticket) = {
            let mut ledger = self.ledger.lock();
            ledger.sessions.check(identity)?;
            // A late copy of a pull whose step has been pushed: a ticket would be nobody's.
            let wanted = pull.reserve_step && !ledger.sessions.used(identity);
            let ticket = if wanted { ledger.steps.reserve(identity) } else { Ticket::Granted };
            (ledger.version, ledger.steps.global_step(), ticket)
        };
        let mut pulled = Pulled { version, global_step, ticket, updates: Vec::new() };
        if ticket != Ticket::Granted {
            return Ok((pulled, Reading::default()));
        }
        let resolved = Arc::new(self.resolve(&pull.selection)?);
        let given = resolved.lengths().map(|(_, length)| length).sum();
        if given > ANSWER_VALUES_MAX {
            return Err(Error::TooLarge { given, max: ANSWER_VALUES_MAX });
        }
        if identity.seq > 0 {
            self.turn(identity.task).lock().remember(identity, Arc::clone(&resolved));
        }
        pulled.updates = resolved.whole.iter().map(|slice| slice.updates()).collect();
        let known = pull.known.iter().zip(&pulled.updates).zip(0_u32..);
        let unchanged = known.filter(|((known, updates), _)| known == updates).map(|(_, place)| place);
        let unchanged = unchanged.collect();
        Ok((pulled, Reading::new(resolved, unchanged)))
    }

    fn turn(&self, task: Task) -> Arc<Mutex<Turn>> {
        Arc::clone(&self.turns.entry(task).or_default())
    }

    /// Applies one step's gradients: all of them, once, or none.
    ///
    /// # Errors
    /// Refused by epoch, session, sequence or ticket; slices, rows or lengths that do not fit; values that are not
    /// finite. The sequence number of a push with non-finite values is used up, so that it is not tried again.
    pub fn push<G: Gradients + ?Sized>(
        &self,
        identity: &Identity,
        push: &Push<'_, G>,
    ) -> Result<Pushed, Error> {
        check_worker(&self.control.read(), identity)?;
        let _shared = self.cut.read();
        let turn = self.turn(identity.task);
        let mut turn = turn.lock();
        if self.ledger.lock().sessions.admit(identity, &push.batch)? == Admission::Duplicate {
            return Ok(self.duplicate(identity));
        }
        let resolved = match &push.selection {
            Some(selection) => Arc::new(self.resolve(selection)?),
            None => turn.recall(identity).ok_or_else(|| {
                let seq = identity.seq;
                Error::BadRequest(format!(
                    "a push that names nothing must follow the pull of its seq, given {seq}"
                ))
            })?,
        };
        self.check_gradients(identity, &resolved, push.gradients)?;
        let pushed = {
            let mut ledger = self.ledger.lock();
            // The session may have been closed, and the batch applied by another task, since it was looked at.
            if ledger.sessions.admit(identity, &push.batch)? == Admission::Duplicate {
                drop(ledger);
                return Ok(self.duplicate(identity));
            }
            if self.ps == 0 && !ledger.steps.holds(identity) {
                return Err(Error::NoTicket { task: identity.task, seq: identity.seq });
            }
            ledger.sessions.consume(identity);
            ledger.sessions.record(&push.batch);
            ledger.version += 1;
            if self.ps == 0 {
                ledger.steps.advance(identity);
            }
            let staleness = (ledger.version - 1).saturating_sub(push.pulled_version);
            let global_step = ledger.steps.global_step();
            Pushed { duplicate: false, version: ledger.version, global_step, staleness }
        };
        self.apply(pushed.version, &resolved, push.gradients);
        turn.forget(identity);
        Ok(pushed)
    }

    fn apply<G: Gradients + ?Sized>(&self, version: u64, resolved: &Resolved, gradients: &G) {
        let (mut begin, mut scratch) = (0, Scratch::default());
        for slice in &resolved.whole {
            slice.apply_whole(version, gradients, begin);
            begin += slice.len();
        }
        for (_, slice, rows) in resolved.rows() {
            slice.apply_rows(version, rows, gradients, begin, &mut scratch);
            begin += rows.len() * slice.width;
        }
        // Of tables whose rule moves all rows at each step, the parts that this batch names no row of.
        for (number, slice) in self.restless.read().iter() {
            if !resolved.selection.rows.iter().any(|(named, _)| named == number) {
                slice.apply_rows(version, &[], gradients, begin, &mut scratch);
            }
        }
        self.tables.apply(self.moment(version), resolved, gradients, begin, &mut scratch);
    }

    fn duplicate(&self, identity: &Identity) -> Pushed {
        let mut ledger = self.ledger.lock();
        // A batch that another session applied needs no step of this one.
        ledger.steps.give_back(identity);
        ledger.sessions.consume(identity);
        let (version, global_step) = (ledger.version, ledger.steps.global_step());
        Pushed { duplicate: true, version, global_step, staleness: 0 }
    }

    /// Finds everything that a request names, and checks its rows and ids.
    fn resolve(&self, selection: &Arc<Selection>) -> Result<Resolved, Error> {
        let find = |number: u32| {
            let slice = self.slices.get(&number).map(|slice| Arc::clone(slice.value()));
            slice.ok_or_else(|| Error::BadRequest(format!("ps:{} does not hold slice {number}", self.ps)))
        };
        let of_rows = |&(number, set): &(u32, usize)| {
            let (slice, row_sets) = (find(number)?, &selection.row_sets);
            let rows = row_sets.get(set).ok_or_else(|| {
                Error::BadRequest(format!("row_set must be below {}, given {set}", row_sets.len()))
            })?;
            slice.check_rows(number, rows)?;
            Ok(slice)
        };
        Ok(Resolved {
            whole: selection.whole.iter().map(|&number| find(number)).collect::<Result<_, _>>()?,
            rows: selection.rows.iter().map(of_rows).collect::<Result<_, _>>()?,
            ids: self.tables.resolve(self.ps, selection)?,
            selection: Arc::clone(selection),
        })
    }

    fn check_gradients<G: Gradients + ?Sized>(
        &self,
        identity: &Identity,
        resolved: &Resolved,
        gradients: &G,
    ) -> Result<(), Error> {
        let expected: usize = resolved.lengths().map(|(_, length)| length).sum();
        if gradients.values() != expected {
            let given = gradients.values();
            let message = format!("a push of these slices holds {expected} values, given {given}");
            return Err(Error::BadRequest(message));
        }
        let Some(mut position) = gradients.not_finite() else { return Ok(()) };
        let mut ledger = self.ledger.lock();
        ledger.sessions.consume(identity);
        ledger.steps.give_back(identity);
        let value = gradients.get(position..position + 1, &mut Vec::new())[0].to_string();
        for (slice, length) in resolved.lengths() {
            if position < length {
                return Err(Error::NotFinite { slice, position, value });
            }
            position -= length;
        }
        Ok(())
    }
}

fn check_control(control: &Control, identity: &Identity) -> Result<(), Error> {
    match control.cluster_id {
        Some(current) if current != identity.cluster_id => {
            Err(Error::OtherCluster { current, given: identity.cluster_id })
        }
        None => Err(Error::NotReady("no chief has claimed it")),
        Some(_) if identity.epoch < control.epoch => {
            Err(Error::StaleEpoch { current: control.epoch, given: identity.epoch })
        }
        Some(_) if identity.epoch > control.epoch => {
            Err(Error::NotReady("its chief has not claimed it for this epoch"))
        }
        Some(_) => Ok(()),
    }
}

fn check_worker(control: &Control, identity: &Identity) -> Result<(), Error> {
    check_control(control, identity)?;
    match control.state {
        State::Open | State::Draining => Ok(()),
        State::Empty => Err(Error::NotReady("it holds no variables")),
        State::Prepared => Err(Error::NotReady("the chief has not opened training")),
        State::Finished => Err(Error::Ended),
    }
}

#[cfg(test)]
mod tests;
