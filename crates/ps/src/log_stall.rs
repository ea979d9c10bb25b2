//! Watches that the log of a shard goes on: a disk that hangs gives no error, and holds up every push.

use std::time::Duration;

use tokio::time::Instant;

/// Time for which a write may take before it is worth a notice.
const FIRST_NOTICE_AFTER: Duration = Duration::from_secs(2);
/// Time between two notices.
const NOTICE_INTERVAL: Duration = Duration::from_secs(10);

/// A write of the log that has not ended.
#[derive(Debug, Clone, Copy)]
struct Write {
    /// Position behind which it writes.
    from: u64,
    since: Instant,
    next_notice: Instant,
}

/// What a look at the log has found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Found {
    /// The log goes on, or has nothing to write.
    GoesOn,
    /// It goes on again after such a time.
    Again(Duration),
    /// It has stood still for such a time.
    Stalled { age: Duration, is_notice_due: bool },
}

/// The write of one log that is in progress.
#[derive(Debug, Default)]
pub(crate) struct LogStall(Option<Write>);

impl LogStall {
    /// Looks at `now` at a log that writes what lies behind the position `writes_from`; `None` if it writes nothing.
    pub(crate) fn look(&mut self, now: Instant, writes_from: Option<u64>) -> Found {
        if let Some(write) = &mut self.0
            && Some(write.from) == writes_from
        {
            let age = now.duration_since(write.since);
            if age < FIRST_NOTICE_AFTER {
                return Found::GoesOn;
            }
            let is_notice_due = now >= write.next_notice;
            if is_notice_due {
                write.next_notice = now + NOTICE_INTERVAL;
            }
            return Found::Stalled { age, is_notice_due };
        }
        let next = writes_from.map(|from| Write {
            from,
            since: now,
            next_notice: now + FIRST_NOTICE_AFTER,
        });
        let before = std::mem::replace(&mut self.0, next);
        let age = before.map(|write| now.duration_since(write.since));
        age.filter(|age| *age >= FIRST_NOTICE_AFTER)
            .map_or(Found::GoesOn, Found::Again)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_write_that_does_not_end_is_told_after_two_seconds_and_then_every_ten() {
        let begin = Instant::now();
        let mut stall = LogStall::default();
        let mut look = |seconds, from| stall.look(begin + Duration::from_secs(seconds), from);
        let stalled = |seconds, is_notice_due| Found::Stalled {
            age: Duration::from_secs(seconds),
            is_notice_due,
        };
        assert_eq!(look(0, Some(8)), Found::GoesOn);
        assert_eq!(look(1, Some(8)), Found::GoesOn);
        assert_eq!(look(2, Some(8)), stalled(2, true));
        assert_eq!(look(3, Some(8)), stalled(3, false));
        assert_eq!(look(12, Some(8)), stalled(12, true));
        // What is written next begins a time of its own.
        assert_eq!(look(13, Some(9)), Found::Again(Duration::from_secs(13)));
        assert_eq!(look(14, Some(9)), Found::GoesOn);
        assert_eq!(look(14, Some(10)), Found::GoesOn);
        assert_eq!(look(15, None), Found::GoesOn);
        assert_eq!(look(100, Some(10)), Found::GoesOn);
    }
}
