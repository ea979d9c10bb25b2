//! Records of a file: raw bytes between line ends, with their place.

use std::fs::File;
use std::io::{BufRead as _, BufReader, Read as _};
use std::path::Path;

use crate::{Error, Format};

/// Longest record, in bytes.
pub(crate) const RECORD_BYTES_MAX: usize = 16 << 20;
/// Bytes read from a file at once.
const READ_BYTES: usize = 1 << 18;

/// One record, before its fields are looked at. Its buffer is used again.
#[derive(Debug, Clone, Default)]
pub(crate) struct Record {
    pub(crate) bytes: Vec<u8>,
    pub(crate) file: usize,
    pub(crate) line: u64,
    pub(crate) offset: u64,
    pub(crate) pass: u64,
}

/// Reads the records of one file.
#[derive(Debug)]
pub(crate) struct RecordReader {
    reader: BufReader<File>,
    format: Format,
    line: u64,
    offset: u64,
}

fn failed(file: &Path, message: impl ToString) -> Error {
    Error::File { file: file.to_owned(), message: message.to_string() }
}

impl RecordReader {
    /// Opens a file; a byte order mark at its front is passed over.
    pub(crate) fn open(file: &Path, format: Format) -> Result<Self, Error> {
        let handle = File::open(file).map_err(|error| failed(file, error.kind()))?;
        let mut reader = BufReader::with_capacity(READ_BYTES, handle);
        let front = reader.fill_buf().map_err(|error| failed(file, error.kind()))?;
        let mark = if front.starts_with(b"\xef\xbb\xbf") { 3 } else { 0 };
        reader.consume(mark);
        Ok(Self { reader, format, line: 0, offset: mark as u64 })
    }

    /// Reads the next record that is not empty, without its line end; `false` at the end of the file.
    pub(crate) fn next(&mut self, file: &Path, record: &mut Record) -> Result<bool, Error> {
        loop {
            record.bytes.clear();
            (record.line, record.offset) = (self.line + 1, self.offset);
            let (mut quotes, mut begin) = (0, 0);
            loop {
                let room = (RECORD_BYTES_MAX + 1 - record.bytes.len()) as u64;
                let read = self
                    .reader
                    .by_ref()
                    .take(room)
                    .read_until(b'\n', &mut record.bytes)
                    .map_err(|error| failed(file, error.kind()))?;
                self.offset += read as u64;
                self.line += u64::from(read > 0);
                if record.bytes.len() > RECORD_BYTES_MAX {
                    let message =
                        format!("the record at line {} is longer than {RECORD_BYTES_MAX} bytes", record.line);
                    return Err(failed(file, message));
                }
                if self.format == Format::Csv {
                    quotes += memchr::memchr_iter(b'"', &record.bytes[begin..]).count();
                    begin = record.bytes.len();
                }
                // An odd number of quotes: the line end is part of a field.
                if read == 0 || quotes % 2 == 0 {
                    break;
                }
            }
            if record.bytes.is_empty() {
                return Ok(false);
            }
            while matches!(record.bytes.last(), Some(b'\n' | b'\r')) {
                record.bytes.pop();
            }
            if !record.bytes.is_empty() {
                return Ok(true);
            }
        }
    }
}
