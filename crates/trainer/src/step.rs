//! The steps of one session, each an update of its own.

use std::time::Duration;

use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use trainyard_cluster_client::{Error, Held, PulledStep, Push, Step};
use trainyard_diagnostic::Diagnostic;
use trainyard_model::AnyModel;
use trainyard_parameter_store::Ticket;

use crate::compute::{Computing, Sent, reads};
use crate::feed::{Feed, Prepared};
use crate::outcome::{Outcome, into_diagnostic};
use crate::pipeline::{Ahead, Computed, Pipeline};
use crate::session::Session;
use crate::tally::Tally;
use crate::{Config, Hold, LeaveReason, Threads};

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

/// Trains until there is a reason to leave.
pub(crate) async fn train(
    config: &Config,
    model: &AnyModel,
    feed: Feed,
    threads: &Threads,
    session: &mut Session,
    outcome: &mut Outcome,
    stop: &CancellationToken,
) -> Result<LeaveReason, Failure> {
    let mut computing = Computing::new(config, model, threads)?;
    (config.standing)("training", true, Vec::new());
    let mut steps = Steps {
        tally: Tally::new(config, outcome, &session.heartbeat.counts),
        session,
        feed,
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
        // What was read ahead is another's to compute, or comes again, unless all that is left is to be computed.
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
            &steps.tally,
            &mut |_, _| {},
        )?;
        steps.pipeline.keep(pulled.held);
        let push = Push {
            step: pulled.step,
            batch: sent.batch(),
            batches: 1,
            contribution: None,
            stores: None,
            gradients,
            rejected: sent.rejected,
        };
        computed = Some(Computed { push, sent });
    }
}

/// What a call pulls and pushes.
struct About {
    batch: Option<Prepared>,
    pushed: Option<Sent>,
}

/// A session's steps: what is read ahead, and what is known of the rest.
struct Steps<'a> {
    tally: Tally<'a>,
    session: &'a mut Session,
    feed: Feed,
    pipeline: Pipeline<About>,
    /// Why no further batch is begun.
    end: Option<LeaveReason>,
    /// Whether the last step has been applied: what is left are batches that some servers have applied and others have not.
    behind_last_step: bool,
    hold: Option<Hold>,
    /// Steps that were pushed and are not answered.
    under_way: u64,
    /// The global step once all that was pushed has been applied, as far as nobody else trains. An answer may know of steps
    /// behind its own: it tells where nothing else is under way.
    pushed: Option<u64>,
}

impl Steps<'_> {
    /// Looks for a reason to begin no further batch.
    fn look_around(&mut self, stop: &CancellationToken) -> Result<(), Failure> {
        if stop.is_cancelled() {
            self.end.get_or_insert(LeaveReason::Shutdown);
        }
        if let Some(end) = self.session.told()? {
            self.end.get_or_insert(end);
        }
        Ok(())
    }

    /// Takes note that the last step has been applied. The chief knows which batches are to be completed, and when there are
    /// none, where it hands out the data.
    fn reach_last_step(&mut self) {
        if self.feed.is_granted() {
            self.behind_last_step = true;
        } else {
            self.end.get_or_insert(LeaveReason::Finished);
        }
    }

    /// Asks for the parameters of as many batches as the pipeline holds. A computed step goes with the first of them;
    /// where none is begun, it goes alone.
    async fn read_ahead(
        &mut self,
        model: &AnyModel,
        mut computed: Option<Computed>,
        stop: &CancellationToken,
    ) -> Result<(), Failure> {
        while self.end.is_none() && self.pipeline.has_room() {
            let idle = self.pipeline.is_empty() && computed.is_none();
            if !idle && !self.feed.is_ready() {
                break;
            }
            let began = Instant::now();
            self.tally
                .telemetry
                .input_queue
                .set(self.feed.waiting() as f64);
            let item = tokio::select! {
                item = self.feed.next() => item?,
                () = stop.cancelled() => {
                    self.end = Some(LeaveReason::Shutdown);
                    break;
                }
            };
            let Some(prepared) = item else {
                self.end = Some(LeaveReason::InputExhausted);
                break;
            };
            self.tally.waited_for_input(began.elapsed());
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

    /// Waits, before another step is pushed, for the checkpoint of the one before it, if that is to have one.
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
    fn send(&mut self, computed: Option<Computed>, pull: Option<(Prepared, Step, Held)>) {
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
            About { batch, pushed },
            self.session.parameters.call(push, pull),
        );
    }

    /// Waits for an answer: takes note of the step that was pushed, and returns the one that was pulled.
    async fn receive(
        &mut self,
        ahead: Ahead<About>,
    ) -> Result<Option<(Prepared, PulledStep)>, Failure> {
        let began = Instant::now();
        let returned = ahead.call.returned().await?;
        self.tally.exchanged(began.elapsed(), &returned.traffic);
        if let (Some((pushed, gradients)), Some(sent)) = (returned.pushed, ahead.about.pushed) {
            self.pipeline.keep_gradients(gradients);
            self.feed.applied(sent.position);
            self.under_way = self.under_way.saturating_sub(1);
            if self.under_way == 0 {
                self.pushed = Some(pushed.global_step);
            } else if pushed.duplicate || pushed.rejected.is_some() || sent.rejected.is_some() {
                self.pushed = self.pushed.map(|step| step.saturating_sub(1));
            }
            self.tally.count(&pushed, sent);
        }
        if let Some(pulled) = returned.pulled.as_ref().filter(|_| self.under_way == 0) {
            self.pushed.get_or_insert(pulled.global_step);
        }
        Ok(ahead.about.batch.zip(returned.pulled))
    }

    /// Asks once more for a step that has to wait for others.
    async fn ask_again(
        &mut self,
        prepared: Prepared,
        pulled: PulledStep,
        stop: &CancellationToken,
    ) {
        if self.pipeline.is_empty() {
            tokio::select! {
                () = tokio::time::sleep(TICKET_POLL) => {}
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
        // Behind those that are under way: one of them may hold the ticket that this one waits for.
        self.send(None, Some((prepared, pulled.step, pulled.held)));
    }
}
