//! The instant of a checkpoint.

use std::cmp::Ordering;
use std::sync::Arc;

use super::{Awaited, Store, check_control};
use crate::aggregation::Aggregation;
use crate::dynamic::{DynamicSlice, Frozen};
use crate::memory::Loan;
use crate::snapshot::Turn;
use trainyard_variable::VariableSpec;

use crate::{Error, Identity, ShardPosition, Snapshot, SnapshotSlice, SnapshotTable, State};

/// Answer to the wish for a snapshot at a version.
#[derive(Debug)]
pub enum SnapshotAt {
    /// It has been taken.
    Taken(Snapshot),
    /// The version has not been reached: ask again. It will be taken as soon as it is.
    NotYet,
    /// The store is past the version.
    Passed {
        /// Its version.
        version: u64,
    },
}

impl Store {
    /// Takes a snapshot: everything that a checkpoint holds of this store, at one instant between pushes. Training is
    /// held up for that instant, and while dynamic tables are copied; what it changes until the snapshot has been read is set aside.
    ///
    /// # Errors
    /// A stale epoch, no variables, or another snapshot that has not been dropped.
    pub fn snapshot(&self, identity: &Identity) -> Result<Snapshot, Error> {
        self.check_snapshot(identity)?;
        let alone = self.cut.write();
        let cut = self.cut_now(&self.aggregation.lock())?;
        drop(alone);
        Ok(cut.into_snapshot())
    }

    /// Takes a snapshot of a synchronous store at a version, so that those of all servers are of the same step. A later
    /// wish replaces an earlier one.
    ///
    /// # Errors
    /// As [`Store::snapshot`].
    pub fn snapshot_at(&self, identity: &Identity, version: u64) -> Result<SnapshotAt, Error> {
        self.check_snapshot(identity)?;
        let aggregation = self.aggregation.lock();
        let alone = self.step.write();
        let mut awaited = self.awaited.lock();
        if awaited.version == Some(version)
            && let Some(cut) = awaited.cut.take()
        {
            awaited.version = None;
            drop((awaited, alone, aggregation));
            return Ok(SnapshotAt::Taken(cut.into_snapshot()));
        }
        let reached = self.ledger.lock().version;
        // An earlier snapshot that nobody came for would keep this one from being taken.
        *awaited = Awaited { version: (reached < version).then_some(version), cut: None };
        match reached.cmp(&version) {
            Ordering::Less => Ok(SnapshotAt::NotYet),
            Ordering::Equal => {
                let cut = self.cut_now(&aggregation)?;
                drop((awaited, alone, aggregation));
                Ok(SnapshotAt::Taken(cut.into_snapshot()))
            }
            Ordering::Greater => Ok(SnapshotAt::Passed { version: reached }),
        }
    }

    /// Takes the snapshot that was asked for at this version. The step has the store to itself.
    pub(super) fn cut_if_awaited(&self, version: u64, aggregation: &Aggregation) {
        let mut awaited = self.awaited.lock();
        if awaited.version == Some(version) {
            // One that cannot be taken, since another is being written, is passed: it is asked for anew.
            awaited.cut = self.cut_now(aggregation).ok();
        }
    }

    fn check_snapshot(&self, identity: &Identity) -> Result<(), Error> {
        let control = self.control.read();
        check_control(&control, identity)?;
        match control.state {
            State::Empty => Err(Error::NotReady("it holds no variables")),
            _ => Ok(()),
        }
    }

    /// The caller sees to it that no push is half applied.
    fn cut_now(&self, aggregation: &Aggregation) -> Result<Cut, Error> {
        let turn = Turn::take(&self.snapshot_taken).ok_or(Error::NotReady("it writes another checkpoint"))?;
        // As they are, and put in order.
        let copies = self.tables.memory_bytes() + self.tables.bytes();
        self.check_room(copies, "the copies of dynamic tables that a checkpoint takes")?;
        let loan = Loan::new(copies, &self.memory.copies);
        let variables = Arc::clone(&*self.variables.read());
        let mut ledger = self.ledger.lock();
        let mut slices: Vec<(u32, SnapshotSlice)> = Vec::with_capacity(self.slices.len());
        for entry in &self.slices {
            let slice = entry.value();
            slice.cut();
            let snapshot = SnapshotSlice {
                variable: variables[slice.variable].name.clone(),
                part: slice.part,
                rows: slice.rows.clone(),
                width: slice.width,
                slot_names: slice.optimizer.slots().iter().map(|slot| slot.name).collect(),
                slice: Arc::clone(slice),
            };
            slices.push((*entry.key(), snapshot));
        }
        slices.sort_by_key(|(number, _)| *number);
        ledger.saved_version = Some(ledger.version);
        if let Some(journal) = &*self.journal.read() {
            journal.cut(self.standing_of(&ledger, aggregation.standing()));
        }
        let positions = ledger.sessions.positions();
        let (version, global_step) = (ledger.version, ledger.steps.global_step());
        let frozen = self.tables.freeze(self.moment(version));
        drop(ledger);
        let slices = slices.into_iter().map(|(_, slice)| slice).collect();
        Ok(Cut { turn: (turn, loan), variables, version, global_step, positions, slices, frozen })
    }
}

/// A store at one instant, its dynamic tables not yet put in order: that need not hold training up.
#[derive(Debug)]
pub(super) struct Cut {
    variables: Arc<[VariableSpec]>,
    version: u64,
    global_step: u64,
    positions: Vec<ShardPosition>,
    slices: Vec<SnapshotSlice>,
    frozen: Vec<(Arc<DynamicSlice>, Frozen)>,
    /// Given back behind the slices, which are declared before it.
    turn: (Turn, Loan),
}

impl Cut {
    fn into_snapshot(self) -> Snapshot {
        let Self { variables, version, global_step, positions, slices, frozen, turn } = self;
        let table = |(slice, frozen): (Arc<DynamicSlice>, Frozen)| SnapshotTable {
            variable: variables[slice.variable].name.clone(),
            part: slice.part,
            width: slice.width,
            slot_names: slice.optimizer.slots().iter().map(|slot| slot.name).collect(),
            rows: frozen.into_rows(),
        };
        let tables = frozen.into_iter().map(table).collect();
        Snapshot { version, global_step, positions, slices, tables, _turn: turn }
    }
}
