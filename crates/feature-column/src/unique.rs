//! The ids of a batch in ascending order, each once, found without sorting: ids mark bits, and bits are in order.

use crate::ids::Raw;

/// Ids above this are too far apart for bits: marks of 512 KiB stay near the processor.
const ID_MAX: u32 = (1 << 22) - 1;

/// Finds unique ids and their places. Nothing is marked between uses.
#[derive(Debug, Default)]
pub(crate) struct Unique {
    /// A bit for each id.
    words: Vec<u64>,
    /// A bit for each word that is not 0.
    groups: Vec<u64>,
    /// Place of the first id of each word that is not 0.
    ranks: Vec<u32>,
    /// The ids that were found.
    ids: Vec<u32>,
}

impl Unique {
    /// Finds the unique ids of features, and 0 where a row has none. Returns whether it can; [`Unique::clear`] comes
    /// after.
    pub(crate) fn find(&mut self, features: &[&Raw], empty: bool) -> bool {
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
        if empty {
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

    /// Returns the ids that were found, ascending.
    pub(crate) fn ids(&self) -> &[u32] {
        &self.ids
    }

    /// Returns the places of a feature's ids among those that were found.
    pub(crate) fn places(&self, raw: &Raw) -> Vec<u32> {
        let place = |id: &u32| {
            let word = *id as usize / 64;
            let before = self.words[word] & ((1 << (id % 64)) - 1);
            self.ranks[word] + before.count_ones()
        };
        raw.ids.iter().map(place).collect()
    }

    /// Forgets what was found.
    pub(crate) fn clear(&mut self) {
        self.ids
            .iter()
            .for_each(|id| self.words[*id as usize / 64] = 0);
        self.ids.clear();
    }
}

/// Returns the places of the bits that are 1, ascending.
#[inline]
fn ones(mut bits: u64) -> impl Iterator<Item = u32> {
    std::iter::from_fn(move || {
        let bit = bits.trailing_zeros();
        bits &= bits.wrapping_sub(1);
        (bit < 64).then_some(bit)
    })
}
