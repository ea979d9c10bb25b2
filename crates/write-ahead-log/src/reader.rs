//! Reading a segment from any bytes, record by record, up to the first that is not whole.

use std::fmt;
use std::io::{self, Read, Seek, SeekFrom};

use bytes::Bytes;

use crate::record::{ALIGNMENT, BODY_BYTES_MAX, Header, RECORD_HEADER_BYTES};
use crate::segment::SEGMENT_HEADER_BYTES;
use crate::{Record, SegmentHeader};

/// Bytes that are looked through at once for a later record.
const WINDOW_BYTES: usize = 1 << 20;

/// What comes next in a segment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Next {
    /// A whole record.
    Record(Record),
    /// The end.
    End,
    /// Something that is no whole record.
    Bad(Bad),
}

/// The place up to which a segment is good, and what is there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Bad {
    /// Bytes of the segment that are good.
    pub place: u64,
    /// Bytes behind them.
    pub rest: u64,
    /// What is wrong.
    pub fault: Fault,
}

/// What is wrong with a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// The segment ends within it.
    Short {
        /// Bytes that it takes.
        expected: u64,
        /// Bytes that there are.
        found: u64,
    },
    /// Its header is not what was written.
    Header {
        /// CRC-32C of what is there.
        expected: u32,
        /// The digest that stands there.
        found: u32,
    },
    /// Its body is not what was written.
    Body {
        /// The digest that its header tells.
        expected: u32,
        /// CRC-32C of what is there.
        found: u32,
    },
    /// Its header tells a length that no record has.
    Long {
        /// Most bytes of a body.
        most: u64,
        /// The length told.
        found: u64,
    },
}

impl fmt::Display for Fault {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Short { expected, found } => {
                write!(
                    out,
                    "a record of {expected} bytes, of which {found} are there"
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
        }
    }
}

/// A segment that is being read. No more memory is taken for a record than the segment has bytes for.
#[derive(Debug)]
pub struct Reader<R> {
    source: R,
    header: SegmentHeader,
    place: u64,
    length: u64,
}

impl<R: Read + Seek> Reader<R> {
    /// Begins to read a segment of `length` bytes.
    ///
    /// # Errors
    /// It cannot be read. The inner error says that it is no segment.
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

    /// Returns the segment's head.
    pub fn header(&self) -> SegmentHeader {
        self.header
    }

    /// Returns the bytes that have been read and are good.
    pub fn place(&self) -> u64 {
        self.place
    }

    /// Reads the next record. Behind something bad, the same is answered again.
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
        if rest < RECORD_HEADER_BYTES as u64 {
            return bad(Fault::Short {
                expected: RECORD_HEADER_BYTES as u64,
                found: rest,
            });
        }
        let mut head = [0; RECORD_HEADER_BYTES];
        self.source.read_exact(&mut head)?;
        let header = match Header::decode(&head, place, self.header.number) {
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
        // Not filled with zeros first: a log is read as fast as it can be.
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
        let found = crc32c::crc32c(&body);
        if found != header.digest || !filled {
            self.source.seek(SeekFrom::Start(place))?;
            return bad(Fault::Body {
                expected: header.digest,
                found,
            });
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

    /// Looks behind something bad for a record which says that the disk had more than what is good: then it is not the
    /// torn end of the log, and what followed was whole once. Returns where that record lies.
    ///
    /// # Errors
    /// The source cannot be read.
    pub fn proof_of_damage(&mut self, bad: &Bad) -> io::Result<Option<u64>> {
        let mut window = Vec::new();
        let mut begin = bad.place + ALIGNMENT;
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
                    && let Ok(header) = Header::decode(head, begin + at as u64, self.header.number)
                    && header.flushed > bad.place
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
    /// Cuts what lies behind `length` off, and returns whether it was zeros.
    fn split_off_zeros(&mut self, length: usize) -> bool;
}

impl SplitOffZeros for Vec<u8> {
    fn split_off_zeros(&mut self, length: usize) -> bool {
        let zeros = self[length..].iter().all(|byte| *byte == 0);
        self.truncate(length);
        zeros
    }
}
