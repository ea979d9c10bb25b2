//! Layers of a compressed interaction network, beside [`super::Dense`].

use super::row::{add_scaled, dot, each_row};
use super::{Backward, Forward, Sink};

/// Transposes the matrix of each row.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Transposition {
    pub(crate) rows: usize,
    pub(crate) columns: usize,
}

/// The products of all pairs of a number of the left and one of the right input, in each block of a row.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Outer {
    pub(crate) blocks: usize,
    pub(crate) left: usize,
    pub(crate) right: usize,
}

/// The sum of the blocks of a row.
#[derive(Debug, Clone, Copy)]
pub(crate) struct BlockSum {
    pub(crate) blocks: usize,
    pub(crate) width: usize,
}

impl Transposition {
    fn transpose(self, from: &[f32], out: &mut [f32]) {
        let Self { rows, columns } = self;
        each_row(
            out,
            rows * columns,
            #[inline(always)]
            |row, out| {
                let from = &from[row * rows * columns..][..rows * columns];
                for (column, out) in out.chunks_exact_mut(rows).enumerate() {
                    let values = from[column..].iter().step_by(columns);
                    out.iter_mut()
                        .zip(values)
                        .for_each(|(out, value)| *out = *value);
                }
            },
        );
    }

    pub(super) fn forward(self, pass: &Forward<'_>, out: &mut [f32]) {
        self.transpose(pass.inputs[0], out);
    }

    pub(super) fn backward(self, pass: &Backward<'_>, sink: &mut Sink) {
        let back = Self {
            rows: self.columns,
            columns: self.rows,
        };
        sink.write(pass.reads[0], pass.delta.len(), |out| {
            back.transpose(pass.delta, out);
        });
    }
}

impl Outer {
    pub(super) fn forward(self, pass: &Forward<'_>, out: &mut [f32]) {
        let [left, right] = [pass.inputs[0], pass.inputs[1]];
        each_row(
            out,
            self.left * self.right,
            #[inline(always)]
            |block, out| {
                let left = &left[block * self.left..][..self.left];
                let right = &right[block * self.right..][..self.right];
                for (out, left) in out.chunks_exact_mut(self.right).zip(left) {
                    for (out, right) in out.iter_mut().zip(right) {
                        *out = left * right;
                    }
                }
            },
        );
    }

    pub(super) fn backward(self, pass: &Backward<'_>, sink: &mut Sink) {
        let [left, right] = [pass.inputs[0], pass.inputs[1]];
        let pairs = self.left * self.right;
        sink.write(pass.reads[0], left.len(), |out| {
            each_row(
                out,
                self.left,
                #[inline(always)]
                |block, out| {
                    let right = &right[block * self.right..][..self.right];
                    let delta = &pass.delta[block * pairs..][..pairs];
                    for (out, delta) in out.iter_mut().zip(delta.chunks_exact(self.right)) {
                        *out = dot(delta, right);
                    }
                },
            );
        });
        sink.write(pass.reads[1], right.len(), |out| {
            each_row(
                out,
                self.right,
                #[inline(always)]
                |block, out| {
                    let left = &left[block * self.left..][..self.left];
                    let delta = &pass.delta[block * pairs..][..pairs];
                    out.fill(0.0);
                    for (left, delta) in left.iter().zip(delta.chunks_exact(self.right)) {
                        add_scaled(out, *left, delta);
                    }
                },
            );
        });
    }
}

impl BlockSum {
    pub(super) fn forward(self, pass: &Forward<'_>, out: &mut [f32]) {
        let size = self.blocks * self.width;
        each_row(
            out,
            self.width,
            #[inline(always)]
            |row, out| {
                out.fill(0.0);
                let blocks = pass.inputs[0][row * size..][..size].chunks_exact(self.width);
                blocks.for_each(|block| add_scaled(out, 1.0, block));
            },
        );
    }

    pub(super) fn backward(self, pass: &Backward<'_>, sink: &mut Sink) {
        let size = self.blocks * self.width;
        sink.write(pass.reads[0], pass.inputs[0].len(), |out| {
            each_row(
                out,
                size,
                #[inline(always)]
                |row, out| {
                    let delta = &pass.delta[row * self.width..][..self.width];
                    let blocks = out.chunks_exact_mut(self.width);
                    blocks.for_each(|block| block.copy_from_slice(delta));
                },
            );
        });
    }
}
