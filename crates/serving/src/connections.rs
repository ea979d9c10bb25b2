//! Open connections. When there are too many, the one that is idle longest makes room.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::task::AbortHandle;
use tokio::time::Instant;

/// What a connection does. An earlier one makes room before a later one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Phase {
    /// It waits for the head of a request.
    Idle,
    /// Its request arrives.
    Receiving,
    /// Its request is answered.
    Answering,
}

/// The activity of a connection.
#[derive(Debug)]
pub(crate) struct Activity(Mutex<Since>);

#[derive(Debug, Clone, Copy)]
struct Since {
    phase: Phase,
    at: Instant,
    has_asked: bool,
}

impl Activity {
    pub(crate) fn new() -> Self {
        Self(Mutex::new(Since {
            phase: Phase::Idle,
            at: Instant::now(),
            has_asked: false,
        }))
    }

    /// Notes what the connection does from now on.
    pub(crate) fn enter(&self, phase: Phase) {
        let mut since = self.0.lock();
        *since = Since {
            phase,
            at: Instant::now(),
            has_asked: since.has_asked || phase != Phase::Idle,
        };
    }

    /// Waits for `time`. Returns if the connection has sent no head until then, and else never.
    pub(crate) async fn is_silent(&self, time: Duration) {
        tokio::time::sleep(time).await;
        if self.0.lock().has_asked {
            std::future::pending::<()>().await;
        }
    }
}

/// The connections that are open.
#[derive(Debug, Default)]
pub(crate) struct Connections(Vec<(AbortHandle, Arc<Activity>)>);

impl Connections {
    pub(crate) fn add(&mut self, task: AbortHandle, activity: Arc<Activity>) {
        self.0.push((task, activity));
    }

    /// Removes the connections that have ended.
    pub(crate) fn forget_ended(&mut self) {
        self.0.retain(|(task, _)| !task.is_finished());
    }

    /// Closes the connection that is idle longest, else the one whose request has begun to arrive first. Returns whether
    /// there was one.
    pub(crate) fn make_room(&mut self) -> bool {
        self.forget_ended();
        let all = self.0.iter().enumerate();
        let waiting = all.filter_map(|(place, (_, activity))| {
            let since = *activity.0.lock();
            (since.phase != Phase::Answering).then_some((since.phase, since.at, place))
        });
        let Some((_, _, place)) = waiting.min() else {
            return false;
        };
        let (task, _) = self.0.swap_remove(place);
        task.abort();
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_connection_that_is_idle_longest_makes_room() {
        let mut connections = Connections::default();
        let mut tasks = Vec::new();
        for phase in [Phase::Answering, Phase::Receiving, Phase::Idle, Phase::Idle] {
            let task = tokio::spawn(std::future::pending::<()>());
            let activity = Arc::new(Activity::new());
            activity.enter(phase);
            connections.add(task.abort_handle(), activity);
            tasks.push(task);
        }
        for closed in [2, 3, 1] {
            assert!(connections.make_room());
            let ended: Vec<bool> = {
                tokio::task::yield_now().await;
                tasks
                    .iter()
                    .map(tokio::task::JoinHandle::is_finished)
                    .collect()
            };
            assert!(ended[closed], "{closed}: {ended:?}");
        }
        assert!(!connections.make_room(), "the last one is answered");
        assert!(!tasks[0].is_finished());
    }
}
