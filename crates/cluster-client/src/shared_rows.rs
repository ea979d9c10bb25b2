//! Shared rows of dynamic tables: ids without a row read, and train, one row that they share.
//!
//! A pull reads the shared row of each such table with the ids, because only the reply says which of them have a row. The
//! values of the others are then those of the shared row. The gradient of an occurrence belongs to the values that it
//! has read: that of an id without a row is added to the gradient of the shared row, and its push names the id as a
//! counted one, even if the same push gives it a row. All of this happens here, for all servers together, so that the
//! sums have the same bits on any number of servers.

use std::sync::Arc;

use trainyard_variable::{Gradients, Layout, Read, Reads, SharedRow, Values};

use crate::split::{CountedIds, ShardPlan};

/// The ids of one table that a step reads, and those of them that have no row.
#[derive(Debug, Clone, PartialEq, Eq)]
struct SharedRead {
    table: SharedRow,
    ids: Arc<[u64]>,
    /// Places of the ids without a row, ascending.
    without_row: Vec<u32>,
}

/// What a step reads of tables with a shared row.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct SharedReads {
    reads: Vec<SharedRead>,
    /// Number of the variables that a model knows: those of shared rows follow them.
    variables: usize,
}

impl SharedReads {
    /// Adds the shared rows to the reads of a model.
    pub(crate) fn add_to(layout: &Layout, reads: &mut Reads) -> Self {
        let tables = layout.shared_rows();
        let Some(variables) = tables.iter().map(|table| table.row).min() else {
            return Self::default();
        };
        reads.resize(variables + tables.len(), Read::Nothing);
        let row: Arc<[u32]> = Arc::from([0]);
        let mut shared = Vec::new();
        for table in tables {
            if let Read::Ids(ids) = &reads[table.table]
                && !ids.is_empty()
            {
                shared.push(SharedRead {
                    table: *table,
                    ids: Arc::clone(ids),
                    without_row: Vec::new(),
                });
                reads[table.row] = Read::Rows(Arc::clone(&row));
            }
        }
        Self {
            reads: shared,
            variables,
        }
    }

    /// Forgets what earlier replies have said.
    pub(crate) fn clear(&mut self) {
        self.reads
            .iter_mut()
            .for_each(|read| read.without_row.clear());
    }

    /// Notes which ids a server has no row of: their places in each id set of its plan.
    ///
    /// # Errors
    /// The reply does not match the plan.
    pub(crate) fn note(
        &mut self,
        plan: &ShardPlan,
        without_row: &[Vec<u32>],
    ) -> Result<(), String> {
        let selection = &plan.selection;
        let by_number = selection.whole.len() + selection.rows.len();
        let of_ids = plan.places[by_number..].iter().enumerate();
        for (at, (variable, range)) in of_ids {
            let Some(read) = self
                .reads
                .iter_mut()
                .find(|read| read.table.table == *variable)
            else {
                continue;
            };
            let ids = selection.id_sets[selection.ids[at].1].len();
            let places = without_row.get(at).ok_or_else(|| {
                format!(
                    "the answer must say which of {ids} ids have no row, it says so for {} sets",
                    without_row.len()
                )
            })?;
            if let Some(place) = places.last().filter(|place| **place as usize >= ids) {
                return Err(format!(
                    "the place of an id without a row must be below {ids}, given {place}"
                ));
            }
            let begin = range.start / (range.len() / ids).max(1);
            let all = places.iter().map(|place| begin as u32 + place);
            read.without_row.extend(all);
        }
        Ok(())
    }

    /// Gives the ids without a row the values of the shared rows, which are removed: no model knows them.
    pub(crate) fn fill(&mut self, values: &mut Values) {
        for SharedRead {
            table,
            ids,
            without_row,
        } in &mut self.reads
        {
            without_row.sort_unstable();
            let row = std::mem::take(&mut values[table.row]);
            let width = values[table.table].len() / ids.len();
            for place in &*without_row {
                values[table.table][*place as usize * width..][..width].copy_from_slice(&row);
            }
        }
        if self.variables > 0 {
            values.truncate(self.variables);
        }
    }

    /// The first call adds the gradients of the ids without a row to those of the shared rows, and removes them from those of the tables.
    /// `reads` become those of the gradients. Returns the ids whose gradients were removed.
    pub(crate) fn share(
        &mut self,
        reads: &mut Reads,
        gradients: &mut Gradients,
    ) -> Vec<CountedIds> {
        let Self {
            reads: shared,
            variables,
        } = std::mem::take(self);
        if variables == 0 {
            return Vec::new();
        }
        gradients.resize_with(reads.len(), Vec::new);
        gradients[variables..].iter_mut().for_each(Vec::clear);
        let mut counted: Vec<CountedIds> = Vec::new();
        let mut parted: Vec<Parted> = Vec::new();
        for read in shared {
            let table = read.table.table;
            // A variable without a gradient is not updated, and its ids are not counted.
            if read.without_row.is_empty() || gradients[table].is_empty() {
                continue;
            }
            let sum = part(&read, &mut gradients[table]);
            gradients[read.table.row] = sum;
            // Tables of one feature have the same ids. If they lack the same rows, the ids travel once.
            let known = parted.iter().find(|known| {
                Arc::ptr_eq(&known.all, &read.ids) && known.without_row == read.without_row
            });
            let (with, without) = match known {
                Some(known) => (Arc::clone(&known.with), Arc::clone(&known.without)),
                None => {
                    let new = Parted::of(read);
                    let both = (Arc::clone(&new.with), Arc::clone(&new.without));
                    parted.push(new);
                    both
                }
            };
            reads[table] = Read::Ids(with);
            counted.push(CountedIds {
                table,
                ids: without,
            });
        }
        counted
    }
}

/// The ids of a table, in those with a row and those without.
#[derive(Debug)]
struct Parted {
    all: Arc<[u64]>,
    without_row: Vec<u32>,
    with: Arc<[u64]>,
    without: Arc<[u64]>,
}

impl Parted {
    fn of(read: SharedRead) -> Self {
        let all = read.ids.iter().zip(0..);
        let has_row = |place: u32| read.without_row.binary_search(&place).is_err();
        let with = all.clone().filter(|(_, place)| has_row(*place));
        let without = all.filter(|(_, place)| !has_row(*place));
        Self {
            with: with.map(|(id, _)| *id).collect(),
            without: without.map(|(id, _)| *id).collect(),
            all: read.ids,
            without_row: read.without_row,
        }
    }
}

/// Removes the gradients of the ids without a row, and returns their sum, which is added up in the order of the ids.
fn part(read: &SharedRead, gradient: &mut Vec<f32>) -> Vec<f32> {
    let width = gradient.len() / read.ids.len();
    let mut sum = vec![0.0; width];
    let mut next = read.without_row.iter().peekable();
    let mut kept = 0;
    for place in 0..read.ids.len() {
        let row = place * width..(place + 1) * width;
        if next
            .next_if(|without| **without as usize == place)
            .is_some()
        {
            let values = sum.iter_mut().zip(&gradient[row]);
            values.for_each(|(sum, value)| *sum += value);
        } else {
            gradient.copy_within(row, kept);
            kept += width;
        }
    }
    gradient.truncate(kept);
    sum
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(table: usize, row: usize, ids: &Arc<[u64]>, without_row: &[u32]) -> SharedRead {
        SharedRead {
            table: SharedRow { table, row },
            ids: Arc::clone(ids),
            without_row: without_row.to_vec(),
        }
    }

    #[test]
    fn ids_without_a_row_read_the_shared_one_and_their_gradients_are_its_own() {
        let ids: Arc<[u64]> = Arc::from([3, 5, 8, 9]);
        let mut shared = SharedReads {
            reads: vec![read(1, 3, &ids, &[3, 0]), read(2, 4, &ids, &[])],
            variables: 3,
        };
        let mut values = vec![
            vec![7.0],
            vec![0.0, 0.0, 5.0, 5.5, 8.0, 8.5, 0.0, 0.0],
            vec![3.0, 5.0, 8.0, 9.0],
            vec![-1.0, -2.0],
            vec![-3.0],
        ];
        shared.fill(&mut values);
        let table = vec![-1.0, -2.0, 5.0, 5.5, 8.0, 8.5, -1.0, -2.0];
        assert_eq!(values, [vec![7.0], table, vec![3.0, 5.0, 8.0, 9.0]]);
        let row = Read::Rows(Arc::from([0]));
        let of_ids = Read::Ids(Arc::clone(&ids));
        let mut reads = vec![
            Read::Whole,
            of_ids.clone(),
            of_ids.clone(),
            row.clone(),
            row.clone(),
        ];
        let mut gradients = vec![
            vec![0.1],
            vec![1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 10.0, 20.0],
            vec![1.0, 2.0, 3.0, 4.0],
        ];
        let counted = shared.share(&mut reads, &mut gradients);
        let expected = [
            vec![0.1],
            vec![3.0, 4.0, 5.0, 6.0],
            vec![1.0, 2.0, 3.0, 4.0],
            vec![11.0, 22.0],
            vec![],
        ];
        assert_eq!(
            gradients, expected,
            "a shared row that nothing reads is not updated"
        );
        let with = Read::Ids(Arc::from([5, 8]));
        assert_eq!(reads, [Read::Whole, with, of_ids, row.clone(), row]);
        let ids = Arc::from([3, 9]);
        assert_eq!(counted, [CountedIds { table: 1, ids }]);
        let before = gradients.clone();
        assert!(shared.share(&mut reads, &mut gradients).is_empty());
        assert_eq!(gradients, before);
    }

    #[test]
    fn a_table_without_gradients_counts_no_ids() {
        let ids: Arc<[u64]> = Arc::from([3]);
        let mut shared = SharedReads {
            reads: vec![read(0, 1, &ids, &[0])],
            variables: 1,
        };
        let mut reads = vec![Read::Ids(ids), Read::Rows(Arc::from([0]))];
        let mut gradients = vec![Vec::new()];
        assert!(shared.share(&mut reads, &mut gradients).is_empty());
        assert_eq!(gradients, vec![Vec::<f32>::new(); 2]);
    }

    #[test]
    fn tables_of_one_feature_that_lack_the_same_rows_send_their_ids_once() {
        let ids: Arc<[u64]> = Arc::from([3, 5]);
        let mut shared = SharedReads {
            reads: vec![read(0, 2, &ids, &[1]), read(1, 3, &ids, &[1])],
            variables: 2,
        };
        let mut reads = vec![Read::Ids(Arc::clone(&ids)), Read::Ids(ids)];
        reads.resize(4, Read::Rows(Arc::from([0])));
        let mut gradients = vec![vec![1.0, 2.0], vec![1.0, 2.0]];
        let counted = shared.share(&mut reads, &mut gradients);
        assert!(Arc::ptr_eq(&counted[0].ids, &counted[1].ids));
        let (Read::Ids(one), Read::Ids(other)) = (&reads[0], &reads[1]) else {
            panic!("{reads:?}")
        };
        assert!(Arc::ptr_eq(one, other));
    }
}
