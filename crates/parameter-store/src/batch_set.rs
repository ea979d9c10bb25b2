//! Sets of applied batches: all below a floor, and some above it.

use std::collections::BTreeMap;
use std::ops::Range;

/// Most batches above the floor that a set remembers: 2 MiB of bits. A push that is further ahead is refused until the
/// slowest one has caught up.
pub(crate) const AHEAD_MAX: u64 = 1 << 24;

/// A set of the numbers 0, 1, 2, ... that grows from below. It takes one bit for each number between the floor and the
/// highest.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct BatchSet {
    /// All numbers below the floor have been seen.
    floor: u64,
    /// Bits of the seen numbers, by number / 64. Words below the floor's are removed.
    words: BTreeMap<u64, u64>,
}

impl BatchSet {
    /// Returns a set that holds everything below `floor`.
    pub(crate) fn starting_at(floor: u64) -> Self {
        Self {
            floor,
            words: BTreeMap::new(),
        }
    }

    /// Returns the lowest number that has not been seen.
    pub(crate) fn floor(&self) -> u64 {
        self.floor
    }

    pub(crate) fn contains(&self, number: u64) -> bool {
        number < self.floor
            || self
                .words
                .get(&(number / 64))
                .is_some_and(|word| word >> (number % 64) & 1 == 1)
    }

    /// Returns whether the set can remember `number`.
    pub(crate) fn has_room_for(&self, number: u64) -> bool {
        number < self.floor.saturating_add(AHEAD_MAX)
    }

    /// Adds `number`, if the set has room for it.
    pub(crate) fn insert(&mut self, number: u64) {
        if number < self.floor || !self.has_room_for(number) {
            return;
        }
        if number > self.floor {
            *self.words.entry(number / 64).or_default() |= 1 << (number % 64);
            return;
        }
        self.floor += 1;
        self.raise();
    }

    /// Adds all numbers of a range for which there is room, a word at a time.
    pub(crate) fn insert_all(&mut self, numbers: &Range<u64>) {
        let begin = numbers.start.max(self.floor);
        let end = numbers.end.min(self.floor.saturating_add(AHEAD_MAX));
        if begin >= end {
            return;
        }
        if begin == self.floor {
            self.floor = end;
            self.raise();
            return;
        }
        for place in begin / 64..=(end - 1) / 64 {
            let from = begin.max(place * 64) - place * 64;
            let to = (end - 1 - place * 64).min(63);
            let bits = u64::MAX >> (63 - (to - from)) << from;
            *self.words.entry(place).or_default() |= bits;
        }
    }

    /// Raises the floor past the numbers above it that have been seen.
    fn raise(&mut self) {
        while let Some(word) = self.words.get(&(self.floor / 64)) {
            let seen = (word >> (self.floor % 64)).trailing_ones();
            let most = 64 - self.floor % 64;
            self.floor += u64::from(seen);
            if u64::from(seen) < most {
                break;
            }
        }
        while self
            .words
            .first_key_value()
            .is_some_and(|(place, _)| *place < self.floor / 64)
        {
            self.words.pop_first();
        }
    }

    /// Returns the seen numbers above the floor, as ascending ranges that do not touch.
    pub(crate) fn ahead(&self) -> Vec<Range<u64>> {
        let mut ranges: Vec<Range<u64>> = Vec::new();
        for (&place, &word) in &self.words {
            let seen = (0..64)
                .filter(|bit| word >> bit & 1 == 1)
                .map(|bit| place * 64 + bit);
            for number in seen.filter(|number| *number > self.floor) {
                match ranges.last_mut() {
                    Some(last) if last.end == number => last.end += 1,
                    _ => ranges.push(number..number + 1),
                }
            }
        }
        ranges
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn agrees_with_a_set_of_numbers(floor in 0_u64..100, numbers in prop::collection::vec(0_u64..400, 0..300)) {
            let mut set = BatchSet::starting_at(floor);
            let mut model: BTreeSet<u64> = (0..floor).collect();
            for number in numbers {
                set.insert(number);
                model.insert(number);
            }
            let lowest = (0..).find(|number| !model.contains(number)).expect("the model is finite");
            prop_assert_eq!(set.floor(), lowest);
            prop_assert!((0..500).all(|number| set.contains(number) == model.contains(&number)));
            let ahead: Vec<u64> = set.ahead().into_iter().flatten().collect();
            let expected: Vec<u64> = model.iter().copied().filter(|number| *number > lowest).collect();
            prop_assert_eq!(ahead, expected);
            prop_assert!(set.ahead().windows(2).all(|pair| pair[0].end < pair[1].start));
        }
    }

    proptest! {
        #[test]
        fn a_range_is_taken_in_as_its_numbers_are(
            floor in 0_u64..200, numbers in prop::collection::vec(0_u64..400, 0..40),
            ranges in prop::collection::vec((0_u64..400, 0_u64..200), 0..6),
        ) {
            let mut one = BatchSet::starting_at(floor);
            let mut other = BatchSet::starting_at(floor);
            numbers.iter().for_each(|number| {
                one.insert(*number);
                other.insert(*number);
            });
            for (begin, length) in ranges {
                one.insert_all(&(begin..begin + length));
                (begin..begin + length).for_each(|number| other.insert(number));
                prop_assert_eq!((one.floor(), one.ahead()), (other.floor(), other.ahead()));
                prop_assert!((0..700).all(|number| one.contains(number) == other.contains(number)));
            }
        }
    }

    /// A damaged file may hold such a range.
    #[test]
    fn the_longest_range_takes_a_moment() {
        let mut set = BatchSet::starting_at(7);
        set.insert_all(&(9..u64::MAX));
        let ahead = 9..7 + AHEAD_MAX;
        assert_eq!((set.floor(), set.ahead()), (7, vec![ahead]));
        set.insert_all(&(0..u64::MAX));
        assert_eq!((set.floor(), set.ahead()), (7 + AHEAD_MAX, Vec::new()));
        let mut last = BatchSet::starting_at(u64::MAX - 1);
        last.insert_all(&(0..u64::MAX));
        assert_eq!((last.floor(), last.ahead()), (u64::MAX, Vec::new()));
    }

    #[test]
    fn a_number_too_far_ahead_is_not_taken_in() {
        let mut set = BatchSet::starting_at(5);
        assert!(set.has_room_for(AHEAD_MAX + 4) && !set.has_room_for(AHEAD_MAX + 5));
        set.insert(AHEAD_MAX + 5);
        set.insert(u64::MAX);
        assert_eq!((set.floor(), set.ahead()), (5, Vec::new()));
    }
}
