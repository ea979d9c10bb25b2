//! The folder of a log. Only one process at a time uses it.
#![expect(
    clippy::disallowed_types,
    reason = "a lock is awaited by a thread, before there is a runtime"
)]

use std::fs::{File, TryLockError};
use std::io::{BufReader, ErrorKind};
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::{Duration, Instant};

use crate::{Error, ReadAhead, Reader};

/// Suffix of the file names of segments.
const SUFFIX: &str = ".log";
/// Size of a read, in bytes.
const READ_BYTES: usize = 1 << 20;
/// Timeout for the lock of the folder. A process that has just been killed may still hold it.
const LOCK_TIMEOUT: Duration = Duration::from_secs(2);
/// Interval between attempts to take the lock.
const LOCK_RETRY_INTERVAL: Duration = Duration::from_millis(10);

/// The file of a segment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SegmentFile {
    /// Number of the segment; segments are numbered in order.
    pub number: u64,
    /// Path of the file.
    pub path: PathBuf,
    /// Size of the file.
    pub bytes: u64,
}

impl SegmentFile {
    /// Returns the segments of the log in a folder, in order. A segment that is being written is returned at its
    /// current length.
    ///
    /// # Errors
    /// The folder cannot be read.
    pub fn all(folder: &Path) -> Result<Vec<Self>, Error> {
        let mut found = Vec::new();
        for entry in std::fs::read_dir(folder).map_err(Error::io("read", folder))? {
            let entry = entry.map_err(Error::io("read", folder))?;
            let name = entry.file_name();
            let number = name
                .to_str()
                .and_then(|name| name.strip_suffix(SUFFIX)?.parse().ok());
            let Some(number) = number else { continue };
            let path = entry.path();
            match entry.metadata() {
                Ok(file) => found.push(Self {
                    number,
                    path,
                    bytes: file.len(),
                }),
                // The file was removed after the folder was listed.
                Err(error) if error.kind() == ErrorKind::NotFound => {}
                Err(error) => return Err(Error::io("read", &path)(error)),
            }
        }
        found.sort_by_key(|segment| segment.number);
        Ok(found)
    }

    /// Opens the segment for reading.
    ///
    /// # Errors
    /// The file cannot be read, or is not a segment.
    pub fn read(&self) -> Result<Reader<BufReader<ReadAhead>>, Error> {
        let file = File::open(&self.path).map_err(Error::io("open", &self.path))?;
        let reader = Reader::new(
            BufReader::with_capacity(READ_BYTES, ReadAhead::new(file)),
            self.bytes,
        );
        let reader = reader.map_err(Error::io("read", &self.path))?;
        reader.map_err(|what| Error::NoSegment {
            path: self.path.clone(),
            what,
        })
    }
}

/// The folder of a log, locked against other processes.
#[derive(Debug)]
pub struct Folder {
    path: PathBuf,
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
                Ok(()) => {
                    return Ok(Self {
                        path: path.to_owned(),
                        _lock: lock,
                    });
                }
                Err(TryLockError::WouldBlock) if Instant::now() < until => {
                    sleep(LOCK_RETRY_INTERVAL)
                }
                Err(TryLockError::WouldBlock) => return Err(Error::Taken { path: beside }),
                Err(TryLockError::Error(error)) => return Err(Error::io("lock", &beside)(error)),
            }
        }
    }

    /// Returns the path of the folder.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the segments, in order.
    ///
    /// # Errors
    /// The folder cannot be read.
    pub fn segments(&self) -> Result<Vec<SegmentFile>, Error> {
        SegmentFile::all(&self.path)
    }

    /// Truncates a segment to `bytes`.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn cut(&self, segment: &SegmentFile, bytes: u64) -> Result<(), Error> {
        let file = File::options().write(true).open(&segment.path);
        let file = file.map_err(Error::io("open", &segment.path))?;
        file.set_len(bytes)
            .map_err(Error::io("cut", &segment.path))?;
        file.sync_all().map_err(Error::io("flush", &segment.path))
    }

    /// Removes one segment.
    ///
    /// # Errors
    /// The file cannot be removed.
    pub fn remove(&self, segment: &SegmentFile) -> Result<(), Error> {
        remove(&segment.path)
    }

    /// Removes all segments, the oldest first. If the process dies meanwhile, the newest ones remain.
    ///
    /// # Errors
    /// A segment cannot be removed.
    pub fn clear(&self) -> Result<(), Error> {
        self.segments()?
            .iter()
            .try_for_each(|segment| remove(&segment.path))?;
        self.flush()
    }

    /// Renames the folder, so that people can inspect the segments. Removes the folder that was renamed before.
    /// Returns the new path.
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
        std::fs::rename(&self.path, &aside).map_err(Error::io("rename", &self.path))?;
        std::fs::create_dir_all(&self.path).map_err(Error::io("create", &self.path))?;
        Ok(aside)
    }

    /// Returns the path of a segment.
    pub(crate) fn segment(&self, number: u64) -> PathBuf {
        self.path.join(format!("{number:016}{SUFFIX}"))
    }

    /// Flushes the directory entries.
    pub(crate) fn flush(&self) -> Result<(), Error> {
        let handle = File::open(&self.path).map_err(Error::io("open", &self.path))?;
        handle.sync_all().map_err(Error::io("flush", &self.path))
    }
}

/// Removes a segment if it exists.
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
