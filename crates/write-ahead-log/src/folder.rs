//! The folder of a log. Only one process at a time uses it.
#![expect(
    clippy::disallowed_types,
    reason = "a lock is awaited by a thread, before there is a runtime"
)]

use std::fs::{File, TryLockError};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::{Duration, Instant};

use crate::memory::{CutMemory, MemoryFolder, files_of, memory_of};
use crate::{Error, SegmentFile, SharedMemory};

/// Timeout for the lock of the folder. A process that has just been killed may still hold it.
const LOCK_TIMEOUT: Duration = Duration::from_secs(2);
/// Interval between attempts to take the lock.
const LOCK_RETRY_INTERVAL: Duration = Duration::from_millis(10);
/// Prefix of the names of files that are kept for later segments.
pub(crate) const FREE: &str = "free-";

/// The folder of a log, locked against other processes.
#[derive(Debug)]
pub struct Folder {
    path: PathBuf,
    memory: Option<MemoryFolder>,
    /// Releases the lock when it is dropped.
    _lock: File,
}

impl Folder {
    /// Locks the folder at `path`. Creates it if it is missing.
    ///
    /// # Errors
    /// The folder cannot be created, or another process has locked it.
    pub fn open(path: &Path) -> Result<Self, Error> {
        std::fs::create_dir_all(path).map_err(Error::io("create", path))?;
        let beside = beside(path, "lock");
        let lock = File::create(&beside).map_err(Error::io("create", &beside))?;
        let until = Instant::now() + LOCK_TIMEOUT;
        loop {
            match lock.try_lock() {
                Ok(()) => break,
                Err(TryLockError::WouldBlock) if Instant::now() < until => {
                    sleep(LOCK_RETRY_INTERVAL)
                }
                Err(TryLockError::WouldBlock) => return Err(Error::Taken { path: beside }),
                Err(TryLockError::Error(error)) => return Err(Error::io("lock", &beside)(error)),
            }
        }
        remove_free(path)?;
        Ok(Self {
            path: path.to_owned(),
            memory: None,
            _lock: lock,
        })
    }

    /// Lets new segments lie in shared memory, as far as there is room.
    ///
    /// # Errors
    /// The folder in shared memory cannot be created. The log then lies in its own folder.
    pub fn use_memory(&mut self, memory: &SharedMemory) -> Result<(), Error> {
        let opened = MemoryFolder::open(&self.path, memory)?;
        remove_free(&opened.path)?;
        self.memory = Some(opened);
        Ok(())
    }

    /// Returns the path of the folder.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the folder in shared memory.
    pub(crate) fn memory(&self) -> Option<&MemoryFolder> {
        self.memory.as_ref()
    }

    /// Returns where cuts of the log lie in shared memory; `None` = nowhere.
    ///
    /// # Errors
    /// The folder cannot be read.
    pub fn cut_memory(&self) -> Result<Option<CutMemory>, Error> {
        if let Some(memory) = &self.memory {
            return Ok(Some(memory.cuts.clone()));
        }
        // An earlier process may have used memory.
        let earlier = memory_of(&self.path)?;
        Ok(earlier.map(|folder| CutMemory::new(folder, 0)))
    }

    /// Returns the segments, in order.
    ///
    /// # Errors
    /// The folder cannot be read.
    pub fn segments(&self) -> Result<Vec<SegmentFile>, Error> {
        SegmentFile::all(&self.path)
    }

    /// Truncates the last file of a segment to `bytes`.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn cut(&self, segment: &SegmentFile, bytes: u64) -> Result<(), Error> {
        let path = segment.path();
        let file = File::options().write(true).open(path);
        let file = file.map_err(Error::io("open", path))?;
        file.set_len(bytes).map_err(Error::io("cut", path))
    }

    /// Removes one segment, the last file first, so that no file is without those before it.
    ///
    /// # Errors
    /// A file cannot be removed.
    pub fn remove(&self, segment: &SegmentFile) -> Result<(), Error> {
        let parts = segment.parts.iter().rev();
        parts
            .map(|part| &part.path)
            .try_for_each(|path| remove(path))
    }

    /// Removes all segments, the oldest first. If the process dies meanwhile, the newest ones remain.
    ///
    /// # Errors
    /// A segment cannot be removed.
    pub fn clear(&self) -> Result<(), Error> {
        self.segments()?
            .iter()
            .try_for_each(|segment| self.remove(segment))
    }

    /// Renames the folder, so that people can inspect its files. Those in shared memory are copied there. Removes the
    /// folder that was renamed before. Returns the new path.
    ///
    /// # Errors
    /// The folder cannot be renamed.
    pub fn set_aside(&self) -> Result<PathBuf, Error> {
        let aside = beside(&self.path, "set-aside");
        match std::fs::remove_dir_all(&aside) {
            Err(error) if error.kind() != ErrorKind::NotFound => {
                return Err(Error::io("remove", &aside)(error));
            }
            _ => {}
        }
        let memory = memory_of(&self.path)?;
        let memory = memory.map(|memory| files_of(&memory)).transpose()?;
        std::fs::rename(&self.path, &aside).map_err(Error::io("rename", &self.path))?;
        std::fs::create_dir_all(&self.path).map_err(Error::io("create", &self.path))?;
        if let Some(memory) = &self.memory {
            MemoryFolder::name(&self.path, &memory.path)?;
        }
        for path in memory.unwrap_or_default() {
            let name = path.file_name().unwrap_or_default();
            let copied = std::fs::copy(&path, aside.join(name));
            copied.map_err(Error::io("copy", &path))?;
            remove(&path)?;
        }
        Ok(aside)
    }
}

/// Removes the files that an earlier process has kept for later segments.
fn remove_free(folder: &Path) -> Result<(), Error> {
    for entry in std::fs::read_dir(folder).map_err(Error::io("read", folder))? {
        let entry = entry.map_err(Error::io("read", folder))?;
        if entry.file_name().to_string_lossy().starts_with(FREE) {
            remove(&entry.path())?;
        }
    }
    Ok(())
}

/// Removes a file if it exists.
pub(crate) fn remove(path: &Path) -> Result<(), Error> {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(Error::io("remove", path)(error)),
        _ => Ok(()),
    }
}

fn beside(path: &Path, end: &str) -> PathBuf {
    let mut name = path.file_name().unwrap_or_default().to_os_string();
    name.push(format!(".{end}"));
    path.with_file_name(name)
}
