//! A store at one instant, read while it goes on.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use trainyard_variable::DynamicRows;

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
    pub(crate) slice: Arc<Slice>,
}

impl SnapshotSlice {
    /// Returns the number of stripes.
    pub fn stripes(&self) -> usize {
        self.slice.stripes()
    }

    /// Copies the values and slots of a stripe into `out`. A stripe that was read before may be newer than the snapshot.
    ///
    /// # Panics
    /// There is no such stripe.
    pub fn read(&self, stripe: usize, out: &mut SliceValues) {
        self.slice.take(stripe, out);
    }

    /// Copies everything that has not been read.
    pub fn read_all(&self) -> SliceValues {
        let (mut all, mut stripe) = (SliceValues::default(), SliceValues::default());
        all.slots.resize_with(self.slot_names.len(), Vec::new);
        for place in 0..self.stripes() {
            self.read(place, &mut stripe);
            all.values.extend_from_slice(&stripe.values);
            all.slots.iter_mut().zip(&stripe.slots).for_each(|(all, slot)| all.extend_from_slice(slot));
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
    /// Copies ids, values and slots, in ascending order of id, while training goes on. They are read once: nothing is left
    /// for another time.
    pub fn read(&self) -> DynamicRows {
        self.slice.take()
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
