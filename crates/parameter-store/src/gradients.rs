//! Gradients of a push, in one piece of memory or in the pieces that a connection delivered.

use std::ops::{Deref, Range};

use bytes::Bytes;

/// The gradients of a push, encoded as they arrived.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Written {
    /// The encoding, as numbered by the journal; 0 = little-endian `f32`.
    pub encoding: i32,
    /// The bytes.
    pub pieces: Vec<Bytes>,
}

/// The values of a step from a position on.
#[derive(Debug)]
pub(crate) struct GradientTail<'a, G: ?Sized> {
    pub(crate) gradients: &'a G,
    /// Position of the first value.
    pub(crate) begin: usize,
}

/// Values of one step, concatenated in the order of a [`Selection`](crate::Selection).
pub trait Gradients: Sync {
    /// Returns the number of values.
    fn values(&self) -> usize;

    /// Returns the position of the first value that is NaN, or whose absolute value is not below
    /// [`GRADIENT_ABS_BOUND`].
    fn unfit(&self) -> Option<usize>;

    /// Returns the largest relative error that rounding has added to a value: the rounding error of this step, and the
    /// residual of earlier steps.
    fn rounding(&self) -> f32 {
        0.0
    }

    /// Returns the values in the range `place`: borrowed where they are contiguous in memory, else copied into
    /// `scratch`.
    ///
    /// # Panics
    /// `place` lies outside the values.
    fn get<'a>(&'a self, place: Range<usize>, scratch: &'a mut Vec<f32>) -> &'a [f32];

    /// Returns a copy of all values.
    fn copy(&self) -> Vec<f32>;

    /// Returns the values for a journal, in the encoding in which they arrived.
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

/// Gradients that a reference or a counted pointer leads to. A push refers to them, and copies nothing.
impl<P> Gradients for P
where
    P: Deref<Target: Gradients> + Sync,
{
    fn values(&self) -> usize {
        (**self).values()
    }

    fn unfit(&self) -> Option<usize> {
        (**self).unfit()
    }

    fn rounding(&self) -> f32 {
        (**self).rounding()
    }

    fn get<'a>(&'a self, place: Range<usize>, scratch: &'a mut Vec<f32>) -> &'a [f32] {
        (**self).get(place, scratch)
    }

    fn copy(&self) -> Vec<f32> {
        (**self).copy()
    }

    fn written(&self) -> Written {
        (**self).written()
    }
}

/// Exclusive bound on the absolute values of gradients: 2^50, about 1.1e15. Update rules sum squares of gradients in
/// float32, which holds 3.4e38. A hundred million of the largest squares fit. An infinite sum would turn parameters
/// into infinity or NaN, although each gradient was finite.
pub const GRADIENT_ABS_BOUND: f32 = 1_125_899_906_842_624.0;

/// Returns the position of the first value that is NaN, or whose absolute value is not below [`GRADIENT_ABS_BOUND`].
/// Such values are rare, so a vectorised check of all values comes first.
pub fn unfit(values: &[f32]) -> Option<usize> {
    // Without the sign, the bits of floats are ordered like the numbers, with infinity and NaN above all others. A
    // negative difference sets the sign of all differences combined.
    let last = GRADIENT_ABS_BOUND.to_bits().cast_signed() - 1;
    let room = |value: &f32| last - (value.to_bits().cast_signed() & i32::MAX);
    let signs = values.iter().fold(0, |signs, value| signs | room(value));
    if signs < 0 {
        values.iter().position(|value| room(value) < 0)
    } else {
        None
    }
}
