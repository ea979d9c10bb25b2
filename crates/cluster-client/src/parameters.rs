//! All parameter servers as one store, in one session. Each step is pulled and pushed once, whatever messages are
//! lost.

use std::future::Future;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::try_join_all;
use trainyard_parameter_store::{
    self as store, BatchId, Identity, MicroBatch, OpenSession, Opened, Pull, PushHeader, Pushed,
    Rejection, StepReply, StepRequest, Ticket,
};
use trainyard_protocol::payload::Encoding;
use trainyard_variable::{Gradients, Layout, Read, Reads, StepNumber};

use crate::error_feedback::{ErrorFeedback, encode_alone};
use crate::retry::retry_noted;
use crate::shared_rows::SharedReads;
use crate::split::{CountedIds, ShardPlan, split};
use crate::{Answer, CachedParameters, Error, Outages, ServerClient, ShardGradients, retry};

/// The request of one round trip to one server.
type Request = StepRequest<Arc<ShardGradients>>;
/// The reply to a [`Request`].
type Reply = StepReply<Box<dyn Answer>>;

/// A planned step: the reads of its pull, which its push refers to.
#[derive(Debug, Clone)]
pub struct Step {
    seq: u64,
    /// What the pull reads; once the gradients are shared, what they are of.
    reads: Reads,
    /// What is read of tables with a shared row.
    shared: SharedReads,
    /// Ids whose gradients are those of a shared row.
    counted: Vec<CountedIds>,
    plans: Vec<Arc<ShardPlan>>,
    /// Number of values of each variable, and whether they are the whole variable.
    sizes: Vec<(usize, bool)>,
    /// Version of each server at the pull.
    versions: Vec<u64>,
    /// Least synchronous step, which must be the same on all servers; absent = any version.
    at_least: Option<StepNumber>,
    /// The push names its selection: there is no pull, or an earlier pull has had the same number.
    named: bool,
    /// Some servers have applied the batch of the step.
    half_applied: bool,
}

impl Step {
    /// Returns the step with a required number. The pull reads the values at `step`, even from servers that are one step
    /// ahead, or at a later step that all servers share.
    pub fn at(self, step: StepNumber) -> Self {
        Self {
            at_least: Some(step),
            ..self
        }
    }

    /// Moves the gradients of ids without a row to the shared rows that they have read, if their tables have one. The
    /// gradients are then those of the values that training updates, as they are clipped and checked. A push does this to
    /// gradients to which it has not been done.
    pub fn share_gradients(&mut self, gradients: &mut Gradients) {
        let counted = self.shared.share(&mut self.reads, gradients);
        self.counted.extend(counted);
    }

    /// Drops the counted ids: gradients are not pushed, so that no occurrence counts.
    pub fn count_nothing(&mut self) {
        self.counted.clear();
    }

    /// Returns what the pull reads. After [`Step::share_gradients`] it is what the gradients are of.
    pub fn reads(&self) -> &Reads {
        &self.reads
    }

    /// Returns the ids that the push counts without gradients.
    pub fn counted(&self) -> &[CountedIds] {
        &self.counted
    }

    /// Returns the step, marked as half-applied: some servers have applied its batch and others have not. Such a step
    /// may be trained even beyond the last step.
    pub fn half_applied(self) -> Self {
        Self {
            half_applied: true,
            ..self
        }
    }
}

/// Reply to the pull of a step.
#[derive(Debug)]
pub struct PulledStep {
    /// The right to compute and push the step. After [`Ticket::Wait`] the same pull may be repeated.
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
    /// Step that the update rules see, where the versions of the stores do not count steps; absent = the version.
    pub optimizer_step: Option<StepNumber>,
    /// Places of the stores to push to; absent = all.
    pub stores: Option<Range<usize>>,
    /// The gradients, by variable.
    pub gradients: Gradients,
    /// Reason for which this worker has rejected its gradients. The gradients are then empty, and every server records
    /// the batch as done.
    pub rejected: Option<Rejection>,
}

/// Outcome of a call.
#[derive(Debug)]
pub struct Returned {
    /// Outcome of the push on all servers, and its gradients for reuse of their memory.
    pub pushed: Option<(Pushed, Gradients)>,
    /// Outcome of the pull.
    pub pulled: Option<PulledStep>,
    /// Bytes that were moved.
    pub traffic: Traffic,
}

/// The latest sequence numbers of a session. A store remembers the last 64 pushes of a session, so that each kind of push
/// has numbers without gaps of its own.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SequenceNumbers {
    /// Number of the latest step that was planned with its pull.
    pub step: u64,
    /// Number of the latest push of a whole step, which only the first store receives. `None` if the first store receives
    /// the pushes of steps, as the others do.
    pub whole_step: Option<u64>,
}

impl SequenceNumbers {
    /// Returns the number of the latest push to the store at `place`.
    fn of(self, place: usize) -> u64 {
        match self.whole_step {
            Some(number) if place == 0 => number,
            _ => self.step,
        }
    }
}

/// A request to open a session on every server.
#[derive(Debug, Clone, Copy)]
pub struct OpenParameters {
    /// Sequence numbers before those of the first pushes.
    pub latest: SequenceNumbers,
    /// Fingerprint of the layout that the task has computed.
    pub layout_fingerprint: u64,
    /// Data shard that the task reads.
    pub data_shard: u64,
}

/// One session with every parameter server.
#[derive(Debug)]
pub struct Parameters {
    shards: Arc<[Arc<dyn ServerClient>]>,
    layout: Arc<Layout>,
    identity: Identity,
    latest: SequenceNumbers,
    deadline: Duration,
    encoding: Encoding,
    error_feedback: ErrorFeedback,
    /// The first server is called after the pushes to the others and before the pulls from them.
    in_turn: bool,
    outages: Outages,
    /// Number of the latest step that was taken back.
    taken_back: Option<u64>,
}

impl Parameters {
    /// Opens a session on every server, whose pushes follow these numbers. Returns the session with the lowest version, and
    /// with the first batch of its data shard that has not been applied on every server.
    ///
    /// A call without a reply is repeated until `deadline`.
    ///
    /// # Errors
    /// A server refuses, or does not reply in time.
    pub async fn open(
        shards: Vec<Arc<dyn ServerClient>>,
        layout: Arc<Layout>,
        identity: Identity,
        request: OpenParameters,
        deadline: Duration,
    ) -> Result<(Self, Opened), Error> {
        let OpenParameters {
            latest,
            layout_fingerprint,
            data_shard,
        } = request;
        let opened = shards.iter().enumerate().map(|(place, shard)| {
            let request = OpenSession {
                seq: latest.of(place),
                layout_fingerprint,
                data_shard,
            };
            retry(&identity, shard.name(), deadline, move || async move {
                shard.open_session(identity, &request).await
            })
        });
        let opened = try_join_all(opened).await?;
        let first = |of: fn(&Opened) -> u64| opened.iter().map(of).min().unwrap_or(0);
        let next = Opened {
            version: first(|opened| opened.version),
            batches_applied: first(|opened| opened.batches_applied),
        };
        let parameters = Self {
            shards: shards.into(),
            layout,
            identity,
            latest,
            deadline,
            encoding: Encoding::Float32,
            error_feedback: ErrorFeedback::default(),
            in_turn: false,
            outages: Outages::default(),
            taken_back: None,
        };
        Ok((parameters, next))
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
    /// rounding errors of variables that are read whole to their next gradients, except those of micro-batches of a
    /// synchronous step.
    pub fn with_encoding(self, encoding: Encoding) -> Self {
        Self { encoding, ..self }
    }

    /// Returns the session with a record of the servers that its calls wait for.
    pub fn with_outages(self, outages: Outages) -> Self {
        Self { outages, ..self }
    }

    /// Returns the latest sequence numbers.
    pub fn latest(&self) -> SequenceNumbers {
        self.latest
    }

    /// Plans the next step.
    pub fn plan(&mut self, reads: &Reads) -> Step {
        self.latest.step += 1;
        // A server may get a late copy of the earlier pull of this number behind the one of this step.
        let named = self.taken_back == Some(self.latest.step);
        let mut reads = reads.clone();
        let shared = SharedReads::add_to(&self.layout, &mut reads);
        Step {
            named,
            shared,
            ..self.plan_as(self.latest.step, reads, Vec::new())
        }
    }

    /// Plans the step with this sequence number.
    fn plan_as(&self, seq: u64, reads: Reads, counted: Vec<CountedIds>) -> Step {
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
        let plans = split(&self.layout, &reads, &counted);
        let versions = vec![0; self.shards.len()];
        Step {
            seq,
            reads,
            shared: SharedReads::default(),
            counted,
            plans,
            sizes,
            versions,
            at_least: None,
            named: false,
            half_applied: false,
        }
    }

    /// Plans the push of a whole step to the first store, without a pull: gradients of these reads, and ids that are
    /// counted without gradients, computed from the values at `step`.
    pub fn plan_whole_step(
        &mut self,
        reads: Reads,
        counted: Vec<CountedIds>,
        step: StepNumber,
    ) -> Step {
        let versions = vec![step.get(); self.shards.len()];
        let seq = self.latest.whole_step.unwrap_or(0) + 1;
        self.latest.whole_step = Some(seq);
        Step {
            versions,
            named: true,
            ..self.plan_as(seq, reads, counted)
        }
    }

    /// Plans the push of a step again, if its gradients are of other ids than the pull.
    fn plan_push(&self, step: Step) -> Step {
        if step.counted.is_empty()
            || step
                .plans
                .iter()
                .any(|plan| !plan.selection.counted.is_empty())
        {
            return step;
        }
        let planned = self.plan_as(step.seq, step.reads, step.counted);
        Step {
            versions: step.versions,
            at_least: step.at_least,
            half_applied: step.half_applied,
            named: true,
            ..planned
        }
    }

    /// Drops a step that was pulled and will not be pushed. If it is the latest step, the next one reuses its number.
    pub fn take_back(&mut self, step: &Step) {
        if self.latest.step == step.seq {
            self.taken_back = Some(step.seq);
            self.latest.step -= 1;
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
        let nothing = Request {
            push: None,
            pull: None,
        };
        let mut calls = vec![nothing; self.shards.len()];
        let mut shared = None;
        if let Some(push) = push {
            let mut step = push.step;
            let mut gradients = push.gradients;
            step.share_gradients(&mut gradients);
            let step = self.plan_push(step);
            let gradients = Arc::new(gradients);
            let silent = gradients
                .iter()
                .zip(&step.sizes)
                .any(|(values, (size, _))| values.is_empty() && *size > 0);
            for (ps, (call, plan)) in calls.iter_mut().zip(step.plans).enumerate() {
                if push
                    .stores
                    .as_ref()
                    .is_some_and(|stores| !stores.contains(&ps))
                {
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
                    let bytes = if push.micro_batch.is_some() {
                        encode_alone(self.encoding, &plan, &gradients)
                    } else {
                        self.error_feedback
                            .encode(self.encoding, &plan, &step.sizes, &gradients)
                    };
                    part = part.encoded(self.encoding, bytes);
                }
                call.push = Some(store::Push {
                    header: PushHeader {
                        seq: step.seq,
                        batch: push.batch,
                        batches: push.batches,
                        pulled_version: step.versions[ps],
                        micro_batch: push.micro_batch,
                        optimizer_step: push.optimizer_step.map(StepNumber::get),
                        rejected: push.rejected,
                    },
                    selection,
                    gradients: Arc::new(part),
                });
            }
            shared = Some(gradients);
        }
        let pull = pull.map(|(mut step, mut held)| {
            step.shared.clear();
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
                call.pull = Some(Pull {
                    seq: step.seq,
                    selection: Arc::clone(&plan.selection),
                    known: held.known(&plan.selection.whole),
                    reserve_step: ps == 0,
                    at_least: step.at_least.map_or(0, StepNumber::get),
                    or_before: step.at_least.is_some(),
                    half_applied: step.half_applied,
                });
            }
            (step, held)
        });
        let servers = Servers {
            shards: Arc::clone(&self.shards),
            identity: self.identity,
            deadline: self.deadline,
            encoding: self.encoding,
            outages: self.outages.clone(),
        };
        let in_turn = self.in_turn && self.shards.len() > 1;
        run(
            servers,
            Calls {
                calls,
                shared,
                pull,
                traffic,
                in_turn,
            },
        )
    }
}

/// The calls of one round trip, and what they need.
struct Calls {
    calls: Vec<Request>,
    shared: Option<Arc<Gradients>>,
    pull: Option<(Step, CachedParameters)>,
    traffic: Traffic,
    in_turn: bool,
}

/// The servers of a round trip, and how they are called.
struct Servers {
    shards: Arc<[Arc<dyn ServerClient>]>,
    identity: Identity,
    deadline: Duration,
    encoding: Encoding,
    outages: Outages,
}

impl Servers {
    /// Calls one server, and repeats the call until it is answered.
    async fn ask(&self, shard: &dyn ServerClient, call: &Request) -> Result<Reply, Error> {
        if call.push.is_none() && call.pull.is_none() {
            return Ok(Reply {
                pushed: None,
                pulled: None,
            });
        }
        let identity = self.identity;
        let name = shard.name();
        let answer = retry_noted(&identity, name, self.deadline, &self.outages, || {
            shard.step(identity, call, self.encoding)
        })
        .await;
        if call.push.is_some() {
            #[cfg(feature = "failpoints")]
            fail::fail_point!("worker.between_ps_pushes");
        }
        answer
    }

    /// Calls all servers at once.
    async fn ask_all(&self, calls: &[Request]) -> Result<Vec<Reply>, Error> {
        let asked = self
            .shards
            .iter()
            .zip(calls)
            .map(|(shard, call)| self.ask(&**shard, call));
        try_join_all(asked).await
    }

    /// Pushes to all servers but the first, then makes the whole call to the first, then pulls from the others if the
    /// first has granted the ticket.
    async fn ask_in_turn(&self, calls: &[Request]) -> Result<Vec<Reply>, Error> {
        let (Some((first, others)), Some((first_call, calls))) =
            (self.shards.split_first(), calls.split_first())
        else {
            return Ok(Vec::new());
        };
        let pushes: Vec<_> = calls
            .iter()
            .map(|call| Request {
                push: call.push.clone(),
                pull: None,
            })
            .collect();
        let pushed = others
            .iter()
            .zip(&pushes)
            .map(|(shard, call)| self.ask(&**shard, call));
        let pushed = try_join_all(pushed).await?;
        let mut answers = vec![self.ask(&**first, first_call).await?];
        let granted = answers[0]
            .pulled
            .as_ref()
            .is_none_or(|(pulled, _)| pulled.ticket == Ticket::Granted);
        let reads = calls.iter().map(|call| Request {
            push: None,
            pull: call.pull.clone().filter(|_| granted),
        });
        let reads: Vec<_> = reads.collect();
        let read = others
            .iter()
            .zip(&reads)
            .map(|(shard, call)| self.ask(&**shard, call));
        let read = try_join_all(read).await?;
        let both = pushed.into_iter().zip(read);
        answers.extend(both.map(|(push, read)| Reply {
            pushed: push.pushed,
            pulled: read.pulled,
        }));
        Ok(answers)
    }
}

async fn run(servers: Servers, work: Calls) -> Result<Returned, Error> {
    let Calls {
        mut calls,
        shared,
        pull,
        mut traffic,
        in_turn,
    } = work;
    let mut answers = if in_turn {
        servers.ask_in_turn(&calls).await?
    } else {
        servers.ask_all(&calls).await?
    };
    let pushed = shared.map(|gradients| {
        let pushed: Vec<_> = answers.iter().filter_map(|answer| answer.pushed).collect();
        calls.iter_mut().for_each(|call| call.push = None);
        // The gradients are lost if the connection still holds them.
        let gradients = Arc::try_unwrap(gradients).unwrap_or_default();
        (of_all(&pushed), gradients)
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
    let over = |answer: &Reply| matches!(&answer.pulled, Some((pulled, _)) if pulled.ticket == Ticket::Finished);
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
        let (Some(reply), Some(pull)) = (answer.pulled.take(), &call.pull) else {
            continue;
        };
        let (pulled, values) = &reply;
        step.versions[ps] = pulled.version;
        traffic.pulled_bytes += (values.remaining() * servers.encoding.value_bytes()) as u64;
        if ticket == Ticket::Granted {
            let name = servers.shards[ps].name();
            held.take(name, &step.plans[ps], pull, reply, &mut step.shared)?;
        }
    }
    if ticket == Ticket::Granted {
        step.shared.fill(&mut held.values);
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

/// Returns the outcome of a push to all servers: a duplicate if it was one everywhere, stale if it was so anywhere. The
/// version is the lowest one; the first server counts the steps and the staleness.
fn of_all(pushed: &[Pushed]) -> Pushed {
    let first = pushed.first();
    Pushed {
        duplicate: pushed.iter().all(|pushed| pushed.duplicate),
        stale: pushed.iter().any(|pushed| pushed.stale),
        version: pushed
            .iter()
            .map(|pushed| pushed.version)
            .min()
            .unwrap_or(0),
        global_step: first.map_or(0, |first| first.global_step),
        staleness: first.map_or(0, |first| first.staleness),
        rejected: pushed.iter().find_map(|pushed| pushed.rejected),
    }
}

#[cfg(test)]
mod tests;
