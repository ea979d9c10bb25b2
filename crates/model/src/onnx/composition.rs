//! The layers of a composition in the graph. A value is a matrix, `batch x width`.

use std::ops::Range;

use trainyard_onnx::{Attribute, Name, attribute};

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
        input: Name,
        parts: &mut Vec<Name>,
    ) {
        let mut values = vec![input];
        for node in &composition.nodes {
            let inputs: Vec<&Name> = node.reads.iter().map(|value| &values[*value]).collect();
            let output = self.layer(node, &inputs);
            values.push(output);
        }
        let logits = composition.logits.iter();
        parts.extend(logits.map(|value| values[*value].clone()));
    }

    fn layer(&mut self, node: &Node, inputs: &[&Name]) -> Name {
        let name = &node.name;
        match &node.layer {
            Layer::Columns(layer) => {
                let columns = layer.ranges.iter().cloned().flat_map(Range::into_iter);
                self.gathered(name, inputs[0], columns)
            }
            Layer::Concatenation(_) => {
                let axis = attribute("axis", Attribute::Int(1));
                self.graph.node("Concat", name, inputs, [axis])
            }
            Layer::Tower(tower) => self.tower(tower, inputs[0]),
            Layer::Dense(layer) => self.product(name, layer, inputs[0]),
            Layer::Scale(layer) => self.scaled(name, layer, inputs[0]),
            Layer::Activation(function) => self.activated(name, *function, inputs[0]),
            Layer::Sum => self.graph.node("Sum", name, inputs, []),
            Layer::Product => self.graph.node("Mul", name, inputs, []),
            Layer::Difference => self.graph.node("Sub", name, inputs, []),
            Layer::Softmax => {
                let axis = attribute("axis", Attribute::Int(1));
                self.graph.node("Softmax", name, inputs, [axis])
            }
            Layer::LayerNorm(layer) => self.layer_norm(name, layer, inputs[0]),
            Layer::Dots(layer) => self.dots(name, layer, inputs[0]),
            Layer::Attention(layer) => self.attention(name, layer, inputs),
            Layer::Transposition(Transposition { rows, columns }) => {
                let matrix =
                    self.reshaped(&format!("{name}/matrix"), inputs[0], &[*rows, *columns]);
                let transposed = format!("{name}/transposed");
                let transposed = self.transposed(&transposed, &matrix, &[0, 2, 1]);
                self.reshaped(name, &transposed, &[rows * columns])
            }
            Layer::Outer(layer) => self.outer(name, layer, inputs),
            Layer::Contraction(layer) => self.contraction(name, layer, inputs),
            Layer::Pairs(layer) => self.pairs(name, layer, inputs),
            Layer::BlockSum(BlockSum { blocks, width }) => {
                let split = self.reshaped(&format!("{name}/blocks"), inputs[0], &[*blocks, *width]);
                let along = self.graph.list(&[1]);
                let drop = attribute("keepdims", Attribute::Int(0));
                self.graph
                    .node("ReduceSum", name, &[&split, &along], [drop])
            }
        }
    }

    pub(super) fn gathered(
        &mut self,
        name: &str,
        input: &Name,
        columns: impl Iterator<Item = usize>,
    ) -> Name {
        let columns: Vec<i64> = columns.map(|column| column as i64).collect();
        let columns = self
            .graph
            .ints(&format!("{name}/columns"), &[columns.len()], &columns);
        let axis = attribute("axis", Attribute::Int(1));
        self.graph.node("Gather", name, &[input, &columns], [axis])
    }

    pub(super) fn reshaped(&mut self, name: &str, input: &Name, shape: &[usize]) -> Name {
        let shape: Vec<i64> = [-1]
            .into_iter()
            .chain(shape.iter().map(|size| *size as i64))
            .collect();
        let shape = self.graph.list(&shape);
        self.graph.node("Reshape", name, &[input, &shape], [])
    }

    pub(super) fn transposed(&mut self, name: &str, input: &Name, order: &[i64]) -> Name {
        let order = attribute("perm", Attribute::Ints(order.to_vec()));
        self.graph.node("Transpose", name, &[input], [order])
    }

    fn product(&mut self, name: &str, layer: &Dense, input: &Name) -> Name {
        if let Some(bias) = layer.bias {
            if layer.blocks == 1 {
                return self.dense(name, input, layer.kernel, bias);
            }
            let blocks = self.reshaped(&format!("{name}/blocks"), input, &[layer.inputs]);
            let product = self.dense(name, &blocks, layer.kernel, bias);
            let width = layer.blocks * layer.outputs;
            return self.reshaped(&format!("{name}/flat"), &product, &[width]);
        }
        let kernel = self.table(layer.kernel, None);
        let node = format!("{name}/product");
        if layer.blocks == 1 {
            return self.graph.node("MatMul", &node, &[input, &kernel], []);
        }
        let shape = [layer.blocks, layer.inputs];
        let blocks = self.reshaped(&format!("{name}/blocks"), input, &shape);
        let product = self.graph.node("MatMul", &node, &[&blocks, &kernel], []);
        self.reshaped(name, &product, &[layer.blocks * layer.outputs])
    }

    fn scaled(&mut self, name: &str, layer: &Scale, input: &Name) -> Name {
        let numbers = self.reshaped(&format!("{name}/numbers"), input, &[layer.numbers, 1]);
        let vectors = self.table(layer.kernel, None);
        let node = format!("{name}/scaled");
        let scaled = self.graph.node("Mul", &node, &[&numbers, &vectors], []);
        self.reshaped(name, &scaled, &[layer.numbers * layer.dimension])
    }

    fn layer_norm(&mut self, name: &str, layer: &LayerNorm, input: &Name) -> Name {
        let LayerNorm { blocks, width, .. } = *layer;
        let split = self.reshaped(&format!("{name}/blocks"), input, &[blocks, width]);
        let graph = &mut self.graph;
        let ones = graph.floats(&format!("{name}/ones"), &[width], &vec![1.0; width]);
        let attributes = [
            attribute("axis", Attribute::Int(-1)),
            attribute("epsilon", Attribute::Float(EPSILON)),
        ];
        let node = format!("{name}/normalization");
        let normalized = graph.node("LayerNormalization", &node, &[&split, &ones], attributes);
        let flat = self.reshaped(
            &format!("{name}/normalized"),
            &normalized,
            &[blocks * width],
        );
        let [gamma, beta] = [layer.gamma, layer.beta].map(|variable| self.table(variable, None));
        let node = format!("{name}/scaled");
        let scaled = self.graph.node("Mul", &node, &[&flat, &gamma], []);
        self.graph.node("Add", name, &[&scaled, &beta], [])
    }

    fn attention(&mut self, name: &str, layer: &Attention, inputs: &[&Name]) -> Name {
        let Attention {
            vectors,
            heads,
            dimension,
        } = *layer;
        let orders = [[0, 2, 1, 3], [0, 2, 3, 1], [0, 2, 1, 3]];
        let parts = ["queries", "keys", "values"].iter().zip(orders).zip(inputs);
        let parts: Vec<Name> = parts
            .map(|((part, order), input)| {
                let name = format!("{name}/{part}");
                let heads = self.reshaped(&name, input, &[vectors, heads, dimension]);
                self.transposed(&format!("{name}/heads"), &heads, &order)
            })
            .collect();
        let graph = &mut self.graph;
        let node = format!("{name}/products");
        let products = graph.node("MatMul", &node, &[&parts[0], &parts[1]], []);
        let axis = attribute("axis", Attribute::Int(-1));
        let node = format!("{name}/weights");
        let weights = graph.node("Softmax", &node, &[&products], [axis]);
        let node = format!("{name}/sums");
        let sums = graph.node("MatMul", &node, &[&weights, &parts[2]], []);
        let sums = self.transposed(&format!("{name}/vectors"), &sums, &[0, 2, 1, 3]);
        self.reshaped(name, &sums, &[vectors * heads * dimension])
    }

    fn outer(&mut self, name: &str, layer: &Outer, inputs: &[&Name]) -> Name {
        let Outer {
            blocks,
            left,
            right,
        } = *layer;
        let lefts = self.reshaped(&format!("{name}/left"), inputs[0], &[blocks, left, 1]);
        let rights = self.reshaped(&format!("{name}/right"), inputs[1], &[blocks, 1, right]);
        let node = format!("{name}/products");
        let products = self.graph.node("Mul", &node, &[&lefts, &rights], []);
        self.reshaped(name, &products, &[blocks * left * right])
    }

    fn contraction(&mut self, name: &str, layer: &Contraction, inputs: &[&Name]) -> Name {
        let Contraction { blocks, width } = *layer;
        let left = self.reshaped(&format!("{name}/left"), inputs[0], &[blocks, width]);
        let right = self.reshaped(&format!("{name}/right"), inputs[1], &[width, 1]);
        let node = format!("{name}/products");
        let products = self.graph.node("MatMul", &node, &[&left, &right], []);
        self.reshaped(name, &products, &[blocks])
    }

    fn pairs(&mut self, name: &str, layer: &Pairs, inputs: &[&Name]) -> Name {
        let Pairs { count, dimension } = *layer;
        let query = self.reshaped(&format!("{name}/query"), inputs[0], &[1, dimension]);
        let keys = self.reshaped(&format!("{name}/keys"), inputs[1], &[count, dimension]);
        let graph = &mut self.graph;
        let shape = format!("{name}/shape");
        let shape = graph.node("Shape", &shape, &[&keys], []);
        let queries = format!("{name}/queries");
        let queries = graph.node("Expand", &queries, &[&query, &shape], []);
        let differences = format!("{name}/differences");
        let differences = graph.node("Sub", &differences, &[&query, &keys], []);
        let products = format!("{name}/products");
        let products = graph.node("Mul", &products, &[&query, &keys], []);
        let axis = attribute("axis", Attribute::Int(2));
        let parts = [&queries, &keys, &differences, &products];
        let pairs = graph.node("Concat", &format!("{name}/pairs"), &parts, [axis]);
        self.reshaped(name, &pairs, &[layer.width()])
    }

    fn dots(&mut self, name: &str, dots: &Dots, input: &Name) -> Name {
        let Dots { vectors, dimension } = *dots;
        let rows = self.reshaped(&format!("{name}/vectors"), input, &[vectors, dimension]);
        let columns = self.transposed(&format!("{name}/transposed"), &rows, &[0, 2, 1]);
        let name_of_products = format!("{name}/products");
        let products = self
            .graph
            .node("MatMul", &name_of_products, &[&rows, &columns], []);
        let all = self.reshaped(&format!("{name}/all"), &products, &[vectors * vectors]);
        let pairs = dots.pairs().map(|(i, j)| i * vectors + j);
        self.gathered(name, &all, pairs)
    }
}
