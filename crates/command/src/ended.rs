//! The end of a command line: its exit code and the messages of a failure.

use trainyard_daemon::{LogFormat, finish};
use trainyard_diagnostic::{Diagnostic, render_all};

/// The end of a command line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ended {
    /// Exit code.
    pub code: u8,
    /// The messages of a failure, as they are on standard error. Empty after a success, and if only tasks in other
    /// processes have failed.
    pub messages: String,
}

impl Ended {
    /// Returns the end of a command that has printed its own messages.
    pub(crate) fn with(code: u8) -> Self {
        Self {
            code,
            messages: String::new(),
        }
    }

    /// Prints the messages of an outcome.
    pub(crate) fn reported(outcome: Result<(), Vec<Diagnostic>>, format: LogFormat) -> Self {
        let messages = outcome
            .as_ref()
            .map_or_else(|problems| render_all(problems), |()| String::new());
        Self {
            code: finish(outcome, format),
            messages,
        }
    }
}
