//! A stripe of a slice: some rows, and the copies that a checkpoint in progress needs of them.

use std::collections::HashMap;
use std::hash::BuildHasherDefault;
use std::ops::Range;

use crate::extent::RowParts;
use crate::spread_map::IdHasher;
use crate::touched::{RowSet, Touched};

/// Values and slots, row-major, `rows x width` each.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct SliceValues {
    /// Values.
    pub values: Vec<f32>,
    /// The optimizer's slots, in the order of `OptimizerConfig::slots`.
    pub slots: Vec<Vec<f32>>,
}

impl SliceValues {
    pub(crate) fn parts(&mut self) -> impl Iterator<Item = &mut Vec<f32>> {
        std::iter::once(&mut self.values).chain(&mut self.slots)
    }

    /// Returns the bytes that values and slots take.
    pub(crate) fn bytes(&self) -> u64 {
        let parts = std::iter::once(&self.values).chain(&self.slots);
        parts.map(|part| part.len() as u64 * 4).sum()
    }

    /// Returns the allocated bytes of values and slots.
    pub(crate) fn capacity_bytes(&self) -> u64 {
        let parts = std::iter::once(&self.values).chain(&self.slots);
        parts.map(|part| part.capacity() as u64 * 4).sum()
    }

    /// Copies the first `length` values of `from`, and of each slot that is read, into memory that is allocated already.
    fn copy_front(&mut self, from: &Self, length: usize, row_parts: RowParts) {
        let slots = row_parts.slots(from.slots.len());
        self.slots.resize_with(slots, Vec::new);
        let parts = std::iter::once(&from.values).chain(&from.slots);
        for (out, part) in self.parts().zip(parts) {
            out.clear();
            out.extend_from_slice(&part[..length]);
        }
    }

    /// Appends `range` of the values, and then of each slot that is read, to `out`.
    fn copy_row(&self, range: Range<usize>, row_parts: RowParts, out: &mut Vec<f32>) {
        let slots = &self.slots[..row_parts.slots(self.slots.len())];
        let parts = std::iter::once(&self.values).chain(slots);
        parts.for_each(|part| out.extend_from_slice(&part[range.clone()]));
    }

    /// Writes back what [`SliceValues::copy_row`] has copied.
    fn put_row(&mut self, range: Range<usize>, row: &[f32]) {
        for (part, row) in self.parts().zip(row.chunks_exact(range.len().max(1))) {
            part[range.clone()].copy_from_slice(row);
        }
    }
}

/// The rows of a stripe that are held in memory. Values and slots are stored by place, `width` values for each place.
/// Other rows have their initial values, which can be computed at any time.
#[derive(Debug)]
pub(crate) enum Rows {
    /// All rows are held. The place of a row is its number in the stripe.
    All,
    /// Only changed rows are held: maps the number of a row in the stripe to its place. Places are assigned in the
    /// order in which rows are added.
    Listed(HashMap<u32, u32, BuildHasherDefault<IdHasher>>),
}

impl Default for Rows {
    fn default() -> Self {
        Self::Listed(HashMap::default())
    }
}

/// The state that a checkpoint in progress still needs.
#[derive(Debug)]
struct Before {
    /// Number of places at the instant of the checkpoint.
    places: usize,
    changed: Changed,
    /// The rows that the checkpoint writes; `None` for every held row.
    only: Option<RowSet>,
    row_parts: RowParts,
    /// Rows to write and their places at that instant, if the stripe has come to hold all rows since.
    listed: Option<Vec<(u32, u32)>>,
}

/// Values that have changed since that instant, as they were then.
#[derive(Debug)]
enum Changed {
    /// Some rows: the position of each among the copies, by place.
    Rows {
        begins: HashMap<u32, u32, BuildHasherDefault<IdHasher>>,
        copies: Vec<f32>,
    },
    /// All rows.
    All(SliceValues),
}

/// The rows under one lock.
///
/// A checkpoint captures one instant and is written while training goes on. From that instant until the stripe is
/// written, a row is copied before it changes (copy-on-write). Only rows that change meanwhile are held twice.
#[derive(Debug, Default)]
pub(crate) struct Stripe {
    pub(crate) rows: Rows,
    /// Values and slots of the held rows, by place.
    pub(crate) now: SliceValues,
    before: Option<Before>,
    /// Rows that have changed since the cuts of each use, by number in the stripe.
    pub(crate) touched: Touched,
}

impl Stripe {
    pub(crate) fn new(rows: Rows, now: SliceValues) -> Self {
        Self {
            rows,
            now,
            before: None,
            touched: Touched::default(),
        }
    }

    /// Returns the number of held rows.
    pub(crate) fn held(&self, width: usize) -> usize {
        match &self.rows {
            Rows::All => self.now.values.len().checked_div(width).unwrap_or(0),
            Rows::Listed(places) => places.len(),
        }
    }

    /// Returns the bytes of the stripe, without copy-on-write copies.
    pub(crate) fn bytes(&self) -> u64 {
        let listed = match &self.rows {
            Rows::All => 0,
            // One entry takes 8 bytes, and one byte of the map's metadata.
            Rows::Listed(places) => places.capacity() as u64 * 9,
        };
        self.now.capacity_bytes() + listed
    }

    /// Marks the instant of a checkpoint that writes these parts of `only` these rows; `None` for every held row.
    pub(crate) fn cut(&mut self, width: usize, only: Option<RowSet>, row_parts: RowParts) {
        let changed = Changed::Rows {
            begins: HashMap::default(),
            copies: Vec::new(),
        };
        self.before = Some(Before {
            places: self.held(width),
            changed,
            only,
            row_parts,
            listed: None,
        });
    }

    /// Discards the state of the checkpoint.
    pub(crate) fn forget(&mut self) {
        self.before = None;
    }

    /// Returns the bytes of copy-on-write copies.
    pub(crate) fn aside_bytes(&self) -> u64 {
        let floats = match self.before.as_ref().map(|before| &before.changed) {
            None => 0,
            // A map entry takes about as much as three values.
            Some(Changed::Rows { begins, copies }) => copies.len() + begins.len() * 3,
            Some(Changed::All(all)) => all.values.len() * (1 + all.slots.len()),
        };
        floats as u64 * 4
    }

    /// Copies the rows at these places for the checkpoint. It must be called before they change.
    pub(crate) fn set_places_aside(&mut self, places: &[u32], width: usize) {
        let Some(before) = &mut self.before else {
            return;
        };
        let Changed::Rows { begins, copies } = &mut before.changed else {
            return;
        };
        let there = before.places;
        let row_parts = before.row_parts;
        // Where all rows are held, the place of a row is its number.
        let only = before
            .only
            .as_ref()
            .filter(|_| matches!(self.rows, Rows::All));
        let is_written = |place: u32| only.is_none_or(|only| only.contains(place));
        // Rows that were added later are not part of the checkpoint.
        let written = |place: &&u32| (**place as usize) < there && is_written(**place);
        for &place in places.iter().filter(written) {
            let begin = place as usize * width;
            begins.entry(place).or_insert_with(|| {
                let at = copies.len() as u32;
                self.now.copy_row(begin..begin + width, row_parts, copies);
                at
            });
        }
    }

    /// Copies all rows for the checkpoint. It must be called before all of them change.
    pub(crate) fn set_all_aside(&mut self, width: usize) {
        let places = match &self.before {
            Some(Before {
                changed: Changed::Rows { .. },
                places,
                listed: None,
                ..
            }) => *places,
            _ => return,
        };
        let changed = Changed::All(self.before_now(places, width));
        if let Some(before) = &mut self.before {
            before.changed = changed;
        }
    }

    /// Copies all rows and their list for the checkpoint. It must be called before the stripe changes from listed rows
    /// to all rows.
    pub(crate) fn set_list_aside(&mut self, width: usize) {
        let listed = self.listed();
        self.set_all_aside(width);
        if let Some(before) = &mut self.before {
            before.listed = listed;
        }
    }

    /// Returns the parts of a row that the checkpoint in progress reads.
    fn row_parts(&self) -> RowParts {
        let before = self.before.as_ref();
        before.map_or_else(RowParts::default, |before| before.row_parts)
    }

    /// Returns the first `places` places as they were at the instant of the checkpoint.
    fn before_now(&self, places: usize, width: usize) -> SliceValues {
        let mut out = SliceValues::default();
        out.copy_front(&self.now, places * width, self.row_parts());
        self.put_back(&mut out, width);
        out
    }

    /// Overwrites the changed rows in `out` by their values at the instant of the checkpoint.
    fn put_back(&self, out: &mut SliceValues, width: usize) {
        if let Some(Before {
            changed: Changed::Rows { begins, copies },
            ..
        }) = &self.before
        {
            let length = width * (1 + out.slots.len());
            for (place, at) in begins {
                let begin = *place as usize * width;
                out.put_row(
                    begin..begin + width,
                    &copies[*at as usize..*at as usize + length],
                );
            }
        }
    }

    /// Returns the rows that a checkpoint must write and their places, by number in the stripe, ascending. `None` means
    /// all rows.
    pub(crate) fn listed(&self) -> Option<Vec<(u32, u32)>> {
        if let Some(Before {
            listed: Some(listed),
            ..
        }) = &self.before
        {
            return Some(listed.clone());
        }
        let there = self
            .before
            .as_ref()
            .map_or(usize::MAX, |before| before.places);
        let only = self.before.as_ref().and_then(|before| before.only.as_ref());
        let only = only.and_then(RowSet::rows);
        let is_there = |(_, place): &(u32, u32)| (*place as usize) < there;
        match (&self.rows, only) {
            (Rows::All, None) => None,
            (Rows::All, Some(only)) => Some(only.map(|row| (row, row)).collect()),
            (Rows::Listed(places), None) => {
                let listed = places.iter().map(|(row, place)| (*row, *place));
                let mut listed: Vec<(u32, u32)> = listed.filter(is_there).collect();
                listed.sort_unstable();
                Some(listed)
            }
            (Rows::Listed(places), Some(only)) => {
                let listed = only.filter_map(|row| Some((row, *places.get(&row)?)));
                Some(listed.filter(is_there).collect())
            }
        }
    }

    /// Copies the parts that are read of the held rows in ascending order: as they were at the instant of the checkpoint, or as they are if there
    /// is none.
    pub(crate) fn read(&self, out: &mut SliceValues, width: usize) {
        let changed = self.before.as_ref().map(|before| &before.changed);
        let Some(listed) = self.listed() else {
            match changed {
                Some(Changed::All(all)) => out.copy_front(all, all.values.len(), self.row_parts()),
                _ => {
                    out.copy_front(&self.now, self.now.values.len(), self.row_parts());
                    self.put_back(out, width);
                }
            }
            return;
        };
        let by_place = match changed {
            Some(Changed::All(all)) => all,
            _ => &self.now,
        };
        let slots = self.row_parts().slots(by_place.slots.len());
        out.slots.resize_with(slots, Vec::new);
        out.parts().for_each(Vec::clear);
        for (_, place) in &listed {
            let copy = match changed {
                Some(Changed::Rows { begins, copies }) => {
                    begins.get(place).map(|at| &copies[*at as usize..])
                }
                _ => None,
            };
            let begin = *place as usize * width;
            let parts = std::iter::once(&by_place.values).chain(&by_place.slots);
            for (number, (part, out)) in parts.zip(out.parts()).enumerate() {
                out.extend_from_slice(match copy {
                    Some(copy) => &copy[number * width..][..width],
                    None => &part[begin..begin + width],
                });
            }
        }
    }
}
