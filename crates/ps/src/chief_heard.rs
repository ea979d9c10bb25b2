//! When the server last heard of the chief.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

/// When the server last heard of the chief. A chief that writes a checkpoint makes no other call, and is heard of until the
/// call ends: by its answer, or because its connection broke.
#[derive(Debug)]
pub(crate) struct ChiefHeard(Mutex<Heard>);

#[derive(Debug)]
struct Heard {
    at: Instant,
    /// Calls in progress that write a checkpoint.
    saves: usize,
}

impl ChiefHeard {
    pub(crate) fn new() -> Self {
        Self(Mutex::new(Heard {
            at: Instant::now(),
            saves: 0,
        }))
    }

    /// Notes a short call of the chief.
    pub(crate) fn note(&self) {
        self.with(|_| {});
    }

    /// Notes a call that writes a checkpoint. It lasts until the returned value is dropped.
    pub(crate) fn save(&self) -> SaveInProgress<'_> {
        self.with(|heard| heard.saves += 1);
        SaveInProgress(self)
    }

    /// Returns the time since the chief was last heard of.
    pub(crate) fn silence(&self) -> Duration {
        let heard = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if heard.saves > 0 {
            Duration::ZERO
        } else {
            heard.at.elapsed()
        }
    }

    fn with(&self, change: impl FnOnce(&mut Heard)) {
        let mut heard = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        heard.at = Instant::now();
        change(&mut heard);
    }
}

/// A call of the chief that writes a checkpoint.
#[derive(Debug)]
pub(crate) struct SaveInProgress<'a>(&'a ChiefHeard);

impl Drop for SaveInProgress<'_> {
    fn drop(&mut self) {
        self.0.with(|heard| heard.saves -= 1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[tokio::test(start_paused = true)]
    async fn a_chief_is_silent_from_the_end_of_its_last_call_on() {
        let chief = ChiefHeard::new();
        tokio::time::advance(SECOND).await;
        assert_eq!(chief.silence(), SECOND);
        chief.note();
        assert_eq!(chief.silence(), Duration::ZERO);
        let save = chief.save();
        tokio::time::advance(100 * SECOND).await;
        assert_eq!(chief.silence(), Duration::ZERO);
        // The chief dies during the save: nothing follows its call.
        drop(save);
        assert_eq!(chief.silence(), Duration::ZERO);
        tokio::time::advance(2 * SECOND).await;
        assert_eq!(chief.silence(), 2 * SECOND);
    }
}
