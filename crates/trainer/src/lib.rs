//! The training loop: pull, compute, push, repeat.
//!
//! The chief and the workers run the same loop; only who coordinates them differs. A loop lives through the loss of
//! anything else: when its session is refused it joins again, and goes on at the first batch that was not applied.

mod asking;
mod compute;
mod coordinator;
mod feed;
mod heartbeat;
mod label_watch;
mod layout;
mod meeting;
mod mirrored;
mod outcome;
mod pipeline;
mod replica;
mod session;
mod sparse;
mod step;
mod synchronous;
mod tally;
mod telemetry;
mod threads;

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use tokio::sync::watch;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};
use trainyard_cluster_client::{Error, LocalShard, Shard};
use trainyard_cluster_spec::{Servers, Task};
use trainyard_diagnostic::Diagnostic;
use trainyard_model::AnyModel;
use trainyard_protocol::Reason;
use trainyard_run_config::{Job, Sharding, UpdateConfig};

pub use asking::RESERVE_SHARDS_MAX;
pub use compute::beside;
pub use coordinator::{
    Ask, Beat, Coordinator, Form, Formed, Forming, Grant, GrantedShard, JobState, Join, Joined,
    LeaveReason, Pulse, RemoteCoordinator, Start, Work,
};
use feed::Feed;
pub use layout::{check_cluster, plan, plan_layout, scale_learning_rates};
pub use meeting::{LocalMeeting, Meeting};
use outcome::job_failed;
pub use outcome::{Outcome, Progress, into_diagnostic};
pub use pipeline::{Ahead, Call, Pipeline};
use replica::Replica;
pub use session::encoding;
use session::{Entry, Session};
pub use threads::Threads;

/// Longest time in which the step under way may be answered after the loop is told to stop.
const STOP_PATIENCE: Duration = Duration::from_secs(4);

/// Told how a loop stands: a word, whether it trains, what it waits for.
pub type OnStanding = Arc<dyn Fn(&str, bool, Vec<String>) + Send + Sync>;
/// Told of every step.
pub type OnStep = Arc<dyn Fn(&Progress) + Send + Sync>;

/// What a loop is given.
#[derive(Clone)]
pub struct Config {
    /// The job.
    pub job: Arc<Job>,
    /// This task.
    pub task: Task,
    /// Random per process start.
    pub incarnation: u64,
    /// When the process started.
    pub started: Instant,
    /// The same, in seconds since 1970.
    pub started_unix_secs: u64,
    /// The chief and the parameter servers of the cluster.
    pub servers: Servers,
    /// Number of parameter servers.
    pub num_ps: usize,
    /// Where this task runs, for messages.
    pub address: String,
    /// Longest wait for the others.
    pub connect_deadline: Duration,
    /// Told how the loop stands: a word, whether it trains, what it waits for.
    pub standing: OnStanding,
    /// Told of every step.
    pub progress: OnStep,
    /// Where the task holds parameters itself: them, and where it meets those who do too.
    pub mirror: Option<Mirror>,
    /// Where the task is the only one that trains, beside the chief: it waits for the checkpoints that steps ask for.
    pub hold: Option<Hold>,
}

/// How far the chief has come with a job, as steps count.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Looked {
    /// The global step that it has seen.
    pub seen: u64,
    /// The latest at which it has written a checkpoint, or had none to write, or could not.
    pub saved: u64,
}

/// A wait for the checkpoint of each step whose number is a multiple, so that it holds that very step.
#[derive(Debug, Clone)]
pub struct Hold {
    /// Steps between two checkpoints.
    pub every: u64,
    /// How far the chief has come.
    pub looked: watch::Receiver<Looked>,
}

/// Longest wait for a step that is under way to be applied and seen. One that is refused never is.
const APPLIED_WITHIN: Duration = Duration::from_millis(500);

impl Hold {
    /// Waits until the chief has written the checkpoint of a step, if it is to have one. The step may be under way still.
    pub(crate) async fn wait(&mut self, step: u64) {
        if !step.is_multiple_of(self.every) {
            return;
        }
        let seen = tokio::time::timeout(
            APPLIED_WITHIN,
            self.looked.wait_for(|looked| looked.seen >= step),
        );
        if seen.await.is_ok_and(|seen| seen.is_ok()) {
            // Where the chief is gone, so is this task soon.
            let _ = self.looked.wait_for(|looked| looked.saved >= step).await;
        }
    }
}

/// What a task has that holds parameters itself.
#[derive(Debug, Clone)]
pub struct Mirror {
    /// Its copy.
    pub shard: LocalShard,
    /// Where it meets the others.
    pub meeting: Meeting,
}

/// Trains until the job ends, the input does, or the token says stop.
///
/// # Errors
/// The input, the model or a wait has failed for good.
pub fn run(
    config: Config,
    model: Arc<AnyModel>,
    coordinator: Arc<dyn Coordinator>,
    shards: Vec<Shard>,
    stop: CancellationToken,
) -> BoxFuture<'static, Result<Outcome, Diagnostic>> {
    // Boxed, so that it is compiled here and not once more in each program that trains.
    Box::pin(train_until_told(config, model, coordinator, shards, stop))
}

async fn train_until_told(
    config: Config,
    model: Arc<AnyModel>,
    coordinator: Arc<dyn Coordinator>,
    shards: Vec<Shard>,
    stop: CancellationToken,
) -> Result<Outcome, Diagnostic> {
    let plan = plan(&config.job, &*model, config.num_ps);
    let layout = Arc::new(plan.layout.clone());
    let fingerprint = plan.fingerprint;
    let mut replica = config
        .mirror
        .as_ref()
        .map(|mirror| Replica::new(mirror.shard.clone(), plan));
    // Whoever has a copy of its own asks for parameters once it has met the others.
    let (shards, tables) = if replica.is_some() {
        (Vec::new(), shards)
    } else {
        (shards, Vec::new())
    };
    let tables: Vec<Shard> = tables
        .into_iter()
        .filter(|shard| matches!(shard, Shard::Remote(_)))
        .collect();
    let threads = Threads::start(config.job.run.intra_op_parallelism_threads)?;
    info!(threads = threads.count(), "computing");
    let mut outcome = Outcome::default();
    let mut spent_session = 0;
    loop {
        let joining = Session::join(
            &config,
            &coordinator,
            &shards,
            &layout,
            fingerprint,
            &mut spent_session,
            &stop,
        );
        let mut session = match joining.await {
            Ok(Entry::Joined(session)) => session,
            Ok(Entry::Stopped) => return Ok(outcome),
            Ok(Entry::Over(state)) => {
                return end_with_the_job(&config, Some(state), outcome, &stop);
            }
            Err(error) if ended(&error) => return Ok(outcome),
            Err(error) => {
                if again(&error) {
                    warn!(%error, "joining again");
                    tokio::time::sleep(Duration::from_millis(100)).await;
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
                    let member = mirrored::Member {
                        config: &config,
                        model: &model,
                        threads: &threads,
                        layout: &layout,
                        fingerprint,
                        meeting: &mirror.meeting,
                        tables: &tables,
                        stop: &stop,
                    };
                    mirrored::train(&member, replica, &mut session, &coordinator, &mut outcome)
                        .await
                }
                _ => {
                    train(
                        &config,
                        &model,
                        &threads,
                        &mut session,
                        &coordinator,
                        &mut outcome,
                        &stop,
                    )
                    .await
                }
            }
        };
        let trained = tokio::select! {
            trained = training => trained,
            () = gone => Ok(LeaveReason::Finished),
            () = async { stop.cancelled().await; tokio::time::sleep(STOP_PATIENCE).await } => {
                warn!("told to stop, and the step under way gets no answer: it is left to the others, as if this task had died");
                Ok(LeaveReason::Shutdown)
            }
        };
        match trained {
            Ok(LeaveReason::InputExhausted) => {
                (config.standing)("done", true, Vec::new());
                info!(
                    steps = outcome.steps,
                    examples = outcome.examples,
                    "all input has been read here"
                );
                let stayed = if session
                    .leave(&coordinator, LeaveReason::InputExhausted)
                    .await
                {
                    session.stay(&config, &coordinator.name(), &stop).await
                } else {
                    Err(session::over(
                        "the chief has not heard that all input has been read here",
                    ))
                };
                match stayed {
                    Ok(()) => return end_with_the_job(&config, session.job_end(), outcome, &stop),
                    Err(error) if again(&error) => info!(%error, "joining again"),
                    Err(error) => return Err(into_diagnostic(&error)),
                }
            }
            Ok(reason) => {
                (config.standing)("leaving", false, Vec::new());
                session.leave(&coordinator, reason.clone()).await;
                info!(
                    ?reason,
                    steps = outcome.steps,
                    examples = outcome.examples,
                    "training has ended here"
                );
                return end_with_the_job(&config, session.job_end(), outcome, &stop);
            }
            Err(step::Failure::Cluster(error)) if ended(&error) => {
                session.leave(&coordinator, LeaveReason::Finished).await;
                return Ok(outcome);
            }
            Err(step::Failure::Cluster(error)) if again(&error) => {
                warn!(%error, "the session is over: joining again");
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

/// Returns what a task has done whose job has ended, or why it ends with an error: a job that has failed is to be started
/// again, and this task with it. A task that was told to stop has stopped well, however the job has ended.
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

/// Trains in a session, the way the job has it.
async fn train(
    config: &Config,
    model: &Arc<AnyModel>,
    threads: &Threads,
    session: &mut Session,
    coordinator: &Arc<dyn Coordinator>,
    outcome: &mut Outcome,
    stop: &CancellationToken,
) -> Result<LeaveReason, step::Failure> {
    if let UpdateConfig::Sync { .. } = config.job.strategy.update {
        return synchronous::train(config, model, threads, session, coordinator, outcome, stop)
            .await;
    }
    let feed = match config.job.input.train.sharding {
        Sharding::Dynamic => Feed::granted(config, model, session, coordinator, None)?,
        Sharding::None | Sharding::File | Sharding::Row => Feed::fixed(config, model, session)?,
    };
    step::train(config, &**model, feed, threads, session, outcome, stop).await
}

/// Whether a new session may succeed where this one was refused.
fn again(error: &Error) -> bool {
    matches!(
        error.reason(),
        Some(Reason::StaleEpoch | Reason::Fenced | Reason::NotReady | Reason::NoTicket)
    )
}

/// Whether a parameter server says that the job is over.
fn ended(error: &Error) -> bool {
    error.reason() == Some(Reason::JobEnded)
}

/// Whether the job is over.
fn over(state: JobState) -> bool {
    matches!(state, JobState::Done | JobState::Failed)
}
