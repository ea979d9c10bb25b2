//! A batch of records, as columns.

/// Where a batch stands in its worker's input: `(pass, shard, batch)` is its identity (`batch_id`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Position {
    /// Pass over the data that the batch's first record belongs to, from 0.
    pub pass: u64,
    /// Data shard that it comes from.
    pub shard: u64,
    /// Running number of the batch in the shard, from 0; it does not start again with a pass.
    pub batch: u64,
}

/// Variable-length values: value `i` is `data[offsets[i]..offsets[i + 1]]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Bytes {
    /// One more than there are values; starts at 0, never falls.
    pub offsets: Vec<u32>,
    /// All values, end to end.
    pub data: Vec<u8>,
}

impl Default for Bytes {
    fn default() -> Self {
        Self { offsets: vec![0], data: Vec::new() }
    }
}

impl Bytes {
    /// Appends a value.
    pub fn push(&mut self, value: &[u8]) {
        self.data.extend_from_slice(value);
        self.offsets.push(u32::try_from(self.data.len()).expect("a batch column is under 4 GiB"));
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

/// One column of a batch.
#[derive(Debug, Clone, PartialEq)]
pub enum Column {
    /// Floats, one per row.
    Float(Vec<f32>),
    /// Integers, one per row.
    Int(Vec<i64>),
    /// Texts, one per row.
    Bytes(Bytes),
}

/// A batch: one column per field of the [`crate::Schema`], all of `rows` values.
#[derive(Debug, Clone, PartialEq)]
pub struct Batch {
    /// Records in the batch, at least 1.
    pub rows: usize,
    /// Columns, in the order of the schema.
    pub columns: Vec<Column>,
    /// Where it stands in the input.
    pub position: Position,
}
