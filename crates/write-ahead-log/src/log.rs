//! A log that many threads append to (group commit).
//!
//! Adding a record only queues it, so that it is cheap enough to do under the lock that decides the order. A thread
//! that commits writes everything in the queue. Threads that commit meanwhile find their records written.

use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::{Mutex, RwLock};

use crate::disk_room::CheckpointRoom;
use crate::folder::remove;
use crate::item::Item;
use crate::writer::{Retired, Writer};
use crate::{CutMemory, EarlierSegments, Entry, Error, Folder, Origin, SegmentFile};

/// Longest wait for a thread that writes to shared memory. One that waits longer waits for the disk.
const MEMORY_WRITE_TIMEOUT: Duration = Duration::from_millis(20);

#[derive(Debug, Default)]
struct Queue {
    items: VecDeque<Item>,
    /// Position of the end of the queue, in bytes. Positions count from the begin of the first segment that this
    /// process writes.
    end: u64,
    /// Number of the latest segment.
    number: u64,
}

/// A log. After a failure it acknowledges nothing more.
#[derive(Debug)]
pub struct Log {
    queue: Mutex<Queue>,
    writer: Mutex<Writer>,
    /// Position up to which the log is written.
    written: AtomicU64,
    /// A thread writes what lies behind that position.
    is_writing: AtomicBool,
    /// Bytes in use of all segments.
    bytes: AtomicU64,
    /// Bytes of files in shared memory.
    memory_bytes: AtomicU64,
    /// The next write may go to a file on the disk, or one does.
    may_wait: AtomicBool,
    is_short: AtomicBool,
    may_give_way: AtomicBool,
    checkpoint_room: Arc<CheckpointRoom>,
    failure: RwLock<Option<Error>>,
    folder: PathBuf,
    cut_memory: Option<CutMemory>,
    memory_bytes_max: u64,
}

impl Log {
    /// Opens the log of a folder: at the end of segment `go_on`, whose last part ends where its good part does (see
    /// [`SegmentFile::ending_at`]), or without an open segment. What lies behind is erased.
    ///
    /// # Errors
    /// A file cannot be opened.
    pub fn open(folder: Folder, go_on: Option<&SegmentFile>) -> Result<Self, Error> {
        let path = folder.path().to_owned();
        let cut_memory = folder.cut_memory()?;
        let memory_bytes_max = folder.memory().map_or(0, |memory| memory.bytes_max);
        let checkpoint_room = Arc::new(CheckpointRoom::default());
        let mut writer = Writer::new(folder, go_on, Arc::clone(&checkpoint_room))?;
        let queue = Queue {
            number: writer.last(),
            ..Queue::default()
        };
        let bytes = AtomicU64::new(writer.bytes());
        let memory_bytes = AtomicU64::new(writer.memory_bytes());
        let may_wait = AtomicBool::new(writer.may_wait());
        let is_short = AtomicBool::new(writer.check_room());
        let may_give_way = AtomicBool::new(writer.may_give_way());
        Ok(Self {
            queue: Mutex::new(queue),
            writer: Mutex::new(writer),
            written: AtomicU64::new(0),
            is_writing: AtomicBool::new(false),
            bytes,
            memory_bytes,
            may_wait,
            is_short,
            may_give_way,
            checkpoint_room,
            failure: RwLock::default(),
            folder: path,
            cut_memory,
            memory_bytes_max,
        })
    }

    /// Returns the path of the folder.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Returns the number of the last segment, queued ones included; 0 = none.
    pub fn last(&self) -> u64 {
        self.queue.lock().number
    }

    /// Returns the most bytes of the log and its cuts in shared memory.
    pub fn memory_bytes_max(&self) -> u64 {
        self.memory_bytes_max
    }

    /// Returns where cuts of the log lie in shared memory; `None` = nowhere.
    pub fn cut_memory(&self) -> Option<&CutMemory> {
        self.cut_memory.as_ref()
    }

    /// Queues a record. It is not safe before [`Log::commit`] returns.
    pub fn add(&self, entry: Entry) {
        let mut queue = self.queue.lock();
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
        let mut queue = self.queue.lock();
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
        self.queue.lock().end
    }

    /// Writes everything up to `end`. It then outlives the process.
    ///
    /// # Errors
    /// The log has failed. Nothing may be acknowledged.
    pub fn commit(&self, end: u64) -> Result<(), Error> {
        match self.committed(end) {
            Some(done) => done,
            None => {
                let mut writer = self.writer.lock();
                let stays_in_memory = writer.stays_in_memory(&self.queue.lock().items);
                // The disk may hang: nobody else may wait for this call.
                self.may_wait.store(!stays_in_memory, Ordering::Relaxed);
                self.commit_with(&mut writer, end)
            }
        }
    }

    /// As [`Log::commit`], if no file of the disk is needed for it. `None`: one may be needed, or another thread is waiting for one.
    /// So the call never waits for the disk.
    pub fn commit_in_memory(&self, end: u64) -> Option<Result<(), Error>> {
        if let Some(done) = self.committed(end) {
            return Some(done);
        }
        if self.may_wait.load(Ordering::Relaxed) {
            return None;
        }
        // Whoever writes to memory alone is done before.
        let mut writer = self.writer.try_lock_for(MEMORY_WRITE_TIMEOUT)?;
        let stays_in_memory = writer.stays_in_memory(&self.queue.lock().items);
        stays_in_memory.then(|| self.commit_with(&mut writer, end))
    }

    /// Returns the outcome of a commit up to `end`, if it is known.
    fn committed(&self, end: u64) -> Option<Result<(), Error>> {
        if let Some(failure) = self.failure() {
            return Some(Err(failure));
        }
        (self.written.load(Ordering::Acquire) >= end).then_some(Ok(()))
    }

    fn commit_with(&self, writer: &mut Writer, end: u64) -> Result<(), Error> {
        if let Some(done) = self.committed(end) {
            return done;
        }
        let (items, end) = {
            let mut queue = self.queue.lock();
            (std::mem::take(&mut queue.items), queue.end)
        };
        self.is_writing.store(true, Ordering::Release);
        let outcome = write_items(writer, items);
        self.is_writing.store(false, Ordering::Release);
        if let Err(error) = outcome {
            // The first failure is the cause of the others.
            self.failure.write().get_or_insert_with(|| error.clone());
            return Err(error);
        }
        self.measure(writer);
        self.may_wait.store(writer.may_wait(), Ordering::Relaxed);
        self.look_at_room(writer);
        self.written.store(end, Ordering::Release);
        Ok(())
    }

    /// Returns whether the disk has no room for the log but what a checkpoint takes, after which the log is shorter. Until
    /// then, nothing should be added that does not belong to a checkpoint.
    pub fn is_short_of_room(&self) -> bool {
        self.is_short.load(Ordering::Relaxed)
    }

    /// Sets the bytes that the next checkpoint takes of the disk of the log, and which the log leaves to it; 0, as at first, = it
    /// lies elsewhere.
    pub fn leave_room(&self, checkpoint_bytes: u64) {
        self.checkpoint_room.set(checkpoint_bytes);
    }

    /// Looks again for room on the disk, if there was none and nothing is being written. Returns whether there still is
    /// none. Does not wait for a disk that hangs.
    pub fn check_room(&self) -> bool {
        if self.is_short_of_room()
            && let Some(mut writer) = self.writer.try_lock()
        {
            self.look_at_room(&mut writer);
        }
        self.is_short_of_room()
    }

    fn look_at_room(&self, writer: &mut Writer) {
        let is_short = writer.check_room();
        self.is_short.store(is_short, Ordering::Relaxed);
        self.may_give_way
            .store(writer.may_give_way(), Ordering::Relaxed);
    }

    /// Returns whether the log has taken room of the next checkpoint that it can give back.
    pub fn may_give_way(&self) -> bool {
        self.may_give_way.load(Ordering::Relaxed)
    }

    /// Gives the room that the log has taken from the next checkpoint back to it, if it has and nothing is being written. Does not
    /// wait for a disk that hangs.
    ///
    /// # Errors
    /// A file that was kept for later cannot be removed. The log remains usable.
    pub fn give_way_to_checkpoint(&self) -> Result<(), Error> {
        self.give_way(Writer::give_way_to_checkpoint)
    }

    /// As [`Log::give_way_to_checkpoint`], for a checkpoint that lacks room now, also if the log is short.
    ///
    /// # Errors
    /// A file that was kept for later cannot be removed. The log remains usable.
    pub fn make_room_for_checkpoint(&self) -> Result<(), Error> {
        self.give_way(Writer::make_room_for_checkpoint)
    }

    fn give_way(&self, how: impl FnOnce(&mut Writer) -> Result<(), Error>) -> Result<(), Error> {
        let Some(mut writer) = self.writer.try_lock() else {
            return Ok(());
        };
        let gave_way = how(&mut writer);
        self.look_at_room(&mut writer);
        gave_way
    }

    /// Removes the segments before `number`, which are no longer needed. Writes what is queued first: the log goes on from
    /// segment `number`, so its head must outlive the process before the others go.
    ///
    /// # Errors
    /// A segment cannot be removed: the log remains usable. Or the log has failed: no segment is removed.
    pub fn retire(&self, number: u64) -> Result<(), Error> {
        self.commit(self.end())?;
        loop {
            let retired = {
                let mut writer = self.writer.lock();
                let retired = writer.retire_next(number);
                self.measure(&writer);
                retired?
            };
            match retired {
                Retired::Nothing => {
                    self.writer.lock().restore_spare_files();
                    return Ok(());
                }
                Retired::Kept => {}
                // Removing a file may take long. The lock is free meanwhile, so that writes do not wait.
                Retired::Useless(path) => remove(&path)?,
            }
        }
    }

    /// Removes all segments. Records are dropped until a segment is begun.
    ///
    /// # Errors
    /// A file cannot be removed.
    pub fn clear(&self) -> Result<(), Error> {
        let mut writer = self.writer.lock();
        let cleared = writer.clear();
        self.measure(&writer);
        cleared
    }

    fn measure(&self, writer: &Writer) {
        self.bytes.store(writer.bytes(), Ordering::Relaxed);
        self.memory_bytes
            .store(writer.memory_bytes(), Ordering::Relaxed);
    }

    /// Returns the position behind which a thread writes; `None` if none does. While the disk hangs, it stays the same.
    pub fn writes_from(&self) -> Option<u64> {
        let is_writing = self.is_writing.load(Ordering::Acquire);
        is_writing.then(|| self.written.load(Ordering::Acquire))
    }

    /// Returns the bytes of files in shared memory, those that are kept for later segments included.
    pub fn memory_bytes(&self) -> u64 {
        self.memory_bytes.load(Ordering::Relaxed)
    }

    /// Returns the bytes of all segments.
    pub fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Returns the failure of the log, if it has failed.
    pub fn failure(&self) -> Option<Error> {
        self.failure.read().clone()
    }
}

fn write_items(writer: &mut Writer, items: VecDeque<Item>) -> Result<(), Error> {
    let mut entries = Vec::with_capacity(items.len());
    for item in items {
        match item {
            Item::Record(entry) => entries.push(entry),
            Item::Segment {
                origin,
                number,
                earlier,
            } => {
                if earlier == EarlierSegments::Kept {
                    writer.write(&entries)?;
                }
                entries.clear();
                writer.begin(origin, number, earlier)?;
            }
        }
    }
    writer.write(&entries)
}
