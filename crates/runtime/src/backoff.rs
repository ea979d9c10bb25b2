//! Backoff between retries: exponential, with full jitter.
//!
//! Full jitter (a uniform draw below the doubling bound) keeps the tasks that lost one server from retrying in step
//! (Brooker, "Exponential Backoff And Jitter", 2015). The source of chance is an argument, so that a simulation
//! repeats its pauses.

use std::ops::RangeInclusive;
use std::time::Duration;

use rand::{RngExt as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;

/// Shortest pause, as a fraction of its bound.
const FRACTION_MIN: f64 = 0.1;

/// The pauses of one series of attempts.
#[derive(Debug)]
pub struct Backoff {
    bounds: RangeInclusive<Duration>,
    /// Bound of the next pause.
    bound: Duration,
    random: ChaCha8Rng,
}

impl Backoff {
    /// Returns the pauses of a series. `bounds` holds the bound of the first pause, which doubles with each pause, and
    /// the bound of every pause. Series with different seeds pause for different times.
    pub fn new(bounds: RangeInclusive<Duration>, seed: u64) -> Self {
        Self {
            bound: *bounds.start(),
            bounds,
            random: ChaCha8Rng::seed_from_u64(seed),
        }
    }

    /// Returns the next pause: from a tenth of its bound to its bound.
    pub fn next_pause(&mut self) -> Duration {
        let bound = self.bound;
        self.bound = (bound * 2).min(*self.bounds.end());
        bound.mul_f64(self.random.random_range(FRACTION_MIN..=1.0))
    }

    /// Begins a new series: the bound is that of the first pause again.
    pub fn reset(&mut self) {
        self.bound = *self.bounds.start();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FIRST: Duration = Duration::from_millis(20);
    const LONGEST: Duration = Duration::from_secs(1);

    fn pauses(seed: u64) -> Vec<Duration> {
        let mut backoff = Backoff::new(FIRST..=LONGEST, seed);
        (0..40).map(|_| backoff.next_pause()).collect()
    }

    #[test]
    fn pauses_grow_to_the_longest_and_not_beyond() {
        let pauses = pauses(7);
        assert!(pauses[0] >= FIRST.mul_f64(FRACTION_MIN) && pauses[0] <= FIRST);
        assert!(pauses.iter().all(|pause| *pause <= LONGEST), "{pauses:?}");
        let late = &pauses[6..];
        let least = LONGEST.mul_f64(FRACTION_MIN);
        assert!(late.iter().all(|pause| *pause >= least), "{pauses:?}");
        assert!(late.iter().any(|pause| *pause > LONGEST / 2), "{pauses:?}");
        assert!(late.iter().any(|pause| *pause < LONGEST / 2), "{pauses:?}");
    }

    #[test]
    fn a_seed_repeats_its_pauses_and_another_seed_does_not() {
        assert_eq!(pauses(7), pauses(7));
        assert_ne!(pauses(7), pauses(8));
    }

    #[test]
    fn a_new_series_begins_at_the_first_bound() {
        let mut backoff = Backoff::new(FIRST..=LONGEST, 7);
        let _ = (0..9).map(|_| backoff.next_pause()).count();
        backoff.reset();
        assert!(backoff.next_pause() <= FIRST);
    }
}
