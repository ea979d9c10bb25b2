//! Builds the layers of a kind of model: their variables, widths, and the gradients that are used.

use std::ops::Range;

use trainyard_feature_column::FeatureColumns;
use trainyard_run_config::ModelConfig;
use trainyard_variable::{Access, Initializer, VariableSpec};

use super::{Columns, Composition, Concatenation, Dense, Layer, Node};
use crate::tower::{Shape, Tower};
use crate::{Error, InputLayer};

/// A composition under construction.
pub(super) struct Builder<'a> {
    pub(super) model: &'a ModelConfig,
    pub(super) columns: &'a FeatureColumns,
    pub(super) input: &'a InputLayer,
    /// Number of logits of each head.
    heads: &'a [usize],
    group: &'a str,
    variables: &'a mut Vec<VariableSpec>,
    nodes: Vec<Node>,
    needed: Vec<bool>,
}

/// The output of the input layer, or of a layer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Value {
    index: usize,
    pub(super) width: usize,
}

/// Embeddings of one dimension, side by side.
#[derive(Debug, Clone, Copy)]
pub(super) struct Vectors {
    pub(super) value: Value,
    pub(super) count: usize,
    pub(super) dimension: usize,
}

impl<'a> Builder<'a> {
    pub(super) fn new(
        model: &'a ModelConfig,
        columns: &'a FeatureColumns,
        input: &'a InputLayer,
        heads: &'a [usize],
        group: &'a str,
        variables: &'a mut Vec<VariableSpec>,
    ) -> Self {
        Self {
            model,
            columns,
            input,
            heads,
            group,
            variables,
            nodes: Vec::new(),
            needed: vec![!input.learned().is_empty()],
        }
    }

    pub(super) fn finish(self, logits: Vec<Value>) -> Composition {
        Composition {
            nodes: self.nodes,
            logits: logits.into_iter().map(|value| value.index).collect(),
            needed: self.needed,
            learned: self.input.learned(),
        }
    }

    /// Returns the number of logits of a model of one task.
    pub(super) fn units(&self) -> usize {
        self.heads[0]
    }

    /// Returns the output of the input layer.
    pub(super) fn whole_input(&self) -> Value {
        Value {
            index: 0,
            width: self.input.width(),
        }
    }

    /// Adds a layer of this width.
    pub(super) fn add(&mut self, name: &str, layer: Layer, reads: &[Value], width: usize) -> Value {
        let is_variable = matches!(
            layer,
            Layer::Tower(_) | Layer::Dense(_) | Layer::Scale(_) | Layer::LayerNorm(_)
        );
        let reads: Vec<usize> = reads.iter().map(|value| value.index).collect();
        let is_needed = match &layer {
            // The gradient of numbers and indicators is not used.
            Layer::Columns(columns) if reads == [0] => {
                let learned = self.input.learned();
                let mut ranges = columns.ranges.iter();
                ranges.any(|range| range.start < learned.end && learned.start < range.end)
            }
            _ => is_variable || reads.iter().any(|value| self.needed[*value]),
        };
        self.needed.push(is_needed);
        self.nodes.push(Node {
            name: name.to_owned(),
            layer,
            reads,
            width,
        });
        Value {
            index: self.nodes.len(),
            width,
        }
    }

    /// Adds a variable that each step reads whole.
    pub(super) fn variable(
        &mut self,
        name: String,
        shape: Vec<usize>,
        initializer: Initializer,
    ) -> usize {
        self.variables.push(VariableSpec {
            name,
            shape,
            access: Access::Whole,
            initializer,
            optimizer_group: self.group.to_owned(),
        });
        self.variables.len() - 1
    }

    /// Returns `x K + b` of a value.
    pub(super) fn dense(&mut self, scope: &str, input: Value, outputs: usize) -> Value {
        self.dense_blocks(scope, input, 1, outputs)
    }

    /// Returns `x K + b` of each of the `blocks` parts of a value.
    pub(super) fn dense_blocks(
        &mut self,
        scope: &str,
        input: Value,
        blocks: usize,
        outputs: usize,
    ) -> Value {
        let layer = self.kernel(scope, input, blocks, outputs);
        let bias = self.variable(format!("{scope}/bias"), vec![outputs], Initializer::Zeros);
        let layer = Dense {
            bias: Some(bias),
            ..layer
        };
        self.add(scope, Layer::Dense(layer), &[input], blocks * outputs)
    }

    /// Returns `x K` of each of the `blocks` parts of a value.
    pub(super) fn product(
        &mut self,
        scope: &str,
        input: Value,
        blocks: usize,
        outputs: usize,
    ) -> Value {
        let layer = self.kernel(scope, input, blocks, outputs);
        self.add(scope, Layer::Dense(layer), &[input], blocks * outputs)
    }

    fn kernel(&mut self, scope: &str, input: Value, blocks: usize, outputs: usize) -> Dense {
        let inputs = input.width / blocks;
        let kernel = self.variable(
            format!("{scope}/kernel"),
            vec![inputs, outputs],
            Initializer::GlorotUniform,
        );
        Dense {
            kernel,
            bias: None,
            blocks,
            inputs,
            outputs,
            regularizer: self.model.kernel_regularizer,
        }
    }

    /// Returns columns of the input.
    pub(super) fn input_columns(
        &mut self,
        name: &str,
        ranges: impl IntoIterator<Item = Range<usize>>,
    ) -> Value {
        self.columns_of(name, self.whole_input(), ranges)
    }

    /// Returns columns of a value.
    pub(super) fn columns_of(
        &mut self,
        name: &str,
        value: Value,
        ranges: impl IntoIterator<Item = Range<usize>>,
    ) -> Value {
        let ranges: Vec<Range<usize>> = ranges.into_iter().collect();
        if let [all] = ranges.as_slice()
            && *all == (0..value.width)
        {
            return value;
        }
        let columns = Columns {
            from: value.width,
            ranges,
        };
        let width = columns.width();
        self.add(name, Layer::Columns(columns), &[value], width)
    }

    /// Returns values side by side.
    pub(super) fn concatenate(&mut self, name: &str, values: &[Value]) -> Value {
        if let [one] = values {
            return *one;
        }
        let widths = values.iter().map(|value| value.width).collect();
        let layer = Concatenation { widths };
        let width = layer.width();
        self.add(name, Layer::Concatenation(layer), values, width)
    }

    /// Returns the output of dense layers of these widths, each with the activation of the model.
    pub(super) fn hidden(&mut self, scope: &str, input: Value, hidden_units: &[usize]) -> Value {
        self.tower(input, scope, hidden_units, None)
    }

    /// Returns the logits of the dense layers of the model.
    pub(super) fn logits(&mut self, input: Value) -> Value {
        let model = self.model;
        self.tower(input, "dnn", &model.hidden_units, Some(self.units()))
    }

    /// Returns the logits of each task, side by side, given the input of the tower of each.
    pub(super) fn logits_of_tasks(&mut self, inputs: &[Value]) -> Value {
        let model = self.model;
        let mut logits = Vec::new();
        for (place, (task, input)) in model.tasks.iter().zip(inputs).enumerate() {
            let scope = format!("tasks/{}", task.name);
            let units = Some(self.heads[place]);
            logits.push(self.tower(*input, &scope, &model.tower_units, units));
        }
        self.concatenate("tasks/logits", &logits)
    }

    fn tower(
        &mut self,
        input: Value,
        scope: &str,
        hidden_units: &[usize],
        logits: Option<usize>,
    ) -> Value {
        let shape = Shape {
            scope,
            inputs: input.width,
            hidden_units,
            logits,
        };
        let tower = Tower::new(self.model, shape, self.group, self.variables);
        let width = tower.outputs();
        self.add(scope, Layer::Tower(tower), &[input], width)
    }

    /// Returns the columns of the input that are no embedding, in ascending order.
    pub(super) fn other_columns(&self) -> Vec<Range<usize>> {
        let mut ranges: Vec<Range<usize>> = Vec::new();
        let mut end = 0;
        let embeddings = self.input.embeddings().chain([(self.input.width(), 0)]);
        for (begin, dimension) in embeddings {
            if end < begin {
                ranges.push(end..begin);
            }
            end = begin + dimension;
        }
        ranges
    }

    /// Returns the embeddings side by side.
    ///
    /// # Errors
    /// There are fewer than `least`, or they have several dimensions.
    pub(super) fn embeddings(&mut self, least: usize) -> Result<Vectors, Error> {
        let (begins, dimensions): (Vec<usize>, Vec<usize>) = self.input.embeddings().unzip();
        let kind = match self.model.kind.name() {
            name if name.starts_with('a') => format!("an {name}"),
            name => format!("a {name}"),
        };
        let count = begins.len();
        let Some(&dimension) = dimensions.first().filter(|_| count >= least) else {
            let embeddings = if least == 1 {
                "embedding"
            } else {
                "embeddings"
            };
            let message = format!("{kind} needs at least {least} {embeddings}, given {count}");
            return Err(Error::Invalid(message));
        };
        if let Some(other) = dimensions.iter().find(|other| **other != dimension) {
            let message =
                format!("{kind} needs embeddings of one dimension, given {dimension} and {other}");
            return Err(Error::Invalid(message));
        }
        let mut ranges: Vec<Range<usize>> = Vec::new();
        for begin in begins {
            match ranges.last_mut().filter(|last| last.end == begin) {
                Some(last) => last.end = begin + dimension,
                None => ranges.push(begin..begin + dimension),
            }
        }
        Ok(Vectors {
            value: self.input_columns("embeddings", ranges),
            count,
            dimension,
        })
    }
}
