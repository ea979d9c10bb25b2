//! Layer normalisation (Ba et al. 2016; `torch.nn.LayerNorm`): `γ (x - mean) / √(variance + ε) + β` in each block of a row.

use super::row::each_row;
use super::{Backward, Forward, Sink};
use crate::HookedGradients;

/// Constant that is added to the variance, as in PyTorch. Keras's 1e-3 would exceed the variance of small embeddings.
pub(crate) const EPSILON: f32 = 1e-5;

/// The blocks of a row, with a factor and an offset for each of their numbers.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LayerNorm {
    pub(crate) gamma: usize,
    pub(crate) beta: usize,
    pub(crate) blocks: usize,
    /// Numbers of a block.
    pub(crate) width: usize,
}

/// Mean of a block, and the factor that brings its deviation to 1.
#[inline(always)]
fn moments(block: &[f32]) -> (f32, f32) {
    let count = block.len() as f32;
    let mean = block.iter().sum::<f32>() / count;
    let squares = block.iter().map(|value| (value - mean) * (value - mean));
    let variance = squares.sum::<f32>() / count;
    (mean, 1.0 / (variance + EPSILON).sqrt())
}

impl LayerNorm {
    pub(super) fn forward(self, pass: &Forward<'_>, out: &mut [f32]) {
        let size = self.blocks * self.width;
        let gamma = pass.values[self.gamma].chunks_exact(self.width);
        let beta = pass.values[self.beta].chunks_exact(self.width);
        each_row(
            out,
            size,
            #[inline(always)]
            |row, out| {
                let blocks = pass.inputs[0][row * size..][..size].chunks_exact(self.width);
                let variables = gamma.clone().zip(beta.clone());
                let blocks = blocks.zip(variables);
                for (out, (block, (gamma, beta))) in out.chunks_exact_mut(self.width).zip(blocks) {
                    let (mean, inverse) = moments(block);
                    let values = block.iter().zip(gamma).zip(beta);
                    for (out, ((value, gamma), beta)) in out.iter_mut().zip(values) {
                        *out = gamma * ((value - mean) * inverse) + beta;
                    }
                }
            },
        );
    }

    pub(super) fn backward(
        self,
        pass: &Backward<'_>,
        hooked: &mut HookedGradients<'_>,
        sink: &mut Sink,
    ) {
        let size = self.blocks * self.width;
        let gradients = &mut hooked.gradients;
        let mut of_gamma = std::mem::take(&mut gradients[self.gamma]);
        let of_beta = &mut gradients[self.beta];
        let rows = pass.inputs[0].chunks_exact(size);
        for (row, delta) in rows.zip(pass.delta.chunks_exact(size)) {
            let blocks = row.chunks_exact(self.width);
            for (index, block) in blocks.enumerate() {
                let (mean, inverse) = moments(block);
                let begin = index * self.width;
                for (place, value) in (begin..).zip(block) {
                    of_gamma[place] += delta[place] * ((value - mean) * inverse);
                    of_beta[place] += delta[place];
                }
            }
        }
        gradients[self.gamma] = of_gamma;
        let gamma = &pass.values[self.gamma];
        let count = self.width as f32;
        sink.write(pass.reads[0], pass.delta.len(), |out| {
            each_row(
                out,
                size,
                #[inline(always)]
                |row, out| {
                    let input = &pass.inputs[0][row * size..][..size];
                    let delta = &pass.delta[row * size..][..size];
                    for (index, out) in out.chunks_exact_mut(self.width).enumerate() {
                        let begin = index * self.width;
                        let block = &input[begin..][..self.width];
                        let delta = &delta[begin..][..self.width];
                        let gamma = &gamma[begin..][..self.width];
                        let (mean, inverse) = moments(block);
                        let mut sum = 0.0;
                        let mut along = 0.0;
                        for ((delta, gamma), value) in delta.iter().zip(gamma).zip(block) {
                            sum += delta * gamma;
                            along += delta * gamma * ((value - mean) * inverse);
                        }
                        let each = delta.iter().zip(gamma).zip(block);
                        for (out, ((delta, gamma), value)) in out.iter_mut().zip(each) {
                            let normalized = (value - mean) * inverse;
                            let centered = delta * gamma - (sum + normalized * along) / count;
                            *out = inverse * centered;
                        }
                    }
                },
            );
        });
    }
}
