//! Reads a file of a segment from any bytes, record by record, up to the first record that is not whole.

use std::fmt;
use std::io::{self, Read, Seek, SeekFrom};

use bytes::Bytes;

use crate::record::{ALIGNMENT, BODY_BYTES_MAX, Header, RECORD_HEADER_BYTES};
use crate::segment::SEGMENT_HEADER_BYTES;
use crate::{Record, SegmentHeader};

/// Size of the window in the search for a later record, in bytes.
const WINDOW_BYTES: usize = 1 << 20;

/// The next item of a segment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Next {
    /// A whole record.
    Record(Record),
    /// The end of the segment.
    End,
    /// Bytes that are not a whole record.
    Bad(Bad),
}

/// The end of the good part of a segment, and the fault there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Bad {
    /// Length of the good part in bytes.
    pub place: u64,
    /// Bytes after the good part.
    pub rest: u64,
    /// The fault.
    pub fault: Fault,
}

/// A fault of a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// The segment ends within the record.
    Short {
        /// Bytes that the record needs.
        expected: u64,
        /// Bytes that the segment has left.
        found: u64,
    },
    /// The header is damaged.
    Header {
        /// CRC-32C of what is there.
        expected: u32,
        /// Digest that the header contains.
        found: u32,
    },
    /// The body is damaged.
    Body {
        /// Digest that the header contains.
        expected: u32,
        /// CRC-32C of what is there.
        found: u32,
    },
    /// The length in the header exceeds the maximum.
    Long {
        /// Most bytes of a body.
        most: u64,
        /// Length in the header.
        found: u64,
    },
    /// Nothing is written here, but a later record is.
    Missing,
    /// The file goes on after the good part of the file before it had ended, or belongs to another segment.
    Gap {
        /// Bytes in use of the file before, as the header of this file says.
        expected: u64,
        /// Length of the good part of the file before.
        found: u64,
    },
}

impl fmt::Display for Fault {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Short { expected, found } => {
                write!(
                    out,
                    "a record of {expected} bytes, of which the file has {found}"
                )
            }
            Self::Header { expected, found } => {
                write!(out, "header crc32c {found:08x}, expected {expected:08x}")
            }
            Self::Body { expected, found } => {
                write!(out, "body crc32c {found:08x}, expected {expected:08x}")
            }
            Self::Long { most, found } => {
                write!(out, "a body of {found} bytes, at most {most} may be")
            }
            Self::Missing => write!(out, "a record is missing"),
            Self::Gap { expected, found } => {
                write!(
                    out,
                    "{found} bytes are good, the next file follows {expected} bytes"
                )
            }
        }
    }
}

/// A file of a segment that is being read. A record takes no more memory than the file has bytes.
#[derive(Debug)]
pub struct Reader<R> {
    source: R,
    header: SegmentHeader,
    place: u64,
    length: u64,
}

impl<R: Read + Seek> Reader<R> {
    /// Opens a file of `length` bytes.
    ///
    /// # Errors
    /// The source cannot be read. The inner error says why the bytes are not a segment.
    pub fn new(mut source: R, length: u64) -> io::Result<Result<Self, String>> {
        let mut head = [0; SEGMENT_HEADER_BYTES];
        if length < SEGMENT_HEADER_BYTES as u64 {
            return Ok(Err(format!(
                "a segment has {SEGMENT_HEADER_BYTES} bytes at least, given {length}"
            )));
        }
        source.seek(SeekFrom::Start(0))?;
        source.read_exact(&mut head)?;
        let reader = |header| Self {
            source,
            header,
            place: SEGMENT_HEADER_BYTES as u64,
            length,
        };
        Ok(SegmentHeader::decode(&head).map(reader))
    }

    /// Returns the header of the segment.
    pub fn header(&self) -> SegmentHeader {
        self.header
    }

    /// Returns the length of the part that has been read and is good.
    pub fn place(&self) -> u64 {
        self.place
    }

    /// Reads the next record. After [`Next::Bad`] every further call returns the same.
    ///
    /// # Errors
    /// The source cannot be read.
    pub fn read(&mut self) -> io::Result<Next> {
        let place = self.place;
        let rest = self.length - self.place;
        if rest == 0 {
            return Ok(Next::End);
        }
        let bad = |fault| Ok(Next::Bad(Bad { place, rest, fault }));
        let mut head = [0; RECORD_HEADER_BYTES];
        let there = &mut head[..rest.min(RECORD_HEADER_BYTES as u64) as usize];
        self.source.read_exact(there)?;
        if there.iter().all(|byte| *byte == 0) {
            self.source.seek(SeekFrom::Start(place))?;
            return match self.later_record(place)? {
                Some(_) => bad(Fault::Missing),
                None => Ok(Next::End),
            };
        }
        if rest < RECORD_HEADER_BYTES as u64 {
            self.source.seek(SeekFrom::Start(place))?;
            return bad(Fault::Short {
                expected: RECORD_HEADER_BYTES as u64,
                found: rest,
            });
        }
        let header = match Header::decode(&head, place, self.header.salt()) {
            Ok(header) => header,
            Err((expected, found)) => {
                self.source.seek(SeekFrom::Start(place))?;
                return bad(Fault::Header { expected, found });
            }
        };
        let length = u64::from(header.length);
        let all = RECORD_HEADER_BYTES as u64 + length.next_multiple_of(ALIGNMENT);
        let fault = if length > BODY_BYTES_MAX as u64 {
            Some(Fault::Long {
                most: BODY_BYTES_MAX as u64,
                found: length,
            })
        } else if all > rest {
            Some(Fault::Short {
                expected: all,
                found: rest,
            })
        } else {
            None
        };
        if let Some(fault) = fault {
            self.source.seek(SeekFrom::Start(place))?;
            return bad(fault);
        }
        let body_bytes = all - RECORD_HEADER_BYTES as u64;
        // The buffer is not zeroed first, for speed.
        let mut body = Vec::with_capacity(body_bytes as usize);
        let read = self
            .source
            .by_ref()
            .take(body_bytes)
            .read_to_end(&mut body)?;
        if read as u64 != body_bytes {
            self.source.seek(SeekFrom::Start(place))?;
            return bad(Fault::Short {
                expected: all,
                found: RECORD_HEADER_BYTES as u64 + read as u64,
            });
        }
        let filled = body.split_off_zeros(length as usize);
        let found = match header.digest {
            Some(_) => crc32c::crc32c(&body),
            None => 0,
        };
        let expected = header.digest.unwrap_or(0);
        if found != expected || !filled {
            self.source.seek(SeekFrom::Start(place))?;
            return bad(Fault::Body { expected, found });
        }
        self.place += all;
        let Header { kind, number, .. } = header;
        Ok(Next::Record(Record {
            place,
            kind,
            number,
            body: Bytes::from(body),
        }))
    }

    /// Searches after `bad` for a whole record, which proves damage: records are written in order, so a torn end has none
    /// behind it. Returns the position of that record.
    ///
    /// # Errors
    /// The source cannot be read.
    pub fn proof_of_damage(&mut self, bad: &Bad) -> io::Result<Option<u64>> {
        self.later_record(bad.place)
    }

    /// Returns the position of a record of this file after `place`.
    fn later_record(&mut self, place: u64) -> io::Result<Option<u64>> {
        let mut window = Vec::new();
        let mut begin = place + ALIGNMENT;
        while begin + RECORD_HEADER_BYTES as u64 <= self.length {
            self.source.seek(SeekFrom::Start(begin))?;
            window.clear();
            self.source
                .by_ref()
                .take(WINDOW_BYTES as u64)
                .read_to_end(&mut window)?;
            if window.len() < RECORD_HEADER_BYTES {
                break;
            }
            let last = (window.len() - RECORD_HEADER_BYTES) / ALIGNMENT as usize;
            for at in (0..=last).map(|step| step * ALIGNMENT as usize) {
                let Some(head) = window[at..].first_chunk() else {
                    break;
                };
                if Header::may_begin(head)
                    && Header::decode(head, begin + at as u64, self.header.salt()).is_ok()
                {
                    self.source.seek(SeekFrom::Start(self.place))?;
                    return Ok(Some(begin + at as u64));
                }
            }
            begin += (last as u64 + 1) * ALIGNMENT;
        }
        self.source.seek(SeekFrom::Start(self.place))?;
        Ok(None)
    }
}

trait SplitOffZeros {
    /// Truncates to `length`, and returns whether only zeros were cut off.
    fn split_off_zeros(&mut self, length: usize) -> bool;
}

impl SplitOffZeros for Vec<u8> {
    fn split_off_zeros(&mut self, length: usize) -> bool {
        let zeros = self[length..].iter().all(|byte| *byte == 0);
        self.truncate(length);
        zeros
    }
}
