//! Buffers that are reused from batch to batch.

use std::sync::Mutex;

use crate::ids::Raw;
use crate::ids::Unique;

/// Buffers of one transformation.
#[derive(Debug, Default)]
pub(crate) struct Work {
    /// The ids of each categorical feature by row, before deduplication.
    pub(crate) raw: Vec<Raw>,
    pub(crate) unique: Unique,
}

/// Holds the buffers of the last batch. Threads that transform at the same time have buffers of their own.
#[derive(Debug, Default)]
pub(crate) struct Pool(Mutex<Option<Box<Work>>>);

impl Pool {
    /// Returns buffers, with any content.
    pub(crate) fn take(&self) -> Box<Work> {
        // No code panics while it holds the lock.
        self.0
            .lock()
            .ok()
            .and_then(|mut work| work.take())
            .unwrap_or_default()
    }

    /// Keeps buffers for the next batch. After an error they are dropped instead, because they may be inconsistent.
    pub(crate) fn give_back(&self, work: Box<Work>) {
        if let Ok(mut place) = self.0.lock() {
            *place = Some(work);
        }
    }
}

impl Clone for Pool {
    /// The copy starts without buffers.
    fn clone(&self) -> Self {
        Self::default()
    }
}
