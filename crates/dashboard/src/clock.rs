//! The time of day at the start of the process, advanced by the monotonic clock.

use std::time::SystemTime;

use tokio::time::Instant;

/// Times of a run in seconds since 1970. A monotonic clock advances them, so that a change of the system time has no
/// effect.
#[derive(Debug, Clone, Copy)]
pub struct Clock {
    since: Instant,
    unix_secs: f64,
}

impl Clock {
    /// Returns the clock of a process that started at `started`, which is now or earlier.
    pub fn new(started: SystemTime) -> Self {
        let passed = started.elapsed().unwrap_or_default().as_secs_f64();
        let unix = started
            .duration_since(SystemTime::UNIX_EPOCH)
            .map_or(0.0, |since| since.as_secs_f64());
        Self {
            since: Instant::now(),
            unix_secs: unix + passed,
        }
    }

    /// Returns seconds since 1970.
    pub fn unix_secs(&self) -> f64 {
        self.unix_secs + self.since.elapsed().as_secs_f64()
    }
}
