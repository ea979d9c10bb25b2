//! Cutting a step's reads by the layout: what each server is asked, and where its answer goes.

use std::ops::Range;
use std::sync::Arc;

use trainyard_variable::{Layout, Read};

use crate::ShardReads;

/// What one server is asked in one step.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct ShardPlan {
    pub(crate) reads: ShardReads,
    /// Where the answer's values go, in its order: variable, and places in that variable's buffer.
    pub(crate) places: Vec<(usize, Range<usize>)>,
    /// Values in the answer.
    pub(crate) floats: usize,
}

/// Returns the plan of each server. `keep` says which variables take part.
pub(crate) fn split(layout: &Layout, reads: &[Read], keep: impl Fn(usize) -> bool) -> Vec<ShardPlan> {
    let mut plans = vec![ShardPlan::default(); layout.num_ps];
    let mut row_places: Vec<Vec<(usize, Range<usize>)>> = vec![Vec::new(); layout.num_ps];
    let mut id_places = row_places.clone();
    // Row sets already sent to a server, by the identity of the shared rows: they travel once.
    let mut sent: Vec<Vec<(*const u32, Range<usize>)>> = vec![Vec::new(); layout.num_ps];
    let mut sent_ids: Vec<Vec<(*const u64, Range<usize>)>> = vec![Vec::new(); layout.num_ps];
    for (variable, read) in reads.iter().enumerate().filter(|(variable, _)| keep(*variable)) {
        for number in layout.of_variable(variable) {
            let slice = &layout.slices[number];
            let plan = &mut plans[slice.ps];
            match read {
                Read::Nothing => {}
                Read::Whole => {
                    plan.reads.whole.push(number as u32);
                    let place = slice.rows.start * slice.width..slice.rows.end * slice.width;
                    plan.floats += place.len();
                    plan.places.push((variable, place));
                }
                Read::Rows(rows) => {
                    let begin = rows.partition_point(|row| (*row as usize) < slice.rows.start);
                    let end = rows.partition_point(|row| (*row as usize) < slice.rows.end);
                    if begin == end {
                        continue;
                    }
                    let key = (Arc::as_ptr(rows).cast::<u32>(), begin..end);
                    let sets = &mut sent[slice.ps];
                    let set = sets.iter().position(|set| *set == key).unwrap_or_else(|| {
                        sets.push(key);
                        plan.reads.row_sets.push(rows[begin..end].to_vec());
                        plan.reads.row_sets.len() - 1
                    });
                    plan.reads.rows.push((number as u32, set));
                    let place = begin * slice.width..end * slice.width;
                    plan.floats += place.len();
                    row_places[slice.ps].push((variable, place));
                }
                Read::Ids(ids) => {
                    let slices = &layout.slices[layout.of_variable(variable)];
                    let held = slice.ids(slices.last().map_or(0, |last| last.rows.end));
                    let place = |bound: u128| ids.partition_point(|id| u128::from(*id) < bound);
                    let own = place(held.start)..place(held.end);
                    if own.is_empty() {
                        continue;
                    }
                    let key = (Arc::as_ptr(ids).cast::<u64>(), own.clone());
                    let sets = &mut sent_ids[slice.ps];
                    let set = sets.iter().position(|set| *set == key).unwrap_or_else(|| {
                        sets.push(key);
                        plan.reads.id_sets.push(ids[own.clone()].to_vec());
                        plan.reads.id_sets.len() - 1
                    });
                    plan.reads.ids.push((number as u32, set));
                    let place = own.start * slice.width..own.end * slice.width;
                    plan.floats += place.len();
                    id_places[slice.ps].push((variable, place));
                }
            }
        }
    }
    for (plan, (mut rows, mut ids)) in plans.iter_mut().zip(row_places.into_iter().zip(id_places)) {
        plan.places.append(&mut rows);
        plan.places.append(&mut ids);
    }
    plans
}

#[cfg(test)]
mod tests {
    use trainyard_variable::{Access, DynamicTable, Initializer, Partitioner, Placement, VariableSpec};

    use super::*;

    fn spec(name: &str, shape: &[usize], access: Access) -> VariableSpec {
        let initializer = Initializer::Zeros;
        VariableSpec {
            name: name.into(),
            shape: shape.into(),
            access,
            initializer,
            optimizer_group: "g".into(),
        }
    }

    #[test]
    fn every_value_is_asked_of_one_server_and_shared_rows_travel_once() {
        let specs = [
            spec("kernel", &[4, 2], Access::Whole),
            spec("wide", &[10, 1], Access::Rows),
            spec("deep", &[10, 3], Access::Rows),
            spec("user", &[9, 1], Access::Dynamic(DynamicTable::KEEP_ALL)),
            spec("user_deep", &[9, 2], Access::Dynamic(DynamicTable::KEEP_ALL)),
        ];
        let layout = Layout::new(&specs, Partitioner::Fixed { num_shards: 2 }, Placement::RoundRobin, 2);
        let rows: Arc<[u32]> = Arc::from([1, 4, 5, 9]);
        let ids: Arc<[u64]> = Arc::from([0, 3, 1 << 62, u64::MAX]);
        let reads =
            [Read::Whole, Read::Rows(rows.clone()), Read::Rows(rows), Read::Ids(ids.clone()), Read::Ids(ids)];
        let plans = split(&layout, &reads, |_| true);
        let mut covered = [vec![0; 8], vec![0; 4], vec![0; 12], vec![0; 4], vec![0; 8]];
        for plan in &plans {
            assert_eq!((plan.reads.row_sets.len(), plan.reads.id_sets.len()), (1, 1), "{plan:?}");
            assert_eq!(plan.floats, plan.places.iter().map(|(_, place)| place.len()).sum::<usize>());
            for (variable, place) in &plan.places {
                place.clone().for_each(|at| covered[*variable][at] += 1);
            }
        }
        assert!(covered.iter().flatten().all(|count| *count == 1), "{covered:?}");
    }
}
