//! Waiting between tries: full jitter, doubling from 20 ms to 1 s.
//!
//! Full jitter (a uniform draw below the doubling bound) keeps the workers that lost one server from coming back
//! to it in step.

use std::time::Duration;

use rand::{RngExt as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;

/// Bound of the first wait.
const FIRST: Duration = Duration::from_millis(20);
/// Bound of every wait.
const MOST: Duration = Duration::from_secs(1);

/// The waits of one series of tries.
#[derive(Debug)]
pub struct Backoff {
    bound: Duration,
    random: ChaCha8Rng,
}

impl Backoff {
    /// Starts a series. Tasks with different seeds wait differently.
    pub fn new(seed: u64) -> Self {
        Self {
            bound: FIRST,
            random: ChaCha8Rng::seed_from_u64(seed),
        }
    }

    /// Returns the next wait: above 0, at most 1 s.
    pub fn next_wait(&mut self) -> Duration {
        let bound = self.bound;
        self.bound = (bound * 2).min(MOST);
        bound.mul_f64(self.random.random_range(0.1..=1.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_grow_and_stay_below_a_second() {
        let mut backoff = Backoff::new(7);
        let waits: Vec<_> = (0..20).map(|_| backoff.next_wait()).collect();
        assert!(
            waits[0] <= FIRST && waits.iter().all(|wait| *wait <= MOST && !wait.is_zero()),
            "{waits:?}"
        );
        assert!(
            waits[10..]
                .iter()
                .any(|wait| *wait > Duration::from_millis(200)),
            "{waits:?}"
        );
    }
}
