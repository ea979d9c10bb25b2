//! The steps of one session, each part of a synchronous step (`tf.compat.v1.train.SyncReplicasOptimizer`).
//!
//! A step takes one batch of each lane. The chief says which lanes a task computes; two tasks may compute the same one,
//! and whoever is faster counts: the batches are the same, so are the gradients. A task that has fallen behind drops
//! what it has and goes on at the step of the others.
//!
//! Who dies may have given its part to some servers only. The step is complete where all servers have applied it: until
//! then its parts are of use, and are computed from the values before it. For the same reason nobody leaves before the
//! last step is complete.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use trainyard_cluster_client::{Held, PulledStep, Push};
use trainyard_model::AnyModel;
use trainyard_parameter_store::{Contribution, Ticket};
use trainyard_variable::{Gradients, Read};

use crate::compute::{Computing, reads};
use crate::feed::{Feed, Prepared};
use crate::outcome::Outcome;
use crate::pipeline::Computed;
use crate::session::Session;
use crate::step::Failure;
use crate::tally::Tally;
use crate::{Config, Coordinator, LeaveReason, Threads};

/// Time between looks at what the chief says, while there is nothing to do.
const LOOK: Duration = Duration::from_millis(20);

/// A lane that this task computes.
struct Lane {
    number: u32,
    feed: Feed,
    /// The batch that is computed next.
    next: Option<Part>,
    /// Version behind the latest step that was computed here.
    reached: u64,
    ended: bool,
}

/// A batch, and the step that it is part of.
struct Part {
    version: u64,
    contribution: Contribution,
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
    let tally = Tally::new(config, outcome, &session.heartbeat.counts);
    let version = session.opened.version;
    let mut steps = Steps {
        tally,
        session,
        lanes: Vec::new(),
        version,
        held: Held::default(),
        spare: Gradients::new(),
        computed: None,
    };
    (config.standing)("training", true, Vec::new());
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
                    () = tokio::time::sleep(LOOK) => {}
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
            // Either not all servers are there yet, or all are past this step.
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
            &steps.tally,
            &mut |_, _| {},
        )?;
        steps.held = pulled.held;
        steps.lanes[place].reached = part.version + 1;
        let contribution = Some(part.contribution);
        let push = Push {
            step: pulled.step,
            batch: sent.batch(),
            batches: 1,
            contribution,
            stores: None,
            gradients,
            rejected: sent.rejected,
        };
        steps.computed = Some(Computed { push, sent });
    }
}

/// A session's steps.
struct Steps<'a> {
    tally: Tally<'a>,
    session: &'a mut Session,
    lanes: Vec<Lane>,
    /// The step that all servers have reached, as far as is known here.
    version: u64,
    held: Held,
    spare: Gradients,
    /// A step that has not been sent.
    computed: Option<Computed>,
}

impl Steps<'_> {
    /// Takes lanes up and lays them down, as the chief says.
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
            let feed = Feed::granted(config, model, self.session, coordinator, Some(number))?;
            let reached = self.session.opened.version;
            self.lanes.push(Lane {
                number,
                feed,
                next: None,
                reached,
                ended: false,
            });
        }
        Ok(())
    }

    /// Finds the lane whose step comes first. Nothing where none has a batch: they have ended, or wait for their input.
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

    /// Gets the batch that a lane computes next, past those whose step is over.
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
            lane.feed.skip_to(useful, opened);
            if !lane.feed.is_ready() && self.computed.is_some() {
                // Others wait for it.
                self.exchange(None).await?;
                continue;
            }
            let began = Instant::now();
            let Ok(read) = tokio::time::timeout(LOOK, lane.feed.next()).await else {
                return Ok(());
            };
            self.tally.waited_for_input(began.elapsed());
            let Some(batch) = read? else {
                lane.ended = true;
                return Ok(());
            };
            let Some((step, contribution)) = batch.place else {
                continue;
            };
            let version = lane.feed.version_of(step, opened);
            lane.next = Some(Part {
                version,
                contribution,
                batch,
            });
        }
    }

    /// Returns the version behind the last step of the data, once no lane of this task has another batch.
    fn last_version(&self) -> Option<u64> {
        let ended = !self.lanes.is_empty() && self.lanes.iter().all(|lane| lane.ended);
        let left = self
            .lanes
            .iter()
            .map(|lane| lane.feed.steps_in_all())
            .max()
            .filter(|_| ended)?;
        Some(self.session.opened.version.saturating_add(left))
    }

    /// Waits for a version that others complete, for a while: meanwhile one of them may die, and its lane become this
    /// task's.
    async fn wait_for_others(&mut self, version: u64, variables: usize) -> Result<Ticket, Failure> {
        let step = self
            .session
            .parameters
            .plan(&vec![Read::Nothing; variables])
            .at(version);
        let Some(pulled) = self.exchange(Some((step, Held::default()))).await? else {
            return Ok(Ticket::Wait);
        };
        self.session.parameters.take_back(&pulled.step);
        self.version = self.version.max(pulled.reached);
        Ok(pulled.ticket)
    }

    /// Sends what has been computed, and asks for values.
    async fn exchange(
        &mut self,
        pull: Option<(trainyard_cluster_client::Step, Held)>,
    ) -> Result<Option<PulledStep>, Failure> {
        let (push, sent) = match self.computed.take() {
            Some(Computed { push, sent }) => (Some(push), Some(sent)),
            None if pull.is_none() => return Ok(None),
            None => (None, None),
        };
        let began = Instant::now();
        let returned = self.session.parameters.call(push, pull).await?;
        self.tally.exchanged(began.elapsed(), &returned.traffic);
        if let (Some((pushed, gradients)), Some(sent)) = (returned.pushed, sent) {
            self.spare = gradients;
            self.version = self.version.max(pushed.version);
            self.tally.count(&pushed, sent);
        }
        Ok(returned.pulled)
    }
}
