//! The dynamic tables of a store.

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::RwLock;

use crate::Error;
use crate::dynamic::{DynamicSlice, DynamicStatus, Frozen};
use crate::recency::Moment;

/// A slice that a request names, with its checked ids.
pub(super) type Named<'a> = (u32, Arc<DynamicSlice>, &'a [u64]);

/// Slices of dynamic tables, by number.
#[derive(Debug, Default)]
pub(super) struct Tables {
    slices: RwLock<BTreeMap<u32, Arc<DynamicSlice>>>,
    /// What slices that were replaced had given up, by variable: counters do not fall.
    before: RwLock<BTreeMap<String, DynamicStatus>>,
}

impl Tables {
    pub(super) fn replace(&self, slices: impl IntoIterator<Item = (u32, DynamicSlice)>) {
        let past = self.status().into_iter().map(|status| (status.variable.clone(), status));
        self.before.write().extend(past.collect::<Vec<_>>());
        let slices = slices.into_iter().map(|(number, slice)| (number, Arc::new(slice)));
        *self.slices.write() = slices.collect();
    }

    /// Finds the slices that a request names, and checks its ids.
    pub(super) fn resolve<'a>(
        &self,
        ps: usize,
        ids: &[(u32, usize)],
        id_sets: &'a [Vec<u64>],
    ) -> Result<Vec<Named<'a>>, Error> {
        if ids.is_empty() {
            return Ok(Vec::new());
        }
        let held = self.slices.read();
        let mut found: Vec<Named<'a>> = Vec::with_capacity(ids.len().min(held.len()));
        for &(number, set) in ids {
            let slice = held.get(&number).ok_or_else(|| {
                Error::BadRequest(format!("ps:{ps} does not hold slice {number} of a dynamic table"))
            })?;
            let ids = id_sets.get(set).ok_or_else(|| {
                Error::BadRequest(format!("id_set must be below {}, given {set}", id_sets.len()))
            })?;
            // Named twice, its ids would count as seen twice.
            if found.iter().any(|(named, ..)| *named == number) {
                return Err(Error::BadRequest(format!("slice {number} must be named once, given twice")));
            }
            slice.check_ids(number, ids)?;
            found.push((number, Arc::clone(slice), ids));
        }
        Ok(found)
    }

    /// Applies a push to every table: those that it names, and those in which time passes.
    pub(super) fn apply(&self, now: Moment, named: &[Named<'_>], gradients: &[f32], scratch: &mut Vec<u32>) {
        let mut rest = gradients;
        for (_, slice, ids) in named {
            slice.apply(now, ids, super::take(&mut rest, ids.len() * slice.width), scratch);
        }
        for (number, slice) in self.slices.read().iter() {
            if !named.iter().any(|(other, ..)| other == number) {
                slice.pass(now);
            }
        }
    }

    pub(super) fn status(&self) -> Vec<DynamicStatus> {
        let before = self.before.read();
        let since = |slice: &Arc<DynamicSlice>| {
            let now = slice.status();
            let Some(before) = before.get(&now.variable) else { return now };
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

    pub(super) fn freeze(&self, now: Moment) -> Vec<(Arc<DynamicSlice>, Frozen)> {
        self.slices.read().values().map(|slice| (Arc::clone(slice), slice.freeze(now))).collect()
    }
}
