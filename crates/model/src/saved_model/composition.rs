//! The layers of a composition in a SavedModel. A value is a matrix, `[batch, width]`.

use std::ops::Range;

use trainyard_tensorflow_formats::saved_model::Edge;

use super::Builder;
use crate::composition::{Composition, Dots, Layer, Node};

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
            Layer::Dots(layer) => self.dots(&name, layer, &inputs[0]),
        }
    }

    fn gathered(&mut self, name: &str, input: &Edge, columns: impl Iterator<Item = usize>) -> Edge {
        let columns: Vec<i64> = columns.map(|column| column as i64).collect();
        let columns = self.graph.list(&columns);
        self.graph.gather_columns(name, input, &columns)
    }

    fn reshaped(&mut self, name: &str, input: &Edge, shape: &[usize]) -> Edge {
        let shape: Vec<i64> = [-1]
            .into_iter()
            .chain(shape.iter().map(|size| *size as i64))
            .collect();
        self.graph.reshape(name, input, &shape)
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
