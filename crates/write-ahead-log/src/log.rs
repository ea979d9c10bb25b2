//! A log that many threads add to.
//!
//! Adding takes a place in a queue and nothing more, so that it may be done under the lock that decides the order. Who
//! then wants to be sure writes everything that is queued, for all, in one write; who comes meanwhile finds its own
//! record written. A thread of its own flushes.

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
use crate::{Durability, Entry, Error, Folder, Origin, SegmentFile};

/// What waits to be written.
#[derive(Debug)]
enum Item {
    Record(Entry),
    /// A new segment: after all that came before, or instead of it.
    Segment {
        origin: Origin,
        number: u64,
        alone: bool,
    },
}

#[derive(Debug, Default)]
struct Queue {
    items: VecDeque<Item>,
    /// Bytes of the log up to the last of them, since the process began.
    end: u64,
    /// Number of the last segment that was begun.
    number: u64,
}

#[derive(Debug)]
struct Shared {
    durability: Durability,
    queue: Mutex<Queue>,
    writer: Mutex<Writer>,
    /// Bytes that the system has.
    written: AtomicU64,
    /// Bytes that the disk has.
    flushed: AtomicU64,
    /// Bytes of all segments.
    bytes: AtomicU64,
    failure: RwLock<Option<Error>>,
    /// Told at every flush, and when the log fails.
    progress: watch::Sender<()>,
    /// Wakes who flushes.
    unflushed: Condvar,
    asked: Mutex<()>,
    stops: AtomicBool,
}

/// A log. Once it has failed, nothing is acknowledged any more.
#[derive(Debug)]
pub struct Log {
    shared: Arc<Shared>,
    flusher: Option<JoinHandle<()>>,
    folder: PathBuf,
}

impl Log {
    /// Opens the log of a folder: behind the last record of `go_on`, or to be begun anew.
    ///
    /// # Errors
    /// A file cannot be opened, or the thread that flushes not be started.
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

    /// The same where threads beside the caller's are not wanted: who waits until something is safe flushes. What nobody
    /// waits for is flushed with the next that somebody does, or with its segment.
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

    /// Returns the folder that it is in.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Takes a record in, behind those before it. It is not safe before [`Log::commit`] has said so.
    pub fn add(&self, entry: Entry) {
        let mut queue = self.shared.queue.lock();
        queue.end += entry.bytes();
        queue.items.push_back(Item::Record(entry));
    }

    /// Begins a new segment with its first records. `alone`: what the log held before is over, and removed
    /// first. Returns the number of the segment.
    pub fn begin(
        &self,
        origin: Origin,
        entries: impl IntoIterator<Item = Entry>,
        alone: bool,
    ) -> u64 {
        let mut queue = self.shared.queue.lock();
        queue.number += 1;
        let number = queue.number;
        queue.end += crate::SEGMENT_HEADER_BYTES as u64;
        queue.items.push_back(Item::Segment {
            origin,
            number,
            alone,
        });
        for entry in entries {
            queue.end += entry.bytes();
            queue.items.push_back(Item::Record(entry));
        }
        number
    }

    /// Returns how far the log goes that has been taken in.
    pub fn end(&self) -> u64 {
        self.shared.queue.lock().end
    }

    /// Waits until everything up to `end` is as safe as the mode says.
    ///
    /// # Errors
    /// The log has failed: nothing may be acknowledged.
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

    /// Removes the segments before `number`: nobody needs them any more.
    ///
    /// # Errors
    /// One cannot be removed. The log goes on.
    pub fn retire(&self, number: u64) -> Result<(), Error> {
        // Large files take long to remove: who writes meanwhile does not wait for it.
        let retired = self.shared.writer.lock().before(number);
        for (number, path) in retired {
            remove(&path)?;
            let mut writer = self.shared.writer.lock();
            writer.forget(number);
            self.shared.bytes.store(writer.bytes(), Ordering::Relaxed);
        }
        Ok(())
    }

    /// Removes everything. What is taken in from now on is dropped, until a segment is begun.
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

    /// Returns why the log has failed, if it has.
    pub fn failure(&self) -> Option<Error> {
        self.shared.failure()
    }
}

impl Drop for Log {
    fn drop(&mut self) {
        self.shared.stops.store(true, Ordering::Release);
        self.shared.ask();
        if let Some(flusher) = self.flusher.take() {
            // A panic of it has been told by its own hook.
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

    /// Wakes who flushes. The lock keeps the wish from coming between its look and its sleep.
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

    /// Sees to it that everything up to `end` is written.
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
        // Where the next item begins, in bytes of the log.
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
                    alone,
                } => {
                    if !alone {
                        writer.write(&entries, self.flushed.load(Ordering::Acquire))?;
                    }
                    entries.clear();
                    writer.begin(origin, number, alone, at)?;
                    // The segment before is on the disk, and so is the new one's head.
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
                // The system may have dropped what it could not write: another try would say that all is well.
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

    /// Flushes what has been written.
    fn flush(&self) -> Result<(), Error> {
        if !self.is_due() {
            return Ok(());
        }
        let (file, path, written, flushed) = {
            let mut writer = self.writer.lock();
            let written = self.written.load(Ordering::Acquire);
            let Some(open) = &mut writer.open else {
                // What comes before a segment is begun is dropped.
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
