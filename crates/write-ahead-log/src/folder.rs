//! The files of a log: one folder, one process at a time.

use std::fs::{File, TryLockError};
use std::io::{BufReader, ErrorKind};
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::{Duration, Instant};

use crate::{Error, ReadAhead, Reader};

/// What the name of a segment ends with.
const SUFFIX: &str = ".log";
/// Bytes that are read at once.
const READ_BYTES: usize = 1 << 20;
/// Longest wait for a process that has just been killed to let go of its files.
const LOCK_TIMEOUT: Duration = Duration::from_secs(2);
/// Time between two looks whether it has.
const LOCK_RETRY_INTERVAL: Duration = Duration::from_millis(10);

/// A segment in its folder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SegmentFile {
    /// Place in the order of segments.
    pub number: u64,
    /// The file.
    pub path: PathBuf,
    /// Its size.
    pub bytes: u64,
}

impl SegmentFile {
    /// Returns the segments of the log in a folder, in order; of one that is being written, as far as it is written.
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
                // Removed since the folder was opened.
                Err(error) if error.kind() == ErrorKind::NotFound => {}
                Err(error) => return Err(Error::io("read", &path)(error)),
            }
        }
        found.sort_by_key(|segment| segment.number);
        Ok(found)
    }

    /// Begins to read it.
    ///
    /// # Errors
    /// It cannot be read, or is none.
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

/// The folder of a log, which no other process uses meanwhile.
#[derive(Debug)]
pub struct Folder {
    path: PathBuf,
    /// Held as long as the folder is.
    _lock: File,
}

impl Folder {
    /// Takes the folder at `path`, and makes it if there is none.
    ///
    /// # Errors
    /// It cannot be made, or another process has it.
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

    /// Returns where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns its segments, in order.
    ///
    /// # Errors
    /// The folder cannot be read.
    pub fn segments(&self) -> Result<Vec<SegmentFile>, Error> {
        SegmentFile::all(&self.path)
    }

    /// Cuts the end of a segment off.
    ///
    /// # Errors
    /// It cannot be written.
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
    /// It cannot be removed.
    pub fn remove(&self, segment: &SegmentFile) -> Result<(), Error> {
        remove(&segment.path)
    }

    /// Removes all segments, the oldest first: what is left, if the process dies meanwhile, ends as the whole did.
    ///
    /// # Errors
    /// One cannot be removed.
    pub fn clear(&self) -> Result<(), Error> {
        self.segments()?
            .iter()
            .try_for_each(|segment| remove(&segment.path))?;
        self.flush()
    }

    /// Puts all segments aside, in the place of those put aside before, so that people can look at them. Returns where
    /// they are.
    ///
    /// # Errors
    /// They cannot be renamed.
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

    /// Returns where a segment lies.
    pub(crate) fn segment(&self, number: u64) -> PathBuf {
        self.path.join(format!("{number:016}{SUFFIX}"))
    }

    /// Makes the names in the folder durable.
    pub(crate) fn flush(&self) -> Result<(), Error> {
        let handle = File::open(&self.path).map_err(Error::io("open", &self.path))?;
        handle.sync_all().map_err(Error::io("flush", &self.path))
    }
}

/// Removes a segment, if nobody has.
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
