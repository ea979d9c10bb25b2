//! One slice of a dynamic table: ids get rows once they occur often enough and lose them when unused, in bounded
//! memory.
//!
//! Each push counts one occurrence of every id that it names. An id whose occurrence count reaches the admission
//! threshold gets a row with initial values and slots. Its gradients are applied from that push on; earlier gradients
//! are dropped. When the slice is full, the least recently used row is evicted. Reads change nothing: an id without a
//! row reads the initial values that its row would have.
//!
//! In a table with a shared row, the reader learns which ids have no row, and reads the shared row for them. The shared
//! row is a variable of its own. A push names an id whose occurrence has read the shared row without a gradient: the
//! occurrence is counted, and its gradient is one of the shared row.

mod copy_on_write;
mod reading;
mod rest;
mod state;

use std::borrow::Cow;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};

use trainyard_optimizer::{OptimizerConfig, RowGradient};
use trainyard_variable::{DynamicTable, InitialRows, union_of_keys};

use crate::Error;
use crate::lru::{Timestamp, UpdatePoint};
use crate::sync::RwLock;
use state::{Admission, State};

/// Status of one slice of a dynamic table. The counters start when the store is created.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DynamicStatus {
    /// Name of the variable.
    pub variable: String,
    /// Rows in use.
    pub rows: u64,
    /// Most rows of the slice.
    pub rows_max: u64,
    /// Least recently used rows that were evicted to make room.
    pub evicted: u64,
    /// Rows that were removed because their ids were unused for too long.
    pub expired: u64,
    /// Rows of gradients that were dropped because their ids had no row.
    pub gradients_dropped: u64,
}

/// The occurrences of ids in one push.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Occurrences<'a> {
    /// Ids with gradients, ascending.
    pub(crate) ids: &'a [u64],
    /// Their gradients, a row for each.
    pub(crate) gradient: &'a [f32],
    /// Ids that have read the shared row, ascending. None of them is among `ids`.
    pub(crate) counted: &'a [u64],
}

/// Counters, written under the slice's lock and read without it.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    rows: AtomicU64,
    candidates: AtomicU64,
    evicted: AtomicU64,
    expired: AtomicU64,
    gradients_dropped: AtomicU64,
    /// Bytes of values and slots.
    values: AtomicU64,
    /// Bytes of copy-on-write copies for a checkpoint.
    aside: AtomicU64,
}

/// One slice of a dynamic table. One lock covers its ids, values and slots.
#[derive(Debug)]
pub(crate) struct DynamicSlice {
    pub(crate) variable: usize,
    pub(crate) part: usize,
    pub(crate) width: usize,
    pub(crate) optimizer: OptimizerConfig,
    name: String,
    /// Most rows of the slice.
    capacity: usize,
    ids: Range<u128>,
    table: DynamicTable,
    first: InitialRows,
    state: RwLock<State>,
    counts: Counts,
}

/// Bytes of a row in a checkpoint besides its values: its id and the time of its last use.
const ROW_BYTES: u64 = 24;
/// Bytes of an id without a row in a checkpoint.
const CANDIDATE_BYTES: u64 = 32;
/// Bytes of an id in memory: its node in the LRU list, its entry in the map from id to place, and its occurrence count.
const ID_BYTES: u64 = 68;

impl DynamicSlice {
    /// Returns the rows in use and the counters.
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

    /// Returns the approximate bytes of the slice in a checkpoint.
    pub(crate) fn bytes(&self) -> u64 {
        self.counts.rows.load(Ordering::Relaxed) * (self.row_bytes() + ROW_BYTES)
            + self.counts.candidates.load(Ordering::Relaxed) * CANDIDATE_BYTES
    }

    /// Returns the approximate bytes of the slice in memory.
    pub(crate) fn memory_bytes(&self) -> u64 {
        self.counts.values.load(Ordering::Relaxed) + self.places() * ID_BYTES
    }

    /// Returns the most bytes by which the slice grows if `ids` ids are new.
    pub(crate) fn growth_max(&self, ids: usize) -> u64 {
        let rows = (self.counts.rows.load(Ordering::Relaxed) as usize + ids).min(self.capacity);
        let held = self.counts.values.load(Ordering::Relaxed);
        (rows as u64 * self.row_bytes()).saturating_sub(held) + ids as u64 * ID_BYTES
    }

    /// Returns the bytes of copy-on-write copies for a checkpoint.
    pub(crate) fn aside_bytes(&self) -> u64 {
        self.counts.aside.load(Ordering::Relaxed)
    }

    /// Returns the most bytes that a push of `ids` ids copies for a checkpoint. Each of them may replace another id.
    pub(crate) fn aside_max(&self, ids: usize) -> u64 {
        2 * ids as u64 * (self.row_bytes() + ROW_BYTES)
    }

    /// Returns the number of ids, with and without a row.
    fn places(&self) -> u64 {
        self.counts.rows.load(Ordering::Relaxed) + self.counts.candidates.load(Ordering::Relaxed)
    }

    /// Returns the bytes of the values and slots of a row.
    fn row_bytes(&self) -> u64 {
        (self.width * (1 + self.optimizer.slots().len()) * 4) as u64
    }

    /// Returns how many of the checked `ids` have no row.
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

    /// Returns whether ids without a row share one.
    pub(crate) fn shares_row(&self) -> bool {
        self.table.shared_row
    }

    /// Copies the values of checked `ids` into `out`, which must be exactly as long. An id without a row reads its
    /// initial values.
    pub(crate) fn read(&self, ids: &[u64], out: &mut [f32]) {
        self.read_each(ids, out, |_, id, out| self.first.fill(id, out));
    }

    /// Copies the values of checked `ids` into `out`, which must be exactly as long. Returns the places of the ids without
    /// a row, whose values are 0: their reader has the shared row.
    pub(crate) fn read_with_row(&self, ids: &[u64], out: &mut [f32]) -> Vec<u32> {
        let mut without_row = Vec::new();
        self.read_each(ids, out, |place, _, out| {
            without_row.push(place);
            out.fill(0.0);
        });
        without_row
    }

    /// Copies the values of the ids that have a row, and calls `without_row` with place, id and values of the others.
    fn read_each(
        &self,
        ids: &[u64],
        out: &mut [f32],
        mut without_row: impl FnMut(u32, u64, &mut [f32]),
    ) {
        let state = self.state.read();
        let rows = ids.iter().zip(out.chunks_exact_mut(self.width.max(1)));
        for ((&id, out), at) in rows.zip(0..) {
            match state.rows.place(id) {
                Some(place) => {
                    let begin = place as usize * self.width;
                    out.copy_from_slice(&state.values.values[begin..begin + self.width]);
                }
                None => without_row(at, id, out),
            }
        }
    }

    /// Counts an occurrence of each of the checked ids, and applies the gradients of the ids that have a row or get
    /// one now. A row that has been unused for too long is removed at the next push, unless that push names it.
    pub(crate) fn apply(
        &self,
        point: UpdatePoint,
        occurrences: Occurrences<'_>,
        scratch: &mut Vec<u32>,
    ) {
        let Occurrences {
            ids,
            gradient,
            counted,
        } = occurrences;
        let all = if counted.is_empty() {
            Cow::Borrowed(ids)
        } else {
            Cow::Owned(union_of_keys([ids, counted].into_iter()))
        };
        let state = &mut *self.state.write();
        // Pushes may arrive here in another order than that of their versions.
        let now = point.now.latest(state.now);
        let step = point.optimizer_step.unwrap_or(now.pushes);
        state.now = now;
        scratch.clear();
        scratch.resize(all.len(), u32::MAX);
        let mut named = 0;
        for (place, &id) in scratch.iter_mut().zip(&*all) {
            if let Some(known) = state.rows.place(id) {
                state.touch_row(known, now, self.width);
                *place = known;
                named += 1;
            }
        }
        let known = named;
        for (place, &id) in scratch
            .iter_mut()
            .zip(&*all)
            .filter(|(place, _)| **place == u32::MAX)
        {
            if let Some(new) = self.admit(state, id, now, named) {
                *place = new;
                named += 1;
            }
        }
        if named > known {
            // Rows are touched in the order of ids, new or not, because a restored table knows no other order.
            scratch
                .iter()
                .filter(|place| **place != u32::MAX)
                .for_each(|place| state.touch_row(*place, now, self.width));
        }
        if !counted.is_empty() {
            // The places of the ids with gradients are left.
            let mut counted = counted.iter().peekable();
            let mut ids = all.iter();
            scratch.retain(|_| {
                let id = ids.next();
                counted.next_if(|counted| Some(*counted) == id).is_none()
            });
        }
        let dropped = match all.len() - named {
            0 => 0,
            _ => scratch.iter().filter(|place| **place == u32::MAX).count() as u64,
        };
        if dropped == 0 {
            self.update(state, step, scratch, gradient);
        } else {
            let kept = scratch.iter().zip(gradient.chunks_exact(self.width.max(1)));
            let kept = kept.filter(|(place, _)| **place != u32::MAX);
            let gradient: Vec<f32> = kept.flat_map(|(_, gradient)| gradient).copied().collect();
            scratch.retain(|place| *place != u32::MAX);
            self.update(state, step, scratch, &gradient);
            self.counts
                .gradients_dropped
                .fetch_add(dropped, Ordering::Relaxed);
        }
        self.forget(state);
    }

    /// Advances the time for a push that names none of the slice's ids.
    pub(crate) fn pass(&self, now: Timestamp) {
        if self.table.expire_after_steps.is_none() && self.table.expire_after_secs.is_none() {
            return;
        }
        let state = &mut *self.state.write();
        state.now = now.latest(state.now);
        self.forget(state);
    }

    /// Counts an occurrence of an id without a row, and gives it a row if it is due and there is room. `named` rows
    /// belong to ids of this push and are not evicted.
    fn admit(&self, state: &mut State, id: u64, now: Timestamp, named: usize) -> Option<u32> {
        match state.count_occurrence(id, now, self.table.admit_after, self.capacity) {
            Admission::Later => None,
            Admission::Due if self.capacity == named => None,
            Admission::Due => {
                if state.rows.len() == self.capacity {
                    let (oldest, _) = state.rows.oldest()?;
                    state.remove_row(oldest, self.width);
                    self.counts.evicted.fetch_add(1, Ordering::Relaxed);
                }
                state.forget_candidate(id);
                let place = state.place_row(id, now, self.width);
                state.initialize_row(place, self.width, &self.optimizer, &self.first);
                Some(place)
            }
        }
    }

    fn update(&self, state: &mut State, step: u64, places: &[u32], gradient: &[f32]) {
        let values = &mut state.values;
        let mut slots: Vec<&mut [f32]> = values.slots.iter_mut().map(Vec::as_mut_slice).collect();
        let gradient = RowGradient {
            width: self.width,
            rows: places,
            values: gradient,
        };
        self.optimizer
            .apply_rows(step, &mut values.values, &mut slots, gradient);
    }

    /// Removes ids that have been unused for too long.
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
