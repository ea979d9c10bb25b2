//! The values and slots of one slice, and how gradients are applied to them.

use std::ops::Range;
use std::sync::atomic::Ordering;

use rayon::iter::{
    IndexedParallelIterator as _, IntoParallelRefIterator as _, ParallelIterator as _,
};
use trainyard_optimizer::{OptimizerConfig, SLOTS_MAX};
use trainyard_variable::InitialRows;

use crate::memory::grow;
use crate::stripe::{Rows, SliceValues, Stripe};
use crate::sync::{AtomicU64, RwLock};
use crate::{Error, Gradients};

/// Values of a stripe, nearly: 508 KiB of them. Small enough that no reader waits for long, large enough that a step
/// which reads a few rows of each of many small tables takes one lock a table. Of 512 KiB the allocator makes 640.
const STRIPE_VALUES: usize = 127 << 10;
/// Values that are updated at once: gradients that had to be copied are still in the first cache then.
const BLOCK_VALUES: usize = 4 << 10;
/// Rows that are fetched before they are used: as many as a first cache has room for, with their slots.
const FETCH_ROWS: usize = 64;
/// Values of a slice from which the stripes of one push are updated side by side.
const PARALLEL_VALUES: usize = 4 << 20;
/// Stripes of a small slice: as soon as one of its rows is changed, all rows of that stripe are held. To look up where a row
/// lies costs more than the memory is worth.
const SMALL_STRIPES: usize = 8;

/// One slice, in stripes of rows with a lock each. A lock covers values and slots of its rows, so that no reader sees
/// half of a row's update, and pushes to other rows go on beside.
#[derive(Debug)]
pub(crate) struct Slice {
    pub(crate) variable: usize,
    pub(crate) part: usize,
    pub(crate) rows: Range<usize>,
    pub(crate) width: usize,
    pub(crate) optimizer: OptimizerConfig,
    /// What rows have that nobody has changed.
    pub(crate) first: InitialRows,
    /// The same of each slot.
    pub(crate) first_slots: Vec<f32>,
    /// Rows of a stripe from which on all of them are held.
    all_from: usize,
    stripes: Vec<RwLock<Stripe>>,
    /// Rows of a stripe; the last one has what is left.
    in_stripe: usize,
    /// Updates that are over, from 1. Counted behind an update, never before: who reads the count first and values
    /// after it has at least what it stands for.
    updates: AtomicU64,
    /// Bytes that are set aside for a checkpoint.
    aside: AtomicU64,
    /// Rows that are held.
    held: AtomicU64,
    /// Bytes that they take, with their slots.
    bytes: AtomicU64,
}

/// What a slice is made of.
#[derive(Debug)]
pub(crate) struct Parts {
    pub(crate) variable: usize,
    pub(crate) part: usize,
    pub(crate) rows: Range<usize>,
    pub(crate) width: usize,
    pub(crate) optimizer: OptimizerConfig,
    pub(crate) first: InitialRows,
}

/// Returns how many rows of a slice of `rows` rows a stripe of `in_stripe` may hold without holding all of its rows.
pub(crate) fn listed_max(rows: usize, width: usize, in_stripe: usize) -> usize {
    let stripes = rows.div_ceil(rows_of_stripe(width));
    // Beyond half of the rows the memory that the list takes is more than that of the others.
    if stripes > SMALL_STRIPES {
        in_stripe / 2
    } else {
        0
    }
}

/// Returns the rows of a stripe.
pub(crate) fn rows_of_stripe(width: usize) -> usize {
    (STRIPE_VALUES / width.max(1)).max(1)
}

/// Returns the rows of each stripe of a slice of `rows` rows, counted from 0.
pub(crate) fn stripe_rows(rows: usize, width: usize) -> impl Iterator<Item = Range<usize>> {
    let most = rows_of_stripe(width);
    (0..rows.div_ceil(most)).map(move |stripe| stripe * most..((stripe + 1) * most).min(rows))
}

impl Slice {
    /// Returns the slice that holds `stripes`, each of the rows that [`stripe_rows`] gives it.
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

    /// Returns the count of updates: as long as it stays the same, so do the values.
    pub(crate) fn updates(&self) -> u64 {
        self.updates.load(Ordering::Acquire)
    }

    /// Counts on from where nobody has ever seen the count: of other values, that is.
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

    /// Copies rows from place `begin` on into the front of `out`, as many as fit and lie in one stripe. Returns the
    /// number of their values and their own.
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

    /// Copies the values of checked `rows`; `out` is as long as they are.
    pub(crate) fn read_rows(&self, rows: &[u32], out: &mut [f32]) {
        if self.width == 0 {
            return;
        }
        // Places among `rows` of those that are not held. They are computed when no lock is held.
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

    /// Calls `each` with every stripe that holds some of `rows`, and those rows.
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

    /// Applies a gradient of the whole slice, which lies from `begin` on in `gradients`. `step` counts from 1.
    pub(crate) fn apply_whole<G: Gradients + ?Sized>(
        &self,
        step: u64,
        gradients: &G,
        begin: usize,
    ) {
        let stripe_values = self.width * self.in_stripe;
        let apply = |(place, stripe): (usize, &RwLock<Stripe>), scratch: &mut Vec<f32>| {
            let stripe = &mut *stripe.write();
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

    /// Applies a gradient of checked rows, which lies from `begin` on in `gradients`.
    pub(crate) fn apply_rows<G: Gradients + ?Sized>(
        &self,
        step: u64,
        rows: &[u32],
        gradients: &G,
        begin: usize,
        scratch: &mut Scratch,
    ) {
        let mut from = begin;
        let mut apply = |stripe: usize, rows: &[u32]| {
            scratch.places.clear();
            let begin = self.stripe_begin(stripe) as u32;
            scratch.places.extend(rows.iter().map(|row| row - begin));
            let length = rows.len() * self.width;
            let gradient = gradients.get(from..from + length, &mut scratch.gradient);
            from += length;
            let number = stripe;
            let stripe = &mut *self.stripes[number].write();
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
            self.optimizer.apply_rows(
                step,
                self.width,
                places,
                values,
                &mut slots[..count],
                gradient,
            );
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

    /// The instant of a checkpoint: what changes from now on is set aside, until the stripe is read by
    /// [`Slice::take`].
    pub(crate) fn cut(&self) {
        self.stripes
            .iter()
            .for_each(|stripe| stripe.write().cut(self.width));
    }

    /// Returns the rows that a checkpoint has to hold, as ranges of rows of the variable, ascending: from its instant on
    /// until it is read they are the same.
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

    /// Copies the rows of a stripe that are held, as they were at the instant of the checkpoint, which is then done with it.
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
        // All rows together take less than each of them by itself.
        match after.checked_sub(before) {
            Some(0) => {}
            Some(added) => drop(self.aside.fetch_add(added, Ordering::Relaxed)),
            None => drop(self.aside.fetch_sub(before - after, Ordering::Relaxed)),
        }
    }

    /// Returns the bytes that are set aside for a checkpoint.
    pub(crate) fn aside_bytes(&self) -> u64 {
        self.aside.load(Ordering::Relaxed)
    }

    /// Has a stripe hold these rows, and turns their numbers into their places.
    fn hold_rows(&self, number: usize, stripe: &mut Stripe, rows: &mut [u32]) {
        let Rows::Listed(places) = &stripe.rows else {
            return;
        };
        // Mostly there is room for as many, and none needs to be looked up before.
        let fits = places.len() + rows.len() <= self.all_from || {
            let new = rows.iter().filter(|row| !places.contains_key(row)).count();
            new == 0 || places.len() + new <= self.all_from
        };
        if fits {
            self.list_rows(number, stripe, rows);
        } else {
            self.hold_all(number, stripe);
        }
    }

    /// The same of a stripe that lists the rows which it holds.
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

    /// Has a stripe hold all of its rows, those too that nobody has changed.
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
        // Where all are listed, none is computed.
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
        // A list may take more than the array that it turns into.
        match stripe.bytes().checked_sub(bytes) {
            Some(more) => self.bytes.fetch_add(more, Ordering::Relaxed),
            None => self
                .bytes
                .fetch_sub(bytes - stripe.bytes(), Ordering::Relaxed),
        };
    }

    /// Returns the bytes of the rows that are held, with their slots.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Returns the number of rows that are held.
    pub(crate) fn held(&self) -> usize {
        self.held.load(Ordering::Relaxed) as usize
    }

    /// Returns the most bytes by which it may grow.
    pub(crate) fn growth_max(&self) -> u64 {
        self.row_bytes(self.rows.len()).saturating_sub(self.bytes())
    }

    /// Returns the bytes by which a push of these rows makes it grow.
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
            let then = if places.len() + new > self.all_from {
                self.row_bytes(self.stripe_len(number))
            } else {
                // Lists grow by half of themselves.
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

    /// Returns the bytes of so many rows, with their slots.
    pub(crate) fn row_bytes(&self, rows: usize) -> u64 {
        (rows * self.width * (1 + self.optimizer.slots().len()) * 4) as u64
    }

    /// Forgets the checkpoint.
    pub(crate) fn forget(&self) {
        for stripe in &self.stripes {
            let mut stripe = stripe.write();
            self.aside
                .fetch_sub(stripe.aside_bytes(), Ordering::Relaxed);
            stripe.forget();
        }
    }
}

/// Reads the ends of rows and nothing more. Rows of a large table are hardly ever in a cache; looked at one behind the
/// other they come from memory many at a time, where updating or copying each as it comes would wait for each.
fn fetch(values: &[f32], begins: impl Iterator<Item = usize>, width: usize) {
    if width > 0 {
        let ends =
            begins.map(|begin| values[begin].to_bits() | values[begin + width - 1].to_bits());
        std::hint::black_box(ends.fold(0, |seen, bits| seen | bits));
    }
}

/// Memory that one push after another uses.
#[derive(Debug, Default)]
pub(crate) struct Scratch {
    pub(crate) places: Vec<u32>,
    pub(crate) gradient: Vec<f32>,
}
