//! Writes records to the files of segments.
//!
//! Files lie in shared memory as far as there is room, else in the folder of the log. A file whose segment is no longer
//! needed is kept, mapped, for a later segment: a page that was never used costs many times what it costs to overwrite
//! one.

use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tracing::warn;

use crate::disk_room::{CheckpointRoom, DiskRoom};
use crate::folder::{FREE, remove};
use crate::item::Item;
use crate::mapped_file::{END_BYTES, MappedFile, give_back};
use crate::segment::{SEGMENT_HEADER_BYTES, boot, salt};
use crate::segment_file::file_name;
use crate::{EarlierSegments, Entry, Error, Folder, Origin, SegmentFile, SegmentHeader};

/// Size of a file, if no record needs a larger one, in bytes. A checkpoint makes the log of each server begin one.
pub const FILE_BYTES: u64 = 8 << 20;
/// Files that are kept on the disk for the time when somebody else has filled it: one for the pushes that are in progress,
/// and one for the segment from which the log goes on after a checkpoint.
const SPARE_FILES: usize = 2;
/// Bytes at the end of the last file that do as well as a spare file for the pushes that are in progress.
const REST_BYTES_MIN: u64 = FILE_BYTES / 2;
/// Size of the smallest file of a segment that a full disk may have, in bytes.
const SMALL_FILE_BYTES: u64 = 64 << 10;
/// Most files that are kept in the folder of the log for later segments, where its disk has no checkpoints.
const FREE_FILES_MAX: usize = 4;

/// Where a file lies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    SharedMemory,
    Disk,
}

/// Reason why a file of the log does not lie in shared memory.
#[derive(Debug, thiserror::Error)]
enum NotInMemory {
    #[error("the log has all the shared memory that it may take")]
    AllTaken,
    #[error("the file system in memory has no room, a part of which is left to its other users")]
    LeftToOthers,
    #[error("shared memory takes no file of the log ({0})")]
    Refused(Error),
}

/// A file of a segment.
#[derive(Debug)]
struct LogFile {
    segment: u64,
    part: u32,
    place: Place,
    path: PathBuf,
    /// Size of the file.
    size: u64,
    /// Bytes in use.
    used: u64,
    /// `None` for a file of an earlier process.
    mapped: Option<MappedFile>,
}

/// What became of the oldest file of a log.
#[derive(Debug)]
pub(crate) enum Retired {
    /// The log needs the file, or has none.
    Nothing,
    /// The file is kept for a later segment.
    Kept,
    /// The file must be removed.
    Useless(PathBuf),
}

/// The writer of a log's segments. One thread at a time uses it.
#[derive(Debug)]
pub(crate) struct Writer {
    folder: Folder,
    /// Files of all segments, in order. If `is_open`, records are written to the last one.
    files: VecDeque<LogFile>,
    is_open: bool,
    origin: Origin,
    boot: u128,
    /// Files for later segments.
    free: Vec<(Place, MappedFile)>,
    /// Number of the next free file.
    next_free: u64,
    checkpoint_room: Arc<CheckpointRoom>,
    /// The disk has no room for the log but what a checkpoint takes.
    is_short: bool,
    /// The log is short because the next checkpoint needs the room that is left.
    leaves_room: bool,
    /// It has taken some of that room, and can give it back.
    may_give_way: bool,
    /// A file has been added since the room of the disk was looked at.
    has_grown: bool,
    /// A log line has said that the log goes on on the disk.
    has_told_of_disk: bool,
}

impl Writer {
    /// Returns the writer of a folder. It appends to segment `go_on`, whose last part ends where its good part does.
    pub(crate) fn new(
        folder: Folder,
        go_on: Option<&SegmentFile>,
        checkpoint_room: Arc<CheckpointRoom>,
    ) -> Result<Self, Error> {
        let memory = folder.memory().map(|memory| memory.path.clone());
        let mut files = VecDeque::new();
        for segment in folder.segments()? {
            for part in segment.parts {
                let is_memory = memory
                    .as_ref()
                    .is_some_and(|memory| part.path.starts_with(memory));
                files.push_back(LogFile {
                    segment: segment.number,
                    part: part.number,
                    place: if is_memory {
                        Place::SharedMemory
                    } else {
                        Place::Disk
                    },
                    path: part.path,
                    size: part.bytes,
                    used: part.bytes,
                    mapped: None,
                });
            }
        }
        let mut writer = Self {
            folder,
            files,
            is_open: false,
            origin: Origin::default(),
            boot: boot(),
            free: Vec::new(),
            next_free: 0,
            checkpoint_room,
            is_short: false,
            leaves_room: false,
            may_give_way: false,
            has_grown: true,
            has_told_of_disk: false,
        };
        writer.adopt_free_files()?;
        if let Some(segment) = go_on {
            writer.go_on(segment)?;
        }
        let last = writer.files.back();
        writer.is_short = last.is_some_and(|file| file.place == Place::Disk);
        Ok(writer)
    }

    /// Takes over the files on the disk that an earlier process has kept for the time when somebody else has filled it.
    fn adopt_free_files(&mut self) -> Result<(), Error> {
        for path in self.folder.free_files()? {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            let Some(number) = name.strip_prefix(FREE).and_then(|text| text.parse().ok()) else {
                // Somebody else has made it.
                continue;
            };
            self.next_free = self.next_free.max(number);
            match MappedFile::open(&path, FILE_BYTES) {
                Ok(mut file) if self.free.len() < SPARE_FILES && file.bytes() == FILE_BYTES => {
                    // Its records may have the salt of a segment to come, if the log was empty when this process began.
                    file.clear_from(0);
                    self.free.push((Place::Disk, file));
                }
                _ => remove(&path)?,
            }
        }
        Ok(())
    }

    fn go_on(&mut self, segment: &SegmentFile) -> Result<(), Error> {
        let header = segment.read()?.header();
        let (Some(last), Some(part)) = (self.files.back_mut(), segment.parts.last()) else {
            return Ok(());
        };
        last.used = part.bytes;
        let least = last.used + END_BYTES;
        let mapped = match MappedFile::open(&last.path, FILE_BYTES.max(least)) {
            // The next record takes a file that was kept.
            Err(error) if error.is_full() => MappedFile::open(&last.path, least),
            opened => opened,
        };
        let mut mapped = mapped?;
        mapped.clear_from(last.used);
        last.size = mapped.bytes();
        last.mapped = Some(mapped);
        self.origin = header.origin;
        self.is_open = true;
        Ok(())
    }

    /// Returns the bytes in use of all segments.
    pub(crate) fn bytes(&self) -> u64 {
        self.files.iter().map(|file| file.used).sum()
    }

    /// Returns whether the disk has no room for the log but what a checkpoint takes. Looks at the disk only where that may have
    /// changed: it was so, the log has a further file, the checkpoint takes more, or the pushes in progress are about to take
    /// the file that is kept for the checkpoint.
    pub(crate) fn check_room(&mut self) -> bool {
        let kept = self.free_in(Place::Disk);
        let last = self.files.back().filter(|file| file.place == Place::Disk);
        let rest = last.map_or(0, |file| file.size.saturating_sub(file.used));
        let lacks_files = kept < SPARE_FILES && (kept == 0 || rest < REST_BYTES_MIN);
        let has_grown = std::mem::take(&mut self.has_grown) | self.checkpoint_room.has_grown();
        if self.is_short || (has_grown && self.may_wait()) || (last.is_some() && lacks_files) {
            // The files that are kept are a part of what the log takes next.
            let next = FILE_BYTES * (1 + SPARE_FILES.saturating_sub(kept) as u64);
            let room = DiskRoom::of(self.folder.path());
            let checkpoint = self.checkpoint_room.bytes();
            // The file that a log goes on with stays where it is.
            let is_long = self.bytes() > FILE_BYTES;
            let is_taken = |room: DiskRoom| {
                // A checkpoint in progress has a part of its room, which counts as taken by others: only a log that has not waited yet
                // may find that it would not fit without the log either.
                let log_bytes = if self.leaves_room {
                    u64::MAX
                } else {
                    self.disk_bytes()
                };
                room.is_taken_from_checkpoint(next, checkpoint, log_bytes)
            };
            self.leaves_room = is_long && room.is_some_and(is_taken);
            let lacks_room = lacks_files && room.is_some_and(|room| room.is_short_for(FILE_BYTES));
            self.is_short = lacks_room || self.leaves_room;
            let has_taken =
                |room: DiskRoom| room.is_taken_from_checkpoint(0, checkpoint, self.disk_bytes());
            self.may_give_way =
                self.leaves_room && room.is_some_and(has_taken) && self.has_to_give();
        }
        self.is_short
    }

    /// Returns whether the log has taken room of the next checkpoint that it can give back.
    pub(crate) fn may_give_way(&self) -> bool {
        self.may_give_way
    }

    /// Returns whether there is something on the disk that the log does without.
    fn has_to_give(&self) -> bool {
        let mut rests = self.files.iter().filter(|file| {
            let rest = file.size.saturating_sub(file.used);
            file.place == Place::Disk && file.mapped.is_some() && rest > SMALL_FILE_BYTES
        });
        self.free_in(Place::Disk) > 0 || rests.next().is_some()
    }

    /// Returns the bytes of the log's files on the disk, those that are kept for later segments included.
    fn disk_bytes(&self) -> u64 {
        let used = self.files.iter().filter(|file| file.place == Place::Disk);
        let kept = self.free.iter().filter(|(place, _)| *place == Place::Disk);
        used.map(|file| file.size).sum::<u64>() + kept.map(|(_, file)| file.bytes()).sum::<u64>()
    }

    /// Returns the number of the last segment; 0 = none.
    pub(crate) fn last(&self) -> u64 {
        self.files.back().map_or(0, |file| file.segment)
    }

    /// Begins a segment.
    pub(crate) fn begin(
        &mut self,
        origin: Origin,
        number: u64,
        earlier: EarlierSegments,
    ) -> Result<(), Error> {
        if earlier == EarlierSegments::Obsolete {
            self.is_open = false;
            loop {
                match self.retire_next(u64::MAX)? {
                    Retired::Nothing => break,
                    Retired::Kept => {}
                    Retired::Useless(path) => remove(&path)?,
                }
            }
        }
        #[cfg(feature = "failpoints")]
        fail::fail_point!("ps.wal.before_segment");
        self.origin = origin;
        self.add_file(number, 0, 0)
    }

    /// Adds a file to the end of the log, with room for `bytes` bytes of records.
    fn add_file(&mut self, segment: u64, part: u32, bytes: u64) -> Result<(), Error> {
        let head = SEGMENT_HEADER_BYTES as u64;
        let (place, mut mapped) = self.free_file(head + bytes + END_BYTES)?;
        let previous_bytes = self
            .files
            .back()
            .filter(|_| part > 0)
            .map_or(0, |file| file.used);
        let header = SegmentHeader {
            origin: self.origin,
            number: segment,
            boot: self.boot,
            part,
            previous_bytes,
        };
        mapped.write(0, &header.encode(), std::iter::empty(), END_BYTES as usize);
        #[cfg(feature = "failpoints")]
        fail::fail_point!("ps.wal.before_segment_header");
        // A file has its name only with its header.
        let folder = mapped.path.parent().unwrap_or(self.folder.path());
        let path = folder.join(file_name(segment, part));
        mapped.rename(path.clone())?;
        self.files.push_back(LogFile {
            segment,
            part,
            place,
            path,
            size: mapped.bytes(),
            used: head,
            mapped: Some(mapped),
        });
        self.is_open = true;
        self.has_grown = true;
        Ok(())
    }

    /// Returns the bytes of the files in shared memory, those that are kept for later segments included.
    pub(crate) fn memory_bytes(&self) -> u64 {
        let is_memory = |place| place == Place::SharedMemory;
        let used = self.files.iter().filter(|file| is_memory(file.place));
        let free = self.free.iter().filter(|(place, _)| is_memory(*place));
        used.map(|file| file.size).sum::<u64>() + free.map(|(_, file)| file.bytes()).sum::<u64>()
    }

    /// Returns whether the next record may go to the disk: the last file lies there, or there is no memory for another one.
    pub(crate) fn may_wait(&self) -> bool {
        let on_disk = |file: &LogFile| file.place == Place::Disk;
        let Some(memory) = self.folder.memory() else {
            return true;
        };
        let is_free = |(place, _): &(Place, MappedFile)| *place == Place::SharedMemory;
        self.files.back().is_some_and(on_disk)
            || (self.memory_bytes() + FILE_BYTES > memory.log_bytes_max()
                && !self.free.iter().any(is_free))
    }

    /// Returns whether these items can be written to shared memory alone, without a look at the disk.
    pub(crate) fn stays_in_memory<'a>(&self, items: impl IntoIterator<Item = &'a Item>) -> bool {
        let Some(memory) = self.folder.memory() else {
            return false;
        };
        let is_memory = |place| place == Place::SharedMemory;
        let looks_at_disk = self.is_short || (self.has_grown && self.may_wait());
        if looks_at_disk || self.files.back().is_some_and(|file| !is_memory(file.place)) {
            return false;
        }
        let last = self.files.back().filter(|file| file.mapped.is_some());
        let mut rest = last.map_or(0, |file| file.size.saturating_sub(file.used + END_BYTES));
        let free = self.free.iter().filter(|(place, _)| is_memory(*place));
        let mut free = free.count();
        let mut new_bytes = 0;
        let head = SEGMENT_HEADER_BYTES as u64;
        for item in items {
            let bytes = match item {
                Item::Record(entry) if entry.bytes() <= rest => {
                    rest -= entry.bytes();
                    continue;
                }
                Item::Record(entry) => head + entry.bytes() + END_BYTES,
                // Earlier files, some perhaps on the disk, are removed.
                Item::Segment {
                    earlier: EarlierSegments::Obsolete,
                    ..
                } => return false,
                Item::Segment { .. } => head + END_BYTES,
            };
            let size = bytes.next_multiple_of(FILE_BYTES);
            if size == FILE_BYTES && free > 0 {
                free -= 1;
            } else {
                new_bytes += size;
            }
            rest = size - bytes;
        }
        new_bytes == 0
            || (self.memory_bytes() + new_bytes <= memory.log_bytes_max()
                && memory.has_room_for(new_bytes))
    }

    /// Returns the number of files at a place that are kept for later segments.
    fn free_in(&self, place: Place) -> usize {
        let there = self.free.iter().filter(|(at, _)| *at == place);
        there.count()
    }

    /// Returns a file for a new segment, of `least` bytes at least.
    fn free_file(&mut self, least: u64) -> Result<(Place, MappedFile), Error> {
        let size = least.next_multiple_of(FILE_BYTES);
        let find = |free: &[(Place, MappedFile)], wanted: Place| {
            let fits =
                |(place, file): &(Place, MappedFile)| *place == wanted && file.bytes() >= size;
            free.iter().position(fits)
        };
        if let Some(found) = find(&self.free, Place::SharedMemory) {
            return Ok(self.free.swap_remove(found));
        }
        self.next_free += 1;
        let name = format!("{FREE}{}", self.next_free);
        // There may be less shared memory than the log may take. The disk takes what does not fit.
        let mut why = None;
        if let Some(memory) = self.folder.memory() {
            if self.memory_bytes() + size > memory.log_bytes_max() {
                why = Some(NotInMemory::AllTaken);
            } else if !memory.has_room_for(size) {
                why = Some(NotInMemory::LeftToOthers);
            } else {
                match MappedFile::create(&memory.path.join(&name), size) {
                    Ok(file) => return Ok((Place::SharedMemory, file)),
                    Err(error) => why = Some(NotInMemory::Refused(error)),
                }
            }
        }
        if let Some(why) = why {
            self.tell_of_disk(&why);
        }
        // What is kept is for this time. A checkpoint needs the rest of the disk.
        if self.is_short
            && let Some(found) = find(&self.free, Place::Disk)
        {
            return Ok(self.free.swap_remove(found));
        }
        if self.free_in(Place::Disk) <= SPARE_FILES {
            let room = DiskRoom::of(self.folder.path());
            let was_short = self.is_short;
            self.is_short = was_short || room.is_some_and(|room| room.is_short_for(size));
            let path = self.folder.path().join(name);
            match MappedFile::create(&path, size) {
                Ok(file) => {
                    // Further files would take what a checkpoint needs.
                    if !was_short {
                        self.keep_spare_files();
                    }
                    return Ok((Place::Disk, file));
                }
                // Somebody else has filled the disk.
                Err(error) if error.is_full() => {
                    self.is_short = true;
                    if let Some(found) = find(&self.free, Place::Disk) {
                        return Ok(self.free.swap_remove(found));
                    }
                    self.give_back_rests();
                    return Ok((Place::Disk, create_as_large_as_fits(&path, size, least)?));
                }
                Err(error) => return Err(error),
            }
        }
        let found = find(&self.free, Place::Disk);
        let file = found.map(|found| self.free.swap_remove(found));
        match file {
            Some(file) => Ok(file),
            None => {
                let file = MappedFile::create(&self.folder.path().join(name), size)?;
                Ok((Place::Disk, file))
            }
        }
    }

    /// Gives back what the files on the disk have behind their last record. Each cut of the log and each checkpoint begins a file,
    /// also if it fails.
    fn give_back_rests(&mut self) {
        let on_disk = |file: &&mut LogFile| file.place == Place::Disk;
        for file in self.files.iter_mut().filter(on_disk) {
            // A file is not written to again, and is of no use to a later segment.
            if file.mapped.take().is_some() && give_back(&file.path, file.used).is_ok() {
                file.size = file.used + END_BYTES;
            }
        }
    }

    /// Keeps files again for the time when the disk is full, if it was: files of the log have been removed since. A log that is
    /// still long asks for another checkpoint, and leaves it its room.
    pub(crate) fn restore_spare_files(&mut self) {
        let is_short = self.is_short;
        if is_short && (self.bytes() <= FILE_BYTES || self.lacking_for_checkpoint(FILE_BYTES) == 0)
        {
            self.keep_spare_files();
        }
    }

    /// Returns how many bytes the next checkpoint lacks on this disk if the log takes `next` bytes more of it; 0 if it has them, or
    /// would lack them without the log too.
    fn lacking_for_checkpoint(&self, next: u64) -> u64 {
        let checkpoint = self.checkpoint_room.bytes();
        DiskRoom::of(self.folder.path()).map_or(0, |room| {
            room.lacking_for_checkpoint(next, checkpoint, self.disk_bytes())
        })
    }

    /// Gives what the log has taken of the room of the next checkpoint back to it: the rests of its files, then the files that are
    /// kept. Others may have filled the disk, and each checkpoint that was begun and has failed has begun a file.
    ///
    /// # Errors
    /// A file cannot be removed.
    pub(crate) fn give_way_to_checkpoint(&mut self) -> Result<(), Error> {
        // A log that the last checkpoint has made short asks for none, and goes on with the files that it keeps.
        let is_long = self.bytes() > FILE_BYTES;
        if !self.may_give_way || !is_long {
            return Ok(());
        }
        self.make_room_for_checkpoint()
    }

    /// As [`Writer::give_way_to_checkpoint`], for a checkpoint that lacks room now, also if the log is short.
    ///
    /// # Errors
    /// A file cannot be removed.
    pub(crate) fn make_room_for_checkpoint(&mut self) -> Result<(), Error> {
        self.may_give_way = false;
        if self.lacking_for_checkpoint(0) == 0 {
            return Ok(());
        }
        self.give_back_rests();
        while self.lacking_for_checkpoint(0) > 0
            && let Some(kept) = self
                .free
                .iter()
                .position(|(place, _)| *place == Place::Disk)
        {
            let (_, file) = self.free.swap_remove(kept);
            remove(&file.path)?;
        }
        Ok(())
    }

    /// Keeps files on the disk for the time when it is full.
    fn keep_spare_files(&mut self) {
        while self.free_in(Place::Disk) < SPARE_FILES {
            self.next_free += 1;
            let name = format!("{FREE}{}", self.next_free);
            match MappedFile::create(&self.folder.path().join(name), FILE_BYTES) {
                Ok(file) => self.free.push((Place::Disk, file)),
                // There is none when the disk is full: the log then ends with an error that says so.
                Err(_) => return,
            }
        }
    }

    /// Logs once that the log goes on on the disk.
    fn tell_of_disk(&mut self, why: &NotInMemory) {
        let Some(memory) = self.folder.memory().filter(|_| !self.has_told_of_disk) else {
            return;
        };
        warn!(
            memory = %memory.path.display(),
            memory_bytes = self.memory_bytes(),
            memory_bytes_max = memory.log_bytes_max(),
            disk = %self.folder.path().display(),
            "{why}: the rest of the log is written to the disk, until a checkpoint covers it"
        );
        self.has_told_of_disk = true;
    }

    /// Appends records.
    pub(crate) fn write(&mut self, entries: &[Entry]) -> Result<(), Error> {
        if !self.is_open {
            return Ok(());
        }
        for entry in entries {
            self.write_entry(entry)?;
        }
        Ok(())
    }

    fn write_entry(&mut self, entry: &Entry) -> Result<(), Error> {
        let bytes = entry.bytes();
        let next = match self.files.back() {
            Some(file) if file.used + bytes + END_BYTES <= file.size && file.mapped.is_some() => {
                None
            }
            Some(file) => Some((file.segment, file.part + 1)),
            None => return Ok(()),
        };
        if let Some((segment, part)) = next {
            self.add_file(segment, part, bytes)?;
        }
        let Some(file) = self.files.back_mut() else {
            return Ok(());
        };
        let salt = salt(file.segment, file.part);
        if let Some(mapped) = &mut file.mapped {
            let header = entry.header(file.used, salt);
            let parts = entry.parts().iter().map(|part| &part[..]);
            mapped.write(
                file.used,
                &header,
                parts,
                entry.filling() + END_BYTES as usize,
            );
        }
        file.used += bytes;
        Ok(())
    }

    /// Takes the oldest file out of the log if its segment is before `number`, and keeps it for a later segment.
    ///
    /// # Errors
    /// The file cannot be renamed.
    pub(crate) fn retire_next(&mut self, number: u64) -> Result<Retired, Error> {
        let oldest = self.files.front();
        if oldest.is_none_or(|file| file.segment >= number) {
            return Ok(Retired::Nothing);
        }
        let Some(mut file) = self.files.pop_front() else {
            return Ok(Retired::Nothing);
        };
        let may_keep = match file.place {
            // Cuts may have taken memory since. The file counts here no more.
            Place::SharedMemory => {
                let memory = self.folder.memory();
                memory
                    .is_some_and(|memory| self.memory_bytes() + file.size <= memory.log_bytes_max())
            }
            Place::Disk => {
                let is_shared = self.checkpoint_room.bytes() > 0;
                let most = if is_shared {
                    SPARE_FILES
                } else {
                    FREE_FILES_MAX
                };
                self.free_in(Place::Disk) < most
            }
        };
        match file.mapped.take() {
            Some(mut mapped) if may_keep && mapped.bytes() == FILE_BYTES => {
                self.next_free += 1;
                let name = format!("{FREE}{}", self.next_free);
                mapped.rename(file.path.with_file_name(name))?;
                self.free.push((file.place, mapped));
                Ok(Retired::Kept)
            }
            _ => Ok(Retired::Useless(file.path)),
        }
    }

    /// Removes all segments and the files that were kept.
    pub(crate) fn clear(&mut self) -> Result<(), Error> {
        self.is_open = false;
        self.files.clear();
        for (_, file) in self.free.drain(..) {
            remove(&file.path)?;
        }
        self.folder.clear()
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        for (_, file) in self.free.drain(..) {
            let _ = remove(&file.path);
        }
        if let Some(file) = self.files.back_mut()
            && let Some(mapped) = file.mapped.take()
        {
            mapped.finish(file.used);
        }
    }
}

/// Creates a file of `size` bytes, or of as many as there is room for, down to `least`.
fn create_as_large_as_fits(path: &Path, size: u64, least: u64) -> Result<MappedFile, Error> {
    match MappedFile::create(path, size) {
        Err(error) if error.is_full() && size / 2 >= least.max(SMALL_FILE_BYTES) => {
            create_as_large_as_fits(path, size / 2, least)
        }
        created => created,
    }
}
