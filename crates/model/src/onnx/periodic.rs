//! Periodic embeddings of numbers in the graph.

use std::f32::consts::TAU;

use trainyard_onnx::{Attribute, Name, attribute};

use super::Builder;
use crate::periodic::Periodic;

impl Builder<'_> {
    /// Returns the embedding of numbers, `batch x size`.
    pub(super) fn periodic(&mut self, periodic: &Periodic) -> Name {
        let Periodic {
            numbers,
            frequencies,
            ..
        } = *periodic;
        let coefficients = &self.canned.variables[periodic.coefficients].name;
        let scope = coefficients.replace("/coefficients", "");
        let name = |part: &str| format!("{scope}/{part}");
        let given = self.numbers_at(periodic.begin);
        let given = self.reshaped(&name("apart"), &given, &[numbers, 1]);
        let coefficients = self.table(periodic.coefficients, None);
        let tau = self.graph.floats(&name("tau"), &[1], &[TAU]);
        let turns = &name("angular_frequencies");
        let angular = self.graph.node("Mul", turns, &[&tau, &coefficients], []);
        let graph = &mut self.graph;
        let phases = graph.node("Mul", &name("phases"), &[&angular, &given], []);
        let sin = graph.node("Sin", &name("sin"), &[&phases], []);
        let cos = graph.node("Cos", &name("cos"), &[&phases], []);
        let last = attribute("axis", Attribute::Int(2));
        let waves = graph.node("Concat", &name("waves"), &[&sin, &cos], [last]);
        let width = 2 * frequencies;
        let Some(layer) = &periodic.layer else {
            return self.reshaped(&name("embedding"), &waves, &[numbers * width]);
        };
        // A product for each number: `numbers x batch x width` times `numbers x width x units`.
        let waves = self.transposed(&name("by_number"), &waves, &[1, 0, 2]);
        let kernel = self.table(layer.kernel, None);
        let shape = [numbers, width, layer.units].map(|size| size as i64);
        let shape = self.graph.list(&shape);
        let graph = &mut self.graph;
        let kernel = graph.node("Reshape", &name("kernels"), &[&kernel, &shape], []);
        let product = graph.node("MatMul", &name("product"), &[&waves, &kernel], []);
        let product = self.transposed(&name("by_row"), &product, &[1, 0, 2]);
        let product = self.reshaped(&name("outputs"), &product, &[numbers * layer.units]);
        let bias = self.table(layer.bias, None);
        let graph = &mut self.graph;
        let sum = graph.node("Add", &name("sum"), &[&product, &bias], []);
        graph.node("Relu", &name("relu"), &[&sum], [])
    }
}
