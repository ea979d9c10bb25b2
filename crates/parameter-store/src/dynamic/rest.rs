//! A slice of a dynamic table at rest: read for a checkpoint, built from one.

use crate::sync::RwLock;
use trainyard_optimizer::OptimizerConfig;
use trainyard_variable::{Candidate, DynamicRows, FirstRows, Idle, InitialRows, Slice, VariableSpec};

use super::aside::Taken;
use super::state::State;
use super::{Counts, DynamicSlice};
use crate::recency::Moment;
use crate::{Error, SliceValues};

/// Places that are read at a time for a checkpoint: a push waits for no more.
const PLACES_AT_ONCE: u32 = 4 << 10;

impl Taken {
    /// Returns the rows in ascending order of id.
    pub(super) fn into_rows(mut self, width: usize) -> DynamicRows {
        let now = self.now;
        let idle = |used: &Moment| Idle {
            pushes: now.pushes.saturating_sub(used.pushes),
            secs: now.secs.saturating_sub(used.secs).max(0) as u64,
        };
        let mut order: Vec<u32> = (0..self.rows.len() as u32).collect();
        order.sort_unstable_by_key(|row| self.rows[*row as usize].0);
        // Each buffer goes when it has been put in order: none but one is held twice.
        let gather = |buffer: Vec<f32>| {
            let mut out = Vec::with_capacity(buffer.len());
            for row in &order {
                out.extend_from_slice(&buffer[*row as usize * width..][..width]);
            }
            out
        };
        self.candidates.sort_unstable_by_key(|(id, ..)| *id);
        let candidate = |(id, used, sightings): &(u64, Moment, u32)| Candidate {
            id: *id,
            idle: idle(used),
            sightings: (*sightings).into(),
        };
        DynamicRows {
            ids: order.iter().map(|row| self.rows[*row as usize].0).collect(),
            idle: order.iter().map(|row| idle(&self.rows[*row as usize].1)).collect(),
            values: gather(self.values.values),
            slots: self.values.slots.into_iter().map(gather).collect(),
            candidates: self.candidates.iter().map(candidate).collect(),
        }
    }
}

impl DynamicSlice {
    /// Returns an empty slice of a table, or one with the rows of a checkpoint. Of more rows than there is room for,
    /// those unused for longest are left out.
    ///
    /// # Errors
    /// The variable is not a dynamic table, its rule moves all rows, or the rows do not fit it.
    pub(crate) fn new(
        spec: &VariableSpec,
        slice: &Slice,
        optimizer: OptimizerConfig,
        first: InitialRows,
        now: Moment,
        rows: Option<DynamicRows>,
    ) -> Result<Self, Error> {
        let bad = |message: String| Error::BadRequest(message);
        let table = spec.dynamic().ok_or_else(|| bad(format!("`{}` is not a dynamic table", spec.name)))?;
        if optimizer.moves_all_rows() {
            return Err(bad(format!(
                "`{}` is a dynamic table, and its optimizer moves all rows at each step: set lazy = true",
                spec.name
            )));
        }
        let values = SliceValues { values: Vec::new(), slots: vec![Vec::new(); optimizer.slots().len()] };
        let built = Self {
            variable: slice.variable,
            part: slice.part,
            width: slice.width,
            name: spec.name.clone(),
            capacity: slice.rows.len(),
            ids: slice.ids(spec.rows()),
            table,
            first,
            state: RwLock::new(State { now, values, ..State::default() }),
            counts: Counts::default(),
            optimizer,
        };
        {
            let state = &mut *built.state.write();
            if let Some(rows) = rows {
                built.load(state, rows)?;
            }
            built.count(state);
        }
        Ok(built)
    }

    /// The instant of a checkpoint: what changes from now on is set aside until it is read. `now` is that moment.
    pub(crate) fn cut(&self, now: Moment) {
        self.state.write().cut(now);
    }

    /// Copies everything as it was at the instant of the checkpoint, some rows at a time: pushes and pulls go on between.
    pub(crate) fn take(&self) -> DynamicRows {
        let mut taken = Taken::default();
        while self.state.write().take_some(&mut taken, PLACES_AT_ONCE, self.width) {}
        self.forget_cut();
        taken.into_rows(self.width)
    }

    /// Returns what decides the first values of ids without a row.
    pub(crate) fn first_rows(&self) -> &FirstRows {
        self.first.rule()
    }

    /// Forgets the checkpoint.
    pub(crate) fn forget_cut(&self) {
        self.state.write().aside = None;
    }

    fn load(&self, state: &mut State, rows: DynamicRows) -> Result<(), Error> {
        let slots = self.optimizer.slots().len();
        let values = rows.ids.len() * self.width;
        let fits = rows.idle.len() == rows.ids.len()
            && rows.values.len() == values
            && rows.slots.len() == slots
            && rows.slots.iter().all(|slot| slot.len() == values)
            && rows.ids.windows(2).all(|pair| pair[0] < pair[1])
            && rows.candidates.windows(2).all(|pair| pair[0].id < pair[1].id)
            && rows.ids.iter().all(|id| self.ids.contains(&u128::from(*id)));
        if !fits {
            return Err(Error::Restore(format!("the rows of `{}` do not fit together", self.name)));
        }
        let now = state.now;
        let used = |idle: &Idle| Moment {
            pushes: now.pushes.saturating_sub(idle.pushes),
            secs: now.secs.saturating_sub(i64::try_from(idle.secs).unwrap_or(i64::MAX)),
        };
        // Ids of one push were used in ascending order: this is the order that they had, whatever servers held them.
        let mut order: Vec<usize> = (0..rows.ids.len()).collect();
        order.sort_by_key(|&row| (used(&rows.idle[row]), rows.ids[row]));
        let left_out = order.len().saturating_sub(self.capacity);
        self.counts.evicted.fetch_add(left_out as u64, std::sync::atomic::Ordering::Relaxed);
        for &row in &order[left_out..] {
            let (id, from) = (rows.ids[row], row * self.width..(row + 1) * self.width);
            let used = used(&rows.idle[row]);
            let place = state.add_row(id, used, self.width, self.capacity, &self.optimizer, &self.first);
            let to = place as usize * self.width..(place as usize + 1) * self.width;
            state.values.values[to.clone()].copy_from_slice(&rows.values[from.clone()]);
            for (slot, values) in state.values.slots.iter_mut().zip(&rows.slots) {
                slot[to.clone()].copy_from_slice(&values[from.clone()]);
            }
        }
        let mut candidates = rows.candidates;
        candidates.retain(|candidate| self.ids.contains(&u128::from(candidate.id)));
        candidates.sort_by_key(|candidate| (used(&candidate.idle), candidate.id));
        let left_out = candidates.len().saturating_sub(self.capacity);
        for candidate in &candidates[left_out..] {
            let sightings = u32::try_from(candidate.sightings).unwrap_or(u32::MAX);
            state.add_candidate(candidate.id, sightings, used(&candidate.idle));
        }
        Ok(())
    }
}
