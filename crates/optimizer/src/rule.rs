//! The trait of all rules, and the ways of applying a rule.

use crate::Error;
use crate::vectorize::vectorize;

/// Most slots of a rule.
pub const SLOTS_MAX: usize = 3;

/// A value that an optimizer keeps beside each value of a variable.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Slot {
    /// TensorFlow's name of the slot.
    pub name: &'static str,
    /// Initial value.
    pub initial: f32,
}

impl Slot {
    pub(crate) const fn new(name: &'static str, initial: f32) -> Self {
        Self { name, initial }
    }
}

/// An update rule with `N` slots.
///
/// Kernels are inlined into loops that [`vectorize`] compiles for the vectors of the processor.
pub(crate) trait Rule<const N: usize> {
    /// Checks the hyper-parameters.
    fn validate(&self) -> Result<(), Error>;

    /// Returns the slots, in the order in which a kernel takes them.
    fn slots(&self) -> [Slot; N];

    /// Returns the update of step `step`, counted from 1.
    fn kernel(&self, step: u64) -> impl Fn(&mut [f32], [&mut [f32]; N], &[f32]);
}

/// Zero gradients, for rows that a batch does not name.
static ZEROS: [f32; 1024] = [0.0; 1024];

/// The gradient of some rows of a table.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RowGradient<'a> {
    /// Values of a row.
    pub width: usize,
    /// Numbers of the rows in the table, ascending, each once.
    pub rows: &'a [u32],
    /// `rows.len() x width` values.
    pub values: &'a [f32],
}

/// The values and slots of one slice.
pub(crate) struct State<'a, const N: usize> {
    values: &'a mut [f32],
    slots: [&'a mut [f32]; N],
}

impl<'a, const N: usize> State<'a, N> {
    /// # Panics
    /// There are fewer than `N` slots.
    pub(crate) fn new(values: &'a mut [f32], slots: &'a mut [&mut [f32]]) -> Self {
        assert!(
            slots.len() >= N,
            "the rule needs {N} slots, given {}",
            slots.len()
        );
        let mut slots = slots.iter_mut();
        let mut next = || slots.next().map(|slot| &mut **slot).unwrap_or_default();
        Self {
            values,
            slots: std::array::from_fn(|_| next()),
        }
    }

    /// Updates all values.
    pub(crate) fn whole(self, rule: &impl Rule<N>, step: u64, gradient: &[f32]) {
        let kernel = rule.kernel(step);
        vectorize(
            #[inline(always)]
            || kernel(self.values, self.slots, gradient),
        );
    }

    /// Updates the named rows.
    pub(crate) fn rows(&mut self, rule: &impl Rule<N>, step: u64, gradient: RowGradient<'_>) {
        let RowGradient {
            width,
            rows,
            values: gradient,
        } = gradient;
        let kernel = rule.kernel(step);
        vectorize(
            #[inline(always)]
            || {
                for (&row, gradient) in rows.iter().zip(gradient.chunks_exact(width)) {
                    self.place(&kernel, row as usize * width, gradient);
                }
            },
        );
    }

    /// Updates the named rows, which must ascend, and all other rows as if by a gradient of zero.
    pub(crate) fn rows_and_rest(
        &mut self,
        rule: &impl Rule<N>,
        step: u64,
        gradient: RowGradient<'_>,
    ) {
        let RowGradient {
            width,
            rows,
            values: gradient,
        } = gradient;
        let kernel = rule.kernel(step);
        let end = self.values.len();
        vectorize(
            #[inline(always)]
            || {
                let mut done = 0;
                for (&row, gradient) in rows.iter().zip(gradient.chunks_exact(width)) {
                    let begin = row as usize * width;
                    self.rest(&kernel, done, begin);
                    self.place(&kernel, begin, gradient);
                    done = begin + width;
                }
                self.rest(&kernel, done, end);
            },
        );
    }

    #[inline(always)]
    fn rest(
        &mut self,
        kernel: &impl Fn(&mut [f32], [&mut [f32]; N], &[f32]),
        begin: usize,
        end: usize,
    ) {
        let mut begin = begin;
        while begin < end {
            let length = (end - begin).min(ZEROS.len());
            self.place(kernel, begin, &ZEROS[..length]);
            begin += length;
        }
    }

    #[inline(always)]
    fn place(
        &mut self,
        kernel: &impl Fn(&mut [f32], [&mut [f32]; N], &[f32]),
        begin: usize,
        gradient: &[f32],
    ) {
        let place = begin..begin + gradient.len();
        let slots = self.slots.each_mut().map(|slot| &mut slot[place.clone()]);
        kernel(&mut self.values[place.clone()], slots, gradient);
    }
}
