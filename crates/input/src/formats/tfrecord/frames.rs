//! Reader of TFRecord files. A record is a length, the checksum of the length, as many bytes, and the checksum of the
//! bytes (`tensorflow/core/lib/io/record_reader.cc`).

use std::io::ErrorKind;
use std::path::Path;

use trainyard_tensorflow_formats::tfrecord::{FOOTER_BYTES, HEADER_BYTES, masked};

use crate::Error;
use crate::block::Block;
use crate::other_content::other_content;
use crate::record::{Content, Place, failed};
use crate::record_format::{FileRecords, InputFile, Want};

/// Longest record, in bytes.
const RECORD_BYTES_MAX: u64 = 256 << 20;

/// Reader of the records of one file.
#[derive(Debug)]
pub(super) struct TfRecords {
    block: Block,
    records: u64,
    /// Bytes from the begin of the record's data to the current position, and the length of the data.
    passed: usize,
    length: usize,
    fault: Option<String>,
    /// The begin of the next record is unknown.
    lost: bool,
}

impl TfRecords {
    /// Opens a file.
    pub(super) fn open(file: &InputFile<'_>) -> Result<Self, Error> {
        Ok(Self {
            block: file.open_block()?,
            records: 0,
            passed: 0,
            length: 0,
            fault: None,
            lost: false,
        })
    }

    /// Reads until `count` bytes are in memory. Broken compression becomes a fault of the record, and the content ends.
    fn there(&mut self, count: usize, file: &Path) -> Result<bool, Error> {
        match self.block.fill(count) {
            Ok(there) => Ok(there),
            Err(error)
                if matches!(
                    error.kind(),
                    ErrorKind::InvalidData | ErrorKind::Unsupported | ErrorKind::UnexpectedEof
                ) =>
            {
                self.fault = Some(error.to_string());
                Ok(false)
            }
            Err(error) => Err(failed(file, &error)),
        }
    }

    /// Makes the rest of the file a bad record, the last one. Its data are the first `shown` bytes.
    fn lose(&mut self, shown: usize, reason: impl FnOnce() -> String) -> bool {
        self.block.pass(shown);
        (self.passed, self.length, self.lost) = (shown, shown, true);
        let reason = self.fault.take().unwrap_or_else(reason);
        self.fault = Some(format!("{reason}; the rest of the file is not read"));
        true
    }
}

impl FileRecords for TfRecords {
    /// Moves to the next record, good or bad. The checksum of the data is not checked if only the place is wanted.
    /// Broken content is not an error, but a fault of the record.
    fn next(&mut self, file: &Path, place: &mut Place, want: Want) -> Result<bool, Error> {
        if self.lost {
            return Ok(false);
        }
        self.fault = None;
        place.line = self.records + 1;
        place.offset = self.block.offset();
        if !self.there(HEADER_BYTES, file)? {
            let given = self.block.bytes().len();
            if given == 0 && self.fault.is_none() {
                return Ok(false);
            }
            return Ok(self.lose(given, || {
                format!("the record is cut short: expected a header of {HEADER_BYTES} bytes, found {given}")
            }));
        }
        self.records += 1;
        let Some((header, _)) = self.block.bytes().split_first_chunk::<HEADER_BYTES>() else {
            return Ok(false);
        };
        let [length @ .., c0, c1, c2, c3] = *header;
        let stated = u32::from_le_bytes([c0, c1, c2, c3]);
        let computed = masked(&length);
        let length = u64::from_le_bytes(length);
        if stated != computed {
            let other = other_content(self.block.bytes()).filter(|_| place.offset == 0);
            let what = match other {
                Some((what, help)) => format!(" ({what}: {help})"),
                None if place.offset == 0 => {
                    " (is this a TFRecord file, compressed as the job says?)".to_owned()
                }
                None => String::new(),
            };
            return Ok(self.lose(HEADER_BYTES, || {
                format!(
                    "the checksum of the record's length is wrong{what}: expected {computed:#010x}, found {stated:#010x}"
                )
            }));
        }
        if length > RECORD_BYTES_MAX {
            return Ok(self.lose(HEADER_BYTES, || {
                format!("the record is too long: expected at most {RECORD_BYTES_MAX} bytes, found {length}")
            }));
        }
        // The cast loses nothing: the length is below the limit.
        let length = length as usize;
        let whole = HEADER_BYTES + length + FOOTER_BYTES;
        if !self.there(whole, file)? {
            let given = self.block.bytes().len();
            self.block.pass(HEADER_BYTES);
            return Ok(self.lose(given - HEADER_BYTES, || {
                format!(
                    "the record is cut short: expected {length} bytes and a checksum of {FOOTER_BYTES}, found {}",
                    given - HEADER_BYTES
                )
            }));
        }
        self.block.pass(whole);
        (self.passed, self.length) = (length + FOOTER_BYTES, length);
        if want == Want::Content
            && let Some((data, footer)) = self
                .block
                .passed(self.passed)
                .split_last_chunk::<FOOTER_BYTES>()
        {
            let stated = u32::from_le_bytes(*footer);
            let computed = masked(data);
            if stated != computed {
                self.fault = Some(format!(
                    "the checksum of the record's {length} bytes is wrong: expected {computed:#010x}, found {stated:#010x}"
                ));
            }
        }
        Ok(true)
    }

    fn seek(&mut self, offset: u64, number: u64, until: u64) -> std::io::Result<()> {
        self.records = number.saturating_sub(1);
        self.passed = 0;
        self.length = 0;
        self.fault = None;
        self.lost = false;
        match self.block.seek(offset, until) {
            // The content before this offset has been read once. So the record itself is at fault, and `next` reports
            // it.
            Err(error)
                if matches!(
                    error.kind(),
                    ErrorKind::InvalidData | ErrorKind::Unsupported | ErrorKind::UnexpectedEof
                ) =>
            {
                Ok(())
            }
            outcome => outcome,
        }
    }

    fn end(&self) -> u64 {
        self.block.offset()
    }

    fn content(&self) -> Content<'_> {
        Content::Bytes(&self.block.passed(self.passed)[..self.length])
    }

    fn fault(&self) -> Option<&str> {
        self.fault.as_deref()
    }
}
