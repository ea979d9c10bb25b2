//! What the steps of a session wait for: parameter servers that do not answer, and a chief that hands out no data.

use std::sync::Arc;

use parking_lot::Mutex;

use crate::telemetry::Telemetry;
use crate::{Config, LoopStatus, StatusCallback};

/// The tasks that steps wait for, by cause: one cause may end while the other goes on.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
struct WaitedFor {
    servers: Vec<String>,
    chief: Option<String>,
}

impl WaitedFor {
    fn status(&self) -> LoopStatus {
        let tasks: Vec<_> = self.servers.iter().chain(&self.chief).cloned().collect();
        if tasks.is_empty() {
            LoopStatus::ready("training")
        } else {
            LoopStatus::waiting(tasks)
        }
    }
}

/// Shows in the status of the task and in its step rate that the steps of a session wait.
pub(crate) struct Standstill {
    set_status: StatusCallback,
    telemetry: Telemetry,
    waited_for: Mutex<WaitedFor>,
}

impl std::fmt::Debug for Standstill {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.waited_for.lock().fmt(formatter)
    }
}

impl Standstill {
    pub(crate) fn new(config: &Config) -> Self {
        Self {
            set_status: Arc::clone(&config.set_status),
            telemetry: Telemetry::new(),
            waited_for: Mutex::default(),
        }
    }

    /// Sets the parameter servers that steps wait for; none = they all answer.
    pub(crate) fn servers(&self, servers: Vec<String>) {
        self.change(|waited_for| waited_for.servers = servers);
    }

    /// Sets the chief that does not answer while there is no data to train on; `None` = data comes.
    pub(crate) fn chief(&self, chief: Option<&str>) {
        self.change(|waited_for| waited_for.chief = chief.map(str::to_owned));
    }

    fn change(&self, change: impl FnOnce(&mut WaitedFor)) {
        let mut waited_for = self.waited_for.lock();
        let before = waited_for.clone();
        change(&mut waited_for);
        if *waited_for == before {
            return;
        }
        let status = waited_for.status();
        if !status.is_ready {
            self.telemetry.steps_per_second.set(0.0);
            self.telemetry.examples_per_second.set(0.0);
        }
        (self.set_status)(status);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_task_trains_again_only_when_neither_servers_nor_the_chief_are_waited_for() {
        let seen = Arc::new(Mutex::new(Vec::new()));
        let statuses = Arc::clone(&seen);
        let standstill = Standstill {
            set_status: Arc::new(move |status| statuses.lock().push(status)),
            telemetry: Telemetry::new(),
            waited_for: Mutex::default(),
        };
        standstill.chief(None);
        standstill.servers(vec!["ps:0".to_owned()]);
        standstill.chief(Some("chief:0"));
        standstill.servers(Vec::new());
        standstill.chief(Some("chief:0"));
        standstill.chief(None);
        let waiting = |tasks: &[&str]| {
            LoopStatus::waiting(tasks.iter().map(|task| (*task).to_owned()).collect())
        };
        let expected = [
            waiting(&["ps:0"]),
            waiting(&["ps:0", "chief:0"]),
            waiting(&["chief:0"]),
            LoopStatus::ready("training"),
        ];
        assert_eq!(*seen.lock(), expected);
    }
}
