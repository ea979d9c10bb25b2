//! Memory that one batch leaves to the next.

use std::sync::Mutex;

use crate::ids::Raw;
use crate::unique::Unique;

/// What is needed while a batch is made ready.
#[derive(Debug, Default)]
pub(crate) struct Work {
    /// The ids of each categorical feature, as they stand in the rows.
    pub(crate) raw: Vec<Raw>,
    pub(crate) unique: Unique,
}

/// Holds the memory of the last batch that was finished. Threads that work at once have memory of their own.
#[derive(Debug, Default)]
pub(crate) struct Pool(Mutex<Option<Box<Work>>>);

impl Pool {
    /// Returns memory of any content.
    pub(crate) fn take(&self) -> Box<Work> {
        // No code panics while it holds the lock.
        self.0
            .lock()
            .ok()
            .and_then(|mut work| work.take())
            .unwrap_or_default()
    }

    /// Keeps memory for the next batch. After an error it is dropped instead: it may be in disorder.
    pub(crate) fn give_back(&self, work: Box<Work>) {
        if let Ok(mut place) = self.0.lock() {
            *place = Some(work);
        }
    }
}

impl Clone for Pool {
    /// The copy starts without memory.
    fn clone(&self) -> Self {
        Self::default()
    }
}
