//! The console of a run as an object of Python.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use pyo3::types::PyAnyMethods as _;
use pyo3::{Py, PyAny, PyResult, Python};
use trainyard_daemon::{Console, ConsoleStep, LogLevel, TakenConsole};
use trainyard_diagnostic::{Diagnostic, Severity};

/// Most entries that wait for Python. Further ones are counted and left out.
const ENTRIES_MAX: usize = 10_000;

/// An object of Python that receives what a run would print. Threads of the run only add to a queue: one that waited for
/// Python's lock with a lock of the run could wait for ever.
#[derive(Debug)]
pub(crate) struct PythonConsole {
    object: Py<PyAny>,
    queue: Arc<Queue>,
    _taken: TakenConsole,
}

/// What waits for Python.
#[derive(Debug, Default)]
struct Queue(Mutex<Waiting>);

#[derive(Debug, Default)]
struct Waiting {
    entries: VecDeque<Entry>,
    left_out: usize,
    /// The latest step. Earlier ones are left out.
    step: Option<ConsoleStep>,
}

#[derive(Debug)]
enum Entry {
    Log(LogLevel, String),
    Problem(Severity, String),
    Text(String),
}

impl PythonConsole {
    /// Takes the console of this process for an object.
    pub(crate) fn take(object: Py<PyAny>) -> Self {
        let queue = Arc::new(Queue::default());
        let console: Arc<dyn Console> = Arc::clone(&queue) as _;
        Self {
            object,
            queue,
            _taken: TakenConsole::take(console),
        }
    }

    /// Calls the object with all that waits.
    ///
    /// # Errors
    /// The object has raised an exception. What waits behind it stays.
    pub(crate) fn deliver(&self, python: Python<'_>) -> PyResult<()> {
        let object = self.object.bind(python);
        let step = self.queue.waiting().step.take();
        if let Some(step) = step {
            object.call_method1("step", (step.global_step, step.max_steps, step.loss))?;
        }
        loop {
            // The lock is not held while Python runs.
            let entry = self.queue.waiting().entries.pop_front();
            match entry {
                Some(Entry::Log(level, line)) => {
                    object.call_method1("log", (level.as_str(), line))?
                }
                Some(Entry::Problem(severity, text)) => {
                    let severity = match severity {
                        Severity::Error => "error",
                        Severity::Warning => "warning",
                    };
                    object.call_method1("report", (severity, text))?
                }
                Some(Entry::Text(text)) => object.call_method1("print", (text,))?,
                None => break,
            };
        }
        let left_out = std::mem::take(&mut self.queue.waiting().left_out);
        if left_out > 0 {
            let line =
                format!("{left_out} lines came faster than they were taken, and are left out");
            object.call_method1("log", (LogLevel::WARN.as_str(), line))?;
        }
        Ok(())
    }
}

impl Queue {
    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        // Each change of the queue is whole, whatever has panicked.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn add(&self, entry: Entry) {
        let mut waiting = self.waiting();
        if waiting.entries.len() < ENTRIES_MAX {
            waiting.entries.push_back(entry);
        } else {
            waiting.left_out += 1;
        }
    }
}

impl Console for Queue {
    fn log(&self, level: LogLevel, line: &str) {
        self.add(Entry::Log(level, line.to_owned()));
    }

    fn report(&self, problem: &Diagnostic) {
        self.add(Entry::Problem(problem.severity, problem.render()));
    }

    fn print(&self, text: &str) {
        self.add(Entry::Text(text.to_owned()));
    }

    fn step(&self, step: ConsoleStep) {
        self.waiting().step = Some(step);
    }
}
