//! Who takes part: sessions, leases and the end of the job, as a state machine that is told the time.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use trainyard_cluster_spec::Task;
use trainyard_protocol::{Reason, Refusal};
use trainyard_trainer::{Beat, Form, Formed, Forming, JobState, Join, Joined, LeaveReason, Pulse, Start};

use crate::groups::Groups;
use crate::lanes::Lanes;

/// What a roster is for.
#[derive(Debug, Clone)]
pub struct RosterConfig {
    /// The cluster.
    pub cluster_id: u128,
    /// Of the cluster spec.
    pub cluster_fingerprint: u64,
    /// Of the layout.
    pub layout_fingerprint: u64,
    /// Tasks that train, in the order of their data shards.
    pub expected: Vec<Task>,
    /// Silence after which a task counts as gone.
    pub lease: Duration,
    /// Time between heartbeats.
    pub heartbeat_interval: Duration,
    /// Silence after which another process may take a task over: more than one heartbeat, less than the lease.
    pub takeover: Duration,
    /// Batches of a synchronous step; 0 = the updates are not synchronous.
    pub lanes: usize,
}

#[derive(Debug, Clone)]
struct Member {
    join: Join,
    session: u64,
    seen: Duration,
    pulse: (u64, u64, f64),
    left: Option<LeaveReason>,
    expired: bool,
}

/// The tasks of a job. All times are since the chief's start.
#[derive(Debug)]
pub struct Roster {
    config: RosterConfig,
    epoch: u64,
    state: JobState,
    waiting_for: Vec<String>,
    global_step: u64,
    members: BTreeMap<Task, Member>,
    sessions: u64,
    /// Steps and examples of sessions that are over.
    past: (u64, u64),
    absent_since: BTreeMap<Task, Duration>,
    seen_once: BTreeSet<Task>,
    lanes: Lanes,
    groups: Groups,
    start: Start,
    /// When the tasks were let in.
    opened: Option<Duration>,
}

impl Roster {
    /// Returns an empty roster that waits.
    pub fn new(config: RosterConfig) -> Self {
        let lanes = Lanes::new(config.lanes, &config.expected);
        Self {
            lanes,
            groups: Groups::default(),
            start: Start::default(),
            opened: None,
            config,
            epoch: 0,
            state: JobState::Waiting,
            waiting_for: Vec::new(),
            global_step: 0,
            members: BTreeMap::new(),
            sessions: 0,
            past: (0, 0),
            absent_since: BTreeMap::new(),
            seen_once: BTreeSet::new(),
        }
    }

    /// Starts an epoch: all sessions are over, and nobody trains until [`Roster::open`].
    pub fn begin_epoch(&mut self, epoch: u64, waiting_for: Vec<String>) {
        self.epoch = epoch;
        self.sessions = 0;
        self.state = JobState::Waiting;
        self.opened = None;
        self.groups.restart();
        self.waiting_for = waiting_for;
        for member in self.members.values() {
            self.past = (self.past.0 + member.pulse.0, self.past.1 + member.pulse.1);
        }
        // Who has read all of its input has to read it again from an earlier point, perhaps: nobody has left.
        self.members.clear();
    }

    /// Takes a name off the list of those the job waits for.
    pub fn arrived(&mut self, name: &str) {
        self.waiting_for.retain(|waiting| waiting != name);
    }

    /// Lets the tasks train.
    pub fn open(&mut self) {
        self.state = JobState::Training;
        self.waiting_for.clear();
    }

    /// Ends the job.
    pub fn end(&mut self, state: JobState) {
        self.state = state;
    }

    /// Returns what the job is doing.
    pub fn state(&self) -> JobState {
        self.state
    }

    /// Remembers the steps applied by all.
    pub fn set_global_step(&mut self, global_step: u64) {
        self.global_step = global_step;
    }

    /// Returns steps and examples of all sessions.
    pub fn totals(&self) -> (u64, u64) {
        let pulses = self.members.values().map(|member| member.pulse);
        pulses.fold(self.past, |sum, pulse| (sum.0 + pulse.0, sum.1 + pulse.1))
    }

    /// Returns the latest loss that any task has told.
    pub fn loss(&self) -> Option<f64> {
        let latest =
            self.members.values().filter(|member| member.pulse.0 > 0).max_by_key(|member| member.seen);
        latest.map(|member| member.pulse.2)
    }

    /// Takes a task in. The same process asking again gets the same session.
    ///
    /// # Errors
    /// The task is not expected, lives in another process, or was given another cluster or job.
    pub fn register(&mut self, now: Duration, join: Join) -> Result<Joined, Refusal> {
        let task = join.task;
        let Some(shard) = self.config.expected.iter().position(|expected| *expected == task) else {
            let expected: Vec<String> = self.config.expected.iter().map(Task::to_string).collect();
            let message =
                format!("{task} is not expected: the chief's cluster trains with {}", expected.join(", "));
            return Err(Refusal::new(Reason::OtherCluster, message));
        };
        if join.cluster_fingerprint != self.config.cluster_fingerprint {
            let message =
                format!("{task} was given another cluster spec than the chief: compare their cluster files");
            return Err(Refusal::new(Reason::OtherCluster, message));
        }
        if join.layout_fingerprint != self.config.layout_fingerprint {
            let message = format!("{task} was given another job file than the chief: their models differ");
            return Err(Refusal::new(Reason::OtherLayout, message));
        }
        let incumbent = self.members.get(&task);
        if let Some(member) = incumbent
            && member.join.incarnation == join.incarnation
            && member.left.is_none()
            && !member.expired
        {
            let session = member.session;
            if let Some(member) = self.members.get_mut(&task) {
                member.seen = now;
            }
            return Ok(self.joined(task, session, shard));
        }
        if let Some(member) = incumbent
            && member.left.is_none()
            && !member.expired
            && now.saturating_sub(member.seen) < self.config.takeover
        {
            let Join { address, process_id, started_unix_secs, .. } = &member.join;
            let message = format!(
                "{task} is already served by {address} (pid {process_id}, started {started_unix_secs} s after 1970); this process was refused"
            );
            return Err(Refusal::new(Reason::TaskTaken, message));
        }
        if let Some(member) = self.members.remove(&task) {
            self.past = (self.past.0 + member.pulse.0, self.past.1 + member.pulse.1);
        }
        self.sessions += 1;
        // Sessions of a later epoch are higher than all of an earlier one, also across restarts of the chief.
        let session = self.epoch << 32 | self.sessions;
        self.absent_since.remove(&task);
        self.seen_once.insert(task);
        let member = Member { join, session, seen: now, pulse: (0, 0, 0.0), left: None, expired: false };
        self.members.insert(task, member);
        Ok(self.joined(task, session, shard))
    }

    fn joined(&self, task: Task, session: u64, shard: usize) -> Joined {
        Joined {
            cluster_id: self.config.cluster_id,
            epoch: self.epoch,
            session,
            lease: self.config.lease,
            heartbeat_interval: self.config.heartbeat_interval,
            state: self.state,
            waiting_for: self.waiting_for.clone(),
            data_shard_index: shard,
            data_shard_count: self.config.expected.len(),
            lanes: self.lanes.of(task),
        }
    }

    fn member(&mut self, pulse: &Pulse) -> Result<&mut Member, Refusal> {
        let epoch = self.epoch;
        if pulse.epoch != epoch {
            return Err(Refusal::new(
                Reason::StaleEpoch,
                format!("epoch must be {epoch}, given {}", pulse.epoch),
            ));
        }
        match self.members.get_mut(&pulse.task) {
            Some(member) if member.session == pulse.session && !member.expired => Ok(member),
            _ => Err(Refusal::new(
                Reason::Fenced,
                format!("session {} of {} is over", pulse.session, pulse.task),
            )),
        }
    }

    /// Renews a lease.
    ///
    /// # Errors
    /// The session is over.
    pub fn heartbeat(&mut self, now: Duration, pulse: &Pulse) -> Result<Beat, Refusal> {
        let member = self.member(pulse)?;
        member.seen = now;
        member.pulse = (pulse.steps, pulse.examples, pulse.loss);
        Ok(Beat {
            state: self.state,
            waiting_for: self.waiting_for.clone(),
            global_step: self.global_step,
            lanes: self.lanes.of(pulse.task),
            regroup: self.groups.awaited(),
        })
    }

    /// Lets a task go. Returns its session, which is over.
    ///
    /// # Errors
    /// The session was over already.
    pub fn leave(&mut self, now: Duration, pulse: &Pulse, reason: LeaveReason) -> Result<u64, Refusal> {
        let member = self.member(pulse)?;
        member.seen = now;
        member.pulse = (pulse.steps, pulse.examples, pulse.loss);
        member.left = Some(reason);
        Ok(member.session)
    }

    /// Checks that a session is one that may ask for data, and renews its lease.
    ///
    /// # Errors
    /// The session is over.
    pub fn check(&mut self, now: Duration, pulse: &Pulse) -> Result<(), Refusal> {
        self.member(pulse)?.seen = now;
        Ok(())
    }

    /// Says what a group without parameters starts from.
    pub fn set_start(&mut self, start: Start) {
        self.start = start;
    }

    /// Takes in a wish to be one of those who add up their gradients.
    ///
    /// # Errors
    /// The session is over.
    pub fn form(&mut self, now: Duration, form: &Form) -> Result<Forming, Refusal> {
        self.check(now, &form.pulse)?;
        let Pulse { task, session, .. } = form.pulse;
        let here = self.members.iter().filter(|(_, member)| member.left.is_none() && !member.expired);
        let here: Vec<(Task, u64)> = here.map(|(task, member)| (*task, member.session)).collect();
        let asked = self.groups.ask(now, (task, session), form.generation, &here, &self.config.expected);
        Ok(match asked {
            Ok(grouped) => {
                let address = |task: &Task| self.members.get(task).map(|member| member.join.address.clone());
                let members = grouped.members.iter().map(|task| (*task, address(task).unwrap_or_default()));
                Forming::Formed(Formed {
                    generation: grouped.generation,
                    rank: grouped.members.iter().position(|member| *member == task).unwrap_or(0),
                    members: members.collect(),
                    // There are far fewer than 2^32.
                    lanes: self.config.lanes as u32,
                    start: self.start.clone(),
                })
            }
            Err(missing) => Forming::Waits { waiting_for: missing.iter().map(Task::to_string).collect() },
        })
    }

    /// Gives every lane to a task that is here. `slowest` is the one that the latest step waited for. Tasks that have
    /// not come yet are counted on for a while.
    pub fn assign_lanes(&mut self, now: Duration, slowest: Option<u32>) {
        let opened = *self.opened.get_or_insert(now);
        if let Some(slowest) = slowest {
            self.lanes.vote(slowest);
        }
        let late = now.saturating_sub(opened) < self.config.lease;
        let here = |task: &Task| match self.members.get(task) {
            Some(member) => {
                !member.expired
                    && !matches!(member.left, Some(LeaveReason::Shutdown | LeaveReason::Failed(_)))
            }
            None => late,
        };
        let here: Vec<Task> = self.config.expected.iter().copied().filter(here).collect();
        self.lanes.assign(&here);
    }

    /// Ends the leases of tasks that have been silent for too long. Returns their sessions.
    pub fn expire(&mut self, now: Duration) -> Vec<(Task, u64)> {
        let lease = self.config.lease;
        let mut gone = Vec::new();
        for (task, member) in &mut self.members {
            if member.left.is_none() && !member.expired && now.saturating_sub(member.seen) > lease {
                member.expired = true;
                gone.push((*task, member.session));
            }
        }
        gone
    }

    /// Returns the number of tasks that train.
    pub fn active(&self) -> usize {
        self.members.values().filter(|member| member.left.is_none() && !member.expired).count()
    }

    /// Returns the tasks whose input is not known to be used up and that are not here, with how long they have been
    /// missed.
    pub fn absent(&mut self, now: Duration) -> Vec<(Task, Duration)> {
        let missing: Vec<Task> =
            self.config.expected.iter().copied().filter(|task| !self.is_here_or_done(*task)).collect();
        self.absent_since.retain(|task, _| missing.contains(task));
        missing
            .into_iter()
            .map(|task| (task, now.saturating_sub(*self.absent_since.entry(task).or_insert(now))))
            .collect()
    }

    /// Returns whether a task has ever been here.
    pub fn was_here(&self, task: Task) -> bool {
        self.seen_once.contains(&task)
    }

    fn is_here_or_done(&self, task: Task) -> bool {
        self.members.get(&task).is_some_and(|member| match &member.left {
            None => !member.expired,
            Some(LeaveReason::InputExhausted | LeaveReason::Finished) => true,
            Some(LeaveReason::Shutdown | LeaveReason::Failed(_)) => false,
        })
    }

    /// Returns why a task cannot go on, if one has said so.
    pub fn failure(&self) -> Option<(Task, String)> {
        self.members.iter().find_map(|(task, member)| match &member.left {
            Some(LeaveReason::Failed(message)) => Some((*task, message.clone())),
            _ => None,
        })
    }

    /// Returns whether every task has left because its input or the steps are used up.
    pub fn all_done(&self) -> bool {
        let done = |member: &Member| {
            matches!(member.left, Some(LeaveReason::InputExhausted | LeaveReason::Finished))
        };
        self.config.expected.iter().all(|task| self.members.get(task).is_some_and(done))
    }
}

#[cfg(test)]
mod tests;
