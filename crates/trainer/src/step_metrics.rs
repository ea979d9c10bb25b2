//! Metrics of the steps of a task: counters, times, progress and log lines.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;
use tracing::{info, warn};
use trainyard_cluster_client::Traffic;
use trainyard_diagnostic::Diagnostic;
use trainyard_input::Position;
use trainyard_model::{AppliedStep, Callbacks};
use trainyard_parameter_store::Pushed;
use trainyard_parameter_store::{BatchId, Rejection};

use crate::Config;
use crate::heartbeat::StepCounters;
use crate::outcome::{Outcome, Progress};
use crate::telemetry::Telemetry;
use crate::training_task::TrainingTask;

/// A step that is being pushed.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Sent {
    pub(crate) position: Position,
    pub(crate) examples: u64,
    /// Loss; absent if the batch had no good record, was rejected, or its loss is not finite.
    pub(crate) loss: Option<f64>,
    /// Reason for which the gradients were rejected. None are sent then.
    pub(crate) rejected: Option<Rejection>,
}

pub(crate) fn batch_of(position: Position) -> BatchId {
    let Position { pass, shard, batch } = position;
    BatchId { pass, shard, batch }
}

impl Sent {
    pub(crate) fn batch(&self) -> BatchId {
        batch_of(self.position)
    }
}

/// Counts the steps of one session, on top of those of earlier sessions, and calls the callbacks.
pub(crate) struct StepMetrics<'a> {
    config: &'a Config,
    callbacks: Option<&'a dyn Callbacks>,
    /// The failure of a callback. The loop ends with it.
    failure: Option<Diagnostic>,
    outcome: &'a mut Outcome,
    counts: Arc<StepCounters>,
    pub(crate) telemetry: Telemetry,
    session_start: Instant,
    /// Seconds of training before this session.
    before: f64,
    /// Time at which the latest step was applied; at first, the start of the session.
    latest_step: Instant,
    /// Time, steps and examples at the latest log line.
    interval: (Instant, u64, u64),
}

impl<'a> StepMetrics<'a> {
    pub(crate) fn new(
        task: TrainingTask<'a>,
        outcome: &'a mut Outcome,
        counts: &Arc<StepCounters>,
    ) -> Self {
        let now = Instant::now();
        Self {
            config: task.config,
            callbacks: task.model.callbacks(),
            failure: None,
            counts: Arc::clone(counts),
            telemetry: Telemetry::new(),
            session_start: now,
            before: outcome.train_seconds,
            latest_step: now,
            interval: (now, outcome.steps, outcome.examples),
            outcome,
        }
    }

    /// Returns the failure of a callback.
    ///
    /// # Errors
    /// A callback has failed since the last call.
    pub(crate) fn callback_failure(&mut self) -> Result<(), Diagnostic> {
        self.failure.take().map_or(Ok(()), Err)
    }

    /// Returns whether the callbacks may end the job: the chief of this process asks them.
    pub(crate) fn callbacks_may_end(&self) -> bool {
        self.config.callbacks_end_job && self.callbacks.is_some()
    }

    /// Returns whether the callbacks end the job. No further step may be applied.
    pub(crate) fn callbacks_end(&self) -> bool {
        let asks = |callbacks: &dyn Callbacks| callbacks.end().is_some();
        self.config.callbacks_end_job && self.callbacks.is_some_and(asks)
    }

    pub(crate) fn last_loss(&self) -> Option<f64> {
        self.outcome.loss
    }

    /// Records time spent waiting for a batch.
    pub(crate) fn waited_for_input(&self, time: Duration) {
        self.telemetry.input_seconds.record(time);
        self.counts.input(time);
    }

    /// Records time spent waiting for servers, or for gradients of other members.
    pub(crate) fn waited_for_servers(&self, time: Duration) {
        self.telemetry.exchange_seconds.record(time);
        self.counts.exchange(time);
    }

    /// Records the time of a forward and backward pass.
    pub(crate) fn computed(&self, time: Duration) {
        self.telemetry.compute_seconds.record(time);
        self.counts.compute(time);
    }

    /// Records a round trip.
    pub(crate) fn exchanged(&self, time: Duration, traffic: &Traffic) {
        self.waited_for_servers(time);
        self.telemetry.pulled_bytes.increment(traffic.pulled_bytes);
        self.telemetry.pushed_bytes.increment(traffic.pushed_bytes);
    }

    /// Records a pushed step.
    pub(crate) fn count(&mut self, pushed: &Pushed, sent: Sent) {
        #[cfg(feature = "failpoints")]
        fail::fail_point!("worker.after_ack");
        let outcome = &mut *self.outcome;
        let telemetry = &self.telemetry;
        if pushed.stale {
            telemetry.stale.increment(1);
            return;
        }
        if pushed.duplicate && pushed.rejected.is_none() {
            telemetry.duplicates.increment(1);
            return;
        }
        if let Some(rejection) = sent.rejected.or(pushed.rejected) {
            telemetry.rejected(rejection.fault);
            if sent.rejected.is_none() {
                let batch = sent.batch();
                let what = rejection.describe(|_| None);
                warn!(task = %self.config.task, %batch, "batch rejected by a parameter server: {what}");
            }
            return;
        }
        let now = Instant::now();
        telemetry
            .step_seconds
            .record(now.duration_since(self.latest_step));
        self.latest_step = now;
        let examples = sent.examples;
        outcome.steps += 1;
        outcome.examples += examples;
        outcome.loss = sent.loss.or(outcome.loss);
        let loss = outcome.loss.unwrap_or_default();
        outcome
            .first_step_seconds
            .get_or_insert_with(|| self.config.started.elapsed().as_secs_f64());
        outcome.train_seconds = self.before + self.session_start.elapsed().as_secs_f64();
        self.counts.step(examples, loss, pushed.staleness);
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
        log(
            self.config,
            telemetry,
            outcome,
            pushed.global_step,
            &mut self.interval,
        );
        if let (Some(callbacks), None) = (self.callbacks, &self.failure) {
            let step = AppliedStep {
                global_step: pushed.global_step,
                task_steps: outcome.steps,
                examples,
                loss,
            };
            self.failure = callbacks.after_step(&step).err().map(Diagnostic::from);
        }
    }
}

/// Logs a line every `log_step_count_steps` steps of this task.
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
    let loss = outcome
        .loss
        .map_or_else(String::new, |loss| format!("{loss:.5}"));
    let steps_per_second = format!("{steps_per_second:.1}");
    let examples_per_second = format!("{examples_per_second:.0}");
    info!(step = global_step, %loss, %steps_per_second, %examples_per_second, "training");
    *interval = (Instant::now(), outcome.steps, outcome.examples);
}
