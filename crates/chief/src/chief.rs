//! The leading chief: startup, watch and end of a job.

mod division;
mod end_requests;
mod evaluated;
mod finished_job;
mod learning_rates;
mod rereads;
mod run_recorder;
mod saving;
mod startup;
mod watch;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::{BoxFuture, join_all};
use tokio::sync::watch::Sender;
use tokio::task::JoinHandle;
use tokio::time::Instant;
use tracing::{info, warn};
use trainyard_checkpoint::{Bases, claim_epoch_as, sweep};
use trainyard_cluster_client::{Error, JobEnd, ServerClient, retry_over_faults_of_files};
use trainyard_cluster_spec::{Servers, Task};
use trainyard_daemon::{CancellationToken, Watchdog};
use trainyard_diagnostic::{Code, Diagnostic};
use trainyard_input::{
    COMPARED_AT_START_MAX, Error as InputError, Field, FieldKind, Format, Fraction, Meaning,
    Schema, TimeColumns, compare_times,
};
use trainyard_model::{AnyModel, Part, Shard, input_options};
use trainyard_model_dir::{
    FileState, JOB_AS_RUN, JobPhase, JobRecord, JobState as JobMarker, Leader, Reductions, RunLock,
    absolute, read, write_atomically,
};
use trainyard_optimizer::OptimizerConfig;
use trainyard_parameter_server::{Plan, Provenance};
use trainyard_parameter_store::{Identity, Version};
use trainyard_run_config::{Agreement, Job};
use trainyard_runtime::{apart, blocking};
use trainyard_trainer::{Hold, JobState, Looked, Mirror, OnStep, Outcome, StatusCallback};

use end_requests::EndRequests;
use evaluated::Evaluated;
use rereads::Rereads;

use crate::epoch_summary::EpochSummary;
use crate::own_folder::OwnFolder;
use crate::plateau::Plateau;
use crate::publish::{Publisher, PublisherState};
use crate::report::examples_in;
use crate::start_files::at_start;
use crate::telemetry::Telemetry;
use crate::{Failover, Report};
use trainyard_coordinator::{
    Dispatcher, EndedSessions, Liveness, LocalCoordinator, SHARD_BATCHES, ShardMap,
};
use trainyard_dashboard::RunHistory;
use trainyard_dashboard::SummaryWriter;

/// Longest wait at the end of the job for the tasks to leave, for the chief's own training loop, and for the curves.
const LEAVE_TIMEOUT: Duration = Duration::from_secs(3);
/// Longest wait at the end of the job for a server that restarts: more than the `RestartSec` of the units. A server
/// that does not receive the end would wait for a chief forever.
const SERVER_RESTART_TIMEOUT: Duration = Duration::from_secs(10);
/// Time in which a chief that was told to stop waits to see whether the other tasks stop, too.
const STOP_NOTICE_TIMEOUT: Duration = Duration::from_millis(300);
/// Part of the drain deadline in which a chief whose last checkpoint does not become ready records that it has stopped.
const END_TIME: Duration = Duration::from_secs(2);

/// The way in which a job ended for its chief.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    /// The last step or all input has been applied.
    Done,
    /// The chief was told to stop; the job may continue later.
    Stopped,
}

/// The process of a chief, as it introduces itself to others.
pub(crate) struct Process {
    /// Random number of the process start.
    pub(crate) incarnation: u64,
    /// Start time of the process.
    pub(crate) started: Instant,
    /// Start time of the process, in seconds since 1970.
    pub(crate) started_unix_secs: u64,
    /// Address of the task, for messages.
    pub(crate) address: String,
}

/// A chief, with all that it needs to lead a job.
pub struct Chief {
    /// The job.
    pub(crate) job: Arc<Job>,
    /// The model.
    pub(crate) model: Arc<AnyModel>,
    /// Clients of all parameter servers.
    pub(crate) shards: Vec<Arc<dyn ServerClient>>,
    /// Variables and settings that the parameter servers are prepared with.
    pub(crate) plan: Plan,
    /// Rules of the plan, with the learning rates of the job before any reduction.
    pub(crate) optimizers: BTreeMap<String, OptimizerConfig>,
    /// This task.
    pub(crate) task: Task,
    /// The process of this task.
    pub(crate) process: Process,
    /// Random number, drawn once for each model directory.
    pub(crate) cluster_id: u128,
    /// The model directory, which the folder of another job may replace.
    pub(crate) folder: OwnFolder,
    /// The chief and the parameter servers of the cluster.
    pub(crate) servers: Servers,
    /// Lock on the use of the model directory.
    pub(crate) _run_lock: RunLock,
    /// Longest wait for other tasks.
    pub(crate) connect_deadline: Duration,
    /// Longest time between the request to stop and the end of the process.
    pub(crate) drain_deadline: Duration,
    /// Cancelled when, after a request to stop, no time is left to wait for other tasks.
    pub(crate) out_of_time: CancellationToken,
    /// The membership, shared with the session service.
    pub(crate) coordinator: LocalCoordinator,
    /// Ended sessions that have yet to be closed on the parameter servers.
    pub(crate) ended: EndedSessions,
    /// Number of parameter servers; 1 if there is none.
    pub(crate) num_ps: usize,
    /// Number of training tasks.
    pub(crate) tasks: usize,
    /// Batches of a synchronous step; 0 if the updates are not synchronous.
    pub(crate) lanes: usize,
    /// The chief's own copy of the parameters, if the workers hold the parameters. The copy is one of `shards`, too.
    pub mirror: Option<Mirror>,
    /// The failover controller, if every shard has two replicas.
    pub(crate) pairs: Option<Failover>,
    /// Receives the status of the chief.
    pub(crate) set_status: StatusCallback,
    /// Receives the progress after every step of a training loop in this process.
    pub(crate) progress: OnStep,
    /// Watchdog of the training loops in this process.
    pub(crate) watchdog: Watchdog,
    /// The history of the run, for the page and the next chief.
    pub(crate) observation: RunHistory,
    /// The writer of summaries for TensorBoard, while the chief leads.
    pub(crate) events: Option<Arc<SummaryWriter>>,
    /// Progress of the chief, for which its own training loop waits: the global step that it has seen, and the global
    /// step whose checkpoint it has written, has not needed, or could not write.
    pub(crate) looked: Sender<Looked>,
}

/// The latest checkpoint.
struct Saved {
    /// Its global step; absent before the first one.
    step: Option<u64>,
    /// Version of each server in it. Servers may have different versions at one global step.
    versions: Vec<Option<Version>>,
    at: Instant,
    /// The whole files on which the next checkpoint may be based.
    bases: Bases,
}

/// State of a job between the phases of the chief.
struct Run {
    telemetry: Telemetry,
    /// This run, as its checkpoints record it.
    provenance: Provenance,
    /// The job file of this run is in the model directory.
    is_job_recorded: bool,
    /// The marker of the run before this one.
    earlier: Option<JobMarker>,
    epoch: u64,
    global_step: u64,
    first_step: Option<u64>,
    opened: Option<Instant>,
    saved: Saved,
    /// Version of each server, as last seen; absent until then.
    versions: Vec<Option<Version>>,
    /// Bytes that each server last reported. Their sum is nearly the size of a checkpoint, because tables grow.
    server_bytes: Vec<u64>,
    /// Ended sessions that some servers have yet to close.
    unclosed: Vec<watch::Unclosed>,
    /// The times at which the end of the input was read again.
    rereads: Rereads,
    /// Time of the last check whether all data has been applied, while no task trained.
    data_at: Option<Instant>,
    /// Time since which all data has been applied, while a task still trained.
    applied_since: Option<Instant>,
    /// Passes over the data, once all of them have been applied.
    epochs: Option<u64>,
    /// The evaluations, if they may end the job or reduce its learning rates.
    evaluated: Option<Evaluated>,
    /// Reductions of the learning rates.
    reductions: Reductions,
    /// The plateau for which the rates are about to fall.
    plateau: Option<Plateau>,
    /// Time before which the rates stay, after a checkpoint for reduced ones could not be written.
    rates_stay_until: Instant,
    /// Requests of the callbacks of an evaluator, if the model has callbacks.
    end_requests: Option<EndRequests>,
    /// Reason why the evaluations or the callbacks have ended the job.
    ended_early: Option<String>,
    /// Failure of a callback. The job ends with it.
    callback_failure: Option<Diagnostic>,
    /// The last step that was trained, if the job has ended at an earlier one.
    trained_step: Option<u64>,
    /// Time since which no task has been present to complete the last batches, once the last step has been applied.
    deserted_at_last_step: Option<Instant>,
}

/// Leads a job until it ends, or until the token is cancelled.
///
/// # Errors
/// The job cannot begin or continue: a checkpoint does not fit, a server is unreachable, or the input cannot be read.
pub fn run_job(
    mut lead: Chief,
    stop: CancellationToken,
) -> BoxFuture<'static, Result<(Ending, Report), Diagnostic>> {
    // The future is boxed, so that it is compiled once here, and not again in each program that runs a chief.
    Box::pin(async move {
        let within = lead.drain_deadline - END_TIME.min(lead.drain_deadline / 4);
        let (asked, out_of_time) = (stop.clone(), lead.out_of_time.clone());
        let timer = tokio::spawn(async move {
            asked.cancelled().await;
            tokio::time::sleep(within).await;
            out_of_time.cancel();
        });
        let events = SummaryWriter::start(&lead.job, lead.observation.clock);
        lead.events = Some(Arc::clone(&events));
        let led = from_beginning_to_end(lead, stop).await;
        events.end().await;
        timer.abort();
        led
    })
}

async fn from_beginning_to_end(
    mut lead: Chief,
    stop: CancellationToken,
) -> Result<(Ending, Report), Diagnostic> {
    let mut run = Run {
        telemetry: Telemetry::new(),
        provenance: Provenance {
            input: input_fingerprint(&lead),
            job: Agreement::of(&lead.job).lines(),
        },
        is_job_recorded: false,
        earlier: match JobMarker::read(&lead.job.model_dir) {
            // It may say that the job is over.
            Err(error) if error.file_state() == FileState::Unreadable => return Err(error.into()),
            marker => marker.ok().flatten(),
        },
        epoch: 0,
        global_step: 0,
        first_step: None,
        opened: None,
        saved: Saved {
            step: None,
            versions: Vec::new(),
            at: Instant::now(),
            bases: Bases::of(&lead.job.model_dir),
        },
        versions: vec![None; lead.shards.len()],
        server_bytes: vec![0; lead.shards.len()],
        unclosed: Vec::new(),
        rereads: Rereads::default(),
        data_at: None,
        applied_since: None,
        epochs: None,
        evaluated: Evaluated::of(&lead.job, lead.awaits_evaluations()),
        reductions: Reductions::default(),
        plateau: None,
        rates_stay_until: Instant::now(),
        end_requests: lead
            .model
            .callbacks()
            .map(|_| EndRequests::of(lead.job.model_dir.clone())),
        ended_early: None,
        callback_failure: None,
        trained_step: None,
        deserted_at_last_step: None,
    };
    if let Some(step) = finished_job::look(&lead, &run)? {
        run.global_step = step;
        finished_job::tell(&lead, &mut run).await?;
        return Ok((Ending::Done, lead.report(&run, None)));
    }
    lead.check_columns().await?;
    lead.note_times(&mut run).await;
    lead.tell_epoch();
    lead.recall(&run);
    if !JobMarker::is_of_a_term(&lead.job.model_dir) {
        lead.mark(&run, JobPhase::Running, "starting");
    }
    sweep(&lead.job.model_dir)?;
    let looking = lead.looks(&run);
    let training = CancellationToken::new();
    let mut trainer: Option<JoinHandle<Result<Outcome, Diagnostic>>> = None;
    let mut outcome = None;
    let mut ending = loop {
        match startup::bring_up(&mut lead, &mut run, &stop).await {
            Ok(true) => {}
            Ok(false) => break Ok(Ending::Stopped),
            Err(problem) => break Err(problem),
        }
        if trainer.is_none() && outcome.is_none() && lead.job.strategy.chief_trains {
            let mut config = lead.trainer(lead.task, lead.mirror.clone());
            config.progress = lead.told_of_steps();
            config.hold = lead.hold();
            trainer = Some(lead.spawn_trainer(config, training.clone()));
        }
        let publishing = lead.publishing(&run);
        let watching = watch::watch(&mut lead, &mut run, &mut trainer, &mut outcome, &stop);
        let seen = tokio::select! {
            seen = watching => seen,
            () = publishing => unreachable!("the loop never ends"),
        };
        match seen {
            watch::Seen::Lost(what) => {
                warn!("{what}: restoring every parameter server from the latest checkpoint");
                // The loop may have to read its input again from an earlier point.
                outcome = None;
            }
            watch::Seen::Plateau(plateau) => {
                run.plateau = Some(plateau);
                // As above.
                outcome = None;
            }
            watch::Seen::Ended => break Ok(Ending::Done),
            watch::Seen::EndedEarly(why) => {
                info!("early stopping ends training: {why}");
                run.ended_early = Some(why);
                break Ok(Ending::Done);
            }
            watch::Seen::Stopped => break Ok(Ending::Stopped),
            watch::Seen::Failed(problem) => break Err(problem),
        }
    };
    if matches!(ending, Ok(Ending::Stopped)) {
        // The last step of the chief's own loop belongs into the last checkpoint.
        training.cancel();
        let ended = lead.in_time(watch::wait_for_trainer(&mut trainer, &mut outcome));
        if let Some(Some(problem)) = ended.await {
            ending = Err(problem);
        }
    }
    let ending = match ending {
        Ok(ending) => lead.end(&mut run, ending, &stop).await,
        Err(problem) => {
            lead.fail(&run, &problem).await;
            Err(problem)
        }
    };
    let ending = ending.map_err(|problem| lead.name_successor(&run, problem));
    looking.abort();
    if ending.is_ok() {
        lead.keep_curves().await;
    }
    training.cancel();
    // The job has ended, whatever becomes of this loop.
    drop(
        lead.in_time(watch::wait_for_trainer(&mut trainer, &mut outcome))
            .await,
    );
    let ending = ending?;
    if ending == Ending::Done {
        lead.refuse_training_of_nothing(&run)?;
    }
    Ok((ending, lead.report(&run, outcome.as_ref())))
}

/// Returns the name of this host, for messages.
pub(crate) fn host() -> String {
    std::fs::read_to_string("/proc/sys/kernel/hostname")
        .unwrap_or_default()
        .trim()
        .to_owned()
}

/// Returns the fingerprint of the division of the input. Positions in the data are valid only under the same
/// fingerprint.
fn input_fingerprint(lead: &Chief) -> String {
    let input = &lead.job.input.train;
    let seed = lead.job.run.seed;
    let batch = input.batch_size;
    let shuffle = input.shuffle_rows;
    let files = &input.files;
    match lead.coordinator.data() {
        // Under dynamic sharding, a batch is the same on every task, so the number of tasks has no effect.
        Some(data) => {
            let lanes = data.lanes();
            let contents = data.fingerprint();
            // In synchronous training all servers have applied the same batches, whatever was applied before.
            let sync = if lead.lanes > 0 { " sync" } else { "" };
            // Rows are mixed within a data shard. Its usual length has no name, as in earlier releases.
            let shards = match data.batches_per_shard() {
                SHARD_BATCHES => String::new(),
                batches => format!(" shard_batches={batches}"),
            };
            format!(
                "Dynamic{sync} lanes={lanes}{shards} seed={seed} batch={batch} shuffle={shuffle} files={files:?} {contents:016x}"
            )
        }
        None => {
            let sharding = input.sharding;
            let tasks = lead.tasks;
            format!(
                "{sharding:?} tasks={tasks} seed={seed} batch={batch} shuffle={shuffle} files={files:?}"
            )
        }
    }
}

/// Returns what the first training files hold in the columns that a model takes as they are; `None` if they cannot be read, which the
/// tasks that read the input tell.
fn times_of_training(job: &Job, schema: &Schema) -> Option<TimeColumns> {
    let options = input_options(job, Part::Train, Shard::WHOLE, None).ok()?;
    let mut times = TimeColumns::of_first_files(&options)?;
    times.retain(|column| is_taken_plainly(schema, column));
    Some(times)
}

/// Returns what the files of an earlier run meant in the columns of a model, if they were of a format without types.
fn untyped_of_training(trained: &[String], schema: &Schema) -> Option<TimeColumns> {
    let is_text = |field: &Field| matches!(field.kind, FieldKind::Bytes { .. });
    let fields = schema.fields.iter();
    let mut columns: BTreeMap<String, bool> = BTreeMap::new();
    for field in fields.filter(|field| is_taken_plainly(schema, &field.name)) {
        *columns.entry(field.name.clone()).or_default() |= is_text(field);
    }
    TimeColumns::of_untyped(trained, columns)
}

/// Returns whether a model takes what a column holds for plain numbers or names.
fn is_taken_plainly(schema: &Schema, column: &str) -> bool {
    let is_plain = |field: &Field| {
        let is_time = |fraction: &Fraction| matches!(fraction, Fraction::Time(_));
        !matches!(&field.kind, FieldKind::Int { fraction, .. } if is_time(fraction))
    };
    let mut fields = schema.fields.iter();
    fields.any(|field| field.name == column && is_plain(field))
}

/// Warns of columns that hold other times than those that the newest checkpoint was trained with.
fn warn_of_other_times(earlier: &TimeColumns, own: &TimeColumns) {
    for (column, clock) in own.iter() {
        if let Some(before) = earlier
            .get(column)
            .filter(|before| Meaning::differ(*before, clock))
        {
            warn!(
                column,
                "the column `{column}` holds {} in the training files, and held {} in those of the earlier run: where a feature takes \
                 them for plain numbers or names, what the earlier run has learnt of them is wrong now. Write the files as before, \
                 give the feature of times `time`, which knows the units, or train anew in another model_dir",
                Meaning::told(clock),
                Meaning::told(before)
            );
        }
    }
}

impl Chief {
    /// Returns the identity of the chief's control calls.
    fn identity(&self, run: &Run) -> Identity {
        Identity {
            cluster_id: self.cluster_id,
            epoch: run.epoch,
            task: self.task,
            incarnation: self.process.incarnation,
            session: 0,
        }
    }

    /// Checks that the training input has the columns of the model, and times of one unit in each, before the run writes anything:
    /// the initial values of a mistaken model would not fit the corrected one.
    ///
    /// # Errors
    /// Columns are missing, or two of the first files have times of two units in one.
    async fn check_columns(&self) -> Result<(), Diagnostic> {
        if self.coordinator.data().is_none() && !self.job.strategy.chief_trains {
            // This host may not have the files.
            return Ok(());
        }
        let job = Arc::clone(&self.job);
        let model = Arc::clone(&self.model);
        let check = move || {
            let options = input_options(&job, Part::Train, Shard::WHOLE, None).ok()?;
            let schema = model.schema();
            let checked = trainyard_input::check_columns(&options, schema);
            let is_plain = |column: &str| is_taken_plainly(schema, column);
            checked
                .and_then(|_| compare_times(&options, is_plain, COMPARED_AT_START_MAX))
                .err()
        };
        match blocking(check).await {
            Ok(Some(
                problem @ (InputError::Column { .. }
                | InputError::ColumnType { .. }
                | InputError::MixedTimes { .. }),
            )) => Err(problem.into()),
            // The tasks that read the input report all other problems, or wait until they have passed.
            _ => Ok(()),
        }
    }

    /// Notes among the lines of the job the times that the training files hold in the columns of the model: of a host without the
    /// files, those that an earlier run has noted. Warns if that run was trained with other ones.
    async fn note_times(&self, run: &mut Run) {
        if self.job.input.format != Format::Parquet {
            return;
        }
        let look = |model_dir: &Path| Ok(startup::newest_manifest(model_dir));
        let newest = at_start(&self.job.model_dir, look).await;
        let newest = newest.ok().and_then(Result::ok).flatten();
        let earlier = newest.and_then(|manifest| {
            TimeColumns::of_lines(&manifest.job)
                .or_else(|| untyped_of_training(&manifest.job, self.model.schema()))
        });
        let own = if self.coordinator.data().is_none() && !self.job.strategy.chief_trains {
            None
        } else {
            let (job, model) = (Arc::clone(&self.job), Arc::clone(&self.model));
            blocking(move || times_of_training(&job, model.schema()))
                .await
                .ok()
                .flatten()
        };
        if let (Some(earlier), Some(own)) = (&earlier, &own) {
            warn_of_other_times(earlier, own);
        }
        if let Some(times) = own.or(earlier) {
            run.provenance.job.push(times.line());
        }
    }

    /// Returns the step of the newest checkpoint in model_dir; `None` if there is none, or if the folder cannot be read.
    async fn newest_checkpoint(&self) -> Option<u64> {
        let look = |model_dir: &Path| Ok(trainyard_checkpoint::list(model_dir));
        let found = at_start(&self.job.model_dir, look).await.ok()?.ok()?;
        Some(found.last()?.step)
    }

    /// Logs a summary of an epoch, once the records are counted.
    fn tell_epoch(&self) {
        let job = Arc::clone(&self.job);
        let data = self.coordinator.data().cloned();
        let lanes = self.lanes;
        let tasks = self.tasks as u64;
        drop(blocking(move || {
            let counted = match data {
                Some(data) => data.rows(),
                None => Dispatcher::of(&job, lanes).and_then(|data| data.rows()),
            };
            let input = &job.input.train;
            let sharding = input.sharding;
            let update = job.strategy.update.mode;
            let lanes = lanes as u64;
            let batch_size = input.batch_size as u64;
            match counted {
                Ok(rows) => {
                    let summary = EpochSummary {
                        sharding,
                        update,
                        tasks,
                        lanes,
                        batch_size,
                        rows,
                    };
                    info!("{}", summary.describe());
                    if let Some(epochs) = input.epochs {
                        let steps = summary.steps().saturating_mul(epochs);
                        for warning in job.warnings_of_passes(steps) {
                            warn!("{}", warning.log_line());
                        }
                    }
                }
                // The reader of the data reports this problem as an error.
                Err(problem) => {
                    info!(problem = %problem.message, "this chief cannot count the records of a pass")
                }
            }
        }));
    }

    /// Returns the configuration of a training loop in this process, the chief's own or that of another task.
    pub fn trainer(&self, task: Task, mirror: Option<Mirror>) -> trainyard_trainer::Config {
        trainyard_trainer::Config {
            job: Arc::clone(&self.job),
            task,
            incarnation: self.process.incarnation,
            started: self.process.started,
            started_unix_secs: self.process.started_unix_secs,
            servers: self.servers.clone(),
            num_ps: self.num_ps,
            address: self.process.address.clone(),
            connect_deadline: self.connect_deadline,
            set_status: Arc::clone(&self.set_status),
            progress: Arc::clone(&self.progress),
            mirror,
            hold: None,
            callbacks_end_job: true,
        }
    }

    /// Returns the wait of the chief's own loop for checkpoints every `save_checkpoints_steps`, if no other task
    /// trains.
    fn hold(&self) -> Option<Hold> {
        let every = self
            .job
            .run
            .save_checkpoints_steps
            .filter(|_| self.tasks == 1 && self.mirror.is_none())?;
        Some(Hold {
            every,
            looked: self.looked.subscribe(),
        })
    }

    /// Returns whether the only task that trains, in this process, waits for the evaluation of each checkpoint.
    fn awaits_evaluations(&self) -> bool {
        let is_alone = !self.shards.iter().any(|shard| shard.is_remote());
        is_alone
            && self.job.input.eval.is_some()
            && self.job.eval.every_checkpoint
            && self.hold().is_some()
    }

    /// Returns the publisher of this term, and the time between its cuts, if the job publishes.
    fn publisher(&self, run: &Run) -> Option<(Publisher, Duration)> {
        let every = self.job.publish.every_secs;
        let publisher = Publisher {
            model_dir: self.job.model_dir.clone(),
            shards: self.shards.clone(),
            plan: self.plan.clone(),
            identity: self.identity(run),
            observation: self.observation.clone(),
            telemetry: run.telemetry.clone(),
            state: PublisherState::default(),
        };
        (every > 0).then_some((publisher, Duration::from_secs(every)))
    }

    /// Publishes cuts until the future is dropped.
    fn publishing(&self, run: &Run) -> impl Future<Output = ()> + Send + use<> {
        let publisher = self.publisher(run);
        async move {
            match publisher {
                Some((publisher, every)) => publisher.run(every).await,
                None => std::future::pending().await,
            }
        }
    }

    /// Returns the callback that receives every step of the chief's own loop.
    fn told_of_steps(&self) -> OnStep {
        let Some(events) = self.events.clone() else {
            return Arc::clone(&self.progress);
        };
        let progress = Arc::clone(&self.progress);
        Arc::new(move |step| {
            events.step(step.global_step, Some(step.loss));
            progress(step);
        })
    }

    /// Starts a training loop in this process, on its own thread: its arithmetic must not delay the rest.
    pub fn spawn_trainer(
        &self,
        config: trainyard_trainer::Config,
        stop: CancellationToken,
    ) -> JoinHandle<Result<Outcome, Diagnostic>> {
        let model = Arc::clone(&self.model);
        let coordinator = self.coordinator.clone();
        let shards = self.shards.clone();
        let watchdog = self.watchdog.clone();
        let training = trainyard_trainer::run(config, model, Arc::new(coordinator), shards, stop);
        apart(async move { watchdog.within(training).await })
    }

    /// Ends the job, or leaves it as it is for a later chief.
    async fn end(
        &mut self,
        run: &mut Run,
        ending: Ending,
        stop: &CancellationToken,
    ) -> Result<Ending, Diagnostic> {
        if run.opened.is_none() {
            return Ok(ending);
        }
        if run.ended_early.is_some() {
            // The tasks would not leave by themselves.
            self.coordinator.end(JobState::Done);
        }
        match ending {
            Ending::Done => self.wait_for_leave(stop).await,
            Ending::Stopped => drop(self.in_time(self.wait_for_stop()).await),
        }
        let silent = self.in_time(self.refresh(run)).await;
        let finished = || {
            self.coordinator
                .with(|membership, now| membership.liveness(now))
                == Liveness::Finished
        };
        if ending == Ending::Done && !self.is_at_last_step(run) && finished() {
            run.epochs = self.job.input.train.epochs;
        }
        let best = match run.ended_early {
            Some(_) => self.go_back_to_best(run).await,
            None => None,
        };
        let saved = async {
            match ending {
                Ending::Done if best.is_some() => Ok(()),
                Ending::Done => self.save_last(run, stop).await,
                Ending::Stopped => self.save(run).await,
            }
        };
        let saved = self.in_time(saved).await;
        let saved = saved.unwrap_or_else(|| Err(self.unsaved_in_time(silent.as_deref())));
        if let Err(problem) = saved {
            let kept = match run.saved.step {
                Some(step) => Some(step),
                // A chief that has taken over a job has restored none.
                None => self.newest_checkpoint().await,
            };
            let kept = kept.map_or_else(|| "none".to_owned(), |step| format!("step {step}"));
            let problem = Diagnostic {
                help: None,
                ..problem
            }
            .note(format!(
                "the chief could not write the last checkpoint; the newest one: {kept}"
            ))
            .help(
                "correct this and start the job again: it continues from the logs of its servers, or without them from the newest checkpoint",
            );
            match ending {
                Ending::Done => self.fail(run, &problem).await,
                Ending::Stopped => self.mark(
                    run,
                    JobPhase::Stopped,
                    &format!(
                        "the chief received a request to stop, and could not write its last \
                        checkpoint: {}",
                        problem.message
                    ),
                ),
            }
            return Err(problem);
        }
        if let Some(problem) = run.callback_failure.take() {
            self.fail(run, &problem).await;
            return Err(problem);
        }
        if let Some((publisher, _)) = self.publisher(run) {
            match best {
                Some(step) => publisher.go_back_to(step).await,
                None => publisher.publish_last().await,
            }
        }
        if let Some(step) = best {
            run.trained_step = Some(run.global_step);
            run.global_step = step;
        }
        let (phase, reason) = match (ending, run.ended_early.clone()) {
            (Ending::Done, Some(why)) => (JobPhase::Done, format!("early stopping: {why}")),
            (Ending::Done, None) => (
                JobPhase::Done,
                "all steps or all input records are applied".to_owned(),
            ),
            (Ending::Stopped, _) => (
                JobPhase::Stopped,
                "the chief received a request to stop".to_owned(),
            ),
        };
        self.mark(run, phase, &reason);
        if ending == Ending::Done {
            self.coordinator.end(JobState::Done);
            self.finish_servers(run, "done", JobEnd::Done).await;
            info!(step = run.global_step, "the job is done");
        } else if self.coordinator.with(|membership, _| membership.active()) > 0 {
            info!(
                step = run.global_step,
                "this chief stops; the other tasks continue to train after its last checkpoint, \
                until a chief takes over the job"
            );
        } else {
            info!(
                step = run.global_step,
                "the job is stopped; after a restart it continues from its last checkpoint"
            );
        }
        Ok(ending)
    }

    /// Waits for a future as long as a request to stop leaves time. Returns `None` if it is not ready by then.
    async fn in_time<T>(&self, work: impl Future<Output = T>) -> Option<T> {
        tokio::select! {
            biased;
            done = work => Some(done),
            () = self.out_of_time.cancelled() => None,
        }
    }

    /// Returns the problem of a last checkpoint for which the time after the request to stop did not suffice.
    fn unsaved_in_time(&self, silent: Option<&[String]>) -> Diagnostic {
        let seconds = self.drain_deadline.as_secs();
        let message = format!(
            "the last checkpoint did not become ready within the {seconds} s that a stop may take (--drain-deadline)"
        );
        let problem = Diagnostic::error(Code::E3003, message);
        match silent {
            Some([]) => problem,
            Some(silent) => problem.note(format!("no answer from {}", silent.join(", "))),
            None => problem.note("not all parameter servers answered in this time"),
        }
    }

    /// Waits for a limited time until no task trains.
    async fn wait_for_leave(&self, stop: &CancellationToken) {
        let until = Instant::now() + LEAVE_TIMEOUT;
        while Instant::now() < until
            && !stop.is_cancelled()
            && self.coordinator.with(|membership, _| membership.active()) > 0
        {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    /// Waits until the other tasks have stopped, because their last steps belong into the last checkpoint. If only the
    /// chief was told to stop, the other tasks continue, and the wait is short.
    async fn wait_for_stop(&self) {
        let started = Instant::now();
        while self.coordinator.with(|membership, _| membership.active()) > 0 {
            let stops = self
                .coordinator
                .with(|membership, _| membership.others_stop(self.task));
            if started.elapsed()
                > if stops {
                    LEAVE_TIMEOUT
                } else {
                    STOP_NOTICE_TIMEOUT
                }
            {
                return;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    async fn finish_servers(&self, run: &Run, reason: &str, end: JobEnd) {
        for (name, error) in self
            .report_end(run, reason, end, SERVER_RESTART_TIMEOUT)
            .await
        {
            warn!(ps = name, %error, "{name} did not accept the report that the job has ended");
        }
        if end == JobEnd::Done {
            self.dismiss_pairs().await;
        }
    }

    /// Reports the end of the job to all servers concurrently. Retries a server that restarts, or cannot read its model
    /// directory, at most for `within`: one that never hears of the end waits for a chief, forever.
    /// Returns the servers that did not accept the report, with the errors.
    async fn report_end(
        &self,
        run: &Run,
        reason: &str,
        end: JobEnd,
        within: Duration,
    ) -> Vec<(&str, Error)> {
        let identity = self.identity(run);
        let folder = absolute(&self.job.model_dir);
        let folder = &folder;
        let servers = self.servers.fingerprint();
        let told = self.shards.iter().map(|shard| async move {
            let tell = || async move {
                // A server without a log that has restarted since is not claimed.
                shard.claim(identity, servers, folder).await?;
                shard.finish(identity, reason, end).await
            };
            let told = retry_over_faults_of_files(&identity, shard.name(), within, tell).await;
            told.err().map(|error| (shard.name(), error))
        });
        join_all(told).await.into_iter().flatten().collect()
    }

    /// Dismisses replicated servers, which would otherwise wait for a chief to set their roles.
    async fn dismiss_pairs(&self) {
        if let Some(pairs) = &self.pairs {
            pairs.dismiss().await;
            self.clear_shard_map();
        }
    }

    /// Removes the shard map, unless it is that of another cluster.
    fn clear_shard_map(&self) {
        if self.folder.is_own() {
            ShardMap::clear(&self.job.model_dir);
        }
    }

    /// Claims the next term, and records this chief as the leader.
    ///
    /// # Errors
    /// The model directory cannot be used, or is that of another cluster, whose chief would be deposed.
    fn claim_epoch(&self) -> Result<u64, Diagnostic> {
        self.folder
            .check("no epoch is claimed in it")
            .map_err(|problem| problem.help("bring it back, and start the job again"))?;
        let leader = Leader {
            cluster_epoch: 0,
            address: self.process.address.clone(),
            host: host(),
            process_id: std::process::id(),
            started_unix_secs: self.process.started_unix_secs,
        };
        Ok(claim_epoch_as(&self.job.model_dir, leader)?)
    }

    /// Adds the present leader to the message of a chief that was deposed.
    fn name_successor(&self, run: &Run, problem: Diagnostic) -> Diagnostic {
        let leader = Leader::read(&self.job.model_dir).ok().flatten();
        let leader = leader.filter(|leader| leader.cluster_epoch > run.epoch);
        match leader {
            Some(leader) if problem.code == Code::E2009 => problem.note(leader.to_string()),
            _ => problem,
        }
    }

    /// Warns if an earlier run has trained the checkpoints of this model directory with other labels, other features or
    /// another model: the learned parameters have another meaning now.
    fn compare_with_earlier_job(&self) {
        let model_dir = &self.job.model_dir;
        let Ok(Some(trained)) = startup::newest_manifest(model_dir) else {
            return;
        };
        if trained.job.is_empty() || trained.global_step == 0 {
            return;
        }
        let earlier = Agreement::recorded(&trained.job).of_scores();
        let own = Agreement::of(&self.job).of_scores();
        let Some(difference) = earlier.differences(&own, "the earlier run", "this run") else {
            return;
        };
        warn!(
            "another job trained the newest checkpoint of {}: {difference}. Training continues \
            from that checkpoint; to train from the start, give another model_dir",
            model_dir.display()
        );
    }

    async fn fail(&self, run: &Run, problem: &Diagnostic) {
        if problem.code == Code::E2009 {
            // Another chief leads. The marker, the servers and the workers belong to it.
            return;
        }
        self.mark(run, JobPhase::Failed, &problem.message);
        if run.epoch > 0 && run.opened.is_some() {
            self.coordinator.end(JobState::Failed);
            self.finish_servers(run, &problem.message, JobEnd::Failed)
                .await;
        }
        // A job that this chief could not begin may still be running. Its tasks wait for another chief.
    }

    fn mark(&self, run: &Run, phase: JobPhase, reason: &str) {
        let cluster_epoch = run.epoch;
        let reason = reason.to_owned();
        let rule = self
            .job
            .train
            .early_stopping
            .as_ref()
            .filter(|_| run.ended_early.is_some());
        let early_stopping = rule.and_then(|rule| serde_json::to_value(rule).ok());
        let own = JobMarker {
            phase,
            global_step: run.global_step,
            reason,
            cluster_epoch,
            epochs: run.epochs,
            early_stopping,
            finished_before: false,
        };
        let marker = match &run.earlier {
            // Nothing has been trained: the step and the end are those of the run before.
            Some(earlier) if run.opened.is_none() => JobMarker {
                global_step: earlier.global_step,
                epochs: earlier.epochs,
                early_stopping: earlier.early_stopping.clone(),
                finished_before: earlier.is_finished(),
                ..own
            },
            _ => own,
        };
        if !self.folder.is_own() {
            return;
        }
        if let Err(error) = marker.write(&self.job.model_dir) {
            warn!(%error, "job_state.json cannot be written: an evaluator does not see the state of the job");
        }
    }

    /// Records the job of this chief in the model directory.
    fn record_job(&self, run: &Run) {
        if !self.folder.is_own() {
            return;
        }
        let keys = Agreement::of(&self.job).lines();
        let record = JobRecord {
            cluster_epoch: run.epoch,
            keys,
        };
        if let Err(error) = record.write(&self.job.model_dir) {
            warn!(%error, "job.json cannot be written: the evaluator cannot compare its job with \
                the job of this chief");
        }
    }

    /// Writes the job file of this run, with its defaults, beside the first checkpoint that the run has written. The file
    /// is for people; no task reads it.
    fn record_job_as_run(&self, run: &mut Run) {
        if run.is_job_recorded || !self.folder.is_own() {
            return;
        }
        run.is_job_recorded = true;
        let written = self.job.as_run().and_then(|text| {
            let path = self.job.model_dir.join(JOB_AS_RUN);
            let found = read(&path).map_err(|error| error.to_string())?;
            if found.is_some_and(|text| !Job::is_as_run(&text)) {
                return Err("a file of that name is there, which no run has written".to_owned());
            }
            write_atomically(&path, text.as_bytes()).map_err(|error| error.to_string())
        });
        if let Err(error) = written {
            warn!(%error, "the job as it was run is not in {}", self.job.model_dir.join(JOB_AS_RUN).display());
        }
    }

    /// Refuses to call a job trained whose tasks have reported batches, and not one record in them.
    fn refuse_training_of_nothing(&self, run: &Run) -> Result<(), Diagnostic> {
        let (batches, examples) = self.coordinator.with(|membership, _| membership.totals());
        if batches == 0 || examples > 0 {
            return Ok(());
        }
        let message = format!(
            "no record could be used: all of {batches} batches were bad, and {} has the values at the beginning of step {}",
            self.job.model_dir.display(),
            run.first_step.unwrap_or_default()
        );
        Err(Diagnostic::error(Code::E4004, message).help(
            "model_dir/dead_letter has the records and the reasons: correct the input or the job, and train into an empty model_dir",
        ))
    }

    fn report(&self, run: &Run, outcome: Option<&Outcome>) -> Report {
        let train_seconds = run
            .opened
            .map_or(0.0, |opened| opened.elapsed().as_secs_f64());
        let last_step = run.trained_step.unwrap_or(run.global_step);
        let steps = last_step.saturating_sub(run.first_step.unwrap_or(last_step));
        let reported = self.coordinator.with(|membership, _| membership.totals());
        let examples = if self.job.strategy.kind.is_mirrored() {
            // Every replica reports the batches of its own steps.
            reported.1
        } else {
            let applied = steps * self.lanes.max(1) as u64;
            examples_in(applied, reported, self.job.input.train.batch_size)
        };
        let rate = |count: u64| {
            if train_seconds > 0.0 {
                count as f64 / train_seconds
            } else {
                0.0
            }
        };
        Report {
            global_step: run.global_step,
            ended_early: run.ended_early.clone(),
            examples,
            train_seconds,
            steps_per_second: rate(steps),
            examples_per_second: rate(examples),
            first_step_seconds: outcome.and_then(|outcome| outcome.first_step_seconds),
            final_loss: outcome
                .and_then(|outcome| outcome.loss)
                .or_else(|| self.coordinator.with(|membership, _| membership.loss())),
            ..Report::default()
        }
    }
}
