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
