//! Who takes part: sessions, leases and the end of the job, as a state machine that is told the time.

mod presence;
mod view;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use trainyard_cluster_spec::{Role, Servers, Task};
use trainyard_protocol::{Reason, Refusal};
use trainyard_run_config::Agreement;
use trainyard_trainer::{
    Beat, Form, Formed, Forming, JobState, Join, Joined, LeaveReason, Pulse, Start, Work,
};

pub(crate) use view::View;

use crate::groups::Groups;
use crate::lanes::Lanes;

/// Highest index of a worker that may join without being expected, plus 1.
pub const WORKERS_MAX: usize = 4096;

/// Who may take part.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Admission {
    /// Those expected, and any worker whose index is below [`WORKERS_MAX`], at any time: the data is handed out, so that
    /// whoever is here can do all that is left.
    Open,
    /// Those expected, for this reason: the job cannot end without them.
    Expected(&'static str),
}

/// How a job stands with those who take part.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Attendance {
    /// Somebody trains.
    Training,
    /// Nobody trains: whoever was needed has left because its input or the steps are used up.
    Finished,
    /// Nobody trains, and these may have something to do: how long each has been missed.
    Missed(Vec<(Task, Duration)>),
    /// Nobody trains, and any worker could do what is left: how long nobody has been here.
    Deserted(Duration),
}

/// What a roster is for.
#[derive(Debug, Clone)]
pub struct RosterConfig {
    /// The cluster.
    pub cluster_id: u128,
    /// The chief and the parameter servers.
    pub servers: Servers,
    /// Of the layout.
    pub layout_fingerprint: u64,
    /// What all tasks must have been told of the job.
    pub job: Agreement,
    /// Tasks that train from the beginning, in the order of their data shards.
    pub expected: Vec<Task>,
    /// Who else may.
    pub admission: Admission,
    /// Silence after which a task counts as gone.
    pub lease: Duration,
    /// Time between heartbeats.
    pub heartbeat_interval: Duration,
    /// Silence after which another process may take a task over: more than one heartbeat, less than the lease.
    pub takeover: Duration,
    /// Silence after which a task counts as gone whose connection has broken off.
    pub return_within: Duration,
    /// Batches of a synchronous step; 0 = the updates are not synchronous.
    pub lanes: usize,
}

#[derive(Debug, Clone)]
struct Member {
    join: Join,
    session: u64,
    seen: Duration,
    /// Calls that are held open to show that it is there.
    attends: u32,
    /// Since when there has been none any more.
    lost: Option<Duration>,
    pulse: (u64, u64, f64),
    /// What its steps were like, and when it said so.
    work: Work,
    told: Duration,
    left: Option<LeaveReason>,
    expired: bool,
}

impl Member {
    fn see(&mut self, now: Duration) {
        (self.seen, self.lost) = (now, None);
    }

    fn hear(&mut self, now: Duration, pulse: &Pulse) {
        self.pulse = (pulse.steps, pulse.examples, pulse.loss);
        (self.work, self.told) = (pulse.work, now);
    }

    fn trains(&self) -> bool {
        self.left.is_none() && !self.expired
    }

    /// Whether its input or the steps are used up.
    fn is_done(&self) -> bool {
        matches!(
            self.left,
            Some(LeaveReason::InputExhausted | LeaveReason::Finished)
        )
    }
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
    deserted_since: Option<Duration>,
    seen_once: BTreeSet<Task>,
    lanes: Lanes,
    groups: Groups,
    start: Start,
    /// When the tasks were let in.
    opened: Option<Duration>,
    /// Tasks that take part no more, and why.
    quarantined: BTreeMap<Task, String>,
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

    /// Returns the steps applied by all, as last seen.
    pub(crate) fn global_step(&self) -> u64 {
        self.global_step
    }

    /// Returns the chief's incarnation.
    pub(crate) fn epoch(&self) -> u64 {
        self.epoch
    }

    /// Returns what the job is doing.
    pub fn state(&self) -> JobState {
        self.state
    }

    /// Checks that another means this cluster.
    ///
    /// # Errors
    /// It means another.
    pub fn check_cluster(&self, given: u128) -> Result<(), Refusal> {
        let own = self.config.cluster_id;
        if given == own {
            return Ok(());
        }
        let message =
            format!("this chief is of cluster {own:032x}, asked for was cluster {given:032x}");
        Err(Refusal::new(Reason::OtherCluster, message))
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
        let latest = self
            .members
            .values()
            .filter(|member| member.pulse.0 > 0)
            .max_by_key(|member| member.seen);
        latest.map(|member| member.pulse.2)
    }

    /// Takes a task in. The same process asking again gets the same session, unless it has spent that one: numbers are
    /// used once in a session, and a process that joins again counts from 1.
    ///
    /// # Errors
    /// The task is not expected, lives in another process, or was given another cluster or job.
    pub fn register(&mut self, now: Duration, join: Join) -> Result<Joined, Refusal> {
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
            let message = format!("{task} was given another cluster than the chief: {difference}");
            return Err(Refusal::new(Reason::OtherCluster, message));
        }
        if let Some(difference) =
            self.config
                .job
                .differences(&join.job, "chief:0", &task.to_string())
        {
            let message = format!("{task} was given another job than the chief: {difference}");
            return Err(Refusal::new(Reason::OtherLayout, message));
        }
        if join.layout_fingerprint != self.config.layout_fingerprint {
            let message =
                format!("{task} was given another job file than the chief: their models differ");
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
            let Join {
                address,
                process_id,
                ..
            } = &member.join;
            let message = format!(
                "{task} is already served by {address} (pid {process_id}); this process was refused"
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
        let pulse = (0, 0, 0.0);
        let left = None;
        let member = Member {
            join,
            session,
            seen: now,
            attends: 0,
            lost: None,
            pulse,
            work: Work::default(),
            told: now,
            left,
            expired: false,
        };
        self.members.insert(task, member);
        Ok(self.joined(task, session, shard))
    }

    /// Returns the data shard of a task that may take part; of one that is not expected the number behind the last.
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
                format!("{task} does not train here: the job trains with {names}, and any worker")
            }
            Admission::Expected(reason) => format!(
                "{task} is not expected: the chief's cluster trains with {names}, and nobody can be added while the job \
                 runs, because {reason}; name {task} in the chief's cluster file and start the job again"
            ),
        };
        Err(Refusal::new(Reason::OtherCluster, message))
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
        // One that has left stays until the job is over, and is not counted on.
        if member.left.is_none() {
            member.see(now);
            member.hear(now, pulse);
        }
        Ok(Beat {
            state: self.state,
            waiting_for: self.waiting_for.clone(),
            global_step: self.global_step,
            lanes: self.lanes.of(pulse.task),
            regroup: self.groups.awaited(),
        })
    }

    /// Takes note that a task holds a call open for as long as it is there.
    ///
    /// # Errors
    /// The session is over.
    pub fn attend(&mut self, now: Duration, pulse: &Pulse) -> Result<(), Refusal> {
        let member = self.member(pulse)?;
        member.see(now);
        member.attends += 1;
        Ok(())
    }

    /// Takes note that such a call has broken off: if the task is there all the same, it says so soon.
    pub fn lost(&mut self, now: Duration, pulse: &Pulse) {
        if let Ok(member) = self.member(pulse) {
            member.attends = member.attends.saturating_sub(1);
            member.lost = (member.attends == 0).then_some(now);
        }
    }

    /// Lets a task go. Returns its session, which is over.
    ///
    /// # Errors
    /// The session was over already.
    pub fn leave(
        &mut self,
        now: Duration,
        pulse: &Pulse,
        reason: LeaveReason,
    ) -> Result<u64, Refusal> {
        let member = self.member(pulse)?;
        member.seen = now;
        member.hear(now, pulse);
        member.left = Some(reason);
        Ok(member.session)
    }

    /// Checks that a session is one that may ask for data, and renews its lease.
    ///
    /// # Errors
    /// The session is over.
    pub fn check(&mut self, now: Duration, pulse: &Pulse) -> Result<(), Refusal> {
        self.member(pulse)?.see(now);
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
        let here = self
            .members
            .iter()
            .filter(|(_, member)| member.left.is_none() && !member.expired);
        let here: Vec<(Task, u64)> = here.map(|(task, member)| (*task, member.session)).collect();
        let asked = self.groups.ask(
            now,
            (task, session),
            form.generation,
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
                Forming::Formed(Formed {
                    generation: grouped.generation,
                    rank: grouped
                        .members
                        .iter()
                        .position(|member| *member == task)
                        .unwrap_or(0),
                    members: members.collect(),
                    // There are far fewer than 2^32.
                    lanes: self.config.lanes as u32,
                    start: self.start.clone(),
                })
            }
            Err(missing) => Forming::Waits {
                waiting_for: missing.iter().map(Task::to_string).collect(),
            },
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
        // Who has computed all of its lanes is through with them, unless the job does not end: then it was given one
        // that it never heard of.
        let through =
            of(&|member| member.is_done() && now.saturating_sub(member.seen) < self.config.lease);
        self.lanes.assign(&here, &through);
    }
}

#[cfg(test)]
mod tests;
