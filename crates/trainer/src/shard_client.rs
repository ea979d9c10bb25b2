//! Requests for data shards, and the state of the shards that were granted.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::{Notify, mpsc};
use tokio::time::Instant;
use tracing::{info, warn};
use trainyard_cluster_client::{Error, retry};
use trainyard_input::{DataShard, Direction};
use trainyard_parameter_store::Identity;

use crate::standstill::Standstill;
use crate::{Coordinator, GrantedShard, HeartbeatRequest, NextShardReply, NextShardRequest};

/// Interval of requests for a data shard while other tasks hold all of them.
const RETRY_INTERVAL: Duration = Duration::from_millis(50);
/// Training time for which offline shards are kept, at the pace of the task.
const OFFLINE_TIME: Duration = Duration::from_secs(60);
/// Most offline shards.
pub const RESERVE_SHARDS_MAX: u32 = 512;
/// Offline shards of the first request, before the pace is known.
const RESERVE_SHARDS: u32 = 64;
/// Interval at which offline shards are renewed.
const RENEW_INTERVAL: Duration = Duration::from_secs(2);
/// Time without a reply after which offline shards are used, if the chief is not known to be gone. The chief may be
/// reading the input for that long.
const CHIEF_TIMEOUT: Duration = Duration::from_secs(1);

/// Granted data shards that have not been applied completely, and applied ones that have not been reported to the
/// chief.
#[derive(Debug, Default)]
pub(crate) struct OutstandingShards {
    shards: Mutex<Shards>,
    news: Notify,
    /// Synchronous step of the data at which the session begins.
    origin: Mutex<Option<u64>>,
    /// Number of synchronous steps of all the data, once the end is known.
    steps: Mutex<u64>,
}

#[derive(Debug, Default)]
struct Shards {
    /// By first batch: the end of the range of batches, and the number of missing batches.
    open: BTreeMap<u64, (u64, u32)>,
    done: Vec<u64>,
}

impl OutstandingShards {
    pub(crate) fn origin(&self) -> Option<u64> {
        *self.origin.lock()
    }

    pub(crate) fn steps(&self) -> u64 {
        *self.steps.lock()
    }

    fn granted(&self, granted: &GrantedShard) {
        let shard = &granted.shard;
        let end = shard.batch(shard.batches);
        self.shards
            .lock()
            .open
            .insert(shard.first_batch, (end, granted.batches.len() as u32));
    }

    pub(crate) fn applied(&self, batch: u64) {
        let mut shards = self.shards.lock();
        let Some((&first, (end, missing))) = shards.open.range_mut(..=batch).next_back() else {
            return;
        };
        if batch >= *end {
            return;
        }
        *missing = missing.saturating_sub(1);
        if *missing == 0 {
            shards.open.remove(&first);
            shards.done.push(first);
            self.news.notify_one();
        }
    }

    fn take_done(&self) -> Vec<u64> {
        std::mem::take(&mut self.shards.lock().done)
    }
}

/// Requests one data shard ahead of the one that is being read.
pub(crate) struct ShardClient {
    pub(crate) coordinator: Arc<dyn Coordinator>,
    pub(crate) heartbeat: HeartbeatRequest,
    pub(crate) deadline: Duration,
    /// Offline shards are kept.
    pub(crate) reserves: bool,
    pub(crate) open: Arc<OutstandingShards>,
    pub(crate) standstill: Arc<Standstill>,
    pub(crate) sender: mpsc::Sender<Box<GrantedShard>>,
}

/// Offline shards: the data that a task trains while its chief is away. They are not reserved for the task, and a batch
/// that other tasks train, too, counts once.
#[derive(Debug)]
struct OfflineShards {
    shards: VecDeque<DataShard>,
    since: Instant,
    renewed: Option<Instant>,
    /// Number of data shards that were granted.
    granted: u32,
}

impl OfflineShards {
    fn new() -> Self {
        Self {
            shards: VecDeque::new(),
            since: Instant::now(),
            renewed: None,
            granted: 0,
        }
    }

    /// Returns how many offline shards to request; 0 while the present ones suffice.
    fn wanted(&self) -> u32 {
        match self.renewed {
            Some(at) if at.elapsed() < RENEW_INTERVAL => 0,
            None => RESERVE_SHARDS,
            Some(_) => {
                let pace = f64::from(self.granted) / self.since.elapsed().as_secs_f64();
                ((pace * OFFLINE_TIME.as_secs_f64()).ceil() as u32)
                    .clamp(RESERVE_SHARDS, RESERVE_SHARDS_MAX)
            }
        }
    }

    fn renew(&mut self, shards: Vec<DataShard>) {
        self.shards = shards.into();
        self.renewed = Some(Instant::now());
    }
}

/// Returns whether there is an offline shard to train. Drops those that the chief has granted since they were kept: a lane
/// has had their batches.
fn has_next(reserve: &mut VecDeque<DataShard>, lane: Option<(u32, u64)>) -> bool {
    if let Some((_, from)) = lane {
        while reserve
            .front()
            .is_some_and(|shard| shard.batch(shard.batches - 1) < from)
        {
            reserve.pop_front();
        }
    }
    !reserve.is_empty()
}

impl ShardClient {
    pub(crate) async fn run(self, mut lane: Option<(u32, u64)>) -> Result<(), Error> {
        let mut reserve = OfflineShards::new();
        loop {
            let wanted = if self.reserves { reserve.wanted() } else { 0 };
            let ask = NextShardRequest {
                heartbeat: self.heartbeat.clone(),
                done: self.open.take_done(),
                lane,
                reserve: wanted,
            };
            let Some(granted) = self.ask(&ask, &mut lane, &mut reserve.shards).await? else {
                return Ok(());
            };
            match granted {
                NextShardReply::Shard(mut granted) => {
                    // Only the first reply counts, because it is about the batch at which the session begins.
                    self.open.origin.lock().get_or_insert(granted.step);
                    if wanted > 0 {
                        reserve.renew(std::mem::take(&mut granted.reserve));
                    }
                    reserve.granted += 1;
                    let shard = &granted.shard;
                    let last = shard.batch(shard.batches - 1);
                    match &mut lane {
                        // The lane has meanwhile been trained from offline shards.
                        Some((_, from)) if last < *from => continue,
                        Some((_, from)) => *from = last + 1,
                        None => self.open.granted(&granted),
                    }
                    if self.sender.send(granted).await.is_err() {
                        return Ok(());
                    }
                }
                NextShardReply::Wait => {
                    tokio::select! {
                        () = tokio::time::sleep(RETRY_INTERVAL) => {}
                        () = self.open.news.notified() => {}
                        () = self.sender.closed() => return Ok(()),
                    }
                }
                NextShardReply::End { step, steps } => {
                    self.open.origin.lock().get_or_insert(step);
                    *self.open.steps.lock() = steps;
                    return Ok(());
                }
            }
        }
    }

    /// Sends a request until it is answered. If the chief is away meanwhile, offline shards are trained. Returns `None`
    /// if no batches are read any more.
    async fn ask(
        &self,
        ask: &NextShardRequest,
        lane: &mut Option<(u32, u64)>,
        reserve: &mut VecDeque<DataShard>,
    ) -> Result<Option<NextShardReply>, Error> {
        let HeartbeatRequest {
            task,
            incarnation,
            epoch,
            session,
            ..
        } = self.heartbeat;
        let identity = Identity {
            cluster_id: 0,
            epoch,
            task,
            incarnation,
            session,
        };
        let name = self.coordinator.name();
        let gone = Notify::new();
        let coordinator = &self.coordinator;
        let gone = &gone;
        let shard_client = retry(&identity, &name, self.deadline, move || async move {
            let answer = coordinator.next_shard(ask.clone()).await;
            if matches!(answer, Err(Error::Unreachable { .. })) {
                gone.notify_one();
            }
            answer
        });
        tokio::pin!(shard_client);
        let mut away = false;
        let begun = Instant::now();
        let answer = loop {
            if away && !has_next(reserve, *lane) {
                self.standstill.chief(Some(&name));
            }
            tokio::select! {
                biased;
                answer = &mut shard_client => break answer?,
                () = gone.notified(), if !away => away = true,
                () = tokio::time::sleep_until(begun + CHIEF_TIMEOUT), if !away => away = true,
                place = self.sender.reserve(), if away && has_next(reserve, *lane) => {
                    let (Ok(place), Some(shard)) = (place, reserve.pop_front()) else { return Ok(None) };
                    if reserve.is_empty() {
                        warn!(task = %task, "the chief does not answer, and this task has used \
                            up its offline shards");
                    }
                    let batches = 0..shard.batches;
                    let step = shard.first_step;
                    let direction = Direction::Forward;
                    let granted = Box::new(GrantedShard {
                        shard,
                        batches,
                        direction,
                        step,
                        inline_records: None,
                        reserve: Vec::new(),
                        half_applied: false,
                    });
                    match lane {
                        Some((_, from)) => *from = granted.shard.batch(granted.shard.batches - 1) + 1,
                        None => self.open.granted(&granted),
                    }
                    place.send(granted);
                }
            }
        };
        self.standstill.chief(None);
        if away {
            info!(task = %task, after = ?begun.elapsed(), "the chief assigns data shards again");
        }
        Ok(Some(answer))
    }
}
