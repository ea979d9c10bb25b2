//! The values and slots of one slice, and how gradients are applied to them.

use std::ops::Range;
use std::sync::atomic::Ordering;

use rayon::iter::{IndexedParallelIterator as _, IntoParallelRefIterator as _, ParallelIterator as _};
use trainyard_optimizer::{OptimizerConfig, SLOTS_MAX};

use crate::stripe::{SliceValues, Stripe};
use crate::sync::{AtomicU64, RwLock};
use crate::{Error, Gradients};

/// Values of a stripe, nearly: 512 KiB of them. Small enough that no reader waits for long, large enough that a step
/// which reads a few rows of each of many small tables takes one lock a table.
const STRIPE_VALUES: usize = 128 << 10;
/// Values that are updated at once: gradients that had to be copied are still in the first cache then.
const BLOCK_VALUES: usize = 4 << 10;
/// Rows that are fetched before they are used: as many as a first cache has room for, with their slots.
const FETCH_ROWS: usize = 64;
/// Values of a slice from which the stripes of one push are updated side by side.
const PARALLEL_VALUES: usize = 4 << 20;

/// One slice, in stripes of rows with a lock each. A lock covers values and slots of its rows, so that no reader sees
/// half of a row's update, and pushes to other rows go on beside.
#[derive(Debug)]
pub(crate) struct Slice {
    pub(crate) variable: usize,
    pub(crate) part: usize,
    pub(crate) rows: Range<usize>,
    pub(crate) width: usize,
    pub(crate) optimizer: OptimizerConfig,
    stripes: Vec<RwLock<Stripe>>,
    /// Rows of a stripe are `1 << shift`, of the last one what is left.
    shift: u32,
    /// Updates that are over, from 1. Counted behind an update, never before: who reads the count first and values
    /// after it has at least what it stands for.
    updates: AtomicU64,
    /// Bytes that are set aside for a checkpoint.
    aside: AtomicU64,
}

/// What a slice is made of.
#[derive(Debug)]
pub(crate) struct Parts {
    pub(crate) variable: usize,
    pub(crate) part: usize,
    pub(crate) rows: Range<usize>,
    pub(crate) width: usize,
    pub(crate) optimizer: OptimizerConfig,
}

/// Returns the rows of a stripe, as a power of two.
pub(crate) fn stripe_shift(width: usize) -> u32 {
    (STRIPE_VALUES / width.max(1)).max(1).ilog2()
}

/// Returns the rows of each stripe of a slice of `rows` rows, counted from 0.
pub(crate) fn stripe_rows(rows: usize, width: usize) -> impl Iterator<Item = Range<usize>> {
    let most = 1_usize << stripe_shift(width);
    (0..rows.div_ceil(most)).map(move |stripe| stripe * most..((stripe + 1) * most).min(rows))
}

impl Slice {
    /// Returns the slice that holds `stripes`, each of the rows that [`stripe_rows`] gives it.
    pub(crate) fn new(parts: Parts, stripes: impl IntoIterator<Item = SliceValues>) -> Self {
        let Parts { variable, part, rows, width, optimizer } = parts;
        let stripes = stripes.into_iter().map(|stripe| RwLock::new(Stripe::new(stripe))).collect();
        Self {
            variable,
            part,
            rows,
            width,
            optimizer,
            stripes,
            shift: stripe_shift(width),
            updates: AtomicU64::new(1),
            aside: AtomicU64::new(0),
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
            let message = format!("rows of slice {number} must ascend, given {} before {}", pair[0], pair[1]);
            return Err(Error::BadRequest(message));
        }
        let outside =
            rows.first().into_iter().chain(rows.last()).find(|&&row| !self.rows.contains(&(row as usize)));
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
        let in_stripe = begin & ((1 << self.shift) - 1);
        let state = self.stripes[begin >> self.shift].read();
        let rows = (out.len() / self.width).min(state.now.values.len() / self.width - in_stripe);
        let (from, count) = (in_stripe * self.width, rows * self.width);
        out[..count].copy_from_slice(&state.now.values[from..from + count]);
        (count, rows)
    }

    /// Copies the values of checked `rows`; `out` is as long as they are.
    pub(crate) fn read_rows(&self, rows: &[u32], out: &mut [f32]) {
        let mut out = out.chunks_exact_mut(self.width.max(1));
        self.by_stripe(rows, |stripe, rows| {
            let state = self.stripes[stripe].read();
            for rows in rows.chunks(FETCH_ROWS) {
                fetch(&state.now.values, rows.iter().map(|row| self.place(*row)), self.width);
                for (place, out) in rows.iter().map(|row| self.place(*row)).zip(&mut out) {
                    out.copy_from_slice(&state.now.values[place..place + self.width]);
                }
            }
        });
    }

    /// Place of a row's first value in its stripe.
    fn place(&self, row: u32) -> usize {
        ((row as usize - self.rows.start) & ((1 << self.shift) - 1)) * self.width
    }

    /// Calls `each` with every stripe that holds some of `rows`, and those rows.
    fn by_stripe<'a>(&self, rows: &'a [u32], mut each: impl FnMut(usize, &'a [u32])) {
        let of = |row: u32| (row as usize - self.rows.start) >> self.shift;
        for rows in rows.chunk_by(|one, next| of(*one) == of(*next)) {
            each(of(rows[0]), rows);
        }
    }

    /// Applies a gradient of the whole slice, which lies from `begin` on in `gradients`. `step` counts from 1.
    pub(crate) fn apply_whole<G: Gradients + ?Sized>(&self, step: u64, gradients: &G, begin: usize) {
        let stripe_values = self.width << self.shift;
        let apply = |(place, stripe): (usize, &RwLock<Stripe>), scratch: &mut Vec<f32>| {
            let stripe = &mut *stripe.write();
            self.set_aside(stripe, |stripe| stripe.set_all_aside(self.width));
            let state = &mut stripe.now;
            let (mut done, length) = (0, state.values.len());
            while done < length {
                let block = done..(done + BLOCK_VALUES).min(length);
                let from = begin + place * stripe_values;
                let gradient = gradients.get(from + block.start..from + block.end, scratch);
                let mut slots: [&mut [f32]; SLOTS_MAX] = Default::default();
                let held = state.slots.iter_mut().map(|slot| &mut slot[block.clone()]);
                let count = slots.iter_mut().zip(held).map(|(slot, held)| *slot = held).count();
                let values = &mut state.values[block.clone()];
                self.optimizer.apply_dense(step, values, &mut slots[..count], gradient);
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
            self.stripes.iter().enumerate().for_each(|stripe| apply(stripe, &mut scratch));
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
            let mask = (1_u32 << self.shift) - 1;
            scratch.places.extend(rows.iter().map(|row| (row - self.rows.start as u32) & mask));
            let length = rows.len() * self.width;
            let gradient = gradients.get(from..from + length, &mut scratch.gradient);
            from += length;
            let stripe = &mut *self.stripes[stripe].write();
            if self.optimizer.moves_all_rows() {
                self.set_aside(stripe, |stripe| stripe.set_all_aside(self.width));
            } else {
                self.set_aside(stripe, |stripe| stripe.set_rows_aside(&scratch.places, self.width));
            }
            let state = &mut stripe.now;
            let mut slots: [&mut [f32]; SLOTS_MAX] = Default::default();
            let held = state.slots.iter_mut().map(Vec::as_mut_slice);
            let count = slots.iter_mut().zip(held).map(|(slot, held)| *slot = held).count();
            let (places, values) = (&scratch.places, &mut state.values);
            for places in places.chunks(FETCH_ROWS) {
                let begins = places.iter().map(|place| *place as usize * self.width);
                fetch(values, begins.clone(), self.width);
                slots[..count].iter().for_each(|slot| fetch(slot, begins.clone(), self.width));
            }
            self.optimizer.apply_rows(step, self.width, places, values, &mut slots[..count], gradient);
        };
        if self.optimizer.moves_all_rows() {
            let mut rest = rows;
            for stripe in 0..self.stripes.len() {
                let end = self.rows.start + ((stripe + 1) << self.shift);
                let (here, later) = rest.split_at(rest.partition_point(|row| (*row as usize) < end));
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
        self.stripes.iter().for_each(|stripe| stripe.write().cut());
    }

    /// Copies a stripe as it was at the instant of the checkpoint, which is then done with it.
    pub(crate) fn take(&self, stripe: usize, out: &mut SliceValues) {
        let mut stripe = self.stripes[stripe].write();
        stripe.read(out, self.width);
        self.aside.fetch_sub(stripe.aside_bytes(), Ordering::Relaxed);
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

    /// Returns the bytes of so many rows, with their slots.
    pub(crate) fn row_bytes(&self, rows: usize) -> u64 {
        (rows * self.width * (1 + self.optimizer.slots().len()) * 4) as u64
    }

    /// Forgets the checkpoint.
    pub(crate) fn forget(&self) {
        for stripe in &self.stripes {
            let mut stripe = stripe.write();
            self.aside.fetch_sub(stripe.aside_bytes(), Ordering::Relaxed);
            stripe.forget();
        }
    }
}

/// Reads the ends of rows and nothing more. Rows of a large table are hardly ever in a cache; looked at one behind the
/// other they come from memory many at a time, where updating or copying each as it comes would wait for each.
fn fetch(values: &[f32], begins: impl Iterator<Item = usize>, width: usize) {
    if width > 0 {
        let ends = begins.map(|begin| values[begin].to_bits() | values[begin + width - 1].to_bits());
        std::hint::black_box(ends.fold(0, |seen, bits| seen | bits));
    }
}

/// Memory that one push after another uses.
#[derive(Debug, Default)]
pub(crate) struct Scratch {
    pub(crate) places: Vec<u32>,
    pub(crate) gradient: Vec<f32>,
}
