//! Preparing a store: it is emptied, its new values are made or read without a lock, and then installed.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use trainyard_variable::Access;

use super::build::{self, Built};
use super::{Awaited, Bases, Ledger, Prepare, State, StepCount, Store, check_control};
use crate::aggregation::Aggregation;
use crate::dynamic::DynamicSlice;
use crate::lru::Timestamp;
use crate::sessions::Sessions;
use crate::slice::Slice;
use crate::steps::Steps;
use crate::store::previous::Previous;
use crate::{Error, Identity};

/// The former contents of a store.
#[derive(Debug)]
pub(super) struct Contents {
    _slices: Vec<Arc<Slice>>,
    _tables: BTreeMap<u32, Arc<DynamicSlice>>,
    _aggregation: Aggregation,
    _awaited: Awaited,
    _bases: Bases,
    _previous: Previous,
}

impl Store {
    /// Replaces all slices, closes all sessions, and continues from the restored version or from 0. Values are made and
    /// read without a lock, so that requests are answered meanwhile. [`Status::progress`](crate::Status::progress)
    /// reports the progress.
    ///
    /// # Errors
    /// A stale term, including one that has become stale meanwhile; slices that name no variable or optimizer; values
    /// that cannot be restored; [`Store::cancel_preparing`]. The store is then empty, so that no partly restored values
    /// are served.
    pub fn prepare(&self, identity: &Identity, prepare: Prepare<'_>) -> Result<(), Error> {
        let held_before = self.begin_preparing(identity, &prepare)?;
        // Gigabytes take a while to free.
        drop(held_before);
        let now = self.timestamp(
            prepare
                .restore
                .as_ref()
                .map_or(0, |restore| restore.version.count()),
        );
        let built = self.build(&prepare, now);
        let outcome = built.and_then(|built| self.hold(identity, prepare, built));
        if outcome.is_err() {
            let mut control = self.control.write();
            self.memory_budget.slices.store(0, Ordering::Relaxed);
            if control.state == State::Preparing {
                control.state = State::Empty;
            }
        }
        outcome
    }

    /// Makes or reads the new values.
    fn build(&self, prepare: &Prepare<'_>, now: Timestamp) -> Result<Built, Error> {
        let planned = build::plan(prepare)?;
        let bytes = planned.bytes();
        let counted = self.memory_budget.slices.load(Ordering::Relaxed);
        self.check_first_room(
            bytes.saturating_sub(counted),
            "the rows that a checkpoint has",
        )?;
        self.memory_budget.slices.store(bytes, Ordering::Relaxed);
        self.building.begin(bytes);
        let built = planned.build(now, &self.building, &|bytes| {
            self.memory_budget
                .slices
                .fetch_add(bytes, Ordering::Relaxed);
            self.check_first_room(0, "rows of dynamic tables that a checkpoint has")
        })?;
        if let Some(restore) = &prepare.restore {
            restore.source.check_read().map_err(Error::Restore)?;
        }
        Ok(built)
    }

    /// Empties the store and closes it until it is prepared. Returns its former contents.
    fn begin_preparing(
        &self,
        identity: &Identity,
        prepare: &Prepare<'_>,
    ) -> Result<Contents, Error> {
        let mut control = self.control.write();
        check_control(&control, identity)?;
        if control.state == State::Preparing {
            return Err(Error::NotReady("it is being prepared already"));
        }
        (control.state, control.prepared_epoch) = (State::Empty, 0);
        let _alone = self.cut.write();
        let held_before = self.clear();
        let dense = prepare.dense_bytes();
        self.check_first_room(dense, "the variables and slots of the job")?;
        self.has_company
            .store(prepare.stores > 1, Ordering::Relaxed);
        // The bytes of all variables count from now on, before they are allocated.
        self.memory_budget.slices.store(dense, Ordering::Relaxed);
        self.building.begin(dense);
        control.state = State::Preparing;
        Ok(held_before)
    }

    /// Installs what was built.
    fn hold(&self, identity: &Identity, prepare: Prepare<'_>, built: Built) -> Result<(), Error> {
        let mut control = self.control.write();
        let _alone = self.cut.write();
        if control.state != State::Preparing {
            drop(self.clear());
            return Err(Error::NotReady("it received a request to stop"));
        }
        if let Err(error) = check_control(&control, identity) {
            drop(self.clear());
            return Err(error);
        }
        drop(self.tables.replace(built.tables));
        // From now on each slice counts its own bytes.
        self.memory_budget.slices.store(0, Ordering::Relaxed);
        for (number, slice) in built.slices {
            let by_row = prepare.variables[slice.variable].access == Access::Rows;
            let slice = Arc::new(slice);
            if by_row && slice.optimizer.moves_all_rows() {
                self.dense_update_tables
                    .write()
                    .push((number, Arc::clone(&slice)));
            }
            self.slices.insert(number, slice);
        }
        let restore = prepare.restore.as_ref();
        let mut ledger = Ledger {
            sessions: Sessions::default(),
            steps: Steps::new(
                restore.map_or(0, |restore| restore.global_step),
                prepare.global_step_max,
                prepare.update,
            ),
            version: restore.map_or(0, |restore| restore.version.count()),
            saved_version: restore.map(|restore| restore.version.count()),
        };
        for position in restore.into_iter().flat_map(|restore| &restore.positions) {
            ledger.sessions.restore_position(position);
        }
        let metadata = self.standing_of(&ledger, Vec::new());
        *self.ledger.lock() = ledger;
        control.prepared_epoch = identity.epoch;
        if let Some(journal) = &*self.journal.read() {
            self.begin_log_cuts();
            journal.begin(control.prepared_epoch, metadata);
        }
        control.layout_fingerprint = prepare.layout_fingerprint;
        control.step_count = if prepare.counts_steps {
            StepCount::Here
        } else {
            StepCount::Elsewhere
        };
        control.update = prepare.update;
        control.guard = prepare.guard;
        *self.variables.write() = prepare.variables.into();
        control.state = State::Prepared;
        Ok(())
    }

    /// Makes a preparation in progress end soon, with an error.
    pub fn cancel_preparing(&self) {
        self.building.cancel();
    }

    /// Empties the store and returns its former contents. The caller has exclusive access to the store.
    pub(super) fn clear(&self) -> Contents {
        let slices = self
            .slices
            .iter()
            .map(|slice| Arc::clone(slice.value()))
            .collect();
        self.slices.clear();
        self.memory_budget.slices.store(0, Ordering::Relaxed);
        self.memory_budget.parts.store(0, Ordering::Relaxed);
        self.pending_pulls.clear();
        self.dense_update_tables.write().clear();
        Contents {
            _slices: slices,
            _tables: self.tables.replace([]),
            _aggregation: std::mem::take(&mut *self.aggregation.lock()),
            _awaited: std::mem::take(&mut *self.awaited.lock()),
            _bases: std::mem::take(&mut *self.bases.lock()),
            _previous: std::mem::take(&mut *self.previous.lock()),
        }
    }
}
