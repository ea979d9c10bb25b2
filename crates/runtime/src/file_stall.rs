//! Watches that work on files goes on: a disk that hangs gives no error.

use std::time::Duration;

use tokio::time::Instant;

/// Time for which a part of the work may take before it is worth a notice.
pub const FILE_NOTICE_AFTER: Duration = Duration::from_secs(2);
/// Time between two notices.
pub const FILE_NOTICE_INTERVAL: Duration = Duration::from_secs(10);

/// A part of the work that has not ended.
#[derive(Debug, Clone, Copy)]
struct Part {
    number: u64,
    since: Instant,
    next_notice: Instant,
}

/// What a look at work on files has found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FoundFiles {
    /// The work goes on, or there is none.
    Working,
    /// It goes on again after such a time.
    WorkingAgain(Duration),
    /// It has stood still for such a time. A notice is due after 2 s, and then every 10 s.
    Stalled {
        /// Time since the work has last gone on.
        age: Duration,
        /// Whether it is time to tell of it.
        is_notice_due: bool,
    },
}

/// The part of some work on files that is in progress. Pure: the time is an argument.
#[derive(Debug, Default)]
pub struct FileStall(Option<Part>);

impl FileStall {
    /// Looks at `now` at work that is at the part `number`: a position in a file, a count of what is done; `None` if there is
    /// no work. The work goes on if the number changes between two looks.
    pub fn look(&mut self, now: Instant, number: Option<u64>) -> FoundFiles {
        if let Some(part) = &mut self.0
            && Some(part.number) == number
        {
            let age = now.duration_since(part.since);
            if age < FILE_NOTICE_AFTER {
                return FoundFiles::Working;
            }
            let is_notice_due = now >= part.next_notice;
            if is_notice_due {
                part.next_notice = now + FILE_NOTICE_INTERVAL;
            }
            return FoundFiles::Stalled { age, is_notice_due };
        }
        let next = number.map(|number| Part {
            number,
            since: now,
            next_notice: now + FILE_NOTICE_AFTER,
        });
        let before = std::mem::replace(&mut self.0, next);
        let age = before.map(|part| now.duration_since(part.since));
        age.filter(|age| *age >= FILE_NOTICE_AFTER)
            .map_or(FoundFiles::Working, FoundFiles::WorkingAgain)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_that_does_not_go_on_is_told_after_two_seconds_and_then_every_ten() {
        let begin = Instant::now();
        let mut stall = FileStall::default();
        let mut look = |seconds, part| stall.look(begin + Duration::from_secs(seconds), part);
        let stalled = |seconds, is_notice_due| FoundFiles::Stalled {
            age: Duration::from_secs(seconds),
            is_notice_due,
        };
        assert_eq!(look(0, Some(8)), FoundFiles::Working);
        assert_eq!(look(1, Some(8)), FoundFiles::Working);
        assert_eq!(look(2, Some(8)), stalled(2, true));
        assert_eq!(look(3, Some(8)), stalled(3, false));
        assert_eq!(look(12, Some(8)), stalled(12, true));
        // The next part begins a time of its own.
        assert_eq!(
            look(13, Some(9)),
            FoundFiles::WorkingAgain(Duration::from_secs(13))
        );
        assert_eq!(look(14, Some(9)), FoundFiles::Working);
        assert_eq!(look(14, Some(10)), FoundFiles::Working);
        assert_eq!(look(15, None), FoundFiles::Working);
        assert_eq!(look(100, Some(10)), FoundFiles::Working);
    }
}
