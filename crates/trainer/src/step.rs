//! The steps of one session.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use tokio_util::sync::CancellationToken;
use tracing::info;
use trainyard_cluster_client::{Error, LeaveReason, Traffic};
use trainyard_diagnostic::{Code, Diagnostic};
use trainyard_input::{Dataset, Position, Prefetch, PrefetchError};
use trainyard_model::{Model, Part, Shard, input_options};
use trainyard_optimizer::Clipping;
use trainyard_parameter_store::{BatchId, Ticket};
use trainyard_run_config::OptimizerSection;
use trainyard_variable::MOVING_AVERAGE;

use crate::Config;
use crate::heartbeat::Directive;
use crate::outcome::{Outcome, Progress, into_diagnostic};
use crate::session::Session;
use crate::telemetry::Telemetry;

/// Time between questions for a ticket while all are in others' hands.
const TICKET_POLL: Duration = Duration::from_millis(5);

/// Why a session's steps have ended.
pub(crate) enum Failure {
    /// A call to the cluster.
    Cluster(Error),
    /// Anything else.
    Local(Diagnostic),
}

impl Failure {
    pub(crate) fn into_diagnostic(self) -> Diagnostic {
        match self {
            Self::Cluster(error) => into_diagnostic(&error),
            Self::Local(diagnostic) => diagnostic,
        }
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self::Cluster(error)
    }
}

impl From<Diagnostic> for Failure {
    fn from(diagnostic: Diagnostic) -> Self {
        Self::Local(diagnostic)
    }
}

type Input<M> = Prefetch<<M as Model>::Features, trainyard_model::Error>;

/// Starts the input at the session's first batch.
fn open_input<M: Model>(config: &Config, model: &Arc<M>, session: &Session) -> Result<Input<M>, Diagnostic> {
    let job = &config.job;
    let shard = Shard {
        index: session.joined.data_shard_index,
        count: session.joined.data_shard_count,
        skip_batches: session.next_batch,
    };
    let name = config.task.to_string().replace(':', "-");
    let dead_letter = job.model_dir.join("dead_letter").join(format!("{name}.jsonl"));
    let options = input_options(job, Part::Train, shard, Some(dead_letter))?;
    let meaning = match options.sharding {
        _ if shard.count == 1 => "one epoch is one pass over the data",
        trainyard_input::Sharding::None => "each task reads all data: one epoch is one pass of each task",
        trainyard_input::Sharding::File => {
            "files are divided over the tasks: one epoch is one pass over the data"
        }
        trainyard_input::Sharding::Row => {
            "records are divided over the tasks: one epoch is one pass over the data"
        }
    };
    let (batch_size, tasks) = (options.batch_size, shard.count);
    info!(files = options.files.len(), batch_size, tasks, epochs = ?options.epochs, skipped_batches = shard.skip_batches, "{meaning}");
    let dataset = Dataset::open(options, model.schema().clone()).map_err(Diagnostic::from)?;
    let model = Arc::clone(model);
    Prefetch::spawn(dataset, job.input.train.prefetch_batches, move |batch| model.features(batch))
        .map_err(|error| Diagnostic::error(Code::E9002, format!("the input thread cannot start: {error}")))
}

/// The job's bound on gradients.
fn clipping(section: &OptimizerSection) -> Result<Clipping, Diagnostic> {
    serde_json::from_value(section.fields().into())
        .map_err(|error| Diagnostic::error(Code::E1006, format!("train.clip_gradients: {error}")))
}

/// Trains until there is a reason to leave.
pub(crate) async fn train<M: Model>(
    config: &Config,
    model: &M,
    shared: Arc<M>,
    session: &mut Session,
    outcome: &mut Outcome,
    stop: &CancellationToken,
) -> Result<LeaveReason, Failure> {
    let mut input = open_input(config, &shared, session)?;
    let clipping = config.job.train.clip_gradients.as_ref().map(clipping).transpose()?;
    let variables = model.variables();
    let telemetry = Telemetry::new();
    (config.standing)("training", true, Vec::new());
    let (mut values, mut gradients, mut scratch) = (Vec::new(), Vec::new(), M::Scratch::default());
    let mut traffic = Traffic::default();
    let (session_start, before) = (Instant::now(), outcome.train_seconds);
    let mut interval = (Instant::now(), outcome.steps, outcome.examples);
    loop {
        if stop.is_cancelled() {
            return Ok(LeaveReason::Shutdown);
        }
        match session.heartbeat.directive() {
            Directive::Train => {}
            Directive::End => return Ok(LeaveReason::Finished),
            Directive::Rejoin => {
                let refusal = trainyard_protocol::Refusal::new(
                    trainyard_protocol::Reason::Fenced,
                    "the chief does not know this session any more",
                );
                return Err(Failure::Cluster(Error::Refused { peer: "chief:0".to_owned(), refusal }));
            }
        }
        let began = Instant::now();
        telemetry.input_queue.set(input.fill().0 as f64);
        let item = tokio::select! {
            item = input.next() => item,
            () = stop.cancelled() => return Ok(LeaveReason::Shutdown),
        };
        let Some(item) = item else { return Ok(LeaveReason::InputExhausted) };
        let (position, features) = item.map_err(input_failure)?;
        let ready = Instant::now();
        telemetry.input_seconds.record(ready - began);
        let reads = model.reads(&features);
        let ticket = loop {
            let pulled = session.parameters.pull(&reads, &mut values).await?;
            if pulled.ticket != Ticket::Wait {
                break pulled.ticket;
            }
            if stop.is_cancelled() {
                return Ok(LeaveReason::Shutdown);
            }
            tokio::time::sleep(TICKET_POLL).await;
        };
        if ticket == Ticket::Finished {
            return Ok(LeaveReason::Finished);
        }
        let pulled = Instant::now();
        telemetry.pull_seconds.record(pulled - ready);
        let computed =
            model.train(&features, &values, &mut gradients, &mut scratch).map_err(Diagnostic::from)?;
        if let Some(clipping) = &clipping {
            // Moving averages have no gradients: what is pushed for them is how far they move.
            clipping.apply(&mut gradients, |place| variables[place].optimizer_group != MOVING_AVERAGE);
        }
        if !computed.loss.is_finite() {
            return Err(Failure::Local(not_finite(config, position, computed.loss, outcome)));
        }
        let done = Instant::now();
        telemetry.compute_seconds.record(done - pulled);
        let batch = BatchId { pass: position.pass, shard: position.shard, batch: position.batch };
        let pushed = session.parameters.push(batch, &reads, &gradients).await?;
        telemetry.push_seconds.record(done.elapsed());
        if pushed.duplicate {
            telemetry.duplicates.increment(1);
            continue;
        }
        outcome.steps += 1;
        outcome.examples += computed.examples as u64;
        outcome.loss = Some(computed.loss);
        outcome.first_step_seconds.get_or_insert_with(|| config.started.elapsed().as_secs_f64());
        outcome.train_seconds = before + session_start.elapsed().as_secs_f64();
        let counts = &session.heartbeat.counts;
        counts.steps.fetch_add(1, Ordering::Relaxed);
        counts.examples.fetch_add(computed.examples as u64, Ordering::Relaxed);
        counts.loss.store(computed.loss.to_bits(), Ordering::Relaxed);
        telemetry.steps.increment(1);
        telemetry.examples.increment(computed.examples as u64);
        telemetry.staleness_steps.record(pushed.staleness as f64);
        telemetry.global_step.set(pushed.global_step as f64);
        telemetry.loss.set(computed.loss);
        let moved = session.parameters.traffic();
        telemetry.pulled_bytes.increment(moved.pulled_bytes - traffic.pulled_bytes);
        telemetry.pushed_bytes.increment(moved.pushed_bytes - traffic.pushed_bytes);
        traffic = moved;
        let (steps, examples) = (outcome.steps, outcome.examples);
        (config.progress)(&Progress {
            global_step: pushed.global_step,
            steps,
            examples,
            loss: computed.loss,
        });
        log(config, &telemetry, outcome, pushed.global_step, &mut interval);
    }
}

/// Writes a line every `log_step_count_steps` steps of this task.
fn log(
    config: &Config,
    telemetry: &Telemetry,
    outcome: &Outcome,
    global_step: u64,
    interval: &mut (Instant, u64, u64),
) {
    let every = config.job.run.log_step_count_steps;
    if every == 0 || !outcome.steps.is_multiple_of(every) {
        return;
    }
    let (since, steps, examples) = *interval;
    let seconds = since.elapsed().as_secs_f64().max(1e-9);
    let steps_per_second = (outcome.steps - steps) as f64 / seconds;
    let examples_per_second = (outcome.examples - examples) as f64 / seconds;
    telemetry.steps_per_second.set(steps_per_second);
    telemetry.examples_per_second.set(examples_per_second);
    let loss = outcome.loss.map_or_else(String::new, |loss| format!("{loss:.5}"));
    let steps_per_second = format!("{steps_per_second:.1}");
    let examples_per_second = format!("{examples_per_second:.0}");
    info!(step = global_step, %loss, %steps_per_second, %examples_per_second, "training");
    *interval = (Instant::now(), outcome.steps, outcome.examples);
}

fn input_failure(error: PrefetchError<trainyard_model::Error>) -> Failure {
    Failure::Local(error.into())
}

fn not_finite(config: &Config, position: Position, loss: f64, outcome: &Outcome) -> Diagnostic {
    let Position { pass, shard, batch } = position;
    let message = format!("loss became {loss} ({}, batch pass {pass}/shard {shard}/{batch})", config.task);
    let problem =
        Diagnostic::error(Code::E5001, message).note("the update was not sent; parameters are finite");
    let problem = match outcome.loss {
        Some(last) => problem.note(format!("last finite loss {last:.4}")),
        None => problem,
    };
    problem.help("lower learning_rate, or look for extreme values in the data")
}
