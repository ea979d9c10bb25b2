//! Linear and deep part of a SavedModel, and their sum, the logits.

use trainyard_tensorflow_formats::saved_model::{Binary, Edge};

use super::Builder;
use super::lookup::Lookup;
use crate::LinearModel;
use crate::canned::Deep;
use crate::input_layer::{self, Piece};

impl Builder<'_> {
    /// Returns the values of a variable, whole.
    pub(super) fn variable(&mut self, variable: usize) -> Edge {
        self.graph.read_variable(&self.shared.variables[variable])
    }

    /// Returns the logits, `[batch, units]`.
    pub(super) fn logits(&mut self) -> Edge {
        let canned = self.canned;
        let mut parts = Vec::new();
        let mut bias = None;
        if let Some(linear) = &canned.linear {
            self.linear(linear, &mut parts);
            bias = Some(self.variable(linear.bias));
        }
        if let Some(deep) = &canned.deep {
            self.deep(deep, &mut parts);
        }
        let name = self.name("logits");
        match (bias, parts.is_empty()) {
            (Some(bias), true) => {
                let units = self.graph.integer(canned.heads.units() as i64);
                let batch = self.batch.clone();
                let shape = self
                    .graph
                    .vector(&format!("{name}/shape"), &[&batch, &units]);
                self.graph.broadcast(&name, &bias, &shape)
            }
            (Some(bias), false) => {
                let sum = self.graph.sum_of(&format!("{name}/sum"), &parts);
                self.graph.add_bias(&name, &sum, &bias)
            }
            (None, _) => self.graph.sum_of(&name, &parts),
        }
    }

    fn linear(&mut self, linear: &LinearModel, parts: &mut Vec<Edge>) {
        let canned = self.canned;
        for &(feature, variable) in &linear.categorical {
            let bag = self.bag(feature);
            let lookup = Lookup {
                name: &canned.variables[variable].name,
                variable,
                combiner: linear.combiner,
                max_norm: None,
            };
            parts.push(self.embedded(&bag, lookup));
        }
        for dense in &linear.numeric {
            let numbers = self.numbers_at(dense.begin);
            let weights = self.variable(dense.variable);
            let name = self.name(&format!(
                "{}/weighted",
                canned.variables[dense.variable].name
            ));
            parts.push(self.graph.matrix_product(&name, &numbers, &weights));
        }
    }

    fn deep(&mut self, deep: &Deep, parts: &mut Vec<Edge>) {
        let canned = self.canned;
        let mut pieces = Vec::new();
        let mut embeddings = Vec::new();
        for (_, piece) in &deep.input.pieces {
            pieces.push(match piece {
                Piece::Numbers(begin, _) => self.numbers_at(*begin),
                Piece::Periodic(periodic) => self.periodic(periodic),
                Piece::Indicator(feature, _) => {
                    let bag = self.bag(*feature);
                    let column = &canned.records.columns.categorical[*feature];
                    self.indicator(&format!("dnn/{}", column.name), &bag, column.buckets)
                }
                Piece::Embedding(found) => {
                    let bag = self.bag(found.feature);
                    let column = &canned.records.columns.categorical[found.feature];
                    let name = format!("dnn/{}", column.name);
                    let value = self.embedded(&bag, of_deep(&name, found));
                    embeddings.push(value.clone());
                    value
                }
                Piece::History(found, slots) => {
                    let bag = self.bag(found.feature);
                    let column = &canned.records.columns.categorical[found.feature];
                    let name = format!("dnn/{}", column.name);
                    self.history(&bag, of_deep(&name, found), *slots, found.dimension)
                }
            });
        }
        if deep.factorization.is_some() {
            parts.push(self.factorized(&embeddings));
        }
        if deep.tower.is_none() && deep.composition.is_none() {
            return;
        }
        let name = self.name("dnn/input_layer");
        let mut input = self.graph.concatenate(&name, &pieces, 1);
        if let Some(cross) = &deep.cross {
            input = self.cross_layers(cross, &input);
        }
        if let Some(tower) = &deep.tower {
            parts.push(self.tower(tower, &input));
        }
        if let Some(composition) = &deep.composition {
            self.composition(composition, input, parts);
        }
    }

    /// Returns the numbers of the feature whose first column in a row this is.
    pub(super) fn numbers_at(&mut self, begin: usize) -> Edge {
        let columns = &self.canned.records.columns.numeric;
        let feature = columns.iter().position(|column| column.begin == begin);
        self.numbers(feature.expect("numbers belong to a feature"))
    }

    /// Returns `½ Σ ((Σᵢ vᵢ)² - Σᵢ vᵢ²)` of the embeddings of each row, `[batch, 1]`.
    fn factorized(&mut self, embeddings: &[Edge]) -> Edge {
        use trainyard_tensorflow_formats::saved_model::Unary;
        let scope = self.name("fm");
        let graph = &mut *self.graph;
        let name = |part: &str| format!("{scope}/{part}");
        let squares: Vec<Edge> = embeddings
            .iter()
            .map(|embedding| graph.unary(Unary::Square, &name("square"), embedding))
            .collect();
        let sum = graph.sum_of(&name("sum"), embeddings);
        let squares = graph.sum_of(&name("sum_of_squares"), &squares);
        let square = graph.unary(Unary::Square, &name("square_of_sum"), &sum);
        let pairs = graph.binary(Binary::Subtract, &name("pairs"), &square, &squares);
        let pairs = graph.sum_along(&name("pairs_sum"), &pairs, 1);
        let half = graph.float(0.5);
        graph.binary(Binary::Multiply, &name("logits"), &pairs, &half)
    }
}

/// Returns the lookup of an embedding of the deep part.
fn of_deep<'a>(name: &'a str, found: &input_layer::Lookup) -> Lookup<'a> {
    Lookup {
        name,
        variable: found.variable,
        combiner: found.combiner,
        max_norm: found.max_norm,
    }
}
