//! An LRU list of ids, each with a place. The least recently used id is found at once.

use crate::memory_budget::reserve;
use crate::spread_map::SpreadMap;

/// Marks a missing place.
const NONE: u32 = u32::MAX;

/// A point in training: pushes applied, and seconds trained.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Timestamp {
    pub(crate) pushes: u64,
    /// Seconds of training. Negative if an id was last used before a restore.
    pub(crate) secs: i64,
}

/// The point of an update.
#[derive(Debug, Clone, Copy)]
pub(crate) struct UpdatePoint {
    /// Time after the update.
    pub(crate) now: Timestamp,
    /// Step that the update rules see. `None` if it is the number of pushes.
    pub(crate) optimizer_step: Option<u64>,
}

impl Timestamp {
    /// Returns the later time, separately for pushes and for seconds.
    pub(crate) fn latest(self, other: Self) -> Self {
        Self {
            pushes: self.pushes.max(other.pushes),
            secs: self.secs.max(other.secs),
        }
    }
}

#[derive(Debug, Clone, Copy)]
struct Node {
    id: u64,
    used: Timestamp,
    older: u32,
    newer: u32,
}

/// Ids and their places. Places are below the highest number of ids that the list has ever held.
#[derive(Debug)]
pub(crate) struct Lru {
    places: SpreadMap<u64, u32>,
    nodes: Vec<Node>,
    free: Vec<u32>,
    oldest: u32,
    newest: u32,
}

impl Default for Lru {
    fn default() -> Self {
        Self {
            places: SpreadMap::default(),
            nodes: Vec::new(),
            free: Vec::new(),
            oldest: NONE,
            newest: NONE,
        }
    }
}

impl Lru {
    /// Reserves memory for `ids` ids, which is used only as they arrive. Without it, all ids would be moved now and
    /// then.
    pub(crate) fn reserve(&mut self, ids: usize) {
        reserve(&mut self.nodes, ids);
    }

    /// Returns the number of ids.
    pub(crate) fn len(&self) -> usize {
        self.places.len()
    }

    /// Returns the number of places that have ever been used.
    pub(crate) fn places(&self) -> usize {
        self.nodes.len()
    }

    /// Returns the place of an id.
    #[inline]
    pub(crate) fn place(&self, id: u64) -> Option<u32> {
        self.places.get(id).copied()
    }

    /// Makes the id at `place` the most recently used one.
    pub(crate) fn touch(&mut self, place: u32, now: Timestamp) {
        self.nodes[place as usize].used = now;
        if self.newest != place {
            self.unlink(place);
            self.link(place);
        }
    }

    /// Returns the free place that the next id gets. `None` if it gets a new place.
    pub(crate) fn next_place(&self) -> Option<u32> {
        self.free.last().copied()
    }

    /// Adds a new id as the most recently used one, and returns its place: a free one, or the next.
    pub(crate) fn insert(&mut self, id: u64, now: Timestamp) -> u32 {
        let node = Node {
            id,
            used: now,
            older: NONE,
            newer: NONE,
        };
        let place = match self.free.pop() {
            Some(place) => {
                self.nodes[place as usize] = node;
                place
            }
            None => {
                self.nodes.push(node);
                self.nodes.len() as u32 - 1
            }
        };
        self.places.insert(id, place);
        self.link(place);
        place
    }

    /// Removes the id at `place`.
    pub(crate) fn remove(&mut self, place: u32) {
        self.unlink(place);
        let node = &mut self.nodes[place as usize];
        self.places.remove(node.id);
        // A free place refers to itself as the older one, which a used place never does.
        node.older = place;
        self.free.push(place);
    }

    /// Returns the id at `place` and its last use. `None` if the place is free.
    pub(crate) fn at(&self, place: u32) -> Option<(u64, Timestamp)> {
        let node = self.nodes.get(place as usize)?;
        (node.older != place).then_some((node.id, node.used))
    }

    /// Returns the least recently used place, and its last use.
    pub(crate) fn oldest(&self) -> Option<(u32, Timestamp)> {
        self.nodes
            .get(self.oldest as usize)
            .map(|node| (self.oldest, node.used))
    }

    /// Returns (id, place, last use) of every id, in no order.
    #[cfg(test)]
    pub(crate) fn all(&self) -> impl Iterator<Item = (u64, u32, Timestamp)> {
        self.places
            .iter()
            .map(|(&id, &place)| (id, place, self.nodes[place as usize].used))
    }

    /// Orders the ids by their last use, and ids with the same last use by id. They may have been added in any order.
    pub(crate) fn put_in_order(&mut self) {
        let mut order: Vec<u32> = (0..self.nodes.len() as u32)
            .filter(|place| self.at(*place).is_some())
            .collect();
        order.sort_unstable_by_key(|place| {
            let node = &self.nodes[*place as usize];
            (node.used, node.id)
        });
        (self.oldest, self.newest) = (NONE, NONE);
        order.into_iter().for_each(|place| self.link(place));
    }

    fn link(&mut self, place: u32) {
        let older = self.newest;
        let node = &mut self.nodes[place as usize];
        (node.older, node.newer) = (older, NONE);
        match self.nodes.get_mut(older as usize) {
            Some(before) => before.newer = place,
            None => self.oldest = place,
        }
        self.newest = place;
    }

    fn unlink(&mut self, place: u32) {
        let Node { older, newer, .. } = self.nodes[place as usize];
        match self.nodes.get_mut(older as usize) {
            Some(before) => before.newer = newer,
            None => self.oldest = newer,
        }
        match self.nodes.get_mut(newer as usize) {
            Some(behind) => behind.older = older,
            None => self.newest = older,
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// The model is a list that is searched from its front.
        #[test]
        fn order_of_use_is_that_of_a_list(acts in prop::collection::vec((0_u8..3, 0_u64..12), 0..200)) {
            let mut lru = Lru::default();
            let mut list = Vec::<(u64, Timestamp)>::new();
            for (number, (act, id)) in acts.into_iter().enumerate() {
                let now = Timestamp { pushes: number as u64, secs: 0 };
                match (act, lru.place(id)) {
                    (0, Some(place)) => {
                        lru.remove(place);
                        list.retain(|(other, _)| *other != id);
                    }
                    (0, None) => {}
                    (_, Some(place)) => {
                        lru.touch(place, now);
                        list.retain(|(other, _)| *other != id);
                        list.push((id, now));
                    }
                    (_, None) => {
                        lru.insert(id, now);
                        list.push((id, now));
                    }
                }
                prop_assert_eq!(lru.len(), list.len());
                let oldest = lru.oldest().map(|(place, used)| (lru.nodes[place as usize].id, used));
                prop_assert_eq!(oldest, list.first().copied());
                prop_assert!(lru.places() <= 12);
            }
            let mut left: Vec<_> = list.iter().map(|(id, _)| *id).collect();
            left.sort_unstable();
            let mut held: Vec<_> = lru.all().map(|(id, ..)| id).collect();
            held.sort_unstable();
            prop_assert_eq!(held, left);
        }
    }
}
