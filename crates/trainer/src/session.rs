//! One session: joined at the chief, opened at every parameter server.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};
use trainyard_checkpoint::JobPhase;
use trainyard_cluster_client::{Backoff, Error, Outages, Parameters, Shard};
use trainyard_cluster_spec::Task;
use trainyard_diagnostic::{Action, Waiting};
use trainyard_parameter_store::{Identity, Opened};
use trainyard_protocol::payload::Encoding;
use trainyard_protocol::{Reason, Refusal};
use trainyard_run_config::{Agreement, PayloadType, Sharding, UpdateConfig};
use trainyard_variable::Layout;

use crate::Config;
use crate::heartbeat::{Directive, Heartbeat};
use crate::telemetry::Telemetry;
use crate::{Coordinator, JobState, Join, Joined, LeaveReason, Pulse, Work};

/// Time between questions whether training has begun.
const READY_POLL: Duration = Duration::from_millis(20);
/// Time after which a living process of the same task is believed in.
const TAKEN_PATIENCE: Duration = Duration::from_secs(4);
/// Time between looks whether the chief answers, of a task that waits for the end of the job.
const STAY_LOOK: Duration = Duration::from_millis(500);
/// Longest time to take leave in.
const LEAVE_TIMEOUT: Duration = Duration::from_secs(1);

/// Returns how values of this type travel.
pub fn encoding(payload: PayloadType) -> Encoding {
    match payload {
        PayloadType::Float32 => Encoding::Float32,
        PayloadType::Bfloat16 => Encoding::Bfloat16,
        PayloadType::Float16 => Encoding::Float16,
    }
}

/// How an attempt to take part has ended.
#[derive(Debug)]
pub(crate) enum Entry<T> {
    /// The task takes part.
    Joined(T),
    /// The job is over, in this state.
    Over(JobState),
    /// The task was told to stop.
    Stopped,
}

/// A session that may pull and push.
#[derive(Debug)]
pub(crate) struct Session {
    pub(crate) parameters: Parameters,
    pub(crate) heartbeat: Heartbeat,
    /// Version of the servers, and first batch of the data shard that is not applied.
    pub(crate) opened: Opened,
    pub(crate) joined: Joined,
    /// The session's name for the chief.
    pub(crate) pulse: Pulse,
    /// The same for stores.
    pub(crate) identity: Identity,
}

impl Session {
    /// Joins, waits until the job trains, and opens the session everywhere. `spent_session` is the latest session of this process, which is followed by another; 0 = none.
    pub(crate) async fn join(
        config: &Config,
        coordinator: &Arc<dyn Coordinator>,
        shards: &[Shard],
        layout: &Arc<Layout>,
        fingerprint: u64,
        spent_session: &mut u64,
        stop: &CancellationToken,
    ) -> Result<Entry<Self>, Error> {
        let joined = match register(config, coordinator, fingerprint, *spent_session, stop).await? {
            Entry::Joined(joined) => joined,
            Entry::Over(state) => return Ok(Entry::Over(state)),
            Entry::Stopped => return Ok(Entry::Stopped),
        };
        *spent_session = joined.session;
        let pulse = Pulse {
            task: config.task,
            incarnation: config.incarnation,
            epoch: joined.epoch,
            session: joined.session,
            steps: 0,
            examples: 0,
            loss: 0.0,
            work: Work::default(),
        };
        let identity = Identity {
            cluster_id: joined.cluster_id,
            epoch: joined.epoch,
            task: config.task,
            incarnation: config.incarnation,
            session: joined.session,
            seq: 0,
        };
        let opening = Parameters::open(
            shards.to_vec(),
            Arc::clone(layout),
            identity,
            fingerprint,
            data_shard(config, &joined),
            config.connect_deadline,
        );
        let (parameters, opened) = tokio::select! {
            opened = opening => opened?,
            () = stop.cancelled() => return Ok(Entry::Stopped),
        };
        let parameters = parameters
            .with_encoding(encoding(config.job.strategy.payload))
            .with_outages(outages(config));
        let parameters = match config.job.strategy.update {
            UpdateConfig::Ssp { .. } => parameters.bounded(),
            UpdateConfig::Async | UpdateConfig::Sync { .. } => parameters,
        };
        let interval = joined.heartbeat_interval;
        let ended = {
            let task = config.task;
            let folder = config.job.model_dir.clone();
            let since = config.started;
            move || ended_without(task, &folder, since)
        };
        let coordinator = Arc::clone(coordinator);
        let lanes = joined.lanes.clone();
        let heartbeat = Heartbeat::start(coordinator, pulse.clone(), interval, lanes, ended);
        let next_batch = opened.batches_applied;
        info!(task = %config.task, session = joined.session, epoch = joined.epoch, next_batch, "{} has joined the job", config.task);
        Ok(Entry::Joined(Self {
            parameters,
            heartbeat,
            opened,
            joined,
            pulse,
            identity,
        }))
    }

    /// Returns why the session is to end, if the chief has said so.
    pub(crate) fn told(&self) -> Result<Option<LeaveReason>, Error> {
        match self.heartbeat.directive() {
            Directive::Train => Ok(None),
            Directive::End(_) | Directive::Gone(_) => Ok(Some(LeaveReason::Finished)),
            Directive::Rejoin => Err(over("the chief does not know this session any more")),
        }
    }

    /// Returns how the job has ended, if this task knows that it has.
    pub(crate) fn job_end(&self) -> Option<JobState> {
        match self.heartbeat.directive() {
            Directive::End(state) | Directive::Gone(state) => Some(state),
            Directive::Train | Directive::Rejoin => None,
        }
    }

    /// Takes leave of the chief. Returns whether it listened.
    pub(crate) async fn leave(
        &self,
        coordinator: &Arc<dyn Coordinator>,
        reason: LeaveReason,
    ) -> bool {
        let pulse = self.heartbeat.counts.told_by(&self.pulse);
        let left = tokio::time::timeout(LEAVE_TIMEOUT, coordinator.leave(pulse, reason)).await;
        let listened = matches!(left, Ok(Ok(())));
        if !listened {
            warn!("the chief was not there to take leave of");
        }
        listened
    }

    /// Stays, with nothing to do, until the job is over or the token says stop: where a server or the chief is lost before
    /// that, what this task has read may have to be read once more, or the next chief to be told that it has been.
    ///
    /// # Errors
    /// The session is over and the job is not; the chief has not answered for the deadline.
    pub(crate) async fn stay(
        &self,
        config: &Config,
        chief: &str,
        stop: &CancellationToken,
    ) -> Result<(), Error> {
        let mut waiting = None;
        while self.told()?.is_none() {
            tokio::select! {
                () = self.heartbeat.directed() => continue,
                () = tokio::time::sleep(STAY_LOOK) => {}
                () = stop.cancelled() => return Ok(()),
            }
            let Some(since) = self.heartbeat.silent_since() else {
                waiting = None;
                continue;
            };
            let waiting = waiting.get_or_insert_with(|| {
                Waiting::new(config.task.to_string(), chief, config.connect_deadline)
            });
            match waiting.tick(
                since.elapsed(),
                "all input is read here, and the chief does not say whether the job is over",
            ) {
                Action::Wait => {}
                Action::Notice(notice) => warn!("{notice}"),
                Action::GiveUp(diagnostic) => return Err(Error::Deadline(diagnostic)),
            }
        }
        Ok(())
    }
}

/// Says in the standing of this task, and in its step rate, that its steps wait for parameter servers.
fn outages(config: &Config) -> Outages {
    let standing = Arc::clone(&config.standing);
    let telemetry = Telemetry::new();
    Outages::new(Arc::new(move |servers| {
        if servers.is_empty() {
            standing("training", true, servers);
        } else {
            telemetry.steps_per_second.set(0.0);
            telemetry.examples_per_second.set(0.0);
            standing("waiting", false, servers);
        }
    }))
}

/// A session that is over, for this reason, although the job is not.
pub(crate) fn over(message: &str) -> Error {
    Error::Refused {
        peer: "chief:0".to_owned(),
        refusal: Refusal::new(Reason::Fenced, message),
    }
}

/// The number by which the servers know how far the task's data has been applied. What the chief hands out has one number
/// for all tasks.
fn data_shard(config: &Config, joined: &Joined) -> u64 {
    match config.job.input.train.sharding {
        Sharding::Dynamic => 0,
        Sharding::None | Sharding::File | Sharding::Row => joined.data_shard_index as u64,
    }
}

/// Returns how the job has ended since the task was started, if the model folder, where this task sees it, says that it
/// has: a job that is short may be over before each of its tasks has found the chief.
fn ended_without(task: Task, folder: &Path, started: Instant) -> Option<JobState> {
    let Ok(Some((state, written))) = trainyard_checkpoint::JobState::read_with_time(folder) else {
        return None;
    };
    let end = match state.phase {
        JobPhase::Done => JobState::Done,
        JobPhase::Failed => JobState::Failed,
        _ => return None,
    };
    // A task that is started again at once must not take the end of the run before for this one's.
    let since = SystemTime::now()
        .checked_sub(started.elapsed())
        .is_none_or(|started| written >= started);
    if !since {
        return None;
    }
    info!(%task, step = state.global_step, reason = state.reason, "the job is over already");
    Some(end)
}

/// Registers and waits until the job trains.
async fn register(
    config: &Config,
    coordinator: &Arc<dyn Coordinator>,
    layout_fingerprint: u64,
    spent_session: u64,
    stop: &CancellationToken,
) -> Result<Entry<Joined>, Error> {
    let join = Join {
        task: config.task,
        incarnation: config.incarnation,
        servers: config.servers.clone(),
        layout_fingerprint,
        job: Agreement::of(&config.job),
        address: config.address.clone(),
        process_id: std::process::id(),
        started_unix_secs: config.started_unix_secs,
        spent_session,
    };
    let started = Instant::now();
    let mut waiting = Waiting::new(
        config.task.to_string(),
        coordinator.name(),
        config.connect_deadline,
    );
    let mut backoff = Backoff::new(config.incarnation);
    let mut taken_since: Option<Instant> = None;
    (config.standing)("waiting", false, vec![coordinator.name()]);
    loop {
        let registered = tokio::select! {
            registered = coordinator.register(join.clone()) => registered,
            () = stop.cancelled() => return Ok(Entry::Stopped),
        };
        let (last, pause) = match registered {
            Ok(joined) if crate::over(joined.state) => return Ok(Entry::Over(joined.state)),
            Ok(joined) if joined.state == JobState::Training => {
                return Ok(Entry::Joined(joined));
            }
            Ok(joined) => {
                (config.standing)("waiting", false, joined.waiting_for.clone());
                let last = if joined.waiting_for.is_empty() {
                    "the parameter servers make or restore their variables".to_owned()
                } else {
                    joined.waiting_for.join(", ")
                };
                (last, READY_POLL)
            }
            Err(error) if error.may_pass() => match error {
                Error::Unreachable { message, .. } => {
                    // Its chief is gone for good, if the job has ended since this task was started.
                    if let Some(state) =
                        ended_without(config.task, &config.job.model_dir, config.started)
                    {
                        return Ok(Entry::Over(state));
                    }
                    (message, backoff.next_wait())
                }
                other => (other.to_string(), backoff.next_wait()),
            },
            // A process that has just died looks alive for a moment: its successor is patient.
            Err(error) if error.reason() == Some(Reason::TaskTaken) => {
                if taken_since.get_or_insert_with(Instant::now).elapsed() > TAKEN_PATIENCE {
                    return Err(error);
                }
                (error.to_string(), Duration::from_millis(100))
            }
            Err(error) => return Err(error),
        };
        match waiting.tick(started.elapsed(), &last) {
            Action::Wait => {}
            Action::Notice(notice) => warn!("{notice}"),
            Action::GiveUp(diagnostic) => return Err(Error::Deadline(diagnostic)),
        }
        tokio::select! {
            () = tokio::time::sleep(pause) => {}
            () = stop.cancelled() => return Ok(Entry::Stopped),
        }
    }
}
