//! The training loop, and the exchange of parameters and gradients in which its strategies differ.
//!
//! The loop pulls the parameters of a batch, computes its gradients and pushes them. An [`Exchange`] decides which batch
//! is next, where its parameters come from and how its gradients become an update. Each strategy is one file.

mod allreduce;
mod asynchronous;
mod lane;
mod synchronous;

use std::future::Future;
use std::ops::ControlFlow;
use std::sync::Arc;

use trainyard_cluster_client::{CachedParameters, Push, Step};
use trainyard_model::HookedGradients;
use trainyard_parameter_store::BatchId;
use trainyard_variable::Gradients;

use crate::LoopStatus;
use crate::batch_source::Prepared;
use crate::compute::{Computing, Pulled, beside};
use crate::failure::Failure;
use crate::heartbeat::StepCounters;
use crate::outcome::Outcome;
use crate::step_metrics::{Sent, StepMetrics};
use crate::training_task::TrainingTask;

pub(crate) use allreduce::{Allreduce, Ended, Member, ProcessGroup};
pub(crate) use asynchronous::Asynchronous;
pub(crate) use synchronous::Synchronous;

/// A strategy: the order of batches, the source of parameters and the use of gradients.
pub(crate) trait Exchange: Send {
    /// The part of a step that a batch is.
    type Part: Send + Sync;
    /// The reason why the loop ends.
    type End: Send;

    /// Exchanges what has been computed, and returns the next batch with its parameters.
    ///
    /// # Errors
    /// The session or the input has failed.
    fn next(
        &mut self,
        metrics: &mut StepMetrics<'_>,
    ) -> impl Future<Output = Result<Turn<Self::Part, Self::End>, Failure>> + Send;

    /// Returns buffers for the gradients of a batch.
    fn spare_gradients(&mut self) -> Gradients;

    /// Returns whether calls are in progress while a batch is computed.
    fn has_calls(&self) -> bool;

    /// Receives the gradient of a variable as soon as it is final.
    fn gradient_ready(&mut self, _part: &Self::Part, _variable: usize, _gradient: &[f32]) {}

    /// Receives a batch that has been computed.
    ///
    /// # Errors
    /// The session has failed.
    fn computed(
        &mut self,
        computed: ComputedBatch<Self::Part>,
        metrics: &mut StepMetrics<'_>,
    ) -> impl Future<Output = Result<(), Failure>> + Send;
}

/// The next turn of the loop: a batch to compute, or the end.
pub(crate) type Turn<P, E> = ControlFlow<E, PulledBatch<P>>;

/// A batch and the parameters that it reads.
pub(crate) struct PulledBatch<P> {
    pub(crate) batch: Prepared,
    pub(crate) step: Step,
    pub(crate) held: CachedParameters,
    pub(crate) part: P,
}

/// A batch that has been computed.
pub(crate) struct ComputedBatch<P> {
    pub(crate) sent: Sent,
    pub(crate) gradients: Gradients,
    pub(crate) step: Step,
    pub(crate) held: CachedParameters,
    pub(crate) part: P,
}

/// Returns the push of one batch to all stores. A strategy changes what differs.
fn push_of_batch(step: Step, batch: BatchId, gradients: Gradients) -> Push {
    Push {
        step,
        batch,
        batches: 1,
        micro_batch: None,
        optimizer_step: None,
        stores: None,
        gradients,
        rejected: None,
    }
}

/// Trains until the exchange ends.
///
/// # Errors
/// The session, the input, the computation or a callback has failed.
pub(crate) async fn train<E: Exchange>(
    task: TrainingTask<'_>,
    counters: &Arc<StepCounters>,
    outcome: &mut Outcome,
    exchange: &mut E,
) -> Result<E::End, Failure> {
    let mut computing = Computing::new(task.config, &**task.model, task.threads)?;
    let mut metrics = StepMetrics::new(task, outcome, counters);
    (task.config.set_status)(LoopStatus::ready("training"));
    loop {
        let PulledBatch {
            batch,
            mut step,
            held,
            part,
        } = match exchange.next(&mut metrics).await? {
            ControlFlow::Continue(pulled) => pulled,
            ControlFlow::Break(end) => {
                metrics.callback_failure()?;
                return Ok(end);
            }
        };
        metrics.callback_failure()?;
        let mut gradients = exchange.spare_gradients();
        let has_calls = exchange.has_calls();
        let hooked = HookedGradients {
            gradients: &mut gradients,
            hook: &mut |variable, gradient| exchange.gradient_ready(&part, variable, gradient),
        };
        let pulled = Pulled {
            step: &mut step,
            held: &held,
        };
        let compute = || computing.step(batch, pulled, hooked, &metrics);
        let sent = if has_calls {
            beside(compute)?
        } else {
            compute()?
        };
        let computed = ComputedBatch {
            sent,
            gradients,
            step,
            held,
            part,
        };
        exchange.computed(computed, &mut metrics).await?;
    }
}
