//! The steps of one session.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use tokio_util::sync::CancellationToken;
use tracing::info;
use trainyard_cluster_client::{Error, Held, LeaveReason, PulledStep, Push, PushedStep, Step};
use trainyard_diagnostic::{Code, Diagnostic};
use trainyard_input::{Dataset, Position, Prefetch, PrefetchError};
use trainyard_model::{Model, Part, Shard, input_options};
use trainyard_optimizer::Clipping;
use trainyard_parameter_store::{BatchId, Ticket};
use trainyard_run_config::OptimizerSection;
use trainyard_variable::MOVING_AVERAGE;

use crate::Config;
use crate::Threads;
use crate::heartbeat::Directive;
use crate::outcome::{Outcome, Progress, into_diagnostic};
use crate::pipeline::{Ahead, Computed, Pipeline};
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
    shared: &Arc<M>,
    threads: &Threads,
    session: &mut Session,
    outcome: &mut Outcome,
    stop: &CancellationToken,
) -> Result<LeaveReason, Failure> {
    let model = &**shared;
    let input = open_input(config, shared, session)?;
    let clipping = config.job.train.clip_gradients.as_ref().map(clipping).transpose()?;
    (config.standing)("training", true, Vec::new());
    let now = Instant::now();
    let mut steps = Steps {
        config,
        before: outcome.train_seconds,
        interval: (now, outcome.steps, outcome.examples),
        session,
        outcome,
        input,
        telemetry: Telemetry::new(),
        session_start: now,
        pipeline: Pipeline::new(config.job.strategy.pipeline_depth),
        end: None,
    };
    let (mut scratch, mut computed) = (M::Scratch::default(), None);
    loop {
        steps.look_around(stop)?;
        steps.read_ahead(model, computed.take(), stop).await?;
        let Some(ahead) = steps.pipeline.pop() else {
            match steps.end.take() {
                Some(end) => return Ok(end),
                None => continue,
            }
        };
        let Some((position, features, pulled)) = steps.receive(ahead).await? else { continue };
        match pulled.ticket {
            Ticket::Granted => {}
            Ticket::Finished => {
                steps.end.get_or_insert(LeaveReason::Finished);
                continue;
            }
            Ticket::Wait => {
                steps.ask_again(position, features, pulled, stop).await;
                continue;
            }
        }
        // What was read ahead is another's to compute, or comes again, unless all that is left is to be computed.
        if steps.end.as_ref().is_some_and(|end| *end != LeaveReason::InputExhausted) {
            continue;
        }
        let began = Instant::now();
        let mut gradients = steps.pipeline.spare_gradients();
        // The features move along: they may be another thread's, but not two threads'.
        let (values, gradients_out, scratch) = (&pulled.held.values, &mut gradients, &mut scratch);
        let compute = move || model.train(&features, values, gradients_out, scratch);
        let done = steps.pipeline.compute(|| threads.run(compute)).map_err(Diagnostic::from)?;
        if let Some(clipping) = &clipping {
            // Moving averages have no gradients: what is pushed for them is how far they move.
            let variables = model.variables();
            clipping.apply(&mut gradients, |place| variables[place].optimizer_group != MOVING_AVERAGE);
        }
        if !done.loss.is_finite() {
            return Err(Failure::Local(not_finite(config, position, done.loss, steps.outcome)));
        }
        steps.telemetry.compute_seconds.record(began.elapsed());
        let batch = BatchId { pass: position.pass, shard: position.shard, batch: position.batch };
        steps.pipeline.keep(pulled.held);
        let push = Push { step: pulled.step, batch, gradients };
        computed = Some(Computed { push, examples: done.examples as u64, loss: done.loss });
    }
}

/// What a call pulls and pushes: a batch, and the examples and the loss of a step.
struct About<F> {
    batch: Option<(Position, F)>,
    pushed: Option<(u64, f64)>,
}

/// A session's steps: what is read ahead, and what is known of the rest.
struct Steps<'a, M: Model> {
    config: &'a Config,
    session: &'a mut Session,
    outcome: &'a mut Outcome,
    input: Input<M>,
    telemetry: Telemetry,
    session_start: Instant,
    /// Seconds of training before this session.
    before: f64,
    /// Time, steps and examples of the latest log line.
    interval: (Instant, u64, u64),
    pipeline: Pipeline<About<M::Features>>,
    /// Why no further batch is begun.
    end: Option<LeaveReason>,
}

impl<M: Model> Steps<'_, M> {
    /// Looks for a reason to begin no further batch.
    fn look_around(&mut self, stop: &CancellationToken) -> Result<(), Failure> {
        if stop.is_cancelled() {
            self.end.get_or_insert(LeaveReason::Shutdown);
        }
        match self.session.heartbeat.directive() {
            Directive::Train => {}
            Directive::End => {
                self.end.get_or_insert(LeaveReason::Finished);
            }
            Directive::Rejoin => {
                let refusal = trainyard_protocol::Refusal::new(
                    trainyard_protocol::Reason::Fenced,
                    "the chief does not know this session any more",
                );
                return Err(Failure::Cluster(Error::Refused { peer: "chief:0".to_owned(), refusal }));
            }
        }
        Ok(())
    }

    /// Asks for the parameters of as many batches as the pipeline holds. A computed step goes with the first of them;
    /// where none is begun, it goes alone.
    async fn read_ahead(
        &mut self,
        model: &M,
        mut computed: Option<Computed>,
        stop: &CancellationToken,
    ) -> Result<(), Failure> {
        while self.end.is_none() && self.pipeline.has_room() {
            let idle = self.pipeline.is_empty() && computed.is_none();
            if !idle && !self.input.is_ready() {
                break;
            }
            let began = Instant::now();
            self.telemetry.input_queue.set(self.input.fill().0 as f64);
            let item = tokio::select! {
                item = self.input.next() => item,
                () = stop.cancelled() => {
                    self.end = Some(LeaveReason::Shutdown);
                    break;
                }
            };
            let Some(item) = item else {
                self.end = Some(LeaveReason::InputExhausted);
                break;
            };
            self.telemetry.input_seconds.record(began.elapsed());
            let (position, features) = item.map_err(input_failure)?;
            let step = self.session.parameters.plan(&model.reads(&features));
            let held = self.pipeline.spare_held();
            self.send(computed.take(), Some(((position, features), step, held)));
        }
        if computed.is_some() {
            self.send(computed, None);
        }
        Ok(())
    }

    /// Sends a computed step, a pull, or both.
    fn send(&mut self, computed: Option<Computed>, pull: Option<((Position, M::Features), Step, Held)>) {
        let (push, pushed) = match computed {
            Some(Computed { push, examples, loss }) => (Some(push), Some((examples, loss))),
            None => (None, None),
        };
        let (batch, pull) = match pull {
            Some((batch, step, held)) => (Some(batch), Some((step, held))),
            None => (None, None),
        };
        self.pipeline.push(About { batch, pushed }, self.session.parameters.call(push, pull));
    }

    /// Waits for an answer: takes note of the step that was pushed, and returns the one that was pulled.
    async fn receive(
        &mut self,
        ahead: Ahead<About<M::Features>>,
    ) -> Result<Option<(Position, M::Features, PulledStep)>, Failure> {
        let began = Instant::now();
        let returned = ahead.call.returned().await?;
        self.telemetry.exchange_seconds.record(began.elapsed());
        self.telemetry.pulled_bytes.increment(returned.traffic.pulled_bytes);
        self.telemetry.pushed_bytes.increment(returned.traffic.pushed_bytes);
        if let (Some((pushed, gradients)), Some((examples, loss))) = (returned.pushed, ahead.about.pushed) {
            self.pipeline.keep_gradients(gradients);
            self.count(&pushed, examples, loss);
        }
        let batch = ahead.about.batch.zip(returned.pulled);
        Ok(batch.map(|((position, features), pulled)| (position, features, pulled)))
    }

    /// Asks once more for a step that has to wait for others.
    async fn ask_again(
        &mut self,
        position: Position,
        features: M::Features,
        pulled: PulledStep,
        stop: &CancellationToken,
    ) {
        if self.pipeline.is_empty() {
            tokio::select! {
                () = tokio::time::sleep(TICKET_POLL) => {}
                () = stop.cancelled() => {}
            }
        }
        let exhausted = self.end.as_ref().is_none_or(|end| *end == LeaveReason::InputExhausted);
        if !exhausted || stop.is_cancelled() {
            return;
        }
        // Behind those that are under way: one of them may hold the ticket that this one waits for.
        self.send(None, Some(((position, features), pulled.step, pulled.held)));
    }

    /// Takes note of a pushed step.
    fn count(&mut self, pushed: &PushedStep, examples: u64, loss: f64) {
        let (outcome, telemetry) = (&mut *self.outcome, &self.telemetry);
        if pushed.duplicate {
            telemetry.duplicates.increment(1);
            return;
        }
        outcome.steps += 1;
        outcome.examples += examples;
        outcome.loss = Some(loss);
        outcome.first_step_seconds.get_or_insert_with(|| self.config.started.elapsed().as_secs_f64());
        outcome.train_seconds = self.before + self.session_start.elapsed().as_secs_f64();
        let counts = &self.session.heartbeat.counts;
        counts.steps.fetch_add(1, Ordering::Relaxed);
        counts.examples.fetch_add(examples, Ordering::Relaxed);
        counts.loss.store(loss.to_bits(), Ordering::Relaxed);
        telemetry.steps.increment(1);
        telemetry.examples.increment(examples);
        telemetry.staleness_steps.record(pushed.staleness as f64);
        telemetry.global_step.set(pushed.global_step as f64);
        telemetry.loss.set(loss);
        (self.config.progress)(&Progress {
            global_step: pushed.global_step,
            steps: outcome.steps,
            examples: outcome.examples,
            loss,
        });
        log(self.config, telemetry, outcome, pushed.global_step, &mut self.interval);
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
