//! Readiness of a daemon.

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
    cell: watch::Sender<ReadinessState>,
}

impl Default for Readiness {
    fn default() -> Self {
        let starting = ReadinessState::waiting(Self::STARTING, Vec::new());
        Self {
            cell: watch::Sender::new(starting),
        }
    }
}

impl Readiness {
    /// Name of the state before the role sets one.
    pub(crate) const STARTING: &'static str = "starting";

    /// Sets the state.
    pub fn set(&self, state: ReadinessState) {
        self.cell.send_replace(state);
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
