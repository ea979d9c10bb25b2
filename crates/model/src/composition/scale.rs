//! Numbers as vectors: `xₘ vₘ` (AutoInt's equation 4).

use trainyard_run_config::Regularizer;

use super::row::{add_scaled, dot, each_row};
use super::{Backward, Forward, Sink};
use crate::HookedGradients;
use crate::regularizer::add_penalty;

/// A vector for each number of the input.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Scale {
    pub(crate) kernel: usize,
    pub(crate) numbers: usize,
    pub(crate) dimension: usize,
    pub(super) regularizer: Option<Regularizer>,
}

impl Scale {
    pub(super) fn forward(&self, pass: &Forward<'_>, out: &mut [f32]) {
        let vectors = &pass.values[self.kernel];
        each_row(
            out,
            self.numbers * self.dimension,
            #[inline(always)]
            |row, out| {
                let numbers = &pass.inputs[0][row * self.numbers..][..self.numbers];
                let pairs = numbers.iter().zip(vectors.chunks_exact(self.dimension));
                for (out, (number, vector)) in out.chunks_exact_mut(self.dimension).zip(pairs) {
                    for (out, value) in out.iter_mut().zip(vector) {
                        *out = number * value;
                    }
                }
            },
        );
    }

    pub(super) fn backward(
        &self,
        pass: &Backward<'_>,
        hooked: &mut HookedGradients<'_>,
        sink: &mut Sink,
    ) {
        let vectors = &pass.values[self.kernel];
        let gradient = &mut hooked.gradients[self.kernel];
        let rows = pass.delta.chunks_exact(self.numbers * self.dimension);
        for (delta, numbers) in rows.zip(pass.inputs[0].chunks_exact(self.numbers)) {
            let deltas = delta.chunks_exact(self.dimension).zip(numbers);
            for (out, (delta, number)) in gradient.chunks_exact_mut(self.dimension).zip(deltas) {
                add_scaled(out, *number, delta);
            }
        }
        add_penalty(self.regularizer, vectors, gradient);
        sink.write(pass.reads[0], pass.inputs[0].len(), |out| {
            let deltas = pass.delta.chunks_exact(self.dimension);
            let vectors = vectors.chunks_exact(self.dimension).cycle();
            for (out, (delta, vector)) in out.iter_mut().zip(deltas.zip(vectors)) {
                *out = dot(delta, vector);
            }
        });
    }
}
