//! Reading a slice of a dynamic table for a checkpoint, while training goes on.
//!
//! The slice is written in the order of ids. First, each place is assigned to the part of the id range that its id
//! belongs to. Then part after part is copied and sorted. The slice is thus examined a few places at a time, and only
//! one part is held twice.

use std::ops::Range;

use trainyard_variable::{Candidate, DynamicRows, Idle};

use super::copy_on_write::Seen;
use super::{CANDIDATE_BYTES, DynamicSlice, ROW_BYTES};
use crate::SliceValues;
use crate::lru::Timestamp;

/// Places that are examined, or copied, at a time. A push waits no longer than for these.
const PLACES_AT_ONCE: usize = 4 << 10;
/// Approximate bytes of a part.
const PART_BYTES: u64 = 4 << 20;
/// Bytes of a place in the lists of the parts.
const PLACE_BYTES: u64 = 4;
/// Most parts, because their lists take memory, too.
const PARTS_MAX: u64 = 4 << 10;

/// A range of ids, divided into parts of equal length.
#[derive(Debug)]
struct Parts {
    ids: Range<u128>,
    /// Ids of a part.
    length: u128,
}

impl Parts {
    fn of(ids: Range<u128>, count: u64) -> Self {
        let length = (ids.end - ids.start)
            .div_ceil(u128::from(count.max(1)))
            .max(1);
        Self { ids, length }
    }

    fn count(&self) -> usize {
        (self.ids.end - self.ids.start).div_ceil(self.length) as usize
    }

    fn part_of(&self, id: u64) -> usize {
        let behind = u128::from(id).saturating_sub(self.ids.start);
        // A single part of all ids has no id after it. Otherwise both numbers fit 64 bits, whose division is faster.
        match u64::try_from(self.length) {
            Ok(length) => (behind as u64 / length) as usize,
            Err(_) => 0,
        }
    }

    /// Returns the first id after a part. `None` after the last part.
    fn end(&self, part: usize) -> Option<u64> {
        let end = self.ids.start + (part as u128 + 1) * self.length;
        u64::try_from(end)
            .ok()
            .filter(|end| u128::from(*end) < self.ids.end)
    }
}

/// The rows of a part as they were read, in no order.
#[derive(Debug, Default)]
struct Taken {
    /// Ids and last uses. Values and slots are in the same order.
    rows: Vec<(u64, Timestamp)>,
    values: SliceValues,
    candidates: Vec<Seen>,
}

impl Taken {
    /// Returns the rows in ascending order of id, with their idle times at `now`.
    fn into_rows(mut self, now: Timestamp, width: usize) -> DynamicRows {
        let idle = |used: &Timestamp| Idle {
            pushes: now.pushes.saturating_sub(used.pushes),
            secs: now.secs.saturating_sub(used.secs).max(0) as u64,
        };
        let mut order: Vec<u32> = (0..self.rows.len() as u32).collect();
        order.sort_unstable_by_key(|row| self.rows[*row as usize].0);
        let gather = |buffer: Vec<f32>| {
            let mut out = Vec::with_capacity(buffer.len());
            for row in &order {
                out.extend_from_slice(&buffer[*row as usize * width..][..width]);
            }
            out
        };
        self.candidates.sort_unstable_by_key(|seen| seen.id);
        let candidate = |seen: &Seen| Candidate {
            id: seen.id,
            idle: idle(&seen.used),
            occurrences: seen.occurrences.into(),
        };
        DynamicRows {
            ids: order.iter().map(|row| self.rows[*row as usize].0).collect(),
            idle: order
                .iter()
                .map(|row| idle(&self.rows[*row as usize].1))
                .collect(),
            values: gather(self.values.values),
            slots: self.values.slots.into_iter().map(gather).collect(),
            candidates: self.candidates.iter().map(candidate).collect(),
        }
    }
}

/// Result of one step of a [`Reader`].
#[derive(Debug)]
pub(super) enum Step {
    /// The next part is not complete yet.
    More,
    /// The next part.
    Part(DynamicRows),
    /// All parts have been returned.
    End,
}

/// Reads a slice as it was at the instant of a checkpoint, some places at a time.
#[derive(Debug)]
pub(super) struct Reader<'a> {
    slice: &'a DynamicSlice,
    parts: Parts,
    /// Places of rows, and of ids without one, by part.
    rows: Vec<Vec<u32>>,
    candidates: Vec<Vec<u32>>,
    /// Places that have been assigned to parts.
    noted: usize,
    part: usize,
    /// Places of the part that have been copied.
    copied: usize,
    taken: Taken,
}

impl<'a> Reader<'a> {
    pub(super) fn new(slice: &'a DynamicSlice, parts: u64) -> Self {
        let parts = Parts::of(slice.ids.clone(), parts);
        let lists = || vec![Vec::new(); parts.count()];
        Self {
            slice,
            rows: lists(),
            candidates: lists(),
            noted: 0,
            part: 0,
            copied: 0,
            taken: Taken::default(),
            parts,
        }
    }

    /// Performs the next step, for at most `places` places.
    pub(super) fn step(&mut self, places: usize) -> Step {
        if self.note(places) || self.copy(places) {
            return Step::More;
        }
        if self.part == self.parts.count() {
            return Step::End;
        }
        let taken = std::mem::take(&mut self.taken);
        let now = self.finish_part();
        Step::Part(taken.into_rows(now, self.slice.width))
    }

    /// Assigns the next places to the parts of their ids. Returns whether there were any.
    fn note(&mut self, places: usize) -> bool {
        let state = self.slice.state.read();
        let Some(aside) = &state.aside else {
            return false;
        };
        let most = aside.rows.places.max(aside.candidates.places) as usize;
        let next = self.noted..(self.noted + places).min(most);
        self.noted = next.end;
        for place in next.start as u32..next.end as u32 {
            let is_written = place < aside.rows.places
                && aside.only.as_ref().is_none_or(|only| only.contains(place));
            if is_written {
                let id = match aside.rows.was(place) {
                    Some(was) => was.map(|row| row.id),
                    None => state.rows.at(place).map(|(id, _)| id),
                };
                if let Some(id) = id {
                    self.rows[self.parts.part_of(id)].push(place);
                }
            }
            if place < aside.candidates.places {
                let id = match aside.candidates.was(place) {
                    Some(was) => was.map(|seen| seen.id),
                    None => state.candidates.at(place).map(|(id, _)| id),
                };
                if let Some(id) = id {
                    self.candidates[self.parts.part_of(id)].push(place);
                }
            }
        }
        !next.is_empty()
    }

    /// Copies the content of the next places of the part. Returns whether there were any.
    fn copy(&mut self, places: usize) -> bool {
        let (Some(rows), Some(candidates)) =
            (self.rows.get(self.part), self.candidates.get(self.part))
        else {
            return false;
        };
        let state = self.slice.state.read();
        let Some(aside) = &state.aside else {
            return false;
        };
        let end = (self.copied + places).min(rows.len().max(candidates.len()));
        let next = |list: &[u32]| self.copied.min(list.len())..end.min(list.len());
        let width = self.slice.width;
        let taken = &mut self.taken;
        let slots = aside.row_parts.slots(state.values.slots.len());
        taken.values.slots.resize_with(slots, Vec::new);
        for &place in &rows[next(rows)] {
            match aside.rows.was(place) {
                Some(Some(row)) => {
                    taken.rows.push((row.id, row.used));
                    let parts = row.values.chunks_exact(width.max(1));
                    taken
                        .values
                        .parts()
                        .zip(parts)
                        .for_each(|(out, part)| out.extend_from_slice(part));
                }
                Some(None) => {}
                None => {
                    taken.rows.extend(state.rows.at(place));
                    let begin = place as usize * width;
                    let parts = std::iter::once(&state.values.values).chain(&state.values.slots);
                    for (out, part) in taken.values.parts().zip(parts) {
                        out.extend_from_slice(&part[begin..begin + width]);
                    }
                }
            }
        }
        for &place in &candidates[next(candidates)] {
            match aside.candidates.was(place) {
                Some(was) => taken.candidates.extend(was),
                None => taken
                    .candidates
                    .extend(state.candidates.at(place).map(|(id, used)| Seen {
                        id,
                        used,
                        occurrences: state.occurrences[place as usize],
                    })),
            }
        }
        let copied = self.copied;
        self.copied = end;
        end > copied
    }

    /// Advances to the next part, and discards the copies of this one. Returns the instant of the checkpoint.
    fn finish_part(&mut self) -> Timestamp {
        let read = std::mem::take(&mut self.rows[self.part]);
        self.candidates[self.part] = Vec::new();
        let mut now = Timestamp::default();
        if let Some(aside) = &mut self.slice.state.write().aside {
            aside.has_read_up_to(self.parts.end(self.part));
            now = aside.now;
        }
        for places in read.chunks(PLACES_AT_ONCE) {
            if let Some(aside) = &mut self.slice.state.write().aside {
                aside.forget_rows(places);
            }
        }
        self.part += 1;
        self.copied = 0;
        now
    }
}

impl DynamicSlice {
    /// Returns the number of rows, and of ids without one, at the instant of the checkpoint.
    pub(crate) fn counts_at_cut(&self) -> (usize, usize) {
        let state = self.state.read();
        state.aside.as_ref().map_or((0, 0), |aside| {
            let rows = match &aside.only {
                Some(only) => only.count(aside.rows.ids),
                None => aside.rows.ids,
            };
            (rows, aside.candidates.ids)
        })
    }

    /// Returns the rows in use at the instant of the checkpoint.
    pub(crate) fn rows_at_cut(&self) -> usize {
        let state = self.state.read();
        state.aside.as_ref().map_or(0, |aside| aside.rows.ids)
    }

    /// Returns the ids that had lost their rows since the base at the instant of the checkpoint, ascending; `None` if the
    /// checkpoint is whole.
    pub(crate) fn gone_at_cut(&self) -> Option<Vec<u64>> {
        let state = self.state.read();
        state.aside.as_ref().and_then(|aside| aside.gone.clone())
    }

    /// Passes the slice, as it was at the instant of the checkpoint, to `each` in parts, in ascending order of id.
    /// Pushes and pulls proceed meanwhile. The slice can be read only once.
    ///
    /// # Errors
    /// The error of `each`.
    pub(crate) fn read_cut<E>(
        &self,
        each: &mut dyn FnMut(DynamicRows) -> Result<(), E>,
    ) -> Result<(), E> {
        let (rows, candidates) = self.counts_at_cut();
        let bytes =
            rows as u64 * (self.row_bytes() + ROW_BYTES) + candidates as u64 * CANDIDATE_BYTES;
        let mut reader = Reader::new(self, parts_of(bytes));
        loop {
            match reader.step(PLACES_AT_ONCE) {
                Step::More => {}
                Step::Part(rows) => each(rows)?,
                Step::End => break,
            }
        }
        self.forget_cut();
        Ok(())
    }

    /// Returns the approximate bytes that reading takes, besides copy-on-write copies.
    pub(crate) fn reading_bytes(&self) -> u64 {
        // A part is copied, and then sorted into a second buffer.
        let bytes = self.bytes();
        2 * bytes.div_ceil(parts_of(bytes)) + self.places() * PLACE_BYTES
    }
}

/// Returns the number of parts in which a slice of so many bytes is read.
fn parts_of(bytes: u64) -> u64 {
    (bytes / PART_BYTES).clamp(1, PARTS_MAX)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn every_id_lies_in_a_part_before_whose_end_it_is(
            start in 0_u128..1 << 64, length in 1_u128..1 << 64, count in 1_u64..50, place in any::<u64>(),
        ) {
            let ids = start..(start + length).min(1 << 64);
            let id = (ids.start + u128::from(place) % (ids.end - ids.start)) as u64;
            let parts = Parts::of(ids.clone(), count);
            let part = parts.part_of(id);
            prop_assert!(part < parts.count() && parts.count() as u64 <= count.max(1));
            prop_assert!(parts.end(part).is_none_or(|end| id < end));
            prop_assert!(part == 0 || parts.end(part - 1).is_some_and(|begin| id >= begin));
            prop_assert_eq!(parts.end(parts.count() - 1), None);
        }
    }

    #[test]
    fn one_part_has_every_id() {
        let parts = Parts::of(0..1 << 64, 1);
        assert_eq!(
            (parts.count(), parts.part_of(u64::MAX), parts.end(0)),
            (1, 0, None)
        );
    }
}
