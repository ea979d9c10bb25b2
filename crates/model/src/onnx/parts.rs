//! Linear and deep part of the graph, and their sum, the logits.

use trainyard_onnx::{Attribute, Name, attribute};

use super::Builder;
use super::inputs::Source;
use crate::LinearModel;
use crate::canned::Deep;
use crate::input_layer::{Lookup, Piece};

impl Builder<'_> {
    /// Returns the logits, `batch x units`.
    pub(super) fn logits(&mut self) -> Name {
        let canned = self.canned;
        let mut parts = Vec::new();
        if let Some(linear) = &canned.linear {
            self.linear(linear, &mut parts);
        }
        if let Some(deep) = &canned.deep {
            self.deep(deep, &mut parts);
        }
        let sum = match parts.as_slice() {
            [one] => one.clone(),
            parts => self
                .graph
                .node("Sum", "logits/sum", &parts.iter().collect::<Vec<_>>(), []),
        };
        // A bias by itself does not determine the number of records.
        match self
            .inputs
            .list
            .iter()
            .position(|input| input.source == Source::Records)
        {
            Some(records) => {
                let units = self.graph.list(&[self.canned.heads.units() as i64]);
                let axis = attribute("axis", Attribute::Int(0));
                let shape = [&self.given[records], &units];
                let shape = self.graph.node("Concat", "logits/shape", &shape, [axis]);
                self.graph
                    .node("Expand", "logits/expanded", &[&sum, &shape], [])
            }
            None => sum,
        }
    }

    fn linear(&mut self, linear: &LinearModel, parts: &mut Vec<Name>) {
        for &(feature, variable) in &linear.categorical {
            let bag = self.bag(feature);
            let table = self.table(variable, None);
            let scope = self.canned.variables[variable].name.replace("/weights", "");
            parts.push(self.embedded(&scope, &bag, linear.combiner, &table));
        }
        for dense in &linear.numeric {
            let numbers = self.numbers_at(dense.begin);
            let table = self.table(dense.variable, None);
            let scope = self.canned.variables[dense.variable]
                .name
                .replace("/weights", "");
            parts.push(self.graph.node(
                "MatMul",
                &format!("{scope}/weighted"),
                &[&numbers, &table],
                [],
            ));
        }
        parts.push(self.table(linear.bias, None));
    }

    fn deep(&mut self, deep: &Deep, parts: &mut Vec<Name>) {
        let mut pieces = Vec::new();
        let mut embeddings = Vec::new();
        for (_, piece) in &deep.input.pieces {
            let value = match piece {
                Piece::Numbers(begin, _) => self.numbers_at(*begin),
                Piece::Periodic(periodic) => self.periodic(periodic),
                Piece::Indicator(feature, _) => {
                    let bag = self.bag(*feature);
                    self.indicator(
                        &bag,
                        self.canned.records.columns.categorical[*feature].buckets,
                    )
                }
                Piece::Embedding(lookup) => {
                    let bag = self.bag(lookup.feature);
                    let table = self.table(lookup.variable, Some(lookup));
                    let name = &self.canned.records.columns.categorical[lookup.feature].name;
                    let scope = format!("dnn/input_from_feature_columns/{name}");
                    let value = self.embedded(&scope, &bag, lookup.combiner, &table);
                    embeddings.push(value.clone());
                    value
                }
                Piece::History(lookup, slots) => {
                    let bag = self.bag(lookup.feature);
                    let table = self.table(lookup.variable, Some(lookup));
                    let name = &self.canned.records.columns.categorical[lookup.feature].name;
                    let scope = format!("dnn/input_from_feature_columns/{name}");
                    self.history(&scope, &bag, *slots, (&table, lookup.dimension))
                }
            };
            pieces.push(value);
        }
        if deep.factorization.is_some() {
            parts.push(self.factorized(&embeddings));
        }
        if deep.tower.is_none() && deep.composition.is_none() {
            return;
        }
        let mut input = match pieces.as_slice() {
            [one] => one.clone(),
            pieces => {
                let axis = attribute("axis", Attribute::Int(1));
                let pieces = pieces.iter().collect::<Vec<_>>();
                self.graph.node(
                    "Concat",
                    "dnn/input_from_feature_columns/input_layer",
                    &pieces,
                    [axis],
                )
            }
        };
        if let Some(cross) = &deep.cross {
            input = self.crossed(cross, &input);
        }
        if let Some(tower) = &deep.tower {
            parts.push(self.tower(tower, &input));
        }
        if let Some(composition) = &deep.composition {
            self.composition(composition, input, parts);
        }
    }

    /// Returns the numbers of the feature whose first column in a row this is.
    pub(super) fn numbers_at(&mut self, begin: usize) -> Name {
        let columns = &self.canned.records.columns.numeric;
        let feature = columns.iter().position(|column| column.begin == begin);
        self.numbers(feature.expect("numbers belong to a feature"))
    }

    /// Returns a variable as a constant. If a lookup bounds the norm of its rows, the constant holds the clipped rows.
    pub(super) fn table(&mut self, variable: usize, lookup: Option<&Lookup>) -> Name {
        let bound = lookup.and_then(|lookup| lookup.max_norm);
        let key = (variable, bound.map(f32::to_bits));
        if let Some(have) = self.tables.get(&key) {
            return have.clone();
        }
        let spec = &self.canned.variables[variable];
        let values = &self.values[variable];
        let scales = lookup.and_then(|lookup| Some((lookup.dimension, lookup.scales(values)?)));
        let name = match scales {
            None => self.graph.floats(&spec.name, &spec.shape, values),
            Some((dimension, scales)) => {
                let rows = values.chunks_exact(dimension).zip(&scales);
                let clipped: Vec<f32> = rows
                    .flat_map(|(row, scale)| row.iter().map(move |value| value * scale))
                    .collect();
                self.graph
                    .floats(&format!("{}/clipped", spec.name), &spec.shape, &clipped)
            }
        };
        self.tables.insert(key, name.clone());
        name
    }
}
