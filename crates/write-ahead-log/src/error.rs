//! Errors of a log.

use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// An error of a log.
#[derive(Debug, Clone, thiserror::Error)]
pub enum Error {
    /// A file or folder cannot be read or written. Changes that were not acknowledged before the error must not be
    /// acknowledged after it.
    #[error("cannot {doing} {}: {source}", path.display())]
    Io {
        /// The failed action, for example `write`.
        doing: &'static str,
        /// The file or folder.
        path: PathBuf,
        /// The cause. All tasks that wait for the same write share it.
        source: Arc<io::Error>,
    },
    /// Another process uses the log.
    #[error("{} is in use by {holder}", path.display())]
    Taken {
        /// The lock file.
        path: PathBuf,
        /// The process, in words.
        holder: String,
    },
    /// A file of the log is not a segment, or a segment of another release.
    #[error("{}: {what}", path.display())]
    NoSegment {
        /// The file.
        path: PathBuf,
        /// Expected and found contents.
        what: String,
    },
}

impl Error {
    /// Whether a file system has no room.
    pub(crate) fn is_full(&self) -> bool {
        let full = [ErrorKind::StorageFull, ErrorKind::QuotaExceeded];
        matches!(self, Self::Io { source, .. } if full.contains(&source.kind()))
    }

    pub(crate) fn io(doing: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        move |source| Self::Io {
            doing,
            path,
            source: Arc::new(source),
        }
    }
}
