//! Errors of checkpoints, and their diagnostics.

use std::path::{Path, PathBuf};

use trainyard_diagnostic::{Code, Diagnostic};
use trainyard_model_dir::FileState;

/// A failed operation.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// An operation on the model directory failed.
    #[error(transparent)]
    ModelDir(#[from] trainyard_model_dir::Error),
    /// The disk has too little space.
    #[error("not enough space for a checkpoint in {}: need {need} bytes, {free} are free", path.display())]
    Space {
        /// The folder.
        path: PathBuf,
        /// Bytes needed.
        need: u64,
        /// Bytes free.
        free: u64,
    },
    /// The checkpoint lacks rows of a variable or slot.
    #[error("{} holds no `{tensor}` for rows {begin}..{end}", path.display())]
    Absent {
        /// The checkpoint.
        path: PathBuf,
        /// Variable, or variable and slot.
        tensor: String,
        /// First row.
        begin: usize,
        /// One past the last row.
        end: usize,
    },
    /// The checkpoint lacks a dynamic table or a part of it.
    #[error("{} holds no dynamic table `{tensor}`", path.display())]
    Lacking {
        /// The checkpoint.
        path: PathBuf,
        /// Variable, or variable and slot.
        tensor: String,
    },
}

impl Error {
    pub(crate) fn io(action: &'static str, path: &Path) -> impl FnOnce(std::io::Error) -> Self {
        let failed = trainyard_model_dir::Error::io(action, path);
        move |source| failed(source).into()
    }

    /// Returns the state of the file. The files of a checkpoint exist together, so that a checkpoint without one of its files
    /// is damaged: only whoever looks for a file takes [`FileState::Missing`] for an answer.
    pub fn file_state(&self) -> FileState {
        match self {
            Self::ModelDir(error) => error.file_state(),
            Self::Absent { .. } | Self::Lacking { .. } => FileState::Damaged,
            Self::Space { .. } => FileState::Unreadable,
        }
    }

    /// Returns whether the files could not be read. They may be good: nothing may be concluded, skipped or removed.
    pub fn is_unreadable(&self) -> bool {
        self.file_state() == FileState::Unreadable
    }

    pub(crate) fn damaged(path: &Path, what: impl Into<String>) -> Self {
        trainyard_model_dir::Error::damaged(path, what).into()
    }
}

impl From<trainyard_storage::Error> for Error {
    fn from(error: trainyard_storage::Error) -> Self {
        Self::ModelDir(error.into())
    }
}

impl From<Error> for Diagnostic {
    fn from(error: Error) -> Self {
        let text = error.to_string();
        match error {
            Error::ModelDir(error) => error.into(),
            Error::Space { .. } => {
                Self::error(Code::E3006, text).help("free space, or choose another model_dir")
            }
            Error::Absent { .. } | Error::Lacking { .. } => {
                Self::error(Code::E3002, text).help("use the job that wrote the checkpoint")
            }
        }
    }
}
