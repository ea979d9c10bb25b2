//! Writes records to the open segment.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{IoSlice, Write as _};
use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;

use crate::page_cache::{KEPT_BYTES, give_back};
use crate::record::RECORD_HEADER_BYTES;
use crate::segment::{SEGMENT_HEADER_BYTES, boot};
use crate::{EarlierSegments, Entry, Error, Folder, Origin, SegmentFile, SegmentHeader};

/// Most buffers of one vectored write (`IOV_MAX` of Linux).
const SLICES_MAX: usize = 1024;
const ZEROS: [u8; 8] = [0; 8];

/// A segment that is open for appending.
#[derive(Debug)]
pub(crate) struct Open {
    pub(crate) file: Arc<File>,
    pub(crate) path: PathBuf,
    number: u64,
    /// Length of the segment in bytes.
    pub(crate) end: u64,
    /// Position of the segment's begin in the log.
    pub(crate) before: u64,
    /// Length of the part whose cached pages have been released.
    given_back: u64,
}

impl Open {
    /// Returns the range of the file to release once the log is flushed up to `flushed`.
    pub(crate) fn give_back_up_to(&mut self, flushed: u64) -> Range<u64> {
        let end = flushed
            .saturating_sub(self.before)
            .saturating_sub(KEPT_BYTES)
            .max(self.given_back);
        std::mem::replace(&mut self.given_back, end)..end
    }
}

/// The writer of a log's segments. One thread at a time uses it.
#[derive(Debug)]
pub(crate) struct Writer {
    folder: Folder,
    pub(crate) open: Option<Open>,
    /// Size of each segment in bytes, by number.
    segments: BTreeMap<u64, u64>,
    headers: Vec<[u8; RECORD_HEADER_BYTES]>,
}

impl Writer {
    /// Returns the writer of a folder. It appends to segment `go_on`, if there is one.
    pub(crate) fn new(folder: Folder, go_on: Option<&SegmentFile>) -> Result<Self, Error> {
        let segments = folder.segments()?;
        let open = match go_on {
            Some(segment) => {
                let file = File::options().append(true).open(&segment.path);
                let file = file.map_err(Error::io("open", &segment.path))?;
                Some(Open {
                    file: Arc::new(file),
                    path: segment.path.clone(),
                    number: segment.number,
                    end: segment.bytes,
                    before: 0,
                    given_back: 0,
                })
            }
            None => None,
        };
        let segments = segments
            .iter()
            .map(|segment| (segment.number, segment.bytes))
            .collect();
        Ok(Self {
            folder,
            open,
            segments,
            headers: Vec::new(),
        })
    }

    /// Returns the bytes of all segments.
    pub(crate) fn bytes(&self) -> u64 {
        self.segments.values().sum()
    }

    /// Returns the number of the last segment; 0 = none.
    pub(crate) fn last(&self) -> u64 {
        self.segments
            .last_key_value()
            .map_or(0, |(number, _)| *number)
    }

    /// Ends the open segment and begins the next one. The ended segment is flushed first, so that only the last
    /// segment of a log can have a torn end.
    pub(crate) fn begin(
        &mut self,
        origin: Origin,
        number: u64,
        earlier: EarlierSegments,
        before: u64,
    ) -> Result<(), Error> {
        if earlier == EarlierSegments::Obsolete {
            self.open = None;
            self.folder.clear()?;
            self.segments.clear();
        } else if let Some(ended) = &self.open {
            ended
                .file
                .sync_data()
                .map_err(Error::io("flush", &ended.path))?;
            give_back(&ended.file, ended.given_back, ended.end);
        }
        #[cfg(feature = "failpoints")]
        fail::fail_point!("ps.wal.before_segment");
        let path = self.folder.segment(number);
        let file = File::options().append(true).create_new(true).open(&path);
        let mut file = file.map_err(Error::io("create", &path))?;
        #[cfg(feature = "failpoints")]
        fail::fail_point!("ps.wal.before_segment_header");
        let header = SegmentHeader {
            origin,
            number,
            boot: boot(),
        };
        file.write_all(&header.encode())
            .map_err(Error::io("write", &path))?;
        file.sync_data().map_err(Error::io("flush", &path))?;
        self.folder.flush()?;
        let end = SEGMENT_HEADER_BYTES as u64;
        self.segments.insert(number, end);
        self.open = Some(Open {
            file: Arc::new(file),
            path,
            number,
            end,
            before,
            given_back: 0,
        });
        Ok(())
    }

    /// Appends records. `flushed` is the position up to which the disk has the log.
    pub(crate) fn write(&mut self, entries: &[Entry], flushed: u64) -> Result<(), Error> {
        let Some(open) = &mut self.open else {
            return Ok(());
        };
        // The header counts from the begin of the open segment.
        let flushed = flushed.saturating_sub(open.before);
        self.headers.clear();
        let mut place = open.end;
        for entry in entries {
            self.headers.push(entry.header(place, open.number, flushed));
            place += entry.bytes();
        }
        let mut slices: Vec<IoSlice<'_>> = Vec::with_capacity(entries.len() * 3);
        for (entry, header) in entries.iter().zip(&self.headers) {
            slices.push(IoSlice::new(header));
            slices.extend(
                entry
                    .parts()
                    .iter()
                    .filter(|part| !part.is_empty())
                    .map(|part| IoSlice::new(part)),
            );
            if entry.filling() > 0 {
                slices.push(IoSlice::new(&ZEROS[..entry.filling()]));
            }
        }
        let mut rest = &mut slices[..];
        while !rest.is_empty() {
            let now = rest.len().min(SLICES_MAX);
            match (&*open.file).write_vectored(&rest[..now]) {
                Ok(0) => {
                    return Err(Error::io("write", &open.path)(
                        std::io::ErrorKind::WriteZero.into(),
                    ));
                }
                Ok(written) => IoSlice::advance_slices(&mut rest, written),
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                Err(error) => return Err(Error::io("write", &open.path)(error)),
            }
        }
        open.end = place;
        self.segments.insert(open.number, place);
        Ok(())
    }

    /// Returns the numbers and paths of the segments before `number`, the oldest first.
    pub(crate) fn before(&self, number: u64) -> Vec<(u64, PathBuf)> {
        self.segments
            .range(..number)
            .map(|(number, _)| (*number, self.folder.segment(*number)))
            .collect()
    }

    /// Removes a segment from the list.
    pub(crate) fn forget(&mut self, number: u64) {
        self.segments.remove(&number);
    }

    /// Removes all segments.
    pub(crate) fn clear(&mut self) -> Result<(), Error> {
        self.open = None;
        self.segments.clear();
        self.folder.clear()
    }
}
