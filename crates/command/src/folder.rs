//! A temporary folder.

use std::fs::{DirBuilder, DirEntry, File};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{DirBuilderExt as _, FileTypeExt as _, MetadataExt as _};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use trainyard_diagnostic::{Code, Diagnostic, system_problem};

/// Prefix of the names of such folders. A UUID follows.
const PREFIX: &str = "trainyard-";
/// File in the folder that its process keeps locked.
const LOCK: &str = "lock";
/// Age from which on a folder that a dead process has left is removed.
const LEFT_BEHIND_AFTER: Duration = Duration::from_secs(3600);

/// A folder that only this user may enter. It is removed with its contents when this value is dropped. A folder that a killed
/// process has left is removed by a later one.
#[derive(Debug)]
pub struct Folder {
    path: PathBuf,
    /// Other processes see by the lock that this one lives.
    _lock: File,
}

impl Folder {
    /// Creates the folder with a unique name.
    ///
    /// # Errors
    /// The folder cannot be created, or exists already.
    pub fn new() -> Result<Self, Diagnostic> {
        let parent = std::env::temp_dir();
        sweep(&parent, LEFT_BEHIND_AFTER);
        let path = parent.join(format!("{PREFIX}{}", uuid::Uuid::new_v4().simple()));
        let made = DirBuilder::new()
            .mode(0o700)
            .create(&path)
            .and_then(|()| File::create_new(path.join(LOCK)))
            .and_then(|lock| lock.lock().map(|()| lock));
        let lock = made.map_err(|error| {
            let message = format!(
                "the temporary folder {} cannot be made: {error}",
                path.display()
            );
            let otherwise = match error.kind() {
                // A restart finds the same setting.
                ErrorKind::NotFound | ErrorKind::NotADirectory => {
                    (Code::E1202, "let TMPDIR name a folder that exists")
                }
                _ => (Code::E9002, "TMPDIR may name another place"),
            };
            system_problem(&error, message, otherwise)
        })?;
        Ok(Self { path, _lock: lock })
    }

    /// Returns the path of the folder.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.path);
    }
}

/// Removes the folders of this user whose processes are dead. A folder that cannot be looked at stays.
fn sweep(parent: &Path, age_min: Duration) {
    let Ok(entries) = std::fs::read_dir(parent) else {
        return;
    };
    for entry in entries.flatten() {
        if is_left_behind(&entry, age_min).unwrap_or(false) {
            let _ = std::fs::remove_dir_all(entry.path());
        }
    }
}

fn is_left_behind(entry: &DirEntry, age_min: Duration) -> io::Result<bool> {
    let name = entry.file_name();
    let is_named = name
        .to_str()
        .and_then(|name| name.strip_prefix(PREFIX))
        .is_some_and(|id| id.len() == 32 && id.bytes().all(|byte| byte.is_ascii_hexdigit()));
    if !is_named {
        return Ok(false);
    }
    let found = entry.metadata()?;
    let is_own = found.is_dir() && found.uid() == rustix::process::geteuid().as_raw();
    if !is_own || found.modified()?.elapsed().unwrap_or_default() < age_min {
        return Ok(false);
    }
    match File::open(entry.path().join(LOCK)) {
        Ok(lock) => Ok(lock.try_lock().is_ok()),
        // Earlier releases had no lock.
        Err(error) if error.kind() == ErrorKind::NotFound => holds_dead_sockets(&entry.path()),
        Err(error) => Err(error),
    }
}

/// Returns whether a folder holds nothing but sockets at which no process listens.
fn holds_dead_sockets(folder: &Path) -> io::Result<bool> {
    for entry in std::fs::read_dir(folder)? {
        let entry = entry?;
        let is_dead = entry.file_type()?.is_socket()
            && UnixStream::connect(entry.path())
                .is_err_and(|error| error.kind() == ErrorKind::ConnectionRefused);
        if !is_dead {
            return Ok(false);
        }
    }
    Ok(true)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;
    use std::os::unix::net::UnixListener;

    use super::*;

    #[test]
    fn only_its_user_may_enter_a_folder_and_it_goes_with_its_value() {
        let folder = Folder::new().expect("a temporary folder");
        let found = std::fs::metadata(folder.path()).expect("it is there");
        assert_eq!(found.permissions().mode() & 0o777, 0o700);
        let path = folder.path().to_owned();
        drop(folder);
        assert!(!path.exists());
    }

    #[test]
    fn folders_of_dead_processes_are_removed_and_no_others() {
        let parent = tempfile::tempdir().expect("a temporary folder");
        let folder = |number: u8| {
            let path = parent.path().join(format!("{PREFIX}{number:032x}"));
            std::fs::create_dir(&path).expect("a new folder");
            path
        };
        let listen = |path: &Path| UnixListener::bind(path.join("ps-0.sock")).expect("a socket");
        let lock = |path: &Path| {
            let lock = File::create_new(path.join(LOCK)).expect("a new file");
            lock.lock().expect("nobody else has it");
            lock
        };
        let killed = folder(1);
        drop((lock(&killed), listen(&killed)));
        let of_earlier_release = folder(2);
        drop(listen(&of_earlier_release));
        let locked = folder(3);
        let _lock = lock(&locked);
        let listening = folder(4);
        let _listener = listen(&listening);
        let with_files = folder(5);
        std::fs::write(with_files.join("thesis.tex"), "mine").expect("a file");
        let of_other_name = parent.path().join("trainyard-runs");
        std::fs::create_dir(&of_other_name).expect("a folder");
        sweep(parent.path(), LEFT_BEHIND_AFTER);
        assert!(killed.exists(), "it is too young");
        sweep(parent.path(), Duration::ZERO);
        assert!(!killed.exists() && !of_earlier_release.exists());
        for stays in [locked, listening, with_files, of_other_name] {
            assert!(stays.exists(), "{}", stays.display());
        }
    }
}
