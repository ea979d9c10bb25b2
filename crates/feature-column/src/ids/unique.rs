//! Deduplication of a batch's ids without sorting: ids set bits, and bits are in order.

use super::{EmptyRows, Raw};

/// Largest id for which bits are used. The bits take 512 KiB at most, which fits into a processor cache.
const ID_MAX: u32 = (1 << 22) - 1;

/// Finds unique ids and their indices. All bits are 0 between uses.
#[derive(Debug, Default)]
pub(crate) struct Unique {
    /// One bit per id.
    words: Vec<u64>,
    /// One bit per word that is not 0.
    groups: Vec<u64>,
    /// Index of the first id of each word that is not 0.
    ranks: Vec<u32>,
    /// The unique ids.
    ids: Vec<u32>,
}

impl Unique {
    /// Finds the unique ids of features, and adds 0 for empty rows. Returns false if an id is too large; otherwise
    /// [`Unique::clear`] must follow.
    pub(crate) fn find(&mut self, features: &[&Raw], empty_rows: EmptyRows) -> bool {
        let most = features
            .iter()
            .filter_map(|raw| raw.ids.iter().max())
            .max()
            .map_or(0, |most| *most);
        if most > ID_MAX {
            return false;
        }
        let words = most as usize / 64 + 1;
        if self.words.len() < words {
            self.words.resize(words, 0);
            self.ranks.resize(words, 0);
            self.groups.resize(words.div_ceil(64), 0);
        }
        for raw in features {
            raw.ids.iter().for_each(|id| self.mark(*id));
        }
        if empty_rows == EmptyRows::Some {
            self.mark(0);
        }
        for (group, marks) in self.groups[..words.div_ceil(64)].iter_mut().enumerate() {
            for word in ones(std::mem::take(marks)) {
                let word = group * 64 + word as usize;
                self.ranks[word] = self.ids.len() as u32;
                self.ids
                    .extend(ones(self.words[word]).map(|bit| word as u32 * 64 + bit));
            }
        }
        true
    }

    #[inline]
    fn mark(&mut self, id: u32) {
        let word = id as usize / 64;
        self.words[word] |= 1 << (id % 64);
        self.groups[word / 64] |= 1 << (word % 64);
    }

    /// Returns the unique ids, ascending.
    pub(crate) fn ids(&self) -> &[u32] {
        &self.ids
    }

    /// Returns the indices of a feature's ids among the unique ids.
    pub(crate) fn places(&self, raw: &Raw) -> Vec<u32> {
        let place = |id: &u32| {
            let word = *id as usize / 64;
            let before = self.words[word] & ((1 << (id % 64)) - 1);
            self.ranks[word] + before.count_ones()
        };
        raw.ids.iter().map(place).collect()
    }

    /// Removes the unique ids, and clears their bits.
    pub(crate) fn clear(&mut self) {
        self.ids
            .iter()
            .for_each(|id| self.words[*id as usize / 64] = 0);
        self.ids.clear();
    }
}

/// Returns the positions of the set bits, ascending.
#[inline]
fn ones(mut bits: u64) -> impl Iterator<Item = u32> {
    std::iter::from_fn(move || {
        let bit = bits.trailing_zeros();
        bits &= bits.wrapping_sub(1);
        (bit < 64).then_some(bit)
    })
}
