//! The training loop: pull, compute, push, repeat.
//!
//! The chief and the workers run the same loop, each with its own coordinator. A loop survives the loss of any other
//! process: when its session is refused, it registers again and continues at the first batch that was not applied.

mod batch_source;
mod compute;
mod coordinator;
mod exchange;
mod failure;
mod heartbeat;
mod label_watch;
mod layout;
mod mirrored;
mod outcome;
mod parameter_agreement;
mod pipeline;
mod rendezvous;
mod replica;
mod session;
mod shard_client;
mod sparse;
mod standstill;
mod step_metrics;
mod telemetry;
mod threads;
mod training_task;

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use tokio::sync::watch;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};
use trainyard_cluster_client::{Error, ServerClient};
use trainyard_cluster_spec::{Servers, Task};
use trainyard_diagnostic::Diagnostic;
use trainyard_model::AnyModel;
use trainyard_parameter_server::LocalServer;
use trainyard_protocol::Reason;
use trainyard_run_config::{Job, Sharding, Update};

use batch_source::BatchSource;
pub use compute::beside;
pub use coordinator::{
    Coordinator, GrantedShard, GroupAssignment, GroupStart, HeartbeatReply, HeartbeatRequest,
    JobState, JoinGroupReply, JoinGroupRequest, LeaveReason, LeaveRequest, MemberValues,
    NextShardReply, NextShardRequest, RegisterReply, RegisterRequest, RemoteCoordinator,
    StepTotals,
};
use exchange::{Asynchronous, Member, Synchronous};
pub use layout::{check_cluster, plan, scale_learning_rates};
use outcome::job_failed;
pub use outcome::{Outcome, Progress, into_diagnostic};
pub use pipeline::{Call, InFlightCall, Pipeline};
pub use rendezvous::{LocalRendezvous, Rendezvous};
use replica::Replica;
use session::{Entry, Session, Stores};
pub use shard_client::RESERVE_SHARDS_MAX;
pub use threads::Threads;
use training_task::TrainingTask;

/// Wait before a refused task registers again.
const REJOIN_INTERVAL: Duration = Duration::from_millis(100);

/// Interval between log lines while registrations are refused for the same reason.
const REFUSAL_LOG_INTERVAL: Duration = Duration::from_secs(10);

/// Longest time for the step in progress after the loop was told to stop.
const STOP_TIMEOUT: Duration = Duration::from_secs(4);

/// The status of a loop.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LoopStatus {
    /// Name of the state: `waiting`, `training`, ...
    pub state: &'static str,
    /// The loop trains, or has trained all that it can.
    pub is_ready: bool,
    /// Tasks that the loop waits for.
    pub waiting_for: Vec<String>,
}

impl LoopStatus {
    /// Returns the status of a loop that waits for nothing.
    pub fn ready(state: &'static str) -> Self {
        Self {
            state,
            is_ready: true,
            waiting_for: Vec::new(),
        }
    }

    /// Returns the status of a loop that cannot train yet.
    pub fn waiting(waiting_for: Vec<String>) -> Self {
        Self {
            state: "waiting",
            is_ready: false,
            waiting_for,
        }
    }
}

/// Receives the status of a loop.
pub type StatusCallback = Arc<dyn Fn(LoopStatus) + Send + Sync>;
/// Receives the progress after every step.
pub type OnStep = Arc<dyn Fn(&Progress) + Send + Sync>;

/// Configuration of a training loop.
#[derive(Clone)]
pub struct Config {
    /// The job.
    pub job: Arc<Job>,
    /// This task.
    pub task: Task,
    /// Random number of the process start.
    pub incarnation: u64,
    /// Start time of the process.
    pub started: Instant,
    /// Start time of the process, in seconds since 1970.
    pub started_unix_secs: u64,
    /// The chief and the parameter servers of the cluster.
    pub servers: Servers,
    /// Number of parameter servers.
    pub num_ps: usize,
    /// Address of this task, for messages.
    pub address: String,
    /// Longest wait for other tasks.
    pub connect_deadline: Duration,
    /// Receives the status of the loop.
    pub set_status: StatusCallback,
    /// Receives the progress after every step.
    pub progress: OnStep,
    /// The task's own copy of the parameters and its rendezvous, if it holds parameters itself.
    pub mirror: Option<Mirror>,
    /// The wait for checkpoints, if this task is the only one that trains and runs beside the chief.
    pub hold: Option<Hold>,
    /// The chief of this process ends the job when the callbacks ask for it. The loop then begins no further step.
    pub callbacks_end_job: bool,
}

/// Progress of the chief, in global steps.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Looked {
    /// Latest global step that the chief has seen.
    pub seen: u64,
    /// Latest global step whose checkpoint the chief has written, has not needed, or could not write.
    pub saved: u64,
}

/// A wait for the checkpoint of each step whose number is a multiple of `every`, so that the checkpoint holds exactly
/// that step.
#[derive(Debug, Clone)]
pub struct Hold {
    /// Steps between two checkpoints.
    pub every: u64,
    /// Progress of the chief.
    pub looked: watch::Receiver<Looked>,
}

/// Longest wait until a step in progress has been applied and seen by the chief. A refused step never is.
const APPLIED_TIMEOUT: Duration = Duration::from_millis(500);

impl Hold {
    /// Waits until the chief has written the checkpoint of a step, if the step gets one. The step may still be in
    /// progress.
    pub(crate) async fn wait(&mut self, step: u64) {
        if !step.is_multiple_of(self.every) {
            return;
        }
        let seen = tokio::time::timeout(
            APPLIED_TIMEOUT,
            self.looked.wait_for(|looked| looked.seen >= step),
        );
        if seen.await.is_ok_and(|seen| seen.is_ok()) {
            // If the chief is gone, this task ends soon, too.
            let _ = self.looked.wait_for(|looked| looked.saved >= step).await;
        }
    }
}

/// The state of a task that holds parameters itself.
#[derive(Debug, Clone)]
pub struct Mirror {
    /// Its copy of the parameters.
    pub shard: LocalServer,
    /// Its rendezvous with the other members.
    pub rendezvous: Rendezvous,
}

/// Trains until the job ends, the input ends, or the token is cancelled.
///
/// # Errors
/// The input, the model or a wait has failed permanently.
pub fn run(
    config: Config,
    model: Arc<AnyModel>,
    coordinator: Arc<dyn Coordinator>,
    shards: Vec<Arc<dyn ServerClient>>,
    stop: CancellationToken,
) -> BoxFuture<'static, Result<Outcome, Diagnostic>> {
    // The future is boxed, so that it is compiled once here, and not again in each program that trains.
    Box::pin(train_until_told(config, model, coordinator, shards, stop))
}

async fn train_until_told(
    config: Config,
    model: Arc<AnyModel>,
    coordinator: Arc<dyn Coordinator>,
    shards: Vec<Arc<dyn ServerClient>>,
    stop: CancellationToken,
) -> Result<Outcome, Diagnostic> {
    let plan = plan(&config.job, &*model, config.num_ps);
    let layout = Arc::new(plan.layout.clone());
    let fingerprint = plan.fingerprint;
    let mut replica = config
        .mirror
        .as_ref()
        .map(|mirror| Replica::new(mirror.shard.clone(), plan));
    // A task with its own copy requests parameters only after its rendezvous.
    let (shards, tables) = if replica.is_some() {
        (Vec::new(), shards)
    } else {
        (shards, Vec::new())
    };
    let tables: Vec<Arc<dyn ServerClient>> = tables
        .into_iter()
        .filter(|shard| shard.is_remote())
        .collect();
    let threads = Threads::start(config.job.run.intra_op_parallelism_threads)?;
    info!(threads = threads.count(), "computing");
    let mut outcome = Outcome::default();
    let mut spent_session = 0;
    let mut refused = Refused::default();
    let task = TrainingTask {
        config: &config,
        model: &model,
        threads: &threads,
        coordinator: &coordinator,
        stop: &stop,
    };
    let stores = Stores {
        shards: &shards,
        layout: &layout,
        fingerprint,
    };
    loop {
        let joining = Session::join(task, stores, &mut spent_session);
        let mut session = match joining.await {
            Ok(Entry::Member(session)) => session,
            Ok(Entry::Stopped) => return Ok(outcome),
            Ok(Entry::Over(state)) => {
                return end_with_the_job(&config, Some(state), outcome, &stop);
            }
            Err(error) if ended(&error) => return Ok(outcome),
            Err(error) => {
                if again(&error) {
                    refused.log(&error);
                    tokio::time::sleep(REJOIN_INTERVAL).await;
                    continue;
                } else {
                    return Err(into_diagnostic(&error));
                }
            }
        };
        let gone = session.heartbeat.gone();
        let training = async {
            match (&mut replica, &config.mirror) {
                (Some(replica), Some(mirror)) => {
                    let member = Member {
                        task,
                        layout: &layout,
                        fingerprint,
                        tables: &tables,
                    };
                    let rendezvous = &mirror.rendezvous;
                    mirrored::train(&member, rendezvous, replica, &mut session, &mut outcome).await
                }
                _ => train(task, &mut session, &mut outcome).await,
            }
        };
        let trained = tokio::select! {
            trained = training => trained,
            () = gone => Ok(LeaveReason::Finished),
            () = async { stop.cancelled().await; tokio::time::sleep(STOP_TIMEOUT).await } => {
                warn!("this task received a request to stop, and no answer to its step in \
                    progress: it leaves the batch of this step to the other tasks");
                Ok(LeaveReason::Shutdown)
            }
        };
        match trained {
            Ok(LeaveReason::InputExhausted) => {
                (config.set_status)(LoopStatus::ready("done"));
                info!(
                    steps = outcome.steps,
                    examples = outcome.examples,
                    "this task has read all of its input"
                );
                let stayed = if session
                    .leave(&coordinator, LeaveReason::InputExhausted)
                    .await
                {
                    session.stay(&config, &coordinator.name(), &stop).await
                } else {
                    Err(session::over(
                        "the chief has not received the report that this task has read all of \
                        its input",
                    ))
                };
                match stayed {
                    Ok(()) => return end_with_the_job(&config, session.job_end(), outcome, &stop),
                    Err(error) if again(&error) => {
                        info!(%error, "the session has ended: this task registers again")
                    }
                    Err(error) => return Err(into_diagnostic(&error)),
                }
            }
            Ok(reason) => {
                (config.set_status)(LoopStatus {
                    state: "leaving",
                    is_ready: false,
                    waiting_for: Vec::new(),
                });
                session.leave(&coordinator, reason.clone()).await;
                info!(
                    %reason,
                    steps = outcome.steps,
                    examples = outcome.examples,
                    "training has ended in this task"
                );
                return end_with_the_job(&config, session.job_end(), outcome, &stop);
            }
            Err(failure::Failure::Cluster(error)) if ended(&error) => {
                session.leave(&coordinator, LeaveReason::Finished).await;
                return Ok(outcome);
            }
            Err(failure::Failure::Cluster(error)) if again(&error) => {
                warn!(%error, "the session has ended: this task registers again");
            }
            Err(failure) => {
                let problem = failure.into_diagnostic();
                session
                    .leave(&coordinator, LeaveReason::Failed(problem.message.clone()))
                    .await;
                return Err(problem);
            }
        }
    }
}

/// Returns the outcome of a task whose job has ended. Returns an error if the job has failed, because the job must be
/// started again, and this task with it. A task that was told to stop returns its outcome, however the job has ended.
fn end_with_the_job(
    config: &Config,
    end: Option<JobState>,
    outcome: Outcome,
    stop: &CancellationToken,
) -> Result<Outcome, Diagnostic> {
    if end == Some(JobState::Failed) && !stop.is_cancelled() {
        return Err(job_failed(config.task, &config.job.model_dir));
    }
    Ok(outcome)
}

/// Trains in a session at the parameter servers, with the update mode of the job.
async fn train(
    task: TrainingTask<'_>,
    session: &mut Session,
    outcome: &mut Outcome,
) -> Result<LeaveReason, failure::Failure> {
    let TrainingTask {
        config,
        model,
        coordinator,
        ..
    } = task;
    let counters = Arc::clone(&session.heartbeat.counts);
    if config.job.strategy.update.mode == Update::Sync {
        let mut synchronous = Synchronous::new(task, session);
        return exchange::train(task, &counters, outcome, &mut synchronous).await;
    }
    let source = match config.job.input.train.sharding {
        Sharding::Dynamic => BatchSource::granted(config, model, session, coordinator, None)?,
        Sharding::None | Sharding::File | Sharding::Row => {
            BatchSource::fixed(config, model, session)?
        }
    };
    let mut asynchronous = Asynchronous::new(task, session, source);
    exchange::train(task, &counters, outcome, &mut asynchronous).await
}

/// Returns whether a new session may succeed after this one was refused.
fn again(error: &Error) -> bool {
    matches!(
        error.reason(),
        Some(Reason::StaleEpoch | Reason::Fenced | Reason::NotReady | Reason::NoTicket)
    )
}

/// Returns whether a parameter server says that the job has ended.
fn ended(error: &Error) -> bool {
    error.reason() == Some(Reason::JobEnded)
}

/// Returns whether the job has ended.
fn over(state: JobState) -> bool {
    matches!(state, JobState::Done | JobState::Failed)
}

/// Log of refused registrations: each new reason at once, a repeated one now and then.
#[derive(Debug, Default)]
struct Refused {
    latest: Option<(String, Instant)>,
}

impl Refused {
    fn log(&mut self, error: &Error) {
        let text = error.to_string();
        let repeated = self
            .latest
            .as_ref()
            .is_some_and(|(reason, at)| *reason == text && at.elapsed() < REFUSAL_LOG_INTERVAL);
        if !repeated {
            warn!(%error, "the chief refused the registration: this task retries until the chief accepts it");
            self.latest = Some((text, Instant::now()));
        }
    }
}
