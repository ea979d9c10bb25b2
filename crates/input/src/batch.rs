//! A batch of records, as columns.

use std::ops::Range;

/// Position of a batch in its worker's input: `(pass, shard, batch)` is its identity (`batch_id`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Position {
    /// Pass over the data that the batch's first record belongs to, from 0.
    pub pass: u64,
    /// Data shard of the batch.
    pub shard: u64,
    /// Running number of the batch in the shard, from 0. The number does not restart with a pass.
    pub batch: u64,
}

/// Variable-length values: value `i` is `data[offsets[i]..offsets[i + 1]]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Bytes {
    /// Offsets of the values, one more than there are values. The first is 0, and none is below its predecessor.
    pub offsets: Vec<u32>,
    /// All values, end to end.
    pub data: Vec<u8>,
}

impl Default for Bytes {
    fn default() -> Self {
        Self {
            offsets: vec![0],
            data: Vec::new(),
        }
    }
}

impl Bytes {
    /// Appends a value.
    ///
    /// # Panics
    /// All values together are 4 GiB or more.
    pub fn push(&mut self, value: &[u8]) {
        self.data.extend_from_slice(value);
        self.offsets
            .push(u32::try_from(self.data.len()).expect("a batch column is under 4 GiB"));
    }

    /// Appends the value at `place` of `record`.
    #[inline]
    pub(crate) fn push_part(&mut self, record: &[u8], place: Range<usize>) {
        let length = place.len();
        // Most values are short. Copying 16 bytes and truncating is faster than a call that copies a few bytes.
        match record[place.start..].first_chunk::<16>() {
            Some(chunk) if length <= chunk.len() => {
                let end = self.data.len() + length;
                self.data.extend_from_slice(chunk);
                self.data.truncate(end);
                self.offsets
                    .push(u32::try_from(end).expect("a batch column is under 4 GiB"));
            }
            _ => self.push(&record[place]),
        }
    }

    /// Returns value `index`.
    pub fn get(&self, index: usize) -> &[u8] {
        &self.data[self.offsets[index] as usize..self.offsets[index + 1] as usize]
    }

    /// Returns the number of values.
    pub fn len(&self) -> usize {
        self.offsets.len() - 1
    }

    /// Returns whether there is no value.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Keeps the first `len` values.
    pub fn truncate(&mut self, len: usize) {
        if len < self.len() {
            self.data.truncate(self.offsets[len] as usize);
            self.offsets.truncate(len + 1);
        }
    }
}

/// The values of a column, end to end.
#[derive(Debug, Clone, PartialEq)]
pub enum Cells {
    /// Floats.
    Float(Vec<f32>),
    /// Integers.
    Int(Vec<i64>),
    /// Texts.
    Bytes(Bytes),
}

impl Cells {
    /// Returns the number of values.
    pub fn len(&self) -> usize {
        match self {
            Self::Float(values) => values.len(),
            Self::Int(values) => values.len(),
            Self::Bytes(values) => values.len(),
        }
    }

    /// Returns whether there is no value.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Keeps the first `len` values.
    pub fn truncate(&mut self, len: usize) {
        match self {
            Self::Float(values) => values.truncate(len),
            Self::Int(values) => values.truncate(len),
            Self::Bytes(values) => values.truncate(len),
        }
    }
}

/// One column of a batch.
#[derive(Debug, Clone, PartialEq)]
pub struct Column {
    /// Values, row by row.
    pub cells: Cells,
    /// Places at which the values of the rows begin, one more than there are rows; absent = each row has the same
    /// number of values.
    ///
    /// As in TensorFlow, a row of fixed length may hold placeholders for missing values (-1, the empty text). A row of
    /// variable length omits them.
    pub offsets: Option<Vec<u32>>,
}

impl Column {
    /// Returns a column of floats with the same number of values in each row.
    pub fn floats(values: Vec<f32>) -> Self {
        Self {
            cells: Cells::Float(values),
            offsets: None,
        }
    }

    /// Returns a column of integers with the same number of values in each row.
    pub fn ints(values: Vec<i64>) -> Self {
        Self {
            cells: Cells::Int(values),
            offsets: None,
        }
    }

    /// Returns a column of texts with the same number of values in each row.
    pub fn bytes(values: Bytes) -> Self {
        Self {
            cells: Cells::Bytes(values),
            offsets: None,
        }
    }

    /// Returns the places of the values of row `row` of `rows`.
    pub fn row(&self, row: usize, rows: usize) -> Range<usize> {
        match &self.offsets {
            Some(offsets) => offsets[row] as usize..offsets[row + 1] as usize,
            None => {
                let width = self.cells.len() / rows.max(1);
                row * width..(row + 1) * width
            }
        }
    }

    /// Returns the places of the values of each of `rows` rows.
    pub fn rows(&self, rows: usize) -> impl ExactSizeIterator<Item = Range<usize>> + '_ {
        // One division per column instead of one per row.
        let width = self.cells.len() / rows.max(1);
        (0..rows).map(move |row| match &self.offsets {
            Some(offsets) => offsets[row] as usize..offsets[row + 1] as usize,
            None => row * width..(row + 1) * width,
        })
    }
}

/// A batch: one column per field of the [`crate::Schema`], each with the values of `rows` records.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Batch {
    /// Records in the batch. A batch that was read has at least 1.
    pub rows: usize,
    /// Columns, in the order of the schema.
    pub columns: Vec<Column>,
    /// Position of the batch in the input.
    pub position: Position,
}
