//! Random permutations that every process and every version of this program computes alike.

use rand::SeedableRng as _;
use rand::rand_core::Rng as _;
use rand_chacha::ChaCha8Rng;

/// Key of a permutation: the order depends on the key alone.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Key {
    pub(crate) seed: u64,
    /// Kind of the items, so that two kinds of items do not share an order.
    pub(crate) kind: u64,
    pub(crate) pass: u64,
    pub(crate) number: u64,
}

/// Shuffles the items. Each order has the same probability (Fisher and Yates).
pub(crate) fn permute<T>(items: &mut [T], key: Key) {
    let mut seed = [0; 32];
    let words = [key.seed, key.kind, key.pass, key.number];
    for (bytes, word) in seed.as_chunks_mut::<8>().0.iter_mut().zip(words) {
        *bytes = word.to_le_bytes();
    }
    let mut random = ChaCha8Rng::from_seed(seed);
    for last in (1..items.len()).rev() {
        items.swap(last, below(last as u64 + 1, &mut random) as usize);
    }
}

/// Returns a number below `bound`, without bias (Lemire, "Fast random integer generation in an interval", 2019).
fn below(bound: u64, random: &mut ChaCha8Rng) -> u64 {
    loop {
        let product = u128::from(random.next_u64()) * u128::from(bound);
        // Some results have one draw more than others. The extra draws have a low half below 2^64 mod bound, and are
        // rejected.
        let low = product as u64;
        if low >= bound || low >= bound.wrapping_neg() % bound {
            return (product >> 64) as u64;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn order(number: u64) -> Vec<u32> {
        let mut items: Vec<u32> = (0..100).collect();
        permute(
            &mut items,
            Key {
                seed: 7,
                kind: 1,
                pass: 2,
                number,
            },
        );
        items
    }

    #[test]
    fn every_item_is_kept_and_each_key_has_its_order() {
        let mut sorted = order(0);
        sorted.sort_unstable();
        assert_eq!(sorted, (0..100).collect::<Vec<_>>());
        assert!(order(0) != sorted && order(0) == order(0) && order(0) != order(1));
    }

    #[test]
    fn all_orders_are_about_as_likely() {
        let mut counts = std::collections::HashMap::<[u8; 4], u32>::new();
        for number in 0..24_000 {
            let mut items = [0, 1, 2, 3];
            permute(
                &mut items,
                Key {
                    seed: 1,
                    kind: 0,
                    pass: 0,
                    number,
                },
            );
            *counts.entry(items).or_default() += 1;
        }
        // Six standard deviations of a binomial count of mean 1000 are 186.
        assert!(
            counts.len() == 24 && counts.values().all(|count| count.abs_diff(1000) < 186),
            "{counts:?}"
        );
    }
}
