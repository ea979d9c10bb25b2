//! Loading a slice of a dynamic table: it starts empty, or with the rows of a checkpoint, which arrive in lots.

use std::sync::atomic::Ordering;

use trainyard_optimizer::OptimizerConfig;
use trainyard_variable::{DynamicRows, FirstRows, Idle, InitialRows, Slice, VariableSpec};

use super::state::State;
use super::{CANDIDATE_BYTES, Counts, DynamicSlice, ROW_BYTES};
use crate::extent::Extent;
use crate::lru::Timestamp;
use crate::sync::RwLock;
use crate::touched::Use;
use crate::{Error, SliceValues};

/// The rows that are loaded may exceed the bound by one in `BEYOND`. Beyond that, the least recently used rows are
/// removed before the next lot.
const BEYOND: usize = 16;

impl DynamicSlice {
    /// Returns an empty slice of a table.
    ///
    /// # Errors
    /// The variable is not a dynamic table, or its rule moves all rows.
    pub(crate) fn new(
        spec: &VariableSpec,
        slice: &Slice,
        optimizer: OptimizerConfig,
        first: InitialRows,
        now: Timestamp,
    ) -> Result<Self, Error> {
        let bad = |message: String| Error::BadRequest(message);
        let table = spec
            .dynamic()
            .ok_or_else(|| bad(format!("`{}` is not a dynamic table", spec.name)))?;
        if optimizer.moves_all_rows() {
            return Err(bad(format!(
                "`{}` is a dynamic table, and its optimizer moves all rows at each step: set lazy = true",
                spec.name
            )));
        }
        let values = SliceValues {
            values: Vec::new(),
            slots: vec![Vec::new(); optimizer.slots().len()],
        };
        let mut state = State {
            now,
            values,
            ..State::default()
        };
        let capacity = slice.rows.len();
        state.reserve(
            capacity,
            if table.admit_after > 1 { capacity } else { 0 },
            slice.width,
        );
        Ok(Self {
            variable: slice.variable,
            part: slice.part,
            width: slice.width,
            name: spec.name.clone(),
            capacity,
            ids: slice.ids(spec.rows()),
            table,
            first,
            state: RwLock::new(state),
            counts: Counts::default(),
            optimizer,
        })
    }

    /// Adds rows of a checkpoint, and ids without a row. They may arrive in several lots, each with other ids.
    /// [`DynamicSlice::has_loaded`] must be called after the last lot.
    ///
    /// # Errors
    /// The rows do not fit the slice, or an id is present already.
    pub(crate) fn load(&self, lot: &DynamicRows) -> Result<(), Error> {
        let width = self.width;
        let values = lot.ids.len() * width;
        let fits = lot.idle.len() == lot.ids.len()
            && lot.values.len() == values
            && lot.slots.len() == self.optimizer.slots().len()
            && lot.slots.iter().all(|slot| slot.len() == values)
            && lot.ids.iter().all(|id| self.ids.contains(&u128::from(*id)));
        if !fits {
            return Err(self.unfit());
        }
        let state = &mut *self.state.write();
        // The slice may hold more rows than its bound until some are removed.
        let most = self.capacity + self.capacity / BEYOND;
        state.reserve(most + lot.ids.len(), lot.candidates.len(), width);
        let now = state.now;
        let used = |idle: &Idle| Timestamp {
            pushes: now.pushes.saturating_sub(idle.pushes),
            secs: now
                .secs
                .saturating_sub(i64::try_from(idle.secs).unwrap_or(i64::MAX)),
        };
        for (row, id) in lot.ids.iter().enumerate() {
            if state.rows.place(*id).is_some() {
                return Err(self.unfit());
            }
            let place = state.place_row(*id, used(&lot.idle[row]), width) as usize;
            let parts = std::iter::once(&lot.values).chain(&lot.slots);
            for (to, from) in state.values.parts().zip(parts) {
                to[place * width..][..width].copy_from_slice(&from[row * width..][..width]);
            }
        }
        for candidate in &lot.candidates {
            if !self.ids.contains(&u128::from(candidate.id)) {
                continue;
            }
            if state.candidates.place(candidate.id).is_some() {
                return Err(self.unfit());
            }
            let occurrences = u32::try_from(candidate.occurrences).unwrap_or(u32::MAX);
            state.add_candidate(candidate.id, occurrences, used(&candidate.idle));
        }
        if state.rows.len().max(state.candidates.len()) > most {
            self.leave_out(state);
        }
        Ok(())
    }

    /// Restores the order of last use. Ids of one push were used in ascending order, on whichever servers they were.
    /// Removes the least recently used rows that exceed the bound.
    pub(crate) fn has_loaded(&self) {
        let state = &mut *self.state.write();
        self.leave_out(state);
        self.count(state);
    }

    /// Orders rows and candidates by last use, and removes those that exceed the bound.
    fn leave_out(&self, state: &mut State) {
        state.rows.put_in_order();
        state.candidates.put_in_order();
        let left_out = state.leave_rows(self.capacity, self.width);
        state.leave_candidates(self.capacity);
        self.counts.evicted.fetch_add(left_out, Ordering::Relaxed);
    }

    fn unfit(&self) -> Error {
        Error::Restore(format!("the rows of `{}` do not fit together", self.name))
    }

    /// Marks the instant of a checkpoint. From now on places are copied before they change, until they are read. `now`
    /// is the time of that instant.
    pub(crate) fn cut(&self, now: Timestamp, extent: Extent) {
        self.state.write().cut(now, extent);
    }

    /// Makes the latest cut of a use the one that increments count from.
    pub(crate) fn confirm_cut(&self, of: Use) {
        self.state.write().confirm_cut(of);
    }

    /// Returns whether the ids that have lost their rows since the confirmed cut of a use can be listed.
    pub(crate) fn lists_gone(&self, of: Use) -> bool {
        self.state.read().gone.count(of).is_some()
    }

    /// Returns the bytes of an increment of a use, with slots, and of the whole table. An increment that is not possible
    /// has as many bytes as the table.
    pub(crate) fn increment_bytes(&self, of: Use) -> (u64, u64) {
        let state = self.state.read();
        let whole = self.bytes();
        let Some(gone) = state.gone.count(of) else {
            return (whole, whole);
        };
        let rows = state.touched.count(of, state.rows.len()) as u64;
        let candidates = state.candidates.len() as u64 * CANDIDATE_BYTES;
        let touched = rows * (self.row_bytes() + ROW_BYTES) + gone as u64 * 8 + candidates;
        (touched, whole)
    }

    /// Makes the rows of now those of the latest cut of the log.
    pub(crate) fn begin_log_cut(&self) {
        self.state.write().begin_log_cut();
    }

    /// Prepares the slice for the rows of a cut of the log, which was made at `now`: removes the rows of the ids in `gone`,
    /// or of all ids if it is `None`, and all ids without a row. [`DynamicSlice::lay_over`] and
    /// [`DynamicSlice::has_loaded`] follow.
    pub(crate) fn begin_lay_over(&self, now: Timestamp, gone: Option<&[u64]>) {
        let state = &mut *self.state.write();
        state.now = now;
        match gone {
            Some(gone) => {
                for id in gone {
                    if let Some(place) = state.rows.place(*id) {
                        state.remove_row(place, self.width);
                    }
                }
            }
            None => drop(state.leave_rows(0, self.width)),
        }
        state.leave_candidates(0);
    }

    /// Replaces rows by those of a cut of the log, and adds ids without a row.
    ///
    /// # Errors
    /// The rows do not fit the slice.
    pub(crate) fn lay_over(&self, lot: &DynamicRows) -> Result<(), Error> {
        {
            let state = &mut *self.state.write();
            for id in &lot.ids {
                if let Some(place) = state.rows.place(*id) {
                    state.rows.remove(place);
                }
            }
        }
        self.load(lot)
    }

    /// Returns the rule for the initial values of ids without a row.
    pub(crate) fn first_rows(&self) -> &FirstRows {
        self.first.rule()
    }

    /// Discards the state of the checkpoint.
    pub(crate) fn forget_cut(&self) {
        let aside = self.state.write().aside.take();
        // The copies may be large, so they are freed without the lock.
        drop(aside);
    }
}
