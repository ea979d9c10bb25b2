//! Writes records to any output, in the form of a segment's file.

use std::io::{self, Write};

use crate::SegmentHeader;
use crate::record::{ALIGNMENT, Header, RECORD_HEADER_BYTES};
use crate::segment::SEGMENT_HEADER_BYTES;

/// Writes a header and records, which a [`Reader`](crate::Reader) reads.
#[derive(Debug)]
pub struct RecordWriter<W> {
    out: W,
    place: u64,
    salt: u64,
}

impl<W: Write> RecordWriter<W> {
    /// Writes the header.
    ///
    /// # Errors
    /// The output cannot be written.
    pub fn new(mut out: W, header: &SegmentHeader) -> io::Result<Self> {
        out.write_all(&header.encode())?;
        Ok(Self {
            out,
            place: SEGMENT_HEADER_BYTES as u64,
            salt: header.salt(),
        })
    }

    /// Appends a record whose body is the concatenation of `parts`, which has at most
    /// [`BODY_BYTES_MAX`](crate::BODY_BYTES_MAX) bytes.
    ///
    /// # Errors
    /// The output cannot be written.
    pub fn write(&mut self, kind: u16, parts: &[&[u8]]) -> io::Result<()> {
        let digest = parts
            .iter()
            .fold(0, |digest, part| crc32c::crc32c_append(digest, part));
        let length: usize = parts.iter().map(|part| part.len()).sum();
        let header = Header {
            kind,
            length: length as u32,
            digest: Some(digest),
            number: 0,
        };
        self.out.write_all(&header.encode(self.place, self.salt))?;
        for part in parts {
            self.out.write_all(part)?;
        }
        let all = length.next_multiple_of(ALIGNMENT as usize);
        self.out
            .write_all(&[0; ALIGNMENT as usize][..all - length])?;
        self.place += (RECORD_HEADER_BYTES + all) as u64;
        Ok(())
    }

    /// Returns the output, and the number of bytes that were written.
    ///
    /// # Errors
    /// The output cannot be written.
    pub fn finish(mut self) -> io::Result<(W, u64)> {
        self.out.flush()?;
        Ok((self.out, self.place))
    }
}
