//! An open file, local or remote.

use std::io::{Read as _, Seek as _, SeekFrom};
use std::ops::Range;
use std::os::unix::fs::FileExt as _;

use bytes::Bytes;

use crate::read_ahead::ReadAhead;
use crate::{Mapping, RANGES_AT_ONCE};

/// Bytes of a range, when a read is split into ranges.
const RANGE_BYTES: usize = 8 << 20;

/// A file that is open for reading. Sequential reads of a remote file are read ahead.
#[derive(Debug)]
pub struct File(Source);

#[derive(Debug)]
enum Source {
    Local(std::fs::File),
    Remote(Box<ReadAhead>),
}

impl File {
    pub(crate) fn local(file: std::fs::File) -> Self {
        Self(Source::Local(file))
    }

    pub(crate) fn remote(file: ReadAhead) -> Self {
        Self(Source::Remote(Box::new(file)))
    }

    /// Returns whether each access is a request to another machine.
    pub fn is_remote(&self) -> bool {
        matches!(self.0, Source::Remote(_))
    }

    /// Returns the size in bytes. The size of a remote file is that at its opening.
    ///
    /// # Errors
    /// The system cannot tell the size.
    pub fn bytes(&self) -> std::io::Result<u64> {
        match &self.0 {
            Source::Local(file) => Ok(file.metadata()?.len()),
            Source::Remote(file) => Ok(file.bytes()),
        }
    }

    /// Maps bytes of a local file into memory. Returns nothing for a remote file.
    ///
    /// # Errors
    /// The file ends before, or the system cannot map it.
    pub fn map(&self, range: Range<u64>) -> std::io::Result<Option<Mapping>> {
        match &self.0 {
            Source::Local(file) => Mapping::of(file, range).map(Some),
            Source::Remote(_) => Ok(None),
        }
    }

    /// Moves to byte `at`, from 0.
    ///
    /// # Errors
    /// The system cannot seek in the file.
    pub fn seek(&mut self, at: u64) -> std::io::Result<()> {
        match &mut self.0 {
            Source::Local(file) => file.seek(SeekFrom::Start(at)).map(drop),
            Source::Remote(file) => {
                file.seek(at);
                Ok(())
            }
        }
    }

    /// Reads the next bytes, as many as are available at once. Returns their number, 0 at the end.
    ///
    /// # Errors
    /// The file cannot be read. [`crate::Error::of`] gives the reason for a remote file.
    pub fn read(&mut self, out: &mut [u8]) -> std::io::Result<usize> {
        match &mut self.0 {
            Source::Local(file) => file.read(out),
            Source::Remote(file) => Ok(file.read(out)?),
        }
    }

    /// Reads several ranges, eight at once from a remote file. All are in memory together.
    ///
    /// # Errors
    /// A range cannot be read, or ends after the end of the file.
    pub fn read_ranges(&self, ranges: &[Range<u64>]) -> std::io::Result<Vec<Bytes>> {
        let length = |range: &Range<u64>| range.end.saturating_sub(range.start);
        match &self.0 {
            Source::Local(_) => ranges
                .iter()
                .map(|range| self.read_at(range.start, length(range) as usize))
                .collect(),
            Source::Remote(file) => file.read_ranges(ranges),
        }
    }

    /// Fills `out` with the bytes from `at` on, and does not move the position. Parts of a remote file are read
    /// concurrently.
    ///
    /// # Errors
    /// The file cannot be read, or ends before.
    pub fn read_exact_at(&self, at: u64, out: &mut [u8]) -> std::io::Result<()> {
        if let Source::Local(file) = &self.0 {
            return file.read_exact_at(out, at);
        }
        let mut at = at;
        for turn in out.chunks_mut(RANGE_BYTES * RANGES_AT_ONCE) {
            let ends = (0..turn.len())
                .step_by(RANGE_BYTES)
                .map(|begin| (begin, turn.len().min(begin + RANGE_BYTES)));
            let ranges: Vec<Range<u64>> = ends
                .map(|(begin, end)| at + begin as u64..at + end as u64)
                .collect();
            for (part, bytes) in turn.chunks_mut(RANGE_BYTES).zip(self.read_ranges(&ranges)?) {
                part.copy_from_slice(&bytes);
            }
            at += turn.len() as u64;
        }
        Ok(())
    }

    /// Reads `count` bytes from `at` on, and does not move the position.
    ///
    /// # Errors
    /// The file cannot be read, or ends before.
    pub fn read_at(&self, at: u64, count: usize) -> std::io::Result<Bytes> {
        match &self.0 {
            Source::Local(file) => {
                let mut out = vec![0; count];
                file.read_exact_at(&mut out, at)?;
                Ok(out.into())
            }
            Source::Remote(file) => file.read_at(at, count),
        }
    }
}
