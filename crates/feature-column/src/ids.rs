//! The unique ids of a categorical feature in a batch.

mod unique;

use std::ops::Range;
use std::sync::Arc;

use trainyard_run_config::Combiner;

pub(crate) use unique::Unique;

/// Row `r` has the ids `unique[index[i]]` for `i` in `offsets[r]..offsets[r + 1]`.
#[derive(Debug, Clone, PartialEq)]
pub struct Ids {
    /// Offsets of the rows in `index`, one more than there are rows. The first is 0, and they never decrease.
    pub offsets: Vec<u32>,
    /// Indices into `unique`, or into `fingerprints`.
    pub index: Vec<u32>,
    /// Weights, parallel to `index`; absent = all 1.
    pub weights: Option<Vec<f32>>,
    /// The ids of the batch, ascending, each once.
    ///
    /// Id 0 is included if a row has no id: TensorFlow looks up id 0 for such rows and masks it, so that the optimizer
    /// updates it with a gradient of zero.
    pub unique: Arc<[u32]>,
    /// For a dynamic feature, in place of `unique`: the fingerprints of the batch, ascending, each once. A row without
    /// id adds no fingerprint.
    pub fingerprints: Option<Arc<[u64]>>,
}

/// Placeholder in [`Raw::ids`] of a value without id that a cross must see. TensorFlow crosses it as -1.
pub(crate) const UNKNOWN: u32 = u32::MAX;

/// Ids by row, before deduplication: in `ids`, or for a dynamic feature in `fingerprints`.
#[derive(Debug, Clone, Default)]
pub(crate) struct Raw {
    pub(crate) offsets: Vec<u32>,
    pub(crate) ids: Vec<u32>,
    pub(crate) fingerprints: Vec<u64>,
    pub(crate) weights: Vec<f32>,
}

impl Raw {
    pub(crate) fn clear(&mut self) {
        self.offsets.clear();
        self.offsets.push(0);
        self.ids.clear();
        self.fingerprints.clear();
        self.weights.clear();
    }

    #[inline]
    pub(crate) fn push(&mut self, id: u32) {
        self.ids.push(id);
    }

    #[inline]
    pub(crate) fn end_row(&mut self) {
        // One of the two lists is empty.
        self.offsets
            .push((self.ids.len() + self.fingerprints.len()) as u32);
    }

    /// Removes the placeholders of values without id.
    pub(crate) fn drop_unknown(&mut self) {
        if !self.ids.contains(&UNKNOWN) {
            return;
        }
        let mut kept = Self::default();
        kept.clear();
        for row in self
            .offsets
            .windows(2)
            .map(|pair| pair[0] as usize..pair[1] as usize)
        {
            for place in row.filter(|place| self.ids[*place] != UNKNOWN) {
                kept.ids.push(self.ids[place]);
                kept.weights.extend(self.weights.get(place));
            }
            kept.end_row();
        }
        *self = kept;
    }

    pub(crate) fn row(&self, row: usize) -> &[u32] {
        &self.ids[self.offsets[row] as usize..self.offsets[row + 1] as usize]
    }
}

/// Rows without ids. They read the vector of id 0, which is then among the unique ids.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum EmptyRows {
    None,
    Some,
}

impl EmptyRows {
    fn among(features: &[&Raw]) -> Self {
        let is_empty = |pair: &[u32]| pair[0] == pair[1];
        if features
            .iter()
            .any(|raw| raw.offsets.windows(2).any(is_empty))
        {
            Self::Some
        } else {
            Self::None
        }
    }
}

impl Ids {
    /// Returns empty ids, for a feature that is not looked up.
    pub(crate) fn none() -> Self {
        Self {
            offsets: Vec::new(),
            index: Vec::new(),
            weights: None,
            unique: Arc::from([]),
            fingerprints: None,
        }
    }

    /// Returns the ids of several features that share a table. They share `unique`.
    pub(crate) fn of(features: &[&Raw], scratch: &mut Unique) -> Vec<Self> {
        let empty_rows = EmptyRows::among(features);
        if !scratch.find(features, empty_rows) {
            return Self::sorted(features, empty_rows);
        }
        let unique: Arc<[u32]> = scratch.ids().into();
        let of = |raw: &&Raw| Self {
            offsets: raw.offsets.clone(),
            index: scratch.places(raw),
            weights: (!raw.weights.is_empty()).then(|| raw.weights.clone()),
            unique: Arc::clone(&unique),
            fingerprints: None,
        };
        let ids = features.iter().map(of).collect();
        scratch.clear();
        ids
    }

    /// As [`Ids::of`], for ids that are too large for [`Unique`].
    fn sorted(features: &[&Raw], empty_rows: EmptyRows) -> Vec<Self> {
        let ids = features.iter().flat_map(|raw| &raw.ids);
        // Sorting (id, position) pairs as single numbers finds the unique ids and the index in one pass.
        let mut pairs: Vec<u64> = ids
            .zip(0_u64..)
            .map(|(id, place)| u64::from(*id) << 32 | place)
            .collect();
        let mut index = vec![0; pairs.len()];
        pairs.sort_unstable();
        let mut unique: Vec<u32> = Vec::with_capacity(pairs.len() + 1);
        if empty_rows == EmptyRows::Some {
            unique.push(0);
        }
        for pair in pairs {
            let id = (pair >> 32) as u32;
            if unique.last() != Some(&id) {
                unique.push(id);
            }
            index[(pair & u64::from(u32::MAX)) as usize] = unique.len() as u32 - 1;
        }
        Self::cut(features, &index, &unique.into(), None)
    }

    /// As [`Ids::of`], for dynamic features.
    pub(crate) fn of_fingerprints(features: &[&Raw]) -> Vec<Self> {
        let all = features.iter().flat_map(|raw| &raw.fingerprints);
        let mut pairs: Vec<(u64, u32)> = all.zip(0_u32..).map(|(id, place)| (*id, place)).collect();
        pairs.sort_unstable();
        let mut index = vec![0; pairs.len()];
        let mut unique: Vec<u64> = Vec::with_capacity(pairs.len());
        for (id, place) in pairs {
            if unique.last() != Some(&id) {
                unique.push(id);
            }
            index[place as usize] = unique.len() as u32 - 1;
        }
        Self::cut(features, &index, &Arc::from([]), Some(unique.into()))
    }

    /// Divides the index among several features.
    fn cut(
        features: &[&Raw],
        index: &[u32],
        unique: &Arc<[u32]>,
        fingerprints: Option<Arc<[u64]>>,
    ) -> Vec<Self> {
        let mut rest = index;
        let cut = |raw: &&Raw| {
            let (part, tail) = rest.split_at(raw.ids.len() + raw.fingerprints.len());
            rest = tail;
            Self {
                offsets: raw.offsets.clone(),
                index: part.to_vec(),
                weights: (!raw.weights.is_empty()).then(|| raw.weights.clone()),
                unique: Arc::clone(unique),
                fingerprints: fingerprints.clone(),
            }
        };
        features.iter().map(cut).collect()
    }

    /// Returns the indices in `unique` of a row's ids.
    #[inline]
    pub fn of_row(&self, row: usize) -> &[u32] {
        &self.index[self.offsets[row] as usize..self.offsets[row + 1] as usize]
    }

    /// Returns the index of each row's id if every row has exactly one id and no weights. The share of each id is then
    /// 1.
    ///
    /// # Panics
    /// There are fewer rows.
    pub fn one_of_each(&self, rows: Range<usize>) -> Option<&[u32]> {
        let offsets = &self.offsets[rows.start..=rows.end];
        let first = offsets[0];
        let each = offsets
            .iter()
            .zip(first..)
            .fold(true, |each, (offset, one)| each & (*offset == one));
        (each && self.weights.is_none()).then(|| &self.index[first as usize..][..rows.len()])
    }

    /// Calls `take` with the index in `unique` and the share of each id of a row. The share is the factor of the id's
    /// vector in the sum of the row (`safe_embedding_lookup_sparse`). With `Mean` and `Sqrtn`, ids whose weight is not
    /// above 0 do not count.
    #[inline]
    pub fn shares(&self, row: usize, combiner: Combiner, mut take: impl FnMut(usize, f32)) {
        let begin = self.offsets[row] as usize;
        let end = self.offsets[row + 1] as usize;
        let places = &self.index[begin..end];
        let Some(weights) = &self.weights else {
            let share = match combiner {
                Combiner::Sum => 1.0,
                Combiner::Mean => 1.0 / places.len().max(1) as f32,
                Combiner::Sqrtn => 1.0 / (places.len().max(1) as f32).sqrt(),
            };
            places.iter().for_each(|place| take(*place as usize, share));
            return;
        };
        let weights = &weights[begin..end];
        let counted = |weight: &&f32| combiner == Combiner::Sum || **weight > 0.0;
        let divisor = match combiner {
            Combiner::Sum => 1.0,
            Combiner::Mean => weights.iter().filter(counted).sum::<f32>(),
            Combiner::Sqrtn => weights
                .iter()
                .filter(counted)
                .map(|weight| weight * weight)
                .sum::<f32>()
                .sqrt(),
        };
        for (place, weight) in places
            .iter()
            .zip(weights)
            .filter(|(_, weight)| counted(weight))
        {
            take(*place as usize, weight / divisor);
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn raw(rows: &[&[u32]]) -> Raw {
        let mut raw = Raw::default();
        raw.clear();
        for row in rows {
            row.iter().for_each(|id| raw.push(*id));
            raw.end_row();
        }
        raw
    }

    #[test]
    fn repeated_ids_are_looked_up_once() {
        let ids = Ids::of(&[&raw(&[&[9], &[3, 9], &[9]])], &mut Unique::default()).remove(0);
        assert_eq!(
            (&*ids.unique, ids.index.as_slice()),
            ([3, 9].as_slice(), [1, 0, 1, 1].as_slice())
        );
        assert_eq!(
            (ids.of_row(0), ids.of_row(1)),
            ([1].as_slice(), [0, 1].as_slice())
        );
    }

    #[test]
    fn rows_of_one_id_each_are_known() {
        let ids = |rows: &[&[u32]]| Ids::of(&[&raw(rows)], &mut Unique::default()).remove(0);
        assert_eq!(
            ids(&[&[9], &[3], &[9]]).one_of_each(0..3),
            Some([1, 0, 1].as_slice())
        );
        let uneven = ids(&[&[9], &[], &[9, 3], &[7], &[3]]);
        assert_eq!(
            (uneven.one_of_each(0..3), uneven.one_of_each(1..4)),
            (None, None),
            "as many ids as rows"
        );
        assert_eq!(uneven.one_of_each(3..5), Some([2, 1].as_slice()));
        assert_eq!(
            Ids {
                weights: Some(vec![2.0]),
                ..ids(&[&[9]])
            }
            .one_of_each(0..1),
            None
        );
    }

    #[test]
    fn a_row_without_id_touches_the_first_one() {
        let ids = Ids::of(&[&raw(&[&[9], &[]])], &mut Unique::default()).remove(0);
        assert_eq!(
            (&*ids.unique, ids.of_row(0), ids.of_row(1)),
            ([0, 9].as_slice(), [1].as_slice(), [].as_slice())
        );
    }

    #[test]
    fn fingerprints_are_looked_up_once_and_empty_rows_touch_none() {
        let fingerprints = |rows: &[&[u64]]| {
            let mut raw = Raw::default();
            raw.clear();
            for row in rows {
                raw.fingerprints.extend_from_slice(row);
                raw.end_row();
            }
            raw
        };
        let one = fingerprints(&[&[u64::MAX], &[]]);
        let other = fingerprints(&[&[7, u64::MAX], &[7]]);
        let ids = Ids::of_fingerprints(&[&one, &other]);
        let [Some(first), Some(second)] = [&ids[0].fingerprints, &ids[1].fingerprints] else {
            panic!("{ids:?}")
        };
        assert!(Arc::ptr_eq(first, second));
        assert_eq!(
            (&**first, &*ids[0].unique),
            ([7, u64::MAX].as_slice(), [].as_slice())
        );
        assert_eq!(
            (ids[0].of_row(0), ids[0].of_row(1)),
            ([1].as_slice(), [].as_slice())
        );
        assert_eq!(
            (ids[1].of_row(0), ids[1].of_row(1)),
            ([0, 1].as_slice(), [0].as_slice())
        );
    }

    #[test]
    fn features_of_one_table_share_their_ids() {
        let ids = Ids::of(
            &[&raw(&[&[4], &[1]]), &raw(&[&[1], &[7]])],
            &mut Unique::default(),
        );
        assert!(Arc::ptr_eq(&ids[0].unique, &ids[1].unique));
        assert_eq!(
            (&*ids[0].unique, ids[0].of_row(0), ids[1].of_row(1)),
            ([1, 4, 7].as_slice(), [1].as_slice(), [2].as_slice())
        );
    }

    proptest! {
        #[test]
        fn marks_and_sorting_find_the_same(
            rows in prop::collection::vec(prop::collection::vec(0..5000_u32, 0..3), 1..50),
            more in prop::collection::vec(prop::collection::vec(0..4_194_304_u32, 1..3), 1..50),
        ) {
            let features: Vec<Raw> = [rows, more]
                .iter()
                .map(|rows| raw(&rows.iter().map(Vec::as_slice).collect::<Vec<_>>()))
                .collect();
            let mut scratch = Unique::default();
            for features in [vec![&features[0]], vec![&features[1]], features.iter().collect()] {
                let empty_rows = EmptyRows::among(&features);
                prop_assert_eq!(Ids::of(&features, &mut scratch), Ids::sorted(&features, empty_rows));
            }
        }
    }

    #[test]
    fn ids_that_are_too_far_apart_for_marks_are_sorted() {
        let mut scratch = Unique::default();
        let ids = Ids::of(
            &[&raw(&[&[u32::MAX - 1], &[], &[7, u32::MAX - 1]])],
            &mut scratch,
        )
        .remove(0);
        assert_eq!(
            (&*ids.unique, ids.index.as_slice()),
            ([0, 7, u32::MAX - 1].as_slice(), [2, 1, 2].as_slice())
        );
    }
}
