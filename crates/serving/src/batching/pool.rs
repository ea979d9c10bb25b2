//! The threads that predict, for all versions of all models.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::thread::{Builder, JoinHandle};

use parking_lot::{Condvar, Mutex};
use tracing::error;
use trainyard_diagnostic::{Code, Diagnostic};

use super::Line;

/// Threads that answer the requests of queues, in the order in which the requests came.
#[derive(Debug)]
pub(crate) struct Pool {
    turns: Arc<Turns>,
    threads: Vec<JoinHandle<()>>,
}

/// A turn for each request that waits. Its length has the bounds of the queues.
#[derive(Debug, Default)]
struct Turns {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    lines: VecDeque<Arc<Line>>,
    is_ended: bool,
}

impl Pool {
    /// Starts threads.
    ///
    /// # Errors
    /// The system starts no more threads.
    pub(crate) fn start(threads: usize) -> Result<Self, Diagnostic> {
        let turns = Arc::<Turns>::default();
        let mut pool = Self {
            turns: Arc::clone(&turns),
            threads: Vec::new(),
        };
        for _ in 0..threads.max(1) {
            let turns = Arc::clone(&turns);
            let builder = Builder::new().name("predict".to_owned());
            let thread = builder.spawn(move || turns.answer()).map_err(|problem| {
                let message = format!("a thread that predicts cannot be started: {problem}");
                Diagnostic::error(Code::E9002, message)
            })?;
            pool.threads.push(thread);
        }
        Ok(pool)
    }

    /// Adds a turn for a request that was added to a line.
    pub(super) fn turn(&self, line: Arc<Line>) {
        self.turns.state.lock().lines.push_back(line);
        self.turns.changed.notify_one();
    }
}

impl Drop for Pool {
    /// Ends the threads after the turns that there are.
    fn drop(&mut self) {
        self.turns.state.lock().is_ended = true;
        self.turns.changed.notify_all();
        for thread in self.threads.drain(..) {
            // Its loop does not panic.
            drop(thread.join());
        }
    }
}

impl Turns {
    /// Answers the requests of each turn, until the pool ends.
    fn answer(&self) {
        while let Some(line) = self.next() {
            // A model of the user's own may panic. Its requests fail, and the thread goes on.
            if catch_unwind(AssertUnwindSafe(|| line.answer_batch())).is_err() {
                error!("the model has panicked at a prediction");
            }
        }
    }

    fn next(&self) -> Option<Arc<Line>> {
        let mut state = self.state.lock();
        loop {
            if let Some(line) = state.lines.pop_front() {
                return Some(line);
            }
            if state.is_ended {
                return None;
            }
            self.changed.wait(&mut state);
        }
    }
}
