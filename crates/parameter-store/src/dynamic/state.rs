//! What changes in a slice of a dynamic table: rows, sightings, and the time.

use trainyard_optimizer::OptimizerConfig;
use trainyard_variable::{DynamicTable, InitialRows};

use super::aside::Aside;
use crate::SliceValues;
use crate::memory::reserve;
use crate::recency::{Moment, Recency};

/// Whether a sighting gives an id a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Admission {
    Due,
    Later,
}

/// Rows by place, and the ids that have none yet.
#[derive(Debug, Default)]
pub(crate) struct State {
    pub(super) rows: Recency,
    /// Values and slots, by place of the row.
    pub(super) values: SliceValues,
    pub(super) candidates: Recency,
    /// By place of the candidate.
    pub(super) sightings: Vec<u32>,
    pub(super) now: Moment,
    /// What a checkpoint under way still needs.
    pub(super) aside: Option<Aside>,
}

impl State {
    /// Counts a sighting of an id without a row. At most `candidates_max` ids are counted: the one not seen for
    /// longest is forgotten for another.
    pub(super) fn sight(
        &mut self,
        id: u64,
        now: Moment,
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
        let sightings = &mut self.sightings[place as usize];
        *sightings = sightings.saturating_add(1);
        if *sightings >= admit_after {
            Admission::Due
        } else {
            Admission::Later
        }
    }

    /// Adds an id that has no row, and has been seen so often.
    pub(super) fn add_candidate(&mut self, id: u64, sightings: u32, now: Moment) -> u32 {
        if let Some(place) = self.candidates.next_place() {
            self.set_candidate_aside(place);
        }
        let place = self.candidates.insert(id, now);
        if place as usize == self.sightings.len() {
            self.sightings.push(sightings);
        } else {
            self.sightings[place as usize] = sightings;
        }
        place
    }

    pub(super) fn forget_candidate(&mut self, id: u64) {
        if let Some(place) = self.candidates.place(id) {
            self.set_candidate_aside(place);
            self.candidates.remove(place);
        }
    }

    /// Makes the row at `place` the one used last.
    pub(super) fn touch_row(&mut self, place: u32, now: Moment, width: usize) {
        self.set_row_aside(place, width);
        self.rows.touch(place, now);
    }

    /// Takes the row at `place` from its id.
    pub(super) fn remove_row(&mut self, place: u32, width: usize) {
        self.set_row_aside(place, width);
        self.rows.remove(place);
    }

    /// Gives an id a row with first values and slots, and returns its place.
    pub(super) fn add_row(
        &mut self,
        id: u64,
        now: Moment,
        width: usize,
        optimizer: &OptimizerConfig,
        first: &InitialRows,
    ) -> u32 {
        let place = self.place_row(id, now, width);
        let row = place as usize * width..(place as usize + 1) * width;
        first.fill(id, &mut self.values.values[row.clone()]);
        for (buffer, slot) in self.values.slots.iter_mut().zip(optimizer.slots()) {
            buffer[row.clone()].fill(slot.initial);
        }
        place
    }

    /// Gives an id a row, whatever values and slots there were at its place before, and returns the place.
    pub(super) fn place_row(&mut self, id: u64, now: Moment, width: usize) -> u32 {
        if let Some(place) = self.rows.next_place() {
            self.set_row_aside(place, width);
        }
        let place = self.rows.insert(id, now);
        let end = (place as usize + 1) * width;
        for buffer in self.values.parts() {
            if buffer.len() < end {
                buffer.resize(end, 0.0);
            }
        }
        place
    }

    /// Asks for the memory of so many rows, and ids without one, which they take as they come: a table that moves to a larger
    /// place holds up who waits for it.
    pub(super) fn reserve(&mut self, rows: usize, candidates: usize, width: usize) {
        self.rows.reserve(rows);
        self.values
            .parts()
            .for_each(|buffer| reserve(buffer, rows * width));
        self.candidates.reserve(candidates);
        reserve(&mut self.sightings, candidates);
    }

    /// Removes the rows that have been unused for longest, so that so many are left, and returns how many they were.
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

    /// Removes the ids without a row that have not been seen for longest, so that so many are left.
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
        let stale = |used: Moment| {
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
