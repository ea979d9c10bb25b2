//! Multi-head self-attention over the vectors of a row: the output of a head for vector `i` is `Σⱼ softmaxⱼ(qᵢ·kⱼ) vⱼ`
//! (AutoInt's equations 5 and 6, which do not divide the products by √dimension).

use trainyard_tensor::softmax_in_place;

use super::row::{dot, each_row, weighted_sum};
use super::{Backward, Forward, Sink};

/// Inputs are queries, keys and values, each `vectors x heads x dimension` a row.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Attention {
    pub(crate) vectors: usize,
    pub(crate) heads: usize,
    /// Numbers of a vector of one head.
    pub(crate) dimension: usize,
}

/// Vectors of a row.
#[derive(Clone, Copy)]
struct Row<'a> {
    values: &'a [f32],
    attention: Attention,
}

impl<'a> Row<'a> {
    #[inline(always)]
    fn vector(self, index: usize, head: usize) -> &'a [f32] {
        let Attention {
            heads, dimension, ..
        } = self.attention;
        &self.values[(index * heads + head) * dimension..][..dimension]
    }
}

impl Attention {
    pub(super) fn width(self) -> usize {
        self.vectors * self.heads * self.dimension
    }

    /// Number of weights of a row: `heads x vectors x vectors`.
    fn weights(self) -> usize {
        self.heads * self.vectors * self.vectors
    }

    #[inline(always)]
    fn row(self, values: &[f32], row: usize) -> Row<'_> {
        let width = self.width();
        Row {
            values: &values[row * width..][..width],
            attention: self,
        }
    }

    /// Calls `work` for each head, each index `i` of an output vector, and the output vector.
    #[inline(always)]
    fn each_vector(self, out: &mut [f32], mut work: impl FnMut(usize, usize, &mut [f32])) {
        for (place, out) in out.chunks_exact_mut(self.dimension).enumerate() {
            work(place % self.heads, place / self.heads, out);
        }
    }

    pub(super) fn forward(self, pass: &Forward<'_>, kept: &mut Vec<f32>, out: &mut [f32]) {
        let [queries, keys, values] = [0, 1, 2].map(|input| pass.inputs[input]);
        let count = self.vectors;
        kept.resize(pass.rows * self.weights(), 0.0);
        each_row(
            kept,
            self.weights(),
            #[inline(always)]
            |row, weights| {
                let (queries, keys) = (self.row(queries, row), self.row(keys, row));
                for (place, weights) in weights.chunks_exact_mut(count).enumerate() {
                    let head = place / count;
                    let query = queries.vector(place % count, head);
                    for (j, weight) in weights.iter_mut().enumerate() {
                        *weight = dot(query, keys.vector(j, head));
                    }
                    softmax_in_place(weights);
                }
            },
        );
        let weights: &[f32] = kept;
        each_row(
            out,
            self.width(),
            #[inline(always)]
            |row, out| {
                let values = self.row(values, row);
                let weights = &weights[row * self.weights()..][..self.weights()];
                self.each_vector(
                    out,
                    #[inline(always)]
                    |head, i, out| {
                        let weights = &weights[(head * count + i) * count..][..count];
                        weighted_sum(
                            out,
                            count,
                            #[inline(always)]
                            |j| (weights[j], values.vector(j, head)),
                        );
                    },
                );
            },
        );
    }

    /// `kept` has the weights, and then the gradients of the products.
    pub(super) fn backward(self, pass: &Backward<'_>, kept: &mut [f32], sink: &mut Sink) {
        let [queries, keys, values] = [0, 1, 2].map(|input| pass.inputs[input]);
        let len = pass.delta.len();
        self.write(pass.reads[2], len, sink, kept, Along::Columns, pass.delta);
        let count = self.vectors;
        each_row(
            kept,
            self.weights(),
            #[inline(always)]
            |row, weights| {
                let (delta, values) = (self.row(pass.delta, row), self.row(values, row));
                let output = self.row(pass.output, row);
                for (place, weights) in weights.chunks_exact_mut(count).enumerate() {
                    let (i, head) = (place % count, place / count);
                    let delta = delta.vector(i, head);
                    // `Σⱼ wᵢⱼ (δᵢ·vⱼ) = δᵢ·Σⱼ wᵢⱼ vⱼ`.
                    let mean = dot(delta, output.vector(i, head));
                    for (j, weight) in weights.iter_mut().enumerate() {
                        *weight *= dot(delta, values.vector(j, head)) - mean;
                    }
                }
            },
        );
        self.write(pass.reads[0], len, sink, kept, Along::Rows, keys);
        self.write(pass.reads[1], len, sink, kept, Along::Columns, queries);
    }

    /// Writes the gradient of an input: for vector `i` the sum of `factorᵢⱼ` times vector `j` of `from`, with the factors
    /// of row or column `i`.
    fn write(
        self,
        read: usize,
        len: usize,
        sink: &mut Sink,
        factors: &[f32],
        along: Along,
        from: &[f32],
    ) {
        let count = self.vectors;
        sink.write(read, len, |out| {
            each_row(
                out,
                self.width(),
                #[inline(always)]
                |row, out| {
                    let from = self.row(from, row);
                    let factors = &factors[row * self.weights()..][..self.weights()];
                    self.each_vector(
                        out,
                        #[inline(always)]
                        |head, i, out| {
                            let factors = &factors[head * count * count..][..count * count];
                            let (begin, step) = match along {
                                Along::Rows => (i * count, 1),
                                Along::Columns => (i, count),
                            };
                            weighted_sum(
                                out,
                                count,
                                #[inline(always)]
                                |j| (factors[begin + j * step], from.vector(j, head)),
                            );
                        },
                    );
                },
            );
        });
    }
}

/// Direction in a matrix of weights.
#[derive(Clone, Copy)]
enum Along {
    Rows,
    Columns,
}
