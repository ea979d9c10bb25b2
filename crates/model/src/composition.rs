//! Compositions: layers between the input layer and the logits, each of which reads outputs of earlier ones.
//!
//! A kind of model is a list of layers: see `composition/dlrm.rs`. The forward pass runs the list from its begin, the
//! backward pass from its end, and an exported graph has the nodes of each layer. A row of an output depends on the same
//! row of the inputs alone.

mod attention;
mod autoint;
mod builder;
mod cin;
mod columns;
mod contraction;
mod dense;
mod din;
mod dlrm;
mod dots;
mod elementwise;
mod esmm;
mod experts;
mod final_mlp;
mod layer_norm;
mod masknet;
mod mmoe;
mod pairs;
mod ple;
mod row;
mod scale;
mod shared_bottom;
mod sink;
mod softmax;
mod xdeepfm;

use std::ops::Range;

use trainyard_feature_column::FeatureColumns;
use trainyard_run_config::{Activation, Family, ModelConfig};
use trainyard_tensor::{multiply, multiply_rows};
use trainyard_variable::{Values, VariableSpec};

use crate::cross_layer::Multiply;
use crate::tower::{self, Tower};
use crate::{Error, HookedGradients, InputLayer};
pub(crate) use attention::Attention;
use builder::Builder;
pub(crate) use cin::{BlockSum, Outer, Transposition};
pub(crate) use columns::{Columns, Concatenation};
pub(crate) use contraction::Contraction;
pub(crate) use dense::Dense;
pub(crate) use dots::Dots;
pub(crate) use layer_norm::{EPSILON, LayerNorm};
pub(crate) use pairs::Pairs;
pub(crate) use scale::Scale;
use sink::Sink;

/// A layer.
#[derive(Debug, Clone)]
pub(crate) enum Layer {
    Columns(Columns),
    Concatenation(Concatenation),
    Tower(Tower),
    Dense(Dense),
    Scale(Scale),
    Activation(Activation),
    /// The sum of its inputs.
    Sum,
    /// The product of two inputs, element by element.
    Product,
    /// The first input minus the second.
    Difference,
    /// The softmax of each row.
    Softmax,
    LayerNorm(LayerNorm),
    Dots(Dots),
    Attention(Attention),
    Transposition(Transposition),
    Outer(Outer),
    BlockSum(BlockSum),
    Contraction(Contraction),
    Pairs(Pairs),
}

/// A layer, the indices of the values that it reads, and the width of its output.
#[derive(Debug, Clone)]
pub(crate) struct Node {
    /// Name in an exported graph.
    pub(crate) name: String,
    pub(crate) layer: Layer,
    pub(crate) reads: Vec<usize>,
    pub(crate) width: usize,
}

/// The layers. Value 0 is the output of the input layer, value `n` that of the layer `n - 1`.
#[derive(Debug, Clone)]
pub(crate) struct Composition {
    pub(crate) nodes: Vec<Node>,
    /// Values whose sum is added to the logits.
    pub(crate) logits: Vec<usize>,
    /// Whether the gradient of a value is used.
    needed: Vec<bool>,
    /// Columns of the input whose gradient is used.
    learned: Range<usize>,
}

/// Buffers of the layers.
#[derive(Debug, Default)]
pub(crate) struct Workspace {
    outputs: Vec<Vec<f32>>,
    /// Values that the backward pass of a layer needs besides inputs and output.
    kept: Vec<Vec<f32>>,
    towers: Vec<tower::Workspace>,
    sink: Sink,
}

/// Inputs of a forward pass of a layer.
struct Forward<'a> {
    inputs: &'a [&'a [f32]],
    rows: usize,
    values: &'a Values,
    multiply: Multiply,
}

/// Inputs of a backward pass of a layer.
struct Backward<'a> {
    /// Indices of the inputs, whose gradients are written.
    reads: &'a [usize],
    inputs: &'a [&'a [f32]],
    output: &'a [f32],
    rows: usize,
    values: &'a Values,
    /// The gradient of the output.
    delta: &'a [f32],
}

/// Both ends of the layers in a backward pass.
#[derive(Debug)]
pub(crate) struct Ends<'a> {
    pub(crate) input: &'a [f32],
    pub(crate) of_logits: &'a [f32],
    /// The gradient of the input, of which the columns of trained embeddings are written. Empty if there are none.
    pub(crate) of_input: &'a mut Vec<f32>,
}

impl Workspace {
    fn resize(&mut self, count: usize) {
        self.outputs.resize_with(count, Vec::new);
        self.kept.resize_with(count, Vec::new);
        self.towers.resize_with(count, tower::Workspace::default);
    }
}

/// Returns the inputs of a layer.
fn inputs<'a>(reads: &[usize], input: &'a [f32], outputs: &'a [Vec<f32>]) -> Vec<&'a [f32]> {
    let value = |value: &usize| match value.checked_sub(1) {
        Some(node) => outputs[node].as_slice(),
        None => input,
    };
    reads.iter().map(value).collect()
}

impl Composition {
    /// Returns the layers of a kind of model whose heads have these numbers of logits, or `None` if it is no composition.
    ///
    /// # Errors
    /// The kind needs other embeddings.
    pub(crate) fn new(
        model: &ModelConfig,
        columns: &FeatureColumns,
        input: &InputLayer,
        heads: &[usize],
        group: &str,
        variables: &mut Vec<VariableSpec>,
    ) -> Result<Option<Self>, Error> {
        let build = match model.kind.family {
            Family::Dlrm => dlrm::build,
            Family::AutoInt => autoint::build,
            Family::XDeepFm => xdeepfm::build,
            Family::FinalMlp => final_mlp::build,
            Family::MaskNet => masknet::build,
            Family::Din => din::build,
            Family::SharedBottom => shared_bottom::build,
            Family::Mmoe => mmoe::build,
            Family::Ple => ple::build,
            Family::Esmm => esmm::build,
            _ => return Ok(None),
        };
        let mut builder = Builder::new(model, columns, input, heads, group, variables);
        let logits = build(&mut builder)?;
        Ok(Some(builder.finish(logits)))
    }

    /// Returns the kernels, whose gradients are overwritten by each step.
    pub(crate) fn kernels(&self) -> impl Iterator<Item = usize> {
        self.nodes.iter().flat_map(|node| match &node.layer {
            Layer::Tower(tower) => tower.layers.iter().map(|layer| layer.kernel).collect(),
            Layer::Dense(dense) => vec![dense.kernel],
            _ => Vec::new(),
        })
    }

    /// Adds the output to the logits.
    pub(crate) fn forward(
        &self,
        input: tower::Input<'_>,
        values: &Values,
        mut mode: tower::Mode<'_>,
        work: &mut Workspace,
        logits: &mut [f32],
    ) {
        let tower::Input {
            rows,
            values: input,
        } = input;
        work.resize(self.nodes.len());
        for (index, node) in self.nodes.iter().enumerate() {
            let (before, after) = work.outputs.split_at_mut(index);
            let out = &mut after[0];
            out.resize(rows * node.width, 0.0);
            let inputs = inputs(&node.reads, input, before);
            // A prediction has the same bits in any batch. Training has the fastest product.
            let multiply = match mode {
                tower::Mode::Training { .. } => multiply,
                tower::Mode::Inference => multiply_rows,
            };
            let pass = Forward {
                inputs: &inputs,
                rows,
                values,
                multiply,
            };
            let kept = &mut work.kept[index];
            match &node.layer {
                Layer::Tower(tower) => {
                    let input = tower::Input {
                        rows,
                        values: inputs[0],
                    };
                    let mode = mode.of_tower(index);
                    let found = tower.forward(input, values, mode, &mut work.towers[index]);
                    out.copy_from_slice(found);
                }
                Layer::Columns(layer) => layer.forward(&pass, out),
                Layer::Concatenation(layer) => layer.forward(&pass, out),
                Layer::Dense(layer) => layer.forward(&pass, out),
                Layer::Scale(layer) => layer.forward(&pass, out),
                Layer::Activation(function) => elementwise::activate(*function, &pass, out),
                Layer::Sum => elementwise::add(&pass, out),
                Layer::Product => elementwise::multiply(&pass, out),
                Layer::Difference => elementwise::subtract(&pass, out),
                Layer::Softmax => softmax::forward(node.width, &pass, out),
                Layer::LayerNorm(layer) => layer.forward(&pass, out),
                Layer::Dots(layer) => layer.forward(&pass, out),
                Layer::Attention(layer) => layer.forward(&pass, kept, out),
                Layer::Transposition(layer) => layer.forward(&pass, out),
                Layer::Outer(layer) => layer.forward(&pass, out),
                Layer::BlockSum(layer) => layer.forward(&pass, out),
                Layer::Contraction(layer) => layer.forward(&pass, out),
                Layer::Pairs(layer) => layer.forward(&pass, out),
            }
        }
        for value in &self.logits {
            let found = &work.outputs[value - 1];
            logits
                .iter_mut()
                .zip(found)
                .for_each(|(logit, value)| *logit += value);
        }
    }

    /// Writes the gradients of the variables and of the input.
    pub(crate) fn backward(
        &self,
        ends: Ends<'_>,
        values: &Values,
        hooked: &mut HookedGradients<'_>,
        work: &mut Workspace,
    ) {
        let Ends {
            input,
            of_logits,
            of_input,
        } = ends;
        let Workspace {
            outputs,
            kept,
            towers,
            sink,
        } = work;
        let units = self.nodes[self.logits[0] - 1].width;
        let rows = of_logits.len() / units;
        sink.start(&self.needed, of_input);
        for value in &self.logits {
            sink.write(*value, of_logits.len(), |out| {
                out.copy_from_slice(of_logits);
            });
        }
        for (index, node) in self.nodes.iter().enumerate().rev() {
            let Some(delta) = sink.take(index + 1) else {
                continue;
            };
            let inputs = inputs(&node.reads, input, outputs);
            let pass = Backward {
                reads: &node.reads,
                inputs: &inputs,
                output: &outputs[index],
                rows,
                values,
                delta: &delta,
            };
            match &node.layer {
                Layer::Tower(tower) => {
                    self.backward_tower(tower, &pass, hooked, &mut towers[index], sink);
                }
                Layer::Columns(layer) => layer.backward(&pass, sink),
                Layer::Concatenation(layer) => layer.backward(&pass, sink),
                Layer::Dense(layer) => layer.backward(&pass, hooked, sink),
                Layer::Scale(layer) => layer.backward(&pass, hooked, sink),
                Layer::Activation(function) => {
                    elementwise::activate_backward(*function, &pass, sink);
                }
                Layer::Sum => elementwise::add_backward(&pass, sink),
                Layer::Product => elementwise::multiply_backward(&pass, sink),
                Layer::Difference => elementwise::subtract_backward(&pass, sink),
                Layer::Softmax => softmax::backward(node.width, &pass, sink),
                Layer::LayerNorm(layer) => layer.backward(&pass, hooked, sink),
                Layer::Dots(layer) => layer.backward(&pass, sink),
                Layer::Attention(layer) => layer.backward(&pass, &mut kept[index], sink),
                Layer::Transposition(layer) => layer.backward(&pass, sink),
                Layer::Outer(layer) => layer.backward(&pass, sink),
                Layer::BlockSum(layer) => layer.backward(&pass, sink),
                Layer::Contraction(layer) => layer.backward(&pass, sink),
                Layer::Pairs(layer) => layer.backward(&pass, sink),
            }
            sink.give_back(index + 1, delta);
        }
        sink.finish(of_input);
    }

    fn backward_tower(
        &self,
        tower: &Tower,
        pass: &Backward<'_>,
        hooked: &mut HookedGradients<'_>,
        work: &mut tower::Workspace,
        sink: &mut Sink,
    ) {
        let read = pass.reads[0];
        let columns = if read == 0 {
            self.learned.clone()
        } else {
            0..pass.inputs[0].len() / pass.rows.max(1)
        };
        let (input, of_output) = (pass.inputs[0], pass.delta);
        if self.needed[read] {
            sink.write(read, input.len(), |out| {
                let ends = tower::Ends {
                    input,
                    of_output,
                    of_input: Some((columns, out)),
                };
                tower.backward(ends, pass.values, hooked, work);
            });
        } else {
            let ends = tower::Ends {
                input,
                of_output,
                of_input: None,
            };
            tower.backward(ends, pass.values, hooked, work);
        }
    }
}

#[cfg(test)]
mod tests;
