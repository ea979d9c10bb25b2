//! Lookups in a SavedModel: vectors of ids, combined over the rows.

use trainyard_run_config::Combiner;
use trainyard_tensorflow_formats::saved_model::{Binary, Comparison, Edge, Segments, Unary};

use super::Builder;
use super::ids::Bag;

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
        let mut vectors = graph.gather_rows(&name("vectors"), &variable, &rows);
        if let Some(most) = lookup.max_norm {
            let squares = graph.unary(Unary::Square, &name("squares"), &vectors);
            let sums = graph.sum_along(&name("sums"), &squares, 1);
            let norms = graph.unary(Unary::Sqrt, &name("norms"), &sums);
            let most = graph.float(most);
            let bounded = graph.binary(Binary::Maximum, &name("bounded"), &norms, &most);
            let scale = graph.binary(Binary::Divide, &name("scale"), &most, &bounded);
            vectors = graph.binary(Binary::Multiply, &name("clipped"), &vectors, &scale);
        }
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
