//! Dense layers, batch normalisation, cross layers and products of pairs in the graph.

use trainyard_onnx::{Attribute, Name, attribute};
use trainyard_run_config::Activation;

use super::Builder;
use crate::activation::{LEAK, SELU_ALPHA, SELU_SCALE};
use crate::batch_norm::{BatchNorm, EPSILON};
use crate::cross_layer::CrossLayers;
use crate::tower::Tower;

impl Builder<'_> {
    /// Returns the output of the dense layers.
    pub(super) fn tower(&mut self, tower: &Tower, input: &Name) -> Name {
        let mut value = input.clone();
        for (index, layer) in tower.layers.iter().enumerate() {
            let kernel = self.canned.variables[layer.kernel].name.clone();
            let scope = kernel.trim_end_matches("/kernel").to_owned();
            value = self.dense(&scope, &value, layer.kernel, layer.bias);
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

    pub(super) fn dense(&mut self, scope: &str, input: &Name, kernel: usize, bias: usize) -> Name {
        let kernel = self.table(kernel, None);
        let bias = self.table(bias, None);
        self.graph.node(
            "Gemm",
            &format!("{scope}/dense"),
            &[input, &kernel, &bias],
            [],
        )
    }

    pub(super) fn activated(&mut self, scope: &str, activation: Activation, input: &Name) -> Name {
        let graph = &mut self.graph;
        let name = format!("{scope}/{activation:?}").to_lowercase();
        let operator = match activation {
            Activation::Linear => return input.clone(),
            Activation::Relu => "Relu",
            Activation::Elu => "Elu",
            Activation::Tanh => "Tanh",
            Activation::Sigmoid => "Sigmoid",
            Activation::Softplus => "Softplus",
            Activation::Softsign => "Softsign",
            Activation::LeakyRelu => {
                return graph.node(
                    "LeakyRelu",
                    &name,
                    &[input],
                    [attribute("alpha", Attribute::Float(LEAK))],
                );
            }
            Activation::Selu => {
                let alpha = attribute("alpha", Attribute::Float(SELU_ALPHA));
                let gamma = attribute("gamma", Attribute::Float(SELU_SCALE));
                return graph.node("Selu", &name, &[input], [alpha, gamma]);
            }
            Activation::Relu6 => {
                let least = graph.floats(&format!("{name}/least"), &[], &[0.0]);
                let most = graph.floats(&format!("{name}/most"), &[], &[6.0]);
                return graph.node("Clip", &name, &[input, &least, &most], []);
            }
            Activation::Swish => {
                let gate = graph.node("Sigmoid", &format!("{name}/gate"), &[input], []);
                return graph.node("Mul", &name, &[input, &gate], []);
            }
        };
        graph.node(operator, &name, &[input], [])
    }

    fn batch_norm(&mut self, scope: &str, norm: &BatchNorm, input: &Name) -> Name {
        let [gamma, beta, mean, variance] = [norm.gamma, norm.beta, norm.mean, norm.variance]
            .map(|variable| self.table(variable, None));
        let epsilon = attribute("epsilon", Attribute::Float(EPSILON));
        let inputs = [input, &gamma, &beta, &mean, &variance];
        self.graph.node(
            "BatchNormalization",
            &format!("{scope}/batchnorm"),
            &inputs,
            [epsilon],
        )
    }

    /// Returns the output of the last cross layer.
    pub(super) fn crossed(&mut self, cross: &CrossLayers, first: &Name) -> Name {
        let mut value = first.clone();
        for (index, layer) in cross.layers.iter().enumerate() {
            let scope = format!("dcn/cross_{index}");
            let projected = layer.projection.map(|projection| {
                let projection = self.table(projection, None);
                let name = format!("{scope}/projected");
                self.graph.node("MatMul", &name, &[&value, &projection], [])
            });
            let multiplied = projected.as_ref().unwrap_or(&value);
            let product = self.dense(&scope, multiplied, layer.kernel, layer.bias);
            let product =
                self.graph
                    .node("Mul", &format!("{scope}/product"), &[first, &product], []);
            value = self
                .graph
                .node("Add", &format!("{scope}/sum"), &[&product, &value], []);
        }
        value
    }

    /// Returns `½ Σ ((Σᵢ vᵢ)² - Σᵢ vᵢ²)` of the embeddings of each row, `batch x 1`.
    pub(super) fn factorized(&mut self, embeddings: &[Name]) -> Name {
        let graph = &mut self.graph;
        let squares: Vec<Name> = embeddings
            .iter()
            .map(|embedding| graph.node("Mul", "fm/square", &[embedding, embedding], []))
            .collect();
        let sum = graph.node("Sum", "fm/sum", &embeddings.iter().collect::<Vec<_>>(), []);
        let squares = graph.node(
            "Sum",
            "fm/sum_of_squares",
            &squares.iter().collect::<Vec<_>>(),
            [],
        );
        let square = graph.node("Mul", "fm/square_of_sum", &[&sum, &sum], []);
        let pairs = graph.node("Sub", "fm/pairs", &[&square, &squares], []);
        let along = graph.list(&[1]);
        let pairs = graph.node("ReduceSum", "fm/pairs_sum", &[&pairs, &along], []);
        let half = graph.floats("fm/half", &[1], &[0.5]);
        graph.node("Mul", "fm/logits", &[&pairs, &half], [])
    }
}
