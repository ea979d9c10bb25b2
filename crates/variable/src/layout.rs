//! The layout: the slices of a model's variables, and their parameter servers.

use std::ops::Range;

use serde::{Deserialize, Serialize};

use crate::dynamic_table::ids_of_rows;
use crate::fingerprint::Fingerprint;
use crate::partitioner::part_rows;
use crate::{Access, DynamicTable, Partitioner, Placement, VariableSpec};

/// One slice of one variable, and the server that holds it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Slice {
    /// Index of the variable in the model's list.
    pub variable: usize,
    /// Number of the slice within its variable, from 0.
    pub part: usize,
    /// Rows of the variable that the slice holds. For a dynamic table, its share of the most rows.
    pub rows: Range<usize>,
    /// Values in a row.
    pub width: usize,
    /// Index of the parameter server.
    pub ps: usize,
}

impl Slice {
    /// Returns the number of values.
    pub fn len(&self) -> usize {
        self.rows.len() * self.width
    }

    /// Returns the ids that the slice holds of a dynamic table of `rows_max` rows.
    pub fn ids(&self, rows_max: usize) -> Range<u128> {
        ids_of_rows(&self.rows, rows_max)
    }

    /// Returns whether the slice holds no value.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// Every slice of every variable. A slice's number is its position in [`Layout::slices`]; the slices of a variable
/// are consecutive and in row order. Every task computes the same layout from the same job and cluster.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Layout {
    /// Slices, by number.
    pub slices: Vec<Slice>,
    /// Number of parameter servers.
    pub num_ps: usize,
    /// First slice of each variable, followed by the number of slices.
    starts: Vec<usize>,
    /// Dynamic tables whose ids without a row share one.
    #[serde(default)]
    shared_rows: Vec<SharedRow>,
}

/// A dynamic table whose ids without a row share one, and the variable that holds this row. The variables of shared
/// rows follow all others, which a model may therefore number without them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct SharedRow {
    /// Index of the table.
    pub table: usize,
    /// Index of the variable of its shared row.
    pub row: usize,
}

/// Returns the shared rows of dynamic tables among the variables.
pub fn shared_rows(variables: &[VariableSpec]) -> Vec<SharedRow> {
    let tables = variables.iter().enumerate();
    let pair = |(table, spec): (usize, &VariableSpec)| {
        let shared = spec.shared_row()?;
        let row = variables.iter().position(|spec| spec.name == shared.name)?;
        Some(SharedRow { table, row })
    };
    tables.filter_map(pair).collect()
}

impl Layout {
    /// Cuts `variables` with `partitioner` and places the slices on `num_ps` servers, at least one.
    ///
    /// Scalars (shape `[]`) are one slice. Every server holds a slice of every dynamic table. As in TensorFlow, round
    /// robin gives its first turn to the global step, which lives on `ps:0`.
    pub fn new(
        variables: &[VariableSpec],
        partitioner: Partitioner,
        placement: Placement,
        num_ps: usize,
    ) -> Self {
        let num_ps = num_ps.max(1);
        let mut slices = Vec::new();
        let mut starts = Vec::with_capacity(variables.len() + 1);
        let mut load = vec![0_usize; num_ps];
        let mut turn = 1_usize;
        for (variable, spec) in variables.iter().enumerate() {
            starts.push(slices.len());
            let parts = match spec.dynamic() {
                Some(_) => num_ps,
                None => partitioner.num_slices(spec.rows(), spec.width() * 4, num_ps),
            };
            for part in 0..parts {
                let rows = part_rows(spec.rows(), parts, part);
                let bytes = rows.len() * spec.width() * 4;
                let ps = match placement {
                    _ if spec.dynamic().is_some() => part,
                    Placement::RoundRobin => turn % num_ps,
                    Placement::Greedy => (0..num_ps).min_by_key(|&ps| load[ps]).unwrap_or(0),
                };
                load[ps] += bytes;
                turn += usize::from(spec.dynamic().is_none());
                slices.push(Slice {
                    variable,
                    part,
                    rows,
                    width: spec.width(),
                    ps,
                });
            }
        }
        starts.push(slices.len());
        Self {
            slices,
            num_ps,
            starts,
            shared_rows: shared_rows(variables),
        }
    }

    /// Cuts `variables` as [`Layout::new`] does, with one additional store. That store comes first and holds all
    /// variables that are read whole; the servers hold the others.
    pub fn hybrid(
        variables: &[VariableSpec],
        partitioner: Partitioner,
        placement: Placement,
        num_ps: usize,
    ) -> Self {
        let whole = |spec: &VariableSpec| spec.access == Access::Whole;
        let tables: Vec<VariableSpec> = variables
            .iter()
            .filter(|spec| !whole(spec))
            .cloned()
            .collect();
        let tables = Self::new(&tables, partitioner, placement, num_ps);
        let mut slices = Vec::new();
        let mut starts = Vec::new();
        let mut table = 0;
        for (variable, spec) in variables.iter().enumerate() {
            starts.push(slices.len());
            if whole(spec) {
                let rows = 0..spec.rows();
                let width = spec.width();
                slices.push(Slice {
                    variable,
                    part: 0,
                    rows,
                    width,
                    ps: 0,
                });
                continue;
            }
            let own = &tables.slices[tables.of_variable(table)];
            slices.extend(own.iter().map(|slice| Slice {
                variable,
                ps: slice.ps + 1,
                ..slice.clone()
            }));
            table += 1;
        }
        starts.push(slices.len());
        Self {
            slices,
            num_ps: tables.num_ps + 1,
            starts,
            shared_rows: shared_rows(variables),
        }
    }

    /// Returns the dynamic tables whose ids without a row share one.
    pub fn shared_rows(&self) -> &[SharedRow] {
        &self.shared_rows
    }

    /// Returns the numbers of a variable's slices.
    pub fn of_variable(&self, variable: usize) -> Range<usize> {
        self.starts[variable]..self.starts[variable + 1]
    }

    /// Returns the number and the slice of everything that server `ps` holds.
    pub fn of_ps(&self, ps: usize) -> impl Iterator<Item = (usize, &Slice)> {
        self.slices
            .iter()
            .enumerate()
            .filter(move |(_, slice)| slice.ps == ps)
    }

    /// Returns a number that two tasks share if, and almost only if, their variables are the same and cut the same way.
    pub fn fingerprint(&self, variables: &[VariableSpec]) -> u64 {
        let mut hash = Fingerprint::new();
        hash.write_u64(self.num_ps as u64);
        for spec in variables {
            hash.write(spec.name.as_bytes());
            hash.write(spec.optimizer_group.as_bytes());
            match spec.access {
                Access::Whole => hash.write_u64(0),
                Access::Rows => hash.write_u64(1),
                Access::Dynamic(DynamicTable {
                    admit_after,
                    expire_after_steps,
                    expire_after_secs,
                    shared_row,
                }) => {
                    let never = |after: Option<u64>| after.unwrap_or(0);
                    let rule = [
                        2,
                        admit_after.into(),
                        never(expire_after_steps),
                        never(expire_after_secs),
                    ];
                    rule.into_iter().for_each(|value| hash.write_u64(value));
                    if shared_row {
                        hash.write_u64(3);
                    }
                }
            }
            spec.shape
                .iter()
                .for_each(|&dimension| hash.write_u64(dimension as u64));
        }
        for slice in &self.slices {
            for value in [slice.variable, slice.rows.start, slice.rows.end, slice.ps] {
                hash.write_u64(value as u64);
            }
        }
        hash.finish()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::Initializer;

    fn spec(name: &str, shape: &[usize]) -> VariableSpec {
        let access = Access::Whole;
        let initializer = Initializer::Zeros;
        VariableSpec {
            name: name.into(),
            shape: shape.into(),
            access,
            initializer,
            optimizer_group: "g".into(),
        }
    }

    proptest! {
        #[test]
        fn slices_cover_every_row_exactly_once(
            shapes in prop::collection::vec((0_usize..50, 1_usize..5), 1..8), shards in 1_usize..9, num_ps in 1_usize..6,
        ) {
            let specs: Vec<_> = shapes.iter().map(|&(rows, width)| spec("v", &[rows, width])).collect();
            for placement in [Placement::RoundRobin, Placement::Greedy] {
                let layout = Layout::new(&specs, Partitioner::Fixed { num_shards: shards }, placement, num_ps);
                for (variable, spec) in specs.iter().enumerate() {
                    let mut next = 0;
                    for slice in &layout.slices[layout.of_variable(variable)] {
                        prop_assert_eq!((slice.variable, slice.rows.start), (variable, next));
                        prop_assert!(slice.ps < num_ps);
                        next = slice.rows.end;
                    }
                    prop_assert_eq!(next, spec.rows());
                }
            }
        }
    }

    #[test]
    fn of_a_hybrid_layout_servers_hold_tables_and_the_first_store_the_rest() {
        let rows = |name: &str, shape: &[usize]| VariableSpec {
            access: Access::Rows,
            ..spec(name, shape)
        };
        let specs = [
            spec("kernel", &[4, 2]),
            rows("table", &[10, 3]),
            spec("bias", &[2]),
            rows("wide", &[6, 1]),
        ];
        let layout = Layout::hybrid(
            &specs,
            Partitioner::Fixed { num_shards: 2 },
            Placement::RoundRobin,
            2,
        );
        assert_eq!(layout.num_ps, 3);
        for (variable, spec) in specs.iter().enumerate() {
            let slices = &layout.slices[layout.of_variable(variable)];
            assert!(slices.iter().all(|slice| slice.variable == variable));
            assert_eq!(
                slices.iter().map(|slice| slice.rows.len()).sum::<usize>(),
                spec.rows()
            );
            assert!(
                slices
                    .iter()
                    .all(|slice| (slice.ps == 0) == (spec.access == Access::Whole))
            );
        }
    }

    #[test]
    fn greedy_placement_levels_the_bytes() {
        let specs = [
            spec("a", &[100, 4]),
            spec("b", &[30, 4]),
            spec("c", &[30, 4]),
            spec("d", &[40, 4]),
        ];
        let layout = Layout::new(
            &specs,
            Partitioner::Fixed { num_shards: 1 },
            Placement::Greedy,
            2,
        );
        let ps: Vec<usize> = layout.slices.iter().map(|slice| slice.ps).collect();
        assert_eq!(ps, [0, 1, 1, 1]);
    }

    #[test]
    fn every_server_holds_a_slice_of_every_dynamic_table() {
        let dynamic = |rows| VariableSpec {
            access: Access::Dynamic(DynamicTable::KEEP_ALL),
            ..spec("d", &[rows, 2])
        };
        let specs = [spec("a", &[5]), dynamic(10), spec("b", &[5]), dynamic(2)];
        for placement in [Placement::RoundRobin, Placement::Greedy] {
            let layout = Layout::new(&specs, Partitioner::Fixed { num_shards: 1 }, placement, 3);
            for variable in [1, 3] {
                let slices = &layout.slices[layout.of_variable(variable)];
                assert_eq!(
                    slices.iter().map(|slice| slice.ps).collect::<Vec<_>>(),
                    [0, 1, 2]
                );
                let rows_max = specs[variable].rows();
                assert_eq!(
                    slices.iter().map(|slice| slice.rows.len()).sum::<usize>(),
                    rows_max
                );
                let ids: Vec<_> = slices.iter().map(|slice| slice.ids(rows_max)).collect();
                assert_eq!((ids[0].start, ids[2].end), (0, 1 << 64));
                assert!(
                    ids.windows(2).all(|pair| pair[0].end == pair[1].start),
                    "{ids:?}"
                );
            }
        }
    }

    #[test]
    fn fingerprint_tells_other_models_and_clusters_apart() {
        let one = [spec("a", &[4, 2])];
        let two = [spec("a", &[4, 3])];
        let print = |specs: &[VariableSpec], num_ps| {
            let layout = Layout::new(
                specs,
                Partitioner::Fixed { num_shards: 2 },
                Placement::Greedy,
                num_ps,
            );
            layout.fingerprint(specs)
        };
        assert_eq!(print(&one, 2), print(&one, 2));
        assert!(print(&one, 2) != print(&two, 2) && print(&one, 2) != print(&one, 1));
        let table = DynamicTable {
            admit_after: 2,
            ..DynamicTable::KEEP_ALL
        };
        let [keep, admit] = [DynamicTable::KEEP_ALL, table].map(|table| {
            [VariableSpec {
                access: Access::Dynamic(table),
                ..spec("a", &[4, 2])
            }]
        });
        assert!(print(&keep, 2) != print(&admit, 2));
    }
}
