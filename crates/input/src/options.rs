//! Options of an input: files, format, order and batches.

use std::path::PathBuf;

use crate::{BadRows, Compression, Error, Format, MissingTexts, Sharding, TextStyle};

/// Interleaving of files (`tf.data.Dataset.interleave`): `cycle_length` files are open, and each gives `block_length`
/// records in its turn. The next file replaces a file that has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Interleave {
    /// Number of open files, at least 1; 1 = one file after the other.
    pub cycle_length: usize,
    /// Records of a turn, at least 1.
    pub block_length: usize,
}

impl Default for Interleave {
    fn default() -> Self {
        Self {
            cycle_length: 1,
            block_length: 1,
        }
    }
}

/// Options of one input of one worker.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    /// Files, in order.
    pub files: Vec<PathBuf>,
    /// Record format.
    pub format: Format,
    /// Compression of the files; absent = by the extension of each file's name, see [`Compression::of`].
    pub compression: Option<Compression>,
    /// Column names of CSV and TSV files; absent = the first line of each file names them. Files of other formats name
    /// their columns.
    pub columns: Option<Vec<String>>,
    /// Spaces around fields and names are dropped. TFRecord and Parquet values are not trimmed.
    pub trim: bool,
    /// Style of the fields of CSV and TSV files.
    pub text: TextStyle,
    /// Texts that stand for a missing value, besides the empty one, by columns.
    pub missing: MissingTexts,
    /// Decimal numbers that floats of 64 bits would round are read as texts of all their digits by who reads all columns, as a
    /// [`crate::TableReader`]. Otherwise they are numbers, as features have them.
    pub keeps_digits: bool,
    /// Treatment of bad rows.
    pub bad_rows: BadRows,
    /// Most bad rows under [`BadRows::Skip`].
    pub bad_rows_max: u64,
    /// File to which bad rows are written under [`BadRows::Skip`]; absent = they are not written.
    pub dead_letter: Option<PathBuf>,
    /// Records in a batch, at least 1.
    pub batch_size: usize,
    /// A last batch that is not full is dropped.
    pub drop_remainder: bool,
    /// Interleaving of files. It does not apply to data shards.
    pub interleave: Interleave,
    /// Records in the shuffle buffer; 0 = file order.
    pub shuffle_rows: usize,
    /// Passes over the data; absent = for ever.
    pub epochs: Option<u64>,
    /// Division of records over workers.
    pub sharding: Sharding,
    /// This worker's shard, below `shard_count`.
    pub shard_index: usize,
    /// Number of shards, at least 1.
    pub shard_count: usize,
    /// Seed of the shuffles.
    pub seed: u64,
    /// Batches to skip at the beginning. The first delivered batch has this number.
    pub skip_batches: u64,
}

impl Options {
    /// Returns options for reading all records of the files once, in order, in batches of one record. Fields are not
    /// trimmed, and the first bad row is an error.
    pub fn new(files: Vec<PathBuf>, format: Format) -> Self {
        Self {
            files,
            format,
            compression: None,
            columns: None,
            trim: false,
            text: TextStyle::default(),
            missing: MissingTexts::default(),
            keeps_digits: true,
            bad_rows: BadRows::Fail,
            bad_rows_max: 0,
            dead_letter: None,
            batch_size: 1,
            drop_remainder: false,
            interleave: Interleave::default(),
            shuffle_rows: 0,
            epochs: Some(1),
            sharding: Sharding::None,
            shard_index: 0,
            shard_count: 1,
            seed: 0,
            skip_batches: 0,
        }
    }

    /// Checks the ranges of the numbers.
    ///
    /// # Errors
    /// A number is out of range.
    pub(crate) fn check(&self) -> Result<(), Error> {
        let counts = [
            ("batch_size", self.batch_size),
            ("shard_count", self.shard_count),
            ("cycle_length", self.interleave.cycle_length),
            ("block_length", self.interleave.block_length),
        ];
        for (name, given) in counts {
            if given == 0 {
                return Err(Error::Setting {
                    name,
                    rule: "above 0".to_owned(),
                    given,
                });
            }
        }
        if self.shard_index >= self.shard_count {
            let rule = format!("below shard_count, which is {}", self.shard_count);
            return Err(Error::Setting {
                name: "shard_index",
                rule,
                given: self.shard_index,
            });
        }
        Ok(())
    }
}
