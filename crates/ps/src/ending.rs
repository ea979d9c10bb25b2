//! The end of a parameter server: a pure decision, taken at each poll from what the server sees.

use std::time::Duration;

use tokio::time::Instant;
use trainyard_parameter_store::State;

/// Time for which a stopping server with a log waits for the workers to stop too.
const STOP_GRACE: Duration = Duration::from_secs(2);
/// Silence of the chief after which a stopping server with a log no longer waits for a checkpoint.
const CHIEF_SILENCE_MAX: Duration = Duration::from_secs(5);
/// Longest time between pushes of workers that are still training.
const PUSH_INTERVAL_MAX: Duration = Duration::from_millis(500);

/// The state of a server at one poll.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Seen {
    /// Least advanced state of the shards that this server serves; `None` if it serves none.
    pub(crate) state: Option<State>,
    /// Pushes applied to these shards.
    pub(crate) version: u64,
    /// The chief has dismissed this server: the job has ended.
    pub(crate) is_dismissed: bool,
    /// This server has received a request to stop.
    pub(crate) is_stopping: bool,
    /// A checkpoint holds every update of the draining shards. `false` before they drain.
    pub(crate) is_saved: bool,
    /// The updates are in a log.
    pub(crate) has_log: bool,
    /// Time since the chief's last call.
    pub(crate) chief_silence: Duration,
}

/// The next action of a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Next {
    /// Poll again.
    Serve,
    /// Drain the shards that are served: wait up to this time for the chief's last checkpoint.
    Drain(Duration),
    /// End.
    End(End),
}

/// Reason why a server ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum End {
    /// The chief has dismissed this server.
    Dismissed,
    /// The shards have finished, and the chief has not dismissed this server in time.
    Finished,
    /// This server serves no worker.
    Untrained,
    /// The latest checkpoint holds every update.
    Saved,
    /// The workers continue, and the log has the updates since the last checkpoint.
    WorkersContinue,
    /// The chief is gone, and the log has the updates since the last checkpoint.
    ChiefGone,
    /// No checkpoint was written in time.
    Unsaved,
}

/// Decides when a server ends.
#[derive(Debug)]
pub(crate) struct Ending {
    /// Time that the chief has to dismiss the server after its shards have finished.
    dismissal_timeout: Duration,
    /// Longest wait for the last checkpoint.
    drain_timeout: Duration,
    /// Time of the request to stop, once the shards drain.
    draining: Option<Instant>,
    /// First poll of those at which the shards had finished.
    finished: Option<Instant>,
    /// Latest change of the version.
    moved: Instant,
    version: u64,
}

impl Ending {
    pub(crate) fn new(now: Instant, dismissal_timeout: Duration, drain_timeout: Duration) -> Self {
        Self {
            dismissal_timeout,
            drain_timeout,
            draining: None,
            finished: None,
            moved: now,
            version: 0,
        }
    }

    /// Returns whether the shards drain.
    pub(crate) fn is_draining(&self) -> bool {
        self.draining.is_some()
    }

    /// Returns the next action.
    pub(crate) fn next(&mut self, now: Instant, seen: &Seen) -> Next {
        if seen.version != self.version {
            (self.version, self.moved) = (seen.version, now);
        }
        if seen.is_dismissed {
            return Next::End(End::Dismissed);
        }
        if seen.state == Some(State::Finished) {
            let since = *self.finished.get_or_insert(now);
            if now - since >= self.dismissal_timeout {
                return Next::End(End::Finished);
            }
        } else {
            self.finished = None;
        }
        match self.draining {
            None if !seen.is_stopping => Next::Serve,
            None if is_untrained(seen.state) => Next::End(End::Untrained),
            None => {
                self.draining = Some(now);
                Next::Drain(self.drain_timeout)
            }
            Some(since) => match self.end_of_drain(now, now - since, seen) {
                Some(end) => Next::End(end),
                None => Next::Serve,
            },
        }
    }

    fn end_of_drain(&self, now: Instant, waited: Duration, seen: &Seen) -> Option<End> {
        if seen.is_saved {
            return Some(End::Saved);
        }
        if seen.has_log && waited >= STOP_GRACE {
            if now - self.moved < PUSH_INTERVAL_MAX {
                // The workers wait for this server to return, so no checkpoint will hold all of its updates.
                return Some(End::WorkersContinue);
            }
            if seen.chief_silence >= CHIEF_SILENCE_MAX {
                return Some(End::ChiefGone);
            }
        }
        (waited >= self.drain_timeout).then_some(End::Unsaved)
    }
}

/// Returns whether nothing was trained in this state.
fn is_untrained(state: Option<State>) -> bool {
    matches!(
        state,
        None | Some(State::Empty | State::Preparing | State::Prepared)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    const DRAIN: Duration = Duration::from_secs(24);
    const POLL: Duration = Duration::from_millis(20);

    const OPEN: Seen = Seen {
        state: Some(State::Open),
        version: 7,
        is_dismissed: false,
        is_stopping: false,
        is_saved: false,
        has_log: true,
        chief_silence: Duration::ZERO,
    };
    const STOPPING: Seen = Seen {
        is_stopping: true,
        ..OPEN
    };

    /// Polls until the server ends. Returns the reason and the time that passed.
    fn end(
        ending: &mut Ending,
        begin: Instant,
        seen: impl Fn(Duration) -> Seen,
    ) -> (End, Duration) {
        for poll in 0..10_000 {
            let passed = POLL * poll;
            if let Next::End(end) = ending.next(begin + passed, &seen(passed)) {
                return (end, passed);
            }
        }
        panic!("it never ends");
    }

    fn ending() -> (Ending, Instant) {
        let now = Instant::now();
        (Ending::new(now, Duration::ZERO, DRAIN), now)
    }

    #[test]
    fn a_server_that_nobody_stops_serves() {
        let (mut ending, now) = ending();
        for state in [None, Some(State::Empty), Some(State::Open)] {
            let seen = Seen { state, ..OPEN };
            assert_eq!(ending.next(now + DRAIN * 2, &seen), Next::Serve);
        }
    }

    #[test]
    fn a_server_without_trained_values_stops_at_once() {
        for state in [
            None,
            Some(State::Empty),
            Some(State::Preparing),
            Some(State::Prepared),
        ] {
            let (mut ending, now) = ending();
            let seen = Seen { state, ..STOPPING };
            assert_eq!(ending.next(now, &seen), Next::End(End::Untrained));
        }
    }

    #[test]
    fn a_stopping_server_ends_when_a_checkpoint_holds_every_update() {
        let (mut ending, now) = ending();
        assert_eq!(ending.next(now, &STOPPING), Next::Drain(DRAIN));
        assert_eq!(ending.next(now + POLL, &STOPPING), Next::Serve);
        let saved = Seen {
            is_saved: true,
            ..STOPPING
        };
        assert_eq!(ending.next(now + POLL * 2, &saved), Next::End(End::Saved));
    }

    #[test]
    fn a_stopping_server_with_a_log_does_not_wait_for_workers_that_continue_or_a_chief_that_is_gone()
     {
        let pushes = |passed: Duration| Seen {
            version: passed.as_millis() as u64,
            ..STOPPING
        };
        let (mut ending, now) = ending();
        assert_eq!(
            end(&mut ending, now, pushes),
            (End::WorkersContinue, STOP_GRACE)
        );
        let silent = |passed: Duration| Seen {
            chief_silence: passed,
            ..STOPPING
        };
        let (mut ending, now) = self::ending();
        assert_eq!(
            end(&mut ending, now, silent),
            (End::ChiefGone, CHIEF_SILENCE_MAX)
        );
        let without_log = |passed: Duration| Seen {
            has_log: false,
            ..silent(passed)
        };
        let (mut ending, now) = self::ending();
        assert_eq!(end(&mut ending, now, without_log), (End::Unsaved, DRAIN));
    }

    #[test]
    fn shards_that_have_finished_wait_for_the_dismissal() {
        let now = Instant::now();
        let timeout = Duration::from_secs(3);
        let mut ending = Ending::new(now, timeout, DRAIN);
        let finished = Seen {
            state: Some(State::Finished),
            ..OPEN
        };
        // One of two shards is taken over meanwhile, and has not finished.
        assert_eq!(ending.next(now, &finished), Next::Serve);
        assert_eq!(ending.next(now + timeout, &OPEN), Next::Serve);
        assert_eq!(ending.next(now + timeout * 2, &finished), Next::Serve);
        let late = now + timeout * 3;
        assert_eq!(ending.next(late, &finished), Next::End(End::Finished));
        let dismissed = Seen {
            is_dismissed: true,
            ..OPEN
        };
        assert_eq!(ending.next(late, &dismissed), Next::End(End::Dismissed));
    }
}
