//! Data shard: the description of a small set of records that one worker reads. The chief sends it to the worker.

use serde::{Deserialize, Serialize};

use crate::permutation::{Key, permute};
use crate::{Error, FileRange};

/// Kind of [`Key`] of the order of a data shard's rows.
const ROWS: u64 = 1;

/// Complete description of a data shard: every process reads the same batches by it.
///
/// The lanes of a round take turns: after batch `nth` of one lane's shard, the pass has one batch of each other lane.
/// Batches are numbered over all passes. All batches are full but the last of a pass.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DataShard {
    /// Pass over the data, from 0.
    pub pass: u64,
    /// Round of the pass, from 0.
    pub round: u64,
    /// Lane of the round, below `lanes`.
    pub lane: u32,
    /// Lanes, at least 1.
    pub lanes: u32,
    /// Number of the shard's first batch. The numbers of the next batches are `lanes` apart.
    pub first_batch: u64,
    /// Number of the synchronous step of the first batch. Each next batch belongs to the next step.
    pub first_step: u64,
    /// Batches of the shard, at least 1.
    pub batches: u32,
    /// Batches of all lanes of the round.
    pub round_batches: u32,
    /// Rows of the shard.
    pub rows: u64,
    /// Rows of every batch that is not the pass's last.
    pub batch_size: u32,
    /// The rows are read in a random order; otherwise in the order of the ranges.
    pub shuffle: bool,
    /// Seed of the random order.
    pub seed: u64,
    /// File ranges that hold the rows, in file order.
    pub ranges: Vec<FileRange>,
}

impl DataShard {
    /// Returns the number, over all passes, of batch `nth` of the shard.
    pub fn batch(&self, nth: u32) -> u64 {
        self.first_batch
            .saturating_add(u64::from(nth).saturating_mul(u64::from(self.lanes)))
    }

    /// Returns the number, over all passes, of the synchronous step of batch `nth` of the shard.
    pub fn step(&self, nth: u32) -> u64 {
        self.first_step.saturating_add(u64::from(nth))
    }

    /// Returns the number of batches in the synchronous step of batch `nth`: one of each lane, or fewer in the last
    /// step of a pass.
    pub fn slots(&self, nth: u32) -> u32 {
        let before = u64::from(nth) * u64::from(self.lanes);
        // The cast loses nothing: the value is at most the number of lanes.
        u64::from(self.round_batches)
            .saturating_sub(before)
            .min(u64::from(self.lanes)) as u32
    }

    /// Returns the rows of batch `nth`, as places in the order in which the shard's rows are read.
    pub fn rows_of(&self, nth: u32) -> std::ops::Range<u64> {
        let size = u64::from(self.batch_size);
        let nth = u64::from(nth);
        (nth * size).min(self.rows)..((nth + 1) * size).min(self.rows)
    }

    /// Writes into `order` the rows in the order in which they are read. Rows are numbered in the order of the ranges.
    pub(crate) fn order(&self, order: &mut Vec<u32>) {
        order.clear();
        // `check` refuses more rows than fit into 32 bits.
        order.extend(0..self.rows as u32);
        if self.shuffle {
            let number = self
                .round
                .wrapping_mul(u64::from(self.lanes))
                .wrapping_add(u64::from(self.lane));
            permute(
                order,
                Key {
                    seed: self.seed,
                    kind: ROWS,
                    pass: self.pass,
                    number,
                },
            );
        }
    }

    /// Checks that the shard can be read from an input of `files` files.
    ///
    /// # Errors
    /// [`Error::Shard`] names the value that is impossible.
    pub fn check(&self, files: usize) -> Result<(), Error> {
        let rows = self
            .ranges
            .iter()
            .map(|range| u64::from(range.rows))
            .sum::<u64>();
        let batches = self.rows.div_ceil(u64::from(self.batch_size.max(1)));
        let beyond = self
            .ranges
            .iter()
            .find(|range| range.file as usize >= files);
        let reason = if self.batch_size == 0 {
            "its batches have no row".to_owned()
        } else if self.lane >= self.lanes {
            format!("its lane must be below {}, given {}", self.lanes, self.lane)
        } else if rows != self.rows || self.rows == 0 || self.rows > u64::from(u32::MAX) {
            format!(
                "it has {} rows (from 1 to {} are allowed), its pieces {rows}",
                self.rows,
                u32::MAX
            )
        } else if batches != u64::from(self.batches) {
            let size = self.batch_size;
            format!(
                "{rows} rows are {batches} batches of {size}, it has {}",
                self.batches
            )
        } else if let Some(range) = beyond {
            format!(
                "it names file {} of an input of {files}: have all tasks the same files?",
                range.file
            )
        } else {
            return Ok(());
        };
        Err(self.error(reason))
    }

    /// Returns the error that the shard cannot be read for this reason.
    pub(crate) fn error(&self, reason: String) -> Error {
        Error::Shard {
            pass: self.pass,
            round: self.round,
            lane: self.lane,
            reason,
        }
    }
}
