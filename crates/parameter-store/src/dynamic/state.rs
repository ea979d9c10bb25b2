//! The mutable state of a slice of a dynamic table: rows, occurrence counts and the time.

use trainyard_optimizer::OptimizerConfig;
use trainyard_variable::{DynamicTable, InitialRows};

use super::copy_on_write::CopyOnWrite;
use crate::SliceValues;
use crate::lru::{Lru, Timestamp};
use crate::memory_budget::reserve;
use crate::touched::{Gone, Touched};

/// Outcome of an occurrence: the id gets its row, or not yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Admission {
    Due,
    Later,
}

/// Rows by place, and candidates: ids that have no row yet.
#[derive(Debug, Default)]
pub(crate) struct State {
    pub(super) rows: Lru,
    /// Values and slots, by place of the row.
    pub(super) values: SliceValues,
    pub(super) candidates: Lru,
    /// Occurrence counts, by place of the candidate.
    pub(super) occurrences: Vec<u32>,
    pub(super) now: Timestamp,
    /// Rows that have changed since the cuts of each use, by place.
    pub(super) touched: Touched,
    /// Ids that have lost their rows since the cuts of each use.
    pub(super) gone: Gone,
    /// Copies that a checkpoint in progress needs.
    pub(super) aside: Option<CopyOnWrite>,
}

impl State {
    /// Counts an occurrence of an id without a row. At most `candidates_max` ids are counted: a further id replaces the
    /// least recent one.
    pub(super) fn count_occurrence(
        &mut self,
        id: u64,
        now: Timestamp,
        admit_after: u32,
        candidates_max: usize,
    ) -> Admission {
        if admit_after <= 1 {
            return Admission::Due;
        }
        let place = match self.candidates.place(id) {
            Some(place) => {
                self.set_candidate_aside(place);
                self.candidates.touch(place, now);
                place
            }
            None => {
                self.leave_candidates(candidates_max.saturating_sub(1));
                self.add_candidate(id, 0, now)
            }
        };
        let occurrences = &mut self.occurrences[place as usize];
        *occurrences = occurrences.saturating_add(1);
        if *occurrences >= admit_after {
            Admission::Due
        } else {
            Admission::Later
        }
    }

    /// Adds an id without a row, with its occurrence count.
    pub(super) fn add_candidate(&mut self, id: u64, occurrences: u32, now: Timestamp) -> u32 {
        if let Some(place) = self.candidates.next_place() {
            self.set_candidate_aside(place);
        }
        let place = self.candidates.insert(id, now);
        if place as usize == self.occurrences.len() {
            self.occurrences.push(occurrences);
        } else {
            self.occurrences[place as usize] = occurrences;
        }
        place
    }

    pub(super) fn forget_candidate(&mut self, id: u64) {
        if let Some(place) = self.candidates.place(id) {
            self.set_candidate_aside(place);
            self.candidates.remove(place);
        }
    }

    /// Makes the row at `place` the most recently used one.
    pub(super) fn touch_row(&mut self, place: u32, now: Timestamp, width: usize) {
        self.set_row_aside(place, width);
        self.touched.insert(&[place]);
        self.rows.touch(place, now);
    }

    /// Removes the row at `place`.
    pub(super) fn remove_row(&mut self, place: u32, width: usize) {
        self.set_row_aside(place, width);
        self.touched.remove(place);
        if let Some((id, _)) = self.rows.at(place) {
            self.gone.insert(id, self.rows.len());
        }
        self.rows.remove(place);
    }

    /// Sets the row at `place` to the initial values and initial slots of its id.
    pub(super) fn initialize_row(
        &mut self,
        place: u32,
        width: usize,
        optimizer: &OptimizerConfig,
        first: &InitialRows,
    ) {
        let (id, _) = self
            .rows
            .at(place)
            .expect("a place that was given to an id");
        let row = place as usize * width..(place as usize + 1) * width;
        first.fill(id, &mut self.values.values[row.clone()]);
        for (buffer, slot) in self.values.slots.iter_mut().zip(optimizer.slots()) {
            buffer[row.clone()].fill(slot.initial);
        }
    }

    /// Gives an id a row and returns its place. The values and slots at that place are left as they are.
    pub(super) fn place_row(&mut self, id: u64, now: Timestamp, width: usize) -> u32 {
        if let Some(place) = self.rows.next_place() {
            self.set_row_aside(place, width);
        }
        let place = self.rows.insert(id, now);
        self.touched.insert(&[place]);
        let end = (place as usize + 1) * width;
        for buffer in self.values.parts() {
            if buffer.len() < end {
                buffer.resize(end, 0.0);
            }
        }
        place
    }

    /// Reserves memory for `rows` rows and `candidates` ids without one, which is used only as they arrive. A table
    /// that had to be moved as it grows would hold up requests.
    pub(super) fn reserve(&mut self, rows: usize, candidates: usize, width: usize) {
        self.rows.reserve(rows);
        self.values
            .parts()
            .for_each(|buffer| reserve(buffer, rows * width));
        self.candidates.reserve(candidates);
        reserve(&mut self.occurrences, candidates);
    }

    /// Removes the least recently used rows until `most` rows are left, and returns how many were removed.
    pub(super) fn leave_rows(&mut self, most: usize, width: usize) -> u64 {
        let mut removed = 0;
        while self.rows.len() > most
            && let Some((oldest, _)) = self.rows.oldest()
        {
            self.remove_row(oldest, width);
            removed += 1;
        }
        removed
    }

    /// Removes the least recent ids without a row until `most` of them are left.
    pub(super) fn leave_candidates(&mut self, most: usize) {
        while self.candidates.len() > most
            && let Some((oldest, _)) = self.candidates.oldest()
        {
            self.set_candidate_aside(oldest);
            self.candidates.remove(oldest);
        }
    }

    /// Removes the ids that have been unused for too long, and returns how many of them had rows.
    pub(super) fn expire(&mut self, table: &DynamicTable, width: usize) -> u64 {
        let now = self.now;
        let stale = |used: Timestamp| {
            table
                .expire_after_steps
                .is_some_and(|steps| now.pushes.saturating_sub(used.pushes) >= steps)
                || table
                    .expire_after_secs
                    .is_some_and(|secs| now.secs.saturating_sub(used.secs) >= secs as i64)
        };
        let mut expired = 0;
        while let Some((place, _)) = self.rows.oldest().filter(|(_, used)| stale(*used)) {
            self.remove_row(place, width);
            expired += 1;
        }
        while let Some((place, _)) = self.candidates.oldest().filter(|(_, used)| stale(*used)) {
            self.set_candidate_aside(place);
            self.candidates.remove(place);
        }
        expired
    }
}
