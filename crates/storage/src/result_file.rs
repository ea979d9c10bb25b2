//! The file of a result that a user has named.

use std::fs::{File, OpenOptions};
use std::io::{Error, ErrorKind, Result, Write as _};
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use trainyard_diagnostic::{Code, Diagnostic, system_problem};

/// Most links that lead from one to the next (`MAXSYMLINKS` of Linux).
const LINKS_MAX: usize = 40;
/// Rights of a file before those that the process masks (`umask`) are taken away.
const MODE: u32 = 0o666;

/// The file of a result. It is written under a temporary name beside its own, and has its name when it is whole. A pipe or a
/// device stays what it is, and is written as it comes. A link keeps its place: the file that it names is replaced, or made. A file that
/// replaces another has its rights.
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
        Self::create_with_mode(path, MODE)
    }

    /// Creates the file with these rights, or opens the pipe or device.
    ///
    /// # Errors
    /// It cannot be created or opened.
    pub fn create_with_mode(path: &Path, mode: u32) -> Result<(Self, File)> {
        if path.metadata().is_ok_and(|found| !found.is_file()) {
            let file = File::create(path)?;
            let path = path.to_owned();
            return Ok((Self { path, aside: None }, file));
        }
        let path = linked_file(path)?;
        let aside = aside(&path);
        let replaced = path.metadata().ok().map(|found| found.permissions());
        let mut options = OpenOptions::new();
        // Nobody reads a private file by its temporary name.
        let mode = replaced.as_ref().map_or(mode, |found| mode & found.mode());
        options.write(true).create(true).truncate(true).mode(mode);
        let file = options.open(&aside)?;
        if let Some(replaced) = replaced {
            file.set_permissions(replaced)?;
        }
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
        if let Ok(file) = linked_file(path) {
            let _ = std::fs::remove_file(aside(&file));
        }
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
        match File::open(folder_of(&self.path))?.sync_all() {
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
    pub fn write(path: &Path, bytes: &[u8]) -> std::result::Result<(), Diagnostic> {
        let write = || {
            let (result, mut file) = Self::create(path)?;
            file.write_all(bytes)?;
            drop(file);
            result.publish()
        };
        write().map_err(|error| unwritten_of_size(path, &error, Some(bytes.len() as u64)))
    }
}

/// Returns the file that a path, perhaps a link, names. It need not exist.
///
/// # Errors
/// Links lead in a circle.
pub fn linked_file(path: &Path) -> Result<PathBuf> {
    let mut file = path.to_owned();
    for _ in 0..LINKS_MAX {
        if let Ok(found) = file.canonicalize() {
            return Ok(found);
        }
        let Ok(to) = file.read_link() else {
            return Ok(file);
        };
        file = match file.parent() {
            Some(folder) => folder.join(to),
            None => to,
        };
    }
    Err(rustix::io::Errno::LOOP.into())
}

/// Returns the diagnostic of the file of a result that cannot be written. It is made while the unfinished file is there: of a full disk, it
/// says how much of the file has found room.
pub fn unwritten(path: &Path, error: &Error) -> Diagnostic {
    unwritten_of_size(path, error, None)
}

/// Returns the diagnostic of a file of this size, if it is known, that cannot be written.
pub fn unwritten_of_size(path: &Path, error: &Error, size: Option<u64>) -> Diagnostic {
    let file = linked_file(path).unwrap_or_else(|_| path.to_owned());
    let name = match path.is_symlink() {
        true => format!("{}, a link to {},", path.display(), file.display()),
        false => path.display().to_string(),
    };
    let message = format!("{name} cannot be written: {error}");
    match error.kind() {
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded => full(&file, message, size),
        ErrorKind::NotFound | ErrorKind::NotADirectory => {
            let help = "make the folder of the file first, or choose another file";
            system_problem(error, message, (Code::E1201, help))
        }
        ErrorKind::IsADirectory => {
            let help = "a folder has that name: choose another file";
            system_problem(error, message, (Code::E1000, help))
        }
        _ => system_problem(
            error,
            message,
            (Code::E9002, "look at the disk, or choose another file"),
        ),
    }
}

/// Returns the diagnostic of a file for which its file system has no room.
fn full(file: &Path, message: String, size: Option<u64>) -> Diagnostic {
    let folder = folder_of(file);
    let free = match rustix::fs::statvfs(folder) {
        Ok(space) if space.f_blocks > 0 => {
            let bytes = |blocks: u64| blocks.saturating_mul(space.f_frsize);
            format!(
                "{} of {} bytes are free in {}",
                bytes(space.f_bavail),
                bytes(space.f_blocks),
                folder.display()
            )
        }
        _ => format!("{} has no room", folder.display()),
    };
    let needs = match (size, aside(file).metadata()) {
        (Some(size), _) => format!("{size} bytes"),
        (None, Ok(unfinished)) if unfinished.len() > 0 => {
            format!(
                "more than the {} bytes of it that were written",
                unfinished.len()
            )
        }
        (None, _) => "more".to_owned(),
    };
    Diagnostic::error(Code::E3006, message)
        .note(format!("{free}, and the file needs {needs}"))
        .help("free space there, or choose another file")
}

/// Returns the folder of a file.
fn folder_of(file: &Path) -> &Path {
    let parent = file.parent();
    let folder = parent.filter(|folder| !folder.as_os_str().is_empty());
    folder.unwrap_or(Path::new("."))
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

    #[test]
    fn a_link_to_a_file_that_is_not_there_stays_and_the_file_is_made() {
        let folder = tempfile::tempdir().expect("a folder");
        let at = |name: &str| folder.path().join(name);
        std::fs::create_dir(at("inner")).expect("there is room");
        symlink("inner/file", at("link")).expect("a link");
        symlink("link", at("link_to_link")).expect("a link");
        symlink("inner", at("folder")).expect("a link");
        symlink("../beside", at("inner/up")).expect("a link");
        for (link, file) in [
            ("link", "inner/file"),
            ("link_to_link", "inner/file"),
            ("folder/up", "beside"),
        ] {
            let (unfinished, _) = ResultFile::create(&at(link)).expect("created");
            drop(unfinished);
            assert!(!at(file).exists(), "{link}: nothing is left");
            ResultFile::write(&at(link), b"new").expect("written");
            assert!(at(link).is_symlink(), "{link}");
            assert_eq!(std::fs::read(at(file)).expect("readable"), b"new");
            std::fs::remove_file(at(file)).expect("removed");
        }
    }

    #[test]
    fn a_file_that_replaces_another_has_its_rights() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("file");
        for mode in [0o600, 0o640, 0o444, 0o666] {
            let _ = std::fs::remove_file(&file);
            std::fs::write(&file, b"old").expect("there is room");
            let rights = std::fs::Permissions::from_mode(mode);
            std::fs::set_permissions(&file, rights).expect("its owner may");
            ResultFile::write(&file, b"new").expect("written");
            assert_eq!(std::fs::read(&file).expect("readable"), b"new");
            let found = file.metadata().expect("it is there").permissions().mode();
            assert_eq!(found & 0o7777, mode, "{mode:o}");
        }
    }

    #[test]
    fn links_that_lead_to_no_folder_or_in_a_circle_are_refused_and_stay() {
        let folder = tempfile::tempdir().expect("a folder");
        let at = |name: &str| folder.path().join(name);
        symlink("absent/file", at("link")).expect("a link");
        symlink("two", at("one")).expect("a link");
        symlink("one", at("two")).expect("a link");
        for (link, code, part) in [
            ("link", Code::E1201, "absent/file"),
            ("one", Code::E9002, "links"),
        ] {
            let problem = ResultFile::write(&at(link), b"new").expect_err("no file");
            assert_eq!(problem.code, code, "{problem:?}");
            assert!(problem.message.contains(part), "{problem:?}");
            assert!(at(link).is_symlink());
        }
        let names = std::fs::read_dir(folder.path()).expect("readable");
        assert_eq!(names.count(), 3, "nothing is left beside");
    }

    #[test]
    fn a_full_disk_is_told_with_its_folder_and_what_has_found_room() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("file");
        let (_unfinished, mut out) = ResultFile::create(&file).expect("created");
        out.write_all(b"half").expect("there is room");
        // ENOSPC and EDQUOT.
        for number in [28, 122] {
            let problem = unwritten(&file, &Error::from_raw_os_error(number));
            assert_eq!(problem.code, Code::E3006);
            let text = problem.render();
            let folder = folder.path().display().to_string();
            for part in [&folder, "bytes are free", "more than the 4 bytes"] {
                assert!(text.contains(part), "{part}: {text}");
            }
        }
    }
}
