//! Read-ahead for sequential reads of a remote file: ranges are requested before they are needed.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::mpsc::{Receiver, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use futures_util::{StreamExt as _, TryStreamExt as _, stream};
use object_store::path::Path as Key;
use object_store::{GetOptions, GetRange, ObjectStore};
use tokio::task::AbortHandle;

use crate::executor::Executor;
use crate::retry::retry;
use crate::{Error, Location, RANGES_AT_ONCE};

/// Bytes of the first range. Each next range is twice as long, so that reading only a header does not fetch the file.
const RANGE_BYTES_MIN: u64 = 256 << 10;
/// Bytes of the longest range.
const RANGE_BYTES_MAX: u64 = 4 << 20;
/// Ranges that are requested ahead of the range being read. Together, at most 20 MiB of a file are in memory.
const RANGES_AHEAD: usize = 4;

/// A remote file that exists.
#[derive(Debug, Clone)]
pub(crate) struct Object {
    pub(crate) location: Arc<Location>,
    pub(crate) store: Arc<dyn ObjectStore>,
    pub(crate) key: Key,
    pub(crate) bytes: u64,
    /// The entity tag of the content. The store refuses a range if the content has changed.
    pub(crate) mark: Option<String>,
    pub(crate) deadline: Duration,
}

impl Object {
    /// Reads a whole range.
    pub(crate) async fn range(&self, range: Range<u64>) -> Result<Bytes, Error> {
        let wanted = range.end - range.start;
        let bytes = retry(&self.location, self.deadline, || async {
            let options = GetOptions {
                range: Some(GetRange::Bounded(range.clone())),
                if_match: self.mark.clone(),
                ..GetOptions::default()
            };
            self.store.get_opts(&self.key, options).await?.bytes().await
        })
        .await?;
        if bytes.len() as u64 == wanted {
            Ok(bytes)
        } else {
            Err(Error::Changed {
                url: self.location.url.clone(),
            })
        }
    }

    pub(crate) fn unreachable(&self) -> Error {
        Error::Unreachable {
            url: self.location.url.clone(),
            waited: 2 * self.deadline,
            attempts: 1,
            reason: "no answer in time".to_owned(),
        }
    }
}

/// A requested range.
#[derive(Debug)]
struct Asked {
    range: Range<u64>,
    /// The mutex only makes the type `Sync`. One thread reads.
    answer: Mutex<Receiver<Result<Bytes, Error>>>,
    task: AbortHandle,
}

impl Drop for Asked {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Reader of an object, with read-ahead.
#[derive(Debug)]
pub(crate) struct ReadAhead {
    pub(crate) executor: Arc<Executor>,
    pub(crate) object: Object,
    /// Offset of the next byte to read.
    at: u64,
    /// The range being read, and its offset.
    begin: u64,
    current: Bytes,
    asked: VecDeque<Asked>,
    /// End of the requested ranges, and the length of the next range.
    asked_to: u64,
    range_bytes: u64,
    ranges_ahead: usize,
}

impl ReadAhead {
    pub(crate) fn new(executor: Arc<Executor>, object: Object) -> Self {
        Self {
            executor,
            object,
            at: 0,
            begin: 0,
            current: Bytes::new(),
            asked: VecDeque::new(),
            asked_to: 0,
            range_bytes: RANGE_BYTES_MIN,
            ranges_ahead: 0,
        }
    }

    /// Returns the file's size when it was opened.
    pub(crate) fn bytes(&self) -> u64 {
        self.object.bytes
    }

    /// Reads several ranges, [`RANGES_AT_ONCE`] at a time.
    pub(crate) fn read_ranges(&self, ranges: &[Range<u64>]) -> std::io::Result<Vec<Bytes>> {
        let length = |range: &Range<u64>| range.end.saturating_sub(range.start);
        if ranges.iter().any(|range| range.end > self.object.bytes) {
            return Err(std::io::ErrorKind::UnexpectedEof.into());
        }
        let wanted: Vec<Range<u64>> = ranges
            .iter()
            .filter(|range| length(range) > 0)
            .cloned()
            .collect();
        // Each range has its own deadline, and so many turns follow each other.
        let turns = u32::try_from(wanted.len().div_ceil(RANGES_AT_ONCE)).unwrap_or(u32::MAX);
        let object = self.object.clone();
        let deadline = object.deadline.saturating_mul(turns.saturating_add(1));
        let read = self.executor.wait(deadline, async move {
            let object = &object;
            let read = stream::iter(wanted)
                .map(|range| object.range(range))
                .buffered(RANGES_AT_ONCE);
            read.try_collect::<Vec<Bytes>>().await
        });
        let mut read = read
            .unwrap_or_else(|| Err(self.object.unreachable()))?
            .into_iter();
        let next = |range: &Range<u64>| {
            if length(range) > 0 {
                read.next().unwrap_or_default()
            } else {
                Bytes::new()
            }
        };
        Ok(ranges.iter().map(next).collect())
    }

    /// Reads `count` bytes from `at` on, and does not move the position.
    pub(crate) fn read_at(&self, at: u64, count: usize) -> std::io::Result<Bytes> {
        if at
            .checked_add(count as u64)
            .is_none_or(|end| end > self.object.bytes)
        {
            return Err(std::io::ErrorKind::UnexpectedEof.into());
        }
        if count == 0 {
            return Ok(Bytes::new());
        }
        let object = self.object.clone();
        let range = at..at + count as u64;
        let deadline = 2 * object.deadline;
        let read = self
            .executor
            .wait(deadline, async move { object.range(range).await });
        Ok(read.unwrap_or_else(|| Err(self.object.unreachable()))?)
    }

    /// Moves to byte `at`. Requested ranges from that byte on are kept.
    pub(crate) fn seek(&mut self, at: u64) {
        let begin = self.begin;
        self.at = at;
        if (begin..begin + self.current.len() as u64).contains(&at) {
            return;
        }
        while self
            .asked
            .front()
            .is_some_and(|next| !next.range.contains(&at))
        {
            self.asked.pop_front();
        }
        if self.asked.is_empty() {
            (self.asked_to, self.range_bytes, self.ranges_ahead) = (at, RANGE_BYTES_MIN, 0);
        }
    }

    /// Reads the next bytes. Returns their number, 0 at the end.
    pub(crate) fn read(&mut self, out: &mut [u8]) -> Result<usize, Error> {
        if self.at >= self.object.bytes || out.is_empty() {
            return Ok(0);
        }
        if !(self.begin..self.begin + self.current.len() as u64).contains(&self.at) {
            self.next_range()?;
        }
        let from = (self.at - self.begin) as usize;
        let count = out.len().min(self.current.len() - from);
        out[..count].copy_from_slice(&self.current[from..from + count]);
        self.at += count as u64;
        Ok(count)
    }

    /// Waits for the range that holds the next byte, and requests following ranges.
    fn next_range(&mut self) -> Result<(), Error> {
        while self
            .asked
            .front()
            .is_some_and(|next| !next.range.contains(&self.at))
        {
            self.asked.pop_front();
        }
        if self.asked.is_empty() {
            self.asked_to = self.at;
        }
        while self.asked.len() <= self.ranges_ahead && self.asked_to < self.object.bytes {
            self.ask()?;
        }
        // Each range that is read to its end adds a range of read-ahead.
        self.ranges_ahead = (self.ranges_ahead + 1).min(RANGES_AHEAD);
        let next = self
            .asked
            .pop_front()
            .ok_or_else(|| self.object.unreachable())?;
        let answer = next.answer.lock().unwrap_or_else(PoisonError::into_inner);
        let answer = answer.recv_timeout(2 * self.object.deadline);
        self.current = answer.map_err(|_| self.object.unreachable())??;
        self.begin = next.range.start;
        Ok(())
    }

    fn ask(&mut self) -> Result<(), Error> {
        let end = (self.asked_to + self.range_bytes).min(self.object.bytes);
        let range = self.asked_to..end;
        let object = self.object.clone();
        self.asked_to = end;
        self.range_bytes = (2 * self.range_bytes).min(RANGE_BYTES_MAX);
        let (sender, answer) = sync_channel(1);
        let wanted = range.clone();
        let handle = self
            .executor
            .handle()
            .ok_or_else(|| self.object.unreachable())?;
        let task = handle.spawn(async move {
            // The send fails if the reader has moved elsewhere.
            let _ = sender.send(object.range(wanted).await);
        });
        self.asked.push_back(Asked {
            range,
            answer: Mutex::new(answer),
            task: task.abort_handle(),
        });
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use object_store::ObjectStoreExt as _;
    use object_store::memory::InMemory;

    use super::*;

    /// Returns a reader of an object, and its content. Each aligned group of eight bytes is its index.
    fn reader(bytes: u64) -> (ReadAhead, Vec<u8>) {
        let content: Vec<u8> = (0..bytes / 8).flat_map(u64::to_le_bytes).collect();
        let executor = Arc::new(Executor::start().expect("threads start"));
        let store = Arc::new(InMemory::new());
        let key = Key::from("file");
        let put = Arc::clone(&store);
        let place = key.clone();
        let payload = content.clone();
        let limit = Duration::from_secs(60);
        let put = executor.wait(limit, async move { put.put(&place, payload.into()).await });
        put.expect("it is put in time").expect("memory takes it");
        let location = Arc::new(Location::parse("s3://memory/file").expect("a URL"));
        let object = Object {
            location,
            store,
            key,
            bytes: content.len() as u64,
            mark: None,
            deadline: limit,
        };
        (ReadAhead::new(executor, object), content)
    }

    #[test]
    fn any_place_is_read_from_any_other() {
        let (mut reader, content) = reader(12_000_000);
        let mut state = 0x9e37_79b9_7f4a_7c15_u64;
        let mut out = vec![0; 300_000];
        for step in 0..200 {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            // Most seeks are short, forward or backward. Every fifth goes anywhere.
            let near = reader
                .at
                .saturating_add(state >> 44)
                .saturating_sub(400_000);
            let at = if step % 5 == 0 {
                state % 12_000_000
            } else {
                near.min(12_000_000)
            };
            reader.seek(at);
            let mut read = 0;
            while read < out.len() {
                match reader.read(&mut out[read..]).expect("it is read") {
                    0 => break,
                    count => read += count,
                }
            }
            let expected = &content[at as usize..(at as usize + out.len()).min(content.len())];
            assert!(
                out[..read] == *expected,
                "{read} bytes at {at}, step {step}"
            );
        }
    }

    #[test]
    fn ranges_come_in_the_order_in_which_they_were_asked_for() {
        let (reader, content) = reader(3_000_000);
        let ranges: Vec<Range<u64>> = (0..30)
            .rev()
            .map(|nth| nth * 100_000..nth * 100_000 + nth * 7)
            .collect();
        let read = reader.read_ranges(&ranges).expect("they are read");
        assert_eq!(read.len(), ranges.len());
        for (range, bytes) in ranges.iter().zip(read) {
            assert!(
                bytes == content[range.start as usize..range.end as usize],
                "{range:?}"
            );
        }
        assert!(reader.read_ranges(&[0..8, 2_999_999..3_000_001]).is_err());
    }

    #[test]
    fn what_is_asked_for_ahead_is_bounded() {
        let (mut reader, content) = reader(60_000_000);
        let mut read = 0;
        let mut out = vec![0; 100_000];
        loop {
            let count = reader.read(&mut out).expect("it is read");
            let ahead: u64 = reader
                .asked
                .iter()
                .map(|next| next.range.end - next.range.start)
                .sum();
            let held = ahead + reader.current.len() as u64;
            assert!(
                held <= (RANGES_AHEAD as u64 + 1) * RANGE_BYTES_MAX,
                "{held} bytes are held"
            );
            read += count;
            if count == 0 {
                break;
            }
        }
        assert_eq!(read, content.len());
    }
}
