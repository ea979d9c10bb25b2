//! Towers: stacked dense layers, up to the logits where they end a model (`tf.estimator.DNN*`).
//!
//! As in TensorFlow, a hidden layer is a matrix product, a bias and an activation, then dropout, then batch
//! normalisation.

use std::ops::Range;

use rand::{RngExt as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;
use trainyard_run_config::{Activation, ModelConfig, Regularizer};
use trainyard_tensor::{
    add_bias, add_bias_relu, add_column_sums, join, multiply, multiply_first_transposed,
    multiply_rows, multiply_second_transposed_columns,
};
use trainyard_variable::{Access, Gradients, Initializer, Values, VariableSpec};

use crate::HookedGradients;
use crate::activation;
use crate::batch_norm::{BatchNorm, Kept};
use crate::regularizer::add_penalty;

/// A dense layer: variables and sizes.
#[derive(Debug, Clone)]
pub(crate) struct Layer {
    pub(crate) kernel: usize,
    pub(crate) bias: usize,
    inputs: usize,
    outputs: usize,
    pub(crate) norm: Option<BatchNorm>,
}

/// The hidden layers. A layer of logits may follow them.
#[derive(Debug, Clone)]
pub(crate) struct Tower {
    pub(crate) layers: Vec<Layer>,
    /// Number of hidden layers.
    pub(crate) hidden: usize,
    pub(crate) activation: Activation,
    dropout: f32,
    /// Penalty of the kernels.
    regularizer: Option<Regularizer>,
}

/// Values of a layer that the backward pass needs.
#[derive(Debug, Default)]
struct Pass {
    /// Values for the derivative of the activation.
    kept: Vec<f32>,
    /// Factors of dropout.
    mask: Vec<f32>,
    norm: Kept,
    /// Output of the layer, which the next layer reads.
    output: Vec<f32>,
}

/// Buffers of the layers.
#[derive(Debug, Default)]
pub(crate) struct Workspace {
    passes: Vec<Pass>,
    delta: Vec<f32>,
    below: Vec<f32>,
    transposed: Vec<f32>,
}

/// Input of the tower, row-major.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Input<'a> {
    pub(crate) rows: usize,
    pub(crate) values: &'a [f32],
}

/// Mode of a forward pass.
#[derive(Debug)]
pub(crate) enum Mode<'a> {
    /// Outputs are dropped at random, the batch normalises itself, and the gradients of the moving averages are
    /// written.
    Training {
        seed: u64,
        gradients: &'a mut Gradients,
    },
    Inference,
}

impl Mode<'_> {
    /// Returns the mode of one of several towers, which drops other outputs than the others.
    pub(crate) fn of_tower(&mut self, index: usize) -> Mode<'_> {
        match self {
            Self::Training { seed, gradients } => Mode::Training {
                seed: seed.rotate_left(index as u32) ^ index as u64,
                gradients,
            },
            Self::Inference => Mode::Inference,
        }
    }
}

/// Both ends of the tower in a backward pass.
#[derive(Debug)]
pub(crate) struct Ends<'a> {
    pub(crate) input: &'a [f32],
    /// The gradient of the output.
    pub(crate) of_output: &'a [f32],
    /// The gradient of the input, and the columns of it that are written. The other columns stay unchanged.
    pub(crate) of_input: Option<(Range<usize>, &'a mut [f32])>,
}

/// Sizes of a tower, and the first part of its variables' names.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Shape<'a> {
    pub(crate) scope: &'a str,
    pub(crate) inputs: usize,
    /// Widths of the hidden layers.
    pub(crate) hidden_units: &'a [usize],
    /// Number of logits; absent = the output is that of the last hidden layer.
    pub(crate) logits: Option<usize>,
}

impl Tower {
    pub(crate) fn new(
        model: &ModelConfig,
        shape: Shape<'_>,
        group: &str,
        variables: &mut Vec<VariableSpec>,
    ) -> Self {
        let Shape {
            scope,
            inputs,
            hidden_units,
            logits,
        } = shape;
        let mut layers: Vec<Layer> = Vec::new();
        let hidden = hidden_units.len();
        for (index, outputs) in hidden_units.iter().copied().chain(logits).enumerate() {
            let name = if index < hidden {
                format!("{scope}/hiddenlayer_{index}")
            } else {
                format!("{scope}/logits")
            };
            let inputs = layers.last().map_or(inputs, |layer| layer.outputs);
            let glorot = Initializer::GlorotUniform;
            variables.push(dense(
                format!("{name}/kernel"),
                vec![inputs, outputs],
                glorot,
                group,
            ));
            variables.push(dense(
                format!("{name}/bias"),
                vec![outputs],
                Initializer::Zeros,
                group,
            ));
            let kernel = variables.len() - 2;
            let bias = variables.len() - 1;
            let norm = (model.batch_norm && index < hidden).then(|| {
                BatchNorm::new(
                    &format!("{name}/batchnorm_{index}"),
                    outputs,
                    group,
                    variables,
                )
            });
            layers.push(Layer {
                kernel,
                bias,
                inputs,
                outputs,
                norm,
            });
        }
        Self {
            layers,
            hidden,
            activation: model.activation,
            dropout: model.dropout,
            regularizer: model.kernel_regularizer,
        }
    }

    /// Returns the width of the output.
    pub(crate) fn outputs(&self) -> usize {
        self.layers.last().map_or(0, |layer| layer.outputs)
    }

    /// Computes the output for the rows of the input.
    pub(crate) fn forward<'w>(
        &self,
        input: Input<'_>,
        values: &Values,
        mut mode: Mode<'_>,
        work: &'w mut Workspace,
    ) -> &'w [f32] {
        let Input {
            rows,
            values: input,
        } = input;
        work.passes.resize_with(self.layers.len(), Pass::default);
        for (index, layer) in self.layers.iter().enumerate() {
            let (before, after) = work.passes.split_at_mut(index);
            let pass = &mut after[0];
            let input = before.last().map_or(input, |pass| pass.output.as_slice());
            pass.output.resize(rows * layer.outputs, 0.0);
            // A prediction has the same bits in any batch. Training has the fastest product.
            let multiply = match mode {
                Mode::Training { .. } => multiply,
                Mode::Inference => multiply_rows,
            };
            multiply(
                input,
                &values[layer.kernel],
                &mut pass.output,
                [rows, layer.inputs, layer.outputs],
            );
            if index >= self.hidden {
                add_bias(&mut pass.output, &values[layer.bias]);
                continue;
            }
            self.activate(layer, &values[layer.bias], pass);
            match &mut mode {
                Mode::Training { seed, gradients } => {
                    self.drop_out(seed.wrapping_add(index as u64), pass);
                    if let Some(norm) = &layer.norm {
                        norm.train(values, &mut pass.output, gradients, &mut pass.norm);
                    }
                }
                Mode::Inference => {
                    if let Some(norm) = &layer.norm {
                        norm.infer(values, &mut pass.output);
                    }
                }
            }
        }
        work.passes
            .last()
            .map_or(&[], |pass| pass.output.as_slice())
    }

    /// Returns whether the output of a layer is that of its activation.
    fn plain(&self, layer: &Layer) -> bool {
        self.dropout == 0.0 && layer.norm.is_none()
    }

    fn activate(&self, layer: &Layer, bias: &[f32], pass: &mut Pass) {
        if self.activation == Activation::Relu {
            add_bias_relu(&mut pass.output, bias);
        } else {
            add_bias(&mut pass.output, bias);
            if activation::needs_input(self.activation) {
                pass.kept.clone_from(&pass.output);
            }
            activation::apply(self.activation, &mut pass.output);
        }
        if !self.plain(layer) && !activation::needs_input(self.activation) {
            pass.kept.clone_from(&pass.output);
        }
    }

    fn drop_out(&self, seed: u64, pass: &mut Pass) {
        if self.dropout == 0.0 {
            return;
        }
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        let kept = 1.0 - self.dropout;
        pass.mask.clear();
        let mask = pass.output.iter().map(|_| {
            if random.random::<f32>() < kept {
                1.0 / kept
            } else {
                0.0
            }
        });
        pass.mask.extend(mask);
        pass.output
            .iter_mut()
            .zip(&pass.mask)
            .for_each(|(value, factor)| *value *= factor);
    }

    /// Writes the gradients, given the gradient of the output and the values that the forward pass has kept. It calls
    /// the hook for each layer as soon as its gradients are final, from the last layer to the first.
    pub(crate) fn backward(
        &self,
        ends: Ends<'_>,
        values: &Values,
        hooked: &mut HookedGradients<'_>,
        work: &mut Workspace,
    ) {
        let Ends {
            input,
            of_output: delta,
            mut of_input,
        } = ends;
        let HookedGradients { gradients, hook } = hooked;
        let rows = delta.len() / self.outputs().max(1);
        work.delta.clear();
        work.delta.extend_from_slice(delta);
        for (index, layer) in self.layers.iter().enumerate().rev() {
            let (below, above) = work.passes.split_at(index);
            if index < self.hidden {
                if let Some(norm) = &layer.norm {
                    norm.backward(values, &mut work.delta, gradients, &above[0].norm);
                }
                self.backward_output(layer, &above[0], &mut work.delta);
            }
            let read = below.last().map_or(input, |pass| pass.output.as_slice());
            let target = match (index, &mut of_input) {
                (0, None) => None,
                (0, Some((columns, out))) => Some((columns.clone(), &mut **out)),
                _ => {
                    work.below.resize(rows * layer.inputs, 0.0);
                    Some((0..layer.inputs, work.below.as_mut_slice()))
                }
            };
            let delta = &work.delta;
            let transposed = &mut work.transposed;
            let mut of_kernel = std::mem::take(&mut gradients[layer.kernel]);
            let of_bias = &mut gradients[layer.bias];
            join(
                || {
                    multiply_first_transposed(
                        read,
                        delta,
                        &mut of_kernel,
                        [layer.inputs, rows, layer.outputs],
                    );
                    add_column_sums(delta, of_bias);
                },
                || {
                    if let Some((columns, out)) = target {
                        let sizes = [rows, layer.outputs, layer.inputs];
                        multiply_second_transposed_columns(
                            delta,
                            &values[layer.kernel],
                            out,
                            sizes,
                            columns,
                            transposed,
                        );
                    }
                },
            );
            add_penalty(self.regularizer, &values[layer.kernel], &mut of_kernel);
            gradients[layer.kernel] = of_kernel;
            [layer.bias, layer.kernel]
                .into_iter()
                .for_each(|variable| hook(variable, &gradients[variable]));
            std::mem::swap(&mut work.delta, &mut work.below);
        }
    }

    /// Propagates the gradient back through dropout and activation.
    fn backward_output(&self, layer: &Layer, pass: &Pass, delta: &mut [f32]) {
        if self.dropout > 0.0 {
            delta
                .iter_mut()
                .zip(&pass.mask)
                .for_each(|(delta, factor)| *delta *= factor);
        }
        let own = self.plain(layer) && !activation::needs_input(self.activation);
        activation::backward(
            self.activation,
            if own { &pass.output } else { &pass.kept },
            delta,
        );
    }
}

fn dense(name: String, shape: Vec<usize>, initializer: Initializer, group: &str) -> VariableSpec {
    VariableSpec {
        name,
        shape,
        access: Access::Whole,
        initializer,
        optimizer_group: group.to_owned(),
    }
}
