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

    /// Marks a store that trains as about to stop. It goes on serving.
    pub fn drain(&self) {
        let mut control = self.control.write();
        if control.state == State::Open {
            control.state = State::Draining;
        }
    }

    /// Takes note that a checkpoint of this epoch has been committed which holds the store at a version. To have taken the
    /// snapshot says nothing of it: its file may never come to be whole.
    pub fn saved(&self, epoch: u64, version: u64) {
        let control = self.control.read();
        let mut ledger = self.ledger.lock();
        if control.epoch == epoch && version <= ledger.version {
            ledger.saved_version = ledger.saved_version.max(Some(version));
        }
    }

    /// Takes no more pushes in if a committed checkpoint holds all there were, and returns whether one does: the process
    /// may end then, and nothing that was acknowledged is missing.
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
