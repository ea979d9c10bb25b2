//! Gradients of a push, wherever they lie: in one piece of memory, or as a connection brought them.

use std::ops::Range;

use bytes::Bytes;

use crate::Written;

/// Values of one step, end to end, in the order of a [`Selection`](crate::Selection).
pub trait Gradients: Sync {
    /// Returns the number of values.
    fn values(&self) -> usize;

    /// Returns the place of the first value that is infinite or no number.
    fn not_finite(&self) -> Option<usize>;

    /// Returns the values at `place`: the memory that holds them if there is such, else a copy in `scratch`.
    ///
    /// # Panics
    /// Never, as long as `place` lies within the values.
    fn get<'a>(&'a self, place: Range<usize>, scratch: &'a mut Vec<f32>) -> &'a [f32];

    /// Returns a copy of all values.
    fn copy(&self) -> Vec<f32>;

    /// Returns the values as a journal keeps them: as they came, if they came as bytes.
    fn written(&self) -> Written {
        Written { encoding: 0, pieces: vec![Bytes::copy_from_slice(bytemuck::cast_slice(&self.copy()))] }
    }
}

impl Gradients for [f32] {
    fn values(&self) -> usize {
        self.len()
    }

    fn not_finite(&self) -> Option<usize> {
        not_finite(self)
    }

    fn get<'a>(&'a self, place: Range<usize>, _scratch: &'a mut Vec<f32>) -> &'a [f32] {
        &self[place]
    }

    fn copy(&self) -> Vec<f32> {
        self.to_vec()
    }
}

/// Returns the place of the first value that is infinite or no number. First it looks at all together, which
/// vectorises: there hardly ever is one.
pub fn not_finite(values: &[f32]) -> Option<usize> {
    const EXPONENT: u32 = 0x7f80_0000;
    let bad = |value: &f32| value.to_bits() & EXPONENT == EXPONENT;
    let found = values.iter().fold(false, |found, value| found | bad(value));
    if found { values.iter().position(bad) } else { None }
}
