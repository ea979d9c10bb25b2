//! The steps of one group.

use std::sync::Arc;

use tokio::time::Instant;
use trainyard_cluster_client::{Held, Parameters, Push, Shard};
use trainyard_diagnostic::{Code, Diagnostic};
use trainyard_parameter_store::{BatchId, Contribution, Identity};

use super::row_pushes::RowPushes;
use super::sum::Sum;
use super::{Circle, Ended, Member};
use crate::compute::{Computing, Sent, reads};
use crate::feed::{Feed, Prepared};
use crate::outcome::Outcome;
use crate::replica::Replica;
use crate::session::{Session, encoding};
use crate::step::Failure;
use crate::tally::Tally;
use crate::{Coordinator, LeaveReason};

/// What is pushed to the own copy is the whole step.
const WHOLE_STEP: Contribution = Contribution { slot: 0, of: 1 };

/// A lane that this member computes.
struct Lane {
    number: u32,
    feed: Feed,
    /// The next batch, and its step.
    next: Option<(u64, Prepared)>,
    ended: bool,
}

impl Lane {
    /// Gets the batch that comes next; it may be one of a later step.
    async fn fill(&mut self, opened: u64) -> Result<(), Failure> {
        while self.next.is_none() && !self.ended {
            match self.feed.next().await? {
                Some(batch) => {
                    if let Some((step, _)) = batch.place {
                        self.next = Some((self.feed.version_of(step, opened), batch));
                    }
                }
                None => self.ended = true,
            }
        }
        Ok(())
    }
}

/// The steps of one group.
pub(super) async fn steps(
    member: &Member<'_>,
    replica: &Replica,
    session: &mut Session,
    coordinator: &Arc<dyn Coordinator>,
    circle: &Circle,
    outcome: &mut Outcome,
) -> Result<Ended, Failure> {
    let Member {
        config,
        model,
        threads,
        layout,
        fingerprint,
        tables,
        stop,
        ..
    } = *member;
    let Circle { formed, collective } = circle;
    let mut shards = vec![Shard::Local(replica.shard().clone())];
    shards.extend_from_slice(tables);
    // The session goes on, and so do its numbers.
    let identity = Identity {
        seq: session.parameters.seq(),
        ..session.identity
    };
    let opening = Parameters::open(
        shards,
        Arc::clone(layout),
        identity,
        fingerprint,
        0,
        config.connect_deadline,
    );
    let (parameters, _) = opening.await?;
    let opened = replica.opened();
    session.parameters = parameters.with_encoding(encoding(config.job.strategy.payload));
    session.opened = opened;
    let count = formed.lanes as usize;
    let members = formed.members.len().max(1);
    // In the order of ranks, the lanes are in theirs.
    let own = count * formed.rank / members..count * (formed.rank + 1) / members;
    let mut lanes = Vec::new();
    for number in own.map(|lane| lane as u32) {
        let feed = Feed::granted(config, model, session, coordinator, Some(number))?;
        lanes.push(Lane {
            number,
            feed,
            next: None,
            ended: false,
        });
    }
    let mut sum = Sum::new(model.variables(), collective, tables.is_empty())?;
    let mut computing = Computing::new(config, &**model, threads)?;
    let mut tally = Tally::new(config, outcome, &session.heartbeat.counts);
    let mut held = Held::default();
    let mut version = opened.version;
    let mut global_step = replica.global_step();
    let mut next_batch = opened.batches_applied;
    (config.standing)("training", true, Vec::new());
    loop {
        if config
            .job
            .train
            .max_steps
            .is_some_and(|most| global_step >= most)
        {
            return Ok(Ended::Leave(LeaveReason::Finished));
        }
        if let Some(told) = session.told()? {
            collective.abort("the job has ended");
            return Ok(Ended::Leave(told));
        }
        let began = Instant::now();
        let mut batches = Vec::with_capacity(lanes.len());
        for lane in &mut lanes {
            tokio::select! {
                filled = lane.fill(opened.version) => filled?,
                error = collective.ended() => return Ok(Ended::Broken(error.diagnostic())),
            }
            match lane.next.take_if(|(step, _)| *step <= version) {
                Some((step, _)) if step < version => {
                    let lane = lane.number;
                    return Err(fault(format!(
                        "lane {lane} is at step {step}, its group at {version}"
                    )));
                }
                Some((_, batch)) => batches.push((lane.number, batch)),
                None => {}
            }
        }
        tally.waited_for_input(began.elapsed());
        sum.begin(version + 1, batches.len());
        let mut pushes = RowPushes::new();
        let mut own = None::<Sent>;
        for (place, (lane, batch)) in batches.into_iter().enumerate() {
            let named = reads(&**model, &batch);
            let step = session.parameters.plan(&named);
            let returned = session.parameters.call(None, Some((step, held))).await?;
            let Some(pulled) = returned.pulled else {
                return Ok(Ended::Leave(LeaveReason::Finished));
            };
            let mut gradients = sum.memory();
            let mut tell = |variable: usize, gradient: &[f32]| sum.take(place, variable, gradient);
            let values = &pulled.held.values;
            let sent = computing.step(batch, values, &mut gradients, true, &tally, &mut tell)?;
            held = pulled.held;
            let rows = sum.add(place, lane, named, gradients);
            if !tables.is_empty() {
                // Each batch's rows are updates of their own; while they travel, the rest is added up.
                let push = Push {
                    step: pulled.step,
                    batch: sent.batch(),
                    batches: 1,
                    contribution: None,
                    stores: Some(1..1 + tables.len()),
                    gradients: rows,
                    rejected: None,
                };
                let push = session.parameters.call(Some(push), None);
                if let Some(pushed) = pushes
                    .begin(push)
                    .await
                    .map_err(|error| broken_push(&error))?
                {
                    tally.exchanged(began.elapsed(), &pushed?.traffic);
                }
            }
            let examples = own.map_or(0, |own| own.examples) + sent.examples;
            own = Some(Sent { examples, ..sent });
        }
        let began = Instant::now();
        let goes = stop.is_cancelled() || session.heartbeat.regroup() == formed.generation;
        let summed = sum.finish(goes).await;
        while let Some(pushed) = pushes.next().await.map_err(|error| broken_push(&error))? {
            tally.exchanged(began.elapsed(), &pushed?.traffic);
        }
        tally.waited_for_servers(began.elapsed());
        let summed = match summed {
            Ok(summed) => summed,
            Err(error) => return Ok(Ended::Broken(error.diagnostic())),
        };
        let count = summed.count;
        let regroup = summed.regroup;
        if count == 0 {
            return Ok(Ended::Leave(LeaveReason::InputExhausted));
        }
        let (named, gradients) = sum
            .mean(summed)
            .map_err(|problem| broken_message(&problem))?;
        let step = session.parameters.plan_push(&named, version);
        let batch = BatchId {
            pass: 0,
            shard: 0,
            batch: next_batch,
        };
        let push = Push {
            step,
            batch,
            batches: count as u32,
            contribution: Some(WHOLE_STEP),
            stores: Some(0..1),
            gradients,
            rejected: None,
        };
        let returned = session.parameters.call(Some(push), None).await?;
        next_batch += count;
        version += 1;
        if let Some((pushed, gradients)) = returned.pushed {
            if pushed.duplicate {
                return Err(fault(format!(
                    "step {version} has been applied to this copy before"
                )));
            }
            sum.keep(gradients);
            global_step = pushed.global_step;
            match own {
                Some(sent) => tally.count(&pushed, sent),
                None => tally.telemetry.global_step.set(pushed.global_step as f64),
            }
        }
        if stop.is_cancelled() && regroup {
            return Ok(Ended::Leave(LeaveReason::Shutdown));
        }
        if regroup {
            return Ok(Ended::Regroup);
        }
    }
}

/// What must never happen: the copies would not be equal any more.
fn fault(what: String) -> Failure {
    Failure::Local(
        Diagnostic::error(Code::E9001, what)
            .help("please report this, with the log of every worker"),
    )
}

fn broken_push(error: &tokio::task::JoinError) -> Failure {
    Failure::Local(Diagnostic::error(
        Code::E9001,
        format!("a push to the servers has failed: {error}"),
    ))
}

fn broken_message(problem: &str) -> Failure {
    let message = format!("gradients of another worker cannot be read: {problem}");
    Failure::Local(
        Diagnostic::error(Code::E2007, message)
            .help("run the same release and job file on every host"),
    )
}
