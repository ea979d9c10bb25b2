//! What a checkpoint under way still needs of a slice of a dynamic table.
//!
//! A checkpoint is of one instant, and is read while training goes on, some places at a time. A place that is about to
//! change, and has not been read, is set aside first: as it was at that instant.

use std::collections::HashMap;
use std::ops::Range;

use super::state::State;
use crate::SliceValues;
use crate::recency::{Moment, Recency};

/// The places of some ids, and those among them that have been set aside.
#[derive(Debug)]
struct Places<T> {
    unread: Range<u32>,
    /// Nothing, where no id had the place.
    aside: HashMap<u32, Option<T>>,
}

impl<T> Places<T> {
    fn of(ids: &Recency) -> Self {
        Self { unread: 0..ids.places() as u32, aside: HashMap::new() }
    }

    fn needs(&self, place: u32) -> bool {
        self.unread.contains(&place) && !self.aside.contains_key(&place)
    }

    /// Takes out the next places to read, so many at most.
    fn next(&mut self, most: u32) -> Range<u32> {
        let begin = self.unread.start;
        self.unread.start = self.unread.end.min(begin.saturating_add(most));
        begin..self.unread.start
    }
}

/// A row as it was.
#[derive(Debug, Clone, Copy)]
struct Row {
    id: u64,
    used: Moment,
    /// Where its values and slots begin among the copies.
    at: usize,
}

/// A slice at the instant of a checkpoint, as far as it has not been read.
#[derive(Debug)]
pub(super) struct Aside {
    now: Moment,
    rows: Places<Row>,
    /// Values of a row, then each of its slots.
    copies: Vec<f32>,
    candidates: Places<(u64, Moment, u32)>,
}

/// Rows of a slice that have been read so far, in no order.
#[derive(Debug, Default)]
pub(super) struct Taken {
    pub(super) now: Moment,
    /// Id and last use; values and slots lie in the same order.
    pub(super) rows: Vec<(u64, Moment)>,
    pub(super) values: SliceValues,
    /// Id, last use and sightings.
    pub(super) candidates: Vec<(u64, Moment, u32)>,
}

impl State {
    /// The instant of a checkpoint.
    pub(super) fn cut(&mut self, now: Moment) {
        self.aside = Some(Aside {
            now: now.latest(self.now),
            rows: Places::of(&self.rows),
            copies: Vec::new(),
            candidates: Places::of(&self.candidates),
        });
    }

    /// To be called before a place of a row changes.
    pub(super) fn set_row_aside(&mut self, place: u32, width: usize) {
        let Some(aside) = self.aside.as_mut().filter(|aside| aside.rows.needs(place)) else { return };
        let was = self.rows.at(place).map(|(id, used)| {
            let (at, begin) = (aside.copies.len(), place as usize * width);
            for part in std::iter::once(&self.values.values).chain(&self.values.slots) {
                aside.copies.extend_from_slice(&part[begin..begin + width]);
            }
            Row { id, used, at }
        });
        aside.rows.aside.insert(place, was);
    }

    /// To be called before a place of an id without a row changes.
    pub(super) fn set_candidate_aside(&mut self, place: u32) {
        let Some(aside) = self.aside.as_mut().filter(|aside| aside.candidates.needs(place)) else { return };
        let was = self.candidates.at(place).map(|(id, used)| (id, used, self.sightings[place as usize]));
        aside.candidates.aside.insert(place, was);
    }

    /// Copies what the checkpoint needs of so many places. Returns whether there are more.
    pub(super) fn take_some(&mut self, taken: &mut Taken, places: u32, width: usize) -> bool {
        let Some(aside) = &mut self.aside else { return false };
        taken.now = aside.now;
        taken.values.slots.resize_with(self.values.slots.len(), Vec::new);
        for place in aside.rows.next(places) {
            let (id, used, from, parts) = match aside.rows.aside.remove(&place) {
                Some(None) => continue,
                Some(Some(Row { id, used, at })) => (id, used, at, None),
                None => match self.rows.at(place) {
                    Some((id, used)) => (id, used, place as usize * width, Some(&self.values)),
                    None => continue,
                },
            };
            taken.rows.push((id, used));
            let outs = std::iter::once(&mut taken.values.values).chain(&mut taken.values.slots);
            for (part, out) in outs.enumerate() {
                let row = match (parts, part) {
                    (None, part) => &aside.copies[from + part * width..from + (part + 1) * width],
                    (Some(now), 0) => &now.values[from..from + width],
                    (Some(now), slot) => &now.slots[slot - 1][from..from + width],
                };
                out.extend_from_slice(row);
            }
        }
        for place in aside.candidates.next(places) {
            let found = match aside.candidates.aside.remove(&place) {
                Some(was) => was,
                None => {
                    self.candidates.at(place).map(|(id, used)| (id, used, self.sightings[place as usize]))
                }
            };
            taken.candidates.extend(found);
        }
        !aside.rows.unread.is_empty() || !aside.candidates.unread.is_empty()
    }
}
