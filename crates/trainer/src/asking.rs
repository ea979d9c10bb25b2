//! The questions for data, and what has become of the answers.

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

use crate::{Ask, Coordinator, Grant, GrantedShard, Pulse};

/// Time between questions for a data shard while all are in others' hands.
const ASK_AGAIN: Duration = Duration::from_millis(50);
/// Time of training for which there is a reserve of data, at the pace of the task.
const RESERVE: Duration = Duration::from_secs(60);
/// Most data shards of a reserve.
pub const RESERVE_SHARDS_MAX: u32 = 512;
/// Those of the first, when the pace is not known.
const RESERVE_SHARDS: u32 = 64;
/// Time between renewals.
const RENEW: Duration = Duration::from_secs(2);
/// Time without an answer after which the reserve is begun, where nobody has said that the chief is gone: it may be reading
/// the input for that long.
const SILENCE: Duration = Duration::from_secs(1);

/// Data shards that were granted and are not applied whole; and those that are, which the chief has not been told of.
#[derive(Debug, Default)]
pub(crate) struct Open {
    shards: Mutex<Shards>,
    news: Notify,
    /// Synchronous step of the data that the session begins at.
    origin: Mutex<Option<u64>>,
    /// Synchronous steps of all the data, once the end is known.
    steps: Mutex<u64>,
}

#[derive(Debug, Default)]
struct Shards {
    /// By first batch: one past the last, and batches that are missing.
    open: BTreeMap<u64, (u64, u32)>,
    done: Vec<u64>,
}

impl Open {
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

/// Asks for one data shard ahead of the one that is read.
pub(crate) struct Asking {
    pub(crate) coordinator: Arc<dyn Coordinator>,
    pub(crate) pulse: Pulse,
    pub(crate) deadline: Duration,
    /// Whether data shards are known ahead, for a time without the chief.
    pub(crate) reserves: bool,
    pub(crate) open: Arc<Open>,
    pub(crate) sender: mpsc::Sender<Box<GrantedShard>>,
}

/// What a task trains on while its chief is away. Nobody holds these data shards: what others train too counts once all the
/// same.
#[derive(Debug)]
struct Reserve {
    shards: VecDeque<DataShard>,
    since: Instant,
    renewed: Option<Instant>,
    /// Data shards that were granted.
    granted: u32,
}

impl Reserve {
    fn new() -> Self {
        Self {
            shards: VecDeque::new(),
            since: Instant::now(),
            renewed: None,
            granted: 0,
        }
    }

    /// Returns how many data shards are to be asked for; 0 while those that there are will do.
    fn wanted(&self) -> u32 {
        match self.renewed {
            Some(at) if at.elapsed() < RENEW => 0,
            None => RESERVE_SHARDS,
            Some(_) => {
                let pace = f64::from(self.granted) / self.since.elapsed().as_secs_f64();
                ((pace * RESERVE.as_secs_f64()).ceil() as u32)
                    .clamp(RESERVE_SHARDS, RESERVE_SHARDS_MAX)
            }
        }
    }

    fn renew(&mut self, shards: Vec<DataShard>) {
        self.shards = shards.into();
        self.renewed = Some(Instant::now());
    }
}

impl Asking {
    pub(crate) async fn run(self, mut lane: Option<(u32, u64)>) -> Result<(), Error> {
        let mut reserve = Reserve::new();
        loop {
            let wanted = if self.reserves { reserve.wanted() } else { 0 };
            let ask = Ask {
                pulse: self.pulse.clone(),
                done: self.open.take_done(),
                lane,
                reserve: wanted,
            };
            let Some(granted) = self.ask(&ask, &mut lane, &mut reserve.shards).await? else {
                return Ok(());
            };
            match granted {
                Grant::Shard(mut granted) => {
                    // Only the first answer counts: it is about the batch that the session begins at.
                    self.open.origin.lock().get_or_insert(granted.step);
                    if wanted > 0 {
                        reserve.renew(std::mem::take(&mut granted.reserve));
                    }
                    reserve.granted += 1;
                    let shard = &granted.shard;
                    let last = shard.batch(shard.batches - 1);
                    match &mut lane {
                        // The reserve was begun meanwhile.
                        Some((_, from)) if last < *from => continue,
                        Some((_, from)) => *from = last + 1,
                        None => self.open.granted(&granted),
                    }
                    if self.sender.send(granted).await.is_err() {
                        return Ok(());
                    }
                }
                Grant::Wait => {
                    tokio::select! {
                        () = tokio::time::sleep(ASK_AGAIN) => {}
                        () = self.open.news.notified() => {}
                        () = self.sender.closed() => return Ok(()),
                    }
                }
                Grant::End { step, steps } => {
                    self.open.origin.lock().get_or_insert(step);
                    *self.open.steps.lock() = steps;
                    return Ok(());
                }
            }
        }
    }

    /// Asks until there is an answer; where the chief is away meanwhile, what is kept in reserve is trained. Nothing where
    /// nobody reads any more.
    async fn ask(
        &self,
        ask: &Ask,
        lane: &mut Option<(u32, u64)>,
        reserve: &mut VecDeque<DataShard>,
    ) -> Result<Option<Grant>, Error> {
        let Pulse {
            task,
            incarnation,
            epoch,
            session,
            ..
        } = self.pulse;
        let identity = Identity {
            cluster_id: 0,
            epoch,
            task,
            incarnation,
            session,
            seq: 0,
        };
        let name = self.coordinator.name();
        let gone = Notify::new();
        let coordinator = &self.coordinator;
        let gone = &gone;
        let asking = retry(&identity, &name, self.deadline, move || async move {
            let answer = coordinator.next_shard(ask.clone()).await;
            if matches!(answer, Err(Error::Unreachable { .. })) {
                gone.notify_one();
            }
            answer
        });
        tokio::pin!(asking);
        let mut away = false;
        let begun = Instant::now();
        let answer = loop {
            tokio::select! {
                biased;
                answer = &mut asking => break answer?,
                () = gone.notified(), if !away => away = true,
                () = tokio::time::sleep_until(begun + SILENCE), if !away => away = true,
                place = self.sender.reserve(), if away && !reserve.is_empty() => {
                    let (Ok(place), Some(shard)) = (place, reserve.pop_front()) else { return Ok(None) };
                    if reserve.is_empty() {
                        warn!(task = %task, "the chief is away, and the reserve of data is used up");
                    }
                    let batches = 0..shard.batches;
                    let step = shard.first_step;
                    let direction = Direction::Forward;
                    let granted = Box::new(GrantedShard {
                        shard,
                        batches,
                        direction,
                        step,
                        parcel: None,
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
        if away {
            info!(task = %task, after = ?begun.elapsed(), "the chief hands out data again");
        }
        Ok(Some(answer))
    }
}
