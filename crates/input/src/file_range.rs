//! File range: consecutive records of one file, and their location.

use serde::{Deserialize, Serialize};

/// Consecutive records of one file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileRange {
    /// Place of the file in [`crate::Options::files`].
    pub file: u32,
    /// Number of records, at least 1.
    pub rows: u32,
    /// Number of the first record in the file, from 0. A header does not count.
    pub record: u64,
    /// Line on which the first record begins; for TFRecord and Parquet, the number of the record in the file. From 1.
    pub line: u64,
    /// Byte of the decompressed content at which the first record begins, from 0; for Parquet, the number of the row.
    pub offset: u64,
    /// Bytes of the decompressed content from `offset` to the end of the last record, its line end included; for
    /// Parquet, the number of rows.
    pub bytes: u64,
}

impl FileRange {
    /// Returns the offset of the first byte after the last record, in the decompressed content.
    pub fn end(&self) -> u64 {
        self.offset.saturating_add(self.bytes)
    }

    /// Extends the range by the range that follows it. Returns `false` if `next` does not follow, or if there would be
    /// too many records.
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
