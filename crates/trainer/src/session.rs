//! One session: registered at the chief, and opened at every parameter server.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};
use trainyard_cluster_client::{
    Error, OpenParameters, Outages, Parameters, SequenceNumbers, ServerClient, backoff,
};
use trainyard_cluster_spec::Task;
use trainyard_diagnostic::{Action, Waiting};
use trainyard_model_dir::JobPhase;
use trainyard_parameter_store::{Identity, Opened};
use trainyard_protocol::{Reason, Refusal};
use trainyard_run_config::{Agreement, Sharding, Update};
use trainyard_variable::{Layout, StepNumber};

use crate::Config;
use crate::heartbeat::{Directive, HeartbeatSender};
use crate::standstill::Standstill;
use crate::training_task::TrainingTask;
use crate::{
    Coordinator, HeartbeatRequest, JobState, LeaveReason, LoopStatus, RegisterReply,
    RegisterRequest, StepTotals,
};

/// Interval of registration requests until the job trains.
const READY_POLL_INTERVAL: Duration = Duration::from_millis(20);
/// Interval at which a task that begins no further step looks for the end of the job.
const END_POLL_INTERVAL: Duration = Duration::from_millis(20);
/// Time after which another process of the same task counts as alive.
const TASK_TAKEN_TIMEOUT: Duration = Duration::from_secs(4);
/// Interval at which a task that waits for the end of the job checks whether the chief answers.
const STAY_POLL_INTERVAL: Duration = Duration::from_millis(500);
/// Longest time for telling the chief that this task leaves.
const LEAVE_TIMEOUT: Duration = Duration::from_secs(1);

/// Outcome of a registration.
#[derive(Debug)]
pub(crate) enum Entry<T> {
    /// The task takes part.
    Member(T),
    /// The job has ended, in this state.
    Over(JobState),
    /// The task was told to stop.
    Stopped,
}

/// The stores that hold the variables of a job.
#[derive(Clone, Copy)]
pub(crate) struct Stores<'a> {
    pub(crate) shards: &'a [Arc<dyn ServerClient>],
    /// Slices of the variables on the stores.
    pub(crate) layout: &'a Arc<Layout>,
    /// Fingerprint of the variables and the layout.
    pub(crate) fingerprint: u64,
}

/// A session that may pull and push.
#[derive(Debug)]
pub(crate) struct Session {
    pub(crate) parameters: Parameters,
    pub(crate) heartbeat: HeartbeatSender,
    /// Version of the servers, and the first batch of the data shard that has not been applied.
    pub(crate) opened: Opened,
    pub(crate) joined: RegisterReply,
    /// The heartbeat that identifies the session to the chief.
    pub(crate) request: HeartbeatRequest,
    /// The identity of the session for the stores.
    pub(crate) identity: Identity,
    pub(crate) standstill: Arc<Standstill>,
}

impl Session {
    /// Returns the synchronous step at which the session was opened, of servers that count them.
    pub(crate) fn opened_step(&self) -> StepNumber {
        StepNumber::new(self.opened.version)
    }

    /// Registers, waits until the job trains, and opens the session at every server. `spent_session` is the latest
    /// session of this process, which the new one follows; 0 = none.
    pub(crate) async fn join(
        task: TrainingTask<'_>,
        stores: Stores<'_>,
        spent_session: &mut u64,
    ) -> Result<Entry<Self>, Error> {
        let TrainingTask {
            config,
            coordinator,
            stop,
            ..
        } = task;
        let Stores {
            shards,
            layout,
            fingerprint,
        } = stores;
        let joined = match register(config, coordinator, fingerprint, *spent_session, stop).await? {
            Entry::Member(joined) => joined,
            Entry::Over(state) => return Ok(Entry::Over(state)),
            Entry::Stopped => return Ok(Entry::Stopped),
        };
        *spent_session = joined.session;
        let request = HeartbeatRequest {
            task: config.task,
            incarnation: config.incarnation,
            epoch: joined.epoch,
            session: joined.session,
            steps: 0,
            examples: 0,
            loss: 0.0,
            totals: StepTotals::default(),
        };
        let identity = Identity {
            cluster_id: joined.cluster_id,
            epoch: joined.epoch,
            task: config.task,
            incarnation: config.incarnation,
            session: joined.session,
        };
        let opening = Parameters::open(
            shards.to_vec(),
            Arc::clone(layout),
            identity,
            OpenParameters {
                latest: SequenceNumbers::default(),
                layout_fingerprint: fingerprint,
                data_shard: data_shard(config, &joined),
            },
            config.connect_deadline,
        );
        let (parameters, opened) = tokio::select! {
            opened = opening => opened?,
            () = stop.cancelled() => return Ok(Entry::Stopped),
        };
        let standstill = Arc::new(Standstill::new(config));
        let shown = Arc::clone(&standstill);
        let parameters = parameters
            .with_encoding(config.job.strategy.payload)
            .with_outages(Outages::new(Arc::new(move |servers| {
                shown.servers(servers)
            })));
        let parameters = match config.job.strategy.update.mode {
            Update::StaleSynchronous { .. } => parameters.bounded(),
            Update::Async | Update::Sync => parameters,
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
        let heartbeat =
            HeartbeatSender::start(coordinator, request.clone(), interval, lanes, ended);
        let next_batch = opened.batches_applied;
        info!(task = %config.task, session = joined.session, cluster_epoch = joined.epoch, next_batch, "{} has joined the job", config.task);
        Ok(Entry::Member(Self {
            parameters,
            heartbeat,
            opened,
            joined,
            request,
            identity,
            standstill,
        }))
    }

    /// Returns why the session must end, if the chief has said so.
    pub(crate) fn told(&self) -> Result<Option<LeaveReason>, Error> {
        match self.heartbeat.directive() {
            Directive::Train => Ok(None),
            Directive::End(_) | Directive::Gone(_) => Ok(Some(LeaveReason::Finished)),
            Directive::Rejoin => Err(over("the chief has ended this session")),
        }
    }

    /// Waits until the chief has ended the job, as callbacks have asked.
    ///
    /// # Errors
    /// The chief has ended this session.
    pub(crate) async fn end_of_job(&self, stop: &CancellationToken) -> Result<LeaveReason, Error> {
        while !stop.is_cancelled() {
            if let Some(end) = self.told()? {
                return Ok(end);
            }
            tokio::select! {
                () = tokio::time::sleep(END_POLL_INTERVAL) => {}
                () = stop.cancelled() => {}
            }
        }
        Ok(LeaveReason::Shutdown)
    }

    /// Returns how the job has ended, if this task knows that it has.
    pub(crate) fn job_end(&self) -> Option<JobState> {
        match self.heartbeat.directive() {
            Directive::End(state) | Directive::Gone(state) => Some(state),
            Directive::Train | Directive::Rejoin => None,
        }
    }

    /// Tells the chief that this task leaves. Returns whether the chief has answered.
    pub(crate) async fn leave(
        &self,
        coordinator: &Arc<dyn Coordinator>,
        reason: LeaveReason,
    ) -> bool {
        let heartbeat = self.heartbeat.counts.told_by(&self.request);
        let left = tokio::time::timeout(LEAVE_TIMEOUT, coordinator.leave(heartbeat, reason)).await;
        let listened = matches!(left, Ok(Ok(())));
        if !listened {
            warn!("the chief did not answer: it does not know that this task leaves");
        }
        listened
    }

    /// Waits idly until the job ends or the token is cancelled. If a server or the chief is lost before that, the data
    /// of this task may have to be read again, or the next chief must be told that it has been read.
    ///
    /// # Errors
    /// The session has ended while the job continues; the chief has not answered within the deadline.
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
                () = tokio::time::sleep(STAY_POLL_INTERVAL) => {}
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
                "this task has read all of its input, and the chief does not report whether the \
                job has ended",
            ) {
                Action::Wait => {}
                Action::Notice(notice) => warn!("{notice}"),
                Action::GiveUp(diagnostic) => return Err(Error::Deadline(diagnostic)),
            }
        }
        Ok(())
    }
}

/// Returns the error of a session that has ended for this reason while the job continues.
pub(crate) fn over(message: &str) -> Error {
    Error::Refused {
        peer: "chief:0".to_owned(),
        refusal: Refusal::new(Reason::Fenced, message),
    }
}

/// Returns the number under which the servers record how far the task's data has been applied. Data that the chief
/// hands out has one number for all tasks.
fn data_shard(config: &Config, joined: &RegisterReply) -> u64 {
    match config.job.input.train.sharding {
        Sharding::Dynamic => 0,
        Sharding::None | Sharding::File | Sharding::Row => joined.data_shard_index as u64,
    }
}

/// Returns how the job has ended since this task was started, if the model directory, as this task sees it, says so. A
/// short job may end before each of its tasks has found the chief.
fn ended_without(task: Task, folder: &Path, started: Instant) -> Option<JobState> {
    let Ok(Some((state, written))) = trainyard_model_dir::JobState::read_with_time(folder) else {
        return None;
    };
    let end = match state.phase {
        JobPhase::Done => JobState::Done,
        JobPhase::Failed => JobState::Failed,
        _ => return None,
    };
    // A task that is restarted at once must not mistake the end of the previous run for the end of this one.
    let since = SystemTime::now()
        .checked_sub(started.elapsed())
        .is_none_or(|started| written >= started);
    if !since {
        return None;
    }
    info!(%task, step = state.global_step, reason = state.reason, "the job has already ended");
    Some(end)
}

/// Registers and waits until the job trains.
async fn register(
    config: &Config,
    coordinator: &Arc<dyn Coordinator>,
    layout_fingerprint: u64,
    spent_session: u64,
    stop: &CancellationToken,
) -> Result<Entry<RegisterReply>, Error> {
    let join = RegisterRequest {
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
    let mut backoff = backoff(config.incarnation);
    let mut taken_since: Option<Instant> = None;
    (config.set_status)(LoopStatus::waiting(vec![coordinator.name()]));
    loop {
        let registered = tokio::select! {
            registered = coordinator.register(join.clone()) => registered,
            () = stop.cancelled() => return Ok(Entry::Stopped),
        };
        let (last, pause) = match registered {
            Ok(joined) if crate::over(joined.state) => return Ok(Entry::Over(joined.state)),
            Ok(joined) if joined.state == JobState::Training => {
                return Ok(Entry::Member(joined));
            }
            Ok(joined) => {
                (config.set_status)(LoopStatus::waiting(joined.waiting_for.clone()));
                let last = if joined.waiting_for.is_empty() {
                    "the parameter servers create or restore their variables".to_owned()
                } else {
                    joined.waiting_for.join(", ")
                };
                (last, READY_POLL_INTERVAL)
            }
            Err(error) if error.may_pass() => match error {
                Error::Unreachable { message, .. } => {
                    // If the job has ended since this task was started, its chief is gone for good.
                    if let Some(state) =
                        ended_without(config.task, &config.job.model_dir, config.started)
                    {
                        return Ok(Entry::Over(state));
                    }
                    (message, backoff.next_pause())
                }
                other => (other.to_string(), backoff.next_pause()),
            },
            // A process that has just died still counts as alive for a moment, so its successor retries.
            Err(error) if error.reason() == Some(Reason::TaskTaken) => {
                if taken_since.get_or_insert_with(Instant::now).elapsed() > TASK_TAKEN_TIMEOUT {
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
