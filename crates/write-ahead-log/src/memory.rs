//! The folder of a log in shared memory: a file system that the kernel keeps in memory, so that its files outlive every
//! process, and no disk is written.
//!
//! ```text
//! FOLDER/memory                          the path of the folder in shared memory
//! /dev/shm/trainyard-UID/RANDOM/origin   FOLDER, its device and inode, and the mount namespace of its process
//! /dev/shm/trainyard-UID/RANDOM/lock     held by the process that uses the log
//! /dev/shm/trainyard-UID/RANDOM/*.log    files of segments
//! /dev/shm/trainyard-UID/RANDOM/*        cuts of the log, which its user writes
//! ```
//!
//! The log's own folder names the one in shared memory, which names its origin. Both must agree: a copy of a log's folder
//! names the memory of the original and has none itself, and a folder that anybody else has made names whatever they like.
//! A folder that is removed takes its log along: whoever opens a log of the same user later removes folders in shared
//! memory whose origin is known to be gone.

use std::fs::File;
use std::hash::{BuildHasher as _, Hasher as _, RandomState};
use std::io::ErrorKind;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _};
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

use tracing::warn;
use trainyard_storage::open_lock;

use crate::Error;

/// Name of the file that names the folder in shared memory.
const POINTER: &str = "memory";
/// Name of the file that names the folder of the log.
const ORIGIN: &str = "origin";
/// Name of the file that is locked.
const LOCK: &str = "lock";
/// Beginning of the name of the folder with a user's logs, before the number of the user.
const USER_FOLDER: &str = "trainyard-";

/// Where a log may lie in memory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SharedMemory {
    /// A folder of a file system in memory, such as `/dev/shm`.
    pub folder: PathBuf,
    /// Most bytes of the log and its cuts there. What does not fit lies in the log's own folder.
    pub bytes_max: u64,
}

/// Returns the most bytes of cuts, of a log that may have `bytes_max` in memory: three eighths. That is room for a chain of
/// cuts that has twice the bytes of the store, and for the cut that replaces it, if the store has an eighth of the bytes.
fn cut_bytes_max(bytes_max: u64) -> u64 {
    bytes_max / 8 * 3
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

    /// Returns whether a cut of this size may be created there: a part of the file system stays free for its other users.
    pub fn has_room_for(&self, bytes: u64) -> bool {
        has_room_for(&self.folder, bytes)
    }

    fn used(&self) -> u64 {
        self.used.load(Ordering::Relaxed)
    }
}

/// The folder of a log in shared memory, locked.
#[derive(Debug)]
pub(crate) struct MemoryFolder {
    pub(crate) path: PathBuf,
    /// Most bytes of the log and its cuts.
    pub(crate) bytes_max: u64,
    pub(crate) cuts: CutMemory,
    /// Releases the lock when it is dropped.
    _lock: File,
}

/// Age of the latest file of a folder in shared memory from which on the folder may be removed, if its origin is gone. An
/// origin that is being moved, or a log that is being set aside, is not gone for that long.
const ORPHAN_AGE_MIN: Duration = Duration::from_secs(600);
/// One in so many bytes of the file system in memory is left to its other users, and no more than these bytes.
const RESERVE_DIVISOR: u64 = 8;
const RESERVE_BYTES_MAX: u64 = 1 << 30;

/// What a log has in the shared memory of this machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MemoryUse {
    /// Name of the log: that of its folder, such as `ps-0`.
    pub log: String,
    /// The folder in shared memory.
    pub folder: PathBuf,
    /// Bytes that its files take; `None` if this user may not read the folder.
    pub bytes: Option<u64>,
}

impl MemoryUse {
    /// Returns what the logs in a folder have in the shared memory of this machine, by the name of the log. A log that names
    /// a folder of another machine, or of the log of which it is a copy, has nothing here. No log is locked or changed.
    ///
    /// # Errors
    /// A folder or file cannot be read.
    pub fn of_logs(logs: &Path) -> Result<Vec<Self>, Error> {
        let entries = match std::fs::read_dir(logs) {
            Ok(entries) => entries,
            Err(error) if is_absence(&error) => return Ok(Vec::new()),
            Err(error) => return Err(Error::io("read", logs)(error)),
        };
        let mut found = Vec::new();
        for entry in entries {
            let log = entry.map_err(Error::io("read", logs))?.path();
            found.extend(Self::of(&log)?);
        }
        found.sort_by(|one, other| one.log.cmp(&other.log));
        Ok(found)
    }

    fn of(log: &Path) -> Result<Option<Self>, Error> {
        let pointer = log.join(POINTER);
        let folder = match std::fs::read_to_string(&pointer) {
            Ok(text) => PathBuf::from(text.trim()),
            Err(error) if is_absence(&error) => return Ok(None),
            Err(error) => return Err(Error::io("read", &pointer)(error)),
        };
        if user_of(&folder).is_none() {
            return Ok(None);
        }
        let bytes = match space_of(&folder) {
            Ok(0) => return Ok(None),
            Ok(bytes) => Some(bytes),
            Err(error) if is_absence(&error) => return Ok(None),
            Err(error) if error.kind() == ErrorKind::PermissionDenied => None,
            Err(error) => return Err(Error::io("read", &folder)(error)),
        };
        let absolute = std::path::absolute(log).map_err(Error::io("look at", log))?;
        if bytes.is_some()
            && Origin::read(&folder)?
                .of_another(&absolute, &folder)?
                .is_some()
        {
            return Ok(None);
        }
        let name = log.file_name().unwrap_or_default();
        Ok(Some(Self {
            log: name.to_string_lossy().into_owned(),
            folder,
            bytes,
        }))
    }
}

/// Returns the bytes that the log and its cuts take in a folder in shared memory.
fn space_of(folder: &Path) -> std::io::Result<u64> {
    let mut bytes = 0;
    for entry in std::fs::read_dir(folder)? {
        let entry = entry?;
        if [ORIGIN, LOCK].iter().any(|own| entry.file_name() == *own) {
            continue;
        }
        match entry.metadata() {
            // A file may be longer than what it takes.
            Ok(file) => bytes += file.blocks().saturating_mul(512),
            Err(error) if is_absence(&error) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(bytes)
}

/// The folder in shared memory that the folder of a log names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Named {
    /// No folder.
    Nothing,
    /// The folder of this log.
    Own(PathBuf),
    /// A folder that does not exist.
    Missing(PathBuf),
    /// A folder that is not of this log, for this reason.
    Foreign(PathBuf, String),
}

impl Named {
    /// Returns what the folder of a log names.
    ///
    /// # Errors
    /// A file cannot be read.
    pub(crate) fn by(folder: &Path) -> Result<Self, Error> {
        let pointer = folder.join(POINTER);
        let text = match std::fs::read_to_string(&pointer) {
            Ok(text) => text,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Self::Nothing),
            Err(error) => return Err(Error::io("read", &pointer)(error)),
        };
        let path = PathBuf::from(text.trim());
        let foreign = |why: &str| Ok(Self::Foreign(path.clone(), why.to_owned()));
        if !has_form(&path) {
            return foreign("it is not a folder that a parameter server makes");
        }
        match std::fs::symlink_metadata(&path) {
            Ok(_) => {}
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Self::Missing(path)),
            Err(error) => return Err(Error::io("look at", &path)(error)),
        }
        for folder in path.parent().into_iter().chain([path.as_path()]) {
            if let Err(error) = check_owner(folder) {
                return foreign(&format!("{error}: {}", source_of(&error)));
            }
        }
        let folder = std::path::absolute(folder).map_err(Error::io("look at", folder))?;
        match Origin::read(&path)?.of_another(&folder, &path)? {
            Some(why) => foreign(&why),
            None => Ok(Self::Own(path)),
        }
    }

    /// Returns the folder of this log.
    pub(crate) fn own(self) -> Option<PathBuf> {
        match self {
            Self::Own(path) => Some(path),
            Self::Nothing | Self::Missing(_) | Self::Foreign(..) => None,
        }
    }
}

fn source_of(error: &Error) -> String {
    std::error::Error::source(error).map_or_else(String::new, ToString::to_string)
}

/// Returns whether a path has the form of a folder that [`MemoryFolder::create`] makes for this user.
fn has_form(path: &Path) -> bool {
    user_of(path) == Some(rustix::process::getuid().as_raw())
}

/// Returns the user in whose folder a log lies, by the form of its path: `../trainyard-UID/RANDOM`.
fn user_of(path: &Path) -> Option<u32> {
    let name = |path: &Path| {
        path.file_name()
            .and_then(|name| name.to_str())
            .map(str::to_owned)
    };
    let is_random = name(path)
        .is_some_and(|name| name.len() == 32 && name.bytes().all(|byte| byte.is_ascii_hexdigit()));
    let is_plain = path
        .components()
        .all(|part| !matches!(part, Component::ParentDir));
    let of_user = path.parent().and_then(name)?;
    let user = of_user.strip_prefix(USER_FOLDER)?.parse().ok()?;
    (path.is_absolute() && is_plain && is_random).then_some(user)
}

/// Returns the name of the folder of this user's logs.
fn user_folder() -> String {
    format!("{USER_FOLDER}{}", rustix::process::getuid().as_raw())
}

/// The folder of a log, as its folder in shared memory records it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Origin {
    /// Path of the folder; empty if nothing is recorded.
    path: PathBuf,
    /// Device and inode of the folder. Earlier releases did not record them.
    identity: Option<(u64, u64)>,
    /// Mount namespace of the process that used it.
    namespace: Option<String>,
}

impl Origin {
    /// Returns the origin of the log in a folder.
    fn of(folder: &Path) -> Result<Self, Error> {
        let found = std::fs::metadata(folder).map_err(Error::io("look at", folder))?;
        Ok(Self {
            path: folder.to_owned(),
            identity: Some((found.dev(), found.ino())),
            namespace: mount_namespace(),
        })
    }

    /// Reads the origin that a folder in shared memory records.
    fn read(memory: &Path) -> Result<Self, Error> {
        let path = memory.join(ORIGIN);
        match std::fs::read_to_string(&path) {
            Ok(text) => Ok(Self::parse(&text)),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(Self::default()),
            Err(error) => Err(Error::io("read", &path)(error)),
        }
    }

    fn parse(text: &str) -> Self {
        let mut lines = text.lines();
        let path = PathBuf::from(lines.next().unwrap_or_default());
        let mut origin = Self {
            path,
            ..Self::default()
        };
        for line in lines {
            match line.split_once(' ') {
                Some(("identity", numbers)) => {
                    let numbers = numbers.split_once(' ');
                    let numbers = numbers.and_then(|(device, inode)| {
                        Some((device.parse().ok()?, inode.parse().ok()?))
                    });
                    origin.identity = numbers;
                }
                Some(("namespace", name)) => origin.namespace = Some(name.to_owned()),
                _ => {}
            }
        }
        origin
    }

    fn write(&self, memory: &Path) -> Result<(), Error> {
        let mut text = format!("{}\n", self.path.display());
        if let Some((device, inode)) = self.identity {
            text.push_str(&format!("identity {device} {inode}\n"));
        }
        if let Some(namespace) = &self.namespace {
            text.push_str(&format!("namespace {namespace}\n"));
        }
        let path = memory.join(ORIGIN);
        std::fs::write(&path, text.as_bytes()).map_err(Error::io("write", &path))
    }

    /// Returns why `memory` belongs to another log than that of `folder`, which names it; `None` if it does not. A folder that
    /// was moved, or is mounted anew, is the same one. A copy is another one as long as the original exists.
    fn of_another(&self, folder: &Path, memory: &Path) -> Result<Option<String>, Error> {
        let found = std::fs::metadata(folder).map_err(Error::io("look at", folder))?;
        let is_same = self.identity == Some((found.dev(), found.ino()));
        if is_same || self.path == folder || self.path.as_os_str().is_empty() {
            return Ok(None);
        }
        let pointer = self.path.join(POINTER);
        match std::fs::read_to_string(&pointer) {
            Ok(text) if Path::new(text.trim()) == memory => Ok(Some(format!(
                "it is the memory of the log in {}, of which this folder is a copy",
                self.path.display()
            ))),
            Ok(_) => Ok(None),
            Err(error) if is_absence(&error) => Ok(None),
            Err(error) => Err(Error::io("read", &pointer)(error)),
        }
    }

    /// Returns whether the folder is known to be gone, or to have another memory than `memory`: this process would see it if
    /// it existed.
    fn is_gone(&self, memory: &Path) -> bool {
        if self.path.as_os_str().is_empty()
            || self.namespace.is_some() && self.namespace != mount_namespace()
        {
            return false;
        }
        match std::fs::metadata(&self.path) {
            Ok(_) => match std::fs::read_to_string(self.path.join(POINTER)) {
                Ok(text) => Path::new(text.trim()) != memory,
                Err(error) => is_absence(&error),
            },
            Err(error) if is_absence(&error) => {
                // A share that is not mounted shows the device of its mount point.
                let above = self
                    .path
                    .ancestors()
                    .find_map(|above| std::fs::metadata(above).ok());
                let device = above.map(|above| above.dev());
                self.identity
                    .is_none_or(|(of_origin, _)| device == Some(of_origin))
            }
            Err(_) => false,
        }
    }
}

fn is_absence(error: &std::io::Error) -> bool {
    matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory)
}

/// Returns the name of this process's mount namespace; `None` without `/proc`.
fn mount_namespace() -> Option<String> {
    let name = std::fs::read_link("/proc/self/ns/mnt").ok()?;
    Some(name.to_string_lossy().into_owned())
}

impl MemoryFolder {
    /// Opens the folder in shared memory that the log of `folder` names, or creates one and names it.
    ///
    /// # Errors
    /// A folder or file cannot be created.
    pub(crate) fn open(folder: &Path, memory: &SharedMemory) -> Result<Self, Error> {
        let folder = std::path::absolute(folder).map_err(Error::io("look at", folder))?;
        let all = memory.folder.join(user_folder());
        let path = match Named::by(&folder)? {
            Named::Own(path) => {
                // It may have been moved since.
                Origin::of(&folder)?.write(&path)?;
                path
            }
            Named::Nothing => Self::create(&folder, &all)?,
            Named::Missing(path) => {
                warn!(
                    log = %folder.display(),
                    memory = %path.display(),
                    "the part of this log that lay in shared memory is not on this machine any more: the updates in it are lost, \
                    and the server goes back to the latest checkpoint"
                );
                Self::create(&folder, &all)?
            }
            Named::Foreign(path, why) => {
                warn!(
                    log = %folder.display(),
                    memory = %path.display(),
                    "this log names a folder in shared memory that is not its own, and does not use it: {why}. The server \
                    continues from the latest checkpoint of its model_dir"
                );
                Self::create(&folder, &all)?
            }
        };
        let lock = path.join(LOCK);
        let file = open_lock(&lock).map_err(Error::io("create", &lock))?;
        // The memory is in use from now on.
        let touched = file.set_modified(SystemTime::now());
        touched.map_err(Error::io("change", &lock))?;
        // The log's own folder is locked already. This lock tells other processes that the memory is in use.
        file.try_lock().map_err(|_| Error::Taken {
            holder: holder_of(&lock),
            path: lock.clone(),
        })?;
        remove_orphans(&all);
        let bytes_max = memory.bytes_max.min(share_of(&path)?);
        Ok(Self {
            cuts: CutMemory::new(path.clone(), cut_bytes_max(bytes_max)),
            path,
            bytes_max,
            _lock: file,
        })
    }

    /// Returns whether a file of this size may be created there: a part of the file system stays free for its other users.
    pub(crate) fn has_room_for(&self, bytes: u64) -> bool {
        has_room_for(&self.path, bytes)
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
        Origin::of(folder)?.write(&path)?;
        Ok(path)
    }

    /// Makes the log of `folder` name no folder.
    pub(crate) fn forget(folder: &Path) -> Result<(), Error> {
        let pointer = folder.join(POINTER);
        match std::fs::remove_file(&pointer) {
            Err(error) if !is_absence(&error) => Err(Error::io("remove", &pointer)(error)),
            _ => Ok(()),
        }
    }

    /// Makes the log of `folder` name `path`.
    pub(crate) fn name(folder: &Path, path: &Path) -> Result<(), Error> {
        let pointer = folder.join(POINTER);
        let text = path.to_string_lossy();
        std::fs::write(&pointer, text.as_bytes()).map_err(Error::io("write", &pointer))
    }
}

/// Returns the process that holds the lock of a file, in words.
pub(crate) fn holder_of(path: &Path) -> String {
    let found = std::fs::metadata(path).ok().and_then(|file| {
        let locks = std::fs::read_to_string("/proc/locks").ok()?;
        pid_of(&locks, file.ino())
    });
    let Some(pid) = found else {
        return "another process".to_owned();
    };
    let command = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    let command = String::from_utf8_lossy(&command).replace('\0', " ");
    format!("process {pid} ({})", command.trim())
}

/// Returns the process that holds the lock of a file, by the kernel's list of locks (proc(5)).
fn pid_of(locks: &str, inode: u64) -> Option<u32> {
    locks.lines().find_map(|line| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let [_, "FLOCK", _, _, pid, file, ..] = words[..] else {
            return None;
        };
        let (_, number) = file.rsplit_once(':')?;
        (number.parse() == Ok(inode)).then(|| pid.parse().ok())?
    })
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

/// Returns the part of a file system in memory that the log in `folder` may take: half of what is free for it, which its own
/// files are.
///
/// # Errors
/// The folder cannot be read.
fn share_of(folder: &Path) -> Result<u64, Error> {
    let space =
        rustix::fs::statvfs(folder).map_err(|error| Error::io("look at", folder)(error.into()))?;
    let mut free = space.f_bavail.saturating_mul(space.f_frsize);
    for file in files_of(folder)? {
        let found = std::fs::metadata(&file).map_err(Error::io("look at", &file))?;
        // A file may be longer than what it takes.
        free = free.saturating_add(found.blocks().saturating_mul(512));
    }
    Ok(free / 2)
}

/// Returns whether a file of this size leaves the other users of a file system their part of it.
fn has_room_for(folder: &Path, bytes: u64) -> bool {
    let Ok(space) = rustix::fs::statvfs(folder) else {
        return false;
    };
    let size = space.f_blocks.saturating_mul(space.f_frsize);
    let reserve = (size / RESERVE_DIVISOR).min(RESERVE_BYTES_MAX);
    space.f_bavail.saturating_mul(space.f_frsize) >= bytes.saturating_add(reserve)
}

/// Removes the folders of logs that are known to be gone. One that cannot be removed is left for the next call.
fn remove_orphans(all: &Path) {
    let folders = std::fs::read_dir(all).into_iter().flatten();
    for path in folders.filter_map(|entry| Some(entry.ok()?.path())) {
        if !has_form(&path) || age_of(&path).is_none_or(|age| age < ORPHAN_AGE_MIN) {
            continue;
        }
        let is_gone = Origin::read(&path).is_ok_and(|origin| origin.is_gone(&path));
        let is_free = || File::open(path.join(LOCK)).is_ok_and(|lock| lock.try_lock().is_ok());
        if is_gone && is_free() {
            let _ = std::fs::remove_dir_all(&path);
        }
    }
}

/// Returns the time since the latest change of a file in a folder; `None` if it is not known.
fn age_of(folder: &Path) -> Option<Duration> {
    let mut latest = std::fs::metadata(folder).ok()?.modified().ok()?;
    for entry in std::fs::read_dir(folder).ok()? {
        latest = latest.max(entry.ok()?.metadata().ok()?.modified().ok()?);
    }
    latest.elapsed().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Places for logs, and shared memory for them.
    struct Scratch {
        folder: tempfile::TempDir,
        memory: SharedMemory,
    }

    impl Scratch {
        fn new() -> Self {
            let folder = tempfile::tempdir().expect("a folder");
            let memory = SharedMemory {
                folder: folder.path().join("shm"),
                bytes_max: 1 << 20,
            };
            Self { folder, memory }
        }

        fn log(&self, name: &str) -> PathBuf {
            let path = self.folder.path().join(name);
            std::fs::create_dir_all(&path).expect("made");
            path
        }

        fn open(&self, log: &Path) -> MemoryFolder {
            MemoryFolder::open(log, &self.memory).expect("opened")
        }

        /// Makes the files of a folder in shared memory older than anything that is left in peace.
        fn age(memory: &Path) {
            let then = std::time::SystemTime::now() - 2 * ORPHAN_AGE_MIN;
            let entries = std::fs::read_dir(memory).expect("readable");
            let entries = entries.map(|entry| entry.expect("readable").path());
            for path in entries.chain([memory.to_owned()]) {
                let file = File::open(path).expect("there");
                file.set_modified(then).expect("changed");
            }
        }
    }

    #[test]
    fn the_holder_of_a_lock_is_named() {
        let locks = "1: POSIX  ADVISORY  WRITE 17 fd:01:99 0 EOF\n2: FLOCK  ADVISORY  WRITE 4711 fd:01:99 0 EOF\n";
        assert_eq!((pid_of(locks, 99), pid_of(locks, 9)), (Some(4711), None));
        let folder = tempfile::tempdir().expect("a folder");
        let lock = folder.path().join("lock");
        let file = open_lock(&lock).expect("it is created");
        assert_eq!(holder_of(&lock), "another process");
        file.try_lock().expect("it is free");
        let own = format!("process {} (", std::process::id());
        assert!(holder_of(&lock).starts_with(&own), "{}", holder_of(&lock));
    }

    #[test]
    fn memory_of_a_log_that_is_gone_is_removed_by_a_later_one_and_no_other() {
        let scratch = Scratch::new();
        let names = ["removed", "kept", "used", "new", "elsewhere", "unmounted"];
        let opened = names.map(|name| (scratch.log(name), scratch.open(&scratch.log(name))));
        let paths = opened.each_ref().map(|(_, memory)| memory.path.clone());
        let [removed, kept, used, new, elsewhere, unmounted] = opened;
        let _in_use = used.1;
        for (log, memory) in [&removed, &new, &elsewhere, &unmounted] {
            let mut origin = Origin::read(&memory.path).expect("readable");
            match log {
                log if *log == elsewhere.0 => origin.namespace = Some("mnt:[1]".to_owned()),
                log if *log == unmounted.0 => origin.identity = Some((u64::MAX, 7)),
                _ => {}
            }
            origin.write(&memory.path).expect("written");
        }
        for (log, memory) in [removed, new, elsewhere, unmounted] {
            std::fs::remove_dir_all(log).expect("removed");
            drop(memory);
        }
        std::fs::remove_dir_all(used.0).expect("removed");
        drop(kept);
        for (name, path) in names.iter().zip(&paths) {
            if *name != "new" {
                Scratch::age(path);
            }
        }
        let next = scratch.open(&scratch.log("next"));
        let left: Vec<&str> = names
            .into_iter()
            .zip(&paths)
            .filter_map(|(name, path)| path.exists().then_some(name))
            .collect();
        assert_eq!(left, names[1..]);
        assert!(next.path.exists());
        assert_eq!(scratch.open(&scratch.log("kept")).path, paths[1]);
    }

    #[test]
    fn a_copy_of_a_log_does_not_have_the_memory_of_the_original_and_a_log_that_was_moved_has_its_own()
     {
        let scratch = Scratch::new();
        let original = scratch.log("original");
        let memory = scratch.open(&original).path;
        let copy = scratch.log("copy");
        std::fs::copy(original.join(POINTER), copy.join(POINTER)).expect("copied");
        assert!(matches!(Named::by(&copy), Ok(Named::Foreign(..))));
        let of_copy = scratch.open(&copy).path;
        assert_ne!(of_copy, memory);
        assert_eq!(scratch.open(&copy).path, of_copy);
        let moved = scratch.folder.path().join("moved");
        std::fs::rename(&original, &moved).expect("moved");
        assert_eq!(scratch.open(&moved).path, memory);
        let again = scratch.folder.path().join("again");
        std::fs::rename(&moved, &again).expect("moved");
        assert_eq!(
            Named::by(&again).expect("readable"),
            Named::Own(memory.clone())
        );
        // As between two file systems: the files are copied, and the original is removed.
        let across = scratch.log("across");
        std::fs::copy(again.join(POINTER), across.join(POINTER)).expect("copied");
        std::fs::remove_dir_all(&again).expect("removed");
        assert_eq!(scratch.open(&across).path, memory);
    }

    #[test]
    fn a_log_that_names_a_folder_which_no_server_has_made_does_not_touch_it() {
        let scratch = Scratch::new();
        let log = scratch.log("log");
        let all = scratch.memory.folder.join(user_folder());
        drop(scratch.open(&scratch.log("first")));
        let victim = scratch.folder.path().join("victim");
        std::fs::create_dir(&victim).expect("made");
        for name in ["thesis.tex", "free-1", "0000000000000001-000000.log"] {
            std::fs::write(victim.join(name), "mine").expect("written");
        }
        let link = all.join("0123456789abcdef0123456789abcdef");
        std::os::unix::fs::symlink(&victim, &link).expect("made");
        let open_to_all = all.join("00000000000000000000000000000000");
        std::fs::create_dir(&open_to_all).expect("made");
        let through = all.join("..").join(user_folder()).join("f".repeat(32));
        std::fs::create_dir_all(&through).expect("made");
        for named in [&victim, &link, &open_to_all, &all, &through] {
            std::fs::write(log.join(POINTER), named.to_string_lossy().as_bytes()).expect("written");
            assert!(
                matches!(Named::by(&log), Ok(Named::Foreign(..))),
                "{}",
                named.display()
            );
            let opened = scratch.open(&log).path;
            assert!(opened != *named && opened.starts_with(&all));
        }
        assert_eq!(std::fs::read_dir(&victim).expect("readable").count(), 3);
        let missing = all.join("e".repeat(32));
        std::fs::write(log.join(POINTER), missing.to_string_lossy().as_bytes()).expect("written");
        assert_eq!(Named::by(&log).expect("readable"), Named::Missing(missing));
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
