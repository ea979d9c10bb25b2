//! The dynamic tables of a store.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::dynamic::{DynamicSlice, DynamicStatus, Occurrences};
use crate::extent::Extent;
use crate::gradients::GradientTail;
use crate::lru::{Timestamp, UpdatePoint};
use crate::selection::Resolved;
use crate::slice::Scratch;
use crate::sync::RwLock;
use crate::touched::Use;
use crate::{Error, Gradients, Selection};

/// Slices of dynamic tables, by number.
#[derive(Debug, Default)]
pub(super) struct Tables {
    slices: RwLock<BTreeMap<u32, Arc<DynamicSlice>>>,
    /// Counters of slices that were replaced, by variable, because counters must not decrease.
    before: RwLock<BTreeMap<String, DynamicStatus>>,
}

/// The slices of dynamic tables that a request names.
#[derive(Debug, Default)]
pub(super) struct Found {
    pub(super) ids: Vec<Arc<DynamicSlice>>,
    pub(super) counted: Vec<Arc<DynamicSlice>>,
}

impl Tables {
    /// Replaces all slices, and returns the former ones.
    pub(super) fn replace(
        &self,
        slices: impl IntoIterator<Item = (u32, DynamicSlice)>,
    ) -> BTreeMap<u32, Arc<DynamicSlice>> {
        let past = self
            .status()
            .into_iter()
            .map(|status| (status.variable.clone(), status));
        self.before.write().extend(past.collect::<Vec<_>>());
        let slices = slices
            .into_iter()
            .map(|(number, slice)| (number, Arc::new(slice)));
        std::mem::replace(&mut *self.slices.write(), slices.collect())
    }

    /// Finds the slices of which a request names ids, and those of which it only counts some. Checks the ids.
    pub(super) fn resolve(&self, ps: usize, selection: &Selection) -> Result<Found, Error> {
        if selection.ids.is_empty() && selection.counted.is_empty() {
            return Ok(Found::default());
        }
        let ids = self.find(ps, selection, &selection.ids)?;
        let counted = self.find(ps, selection, &selection.counted)?;
        for ((number, _), slice) in selection.counted.iter().zip(&counted) {
            if !slice.shares_row() {
                return Err(Error::BadRequest(format!(
                    "ids that are only counted must be of a table with a shared row, given slice {number}"
                )));
            }
            let others = selection.ids_of(*number);
            let counted = selection.counted_of(*number);
            if let Some(id) = counted.iter().find(|id| others.binary_search(id).is_ok()) {
                return Err(Error::BadRequest(format!(
                    "an id of slice {number} must be counted or have a gradient, given both for {id}"
                )));
            }
        }
        Ok(Found { ids, counted })
    }

    /// Finds slices, and checks their ids.
    fn find(
        &self,
        ps: usize,
        selection: &Selection,
        named: &[(u32, usize)],
    ) -> Result<Vec<Arc<DynamicSlice>>, Error> {
        let held = self.slices.read();
        let mut found = BTreeSet::new();
        let resolve = |&(number, set): &(u32, usize)| {
            let slice = held.get(&number).ok_or_else(|| {
                Error::BadRequest(format!(
                    "ps:{ps} does not hold slice {number} of a dynamic table"
                ))
            })?;
            let id_sets = &selection.id_sets;
            let ids = id_sets.get(set).ok_or_else(|| {
                Error::BadRequest(format!(
                    "id_set must be below {}, given {set}",
                    id_sets.len()
                ))
            })?;
            // The ids of a slice that is named twice would be counted twice.
            if !found.insert(number) {
                return Err(Error::BadRequest(format!(
                    "slice {number} must be named once, given twice"
                )));
            }
            slice.check_ids(number, ids)?;
            Ok(Arc::clone(slice))
        };
        named.iter().map(resolve).collect()
    }

    /// Applies a push to every table: gradients to the tables that it names, and the new time to the others.
    pub(super) fn apply<G: Gradients + ?Sized>(
        &self,
        point: UpdatePoint,
        resolved: &Resolved,
        gradient: GradientTail<'_, G>,
        scratch: &mut Scratch,
    ) {
        let GradientTail {
            gradients,
            mut begin,
        } = gradient;
        let selection = &resolved.selection;
        for (number, slice, ids) in resolved.ids() {
            let length = ids.len() * slice.width;
            let gradient = gradients.get(begin..begin + length, &mut scratch.gradient);
            let occurrences = Occurrences {
                ids,
                gradient,
                counted: selection.counted_of(number),
            };
            slice.apply(point, occurrences, &mut scratch.places);
            begin += length;
        }
        let names =
            |named: &[(u32, usize)], number: u32| named.iter().any(|(named, _)| *named == number);
        for (number, slice, counted) in resolved.counted() {
            if !names(&selection.ids, number) {
                let occurrences = Occurrences {
                    ids: &[],
                    gradient: &[],
                    counted,
                };
                slice.apply(point, occurrences, &mut scratch.places);
            }
        }
        for (number, slice) in self.slices.read().iter() {
            if !names(&selection.ids, *number) && !names(&selection.counted, *number) {
                slice.pass(point.now);
            }
        }
    }

    pub(super) fn status(&self) -> Vec<DynamicStatus> {
        let before = self.before.read();
        let since = |slice: &Arc<DynamicSlice>| {
            let now = slice.status();
            let Some(before) = before.get(&now.variable) else {
                return now;
            };
            DynamicStatus {
                evicted: now.evicted + before.evicted,
                expired: now.expired + before.expired,
                gradients_dropped: now.gradients_dropped + before.gradients_dropped,
                ..now
            }
        };
        self.slices.read().values().map(since).collect()
    }

    pub(super) fn bytes(&self) -> u64 {
        self.slices.read().values().map(|slice| slice.bytes()).sum()
    }

    pub(super) fn memory_bytes(&self) -> u64 {
        self.slices
            .read()
            .values()
            .map(|slice| slice.memory_bytes())
            .sum()
    }

    /// Returns the bytes of copy-on-write copies for a checkpoint.
    pub(super) fn aside_bytes(&self) -> u64 {
        self.slices
            .read()
            .values()
            .map(|slice| slice.aside_bytes())
            .sum()
    }

    /// Returns the most bytes that reading one slice takes.
    pub(super) fn reading_bytes_max(&self) -> u64 {
        self.slices
            .read()
            .values()
            .map(|slice| slice.reading_bytes())
            .max()
            .unwrap_or(0)
    }

    /// Makes the rows of now those of the latest cut of the log.
    pub(super) fn begin_log_cut(&self) {
        let slices = self.slices.read();
        slices.values().for_each(|slice| slice.begin_log_cut());
    }

    /// Returns the slice with this number.
    pub(super) fn get(&self, number: u32) -> Option<Arc<DynamicSlice>> {
        self.slices.read().get(&number).cloned()
    }

    /// Makes the latest cut of a use the one that increments count from.
    pub(super) fn confirm_cut(&self, of: Use) {
        let slices = self.slices.read();
        slices.values().for_each(|slice| slice.confirm_cut(of));
    }

    /// Returns whether the ids that have lost their rows since the confirmed cut of a use can be listed.
    pub(super) fn list_gone(&self, of: Use) -> bool {
        let slices = self.slices.read();
        slices.values().all(|slice| slice.lists_gone(of))
    }

    /// Returns the bytes of an increment of a use, and of the whole tables.
    pub(super) fn increment_bytes(&self, of: Use) -> (u64, u64) {
        let slices = self.slices.read();
        let bytes = slices.values().map(|slice| slice.increment_bytes(of));
        bytes.fold((0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1))
    }

    /// Marks the instant of a checkpoint. Returns the slices, in the order of their numbers.
    pub(super) fn cut(&self, now: Timestamp, extent: Extent) -> Vec<(u32, Arc<DynamicSlice>)> {
        let slices = self.slices.read();
        slices
            .iter()
            .inspect(|(_, slice)| slice.cut(now, extent))
            .map(|(number, slice)| (*number, Arc::clone(slice)))
            .collect()
    }
}
