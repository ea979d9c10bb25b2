//! A hash map that never pauses for long to grow. It consists of many small maps, and only one of them grows at a time.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hash, Hasher};

/// Number of small maps. With a hundred million keys each holds four hundred thousand, and grows within milliseconds.
const MAPS: usize = 256;
/// Multiplier that spreads neighbouring keys (2^64 divided by the golden ratio).
const SPREAD: u64 = 0x9E37_79B9_7F4A_7C15;

/// Hasher for keys that are already hashes, or numbers without gaps. It only removes the order of the keys, because a
/// slice holds neighbouring keys.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct IdHasher(u64);

impl Hasher for IdHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes
            .iter()
            .for_each(|byte| self.write_u64(self.0 ^ u64::from(*byte)));
    }

    fn write_u32(&mut self, row: u32) {
        self.write_u64(row.into());
    }

    fn write_u64(&mut self, id: u64) {
        let mixed = id.wrapping_mul(SPREAD);
        self.0 = mixed ^ (mixed >> 32);
    }
}

type Small<K, V> = HashMap<K, V, BuildHasherDefault<IdHasher>>;

/// Values by id or by place.
#[derive(Debug)]
pub(crate) struct SpreadMap<K, V> {
    maps: Vec<Small<K, V>>,
    len: usize,
}

impl<K, V> Default for SpreadMap<K, V> {
    fn default() -> Self {
        Self {
            maps: (0..MAPS).map(|_| HashMap::default()).collect(),
            len: 0,
        }
    }
}

impl<K: Copy + Eq + Hash + Into<u64>, V> SpreadMap<K, V> {
    /// Returns the index of the small map for a key. Its bits of the hash decide neither the bucket in that map nor the
    /// tag.
    fn map_of(key: K) -> usize {
        (key.into().wrapping_mul(SPREAD) >> 40) as usize % MAPS
    }

    /// Returns the number of keys.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    #[inline]
    pub(crate) fn get(&self, key: K) -> Option<&V> {
        self.maps[Self::map_of(key)].get(&key)
    }

    pub(crate) fn get_mut(&mut self, key: K) -> Option<&mut V> {
        self.maps[Self::map_of(key)].get_mut(&key)
    }

    pub(crate) fn contains(&self, key: K) -> bool {
        self.get(key).is_some()
    }

    pub(crate) fn insert(&mut self, key: K, value: V) {
        self.len += usize::from(self.maps[Self::map_of(key)].insert(key, value).is_none());
    }

    pub(crate) fn remove(&mut self, key: K) {
        self.len -= usize::from(self.maps[Self::map_of(key)].remove(&key).is_some());
    }

    #[cfg(test)]
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&K, &V)> {
        self.maps.iter().flatten()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_spread_over_all_maps_whether_they_are_hashes_or_numbers() {
        type Map = SpreadMap<u64, ()>;
        let counts = |keys: &mut dyn Iterator<Item = u64>| {
            let mut counts = vec![0; MAPS];
            keys.for_each(|key| counts[Map::map_of(key)] += 1);
            (counts.iter().min().copied(), counts.iter().max().copied())
        };
        for (least, most) in [
            counts(&mut (0..256_000)),
            counts(&mut (0..256_000).map(|number| number * (u64::MAX / 256_000))),
        ] {
            assert!(
                least > Some(800) && most < Some(1200),
                "{least:?} to {most:?} of 1000"
            );
        }
    }

    #[test]
    fn it_has_what_was_put_in_and_not_taken_out() {
        let mut map = SpreadMap::default();
        (0..10_000_u64).for_each(|key| map.insert(key, key + 1));
        map.insert(7, 0);
        (0..10_000).step_by(2).for_each(|key| map.remove(key));
        map.remove(10_000);
        assert_eq!((map.len(), map.iter().count()), (5000, 5000));
        assert_eq!(
            (map.get(7), map.get(8), map.contains(9)),
            (Some(&0), None, true)
        );
        *map.get_mut(9).expect("it is there") = 1;
        assert_eq!(map.get(9), Some(&1));
    }
}
