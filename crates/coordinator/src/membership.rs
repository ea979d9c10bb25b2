//! Cluster membership: sessions and leases, as a pure state machine. Time is an argument.

mod leases;
mod view;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use trainyard_cluster_spec::{Role, Servers, Task, WORKERS_MAX};
use trainyard_protocol::{Reason, Refusal};
use trainyard_run_config::Agreement;
use trainyard_trainer::{
    GroupAssignment, GroupStart, HeartbeatReply, HeartbeatRequest, JobState, JoinGroupReply,
    JoinGroupRequest, LeaveReason, RegisterReply, RegisterRequest, StepTotals,
};

pub use view::View;

use crate::TablePositions;
use crate::backup_workers::LaneAssignment;
use crate::rendezvous::{JoinRequest, Rendezvous};

/// The rule that admits tasks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Admission {
    /// Expected tasks, and any worker whose index is below [`WORKERS_MAX`], at any time: the chief hands out the data,
    /// so that the present tasks can do all that is left.
    Open,
    /// Only expected tasks, for this reason: the job cannot end without them.
    Expected(&'static str),
}

/// The state of a job with respect to its tasks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Liveness {
    /// A task trains.
    Training,
    /// No task trains: every task that was needed has left at the end of its input, or of the steps.
    Finished,
    /// No task trains, and these tasks may have work left. Holds how long each has been missing.
    Missed(Vec<(Task, Duration)>),
    /// No task trains, and any worker could do what is left. Holds how long no task has been present.
    Deserted(Duration),
}

/// Configuration of the membership.
#[derive(Debug, Clone)]
pub struct MembershipConfig {
    /// Id of the cluster.
    pub cluster_id: u128,
    /// The chief and the parameter servers.
    pub servers: Servers,
    /// Fingerprint of the layout.
    pub layout_fingerprint: u64,
    /// Settings of the job that all tasks must share.
    pub job: Agreement,
    /// Tasks that train from the beginning, in the order of their data shards.
    pub expected: Vec<Task>,
    /// The rule that admits other tasks.
    pub admission: Admission,
    /// Silence after which a task counts as gone.
    pub lease: Duration,
    /// Time between heartbeats.
    pub heartbeat_interval: Duration,
    /// Silence after which another process may take over a task: more than one heartbeat interval, less than the lease.
    pub takeover: Duration,
    /// Silence after which a task counts as gone whose keep-alive stream has broken.
    pub return_within: Duration,
    /// Batches of a synchronous step; 0 if the updates are not synchronous.
    pub lanes: usize,
}

#[derive(Debug, Clone)]
struct Member {
    join: RegisterRequest,
    session: u64,
    seen: Duration,
    /// Number of keep-alive streams that the task holds open.
    attends: u32,
    /// Time at which the last keep-alive stream broke.
    lost: Option<Duration>,
    heartbeat: (u64, u64, f64),
    /// Totals of the task's steps, and the time of the heartbeat that reported them.
    totals: StepTotals,
    told: Duration,
    left: Option<LeaveReason>,
    expired: bool,
}

impl Member {
    fn see(&mut self, now: Duration) {
        (self.seen, self.lost) = (now, None);
    }

    fn hear(&mut self, now: Duration, heartbeat: &HeartbeatRequest) {
        self.heartbeat = (heartbeat.steps, heartbeat.examples, heartbeat.loss);
        (self.totals, self.told) = (heartbeat.totals, now);
    }

    fn trains(&self) -> bool {
        self.left.is_none() && !self.expired
    }

    /// Returns whether the task has left at the end of its input, or of the steps.
    fn is_done(&self) -> bool {
        matches!(
            self.left,
            Some(LeaveReason::InputExhausted | LeaveReason::Finished)
        )
    }
}

/// The tasks of a job. All times are since the chief's start.
#[derive(Debug)]
pub struct Membership {
    config: MembershipConfig,
    epoch: u64,
    state: JobState,
    waiting_for: Vec<String>,
    global_step: u64,
    members: BTreeMap<Task, Member>,
    sessions: u64,
    /// Steps and examples of ended sessions.
    past: (u64, u64),
    absent_since: BTreeMap<Task, Duration>,
    deserted_since: Option<Duration>,
    seen_once: BTreeSet<Task>,
    lanes: LaneAssignment,
    groups: Rendezvous,
    start: GroupStart,
    /// Time of the first assignment of lanes in this term.
    opened: Option<Duration>,
    /// Quarantined tasks, and the reason for each.
    quarantined: BTreeMap<Task, String>,
}

impl Membership {
    /// Returns an empty membership, in the state [`JobState::Waiting`].
    pub fn new(config: MembershipConfig) -> Self {
        let lanes = LaneAssignment::new(config.lanes, &config.expected);
        Self {
            lanes,
            groups: Rendezvous::default(),
            start: GroupStart::default(),
            opened: None,
            quarantined: BTreeMap::new(),
            config,
            epoch: 0,
            state: JobState::Waiting,
            waiting_for: Vec::new(),
            global_step: 0,
            members: BTreeMap::new(),
            sessions: 0,
            past: (0, 0),
            absent_since: BTreeMap::new(),
            deserted_since: None,
            seen_once: BTreeSet::new(),
        }
    }

    /// Begins a term: all sessions end, and no task trains until [`Membership::open`].
    pub fn begin_epoch(&mut self, epoch: u64, waiting_for: Vec<String>) {
        self.epoch = epoch;
        self.sessions = 0;
        self.state = JobState::Waiting;
        self.opened = None;
        self.groups.restart();
        self.waiting_for = waiting_for;
        for member in self.members.values() {
            self.past = (
                self.past.0 + member.heartbeat.0,
                self.past.1 + member.heartbeat.1,
            );
        }
        // A task that has read all of its input may have to read it again from an earlier point, so no task counts as
        // left.
        self.members.clear();
    }

    /// Removes a name from the list of those that the job waits for.
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

    /// Returns the global step, as last seen.
    pub fn global_step(&self) -> u64 {
        self.global_step
    }

    /// Returns the term of the chief.
    pub fn epoch(&self) -> u64 {
        self.epoch
    }

    /// Returns the state of the job.
    pub fn state(&self) -> JobState {
        self.state
    }

    /// Checks that a request is for this cluster.
    ///
    /// # Errors
    /// The request is for another cluster.
    pub fn check_cluster(&self, given: u128) -> Result<(), Refusal> {
        let own = self.config.cluster_id;
        if given == own {
            return Ok(());
        }
        let message = format!(
            "this chief belongs to cluster {own:032x}, the request names cluster {given:032x}"
        );
        Err(Refusal::new(Reason::OtherCluster, message))
    }

    /// Sets the global step.
    pub fn set_global_step(&mut self, global_step: u64) {
        self.global_step = global_step;
    }

    /// Returns steps and examples of all sessions.
    pub fn totals(&self) -> (u64, u64) {
        let pulses = self.members.values().map(|member| member.heartbeat);
        pulses.fold(self.past, |sum, heartbeat| {
            (sum.0 + heartbeat.0, sum.1 + heartbeat.1)
        })
    }

    /// Returns the latest loss that a task has reported.
    pub fn loss(&self) -> Option<f64> {
        let latest = self
            .members
            .values()
            .filter(|member| member.heartbeat.0 > 0)
            .max_by_key(|member| member.seen);
        latest.map(|member| member.heartbeat.2)
    }

    /// Registers a task. A repeated request of the same process gets the same session, unless the process has used that
    /// session: sequence numbers are used once in a session, and a process that registers again counts from 1.
    ///
    /// # Errors
    /// The task is not expected, is quarantined, runs in another process, or was given another cluster or job.
    pub fn register(
        &mut self,
        now: Duration,
        join: RegisterRequest,
    ) -> Result<RegisterReply, Refusal> {
        let task = join.task;
        let shard = self.admit(task)?;
        if let Some(why) = self.quarantined.get(&task) {
            return Err(Refusal::new(Reason::Quarantined, why.clone()));
        }
        if let Some(difference) =
            self.config
                .servers
                .differences(&join.servers, "chief:0", &task.to_string())
        {
            let message = format!("{task} has another cluster than the chief: {difference}");
            return Err(Refusal::new(Reason::OtherCluster, message));
        }
        if let Some(difference) =
            self.config
                .job
                .differences(&join.job, "chief:0", &task.to_string())
        {
            let message = format!("{task} has another job than the chief: {difference}");
            return Err(Refusal::new(Reason::OtherLayout, message));
        }
        if join.layout_fingerprint != self.config.layout_fingerprint {
            let message =
                format!("{task} has another job file than the chief: their models differ");
            return Err(Refusal::new(Reason::OtherLayout, message));
        }
        let incumbent = self.members.get(&task);
        if let Some(member) = incumbent
            && member.join.incarnation == join.incarnation
            && member.left.is_none()
            && !member.expired
            && member.session != join.spent_session
        {
            let session = member.session;
            if let Some(member) = self.members.get_mut(&task) {
                member.see(now);
            }
            return Ok(self.joined(task, session, shard));
        }
        if let Some(member) = incumbent
            && member.join.incarnation != join.incarnation
            && member.left.is_none()
            && !member.expired
            && member.lost.is_none()
            && now.saturating_sub(member.seen) < self.config.takeover
        {
            let RegisterRequest {
                address,
                process_id,
                ..
            } = &member.join;
            let message = format!(
                "{task} is already served by {address} (pid {process_id}); the chief refuses \
                this process"
            );
            return Err(Refusal::new(Reason::TaskTaken, message));
        }
        if let Some(member) = self.members.remove(&task) {
            self.past = (
                self.past.0 + member.heartbeat.0,
                self.past.1 + member.heartbeat.1,
            );
        }
        self.sessions += 1;
        // Sessions of a later term are higher than all sessions of an earlier one, also across restarts of the chief.
        let session = self.epoch << 32 | self.sessions;
        self.absent_since.remove(&task);
        self.seen_once.insert(task);
        let heartbeat = (0, 0, 0.0);
        let left = None;
        let member = Member {
            join,
            session,
            seen: now,
            attends: 0,
            lost: None,
            heartbeat,
            totals: StepTotals::default(),
            told: now,
            left,
            expired: false,
        };
        self.members.insert(task, member);
        Ok(self.joined(task, session, shard))
    }

    /// Returns the index of an admitted task's static data shard. A task that is not expected gets the number behind
    /// the last.
    fn admit(&self, task: Task) -> Result<usize, Refusal> {
        let expected = &self.config.expected;
        if let Some(shard) = expected.iter().position(|expected| *expected == task) {
            return Ok(shard);
        }
        let names: Vec<String> = expected.iter().map(Task::to_string).collect();
        let names = names.join(", ");
        let message = match &self.config.admission {
            Admission::Open if task.role == Role::Worker && task.index < WORKERS_MAX => {
                return Ok(expected.len());
            }
            Admission::Open if task.role == Role::Worker => {
                format!(
                    "the index of a worker must be below {WORKERS_MAX}, given {}",
                    task.index
                )
            }
            Admission::Open => {
                format!(
                    "{task} does not train in this job: the tasks that train are {names}, \
                    and any worker"
                )
            }
            Admission::Expected(reason) => format!(
                "{task} is not in the chief's cluster, whose tasks that train are {names}; no \
                task can join while the job runs, because {reason}; name {task} in the chief's \
                cluster file and start the job again"
            ),
        };
        Err(Refusal::new(Reason::OtherCluster, message))
    }

    fn joined(&self, task: Task, session: u64, shard: usize) -> RegisterReply {
        RegisterReply {
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

    fn member(&mut self, heartbeat: &HeartbeatRequest) -> Result<&mut Member, Refusal> {
        let epoch = self.epoch;
        if heartbeat.epoch != epoch {
            return Err(Refusal::new(
                Reason::StaleEpoch,
                format!("cluster_epoch must be {epoch}, given {}", heartbeat.epoch),
            ));
        }
        match self.members.get_mut(&heartbeat.task) {
            Some(member) if member.session == heartbeat.session && !member.expired => Ok(member),
            _ => Err(Refusal::new(
                Reason::Fenced,
                format!(
                    "session {} of {} is over",
                    heartbeat.session, heartbeat.task
                ),
            )),
        }
    }

    /// Handles a heartbeat, which renews the lease.
    ///
    /// # Errors
    /// The session is over.
    pub fn heartbeat(
        &mut self,
        now: Duration,
        heartbeat: &HeartbeatRequest,
    ) -> Result<HeartbeatReply, Refusal> {
        let member = self.member(heartbeat)?;
        // A task that has left sends heartbeats until the job is over, but does not count as present.
        if member.left.is_none() {
            member.see(now);
            member.hear(now, heartbeat);
        }
        Ok(HeartbeatReply {
            state: self.state,
            waiting_for: self.waiting_for.clone(),
            global_step: self.global_step,
            lanes: self.lanes.of(heartbeat.task),
            regroup: self.groups.awaited(),
        })
    }

    /// Records that a task has opened a keep-alive stream.
    ///
    /// # Errors
    /// The session is over.
    pub fn keep_alive(
        &mut self,
        now: Duration,
        heartbeat: &HeartbeatRequest,
    ) -> Result<(), Refusal> {
        let member = self.member(heartbeat)?;
        member.see(now);
        member.attends += 1;
        Ok(())
    }

    /// Records that a keep-alive stream has broken. A task that is still present soon makes another request.
    pub fn lost(&mut self, now: Duration, heartbeat: &HeartbeatRequest) {
        if let Ok(member) = self.member(heartbeat) {
            member.attends = member.attends.saturating_sub(1);
            member.lost = (member.attends == 0).then_some(now);
        }
    }

    /// Handles the leaving of a task. Returns its session, which is over.
    ///
    /// # Errors
    /// The session was over already.
    pub fn leave(
        &mut self,
        now: Duration,
        heartbeat: &HeartbeatRequest,
        reason: LeaveReason,
    ) -> Result<u64, Refusal> {
        let member = self.member(heartbeat)?;
        member.seen = now;
        member.hear(now, heartbeat);
        member.left = Some(reason);
        Ok(member.session)
    }

    /// Checks that a session may request data, and renews its lease.
    ///
    /// # Errors
    /// The session is over.
    pub fn check(&mut self, now: Duration, heartbeat: &HeartbeatRequest) -> Result<(), Refusal> {
        self.member(heartbeat)?.see(now);
        Ok(())
    }

    /// Sets the state from which members without parameters start. `tables` are the positions of the tables, if they and
    /// the members continue with the values that they have.
    pub fn set_start(&mut self, start: GroupStart, tables: Option<TablePositions>) {
        self.start = start;
        self.groups.set_tables(tables);
    }

    /// Returns why the job must go back to a checkpoint: no task holds the dense variables that belong to the tables.
    pub fn misfit(&self) -> Option<String> {
        self.groups.misfit().map(str::to_owned)
    }

    /// Handles a request to join the allreduce group.
    ///
    /// # Errors
    /// The session is over.
    pub fn join_group(
        &mut self,
        now: Duration,
        form: &JoinGroupRequest,
    ) -> Result<JoinGroupReply, Refusal> {
        self.check(now, &form.heartbeat)?;
        let HeartbeatRequest { task, session, .. } = form.heartbeat;
        let here = self
            .members
            .iter()
            .filter(|(_, member)| member.left.is_none() && !member.expired);
        let here: Vec<(Task, u64)> = here.map(|(task, member)| (*task, member.session)).collect();
        let asked = self.groups.ask(
            now,
            JoinRequest {
                task,
                session,
                from: form.generation,
                batches_applied: form
                    .values
                    .filter(|values| values.belong_to(&self.start))
                    .map(|values| values.batches_applied),
            },
            &here,
            &self.config.expected,
        );
        Ok(match asked {
            Ok(grouped) => {
                let address = |task: &Task| {
                    self.members
                        .get(task)
                        .map(|member| member.join.address.clone())
                };
                let members = grouped
                    .members
                    .iter()
                    .map(|task| (*task, address(task).unwrap_or_default()));
                JoinGroupReply::Assigned(GroupAssignment {
                    generation: grouped.generation,
                    rank: grouped
                        .members
                        .iter()
                        .position(|member| *member == task)
                        .unwrap_or(0),
                    members: members.collect(),
                    // The number of lanes is far below 2^32.
                    lanes: self.config.lanes as u32,
                    start: self.start.clone(),
                })
            }
            Err(missing) => JoinGroupReply::Waits {
                waiting_for: missing.iter().map(Task::to_string).collect(),
            },
        })
    }

    /// Assigns every lane to a present task. `slowest` is the lane that the latest step waited for. Expected tasks that
    /// have not registered yet count as present for a while.
    pub fn assign_lanes(&mut self, now: Duration, slowest: Option<u32>) {
        let opened = *self.opened.get_or_insert(now);
        if let Some(slowest) = slowest {
            self.lanes.vote(slowest);
        }
        let late = now.saturating_sub(opened) < self.config.lease;
        let of = |which: &dyn Fn(&Member) -> bool| -> Vec<Task> {
            self.members
                .iter()
                .filter(|(_, member)| which(member))
                .map(|(task, _)| *task)
                .collect()
        };
        let mut here = of(&Member::trains);
        here.extend(
            self.config
                .expected
                .iter()
                .filter(|task| late && !self.members.contains_key(task))
                .copied(),
        );
        // A task that is done has computed all of its lanes. If the job does not end within a lease, the task was
        // assigned a lane that it never learned of.
        let through =
            of(&|member| member.is_done() && now.saturating_sub(member.seen) < self.config.lease);
        self.lanes.assign(&here, &through);
    }
}

#[cfg(test)]
mod tests;
