//! Selections: what a request names, and the slices found for it.

use std::sync::Arc;

use crate::dynamic::DynamicSlice;
use crate::slice::Slice;

/// Slices, rows and ids that a pull reads or a push updates. Values travel in this order: first the whole slices, then
/// the rows, then the ids.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Selection {
    /// Slices taken whole, each at most once, and not with rows as well.
    pub whole: Vec<u32>,
    /// (slice, index into `row_sets`), each slice at most once.
    pub rows: Vec<(u32, usize)>,
    /// Rows of the variable, ascending, each once.
    pub row_sets: Vec<Vec<u32>>,
    /// (slice of a dynamic table, index into `id_sets`), each slice at most once.
    pub ids: Vec<(u32, usize)>,
    /// Ids, ascending, each once.
    pub id_sets: Vec<Vec<u64>>,
    /// (slice of a dynamic table with a shared row, index into `id_sets`), each slice at most once, of a push: ids that
    /// have read the shared row. They are counted and have no values. No id of a slice is both here and in `ids`.
    pub counted: Vec<(u32, usize)>,
}

impl Selection {
    /// Returns the ids of a slice that are named with values.
    pub(crate) fn ids_of(&self, slice: u32) -> &[u64] {
        self.set_of(&self.ids, slice)
    }

    /// Returns the ids of a slice that are only counted.
    pub(crate) fn counted_of(&self, slice: u32) -> &[u64] {
        self.set_of(&self.counted, slice)
    }

    fn set_of(&self, named: &[(u32, usize)], slice: u32) -> &[u64] {
        let set = named.iter().find(|(number, _)| *number == slice);
        set.map_or(&[], |(_, set)| &self.id_sets[*set])
    }
}

/// A selection whose slices exist and contain its rows and ids.
#[derive(Debug, Default)]
pub(crate) struct Resolved {
    pub(crate) selection: Arc<Selection>,
    pub(crate) whole: Vec<Arc<Slice>>,
    pub(crate) rows: Vec<Arc<Slice>>,
    pub(crate) ids: Vec<Arc<DynamicSlice>>,
    pub(crate) counted: Vec<Arc<DynamicSlice>>,
}

impl Resolved {
    /// Returns each slice of which rows are named: its number, the slice, and the rows.
    pub(crate) fn rows(&self) -> impl Iterator<Item = (u32, &Slice, &[u32])> {
        let named = self.selection.rows.iter().zip(&self.rows);
        named.map(|(&(number, set), slice)| {
            (number, &**slice, self.selection.row_sets[set].as_slice())
        })
    }

    /// Returns each slice of a dynamic table of which ids are named: its number, the slice, and the ids.
    pub(crate) fn ids(&self) -> impl Iterator<Item = (u32, &DynamicSlice, &[u64])> {
        let named = self.selection.ids.iter().zip(&self.ids);
        named.map(|(&(number, set), slice)| {
            (number, &**slice, self.selection.id_sets[set].as_slice())
        })
    }

    /// Returns each slice of a dynamic table of which ids are only counted: its number, the slice, and the ids.
    pub(crate) fn counted(&self) -> impl Iterator<Item = (u32, &DynamicSlice, &[u64])> {
        let named = self.selection.counted.iter().zip(&self.counted);
        named.map(|(&(number, set), slice)| {
            (number, &**slice, self.selection.id_sets[set].as_slice())
        })
    }

    /// Returns the variable of each named slice, in the order of the values.
    pub(crate) fn variables(&self) -> impl Iterator<Item = usize> {
        let named = self
            .whole
            .iter()
            .chain(&self.rows)
            .map(|slice| slice.variable);
        named.chain(self.ids.iter().map(|slice| slice.variable))
    }

    /// Returns the slice number and the number of values of each named slice, in the order of the values.
    pub(crate) fn lengths(&self) -> impl Iterator<Item = (u32, usize)> {
        self.whole_lengths()
            .chain(self.row_lengths())
            .chain(self.id_lengths())
    }

    /// As [`Resolved::lengths`], of the whole slices, which come first.
    pub(crate) fn whole_lengths(&self) -> impl Iterator<Item = (u32, usize)> {
        self.selection
            .whole
            .iter()
            .zip(&self.whole)
            .map(|(number, slice)| (*number, slice.len()))
    }

    /// As [`Resolved::lengths`], of the rows, which come next.
    pub(crate) fn row_lengths(&self) -> impl Iterator<Item = (u32, usize)> {
        self.rows()
            .map(|(number, slice, rows)| (number, slice.width * rows.len()))
    }

    /// As [`Resolved::lengths`], of the ids, which come last.
    pub(crate) fn id_lengths(&self) -> impl Iterator<Item = (u32, usize)> {
        self.ids()
            .map(|(number, slice, ids)| (number, slice.width * ids.len()))
    }
}
