//! Backoff between retries: full jitter, with a bound that doubles from 20 ms to 1 s.
//!
//! Full jitter (a uniform draw below the doubling bound) keeps the workers that lost one server from retrying in
//! step.

use std::time::Duration;

use rand::{RngExt as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;

/// Upper bound of the first wait.
const DELAY_MIN: Duration = Duration::from_millis(20);
/// Upper bound of every wait.
const DELAY_MAX: Duration = Duration::from_secs(1);

/// The waits between the retries of one call.
#[derive(Debug)]
pub struct Backoff {
    bound: Duration,
    random: ChaCha8Rng,
}

impl Backoff {
    /// Returns the waits for one call. Tasks with different seeds wait for different times.
    pub fn new(seed: u64) -> Self {
        Self {
            bound: DELAY_MIN,
            random: ChaCha8Rng::seed_from_u64(seed),
        }
    }

    /// Returns the next wait: above 0, at most 1 s.
    pub fn next_wait(&mut self) -> Duration {
        let bound = self.bound;
        self.bound = (bound * 2).min(DELAY_MAX);
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
            waits[0] <= DELAY_MIN
                && waits
                    .iter()
                    .all(|wait| *wait <= DELAY_MAX && !wait.is_zero()),
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
