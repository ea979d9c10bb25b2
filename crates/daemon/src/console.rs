//! The console of a process: where log lines, messages, results and progress go.
//!
//! These are standard error and standard output, unless a program that runs jobs within itself has taken the console. It is
//! global because the log of a process is.

use std::sync::Arc;

use parking_lot::RwLock;
use trainyard_diagnostic::Diagnostic;

/// Severity of a log event.
pub use tracing::Level as LogLevel;

/// Consoles that have been taken; the last one receives everything.
static TAKEN: RwLock<Vec<Arc<dyn Console>>> = RwLock::new(Vec::new());

/// Receives what a run would print. Any thread may call it, also one that holds locks, so that a method returns at once.
pub trait Console: Send + Sync + 'static {
    /// Receives a log event: its message and fields in one line.
    fn log(&self, level: LogLevel, line: &str);
    /// Receives a message about the job or its data.
    fn report(&self, problem: &Diagnostic);
    /// Receives the text of a result.
    fn print(&self, text: &str);
    /// Receives the progress of training after a step.
    fn step(&self, step: ConsoleStep);
}

/// The progress of training.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ConsoleStep {
    /// Steps of all tasks.
    pub global_step: u64,
    /// Step at which training ends; absent = at the end of the input.
    pub max_steps: Option<u64>,
    /// Loss of the step.
    pub loss: f64,
}

/// A console that has been taken. It is given back when this value is dropped.
pub struct TakenConsole(Arc<dyn Console>);

impl std::fmt::Debug for TakenConsole {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_tuple("TakenConsole").finish()
    }
}

impl TakenConsole {
    /// Takes the console of this process.
    pub fn take(console: Arc<dyn Console>) -> Self {
        TAKEN.write().push(Arc::clone(&console));
        Self(console)
    }
}

impl Drop for TakenConsole {
    fn drop(&mut self) {
        TAKEN.write().retain(|taken| !Arc::ptr_eq(taken, &self.0));
    }
}

/// Returns the console that has been taken last, if any is.
pub fn taken_console() -> Option<Arc<dyn Console>> {
    TAKEN.read().last().cloned()
}

#[cfg(test)]
mod tests {
    use parking_lot::Mutex;
    use trainyard_diagnostic::Code;

    use super::*;
    use crate::{LogFormat, report};

    #[derive(Debug, Default)]
    struct Heard(Mutex<Vec<String>>);

    impl Console for Heard {
        fn log(&self, level: LogLevel, line: &str) {
            self.0.lock().push(format!("{level} {line}"));
        }

        fn report(&self, problem: &Diagnostic) {
            self.0.lock().push(problem.message.clone());
        }

        fn print(&self, text: &str) {
            self.0.lock().push(text.to_owned());
        }

        fn step(&self, step: ConsoleStep) {
            self.0.lock().push(format!("{step:?}"));
        }
    }

    /// Other tests of this process may report and log meanwhile.
    fn own(heard: &Heard) -> Vec<String> {
        let lines = heard.0.lock().clone();
        lines
            .into_iter()
            .filter(|line| line.contains("of this test"))
            .collect()
    }

    #[test]
    fn the_last_console_that_was_taken_receives_messages_and_log_lines_until_it_is_given_back() {
        let problem = |text: &str| [Diagnostic::warning(Code::E4005, text)];
        let first = Arc::new(Heard::default());
        let second = Arc::new(Heard::default());
        let kept = TakenConsole::take(Arc::clone(&first) as Arc<dyn Console>);
        let shorter = TakenConsole::take(Arc::clone(&second) as Arc<dyn Console>);
        report(&problem("one of this test"), LogFormat::Text);
        crate::logging::log_to_console(|| {
            tracing::warn!(step = 3, name = %"a\nb", "an event of this test");
        });
        drop(shorter);
        report(&problem("another of this test"), LogFormat::Json);
        drop(kept);
        assert_eq!(
            own(&second),
            [
                "one of this test",
                "WARN an event of this test step=3 name=a\\nb"
            ]
        );
        assert_eq!(own(&first), ["another of this test"]);
    }
}
