//! The end of a store: it drains, and then refuses pushes.

use std::sync::atomic::Ordering;

use super::{State, Store, check_control};
use crate::{Change, Error, Identity};

impl Store {
    /// Ends the job for this store.
    ///
    /// # Errors
    /// A stale term.
    pub fn finish(&self, identity: &Identity) -> Result<(), Error> {
        let mut control = self.control.write();
        check_control(&control, identity)?;
        control.state = State::Finished;
        self.note(self.ledger.lock().version, &Change::Finish);
        Ok(())
    }

    /// Marks a store that trains as draining. It continues to serve.
    pub fn drain(&self) {
        let mut control = self.control.write();
        if control.state == State::Open {
            control.state = State::Draining;
        }
    }

    /// Records that a checkpoint of this term, which holds the store at `version`, has been committed. A snapshot alone
    /// is not enough, because its file may never be completed.
    pub fn saved(&self, epoch: u64, version: u64) {
        let control = self.control.read();
        let mut ledger = self.ledger.lock();
        if control.epoch == epoch && version <= ledger.version {
            ledger.saved_version = ledger.saved_version.max(Some(version));
        }
    }

    /// Closes the store to pushes if a committed checkpoint holds all of them, and returns whether one does. The
    /// process may then end without losing an acknowledged push.
    pub fn close_if_saved(&self) -> bool {
        let _alone = self.cut.write();
        let ledger = self.ledger.lock();
        let saved = ledger.saved_version == Some(ledger.version);
        self.closed.fetch_or(saved, Ordering::Relaxed);
        saved
    }

    /// Closes the store to pushes. The process is about to end, and its log holds all acknowledged changes.
    pub fn close(&self) {
        let _alone = self.cut.write();
        self.closed.store(true, Ordering::Relaxed);
    }
}
