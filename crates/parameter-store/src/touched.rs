//! Touched rows: the rows that updates have changed since the cut that increments are based on.

use std::collections::HashSet;

/// Ids that may be recorded as gone, as a share of the rows of a table: one in this many. With more of them, the next
/// cut is whole.
const GONE_SHARE: usize = 4;

/// A set of row numbers or places, one bit each.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) enum RowSet {
    /// No row.
    #[default]
    Empty,
    /// The rows whose bits are set.
    Bits(Vec<u64>),
    /// Every row.
    All,
}

impl RowSet {
    /// Adds rows.
    #[inline]
    fn extend(&mut self, rows: &[u32]) {
        let Some(last) = rows.iter().max() else {
            return;
        };
        if let Self::Empty = self {
            *self = Self::Bits(Vec::new());
        }
        let Self::Bits(words) = self else { return };
        let count = *last as usize / 64 + 1;
        if count > words.len() {
            words.resize(count, 0);
        }
        for row in rows {
            words[*row as usize / 64] |= 1 << (row % 64);
        }
    }

    fn remove(&mut self, row: u32) {
        if let Self::Bits(words) = self
            && let Some(word) = words.get_mut(row as usize / 64)
        {
            *word &= !(1 << (row % 64));
        }
    }

    pub(crate) fn contains(&self, row: u32) -> bool {
        match self {
            Self::Empty => false,
            Self::All => true,
            Self::Bits(words) => {
                let word = words.get(row as usize / 64);
                word.is_some_and(|word| word >> (row % 64) & 1 == 1)
            }
        }
    }

    /// Returns the number of rows in the set, of `rows` rows.
    pub(crate) fn count(&self, rows: usize) -> usize {
        match self {
            Self::Empty => 0,
            Self::All => rows,
            Self::Bits(words) => words.iter().map(|word| word.count_ones() as usize).sum(),
        }
    }

    /// Returns the rows, ascending, or `None` for every row.
    pub(crate) fn rows(&self) -> Option<impl Iterator<Item = u32>> {
        let words = match self {
            Self::All => return None,
            Self::Empty => &[][..],
            Self::Bits(words) => words,
        };
        let of_word = |(place, word): (usize, &u64)| {
            let mut rest = *word;
            std::iter::from_fn(move || {
                let bit = rest.trailing_zeros();
                // The lowest bit is cleared; at 0, no bit is left.
                (bit < 64).then(|| {
                    rest &= rest - 1;
                    place as u32 * 64 + bit
                })
            })
        };
        Some(words.iter().enumerate().flat_map(of_word))
    }

    fn unite(&mut self, other: &Self) {
        match (&mut *self, other) {
            (Self::All, _) | (_, Self::Empty) => {}
            (Self::Empty, _) | (_, Self::All) => *self = other.clone(),
            (Self::Bits(words), Self::Bits(more)) => {
                if words.len() < more.len() {
                    words.resize(more.len(), 0);
                }
                for (word, more) in words.iter_mut().zip(more) {
                    *word |= more;
                }
            }
        }
    }
}

/// The rows that updates have changed since a whole cut. A whole cut becomes the base of increments when its checkpoint
/// is committed; until then, the base before it may still be needed.
#[derive(Debug, Default)]
pub(crate) struct Touched {
    /// Since the latest whole cut; `None` before the first one.
    latest: Option<RowSet>,
    /// From the base to the latest whole cut; empty if that cut is the base.
    earlier: RowSet,
    /// Since the latest cut of the log; `None` before the first one.
    since_log_cut: Option<RowSet>,
}

impl Touched {
    /// Begins a whole cut, from which later increments may count.
    pub(crate) fn begin_base(&mut self) {
        if let Some(latest) = self.latest.replace(RowSet::Empty) {
            self.earlier.unite(&latest);
        }
    }

    /// Makes the latest whole cut the base.
    pub(crate) fn commit_base(&mut self) {
        self.earlier = RowSet::Empty;
    }

    /// Begins a cut of the log. Returns the rows since the one before; every row before the first one.
    pub(crate) fn begin_log_cut(&mut self) -> RowSet {
        let since = self.since_log_cut.replace(RowSet::Empty);
        since.unwrap_or(RowSet::All)
    }

    /// Returns the number of rows since the latest cut of the log, of `rows` rows.
    pub(crate) fn count_since_log_cut(&self, rows: usize) -> usize {
        let since = self.since_log_cut.as_ref();
        since.map_or(rows, |since| since.count(rows))
    }

    #[inline]
    pub(crate) fn insert(&mut self, rows: &[u32]) {
        for set in [&mut self.latest, &mut self.since_log_cut]
            .into_iter()
            .flatten()
        {
            set.extend(rows);
        }
    }

    pub(crate) fn insert_all(&mut self) {
        for set in [&mut self.latest, &mut self.since_log_cut]
            .into_iter()
            .flatten()
        {
            *set = RowSet::All;
        }
    }

    /// Removes a place that holds no row any more.
    pub(crate) fn remove(&mut self, place: u32) {
        self.earlier.remove(place);
        for set in [&mut self.latest, &mut self.since_log_cut]
            .into_iter()
            .flatten()
        {
            set.remove(place);
        }
    }

    /// Returns the rows that have changed since the base.
    pub(crate) fn since_base(&self) -> RowSet {
        let mut rows = self.earlier.clone();
        match &self.latest {
            Some(latest) => rows.unite(latest),
            None => rows = RowSet::All,
        }
        rows
    }
}

/// The ids of a dynamic table that have lost their rows since a whole cut, as [`Touched`] counts.
#[derive(Debug, Default)]
pub(crate) struct Gone {
    latest: Option<Tombstones>,
    earlier: Tombstones,
    since_log_cut: Option<Tombstones>,
}

/// Ids without a row; `None` if they are too many to list.
type Tombstones = Option<HashSet<u64>>;

impl Gone {
    pub(crate) fn begin_base(&mut self) {
        let Some(latest) = self.latest.replace(Some(HashSet::new())) else {
            self.earlier = Some(HashSet::new());
            return;
        };
        self.earlier = self
            .earlier
            .take()
            .zip(latest)
            .map(|(earlier, latest)| earlier.into_iter().chain(latest).collect());
    }

    pub(crate) fn commit_base(&mut self) {
        self.earlier = Some(HashSet::new());
    }

    /// Records an id that loses its row, in a table of `rows` rows.
    pub(crate) fn insert(&mut self, id: u64, rows: usize) {
        for tombstones in [&mut self.latest, &mut self.since_log_cut] {
            let Some(tombstones) = tombstones else {
                continue;
            };
            if let Some(ids) = tombstones {
                if ids.len() < (rows / GONE_SHARE).max(1) {
                    ids.insert(id);
                } else {
                    *tombstones = None;
                }
            }
        }
    }

    /// Begins a cut of the log. Returns the ids that have lost their rows since the one before, ascending; `None` if they
    /// are too many to list.
    pub(crate) fn begin_log_cut(&mut self) -> Option<Vec<u64>> {
        let since = self.since_log_cut.replace(Some(HashSet::new()));
        let mut ids: Vec<u64> = since.flatten()?.into_iter().collect();
        ids.sort_unstable();
        Some(ids)
    }

    /// Returns the number of these ids; `None` if they are too many to list.
    pub(crate) fn count_since_log_cut(&self) -> Option<usize> {
        Some(self.since_log_cut.as_ref()?.as_ref()?.len())
    }

    /// Returns the ids that have lost their rows since the base, ascending; `None` if they are too many to list.
    pub(crate) fn since_base(&self) -> Option<Vec<u64>> {
        let latest = self.latest.as_ref()?.as_ref()?;
        let earlier = self.earlier.as_ref()?;
        let mut ids: Vec<u64> = earlier.union(latest).copied().collect();
        ids.sort_unstable();
        Some(ids)
    }

    /// Returns the number of these ids; `None` if they are too many to list.
    pub(crate) fn count(&self) -> Option<usize> {
        Some(self.latest.as_ref()?.as_ref()?.len() + self.earlier.as_ref()?.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(set: &RowSet) -> Vec<u32> {
        set.rows().expect("not every row").collect()
    }

    #[test]
    fn a_set_lists_its_rows_ascending() {
        let mut set = RowSet::default();
        assert!(rows(&set).is_empty());
        set.extend(&[130, 0, 63, 64, 130]);
        assert_eq!(rows(&set), [0, 63, 64, 130]);
        assert_eq!(set.count(1000), 4);
        assert!(set.contains(64) && !set.contains(65) && !set.contains(10_000));
        set.remove(64);
        assert_eq!(rows(&set), [0, 63, 130]);
    }

    #[test]
    fn a_base_that_is_not_committed_leaves_the_rows_since_the_base_before_it() {
        let mut touched = Touched::default();
        touched.insert(&[1]);
        assert_eq!(touched.since_base(), RowSet::All, "there is no base yet");
        touched.begin_base();
        touched.insert(&[2]);
        assert_eq!(rows(&touched.since_base()), [2]);
        touched.begin_base();
        touched.insert(&[3]);
        assert_eq!(rows(&touched.since_base()), [2, 3]);
        touched.commit_base();
        assert_eq!(rows(&touched.since_base()), [3]);
        touched.insert_all();
        assert_eq!(touched.since_base(), RowSet::All);
    }

    #[test]
    fn ids_that_are_gone_are_listed_up_to_a_share_of_the_table() {
        let mut gone = Gone::default();
        assert_eq!(gone.since_base(), None, "there is no base yet");
        gone.begin_base();
        gone.insert(7, 8);
        gone.begin_base();
        gone.insert(3, 8);
        assert_eq!(gone.since_base(), Some(vec![3, 7]));
        gone.commit_base();
        assert_eq!(gone.since_base(), Some(vec![3]));
        gone.insert(4, 8);
        gone.insert(5, 8);
        assert_eq!((gone.since_base(), gone.count()), (None, None));
        gone.begin_base();
        assert_eq!(
            gone.since_base(),
            None,
            "the base before it is still the base"
        );
        gone.commit_base();
        assert_eq!(gone.since_base(), Some(Vec::new()));
    }
}
