//! Some rows of a slice, and what a checkpoint under way still needs of them.

use std::collections::HashMap;
use std::hash::BuildHasherDefault;
use std::ops::Range;

use crate::spread_map::IdHasher;

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

    /// Returns the bytes that there is memory for.
    pub(crate) fn capacity_bytes(&self) -> u64 {
        let parts = std::iter::once(&self.values).chain(&self.slots);
        parts.map(|part| part.capacity() as u64 * 4).sum()
    }

    /// Takes the first `length` values of `from`, and of each slot, into the memory that it has.
    fn copy_front(&mut self, from: &Self, length: usize) {
        self.slots.resize_with(from.slots.len(), Vec::new);
        let parts = std::iter::once(&from.values).chain(&from.slots);
        for (out, part) in self.parts().zip(parts) {
            out.clear();
            out.extend_from_slice(&part[..length]);
        }
    }

    /// Appends `range` of values and slots to `out`, one behind the other.
    fn copy_row(&self, range: Range<usize>, out: &mut Vec<f32>) {
        let parts = std::iter::once(&self.values).chain(&self.slots);
        parts.for_each(|part| out.extend_from_slice(&part[range.clone()]));
    }

    /// Puts back what [`SliceValues::copy_row`] has copied.
    fn put_row(&mut self, range: Range<usize>, row: &[f32]) {
        for (part, row) in self.parts().zip(row.chunks_exact(range.len().max(1))) {
            part[range.clone()].copy_from_slice(row);
        }
    }
}

/// Which rows of a stripe are held: values and slots lie at places, each row's `width` values behind those of the place before.
/// The other rows have their first values, which nobody needs to hold.
#[derive(Debug)]
pub(crate) enum Rows {
    /// All of them: the place of a row is its number in the stripe.
    All,
    /// Those that have been changed: the place of each, by its number in the stripe. Places are given as rows come.
    Listed(HashMap<u32, u32, BuildHasherDefault<IdHasher>>),
}

impl Default for Rows {
    fn default() -> Self {
        Self::Listed(HashMap::default())
    }
}

/// What a checkpoint under way still needs.
#[derive(Debug)]
struct Before {
    /// Places that there were at its instant.
    places: usize,
    changed: Changed,
    /// Rows and places that there were, where the stripe holds all rows by now.
    listed: Option<Vec<(u32, u32)>>,
}

/// What has changed since, as it was then.
#[derive(Debug)]
enum Changed {
    /// Some rows: where each begins among the copies, by place.
    Rows {
        begins: HashMap<u32, u32, BuildHasherDefault<IdHasher>>,
        copies: Vec<f32>,
    },
    /// Everything.
    All(SliceValues),
}

/// The rows under one lock.
///
/// A checkpoint is of one instant, and is written while training goes on: from that instant until the stripe is
/// written, a row that is about to change is set aside first. No more is held twice than what changes meanwhile.
#[derive(Debug, Default)]
pub(crate) struct Stripe {
    pub(crate) rows: Rows,
    /// Values and slots of the rows that are held, by place.
    pub(crate) now: SliceValues,
    before: Option<Before>,
}

impl Stripe {
    pub(crate) fn new(rows: Rows, now: SliceValues) -> Self {
        Self {
            rows,
            now,
            before: None,
        }
    }

    /// Returns the number of rows that are held.
    pub(crate) fn held(&self, width: usize) -> usize {
        match &self.rows {
            Rows::All => self.now.values.len().checked_div(width).unwrap_or(0),
            Rows::Listed(places) => places.len(),
        }
    }

    /// Returns the bytes that it takes, but for what is set aside.
    pub(crate) fn bytes(&self) -> u64 {
        let listed = match &self.rows {
            Rows::All => 0,
            // An entry, and a byte of the map's own.
            Rows::Listed(places) => places.capacity() as u64 * 9,
        };
        self.now.capacity_bytes() + listed
    }

    /// The instant of a checkpoint.
    pub(crate) fn cut(&mut self, width: usize) {
        let changed = Changed::Rows {
            begins: HashMap::default(),
            copies: Vec::new(),
        };
        self.before = Some(Before {
            places: self.held(width),
            changed,
            listed: None,
        });
    }

    /// Forgets the checkpoint.
    pub(crate) fn forget(&mut self) {
        self.before = None;
    }

    /// Returns the bytes that are set aside.
    pub(crate) fn aside_bytes(&self) -> u64 {
        let floats = match self.before.as_ref().map(|before| &before.changed) {
            None => 0,
            // A place among the copies takes as much as three values do, nearly.
            Some(Changed::Rows { begins, copies }) => copies.len() + begins.len() * 3,
            Some(Changed::All(all)) => all.values.len() * (1 + all.slots.len()),
        };
        floats as u64 * 4
    }

    /// To be called before what lies at these places changes.
    pub(crate) fn set_places_aside(&mut self, places: &[u32], width: usize) {
        let Some(before) = &mut self.before else {
            return;
        };
        let Changed::Rows { begins, copies } = &mut before.changed else {
            return;
        };
        let there = before.places;
        // Rows that have come since are none of the checkpoint's.
        for &place in places.iter().filter(|place| (**place as usize) < there) {
            let begin = place as usize * width;
            begins.entry(place).or_insert_with(|| {
                let at = copies.len() as u32;
                self.now.copy_row(begin..begin + width, copies);
                at
            });
        }
    }

    /// To be called before everything changes.
    pub(crate) fn set_all_aside(&mut self, width: usize) {
        if let Some(Before {
            changed: Changed::Rows { .. },
            places,
            listed: None,
        }) = self.before
        {
            let changed = Changed::All(self.before_now(places, width));
            self.before = Some(Before {
                places,
                changed,
                listed: None,
            });
        }
    }

    /// To be called before the stripe holds all rows, where it has listed those that it holds.
    pub(crate) fn set_list_aside(&mut self, width: usize) {
        let listed = self.listed();
        self.set_all_aside(width);
        if let Some(before) = &mut self.before {
            before.listed = listed;
        }
    }

    /// Returns what lay at the first `places` at the instant of the checkpoint.
    fn before_now(&self, places: usize, width: usize) -> SliceValues {
        let mut out = SliceValues::default();
        out.copy_front(&self.now, places * width);
        self.put_back(&mut out, width);
        out
    }

    /// Puts back the rows of `out` that have changed since the instant of the checkpoint.
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

    /// Returns the rows that a checkpoint has to hold, by their number in the stripe, ascending, and the place of each. Nothing
    /// stands for all of them.
    pub(crate) fn listed(&self) -> Option<Vec<(u32, u32)>> {
        if let Some(Before {
            listed: Some(listed),
            ..
        }) = &self.before
        {
            return Some(listed.clone());
        }
        let Rows::Listed(places) = &self.rows else {
            return None;
        };
        let there = self
            .before
            .as_ref()
            .map_or(usize::MAX, |before| before.places);
        let listed = places.iter().map(|(row, place)| (*row, *place));
        let mut listed: Vec<(u32, u32)> = listed
            .filter(|(_, place)| (*place as usize) < there)
            .collect();
        listed.sort_unstable();
        Some(listed)
    }

    /// Copies the rows that are held, in ascending order, as they were at the instant of the checkpoint, or as they are, if
    /// there is none.
    pub(crate) fn read(&self, out: &mut SliceValues, width: usize) {
        let changed = self.before.as_ref().map(|before| &before.changed);
        let Some(listed) = self.listed() else {
            match changed {
                Some(Changed::All(all)) => out.copy_front(all, all.values.len()),
                _ => {
                    out.copy_front(&self.now, self.now.values.len());
                    self.put_back(out, width);
                }
            }
            return;
        };
        let kept;
        let by_place = match (changed, &self.before) {
            (Some(Changed::All(all)), _) => all,
            (_, Some(before)) => {
                kept = self.before_now(before.places, width);
                &kept
            }
            (_, None) => &self.now,
        };
        let gather = |part: &Vec<f32>, out: &mut Vec<f32>| {
            out.clear();
            for (_, place) in &listed {
                out.extend_from_slice(&part[*place as usize * width..][..width]);
            }
        };
        gather(&by_place.values, &mut out.values);
        out.slots.resize_with(by_place.slots.len(), Vec::new);
        by_place
            .slots
            .iter()
            .zip(&mut out.slots)
            .for_each(|(part, out)| gather(part, out));
    }
}
