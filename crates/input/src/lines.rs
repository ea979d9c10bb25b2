//! Reader of text records: the bytes between line ends.

use std::path::Path;

use trainyard_storage::Storage;

use crate::block::Block;
use crate::libsvm::is_empty;
use crate::record::{Place, failed};
use crate::{Compression, Error, Format};

/// Longest record, in bytes.
const RECORD_BYTES_MAX: usize = 16 << 20;

/// Reader of the records of one file.
#[derive(Debug)]
pub(crate) struct Lines {
    block: Block,
    format: Format,
    line: u64,
    /// Bytes from the begin of the record to the current position, and the length of the record.
    passed: usize,
    length: usize,
}

impl Lines {
    /// Opens a file. A byte order mark at its beginning is skipped.
    pub(crate) fn open(
        storage: &Storage,
        file: &Path,
        compression: Compression,
        format: Format,
    ) -> Result<Self, Error> {
        let mut block =
            Block::open(storage, file, compression).map_err(|error| failed(file, &error))?;
        let marked = block.fill(3).map_err(|error| failed(file, &error))?;
        if marked && block.bytes().starts_with(b"\xef\xbb\xbf") {
            block.pass(3);
        }
        Ok(Self {
            block,
            format,
            line: 0,
            passed: 0,
            length: 0,
        })
    }

    /// Moves to byte `offset`, at which line `line` begins; see [`Block::seek`].
    pub(crate) fn seek(&mut self, offset: u64, line: u64, until: u64) -> std::io::Result<()> {
        (self.line, self.passed, self.length) = (line.saturating_sub(1), 0, 0);
        self.block.seek(offset, until)
    }

    /// Returns the offset in the content of the first byte after the record.
    pub(crate) fn offset(&self) -> u64 {
        self.block.offset()
    }

    /// Returns the record, without its line end.
    #[inline]
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.block.passed(self.passed)[..self.length]
    }

    /// Moves to the next record that is not empty. Returns `false` at the end of the file.
    pub(crate) fn next(&mut self, file: &Path, place: &mut Place) -> Result<bool, Error> {
        loop {
            (place.line, place.offset) = (self.line + 1, self.block.offset());
            let record = self.end(file, place)?;
            if record == 0 {
                return Ok(false);
            }
            self.block.pass(record);
            self.passed = record;
            let bytes = self.block.passed(record);
            let ends = bytes
                .iter()
                .rev()
                .take_while(|byte| matches!(byte, b'\n' | b'\r'))
                .count();
            self.length = record - ends;
            let empty = match self.format {
                Format::LibSvm(_) => is_empty(self.bytes()),
                _ => self.length == 0,
            };
            if !empty {
                return Ok(true);
            }
        }
    }

    /// Returns the length of the next record with its line end, 0 at the end of the file. Counts the record's lines.
    fn end(&mut self, file: &Path, place: &Place) -> Result<usize, Error> {
        // Bytes that were scanned, the start of the record's last line, and the number of quotes before that line.
        let mut seen = 0;
        let mut line = 0;
        let mut quotes = 0;
        loop {
            let bytes = self.block.bytes();
            match memchr::memchr(b'\n', &bytes[seen..]) {
                Some(end) => {
                    seen += end + 1;
                    self.line += 1;
                    if self.format == Format::Csv {
                        quotes += memchr::memchr_iter(b'"', &bytes[line..seen]).count();
                        line = seen;
                    }
                    // An odd number of quotes: the line end is part of a field.
                    if quotes % 2 == 0 && seen <= RECORD_BYTES_MAX {
                        return Ok(seen);
                    }
                }
                None => {
                    seen = bytes.len();
                    if seen <= RECORD_BYTES_MAX
                        && !self.block.more().map_err(|error| failed(file, &error))?
                    {
                        self.line += u64::from(seen > line);
                        return Ok(seen);
                    }
                }
            }
            if seen > RECORD_BYTES_MAX {
                let message = format!(
                    "the record at line {} is longer than {RECORD_BYTES_MAX} bytes",
                    place.line
                );
                return Err(Error::File {
                    file: file.to_owned(),
                    message,
                });
            }
        }
    }
}
