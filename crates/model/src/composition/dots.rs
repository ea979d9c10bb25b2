//! Products of all pairs of vectors of a row: `vᵢ · vⱼ` for `j < i`, in the order (1, 0), (2, 0), (2, 1), (3, 0)...

use super::row::{add_scaled, dot, each_row};
use super::{Backward, Forward, Sink};

/// The vectors of a row.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Dots {
    pub(crate) vectors: usize,
    pub(crate) dimension: usize,
}

impl Dots {
    /// Returns the number of pairs.
    pub(super) fn width(self) -> usize {
        self.vectors * (self.vectors - 1) / 2
    }

    /// Returns the pairs, in order.
    pub(crate) fn pairs(self) -> impl Iterator<Item = (usize, usize)> {
        (1..self.vectors).flat_map(|i| (0..i).map(move |j| (i, j)))
    }

    pub(super) fn forward(self, pass: &Forward<'_>, out: &mut [f32]) {
        let size = self.vectors * self.dimension;
        each_row(
            out,
            self.width(),
            #[inline(always)]
            |row, out| {
                let vectors = &pass.inputs[0][row * size..][..size];
                let mut out = out.iter_mut();
                for (i, one) in vectors.chunks_exact(self.dimension).enumerate() {
                    let before = vectors.chunks_exact(self.dimension).take(i);
                    for (other, out) in before.zip(&mut out) {
                        *out = dot(one, other);
                    }
                }
            },
        );
    }

    pub(super) fn backward(self, pass: &Backward<'_>, sink: &mut Sink) {
        let dimension = self.dimension;
        let size = self.vectors * dimension;
        let pairs = self.width();
        let write = |out: &mut [f32]| {
            each_row(
                out,
                size,
                #[inline(always)]
                |row, out| {
                    let vectors = &pass.inputs[0][row * size..][..size];
                    let delta = &pass.delta[row * pairs..][..pairs];
                    out.fill(0.0);
                    let mut begin = 0;
                    for i in 0..self.vectors {
                        let (before, own) = out.split_at_mut(i * dimension);
                        let own = &mut own[..dimension];
                        let one = &vectors[i * dimension..][..dimension];
                        let others = vectors.chunks_exact(dimension);
                        let before = before.chunks_exact_mut(dimension).zip(others);
                        for ((of_other, other), delta) in before.zip(&delta[begin..]) {
                            add_scaled(own, *delta, other);
                            add_scaled(of_other, *delta, one);
                        }
                        begin += i;
                    }
                },
            );
        };
        sink.write(pass.reads[0], pass.inputs[0].len(), write);
    }
}
