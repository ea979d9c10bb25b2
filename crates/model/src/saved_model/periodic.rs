//! Periodic embeddings of numbers in a SavedModel.

use std::f32::consts::TAU;

use trainyard_tensorflow_formats::saved_model::{Binary, Edge, Unary};

use super::Builder;
use crate::periodic::Periodic;

impl Builder<'_> {
    /// Returns the embedding of numbers, `[batch, size]`.
    pub(super) fn periodic(&mut self, periodic: &Periodic) -> Edge {
        let Periodic {
            numbers,
            frequencies,
            ..
        } = *periodic;
        let coefficients = &self.canned.variables[periodic.coefficients].name;
        let scope = self.name(&coefficients.replace("/coefficients", "/embedding"));
        let name = |part: &str| format!("{scope}/{part}");
        let given = self.numbers_at(periodic.begin);
        let coefficients = self.variable(periodic.coefficients);
        let given = self.reshaped(&name("apart"), &given, &[numbers, 1]);
        let graph = &mut *self.graph;
        let tau = graph.float(TAU);
        let turns = name("angular_frequencies");
        let angular = graph.binary(Binary::Multiply, &turns, &tau, &coefficients);
        let phases = graph.binary(Binary::Multiply, &name("phases"), &angular, &given);
        let sin = graph.unary(Unary::Sin, &name("sin"), &phases);
        let cos = graph.unary(Unary::Cos, &name("cos"), &phases);
        let waves = graph.concatenate(&name("waves"), &[sin, cos], 2);
        let width = 2 * frequencies;
        let Some(layer) = &periodic.layer else {
            return self.reshaped(&name("values"), &waves, &[numbers * width]);
        };
        let kernel = self.variable(layer.kernel);
        let bias = self.variable(layer.bias);
        let graph = &mut *self.graph;
        // A product for each number: `[numbers, batch, width]` times `[numbers, width, units]`.
        let waves = graph.transpose(&name("by_number"), &waves, &[1, 0, 2]);
        let shape = [numbers, width, layer.units].map(|size| size as i64);
        let kernel = graph.reshape(&name("kernels"), &kernel, &shape);
        let product = graph.batch_product(&name("product"), &waves, &kernel);
        let product = graph.transpose(&name("by_row"), &product, &[1, 0, 2]);
        let product = self.reshaped(&name("outputs"), &product, &[numbers * layer.units]);
        let graph = &mut *self.graph;
        let sum = graph.binary(Binary::Add, &name("sum"), &product, &bias);
        graph.unary(Unary::Relu, &name("relu"), &sum)
    }
}
