//! The records of a data shard in memory, in the form that their format has.

use crate::InlineRecords;
use crate::columnar::{RowPlace, RowPool};
use crate::record::{Content, Place, Record};

/// A collection to which records are added.
pub(crate) trait Records {
    /// Removes all records. The memory is kept.
    fn clear(&mut self);

    /// Copies a record.
    fn push(&mut self, record: Record<'_>);

    /// Returns the number of records.
    fn len(&self) -> usize;

    /// Returns the number of bytes of all records.
    fn bytes(&self) -> u64;
}

impl Records for InlineRecords {
    fn clear(&mut self) {
        self.bytes.clear();
        self.lengths.clear();
        self.lines.clear();
        self.offsets.clear();
        self.faults.clear();
        self.headers.clear();
    }

    #[inline]
    fn push(&mut self, record: Record<'_>) {
        self.push_head(record);
        self.bytes.extend_from_slice(&record.content.bytes());
    }

    fn len(&self) -> usize {
        self.lengths.len()
    }

    fn bytes(&self) -> u64 {
        self.bytes.len() as u64
    }
}

/// Records in the order of the ranges of a data shard.
#[derive(Debug, Default)]
pub(crate) struct HeldRecords {
    /// Heads of the records, and the records that are bytes.
    inline_records: InlineRecords,
    /// Begin of each record in the bytes, if the records are bytes.
    begins: Vec<usize>,
    /// The rows of columnar files; their places, if the records are rows.
    pool: RowPool,
    rows: Vec<RowPlace>,
    bytes: u64,
}

impl HeldRecords {
    /// Replaces the records by those that came inline.
    pub(crate) fn set_inline(&mut self, inline_records: InlineRecords) {
        self.clear();
        self.inline_records = inline_records;
        let mut begin = 0;
        for length in &self.inline_records.lengths {
            self.begins.push(begin);
            begin += *length as usize;
        }
    }

    /// Returns a record by its place among all. Its file and pass are known to the caller.
    #[inline]
    pub(crate) fn record(&self, nth: usize, file: u32, pass: u64) -> Record<'_> {
        let content = match self.rows.get(nth) {
            Some(row) => {
                let (rows, row) = self.pool.get(*row);
                Content::Row(rows, row)
            }
            None => {
                let begin = self.begins[nth];
                let length = self.inline_records.lengths[nth] as usize;
                Content::Bytes(&self.inline_records.bytes[begin..begin + length])
            }
        };
        Record {
            content,
            place: Place {
                file: file as usize,
                line: self.inline_records.lines[nth],
                offset: self.inline_records.offsets[nth],
                pass,
            },
            // A data shard has fewer than 2^32 rows.
            fault: self.inline_records.fault(nth as u32),
        }
    }
}

impl Records for HeldRecords {
    fn clear(&mut self) {
        self.inline_records.clear();
        self.begins.clear();
        self.pool.clear();
        self.rows.clear();
        self.bytes = 0;
    }

    #[inline]
    fn push(&mut self, record: Record<'_>) {
        self.inline_records.push_head(record);
        match record.content {
            Content::Bytes(bytes) => {
                self.begins.push(self.inline_records.bytes.len());
                self.inline_records.bytes.extend_from_slice(bytes);
            }
            Content::Row(rows, row) => self.rows.push(self.pool.push(rows, row)),
        }
        self.bytes += record.content.len() as u64;
    }

    fn len(&self) -> usize {
        self.inline_records.lengths.len()
    }

    fn bytes(&self) -> u64 {
        self.bytes
    }
}
