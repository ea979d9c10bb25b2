//! The mark of a log that a backup receives from its primary: as long as it is there, the log is a part of the primary's,
//! however whole it looks.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

/// The file beside a log that says that the log is being received.
#[derive(Debug, Clone)]
pub(crate) struct ReceivingMark(PathBuf);

impl ReceivingMark {
    /// Returns the mark of the log in a folder.
    pub(crate) fn of(log: &Path) -> Self {
        let mut name = log.file_name().unwrap_or_default().to_os_string();
        name.push(".receiving");
        Self(log.with_file_name(name))
    }

    /// Marks the log, before the first of its files changes.
    ///
    /// # Errors
    /// The file cannot be written.
    pub(crate) fn set(&self) -> std::io::Result<()> {
        if let Some(folder) = self.0.parent() {
            std::fs::create_dir_all(folder)?;
        }
        std::fs::write(&self.0, b"")
    }

    /// Removes the mark: the log has everything that the primary's has.
    ///
    /// # Errors
    /// The file cannot be removed.
    pub(crate) fn remove(&self) -> std::io::Result<()> {
        match std::fs::remove_file(&self.0) {
            Err(error) if error.kind() != ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }

    /// Returns whether the log is marked, or may be.
    pub(crate) fn is_marked(&self) -> bool {
        self.0.try_exists().unwrap_or(true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_log_is_marked_from_the_begin_of_receiving_to_its_end() {
        let folder = tempfile::tempdir().expect("a folder");
        let log = folder.path().join("wal").join("ps-1.backup");
        let mark = ReceivingMark::of(&log);
        assert!(!mark.is_marked());
        mark.set().expect("written");
        assert!(mark.is_marked() && ReceivingMark::of(&log).is_marked());
        assert!(!ReceivingMark::of(&log.with_file_name("ps-1")).is_marked());
        mark.remove().expect("removed");
        mark.remove().expect("it is not there any more");
        assert!(!mark.is_marked());
    }
}
