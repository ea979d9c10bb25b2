//! What a daemon says of itself to those who ask whether it is ready.

use tokio::sync::watch;

/// How a daemon stands.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ReadinessState {
    /// A word: `starting`, `waiting`, `training`, ...
    pub state: String,
    /// Whether it does its work.
    pub ready: bool,
    /// What it waits for.
    pub waiting_for: Vec<String>,
}

/// A cell that a role writes, and the admin port and the health service read.
#[derive(Debug, Clone)]
pub struct Readiness {
    cell: watch::Sender<ReadinessState>,
}

impl Default for Readiness {
    fn default() -> Self {
        let starting = ReadinessState {
            state: Self::STARTING.to_owned(),
            ready: false,
            waiting_for: Vec::new(),
        };
        Self {
            cell: watch::Sender::new(starting),
        }
    }
}

impl Readiness {
    /// The state of a daemon that has not said how it stands.
    pub(crate) const STARTING: &'static str = "starting";

    /// Sets how the daemon stands.
    pub fn set(&self, state: &str, ready: bool, waiting_for: Vec<String>) {
        self.cell.send_replace(ReadinessState {
            state: state.to_owned(),
            ready,
            waiting_for,
        });
    }

    /// Returns how the daemon stands.
    pub fn get(&self) -> ReadinessState {
        self.cell.borrow().clone()
    }

    /// Returns a view that tells of changes.
    pub fn watch(&self) -> watch::Receiver<ReadinessState> {
        self.cell.subscribe()
    }
}
