//! A store at one instant, read while it goes on.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use trainyard_variable::{DynamicRows, FirstRows};

use crate::dynamic::DynamicSlice;
use crate::memory::Loan;
use crate::slice::Slice;
use crate::{ShardPosition, SliceValues};

/// One slice at the instant of a snapshot. It is read in stripes, each once: what training changes meanwhile is set
/// aside for those that have not been read.
#[derive(Debug)]
pub struct SnapshotSlice {
    /// Name of the variable.
    pub variable: String,
    /// Part of the variable.
    pub part: usize,
    /// Rows of the variable.
    pub rows: Range<usize>,
    /// Values in a row.
    pub width: usize,
    /// Names of the slots.
    pub slot_names: Vec<&'static str>,
    slice: Arc<Slice>,
}

impl SnapshotSlice {
    pub(crate) fn new(variable: &str, slice: &Arc<Slice>) -> Self {
        Self {
            variable: variable.to_owned(),
            part: slice.part,
            rows: slice.rows.clone(),
            width: slice.width,
            slot_names: slice
                .optimizer
                .slots()
                .iter()
                .map(|slot| slot.name)
                .collect(),
            slice: Arc::clone(slice),
        }
    }

    /// Returns the rows of the variable that it holds, ascending: to be asked before anything is read. The others have their
    /// first values.
    pub fn held(&self) -> Vec<Range<usize>> {
        self.slice.held_rows()
    }

    /// Returns what decides the first values of the others.
    pub fn first_rows(&self) -> &FirstRows {
        self.slice.first.rule()
    }

    /// Returns the first value of each slot.
    pub fn first_slots(&self) -> &[f32] {
        &self.slice.first_slots
    }

    /// Returns the number of stripes.
    pub fn stripes(&self) -> usize {
        self.slice.stripes()
    }

    /// Copies the values and slots of the rows of a stripe that are held into `out`, in ascending order. A stripe that was read
    /// before may be newer than the snapshot.
    ///
    /// # Panics
    /// There is no such stripe.
    pub fn read(&self, stripe: usize, out: &mut SliceValues) {
        self.slice.take(stripe, out);
    }

    /// Copies everything, those rows too that have their first values.
    pub fn read_all(&self) -> SliceValues {
        let length = self.rows.len() * self.width;
        let mut values = vec![0.0; length];
        self.slice
            .first
            .fill_rows(self.rows.clone().map(|row| row as u64), &mut values);
        let slots = self
            .first_slots()
            .iter()
            .map(|first| vec![*first; length])
            .collect();
        let mut all = SliceValues { values, slots };
        let mut held = self.held().into_iter().flatten();
        let mut stripe = SliceValues::default();
        for place in 0..self.stripes() {
            self.read(place, &mut stripe);
            let rows = stripe.values.len().checked_div(self.width).unwrap_or(0);
            for (at, row) in held.by_ref().take(rows).enumerate() {
                let to = (row - self.rows.start) * self.width;
                for (all, part) in all.parts().zip(stripe.parts()) {
                    all[to..to + self.width]
                        .copy_from_slice(&part[at * self.width..][..self.width]);
                }
            }
        }
        all
    }
}

impl Drop for SnapshotSlice {
    fn drop(&mut self) {
        self.slice.forget();
    }
}

/// One slice of a dynamic table at the instant of a snapshot.
#[derive(Debug)]
pub struct SnapshotTable {
    /// Name of the variable.
    pub variable: String,
    /// Part of the variable.
    pub part: usize,
    /// Values in a row.
    pub width: usize,
    /// Names of the slots.
    pub slot_names: Vec<&'static str>,
    pub(crate) slice: Arc<DynamicSlice>,
}

impl SnapshotTable {
    /// Returns what decides the first values of ids without a row.
    pub fn first_rows(&self) -> &FirstRows {
        self.slice.first_rows()
    }

    /// Returns the number of rows, and of ids without one.
    pub fn counts(&self) -> (usize, usize) {
        self.slice.counts_at_cut()
    }

    /// Hands on ids, values and slots in parts, in ascending order of id, while training goes on. They are read once: nothing
    /// is left for another time.
    ///
    /// # Errors
    /// That of `each`.
    pub fn read<E>(&self, each: &mut dyn FnMut(DynamicRows) -> Result<(), E>) -> Result<(), E> {
        self.slice.read_cut(each)
    }
}

impl Drop for SnapshotTable {
    fn drop(&mut self) {
        self.slice.forget_cut();
    }
}

/// A store at one instant. There is one at a time: it ends when it is dropped.
#[derive(Debug)]
pub struct Snapshot {
    /// Pushes applied.
    pub version: u64,
    /// Steps applied.
    pub global_step: u64,
    /// Data applied.
    pub positions: Vec<ShardPosition>,
    /// Slices, by number.
    pub slices: Vec<SnapshotSlice>,
    /// Slices of dynamic tables, by number.
    pub tables: Vec<SnapshotTable>,
    /// Given back behind the slices, which are declared before it.
    pub(crate) _turn: (Turn, Loan),
}

/// The right to take a snapshot.
#[derive(Debug)]
pub(crate) struct Turn(Arc<AtomicBool>);

impl Turn {
    /// Takes the right, if nobody has it.
    pub(crate) fn take(taken: &Arc<AtomicBool>) -> Option<Self> {
        let free = taken.compare_exchange(false, true, Ordering::AcqRel, Ordering::Acquire);
        free.ok().map(|_| Self(Arc::clone(taken)))
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        self.0.store(false, Ordering::Release);
    }
}
