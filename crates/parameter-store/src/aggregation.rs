//! The parts of one synchronous step, and their mean (`tf.compat.v1.train.SyncReplicasOptimizer`).
//!
//! Parts are kept until all are there and then summed in the order of their slots, so that the sum has the same bits
//! whatever order they came in.

use std::sync::Arc;

use trainyard_variable::{add_by_key, union_of_keys};

use crate::selection::Resolved;
use crate::{BatchId, Contribution, Error, PartStanding, Selection};

/// Most parts of a step: far more than there may be tasks.
const PARTS_MAX: u32 = 1 << 16;

/// One part: the gradients of one batch.
#[derive(Debug)]
pub(crate) struct Part {
    pub(crate) batch: BatchId,
    /// Batches that it is of, from that one on.
    pub(crate) batches: u32,
    pub(crate) resolved: Arc<Resolved>,
    /// Gradients, in the order of the selection.
    pub(crate) values: Vec<f32>,
}

/// What became of a part.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Put {
    /// Others are missing.
    Waits,
    /// It was the last: the step is complete.
    Complete,
    /// Its place is taken: somebody else has computed the same.
    Taken,
}

/// The parts of the step that is under way.
#[derive(Debug, Default)]
pub(crate) struct Aggregation {
    slots: Vec<Option<Part>>,
    filled: usize,
    /// Slot that was filled last in the latest step.
    last: Option<u32>,
}

impl Aggregation {
    /// Takes a part in.
    ///
    /// # Errors
    /// Its slot is out of range, or the step has another number of parts.
    pub(crate) fn put(&mut self, place: Contribution, part: Part) -> Result<Put, Error> {
        let Contribution { slot, of } = place;
        if of > PARTS_MAX {
            return Err(Error::BadRequest(format!(
                "a step has at most {PARTS_MAX} parts, given {of}"
            )));
        }
        if slot >= of {
            return Err(Error::BadRequest(format!(
                "slot must be below {of}, the parts of the step, given {slot}"
            )));
        }
        if self.filled == 0 {
            self.slots.clear();
            self.slots.resize_with(of as usize, || None);
        }
        let parts = self.slots.len();
        if parts != of as usize {
            return Err(Error::BadRequest(format!(
                "the step under way has {parts} parts, given one of {of}"
            )));
        }
        let held = &mut self.slots[slot as usize];
        if held.is_some() {
            return Ok(Put::Taken);
        }
        *held = Some(part);
        self.filled += 1;
        if self.filled < parts {
            return Ok(Put::Waits);
        }
        self.last = Some(slot);
        Ok(Put::Complete)
    }

    /// Returns whether a slot of the step under way is filled.
    pub(crate) fn holds(&self, slot: u32) -> bool {
        self.filled > 0 && self.slots.get(slot as usize).is_some_and(Option::is_some)
    }

    /// Returns the slot that the latest step waited for longest.
    pub(crate) fn last(&self) -> Option<u32> {
        self.last
    }

    /// Returns the parts that are there.
    pub(crate) fn standing(&self) -> Vec<PartStanding> {
        let of = self.slots.len() as u32;
        let parts = self.slots.iter().zip(0..).filter(|_| self.filled > 0);
        let part = |(part, slot): (&Option<Part>, u32)| {
            part.as_ref().map(|part| PartStanding {
                place: Contribution { slot, of },
                batch: part.batch,
                batches: part.batches,
                selection: Arc::clone(&part.resolved.selection),
                values: part.values.clone(),
            })
        };
        parts.filter_map(part).collect()
    }

    /// Takes all parts out, by slot.
    pub(crate) fn take(&mut self) -> Vec<Part> {
        self.filled = 0;
        self.slots.drain(..).flatten().collect()
    }
}

/// Returns the mean of the parts of a step: what it updates, and the gradients. A part that does not name something
/// counts as zeros there, so that the mean is that of one batch that holds all of them.
pub(crate) fn mean(parts: &[Part]) -> (Resolved, Vec<f32>) {
    let mut merged = Resolved::default();
    let mut selection = Selection::default();
    let mut values = Vec::new();
    let whole = by_number(parts, |part| (0, part.resolved.whole_lengths().collect()));
    for Named { number, places } in whole {
        let (part, place, begin) = places[0];
        let slice = &parts[part].resolved.whole[place];
        let out = extend(&mut values, slice.len());
        out.copy_from_slice(&parts[part].values[begin..begin + slice.len()]);
        for &(part, _, begin) in &places[1..] {
            add(out, &parts[part].values[begin..begin + slice.len()]);
        }
        selection.whole.push(number);
        merged.whole.push(Arc::clone(slice));
    }
    let rows = by_number(parts, |part| {
        (
            sum(part.resolved.whole_lengths()),
            part.resolved.row_lengths().collect(),
        )
    });
    for Named { number, places } in rows {
        let named = |part: usize, place: usize| {
            let selection = &parts[part].resolved.selection;
            selection.row_sets[selection.rows[place].1].as_slice()
        };
        let slice = &parts[places[0].0].resolved.rows[places[0].1];
        let union = sum_by_key(parts, &places, slice.width, named, &mut values);
        selection.rows.push((number, selection.row_sets.len()));
        selection.row_sets.push(union);
        merged.rows.push(Arc::clone(slice));
    }
    let ids = by_number(parts, |part| {
        let before = part
            .resolved
            .whole_lengths()
            .chain(part.resolved.row_lengths());
        (sum(before), part.resolved.id_lengths().collect())
    });
    for Named { number, places } in ids {
        let named = |part: usize, place: usize| {
            let selection = &parts[part].resolved.selection;
            selection.id_sets[selection.ids[place].1].as_slice()
        };
        let slice = &parts[places[0].0].resolved.ids[places[0].1];
        let union = sum_by_key(parts, &places, slice.width, named, &mut values);
        selection.ids.push((number, selection.id_sets.len()));
        selection.id_sets.push(union);
        merged.ids.push(Arc::clone(slice));
    }
    let share = 1.0 / parts.len().max(1) as f32;
    values.iter_mut().for_each(|value| *value *= share);
    merged.selection = Arc::new(selection);
    (merged, values)
}

/// A slice, and where each part names it: part, place among its kind, begin of its values.
struct Named {
    number: u32,
    places: Vec<(usize, usize, usize)>,
}

/// Puts together what the parts name of one kind, by slice number and then by slot. `lengths` tells where the values of
/// that kind begin in a part, and the numbers and lengths of what it names.
fn by_number(parts: &[Part], lengths: impl Fn(&Part) -> (usize, Vec<(u32, usize)>)) -> Vec<Named> {
    let mut found: Vec<(u32, (usize, usize, usize))> = Vec::new();
    for (slot, part) in parts.iter().enumerate() {
        let (mut begin, named) = lengths(part);
        for (place, (number, length)) in named.into_iter().enumerate() {
            found.push((number, (slot, place, begin)));
            begin += length;
        }
    }
    found.sort_by_key(|(number, (slot, ..))| (*number, *slot));
    let groups = found.chunk_by(|one, next| one.0 == next.0);
    let named = |group: &[(u32, (usize, usize, usize))]| Named {
        number: group[0].0,
        places: group.iter().map(|(_, place)| *place).collect(),
    };
    groups.map(named).collect()
}

fn sum(lengths: impl Iterator<Item = (u32, usize)>) -> usize {
    lengths.map(|(_, length)| length).sum()
}

/// Sums rows that several parts name, each in the order of the slots. Appends the sums to `values` and returns the
/// rows, ascending.
fn sum_by_key<'a, K: Ord + Copy + 'a>(
    parts: &'a [Part],
    places: &[(usize, usize, usize)],
    width: usize,
    named: impl Fn(usize, usize) -> &'a [K],
    values: &mut Vec<f32>,
) -> Vec<K> {
    let union = union_of_keys(places.iter().map(|&(part, place, _)| named(part, place)));
    let sums = extend(values, union.len() * width);
    for &(part, place, begin) in places {
        add_by_key(
            &union,
            sums,
            named(part, place),
            &parts[part].values[begin..],
            width,
        );
    }
    union
}

fn extend(values: &mut Vec<f32>, count: usize) -> &mut [f32] {
    let begin = values.len();
    values.resize(begin + count, 0.0);
    &mut values[begin..]
}

fn add(sum: &mut [f32], values: &[f32]) {
    sum.iter_mut()
        .zip(values)
        .for_each(|(sum, value)| *sum += value);
}
