//! Rate limit for log lines that peers cause.

use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

/// Most lines in a period.
const LINES: u32 = 32;
const PERIOD: Duration = Duration::from_secs(10);

/// Rate limit of log lines, so that a peer that is refused repeatedly does not fill the disk.
#[derive(Debug, Default)]
pub struct LogRateLimit(Mutex<Counted>);

#[derive(Debug, Default)]
struct Counted {
    begun: Option<Instant>,
    lines: u32,
    unsaid: u64,
}

impl LogRateLimit {
    /// Returns the number of lines suppressed since the last one; nothing if this line is suppressed, too.
    pub fn may(&self) -> Option<u64> {
        self.may_at(Instant::now())
    }

    fn may_at(&self, now: Instant) -> Option<u64> {
        let mut counted = self.0.lock();
        if counted
            .begun
            .is_none_or(|begun| now.saturating_duration_since(begun) >= PERIOD)
        {
            (counted.begun, counted.lines) = (Some(now), 0);
        }
        if counted.lines >= LINES {
            counted.unsaid += 1;
            return None;
        }
        counted.lines += 1;
        Some(std::mem::take(&mut counted.unsaid))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_many_lines_some_are_written_and_the_others_are_counted() {
        let rate_limit = LogRateLimit::default();
        let begun = Instant::now();
        let written = (0..1000)
            .filter(|_| rate_limit.may_at(begun).is_some())
            .count();
        assert_eq!(written, LINES as usize);
        assert_eq!(
            rate_limit.may_at(begun + PERIOD),
            Some(1000 - u64::from(LINES))
        );
        assert_eq!(rate_limit.may_at(begun + PERIOD), Some(0));
    }
}
