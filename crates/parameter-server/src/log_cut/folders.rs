//! The folders in which the cuts of a log lie: in shared memory as far as there is room, else beside the log.
//!
//! A cut in shared memory that is not needed any more leaves its file to a later one: a page that was never used costs many
//! times what it costs to overwrite one.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::fs::{FallocateFlags, fallocate};
use rustix::io::Errno;
use tracing::debug;
use trainyard_write_ahead_log::{CutMemory, Folder, Log};

use super::file::CutError;

/// A cut may have more bytes than was counted: rows that change until its snapshot is taken, and the fields of its records.
/// It may have more by one in so many of its bytes, and by these bytes.
const RESERVE_MARGIN_DIVISOR: u64 = 16;
const RESERVE_MARGIN_BYTES: u64 = 64 << 10;
/// Suffix of the name of a cut.
const SUFFIX: &str = ".cut";
/// Extension of the file of a cut that is being written.
const UNFINISHED: &str = "unfinished";
/// Prefix of the names of files in shared memory that are kept for later cuts. The next process that opens the log removes
/// them.
const FREE: &str = "free-cut-";

/// The folders of the cuts of a log.
#[derive(Debug, Clone)]
pub(crate) struct CutFolders {
    /// The folder of the log.
    log: PathBuf,
    memory: Option<CutMemory>,
    /// The latest cut in shared memory was not finished: it had more bytes than there was room for, so the next one goes to
    /// the disk.
    avoids_memory: Arc<AtomicBool>,
}

/// Storage that holds the file of a cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CutPlace {
    SharedMemory,
    Disk,
}

/// A file in which a cut is written. It is removed if it is dropped unfinished.
#[derive(Debug)]
pub(crate) struct UnfinishedCut {
    file: File,
    written: PathBuf,
    path: PathBuf,
    is_finished: bool,
    /// Set if the file is in shared memory and is not finished.
    avoids_memory: Option<Arc<AtomicBool>>,
}

/// A file of a folder.
#[derive(Debug)]
struct Found {
    path: PathBuf,
    bytes: u64,
}

impl CutFolders {
    /// Returns the folders of a log.
    pub(crate) fn of(log: &Log) -> Self {
        if let Some(memory) = log.cut_memory() {
            // The next cut counts again.
            memory.set_used(cut_bytes(&memory.folder).unwrap_or(0));
        }
        Self {
            log: log.folder().to_owned(),
            memory: log.cut_memory().cloned(),
            avoids_memory: Arc::default(),
        }
    }

    /// Returns the folders of the log in a folder that is not open yet.
    ///
    /// # Errors
    /// The folder cannot be read.
    pub(crate) fn of_folder(folder: &Folder) -> Result<Self, CutError> {
        let memory = folder.cut_memory();
        Ok(Self {
            log: folder.path().to_owned(),
            memory: memory.map_err(|error| io::Error::other(error.to_string()))?,
            avoids_memory: Arc::default(),
        })
    }

    fn paths(&self) -> impl Iterator<Item = &Path> {
        let memory = self.memory.iter().map(|memory| memory.folder.as_path());
        memory.chain([self.log.as_path()])
    }

    /// Opens the file of the cut from which a segment goes on; `None` if there is none.
    ///
    /// # Errors
    /// The file cannot be opened.
    pub(crate) fn open(&self, segment: u64) -> io::Result<Option<(PathBuf, File)>> {
        for folder in self.paths() {
            let path = folder.join(name_of(segment));
            match File::open(&path) {
                Ok(file) => return Ok(Some((path, file))),
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(error),
            }
        }
        Ok(None)
    }

    /// Returns where the next cut goes, which has about `bytes` bytes.
    ///
    /// # Errors
    /// A folder cannot be read.
    pub(crate) fn place_of(&self, bytes: u64) -> io::Result<CutPlace> {
        let Some(memory) = &self.memory else {
            return Ok(CutPlace::Disk);
        };
        let fits = cut_bytes(&memory.folder)? + bytes <= memory.bytes_max;
        Ok(if fits && memory.has_room_for(bytes) {
            CutPlace::SharedMemory
        } else {
            CutPlace::Disk
        })
    }

    /// Creates the file of the cut from which a segment goes on. It has about `bytes` bytes, for which there is room: in
    /// shared memory, or else on the disk of the log.
    ///
    /// # Errors
    /// A folder cannot be read, or the file cannot be created, or there is no room.
    pub(crate) fn create(&self, segment: u64, bytes: u64) -> io::Result<UnfinishedCut> {
        let avoids_memory = self.avoids_memory.swap(false, Ordering::Relaxed);
        if !avoids_memory && self.place_of(bytes)? == CutPlace::SharedMemory {
            let reserved = self
                .create_in(CutPlace::SharedMemory, segment, bytes)
                .and_then(|file| file.with_room_for(bytes));
            match reserved {
                Ok(file) => return Ok(file),
                Err(error) => {
                    debug!(
                        segment,
                        bytes,
                        %error,
                        "shared memory has no room for a cut of the log: the cut is written beside the log"
                    );
                    self.avoids_memory.store(false, Ordering::Relaxed);
                }
            }
        }
        self.create_in(CutPlace::Disk, segment, bytes)?
            .with_room_for(bytes)
    }

    /// Creates the file of a cut in this place, without reserving room.
    ///
    /// # Errors
    /// A folder cannot be read, or the file cannot be created.
    pub(crate) fn create_in(
        &self,
        place: CutPlace,
        segment: u64,
        bytes: u64,
    ) -> io::Result<UnfinishedCut> {
        let memory = self
            .memory
            .as_ref()
            .filter(|_| place == CutPlace::SharedMemory);
        let folder = memory.map_or(self.log.as_path(), |memory| &memory.folder);
        let path = folder.join(name_of(segment));
        let written = path.with_extension(UNFINISHED);
        if let Some(memory) = memory {
            take_free(memory, bytes, &written)?;
        }
        let mut options = File::options();
        let file = options.write(true).create(true).truncate(false);
        Ok(UnfinishedCut {
            file: file.open(&written)?,
            written,
            path,
            is_finished: false,
            avoids_memory: memory.map(|_| Arc::clone(&self.avoids_memory)),
        })
    }

    /// Removes the cuts for which `is_needed` is false. Files in shared memory are kept for later cuts.
    ///
    /// # Errors
    /// A folder cannot be read, or a file cannot be removed.
    pub(crate) fn remove(&self, is_needed: impl Fn(u64) -> bool) -> io::Result<()> {
        for folder in self.paths() {
            let is_memory = folder != self.log;
            for (segment, cut) in cuts_in(folder)? {
                if is_needed(segment) {
                    continue;
                }
                if is_memory {
                    keep_file(&cut.path, &folder.join(format!("{FREE}{segment:016}")))?;
                } else {
                    remove_file(&cut.path)?;
                }
            }
        }
        Ok(())
    }

    /// Removes all cuts, and the files that are kept for later ones.
    ///
    /// # Errors
    /// A folder cannot be read, or a file cannot be removed.
    pub(crate) fn clear(&self) -> io::Result<()> {
        self.remove(|_| false)?;
        self.remove_free()?;
        if let Some(memory) = &self.memory {
            memory.set_used(0);
        }
        Ok(())
    }

    /// Removes the files that are kept for later cuts.
    ///
    /// # Errors
    /// A folder cannot be read, or a file cannot be removed.
    pub(crate) fn remove_free(&self) -> io::Result<()> {
        if let Some(memory) = &self.memory {
            for free in free_in(&memory.folder)? {
                remove_file(&free.path)?;
            }
        }
        Ok(())
    }

    /// Removes the file of a cut that an earlier process has not finished.
    ///
    /// # Errors
    /// A folder cannot be read, or a file cannot be removed.
    pub(crate) fn remove_unfinished(&self) -> io::Result<()> {
        for folder in self.paths() {
            for entry in std::fs::read_dir(folder)? {
                let path = entry?.path();
                if path.extension().is_some_and(|end| end == UNFINISHED) {
                    remove_file(&path)?;
                }
            }
        }
        Ok(())
    }
}

impl UnfinishedCut {
    /// Reserves room for about `bytes` bytes.
    fn with_room_for(self, bytes: u64) -> io::Result<Self> {
        let bytes = bytes + bytes / RESERVE_MARGIN_DIVISOR + RESERVE_MARGIN_BYTES;
        match fallocate(&self.file, FallocateFlags::empty(), 0, bytes) {
            // The file system cannot say in advance whether there is room.
            Err(Errno::OPNOTSUPP) => Ok(self),
            reserved => {
                reserved?;
                Ok(self)
            }
        }
    }

    /// Ends the file, which has `bytes` bytes, and gives it its name.
    ///
    /// # Errors
    /// The file cannot be truncated or renamed.
    pub(crate) fn finish(mut self, bytes: u64) -> io::Result<()> {
        // The file of an earlier cut may be longer.
        self.file.set_len(bytes)?;
        #[cfg(feature = "failpoints")]
        fail::fail_point!("ps.log_cut.before_rename");
        std::fs::rename(&self.written, &self.path)?;
        self.is_finished = true;
        #[cfg(feature = "failpoints")]
        fail::fail_point!("ps.log_cut.after_rename");
        Ok(())
    }
}

#[cfg(test)]
thread_local! {
    /// Shared memory is full for the cuts of this thread.
    pub(crate) static MEMORY_IS_FULL: std::cell::Cell<bool> = const { std::cell::Cell::new(false) };
}

impl io::Write for UnfinishedCut {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        #[cfg(test)]
        if self.avoids_memory.is_some() && MEMORY_IS_FULL.get() {
            return Err(Errno::NOSPC.into());
        }
        self.file.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

impl Drop for UnfinishedCut {
    fn drop(&mut self) {
        if !self.is_finished {
            // One that stays is removed when the log is opened again.
            let _ = remove_file(&self.written);
            if let Some(avoids) = &self.avoids_memory {
                avoids.store(true, Ordering::Relaxed);
            }
        }
    }
}

fn name_of(segment: u64) -> String {
    format!("{segment:016}{SUFFIX}")
}

/// Renames the longest file that is kept in memory to `path`, if there is one. Removes others that leave too little room for
/// a cut of `bytes` bytes.
fn take_free(memory: &CutMemory, bytes: u64, path: &Path) -> io::Result<()> {
    let mut free = free_in(&memory.folder)?;
    free.sort_by_key(|free| free.bytes);
    let longest = free.pop();
    if let Some(longest) = &longest {
        std::fs::rename(&longest.path, path)?;
    }
    let own = longest.map_or(bytes, |longest| longest.bytes.max(bytes));
    let mut all = cut_bytes(&memory.folder)? + own + sum(&free);
    for short in free {
        if all <= memory.bytes_max {
            break;
        }
        remove_file(&short.path)?;
        all -= short.bytes;
    }
    memory.set_used(all);
    Ok(())
}

/// Returns the bytes of the cuts in a folder.
fn cut_bytes(folder: &Path) -> io::Result<u64> {
    Ok(cuts_in(folder)?.iter().map(|(_, cut)| cut.bytes).sum())
}

fn sum(files: &[Found]) -> u64 {
    files.iter().map(|file| file.bytes).sum()
}

/// Returns the cuts in a folder, by segment.
fn cuts_in(folder: &Path) -> io::Result<Vec<(u64, Found)>> {
    files_in(folder, |name| {
        name.strip_suffix(SUFFIX)
            .and_then(|number| number.parse().ok())
    })
}

/// Returns the files in a folder that are kept for later cuts.
fn free_in(folder: &Path) -> io::Result<Vec<Found>> {
    let found = files_in(folder, |name| name.starts_with(FREE).then_some(()))?;
    Ok(found.into_iter().map(|((), found)| found).collect())
}

/// Returns the files in a folder for whose name `read` returns something.
fn files_in<T>(folder: &Path, read: impl Fn(&str) -> Option<T>) -> io::Result<Vec<(T, Found)>> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder)? {
        let entry = entry?;
        let Some(of_name) = entry.file_name().to_str().and_then(&read) else {
            continue;
        };
        let bytes = match entry.metadata() {
            Ok(metadata) => metadata.len(),
            // Another thread has removed or renamed it since.
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            Err(error) => return Err(error),
        };
        let path = entry.path();
        found.push((of_name, Found { path, bytes }));
    }
    Ok(found)
}

/// Renames a file if it exists.
fn keep_file(path: &Path, to: &Path) -> io::Result<()> {
    match std::fs::rename(path, to) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// Removes a file if it exists.
fn remove_file(path: &Path) -> io::Result<()> {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Write as _};

    use super::*;

    fn folders(scratch: &Path, bytes_max: u64) -> CutFolders {
        let folder = |name| {
            let path = scratch.join(name);
            std::fs::create_dir(&path).expect("made");
            path
        };
        CutFolders {
            log: folder("log"),
            memory: Some(CutMemory::new(folder("memory"), bytes_max)),
            avoids_memory: Arc::default(),
        }
    }

    fn write(folders: &CutFolders, segment: u64, bytes: &[u8]) -> CutPlace {
        let length = bytes.len() as u64;
        let mut cut = folders.create(segment, length).expect("created");
        let is_memory = cut.path.parent() != Some(folders.log.as_path());
        cut.write_all(bytes).expect("written");
        cut.finish(length).expect("finished");
        if is_memory {
            CutPlace::SharedMemory
        } else {
            CutPlace::Disk
        }
    }

    fn read(folders: &CutFolders, segment: u64) -> Option<Vec<u8>> {
        let (_, mut file) = folders.open(segment).expect("readable")?;
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes).expect("readable");
        Some(bytes)
    }

    #[test]
    fn cuts_lie_in_memory_as_far_as_there_is_room() {
        let scratch = tempfile::tempdir().expect("a folder");
        let folders = folders(scratch.path(), 100);
        assert_eq!(write(&folders, 1, &[1; 60]), CutPlace::SharedMemory);
        assert_eq!(write(&folders, 2, &[2; 60]), CutPlace::Disk);
        assert_eq!(write(&folders, 3, &[3; 40]), CutPlace::SharedMemory);
        for (segment, bytes) in [(1, vec![1; 60]), (2, vec![2; 60]), (3, vec![3; 40])] {
            assert_eq!(read(&folders, segment), Some(bytes));
        }
        folders.remove(|segment| segment == 3).expect("removed");
        assert_eq!(read(&folders, 1), None);
        assert_eq!(read(&folders, 2), None);
        assert_eq!(read(&folders, 3), Some(vec![3; 40]));
    }

    #[test]
    fn the_file_of_a_cut_that_is_not_needed_is_used_again_and_what_it_held_is_not_read() {
        use std::os::unix::fs::MetadataExt as _;

        let scratch = tempfile::tempdir().expect("a folder");
        let folders = folders(scratch.path(), 100);
        let inode = |segment| {
            let (_, file) = folders.open(segment).expect("readable").expect("there");
            file.metadata().expect("readable").ino()
        };
        write(&folders, 1, &[1; 50]);
        write(&folders, 2, &[2; 20]);
        let first = inode(1);
        folders.remove(|_| false).expect("removed");
        assert_eq!(write(&folders, 3, &[3; 30]), CutPlace::SharedMemory);
        assert_eq!(inode(3), first, "the longest file");
        assert_eq!(read(&folders, 3), Some(vec![3; 30]));
        // The short file that is kept leaves too little room.
        assert_eq!(write(&folders, 4, &[4; 70]), CutPlace::SharedMemory);
        folders.remove(|_| false).expect("removed");
        assert_eq!(write(&folders, 5, &[5; 90]), CutPlace::SharedMemory);
        let memory = scratch.path().join("memory");
        assert_eq!(free_in(&memory).expect("readable").len(), 0);
        folders.clear().expect("cleared");
        assert_eq!(std::fs::read_dir(&memory).expect("readable").count(), 0);
    }

    #[test]
    fn after_a_cut_that_did_not_fit_into_memory_the_next_one_goes_to_the_disk() {
        let scratch = tempfile::tempdir().expect("a folder");
        let folders = folders(scratch.path(), 100);
        drop(folders.create(1, 10).expect("created"));
        assert_eq!(write(&folders, 2, &[2; 10]), CutPlace::Disk);
        assert_eq!(write(&folders, 3, &[3; 10]), CutPlace::SharedMemory);
    }

    #[test]
    fn a_cut_that_is_not_finished_is_no_cut() {
        let scratch = tempfile::tempdir().expect("a folder");
        let folders = folders(scratch.path(), 100);
        for place in [CutPlace::SharedMemory, CutPlace::Disk] {
            let cut = folders.create_in(place, 1, 10).expect("created");
            assert_eq!(read(&folders, 1), None);
            std::mem::forget(cut);
            folders.remove_unfinished().expect("removed");
            drop(folders.create_in(place, 1, 10).expect("created"));
        }
        for folder in ["log", "memory"] {
            let left = std::fs::read_dir(scratch.path().join(folder)).expect("readable");
            assert_eq!(left.count(), 0);
        }
    }
}
