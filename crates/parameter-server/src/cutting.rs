//! The server's part of a cut of its log: a snapshot, written while training goes on.

use std::sync::Arc;

use crate::LocalServer;
use crate::background::in_background;
use crate::journal::LogJournal;
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
        let written = file::write(
            journal.cut_folders(),
            begun.origin,
            &begun.head,
            &snapshot,
            cut.bytes,
        );
        // As long as a snapshot exists, rows are copied before they change.
        drop(snapshot);
        match written {
            Ok(bytes) => {
                let held = journal.hold_cut(&begun, bytes);
                held.map_err(|error| error.to_string())?;
                Ok(Some(bytes))
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
}
