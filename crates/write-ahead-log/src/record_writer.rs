//! Writes records to any output, in the form of a segment's file.

use std::io::{self, Write};

use crate::segment::SEGMENT_HEADER_BYTES;
use crate::{Entry, SegmentHeader};

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

    /// Appends a record.
    ///
    /// # Errors
    /// The output cannot be written.
    pub fn write(&mut self, entry: &Entry) -> io::Result<()> {
        self.out.write_all(&entry.header(self.place, self.salt))?;
        for part in entry.parts() {
            self.out.write_all(part)?;
        }
        self.out.write_all(&[0; 8][..entry.filling()])?;
        self.place += entry.bytes();
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
