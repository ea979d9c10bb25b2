//! Errors of model directories, and their diagnostics.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use trainyard_diagnostic::{Code, Diagnostic, system_limit};

/// A failed operation.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A file operation failed.
    #[error("cannot {action} {}", path.display())]
    Io {
        /// The action that failed: `write`, `rename`, ...
        action: &'static str,
        /// The path.
        path: PathBuf,
        /// The error of the system.
        #[source]
        source: std::io::Error,
    },
    /// A file differs from its manifest.
    #[error("{} is damaged: {what}", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// Place, expected and found value.
        what: String,
    },
    /// A small file of the model directory holds an invalid value.
    #[error("{} holds `{}`, expected {expected}", path.display(), found.escape_default())]
    Note {
        /// The file.
        path: PathBuf,
        /// Content of the file.
        found: String,
        /// Expected content.
        expected: &'static str,
        /// Advice to the user.
        cure: &'static str,
    },
    /// An access to an object store failed.
    #[error(transparent)]
    Store(#[from] trainyard_storage::Error),
    /// Another chief has claimed the model directory since.
    #[error("the checkpoint of epoch {epoch} is not committed: epoch {highest} has been claimed in {}", path.display())]
    Deposed {
        /// The model directory.
        path: PathBuf,
        /// Term of the checkpoint.
        epoch: u64,
        /// The highest claimed term.
        highest: u64,
    },
    /// A file of others has a name that a run would replace.
    #[error("{} is no file of a run of trainyard, and would be replaced", path.display())]
    Foreign {
        /// The file.
        path: PathBuf,
    },
    /// Another run uses the model directory.
    #[error("{} is in use by another run: {by}", path.display())]
    InUse {
        /// The model directory.
        path: PathBuf,
        /// Description of the other run.
        by: String,
    },
}

/// The state of a file that an operation could not use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileState {
    /// The file does not exist.
    Missing,
    /// The file was read, and its content is wrong.
    Damaged,
    /// The file could not be read, or the operation has failed for a reason of its own. The file may be good: the error says
    /// nothing about its content, and a retry may succeed.
    Unreadable,
}

impl Error {
    /// Returns the error of an action on a path, of which the system or a store says why.
    pub fn io(action: &'static str, path: &Path) -> impl FnOnce(std::io::Error) -> Self {
        let path = path.to_owned();
        move |source| match trainyard_storage::Error::of(&source) {
            Some(error) => Self::Store(error.clone()),
            None => Self::Io {
                action,
                path,
                source,
            },
        }
    }

    /// Returns the state of the file.
    pub fn file_state(&self) -> FileState {
        use std::io::ErrorKind::{NotADirectory, NotFound};
        match self {
            Self::Io { source, .. } if matches!(source.kind(), NotFound | NotADirectory) => {
                FileState::Missing
            }
            Self::Store(trainyard_storage::Error::Missing { .. }) => FileState::Missing,
            Self::Damaged { .. } | Self::Note { .. } => FileState::Damaged,
            Self::Io { .. }
            | Self::Store(_)
            | Self::Deposed { .. }
            | Self::Foreign { .. }
            | Self::InUse { .. } => FileState::Unreadable,
        }
    }

    /// Returns the error of a damaged file.
    pub fn damaged(path: &Path, what: impl Into<String>) -> Self {
        Self::Damaged {
            path: path.to_owned(),
            what: what.into(),
        }
    }
}

impl From<Error> for Diagnostic {
    fn from(error: Error) -> Self {
        let mut text = error.to_string();
        if let Some(source) = std::error::Error::source(&error) {
            text = format!("{text}: {source}");
        }
        if let Error::Io { source, .. } = &error
            && let Some((code, help)) = system_limit(source)
        {
            return Self::error(code, text).help(help);
        }
        match error {
            Error::Io { source, path, .. }
                if matches!(
                    source.kind(),
                    ErrorKind::StorageFull | ErrorKind::QuotaExceeded
                ) =>
            {
                let folder = path.parent().unwrap_or(&path).display().to_string();
                Self::error(Code::E3003, text)
                    .help(format!("free space in {folder}, or choose another folder"))
            }
            Error::Io { source, .. } if source.kind() == ErrorKind::PermissionDenied => {
                Self::error(Code::E1202, text)
                    .help("give this user the right to the folder, or choose another model_dir")
            }
            Error::Io { .. } => {
                Self::error(Code::E3003, text).help("check the disk and the folder model_dir")
            }
            Error::Damaged { .. } => Self::error(Code::E3001, text)
                .help("restore the file from a copy, or remove the folder"),
            Error::Note { cure, .. } => Self::error(Code::E3001, text).help(cure),
            Error::Store(error) => error.into(),
            Error::Deposed { .. } => {
                Self::error(Code::E2009, text).help("another chief has taken over: this one ends")
            }
            Error::Foreign { .. } => Self::error(Code::E1000, text)
                .help("choose a model_dir that is new, or move the file"),
            Error::InUse { .. } => Self::error(Code::E2008, text)
                .help("wait for its end, stop it, or give this run another model_dir"),
        }
    }
}
