//! The micro-batches of one synchronous step, and their mean (`tf.compat.v1.train.SyncReplicasOptimizer`).
//!
//! Micro-batches are kept until every lane has one, and then summed in the order of the lanes. The sum has the same
//! bits in whatever order they arrived.

use std::collections::BTreeMap;
use std::sync::Arc;

use trainyard_variable::{add_by_key, union_of_keys};

use crate::dynamic::DynamicSlice;
use crate::selection::Resolved;
use crate::{BatchId, Error, MicroBatch, MicroBatchRecord, Selection};

/// Most lanes of a step, far above any number of tasks.
const LANES_MAX: u32 = 1 << 16;

/// A micro-batch: the gradients of one push.
#[derive(Debug)]
pub(crate) struct MicroBatchGradients {
    pub(crate) batch: BatchId,
    /// Number of its batches, from `batch` on.
    pub(crate) batches: u32,
    pub(crate) resolved: Arc<Resolved>,
    /// Gradients, in the order of the selection.
    pub(crate) values: Vec<f32>,
}

/// Outcome of adding a micro-batch.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Put {
    /// Other lanes are still missing.
    Waits,
    /// The last lane is filled: the step is complete.
    Complete,
    /// The lane was filled already, by another push of the same batch.
    Taken,
}

/// Micro-batches of the synchronous step in progress.
#[derive(Debug, Default)]
pub(crate) struct Aggregation {
    lanes_filled: Vec<Option<MicroBatchGradients>>,
    filled: usize,
    /// The last lane that was filled in the latest step.
    last: Option<u32>,
}

impl Aggregation {
    /// Adds a micro-batch to the step.
    ///
    /// # Errors
    /// The lane is out of range, or the step has another number of lanes.
    pub(crate) fn put(
        &mut self,
        place: MicroBatch,
        part: MicroBatchGradients,
    ) -> Result<Put, Error> {
        let MicroBatch { lane, lanes } = place;
        if lanes > LANES_MAX {
            return Err(Error::BadRequest(format!(
                "a step has at most {LANES_MAX} lanes, given {lanes}"
            )));
        }
        if lane >= lanes {
            return Err(Error::BadRequest(format!(
                "lane must be below {lanes}, the lanes of the step, given {lane}"
            )));
        }
        if self.filled == 0 {
            self.lanes_filled.clear();
            self.lanes_filled.resize_with(lanes as usize, || None);
        }
        let parts = self.lanes_filled.len();
        if parts != lanes as usize {
            return Err(Error::BadRequest(format!(
                "the step in progress has {parts} lanes, given a micro-batch of {lanes}"
            )));
        }
        let held = &mut self.lanes_filled[lane as usize];
        if held.is_some() {
            return Ok(Put::Taken);
        }
        *held = Some(part);
        self.filled += 1;
        if self.filled < parts {
            return Ok(Put::Waits);
        }
        self.last = Some(lane);
        Ok(Put::Complete)
    }

    /// Returns whether a lane of the step in progress is filled.
    pub(crate) fn holds(&self, lane: u32) -> bool {
        self.filled > 0
            && self
                .lanes_filled
                .get(lane as usize)
                .is_some_and(Option::is_some)
    }

    /// Returns the lane for which the latest step waited longest.
    pub(crate) fn last(&self) -> Option<u32> {
        self.last
    }

    /// Returns the micro-batches that have arrived.
    pub(crate) fn metadata(&self) -> Vec<MicroBatchRecord> {
        let lanes = self.lanes_filled.len() as u32;
        let parts = self
            .lanes_filled
            .iter()
            .zip(0..)
            .filter(|_| self.filled > 0);
        let part = |(part, lane): (&Option<MicroBatchGradients>, u32)| {
            part.as_ref().map(|part| MicroBatchRecord {
                place: MicroBatch { lane, lanes },
                batch: part.batch,
                batches: part.batches,
                selection: Arc::clone(&part.resolved.selection),
                values: part.values.clone(),
            })
        };
        parts.filter_map(part).collect()
    }

    /// Removes and returns all micro-batches, in the order of their lanes.
    pub(crate) fn take(&mut self) -> Vec<MicroBatchGradients> {
        self.filled = 0;
        self.lanes_filled.drain(..).flatten().collect()
    }
}

/// Returns the mean of the micro-batches of a step: the slices, rows and ids that it updates, and the gradients. A
/// micro-batch counts as zeros where it names nothing, so that the mean is that of one batch that holds all of them.
pub(crate) fn mean(parts: &[MicroBatchGradients]) -> (Resolved, Vec<f32>) {
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
    let mut counted: BTreeMap<u32, (&Arc<DynamicSlice>, Vec<&[u64]>)> = BTreeMap::new();
    for part in parts {
        let named = &part.resolved.selection;
        for ((number, set), slice) in named.counted.iter().zip(&part.resolved.counted) {
            let (_, sets) = counted.entry(*number).or_insert((slice, Vec::new()));
            sets.push(&named.id_sets[*set]);
        }
    }
    for (number, (slice, sets)) in counted {
        let mut union = union_of_keys(sets.into_iter());
        // The micro-batches of a step read the same values, so that an id has a gradient in all of them, or in none.
        let with_gradient = selection.ids_of(number);
        union.retain(|id| with_gradient.binary_search(id).is_err());
        selection.counted.push((number, selection.id_sets.len()));
        selection.id_sets.push(union);
        merged.counted.push(Arc::clone(slice));
    }
    let share = 1.0 / parts.len().max(1) as f32;
    values.iter_mut().for_each(|value| *value *= share);
    merged.selection = Arc::new(selection);
    (merged, values)
}

/// A slice, and where each micro-batch names it: index of the micro-batch, index among the slices of its kind, start of
/// the values.
struct Named {
    number: u32,
    places: Vec<(usize, usize, usize)>,
}

/// Groups the slices of one kind that the micro-batches name, by slice number and then by lane. `lengths` returns the
/// position at which the values of that kind start in a micro-batch, and the number and length of each slice.
fn by_number(
    parts: &[MicroBatchGradients],
    lengths: impl Fn(&MicroBatchGradients) -> (usize, Vec<(u32, usize)>),
) -> Vec<Named> {
    let mut found: Vec<(u32, (usize, usize, usize))> = Vec::new();
    for (lane, part) in parts.iter().enumerate() {
        let (mut begin, named) = lengths(part);
        for (place, (number, length)) in named.into_iter().enumerate() {
            found.push((number, (lane, place, begin)));
            begin += length;
        }
    }
    found.sort_by_key(|(number, (lane, ..))| (*number, *lane));
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

/// Sums the rows that several micro-batches name, each in the order of the lanes. Appends the sums to `values` and
/// returns the keys of the rows, ascending.
fn sum_by_key<'a, K: Ord + Copy + 'a>(
    parts: &'a [MicroBatchGradients],
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
