//! A slice of a dynamic table: ids get rows at first touch and lose them when unused, in bounded memory.
//!
//! Every push is a sighting of each id it names. An id sighted often enough gets a row, with first values and slots;
//! its gradient is applied from that push on, and dropped before. When there is no room, the row unused for longest
//! goes. Reads change nothing: an id without a row reads the first values that a row of it would have.

mod aside;
mod reading;
mod rest;
mod state;

use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};

use trainyard_optimizer::OptimizerConfig;
use trainyard_variable::{DynamicTable, InitialRows};

use crate::Error;
use crate::recency::Moment;
use crate::sync::RwLock;
use state::{Admission, State};

/// What a slice of a dynamic table holds, and what it has given up since the store was made.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DynamicStatus {
    /// Name of the variable.
    pub variable: String,
    /// Rows in use.
    pub rows: u64,
    /// Rows there may be.
    pub rows_max: u64,
    /// Rows taken from the ids unused for longest, to make room.
    pub evicted: u64,
    /// Rows of ids unused for too long.
    pub expired: u64,
    /// Rows of gradients that were dropped, since their ids had no row.
    pub gradients_dropped: u64,
}

/// Counted under the slice's lock, and read without it.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    rows: AtomicU64,
    candidates: AtomicU64,
    evicted: AtomicU64,
    expired: AtomicU64,
    gradients_dropped: AtomicU64,
    /// Bytes of values and slots.
    values: AtomicU64,
    /// Bytes that are set aside for a checkpoint.
    aside: AtomicU64,
}

/// One slice of a dynamic table. Its lock covers ids, values and slots together.
#[derive(Debug)]
pub(crate) struct DynamicSlice {
    pub(crate) variable: usize,
    pub(crate) part: usize,
    pub(crate) width: usize,
    pub(crate) optimizer: OptimizerConfig,
    name: String,
    /// Rows there may be.
    capacity: usize,
    ids: Range<u128>,
    table: DynamicTable,
    first: InitialRows,
    state: RwLock<State>,
    counts: Counts,
}

/// Bytes that a row takes in a checkpoint, besides its values: id and time of last use.
const ROW_BYTES: u64 = 24;
/// Bytes that an id without a row takes in a checkpoint.
const CANDIDATE_BYTES: u64 = 32;
/// Bytes that an id takes in memory: its place in the order of last use, in the map to it, and its count of sightings.
const ID_BYTES: u64 = 68;

impl DynamicSlice {
    /// Returns what it holds and has given up.
    pub(crate) fn status(&self) -> DynamicStatus {
        let read = |count: &AtomicU64| count.load(Ordering::Relaxed);
        DynamicStatus {
            variable: self.name.clone(),
            rows: read(&self.counts.rows),
            rows_max: self.capacity as u64,
            evicted: read(&self.counts.evicted),
            expired: read(&self.counts.expired),
            gradients_dropped: read(&self.counts.gradients_dropped),
        }
    }

    /// Returns the bytes that it takes in a checkpoint, nearly.
    pub(crate) fn bytes(&self) -> u64 {
        self.counts.rows.load(Ordering::Relaxed) * (self.row_bytes() + ROW_BYTES)
            + self.counts.candidates.load(Ordering::Relaxed) * CANDIDATE_BYTES
    }

    /// Returns the bytes that it takes in memory, nearly.
    pub(crate) fn memory_bytes(&self) -> u64 {
        self.counts.values.load(Ordering::Relaxed) + self.places() * ID_BYTES
    }

    /// Returns the bytes that it needs at most if so many ids are new.
    pub(crate) fn growth_max(&self, ids: usize) -> u64 {
        let rows = (self.counts.rows.load(Ordering::Relaxed) as usize + ids).min(self.capacity);
        let held = self.counts.values.load(Ordering::Relaxed);
        (rows as u64 * self.row_bytes()).saturating_sub(held) + ids as u64 * ID_BYTES
    }

    /// Returns the bytes that are set aside for a checkpoint.
    pub(crate) fn aside_bytes(&self) -> u64 {
        self.counts.aside.load(Ordering::Relaxed)
    }

    /// Returns the bytes that are set aside at most for a push that names so many ids: each takes the place of another.
    pub(crate) fn aside_max(&self, ids: usize) -> u64 {
        2 * ids as u64 * (self.row_bytes() + ROW_BYTES)
    }

    /// Returns the number of ids, with a row and without one.
    fn places(&self) -> u64 {
        self.counts.rows.load(Ordering::Relaxed) + self.counts.candidates.load(Ordering::Relaxed)
    }

    /// Returns the bytes of the values and slots of a row.
    fn row_bytes(&self) -> u64 {
        (self.width * (1 + self.optimizer.slots().len()) * 4) as u64
    }

    /// Returns how many of checked ids have no row.
    pub(crate) fn count_new(&self, ids: &[u64]) -> usize {
        let state = self.state.read();
        ids.iter()
            .filter(|id| state.rows.place(**id).is_none())
            .count()
    }

    /// Checks that `ids` ascend strictly and belong to the slice.
    pub(crate) fn check_ids(&self, number: u32, ids: &[u64]) -> Result<(), Error> {
        if let Some(pair) = ids.windows(2).find(|pair| pair[0] >= pair[1]) {
            let message = format!(
                "ids of slice {number} must ascend, given {} before {}",
                pair[0], pair[1]
            );
            return Err(Error::BadRequest(message));
        }
        let ends = ids.first().into_iter().chain(ids.last());
        match ends
            .into_iter()
            .find(|id| !self.ids.contains(&u128::from(**id)))
        {
            Some(id) => {
                let Range { start, end } = self.ids;
                Err(Error::BadRequest(format!(
                    "ids of slice {number} must lie in {start}..{end}, given {id}"
                )))
            }
            None => Ok(()),
        }
    }

    /// Copies the values of checked ids: of an id without a row, its first values. `out` is as long as they are.
    pub(crate) fn read(&self, ids: &[u64], out: &mut [f32]) {
        let state = self.state.read();
        for (&id, out) in ids.iter().zip(out.chunks_exact_mut(self.width.max(1))) {
            match state.rows.place(id) {
                Some(place) => {
                    let begin = place as usize * self.width;
                    out.copy_from_slice(&state.values.values[begin..begin + self.width]);
                }
                None => self.first.fill(id, out),
            }
        }
    }

    /// Takes note of a push that names checked `ids`, and applies its gradients to those that have or get a row. A row
    /// that has been unused for long enough is forgotten at the next push, unless that one names it. `now` is the
    /// moment after the push.
    pub(crate) fn apply(&self, now: Moment, ids: &[u64], gradient: &[f32], scratch: &mut Vec<u32>) {
        let state = &mut *self.state.write();
        // Pushes may come here in another order than they were counted in.
        let now = now.latest(state.now);
        state.now = now;
        scratch.clear();
        scratch.resize(ids.len(), u32::MAX);
        let mut named = 0;
        for (place, &id) in scratch.iter_mut().zip(ids) {
            if let Some(known) = state.rows.place(id) {
                state.touch_row(known, now, self.width);
                *place = known;
                named += 1;
            }
        }
        let mut dropped = 0;
        let known = named;
        for (place, &id) in scratch
            .iter_mut()
            .zip(ids)
            .filter(|(place, _)| **place == u32::MAX)
        {
            match self.admit(state, id, now, named) {
                Some(new) => {
                    *place = new;
                    named += 1;
                }
                None => dropped += 1,
            }
        }
        if named > known {
            // In the order of ids, whether they are new or not: a restored table has no other to go by.
            scratch
                .iter()
                .filter(|place| **place != u32::MAX)
                .for_each(|place| state.touch_row(*place, now, self.width));
        }
        if dropped == 0 {
            self.update(state, now.pushes, scratch, gradient);
        } else {
            let kept = scratch.iter().zip(gradient.chunks_exact(self.width.max(1)));
            let kept = kept.filter(|(place, _)| **place != u32::MAX);
            let gradient: Vec<f32> = kept.flat_map(|(_, gradient)| gradient).copied().collect();
            scratch.retain(|place| *place != u32::MAX);
            self.update(state, now.pushes, scratch, &gradient);
            self.counts
                .gradients_dropped
                .fetch_add(dropped, Ordering::Relaxed);
        }
        self.forget(state);
    }

    /// Takes note of a push that names none of its ids.
    pub(crate) fn pass(&self, now: Moment) {
        if self.table.expire_after_steps.is_none() && self.table.expire_after_secs.is_none() {
            return;
        }
        let state = &mut *self.state.write();
        state.now = now.latest(state.now);
        self.forget(state);
    }

    /// Counts a sighting of an id without a row, and gives it one if it is due and there is room. `named` rows belong
    /// to ids of this push, and stay.
    fn admit(&self, state: &mut State, id: u64, now: Moment, named: usize) -> Option<u32> {
        match state.sight(id, now, self.table.admit_after, self.capacity) {
            Admission::Later => None,
            Admission::Due if self.capacity == named => None,
            Admission::Due => {
                if state.rows.len() == self.capacity {
                    let (oldest, _) = state.rows.oldest()?;
                    state.remove_row(oldest, self.width);
                    self.counts.evicted.fetch_add(1, Ordering::Relaxed);
                }
                state.forget_candidate(id);
                Some(state.add_row(id, now, self.width, &self.optimizer, &self.first))
            }
        }
    }

    fn update(&self, state: &mut State, step: u64, places: &[u32], gradient: &[f32]) {
        let values = &mut state.values;
        let mut slots: Vec<&mut [f32]> = values.slots.iter_mut().map(Vec::as_mut_slice).collect();
        self.optimizer.apply_rows(
            step,
            self.width,
            places,
            &mut values.values,
            &mut slots,
            gradient,
        );
    }

    /// Removes what has been unused for too long, by now.
    fn forget(&self, state: &mut State) {
        let expired = state.expire(&self.table, self.width);
        self.counts.expired.fetch_add(expired, Ordering::Relaxed);
        self.count(state);
    }

    fn count(&self, state: &State) {
        self.counts
            .rows
            .store(state.rows.len() as u64, Ordering::Relaxed);
        self.counts
            .values
            .store(state.values.bytes(), Ordering::Relaxed);
        self.counts
            .candidates
            .store(state.candidates.len() as u64, Ordering::Relaxed);
        let aside = state.aside.as_ref().map_or(0, |aside| aside.bytes());
        self.counts.aside.store(aside, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests;
