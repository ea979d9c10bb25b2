//! The sum of a buffer, by whichever way suits its size.

use std::collections::VecDeque;

use trainyard_protocol::Pool;
use trainyard_protocol::limits::{RING_PART_VALUES, RING_PARTS_AT_ONCE, TREE_BYTES_MAX};

use crate::deposit::{Awaited, Deposit, Misfit, Outgoing};
use crate::ring::{Cut, Ring};
use crate::tree::Tree;

/// One member's sum of one buffer.
#[derive(Debug)]
pub(crate) enum Reduction {
    Ring(Ring),
    Tree(Tree),
}

impl Reduction {
    pub(crate) fn new(rank: usize, size: usize, length: usize) -> Self {
        if length * size_of::<f32>() <= TREE_BYTES_MAX {
            return Self::Tree(Tree::new(rank, size, length));
        }
        let cut = Cut { part_values: RING_PART_VALUES, at_once: RING_PARTS_AT_ONCE };
        Self::Ring(Ring::new(rank, size, length, cut))
    }

    /// Returns the next deposit that waits for nothing, if there is one.
    pub(crate) fn begin(&mut self, values: &[f32], pool: &Pool) -> Option<Outgoing> {
        match self {
            Self::Ring(ring) => ring.begin(values, pool),
            Self::Tree(tree) => tree.begin(values, pool),
        }
    }

    /// Takes a deposit; what it makes possible goes behind `out`.
    pub(crate) fn take(
        &mut self,
        from: usize,
        deposit: Deposit,
        values: &mut [f32],
        pool: &Pool,
        out: &mut VecDeque<Outgoing>,
    ) -> Result<(), Misfit> {
        if deposit.total != values.len() as u64 {
            let (given, expected) = (deposit.total, values.len());
            return Err(Misfit(format!("the sum must be of {expected} values, given {given}")));
        }
        match self {
            Self::Ring(ring) => ring.take(from, deposit, values, pool, out),
            Self::Tree(tree) => tree.take(from, deposit, values, pool, out),
        }
    }

    /// Returns whether the sum is there, and nothing is left to begin.
    pub(crate) fn is_complete(&self) -> bool {
        match self {
            Self::Ring(ring) => ring.is_complete(),
            Self::Tree(tree) => tree.is_complete(),
        }
    }

    /// Returns what is waited for next.
    pub(crate) fn awaited(&self) -> Option<Awaited> {
        match self {
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
        Reduction::Ring(Ring::new(rank, size, length, Cut { part_values: 1000, at_once: 1 }))
    }

    fn ring_of_parts(rank: usize, size: usize, length: usize) -> Reduction {
        Reduction::Ring(Ring::new(rank, size, length, Cut { part_values: 7, at_once: 2 }))
    }

    fn inputs(size: usize, length: usize, seed: u64) -> Vec<Vec<f32>> {
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        let values = |_| (0..length).map(|_| random.random_range(-1e3_f32..1e3)).collect();
        (0..size).map(values).collect()
    }

    /// Runs all members; which message is delivered next is chance.
    fn run(make: Make, inputs: &[Vec<f32>], order: u64) -> Vec<Vec<f32>> {
        let (size, length, pool) = (inputs.len(), inputs[0].len(), Pool::default());
        let mut random = ChaCha8Rng::seed_from_u64(order);
        let mut values = inputs.to_vec();
        let mut members: Vec<Reduction> = (0..size).map(|rank| make(rank, size, length)).collect();
        let mut under_way: Vec<(usize, Outgoing)> = Vec::new();
        loop {
            // Each member is either ahead of the others, or late.
            for (rank, member) in members.iter_mut().enumerate() {
                while random.random_range(0..3) > 0 {
                    let Some(sent) = member.begin(&values[rank], &pool) else { break };
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
            members[sent.to]
                .take(from, sent.deposit, &mut values[sent.to], &pool, &mut out)
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
        fn all_members_hold_the_bits_of_one_sum_whatever_arrives_first(
            size in 1_usize..=9, length in prop_oneof![0_usize..12, 0_usize..=1000], seed in any::<u64>(),
        ) {
            let inputs = inputs(size, length, seed);
            for make in [ring as Make, ring_of_parts, tree] {
                let first = run(make, &inputs, seed);
                for values in &first {
                    prop_assert_eq!(bits(values), bits(&first[0]));
                }
                for order in 1..3 {
                    let again = run(make, &inputs, seed.wrapping_add(order));
                    prop_assert_eq!(bits(&again[size - 1]), bits(&first[0]));
                }
                for place in 0..length {
                    let exact: f64 = inputs.iter().map(|values| f64::from(values[place])).sum();
                    let scale: f64 = inputs.iter().map(|values| f64::from(values[place].abs())).sum();
                    let error = (f64::from(first[0][place]) - exact).abs();
                    prop_assert!(error <= scale * f64::from(f32::EPSILON) * size as f64, "{error} at {place}");
                }
            }
        }

        #[test]
        fn any_deposit_is_taken_or_refused_without_a_panic(
            size in 2_usize..=5, rank in 0_usize..5, from in 0_usize..6, part in 0_u32..4, round in 0_u32..9,
            bytes in 0_usize..60, total in 0_u64..40, operation in 0_usize..3, twice in any::<bool>(),
        ) {
            use crate::deposit::Operation;
            for make in [ring as Make, ring_of_parts, tree] {
                let mut values = vec![1.0; 20];
                let mut member = make(rank % size, size, values.len());
                let total = if twice { 20 } else { total };
                let bytes = if twice { bytes / 4 * 4 } else { bytes };
                let operation = [Operation::Ring, Operation::Tree, Operation::Gather][operation];
                let deposit = Deposit { operation, part, round, total, payload: vec![vec![0; bytes].into()] };
                let (mut out, pool) = (VecDeque::new(), Pool::default());
                let first = member.take(from, deposit.clone(), &mut values, &pool, &mut out);
                let second = member.take(from, deposit, &mut values, &pool, &mut out);
                prop_assert!(first.is_err() || second.is_err(), "the same deposit was taken twice");
            }
        }
    }

    #[test]
    fn each_member_of_a_ring_sends_the_least_there_is() {
        let (size, length, pool) = (4, 1000, Pool::default());
        let inputs = inputs(size, length, 1);
        let mut values = inputs.clone();
        let mut members: Vec<Reduction> = (0..size).map(|rank| ring(rank, size, length)).collect();
        let mut sent_bytes = vec![0; size];
        let mut under_way: VecDeque<(usize, Outgoing)> = VecDeque::new();
        for (rank, member) in members.iter_mut().enumerate() {
            under_way.extend(member.begin(&values[rank], &pool).map(|sent| (rank, sent)));
        }
        while let Some((from, sent)) = under_way.pop_front() {
            sent_bytes[from] += sent.deposit.bytes();
            let mut out = VecDeque::new();
            members[sent.to].take(from, sent.deposit, &mut values[sent.to], &pool, &mut out).unwrap();
            under_way.extend(out.into_iter().map(|next| (sent.to, next)));
        }
        assert_eq!(sent_bytes, vec![2 * (size - 1) * length * 4 / size; size]);
    }

    #[test]
    fn the_one_that_has_not_begun_is_blamed_first() {
        let member = ring(2, 3, 999);
        assert_eq!(member.awaited().map(|awaited| (awaited.from, awaited.behind)), Some((1, 0)));
        let leader = tree(0, 5, 10);
        assert_eq!(leader.awaited().map(|awaited| (awaited.from, awaited.behind)), Some((1, 0)));
        let leaf = tree(3, 5, 10).awaited().unwrap();
        assert!(leaf.from == 2 && leaf.behind > 3, "{leaf:?}");
    }
}
