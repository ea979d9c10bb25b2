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

use tracing::warn;
use trainyard_storage::open_lock;

use crate::mapped_file::give_back;
use crate::memory::{CutMemory, MemoryFolder, Named, files_of, holder_of};
use crate::segment_file::is_segment;
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
    /// Reason why the part of the log that lay in shared memory is not there.
    lost_memory: Option<String>,
    memory: Option<MemoryFolder>,
    /// Where `memory` was made.
    shared_memory: Option<SharedMemory>,
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
        let lock = open_lock(&beside).map_err(Error::io("create", &beside))?;
        let until = Instant::now() + LOCK_TIMEOUT;
        loop {
            match lock.try_lock() {
                Ok(()) => break,
                Err(TryLockError::WouldBlock) if Instant::now() < until => {
                    sleep(LOCK_RETRY_INTERVAL)
                }
                Err(TryLockError::WouldBlock) => {
                    let holder = holder_of(&beside);
                    return Err(Error::Taken {
                        path: beside,
                        holder,
                    });
                }
                Err(TryLockError::Error(error)) => return Err(Error::io("lock", &beside)(error)),
            }
        }
        let lost_memory = match Named::by(path)? {
            Named::Nothing => None,
            Named::Own(memory) => {
                remove_copies(&memory, path)?;
                None
            }
            Named::Missing(memory) => Some(format!(
                "a part of it lay in {}, which is not on this machine any more",
                memory.display()
            )),
            Named::Foreign(memory, why) => Some(format!(
                "its other part is not in {}: {why}",
                memory.display()
            )),
        };
        Ok(Self {
            path: path.to_owned(),
            lost_memory,
            memory: None,
            shared_memory: None,
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
        self.shared_memory = Some(memory.clone());
        Ok(())
    }

    /// Returns the path of the folder.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns why the segments in the folder are not the whole log: a part of it lay in shared memory, which is not there or
    /// is not its own. The rest may look like a log of its own.
    pub fn lost_memory(&self) -> Option<&str> {
        self.lost_memory.as_deref()
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
        let earlier = Named::by(&self.path)?.own();
        Ok(earlier.map(|folder| CutMemory::new(folder, 0)))
    }

    /// Returns the segments, in order.
    ///
    /// # Errors
    /// The folder cannot be read.
    pub fn segments(&self) -> Result<Vec<SegmentFile>, Error> {
        SegmentFile::all(&self.path)
    }

    /// Gives back the space of a segment's last file behind `bytes`, its good part. Nothing may be written to it any more.
    ///
    /// # Errors
    /// The file cannot be opened, or its file system cannot do so.
    pub fn give_back(&self, segment: &SegmentFile, bytes: u64) -> Result<(), Error> {
        let path = segment.path();
        give_back(path, bytes).map_err(Error::io("give back space of", path))
    }

    /// Returns the files on the disk that an earlier process has kept for later segments.
    ///
    /// # Errors
    /// The folder cannot be read.
    pub(crate) fn free_files(&self) -> Result<Vec<PathBuf>, Error> {
        free_in(&self.path)
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

    /// Moves what a closed log has in shared memory into its own folder, and removes the folder in shared memory, if that is
    /// at most `bytes_max` bytes. The log then no longer names its memory: this is the step that matters. Until then, what is
    /// in its own folder is a copy.
    ///
    /// # Errors
    /// A file cannot be copied or removed. The log is whole.
    pub fn leave_memory(&self, bytes_max: u64) -> Result<(), Error> {
        let Some(memory) = Named::by(&self.path)?.own() else {
            return Ok(());
        };
        remove_free(&memory)?;
        let files = files_of(&memory)?;
        let mut bytes = 0;
        for file in &files {
            let found = std::fs::metadata(file).map_err(Error::io("look at", file))?;
            bytes += found.len();
        }
        if bytes > bytes_max {
            return Ok(());
        }
        if let Err(error) = files
            .iter()
            .try_for_each(|file| copy_into(file, &self.path))
        {
            remove_free(&self.path)?;
            remove_copies(&memory, &self.path)?;
            return Err(error);
        }
        MemoryFolder::forget(&self.path)?;
        std::fs::remove_dir_all(&memory).map_err(Error::io("remove", &memory))
    }

    /// Renames the folder, so that people can inspect its files, and begins an empty one. The rename is the only step that
    /// matters: the renamed folder has the whole log, in shared memory too, and the new one has nothing of it. Then the files
    /// in shared memory are copied to the renamed folder, unless its disk has no room. Removes the folder that was renamed
    /// before. Returns the new path.
    ///
    /// # Errors
    /// The folder cannot be renamed.
    pub fn set_aside(&mut self) -> Result<PathBuf, Error> {
        let aside = beside(&self.path, "set-aside");
        if aside.is_dir()
            && let Some(earlier) = Named::by(&aside)?.own()
        {
            std::fs::remove_dir_all(&earlier).map_err(Error::io("remove", &earlier))?;
        }
        match std::fs::remove_dir_all(&aside) {
            Err(error) if error.kind() != ErrorKind::NotFound => {
                return Err(Error::io("remove", &aside)(error));
            }
            _ => {}
        }
        remove_free(&self.path)?;
        // Releases the lock of the memory.
        self.memory = None;
        self.lost_memory = None;
        std::fs::rename(&self.path, &aside).map_err(Error::io("rename", &self.path))?;
        std::fs::create_dir_all(&self.path).map_err(Error::io("create", &self.path))?;
        if let Some(memory) = self.shared_memory.clone() {
            self.use_memory(&memory)?;
        }
        if let Some(memory) = Named::by(&aside)?.own()
            && let Err(problem) = bring_out(&memory, &aside)
        {
            warn!(
                memory = %memory.display(),
                %problem,
                "a part of the log that was set aside stays in shared memory: remove the folder by hand"
            );
        }
        Ok(aside)
    }
}

/// Copies the files of a log from shared memory, and removes them there.
fn bring_out(memory: &Path, to: &Path) -> Result<(), Error> {
    for path in files_of(memory)? {
        let name = path.file_name().unwrap_or_default();
        let copy = to.join(name);
        if let Err(error) = std::fs::copy(&path, &copy) {
            remove(&copy)?;
            return Err(Error::io("copy", &path)(error));
        }
    }
    std::fs::remove_dir_all(memory).map_err(Error::io("remove", memory))
}

/// Copies a file into a folder, under its own name when it is whole.
fn copy_into(file: &Path, folder: &Path) -> Result<(), Error> {
    let name = file.file_name().unwrap_or_default();
    let mut unfinished = std::ffi::OsString::from(FREE);
    unfinished.push(name);
    let unfinished = folder.join(unfinished);
    std::fs::copy(file, &unfinished).map_err(Error::io("copy", file))?;
    let copy = folder.join(name);
    std::fs::rename(&unfinished, &copy).map_err(Error::io("rename", &unfinished))
}

/// Removes the copies of segments in shared memory from the folder of a log, which a process that died has left there. No
/// other file has the name of one of them.
fn remove_copies(memory: &Path, folder: &Path) -> Result<(), Error> {
    files_of(memory)?
        .iter()
        .filter_map(|file| file.file_name())
        .filter(|name| is_segment(name))
        .try_for_each(|name| remove(&folder.join(name)))
}

/// Removes the files that an earlier process has kept for later segments.
fn remove_free(folder: &Path) -> Result<(), Error> {
    free_in(folder)?.iter().try_for_each(|path| remove(path))
}

/// Returns the files in a folder that are kept for later segments.
fn free_in(folder: &Path) -> Result<Vec<PathBuf>, Error> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(Error::io("read", folder))? {
        let entry = entry.map_err(Error::io("read", folder))?;
        if entry.file_name().to_string_lossy().starts_with(FREE) {
            found.push(entry.path());
        }
    }
    Ok(found)
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
