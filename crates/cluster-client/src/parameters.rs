//! All parameter servers as one store, in one session. Each step is pulled and pushed once, whatever messages are
//! lost.

use std::future::Future;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::try_join_all;
use trainyard_parameter_store::{BatchId, Identity, MicroBatch, Opened, Rejection, Ticket};
use trainyard_protocol::payload::Encoding;
use trainyard_variable::{Gradients, Layout, Read, Reads};

use crate::error_feedback::ErrorFeedback;
use crate::retry::retry_noted;
use crate::split::{ShardPlan, split};
use crate::{
    CachedParameters, Error, Outages, ServerClient, ShardAnswer, ShardCall, ShardGradients,
    ShardPull, ShardPush, retry,
};

/// A planned step: the reads of its pull, which its push refers to.
#[derive(Debug, Clone)]
pub struct Step {
    seq: u64,
    plans: Vec<Arc<ShardPlan>>,
    /// Number of values of each variable, and whether they are the whole variable.
    sizes: Vec<(usize, bool)>,
    /// Version of each server at the pull.
    versions: Vec<u64>,
    /// Least version, which must be the same on all servers; absent = any version.
    at_least: Option<u64>,
    /// Whether the step is pushed without a pull, so that the push names its selection.
    named: bool,
    /// Whether some servers have applied the batch of the step.
    half_applied: bool,
}

impl Step {
    /// Returns the step with a required version. The pull reads `version`, even from servers that are one step ahead,
    /// or a later version that all servers share.
    pub fn at(self, version: u64) -> Self {
        Self {
            at_least: Some(version),
            ..self
        }
    }

    /// Returns the step, marked as half-applied if some servers have applied its batch and others have not. Such a
    /// step may be trained even beyond the last step.
    pub fn half_applied(self, half_applied: bool) -> Self {
        Self {
            half_applied,
            ..self
        }
    }
}

/// Reply to the pull of a step.
#[derive(Debug)]
pub struct PulledStep {
    /// Whether the step may be computed and pushed. After [`Ticket::Wait`] the same pull may be repeated.
    pub ticket: Ticket,
    /// Global step at the pull.
    pub global_step: u64,
    /// Steps by which this task is ahead of the slowest one, under stale-synchronous updates.
    pub lead: u64,
    /// Lowest version of all servers. All steps below are complete on every server.
    pub reached: u64,
    /// The step.
    pub step: Step,
    /// Values of the step, if the ticket was granted.
    pub held: CachedParameters,
}

/// Reply to the push of a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PushedStep {
    /// Whether every server had applied the batch before.
    pub duplicate: bool,
    /// Whether the push came too late for its synchronous step.
    pub stale: bool,
    /// Global step after the push.
    pub global_step: u64,
    /// Lowest version of the servers after the push.
    pub version: u64,
    /// Staleness of the push at `ps:0`: pushes of others between its pull and itself.
    pub staleness: u64,
    /// Why a server has rejected the gradients that it got, if one has.
    pub rejected: Option<Rejection>,
}

/// Bytes of values moved, for telemetry.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Traffic {
    /// Bytes of parameters pulled.
    pub pulled_bytes: u64,
    /// Bytes of gradients pushed.
    pub pushed_bytes: u64,
}

/// A computed step, to be pushed.
#[derive(Debug)]
pub struct Push {
    /// The step that was pulled.
    pub step: Step,
    /// The batch that the gradients were computed from, or the first of several.
    pub batch: BatchId,
    /// Number of consecutive batches that the gradients are of; at least 1. More than 1 only for a store in this
    /// process.
    pub batches: u32,
    /// Micro-batch of the step, under synchronous updates.
    pub micro_batch: Option<MicroBatch>,
    /// Places of the stores to push to; absent = all.
    pub stores: Option<Range<usize>>,
    /// The gradients, by variable.
    pub gradients: Gradients,
    /// Why this worker has rejected its gradients, if it has. The gradients are then empty, and every server records
    /// the batch as done.
    pub rejected: Option<Rejection>,
}

/// Outcome of a call.
#[derive(Debug)]
pub struct Returned {
    /// Outcome of the push, and its gradients for reuse of their memory.
    pub pushed: Option<(PushedStep, Gradients)>,
    /// Outcome of the pull.
    pub pulled: Option<PulledStep>,
    /// Bytes that were moved.
    pub traffic: Traffic,
}

/// One session with every parameter server.
#[derive(Debug)]
pub struct Parameters {
    shards: Arc<[Arc<dyn ServerClient>]>,
    layout: Arc<Layout>,
    identity: Identity,
    deadline: Duration,
    encoding: Encoding,
    error_feedback: ErrorFeedback,
    /// Whether the first server is called after the pushes to the others and before the pulls from them.
    in_turn: bool,
    outages: Outages,
}

impl Parameters {
    /// Opens a session on every server. Returns the session with the lowest version, and with the first batch of
    /// `data_shard` that has not been applied on every server.
    ///
    /// A call without a reply is repeated until `deadline`.
    ///
    /// # Errors
    /// A server refuses, or does not reply in time.
    pub async fn open(
        shards: Vec<Arc<dyn ServerClient>>,
        layout: Arc<Layout>,
        identity: Identity,
        fingerprint: u64,
        data_shard: u64,
        deadline: Duration,
    ) -> Result<(Self, Opened), Error> {
        let opened = shards.iter().map(|shard| {
            retry(&identity, shard.name(), deadline, move || {
                shard.open_session(identity, fingerprint, data_shard)
            })
        });
        let opened = try_join_all(opened).await?;
        let first = |of: fn(&Opened) -> u64| opened.iter().map(of).min().unwrap_or(0);
        let next = Opened {
            version: first(|opened| opened.version),
            batches_applied: first(|opened| opened.batches_applied),
        };
        let shards = shards.into();
        let encoding = Encoding::Float32;
        let error_feedback = ErrorFeedback::default();
        let in_turn = false;
        Ok((
            Self {
                shards,
                layout,
                identity,
                deadline,
                encoding,
                error_feedback,
                in_turn,
                outages: Outages::default(),
            },
            next,
        ))
    }

    /// Returns the session in the mode for stale-synchronous training. The first server knows the clock of each task.
    /// It gets a push after all other servers have it, and the others are read after it has granted the ticket. The
    /// values then satisfy the staleness bound on every server, at the cost of two more round trips per step.
    pub fn bounded(self) -> Self {
        Self {
            in_turn: true,
            ..self
        }
    }

    /// Returns the session with an encoding for its values; the default is `float32`. Error feedback adds the
    /// rounding errors of variables that are read whole to their next gradients.
    pub fn with_encoding(self, encoding: Encoding) -> Self {
        Self { encoding, ..self }
    }

    /// Returns the session with a record of the servers that its calls wait for.
    pub fn with_outages(self, outages: Outages) -> Self {
        Self { outages, ..self }
    }

    /// Returns the sequence number of the latest step.
    pub fn seq(&self) -> u64 {
        self.identity.seq
    }

    /// Plans the next step.
    pub fn plan(&mut self, reads: &Reads) -> Step {
        self.identity.seq += 1;
        let size = |(variable, read): (usize, &Read)| {
            let slices = &self.layout.slices[self.layout.of_variable(variable)];
            let width = slices.first().map_or(0, |slice| slice.width);
            match read {
                Read::Nothing => (0, false),
                Read::Whole => (
                    slices.last().map_or(0, |slice| slice.rows.end) * width,
                    true,
                ),
                Read::Rows(rows) => (rows.len() * width, false),
                Read::Ids(ids) => (ids.len() * width, false),
            }
        };
        let sizes = reads.iter().enumerate().map(size).collect();
        let seq = self.identity.seq;
        let plans = split(&self.layout, reads);
        let versions = vec![0; self.shards.len()];
        Step {
            seq,
            plans,
            sizes,
            versions,
            at_least: None,
            named: false,
            half_applied: false,
        }
    }

    /// Plans a push without a pull: gradients of these reads, computed from the values of `version`.
    pub fn plan_push(&mut self, reads: &Reads, version: u64) -> Step {
        let versions = vec![version; self.shards.len()];
        Step {
            versions,
            named: true,
            ..self.plan(reads)
        }
    }

    /// Drops a step that was pulled and will not be pushed. If it is the latest step, the next one reuses its number.
    pub fn take_back(&mut self, step: &Step) {
        if self.identity.seq == step.seq {
            self.identity.seq -= 1;
        }
    }

    /// Pushes the gradients of a step, then requests a ticket for another step and reads its values if the ticket is
    /// granted. All servers are called in parallel, one round trip each, and every call is repeated until it is
    /// answered. The future may be spawned.
    ///
    /// Errors: a server refuses, or does not reply in time. The same step may then be pushed again in a new session:
    /// servers that have applied it report a duplicate.
    pub fn call(
        &mut self,
        push: Option<Push>,
        pull: Option<(Step, CachedParameters)>,
    ) -> impl Future<Output = Result<Returned, Error>> + Send + use<> {
        let mut traffic = Traffic::default();
        let mut calls = vec![ShardCall::default(); self.shards.len()];
        let mut shared = None;
        if let Some(push) = push {
            let Push {
                step,
                batch,
                batches,
                micro_batch,
                stores,
                gradients,
                rejected,
            } = push;
            let gradients = Arc::new(gradients);
            let silent = gradients
                .iter()
                .zip(&step.sizes)
                .any(|(values, (size, _))| values.is_empty() && *size > 0);
            for (ps, (call, plan)) in calls.iter_mut().zip(step.plans).enumerate() {
                if stores.as_ref().is_some_and(|stores| !stores.contains(&ps)) {
                    continue;
                }
                let plan = if silent {
                    Arc::new(plan.only(|variable| !gradients[variable].is_empty()))
                } else {
                    plan
                };
                traffic.pushed_bytes += (plan.values() * self.encoding.value_bytes()) as u64;
                let named = silent || step.named;
                let selection = named.then(|| Arc::clone(&plan.selection));
                let mut part = ShardGradients::new(Arc::clone(&gradients), Arc::clone(&plan));
                if self.encoding != Encoding::Float32 && self.shards[ps].is_remote() {
                    let bytes =
                        self.error_feedback
                            .encode(self.encoding, &plan, &step.sizes, &gradients);
                    part = part.encoded(self.encoding, bytes);
                }
                let seq = step.seq;
                let pulled_version = step.versions[ps];
                let gradients = Arc::new(part);
                call.push = Some(ShardPush {
                    seq,
                    batch,
                    batches,
                    pulled_version,
                    micro_batch,
                    selection,
                    gradients,
                    rejected,
                });
            }
            shared = Some(gradients);
        }
        let pull = pull.map(|(step, mut held)| {
            held.resize(self.layout.slices.len(), &step.sizes);
            for (variable, _) in step
                .sizes
                .iter()
                .enumerate()
                .filter(|(_, (_, whole))| !whole)
            {
                self.layout
                    .of_variable(variable)
                    .for_each(|slice| held.forget(slice));
            }
            for (ps, (call, plan)) in calls.iter_mut().zip(&step.plans).enumerate() {
                // The first server grants the ticket. The others are read in parallel, in case it is granted. A
                // server with nothing to read is called too: the push refers to the selection of its pull.
                let seq = step.seq;
                let selection = Arc::clone(&plan.selection);
                let reserve_step = ps == 0;
                let known = held.known(&selection.whole);
                let encoding = self.encoding;
                let at_least = step.at_least.unwrap_or(0);
                let or_before = step.at_least.is_some();
                call.pull = Some(ShardPull {
                    seq,
                    selection,
                    known,
                    reserve_step,
                    at_least,
                    or_before,
                    half_applied: step.half_applied,
                    encoding,
                });
            }
            (step, held)
        });
        let shards = Arc::clone(&self.shards);
        let identity = self.identity;
        let deadline = self.deadline;
        let in_turn = self.in_turn && shards.len() > 1;
        run(
            shards,
            identity,
            deadline,
            Calls {
                calls,
                shared,
                pull,
                traffic,
                in_turn,
                outages: self.outages.clone(),
            },
        )
    }
}

/// The calls of one round trip, and what they need.
struct Calls {
    calls: Vec<ShardCall>,
    shared: Option<Arc<Gradients>>,
    pull: Option<(Step, CachedParameters)>,
    traffic: Traffic,
    in_turn: bool,
    outages: Outages,
}

/// Calls one server, and repeats the call until it is answered.
async fn ask(
    identity: &Identity,
    deadline: Duration,
    outages: &Outages,
    shard: &dyn ServerClient,
    call: &ShardCall,
) -> Result<ShardAnswer, Error> {
    if call.push.is_none() && call.pull.is_none() {
        return Ok(ShardAnswer {
            pushed: None,
            pulled: None,
        });
    }
    let answer = retry_noted(identity, shard.name(), deadline, outages, || {
        shard.step(*identity, call)
    })
    .await;
    if call.push.is_some() {
        #[cfg(feature = "failpoints")]
        fail::fail_point!("worker.between_ps_pushes");
    }
    answer
}

/// Pushes to all servers but the first, then makes the whole call to the first, then pulls from the others if the
/// first has granted the ticket.
async fn ask_in_turn(
    identity: &Identity,
    deadline: Duration,
    outages: &Outages,
    shards: &[Arc<dyn ServerClient>],
    calls: &[ShardCall],
) -> Result<Vec<ShardAnswer>, Error> {
    let (Some((first, others)), Some((first_call, calls))) =
        (shards.split_first(), calls.split_first())
    else {
        return Ok(Vec::new());
    };
    let pushes: Vec<_> = calls
        .iter()
        .map(|call| ShardCall {
            push: call.push.clone(),
            pull: None,
        })
        .collect();
    let pushed = others
        .iter()
        .zip(&pushes)
        .map(|(shard, call)| ask(identity, deadline, outages, &**shard, call));
    let pushed = try_join_all(pushed).await?;
    let mut answers = vec![ask(identity, deadline, outages, &**first, first_call).await?];
    let granted = answers[0]
        .pulled
        .as_ref()
        .is_none_or(|(pulled, _)| pulled.ticket == Ticket::Granted);
    let reads = calls.iter().map(|call| ShardCall {
        push: None,
        pull: call.pull.clone().filter(|_| granted),
    });
    let reads: Vec<_> = reads.collect();
    let read = others
        .iter()
        .zip(&reads)
        .map(|(shard, call)| ask(identity, deadline, outages, &**shard, call));
    let read = try_join_all(read).await?;
    let both = pushed.into_iter().zip(read);
    answers.extend(both.map(|(push, read)| ShardAnswer {
        pushed: push.pushed,
        pulled: read.pulled,
    }));
    Ok(answers)
}

async fn run(
    shards: Arc<[Arc<dyn ServerClient>]>,
    identity: Identity,
    deadline: Duration,
    work: Calls,
) -> Result<Returned, Error> {
    let Calls {
        calls,
        shared,
        pull,
        mut traffic,
        in_turn,
        outages,
    } = work;
    let mut answers = if in_turn {
        ask_in_turn(&identity, deadline, &outages, &shards, &calls).await?
    } else {
        let asked = shards
            .iter()
            .zip(&calls)
            .map(|(shard, call)| ask(&identity, deadline, &outages, &**shard, call));
        try_join_all(asked).await?
    };
    let pushed = shared.map(|gradients| {
        let pushed: Vec<_> = answers.iter().filter_map(|answer| answer.pushed).collect();
        let first = pushed.first();
        PushedStep {
            duplicate: pushed.iter().all(|pushed| pushed.duplicate),
            stale: pushed.iter().any(|pushed| pushed.stale),
            global_step: first.map_or(0, |first| first.global_step),
            version: pushed
                .iter()
                .map(|pushed| pushed.version)
                .min()
                .unwrap_or(0),
            staleness: first.map_or(0, |first| first.staleness),
            rejected: pushed.iter().find_map(|pushed| pushed.rejected),
        }
        .with(gradients)
    });
    let Some((mut step, mut held)) = pull else {
        return Ok(Returned {
            pushed,
            pulled: None,
            traffic,
        });
    };
    let first = answers.first().and_then(|answer| answer.pulled.as_ref());
    let (ticket, global_step, lead) = first.map_or((Ticket::Granted, 0, 0), |(pulled, _)| {
        (pulled.ticket, pulled.global_step, pulled.lead)
    });
    // A server whose job has ended during this call has read nothing, even if the first server granted the ticket.
    let over = |answer: &ShardAnswer| matches!(&answer.pulled, Some((pulled, _)) if pulled.ticket == Ticket::Finished);
    let versions = || answers.iter().filter_map(|answer| answer.pulled.as_ref());
    let together = step.at_least.is_none()
        || (versions().all(|(pulled, _)| pulled.ticket == Ticket::Granted)
            && versions()
                .all(|(pulled, _)| first.is_none_or(|(first, _)| first.version == pulled.version)));
    let reached = versions()
        .map(|(pulled, _)| pulled.reached)
        .min()
        .unwrap_or(0);
    // The last synchronous step has ended once all servers have applied it.
    let everywhere =
        step.at_least.is_none() || versions().all(|(pulled, _)| pulled.reached == reached);
    let ticket = match ticket {
        _ if answers.iter().any(over) && everywhere => Ticket::Finished,
        Ticket::Finished => Ticket::Wait,
        Ticket::Granted if !together => Ticket::Wait,
        ticket => ticket,
    };
    for (ps, (answer, call)) in answers.iter_mut().zip(&calls).enumerate() {
        let (Some((pulled, mut answer)), Some(pull)) = (answer.pulled.take(), &call.pull) else {
            continue;
        };
        step.versions[ps] = pulled.version;
        traffic.pulled_bytes += (answer.remaining() * pull.encoding.value_bytes()) as u64;
        if ticket == Ticket::Granted {
            held.take(
                shards[ps].name(),
                &step.plans[ps],
                pull,
                &pulled.updates,
                &mut *answer,
            )?;
        }
    }
    Ok(Returned {
        pushed,
        pulled: Some(PulledStep {
            ticket,
            global_step,
            lead,
            reached,
            step,
            held,
        }),
        traffic,
    })
}

impl PushedStep {
    /// Returns the outcome with the gradients, or without them if the connection still holds them.
    fn with(self, gradients: Arc<Gradients>) -> (Self, Gradients) {
        (self, Arc::try_unwrap(gradients).unwrap_or_default())
    }
}

#[cfg(test)]
mod tests;
