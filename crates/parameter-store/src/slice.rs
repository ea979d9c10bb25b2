//! One slice of a variable: its values and slots, and the application of gradients.

use std::ops::Range;
use std::sync::atomic::Ordering;

use rayon::iter::{
    IndexedParallelIterator as _, IntoParallelRefIterator as _, ParallelIterator as _,
};
use trainyard_optimizer::{OptimizerConfig, RowGradient, SLOTS_MAX};
use trainyard_variable::InitialRows;

use crate::extent::Extent;
use crate::gradients::GradientTail;
use crate::memory_budget::grow;
use crate::stripe::{Rows, SliceValues, Stripe};
use crate::sync::{AtomicU64, RwLock};
use crate::touched::Use;
use crate::{Error, Gradients};

/// Approximate number of values of a stripe: 508 KiB. It is small enough that no reader waits long, and large enough
/// that a step which reads a few rows of each of many small tables takes one lock for each table. For 512 KiB the
/// allocator would take 640 KiB.
const STRIPE_VALUES: usize = 127 << 10;
/// Values that are updated in one block, so that gradients that were copied are still in the L1 cache.
const BLOCK_VALUES: usize = 4 << 10;
/// Rows that are prefetched together: as many as fit into the L1 cache with their slots.
const FETCH_ROWS: usize = 64;
/// Values of a slice from which on a push updates its stripes in parallel.
const PARALLEL_VALUES: usize = 4 << 20;
/// Most stripes of a small slice. A stripe of a small slice holds all of its rows as soon as one of them changes:
/// looking up places would cost more than the memory is worth.
const SMALL_STRIPES: usize = 8;

/// One slice, in stripes of rows with one lock each. A lock covers the values and slots of its rows, so that no reader
/// sees a partly updated row, while pushes to other stripes proceed.
#[derive(Debug)]
pub(crate) struct Slice {
    pub(crate) variable: usize,
    pub(crate) part: usize,
    pub(crate) rows: Range<usize>,
    pub(crate) width: usize,
    pub(crate) optimizer: OptimizerConfig,
    /// Initial values of rows that have not changed.
    pub(crate) first: InitialRows,
    /// Initial value of each slot.
    pub(crate) first_slots: Vec<f32>,
    /// Most rows that a stripe lists. A stripe with more of them holds all of its rows.
    all_from: usize,
    stripes: Vec<RwLock<Stripe>>,
    /// Rows of a stripe; the last stripe may have fewer.
    in_stripe: usize,
    /// Number of finished updates, from 1. It is increased after an update, never before: a reader that reads first the
    /// count and then the values has values that are at least as recent as the count.
    updates: AtomicU64,
    /// Bytes of copy-on-write copies for a checkpoint.
    aside: AtomicU64,
    /// Number of held rows.
    held: AtomicU64,
    /// Bytes of the held rows, with their slots.
    bytes: AtomicU64,
}

/// Arguments of [`Slice::new`].
#[derive(Debug)]
pub(crate) struct Parts {
    pub(crate) variable: usize,
    pub(crate) part: usize,
    pub(crate) rows: Range<usize>,
    pub(crate) width: usize,
    pub(crate) optimizer: OptimizerConfig,
    pub(crate) first: InitialRows,
}

/// Returns the most rows that a stripe of `in_stripe` rows may list, in a slice of `rows` rows.
pub(crate) fn listed_max(rows: usize, width: usize, in_stripe: usize) -> usize {
    let stripes = rows.div_ceil(rows_of_stripe(width));
    // Beyond half of the rows, the list takes more memory than the rows that it saves.
    if stripes > SMALL_STRIPES {
        in_stripe / 2
    } else {
        0
    }
}

/// Returns the number of rows of a full stripe.
pub(crate) fn rows_of_stripe(width: usize) -> usize {
    (STRIPE_VALUES / width.max(1)).max(1)
}

/// Returns the rows of each stripe of a slice of `rows` rows, counted from 0.
pub(crate) fn stripe_rows(rows: usize, width: usize) -> impl Iterator<Item = Range<usize>> {
    let most = rows_of_stripe(width);
    (0..rows.div_ceil(most)).map(move |stripe| stripe * most..((stripe + 1) * most).min(rows))
}

impl Slice {
    /// Returns a slice of `stripes`, which must have the rows that [`stripe_rows`] returns.
    pub(crate) fn new(parts: Parts, stripes: impl IntoIterator<Item = Stripe>) -> Self {
        let Parts {
            variable,
            part,
            rows,
            width,
            optimizer,
            first,
        } = parts;
        let stripes: Vec<Stripe> = stripes.into_iter().collect();
        let held: usize = stripes.iter().map(|stripe| stripe.held(width)).sum();
        let bytes: u64 = stripes.iter().map(Stripe::bytes).sum();
        let first_slots = optimizer.slots().iter().map(|slot| slot.initial).collect();
        Self {
            variable,
            part,
            width,
            optimizer,
            first,
            first_slots,
            all_from: listed_max(rows.len(), width, rows_of_stripe(width)),
            stripes: stripes.into_iter().map(RwLock::new).collect(),
            in_stripe: rows_of_stripe(width),
            updates: AtomicU64::new(1),
            aside: AtomicU64::new(0),
            held: AtomicU64::new(held as u64),
            bytes: AtomicU64::new(bytes),
            rows,
        }
    }

    /// Returns the number of values.
    pub(crate) fn len(&self) -> usize {
        self.rows.len() * self.width
    }

    /// Returns the number of updates. While it stays the same, so do the values.
    pub(crate) fn updates(&self) -> u64 {
        self.updates.load(Ordering::Acquire)
    }

    /// Sets the number of updates to one that no reader has seen, because the values are different ones.
    pub(crate) fn count_from(&self, updates: u64) {
        self.updates.store(updates, Ordering::Release);
    }

    /// Checks that `rows` ascend strictly and lie within the slice.
    pub(crate) fn check_rows(&self, number: u32, rows: &[u32]) -> Result<(), Error> {
        if let Some(pair) = rows.windows(2).find(|pair| pair[0] >= pair[1]) {
            let message = format!(
                "rows of slice {number} must ascend, given {} before {}",
                pair[0], pair[1]
            );
            return Err(Error::BadRequest(message));
        }
        let outside = rows
            .first()
            .into_iter()
            .chain(rows.last())
            .find(|&&row| !self.rows.contains(&(row as usize)));
        match outside {
            Some(row) => {
                let Range { start, end } = self.rows;
                Err(Error::BadRequest(format!(
                    "rows of slice {number} must lie in {start}..{end}, given {row}"
                )))
            }
            None => Ok(()),
        }
    }

    /// Copies rows from index `begin` on into the front of `out`, as many as fit and lie in one stripe. Returns the
    /// number of values and the number of rows.
    pub(crate) fn read_whole(&self, begin: usize, out: &mut [f32]) -> (usize, usize) {
        if self.len() == 0 {
            return (0, self.rows.len() - begin);
        }
        let in_stripe = begin % self.in_stripe;
        let stripe = begin / self.in_stripe;
        let rows = (out.len() / self.width).min(self.stripe_len(stripe) - in_stripe);
        let count = rows * self.width;
        let out = &mut out[..count];
        let state = self.stripes[stripe].read();
        match &state.rows {
            Rows::All => out.copy_from_slice(&state.now.values[in_stripe * self.width..][..count]),
            Rows::Listed(places) => {
                let begin = self.rows.start + begin;
                self.first
                    .fill_rows((begin..begin + rows).map(|row| row as u64), out);
                for (row, place) in places {
                    if let Some(row) = (*row as usize)
                        .checked_sub(in_stripe)
                        .filter(|row| *row < rows)
                    {
                        let place = *place as usize * self.width;
                        let values = &state.now.values[place..place + self.width];
                        out[row * self.width..][..self.width].copy_from_slice(values);
                    }
                }
            }
        }
        (count, rows)
    }

    /// Returns the number of rows of a stripe.
    fn stripe_len(&self, stripe: usize) -> usize {
        (self.rows.len() - stripe * self.in_stripe).min(self.in_stripe)
    }

    /// Returns the first row of a stripe.
    fn stripe_begin(&self, stripe: usize) -> usize {
        self.rows.start + stripe * self.in_stripe
    }

    /// Copies the values of checked `rows` into `out`, which must be exactly as long.
    pub(crate) fn read_rows(&self, rows: &[u32], out: &mut [f32]) {
        if self.width == 0 {
            return;
        }
        // Indices into `rows` of those that are not held. Their values are computed while no lock is held.
        let mut absent: Vec<usize> = Vec::new();
        let mut done = 0;
        self.by_stripe(rows, |stripe, rows| {
            let begin = self.stripe_begin(stripe) as u32;
            let state = self.stripes[stripe].read();
            let out = &mut out[done * self.width..][..rows.len() * self.width];
            match &state.rows {
                Rows::All => {
                    let mut out = out.chunks_exact_mut(self.width);
                    let place = |row: &u32| (row - begin) as usize * self.width;
                    for rows in rows.chunks(FETCH_ROWS) {
                        fetch(&state.now.values, rows.iter().map(place), self.width);
                        for (place, out) in rows.iter().map(place).zip(&mut out) {
                            out.copy_from_slice(&state.now.values[place..place + self.width]);
                        }
                    }
                }
                Rows::Listed(places) => {
                    for (at, (row, out)) in rows
                        .iter()
                        .zip(out.chunks_exact_mut(self.width))
                        .enumerate()
                    {
                        match places.get(&(row - begin)) {
                            Some(place) => {
                                let place = *place as usize * self.width;
                                out.copy_from_slice(&state.now.values[place..place + self.width]);
                            }
                            None => absent.push(done + at),
                        }
                    }
                }
            }
            done += rows.len();
        });
        if !absent.is_empty() {
            let mut first = vec![0.0; absent.len() * self.width];
            self.first
                .fill_rows(absent.iter().map(|at| rows[*at].into()), &mut first);
            for (at, values) in absent.iter().zip(first.chunks_exact(self.width)) {
                out[at * self.width..][..self.width].copy_from_slice(values);
            }
        }
    }

    /// Calls `each` with every stripe that contains some of `rows`, and with those rows.
    fn by_stripe<'a>(&self, rows: &'a [u32], mut each: impl FnMut(usize, &'a [u32])) {
        let mut rest = rows;
        while let Some(first) = rest.first() {
            let stripe = (*first as usize - self.rows.start) / self.in_stripe;
            let end = self.stripe_begin(stripe + 1);
            let here = rest.iter().take_while(|row| (**row as usize) < end).count();
            let (here, later) = rest.split_at(here);
            each(stripe, here);
            rest = later;
        }
    }

    /// Applies a gradient of the whole slice, which starts at `begin` in `gradients`. `step` counts from 1.
    pub(crate) fn apply_whole<G: Gradients + ?Sized>(
        &self,
        step: u64,
        gradients: &G,
        begin: usize,
    ) {
        let stripe_values = self.width * self.in_stripe;
        let apply = |(place, stripe): (usize, &RwLock<Stripe>), scratch: &mut Vec<f32>| {
            let stripe = &mut *stripe.write();
            stripe.touched.insert_all();
            self.hold_all(place, stripe);
            self.set_aside(stripe, |stripe| stripe.set_all_aside(self.width));
            let state = &mut stripe.now;
            let mut done = 0;
            let length = state.values.len();
            while done < length {
                let block = done..(done + BLOCK_VALUES).min(length);
                let from = begin + place * stripe_values;
                let gradient = gradients.get(from + block.start..from + block.end, scratch);
                let mut slots: [&mut [f32]; SLOTS_MAX] = Default::default();
                let held = state.slots.iter_mut().map(|slot| &mut slot[block.clone()]);
                let count = slots
                    .iter_mut()
                    .zip(held)
                    .map(|(slot, held)| *slot = held)
                    .count();
                let values = &mut state.values[block.clone()];
                self.optimizer
                    .apply_dense(step, values, &mut slots[..count], gradient);
                done = block.end;
            }
        };
        if self.len() >= PARALLEL_VALUES {
            self.stripes
                .par_iter()
                .enumerate()
                .for_each_init(Vec::new, |scratch, stripe| apply(stripe, scratch));
        } else {
            let mut scratch = Vec::new();
            self.stripes
                .iter()
                .enumerate()
                .for_each(|stripe| apply(stripe, &mut scratch));
        }
        self.updates.fetch_add(1, Ordering::Release);
    }

    /// Applies a gradient of checked `rows`.
    pub(crate) fn apply_rows<G: Gradients + ?Sized>(
        &self,
        step: u64,
        rows: &[u32],
        gradient: GradientTail<'_, G>,
        scratch: &mut Scratch,
    ) {
        let GradientTail {
            gradients,
            begin: mut from,
        } = gradient;
        let mut apply = |stripe: usize, rows: &[u32]| {
            scratch.places.clear();
            let begin = self.stripe_begin(stripe) as u32;
            scratch.places.extend(rows.iter().map(|row| row - begin));
            let length = rows.len() * self.width;
            let gradient = gradients.get(from..from + length, &mut scratch.gradient);
            from += length;
            let number = stripe;
            let stripe = &mut *self.stripes[number].write();
            if self.optimizer.moves_all_rows() {
                stripe.touched.insert_all();
            } else {
                stripe.touched.insert(&scratch.places);
            }
            self.hold_rows(number, stripe, &mut scratch.places);
            if self.optimizer.moves_all_rows() {
                self.set_aside(stripe, |stripe| stripe.set_all_aside(self.width));
            } else {
                self.set_aside(stripe, |stripe| {
                    stripe.set_places_aside(&scratch.places, self.width)
                });
            }
            let state = &mut stripe.now;
            let mut slots: [&mut [f32]; SLOTS_MAX] = Default::default();
            let held = state.slots.iter_mut().map(Vec::as_mut_slice);
            let count = slots
                .iter_mut()
                .zip(held)
                .map(|(slot, held)| *slot = held)
                .count();
            let places = &scratch.places;
            let values = &mut state.values;
            for places in places.chunks(FETCH_ROWS) {
                let begins = places.iter().map(|place| *place as usize * self.width);
                fetch(values, begins.clone(), self.width);
                slots[..count]
                    .iter()
                    .for_each(|slot| fetch(slot, begins.clone(), self.width));
            }
            let gradient = RowGradient {
                width: self.width,
                rows: places,
                values: gradient,
            };
            self.optimizer
                .apply_rows(step, values, &mut slots[..count], gradient);
        };
        if self.optimizer.moves_all_rows() {
            let mut rest = rows;
            for stripe in 0..self.stripes.len() {
                let end = self.stripe_begin(stripe + 1);
                let (here, later) =
                    rest.split_at(rest.partition_point(|row| (*row as usize) < end));
                apply(stripe, here);
                rest = later;
            }
        } else {
            self.by_stripe(rows, apply);
        }
        self.updates.fetch_add(1, Ordering::Release);
    }

    /// Returns the number of stripes.
    pub(crate) fn stripes(&self) -> usize {
        self.stripes.len()
    }

    /// Marks the instant of a checkpoint. From now on rows are copied before they change, until [`Slice::take`] reads
    /// their stripe.
    pub(crate) fn cut(&self, extent: Extent) {
        for stripe in &self.stripes {
            let mut stripe = stripe.write();
            let only = extent.since().map(|of| stripe.touched.since(of));
            if let Some(of) = extent.cut_of() {
                stripe.touched.cut(of);
                if of == Use::Log {
                    // A cut of the log that is lost is followed by a whole one.
                    stripe.touched.confirm(of);
                }
            }
            stripe.cut(self.width, only, extent.row_parts());
        }
    }

    /// Makes the latest cut of a use the one that increments count from.
    pub(crate) fn confirm_cut(&self, of: Use) {
        self.stripes
            .iter()
            .for_each(|stripe| stripe.write().touched.confirm(of));
    }

    /// Returns the bytes of an increment of a use, with slots, and of all held rows.
    pub(crate) fn increment_bytes(&self, of: Use) -> (u64, u64) {
        let rows = |(number, stripe): (usize, &RwLock<Stripe>)| {
            let stripe = stripe.read();
            stripe.touched.count(of, self.stripe_len(number))
        };
        let touched = self.stripes.iter().enumerate().map(rows).sum();
        (self.row_bytes(touched), self.row_bytes(self.held()))
    }

    /// Makes the values of now those of the latest cut of the log.
    pub(crate) fn begin_log_cut(&self) {
        for stripe in &self.stripes {
            let _ = stripe.write().touched.take(Use::Log);
        }
    }

    /// Replaces values and slots of `rows`, which ascend, by those of a cut of the log.
    ///
    /// # Errors
    /// The rows do not lie in the slice, or values or slots are not as many.
    pub(crate) fn lay_over(
        &self,
        number: u32,
        rows: &[u32],
        parts: &[&[f32]],
    ) -> Result<(), Error> {
        self.check_rows(number, rows)?;
        let length = rows.len() * self.width;
        let fits = parts.len() == 1 + self.first_slots.len()
            && parts.iter().all(|part| part.len() == length);
        if !fits {
            return Err(Error::Restore(format!(
                "{} rows of slice {number} do not fit it",
                rows.len()
            )));
        }
        let mut from = 0;
        let mut places: Vec<u32> = Vec::new();
        self.by_stripe(rows, |number, rows| {
            let begin = self.stripe_begin(number) as u32;
            places.clear();
            places.extend(rows.iter().map(|row| row - begin));
            let stripe = &mut *self.stripes[number].write();
            self.hold_rows(number, stripe, &mut places);
            for (to, part) in stripe.now.parts().zip(parts) {
                let values = part[from..].chunks_exact(self.width.max(1));
                for (place, values) in places.iter().zip(values) {
                    let at = *place as usize * self.width;
                    to[at..at + self.width].copy_from_slice(values);
                }
            }
            from += rows.len() * self.width;
        });
        Ok(())
    }

    /// Returns the rows that a checkpoint must write, as ranges of rows of the variable, ascending. They do not change
    /// between the instant of the checkpoint and its reading.
    pub(crate) fn held_rows(&self) -> Vec<Range<usize>> {
        let mut held: Vec<Range<usize>> = Vec::new();
        let mut add = |rows: Range<usize>| match held.last_mut() {
            Some(last) if last.end == rows.start => last.end = rows.end,
            _ => held.push(rows),
        };
        for (number, stripe) in self.stripes.iter().enumerate() {
            let begin = self.stripe_begin(number);
            let listed = stripe.read().listed();
            match listed {
                None => add(begin..begin + self.stripe_len(number)),
                Some(rows) => {
                    rows.iter()
                        .map(|(row, _)| begin + *row as usize)
                        .for_each(|row| add(row..row + 1));
                }
            }
        }
        held
    }

    /// Copies the held rows of a stripe, as they were at the instant of the checkpoint. The checkpoint then no longer
    /// needs the stripe.
    pub(crate) fn take(&self, stripe: usize, out: &mut SliceValues) {
        let mut stripe = self.stripes[stripe].write();
        stripe.read(out, self.width);
        self.aside
            .fetch_sub(stripe.aside_bytes(), Ordering::Relaxed);
        stripe.forget();
    }

    fn set_aside(&self, stripe: &mut Stripe, set: impl FnOnce(&mut Stripe)) {
        let before = stripe.aside_bytes();
        set(stripe);
        let after = stripe.aside_bytes();
        // A copy of all rows takes less memory than copies of single rows.
        match after.checked_sub(before) {
            Some(0) => {}
            Some(added) => drop(self.aside.fetch_add(added, Ordering::Relaxed)),
            None => drop(self.aside.fetch_sub(before - after, Ordering::Relaxed)),
        }
    }

    /// Returns the bytes of copy-on-write copies for a checkpoint.
    pub(crate) fn aside_bytes(&self) -> u64 {
        self.aside.load(Ordering::Relaxed)
    }

    /// Makes a stripe hold these rows, and replaces their numbers by their places.
    fn hold_rows(&self, number: usize, stripe: &mut Stripe, rows: &mut [u32]) {
        let Rows::Listed(places) = &stripe.rows else {
            return;
        };
        let most = self.listed_max_of(number);
        // Usually all rows fit even if each is new, and no lookup is needed.
        let fits = places.len() + rows.len() <= most || {
            let new = rows.iter().filter(|row| !places.contains_key(row)).count();
            new == 0 || places.len() + new <= most
        };
        if fits {
            self.list_rows(number, stripe, rows);
        } else {
            self.hold_all(number, stripe);
        }
    }

    /// Returns the most rows that a stripe may list. It differs by up to a quarter from stripe to stripe: where ids come
    /// evenly, all stripes would take up all of their rows in the same step otherwise.
    fn listed_max_of(&self, stripe: usize) -> usize {
        // Multiples of the golden ratio lie evenly, so that neighbours differ.
        let part = (stripe as u32).wrapping_mul(0x9E37_79B9) >> 24;
        self.all_from - self.all_from / 4 * part as usize / 256
    }

    /// Adds rows to a stripe that lists its rows, and replaces their numbers by their places.
    fn list_rows(&self, number: usize, stripe: &mut Stripe, rows: &mut [u32]) {
        let before = (stripe.held(self.width), stripe.bytes());
        let Rows::Listed(places) = &mut stripe.rows else {
            return;
        };
        let begin = self.stripe_begin(number);
        let mut new: Vec<u64> = Vec::new();
        for row in rows {
            let next = places.len() as u32;
            let number = *row;
            *row = *places.entry(number).or_insert_with(|| {
                new.push((begin + number as usize) as u64);
                next
            });
        }
        if new.is_empty() {
            return;
        }
        let held = places.len() * self.width;
        let from = held - new.len() * self.width;
        stripe
            .now
            .slots
            .resize_with(self.first_slots.len(), Vec::new);
        for (part, first) in stripe
            .now
            .parts()
            .zip(std::iter::once(&0.0).chain(&self.first_slots))
        {
            grow(part, held, self.all_from * self.width);
            part[from..].fill(*first);
        }
        self.first
            .fill_rows(new.into_iter(), &mut stripe.now.values[from..]);
        self.count(before, stripe);
    }

    /// Makes a stripe hold all of its rows, including unchanged ones.
    fn hold_all(&self, number: usize, stripe: &mut Stripe) {
        if matches!(stripe.rows, Rows::All) {
            return;
        }
        self.set_aside(stripe, |stripe| stripe.set_list_aside(self.width));
        let before = (stripe.held(self.width), stripe.bytes());
        let Rows::Listed(places) = &stripe.rows else {
            return;
        };
        let begin = self.stripe_begin(number);
        let rows = self.stripe_len(number);
        let mut values = vec![0.0; rows * self.width];
        // If all rows are listed, no initial values are needed.
        if places.len() < rows {
            self.first
                .fill_rows((begin..begin + rows).map(|row| row as u64), &mut values);
        }
        let slots = self
            .first_slots
            .iter()
            .map(|first| vec![*first; rows * self.width])
            .collect();
        let mut all = SliceValues { values, slots };
        let parts = std::iter::once(&stripe.now.values).chain(&stripe.now.slots);
        for (all, part) in all.parts().zip(parts) {
            for (row, place) in places {
                let place = *place as usize * self.width;
                all[*row as usize * self.width..][..self.width]
                    .copy_from_slice(&part[place..place + self.width]);
            }
        }
        (stripe.rows, stripe.now) = (Rows::All, all);
        self.count(before, stripe);
    }

    fn count(&self, (held, bytes): (usize, u64), stripe: &Stripe) {
        self.held
            .fetch_add((stripe.held(self.width) - held) as u64, Ordering::Relaxed);
        // A list may take more memory than the array that replaces it.
        match stripe.bytes().checked_sub(bytes) {
            Some(more) => self.bytes.fetch_add(more, Ordering::Relaxed),
            None => self
                .bytes
                .fetch_sub(bytes - stripe.bytes(), Ordering::Relaxed),
        };
    }

    /// Returns the bytes of the held rows, with their slots.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Returns the number of held rows.
    pub(crate) fn held(&self) -> usize {
        self.held.load(Ordering::Relaxed) as usize
    }

    /// Returns the most bytes by which the slice may grow.
    pub(crate) fn growth_max(&self) -> u64 {
        self.row_bytes(self.rows.len()).saturating_sub(self.bytes())
    }

    /// Returns the bytes by which a push of these rows makes the slice grow.
    pub(crate) fn growth(&self, rows: &[u32]) -> u64 {
        let mut growth = 0;
        self.by_stripe(rows, |number, rows| {
            let stripe = self.stripes[number].read();
            let Rows::Listed(places) = &stripe.rows else {
                return;
            };
            let begin = self.stripe_begin(number) as u32;
            let new = rows
                .iter()
                .filter(|row| !places.contains_key(&(*row - begin)))
                .count();
            let then = if places.len() + new > self.listed_max_of(number) {
                self.row_bytes(self.stripe_len(number))
            } else {
                // Listed rows are allocated in advance by half of their number.
                self.row_bytes(places.len() + places.len() / 2 + new)
                    + 18 * (places.len() + new) as u64
            };
            growth += if new > 0 {
                then.saturating_sub(stripe.bytes())
            } else {
                0
            };
        });
        growth
    }

    /// Returns the bytes of `rows` rows, with their slots.
    pub(crate) fn row_bytes(&self, rows: usize) -> u64 {
        (rows * self.width * (1 + self.optimizer.slots().len()) * 4) as u64
    }

    /// Discards the state of the checkpoint.
    pub(crate) fn forget(&self) {
        for stripe in &self.stripes {
            let mut stripe = stripe.write();
            self.aside
                .fetch_sub(stripe.aside_bytes(), Ordering::Relaxed);
            stripe.forget();
        }
    }
}

/// Prefetches rows by reading both ends of each. Rows of a large table are hardly ever in a cache. Consecutive reads
/// load many of them from memory at once, whereas updating or copying row after row would wait for each.
fn fetch(values: &[f32], begins: impl Iterator<Item = usize>, width: usize) {
    if width > 0 {
        let ends =
            begins.map(|begin| values[begin].to_bits() | values[begin + width - 1].to_bits());
        std::hint::black_box(ends.fold(0, |seen, bits| seen | bits));
    }
}

/// Buffers that are reused within a push.
#[derive(Debug, Default)]
pub(crate) struct Scratch {
    pub(crate) places: Vec<u32>,
    pub(crate) gradient: Vec<f32>,
}
