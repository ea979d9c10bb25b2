//! Errors of reading TensorFlow's checkpoints.

use std::fmt;
use std::path::{Path, PathBuf};

use trainyard_diagnostic::{Code, Diagnostic};

/// Most characters of a name from a file in a message.
const NAME_CHARACTERS_MAX: usize = 200;

/// A failed operation. Its text contains the value, its source, the expectation and the remedy.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A file operation failed.
    Io {
        /// The operation: `open`, `read`, ...
        action: &'static str,
        /// The path.
        path: PathBuf,
        /// Error of the system.
        #[source]
        source: std::io::Error,
    },
    /// A file does not have the format of a checkpoint.
    Damaged {
        /// The file.
        path: PathBuf,
        /// Location in the file, expectation and finding.
        what: String,
    },
    /// The bytes differ from those that were written.
    Checksum {
        /// The file.
        path: PathBuf,
        /// The tensor or block.
        what: String,
        /// Offset in the file, in bytes.
        offset: u64,
        /// The crc32c that was stored.
        expected: u32,
        /// The crc32c of the bytes.
        found: u32,
    },
    /// A size or count exceeds a limit.
    Limit {
        /// The file.
        path: PathBuf,
        /// The value and its unit.
        what: String,
        /// The value found.
        found: u64,
        /// The largest value that is read.
        max: u64,
    },
    /// A valid but unsupported format.
    Unsupported {
        /// The file.
        path: PathBuf,
        /// The value, and the supported values.
        what: String,
    },
    /// The checkpoint holds no tensor with that name.
    Absent {
        /// The index.
        path: PathBuf,
        /// The name.
        tensor: String,
        /// The nearest existing name.
        near: Option<String>,
    },
    /// The caller requested rows that a tensor does not have, or the output has the wrong length.
    Rows {
        /// The tensor.
        tensor: String,
        /// First requested row.
        begin: usize,
        /// One past the last requested row.
        end: usize,
        /// Number of rows of the tensor.
        rows: usize,
        /// Number of elements of a row.
        row_width: usize,
        /// Length of the output, in elements.
        room: usize,
    },
}

impl Error {
    pub(crate) fn io(action: &'static str, path: &Path) -> impl FnOnce(std::io::Error) -> Self {
        let path = path.to_owned();
        move |source| Self::Io {
            action,
            path,
            source,
        }
    }

    pub(crate) fn damaged(path: &Path, what: impl Into<String>) -> Self {
        Self::Damaged {
            path: path.to_owned(),
            what: what.into(),
        }
    }

    pub(crate) fn unsupported(path: &Path, what: impl Into<String>) -> Self {
        Self::Unsupported {
            path: path.to_owned(),
            what: what.into(),
        }
    }

    /// Refuses a value that exceeds its limit.
    pub(crate) fn check_limit(path: &Path, what: &str, found: u64, max: u64) -> Result<(), Self> {
        if found <= max {
            return Ok(());
        }
        Err(Self::Limit {
            path: path.to_owned(),
            what: what.to_owned(),
            found,
            max,
        })
    }

    fn what(&self) -> String {
        match self {
            Self::Io { action, path, .. } => format!("cannot {action} {}", path.display()),
            Self::Damaged { path, what } => format!("{} is damaged: {what}", path.display()),
            Self::Checksum {
                path,
                what,
                offset,
                expected,
                found,
            } => format!(
                "{} is damaged: {what} at byte {offset} has crc32c {found:08x}, expected {expected:08x}",
                path.display()
            ),
            Self::Limit {
                path,
                what,
                found,
                max,
            } => {
                format!(
                    "{}: {what} is {found}, at most {max} is read",
                    path.display()
                )
            }
            Self::Unsupported { path, what } => {
                format!("{} cannot be read: {what}", path.display())
            }
            Self::Absent { path, tensor, .. } => {
                format!("{} holds no tensor `{}`", path.display(), shown(tensor))
            }
            Self::Rows {
                tensor,
                begin,
                end,
                rows,
                row_width,
                room,
            } => format!(
                "rows {begin}..{end} of `{}` were asked for with room for {room} elements, it has rows 0..{rows} of \
                 {row_width} elements",
                shown(tensor)
            ),
        }
    }

    fn help(&self) -> String {
        match self {
            Self::Io { .. } => {
                "give the prefix of a V2 checkpoint such as model.ckpt-30 with its .index and \
                                .data files, or a folder with a `checkpoint` file, that this user may read"
                    .to_owned()
            }
            Self::Damaged { .. } | Self::Checksum { .. } => {
                "copy the checkpoint again from its source, or use another one".to_owned()
            }
            Self::Limit { .. } => {
                "if the file is not damaged, save the checkpoint again with fewer or smaller entries"
                    .to_owned()
            }
            Self::Unsupported { .. } => {
                "save the checkpoint again with TensorFlow in a supported form, or leave this tensor out"
                    .to_owned()
            }
            Self::Absent { near: Some(near), .. } => format!("did you mean `{}`?", shown(near)),
            Self::Absent { near: None, .. } => "list the checkpoint's tensors and use one of them".to_owned(),
            Self::Rows { .. } => {
                "ask for rows within the tensor and give room for exactly their elements".to_owned()
            }
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}; {}", self.what(), self.help())
    }
}

impl From<Error> for Diagnostic {
    fn from(error: Error) -> Self {
        let mut text = error.what();
        if let Some(source) = std::error::Error::source(&error) {
            text = format!("{text}: {source}");
        }
        let code = match &error {
            Error::Io { source, .. } if source.kind() == std::io::ErrorKind::PermissionDenied => {
                Code::E1202
            }
            Error::Io { .. } => Code::E1201,
            Error::Absent { .. } | Error::Rows { .. } => Code::E3002,
            _ => Code::E3001,
        };
        Self::error(code, text).help(error.help())
    }
}

/// Returns a name from a file on one line of limited length.
pub(crate) fn shown(name: &str) -> String {
    let mut out: String = name
        .chars()
        .take(NAME_CHARACTERS_MAX)
        .flat_map(char::escape_debug)
        .collect();
    if name.chars().nth(NAME_CHARACTERS_MAX).is_some() {
        out.push('…');
    }
    out
}
