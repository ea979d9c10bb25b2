//! A log that many threads append to (group commit).
//!
//! Adding a record only queues it, so that it is cheap enough to do under the lock that decides the order. A thread
//! that commits writes everything in the queue, in one write for all threads. Threads that commit meanwhile find
//! their records written. A thread of the log flushes.
#![expect(
    clippy::disallowed_types,
    reason = "the thread of the log has no runtime"
)]

use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Instant;

use parking_lot::{Condvar, Mutex, RwLock};
use tokio::sync::watch;

use crate::folder::remove;
use crate::page_cache::give_back;
use crate::writer::Writer;
use crate::{Durability, EarlierSegments, Entry, Error, Folder, Origin, SegmentFile};

/// An item that waits to be written.
#[derive(Debug)]
enum Item {
    Record(Entry),
    /// A new segment.
    Segment {
        origin: Origin,
        number: u64,
        earlier: EarlierSegments,
    },
}

#[derive(Debug, Default)]
struct Queue {
    items: VecDeque<Item>,
    /// Position of the end of the queue, in bytes. Positions count from the begin of the first segment that this
    /// process writes.
    end: u64,
    /// Number of the latest segment.
    number: u64,
}

#[derive(Debug)]
struct Shared {
    durability: Durability,
    queue: Mutex<Queue>,
    writer: Mutex<Writer>,
    /// Position up to which the operating system has the log.
    written: AtomicU64,
    /// Position up to which the disk has the log.
    flushed: AtomicU64,
    /// Bytes of all segments.
    bytes: AtomicU64,
    failure: RwLock<Option<Error>>,
    /// Notified at every flush, and when the log fails.
    progress: watch::Sender<()>,
    /// Wakes the thread that flushes.
    unflushed: Condvar,
    asked: Mutex<()>,
    stops: AtomicBool,
}

/// A log. After a failure it acknowledges nothing more.
#[derive(Debug)]
pub struct Log {
    shared: Arc<Shared>,
    flusher: Option<JoinHandle<()>>,
    folder: PathBuf,
}

impl Log {
    /// Opens the log of a folder: at the end of segment `go_on`, or without an open segment.
    ///
    /// # Errors
    /// A file cannot be opened, or the thread that flushes cannot be started.
    pub fn open(
        folder: Folder,
        durability: Durability,
        go_on: Option<&SegmentFile>,
    ) -> Result<Self, Error> {
        let path = folder.path().to_owned();
        let mut log = Self::open_without_thread(folder, durability, go_on)?;
        let flushing = Arc::clone(&log.shared);
        let flusher = std::thread::Builder::new()
            .name("log-flush".to_owned())
            .spawn(move || flushing.flush_until_stopped())
            .map_err(Error::io("start the thread that flushes", &path))?;
        log.flusher = Some(flusher);
        Ok(log)
    }

    /// As [`Log::open`], without a thread: [`Log::commit`] flushes if the mode requires it. Other records are flushed
    /// with the next flush, or at the end of their segment.
    ///
    /// # Errors
    /// A file cannot be opened.
    pub fn open_without_thread(
        folder: Folder,
        durability: Durability,
        go_on: Option<&SegmentFile>,
    ) -> Result<Self, Error> {
        let path = folder.path().to_owned();
        let writer = Writer::new(folder, go_on)?;
        let number = writer.last();
        let bytes = writer.bytes();
        let begin = writer.open.as_ref().map_or(0, |open| open.end);
        let shared = Arc::new(Shared {
            durability,
            queue: Mutex::new(Queue {
                items: VecDeque::new(),
                end: begin,
                number,
            }),
            writer: Mutex::new(writer),
            written: AtomicU64::new(begin),
            flushed: AtomicU64::new(0),
            bytes: AtomicU64::new(bytes),
            failure: RwLock::default(),
            progress: watch::Sender::new(()),
            unflushed: Condvar::new(),
            asked: Mutex::new(()),
            stops: AtomicBool::new(false),
        });
        Ok(Self {
            shared,
            flusher: None,
            folder: path,
        })
    }

    /// Returns the path of the folder.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Queues a record. It is not safe before [`Log::commit`] returns.
    pub fn add(&self, entry: Entry) {
        let mut queue = self.shared.queue.lock();
        queue.end += entry.bytes();
        queue.items.push_back(Item::Record(entry));
    }

    /// Begins a segment with its first records. Returns the number of the segment.
    pub fn begin(
        &self,
        origin: Origin,
        entries: impl IntoIterator<Item = Entry>,
        earlier: EarlierSegments,
    ) -> u64 {
        let mut queue = self.shared.queue.lock();
        queue.number += 1;
        let number = queue.number;
        queue.end += crate::SEGMENT_HEADER_BYTES as u64;
        queue.items.push_back(Item::Segment {
            origin,
            number,
            earlier,
        });
        for entry in entries {
            queue.end += entry.bytes();
            queue.items.push_back(Item::Record(entry));
        }
        number
    }

    /// Returns the position of the end of the log, queued records included.
    pub fn end(&self) -> u64 {
        self.shared.queue.lock().end
    }

    /// Waits until everything up to `end` is as safe as the mode requires.
    ///
    /// # Errors
    /// The log has failed. Nothing may be acknowledged.
    pub async fn commit(&self, end: u64) -> Result<(), Error> {
        let shared = &self.shared;
        shared.write_up_to(end)?;
        if shared.is_committed(end) {
            return Ok(());
        }
        if self.flusher.is_none() {
            return shared.flush().inspect_err(|error| shared.fail(error));
        }
        let mut progress = shared.progress.subscribe();
        shared.ask();
        while !shared.is_committed(end) {
            if let Some(failure) = shared.failure() {
                return Err(failure);
            }
            if progress.changed().await.is_err() {
                break;
            }
        }
        Ok(())
    }

    /// Removes the segments before `number`, which are no longer needed.
    ///
    /// # Errors
    /// A segment cannot be removed. The log remains usable.
    pub fn retire(&self, number: u64) -> Result<(), Error> {
        // Removing a large file takes long. The lock is free meanwhile, so that writes do not wait.
        let retired = self.shared.writer.lock().before(number);
        for (number, path) in retired {
            remove(&path)?;
            let mut writer = self.shared.writer.lock();
            writer.forget(number);
            self.shared.bytes.store(writer.bytes(), Ordering::Relaxed);
        }
        Ok(())
    }

    /// Removes all segments. Records are dropped until a segment is begun.
    ///
    /// # Errors
    /// A file cannot be removed.
    pub fn clear(&self) -> Result<(), Error> {
        let mut writer = self.shared.writer.lock();
        let cleared = writer.clear();
        self.shared.bytes.store(writer.bytes(), Ordering::Relaxed);
        cleared
    }

    /// Returns the bytes of all segments.
    pub fn bytes(&self) -> u64 {
        self.shared.bytes.load(Ordering::Relaxed)
    }

    /// Returns the failure of the log, if it has failed.
    pub fn failure(&self) -> Option<Error> {
        self.shared.failure()
    }
}

impl Drop for Log {
    fn drop(&mut self) {
        self.shared.stops.store(true, Ordering::Release);
        self.shared.ask();
        if let Some(flusher) = self.flusher.take() {
            // The panic hook has already reported a panic of the thread.
            drop(flusher.join());
        }
    }
}

impl Shared {
    fn is_committed(&self, end: u64) -> bool {
        let written = self.written.load(Ordering::Acquire);
        let flushed = self.flushed.load(Ordering::Acquire);
        self.durability.acknowledged(written, flushed) >= end
    }

    /// Wakes the thread that flushes. Taking the lock prevents a lost wakeup between that thread's check and its
    /// wait.
    fn ask(&self) {
        drop(self.asked.lock());
        self.unflushed.notify_one();
    }

    fn failure(&self) -> Option<Error> {
        self.failure.read().clone()
    }

    fn fail(&self, error: &Error) {
        // The first failure is the cause of the others.
        self.failure.write().get_or_insert_with(|| error.clone());
        self.progress.send_replace(());
    }

    /// Writes everything up to `end`, unless another thread has.
    fn write_up_to(&self, end: u64) -> Result<(), Error> {
        if self.written.load(Ordering::Acquire) >= end && self.failure.read().is_none() {
            return Ok(());
        }
        let mut writer = self.writer.lock();
        if let Some(failure) = self.failure() {
            return Err(failure);
        }
        if self.written.load(Ordering::Acquire) >= end {
            return Ok(());
        }
        let (items, end) = {
            let mut queue = self.queue.lock();
            (std::mem::take(&mut queue.items), queue.end)
        };
        if let Err(error) = self.write_items(&mut writer, items) {
            self.fail(&error);
            return Err(error);
        }
        self.bytes.store(writer.bytes(), Ordering::Relaxed);
        self.written.store(end, Ordering::Release);
        Ok(())
    }

    fn write_items(&self, writer: &mut Writer, items: VecDeque<Item>) -> Result<(), Error> {
        let mut entries = Vec::with_capacity(items.len());
        // Position of the next item in the log.
        let mut at = self.written.load(Ordering::Acquire);
        for item in items {
            match item {
                Item::Record(entry) => {
                    at += entry.bytes();
                    entries.push(entry);
                }
                Item::Segment {
                    origin,
                    number,
                    earlier,
                } => {
                    if earlier == EarlierSegments::Kept {
                        writer.write(&entries, self.flushed.load(Ordering::Acquire))?;
                    }
                    entries.clear();
                    writer.begin(origin, number, earlier, at)?;
                    // The previous segment and the new segment's header are on the disk.
                    at += crate::SEGMENT_HEADER_BYTES as u64;
                    self.flushed.fetch_max(at, Ordering::AcqRel);
                }
            }
        }
        writer.write(&entries, self.flushed.load(Ordering::Acquire))
    }

    fn flush_until_stopped(&self) {
        let wait = self.durability.flush_after();
        let mut looked = Instant::now();
        loop {
            {
                let mut asked = self.asked.lock();
                let waits = || !self.stops.load(Ordering::Acquire) && !self.is_due();
                if wait.is_zero() {
                    while waits() {
                        self.unflushed.wait(&mut asked);
                    }
                } else if !self.stops.load(Ordering::Acquire) {
                    self.unflushed.wait_until(&mut asked, looked + wait);
                }
            }
            looked = Instant::now();
            if let Err(error) = self.flush() {
                // After a failed flush the system may have dropped the data, and a second flush would falsely
                // succeed.
                self.fail(&error);
                return;
            }
            if self.stops.load(Ordering::Acquire) {
                return;
            }
        }
    }

    fn is_due(&self) -> bool {
        self.flushed.load(Ordering::Acquire) < self.written.load(Ordering::Acquire)
    }

    /// Flushes the open segment.
    fn flush(&self) -> Result<(), Error> {
        if !self.is_due() {
            return Ok(());
        }
        let (file, path, written, flushed) = {
            let mut writer = self.writer.lock();
            let written = self.written.load(Ordering::Acquire);
            let Some(open) = &mut writer.open else {
                // Records before the first segment are dropped.
                self.flushed.fetch_max(written, Ordering::AcqRel);
                self.progress.send_replace(());
                return Ok(());
            };
            (
                Arc::clone(&open.file),
                open.path.clone(),
                written,
                open.give_back_up_to(written),
            )
        };
        file.sync_data().map_err(Error::io("flush", &path))?;
        self.flushed.fetch_max(written, Ordering::AcqRel);
        self.progress.send_replace(());
        give_back(&file, flushed.start, flushed.end);
        Ok(())
    }
}
