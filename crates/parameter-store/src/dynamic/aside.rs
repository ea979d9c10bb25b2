//! What a checkpoint under way still needs of a slice of a dynamic table.
//!
//! A checkpoint is of one instant, and is read while training goes on, in parts of the range of ids. A place that is about to
//! change, and whose id has not been read, is set aside first: as it was at that instant.

use super::state::State;
use crate::recency::{Moment, Recency};
use crate::spread_map::SpreadMap;

/// Bytes that a map takes for a place that has changed, about.
const CHANGED_BYTES: u64 = 40;

/// The places of some ids at the instant of a checkpoint, as far as they have changed since.
#[derive(Debug)]
pub(super) struct Changed<T> {
    /// Places that there were. Those behind have come since.
    pub(super) places: u32,
    /// Ids that there were.
    pub(super) ids: usize,
    /// Ids from here on have not been read; absent = all have been.
    pub(super) unread: Option<u64>,
    /// What the id of a place had, if it had one and has not been read.
    was: SpreadMap<u32, Option<T>>,
}

impl<T> Changed<T> {
    fn of(ids: &Recency) -> Self {
        Self {
            places: ids.places() as u32,
            ids: ids.len(),
            unread: Some(0),
            was: SpreadMap::default(),
        }
    }

    /// Whether a place is to be set aside, which `id` has now.
    fn needs(&self, place: u32, id: Option<u64>) -> bool {
        let unread = self
            .unread
            .is_some_and(|unread| id.is_none_or(|id| id >= unread));
        unread && place < self.places && !self.was.contains(place)
    }

    /// Returns what is known of the place: nothing where it is as it was.
    pub(super) fn was(&self, place: u32) -> Option<Option<&T>> {
        self.was.get(place).map(Option::as_ref)
    }

    /// Forgets what a place had, which has been read. Returns it.
    fn forget(&mut self, place: u32) -> Option<T> {
        self.was.get_mut(place).and_then(Option::take)
    }
}

/// A row as it was.
#[derive(Debug)]
pub(super) struct Row {
    pub(super) id: u64,
    pub(super) used: Moment,
    /// Its values, then each of its slots.
    pub(super) values: Box<[f32]>,
}

/// An id without a row as it was.
#[derive(Debug, Clone, Copy)]
pub(super) struct Seen {
    pub(super) id: u64,
    pub(super) used: Moment,
    pub(super) sightings: u32,
}

/// A slice at the instant of a checkpoint, as far as it has changed since.
#[derive(Debug)]
pub(super) struct Aside {
    pub(super) now: Moment,
    pub(super) rows: Changed<Row>,
    pub(super) candidates: Changed<Seen>,
    /// Bytes of all rows that are set aside.
    row_bytes: u64,
}

impl Aside {
    /// Returns the bytes that it takes.
    pub(super) fn bytes(&self) -> u64 {
        self.row_bytes + (self.rows.was.len() + self.candidates.was.len()) as u64 * CHANGED_BYTES
    }

    /// Returns the bytes of values and slots of the rows that are set aside.
    #[cfg(test)]
    pub(super) fn row_bytes(&self) -> u64 {
        self.row_bytes
    }

    /// Takes note that all ids below a bound have been read; absent = all ids.
    pub(super) fn has_read_up_to(&mut self, bound: Option<u64>) {
        (self.rows.unread, self.candidates.unread) = (bound, bound);
    }

    /// Forgets what places of rows had that have been read.
    pub(super) fn forget_rows(&mut self, places: &[u32]) {
        for row in places.iter().filter_map(|place| self.rows.forget(*place)) {
            self.row_bytes -= row.values.len() as u64 * 4;
        }
    }
}

impl State {
    /// The instant of a checkpoint.
    pub(super) fn cut(&mut self, now: Moment) {
        self.aside = Some(Aside {
            now: now.latest(self.now),
            rows: Changed::of(&self.rows),
            candidates: Changed::of(&self.candidates),
            row_bytes: 0,
        });
    }

    /// To be called before a place of a row changes.
    pub(super) fn set_row_aside(&mut self, place: u32, width: usize) {
        let Some(aside) = &mut self.aside else { return };
        let now = self.rows.at(place);
        if !aside.rows.needs(place, now.map(|(id, _)| id)) {
            return;
        }
        let was = now.map(|(id, used)| {
            let row = place as usize * width..(place as usize + 1) * width;
            let parts = std::iter::once(&self.values.values).chain(&self.values.slots);
            let values: Box<[f32]> = parts.flat_map(|part| &part[row.clone()]).copied().collect();
            aside.row_bytes += values.len() as u64 * 4;
            Row { id, used, values }
        });
        aside.rows.was.insert(place, was);
    }

    /// To be called before a place of an id without a row changes.
    pub(super) fn set_candidate_aside(&mut self, place: u32) {
        let Some(aside) = &mut self.aside else { return };
        let now = self.candidates.at(place);
        if aside.candidates.needs(place, now.map(|(id, _)| id)) {
            let seen = |(id, used)| Seen {
                id,
                used,
                sightings: self.sightings[place as usize],
            };
            aside.candidates.was.insert(place, now.map(seen));
        }
    }
}
