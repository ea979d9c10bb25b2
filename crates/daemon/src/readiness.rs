//! Readiness of a daemon.

use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::watch;

/// State of a daemon.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ReadinessState {
    /// Name of the state: `starting`, `waiting`, `training`, ...
    pub state: String,
    /// The daemon serves.
    pub ready: bool,
    /// Tasks that the daemon waits for.
    pub waiting_for: Vec<String>,
}

impl ReadinessState {
    /// Returns the state of a daemon that serves.
    pub fn ready(state: impl Into<String>) -> Self {
        Self {
            state: state.into(),
            ready: true,
            waiting_for: Vec::new(),
        }
    }

    /// Returns the state of a daemon that does not serve, because it waits for something.
    pub fn waiting(state: impl Into<String>, waiting_for: Vec<String>) -> Self {
        Self {
            state: state.into(),
            ready: false,
            waiting_for,
        }
    }
}

/// A cell with the state of a daemon. The role writes it; the admin port and the health service read it.
#[derive(Debug, Clone)]
pub struct Readiness {
    /// The state as readers see it.
    cell: watch::Sender<ReadinessState>,
    /// The state as the role has set it, while a disk keeps the daemon from its work.
    behind_disk: Arc<Mutex<Option<ReadinessState>>>,
}

impl Default for Readiness {
    fn default() -> Self {
        let starting = ReadinessState::waiting(Self::STARTING, Vec::new());
        Self {
            cell: watch::Sender::new(starting),
            behind_disk: Arc::default(),
        }
    }
}

impl Readiness {
    /// Name of the state before the role sets one.
    pub(crate) const STARTING: &'static str = "starting";

    /// Sets the state. While the daemon waits for a disk, readers see it after that wait.
    pub fn set(&self, state: ReadinessState) {
        match &mut *self.behind_disk.lock() {
            Some(behind) => *behind = state,
            None => drop(self.cell.send_replace(state)),
        }
    }

    /// Tells whether the daemon waits for a disk. Meanwhile it is not ready.
    pub fn waits_for_disk(&self, waits: bool) {
        let mut behind = self.behind_disk.lock();
        if waits && behind.is_none() {
            let waiting = ReadinessState::waiting("waiting", vec!["a disk".to_owned()]);
            *behind = Some(self.cell.send_replace(waiting));
        } else if !waits && let Some(state) = behind.take() {
            self.cell.send_replace(state);
        }
    }

    /// Returns the state.
    pub fn get(&self) -> ReadinessState {
        self.cell.borrow().clone()
    }

    /// Returns a receiver that is notified of changes.
    pub fn watch(&self) -> watch::Receiver<ReadinessState> {
        self.cell.subscribe()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_daemon_that_waits_for_a_disk_is_not_ready_and_then_has_the_latest_state_of_its_role() {
        let readiness = Readiness::default();
        let seen = readiness.watch();
        readiness.set(ReadinessState::ready("waiting"));
        readiness.waits_for_disk(false);
        assert!(readiness.get().ready);
        for _ in 0..2 {
            readiness.waits_for_disk(true);
            let state = readiness.get();
            assert!(!state.ready && state.waiting_for == ["a disk"], "{state:?}");
        }
        readiness.set(ReadinessState::ready("evaluating"));
        assert!(!seen.borrow().ready);
        readiness.waits_for_disk(false);
        assert_eq!(seen.borrow().state, "evaluating");
        assert!(seen.borrow().ready);
    }
}
