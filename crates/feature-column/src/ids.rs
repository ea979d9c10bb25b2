//! The ids of one categorical feature in a batch, each once.

use std::sync::Arc;

/// Row `r` has the ids `unique[index[i]]` for `i` in `offsets[r]..offsets[r + 1]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ids {
    /// One more than there are rows; starts at 0, never falls.
    pub offsets: Vec<u32>,
    /// Places in `unique`.
    pub index: Vec<u32>,
    /// The ids of the batch, ascending, each once.
    pub unique: Arc<[u32]>,
}

impl Ids {
    /// Returns the ids of rows that have at most one id each.
    pub(crate) fn of_rows(rows: impl Iterator<Item = Option<u32>>, scratch: &mut Vec<u64>) -> Self {
        scratch.clear();
        let mut offsets = vec![0];
        for id in rows {
            if let Some(id) = id {
                // Sorting (id, place) pairs as one number finds the unique ids and their places in one sweep.
                scratch.push(u64::from(id) << 32 | scratch.len() as u64);
            }
            offsets.push(scratch.len() as u32);
        }
        let mut index = vec![0; scratch.len()];
        scratch.sort_unstable();
        let mut unique: Vec<u32> = Vec::with_capacity(scratch.len());
        for pair in scratch.iter() {
            let id = (pair >> 32) as u32;
            if unique.last() != Some(&id) {
                unique.push(id);
            }
            index[(*pair & u64::from(u32::MAX)) as usize] = unique.len() as u32 - 1;
        }
        Self { offsets, index, unique: unique.into() }
    }

    /// Returns the places in `unique` of a row's ids.
    #[inline]
    pub fn of_row(&self, row: usize) -> &[u32] {
        &self.index[self.offsets[row] as usize..self.offsets[row + 1] as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn repeated_ids_are_looked_up_once() {
        let ids = Ids::of_rows([Some(9), None, Some(3), Some(9)].into_iter(), &mut Vec::new());
        assert_eq!((&*ids.unique, ids.index.as_slice()), ([3, 9].as_slice(), [1, 0, 1].as_slice()));
        assert_eq!(
            (ids.of_row(0), ids.of_row(1), ids.of_row(2)),
            ([1].as_slice(), [].as_slice(), [0].as_slice())
        );
    }
}
