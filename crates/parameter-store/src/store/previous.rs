//! The values before the latest synchronous step, restricted to those that the step changed.
//!
//! A task may die after its micro-batch has reached some servers and not the others. Servers that have all
//! micro-batches are then one step ahead. The task that computes the missing micro-batch again must read the values
//! from which the others were computed. No server is ever further ahead, because the micro-batches of the next step are
//! computed from values of all servers.

use std::ops::Range;
use std::sync::Arc;

use crate::reading::{ReadAtOnce, Reading};
use crate::selection::Resolved;
use crate::slice::Slice;
use crate::{Replaced, Selection};
use trainyard_variable::union_of_keys;

/// The values that the latest step has replaced.
#[derive(Debug, Default)]
pub(super) struct Previous {
    /// Version of the values; absent = no step has been applied since the store was prepared.
    version: Option<u64>,
    /// The ids that had no row and shared one are named as counted ones, without values.
    resolved: Arc<Resolved>,
    /// Values in the order of the selection. Their memory is reused at each step.
    values: Vec<f32>,
}

impl Previous {
    /// Keeps the values that a step is about to change: those that it names, and all values of `dense_update_tables`.
    pub(super) fn keep(
        &mut self,
        version: u64,
        named: &Arc<Resolved>,
        dense_update_tables: &[(u32, Arc<Slice>)],
    ) {
        self.version = Some(version);
        let named = with_counted(named);
        self.resolved = if dense_update_tables.is_empty() {
            named
        } else {
            with_all(&named, dense_update_tables)
        };
        let mut reading = Reading::new(Arc::clone(&self.resolved), Vec::new());
        self.values.resize(reading.remaining(), 0.0);
        reading.read(&mut self.values);
        let without_row = reading.take_without_row();
        if without_row.iter().any(|places| !places.is_empty()) {
            self.count_without_row(&without_row);
        }
    }

    /// Names the ids at these places, for each slice of ids, as counted ones, and removes their values.
    fn count_without_row(&mut self, without_row: &[Vec<u32>]) {
        let mut selection = Selection::clone(&self.resolved.selection);
        let mut counted = Vec::new();
        let begin: usize = self
            .resolved
            .whole_lengths()
            .map(|(_, length)| length)
            .sum();
        let by_row: usize = self.resolved.row_lengths().map(|(_, length)| length).sum();
        let mut ids_values = self.values.split_off(begin + by_row);
        let mut rest = ids_values.as_mut_slice();
        for (place, (slice, without_row)) in self.resolved.ids.iter().zip(without_row).enumerate() {
            let (number, set) = selection.ids[place];
            let ids = &self.resolved.selection.id_sets[set];
            let (values, others) = rest.split_at_mut(ids.len() * slice.width);
            rest = others;
            let mut without = Vec::with_capacity(without_row.len());
            let mut with = Vec::with_capacity(ids.len() - without_row.len());
            let mut next = without_row.iter().peekable();
            for ((&id, at), values) in ids
                .iter()
                .zip(0..)
                .zip(values.chunks_exact(slice.width.max(1)))
            {
                if next.next_if(|place| **place == at).is_some() {
                    without.push(id);
                } else {
                    with.push(id);
                    self.values.extend_from_slice(values);
                }
            }
            if !without.is_empty() {
                selection.ids[place].1 = selection.id_sets.len();
                selection.id_sets.push(with);
                selection.counted.push((number, selection.id_sets.len()));
                selection.id_sets.push(without);
                counted.push(Arc::clone(slice));
            }
        }
        self.resolved = Arc::new(Resolved {
            selection: Arc::new(selection),
            whole: self.resolved.whole.clone(),
            rows: self.resolved.rows.clone(),
            ids: self.resolved.ids.clone(),
            counted,
        });
    }

    /// Returns the values and their selection.
    pub(super) fn metadata(&self) -> Option<Replaced> {
        self.version.map(|version| Replaced {
            version,
            selection: Arc::clone(&self.resolved.selection),
            values: self.values.clone(),
        })
    }

    /// Restores the values from `replaced`.
    pub(super) fn at(replaced: Replaced, resolved: Resolved) -> Self {
        Self {
            version: Some(replaced.version),
            resolved: Arc::new(resolved),
            values: replaced.values,
        }
    }

    /// Returns whether the values are those of `version`.
    pub(super) fn is_of(&self, version: u64) -> bool {
        self.version == Some(version)
    }

    /// Replaces values that were read after the step by those before it.
    pub(super) fn lay_over(&self, wanted: &Resolved, read: ReadAtOnce<'_>) {
        let ReadAtOnce {
            values,
            without_row,
        } = read;
        let theirs = places(wanted);
        let own = places(&self.resolved);
        let asked = &wanted.selection;
        let kept = &self.resolved.selection;
        for (number, to) in asked.whole.iter().zip(&theirs) {
            if let Some(place) = kept.whole.iter().position(|known| known == number) {
                values[to.clone()].copy_from_slice(&self.values[own[place].clone()]);
            }
        }
        let to = &theirs[asked.whole.len()..];
        let from = &own[kept.whole.len()..];
        for (((number, set), slice), to) in asked.rows.iter().zip(&wanted.rows).zip(to) {
            if let Some(place) = kept.rows.iter().position(|(known, _)| known == number) {
                let old = (
                    kept.row_sets[kept.rows[place].1].as_slice(),
                    &self.values[from[place].clone()],
                );
                copy_shared(
                    &asked.row_sets[*set],
                    &mut values[to.clone()],
                    old,
                    slice.width,
                );
            }
        }
        let to = &to[asked.rows.len()..];
        let from = &from[kept.rows.len()..];
        let of_ids = asked.ids.iter().zip(&wanted.ids).zip(to);
        for (place, (((number, set), slice), to)) in of_ids.enumerate() {
            if let Some(without_row) = without_row.get_mut(place).filter(|_| slice.shares_row()) {
                let (with, without) = (kept.ids_of(*number), kept.counted_of(*number));
                let now = std::mem::take(without_row);
                let ids = asked.id_sets[*set].iter().zip(0..);
                let had_none = ids.filter(|(id, place)| match with.binary_search(id) {
                    Ok(_) => false,
                    Err(_) => without.binary_search(id).is_ok() || now.binary_search(place).is_ok(),
                });
                *without_row = had_none.map(|(_, place)| place).collect();
                for place in without_row.iter() {
                    let begin = to.start + *place as usize * slice.width;
                    values[begin..begin + slice.width].fill(0.0);
                }
            }
            if let Some(place) = kept.ids.iter().position(|(known, _)| known == number) {
                let old = (
                    kept.id_sets[kept.ids[place].1].as_slice(),
                    &self.values[from[place].clone()],
                );
                copy_shared(
                    &asked.id_sets[*set],
                    &mut values[to.clone()],
                    old,
                    slice.width,
                );
            }
        }
    }
}

/// Returns the selection, in which the counted ids are named as the others are.
fn with_counted(named: &Arc<Resolved>) -> Arc<Resolved> {
    if named.counted.is_empty() {
        return Arc::clone(named);
    }
    let mut selection = Selection::clone(&named.selection);
    selection.counted.clear();
    let mut ids = named.ids.clone();
    for ((number, set), slice) in named.selection.counted.iter().zip(&named.counted) {
        match selection.ids.iter().position(|(known, _)| known == number) {
            Some(place) => {
                let both = [
                    named.selection.ids_of(*number),
                    named.selection.counted_of(*number),
                ];
                selection.ids[place].1 = selection.id_sets.len();
                selection.id_sets.push(union_of_keys(both.into_iter()));
            }
            None => {
                selection.ids.push((*number, *set));
                ids.push(Arc::clone(slice));
            }
        }
    }
    Arc::new(Resolved {
        selection: Arc::new(selection),
        whole: named.whole.clone(),
        rows: named.rows.clone(),
        ids,
        counted: Vec::new(),
    })
}

/// Returns the range of the values of each named slice.
fn places(resolved: &Resolved) -> Vec<Range<usize>> {
    let mut end = 0;
    let place = |(_, length): (u32, usize)| {
        end += length;
        end - length..end
    };
    resolved.lengths().map(place).collect()
}

/// Copies the rows that both sides name. The keys ascend on both sides.
fn copy_shared<K: Ord>(
    wanted: &[K],
    values: &mut [f32],
    (kept, old): (&[K], &[f32]),
    width: usize,
) {
    let mut at = 0;
    for (key, row) in wanted.iter().zip(values.chunks_exact_mut(width.max(1))) {
        at += kept[at..].iter().take_while(|known| *known < key).count();
        if kept.get(at) == Some(key) {
            row.copy_from_slice(&old[at * width..(at + 1) * width]);
        }
    }
}

/// Returns the selection, extended by all rows of some slices.
fn with_all(named: &Resolved, dense_update_tables: &[(u32, Arc<Slice>)]) -> Arc<Resolved> {
    let mut selection = Selection::clone(&named.selection);
    let mut rows = named.rows.clone();
    for (number, slice) in dense_update_tables {
        selection
            .row_sets
            .push(slice.rows.clone().map(|row| row as u32).collect());
        let all = (*number, selection.row_sets.len() - 1);
        match selection.rows.iter().position(|(known, _)| known == number) {
            Some(place) => selection.rows[place] = all,
            None => {
                selection.rows.push(all);
                rows.push(Arc::clone(slice));
            }
        }
    }
    let whole = named.whole.clone();
    let ids = named.ids.clone();
    let counted = named.counted.clone();
    Arc::new(Resolved {
        selection: Arc::new(selection),
        whole,
        rows,
        ids,
        counted,
    })
}
