//! Touched rows: the rows that updates have changed since the cuts that increments count from.

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
        if let Self::Empty = self {
            *self = Self::Bits(Vec::new());
        }
        let Self::Bits(words) = self else { return };
        for row in rows {
            let place = *row as usize / 64;
            if place >= words.len() {
                words.resize(place + 1, 0);
            }
            words[place] |= 1 << (row % 64);
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

/// A use of the touched rows. Each has cuts of its own, and the rows since them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Use {
    /// Incremental checkpoints: the rows since a whole cut.
    Checkpoint,
    /// The log of the server: the rows since the cut before.
    Log,
    /// Published values: the rows since the cut before.
    Publication,
}

impl Use {
    /// Number of uses.
    const COUNT: usize = 3;
}

/// What has been touched since the cuts of one use. A cut may turn out to be lost: until it is confirmed, the cut before it
/// may still be needed.
#[derive(Debug)]
struct Since<T> {
    /// Since the latest cut; `None` before the first one, so that a use that is off costs nothing.
    latest: Option<T>,
    /// From the confirmed cut to the latest cut; empty if that cut is confirmed.
    earlier: T,
}

/// The rows that updates have changed since the cuts of each use.
///
/// An update writes one bit per row, however many uses there are: its rows go into one set, which a cut of any use moves into
/// the sets of all uses.
#[derive(Debug, Default)]
pub(crate) struct Touched {
    /// Rows since the latest cut of any use. They are not in the sets of the uses yet.
    newest: RowSet,
    uses: [Since<RowSet>; Use::COUNT],
}

impl Default for Since<RowSet> {
    fn default() -> Self {
        Self {
            latest: None,
            earlier: RowSet::Empty,
        }
    }
}

impl Touched {
    /// Begins a cut, from which later increments may count.
    pub(crate) fn cut(&mut self, of: Use) {
        let newest = std::mem::take(&mut self.newest);
        for latest in self.latest() {
            latest.unite(&newest);
        }
        let since = &mut self.uses[of as usize];
        if let Some(latest) = since.latest.replace(RowSet::Empty) {
            since.earlier.unite(&latest);
        }
    }

    /// Makes the latest cut the one that increments count from.
    pub(crate) fn confirm(&mut self, of: Use) {
        self.uses[of as usize].earlier = RowSet::Empty;
    }

    /// Begins a cut that is confirmed. Returns the rows since the one before; every row before the first one.
    pub(crate) fn take(&mut self, of: Use) -> RowSet {
        let rows = self.since(of);
        self.cut(of);
        self.confirm(of);
        rows
    }

    /// Returns the rows since the confirmed cut; every row before the first cut.
    pub(crate) fn since(&self, of: Use) -> RowSet {
        let since = &self.uses[of as usize];
        let Some(latest) = &since.latest else {
            return RowSet::All;
        };
        let mut rows = since.earlier.clone();
        rows.unite(latest);
        rows.unite(&self.newest);
        rows
    }

    /// Returns the number of rows since the confirmed cut, of `rows` rows.
    pub(crate) fn count(&self, of: Use, rows: usize) -> usize {
        let since = &self.uses[of as usize];
        match (&since.latest, &since.earlier) {
            (None, _) => rows,
            (Some(RowSet::Empty), RowSet::Empty) => self.newest.count(rows),
            _ => self.since(of).count(rows),
        }
    }

    /// Returns the sets of the uses that are on.
    fn latest(&mut self) -> impl Iterator<Item = &mut RowSet> {
        let uses = self.uses.iter_mut();
        uses.filter_map(|since| since.latest.as_mut())
    }

    fn is_on(&self) -> bool {
        self.uses.iter().any(|since| since.latest.is_some())
    }

    #[inline]
    pub(crate) fn insert(&mut self, rows: &[u32]) {
        if self.is_on() {
            self.newest.extend(rows);
        }
    }

    pub(crate) fn insert_all(&mut self) {
        if self.is_on() {
            self.newest = RowSet::All;
        }
    }

    /// Removes a place that holds no row any more.
    pub(crate) fn remove(&mut self, place: u32) {
        self.newest.remove(place);
        for since in &mut self.uses {
            since.earlier.remove(place);
        }
        self.latest().for_each(|set| set.remove(place));
    }
}

/// The ids of a dynamic table that have lost their rows since the cuts of each use, as [`Touched`] has rows.
#[derive(Debug, Default)]
pub(crate) struct Gone {
    uses: [Since<Tombstones>; Use::COUNT],
}

/// Ids without a row; `None` if they are too many to list.
type Tombstones = Option<HashSet<u64>>;

impl Default for Since<Tombstones> {
    fn default() -> Self {
        Self {
            latest: None,
            earlier: Some(HashSet::new()),
        }
    }
}

impl Gone {
    /// As [`Touched::cut`].
    pub(crate) fn cut(&mut self, of: Use) {
        let since = &mut self.uses[of as usize];
        let Some(latest) = since.latest.replace(Some(HashSet::new())) else {
            return;
        };
        let both = since.earlier.take().zip(latest);
        since.earlier = both.map(|(earlier, latest)| {
            let (mut all, some) = if earlier.len() < latest.len() {
                (latest, earlier)
            } else {
                (earlier, latest)
            };
            all.extend(some);
            all
        });
    }

    /// As [`Touched::confirm`].
    pub(crate) fn confirm(&mut self, of: Use) {
        self.uses[of as usize].earlier = Some(HashSet::new());
    }

    /// As [`Touched::take`]. Returns the ids ascending; `None` if they are too many to list.
    pub(crate) fn take(&mut self, of: Use) -> Option<Vec<u64>> {
        let ids = self.since(of);
        self.cut(of);
        self.confirm(of);
        ids
    }

    /// Returns the ids since the confirmed cut, ascending; `None` if they are too many to list.
    pub(crate) fn since(&self, of: Use) -> Option<Vec<u64>> {
        let since = &self.uses[of as usize];
        let latest = since.latest.as_ref()?.as_ref()?;
        let mut ids: Vec<u64> = since.earlier.as_ref()?.union(latest).copied().collect();
        ids.sort_unstable();
        Some(ids)
    }

    /// Returns the most ids that [`Gone::since`] lists; `None` if they are too many to list.
    pub(crate) fn count(&self, of: Use) -> Option<usize> {
        let since = &self.uses[of as usize];
        Some(since.latest.as_ref()?.as_ref()?.len() + since.earlier.as_ref()?.len())
    }

    /// Records an id that loses its row, in a table of `rows` rows.
    pub(crate) fn insert(&mut self, id: u64, rows: usize) {
        let uses = self.uses.iter_mut();
        for tombstones in uses.filter_map(|since| since.latest.as_mut()) {
            if let Some(ids) = tombstones {
                if ids.len() < (rows / GONE_SHARE).max(1) {
                    ids.insert(id);
                } else {
                    *tombstones = None;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const USE: Use = Use::Publication;

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
    fn a_cut_that_is_not_confirmed_leaves_the_rows_since_the_cut_before_it() {
        let mut touched = Touched::default();
        touched.insert(&[1]);
        assert_eq!(touched.since(USE), RowSet::All, "there is no cut yet");
        touched.cut(USE);
        touched.insert(&[2]);
        assert_eq!(rows(&touched.since(USE)), [2]);
        touched.cut(USE);
        touched.insert(&[3]);
        assert_eq!(rows(&touched.since(USE)), [2, 3]);
        touched.confirm(USE);
        assert_eq!(rows(&touched.since(USE)), [3]);
        touched.insert_all();
        assert_eq!(touched.since(USE), RowSet::All);
    }

    #[test]
    fn a_use_that_is_off_lists_nothing_and_each_use_has_cuts_of_its_own() {
        let mut touched = Touched::default();
        touched.cut(Use::Log);
        touched.insert(&[1]);
        assert!(touched.uses[Use::Publication as usize].latest.is_none());
        touched.cut(Use::Publication);
        touched.insert(&[2]);
        assert_eq!(rows(&touched.take(Use::Log)), [1, 2]);
        touched.insert(&[3]);
        assert_eq!(rows(&touched.since(Use::Publication)), [2, 3]);
        assert_eq!(rows(&touched.since(Use::Log)), [3]);
        assert_eq!(touched.count(Use::Log, 9), 1);
        assert_eq!(touched.count(Use::Checkpoint, 9), 9, "it has no cut");
        touched.remove(3);
        assert_eq!(rows(&touched.since(Use::Publication)), [2]);
    }

    #[test]
    fn ids_that_are_gone_are_listed_up_to_a_share_of_the_table() {
        let mut gone = Gone::default();
        assert_eq!(gone.since(USE), None, "there is no cut yet");
        gone.cut(USE);
        gone.insert(7, 8);
        gone.cut(USE);
        gone.insert(3, 8);
        assert_eq!(gone.since(USE), Some(vec![3, 7]));
        gone.confirm(USE);
        assert_eq!(gone.since(USE), Some(vec![3]));
        gone.insert(4, 8);
        gone.insert(5, 8);
        assert_eq!((gone.since(USE), gone.count(USE)), (None, None));
        gone.cut(USE);
        assert_eq!(gone.since(USE), None, "the cut before it still counts");
        gone.confirm(USE);
        assert_eq!(gone.since(USE), Some(Vec::new()));
    }
}
