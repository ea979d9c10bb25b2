//! Dynamic tables: each id gets a row once it has occurred often enough. Without buckets, no two ids share a row.

use std::ops::Range;

use serde::{Deserialize, Serialize};

/// The rule by which ids get and lose rows of a dynamic table. The most rows are the variable's first dimension.
///
/// Ids are 64-bit hashes, spread evenly over their range: the fingerprints of values, not the values.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct DynamicTable {
    /// Number of the occurrence that gives an id a row, at least 1. Each push that names an id is one occurrence. The
    /// gradients of earlier occurrences are dropped.
    pub admit_after: u32,
    /// Number of pushes that do not name an id after which its row is removed, at least 1; absent = never.
    pub expire_after_steps: Option<u64>,
    /// Seconds of training without a push that names an id after which its row is removed, at least 1; absent = never.
    pub expire_after_secs: Option<u64>,
    /// Ids without a row read and train one row that they share, a variable of its own
    /// ([`VariableSpec::shared_row`](crate::VariableSpec::shared_row)); otherwise each reads its initial values.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub shared_row: bool,
}

impl DynamicTable {
    /// Gives an id a row at its first occurrence. Rows do not expire, and there are as many as the variable has room
    /// for.
    pub const KEEP_ALL: Self = Self {
        admit_after: 1,
        expire_after_steps: None,
        expire_after_secs: None,
        shared_row: false,
    };
}

/// Returns the ids that belong to `rows` of a table of `rows_max` rows: the same share of all ids as the rows are of
/// all rows. Slices that cover all rows cover all ids, and a slice without rows has no ids.
pub(crate) fn ids_of_rows(rows: &Range<usize>, rows_max: usize) -> Range<u128> {
    let bound = |row: usize| match rows_max {
        0 => 0,
        all => ((row as u128) << 64).div_ceil(all as u128),
    };
    bound(rows.start)..bound(rows.end)
}

/// An id that has occurred, but not often enough for a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Candidate {
    /// The id.
    pub id: u64,
    /// Time since its last occurrence.
    pub idle: Idle,
    /// Occurrence count.
    pub occurrences: u64,
}

/// The time since the last occurrence of an id.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Idle {
    /// Pushes since then.
    pub pushes: u64,
    /// Seconds of training since then.
    pub secs: u64,
}

/// A part of a dynamic table, as a checkpoint holds it.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct DynamicRows {
    /// Ids that have a row, ascending.
    pub ids: Vec<u64>,
    /// Time since the last occurrence of each id.
    pub idle: Vec<Idle>,
    /// Row-major values, a row for each id.
    pub values: Vec<f32>,
    /// Optimizer slots, each with as many values.
    pub slots: Vec<Vec<f32>>,
    /// Ids without a row that have occurred, ascending.
    pub candidates: Vec<Candidate>,
}

impl DynamicRows {
    /// Returns the rows and candidates of all lots, in ascending order of id. Lots may overlap: those of a base have the ids
    /// between those of its increment.
    pub fn united(lots: Vec<Self>) -> Self {
        let slots = lots.first().map_or(0, |lot| lot.slots.len());
        let mut out = Self {
            slots: vec![Vec::new(); slots],
            ..Self::default()
        };
        let mut lots = lots;
        lots.sort_by_key(|lot| lot.ids.first().copied());
        for mut lot in lots {
            out.ids.append(&mut lot.ids);
            out.idle.append(&mut lot.idle);
            out.values.append(&mut lot.values);
            out.slots
                .iter_mut()
                .zip(&mut lot.slots)
                .for_each(|(all, slot)| all.append(slot));
            out.candidates.append(&mut lot.candidates);
        }
        out.candidates.sort_by_key(|candidate| candidate.id);
        if !out.ids.is_sorted() {
            out.sort();
        }
        out
    }

    /// Puts the rows in ascending order of id.
    fn sort(&mut self) {
        let mut order: Vec<usize> = (0..self.ids.len()).collect();
        order.sort_by_key(|row| self.ids[*row]);
        let width = self.values.len().checked_div(self.ids.len()).unwrap_or(0);
        let gather = |part: &mut Vec<f32>| {
            let rows = order
                .iter()
                .flat_map(|row| &part[row * width..(row + 1) * width]);
            *part = rows.copied().collect();
        };
        std::iter::once(&mut self.values)
            .chain(&mut self.slots)
            .for_each(gather);
        self.ids = order.iter().map(|row| self.ids[*row]).collect();
        self.idle = order.iter().map(|row| self.idle[*row]).collect();
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn every_id_belongs_to_one_part(id in any::<u64>(), cuts in prop::collection::vec(0_usize..1000, 0..6), rows_max in 1_usize..1000) {
            let mut cuts: Vec<usize> = cuts.into_iter().map(|cut| cut.min(rows_max)).chain([0, rows_max]).collect();
            cuts.sort_unstable();
            let parts = cuts.windows(2).filter(|pair| ids_of_rows(&(pair[0]..pair[1]), rows_max).contains(&u128::from(id)));
            prop_assert_eq!(parts.count(), 1);
        }
    }

    #[test]
    fn all_rows_have_all_ids() {
        assert_eq!(ids_of_rows(&(0..7), 7), 0..1 << 64);
        assert_eq!(ids_of_rows(&(0..0), 7), 0..0);
    }
}
