//! Asynchronous updates: each batch is an update of its own, at the parameter servers. Tickets bound the steps.

use std::collections::VecDeque;
use std::ops::ControlFlow;
use std::time::Duration;

use tokio::time::Instant;
use trainyard_cluster_client::{CachedParameters, PulledStep, Step};
use trainyard_parameter_store::Ticket;
use trainyard_variable::Gradients;

use super::{ComputedBatch, Exchange, PulledBatch, Turn, push_of_batch};
use crate::batch_source::{BatchSource, Prepared};
use crate::compute::reads;
use crate::failure::Failure;
use crate::pipeline::{Computed, InFlightCall, Pipeline};
use crate::session::Session;
use crate::step_metrics::{Sent, StepMetrics};
use crate::training_task::TrainingTask;
use crate::{Hold, LeaveReason};

/// Interval of requests for a ticket while other tasks hold all of them.
const TICKET_POLL_INTERVAL: Duration = Duration::from_millis(5);

/// The batch of a pull and the step of a push, in one call.
struct CallContext {
    batch: Option<Prepared>,
    pushed: Option<Sent>,
}

/// The steps of a session: those that are read ahead, and the state of the others.
pub(crate) struct Asynchronous<'a> {
    task: TrainingTask<'a>,
    session: &'a mut Session,
    source: BatchSource,
    pipeline: Pipeline<CallContext>,
    /// Batches with their parameters, which are computed next.
    pulled: VecDeque<(Prepared, PulledStep)>,
    /// The step that was computed and not sent.
    computed: Option<Computed>,
    /// The reason why no further batch begins.
    end: Option<LeaveReason>,
    /// The last step has been applied. Only batches that some servers have applied and others have not are left
    /// then.
    behind_last_step: bool,
    hold: Option<Hold>,
    /// Number of pushed steps that have not been answered.
    under_way: u64,
    /// The global step once all pushed steps have been applied, if no other task trains. A reply may include steps
    /// after its own, so its global step is used only if no other push is in progress.
    pushed: Option<u64>,
}

impl<'a> Asynchronous<'a> {
    /// Returns the exchange of a session before its first step.
    pub(crate) fn new(
        task: TrainingTask<'a>,
        session: &'a mut Session,
        source: BatchSource,
    ) -> Self {
        Self {
            session,
            source,
            pipeline: Pipeline::new(task.config.job.strategy.pipeline_depth),
            pulled: VecDeque::new(),
            computed: None,
            end: None,
            behind_last_step: false,
            hold: task.config.hold.clone(),
            under_way: 0,
            pushed: None,
            task,
        }
    }

    /// Checks for a reason to begin no further batch.
    fn look_around(&mut self) -> Result<(), Failure> {
        if self.task.stop.is_cancelled() {
            self.end.get_or_insert(LeaveReason::Shutdown);
        }
        if let Some(end) = self.session.told()? {
            self.end.get_or_insert(end);
        }
        Ok(())
    }

    /// Records that the last step has been applied. If the chief hands out the data, it knows which batches must still
    /// be completed.
    fn reach_last_step(&mut self) {
        if self.source.is_granted() {
            self.behind_last_step = true;
        } else {
            self.end.get_or_insert(LeaveReason::Finished);
        }
    }

    /// Requests the parameters of as many batches as the pipeline holds. A computed step is sent with the first of
    /// these requests, or alone if there is none.
    async fn read_ahead(&mut self, metrics: &StepMetrics<'_>) -> Result<(), Failure> {
        while self.end.is_none() && self.pipeline.has_room(self.pulled.len()) {
            let idle =
                self.pipeline.is_empty() && self.pulled.is_empty() && self.computed.is_none();
            if !idle && !self.source.is_ready() {
                break;
            }
            let began = Instant::now();
            let waiting = self.source.waiting() as f64;
            metrics.telemetry.input_queue.set(waiting);
            let item = tokio::select! {
                item = self.source.next() => item?,
                () = self.task.stop.cancelled() => {
                    self.end = Some(LeaveReason::Shutdown);
                    break;
                }
            };
            let Some(prepared) = item else {
                self.end = Some(LeaveReason::InputExhausted);
                break;
            };
            metrics.waited_for_input(began.elapsed());
            if self.behind_last_step && !prepared.half_applied {
                continue;
            }
            let step = self
                .session
                .parameters
                .plan(&reads(&**self.task.model, &prepared));
            let step = if prepared.half_applied {
                step.half_applied()
            } else {
                step
            };
            let held = self.pipeline.spare_held();
            let computed = self.computed.take();
            self.send(computed, Some((prepared, step, held)));
        }
        if let Some(computed) = self.computed.take() {
            self.send(Some(computed), None);
        }
        Ok(())
    }

    /// Waits for the replies to all calls, so that callbacks have received every step that was pushed.
    async fn settle(&mut self, metrics: &mut StepMetrics<'_>) -> Result<(), Failure> {
        while let Some(ahead) = self.pipeline.pop() {
            let pulled = self.receive(ahead, metrics).await?;
            self.pulled.extend(pulled);
        }
        Ok(())
    }

    /// Waits, before another step is pushed, for the checkpoint of the step before it, if that step gets one.
    async fn wait_for_checkpoint(&mut self) {
        let (Some(hold), Some(pushed)) = (&mut self.hold, self.pushed) else {
            return;
        };
        tokio::select! {
            () = hold.wait(pushed) => {}
            () = self.task.stop.cancelled() => {}
        }
    }

    /// Sends a computed step, a pull, or both.
    fn send(
        &mut self,
        computed: Option<Computed>,
        pull: Option<(Prepared, Step, CachedParameters)>,
    ) {
        let (push, pushed) = match computed {
            Some(Computed { push, sent }) => (Some(push), Some(sent)),
            None => (None, None),
        };
        if push.is_some() {
            self.under_way += 1;
            self.pushed = self.pushed.map(|step| step + 1);
        }
        let (batch, pull) = match pull {
            Some((batch, step, held)) => (Some(batch), Some((step, held))),
            None => (None, None),
        };
        self.pipeline.push(
            CallContext { batch, pushed },
            self.session.parameters.call(push, pull),
        );
    }

    /// Waits for a reply. Records the step that was pushed, and returns the one that was pulled.
    async fn receive(
        &mut self,
        ahead: InFlightCall<CallContext>,
        metrics: &mut StepMetrics<'_>,
    ) -> Result<Option<(Prepared, PulledStep)>, Failure> {
        let began = Instant::now();
        let returned = ahead.call.returned().await?;
        metrics.exchanged(began.elapsed(), &returned.traffic);
        if let (Some((pushed, gradients)), Some(sent)) = (returned.pushed, ahead.about.pushed) {
            self.pipeline.keep_gradients(gradients);
            self.source.applied(sent.position);
            self.under_way = self.under_way.saturating_sub(1);
            if self.under_way == 0 {
                self.pushed = Some(pushed.global_step);
            } else if pushed.duplicate || pushed.rejected.is_some() || sent.rejected.is_some() {
                self.pushed = self.pushed.map(|step| step.saturating_sub(1));
            }
            metrics.count(&pushed, sent);
        }
        if let Some(pulled) = returned.pulled.as_ref().filter(|_| self.under_way == 0) {
            self.pushed.get_or_insert(pulled.global_step);
        }
        Ok(ahead.about.batch.zip(returned.pulled))
    }

    /// Repeats the request for a step that has to wait.
    async fn ask_again(&mut self, prepared: Prepared, pulled: PulledStep) {
        let stop = self.task.stop;
        if self.pipeline.is_empty() {
            tokio::select! {
                () = tokio::time::sleep(TICKET_POLL_INTERVAL) => {}
                () = stop.cancelled() => {}
            }
        }
        let exhausted = self
            .end
            .as_ref()
            .is_none_or(|end| *end == LeaveReason::InputExhausted);
        if !exhausted || stop.is_cancelled() {
            return;
        }
        // The request follows those in progress, one of which may hold the ticket that it waits for.
        self.send(None, Some((prepared, pulled.step, pulled.held)));
    }
}

impl Exchange for Asynchronous<'_> {
    type Part = ();
    type End = LeaveReason;

    async fn next(
        &mut self,
        metrics: &mut StepMetrics<'_>,
    ) -> Result<Turn<(), LeaveReason>, Failure> {
        loop {
            self.look_around()?;
            if metrics.callbacks_may_end() && self.computed.is_some() {
                // The step after the one at which a callback ends the job must not be pushed.
                self.settle(metrics).await?;
            }
            if metrics.callbacks_end() {
                self.computed = None;
                self.settle(metrics).await?;
                let end = self.session.end_of_job(self.task.stop).await?;
                return Ok(ControlFlow::Break(end));
            }
            if self.computed.is_some() {
                self.wait_for_checkpoint().await;
            }
            self.read_ahead(metrics).await?;
            let mut next = self.pulled.pop_front();
            if next.is_none() {
                let Some(ahead) = self.pipeline.pop() else {
                    match self.end.take() {
                        Some(LeaveReason::InputExhausted) if self.behind_last_step => {
                            return Ok(ControlFlow::Break(LeaveReason::Finished));
                        }
                        Some(end) => return Ok(ControlFlow::Break(end)),
                        None => continue,
                    }
                };
                next = self.receive(ahead, metrics).await?;
            }
            let Some((batch, pulled)) = next else {
                continue;
            };
            match pulled.ticket {
                Ticket::Granted => {}
                Ticket::Finished => {
                    self.reach_last_step();
                    continue;
                }
                Ticket::Wait => {
                    self.ask_again(batch, pulled).await;
                    continue;
                }
            }
            // Other tasks compute the batches that were read ahead, or they are read again. At the end of the input
            // they are computed here.
            if matches!(self.end, None | Some(LeaveReason::InputExhausted)) {
                return Ok(ControlFlow::Continue(PulledBatch {
                    batch,
                    step: pulled.step,
                    held: pulled.held,
                    part: (),
                }));
            }
        }
    }

    fn spare_gradients(&mut self) -> Gradients {
        self.pipeline.spare_gradients()
    }

    fn has_calls(&self) -> bool {
        !self.pipeline.is_empty()
    }

    /// Keeps the step until it is sent with the next pull.
    async fn computed(
        &mut self,
        computed: ComputedBatch<()>,
        _metrics: &mut StepMetrics<'_>,
    ) -> Result<(), Failure> {
        self.pipeline.keep(computed.held);
        let sent = computed.sent;
        let mut push = push_of_batch(computed.step, sent.batch(), computed.gradients);
        push.rejected = sent.rejected;
        self.computed = Some(Computed { push, sent });
        Ok(())
    }
}
