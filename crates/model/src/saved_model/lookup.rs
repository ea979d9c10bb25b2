//! Lookups in a SavedModel: vectors of ids, combined over the rows.

use trainyard_run_config::{Combiner, KeptIds};
use trainyard_tensorflow_formats::generated::DataType;
use trainyard_tensorflow_formats::saved_model::{Binary, Comparison, Edge, Segments, Unary};

use super::Builder;
use super::ids::Bag;
use crate::input_layer::Slots;

/// The vectors that a lookup reads, and their combination.
#[derive(Debug, Clone, Copy)]
pub(super) struct Lookup<'a> {
    pub(super) name: &'a str,
    pub(super) variable: usize,
    pub(super) combiner: Combiner,
    /// Largest norm of a vector; absent = no bound.
    pub(super) max_norm: Option<f32>,
}

impl Builder<'_> {
    /// Returns the rows of a variable that ids read.
    fn rows_of(&mut self, name: &str, variable: usize, ids: &Edge) -> Edge {
        match self.shared.ids.get(&variable) {
            None => ids.clone(),
            Some(table) => {
                let shape = &self.shared.variables[variable].spec.shape;
                // The last row is that of ids without a row.
                let others = shape.first().map_or(0, |rows| *rows as i64 - 1);
                self.graph.find(&format!("{name}/rows"), table, ids, others)
            }
        }
    }

    /// Returns the vectors of these rows, within the bound on their norm.
    fn vectors(&mut self, scope: &str, lookup: &Lookup<'_>, rows: &Edge) -> Edge {
        let name = |part: &str| format!("{scope}/{part}");
        let variable = self.shared.variables[lookup.variable].clone();
        let graph = &mut *self.graph;
        let vectors = graph.gather_rows(&name("vectors"), &variable, rows);
        let Some(most) = lookup.max_norm else {
            return vectors;
        };
        let squares = graph.unary(Unary::Square, &name("squares"), &vectors);
        let sums = graph.sum_along(&name("sums"), &squares, 1);
        let norms = graph.unary(Unary::Sqrt, &name("norms"), &sums);
        let most = graph.float(most);
        let bounded = graph.binary(Binary::Maximum, &name("bounded"), &norms, &most);
        let scale = graph.binary(Binary::Divide, &name("scale"), &most, &bounded);
        graph.binary(Binary::Multiply, &name("clipped"), &vectors, &scale)
    }

    /// Returns the vectors of the ids of a history in their slots, and a mask of the slots, `[batch, count (dimension + 1)]`.
    pub(super) fn history(
        &mut self,
        bag: &Bag,
        lookup: Lookup<'_>,
        slots: Slots,
        dimension: usize,
    ) -> Edge {
        let scope = self.name(&format!("{}/history", lookup.name));
        let name = |part: &str| format!("{scope}/{part}");
        let rows = self.rows_of(&scope, lookup.variable, &bag.ids.values);
        let vectors = self.vectors(&scope, &lookup, &rows);
        let batch = self.batch.clone();
        let graph = &mut *self.graph;
        let row = graph.first_column(&name("row"), &bag.ids.indices);
        let shape = graph.shape_of(&name("count"), &rows);
        let one = graph.integer(1);
        let ones = graph.fill(&name("ones"), &shape, &one);
        let counts = graph.segment_sums(&name("counts"), [&ones, &row, &batch]);
        let starts = graph.sums_before(&name("starts"), &counts);
        let places = graph.sums_before(&name("places"), &ones);
        let start = graph.gather(&name("start"), &starts, &row);
        // The slot of an id is the number of ids of the row before it, or after it.
        let mut slot = graph.binary(Binary::Subtract, &name("before"), &places, &start);
        if slots.keep == KeptIds::Last {
            let count = graph.gather(&name("ids_of_row"), &counts, &row);
            let after = graph.binary(Binary::Subtract, &name("not_before"), &count, &slot);
            slot = graph.binary(Binary::Subtract, &name("after"), &after, &one);
        }
        let width = graph.integer(slots.count as i64);
        let fits = graph.compare(Comparison::Less, &name("fits"), &slot, &width);
        let begin = graph.binary(Binary::Multiply, &name("begin"), &row, &width);
        let place = graph.binary(Binary::Add, &name("place"), &begin, &slot);
        // Sums leave out negative places.
        let none = graph.integer(-1);
        let place = graph.select(&name("place_or_none"), &fits, [&place, &none]);
        let size = graph.binary(Binary::Multiply, &name("size"), &batch, &width);
        let vectors = graph.segment_sums(&name("slots"), [&vectors, &place, &size]);
        let ones = graph.cast(&name("ones_number"), &ones, DataType::DtFloat);
        let mask = graph.segment_sums(&name("mask"), [&ones, &place, &size]);
        let width = slots.count as i64;
        let shape = [-1, width * dimension as i64];
        let vectors = graph.reshape(&name("flat"), &vectors, &shape);
        let mask = graph.reshape(&name("mask_of_row"), &mask, &[-1, width]);
        graph.concatenate(&name("vectors_and_mask"), &[vectors, mask], 1)
    }

    /// Returns the combined vectors of the ids of each row, `[batch, dimension]`. A row without ids gives zeros.
    pub(super) fn embedded(&mut self, bag: &Bag, lookup: Lookup<'_>) -> Edge {
        let scope = self.name(lookup.name);
        let name = |part: &str| format!("{scope}/{part}");
        let rows = self.rows_of(&scope, lookup.variable, &bag.ids.values);
        let segments = self.graph.first_column(&name("segments"), &bag.ids.indices);
        let variable = self.shared.variables[lookup.variable].clone();
        let batch = self.batch.clone();
        let graph = &mut *self.graph;
        if bag.weights.is_none() && lookup.max_norm.is_none() {
            let operation = match lookup.combiner {
                Combiner::Sum => Segments::Sum,
                Combiner::Mean => Segments::Mean,
                Combiner::Sqrtn => Segments::SqrtN,
            };
            let read = [&rows, &segments, &batch];
            return graph.combined_rows(&name("combined"), operation, &variable, read);
        }
        let vectors = self.vectors(&scope, &lookup, &rows);
        let graph = &mut *self.graph;
        let weights = match &bag.weights {
            Some(weights) => weights.clone(),
            None => {
                let shape = graph.shape_of(&name("count"), &rows);
                let one = graph.float(1.0);
                graph.fill(&name("ones"), &shape, &one)
            }
        };
        let weights = match lookup.combiner {
            Combiner::Sum => weights,
            // Ids whose weight is not above 0 do not count.
            Combiner::Mean | Combiner::Sqrtn => {
                let zero = graph.float(0.0);
                let counts = graph.compare(Comparison::Greater, &name("counts"), &weights, &zero);
                graph.select(&name("counted"), &counts, [&weights, &zero])
            }
        };
        let column = graph.reshape(&name("weights"), &weights, &[-1, 1]);
        let weighted = graph.binary(Binary::Multiply, &name("weighted"), &vectors, &column);
        let sum = graph.segment_sums(&name("sum"), [&weighted, &segments, &batch]);
        let divisor = match lookup.combiner {
            Combiner::Sum => return sum,
            Combiner::Mean => graph.segment_sums(&name("total"), [&column, &segments, &batch]),
            Combiner::Sqrtn => {
                let squares = graph.unary(Unary::Square, &name("square_weights"), &column);
                let total = graph.segment_sums(&name("total"), [&squares, &segments, &batch]);
                graph.unary(Unary::Sqrt, &name("root"), &total)
            }
        };
        graph.binary(Binary::DivideOrZero, &name("combined"), &sum, &divisor)
    }

    /// Returns the count or summed weight of each id in a row, `[batch, buckets]`.
    pub(super) fn indicator(&mut self, name: &str, bag: &Bag, buckets: u32) -> Edge {
        let scope = self.name(name);
        let name = |part: &str| format!("{scope}/{part}");
        let batch = self.batch.clone();
        let graph = &mut *self.graph;
        let width = graph.integer(i64::from(buckets));
        let segments = graph.first_column(&name("segments"), &bag.ids.indices);
        let begin = graph.binary(Binary::Multiply, &name("begin"), &segments, &width);
        let places = graph.binary(Binary::Add, &name("places"), &begin, &bag.ids.values);
        let weights = match &bag.weights {
            Some(weights) => weights.clone(),
            None => {
                let shape = graph.shape_of(&name("count"), &places);
                let one = graph.float(1.0);
                graph.fill(&name("ones"), &shape, &one)
            }
        };
        let size = graph.binary(Binary::Multiply, &name("size"), &batch, &width);
        let flat = graph.segment_sums(&name("flat"), [&weights, &places, &size]);
        graph.reshape(&name("indicator"), &flat, &[-1, i64::from(buckets)])
    }
}
