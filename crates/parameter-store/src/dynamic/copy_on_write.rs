//! Copy-on-write of a slice of a dynamic table, for a checkpoint in progress.
//!
//! A checkpoint captures one instant and is read while training goes on, in parts of the range of ids. A place whose id
//! has not been read is copied, as it was at that instant, before it changes.

use super::state::State;
use crate::extent::{Extent, RowParts};
use crate::lru::{Lru, Timestamp};
use crate::spread_map::SpreadMap;
use crate::touched::{RowSet, Use};

/// Approximate bytes of the map entry of a changed place.
const CHANGED_BYTES: u64 = 40;

/// The places of some ids at the instant of a checkpoint, restricted to those that have changed since.
#[derive(Debug)]
pub(super) struct Changed<T> {
    /// Number of places at that instant. Later places are not part of the checkpoint.
    pub(super) places: u32,
    /// Number of ids at that instant.
    pub(super) ids: usize,
    /// First id that has not been read; absent = all have been read.
    pub(super) unread: Option<u64>,
    /// Former content of each changed place; `None` if the place was free or has been read.
    was: SpreadMap<u32, Option<T>>,
}

impl<T> Changed<T> {
    fn of(ids: &Lru) -> Self {
        Self {
            places: ids.places() as u32,
            ids: ids.len(),
            unread: Some(0),
            was: SpreadMap::default(),
        }
    }

    /// Returns the state of ids that the checkpoint does not read.
    fn nothing() -> Self {
        Self {
            places: 0,
            ids: 0,
            unread: None,
            was: SpreadMap::default(),
        }
    }

    /// Returns whether a place, which now holds `id`, must be copied.
    fn needs(&self, place: u32, id: Option<u64>) -> bool {
        let unread = self
            .unread
            .is_some_and(|unread| id.is_none_or(|id| id >= unread));
        unread && place < self.places && !self.was.contains(place)
    }

    /// Returns the former content of a changed place. The outer `None` means that the place has not changed.
    pub(super) fn was(&self, place: u32) -> Option<Option<&T>> {
        self.was.get(place).map(Option::as_ref)
    }

    /// Removes and returns the former content of a place that has been read.
    fn forget(&mut self, place: u32) -> Option<T> {
        self.was.get_mut(place).and_then(Option::take)
    }
}

/// The former content of a row.
#[derive(Debug)]
pub(super) struct Row {
    pub(super) id: u64,
    pub(super) used: Timestamp,
    /// Its values, then each of its slots.
    pub(super) values: Box<[f32]>,
}

/// The former content of an id without a row.
#[derive(Debug, Clone, Copy)]
pub(super) struct Seen {
    pub(super) id: u64,
    pub(super) used: Timestamp,
    pub(super) occurrences: u32,
}

/// The changes of a slice since the instant of a checkpoint.
#[derive(Debug)]
pub(super) struct CopyOnWrite {
    /// Places of the rows that the checkpoint writes; `None` for all of them.
    pub(super) only: Option<RowSet>,
    /// Ids that have lost their rows since the base; `None` if the checkpoint is whole.
    pub(super) gone: Option<Vec<u64>>,
    pub(super) now: Timestamp,
    pub(super) rows: Changed<Row>,
    pub(super) candidates: Changed<Seen>,
    pub(super) row_parts: RowParts,
    /// Bytes of the values and slots of all copied rows.
    row_bytes: u64,
}

impl CopyOnWrite {
    /// Returns the bytes of the copies.
    pub(super) fn bytes(&self) -> u64 {
        self.row_bytes + (self.rows.was.len() + self.candidates.was.len()) as u64 * CHANGED_BYTES
    }

    /// Returns the bytes of the values and slots of the copied rows.
    #[cfg(test)]
    pub(super) fn row_bytes(&self) -> u64 {
        self.row_bytes
    }

    /// Records that all ids below a bound have been read; absent = all ids.
    pub(super) fn has_read_up_to(&mut self, bound: Option<u64>) {
        (self.rows.unread, self.candidates.unread) = (bound, bound);
    }

    /// Discards the copies of rows that have been read.
    pub(super) fn forget_rows(&mut self, places: &[u32]) {
        for row in places.iter().filter_map(|place| self.rows.forget(*place)) {
            self.row_bytes -= row.values.len() as u64 * 4;
        }
    }
}

impl State {
    /// Marks the instant of a checkpoint.
    pub(super) fn cut(&mut self, now: Timestamp, extent: Extent) {
        let rows = extent.since().map(|of| self.touched.since(of));
        let gone = extent.since().map(|of| self.gone.since(of));
        if let Some(of) = extent.cut_of() {
            self.touched.cut(of);
            self.gone.cut(of);
            if of == Use::Log {
                // A cut of the log that is lost is followed by a whole one.
                self.confirm_cut(of);
            }
        }
        // If the ids are too many to list, the table is written whole.
        let (only, gone) = rows.zip(gone.flatten()).unzip();
        let row_parts = extent.row_parts();
        let mut candidates = Changed::of(&self.candidates);
        if row_parts == RowParts::Values {
            candidates = Changed::nothing();
        }
        self.aside = Some(CopyOnWrite {
            only,
            gone,
            now: now.latest(self.now),
            rows: Changed::of(&self.rows),
            candidates,
            row_parts,
            row_bytes: 0,
        });
    }

    /// Makes the latest cut of a use the one that increments count from.
    pub(super) fn confirm_cut(&mut self, of: Use) {
        self.touched.confirm(of);
        self.gone.confirm(of);
    }

    /// Makes the rows of now those of the latest cut of the log.
    pub(super) fn begin_log_cut(&mut self) {
        let _ = self.touched.take(Use::Log);
        let _ = self.gone.take(Use::Log);
    }

    /// Copies the row at a place for the checkpoint. It must be called before the place changes.
    pub(super) fn set_row_aside(&mut self, place: u32, width: usize) {
        let Some(aside) = &mut self.aside else { return };
        let now = self.rows.at(place);
        let is_written = aside.only.as_ref().is_none_or(|only| only.contains(place));
        if !is_written || !aside.rows.needs(place, now.map(|(id, _)| id)) {
            return;
        }
        let was = now.map(|(id, used)| {
            let row = place as usize * width..(place as usize + 1) * width;
            let slots = aside.row_parts.slots(self.values.slots.len());
            let parts = std::iter::once(&self.values.values).chain(&self.values.slots[..slots]);
            let values: Box<[f32]> = parts.flat_map(|part| &part[row.clone()]).copied().collect();
            aside.row_bytes += values.len() as u64 * 4;
            Row { id, used, values }
        });
        aside.rows.was.insert(place, was);
    }

    /// Copies the id without a row at a place for the checkpoint. It must be called before the place changes.
    pub(super) fn set_candidate_aside(&mut self, place: u32) {
        let Some(aside) = &mut self.aside else { return };
        let now = self.candidates.at(place);
        if aside.candidates.needs(place, now.map(|(id, _)| id)) {
            let seen = |(id, used)| Seen {
                id,
                used,
                occurrences: self.occurrences[place as usize],
            };
            aside.candidates.was.insert(place, now.map(seen));
        }
    }
}
