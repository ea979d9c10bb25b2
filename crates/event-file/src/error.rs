//! Why events cannot be written or read.

use std::path::PathBuf;

/// What went wrong with an event file.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The file system refused.
    #[error("cannot {action} {path}: {source}", path = path.display())]
    Io {
        /// What was done.
        action: &'static str,
        /// The file or folder.
        path: PathBuf,
        /// Its answer.
        source: std::io::Error,
    },
    /// All names that a file could have are taken.
    #[error("cannot create an event file in {folder}: {tried} names of this host are taken", folder = folder.display())]
    Taken {
        /// The folder.
        folder: PathBuf,
        /// Names that were tried.
        tried: u32,
    },
}
