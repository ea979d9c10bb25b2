//! Some rows of a slice, and what a checkpoint under way still needs of them.

use std::collections::HashMap;
use std::ops::Range;

/// Values and slots, row-major, `rows x width` each.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct SliceValues {
    /// Values.
    pub values: Vec<f32>,
    /// The optimizer's slots, in the order of `OptimizerConfig::slots`.
    pub slots: Vec<Vec<f32>>,
}

impl SliceValues {
    fn parts(&mut self) -> impl Iterator<Item = &mut Vec<f32>> {
        std::iter::once(&mut self.values).chain(&mut self.slots)
    }

    /// Returns the bytes that there is memory for.
    pub(crate) fn capacity_bytes(&self) -> u64 {
        let parts = std::iter::once(&self.values).chain(&self.slots);
        parts.map(|part| part.capacity() as u64 * 4).sum()
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

/// What has changed since the instant of a checkpoint, as it was then.
#[derive(Debug)]
enum Before {
    /// Some rows: where each begins among the copies, by place.
    Rows { begins: HashMap<u32, u32>, copies: Vec<f32> },
    /// Everything.
    All(SliceValues),
}

/// The rows under one lock.
///
/// A checkpoint is of one instant, and is written while training goes on: from that instant until the stripe is
/// written, a row that is about to change is set aside first. No more is held twice than what changes meanwhile.
#[derive(Debug, Default)]
pub(crate) struct Stripe {
    pub(crate) now: SliceValues,
    before: Option<Before>,
}

impl Stripe {
    pub(crate) fn new(now: SliceValues) -> Self {
        Self { now, before: None }
    }

    /// The instant of a checkpoint.
    pub(crate) fn cut(&mut self) {
        self.before = Some(Before::Rows { begins: HashMap::new(), copies: Vec::new() });
    }

    /// Forgets the checkpoint.
    pub(crate) fn forget(&mut self) {
        self.before = None;
    }

    /// Returns the bytes that are set aside.
    pub(crate) fn aside_bytes(&self) -> u64 {
        let floats = match &self.before {
            None => 0,
            // A place among the copies takes as much as three values do, nearly.
            Some(Before::Rows { begins, copies }) => copies.len() + begins.len() * 3,
            Some(Before::All(all)) => all.values.len() * (1 + all.slots.len()),
        };
        floats as u64 * 4
    }

    /// To be called before the rows at these places change.
    pub(crate) fn set_rows_aside(&mut self, places: &[u32], width: usize) {
        if let Some(Before::Rows { begins, copies }) = &mut self.before {
            for &place in places {
                let begin = place as usize * width;
                begins.entry(place).or_insert_with(|| {
                    let at = copies.len() as u32;
                    self.now.copy_row(begin..begin + width, copies);
                    at
                });
            }
        }
    }

    /// To be called before everything changes.
    pub(crate) fn set_all_aside(&mut self, width: usize) {
        if let Some(Before::Rows { .. }) = &self.before {
            let mut all = SliceValues::default();
            self.read(&mut all, width);
            self.before = Some(Before::All(all));
        }
    }

    /// Copies everything as it was at the instant of the checkpoint, or as it is, if there is none.
    pub(crate) fn read(&self, out: &mut SliceValues, width: usize) {
        if let Some(Before::All(all)) = &self.before {
            out.clone_from(all);
            return;
        }
        out.clone_from(&self.now);
        if let Some(Before::Rows { begins, copies }) = &self.before {
            let length = width * (1 + out.slots.len());
            for (place, at) in begins {
                let begin = *place as usize * width;
                out.put_row(begin..begin + width, &copies[*at as usize..*at as usize + length]);
            }
        }
    }
}
