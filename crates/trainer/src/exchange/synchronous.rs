//! Synchronous updates: each batch is a micro-batch of a synchronous step at the parameter servers
//! (`tf.compat.v1.train.SyncReplicasOptimizer`).
//!
//! A step takes one batch of each lane. The chief decides which lanes a task computes. Two tasks may compute the same
//! lane, and the faster one counts: their batches are the same, and so are their gradients. A task that has fallen
//! behind drops its batches and continues at the step of the others.
//!
//! A task that dies may have sent its micro-batch to some servers only. A step is complete when all servers have
//! applied it. Until then its micro-batches are needed, and are computed from the values before the step. For the same
//! reason no task leaves before the last step is complete.

use std::ops::ControlFlow;
use std::time::Duration;

use tokio::time::Instant;
use trainyard_cluster_client::{CachedParameters, PulledStep, Step};
use trainyard_parameter_store::{MicroBatch, Ticket};
use trainyard_variable::{Gradients, Read, StepNumber};

use super::lane::Lane;
use super::{ComputedBatch, Exchange, PulledBatch, Turn, push_of_batch};
use crate::LeaveReason;
use crate::compute::reads;
use crate::failure::Failure;
use crate::pipeline::Computed;
use crate::session::Session;
use crate::step_metrics::StepMetrics;
use crate::training_task::TrainingTask;

/// Interval at which the chief's directive is checked while there is nothing to do.
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// The micro-batch that is computed, and the place of its lane.
pub(crate) struct LanePart {
    place: usize,
    step: StepNumber,
    micro_batch: MicroBatch,
}

/// The lanes of a session, and the state of its steps.
pub(crate) struct Synchronous<'a> {
    task: TrainingTask<'a>,
    session: &'a mut Session,
    lanes: Vec<Lane>,
    /// The step that all servers have reached, as far as this task knows.
    reached: StepNumber,
    held: CachedParameters,
    spare: Gradients,
    /// A computed step that has not been sent.
    computed: Option<Computed>,
}

impl<'a> Synchronous<'a> {
    /// Returns the exchange of a session before its first step.
    pub(crate) fn new(task: TrainingTask<'a>, session: &'a mut Session) -> Self {
        Self {
            task,
            reached: session.opened_step(),
            session,
            lanes: Vec::new(),
            held: CachedParameters::default(),
            spare: Gradients::new(),
            computed: None,
        }
    }

    /// Adds and removes lanes, as the chief requires.
    fn settle_lanes(&mut self) -> Result<(), Failure> {
        let wanted = self.session.heartbeat.lanes();
        self.lanes.retain(|lane| wanted.contains(&lane.number));
        for number in wanted {
            if self.lanes.iter().any(|lane| lane.number == number) {
                continue;
            }
            let lane = Lane::open(self.task, self.session, number)?;
            self.lanes.push(lane);
        }
        Ok(())
    }

    /// Returns the lane with the earliest step. `None` if no lane has a batch: all lanes have ended, or wait for their
    /// input.
    async fn next_lane(&mut self, metrics: &mut StepMetrics<'_>) -> Result<Option<usize>, Failure> {
        let mut first: Option<(StepNumber, usize)> = None;
        for place in 0..self.lanes.len() {
            self.fill(place, metrics).await?;
            let Some(part) = &self.lanes[place].next else {
                continue;
            };
            if first.is_none_or(|(step, _)| part.step < step) {
                first = Some((part.step, place));
            }
        }
        Ok(first.map(|(_, place)| place))
    }

    /// Reads the next batch of a lane, and skips batches of steps that are over.
    async fn fill(&mut self, place: usize, metrics: &mut StepMetrics<'_>) -> Result<(), Failure> {
        loop {
            let lane = &mut self.lanes[place];
            lane.skip_to(self.reached);
            if lane.next.is_some() || lane.is_ended {
                return Ok(());
            }
            lane.skip_input();
            if !lane.source.is_ready() && self.computed.is_some() {
                // Other tasks wait for the computed step.
                self.call(None, metrics).await?;
                continue;
            }
            let began = Instant::now();
            let Ok(read) = tokio::time::timeout(POLL_INTERVAL, lane.source.next()).await else {
                return Ok(());
            };
            metrics.waited_for_input(began.elapsed());
            lane.receive(read?);
        }
    }

    /// Returns the number after the last step of the data, once no lane of this task has another batch.
    fn last_step(&self) -> Option<StepNumber> {
        let ended = !self.lanes.is_empty() && self.lanes.iter().all(|lane| lane.is_ended);
        let left = self
            .lanes
            .iter()
            .map(|lane| lane.source.steps_in_all())
            .max()
            .filter(|_| ended)?;
        Some(self.session.opened_step().after(left))
    }

    /// Waits for a while until other tasks have reached a step. Meanwhile one of them may die, and the chief may give
    /// its lane to this task.
    async fn wait_for_others(
        &mut self,
        last: StepNumber,
        metrics: &mut StepMetrics<'_>,
    ) -> Result<Ticket, Failure> {
        let variables = self.task.model.variables().len();
        let step = self
            .session
            .parameters
            .plan(&vec![Read::Nothing; variables])
            .at(last);
        let Some(pulled) = self
            .call(Some((step, CachedParameters::default())), metrics)
            .await?
        else {
            return Ok(Ticket::Wait);
        };
        self.session.parameters.take_back(&pulled.step);
        self.reached = self.reached.max(StepNumber::new(pulled.reached));
        Ok(pulled.ticket)
    }

    /// Sends the computed step, and requests values.
    async fn call(
        &mut self,
        pull: Option<(Step, CachedParameters)>,
        metrics: &mut StepMetrics<'_>,
    ) -> Result<Option<PulledStep>, Failure> {
        let (push, sent) = match self.computed.take() {
            Some(Computed { push, sent }) => (Some(push), Some(sent)),
            None if pull.is_none() => return Ok(None),
            None => (None, None),
        };
        let began = Instant::now();
        let returned = self.session.parameters.call(push, pull).await?;
        metrics.exchanged(began.elapsed(), &returned.traffic);
        if let (Some((pushed, gradients)), Some(sent)) = (returned.pushed, sent) {
            self.spare = gradients;
            self.reached = self.reached.max(StepNumber::new(pushed.version));
            metrics.count(&pushed, sent);
        }
        Ok(returned.pulled)
    }
}

impl Exchange for Synchronous<'_> {
    type Part = LanePart;
    type End = LeaveReason;

    async fn next(
        &mut self,
        metrics: &mut StepMetrics<'_>,
    ) -> Result<Turn<LanePart, LeaveReason>, Failure> {
        let stop = self.task.stop;
        loop {
            if metrics.callbacks_end() {
                // A batch of a later step is not sent.
                self.computed = None;
                return Ok(ControlFlow::Break(self.session.end_of_job(stop).await?));
            }
            let end = if stop.is_cancelled() {
                Some(LeaveReason::Shutdown)
            } else {
                self.session.told()?
            };
            if let Some(end) = end {
                self.call(None, metrics).await?;
                return Ok(ControlFlow::Break(end));
            }
            self.settle_lanes()?;
            let Some(place) = self.next_lane(metrics).await? else {
                self.call(None, metrics).await?;
                match self.last_step() {
                    Some(last) if self.reached >= last => {
                        return Ok(ControlFlow::Break(LeaveReason::InputExhausted));
                    }
                    Some(last) => {
                        if self.wait_for_others(last, metrics).await? == Ticket::Finished {
                            return Ok(ControlFlow::Break(LeaveReason::Finished));
                        }
                    }
                    None => tokio::select! {
                        () = tokio::time::sleep(POLL_INTERVAL) => {}
                        () = stop.cancelled() => {}
                    },
                }
                continue;
            };
            let Some(next) = self.lanes[place].next.take() else {
                continue;
            };
            let step = self
                .session
                .parameters
                .plan(&reads(&**self.task.model, &next.batch))
                .at(next.step);
            let held = std::mem::take(&mut self.held);
            let Some(pulled) = self.call(Some((step, held)), metrics).await? else {
                continue;
            };
            if pulled.ticket == Ticket::Finished {
                return Ok(ControlFlow::Break(LeaveReason::Finished));
            }
            let reached = StepNumber::new(pulled.reached);
            self.reached = self.reached.max(reached);
            if pulled.ticket == Ticket::Wait || reached > next.step {
                // Either some servers have not reached this step, or all are past it.
                self.session.parameters.take_back(&pulled.step);
                self.held = pulled.held;
                if reached <= next.step {
                    self.lanes[place].next = Some(next);
                }
                continue;
            }
            return Ok(ControlFlow::Continue(PulledBatch {
                batch: next.batch,
                step: pulled.step,
                held: pulled.held,
                part: LanePart {
                    place,
                    step: next.step,
                    micro_batch: next.micro_batch,
                },
            }));
        }
    }

    fn spare_gradients(&mut self) -> Gradients {
        std::mem::take(&mut self.spare)
    }

    fn has_calls(&self) -> bool {
        false
    }

    /// Keeps the step until it is sent with the next pull.
    async fn computed(
        &mut self,
        computed: ComputedBatch<LanePart>,
        _metrics: &mut StepMetrics<'_>,
    ) -> Result<(), Failure> {
        let part = computed.part;
        let sent = computed.sent;
        self.held = computed.held;
        self.lanes[part.place].skip_to(part.step.next());
        let mut push = push_of_batch(computed.step, sent.batch(), computed.gradients);
        push.micro_batch = Some(part.micro_batch);
        push.rejected = sent.rejected;
        self.computed = Some(Computed { push, sent });
        Ok(())
    }
}
