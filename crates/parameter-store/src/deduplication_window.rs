//! A deduplication window: remembers which sequence numbers have been used.

/// Number of sequence numbers that the window remembers one by one, up to the highest.
pub const WINDOW: u64 = 64;

/// The seen numbers among 1, 2, 3, ... A number that is [`WINDOW`] or more below the highest counts as seen.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct DeduplicationWindow {
    /// Highest number seen; 0 = none.
    highest: u64,
    /// Bit `i` says that `highest - i` has been seen.
    seen: u64,
}

impl DeduplicationWindow {
    /// Returns a window in which all numbers up to `number` have been seen.
    pub(crate) fn behind(number: u64) -> Self {
        Self {
            highest: number,
            seen: u64::MAX,
        }
    }

    /// Returns the window with the given highest number and bits.
    pub(crate) fn of(highest: u64, seen: u64) -> Self {
        Self { highest, seen }
    }

    /// Returns the highest number and the bits.
    pub(crate) fn bits(&self) -> (u64, u64) {
        (self.highest, self.seen)
    }

    /// Returns whether `number` has been seen.
    pub(crate) fn contains(&self, number: u64) -> bool {
        number <= self.highest
            && (self.highest - number >= WINDOW || self.seen >> (self.highest - number) & 1 == 1)
    }

    /// Returns the highest number that the window accepts.
    pub(crate) fn most(&self) -> u64 {
        self.highest.saturating_add(WINDOW)
    }

    /// Marks `number` as seen. Numbers that leave the window count as seen.
    pub(crate) fn insert(&mut self, number: u64) {
        if number > self.highest {
            let shift = number - self.highest;
            self.seen = if shift < WINDOW {
                self.seen << shift | 1
            } else {
                1
            };
            self.highest = number;
        } else if self.highest - number < WINDOW {
            self.seen |= 1 << (self.highest - number);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn window_agrees_with_a_set(numbers in prop::collection::vec(1_u64..200, 1..200)) {
            let mut window = DeduplicationWindow::default();
            let mut set = BTreeSet::new();
            for number in numbers {
                let highest = set.last().copied().unwrap_or(0);
                let expected = set.contains(&number) || number + WINDOW <= highest;
                prop_assert_eq!(window.contains(number), expected, "{} in {:?}", number, set);
                window.insert(number);
                set.insert(number);
                prop_assert!(window.contains(number));
            }
        }
    }
}
