//! Recovery from kills of parameter servers: the time from a kill to the next step that a worker has pushed.

use std::time::{Duration, SystemTime};

use serde::Serialize;

/// Recovery times of a benchmark.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub(super) struct Recovery {
    pub(super) kills: usize,
    /// Kills after which no step was pushed before the load ended.
    pub(super) without_step: usize,
    pub(super) p50_seconds: f64,
    pub(super) max_seconds: f64,
}

impl Recovery {
    /// Returns the recovery from kills, ascending. `waits` are the times at which steps ended that had waited long, in
    /// microseconds of the Unix epoch.
    pub(super) fn new(kills: &[SystemTime], mut waits: Vec<u64>) -> Self {
        waits.sort_unstable();
        let mut ends = kills.iter().skip(1).map(|kill| micros(*kill));
        let mut times: Vec<f64> = Vec::new();
        for kill in kills {
            let kill = micros(*kill);
            let end = ends.next().unwrap_or(u64::MAX);
            let next = waits[waits.partition_point(|wait| *wait <= kill)..].first();
            let next = next.filter(|next| **next <= end);
            times.extend(next.map(|next| Duration::from_micros(next - kill).as_secs_f64()));
        }
        times.sort_unstable_by(f64::total_cmp);
        Self {
            kills: kills.len(),
            without_step: kills.len() - times.len(),
            p50_seconds: times.get(times.len() / 2).copied().unwrap_or(0.0),
            max_seconds: times.last().copied().unwrap_or(0.0),
        }
    }
}

/// Returns the microseconds of the Unix epoch at a time.
pub(super) fn micros(time: SystemTime) -> u64 {
    time.duration_since(SystemTime::UNIX_EPOCH)
        .map_or(0, |since| since.as_micros() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kill_is_over_when_the_first_step_that_has_waited_for_it_ends() {
        let at = |seconds: u64| SystemTime::UNIX_EPOCH + Duration::from_secs(seconds);
        let kills = [at(10), at(20), at(30), at(40)];
        // A step before the kills; two workers; no step between two kills.
        let waits = [9_000_000, 10_500_000, 10_250_000, 20_125_000, 42_000_000];
        let recovery = Recovery::new(&kills, waits.to_vec());
        let expected = Recovery {
            kills: 4,
            without_step: 1,
            p50_seconds: 0.25,
            max_seconds: 2.0,
        };
        assert_eq!(recovery, expected);
    }
}
