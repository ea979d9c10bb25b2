//! Snapshots: the instant of a checkpoint.

use std::cmp::Ordering;
use std::sync::Arc;

use super::{Awaited, Store, check_control};
use crate::aggregation::Aggregation;
use crate::dynamic::DynamicSlice;
use crate::extent::Extent;
use crate::memory_budget::Reservation;
use crate::named_cuts::Confirmed;
use crate::snapshot::SnapshotPermit;
use crate::touched::Use;
use crate::{
    Basis, CutPurpose, Error, Identity, Snapshot, SnapshotSlice, SnapshotTable, SnapshotTableRows,
    State,
};
use trainyard_variable::StepNumber;

/// Reply to a request for a snapshot at a step.
#[derive(Debug)]
pub enum SnapshotAt {
    /// The snapshot has been taken.
    Taken(Snapshot),
    /// The step has not been reached. The snapshot is taken when it is, and the caller must ask again.
    NotYet,
    /// The store is past the step.
    Passed {
        /// Step of the store.
        reached: StepNumber,
    },
}

impl Store {
    /// Takes a snapshot: everything that a checkpoint holds of this store, at one instant between pushes. Training
    /// pauses for that instant. Until the snapshot has been read, training copies values before it changes them.
    ///
    /// # Errors
    /// A stale term, no variables, or another snapshot that has not been dropped.
    pub fn snapshot(&self, identity: &Identity, basis: Basis) -> Result<Snapshot, Error> {
        self.check_snapshot(identity)?;
        let alone = self.cut.write();
        let snapshot = self.cut_now(&self.aggregation.lock(), basis);
        drop(alone);
        snapshot
    }

    /// Takes a snapshot of a synchronous store at a step, so that the snapshots of all servers are of the same step.
    /// A later request replaces an earlier one.
    ///
    /// # Errors
    /// As [`Store::snapshot`].
    pub fn snapshot_at(
        &self,
        identity: &Identity,
        step: StepNumber,
        basis: Basis,
    ) -> Result<SnapshotAt, Error> {
        self.check_snapshot(identity)?;
        let aggregation = self.aggregation.lock();
        let _alone = self.step.write();
        let mut awaited = self.awaited.lock();
        if awaited.step == Some(step)
            && let Some(cut) = awaited.cut.take()
        {
            awaited.step = None;
            return Ok(SnapshotAt::Taken(cut));
        }
        let reached = StepNumber::new(self.ledger.lock().version);
        // An earlier snapshot that was never fetched would prevent this one.
        *awaited = Awaited {
            step: (reached < step).then_some(step),
            basis: basis.clone(),
            cut: None,
        };
        match reached.cmp(&step) {
            Ordering::Less => Ok(SnapshotAt::NotYet),
            Ordering::Equal => self.cut_now(&aggregation, basis).map(SnapshotAt::Taken),
            Ordering::Greater => Ok(SnapshotAt::Passed { reached }),
        }
    }

    /// Withdraws the request for a snapshot at a step. Drops a snapshot that was never fetched, because training
    /// would copy rows for it.
    pub fn withdraw_snapshot(&self, step: StepNumber) {
        let mut awaited = self.awaited.lock();
        if awaited.step == Some(step) {
            *awaited = Awaited::default();
        }
    }

    /// Takes the snapshot that was requested at this step, which has exclusive access to the store.
    pub(super) fn cut_if_awaited(&self, step: StepNumber, aggregation: &Aggregation) {
        let mut awaited = self.awaited.lock();
        if awaited.step == Some(step) {
            // If another snapshot is being written, this one is skipped. The chief must request it again.
            let basis = awaited.basis.clone();
            awaited.cut = self.cut_now(aggregation, basis).ok();
        }
    }

    fn check_snapshot(&self, identity: &Identity) -> Result<(), Error> {
        let control = self.control.read();
        check_control(&control, identity)?;
        match control.state {
            State::Empty | State::Preparing => Err(Error::NotReady("it holds no variables")),
            _ => Ok(()),
        }
    }

    /// Returns which rows a snapshot reads, its name, and the name of its base. The caller ensures that no push is partly
    /// applied.
    fn extent_of(&self, basis: Basis) -> (Extent, Option<String>, Option<String>) {
        match basis {
            Basis::Whole => (Extent::Whole, None, None),
            Basis::Values => (Extent::Values, None, None),
            Basis::Increments { name, base } => self.extent_of_checkpoint(name, base),
            Basis::Publication { name, since } => self.extent_of_publication(name, since),
        }
    }

    fn extent_of_checkpoint(
        &self,
        name: String,
        base: Option<String>,
    ) -> (Extent, Option<String>, Option<String>) {
        let mut bases = self.bases.lock();
        if bases.cuts.confirm(base.as_deref()) == Confirmed::Now {
            self.confirm_cut(Use::Checkpoint);
            bases.increment_bytes = 0;
        }
        if bases.cuts.confirm(base.as_deref()) == Confirmed::Before
            && let Some(bytes) = self.small_increment(bases.increment_bytes)
        {
            bases.increment_bytes += bytes;
            return (Extent::Increment, Some(name), base);
        }
        bases.cuts.add(name.clone());
        (Extent::Base, Some(name), None)
    }

    fn extent_of_publication(
        &self,
        name: String,
        since: Option<String>,
    ) -> (Extent, Option<String>, Option<String>) {
        let mut bases = self.bases.lock();
        let confirmed = bases.published.confirm(since.as_deref());
        if confirmed == Confirmed::Now {
            self.confirm_cut(Use::Publication);
        }
        bases.published.add(name.clone());
        match confirmed {
            Confirmed::Now | Confirmed::Before if self.tables.list_gone(Use::Publication) => {
                (Extent::PublicationIncrement, Some(name), since)
            }
            _ => (Extent::PublicationWhole, Some(name), None),
        }
    }

    /// Makes the latest cut of a use the one that increments count from.
    fn confirm_cut(&self, of: Use) {
        let slices = self.slices.iter();
        slices.for_each(|entry| entry.value().confirm_cut(of));
        self.tables.confirm_cut(of);
    }

    /// Returns the bytes of an increment of a use, with slots, and of everything.
    pub(super) fn increment_bytes(&self, of: Use) -> (u64, u64) {
        let slices = self.slices.iter();
        let slices = slices.map(|entry| entry.value().increment_bytes(of));
        slices.fold(self.tables.increment_bytes(of), |sum, one| {
            (sum.0 + one.0, sum.1 + one.1)
        })
    }

    /// Returns the bytes of an increment, or `None` if a whole snapshot is cheaper in the long run: the increment has more
    /// than half of its size, or all increments since the base, of which the earlier ones have `earlier` bytes, have more
    /// than all of it.
    fn small_increment(&self, earlier: u64) -> Option<u64> {
        let (increment, whole) = self.increment_bytes(Use::Checkpoint);
        (increment <= whole / 2 && earlier + increment <= whole).then_some(increment)
    }

    /// Takes a snapshot now. The caller ensures that no push is partly applied.
    pub(super) fn cut_now(
        &self,
        aggregation: &Aggregation,
        basis: Basis,
    ) -> Result<Snapshot, Error> {
        self.cut_of(aggregation, || self.extent_of(basis))
    }

    /// As [`Store::cut_now`]. `extent` returns which rows the snapshot reads, its name, and the name of its base.
    pub(super) fn cut_of(
        &self,
        aggregation: &Aggregation,
        extent: impl FnOnce() -> (Extent, Option<String>, Option<String>),
    ) -> Result<Snapshot, Error> {
        let permit = SnapshotPermit::take(&self.snapshot_taken)
            .ok_or(Error::NotReady("it writes another checkpoint"))?;
        // Tables are read one after the other, so only the largest copy counts.
        let copies = self.tables.reading_bytes_max();
        self.check_room(
            copies,
            "the copies of dynamic tables that a checkpoint takes",
        )?;
        let reservation = Reservation::new(copies, &self.memory_budget.copies);
        let (extent, name, base) = extent();
        let variables = Arc::clone(&*self.variables.read());
        let ledger = self.ledger.lock();
        let mut slices: Vec<(u32, SnapshotSlice)> = Vec::with_capacity(self.slices.len());
        for entry in &self.slices {
            let slice = entry.value();
            slice.cut(extent);
            let number = *entry.key();
            let snapshot =
                SnapshotSlice::new(number, &variables[slice.variable].name, slice, extent);
            slices.push((number, snapshot));
        }
        slices.sort_by_key(|(number, _)| *number);
        let purpose = match extent {
            Extent::Whole | Extent::Base | Extent::Increment => Some(CutPurpose::Checkpoint),
            Extent::LogWhole | Extent::LogIncrement => Some(CutPurpose::Log),
            Extent::Values | Extent::PublicationWhole | Extent::PublicationIncrement => None,
        };
        if let Some((purpose, journal)) = purpose.zip(self.journal.read().as_ref()) {
            journal.cut(purpose, self.standing_of(&ledger, aggregation.metadata()));
        }
        let positions = ledger.sessions.positions();
        let version = ledger.version;
        let global_step = ledger.steps.global_step();
        let named = |(number, slice): (u32, Arc<DynamicSlice>)| SnapshotTable {
            number,
            variable: variables[slice.variable].name.clone(),
            part: slice.part,
            width: slice.width,
            slot_names: extent.row_parts().slot_names(&slice.optimizer),
            rows: SnapshotTableRows::new(&slice),
        };
        let now = self.timestamp(version);
        let tables = self
            .tables
            .cut(now, extent)
            .into_iter()
            .map(named)
            .collect();
        drop(ledger);
        let slices = slices.into_iter().map(|(_, slice)| slice).collect();
        Ok(Snapshot {
            version,
            global_step,
            secs: now.secs,
            name,
            base,
            positions,
            slices,
            tables,
            _permit: (permit, reservation),
        })
    }
}
