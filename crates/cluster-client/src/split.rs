//! Splitting the reads of a step by the layout: the selection for each server, and the places of its values.

use std::ops::Range;
use std::sync::Arc;

use trainyard_parameter_store::Selection;
use trainyard_variable::{Layout, Read};

/// The part of a step's reads that one server holds.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct ShardPlan {
    pub(crate) selection: Arc<Selection>,
    /// Destination of the selection's values, in its order: variable, and range in the variable's buffer.
    pub(crate) places: Vec<(usize, Range<usize>)>,
    /// End of each range in the selection's values.
    pub(crate) ends: Vec<usize>,
}

impl ShardPlan {
    fn new(selection: Selection, places: Vec<(usize, Range<usize>)>) -> Self {
        let mut end = 0;
        let ends = places.iter().map(|(_, place)| {
            end += place.len();
            end
        });
        let ends = ends.collect();
        Self {
            selection: Arc::new(selection),
            places,
            ends,
        }
    }

    /// Returns the number of values.
    pub(crate) fn values(&self) -> usize {
        self.ends.last().copied().unwrap_or(0)
    }

    /// Returns the part of the plan that concerns the variables for which `keep` is true.
    pub(crate) fn only(&self, keep: impl Fn(usize) -> bool) -> Self {
        let Selection {
            whole,
            rows,
            row_sets,
            ids,
            id_sets,
            counted,
        } = Selection::clone(&self.selection);
        let mut kept = self.places.iter().map(|(variable, _)| keep(*variable));
        let mut next = || kept.next().unwrap_or(false);
        let whole = whole.into_iter().filter(|_| next()).collect();
        let rows = rows.into_iter().filter(|_| next()).collect();
        let ids = ids.into_iter().filter(|_| next()).collect();
        let places = self
            .places
            .iter()
            .filter(|(variable, _)| keep(*variable))
            .cloned()
            .collect();
        Self::new(
            Selection {
                whole,
                rows,
                row_sets,
                ids,
                id_sets,
                counted,
            },
            places,
        )
    }
}

/// Ids of a dynamic table whose occurrences a push counts without gradients.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CountedIds {
    /// Index of the table.
    pub table: usize,
    /// The ids, ascending.
    pub ids: Arc<[u64]>,
}

/// Returns the plan for each server.
pub(crate) fn split(
    layout: &Layout,
    reads: &[Read],
    counted: &[CountedIds],
) -> Vec<Arc<ShardPlan>> {
    let mut selections = vec![Selection::default(); layout.num_ps];
    let mut places: Vec<Vec<(usize, Range<usize>)>> = vec![Vec::new(); layout.num_ps];
    let mut row_places: Vec<Vec<(usize, Range<usize>)>> = vec![Vec::new(); layout.num_ps];
    let mut id_places = row_places.clone();
    // Row sets that a server already gets, by the address of the shared rows, so that each set is sent once.
    let mut sent: Vec<Vec<(*const u32, Range<usize>)>> = vec![Vec::new(); layout.num_ps];
    let mut sent_ids = vec![SentIds::default(); layout.num_ps];
    for (variable, read) in reads.iter().enumerate() {
        for number in layout.of_variable(variable) {
            let slice = &layout.slices[number];
            let selection = &mut selections[slice.ps];
            match read {
                Read::Nothing => {}
                Read::Whole => {
                    selection.whole.push(number as u32);
                    let place = slice.rows.start * slice.width..slice.rows.end * slice.width;
                    places[slice.ps].push((variable, place));
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
                        selection.row_sets.push(rows[begin..end].to_vec());
                        selection.row_sets.len() - 1
                    });
                    selection.rows.push((number as u32, set));
                    let place = begin * slice.width..end * slice.width;
                    row_places[slice.ps].push((variable, place));
                }
                Read::Ids(ids) => {
                    let own = ids_on_server(layout, number, ids);
                    if own.is_empty() {
                        continue;
                    }
                    let set = sent_ids[slice.ps].set_of(ids, own.clone(), selection);
                    selection.ids.push((number as u32, set));
                    let place = own.start * slice.width..own.end * slice.width;
                    id_places[slice.ps].push((variable, place));
                }
            }
        }
    }
    for CountedIds { table, ids } in counted {
        for number in layout.of_variable(*table) {
            let ps = layout.slices[number].ps;
            let own = ids_on_server(layout, number, ids);
            if !own.is_empty() {
                let set = sent_ids[ps].set_of(ids, own, &mut selections[ps]);
                selections[ps].counted.push((number as u32, set));
            }
        }
    }
    for (places, (mut rows, mut ids)) in
        places.iter_mut().zip(row_places.into_iter().zip(id_places))
    {
        places.append(&mut rows);
        places.append(&mut ids);
    }
    let plans = selections.into_iter().zip(places);
    plans
        .map(|(selection, places)| Arc::new(ShardPlan::new(selection, places)))
        .collect()
}

/// Id sets that a server already gets, by the address of the shared ids, in the order of the selection's sets.
#[derive(Debug, Clone, Default)]
struct SentIds(Vec<(*const u64, Range<usize>)>);

impl SentIds {
    /// Returns the number of the set of these ids, which is added to the selection if it is new.
    fn set_of(&mut self, ids: &Arc<[u64]>, own: Range<usize>, selection: &mut Selection) -> usize {
        let key = (Arc::as_ptr(ids).cast::<u64>(), own.clone());
        let known = self.0.iter().position(|set| *set == key);
        known.unwrap_or_else(|| {
            self.0.push(key);
            selection.id_sets.push(ids[own].to_vec());
            selection.id_sets.len() - 1
        })
    }
}

/// Returns the places of those ids that a slice of a dynamic table holds.
fn ids_on_server(layout: &Layout, number: usize, ids: &[u64]) -> Range<usize> {
    let slice = &layout.slices[number];
    let slices = &layout.slices[layout.of_variable(slice.variable)];
    let held = slice.ids(slices.last().map_or(0, |last| last.rows.end));
    let place = |bound: u128| ids.partition_point(|id| u128::from(*id) < bound);
    place(held.start)..place(held.end)
}

#[cfg(test)]
mod tests {
    use trainyard_variable::{
        Access, DynamicTable, Initializer, Partitioner, Placement, VariableSpec,
    };

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
            spec(
                "user_deep",
                &[9, 2],
                Access::Dynamic(DynamicTable::KEEP_ALL),
            ),
        ];
        let layout = Layout::new(
            &specs,
            Partitioner::Fixed { num_shards: 2 },
            Placement::RoundRobin,
            2,
        );
        let rows: Arc<[u32]> = Arc::from([1, 4, 5, 9]);
        let ids: Arc<[u64]> = Arc::from([0, 3, 1 << 62, u64::MAX]);
        let reads = [
            Read::Whole,
            Read::Rows(rows.clone()),
            Read::Rows(rows),
            Read::Ids(ids.clone()),
            Read::Ids(ids),
        ];
        let plans = split(&layout, &reads, &[]);
        let mut covered = [vec![0; 8], vec![0; 4], vec![0; 12], vec![0; 4], vec![0; 8]];
        for plan in &plans {
            let Selection {
                row_sets, id_sets, ..
            } = &*plan.selection;
            assert_eq!((row_sets.len(), id_sets.len()), (1, 1), "{plan:?}");
            assert_eq!(
                plan.values(),
                plan.places
                    .iter()
                    .map(|(_, place)| place.len())
                    .sum::<usize>()
            );
            for (variable, place) in &plan.places {
                place.clone().for_each(|at| covered[*variable][at] += 1);
            }
        }
        assert!(
            covered.iter().flatten().all(|count| *count == 1),
            "{covered:?}"
        );
        let part = plans[0].only(|variable| variable == 0 || variable == 2 || variable == 4);
        let kept: Vec<usize> = part.places.iter().map(|(variable, _)| *variable).collect();
        assert_eq!(kept, [0, 2, 4]);
        let Selection {
            whole, rows, ids, ..
        } = &*part.selection;
        let numbers: Vec<u32> = whole
            .iter()
            .chain(rows.iter().chain(ids).map(|(number, _)| number))
            .copied()
            .collect();
        let variables = numbers
            .iter()
            .map(|number| layout.slices[*number as usize].variable);
        assert!(variables.eq([0, 2, 4]), "{numbers:?}");
    }
}
