//! Lookups in the graph: shares of ids, and sums of their vectors.

use trainyard_onnx::{Attribute, Name, Tensor, attribute};
use trainyard_run_config::{Combiner, KeptIds};

use super::Builder;
use crate::input_layer::Slots;

/// The ids of a feature, `batch x n`.
#[derive(Debug, Clone)]
pub(super) struct Bag {
    /// Ids, or 0 for a missing id.
    ids: Name,
    /// 1 for each id, or 0 for a missing id.
    mask: Name,
    /// Weights, or 0 for a missing id; absent = the mask.
    weights: Option<Name>,
    per_row: IdsPerRow,
    scope: String,
}

/// Number of ids that a row of a feature holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum IdsPerRow {
    One,
    Any,
}

impl Builder<'_> {
    /// Returns the bag of ids in which -1 stands for a missing id.
    pub(super) fn masked(
        &mut self,
        scope: &str,
        ids: &Name,
        weights: Option<Name>,
        per_row: IdsPerRow,
    ) -> Bag {
        let graph = &mut self.graph;
        let zero = graph.list(&[0]);
        let valid = graph.node(
            "GreaterOrEqual",
            &format!("{scope}/has_id"),
            &[ids, &zero],
            [],
        );
        let float = attribute("to", Attribute::Int(Tensor::Float.number().into()));
        let mask = graph.node("Cast", &format!("{scope}/mask"), &[&valid], [float]);
        let ids = graph.node("Max", &format!("{scope}/rows"), &[ids, &zero], []);
        let weights = weights.map(|weights| {
            // The weight of a missing id, even NaN, counts as 0.
            graph.node(
                "Where",
                &format!("{scope}/weights"),
                &[&valid, &weights, &mask],
                [],
            )
        });
        Bag {
            ids,
            mask,
            weights,
            per_row,
            scope: scope.to_owned(),
        }
    }

    /// Returns the share of each id of a row: the factor of its vector in the sum of the row.
    fn shares(&mut self, bag: &Bag, combiner: Combiner) -> Name {
        let graph = &mut self.graph;
        let scope = format!("{}/{combiner:?}", bag.scope).to_lowercase();
        let weights = match (&bag.weights, combiner) {
            (None, Combiner::Sum) => return bag.mask.clone(),
            (Some(weights), Combiner::Sum) => return weights.clone(),
            // The mean of a single vector is the vector.
            (None, _) if bag.per_row == IdsPerRow::One => return bag.mask.clone(),
            (None, _) => bag.mask.clone(),
            (Some(weights), _) => {
                let zero = graph.floats(&format!("{scope}/zero"), &[1], &[0.0]);
                let counts =
                    graph.node("Greater", &format!("{scope}/counts"), &[weights, &zero], []);
                graph.node(
                    "Where",
                    &format!("{scope}/counted"),
                    &[&counts, weights, &zero],
                    [],
                )
            }
        };
        let along = graph.list(&[1]);
        let divisor = if combiner == Combiner::Mean {
            graph.node(
                "ReduceSum",
                &format!("{scope}/sum"),
                &[&weights, &along],
                [],
            )
        } else {
            let squares = graph.node(
                "Mul",
                &format!("{scope}/squares"),
                &[&weights, &weights],
                [],
            );
            let sum = graph.node(
                "ReduceSum",
                &format!("{scope}/sum"),
                &[&squares, &along],
                [],
            );
            graph.node("Sqrt", &format!("{scope}/root"), &[&sum], [])
        };
        // A row without ids has shares of 0 instead of 0 / 0.
        let zero = graph.floats(&format!("{scope}/no_ids"), &[1], &[0.0]);
        let one = graph.floats(&format!("{scope}/one"), &[1], &[1.0]);
        let any = graph.node("Greater", &format!("{scope}/any"), &[&divisor, &zero], []);
        let divisor = graph.node(
            "Where",
            &format!("{scope}/divisor"),
            &[&any, &divisor, &one],
            [],
        );
        graph.node("Div", &format!("{scope}/shares"), &[&weights, &divisor], [])
    }

    /// Returns the combined vectors of the ids of each row, `batch x dimension`. A row without ids gives zeros.
    pub(super) fn embedded(
        &mut self,
        scope: &str,
        bag: &Bag,
        combiner: Combiner,
        table: &Name,
    ) -> Name {
        let shares = self.shares(bag, combiner);
        let graph = &mut self.graph;
        let along = graph.list(&[1]);
        if bag.per_row == IdsPerRow::One {
            let ids = graph.node("Squeeze", &format!("{scope}/id"), &[&bag.ids, &along], []);
            let vectors = graph.node("Gather", &format!("{scope}/vectors"), &[table, &ids], []);
            return graph.node(
                "Mul",
                &format!("{scope}/combined"),
                &[&vectors, &shares],
                [],
            );
        }
        let vectors = graph.node(
            "Gather",
            &format!("{scope}/vectors"),
            &[table, &bag.ids],
            [],
        );
        self.sum_of(scope, &vectors, &shares)
    }

    /// Returns the vectors of the ids of a history in their slots, and a mask of the slots, `batch x count (dimension + 1)`.
    pub(super) fn history(
        &mut self,
        scope: &str,
        bag: &Bag,
        slots: Slots,
        (table, dimension): (&Name, usize),
    ) -> Name {
        let graph = &mut self.graph;
        let name = |part: &str| format!("{scope}/history/{part}");
        let cast = |tensor: Tensor| attribute("to", Attribute::Int(tensor.number().into()));
        let along = graph.list(&[1]);
        let last = graph.list(&[2]);
        let axis = graph.ints(&name("axis"), &[], &[1]);
        let number = graph.node("Cast", &name("number"), &[&bag.mask], [cast(Tensor::Int64)]);
        // The slot of an id is the number of ids before it, or after it.
        let reverse = i64::from(slots.keep == KeptIds::Last);
        let counting = [
            attribute("exclusive", Attribute::Int(1)),
            attribute("reverse", Attribute::Int(reverse)),
        ];
        let slot = graph.node("CumSum", &name("slot"), &[&number, &axis], counting);
        // That of a missing id is -1: (slot + 1) * mask - 1.
        let one = graph.list(&[1]);
        let slot = graph.node("Add", &name("after"), &[&slot, &one], []);
        let slot = graph.node("Mul", &name("after_or_none"), &[&slot, &number], []);
        let slot = graph.node("Sub", &name("slot_or_none"), &[&slot, &one], []);
        let slot = graph.node("Unsqueeze", &name("slots_of_ids"), &[&slot, &last], []);
        let all: Vec<i64> = (0..slots.count as i64).collect();
        let all = graph.ints(&name("slots"), &[1, 1, slots.count], &all);
        let is_there = graph.node("Equal", &name("is_there"), &[&slot, &all], []);
        // At most one id of a row is in a slot.
        let there = graph.node("Cast", &name("there"), &[&is_there], [cast(Tensor::Int64)]);
        let ids = graph.node("Unsqueeze", &name("ids"), &[&bag.ids, &last], []);
        let ids = graph.node("Mul", &name("ids_there"), &[&ids, &there], []);
        let drop = || attribute("keepdims", Attribute::Int(0));
        let rows = graph.node("ReduceSum", &name("rows"), &[&ids, &along], [drop()]);
        let there = graph.node(
            "Cast",
            &name("there_number"),
            &[&is_there],
            [cast(Tensor::Float)],
        );
        let mask = graph.node("ReduceSum", &name("mask"), &[&there, &along], [drop()]);
        let vectors = graph.node("Gather", &name("vectors"), &[table, &rows], []);
        let masks = graph.node("Unsqueeze", &name("masks"), &[&mask, &last], []);
        let vectors = graph.node("Mul", &name("masked"), &[&vectors, &masks], []);
        let shape = graph.list(&[-1, (slots.count * dimension) as i64]);
        let vectors = graph.node("Reshape", &name("flat"), &[&vectors, &shape], []);
        let axis = attribute("axis", Attribute::Int(1));
        graph.node(
            "Concat",
            &name("vectors_and_mask"),
            &[&vectors, &mask],
            [axis],
        )
    }

    /// Returns the count or summed weight of each id in a row, `batch x buckets`.
    pub(super) fn indicator(&mut self, bag: &Bag, buckets: u32) -> Name {
        let graph = &mut self.graph;
        let scope = format!("{}/indicator", bag.scope);
        let depth = graph.list(&[i64::from(buckets)]);
        let off_on = graph.floats(&format!("{scope}/off_on"), &[2], &[0.0, 1.0]);
        let hot = graph.node(
            "OneHot",
            &format!("{scope}/one_hot"),
            &[&bag.ids, &depth, &off_on],
            [],
        );
        let weights = bag.weights.as_ref().unwrap_or(&bag.mask).clone();
        self.sum_of(&scope, &hot, &weights)
    }

    /// Returns the sums of the vectors of a row, `batch x n x dimension`, each multiplied by its share, `batch x n`.
    fn sum_of(&mut self, scope: &str, vectors: &Name, shares: &Name) -> Name {
        let graph = &mut self.graph;
        let along = graph.list(&[1]);
        let last = graph.list(&[2]);
        let shares = graph.node(
            "Unsqueeze",
            &format!("{scope}/shares"),
            &[shares, &last],
            [],
        );
        let shared = graph.node("Mul", &format!("{scope}/shared"), &[vectors, &shares], []);
        let drop = attribute("keepdims", Attribute::Int(0));
        graph.node(
            "ReduceSum",
            &format!("{scope}/combined"),
            &[&shared, &along],
            [drop],
        )
    }
}
