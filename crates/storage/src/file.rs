//! A file that is open, here or elsewhere.

use std::io::{Read as _, Seek as _, SeekFrom};
use std::ops::Range;
use std::os::unix::fs::FileExt as _;
use std::sync::Arc;

use bytes::Bytes;
use futures_util::{StreamExt as _, TryStreamExt as _, stream};

use crate::executor::Executor;
use crate::read_ahead::{Object, ReadAhead};

/// Ranges of a remote file that are asked for at once.
const RANGES_AT_ONCE: usize = 8;

/// Bytes of a range, where many follow each other.
const RANGE_BYTES: usize = 8 << 20;

/// A file that is open for reading. A remote one is read ahead as long as it is read from front to back.
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

    pub(crate) fn remote(executor: Arc<Executor>, object: Object) -> Self {
        Self(Source::Remote(Box::new(ReadAhead::new(executor, object))))
    }

    /// Returns whether each access is a request to another machine.
    pub fn is_remote(&self) -> bool {
        matches!(self.0, Source::Remote(_))
    }

    /// Returns its size in bytes, of a remote file that at its opening.
    ///
    /// # Errors
    /// The system does not tell.
    pub fn bytes(&self) -> std::io::Result<u64> {
        match &self.0 {
            Source::Local(file) => Ok(file.metadata()?.len()),
            Source::Remote(file) => Ok(file.object.bytes),
        }
    }

    /// Goes to a byte, from 0.
    ///
    /// # Errors
    /// The system cannot.
    pub fn seek(&mut self, at: u64) -> std::io::Result<()> {
        match &mut self.0 {
            Source::Local(file) => file.seek(SeekFrom::Start(at)).map(drop),
            Source::Remote(file) => {
                file.seek(at);
                Ok(())
            }
        }
    }

    /// Reads bytes where it stands, as many as are there at once; 0 at the end.
    ///
    /// # Errors
    /// It cannot be read. Of a remote file, [`crate::Error::of`] gives the reason.
    pub fn read(&mut self, out: &mut [u8]) -> std::io::Result<usize> {
        match &mut self.0 {
            Source::Local(file) => file.read(out),
            Source::Remote(file) => Ok(file.read(out)?),
        }
    }

    /// Reads several ranges, of a remote file eight at once. All are in memory together.
    ///
    /// # Errors
    /// One cannot be read, or the file ends before it does.
    pub fn read_ranges(&self, ranges: &[Range<u64>]) -> std::io::Result<Vec<Bytes>> {
        let length = |range: &Range<u64>| range.end.saturating_sub(range.start);
        let Source::Remote(file) = &self.0 else {
            return ranges.iter().map(|range| self.read_at(range.start, length(range) as usize)).collect();
        };
        if ranges.iter().any(|range| range.end > file.object.bytes) {
            return Err(std::io::ErrorKind::UnexpectedEof.into());
        }
        let wanted: Vec<Range<u64>> = ranges.iter().filter(|range| length(range) > 0).cloned().collect();
        // Each has a deadline of its own, and so many of them follow each other.
        let turns = u32::try_from(wanted.len().div_ceil(RANGES_AT_ONCE)).unwrap_or(u32::MAX);
        let (object, deadline) =
            (file.object.clone(), file.object.deadline.saturating_mul(turns.saturating_add(1)));
        let read = file.executor.wait(deadline, async move {
            let object = &object;
            let read = stream::iter(wanted).map(|range| object.range(range)).buffered(RANGES_AT_ONCE);
            read.try_collect::<Vec<Bytes>>().await
        });
        let mut read = read.unwrap_or_else(|| Err(file.object.unreachable()))?.into_iter();
        let next = |range: &Range<u64>| {
            if length(range) > 0 { read.next().unwrap_or_default() } else { Bytes::new() }
        };
        Ok(ranges.iter().map(next).collect())
    }

    /// Fills `out` from a place on, wherever it stands; of a remote file, parts of it come at once.
    ///
    /// # Errors
    /// It cannot be read, or ends before.
    pub fn read_exact_at(&self, at: u64, out: &mut [u8]) -> std::io::Result<()> {
        if let Source::Local(file) = &self.0 {
            return file.read_exact_at(out, at);
        }
        let mut at = at;
        for turn in out.chunks_mut(RANGE_BYTES * RANGES_AT_ONCE) {
            let ends = (0..turn.len())
                .step_by(RANGE_BYTES)
                .map(|begin| (begin, turn.len().min(begin + RANGE_BYTES)));
            let ranges: Vec<Range<u64>> =
                ends.map(|(begin, end)| at + begin as u64..at + end as u64).collect();
            for (part, bytes) in turn.chunks_mut(RANGE_BYTES).zip(self.read_ranges(&ranges)?) {
                part.copy_from_slice(&bytes);
            }
            at += turn.len() as u64;
        }
        Ok(())
    }

    /// Reads `count` bytes from a place on, wherever it stands.
    ///
    /// # Errors
    /// It cannot be read, or ends before.
    pub fn read_at(&self, at: u64, count: usize) -> std::io::Result<Bytes> {
        match &self.0 {
            Source::Local(file) => {
                let mut out = vec![0; count];
                file.read_exact_at(&mut out, at)?;
                Ok(out.into())
            }
            Source::Remote(file) => {
                if at.checked_add(count as u64).is_none_or(|end| end > file.object.bytes) {
                    return Err(std::io::ErrorKind::UnexpectedEof.into());
                }
                if count == 0 {
                    return Ok(Bytes::new());
                }
                let (object, range) = (file.object.clone(), at..at + count as u64);
                let deadline = 2 * object.deadline;
                let read = file.executor.wait(deadline, async move { object.range(range).await });
                Ok(read.unwrap_or_else(|| Err(file.object.unreachable()))?)
            }
        }
    }
}
