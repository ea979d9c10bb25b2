//! The sum of a buffer, by the algorithm that suits its size.

use std::collections::VecDeque;

use trainyard_protocol::Pool;
use trainyard_protocol::limits::{
    PART_VALUES, RING_PARTS_AT_ONCE, SHARES_SIZE_MAX, TREE_BYTES_MAX, TREE_BYTES_TOGETHER_MAX,
};

use crate::message::{Arrived, Awaited, InvalidMessage, Outgoing};
use crate::reduce_scatter::ReduceScatter;
use crate::ring::{Cut, Ring};
use crate::sum::Own;
use crate::tree::Tree;

/// One member's sum of one buffer. All algorithms add the same values in the same order.
#[derive(Debug)]
pub(crate) enum Reduction {
    ReduceScatter(ReduceScatter),
    Ring(Ring),
    Tree(Tree),
}

impl Reduction {
    /// Chooses an algorithm for buffers of `length` values, of which every member adds up to `buffers`.
    pub(crate) fn new(rank: usize, size: usize, buffers: usize, length: usize) -> Self {
        let bytes = length * size_of::<f32>();
        if bytes <= TREE_BYTES_MAX && bytes * size * buffers <= TREE_BYTES_TOGETHER_MAX {
            return Self::Tree(Tree::new(rank, size, length));
        }
        // A reduce-scatter would send each buffer of a member by itself.
        if buffers == 1 && size <= SHARES_SIZE_MAX {
            return Self::ReduceScatter(ReduceScatter::new(rank, size, length, PART_VALUES));
        }
        let cut = Cut {
            part_values: PART_VALUES,
            at_once: RING_PARTS_AT_ONCE,
        };
        Self::Ring(Ring::new(rank, size, length, cut))
    }

    /// Returns the next message that does not depend on another one, if there is one.
    pub(crate) fn begin(&mut self, own: &Own<'_>, pool: &Pool) -> Option<Outgoing> {
        match self {
            Self::ReduceScatter(reduce_scatter) => reduce_scatter.begin(own, pool),
            Self::Ring(ring) => ring.begin(own, pool),
            Self::Tree(tree) => tree.begin(own),
        }
    }

    /// Takes a message, and appends the messages that it makes possible to `out`.
    pub(crate) fn take(
        &mut self,
        arrived: Arrived,
        own: &mut Own<'_>,
        pool: &Pool,
        out: &mut VecDeque<Outgoing>,
    ) -> Result<(), InvalidMessage> {
        if arrived.message.total != own.values.len() as u64 {
            let given = arrived.message.total;
            let expected = own.values.len();
            return Err(InvalidMessage(format!(
                "the sum must have {expected} values, given {given}"
            )));
        }
        match self {
            Self::ReduceScatter(reduce_scatter) => reduce_scatter.take(arrived, own, pool, out),
            Self::Ring(ring) => ring.take(arrived, own, pool, out),
            Self::Tree(tree) => tree.take(arrived, own, pool, out),
        }
    }

    /// Returns whether the sum is complete, and no message is left to begin with.
    pub(crate) fn is_complete(&self) -> bool {
        match self {
            Self::ReduceScatter(reduce_scatter) => reduce_scatter.is_complete(),
            Self::Ring(ring) => ring.is_complete(),
            Self::Tree(tree) => tree.is_complete(),
        }
    }

    /// Returns the message that is awaited next.
    pub(crate) fn awaited(&self) -> Option<Awaited> {
        match self {
            Self::ReduceScatter(reduce_scatter) => reduce_scatter.awaited(),
            Self::Ring(ring) => ring.awaited(),
            Self::Tree(tree) => tree.awaited(),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use rand::SeedableRng as _;
    use rand_chacha::ChaCha8Rng;

    use super::*;

    type Make = fn(usize, usize, usize) -> Reduction;

    fn tree(rank: usize, size: usize, length: usize) -> Reduction {
        Reduction::Tree(Tree::new(rank, size, length))
    }

    fn ring(rank: usize, size: usize, length: usize) -> Reduction {
        Reduction::Ring(Ring::new(
            rank,
            size,
            length,
            Cut {
                part_values: 1000,
                at_once: 1,
            },
        ))
    }

    fn ring_of_parts(rank: usize, size: usize, length: usize) -> Reduction {
        Reduction::Ring(Ring::new(
            rank,
            size,
            length,
            Cut {
                part_values: 7,
                at_once: 2,
            },
        ))
    }

    fn reduce_scatter(rank: usize, size: usize, length: usize) -> Reduction {
        Reduction::ReduceScatter(ReduceScatter::new(rank, size, length, 7))
    }

    fn inputs(size: usize, length: usize, seed: u64) -> Vec<Vec<f32>> {
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        let values = |_| {
            (0..length)
                .map(|_| random.random_range(-1e3_f32..1e3))
                .collect()
        };
        (0..size).map(values).collect()
    }

    /// Runs all members, each of which adds several buffers. The next message to deliver is chosen at random.
    fn run(make: Make, inputs: &[Vec<Vec<f32>>], order: u64) -> Vec<Vec<f32>> {
        let size = inputs.len();
        let length = inputs[0][0].len();
        let pool = Pool::default();
        let mut random = ChaCha8Rng::seed_from_u64(order);
        let mut values: Vec<Vec<f32>> = inputs.iter().map(|buffers| buffers[0].clone()).collect();
        let mut members: Vec<Reduction> = (0..size).map(|rank| make(rank, size, length)).collect();
        let mut under_way: Vec<(usize, Outgoing)> = Vec::new();
        loop {
            // Any member may be ahead of the others, or late.
            for (rank, member) in members.iter_mut().enumerate() {
                while random.random_range(0..3) > 0 {
                    let own = Own {
                        values: &mut values[rank],
                        more: &inputs[rank][1..],
                    };
                    let Some(sent) = member.begin(&own, &pool) else {
                        break;
                    };
                    under_way.push((rank, sent));
                }
            }
            if under_way.is_empty() {
                if members.iter().all(Reduction::is_complete) {
                    break;
                }
                continue;
            }
            let (from, sent) = under_way.swap_remove(random.random_range(0..under_way.len()));
            let mut out = VecDeque::new();
            let mut own = Own {
                values: &mut values[sent.to],
                more: &inputs[sent.to][1..],
            };
            members[sent.to]
                .take(
                    Arrived {
                        from,
                        message: sent.message,
                    },
                    &mut own,
                    &pool,
                    &mut out,
                )
                .expect("it fits");
            under_way.extend(out.into_iter().map(|next| (sent.to, next)));
        }
        assert!(members.iter().all(|member| member.awaited().is_none()));
        values
    }

    fn bits(values: &[f32]) -> Vec<u32> {
        values.iter().map(|value| value.to_bits()).collect()
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(400))]
        #[test]
        fn every_value_is_added_in_the_order_of_ranks_whatever_arrives_first(
            buffers in prop::collection::vec(1_usize..4, 2..=9), length in prop_oneof![0_usize..12, 0_usize..=1000],
            seed in any::<u64>(),
        ) {
            let all = inputs(buffers.iter().sum(), length, seed);
            let mut rest = all.iter().cloned();
            let inputs: Vec<Vec<Vec<f32>>> =
                buffers.iter().map(|count| rest.by_ref().take(*count).collect()).collect();
            let sum = |place: usize| all[1..].iter().fold(all[0][place], |sum, values| sum + values[place]);
            let expected: Vec<f32> = (0..length).map(sum).collect();
            for make in [ring as Make, ring_of_parts, tree] {
                for order in 0..2 {
                    for values in run(make, &inputs, seed.wrapping_add(order)) {
                        prop_assert_eq!(bits(&values), bits(&expected));
                    }
                }
            }
            let single: Vec<Vec<Vec<f32>>> = all.iter().map(|values| vec![values.clone()]).collect();
            for values in run(reduce_scatter, &single, seed) {
                prop_assert_eq!(bits(&values), bits(&expected));
            }
        }

        #[test]
        fn any_deposit_is_taken_or_refused_without_a_panic(
            size in 2_usize..=5, rank in 0_usize..5, from in 0_usize..6, part in 0_u32..4, round in 0_u32..9,
            bytes in 0_usize..60, total in 0_u64..40, operation in 0_usize..4, twice in any::<bool>(),
        ) {
            use crate::message::{GroupMessage, Operation};
            for make in [ring as Make, ring_of_parts, tree, reduce_scatter] {
                let mut values = vec![1.0; 20];
                let mut member = make(rank % size, size, values.len());
                let total = if twice { 20 } else { total };
                let bytes = if twice { bytes / 4 * 4 } else { bytes };
                let operation = [Operation::Ring, Operation::Tree, Operation::Gather, Operation::ReduceScatter][operation];
                let message = GroupMessage { operation, part, round, total, payload: vec![vec![0; bytes].into()] };
                let mut out = VecDeque::new();
                let pool = Pool::default();
                let mut own = Own { values: &mut values, more: &[] };
                let first = member.take(Arrived { from, message: message.clone() }, &mut own, &pool, &mut out);
                let second = member.take(Arrived { from, message }, &mut own, &pool, &mut out);
                prop_assert!(first.is_err() || second.is_err(), "the same message was taken twice");
            }
        }
    }

    #[test]
    fn a_member_of_a_ring_sends_no_buffer_more_than_twice() {
        let size = 4;
        let length = 1000;
        let pool = Pool::default();
        let mut values = inputs(size, length, 1);
        let mut members: Vec<Reduction> = (0..size).map(|rank| ring(rank, size, length)).collect();
        let mut sent_bytes = vec![0; size];
        let mut under_way: VecDeque<(usize, Outgoing)> = VecDeque::new();
        let own = Own {
            values: &mut values[0],
            more: &[],
        };
        under_way.extend(members[0].begin(&own, &pool).map(|sent| (0, sent)));
        while let Some((from, sent)) = under_way.pop_front() {
            sent_bytes[from] += sent.message.bytes();
            let mut out = VecDeque::new();
            let mut own = Own {
                values: &mut values[sent.to],
                more: &[],
            };
            members[sent.to]
                .take(
                    Arrived {
                        from,
                        message: sent.message,
                    },
                    &mut own,
                    &pool,
                    &mut out,
                )
                .unwrap();
            under_way.extend(out.into_iter().map(|next| (sent.to, next)));
        }
        assert_eq!(sent_bytes, [8000, 8000, 4000, 4000]);
    }

    #[test]
    fn the_one_that_has_not_begun_is_blamed_first() {
        let awaited = |rank| {
            ring(rank, 3, 999)
                .awaited()
                .map(|awaited| (awaited.from, awaited.behind))
        };
        assert_eq!(
            [awaited(0), awaited(1), awaited(2)],
            [Some((2, 2)), Some((0, 0)), Some((1, 1))]
        );
        let leader = tree(0, 5, 10);
        assert_eq!(
            leader
                .awaited()
                .map(|awaited| (awaited.from, awaited.behind)),
            Some((1, 0))
        );
        let mut leaf = tree(3, 5, 10);
        leaf.begin(
            &Own {
                values: &mut [0.0; 10],
                more: &[],
            },
            &Pool::default(),
        );
        let leaf = leaf.awaited().unwrap();
        assert!(leaf.from == 2 && leaf.behind > 3, "{leaf:?}");
    }
}
