//! Ids in the order of their last use, each with a place: what is unused for longest is found at once.

use crate::memory::reserve;
use crate::spread_map::SpreadMap;

/// No place.
const NONE: u32 = u32::MAX;

/// A point in training: pushes applied, and seconds trained.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Moment {
    pub(crate) pushes: u64,
    /// May lie before 0: what was last used before a restore.
    pub(crate) secs: i64,
}

impl Moment {
    /// Returns the later of both, in each respect.
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
    used: Moment,
    older: u32,
    newer: u32,
}

/// Ids and their places, below the highest number of ids that it ever held.
#[derive(Debug)]
pub(crate) struct Recency {
    places: SpreadMap<u64, u32>,
    nodes: Vec<Node>,
    free: Vec<u32>,
    oldest: u32,
    newest: u32,
}

impl Default for Recency {
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

impl Recency {
    /// Asks for the memory of so many ids, which they take as they come: without it all of them move now and then.
    pub(crate) fn reserve(&mut self, ids: usize) {
        reserve(&mut self.nodes, ids);
    }

    /// Returns the number of ids.
    pub(crate) fn len(&self) -> usize {
        self.places.len()
    }

    /// Returns the number of places that an id has ever had.
    pub(crate) fn places(&self) -> usize {
        self.nodes.len()
    }

    /// Returns the place of an id.
    #[inline]
    pub(crate) fn place(&self, id: u64) -> Option<u32> {
        self.places.get(id).copied()
    }

    /// Makes the id at `place` the one used last.
    pub(crate) fn touch(&mut self, place: u32, now: Moment) {
        self.nodes[place as usize].used = now;
        if self.newest != place {
            self.unlink(place);
            self.link(place);
        }
    }

    /// Returns the free place that the next id is given; nothing where that is one more than there are.
    pub(crate) fn next_place(&self) -> Option<u32> {
        self.free.last().copied()
    }

    /// Adds an id that is not there, as the one used last, and returns its place: a free one, or the next.
    pub(crate) fn insert(&mut self, id: u64, now: Moment) -> u32 {
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
        // Nobody is older than itself.
        node.older = place;
        self.free.push(place);
    }

    /// Returns the id at `place`, and its last use; nothing where the place is free.
    pub(crate) fn at(&self, place: u32) -> Option<(u64, Moment)> {
        let node = self.nodes.get(place as usize)?;
        (node.older != place).then_some((node.id, node.used))
    }

    /// Returns the place that is unused for longest, and since when.
    pub(crate) fn oldest(&self) -> Option<(u32, Moment)> {
        self.nodes
            .get(self.oldest as usize)
            .map(|node| (self.oldest, node.used))
    }

    /// Returns (id, place, last use) of every id, in no order.
    #[cfg(test)]
    pub(crate) fn all(&self) -> impl Iterator<Item = (u64, u32, Moment)> {
        self.places
            .iter()
            .map(|(&id, &place)| (id, place, self.nodes[place as usize].used))
    }

    /// Puts the ids into the order of their last use, and ids of one use into theirs: they may have come in any.
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
        /// Against a list that is searched from its front.
        #[test]
        fn order_of_use_is_that_of_a_list(acts in prop::collection::vec((0_u8..3, 0_u64..12), 0..200)) {
            let mut recency = Recency::default();
            let mut list = Vec::<(u64, Moment)>::new();
            for (number, (act, id)) in acts.into_iter().enumerate() {
                let now = Moment { pushes: number as u64, secs: 0 };
                match (act, recency.place(id)) {
                    (0, Some(place)) => {
                        recency.remove(place);
                        list.retain(|(other, _)| *other != id);
                    }
                    (0, None) => {}
                    (_, Some(place)) => {
                        recency.touch(place, now);
                        list.retain(|(other, _)| *other != id);
                        list.push((id, now));
                    }
                    (_, None) => {
                        recency.insert(id, now);
                        list.push((id, now));
                    }
                }
                prop_assert_eq!(recency.len(), list.len());
                let oldest = recency.oldest().map(|(place, used)| (recency.nodes[place as usize].id, used));
                prop_assert_eq!(oldest, list.first().copied());
                prop_assert!(recency.places() <= 12);
            }
            let mut left: Vec<_> = list.iter().map(|(id, _)| *id).collect();
            left.sort_unstable();
            let mut held: Vec<_> = recency.all().map(|(id, ..)| id).collect();
            held.sort_unstable();
            prop_assert_eq!(held, left);
        }
    }
}
