//! One step's arithmetic: from features and parameters to gradients.

use tokio::runtime::{Handle, RuntimeFlavor};
use tokio::time::Instant;
use trainyard_diagnostic::{Code, Diagnostic};
use trainyard_input::Position;
use trainyard_model::{Model, OnGradient};
use trainyard_optimizer::Clipping;
use trainyard_parameter_store::BatchId;
use trainyard_run_config::OptimizerSection;
use trainyard_variable::{Gradients, MOVING_AVERAGE, Read, Reads, Values};

use crate::feed::Prepared;
use crate::tally::Tally;
use crate::{Config, Threads};

/// A step that is being pushed.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Sent {
    pub(crate) position: Position,
    pub(crate) examples: u64,
    /// Absent where the batch had no good record.
    pub(crate) loss: Option<f64>,
}

impl Sent {
    pub(crate) fn batch(&self) -> BatchId {
        let Position { pass, shard, batch } = self.position;
        BatchId { pass, shard, batch }
    }
}

/// What computes the steps of a session.
pub(crate) struct Computing<'a, M: Model> {
    config: &'a Config,
    model: &'a M,
    threads: &'a Threads,
    clipping: Option<Clipping>,
    scratch: M::Scratch,
}

impl<'a, M: Model> Computing<'a, M> {
    pub(crate) fn new(config: &'a Config, model: &'a M, threads: &'a Threads) -> Result<Self, Diagnostic> {
        let clipping = config.job.train.clip_gradients.as_ref().map(clipping).transpose()?;
        Ok(Self { config, model, threads, clipping, scratch: M::Scratch::default() })
    }

    /// Computes the gradients of a batch. `busy` says that calls are under way, which this thread does not serve
    /// meanwhile. Those that are final while others are still computed are told of, but for what is clipped together.
    pub(crate) fn step(
        &mut self,
        prepared: Prepared<M::Features>,
        values: &Values,
        gradients: &mut Gradients,
        busy: bool,
        tally: &Tally<'_>,
        tell: &mut OnGradient<'_>,
    ) -> Result<Sent, Diagnostic> {
        let position = prepared.position;
        let Some(features) = prepared.features else {
            gradients.iter_mut().for_each(Vec::clear);
            gradients.resize_with(self.model.variables().len(), Vec::new);
            return Ok(Sent { position, examples: 0, loss: None });
        };
        let began = Instant::now();
        let (model, scratch, out) = (self.model, &mut self.scratch, &mut *gradients);
        // The features move along: they may be another thread's, but not two threads'.
        let clips = self.clipping.is_some();
        let compute = move || match clips {
            true => model.train(&features, values, out, scratch),
            false => model.train_telling(&features, values, out, scratch, tell),
        };
        let done = beside(busy, || self.threads.run(compute))?;
        if let Some(clipping) = &self.clipping {
            // Moving averages have no gradients: what is pushed for them is how far they move.
            let variables = model.variables();
            clipping.apply(gradients, |place| variables[place].optimizer_group != MOVING_AVERAGE);
        }
        if !done.loss.is_finite() {
            return Err(not_finite(self.config, position, done.loss, tally.last_loss()));
        }
        tally.telemetry.compute_seconds.record(began.elapsed());
        Ok(Sent { position, examples: done.examples as u64, loss: Some(done.loss) })
    }
}

/// Computes. Where calls are under way beside it, the runtime is told that this thread does not serve them for a while.
pub fn beside<R>(calls: bool, compute: impl FnOnce() -> R) -> R {
    let threads = Handle::current().runtime_flavor() == RuntimeFlavor::MultiThread;
    if calls && threads { tokio::task::block_in_place(compute) } else { compute() }
}

/// The job's bound on gradients.
fn clipping(section: &OptimizerSection) -> Result<Clipping, Diagnostic> {
    serde_json::from_value(section.fields().into())
        .map_err(|error| Diagnostic::error(Code::E1006, format!("train.clip_gradients: {error}")))
}

/// What a step over this batch reads. One without a good record reads nothing.
pub(crate) fn reads<M: Model>(model: &M, batch: &Prepared<M::Features>) -> Reads {
    match &batch.features {
        Some(features) => model.reads(features),
        None => vec![Read::Nothing; model.variables().len()],
    }
}

fn not_finite(config: &Config, position: Position, loss: f64, last: Option<f64>) -> Diagnostic {
    let Position { pass, shard, batch } = position;
    let message = format!("loss became {loss} ({}, batch pass {pass}/shard {shard}/{batch})", config.task);
    let problem =
        Diagnostic::error(Code::E5001, message).note("the update was not sent; parameters are finite");
    let problem = match last {
        Some(last) => problem.note(format!("last finite loss {last:.4}")),
        None => problem,
    };
    problem.help("lower learning_rate, or look for extreme values in the data")
}
