//! Training with parameters in every worker (`tf.distribute.MultiWorkerMirroredStrategy`, `MirroredStrategy`).
//!
//! At each step every member computes the batches of its lanes, all add up their gradients, and each applies the same mean
//! to its own copy: the copies stay equal bit for bit. When a member dies or comes, the group is formed anew at the last
//! step that anybody has finished, and whoever is behind takes the parameters over from one who is not.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;
use tracing::{info, warn};
use trainyard_cluster_client::{Held, Parameters, Push, Shard, retry};
use trainyard_collective::{Collective, Plan as BucketPlan};
use trainyard_diagnostic::{Action, Code, Diagnostic, Waiting};
use trainyard_model::Model;
use trainyard_parameter_store::{BatchId, Contribution, Identity};
use trainyard_variable::{Access, Gradients, Layout, Read, Reads, VariableSpec};

use crate::compute::{Computing, Sent, reads};
use crate::feed::{Feed, Prepared};
use crate::meeting::Meeting;
use crate::outcome::Outcome;
use crate::replica::{Replica, clear_handover};
use crate::session::{Session, encoding};
use crate::sparse::{SparsePart, decode, encode, merge};
use crate::step::Failure;
use crate::tally::Tally;
use crate::{Config, Coordinator, Form, Formed, Forming, LeaveReason, Threads};

/// Bytes of gradients that travel together, at most (`tf.distribute.experimental.CommunicationOptions.bytes_per_pack`).
const BUCKET_BYTES: usize = 4 << 20;
/// Number of the exchanges before the first step of a group.
const HANDSHAKE: u64 = 0;
/// Number of the exchange behind the last step.
const FAREWELL: u64 = u64::MAX;
/// Numbers that travel with the gradients: parts of the step, wishes to form the group anew, and the sum of losses.
const CONTROL: usize = 3;

/// What a member is given beside its configuration.
pub(crate) struct Member<'a, M: Model> {
    pub(crate) config: &'a Config,
    pub(crate) model: &'a Arc<M>,
    pub(crate) threads: &'a Threads,
    pub(crate) layout: &'a Arc<Layout>,
    pub(crate) fingerprint: u64,
    pub(crate) meeting: &'a Meeting,
    /// Servers of what is not read whole, under the hybrid strategy.
    pub(crate) tables: &'a [Shard],
    pub(crate) stop: &'a CancellationToken,
}

/// A group, and this member's seat in it.
struct Circle {
    formed: Formed,
    collective: Collective,
}

/// Why the steps of a group have ended.
enum Ended {
    /// The task leaves.
    Leave(LeaveReason),
    /// Somebody waits to join, or goes: all members have agreed at a step.
    Regroup,
    /// A member is gone.
    Broken(Diagnostic),
}

/// Trains in groups, one after the other, until there is a reason to leave.
pub(crate) async fn train<M: Model, C: Coordinator>(
    member: &Member<'_, M>,
    replica: &mut Replica,
    session: &mut Session,
    coordinator: &C,
    outcome: &mut Outcome,
) -> Result<LeaveReason, Failure> {
    let (config, stop) = (member.config, member.stop);
    let mut generation = 0;
    loop {
        (config.standing)("waiting", false, vec!["the other workers".to_owned()]);
        let Some(formed) = form(config, session, coordinator, generation, stop).await? else {
            return Ok(if stop.is_cancelled() { LeaveReason::Shutdown } else { LeaveReason::Finished });
        };
        generation = formed.generation;
        let joined = &session.joined;
        let control = Identity { session: 0, ..session.identity };
        replica.ready(config, control, &formed).await?;
        let ended = match member.meeting.join(joined.cluster_id, joined.epoch, &formed).await {
            Err(problem) => Ended::Broken(problem),
            Ok(collective) => {
                let circle = Circle { formed, collective };
                let trained = match agree(config, replica, control, &circle).await {
                    Ok(Ok(())) => steps(member, replica, session, coordinator, &circle, outcome).await,
                    Ok(Err(problem)) => Ok(Ended::Broken(problem)),
                    Err(failure) => Err(failure),
                };
                match trained {
                    Ok(ended) => {
                        if !matches!(ended, Ended::Broken(_)) {
                            // Who leaves ends the group: all are to have had the last step before. Whoever hears no
                            // answer has had it.
                            drop(circle.collective.all_gather(FAREWELL, 0, Bytes::new()).await);
                        }
                        circle.collective.leave().await;
                        ended
                    }
                    Err(failure) => {
                        circle.collective.abort("it cannot go on");
                        return Err(failure);
                    }
                }
            }
        };
        match ended {
            Ended::Leave(reason) => return Ok(reason),
            Ended::Regroup => info!(generation, "the group is formed anew: its members change"),
            Ended::Broken(problem) => {
                warn!(generation, "{}; the group is formed anew from the last step", problem.message);
            }
        }
    }
}

/// Waits until the chief has formed the next group. Nothing where the job is over, or the token says stop.
async fn form<C: Coordinator>(
    config: &Config,
    session: &Session,
    coordinator: &C,
    generation: u64,
    stop: &CancellationToken,
) -> Result<Option<Formed>, Failure> {
    let started = Instant::now();
    let mut waiting = Waiting::new(config.task.to_string(), "the other workers", config.connect_deadline);
    let name = coordinator.name();
    loop {
        if stop.is_cancelled() || session.told()?.is_some() {
            return Ok(None);
        }
        let ask = Form { pulse: session.pulse.clone(), generation };
        let asked =
            retry(&session.identity, &name, config.connect_deadline, || coordinator.form(ask.clone()));
        let missing = match asked.await? {
            Forming::Formed(formed) => return Ok(Some(formed)),
            Forming::Waits { waiting_for } => waiting_for,
        };
        (config.standing)("waiting", false, missing.clone());
        match waiting.tick(started.elapsed(), &format!("not here: {}", missing.join(", "))) {
            Action::Wait => {}
            Action::Notice(notice) => warn!("{notice}"),
            Action::GiveUp(problem) => return Err(Failure::Local(*problem)),
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// Brings all members to the same parameters: those of whoever has come farthest. Within, why the group has broken.
async fn agree(
    config: &Config,
    replica: &mut Replica,
    identity: Identity,
    circle: &Circle,
) -> Result<Result<(), Diagnostic>, Failure> {
    let Circle { formed, collective } = circle;
    let gather = async |bucket: u32, bytes: Bytes| {
        collective.all_gather(HANDSHAKE, bucket, bytes).await.map_err(|error| error.diagnostic())
    };
    let own = replica.version().unwrap_or(0);
    let versions: Vec<u64> = match gather(0, Bytes::copy_from_slice(&own.to_le_bytes())).await {
        Ok(told) => told.iter().map(|bytes| version(bytes)).collect(),
        Err(problem) => return Ok(Err(problem)),
    };
    let most = versions.iter().max().copied().unwrap_or(own);
    let behind = versions.iter().filter(|version| **version < most).count();
    info!(generation = formed.generation, members = versions.len(), step = most, behind, "the group stands");
    if behind == 0 {
        return Ok(Ok(()));
    }
    let root = versions.iter().position(|version| *version == most).unwrap_or(0);
    let gives = root == formed.rank;
    let path = match gives {
        true => replica.hand_over(config, identity, formed.generation).await?,
        false => std::path::PathBuf::new(),
    };
    let told = match gather(1, Bytes::from(path.to_string_lossy().into_owned())).await {
        Ok(told) => told,
        Err(problem) => return Ok(Err(problem)),
    };
    if own < most
        && let Some(path) = told.get(root)
    {
        replica.take_over(identity, String::from_utf8_lossy(path).as_ref().as_ref()).await?;
    }
    // What was handed over is there until everybody has it.
    let had = gather(2, Bytes::new()).await;
    if gives {
        clear_handover(config, identity.epoch, formed.generation);
    }
    Ok(had.map(drop))
}

fn version(bytes: &[u8]) -> u64 {
    bytes.first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes))
}

/// A lane that this member computes.
struct Lane<M: Model> {
    number: u32,
    feed: Feed<M>,
    /// The next batch, with its step, its place and what it is.
    next: Option<(u64, Contribution, Prepared<M::Features>)>,
    ended: bool,
}

impl<M: Model> Lane<M> {
    /// Gets the batch that comes next; it may be one of a later step.
    async fn fill(&mut self, opened: u64) -> Result<(), Failure> {
        while self.next.is_none() && !self.ended {
            match self.feed.next().await? {
                Some(batch) => {
                    if let Some((step, place)) = batch.place {
                        let step = opened + (step - self.feed.origin().min(step));
                        self.next = Some((step, place, batch));
                    }
                }
                None => self.ended = true,
            }
        }
        Ok(())
    }
}

/// The steps of one group.
async fn steps<M: Model, C: Coordinator>(
    member: &Member<'_, M>,
    replica: &Replica,
    session: &mut Session,
    coordinator: &C,
    circle: &Circle,
    outcome: &mut Outcome,
) -> Result<Ended, Failure> {
    let Member { config, model, threads, layout, fingerprint, tables, stop, .. } = *member;
    let Circle { formed, collective } = circle;
    let mut shards = vec![Shard::Local(replica.shard().clone())];
    shards.extend_from_slice(tables);
    // The session goes on, and so do its numbers.
    let identity = Identity { seq: session.parameters.seq(), ..session.identity };
    let opening =
        Parameters::open(shards, Arc::clone(layout), identity, fingerprint, 0, config.connect_deadline);
    let (parameters, _) = opening.await?;
    let opened = replica.opened();
    session.parameters = parameters.with_encoding(encoding(config.job.strategy.payload));
    session.opened = opened;
    let mut lanes = Vec::new();
    for number in (0..formed.lanes).filter(|lane| *lane as usize % formed.members.len() == formed.rank) {
        let feed = Feed::granted(config, model, session, coordinator, Some(number))?;
        lanes.push(Lane { number, feed, next: None, ended: false });
    }
    let variables = model.variables();
    let mut summed = Summed::new(variables, tables.is_empty())?;
    let mut computing = Computing::new(config, &**model, threads)?;
    let mut tally = Tally::new(config, outcome, &session.heartbeat.counts);
    let (mut held, mut version, mut global_step) = (Held::default(), opened.version, replica.global_step());
    let mut next_batch = opened.batches_applied;
    (config.standing)("training", true, Vec::new());
    loop {
        if config.job.train.max_steps.is_some_and(|most| global_step >= most) {
            return Ok(Ended::Leave(LeaveReason::Finished));
        }
        if let Some(told) = session.told()? {
            collective.abort("the job has ended");
            return Ok(Ended::Leave(told));
        }
        summed.clear();
        let mut pushes = Vec::new();
        let mut own = None::<Sent>;
        for lane in &mut lanes {
            let began = Instant::now();
            tokio::select! {
                filled = lane.fill(opened.version) => filled?,
                error = collective.ended() => return Ok(Ended::Broken(error.diagnostic())),
            }
            tally.telemetry.input_seconds.record(began.elapsed());
            if let Some((step, ..)) = lane.next.as_ref().filter(|(step, ..)| *step < version) {
                return Err(fault(format!("lane {} is at step {step}, its group at {version}", lane.number)));
            }
            let Some((_, _, batch)) = lane.next.take_if(|(step, ..)| *step == version) else { continue };
            let named = reads(&**model, &batch);
            let step = session.parameters.plan(&named);
            let returned = session.parameters.call(None, Some((step, held))).await?;
            let Some(pulled) = returned.pulled else { return Ok(Ended::Leave(LeaveReason::Finished)) };
            let mut gradients = Gradients::new();
            let sent = computing.step(batch, &pulled.held.values, &mut gradients, true, &tally)?;
            held = pulled.held;
            let rows = summed.add(lane.number, named, gradients, sent.loss);
            if !tables.is_empty() {
                // Each batch's rows are updates of their own; while they travel, the rest is added up.
                let push = Push {
                    step: pulled.step,
                    batch: sent.batch(),
                    batches: 1,
                    contribution: None,
                    stores: Some(1..1 + tables.len()),
                    gradients: rows,
                };
                pushes.push(AbortOnDropHandle::new(tokio::spawn(session.parameters.call(Some(push), None))));
            }
            let examples = own.map_or(0, |own| own.examples) + sent.examples;
            own = Some(Sent { examples, ..sent });
        }
        summed.control()[1] =
            f32::from(u8::from(stop.is_cancelled() || session.heartbeat.regroup() == formed.generation));
        let began = Instant::now();
        let exchanged = summed.exchange(collective, version + 1).await;
        for push in pushes {
            let pushed = push.await.map_err(|error| broken_push(&error))?;
            tally.exchanged(began.elapsed(), &pushed?.traffic);
        }
        tally.telemetry.exchange_seconds.record(began.elapsed());
        let parts = match exchanged {
            Ok(parts) => parts,
            Err(error) => return Ok(Ended::Broken(error.diagnostic())),
        };
        let &mut [count, regroup, _] = summed.control() else { return Ok(Ended::Regroup) };
        if count == 0.0 {
            return Ok(Ended::Leave(LeaveReason::InputExhausted));
        }
        let (named, gradients) = summed.mean(parts, count).map_err(|problem| broken_message(&problem))?;
        let step = session.parameters.plan_push(&named, version);
        let batch = BatchId { pass: 0, shard: 0, batch: next_batch };
        let push = Push {
            step,
            batch,
            batches: count as u32,
            contribution: Some(WHOLE_STEP),
            stores: Some(0..1),
            gradients,
        };
        let returned = session.parameters.call(Some(push), None).await?;
        next_batch += count as u64;
        version += 1;
        if let Some((pushed, gradients)) = returned.pushed {
            if pushed.duplicate {
                return Err(fault(format!("step {version} has been applied to this copy before")));
            }
            summed.keep(gradients);
            global_step = pushed.global_step;
            match own {
                Some(sent) => tally.count(&pushed, sent),
                None => tally.telemetry.global_step.set(pushed.global_step as f64),
            }
        }
        if stop.is_cancelled() && regroup > 0.0 {
            return Ok(Ended::Leave(LeaveReason::Shutdown));
        }
        if regroup > 0.0 {
            return Ok(Ended::Regroup);
        }
    }
}

/// What is pushed to the own copy is the whole step.
const WHOLE_STEP: Contribution = Contribution { slot: 0, of: 1 };

/// What must never happen: the copies would not be equal any more.
fn fault(what: String) -> Failure {
    Failure::Local(
        Diagnostic::error(Code::E9001, what).help("please report this, with the log of every worker"),
    )
}

fn broken_push(error: &tokio::task::JoinError) -> Failure {
    Failure::Local(Diagnostic::error(Code::E9001, format!("a push to the servers has failed: {error}")))
}

fn broken_message(problem: &str) -> Failure {
    let message = format!("gradients of another worker cannot be read: {problem}");
    Failure::Local(
        Diagnostic::error(Code::E2007, message).help("run the same release and job file on every host"),
    )
}

/// The sum of the gradients of a step, over lanes and members.
struct Summed<'a> {
    variables: &'a [VariableSpec],
    /// By variable, whole ones only; behind them, which of them have a gradient, and the control numbers.
    dense: Gradients,
    plan: BucketPlan,
    sparse: Vec<SparsePart>,
    has_sparse: bool,
    spare: Gradients,
}

impl<'a> Summed<'a> {
    /// `gathers` says whether rows are exchanged too.
    fn new(variables: &'a [VariableSpec], gathers: bool) -> Result<Self, Diagnostic> {
        let whole = |spec: &VariableSpec| spec.access == Access::Whole;
        let mut lengths: Vec<usize> =
            variables.iter().map(|spec| if whole(spec) { spec.len() } else { 0 }).collect();
        lengths.push(variables.len() + CONTROL);
        // The last variables have their gradients first.
        let order: Vec<usize> = (0..lengths.len()).rev().collect();
        let plan = BucketPlan::new(&lengths, &order, BUCKET_BYTES).map_err(|problem| {
            Diagnostic::error(Code::E9001, format!("gradients cannot be summed: {problem}"))
        })?;
        Ok(Self {
            variables,
            dense: lengths.iter().map(|length| vec![0.0; *length]).collect(),
            plan,
            sparse: Vec::new(),
            has_sparse: gathers && variables.iter().any(|spec| !whole(spec)),
            spare: Gradients::new(),
        })
    }

    fn clear(&mut self) {
        self.dense.iter_mut().for_each(|values| values.fill(0.0));
        self.sparse.clear();
    }

    /// The number of parts, the wishes to form the group anew, the sum of losses.
    fn control(&mut self) -> &mut [f32] {
        let count = self.variables.len();
        &mut self.dense[count][count..]
    }

    /// Adds the gradients of one lane's batch. Returns those of rows and ids, if they are not added up here.
    fn add(&mut self, lane: u32, reads: Reads, mut gradients: Gradients, loss: Option<f64>) -> Gradients {
        let control = self.control();
        control[0] += 1.0;
        control[2] += loss.unwrap_or(0.0) as f32;
        let count = self.variables.len();
        for (place, spec) in self.variables.iter().enumerate() {
            let given = gradients.get_mut(place).map(std::mem::take).unwrap_or_default();
            if spec.access != Access::Whole {
                gradients[place] = given;
                continue;
            }
            if !given.is_empty() {
                self.dense[count][place] += 1.0;
                self.dense[place].iter_mut().zip(&given).for_each(|(sum, value)| *sum += value);
            }
        }
        if self.has_sparse {
            let reads = reads.into_iter().map(|read| match read {
                Read::Whole => Read::Nothing,
                read => read,
            });
            self.sparse.push(SparsePart { lane, reads: reads.collect(), gradients });
            return Gradients::new();
        }
        gradients
    }

    /// Adds up over all members. Returns everybody's sparse parts.
    async fn exchange(
        &mut self,
        collective: &Collective,
        step: u64,
    ) -> Result<Vec<Bytes>, trainyard_collective::Error> {
        let sums = collective.all_reduce_planned(step, &self.plan, &mut self.dense);
        if !self.has_sparse {
            return sums.await.map(|()| Vec::new());
        }
        let gifts = collective.all_gather(step, 0, encode(&self.sparse));
        tokio::try_join!(sums, gifts).map(|((), gifts)| gifts)
    }

    /// Returns the mean over the parts of the step: what it updates, and the gradients.
    fn mean(&mut self, gifts: Vec<Bytes>, count: f32) -> Result<(Reads, Gradients), String> {
        let mut parts = Vec::new();
        for gift in gifts {
            parts.extend(decode(&gift, self.variables)?);
        }
        let distinct: BTreeSet<u32> = parts.iter().map(|part| part.lane).collect();
        if distinct.len() != parts.len() {
            return Err(format!("a lane was computed twice: {distinct:?} of {} parts", parts.len()));
        }
        let share = 1.0 / count.max(1.0);
        let (mut reads, mut gradients) = merge(parts, self.variables, share);
        let known = self.variables.len();
        for (place, spec) in self.variables.iter().enumerate() {
            // What no part has a gradient of does not move.
            if spec.access != Access::Whole || self.dense[known][place] == 0.0 {
                continue;
            }
            let mut values = self.spare.get_mut(place).map(std::mem::take).unwrap_or_default();
            values.clear();
            values.extend(self.dense[place].iter().map(|value| value * share));
            (reads[place], gradients[place]) = (Read::Whole, values);
        }
        Ok((reads, gradients))
    }

    /// Keeps memory for the next step.
    fn keep(&mut self, gradients: Gradients) {
        self.spare = gradients;
    }
}
