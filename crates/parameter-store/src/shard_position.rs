//! Positions of data shards: how far each has been applied.

use std::ops::Range;

/// The batches of one data shard that have been applied.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ShardPosition {
    /// Data shard.
    pub shard: u64,
    /// Pass of its latest batch.
    pub pass: u64,
    /// First batch that has not been applied.
    pub batch: u64,
    /// Applied batches after `batch`, as ascending ranges. They arise where several batches are in progress at once.
    pub ahead: Vec<Range<u64>>,
}

impl ShardPosition {
    /// Returns what all servers have applied, from the positions of each. A data shard that one server does not know is
    /// left out.
    pub fn of_all<'a>(servers: impl IntoIterator<Item = &'a [Self]>) -> Vec<Self> {
        let both = |one: Vec<Self>, other: &[Self]| {
            let same = |position: &Self| other.iter().find(|known| known.shard == position.shard);
            one.iter()
                .filter_map(|position| Some(position.both(same(position)?)))
                .collect()
        };
        let mut servers = servers.into_iter();
        let first = servers.next().map(<[Self]>::to_vec).unwrap_or_default();
        servers.fold(first, both)
    }

    /// Returns what two servers have both applied of a data shard.
    fn both(&self, other: &Self) -> Self {
        let whole = |position: &Self| -> Vec<Range<u64>> {
            std::iter::once(0..position.batch)
                .chain(position.ahead.iter().cloned())
                .collect()
        };
        let mine = whole(self);
        let others = whole(other);
        let mut here = mine.iter().peekable();
        let mut there = others.iter().peekable();
        let mut shared: Vec<Range<u64>> = Vec::new();
        while let (Some(one), Some(other)) = (here.peek(), there.peek()) {
            let range = one.start.max(other.start)..one.end.min(other.end);
            if one.end <= other.end {
                here.next()
            } else {
                there.next()
            };
            if !range.is_empty() {
                shared.push(range);
            }
        }
        let begun = shared.first().is_some_and(|first| first.start == 0);
        let batch = if begun { shared.remove(0).end } else { 0 };
        Self {
            shard: self.shard,
            pass: self.pass.min(other.pass),
            batch,
            ahead: shared,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;
    use crate::batch_set::BatchSet;

    fn position(shard: u64, applied: &BTreeSet<u64>) -> ShardPosition {
        let mut set = BatchSet::starting_at(0);
        applied.iter().for_each(|batch| set.insert(*batch));
        ShardPosition {
            shard,
            pass: 0,
            batch: set.floor(),
            ahead: set.ahead(),
        }
    }

    proptest! {
        #[test]
        fn what_all_servers_have_applied_is_what_each_of_them_has(
            servers in prop::collection::vec(prop::collection::btree_set(0_u64..40, 0..35), 1..4),
        ) {
            let told: Vec<Vec<ShardPosition>> = servers.iter().map(|applied| vec![position(7, applied)]).collect();
            let all = ShardPosition::of_all(told.iter().map(Vec::as_slice));
            let expected = servers.iter().skip(1).fold(servers[0].clone(), |one, other| &one & other);
            prop_assert_eq!(all, vec![position(7, &expected)]);
        }
    }

    #[test]
    fn of_a_data_shard_that_one_server_does_not_know_nothing_is_applied_by_all() {
        let some = [
            position(1, &(0..9).collect()),
            position(2, &(0..5).collect()),
        ];
        let other = [position(2, &(0..3).collect())];
        assert_eq!(
            ShardPosition::of_all([&some[..], &other]),
            [position(2, &(0..3).collect())]
        );
        assert_eq!(ShardPosition::of_all([&some[..], &[]]), []);
        assert_eq!(ShardPosition::of_all([]), []);
    }
}
