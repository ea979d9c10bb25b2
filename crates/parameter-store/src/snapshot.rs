//! A snapshot: the store at one instant, read while training goes on.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use trainyard_variable::{DynamicRows, FirstRows};

use crate::dynamic::DynamicSlice;
use crate::extent::Extent;
use crate::memory_budget::Reservation;
use crate::slice::Slice;
use crate::{ShardPosition, SliceValues};

/// Relation of a snapshot to earlier and later ones.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Basis {
    /// The snapshot is whole, and no increment will be based on it.
    #[default]
    Whole,
    /// Increments may be based on this snapshot.
    Increments {
        /// Name of this snapshot.
        name: String,
        /// Name of the whole snapshot whose file the caller holds, if it holds one. The store may take a whole snapshot all
        /// the same.
        base: Option<String>,
    },
    /// The snapshot has the values of all rows, without slots.
    Values,
    /// The snapshot has values without slots, for publication: those of the rows that have changed since an earlier one, or
    /// of all rows.
    Publication {
        /// Name of this snapshot.
        name: String,
        /// Name of the snapshot that the caller has published, if it has. The snapshot may be whole all the same.
        since: Option<String>,
    },
}

/// One slice at the instant of a snapshot. Training copies a row of an unread stripe before it changes the row. Reading spends
/// the rows: a second pass would find later values.
#[derive(Debug)]
pub struct SnapshotSlice {
    /// Number of the slice.
    pub number: u32,
    /// Name of the variable.
    pub variable: String,
    /// Index of the slice among the slices of the variable.
    pub part: usize,
    /// Rows of the variable that the slice covers.
    pub rows: Range<usize>,
    /// Values in a row.
    pub width: usize,
    /// Names of the slots that the snapshot has.
    pub slot_names: Vec<&'static str>,
    rows_then: SnapshotRows,
}

/// The values and slots of the rows of a slice at the instant of a snapshot, in stripes.
#[derive(Debug)]
pub struct SnapshotRows {
    slice: Arc<Slice>,
    /// The first unread stripe.
    next: usize,
}

impl SnapshotRows {
    /// Copies the values and slots of the held rows of the next stripe into `out`, in ascending order. Returns whether there
    /// was a stripe.
    pub fn next(&mut self, out: &mut SliceValues) -> bool {
        let is_left = self.next < self.slice.stripes();
        if is_left {
            self.slice.take(self.next, out);
            self.next += 1;
        }
        is_left
    }
}

impl Drop for SnapshotRows {
    fn drop(&mut self) {
        self.slice.forget();
    }
}

impl SnapshotSlice {
    pub(crate) fn new(number: u32, variable: &str, slice: &Arc<Slice>, extent: Extent) -> Self {
        Self {
            number,
            variable: variable.to_owned(),
            part: slice.part,
            rows: slice.rows.clone(),
            width: slice.width,
            slot_names: extent.row_parts().slot_names(&slice.optimizer),
            rows_then: SnapshotRows {
                slice: Arc::clone(slice),
                next: 0,
            },
        }
    }

    /// Returns the rows of the snapshot, by their number in the variable, ascending: the held rows, or those of an
    /// increment. Other rows have their initial values, or are as in the base.
    pub fn held(&self) -> Vec<Range<usize>> {
        self.rows_then.slice.held_rows()
    }

    /// Returns the values and slots of these rows, to be read once.
    pub fn into_rows(self) -> SnapshotRows {
        self.rows_then
    }

    /// Returns the rule for the initial values of other rows.
    pub fn first_rows(&self) -> &FirstRows {
        self.rows_then.slice.first.rule()
    }

    /// Returns the initial value of each slot.
    pub fn first_slots(&self) -> &[f32] {
        &self.rows_then.slice.first_slots
    }

    /// Copies all rows, including those that have their initial values.
    pub fn read_all(self) -> SliceValues {
        let length = self.rows.len() * self.width;
        let mut values = vec![0.0; length];
        self.rows_then
            .slice
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
        let width = self.width;
        let first = self.rows.start;
        let mut rows_then = self.into_rows();
        while rows_then.next(&mut stripe) {
            let rows = stripe.values.len().checked_div(width).unwrap_or(0);
            for (at, row) in held.by_ref().take(rows).enumerate() {
                let to = (row - first) * width;
                for (all, part) in all.parts().zip(stripe.parts()) {
                    all[to..to + width].copy_from_slice(&part[at * width..][..width]);
                }
            }
        }
        all
    }
}

/// One slice of a dynamic table at the instant of a snapshot.
#[derive(Debug)]
pub struct SnapshotTable {
    /// Number of the slice.
    pub number: u32,
    /// Name of the variable.
    pub variable: String,
    /// Index of the slice among the slices of the variable.
    pub part: usize,
    /// Values in a row.
    pub width: usize,
    /// Names of the slots that the snapshot has.
    pub slot_names: Vec<&'static str>,
    pub(crate) rows: SnapshotTableRows,
}

/// The rows of a slice of a dynamic table at the instant of a snapshot.
#[derive(Debug)]
pub struct SnapshotTableRows(Arc<DynamicSlice>);

impl SnapshotTableRows {
    pub(crate) fn new(slice: &Arc<DynamicSlice>) -> Self {
        Self(Arc::clone(slice))
    }

    /// Passes ids, values and slots to `each` in parts, in ascending order of id, while training goes on.
    ///
    /// # Errors
    /// The error of `each`.
    pub fn read<E>(self, each: &mut dyn FnMut(DynamicRows) -> Result<(), E>) -> Result<(), E> {
        self.0.read_cut(each)
    }
}

impl Drop for SnapshotTableRows {
    fn drop(&mut self) {
        self.0.forget_cut();
    }
}

impl SnapshotTable {
    /// Returns the rule for the initial values of ids without a row.
    pub fn first_rows(&self) -> &FirstRows {
        self.rows.0.first_rows()
    }

    /// Returns the number of rows, and the number of ids without a row.
    pub fn counts(&self) -> (usize, usize) {
        self.rows.0.counts_at_cut()
    }

    /// Returns the ids that have lost their rows since the base, ascending; `None` if the snapshot is whole.
    pub fn gone(&self) -> Option<Vec<u64>> {
        self.rows.0.gone_at_cut()
    }

    /// Returns the number of rows in use, of which an increment holds some.
    pub fn rows_in_use(&self) -> usize {
        self.rows.0.rows_at_cut()
    }

    /// Returns ids, values and slots of the rows, to be read once.
    pub fn into_rows(self) -> SnapshotTableRows {
        self.rows
    }
}

/// A store at one instant. Only one snapshot exists at a time. It ends when it is dropped.
#[derive(Debug)]
pub struct Snapshot {
    /// Pushes applied.
    pub version: u64,
    /// Steps applied.
    pub global_step: u64,
    /// Seconds of training. Idle times count up to `version` and to these seconds.
    pub secs: i64,
    /// Name of the snapshot, if increments may be based on it.
    pub name: Option<String>,
    /// Name of the snapshot that this one is an increment of; `None` if it is whole.
    pub base: Option<String>,
    /// Positions of the data shards.
    pub positions: Vec<ShardPosition>,
    /// Slices, by number.
    pub slices: Vec<SnapshotSlice>,
    /// Slices of dynamic tables, by number.
    pub tables: Vec<SnapshotTable>,
    /// Released after the slices, which are declared before it.
    pub(crate) _permit: (SnapshotPermit, Reservation),
}

/// The exclusive right to take a snapshot.
#[derive(Debug)]
pub(crate) struct SnapshotPermit(Arc<AtomicBool>);

impl SnapshotPermit {
    /// Acquires the right, if it is free.
    pub(crate) fn take(taken: &Arc<AtomicBool>) -> Option<Self> {
        let free = taken.compare_exchange(false, true, Ordering::AcqRel, Ordering::Acquire);
        free.ok().map(|_| Self(Arc::clone(taken)))
    }
}

impl Drop for SnapshotPermit {
    fn drop(&mut self) {
        self.0.store(false, Ordering::Release);
    }
}
