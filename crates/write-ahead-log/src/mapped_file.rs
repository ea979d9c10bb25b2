//! A file of a segment, mapped into memory: what is written to it outlives the process at once, without a system call.

use std::fs::File;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::atomic::{Ordering, compiler_fence};

use memmap2::{MmapMut, MmapOptions};
use rustix::fs::{FallocateFlags, fallocate};
use rustix::io::Errno;

use crate::Error;
use crate::record::RECORD_HEADER_BYTES;

/// Zeros of one write where a file system cannot reserve space.
static ZEROS: [u8; 64 << 10] = [0; 64 << 10];

/// A mapped file. All of its space is reserved, because a write to a page without space would kill the process.
#[derive(Debug)]
pub(crate) struct MappedFile {
    pub(crate) path: PathBuf,
    /// Lasts without the file descriptor, which is closed: a log may have hundreds of files.
    map: MmapMut,
}

impl MappedFile {
    /// Creates a file of `bytes` bytes.
    ///
    /// # Errors
    /// The file cannot be created, or there is no space for it. It does not exist then.
    pub(crate) fn create(path: &Path, bytes: u64) -> Result<Self, Error> {
        let mut options = File::options();
        let file = options.read(true).write(true).create(true).truncate(true);
        let file = file.open(path).map_err(Error::io("create", path))?;
        let made = reserve(&file, bytes).and_then(|()| map(&file));
        match made {
            Ok(map) => Ok(Self {
                path: path.to_owned(),
                map,
            }),
            Err(error) => {
                let _ = std::fs::remove_file(path);
                Err(Error::io("write", path)(error))
            }
        }
    }

    /// Opens a file and gives it `bytes` bytes at least.
    ///
    /// # Errors
    /// The file cannot be opened, or there is no space for it.
    pub(crate) fn open(path: &Path, bytes: u64) -> Result<Self, Error> {
        let file = File::options().read(true).write(true).open(path);
        let file = file.map_err(Error::io("open", path))?;
        let map = reserve(&file, bytes).and_then(|()| map(&file));
        Ok(Self {
            path: path.to_owned(),
            map: map.map_err(Error::io("write", path))?,
        })
    }

    /// Returns the size of the file.
    pub(crate) fn bytes(&self) -> u64 {
        self.map.len() as u64
    }

    /// Fills the file with zeros from `place` on, the first of them first.
    pub(crate) fn clear_from(&mut self, place: u64) {
        let begin = self.map.len().min(place as usize);
        self.map[begin..].fill(0);
    }

    /// Renames the file.
    ///
    /// # Errors
    /// The file cannot be renamed.
    pub(crate) fn rename(&mut self, path: PathBuf) -> Result<(), Error> {
        std::fs::rename(&self.path, &path).map_err(Error::io("rename", &self.path))?;
        self.path = path;
        Ok(())
    }

    /// Writes `head` at `place`, and behind it the bytes of `parts` and `zeros` zeros. The head is written last: if the
    /// process dies, there is either a head with everything behind it, or no head.
    ///
    /// # Panics
    /// The file ends before.
    pub(crate) fn write<'a>(
        &mut self,
        place: u64,
        head: &[u8],
        parts: impl Iterator<Item = &'a [u8]>,
        zeros: usize,
    ) {
        let begin = place as usize;
        let mut at = begin + head.len();
        for part in parts {
            self.map[at..at + part.len()].copy_from_slice(part);
            at += part.len();
        }
        self.map[at..at + zeros].fill(0);
        // The process may die between any two instructions, which no other thread observes.
        compiler_fence(Ordering::Release);
        self.map[begin..begin + head.len()].copy_from_slice(head);
        compiler_fence(Ordering::Release);
    }

    /// Truncates the file to the bytes in use. Nothing may be written to it afterwards.
    pub(crate) fn finish(self, bytes: u64) {
        drop(self.map);
        // A file that is too long is read as well.
        let file = File::options().write(true).open(&self.path);
        let _ = file.and_then(|file| file.set_len(bytes));
    }
}

/// Gives back the space of a file behind its first `used` bytes, of which the log needs no more. Its length stays, for those who
/// read it. Not every file system can do so.
pub(crate) fn give_back(path: &Path, used: u64) -> std::io::Result<()> {
    let file = File::options().write(true).open(path)?;
    let begin = used + END_BYTES;
    let rest = file.metadata()?.len().saturating_sub(begin);
    if rest > 0 {
        let hole = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        fallocate(&file, hole, begin, rest)?;
    }
    Ok(())
}

/// Bytes of zeros behind the last record of a file.
pub(crate) const END_BYTES: u64 = RECORD_HEADER_BYTES as u64;

/// Gives a file space for `bytes` bytes.
fn reserve(file: &File, bytes: u64) -> std::io::Result<()> {
    match fallocate(file, FallocateFlags::empty(), 0, bytes) {
        Ok(()) => Ok(()),
        Err(Errno::OPNOTSUPP | Errno::NOSYS) => {
            use std::os::unix::fs::FileExt as _;
            let mut place = file.metadata()?.len();
            while place < bytes {
                let length = (bytes - place).min(ZEROS.len() as u64);
                file.write_all_at(&ZEROS[..length as usize], place)?;
                place += length;
            }
            Ok(())
        }
        Err(error) => Err(error.into()),
    }
}

#[expect(unsafe_code, reason = "a file can be mapped in no other way")]
fn map(file: &File) -> std::io::Result<MmapMut> {
    let length = file.metadata()?.len();
    if length == 0 {
        return Err(ErrorKind::UnexpectedEof.into());
    }
    // SAFETY: the folder of the log is locked, so that no other process writes to the file or truncates it; this one
    // truncates it only after it has dropped the map.
    unsafe { MmapOptions::new().populate().map_mut(file) }
}
