//! The raw records of a data shard, for a reader that does not see the files.

use serde::{Deserialize, Serialize};

use crate::record::Record;

/// The records of a data shard in the order of its pieces, as they stand in the files.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct InlineRecords {
    /// The records, end to end, without line ends or frames.
    pub bytes: Vec<u8>,
    /// Bytes of each record.
    pub lengths: Vec<u32>,
    /// Line of its file on which each record begins, or, of TFRecord, its number in the file; from 1.
    pub lines: Vec<u64>,
    /// Byte of the file's decompressed content at which each record begins, from 0.
    pub offsets: Vec<u64>,
    /// What is wrong with records as a whole, by place among the records, ascending.
    pub faults: Vec<Fault>,
    /// The columns of each file whose first line names them.
    pub headers: Vec<Header>,
}

/// What is wrong with a record as a whole.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fault {
    /// Place of the record in the parcel, from 0.
    pub row: u32,
    /// What is wrong.
    pub reason: String,
}

/// The columns of a file.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Header {
    /// Place of the file in [`crate::Options::files`].
    pub file: u32,
    /// Its columns.
    pub columns: Vec<String>,
}

impl InlineRecords {
    /// Makes it empty; its memory is kept.
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
        self.bytes.extend_from_slice(record.bytes);
        // No record is longer than 256 MiB.
        self.lengths.push(record.bytes.len() as u32);
        self.lines.push(record.place.line);
        self.offsets.push(record.place.offset);
    }

    /// Returns what is wrong with the record at a place.
    pub(crate) fn fault(&self, row: u32) -> Option<&str> {
        let place = self
            .faults
            .binary_search_by_key(&row, |fault| fault.row)
            .ok()?;
        Some(&self.faults[place].reason)
    }

    /// Returns what keeps it from being the parcel of a data shard with so many rows.
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
