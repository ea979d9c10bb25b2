//! A segment: its files, and their records in order.

use std::collections::VecDeque;
use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, BufReader, ErrorKind};
use std::path::{Path, PathBuf};

use crate::memory::Named;
use crate::reader::Fault;
use crate::{Bad, Error, Next, Reader, SegmentHeader};

/// Suffix of the file names of segments.
const SUFFIX: &str = ".log";
/// Size of a read, in bytes.
const READ_BYTES: usize = 1 << 20;

/// Returns the name of a file of a segment.
pub(crate) fn file_name(number: u64, part: u32) -> String {
    format!("{number:016}-{part:06}{SUFFIX}")
}

/// Returns number and part of the file with this name, if it is a file of a segment.
fn numbers(name: &str) -> Option<(u64, u32)> {
    let (number, part) = name.strip_suffix(SUFFIX)?.split_once('-')?;
    Some((number.parse().ok()?, part.parse().ok()?))
}

/// Returns whether a file with this name is a file of a segment.
pub(crate) fn is_segment(name: &OsStr) -> bool {
    name.to_str().and_then(numbers).is_some()
}

/// A file of a segment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Part {
    /// Number of the file, from 0.
    pub number: u32,
    /// Path of the file.
    pub path: PathBuf,
    /// Size of the file. Its records may take less.
    pub bytes: u64,
}

/// A segment and its files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SegmentFile {
    /// Number of the segment; segments are numbered in order.
    pub number: u64,
    /// Files of the segment, in order; never empty.
    pub parts: Vec<Part>,
}

impl SegmentFile {
    /// Returns the segments of the log in a folder, in order, with the files that lie in shared memory.
    ///
    /// # Errors
    /// A folder cannot be read.
    pub fn all(folder: &Path) -> Result<Vec<Self>, Error> {
        let mut found = Vec::new();
        let memory = Named::by(folder)?.own();
        for folder in memory.as_deref().into_iter().chain([folder]) {
            files(folder, &mut found)?;
        }
        found.sort_by_key(|(number, part)| (*number, part.number));
        let mut all: Vec<Self> = Vec::new();
        for (number, part) in found {
            match all.last_mut() {
                Some(segment) if segment.number == number => segment.parts.push(part),
                _ => all.push(Self {
                    number,
                    parts: vec![part],
                }),
            }
        }
        Ok(all)
    }

    /// Returns the segment with the good part of its last file ending at `bytes`.
    #[must_use]
    pub fn ending_at(mut self, bytes: u64) -> Self {
        if let Some(last) = self.parts.last_mut() {
            last.bytes = bytes;
        }
        self
    }

    /// Returns the path of the last file.
    pub fn path(&self) -> &Path {
        self.parts.last().map_or(Path::new(""), |part| &part.path)
    }

    /// Returns the size of all files.
    pub fn bytes(&self) -> u64 {
        self.parts.iter().map(|part| part.bytes).sum()
    }

    /// Returns the boot id of the machine when the last file was begun; `None` if the file has no valid header.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn boot(&self) -> Result<Option<u128>, Error> {
        match self.parts.last().map(open) {
            Some(Ok(reader)) => Ok(Some(reader.header().boot)),
            Some(Err(Error::NoSegment { .. })) | None => Ok(None),
            Some(Err(error)) => Err(error),
        }
    }

    /// Opens the segment for reading.
    ///
    /// # Errors
    /// The first file cannot be read, or is not the first of a segment.
    pub fn read(&self) -> Result<SegmentReader, Error> {
        let mut parts = self.parts.clone().into_iter();
        let first = parts.next().ok_or_else(|| Error::NoSegment {
            path: PathBuf::new(),
            what: "it has no file".to_owned(),
        })?;
        let reader = open(&first)?;
        if first.number != 0 || reader.header().part != 0 {
            return Err(Error::NoSegment {
                path: first.path,
                what: "the first file of the segment is missing".to_owned(),
            });
        }
        Ok(SegmentReader {
            reader,
            path: first.path,
            rest: parts.collect(),
        })
    }
}

/// Adds the files of segments in `folder` to `found`.
fn files(folder: &Path, found: &mut Vec<(u64, Part)>) -> Result<(), Error> {
    for entry in std::fs::read_dir(folder).map_err(Error::io("read", folder))? {
        let entry = entry.map_err(Error::io("read", folder))?;
        let name = entry.file_name();
        let Some((number, part)) = name.to_str().and_then(numbers) else {
            continue;
        };
        let path = entry.path();
        match entry.metadata() {
            Ok(file) => found.push((
                number,
                Part {
                    number: part,
                    path,
                    bytes: file.len(),
                },
            )),
            // The file was removed after the folder was listed.
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Err(error) => return Err(Error::io("read", &path)(error)),
        }
    }
    Ok(())
}

fn open(part: &Part) -> Result<Reader<BufReader<File>>, Error> {
    let file = File::open(&part.path).map_err(Error::io("open", &part.path))?;
    let reader = Reader::new(BufReader::with_capacity(READ_BYTES, file), part.bytes);
    let reader = reader.map_err(Error::io("read", &part.path))?;
    reader.map_err(|what| Error::NoSegment {
        path: part.path.clone(),
        what,
    })
}

/// A segment that is being read, file after file.
#[derive(Debug)]
pub struct SegmentReader {
    reader: Reader<BufReader<File>>,
    /// File that is being read.
    path: PathBuf,
    /// Files that have not been opened.
    rest: VecDeque<Part>,
}

impl SegmentReader {
    /// Returns the header of the file that is being read.
    pub fn header(&self) -> SegmentHeader {
        self.reader.header()
    }

    /// Returns the path of the file that is being read.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the length of the part of this file that has been read and is good.
    pub fn place(&self) -> u64 {
        self.reader.place()
    }

    /// Reads the next record. After [`Next::Bad`] every further call returns the same.
    ///
    /// # Errors
    /// A file cannot be read.
    pub fn read(&mut self) -> io::Result<Next> {
        loop {
            let next = self.reader.read()?;
            let Some(part) = self.rest.front().filter(|_| next == Next::End) else {
                return Ok(next);
            };
            let place = self.place();
            let gap = |expected| {
                let fault = Fault::Gap {
                    expected,
                    found: place,
                };
                Ok(Next::Bad(Bad {
                    place,
                    rest: 0,
                    fault,
                }))
            };
            let opened = match open(part) {
                Ok(opened) => opened,
                Err(Error::Io { source, .. }) => {
                    return Err(io::Error::new(source.kind(), source.to_string()));
                }
                // The file is damaged.
                Err(_) => return gap(0),
            };
            let before = self.reader.header();
            let header = opened.header();
            let follows = header.number == before.number
                && header.part == before.part + 1
                && part.number == header.part
                && header.previous_bytes == place;
            if !follows {
                return gap(header.previous_bytes);
            }
            self.path.clone_from(&part.path);
            self.reader = opened;
            self.rest.pop_front();
        }
    }

    /// Returns the position of a record that proves that `bad` is damage, and no torn end; the begin of the next file if
    /// there is one.
    ///
    /// # Errors
    /// A file cannot be read.
    pub fn proof_of_damage(&mut self, bad: &Bad) -> io::Result<Option<u64>> {
        if self.rest.is_empty() {
            return self.reader.proof_of_damage(bad);
        }
        Ok(Some(0))
    }
}
