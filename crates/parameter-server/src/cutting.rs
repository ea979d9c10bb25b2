//! The server's part of a cut of its log: a snapshot, written while training goes on.

use std::sync::Arc;

use trainyard_parameter_store::Snapshot;

use crate::LocalServer;
use crate::background::in_background;
use crate::journal::{BegunCut, LogJournal};
use crate::log_cut::{DueCut, file};

impl LocalServer {
    /// Makes a cut of the log: takes a snapshot, and writes it while training goes on. Returns the bytes that were written;
    /// `None` if another snapshot is in progress.
    ///
    /// # Errors
    /// The cut cannot be written. The log goes on without it.
    pub async fn cut_log(
        &self,
        journal: Arc<LogJournal>,
        cut: DueCut,
    ) -> Result<Option<u64>, String> {
        let Ok(_turn) = self.snapshot_turn.try_lock() else {
            return Ok(None);
        };
        let this = self.clone();
        let work = move || this.cut_log_now(&journal, cut);
        in_background("log-cut", work).await?
    }

    /// Waits until the snapshot that is being written is written.
    #[cfg(feature = "testing")]
    pub async fn settle(&self) {
        drop(self.snapshot_turn.lock().await);
    }

    /// As [`LocalServer::cut_log`], on this thread.
    pub(crate) fn cut_log_now(
        &self,
        journal: &LogJournal,
        cut: DueCut,
    ) -> Result<Option<u64>, String> {
        self.tell_time();
        journal.request_cut(cut.rows);
        let Ok(snapshot) = self.store().log_snapshot(cut.rows) else {
            journal.withdraw_cut();
            return Ok(None);
        };
        let Some(begun) = journal.begun_cut() else {
            // The log is closed.
            journal.lose_cut();
            return Ok(None);
        };
        write_cut(journal, &begun, snapshot, cut.bytes).map(Some)
    }

    /// Makes a cut of a backup's log at the begin of `segment`, where its primary has cut its own log. Takes the snapshot before it
    /// returns; the future writes it, and returns the bytes that were written. `memory_bytes` of the log may lie in shared memory.
    /// `None` if an earlier snapshot is in progress: the log is cut the next time.
    pub fn follow_cut(
        &self,
        journal: &Arc<LogJournal>,
        segment: u64,
        memory_bytes: u64,
    ) -> Option<impl Future<Output = Result<u64, String>> + Send + use<>> {
        let turn = Arc::clone(&self.snapshot_turn).try_lock_owned().ok()?;
        let cut = journal.next_cut(memory_bytes, self.store().log_cut_bytes());
        let begun = journal.begin_cut(segment, cut.rows);
        let Ok(snapshot) = self.store().log_snapshot(cut.rows) else {
            journal.withdraw_cut();
            return None;
        };
        let journal = Arc::clone(journal);
        let work = move || {
            let _turn = turn;
            write_cut(&journal, &begun, snapshot, cut.bytes)
        };
        Some(async move { in_background("log-cut", work).await? })
    }
}

/// Writes a cut of about `bytes` bytes, and gives up the log before it. Returns the bytes that were written.
fn write_cut(
    journal: &LogJournal,
    begun: &BegunCut,
    snapshot: Snapshot,
    bytes: u64,
) -> Result<u64, String> {
    let written = file::write(
        journal.cut_folders(),
        begun.origin,
        begun.head.clone(),
        snapshot,
        bytes,
    );
    match written {
        Ok(bytes) => {
            let held = journal.hold_cut(begun, bytes);
            held.map_err(|error| error.to_string())?;
            Ok(bytes)
        }
        Err(error) => {
            journal.lose_cut();
            let folder = journal.folder().display();
            let segment = begun.head.segment;
            Err(format!(
                "cannot write the cut at segment {segment} of the log in {folder}: {error}"
            ))
        }
    }
}
