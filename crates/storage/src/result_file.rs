//! The file of a result that a user has named.

use std::fs::File;
use std::io::{ErrorKind, Result, Write as _};
use std::path::{Path, PathBuf};

/// The file of a result. It is written under a temporary name beside its own, and has its name when it is whole. A pipe or a
/// device stays what it is, and is written as it comes. A link keeps its place: the file that it names is replaced.
#[derive(Debug)]
pub struct ResultFile {
    path: PathBuf,
    /// The temporary name; absent for pipes and devices, and once the file has its own.
    aside: Option<PathBuf>,
}

impl ResultFile {
    /// Creates the file, or opens the pipe or device.
    ///
    /// # Errors
    /// It cannot be created or opened.
    pub fn create(path: &Path) -> Result<(Self, File)> {
        if path.metadata().is_ok_and(|found| !found.is_file()) {
            let file = File::create(path)?;
            let path = path.to_owned();
            return Ok((Self { path, aside: None }, file));
        }
        let path = target(path);
        let aside = aside(&path);
        let file = File::create(&aside)?;
        Ok((
            Self {
                path,
                aside: Some(aside),
            },
            file,
        ))
    }

    /// Removes the unfinished file that this process may have for a path.
    pub fn remove_unfinished(path: &Path) {
        let _ = std::fs::remove_file(aside(&target(path)));
    }

    /// Gives the file its name, after all has been written. A power cut leaves the old file or the new one.
    ///
    /// # Errors
    /// It cannot be flushed or renamed.
    pub fn publish(mut self) -> Result<()> {
        let Some(aside) = &self.aside else {
            return Ok(());
        };
        File::open(aside)?.sync_all()?;
        std::fs::rename(aside, &self.path)?;
        self.aside = None;
        let parent = self.path.parent();
        let folder = parent.filter(|folder| !folder.as_os_str().is_empty());
        match File::open(folder.unwrap_or(Path::new(".")))?.sync_all() {
            // A file system that cannot flush folders, such as that of a share, keeps names in its own way.
            Err(error)
                if matches!(
                    error.kind(),
                    ErrorKind::InvalidInput | ErrorKind::Unsupported
                ) =>
            {
                Ok(())
            }
            flushed => flushed,
        }
    }

    /// Writes a whole file.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn write(path: &Path, bytes: &[u8]) -> Result<()> {
        let (result, mut file) = Self::create(path)?;
        file.write_all(bytes)?;
        drop(file);
        result.publish()
    }
}

/// Returns the file that a path, perhaps a link, names.
fn target(path: &Path) -> PathBuf {
    path.canonicalize().unwrap_or_else(|_| path.to_owned())
}

/// Returns the name that a file of this process has until it is whole.
fn aside(target: &Path) -> PathBuf {
    let mut aside = target.as_os_str().to_owned();
    aside.push(format!(".partial-{}", std::process::id()));
    aside.into()
}

impl Drop for ResultFile {
    fn drop(&mut self) {
        if let Some(aside) = &self.aside {
            let _ = std::fs::remove_file(aside);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{FileTypeExt as _, symlink};

    use super::*;

    #[test]
    fn links_and_devices_stay_what_they_are_and_files_are_replaced_when_they_are_whole() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("file");
        let link = folder.path().join("link");
        std::fs::write(&file, "old").expect("there is room");
        symlink("file", &link).expect("a link");
        let (unfinished, mut out) = ResultFile::create(&link).expect("created");
        out.write_all(b"half").expect("there is room");
        assert_eq!(std::fs::read(&file).expect("readable"), b"old");
        drop(unfinished);
        ResultFile::write(&link, b"new").expect("written");
        assert!(link.symlink_metadata().expect("there").is_symlink());
        assert_eq!(std::fs::read(&file).expect("readable"), b"new");
        let names = std::fs::read_dir(folder.path()).expect("readable");
        assert_eq!(names.count(), 2, "nothing is left beside");
        let device = folder.path().join("null");
        symlink("/dev/null", &device).expect("a link");
        for path in [Path::new("/dev/null"), &device] {
            ResultFile::write(path, b"lost").expect("written");
            let kind = path.metadata().expect("there").file_type();
            assert!(kind.is_char_device());
        }
    }
}
