//! The softmax of each row.

use trainyard_tensor::softmax_in_place;

use super::row::{dot, each_row};
use super::{Backward, Forward, Sink};

pub(super) fn forward(width: usize, pass: &Forward<'_>, out: &mut [f32]) {
    out.copy_from_slice(pass.inputs[0]);
    for row in out.chunks_exact_mut(width) {
        softmax_in_place(row);
    }
}

/// The gradient is `y (d - d·y)` of the output `y` and its gradient `d`.
pub(super) fn backward(width: usize, pass: &Backward<'_>, sink: &mut Sink) {
    sink.write(pass.reads[0], pass.delta.len(), |out| {
        each_row(
            out,
            width,
            #[inline(always)]
            |row, out| {
                let delta = &pass.delta[row * width..][..width];
                let output = &pass.output[row * width..][..width];
                let mean = dot(delta, output);
                for (out, (delta, output)) in out.iter_mut().zip(delta.iter().zip(output)) {
                    *out = output * (delta - mean);
                }
            },
        );
    });
}
