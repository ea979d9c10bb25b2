//! Dynamic sharding as a pure state machine: the data shards to be read, the sessions that read them, and the applied
//! batches.
//!
//! The parameter servers record the applied batches together with the values, and report them at the beginning of a
//! term. All other state may be lost with the chief: a batch that was handed out and not applied is handed out again,
//! and a batch that is applied twice counts once.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use trainyard_cluster_spec::Task;
use trainyard_input::{Answer, DataShard, Direction, RecordIndex, ShardPlanner};
use trainyard_parameter_store::ShardPosition;

/// Largest number of sessions that read one data shard at the same time.
const HOLDERS_MAX: usize = 2;
/// Least number of renewals of the offline shards in the time that they last.
const RENEWALS: u64 = 16;
/// Largest number of applied offline shards that are recorded. A shard beyond it is read again, and counts once.
const EARLY_MAX: usize = 1 << 16;

/// A session that reads data shards.
pub(crate) type Holder = (Task, u64);

/// Answer to a request for a data shard.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// Batches of a data shard, by their number in it, and the synchronous step of the requested batch.
    Shard {
        shard: DataShard,
        batches: Range<u32>,
        direction: Direction,
        step: u64,
    },
    /// The index must cover this number of runs first.
    NotIndexed { runs: u64 },
    /// Other sessions read all remaining data shards.
    Wait,
    /// Everything has been applied, or the lane has no more batches. Holds the synchronous step of the requested batch,
    /// and the number of steps of all the data.
    End { step: u64, steps: u64 },
}

/// The end if steps do not matter.
const END: Next = Next::End { step: 0, steps: 0 };

/// A data shard that is being read.
#[derive(Debug)]
struct Lease {
    pass: u64,
    round: u64,
    holders: Vec<Holder>,
}

/// The data shards of a job.
#[derive(Debug)]
pub(crate) struct DataShards {
    deal: ShardPlanner,
    /// Passes over the data; absent = unlimited.
    passes: Option<u64>,
    /// Batches that every server had applied when the term began: all below the number, and those of the ranges.
    applied: (u64, Vec<Range<u64>>),
    /// Pass and round of the first data shard that has not been handed out.
    cursor: Option<(u64, u64)>,
    /// Pass and round of each released data shard, by first batch.
    returned: BTreeMap<u64, (u64, u64)>,
    /// Data shards that are being read, by first batch.
    leases: BTreeMap<u64, Lease>,
    /// Offline shards that were applied before they were handed out, by first batch.
    early: BTreeSet<u64>,
    /// Once the last step has been applied: the batches that only some servers have applied, and the session that reads
    /// each.
    half_applied: Option<BTreeMap<u64, Option<Holder>>>,
}

impl DataShards {
    pub(crate) fn new(deal: ShardPlanner, passes: Option<u64>) -> Self {
        let applied = (0, Vec::new());
        let returned = BTreeMap::new();
        let leases = BTreeMap::new();
        let early = BTreeSet::new();
        Self {
            deal,
            passes,
            applied,
            cursor: None,
            returned,
            leases,
            early,
            half_applied: None,
        }
    }

    /// Returns the shard planner.
    pub(crate) fn deal(&self) -> &ShardPlanner {
        &self.deal
    }

    /// Begins a term: no session reads, and only the batches that every server has applied count as applied.
    pub(crate) fn restart(&mut self, servers: &[Vec<ShardPosition>]) {
        self.applied = applied(servers);
        (self.cursor, self.returned, self.leases) = (None, BTreeMap::new(), BTreeMap::new());
        self.early.clear();
        self.half_applied = None;
    }

    /// Records that the last step has been applied, and which batches each server has applied. Returns whether all
    /// servers have applied the same.
    pub(crate) fn complete(&mut self, servers: &[Vec<ShardPosition>]) -> bool {
        let before = self.half_applied.take().unwrap_or_default();
        let holder = |batch| (batch, before.get(&batch).copied().flatten());
        let half_applied: BTreeMap<u64, Option<Holder>> =
            half_applied(servers).into_iter().map(holder).collect();
        let complete = half_applied.is_empty();
        self.half_applied = Some(half_applied);
        complete
    }

    /// Returns whether the last step has been applied.
    pub(crate) fn is_behind_last_step(&self) -> bool {
        self.half_applied.is_some()
    }

    /// Returns whether the servers have applied all batches of all passes. Returns `true` if the number of batches is
    /// unknown.
    pub(crate) fn is_applied(&self, index: &RecordIndex, servers: &[Vec<ShardPosition>]) -> bool {
        self.is_over(index, servers).unwrap_or(true)
    }

    /// Returns whether the servers have applied all batches of all passes, `None` if the number of batches is unknown.
    pub(crate) fn is_over(
        &self,
        index: &RecordIndex,
        servers: &[Vec<ShardPosition>],
    ) -> Option<bool> {
        let batches = self.deal.batches_per_pass(index)?;
        Some(applied(servers).0 >= self.passes?.saturating_mul(batches.get()))
    }

    /// Returns the first batch that was not applied at the beginning of the term.
    pub(crate) fn first_batch(&self) -> u64 {
        self.applied.0
    }

    /// Grants a session its next data shard.
    pub(crate) fn next(&mut self, index: &RecordIndex, holder: Holder) -> Next {
        if let Some(half_applied) = self.half_applied.take() {
            let (half_applied, next) = self.next_half_applied(half_applied, index, holder);
            self.half_applied = Some(half_applied);
            return next;
        }
        while let Some((first, (pass, round))) = self.returned.pop_first() {
            match self.grant(index, holder, pass, round) {
                Next::NotIndexed { runs } => {
                    self.returned.insert(first, (pass, round));
                    return Next::NotIndexed { runs };
                }
                Next::End { .. } => {}
                granted => return granted,
            }
        }
        loop {
            let (pass, round) = match self.cursor {
                Some(cursor) => cursor,
                None => {
                    let batches = self.deal.batches_per_pass(index);
                    // Without the size of a pass, only a batch of the first pass can be found.
                    if batches.is_none() && self.applied.0 >= index.runs() && self.applied.0 > 0 {
                        return Next::NotIndexed {
                            runs: self.applied.0.saturating_add(1),
                        };
                    }
                    let dealt = self.deal.find(self.applied.0, batches);
                    (dealt.pass, dealt.round)
                }
            };
            self.cursor = Some((pass, round));
            if self.passes.is_some_and(|passes| pass >= passes) {
                break;
            }
            match self.grant(index, holder, pass, round) {
                Next::NotIndexed { runs } => return Next::NotIndexed { runs },
                Next::End { .. } if round == 0 => break,
                Next::End { .. } => self.cursor = Some((pass + 1, 0)),
                Next::Wait => self.cursor = Some((pass, round + 1)),
                granted => {
                    self.cursor = Some((pass, round + 1));
                    return granted;
                }
            }
        }
        self.help(index, holder)
    }

    /// Grants a half-applied batch, each to one session at a time.
    fn next_half_applied(
        &self,
        mut batches: BTreeMap<u64, Option<Holder>>,
        index: &RecordIndex,
        holder: Holder,
    ) -> (BTreeMap<u64, Option<Holder>>, Next) {
        if batches.is_empty() {
            return (batches, END);
        }
        let Some((&batch, _)) = batches.iter().find(|(_, holder)| holder.is_none()) else {
            return (batches, Next::Wait);
        };
        let dealt = self.deal.find(batch, self.deal.batches_per_pass(index));
        let next = match self.deal.shard(index, dealt.pass, dealt.round, 0) {
            Answer::Shard(shard) => {
                batches.insert(batch, Some(holder));
                let nth = (0..shard.batches)
                    .find(|nth| shard.batch(*nth) == batch)
                    .unwrap_or_default();
                let step = shard.first_step;
                Next::Shard {
                    shard,
                    batches: nth..nth + 1,
                    direction: Direction::Forward,
                    step,
                }
            }
            Answer::NotIndexed { runs } => Next::NotIndexed { runs },
            Answer::End => END,
        };
        (batches, next)
    }

    /// Grants a data shard to its first session. Returns [`Next::Wait`] if it has been applied, [`Next::End`] if it
    /// does not exist.
    fn grant(&mut self, index: &RecordIndex, holder: Holder, pass: u64, round: u64) -> Next {
        let shard = match self.deal.shard(index, pass, round, 0) {
            Answer::Shard(shard) => shard,
            Answer::NotIndexed { runs } => return Next::NotIndexed { runs },
            Answer::End => return END,
        };
        if self.early.remove(&shard.first_batch) {
            return Next::Wait;
        }
        let Some(batches) = self.missing(&shard) else {
            return Next::Wait;
        };
        self.leases.insert(
            shard.first_batch,
            Lease {
                pass,
                round,
                holders: vec![holder],
            },
        );
        let step = shard.first_step;
        Next::Shard {
            shard,
            batches,
            direction: Direction::Forward,
            step,
        }
    }

    /// Grants an idle session a data shard that another session reads, to be read from the other end.
    fn help(&mut self, index: &RecordIndex, holder: Holder) -> Next {
        if self.leases.is_empty() {
            return END;
        }
        let free = |lease: &&mut Lease| {
            lease.holders.len() < HOLDERS_MAX && !lease.holders.contains(&holder)
        };
        let Some(lease) = self.leases.values_mut().find(free) else {
            return Next::Wait;
        };
        let pass = lease.pass;
        let round = lease.round;
        match self.deal.shard(index, pass, round, 0) {
            Answer::Shard(shard) => {
                lease.holders.push(holder);
                let batches = self.missing(&shard).unwrap_or(0..shard.batches);
                let step = shard.first_step;
                Next::Shard {
                    shard,
                    batches,
                    direction: Direction::Backward,
                    step,
                }
            }
            Answer::NotIndexed { runs } => Next::NotIndexed { runs },
            Answer::End => END,
        }
    }

    /// Records that a data shard has been applied completely.
    pub(crate) fn done(&mut self, first_batch: u64) {
        let known = self.leases.remove(&first_batch).is_some()
            | self.returned.remove(&first_batch).is_some();
        if !known && self.early.len() < EARLY_MAX {
            self.early.insert(first_batch);
        }
    }

    /// Returns the offline shards of a session: data shards that the session may train while the chief is away, and
    /// that no other session will have been granted by then. Those of each session lie behind those of the sessions
    /// before it, because sessions do not know of each other without the chief.
    pub(crate) fn reserve(
        &self,
        index: &RecordIndex,
        holder: Holder,
        count: u32,
    ) -> Vec<DataShard> {
        let Some((pass, round)) = self.cursor.filter(|_| count > 0) else {
            return Vec::new();
        };
        let holders: BTreeSet<Holder> = self
            .leases
            .values()
            .flat_map(|lease| lease.holders.iter().copied())
            .collect();
        let before = holders.iter().filter(|other| **other < holder).count() as u64;
        let count = u64::from(count);
        // All sessions will be granted data shards before the offline shards are renewed.
        let skipped = before * count + holders.len() as u64 * count.div_ceil(RENEWALS);
        let mut pass = pass;
        let mut round = round + skipped;
        if let Some(batches) = self.deal.batches_per_pass(index) {
            let rounds = batches.get().div_ceil(self.deal.batches_per_round()).max(1);
            (pass, round) = (pass + round / rounds, round % rounds);
        }
        let mut found = Vec::new();
        while (found.len() as u64) < count && self.passes.is_none_or(|passes| pass < passes) {
            match self.deal.shard(index, pass, round, 0) {
                Answer::Shard(shard) => found.push(shard),
                Answer::End if round > 0 => {
                    (pass, round) = (pass + 1, 0);
                    continue;
                }
                Answer::End | Answer::NotIndexed { .. } => break,
            }
            round += 1;
        }
        found
    }

    /// Returns the offline shards of a lane: the data shards behind the granted one.
    pub(crate) fn reserve_of_lane(
        &self,
        index: &RecordIndex,
        lane: u32,
        granted: &DataShard,
        count: u32,
    ) -> Vec<DataShard> {
        let mut found = Vec::new();
        let mut from = granted.batch(granted.batches.saturating_sub(1)) + 1;
        while found.len() < count as usize {
            let Next::Shard { shard, .. } = self.of_lane(index, lane, from) else {
                break;
            };
            from = shard.batch(shard.batches.saturating_sub(1)) + 1;
            found.push(shard);
        }
        found
    }

    /// Releases the data shards of a session.
    pub(crate) fn release(&mut self, holder: Holder) {
        self.release_if(|known| known == holder);
    }

    /// Releases the data shards of earlier sessions of a task. If a task returns soon after its death, no lease expires
    /// that would release them.
    pub(crate) fn release_before(&mut self, (task, session): Holder) {
        self.release_if(|(other, earlier)| other == task && earlier < session);
    }

    fn release_if(&mut self, gone: impl Fn(Holder) -> bool) {
        for holder in self.half_applied.iter_mut().flat_map(BTreeMap::values_mut) {
            *holder = holder.filter(|holder| !gone(*holder));
        }
        let returned = &mut self.returned;
        self.leases.retain(|first, lease| {
            lease.holders.retain(|known| !gone(*known));
            if lease.holders.is_empty() {
                returned.insert(*first, (lease.pass, lease.round));
            }
            !lease.holders.is_empty()
        });
    }

    /// Returns the data shard of a lane that holds its first batch from `from` on. No state changes, because the
    /// servers know the next batch in synchronous training.
    pub(crate) fn of_lane(&self, index: &RecordIndex, lane: u32, from: u64) -> Next {
        let batches = self.deal.batches_per_pass(index);
        if batches.is_none() && from >= index.runs() && from > 0 {
            return Next::NotIndexed {
                runs: from.saturating_add(1),
            };
        }
        let step = self.deal.step(from, batches);
        let steps = match (self.passes, batches) {
            (Some(passes), Some(batches)) => {
                passes.saturating_mul(self.deal.steps_per_pass(batches).get())
            }
            (None, Some(_)) => u64::MAX,
            (_, None) => step,
        };
        let end = Next::End { step, steps };
        let dealt = self.deal.find(from, batches);
        let mut pass = dealt.pass;
        let mut round = dealt.round;
        loop {
            if lane >= self.deal.lanes.get() || self.passes.is_some_and(|passes| pass >= passes) {
                return end;
            }
            match self.deal.shard(index, pass, round, lane) {
                Answer::Shard(shard) => {
                    let first = (0..shard.batches).find(|nth| shard.batch(*nth) >= from);
                    if let Some(first) = first {
                        let batches = first..shard.batches;
                        let direction = Direction::Forward;
                        return Next::Shard {
                            shard,
                            batches,
                            direction,
                            step,
                        };
                    }
                    round += 1;
                }
                Answer::NotIndexed { runs } => return Next::NotIndexed { runs },
                // If a pass has fewer batches than lanes, some lanes have none in any pass.
                Answer::End if round == 0 => return end,
                Answer::End => (pass, round) = (pass + 1, 0),
            }
        }
    }

    /// Returns the batches of a data shard from the first to the last that has not been applied, `None` if all have
    /// been.
    fn missing(&self, shard: &DataShard) -> Option<Range<u32>> {
        let (floor, ahead) = &self.applied;
        let applied = |nth: &u32| {
            let batch = shard.batch(*nth);
            batch < *floor || ahead.iter().any(|range| range.contains(&batch))
        };
        let mut missing = (0..shard.batches).filter(|nth| !applied(nth));
        let first = missing.next()?;
        Some(first..missing.next_back().unwrap_or(first) + 1)
    }
}

/// Returns the batches that every server has applied: all below the number, and those of the ranges.
fn applied(servers: &[Vec<ShardPosition>]) -> (u64, Vec<Range<u64>>) {
    let all = ShardPosition::of_all(servers.iter().map(Vec::as_slice));
    let own = all.into_iter().find(|position| position.shard == 0);
    own.map_or((0, Vec::new()), |position| (position.batch, position.ahead))
}

/// Returns the batches that only some servers have applied.
fn half_applied(servers: &[Vec<ShardPosition>]) -> BTreeSet<u64> {
    let applied = |positions: &Vec<ShardPosition>| -> (u64, Vec<Range<u64>>) {
        applied(std::slice::from_ref(positions))
    };
    let servers: Vec<_> = servers.iter().map(applied).collect();
    let first = servers.iter().map(|(below, _)| *below).min();
    let last = servers.iter().map(|(below, _)| *below).max();
    let between = first.unwrap_or_default()..last.unwrap_or_default();
    let ahead = servers
        .iter()
        .flat_map(|(_, ahead)| ahead.iter().cloned().flatten());
    let has = |(below, ahead): &(u64, Vec<Range<u64>>), batch: u64| {
        batch < *below || ahead.iter().any(|range| range.contains(&batch))
    };
    between
        .chain(ahead)
        .filter(|batch| !servers.iter().all(|server| has(server, *batch)))
        .collect()
}

#[cfg(test)]
mod tests;
