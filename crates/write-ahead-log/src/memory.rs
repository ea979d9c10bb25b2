//! The folder of a log in shared memory: a file system that the kernel keeps in memory, so that its files outlive every
//! process, and no disk is written.
//!
//! ```text
//! FOLDER/memory                          the path of the folder in shared memory
//! /dev/shm/trainyard-UID/RANDOM/origin   FOLDER
//! /dev/shm/trainyard-UID/RANDOM/lock     held by the process that uses the log
//! /dev/shm/trainyard-UID/RANDOM/*.log    files of segments
//! /dev/shm/trainyard-UID/RANDOM/*        cuts of the log, which its user writes
//! ```
//!
//! The log's own folder names the one in shared memory. So a folder that is removed takes its log along: whoever opens a
//! log of the same user next removes folders in shared memory that no log names.

use std::fs::File;
use std::hash::{BuildHasher as _, Hasher as _, RandomState};
use std::io::ErrorKind;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::Error;

/// Name of the file that names the folder in shared memory.
const POINTER: &str = "memory";
/// Name of the file that names the folder of the log.
const ORIGIN: &str = "origin";
/// Name of the file that is locked.
const LOCK: &str = "lock";

/// Where a log may lie in memory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SharedMemory {
    /// A folder of a file system in memory, such as `/dev/shm`.
    pub folder: PathBuf,
    /// Most bytes of the log and its cuts there. What does not fit lies in the log's own folder.
    pub bytes_max: u64,
}

impl SharedMemory {
    /// Most bytes of cuts: three eighths. That is room for a chain of cuts that has twice the bytes of the store, and for
    /// the cut that replaces it, if the store has an eighth of the bytes.
    fn cut_bytes_max(&self) -> u64 {
        self.bytes_max / 8 * 3
    }
}

/// Where the cuts of a log may lie in memory.
#[derive(Debug, Clone, Default)]
pub struct CutMemory {
    /// The folder of the log in shared memory.
    pub folder: PathBuf,
    /// Most bytes of cuts there; 0 = no new cut.
    pub bytes_max: u64,
    /// Bytes of cuts there. The log has the rest of the memory.
    used: Arc<AtomicU64>,
}

impl CutMemory {
    /// Returns a folder for cuts, of `bytes_max` bytes at most.
    pub fn new(folder: PathBuf, bytes_max: u64) -> Self {
        Self {
            folder,
            bytes_max,
            used: Arc::default(),
        }
    }

    /// Sets the bytes of the cuts there.
    pub fn set_used(&self, bytes: u64) {
        self.used.store(bytes, Ordering::Relaxed);
    }

    fn used(&self) -> u64 {
        self.used.load(Ordering::Relaxed)
    }
}

/// The folder of a log in shared memory, locked.
#[derive(Debug)]
pub(crate) struct MemoryFolder {
    pub(crate) path: PathBuf,
    bytes_max: u64,
    pub(crate) cuts: CutMemory,
    /// Releases the lock when it is dropped.
    _lock: File,
}

/// Returns the folder in shared memory that the log of `folder` names, if there is one.
pub(crate) fn memory_of(folder: &Path) -> Result<Option<PathBuf>, Error> {
    let pointer = folder.join(POINTER);
    match std::fs::read_to_string(&pointer) {
        Ok(text) => Ok(Some(PathBuf::from(text.trim())).filter(|path| path.is_dir())),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(Error::io("read", &pointer)(error)),
    }
}

impl MemoryFolder {
    /// Opens the folder in shared memory that the log of `folder` names, or creates one and names it.
    ///
    /// # Errors
    /// A folder or file cannot be created.
    pub(crate) fn open(folder: &Path, memory: &SharedMemory) -> Result<Self, Error> {
        let folder = std::path::absolute(folder).map_err(Error::io("look at", folder))?;
        let all = memory
            .folder
            .join(format!("trainyard-{}", rustix::process::getuid().as_raw()));
        let path = match memory_of(&folder)? {
            Some(path) => path,
            None => Self::create(&folder, &all)?,
        };
        let lock = path.join(LOCK);
        let file = File::create(&lock).map_err(Error::io("create", &lock))?;
        // The log's own folder is locked already. This lock tells other processes that the memory is in use.
        file.try_lock()
            .map_err(|_| Error::Taken { path: lock.clone() })?;
        remove_orphans(&all);
        Ok(Self {
            cuts: CutMemory::new(path.clone(), memory.cut_bytes_max()),
            path,
            bytes_max: memory.bytes_max,
            _lock: file,
        })
    }

    /// Returns the most bytes of segments there: what cuts leave.
    pub(crate) fn log_bytes_max(&self) -> u64 {
        self.bytes_max.saturating_sub(self.cuts.used())
    }

    fn create(folder: &Path, all: &Path) -> Result<PathBuf, Error> {
        let mut builder = std::fs::DirBuilder::new();
        // A log holds gradients, from which data can be inferred.
        let builder = builder.recursive(true).mode(0o700);
        builder.create(all).map_err(Error::io("create", all))?;
        check_owner(all)?;
        let random = || RandomState::new().build_hasher().finish();
        let path = all.join(format!("{:016x}{:016x}", random(), random()));
        // The log names the folder before it exists, so that no other process takes it for one that no log names.
        Self::name(folder, &path)?;
        builder.create(&path).map_err(Error::io("create", &path))?;
        let origin = path.join(ORIGIN);
        let text = folder.to_string_lossy();
        std::fs::write(&origin, text.as_bytes()).map_err(Error::io("write", &origin))?;
        Ok(path)
    }

    /// Makes the log of `folder` name `path`.
    pub(crate) fn name(folder: &Path, path: &Path) -> Result<(), Error> {
        let pointer = folder.join(POINTER);
        let text = path.to_string_lossy();
        std::fs::write(&pointer, text.as_bytes()).map_err(Error::io("write", &pointer))
    }
}

/// Returns the paths of a log's files in a folder in shared memory.
///
/// # Errors
/// The folder cannot be read.
pub(crate) fn files_of(memory: &Path) -> Result<Vec<PathBuf>, Error> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(memory).map_err(Error::io("read", memory))? {
        let entry = entry.map_err(Error::io("read", memory))?;
        if ![ORIGIN, LOCK].iter().any(|own| entry.file_name() == *own) {
            found.push(entry.path());
        }
    }
    Ok(found)
}

/// Checks that a folder in a place where everybody may create folders is of this user, and closed to others.
fn check_owner(folder: &Path) -> Result<(), Error> {
    let found = std::fs::symlink_metadata(folder).map_err(Error::io("look at", folder))?;
    let is_own = found.is_dir() && found.uid() == rustix::process::getuid().as_raw();
    if is_own && found.mode() & 0o077 == 0 {
        return Ok(());
    }
    let problem = "it must be a folder of this user that no other user may enter";
    let problem = std::io::Error::new(ErrorKind::PermissionDenied, problem);
    Err(Error::io("use", folder)(problem))
}

/// Removes the folders of logs that no longer exist. One that cannot be removed is left for the next call.
fn remove_orphans(all: &Path) {
    let folders = std::fs::read_dir(all).into_iter().flatten();
    for path in folders.filter_map(|entry| Some(entry.ok()?.path())) {
        let Ok(origin) = std::fs::read_to_string(path.join(ORIGIN)) else {
            continue;
        };
        let is_named =
            memory_of(Path::new(&origin)).is_ok_and(|named| named.as_deref() != Some(&path));
        // The log may be of another mount namespace, in which it exists and is in use.
        let is_free = File::open(path.join(LOCK)).is_ok_and(|lock| lock.try_lock().is_ok());
        if is_named && is_free {
            let _ = std::fs::remove_dir_all(&path);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_of_a_log_that_was_removed_is_removed_by_the_next_one() {
        let scratch = tempfile::tempdir().expect("a folder");
        let memory = SharedMemory {
            folder: scratch.path().join("shm"),
            bytes_max: 1 << 20,
        };
        let log = |name: &str| {
            let path = scratch.path().join(name);
            std::fs::create_dir_all(&path).expect("made");
            path
        };
        let first = MemoryFolder::open(&log("first"), &memory).expect("opened");
        let kept = MemoryFolder::open(&log("kept"), &memory).expect("opened");
        let used = MemoryFolder::open(&log("used"), &memory).expect("opened");
        let first_path = first.path.clone();
        let kept_path = kept.path.clone();
        drop((first, kept));
        std::fs::remove_dir_all(scratch.path().join("first")).expect("removed");
        std::fs::remove_dir_all(scratch.path().join("used")).expect("removed");
        let next = MemoryFolder::open(&log("next"), &memory).expect("opened");
        assert!(!first_path.exists(), "no log names it");
        assert!(kept_path.exists() && used.path.exists() && next.path.exists());
        let again = MemoryFolder::open(&log("kept"), &memory).expect("opened");
        assert_eq!(again.path, kept_path);
    }

    #[test]
    fn a_folder_that_others_may_enter_is_not_used() {
        use std::os::unix::fs::PermissionsExt as _;

        let scratch = tempfile::tempdir().expect("a folder");
        let all = scratch.path().join("all");
        std::fs::create_dir(&all).expect("made");
        let mode = |mode| std::fs::set_permissions(&all, std::fs::Permissions::from_mode(mode));
        mode(0o777).expect("changed");
        let message = check_owner(&all).expect_err("open to all").to_string();
        assert!(message.contains("no other user may enter"), "{message}");
        mode(0o700).expect("changed");
        check_owner(&all).expect("its own");
        let link = scratch.path().join("link");
        std::os::unix::fs::symlink(&all, &link).expect("made");
        assert!(check_owner(&link).is_err(), "a link may lead anywhere");
    }
}
