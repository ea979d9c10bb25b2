//! Gradients of a push, wherever they lie: in one piece of memory, or as a connection brought them.

use std::ops::Range;

use bytes::Bytes;

use crate::Written;

/// Values of one step, end to end, in the order of a [`Selection`](crate::Selection).
pub trait Gradients: Sync {
    /// Returns the number of values.
    fn values(&self) -> usize;

    /// Returns the place of the first value that is no number, or not below [`GRADIENT_ABS_BOUND`].
    fn unfit(&self) -> Option<usize>;

    /// Returns by how much of itself a value may be larger than the one that was computed, for the rounding on its way:
    /// that of this step, and what was left over from that of earlier ones.
    fn rounding(&self) -> f32 {
        0.0
    }

    /// Returns the values at `place`: the memory that holds them if there is such, else a copy in `scratch`.
    ///
    /// # Panics
    /// Never, as long as `place` lies within the values.
    fn get<'a>(&'a self, place: Range<usize>, scratch: &'a mut Vec<f32>) -> &'a [f32];

    /// Returns a copy of all values.
    fn copy(&self) -> Vec<f32>;

    /// Returns the values as a journal keeps them: as they came, if they came as bytes.
    fn written(&self) -> Written {
        Written {
            encoding: 0,
            pieces: vec![Bytes::copy_from_slice(bytemuck::cast_slice(&self.copy()))],
        }
    }
}

impl Gradients for [f32] {
    fn values(&self) -> usize {
        self.len()
    }

    fn unfit(&self) -> Option<usize> {
        unfit(self)
    }

    fn get<'a>(&'a self, place: Range<usize>, _scratch: &'a mut Vec<f32>) -> &'a [f32] {
        &self[place]
    }

    fn copy(&self) -> Vec<f32> {
        self.to_vec()
    }
}

/// Absolute values of gradients are below it: 2^50, about 1.1e15. Update rules add up squares of gradients in float32, which
/// holds 3.4e38; a hundred million of the largest squares fit. An infinite sum would make infinity or no number of the
/// parameters, although each gradient was finite.
pub const GRADIENT_ABS_BOUND: f32 = 1_125_899_906_842_624.0;

/// Returns the place of the first value that is no number, or not below [`GRADIENT_ABS_BOUND`]. First it looks at all
/// together, which vectorises: there hardly ever is one.
pub fn unfit(values: &[f32]) -> Option<usize> {
    // The bits of a number without its sign are in its order, those of infinity and of what is no number above all. A
    // difference that is negative shows in the sign of all differences together.
    let last = GRADIENT_ABS_BOUND.to_bits().cast_signed() - 1;
    let room = |value: &f32| last - (value.to_bits().cast_signed() & i32::MAX);
    let signs = values.iter().fold(0, |signs, value| signs | room(value));
    if signs < 0 {
        values.iter().position(|value| room(value) < 0)
    } else {
        None
    }
}
