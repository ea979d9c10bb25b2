//! The steps of one session, each an update of its own.

use std::time::Duration;

use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use trainyard_cluster_client::{CachedParameters, PulledStep, Push, Step};
use trainyard_diagnostic::Diagnostic;
use trainyard_model::AnyModel;
use trainyard_parameter_store::Ticket;

use crate::batch_source::{BatchSource, Prepared};
use crate::compute::{Computing, reads};
use crate::failure::Failure;
use crate::outcome::Outcome;
use crate::pipeline::{Computed, InFlightCall, Pipeline};
use crate::session::Session;
use crate::step_metrics::{Sent, StepMetrics};
use crate::{Config, Hold, LeaveReason, Threads};

/// Interval of requests for a ticket while other tasks hold all of them.
const TICKET_POLL_INTERVAL: Duration = Duration::from_millis(5);

impl From<Diagnostic> for Failure {
    fn from(diagnostic: Diagnostic) -> Self {
        Self::Local(diagnostic)
    }
}

/// Trains until there is a reason to leave.
pub(crate) async fn train(
    config: &Config,
    model: &AnyModel,
    source: BatchSource,
    threads: &Threads,
    session: &mut Session,
    outcome: &mut Outcome,
    stop: &CancellationToken,
) -> Result<LeaveReason, Failure> {
    let mut computing = Computing::new(config, model, threads)?;
    (config.set_status)("training", true, Vec::new());
    let mut steps = Steps {
        metrics: StepMetrics::new(config, outcome, &session.heartbeat.counts),
        session,
        source,
        pipeline: Pipeline::new(config.job.strategy.pipeline_depth),
        end: None,
        behind_last_step: false,
        hold: config.hold.clone(),
        under_way: 0,
        pushed: None,
    };
    let mut computed = None;
    loop {
        steps.look_around(stop)?;
        if computed.is_some() {
            steps.wait_for_checkpoint(stop).await;
        }
        steps.read_ahead(model, computed.take(), stop).await?;
        let Some(ahead) = steps.pipeline.pop() else {
            match steps.end.take() {
                Some(LeaveReason::InputExhausted) if steps.behind_last_step => {
                    return Ok(LeaveReason::Finished);
                }
                Some(end) => return Ok(end),
                None => continue,
            }
        };
        let Some((prepared, pulled)) = steps.receive(ahead).await? else {
            continue;
        };
        match pulled.ticket {
            Ticket::Granted => {}
            Ticket::Finished => {
                steps.reach_last_step();
                continue;
            }
            Ticket::Wait => {
                steps.ask_again(prepared, pulled, stop).await;
                continue;
            }
        }
        // Other tasks compute the batches that were read ahead, or they are read again. At the end of the input they
        // are computed here.
        if steps
            .end
            .as_ref()
            .is_some_and(|end| *end != LeaveReason::InputExhausted)
        {
            continue;
        }
        let mut gradients = steps.pipeline.spare_gradients();
        let busy = !steps.pipeline.is_empty();
        let sent = computing.step(
            prepared,
            &pulled.held.values,
            &mut gradients,
            busy,
            &steps.metrics,
            &mut |_, _| {},
        )?;
        steps.pipeline.keep(pulled.held);
        let push = Push {
            step: pulled.step,
            batch: sent.batch(),
            batches: 1,
            micro_batch: None,
            stores: None,
            gradients,
            rejected: sent.rejected,
        };
        computed = Some(Computed { push, sent });
    }
}

/// The batch of a pull and the step of a push, in one call.
struct CallContext {
    batch: Option<Prepared>,
    pushed: Option<Sent>,
}

/// The steps of a session: those that are read ahead, and the state of the others.
struct Steps<'a> {
    metrics: StepMetrics<'a>,
    session: &'a mut Session,
    source: BatchSource,
    pipeline: Pipeline<CallContext>,
    /// The reason why no further batch begins.
    end: Option<LeaveReason>,
    /// Whether the last step has been applied. Only batches that some servers have applied and others have not are left
    /// then.
    behind_last_step: bool,
    hold: Option<Hold>,
    /// Number of pushed steps that have not been answered.
    under_way: u64,
    /// The global step once all pushed steps have been applied, if no other task trains. A reply may include steps
    /// after its own, so its global step is used only if no other push is in progress.
    pushed: Option<u64>,
}

impl Steps<'_> {
    /// Checks for a reason to begin no further batch.
    fn look_around(&mut self, stop: &CancellationToken) -> Result<(), Failure> {
        if stop.is_cancelled() {
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
    async fn read_ahead(
        &mut self,
        model: &AnyModel,
        mut computed: Option<Computed>,
        stop: &CancellationToken,
    ) -> Result<(), Failure> {
        while self.end.is_none() && self.pipeline.has_room() {
            let idle = self.pipeline.is_empty() && computed.is_none();
            if !idle && !self.source.is_ready() {
                break;
            }
            let began = Instant::now();
            self.metrics
                .telemetry
                .input_queue
                .set(self.source.waiting() as f64);
            let item = tokio::select! {
                item = self.source.next() => item?,
                () = stop.cancelled() => {
                    self.end = Some(LeaveReason::Shutdown);
                    break;
                }
            };
            let Some(prepared) = item else {
                self.end = Some(LeaveReason::InputExhausted);
                break;
            };
            self.metrics.waited_for_input(began.elapsed());
            if self.behind_last_step && !prepared.half_applied {
                continue;
            }
            let step = self
                .session
                .parameters
                .plan(&reads(model, &prepared))
                .half_applied(prepared.half_applied);
            let held = self.pipeline.spare_held();
            self.send(computed.take(), Some((prepared, step, held)));
        }
        if computed.is_some() {
            self.send(computed, None);
        }
        Ok(())
    }

    /// Waits, before another step is pushed, for the checkpoint of the step before it, if that step gets one.
    async fn wait_for_checkpoint(&mut self, stop: &CancellationToken) {
        let (Some(hold), Some(pushed)) = (&mut self.hold, self.pushed) else {
            return;
        };
        tokio::select! {
            () = hold.wait(pushed) => {}
            () = stop.cancelled() => {}
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
    ) -> Result<Option<(Prepared, PulledStep)>, Failure> {
        let began = Instant::now();
        let returned = ahead.call.returned().await?;
        self.metrics.exchanged(began.elapsed(), &returned.traffic);
        if let (Some((pushed, gradients)), Some(sent)) = (returned.pushed, ahead.about.pushed) {
            self.pipeline.keep_gradients(gradients);
            self.source.applied(sent.position);
            self.under_way = self.under_way.saturating_sub(1);
            if self.under_way == 0 {
                self.pushed = Some(pushed.global_step);
            } else if pushed.duplicate || pushed.rejected.is_some() || sent.rejected.is_some() {
                self.pushed = self.pushed.map(|step| step.saturating_sub(1));
            }
            self.metrics.count(&pushed, sent);
        }
        if let Some(pulled) = returned.pulled.as_ref().filter(|_| self.under_way == 0) {
            self.pushed.get_or_insert(pulled.global_step);
        }
        Ok(ahead.about.batch.zip(returned.pulled))
    }

    /// Repeats the request for a step that has to wait.
    async fn ask_again(
        &mut self,
        prepared: Prepared,
        pulled: PulledStep,
        stop: &CancellationToken,
    ) {
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
