//! Files of secrets, which only their owner and group may read.

use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use trainyard_diagnostic::{Code, Diagnostic};

/// Mode bits of users other than the owner and the group.
const OTHERS: u32 = 0o007;

pub(crate) fn unusable(path: &Path, what: impl std::fmt::Display) -> Diagnostic {
    Diagnostic::error(
        Code::E7001,
        format!("{} cannot be used: {what}", path.display()),
    )
}

/// Refuses a file of secrets that users other than its owner and group may access.
pub(crate) fn check_private(path: &Path) -> Result<(), Diagnostic> {
    let file = std::fs::metadata(path).map_err(|error| unusable(path, error.kind()))?;
    match file.mode() & OTHERS {
        0 => Ok(()),
        _ => {
            let mode = file.mode() & 0o777;
            let what = format!("it may be read by others, mode {mode:04o}");
            Err(unusable(path, what).help(format!("chmod 0600 {}", path.display())))
        }
    }
}
