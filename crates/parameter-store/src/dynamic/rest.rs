//! A slice of a dynamic table is made: empty, or of the rows of a checkpoint, which come some at a time.

use std::sync::atomic::Ordering;

use trainyard_optimizer::OptimizerConfig;
use trainyard_variable::{DynamicRows, FirstRows, Idle, InitialRows, Slice, VariableSpec};

use super::state::State;
use super::{Counts, DynamicSlice};
use crate::recency::Moment;
use crate::sync::RwLock;
use crate::{Error, SliceValues};

/// Of so many ids beyond the bound, one for each so many within it, those unused for longest are left out while more are to
/// come.
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
        now: Moment,
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

    /// Adds rows of a checkpoint, and ids without one: all of them may come in several lots, of which none has an id of
    /// another. [`DynamicSlice::has_loaded`] is called behind the last.
    ///
    /// # Errors
    /// The rows do not fit the slice, or have an id that is there.
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
        // Until some are left out there may be more than the bound.
        let most = self.capacity + self.capacity / BEYOND;
        state.reserve(most + lot.ids.len(), lot.candidates.len(), width);
        let now = state.now;
        let used = |idle: &Idle| Moment {
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
            let sightings = u32::try_from(candidate.sightings).unwrap_or(u32::MAX);
            state.add_candidate(candidate.id, sightings, used(&candidate.idle));
        }
        if state.rows.len().max(state.candidates.len()) > most {
            self.leave_out(state);
        }
        Ok(())
    }

    /// Puts what was loaded into the order that it had: ids of one push were used in ascending order, whatever servers held
    /// them. Of more rows than there is room for, those unused for longest are left out.
    pub(crate) fn has_loaded(&self) {
        let state = &mut *self.state.write();
        self.leave_out(state);
        self.count(state);
    }

    /// Puts everything into the order of last use, and leaves out what there is no room for.
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

    /// The instant of a checkpoint: what changes from now on is set aside until it is read. `now` is that moment.
    pub(crate) fn cut(&self, now: Moment) {
        self.state.write().cut(now);
    }

    /// Returns what decides the first values of ids without a row.
    pub(crate) fn first_rows(&self) -> &FirstRows {
        self.first.rule()
    }

    /// Forgets the checkpoint.
    pub(crate) fn forget_cut(&self) {
        let aside = self.state.write().aside.take();
        // It may be large: nobody waits until its memory is given back.
        drop(aside);
    }
}
