//! Columns of a value, and values side by side.

use std::ops::Range;

use super::row::each_row;
use super::{Backward, Forward, Sink};

/// Ranges of the columns of an input, side by side.
#[derive(Debug, Clone)]
pub(crate) struct Columns {
    /// Width of the input.
    pub(crate) from: usize,
    pub(crate) ranges: Vec<Range<usize>>,
}

/// Inputs of these widths, side by side.
#[derive(Debug, Clone)]
pub(crate) struct Concatenation {
    pub(crate) widths: Vec<usize>,
}

impl Columns {
    pub(super) fn width(&self) -> usize {
        self.ranges.iter().map(Range::len).sum()
    }

    pub(super) fn forward(&self, pass: &Forward<'_>, out: &mut [f32]) {
        let input = pass.inputs[0];
        each_row(
            out,
            self.width(),
            #[inline(always)]
            |row, mut out| {
                let input = &input[row * self.from..][..self.from];
                for range in &self.ranges {
                    let (these, rest) = out.split_at_mut(range.len());
                    these.copy_from_slice(&input[range.clone()]);
                    out = rest;
                }
            },
        );
    }

    pub(super) fn backward(&self, pass: &Backward<'_>, sink: &mut Sink) {
        let width = self.width();
        let write = |out: &mut [f32]| {
            each_row(
                out,
                self.from,
                #[inline(always)]
                |row, out| {
                    let mut delta = &pass.delta[row * width..][..width];
                    out.fill(0.0);
                    for range in &self.ranges {
                        let (these, rest) = delta.split_at(range.len());
                        out[range.clone()].copy_from_slice(these);
                        delta = rest;
                    }
                },
            );
        };
        sink.write(pass.reads[0], pass.inputs[0].len(), write);
    }
}

impl Concatenation {
    pub(super) fn width(&self) -> usize {
        self.widths.iter().sum()
    }

    pub(super) fn forward(&self, pass: &Forward<'_>, out: &mut [f32]) {
        each_row(
            out,
            self.width(),
            #[inline(always)]
            |row, mut out| {
                for (input, width) in pass.inputs.iter().zip(&self.widths) {
                    let (these, rest) = out.split_at_mut(*width);
                    these.copy_from_slice(&input[row * width..][..*width]);
                    out = rest;
                }
            },
        );
    }

    pub(super) fn backward(&self, pass: &Backward<'_>, sink: &mut Sink) {
        let all = self.width();
        let mut begin = 0;
        for (read, width) in pass.reads.iter().zip(&self.widths) {
            sink.write(*read, pass.rows * width, |out| {
                each_row(
                    out,
                    *width,
                    #[inline(always)]
                    |row, out| out.copy_from_slice(&pass.delta[row * all + begin..][..*width]),
                );
            });
            begin += width;
        }
    }
}
