//! Reader of TFRecord files. A record is a length, the checksum of the length, as many bytes, and the checksum of the
//! bytes (`tensorflow/core/lib/io/record_reader.cc`).

use std::io::ErrorKind;
use std::path::Path;

use trainyard_storage::Storage;
use trainyard_tfrecord::{FOOTER_BYTES, HEADER_BYTES, masked};

use crate::block::Block;
use crate::record::{Place, failed};
use crate::{Compression, Error};

/// Longest record, in bytes.
const RECORD_BYTES_MAX: u64 = 256 << 20;

/// Reader of the records of one file.
#[derive(Debug)]
pub(crate) struct TfRecords {
    block: Block,
    records: u64,
    /// Bytes from the begin of the record's data to the current position, and the length of the data.
    passed: usize,
    length: usize,
    fault: Option<String>,
    /// Whether the begin of the next record is unknown.
    lost: bool,
}

impl TfRecords {
    /// Opens a file.
    pub(crate) fn open(
        storage: &Storage,
        file: &Path,
        compression: Compression,
    ) -> Result<Self, Error> {
        let block =
            Block::open(storage, file, compression).map_err(|error| failed(file, &error))?;
        Ok(Self {
            block,
            records: 0,
            passed: 0,
            length: 0,
            fault: None,
            lost: false,
        })
    }

    /// Moves to byte `offset`, at which record `number` begins, numbered from 1; see [`Block::seek`].
    pub(crate) fn seek(&mut self, offset: u64, number: u64, until: u64) -> std::io::Result<()> {
        (self.records, self.passed, self.length) = (number.saturating_sub(1), 0, 0);
        (self.fault, self.lost) = (None, false);
        match self.block.seek(offset, until) {
            // The content before this offset has been read once. So the record itself is at fault, and `next` reports
            // it.
            Err(error)
                if matches!(
                    error.kind(),
                    ErrorKind::InvalidData | ErrorKind::UnexpectedEof
                ) =>
            {
                Ok(())
            }
            outcome => outcome,
        }
    }

    /// Returns the offset in the content of the first byte after the record.
    pub(crate) fn offset(&self) -> u64 {
        self.block.offset()
    }

    /// Returns the record's data.
    #[inline]
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.block.passed(self.passed)[..self.length]
    }

    /// Returns the fault of the record.
    #[inline]
    pub(crate) fn fault(&self) -> Option<&str> {
        self.fault.as_deref()
    }

    /// Moves to the next record, good or bad. Returns `false` at the end of the file. The checksum of the data is not
    /// checked if the record is not `wanted`.
    ///
    /// # Errors
    /// The system cannot read the file. Broken content is not an error, but a fault of the record.
    pub(crate) fn next(
        &mut self,
        file: &Path,
        place: &mut Place,
        wanted: bool,
    ) -> Result<bool, Error> {
        if self.lost {
            return Ok(false);
        }
        self.fault = None;
        (place.line, place.offset) = (self.records + 1, self.block.offset());
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
            return Ok(self.lose(HEADER_BYTES, || {
                let what = if place.offset == 0 { " (is this a TFRecord file, compressed as the job says?)" } else { "" };
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
        if wanted
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

    /// Reads until `count` bytes are in memory. Broken compression becomes a fault of the record, and the content ends.
    fn there(&mut self, count: usize, file: &Path) -> Result<bool, Error> {
        match self.block.fill(count) {
            Ok(there) => Ok(there),
            Err(error)
                if matches!(
                    error.kind(),
                    ErrorKind::InvalidData | ErrorKind::UnexpectedEof
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
