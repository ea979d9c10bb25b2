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
    /// The same, one by one. A wrong command line has none.
    pub problems: Vec<Diagnostic>,
}

impl Ended {
    /// Returns the end of a command that has printed its own messages.
    pub(crate) fn with(code: u8) -> Self {
        Self {
            code,
            messages: String::new(),
            problems: Vec::new(),
        }
    }

    /// Prints the messages of an outcome.
    pub(crate) fn reported(outcome: Result<(), Vec<Diagnostic>>, format: LogFormat) -> Self {
        let problems = outcome.as_ref().err().cloned().unwrap_or_default();
        Self {
            code: finish(outcome, format),
            messages: render_all(&problems),
            problems,
        }
    }
}
