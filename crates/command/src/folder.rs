//! A temporary folder.

use std::path::{Path, PathBuf};

use trainyard_diagnostic::{Code, Diagnostic};

/// A folder that is removed with its contents when this value is dropped.
#[derive(Debug)]
pub struct Folder(PathBuf);

impl Folder {
    /// Creates the folder with a unique name.
    ///
    /// # Errors
    /// The folder cannot be created, or exists already.
    pub fn new() -> Result<Self, Diagnostic> {
        let name = format!("trainyard-{}", uuid::Uuid::new_v4().simple());
        let path = std::env::temp_dir().join(name);
        std::fs::create_dir(&path).map_err(|error| {
            let message = format!(
                "the temporary folder {} cannot be made: {error}",
                path.display()
            );
            Diagnostic::error(Code::E9002, message).help("TMPDIR may name another place")
        })?;
        Ok(Self(path))
    }

    /// Returns the path of the folder.
    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
