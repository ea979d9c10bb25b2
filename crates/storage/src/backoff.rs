//! Backoff between attempts. Pauses are drawn at random below a bound that doubles, so that tasks of a cluster that a
//! store refused at the same moment do not retry at the same moment.

use std::hash::{BuildHasher as _, RandomState};
use std::time::Duration;

/// Bound of the first pause. The bound doubles with each pause.
const DELAY_MIN: Duration = Duration::from_millis(100);
/// Largest bound of a pause.
const DELAY_MAX: Duration = Duration::from_secs(5);
/// Shortest pause, as a fraction of the bound.
const LEAST: f64 = 0.1;

/// The pauses of one series of attempts.
#[derive(Debug)]
pub(crate) struct Backoff {
    bound: Duration,
    /// Source of randomness. The system draws its keys, different ones for each series.
    random: RandomState,
    drawn: u64,
}

impl Backoff {
    pub(crate) fn new() -> Self {
        Self {
            bound: DELAY_MIN,
            random: RandomState::new(),
            drawn: 0,
        }
    }

    /// Returns the next pause: 0.01 s to 5 s.
    pub(crate) fn draw(&mut self) -> Duration {
        let bound = self.bound;
        self.bound = (bound * 2).min(DELAY_MAX);
        self.drawn += 1;
        let part = self.random.hash_one(self.drawn) as f64 / u64::MAX as f64;
        bound.mul_f64(LEAST + (1.0 - LEAST) * part)
    }

    /// Resets the bound to that of the first pause.
    #[cfg(feature = "hdfs")]
    pub(crate) fn reset(&mut self) {
        self.bound = DELAY_MIN;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_below_their_bound_and_no_two_series_are_alike() {
        let draw = || {
            let mut backoff = Backoff::new();
            (0..40).map(|_| backoff.draw()).collect::<Vec<_>>()
        };
        let one = draw();
        let other = draw();
        assert_ne!(one, other);
        for series in [&one, &other] {
            assert!(
                series[0] >= DELAY_MIN.mul_f64(LEAST) && series[0] <= DELAY_MIN,
                "{series:?}"
            );
            assert!(series.iter().all(|pause| *pause <= DELAY_MAX), "{series:?}");
            let late = &series[6..];
            assert!(
                late.iter().all(|pause| *pause >= DELAY_MAX.mul_f64(LEAST)),
                "{series:?}"
            );
            assert!(
                late.iter().any(|pause| *pause > DELAY_MAX / 2)
                    && late.iter().any(|pause| *pause < DELAY_MAX / 2)
            );
        }
    }
}
