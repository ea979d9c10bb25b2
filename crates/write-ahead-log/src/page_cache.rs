//! Page cache hints for a log: release written pages, and read ahead.
//!
//! A log is written once and rarely read. Without hints it takes a new page of memory for every page that it writes,
//! as long as free pages exist. New pages are cold, and on a virtual machine the host may have to allocate them
//! first. Releasing pages as soon as they are on the disk lets the system reuse the same few.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::num::NonZeroU64;

use rustix::fs::{Advice, fadvise};

/// Bytes at the end of a log that stay in memory after a flush. The next flush begins among them, and a process that
/// restarts reads them first.
pub(crate) const KEPT_BYTES: u64 = 32 << 20;
/// Bytes of one read-ahead request.
const AHEAD_BYTES: u64 = 8 << 20;
/// Size of a page in bytes. A partial page is not released.
const PAGE_BYTES: u64 = 4 << 10;

/// Releases the cached pages of a range of a file that the disk has. The call is advisory; correctness does not
/// depend on it.
pub(crate) fn give_back(file: &File, begin: u64, end: u64) {
    let begin = begin / PAGE_BYTES * PAGE_BYTES;
    let end = end / PAGE_BYTES * PAGE_BYTES;
    if let Some(length) = NonZeroU64::new(end.saturating_sub(begin)) {
        let _ = fadvise(file, begin, Some(length), Advice::DontNeed);
    }
}

/// A file that is read sequentially, with read-ahead.
#[derive(Debug)]
pub struct ReadAhead {
    file: File,
    place: u64,
    /// Position up to which read-ahead has been requested.
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
