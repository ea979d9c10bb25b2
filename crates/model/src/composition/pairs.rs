//! A vector beside each of several others, with their difference and their product: the input of DIN's attention (Zhou et al. 2018,
//! figure 2).

use super::row::each_row;
use super::{Backward, Forward, Sink};

/// Number of parts of a pair.
const PARTS: usize = 4;

/// Inputs are a vector `q` and `count` vectors `kᵢ`. The output has `[q, kᵢ, q - kᵢ, q ⊙ kᵢ]` for each of them.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Pairs {
    pub(crate) count: usize,
    pub(crate) dimension: usize,
}

impl Pairs {
    pub(crate) fn width(self) -> usize {
        self.count * PARTS * self.dimension
    }

    pub(super) fn forward(self, pass: &Forward<'_>, out: &mut [f32]) {
        let [queries, keys] = [0, 1].map(|input| pass.inputs[input]);
        let Self { count, dimension } = self;
        each_row(
            out,
            self.width(),
            #[inline(always)]
            |row, out| {
                let query = &queries[row * dimension..][..dimension];
                let keys = &keys[row * count * dimension..][..count * dimension];
                let pairs = out.chunks_exact_mut(PARTS * dimension);
                for (out, key) in pairs.zip(keys.chunks_exact(dimension)) {
                    let (first, out) = out.split_at_mut(dimension);
                    let (second, out) = out.split_at_mut(dimension);
                    let (differences, products) = out.split_at_mut(dimension);
                    first.copy_from_slice(query);
                    second.copy_from_slice(key);
                    for i in 0..dimension {
                        differences[i] = query[i] - key[i];
                        products[i] = query[i] * key[i];
                    }
                }
            },
        );
    }

    pub(super) fn backward(self, pass: &Backward<'_>, sink: &mut Sink) {
        let [queries, keys] = [0, 1].map(|input| pass.inputs[input]);
        let Self { count, dimension } = self;
        let all = count * dimension;
        let delta = |row: usize| {
            let delta = &pass.delta[row * self.width()..][..self.width()];
            delta.chunks_exact(PARTS * dimension)
        };
        sink.write(pass.reads[0], queries.len(), |out| {
            each_row(
                out,
                dimension,
                #[inline(always)]
                |row, out| {
                    out.fill(0.0);
                    let keys = keys[row * all..][..all].chunks_exact(dimension);
                    for (delta, key) in delta(row).zip(keys) {
                        for i in 0..dimension {
                            let of_product = delta[3 * dimension + i];
                            out[i] += delta[i] + delta[2 * dimension + i] + of_product * key[i];
                        }
                    }
                },
            );
        });
        sink.write(pass.reads[1], keys.len(), |out| {
            each_row(
                out,
                all,
                #[inline(always)]
                |row, out| {
                    let query = &queries[row * dimension..][..dimension];
                    let vectors = out.chunks_exact_mut(dimension);
                    for (delta, out) in delta(row).zip(vectors) {
                        for i in 0..dimension {
                            let of_product = delta[3 * dimension + i];
                            out[i] = delta[dimension + i] - delta[2 * dimension + i]
                                + of_product * query[i];
                        }
                    }
                },
            );
        });
    }
}
