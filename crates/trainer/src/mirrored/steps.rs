//! The steps of one process group.

use std::sync::Arc;

use tokio::time::Instant;
use trainyard_cluster_client::{CachedParameters, Parameters, Push, ServerClient};
use trainyard_diagnostic::{Code, Diagnostic};
use trainyard_parameter_store::{BatchId, MicroBatch, OpenSession};

use super::gradient_reducer::GradientReducer;
use super::row_pushes::RowPushes;
use super::{Ended, Member, ProcessGroup};
use crate::batch_source::{BatchSource, Prepared};
use crate::compute::{Computing, reads};
use crate::failure::Failure;
use crate::outcome::Outcome;
use crate::replica::Replica;
use crate::session::Session;
use crate::step_metrics::Sent;
use crate::step_metrics::StepMetrics;
use crate::{Coordinator, LeaveReason};

/// A push to the member's own copy is a whole step.
const WHOLE_STEP: MicroBatch = MicroBatch { lane: 0, lanes: 1 };

/// A lane that this member computes.
struct Lane {
    number: u32,
    source: BatchSource,
    /// The next batch, and its step.
    next: Option<(u64, Prepared)>,
    ended: bool,
}

impl Lane {
    /// Reads the next batch of the lane, which may belong to a later step.
    async fn fill(&mut self, opened: u64) -> Result<(), Failure> {
        while self.next.is_none() && !self.ended {
            match self.source.next().await? {
                Some(batch) => {
                    if let Some((step, _)) = batch.place {
                        self.next = Some((self.source.version_of(step, opened), batch));
                    }
                }
                None => self.ended = true,
            }
        }
        Ok(())
    }
}

/// Runs the steps of one process group.
pub(super) async fn steps(
    member: &Member<'_>,
    replica: &Replica,
    session: &mut Session,
    coordinator: &Arc<dyn Coordinator>,
    group: &ProcessGroup,
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
    let ProcessGroup { formed, collective } = group;
    let own: Arc<dyn ServerClient> = Arc::new(replica.shard().clone());
    let mut shards = vec![own];
    shards.extend_from_slice(tables);
    // The session continues, and so do its sequence numbers.
    let opening = OpenSession {
        seq: session.parameters.seq(),
        layout_fingerprint: fingerprint,
        data_shard: 0,
    };
    let opening = Parameters::open(
        shards,
        Arc::clone(layout),
        session.identity,
        opening,
        config.connect_deadline,
    );
    let (parameters, _) = opening.await?;
    let opened = replica.opened();
    session.parameters = parameters.with_encoding(config.job.strategy.payload);
    session.opened = opened;
    let count = formed.lanes as usize;
    let members = formed.members.len().max(1);
    // Lanes are distributed to members in the order of ranks.
    let own = count * formed.rank / members..count * (formed.rank + 1) / members;
    let mut lanes = Vec::new();
    for number in own.map(|lane| lane as u32) {
        let source = BatchSource::granted(config, model, session, coordinator, Some(number))?;
        lanes.push(Lane {
            number,
            source,
            next: None,
            ended: false,
        });
    }
    let mut sum = GradientReducer::new(model.variables(), collective, tables.is_empty())?;
    let mut computing = Computing::new(config, &**model, threads)?;
    let mut metrics = StepMetrics::new(config, outcome, &session.heartbeat.counts);
    let mut held = CachedParameters::default();
    let mut version = opened.version;
    let mut global_step = replica.global_step();
    let mut next_batch = opened.batches_applied;
    (config.set_status)("training", true, Vec::new());
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
                        "lane {lane} is at step {step}, its process group is at step {version}"
                    )));
                }
                Some((_, batch)) => batches.push((lane.number, batch)),
                None => {}
            }
        }
        metrics.waited_for_input(began.elapsed());
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
            let sent = computing.step(batch, values, &mut gradients, true, &metrics, &mut tell)?;
            held = pulled.held;
            let rows = sum.add(place, lane, named, gradients);
            if !tables.is_empty() {
                // The rows of each batch are an update of their own. While they are sent, the other gradients are
                // summed.
                let push = Push {
                    step: pulled.step,
                    batch: sent.batch(),
                    batches: 1,
                    micro_batch: None,
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
                    metrics.exchanged(began.elapsed(), &pushed?.traffic);
                }
            }
            let examples = own.map_or(0, |own| own.examples) + sent.examples;
            own = Some(Sent { examples, ..sent });
        }
        let began = Instant::now();
        let goes = stop.is_cancelled() || session.heartbeat.regroup() == formed.generation;
        let summed = sum.finish(goes).await;
        while let Some(pushed) = pushes.next().await.map_err(|error| broken_push(&error))? {
            metrics.exchanged(began.elapsed(), &pushed?.traffic);
        }
        metrics.waited_for_servers(began.elapsed());
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
            micro_batch: Some(WHOLE_STEP),
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
                    "this replica has applied step {version} before"
                )));
            }
            sum.keep(gradients);
            global_step = pushed.global_step;
            match own {
                Some(sent) => metrics.count(&pushed, sent),
                None => metrics.telemetry.global_step.set(pushed.global_step as f64),
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

/// Returns the error for a state that must never occur: the copies would no longer be equal.
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
    let message = format!("this worker cannot read the gradients of another worker: {problem}");
    Failure::Local(
        Diagnostic::error(Code::E2007, message)
            .help("run the same release and the same job file on every host"),
    )
}
