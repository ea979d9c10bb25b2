//! The layers of a composition in the graph. A value is a matrix, `batch x width`.

use std::ops::Range;

use trainyard_onnx::{Attribute, Name, attribute};

use super::Builder;
use crate::composition::{Composition, Dots, Layer, Node};

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
            Layer::Dots(layer) => self.dots(name, layer, inputs[0]),
        }
    }

    fn gathered(&mut self, name: &str, input: &Name, columns: impl Iterator<Item = usize>) -> Name {
        let columns: Vec<i64> = columns.map(|column| column as i64).collect();
        let columns = self
            .graph
            .ints(&format!("{name}/columns"), &[columns.len()], &columns);
        let axis = attribute("axis", Attribute::Int(1));
        self.graph.node("Gather", name, &[input, &columns], [axis])
    }

    fn reshaped(&mut self, name: &str, input: &Name, shape: &[usize]) -> Name {
        let shape: Vec<i64> = [-1]
            .into_iter()
            .chain(shape.iter().map(|size| *size as i64))
            .collect();
        let shape = self.graph.list(&shape);
        self.graph.node("Reshape", name, &[input, &shape], [])
    }

    fn transposed(&mut self, name: &str, input: &Name, order: &[i64]) -> Name {
        let order = attribute("perm", Attribute::Ints(order.to_vec()));
        self.graph.node("Transpose", name, &[input], [order])
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
