//! What the system keeps of a log in memory: little of what was written, and what will be read next.
//!
//! A log is written once and hardly ever read. Left alone, it takes a new page for every page of it, as long as there are
//! any; the pages are cold, and in a virtual machine the host may have to find them first. Given back as soon as the
//! disk has them, the same few are written over and over.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::num::NonZeroU64;

use rustix::fs::{Advice, fadvise};

/// Bytes behind the end of a log that stay in memory once they are flushed: the front of the next flush, and what a
/// process that has just been killed wants back first.
pub(crate) const KEPT_BYTES: u64 = 32 << 20;
/// Bytes that are asked for at once, before they are read.
const AHEAD_BYTES: u64 = 8 << 20;
/// Bytes of a page; a part of one is not given back.
const PAGE_BYTES: u64 = 4 << 10;

/// Gives back the memory of what the disk has of a file. It is advice: nothing depends on it.
pub(crate) fn give_back(file: &File, begin: u64, end: u64) {
    let begin = begin / PAGE_BYTES * PAGE_BYTES;
    let end = end / PAGE_BYTES * PAGE_BYTES;
    if let Some(length) = NonZeroU64::new(end.saturating_sub(begin)) {
        let _ = fadvise(file, begin, Some(length), Advice::DontNeed);
    }
}

/// A file that is read from its front to its end, and asked for ahead.
#[derive(Debug)]
pub struct ReadAhead {
    file: File,
    place: u64,
    /// Bytes that have been asked for.
    asked: u64,
}

impl ReadAhead {
    pub(crate) fn new(file: File) -> Self {
        Self {
            file,
            place: 0,
            asked: 0,
        }
    }

    fn ask(&mut self) {
        while self.place + AHEAD_BYTES >= self.asked {
            let _ = fadvise(
                &self.file,
                self.asked,
                NonZeroU64::new(AHEAD_BYTES),
                Advice::WillNeed,
            );
            self.asked += AHEAD_BYTES;
        }
    }
}

impl Read for ReadAhead {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        self.ask();
        let count = self.file.read(out)?;
        self.place += count as u64;
        Ok(count)
    }
}

impl Seek for ReadAhead {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        self.place = self.file.seek(to)?;
        self.asked = self.asked.max(self.place / AHEAD_BYTES * AHEAD_BYTES);
        Ok(self.place)
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;

    #[test]
    fn what_is_given_back_and_asked_for_is_read_as_it_was_written() {
        let mut file = tempfile::tempfile().expect("a file");
        let bytes: Vec<u8> = (0..20_u32 << 20).map(|place| (place / 7) as u8).collect();
        file.write_all(&bytes).expect("there is room");
        file.sync_data().expect("it is flushed");
        give_back(&file, 5000, 19 << 20);
        give_back(&file, 9000, 100);
        let mut ahead = ReadAhead::new(file);
        ahead.seek(SeekFrom::Start(3)).expect("it is there");
        let mut read = Vec::new();
        ahead.read_to_end(&mut read).expect("it can be read");
        assert!(read == bytes[3..]);
        assert_eq!(
            ahead.seek(SeekFrom::Start(12 << 20)).expect("it is there"),
            12 << 20
        );
        read.resize(10, 0);
        ahead.read_exact(&mut read[..10]).expect("it can be read");
        assert_eq!(read[..10], bytes[12 << 20..(12 << 20) + 10]);
    }
}
