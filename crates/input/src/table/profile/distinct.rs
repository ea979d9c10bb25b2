//! Estimate of the number of distinct values of a column, without storing the values.

use std::collections::BTreeSet;
use std::hash::{DefaultHasher, Hasher as _};

/// Number of hashes that are kept. The estimate is within 1/√4096 = 1.6 % of the truth in two of three cases.
const KEPT_HASHES: usize = 4096;

/// The smallest hashes of all values (k minimum values: Bar-Yossef et al. 2002).
#[derive(Debug, Clone, Default)]
pub(super) struct Distinct {
    smallest: BTreeSet<u64>,
}

impl Distinct {
    pub(super) fn add(&mut self, value: &[u8]) {
        let mut hasher = DefaultHasher::new();
        hasher.write(value);
        let hash = hasher.finish();
        if self.smallest.len() < KEPT_HASHES {
            self.smallest.insert(hash);
        } else if self.smallest.last().is_some_and(|largest| hash < *largest)
            && self.smallest.insert(hash)
        {
            self.smallest.pop_last();
        }
    }

    /// Returns the estimate: the kept hashes fill a share of the range of hashes, and all hashes fill the whole range.
    pub(super) fn estimate(&self) -> u64 {
        match self.smallest.last() {
            Some(largest) if self.smallest.len() == KEPT_HASHES => {
                let share = (*largest as f64 + 1.0) / (u64::MAX as f64 + 1.0);
                ((KEPT_HASHES - 1) as f64 / share) as u64
            }
            _ => self.smallest.len() as u64,
        }
    }
}
