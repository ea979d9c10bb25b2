//! Products of one vector with several vectors of a row.

use super::row::{add_scaled, dot, each_row};
use super::{Backward, Forward, Sink};

/// The product of each of `blocks` vectors of the left input with the vector of the right input.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Contraction {
    pub(crate) blocks: usize,
    pub(crate) width: usize,
}

impl Contraction {
    pub(super) fn forward(self, pass: &Forward<'_>, out: &mut [f32]) {
        let size = self.blocks * self.width;
        each_row(
            out,
            self.blocks,
            #[inline(always)]
            |row, out| {
                let left = pass.inputs[0][row * size..][..size].chunks_exact(self.width);
                let right = &pass.inputs[1][row * self.width..][..self.width];
                out.iter_mut()
                    .zip(left)
                    .for_each(|(out, left)| *out = dot(left, right));
            },
        );
    }

    pub(super) fn backward(self, pass: &Backward<'_>, sink: &mut Sink) {
        let size = self.blocks * self.width;
        let [left, right] = [pass.inputs[0], pass.inputs[1]];
        sink.write(pass.reads[0], left.len(), |out| {
            each_row(
                out,
                size,
                #[inline(always)]
                |row, out| {
                    let right = &right[row * self.width..][..self.width];
                    let delta = &pass.delta[row * self.blocks..][..self.blocks];
                    for (out, delta) in out.chunks_exact_mut(self.width).zip(delta) {
                        for (out, right) in out.iter_mut().zip(right) {
                            *out = delta * right;
                        }
                    }
                },
            );
        });
        sink.write(pass.reads[1], right.len(), |out| {
            each_row(
                out,
                self.width,
                #[inline(always)]
                |row, out| {
                    let left = left[row * size..][..size].chunks_exact(self.width);
                    let delta = &pass.delta[row * self.blocks..][..self.blocks];
                    out.fill(0.0);
                    left.zip(delta)
                        .for_each(|(left, delta)| add_scaled(out, *delta, left));
                },
            );
        });
    }
}
