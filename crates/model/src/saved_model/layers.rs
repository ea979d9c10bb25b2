//! Dense layers, batch normalisation and cross layers of a SavedModel.

use trainyard_run_config::Activation;
use trainyard_tensorflow_formats::saved_model::{Binary, Edge, Unary};

use super::Builder;
use crate::activation::LEAK;
use crate::batch_norm::{BatchNorm, EPSILON};
use crate::cross_layer::CrossLayers;
use crate::tower::Tower;

impl Builder<'_> {
    /// Returns the output of the dense layers.
    pub(super) fn tower(&mut self, tower: &Tower, input: &Edge) -> Edge {
        let mut value = input.clone();
        for (index, layer) in tower.layers.iter().enumerate() {
            let kernel = self.canned.variables[layer.kernel].name.clone();
            let scope = self.name(kernel.trim_end_matches("/kernel"));
            value = self.dense_layer(&scope, &value, [layer.kernel, layer.bias]);
            if index >= tower.hidden {
                break;
            }
            value = self.activated(&scope, tower.activation, &value);
            // Dropout applies to training only.
            if let Some(norm) = &layer.norm {
                value = self.batch_norm(&scope, norm, &value);
            }
        }
        value
    }

    pub(super) fn dense_layer(
        &mut self,
        scope: &str,
        input: &Edge,
        [kernel, bias]: [usize; 2],
    ) -> Edge {
        let kernel = self.variable(kernel);
        let bias = self.variable(bias);
        let product = self
            .graph
            .matrix_product(&format!("{scope}/MatMul"), input, &kernel);
        self.graph
            .add_bias(&format!("{scope}/BiasAdd"), &product, &bias)
    }

    pub(super) fn activated(&mut self, scope: &str, activation: Activation, x: &Edge) -> Edge {
        let graph = &mut *self.graph;
        let name = format!("{scope}/activation");
        let operation = match activation {
            Activation::Linear => return x.clone(),
            Activation::LeakyRelu => return graph.leaky_relu(&name, x, LEAK),
            Activation::Swish => {
                let gate = graph.unary(Unary::Sigmoid, &format!("{name}/gate"), x);
                return graph.binary(Binary::Multiply, &name, x, &gate);
            }
            Activation::Relu => Unary::Relu,
            Activation::Relu6 => Unary::Relu6,
            Activation::Elu => Unary::Elu,
            Activation::Selu => Unary::Selu,
            Activation::Tanh => Unary::Tanh,
            Activation::Sigmoid => Unary::Sigmoid,
            Activation::Softplus => Unary::Softplus,
            Activation::Softsign => Unary::Softsign,
        };
        graph.unary(operation, &name, x)
    }

    fn batch_norm(&mut self, scope: &str, norm: &BatchNorm, x: &Edge) -> Edge {
        let [gamma, beta, mean, variance] = [norm.gamma, norm.beta, norm.mean, norm.variance]
            .map(|variable| self.variable(variable));
        let graph = &mut *self.graph;
        let name = |part: &str| format!("{scope}/batchnorm/{part}");
        let epsilon = graph.float(EPSILON);
        let variance = graph.binary(Binary::Add, &name("variance"), &variance, &epsilon);
        let deviation = graph.unary(Unary::Sqrt, &name("deviation"), &variance);
        let scale = graph.binary(Binary::Divide, &name("scale"), &gamma, &deviation);
        let centered = graph.binary(Binary::Subtract, &name("centered"), x, &mean);
        let scaled = graph.binary(Binary::Multiply, &name("scaled"), &centered, &scale);
        graph.binary(Binary::Add, &name("normalized"), &scaled, &beta)
    }

    /// Returns the output of the last cross layer.
    pub(super) fn cross_layers(&mut self, cross: &CrossLayers, first: &Edge) -> Edge {
        let mut value = first.clone();
        for (index, layer) in cross.layers.iter().enumerate() {
            let scope = self.name(&format!("dcn/cross_{index}"));
            let projected = layer.projection.map(|projection| {
                let projection = self.variable(projection);
                let name = format!("{scope}/projected");
                self.graph.matrix_product(&name, &value, &projection)
            });
            let multiplied = projected.as_ref().unwrap_or(&value);
            let product = self.dense_layer(&scope, multiplied, [layer.kernel, layer.bias]);
            let graph = &mut *self.graph;
            let product = graph.binary(
                Binary::Multiply,
                &format!("{scope}/product"),
                first,
                &product,
            );
            value = graph.binary(Binary::Add, &format!("{scope}/sum"), &product, &value);
        }
        value
    }
}
