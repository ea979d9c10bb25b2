//! What goes wrong with a log.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A failure.
#[derive(Debug, Clone, thiserror::Error)]
pub enum Error {
    /// A file or folder could not be read or written. Nothing that was not acknowledged before may be after it.
    #[error("cannot {doing} {}: {source}", path.display())]
    Io {
        /// What was being done, for example `write`.
        doing: &'static str,
        /// The file or folder.
        path: PathBuf,
        /// Why; shared by all who wait for the same write.
        source: Arc<io::Error>,
    },
    /// Another process has the log open.
    #[error("{} is in use by another process", path.display())]
    Taken {
        /// The lock file.
        path: PathBuf,
    },
    /// A file of the log is no segment, or one of another release.
    #[error("{}: {what}", path.display())]
    NoSegment {
        /// The file.
        path: PathBuf,
        /// What was expected, and found.
        what: String,
    },
}

impl Error {
    pub(crate) fn io(doing: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        move |source| Self::Io {
            doing,
            path,
            source: Arc::new(source),
        }
    }
}
