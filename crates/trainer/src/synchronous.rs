//! The steps of one session, each a micro-batch of a synchronous step (`tf.compat.v1.train.SyncReplicasOptimizer`).
//!
//! A step takes one batch of each lane. The chief decides which lanes a task computes. Two tasks may compute the same
//! lane, and the faster one counts: their batches are the same, and so are their gradients. A task that has fallen
//! behind drops its batches and continues at the step of the others.
//!
//! A task that dies may have sent its micro-batch to some servers only. A step is complete when all servers have
//! applied it. Until then its micro-batches are needed, and are computed from the values before the step. For the same
//! reason no task leaves before the last step is complete.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use trainyard_cluster_client::{CachedParameters, PulledStep, Push};
use trainyard_model::AnyModel;
use trainyard_parameter_store::{MicroBatch, Ticket};
use trainyard_variable::{Gradients, Read};

use crate::batch_source::{BatchSource, Prepared};
use crate::compute::{Computing, reads};
use crate::failure::Failure;
use crate::outcome::Outcome;
use crate::pipeline::Computed;
use crate::session::Session;
use crate::step_metrics::StepMetrics;
use crate::{Config, Coordinator, LeaveReason, Threads};

/// Interval at which the chief's directive is checked while there is nothing to do.
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// A lane that this task computes.
struct Lane {
    number: u32,
    source: BatchSource,
    /// The next batch to compute.
    next: Option<Part>,
    /// Version after the latest step that was computed here.
    reached: u64,
    ended: bool,
}

/// A batch, and its synchronous step.
struct Part {
    version: u64,
    micro_batch: MicroBatch,
    batch: Prepared,
}

/// Trains until there is a reason to leave.
pub(crate) async fn train(
    config: &Config,
    model: &Arc<AnyModel>,
    threads: &Threads,
    session: &mut Session,
    coordinator: &Arc<dyn Coordinator>,
    outcome: &mut Outcome,
    stop: &CancellationToken,
) -> Result<LeaveReason, Failure> {
    let mut computing = Computing::new(config, &**model, threads)?;
    let metrics = StepMetrics::new(config, outcome, &session.heartbeat.counts);
    let version = session.opened.version;
    let mut steps = Steps {
        metrics,
        session,
        lanes: Vec::new(),
        version,
        held: CachedParameters::default(),
        spare: Gradients::new(),
        computed: None,
    };
    (config.set_status)("training", true, Vec::new());
    loop {
        let end = if stop.is_cancelled() {
            Some(LeaveReason::Shutdown)
        } else {
            steps.session.told()?
        };
        if let Some(end) = end {
            steps.exchange(None).await?;
            return Ok(end);
        }
        steps.settle_lanes(config, model, coordinator)?;
        let Some(place) = steps.next_lane().await? else {
            steps.exchange(None).await?;
            match steps.last_version() {
                Some(last) if steps.version >= last => return Ok(LeaveReason::InputExhausted),
                Some(last) => {
                    if steps.wait_for_others(last, model.variables().len()).await?
                        == Ticket::Finished
                    {
                        return Ok(LeaveReason::Finished);
                    }
                }
                None => tokio::select! {
                    () = tokio::time::sleep(POLL_INTERVAL) => {}
                    () = stop.cancelled() => {}
                },
            }
            continue;
        };
        let Some(part) = steps.lanes[place].next.take() else {
            continue;
        };
        let step = steps
            .session
            .parameters
            .plan(&reads(&**model, &part.batch))
            .at(part.version);
        let held = std::mem::take(&mut steps.held);
        let Some(pulled) = steps.exchange(Some((step, held))).await? else {
            continue;
        };
        if pulled.ticket == Ticket::Finished {
            return Ok(LeaveReason::Finished);
        }
        steps.version = steps.version.max(pulled.reached);
        if pulled.ticket == Ticket::Wait || pulled.reached > part.version {
            // Either some servers have not reached this step, or all are past it.
            steps.session.parameters.take_back(&pulled.step);
            steps.held = pulled.held;
            if pulled.reached <= part.version {
                steps.lanes[place].next = Some(part);
            }
            continue;
        }
        let mut gradients = std::mem::take(&mut steps.spare);
        let sent = computing.step(
            part.batch,
            &pulled.held.values,
            &mut gradients,
            false,
            &steps.metrics,
            &mut |_, _| {},
        )?;
        steps.held = pulled.held;
        steps.lanes[place].reached = part.version + 1;
        let micro_batch = Some(part.micro_batch);
        let push = Push {
            step: pulled.step,
            batch: sent.batch(),
            batches: 1,
            micro_batch,
            stores: None,
            gradients,
            rejected: sent.rejected,
        };
        steps.computed = Some(Computed { push, sent });
    }
}

/// A session's steps.
struct Steps<'a> {
    metrics: StepMetrics<'a>,
    session: &'a mut Session,
    lanes: Vec<Lane>,
    /// The step that all servers have reached, as far as this task knows.
    version: u64,
    held: CachedParameters,
    spare: Gradients,
    /// A computed step that has not been sent.
    computed: Option<Computed>,
}

impl Steps<'_> {
    /// Adds and removes lanes, as the chief requires.
    fn settle_lanes(
        &mut self,
        config: &Config,
        model: &Arc<AnyModel>,
        coordinator: &Arc<dyn Coordinator>,
    ) -> Result<(), Failure> {
        let wanted = self.session.heartbeat.lanes();
        self.lanes.retain(|lane| wanted.contains(&lane.number));
        for number in wanted {
            if self.lanes.iter().any(|lane| lane.number == number) {
                continue;
            }
            let source =
                BatchSource::granted(config, model, self.session, coordinator, Some(number))?;
            let reached = self.session.opened.version;
            self.lanes.push(Lane {
                number,
                source,
                next: None,
                reached,
                ended: false,
            });
        }
        Ok(())
    }

    /// Returns the lane with the earliest step. `None` if no lane has a batch: all lanes have ended, or wait for their
    /// input.
    async fn next_lane(&mut self) -> Result<Option<usize>, Failure> {
        let mut first: Option<(u64, usize)> = None;
        for place in 0..self.lanes.len() {
            self.fill(place).await?;
            let Some(part) = &self.lanes[place].next else {
                continue;
            };
            if first.is_none_or(|(version, _)| part.version < version) {
                first = Some((part.version, place));
            }
        }
        Ok(first.map(|(_, place)| place))
    }

    /// Reads the next batch of a lane, and skips batches of steps that are over.
    async fn fill(&mut self, place: usize) -> Result<(), Failure> {
        loop {
            let lane = &mut self.lanes[place];
            let useful = self.version.max(lane.reached);
            if lane.next.as_ref().is_some_and(|part| part.version < useful) {
                lane.next = None;
            }
            if lane.next.is_some() || lane.ended {
                return Ok(());
            }
            let opened = self.session.opened.version;
            lane.source.skip_to(useful, opened);
            if !lane.source.is_ready() && self.computed.is_some() {
                // Other tasks wait for the computed step.
                self.exchange(None).await?;
                continue;
            }
            let began = Instant::now();
            let Ok(read) = tokio::time::timeout(POLL_INTERVAL, lane.source.next()).await else {
                return Ok(());
            };
            self.metrics.waited_for_input(began.elapsed());
            let Some(batch) = read? else {
                lane.ended = true;
                return Ok(());
            };
            let Some((step, micro_batch)) = batch.place else {
                continue;
            };
            let version = lane.source.version_of(step, opened);
            lane.next = Some(Part {
                version,
                micro_batch,
                batch,
            });
        }
    }

    /// Returns the version after the last step of the data, once no lane of this task has another batch.
    fn last_version(&self) -> Option<u64> {
        let ended = !self.lanes.is_empty() && self.lanes.iter().all(|lane| lane.ended);
        let left = self
            .lanes
            .iter()
            .map(|lane| lane.source.steps_in_all())
            .max()
            .filter(|_| ended)?;
        Some(self.session.opened.version.saturating_add(left))
    }

    /// Waits for a while until other tasks complete a version. Meanwhile one of them may die, and the chief may give
    /// its lane to this task.
    async fn wait_for_others(&mut self, version: u64, variables: usize) -> Result<Ticket, Failure> {
        let step = self
            .session
            .parameters
            .plan(&vec![Read::Nothing; variables])
            .at(version);
        let Some(pulled) = self
            .exchange(Some((step, CachedParameters::default())))
            .await?
        else {
            return Ok(Ticket::Wait);
        };
        self.session.parameters.take_back(&pulled.step);
        self.version = self.version.max(pulled.reached);
        Ok(pulled.ticket)
    }

    /// Sends the computed step, and requests values.
    async fn exchange(
        &mut self,
        pull: Option<(trainyard_cluster_client::Step, CachedParameters)>,
    ) -> Result<Option<PulledStep>, Failure> {
        let (push, sent) = match self.computed.take() {
            Some(Computed { push, sent }) => (Some(push), Some(sent)),
            None if pull.is_none() => return Ok(None),
            None => (None, None),
        };
        let began = Instant::now();
        let returned = self.session.parameters.call(push, pull).await?;
        self.metrics.exchanged(began.elapsed(), &returned.traffic);
        if let (Some((pushed, gradients)), Some(sent)) = (returned.pushed, sent) {
            self.spare = gradients;
            self.version = self.version.max(pushed.version);
            self.metrics.count(&pushed, sent);
        }
        Ok(returned.pulled)
    }
}
