//! Shard planner: decides which records of a pass form which data shard, and numbers the batches.
//!
//! Runs of `batch_size` consecutive records are grouped into windows, in file order. The runs of a window are shuffled,
//! and each `lanes * batches_per_shard` runs form a round. Run `i` of a round goes to lane `i % lanes`. The runs of a
//! lane form a data shard, whose rows are shuffled and cut into batches. The plan is a pure function of the files, the
//! settings and the pass. Each pass has ceil(rows / batch_size) batches, all full but the last, for any number of
//! workers.

use std::num::{NonZeroU32, NonZeroU64};

use crate::permutation::{Key, permute};
use crate::{DataShard, FileRange, RecordIndex};

/// Kind of [`Key`] for the order of a window's runs.
const WINDOW: u64 = 0;
/// Fewest rounds of a window.
const WINDOW_ROUNDS_MIN: u64 = 8;

/// Settings by which the records of an input become data shards.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ShardPlanner {
    /// Records of a batch.
    pub batch_size: NonZeroU32,
    /// Batches of a synchronous step, one of each lane; 1 if steps are not synchronous.
    pub lanes: NonZeroU32,
    /// Batches of a data shard.
    pub batches_per_shard: NonZeroU32,
    /// The order is random; otherwise the order of the files.
    pub shuffle: bool,
    /// Least number of records of a window, in which the order is random. A window has at least eight rounds.
    pub window_rows: u64,
    /// Seed of the order.
    pub seed: u64,
}

/// Result of [`ShardPlanner::shard`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    /// The data shard.
    Shard(DataShard),
    /// The data shard depends on records that are not in the index.
    NotIndexed {
        /// Number of runs that the index needs, unless it is complete before.
        runs: u64,
    },
    /// The pass has no such round, or the round has no batch for this lane.
    End,
}

/// The place of a batch among the data shards.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PlannedBatch {
    /// Pass over the data, from 0.
    pub pass: u64,
    /// Round of the pass.
    pub round: u64,
    /// Lane of the round.
    pub lane: u32,
    /// Number of the batch in its data shard, from 0.
    pub nth: u32,
}

impl ShardPlanner {
    /// Returns the number of batches of a round that is not the last of a pass.
    pub fn batches_per_round(&self) -> u64 {
        u64::from(self.lanes.get()) * u64::from(self.batches_per_shard.get())
    }

    /// Returns the number of runs of a window that is not the last of a pass: a multiple of a round.
    pub fn runs_per_window(&self) -> u64 {
        let round = self.batches_per_round();
        let runs = self.window_rows.div_ceil(u64::from(self.batch_size.get()));
        runs.max(round.saturating_mul(WINDOW_ROUNDS_MIN))
            .div_ceil(round)
            .saturating_mul(round)
    }

    /// Returns the number of batches of a pass; nothing until the index is complete.
    pub fn batches_per_pass(&self, index: &RecordIndex) -> Option<NonZeroU64> {
        NonZeroU64::new(index.runs()).filter(|_| index.is_complete())
    }

    /// Returns the number of synchronous steps of a pass.
    pub fn steps_per_pass(&self, batches_per_pass: NonZeroU64) -> NonZeroU64 {
        // The quotient is rounded up, so it is at least 1.
        let steps = batches_per_pass.get().div_ceil(u64::from(self.lanes.get()));
        NonZeroU64::new(steps).unwrap_or(NonZeroU64::MIN)
    }

    /// Returns the synchronous step of a batch, both numbered over all passes. Without the number of batches of a pass,
    /// the batch belongs to the first pass.
    pub fn step(&self, batch: u64, batches_per_pass: Option<NonZeroU64>) -> u64 {
        let (pass, batch) = divide(batch, batches_per_pass);
        let before =
            batches_per_pass.map_or(0, |batches| pass * self.steps_per_pass(batches).get());
        before + batch / u64::from(self.lanes.get())
    }

    /// Returns the number of batches of a synchronous step: one of each lane, or fewer in the last step of a pass.
    /// Without the number of batches of a pass, the step is not the last of its pass.
    pub fn slots(&self, step: u64, batches_per_pass: Option<NonZeroU64>) -> u32 {
        let lanes = self.lanes.get();
        let Some(batches) = batches_per_pass else {
            return lanes;
        };
        let step = step % self.steps_per_pass(batches);
        // The cast loses nothing: the value is at most the number of lanes.
        (batches.get() - step * u64::from(lanes)).min(u64::from(lanes)) as u32
    }

    /// Returns the place of a batch, numbered over all passes. Without the number of batches of a pass, the batch
    /// belongs to the first pass.
    pub fn find(&self, batch: u64, batches_per_pass: Option<NonZeroU64>) -> PlannedBatch {
        let (pass, batch) = divide(batch, batches_per_pass);
        let round = self.batches_per_round();
        let lanes = u64::from(self.lanes.get());
        let lane = batch % round % lanes;
        let nth = batch % round / lanes;
        // The casts lose nothing: the values are below `lanes` and `batches_per_shard`.
        PlannedBatch {
            pass,
            round: batch / round,
            lane: lane as u32,
            nth: nth as u32,
        }
    }

    /// Returns the data shard of a lane in a round of a pass.
    ///
    /// # Panics
    /// The index was made for another batch size.
    pub fn shard(&self, index: &RecordIndex, pass: u64, round: u64, lane: u32) -> Answer {
        assert_eq!(
            index.batch_size(),
            self.batch_size,
            "the index is for batches of another size"
        );
        let size = self.batches_per_round();
        let lanes = self.lanes.get();
        let first = round.saturating_mul(size);
        if lane >= lanes || (index.is_complete() && first >= index.runs()) {
            return Answer::End;
        }
        let batches_per_pass = self.batches_per_pass(index);
        if pass > 0 && batches_per_pass.is_none() {
            return Answer::NotIndexed { runs: u64::MAX };
        }
        let window_size = if self.shuffle {
            self.runs_per_window()
        } else {
            size
        };
        let window = first / window_size;
        let end = (window + 1).saturating_mul(window_size);
        if !index.is_complete() && index.runs() < end {
            return Answer::NotIndexed { runs: end };
        }
        let order = self.window(
            index,
            pass,
            window,
            window * window_size..end.min(index.runs()),
        );
        let begin = (first % window_size) as usize;
        let round_runs = &order[begin..order.len().min(begin.saturating_add(size as usize))];
        let mut runs: Vec<u64> = round_runs
            .iter()
            .copied()
            .skip(lane as usize)
            .step_by(lanes as usize)
            .collect();
        if runs.is_empty() {
            return Answer::End;
        }
        // The reader shuffles the rows after reading them, and reading forward is faster.
        runs.sort_unstable();
        let before = batches_per_pass.map_or(0, |batches| pass * batches.get());
        let first_batch = before + first + u64::from(lane);
        Answer::Shard(DataShard {
            pass,
            round,
            lane,
            lanes,
            first_batch,
            first_step: self.step(first_batch, batches_per_pass),
            // The casts lose nothing: both are at most the number of runs in the index, which is in memory.
            batches: runs.len() as u32,
            round_batches: round_runs.len() as u32,
            rows: runs.iter().map(|run| u64::from(index.run_rows(*run))).sum(),
            batch_size: self.batch_size.get(),
            shuffle: self.shuffle,
            seed: self.seed,
            ranges: ranges(index, &runs),
        })
    }

    /// Returns the runs of a window in the order of the plan. A run that is not full stays the last.
    fn window(
        &self,
        index: &RecordIndex,
        pass: u64,
        window: u64,
        runs: std::ops::Range<u64>,
    ) -> Vec<u64> {
        let partial = index.run_rows(runs.end - 1) < self.batch_size.get();
        let mut order: Vec<u64> = runs.collect();
        if self.shuffle {
            let full = order.len() - usize::from(partial);
            permute(
                &mut order[..full],
                Key {
                    seed: self.seed,
                    kind: WINDOW,
                    pass,
                    number: window,
                },
            );
        }
        order
    }
}

/// Returns the pass of a batch, and its number in the pass.
fn divide(batch: u64, batches_per_pass: Option<NonZeroU64>) -> (u64, u64) {
    batches_per_pass.map_or((0, batch), |batches| (batch / batches, batch % batches))
}

/// Returns the file ranges of runs. Adjacent ranges are joined.
fn ranges(index: &RecordIndex, runs: &[u64]) -> Vec<FileRange> {
    let mut joined: Vec<FileRange> = Vec::with_capacity(runs.len());
    for range in runs.iter().flat_map(|run| index.ranges(*run)) {
        if !joined.last_mut().is_some_and(|last| last.join(range)) {
            joined.push(*range);
        }
    }
    joined
}
