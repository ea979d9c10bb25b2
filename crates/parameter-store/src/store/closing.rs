//! The end of a store: it drains, and takes nothing more in.

use std::sync::atomic::Ordering;

use super::{State, Store, check_control};
use crate::{Change, Error, Identity};

impl Store {
    /// Ends the job for this store.
    ///
    /// # Errors
    /// A stale epoch.
    pub fn finish(&self, identity: &Identity) -> Result<(), Error> {
        let mut control = self.control.write();
        check_control(&control, identity)?;
        control.state = State::Finished;
        self.note(self.ledger.lock().version, &Change::Finish);
        Ok(())
    }

    /// Marks the store as about to stop. It goes on serving.
    pub fn drain(&self) {
        let mut control = self.control.write();
        if control.state != State::Finished {
            control.state = State::Draining;
        }
    }

    /// Takes no more pushes in if the latest snapshot holds all there were, and returns whether it does: the process may
    /// end then, and nothing that was acknowledged is missing.
    pub fn close_if_saved(&self) -> bool {
        let _alone = self.cut.write();
        let ledger = self.ledger.lock();
        let saved = ledger.saved_version == Some(ledger.version);
        self.closed.fetch_or(saved, Ordering::Relaxed);
        saved
    }

    /// Takes no more pushes in: the process is about to end, and whatever was acknowledged is in its log.
    pub fn close(&self) {
        let _alone = self.cut.write();
        self.closed.store(true, Ordering::Relaxed);
    }
}
