//! The dispatcher, which hands out data shards: the index of the records, and the state of dynamic sharding.

use std::num::NonZeroU32;
use std::time::Duration;

use parking_lot::{Mutex, MutexGuard};
use tokio::time::Instant;
use tracing::info;
use trainyard_diagnostic::Diagnostic;
use trainyard_input::{Indexer, InlineRecords, RecordFetcher, ShardPlanner};
use trainyard_model::{Part, Shard, input_options};
use trainyard_parameter_store::ShardPosition;
use trainyard_protocol::{Reason, Refusal, limits};
use trainyard_run_config::{Job, Replication};
use trainyard_trainer::{GrantedShard, NextShardReply, NextShardRequest, RESERVE_SHARDS_MAX};

use crate::data_shards::{DataShards, Holder, Next};

/// Longest time for which a request waits for the index. Then the reply is to wait, and the task repeats the request.
const INDEX_TIMEOUT: Duration = Duration::from_millis(500);
/// Runs that are indexed at a time. Other requests are handled in between.
const INDEX_RUNS: u64 = 64;
/// Batches of a data shard, for each lane.
pub const SHARD_BATCHES: u32 = 16;
/// Batches of a data shard with inline records, for each lane.
const INLINE_SHARD_BATCHES: u32 = 4;

/// The dispatcher of a job. All calls may block, because they read files.
#[derive(Debug)]
pub struct Dispatcher {
    indexer: Mutex<Indexer>,
    shards: Mutex<DataShards>,
    fetcher: Option<Mutex<RecordFetcher>>,
    /// Updates are synchronous, so each data shard is that of a lane.
    is_by_lane: bool,
    /// The reason why no more data can be handed out.
    failure: Mutex<Option<Diagnostic>>,
}

impl Dispatcher {
    /// Opens the input files of a job. `lanes` is the number of batches of a synchronous step; 0 if the updates are not
    /// synchronous.
    ///
    /// # Errors
    /// A file is missing.
    pub fn of(job: &Job, lanes: usize) -> Result<Self, Diagnostic> {
        let options = input_options(job, Part::Train, Shard::WHOLE, None)?;
        let inline = job.strategy.replication == Replication::InGraph;
        let one = NonZeroU32::MIN;
        let batch_size = u32::try_from(options.batch_size)
            .ok()
            .and_then(NonZeroU32::new)
            .unwrap_or(one);
        let per_shard = if inline {
            INLINE_SHARD_BATCHES
        } else {
            SHARD_BATCHES
        };
        let deal = ShardPlanner {
            batch_size,
            lanes: u32::try_from(lanes)
                .ok()
                .and_then(NonZeroU32::new)
                .unwrap_or(one),
            batches_per_shard: NonZeroU32::new(per_shard).unwrap_or(one),
            shuffle: options.shuffle_rows > 1,
            window_rows: options.shuffle_rows as u64,
            seed: options.seed,
        };
        let passes = options.epochs;
        let fetcher = inline.then(|| Mutex::new(RecordFetcher::new(options.clone())));
        let indexer = Indexer::open(options, batch_size).map_err(Diagnostic::from)?;
        let shards = Mutex::new(DataShards::new(deal, passes));
        Ok(Self {
            indexer: Mutex::new(indexer),
            shards,
            fetcher,
            is_by_lane: lanes > 0,
            failure: Mutex::new(None),
        })
    }

    /// Begins a term. `servers` are the positions that each server has applied.
    pub fn restart(&self, servers: &[Vec<ShardPosition>]) {
        let mut shards = self.shards.lock();
        shards.restart(servers);
        if shards.first_batch() > 0 {
            info!(
                batch = shards.first_batch(),
                "the dispatcher continues after the last batch that is applied"
            );
        }
    }

    /// Records that the last step has been applied. From now on, only batches are handed out that some servers have
    /// applied and others have not. Returns whether there are none.
    pub fn complete(&self, servers: &[Vec<ShardPosition>]) -> bool {
        self.shards.lock().complete(servers)
    }

    /// Returns whether the servers have applied all data. Returns `true` if the amount of data is unknown.
    pub fn is_applied(&self, servers: &[Vec<ShardPosition>]) -> bool {
        let indexer = self.indexer.lock();
        self.shards.lock().is_applied(indexer.index(), servers)
    }

    /// Returns whether the servers have applied all data. Returns `false` if the amount of data is unknown.
    pub fn is_over(&self, servers: &[Vec<ShardPosition>]) -> bool {
        let indexer = self.indexer.lock();
        self.shards.lock().is_over(indexer.index(), servers) == Some(true)
    }

    /// Releases the data shards of a session.
    pub fn release(&self, holder: Holder) {
        self.shards.lock().release(holder);
    }

    /// Releases the data shards of earlier sessions of a task.
    pub(crate) fn release_before(&self, holder: Holder) {
        self.shards.lock().release_before(holder);
    }

    /// Returns the reason why no more data can be handed out, once.
    pub fn failure(&self) -> Option<Diagnostic> {
        self.failure.lock().take()
    }

    /// Returns the number of batches of a synchronous step; 1 if the updates are not synchronous.
    pub fn lanes(&self) -> u32 {
        self.shards.lock().deal().lanes.get()
    }

    /// Returns the number of batches of a data shard. Rows change their places only within one.
    pub fn batches_per_shard(&self) -> u32 {
        self.shards.lock().deal().batches_per_shard.get()
    }

    /// Returns a number that changes when a file does.
    pub fn fingerprint(&self) -> u64 {
        self.indexer.lock().fingerprint()
    }

    /// Indexes all files to their ends, and returns the number of records in them.
    ///
    /// # Errors
    /// A file cannot be read.
    pub fn rows(&self) -> Result<u64, Diagnostic> {
        loop {
            let mut indexer = self.indexer.lock();
            if indexer.index().is_complete() {
                return Ok(indexer.index().rows());
            }
            let runs = indexer.index().runs();
            indexer
                .advance(runs + INDEX_RUNS)
                .map_err(Diagnostic::from)?;
            // Requests for data shards come first.
            MutexGuard::unlock_fair(indexer);
        }
    }

    /// Checks that a request names a lane of the job, if the job has any.
    fn check_lane(&self, lane: Option<u32>) -> Result<(), Refusal> {
        let lanes = if self.is_by_lane { self.lanes() } else { 0 };
        let what = match lane {
            None if self.is_by_lane => "no lane".to_owned(),
            Some(lane) if lane >= lanes => format!("lane {lane}"),
            _ => return Ok(()),
        };
        let message = format!(
            "a request for a data shard names {what}, and the job has {lanes} lanes: the job files differ"
        );
        Err(Refusal::new(Reason::BadRequest, message))
    }

    /// Handles a request for a data shard.
    ///
    /// # Errors
    /// A file cannot be read: the job cannot continue. The request names a lane that the job does not have.
    pub fn answer(&self, ask: &NextShardRequest) -> Result<NextShardReply, Refusal> {
        self.check_lane(ask.lane.map(|(lane, _)| lane))?;
        let until = Instant::now() + INDEX_TIMEOUT;
        let holder = (ask.heartbeat.task, ask.heartbeat.session);
        let mut reserve = Vec::new();
        let (next, half_applied) = loop {
            let mut indexer = self.indexer.lock();
            let (next, half_applied) = {
                let mut shards = self.shards.lock();
                ask.done.iter().for_each(|first| shards.done(*first));
                let next = match ask.lane {
                    Some((lane, from)) => shards.of_lane(indexer.index(), lane, from),
                    None => shards.next(indexer.index(), holder),
                };
                let half_applied = shards.is_behind_last_step();
                if let Next::Shard { shard, .. } = &next
                    && self.fetcher.is_none()
                    && !half_applied
                {
                    let count = ask.reserve.min(RESERVE_SHARDS_MAX);
                    reserve = match ask.lane {
                        Some((lane, _)) => {
                            shards.reserve_of_lane(indexer.index(), lane, shard, count)
                        }
                        None => shards.reserve(indexer.index(), holder, count),
                    };
                }
                (next, half_applied)
            };
            let Next::NotIndexed { runs } = next else {
                break (next, half_applied);
            };
            if Instant::now() > until {
                break (Next::Wait, half_applied);
            }
            let known = indexer.index().runs();
            if let Err(error) = indexer.advance(runs.min(known + INDEX_RUNS)) {
                return Err(self.fail(error.into()));
            }
        };
        let (shard, batches, direction, step) = match next {
            Next::Shard {
                shard,
                batches,
                direction,
                step,
            } => (shard, batches, direction, step),
            Next::End { step, steps } => return Ok(NextShardReply::End { step, steps }),
            Next::Wait | Next::NotIndexed { .. } => return Ok(NextShardReply::Wait),
        };
        let inline_records = match &self.fetcher {
            Some(fetcher) => {
                let mut inline_records = InlineRecords::default();
                let fetched = fetcher.lock().fetch(
                    &shard,
                    limits::INLINE_RECORDS_BYTES_MAX,
                    &mut inline_records,
                );
                if let Err(error) = fetched {
                    return Err(self.fail(error.into()));
                }
                Some(inline_records)
            }
            None => None,
        };
        Ok(NextShardReply::Shard(Box::new(GrantedShard {
            shard,
            batches,
            direction,
            step,
            inline_records,
            reserve,
            half_applied,
        })))
    }

    fn fail(&self, problem: Diagnostic) -> Refusal {
        let refusal = Refusal::new(Reason::Storage, problem.message.clone());
        self.failure.lock().get_or_insert(problem);
        refusal
    }
}
