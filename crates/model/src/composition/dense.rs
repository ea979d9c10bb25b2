//! A product with a kernel, applied to each block of a row.

use trainyard_run_config::Regularizer;
use trainyard_tensor::{
    add_bias, add_column_sums, join, multiply_first_transposed, multiply_second_transposed_columns,
};

use super::{Backward, Forward, Sink};
use crate::HookedGradients;
use crate::regularizer::add_penalty;

/// `y = x K + b` of each of `blocks` parts of a row.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Dense {
    pub(crate) kernel: usize,
    pub(crate) bias: Option<usize>,
    pub(crate) blocks: usize,
    pub(crate) inputs: usize,
    pub(crate) outputs: usize,
    pub(super) regularizer: Option<Regularizer>,
}

impl Dense {
    pub(super) fn forward(&self, pass: &Forward<'_>, out: &mut [f32]) {
        let sizes = [pass.rows * self.blocks, self.inputs, self.outputs];
        (pass.multiply)(pass.inputs[0], &pass.values[self.kernel], out, sizes);
        if let Some(bias) = self.bias {
            add_bias(out, &pass.values[bias]);
        }
    }

    pub(super) fn backward(
        &self,
        pass: &Backward<'_>,
        hooked: &mut HookedGradients<'_>,
        sink: &mut Sink,
    ) {
        let HookedGradients { gradients, hook } = hooked;
        let rows = pass.rows * self.blocks;
        let input = pass.inputs[0];
        let kernel = &pass.values[self.kernel];
        let mut of_kernel = std::mem::take(&mut gradients[self.kernel]);
        let mut transposed = std::mem::take(&mut sink.transposed);
        join(
            || {
                let sizes = [self.inputs, rows, self.outputs];
                multiply_first_transposed(input, pass.delta, &mut of_kernel, sizes);
                add_penalty(self.regularizer, kernel, &mut of_kernel);
                if let Some(bias) = self.bias {
                    add_column_sums(pass.delta, &mut gradients[bias]);
                }
            },
            || {
                sink.write(pass.reads[0], input.len(), |out| {
                    let sizes = [rows, self.outputs, self.inputs];
                    multiply_second_transposed_columns(
                        pass.delta,
                        kernel,
                        out,
                        sizes,
                        0..self.inputs,
                        &mut transposed,
                    );
                });
            },
        );
        sink.transposed = transposed;
        gradients[self.kernel] = of_kernel;
        let variables = self.bias.into_iter().chain([self.kernel]);
        variables.for_each(|variable| hook(variable, &gradients[variable]));
    }
}
