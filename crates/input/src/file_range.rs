//! Consecutive records of one file, and where they are.

use serde::{Deserialize, Serialize};

/// Consecutive records of one file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileRange {
    /// Place of the file in [`crate::Options::files`].
    pub file: u32,
    /// Number of records, at least 1.
    pub rows: u32,
    /// Number of the first record in the file, from 0; a header is none.
    pub record: u64,
    /// Line on which the first record begins, or, of TFRecord, its number in the file; from 1.
    pub line: u64,
    /// Byte of the decompressed content at which the first record begins, from 0.
    pub offset: u64,
    /// Bytes of the decompressed content from there to the end of the last record, its line end included.
    pub bytes: u64,
}

impl FileRange {
    /// Returns the byte of the decompressed content behind the last record.
    pub fn end(&self) -> u64 {
        self.offset.saturating_add(self.bytes)
    }

    /// Takes in the piece that follows; `false` if what is given does not follow, or there would be too many records.
    pub(crate) fn join(&mut self, next: &Self) -> bool {
        let rows = self.rows.checked_add(next.rows);
        match rows {
            Some(rows)
                if next.file == self.file && next.record == self.record + u64::from(self.rows) =>
            {
                (self.rows, self.bytes) = (rows, next.end() - self.offset);
                true
            }
            _ => false,
        }
    }
}
