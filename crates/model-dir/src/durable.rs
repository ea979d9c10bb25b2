//! Durable files: written under a temporary name, flushed, renamed, and the folder flushed.

use std::fs::{File, OpenOptions};
use std::io::{ErrorKind, Write as _};
use std::path::Path;

use crate::Error;

/// Replaces a local file atomically. A power cut leaves the old file or the new one.
pub(crate) fn replace(path: &Path, bytes: &[u8]) -> Result<(), Error> {
    let mut name = path.file_name().unwrap_or_default().to_os_string();
    name.push(format!(".{}.tmp", std::process::id()));
    let beside = path.with_file_name(name);
    let written = write_and_flush(&beside, bytes).and_then(|()| rename(&beside, path));
    if written.is_err() {
        drop(std::fs::remove_file(&beside));
    }
    written
}

/// Writes a new file and flushes it to the disk. What had its name is removed before: no link is followed, and no other
/// file is written over.
///
/// # Errors
/// The file cannot be written or flushed.
pub fn write_and_flush(path: &Path, bytes: &[u8]) -> Result<(), Error> {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != ErrorKind::NotFound => {
            return Err(Error::io("remove", path)(error));
        }
        _ => {}
    }
    let created = OpenOptions::new().write(true).create_new(true).open(path);
    let mut file = created.map_err(Error::io("create", path))?;
    file.write_all(bytes).map_err(Error::io("write", path))?;
    file.sync_all().map_err(Error::io("flush", path))
}

/// Renames a file or folder, and makes the rename durable.
///
/// # Errors
/// The rename fails, or the folder cannot be flushed.
pub fn rename(from: &Path, to: &Path) -> Result<(), Error> {
    std::fs::rename(from, to).map_err(Error::io("rename", from))?;
    flush_folder(to.parent().unwrap_or(Path::new(".")))
}

/// Exchanges two files or folders atomically and durably. Returns `false` if the file system cannot.
///
/// # Errors
/// The exchange fails for another reason, or the folder cannot be flushed.
pub fn exchange(one: &Path, other: &Path) -> Result<bool, Error> {
    use rustix::fs::{CWD, RenameFlags, renameat_with};
    use rustix::io::Errno;
    match renameat_with(CWD, one, CWD, other, RenameFlags::EXCHANGE) {
        Ok(()) => flush_folder(other.parent().unwrap_or(Path::new("."))).map(|()| true),
        Err(Errno::INVAL | Errno::NOSYS | Errno::NOTSUP) => Ok(false),
        Err(errno) => Err(Error::io("exchange", one)(errno.into())),
    }
}

/// Creates a folder and those above it.
///
/// # Errors
/// A folder cannot be created. Where another thing has its name, the error says what.
pub fn create_all(folder: &Path) -> Result<(), Error> {
    std::fs::create_dir_all(folder).map_err(|error| {
        let told = in_the_way(folder).map(|told| std::io::Error::new(error.kind(), told));
        Error::io("create", folder)(told.unwrap_or(error))
    })
}

/// Checks that a folder is there, or that nothing has its name, or that of one above it.
///
/// # Errors
/// Another thing has the name: the error says what.
pub fn check_folder(folder: &Path) -> Result<(), Error> {
    in_the_way(folder).map_or(Ok(()), |told| {
        let problem = std::io::Error::new(ErrorKind::NotADirectory, told);
        Err(Error::io("create", folder)(problem))
    })
}

/// Returns what has the name of a folder, or of one above it, and is none. The system says of it that the file exists, and of a link to
/// nothing too, for which a look at the place finds nothing.
fn in_the_way(folder: &Path) -> Option<String> {
    let mut places = folder.ancestors().filter(|place| !place.is_dir());
    places.find_map(|place| {
        let kind = place.symlink_metadata().ok()?.file_type();
        let place_name = place.display();
        Some(if kind.is_symlink() && !place.exists() {
            let to = std::fs::read_link(place).ok()?;
            format!(
                "{place_name} is a link to {}, which is not there",
                to.display()
            )
        } else {
            format!("{place_name} is there and is no folder")
        })
    })
}

/// Creates a folder and those above it, and makes the names of those that were not there durable: what is flushed in a folder
/// that a power cut takes away is lost with it.
///
/// # Errors
/// A folder cannot be created or flushed.
pub fn create_folders(folder: &Path) -> Result<(), Error> {
    let is_there = |above: &&Path| above.as_os_str().is_empty() || above.is_dir();
    let missing: Vec<&Path> = folder
        .ancestors()
        .take_while(|above| !is_there(above))
        .collect();
    create_all(folder)?;
    let mut parents = missing.iter().rev().filter_map(|made| made.parent());
    parents.try_for_each(flush_names)
}

/// Makes the names of a folder and of those above it durable, whoever has created them.
///
/// # Errors
/// A folder cannot be flushed.
pub fn flush_names_of(folder: &Path) -> Result<(), Error> {
    let mut above = folder.ancestors().skip(1);
    above.try_for_each(flush_names)
}

/// As [`flush_folder`]; nothing where the folder may not be read: its file system keeps its names when it will.
fn flush_names(folder: &Path) -> Result<(), Error> {
    match flush_folder(folder) {
        Err(Error::Io { source, .. }) if source.kind() == ErrorKind::PermissionDenied => Ok(()),
        flushed => flushed,
    }
}

/// Flushes all files and folders in a folder, and the folder.
///
/// # Errors
/// One of them cannot be read or flushed.
pub fn flush_tree(folder: &Path) -> Result<(), Error> {
    for entry in std::fs::read_dir(folder).map_err(Error::io("list", folder))? {
        let entry = entry.map_err(Error::io("list", folder))?;
        let path = entry.path();
        let kind = entry.file_type().map_err(Error::io("look at", &path))?;
        if kind.is_dir() {
            flush_tree(&path)?;
        } else if kind.is_file() {
            let file = File::open(&path).map_err(Error::io("open", &path))?;
            file.sync_all().map_err(Error::io("flush", &path))?;
        }
    }
    flush_folder(folder)
}

/// Makes the names in a folder durable.
///
/// # Errors
/// The folder cannot be flushed.
pub fn flush_folder(folder: &Path) -> Result<(), Error> {
    let folder = if folder.as_os_str().is_empty() {
        Path::new(".")
    } else {
        folder
    };
    let handle = File::open(folder).map_err(Error::io("open", folder))?;
    handle.sync_all().map_err(Error::io("flush", folder))
}

#[cfg(test)]
mod tests {
    use std::error::Error as _;

    use super::*;

    #[test]
    fn what_has_the_name_of_a_folder_is_told() {
        let folder = tempfile::tempdir().expect("a folder");
        let at = |name: &str| folder.path().join(name);
        std::fs::write(at("file"), "").expect("a file");
        std::os::unix::fs::symlink("gone", at("link")).expect("a link");
        std::os::unix::fs::symlink("file", at("to_file")).expect("a link");
        for (path, told) in [
            ("file", "file is there and is no folder"),
            ("file/model", "file is there and is no folder"),
            ("to_file/model", "to_file is there and is no folder"),
            ("link", "link is a link to gone, which is not there"),
            ("link/model", "link is a link to gone, which is not there"),
        ] {
            let refused = create_all(&at(path)).expect_err(path);
            let refused = refused.source().expect("a reason").to_string();
            assert!(refused.contains(told), "{path}: {refused}");
        }
        create_all(&at("new/model")).expect("a folder");
    }
}
