//! Inline records: the raw records of a data shard, for a reader without access to the files.

use serde::{Deserialize, Serialize};

use crate::record::Record;

/// The records of a data shard in the order of its ranges, with the bytes that the files hold.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct InlineRecords {
    /// The records, end to end, without line ends or frames.
    pub bytes: Vec<u8>,
    /// Bytes of each record.
    pub lengths: Vec<u32>,
    /// Line of its file on which each record begins, or the number of the record for TFRecord and Parquet; from 1.
    pub lines: Vec<u64>,
    /// Byte of the file's decompressed content at which each record begins, from 0; for Parquet, the number of the row.
    pub offsets: Vec<u64>,
    /// Faults of records as a whole, ascending by the place of the record.
    pub faults: Vec<Fault>,
    /// Columns of each file that names its columns.
    pub headers: Vec<Header>,
}

/// The fault of a record as a whole.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fault {
    /// Place of the record among the inline records, from 0.
    pub row: u32,
    /// The reason.
    pub reason: String,
}

/// The columns of a file.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Header {
    /// Place of the file in [`crate::Options::files`].
    pub file: u32,
    /// Columns of the file.
    pub columns: Vec<String>,
}

impl InlineRecords {
    /// Removes all records. The memory is kept.
    pub(crate) fn clear(&mut self) {
        self.bytes.clear();
        self.lengths.clear();
        self.lines.clear();
        self.offsets.clear();
        self.faults.clear();
        self.headers.clear();
    }

    /// Appends a record.
    #[inline]
    pub(crate) fn push(&mut self, record: Record<'_>) {
        if let Some(reason) = record.fault {
            self.faults.push(Fault {
                row: self.lengths.len() as u32,
                reason: reason.to_owned(),
            });
        }
        // No record of text or TFRecord is longer than 256 MiB.
        let begin = self.bytes.len();
        record.content.append_to(&mut self.bytes);
        self.lengths.push((self.bytes.len() - begin) as u32);
        self.lines.push(record.place.line);
        self.offsets.push(record.place.offset);
    }

    /// Returns the fault of the record at a place.
    pub(crate) fn fault(&self, row: u32) -> Option<&str> {
        let place = self
            .faults
            .binary_search_by_key(&row, |fault| fault.row)
            .ok()?;
        Some(&self.faults[place].reason)
    }

    /// Returns the reason why these cannot be the records of a data shard with so many rows.
    pub(crate) fn flaw(&self, rows: u64) -> Option<String> {
        let counts = [self.lengths.len(), self.lines.len(), self.offsets.len()];
        if counts.iter().any(|count| *count as u64 != rows) {
            return Some(format!(
                "it has {rows} rows, and {counts:?} lengths, lines and offsets came inline"
            ));
        }
        let bytes: u64 = self.lengths.iter().map(|length| u64::from(*length)).sum();
        let given = self.bytes.len();
        (bytes != given as u64)
            .then(|| format!("its records are {bytes} bytes, and {given} came inline"))
    }
}
