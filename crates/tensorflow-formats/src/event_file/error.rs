//! Errors of event files.

use std::path::PathBuf;

/// Reasons for which an event file cannot be written.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// An operation of the file system failed.
    #[error("cannot {action} {path}: {source}", path = path.display())]
    Io {
        /// The failed operation.
        action: &'static str,
        /// The file or folder.
        path: PathBuf,
        /// Error of the system.
        source: std::io::Error,
    },
    /// All possible names of the file are taken.
    #[error("cannot create an event file in {folder}: {tried} names of this host are taken", folder = folder.display())]
    Taken {
        /// The folder.
        folder: PathBuf,
        /// Number of names that were tried.
        tried: u32,
    },
}
