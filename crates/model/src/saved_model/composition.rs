//! The layers of a composition in a SavedModel. A value is a matrix, `[batch, width]`.

use std::ops::Range;

use trainyard_tensorflow_formats::saved_model::{Binary, Edge, Unary};

use super::Builder;
use crate::composition::{
    Attention, BlockSum, Composition, Contraction, Dense, Dots, EPSILON, Layer, LayerNorm, Node,
    Outer, Pairs, Scale, Transposition,
};

impl Builder<'_> {
    /// Adds what the composition adds to the logits to `parts`.
    pub(super) fn composition(
        &mut self,
        composition: &Composition,
        input: Edge,
        parts: &mut Vec<Edge>,
    ) {
        let mut values = vec![input];
        for node in &composition.nodes {
            let inputs: Vec<Edge> = node
                .reads
                .iter()
                .map(|value| values[*value].clone())
                .collect();
            let output = self.layer(node, &inputs);
            values.push(output);
        }
        let logits = composition.logits.iter();
        parts.extend(logits.map(|value| values[*value].clone()));
    }

    fn layer(&mut self, node: &Node, inputs: &[Edge]) -> Edge {
        let name = self.name(&node.name);
        match &node.layer {
            Layer::Columns(layer) => {
                let columns = layer.ranges.iter().cloned().flat_map(Range::into_iter);
                self.gathered(&name, &inputs[0], columns)
            }
            Layer::Concatenation(_) => self.graph.concatenate(&name, inputs, 1),
            Layer::Tower(tower) => self.tower(tower, &inputs[0]),
            Layer::Dense(layer) => self.product(&name, layer, &inputs[0]),
            Layer::Scale(layer) => self.scaled(&name, layer, &inputs[0]),
            Layer::Activation(function) => self.activated(&name, *function, &inputs[0]),
            Layer::Sum => self.graph.sum_of(&name, inputs),
            Layer::Product => self
                .graph
                .binary(Binary::Multiply, &name, &inputs[0], &inputs[1]),
            Layer::Difference => {
                let [a, b] = [&inputs[0], &inputs[1]];
                self.graph.binary(Binary::Subtract, &name, a, b)
            }
            Layer::Softmax => self.graph.unary(Unary::Softmax, &name, &inputs[0]),
            Layer::LayerNorm(layer) => self.layer_norm(&name, layer, &inputs[0]),
            Layer::Dots(layer) => self.dots(&name, layer, &inputs[0]),
            Layer::Attention(layer) => self.attention(&name, layer, inputs),
            Layer::Transposition(Transposition { rows, columns }) => {
                let matrix = format!("{name}/matrix");
                let matrix = self.reshaped(&matrix, &inputs[0], &[*rows, *columns]);
                let transposed = format!("{name}/transposed");
                let transposed = self.graph.transpose(&transposed, &matrix, &[0, 2, 1]);
                self.reshaped(&name, &transposed, &[rows * columns])
            }
            Layer::Outer(layer) => self.outer(&name, layer, inputs),
            Layer::Contraction(layer) => self.contraction(&name, layer, inputs),
            Layer::Pairs(layer) => self.pairs(&name, layer, inputs),
            Layer::BlockSum(BlockSum { blocks, width }) => {
                let split = format!("{name}/blocks");
                let split = self.reshaped(&split, &inputs[0], &[*blocks, *width]);
                let sums = self.graph.sum_along(&format!("{name}/sum"), &split, 1);
                self.reshaped(&name, &sums, &[*width])
            }
        }
    }

    pub(super) fn gathered(
        &mut self,
        name: &str,
        input: &Edge,
        columns: impl Iterator<Item = usize>,
    ) -> Edge {
        let columns: Vec<i64> = columns.map(|column| column as i64).collect();
        let columns = self.graph.list(&columns);
        self.graph.gather_columns(name, input, &columns)
    }

    pub(super) fn reshaped(&mut self, name: &str, input: &Edge, shape: &[usize]) -> Edge {
        let shape: Vec<i64> = [-1]
            .into_iter()
            .chain(shape.iter().map(|size| *size as i64))
            .collect();
        self.graph.reshape(name, input, &shape)
    }

    fn product(&mut self, name: &str, layer: &Dense, input: &Edge) -> Edge {
        if let Some(bias) = layer.bias {
            if layer.blocks == 1 {
                return self.dense_layer(name, input, [layer.kernel, bias]);
            }
            let blocks = self.reshaped(&format!("{name}/blocks"), input, &[layer.inputs]);
            let product = self.dense_layer(name, &blocks, [layer.kernel, bias]);
            let width = layer.blocks * layer.outputs;
            return self.reshaped(&format!("{name}/flat"), &product, &[width]);
        }
        let kernel = self.variable(layer.kernel);
        let node = format!("{name}/MatMul");
        if layer.blocks == 1 {
            return self.graph.matrix_product(&node, input, &kernel);
        }
        let blocks = self.reshaped(&format!("{name}/blocks"), input, &[layer.inputs]);
        let product = self.graph.matrix_product(&node, &blocks, &kernel);
        self.reshaped(name, &product, &[layer.blocks * layer.outputs])
    }

    fn scaled(&mut self, name: &str, layer: &Scale, input: &Edge) -> Edge {
        let numbers = self.reshaped(&format!("{name}/numbers"), input, &[layer.numbers, 1]);
        let vectors = self.variable(layer.kernel);
        let node = format!("{name}/scaled");
        let scaled = self
            .graph
            .binary(Binary::Multiply, &node, &numbers, &vectors);
        self.reshaped(name, &scaled, &[layer.numbers * layer.dimension])
    }

    fn layer_norm(&mut self, scope: &str, layer: &LayerNorm, input: &Edge) -> Edge {
        let LayerNorm { blocks, width, .. } = *layer;
        let name = |part: &str| format!("{scope}/{part}");
        let split = self.reshaped(&name("blocks"), input, &[blocks, width]);
        let [gamma, beta] = [layer.gamma, layer.beta].map(|variable| self.variable(variable));
        let graph = &mut *self.graph;
        let count = graph.float(width as f32);
        let epsilon = graph.float(EPSILON);
        let sum = graph.sum_along(&name("sum"), &split, 2);
        let mean = graph.binary(Binary::Divide, &name("mean"), &sum, &count);
        let centered = graph.binary(Binary::Subtract, &name("centered"), &split, &mean);
        let squares = graph.unary(Unary::Square, &name("squares"), &centered);
        let sum = graph.sum_along(&name("sum_of_squares"), &squares, 2);
        let variance = graph.binary(Binary::Divide, &name("variance"), &sum, &count);
        let variance = graph.binary(Binary::Add, &name("variance"), &variance, &epsilon);
        let deviation = graph.unary(Unary::Sqrt, &name("deviation"), &variance);
        let normalized = graph.binary(Binary::Divide, &name("normalized"), &centered, &deviation);
        let flat = self.reshaped(&name("flat"), &normalized, &[blocks * width]);
        let graph = &mut *self.graph;
        let scaled = graph.binary(Binary::Multiply, &name("scaled"), &flat, &gamma);
        graph.binary(Binary::Add, scope, &scaled, &beta)
    }

    fn attention(&mut self, name: &str, layer: &Attention, inputs: &[Edge]) -> Edge {
        let Attention {
            vectors,
            heads,
            dimension,
        } = *layer;
        let parts = ["queries", "keys", "values"].iter().zip(inputs);
        let parts: Vec<Edge> = parts
            .map(|(part, input)| {
                let name = format!("{name}/{part}");
                let split = self.reshaped(&name, input, &[vectors, heads, dimension]);
                let heads = format!("{name}/heads");
                self.graph.transpose(&heads, &split, &[0, 2, 1, 3])
            })
            .collect();
        let graph = &mut *self.graph;
        let node = format!("{name}/products");
        let products = graph.batch_product_transposed(&node, &parts[0], &parts[1]);
        let weights = graph.unary(Unary::Softmax, &format!("{name}/weights"), &products);
        let sums = graph.batch_product(&format!("{name}/sums"), &weights, &parts[2]);
        let sums = graph.transpose(&format!("{name}/vectors"), &sums, &[0, 2, 1, 3]);
        self.reshaped(name, &sums, &[vectors * heads * dimension])
    }

    fn outer(&mut self, name: &str, layer: &Outer, inputs: &[Edge]) -> Edge {
        let Outer {
            blocks,
            left,
            right,
        } = *layer;
        let lefts = self.reshaped(&format!("{name}/left"), &inputs[0], &[blocks, left, 1]);
        let rights = self.reshaped(&format!("{name}/right"), &inputs[1], &[blocks, 1, right]);
        let node = format!("{name}/products");
        let products = self.graph.binary(Binary::Multiply, &node, &lefts, &rights);
        self.reshaped(name, &products, &[blocks * left * right])
    }

    fn contraction(&mut self, name: &str, layer: &Contraction, inputs: &[Edge]) -> Edge {
        let Contraction { blocks, width } = *layer;
        let left = self.reshaped(&format!("{name}/left"), &inputs[0], &[blocks, width]);
        let right = self.reshaped(&format!("{name}/right"), &inputs[1], &[width, 1]);
        let node = format!("{name}/products");
        let products = self.graph.batch_product(&node, &left, &right);
        self.reshaped(name, &products, &[blocks])
    }

    fn pairs(&mut self, name: &str, layer: &Pairs, inputs: &[Edge]) -> Edge {
        let Pairs { count, dimension } = *layer;
        let query = self.reshaped(&format!("{name}/query"), &inputs[0], &[1, dimension]);
        let keys = self.reshaped(&format!("{name}/keys"), &inputs[1], &[count, dimension]);
        let graph = &mut *self.graph;
        let shape = graph.shape_of(&format!("{name}/shape"), &keys);
        let queries = graph.broadcast(&format!("{name}/queries"), &query, &shape);
        let differences = format!("{name}/differences");
        let differences = graph.binary(Binary::Subtract, &differences, &query, &keys);
        let products = format!("{name}/products");
        let products = graph.binary(Binary::Multiply, &products, &query, &keys);
        let parts = [queries, keys, differences, products];
        let pairs = graph.concatenate(&format!("{name}/pairs"), &parts, 2);
        self.reshaped(name, &pairs, &[layer.width()])
    }

    fn dots(&mut self, name: &str, dots: &Dots, input: &Edge) -> Edge {
        let Dots { vectors, dimension } = *dots;
        let rows = self.reshaped(&format!("{name}/vectors"), input, &[vectors, dimension]);
        let products = format!("{name}/products");
        let products = self.graph.batch_product_transposed(&products, &rows, &rows);
        let all = self.reshaped(&format!("{name}/all"), &products, &[vectors * vectors]);
        let pairs = dots.pairs().map(|(i, j)| i * vectors + j);
        self.gathered(name, &all, pairs)
    }
}
