//! All parameter servers as one store, in one session: each step is pulled and pushed once, whatever is lost on the way.

use std::future::Future;
use std::ops::Range;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::try_join_all;
use tokio::time::Instant;
use tracing::{info, warn};
use trainyard_diagnostic::{Action, Waiting};
use trainyard_parameter_store::{BatchId, Contribution, Identity, Opened, Rejection, Ticket};
use trainyard_protocol::payload::Encoding;
use trainyard_variable::{Gradients, Layout, Read, Reads};

use crate::outages::{Outage, Outages};
use crate::rounding::Rounding;
use crate::split::{ShardPlan, split};
use crate::{
    Backoff, Error, Held, Shard, ShardAnswer, ShardCall, ShardGradients, ShardPull, ShardPush,
};

/// A step that is pulled or was: what its push goes back to.
#[derive(Debug, Clone)]
pub struct Step {
    seq: u64,
    plans: Vec<Arc<ShardPlan>>,
    /// Values of each variable, and whether they are all of it.
    sizes: Vec<(usize, bool)>,
    /// Version of each server at the pull.
    versions: Vec<u64>,
    /// Version that all servers must have, all the same one; absent = any will do.
    at_least: Option<u64>,
    /// Whether it is pushed without having been pulled.
    named: bool,
    /// Whether some servers have applied its batch.
    half_applied: bool,
}

impl Step {
    /// Returns the step as one that is read at this version, even from servers that are a step ahead already; or at a
    /// later one that all servers share.
    pub fn at(self, version: u64) -> Self {
        Self {
            at_least: Some(version),
            ..self
        }
    }

    /// Returns the step as one whose batch some servers have applied and others have not, if it is: it may be trained behind the
    /// last step, too.
    pub fn half_applied(self, half_applied: bool) -> Self {
        Self {
            half_applied,
            ..self
        }
    }
}

/// What a pull told.
#[derive(Debug)]
pub struct PulledStep {
    /// Whether the step may be computed and pushed. If it is to wait, the same pull may be made again.
    pub ticket: Ticket,
    /// Steps applied by all, at the pull.
    pub global_step: u64,
    /// Steps ahead of the slowest task, under stale-synchronous updates.
    pub lead: u64,
    /// Lowest version that a server has reached: all steps below are complete everywhere.
    pub reached: u64,
    /// The step.
    pub step: Step,
    /// Its values, if it was granted.
    pub held: Held,
}

/// What a push told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PushedStep {
    /// Whether every server had applied the batch before.
    pub duplicate: bool,
    /// Whether it came too late for its synchronous step.
    pub stale: bool,
    /// Steps applied by all.
    pub global_step: u64,
    /// Lowest version of the servers behind it.
    pub version: u64,
    /// Steps of others between this one's pull and its push, at `ps:0`.
    pub staleness: u64,
    /// Why its values were refused, if they were: by a server, of those that it got.
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
    /// What was pulled.
    pub step: Step,
    /// The batch that the gradients were computed from, or the first of several.
    pub batch: BatchId,
    /// Batches that they are of, at least 1; more than one of a store in this process only.
    pub batches: u32,
    /// Its place in its step, under synchronous updates.
    pub contribution: Option<Contribution>,
    /// The stores that it is for, by place; absent = all.
    pub stores: Option<Range<usize>>,
    /// The gradients, by variable.
    pub gradients: Gradients,
    /// Why they were refused here: then they are empty, and every server is told that the batch is done with.
    pub rejected: Option<Rejection>,
}

/// What became of a push, a pull or both.
#[derive(Debug)]
pub struct Returned {
    /// The push's outcome, and the memory of its gradients.
    pub pushed: Option<(PushedStep, Gradients)>,
    /// The pull's.
    pub pulled: Option<PulledStep>,
    /// What was moved.
    pub traffic: Traffic,
}

/// One session with every parameter server.
#[derive(Debug)]
pub struct Parameters {
    shards: Arc<[Shard]>,
    layout: Arc<Layout>,
    identity: Identity,
    deadline: Duration,
    encoding: Encoding,
    rounding: Rounding,
    /// Whether the first server is asked behind the others' pushes and before their reads.
    in_turn: bool,
    outages: Outages,
}

impl Parameters {
    /// Opens a session at every server. Returns it with the lowest version, and the first batch of `data_shard` that
    /// is not applied everywhere.
    ///
    /// A server that gives no answer is asked again until `deadline`.
    ///
    /// # Errors
    /// A server refuses, or gives no answer in time.
    pub async fn open(
        shards: Vec<Shard>,
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
        let rounding = Rounding::default();
        let in_turn = false;
        Ok((
            Self {
                shards,
                layout,
                identity,
                deadline,
                encoding,
                rounding,
                in_turn,
                outages: Outages::default(),
            },
            next,
        ))
    }

    /// Returns the same session for stale-synchronous training. The first server knows how far each task has come: it is
    /// given a push when all others have it, and the others are read when it has granted the step. What is read then holds
    /// on every server what the bound promises, for two more round trips a step.
    pub fn bounded(self) -> Self {
        Self {
            in_turn: true,
            ..self
        }
    }

    /// Returns the same session, whose values travel in `encoding`; `float32` is the default. What rounding takes from
    /// the gradients of variables that are read whole is added to their next ones, so that it is late and not lost.
    pub fn with_encoding(self, encoding: Encoding) -> Self {
        Self { encoding, ..self }
    }

    /// Returns the same session, whose steps note in `outages` which servers they wait for.
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

    /// Plans a push that no pull came before: gradients of these reads, computed from the values of a version.
    pub fn plan_push(&mut self, reads: &Reads, version: u64) -> Step {
        let versions = vec![version; self.shards.len()];
        Step {
            versions,
            named: true,
            ..self.plan(reads)
        }
    }

    /// Takes back a step that was pulled and will not be pushed, if it was planned last: the next one takes its number.
    pub fn take_back(&mut self, step: &Step) {
        if self.identity.seq == step.seq {
            self.identity.seq -= 1;
        }
    }

    /// Pushes a step's gradients, then asks for the right to push another and reads what it needs if it is granted: one
    /// round trip to every server, all at once, each repeated until it is answered. The future may be spawned.
    ///
    /// Errors: a server refuses, or gives no answer in time. The same step may then be pushed again in a new session:
    /// what was applied is answered as a duplicate.
    pub fn call(
        &mut self,
        push: Option<Push>,
        pull: Option<(Step, Held)>,
    ) -> impl Future<Output = Result<Returned, Error>> + Send + use<> {
        let mut traffic = Traffic::default();
        let mut calls = vec![ShardCall::default(); self.shards.len()];
        let mut shared = None;
        if let Some(push) = push {
            let Push {
                step,
                batch,
                batches,
                contribution,
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
                if self.encoding != Encoding::Float32 && matches!(self.shards[ps], Shard::Remote(_))
                {
                    let bytes = self
                        .rounding
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
                    contribution,
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
                // The first server gives the ticket; the others are read at the same time, in case it is granted. One that
                // has nothing to read is asked all the same: the push names what its pull has named.
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

/// Everything that a round trip needs.
struct Calls {
    calls: Vec<ShardCall>,
    shared: Option<Arc<Gradients>>,
    pull: Option<(Step, Held)>,
    traffic: Traffic,
    in_turn: bool,
    outages: Outages,
}

/// Makes one server's part of a round trip, again and again until it is answered.
async fn ask(
    identity: &Identity,
    deadline: Duration,
    outages: &Outages,
    shard: &Shard,
    call: &ShardCall,
) -> Result<ShardAnswer, Error> {
    if call.push.is_none() && call.pull.is_none() {
        return Ok(ShardAnswer {
            pushed: None,
            pulled: None,
        });
    }
    let answer = retry_noted(identity, shard.name(), deadline, outages, move || {
        shard.step(*identity, call)
    })
    .await;
    if call.push.is_some() {
        #[cfg(feature = "failpoints")]
        fail::fail_point!("worker.between_ps_pushes");
    }
    answer
}

/// Makes the pushes of all servers but the first, then all that the first is asked, then the reads of the others, if it has
/// granted the step.
async fn ask_in_turn(
    identity: &Identity,
    deadline: Duration,
    outages: &Outages,
    shards: &[Shard],
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
        .map(|(shard, call)| ask(identity, deadline, outages, shard, call));
    let pushed = try_join_all(pushed).await?;
    let mut answers = vec![ask(identity, deadline, outages, first, first_call).await?];
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
        .map(|(shard, call)| ask(identity, deadline, outages, shard, call));
    let read = try_join_all(read).await?;
    let both = pushed.into_iter().zip(read);
    answers.extend(both.map(|(push, read)| ShardAnswer {
        pushed: push.pushed,
        pulled: read.pulled,
    }));
    Ok(answers)
}

async fn run(
    shards: Arc<[Shard]>,
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
            .map(|(shard, call)| ask(&identity, deadline, &outages, shard, call));
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
    // A server whose job has ended under this very call has read nothing, whatever the first one has said before.
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
    // The last synchronous step is over where all servers have applied it.
    let everywhere =
        step.at_least.is_none() || versions().all(|(pulled, _)| pulled.reached == reached);
    let ticket = match ticket {
        _ if answers.iter().any(over) && everywhere => Ticket::Finished,
        Ticket::Finished => Ticket::Wait,
        Ticket::Granted if !together => Ticket::Wait,
        ticket => ticket,
    };
    for (ps, (answer, call)) in answers.iter_mut().zip(&calls).enumerate() {
        let (Some((pulled, answer)), Some(pull)) = (answer.pulled.take(), &call.pull) else {
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
                answer,
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
    /// Returns it with the memory of its gradients, if the connection has let go of it.
    fn with(self, gradients: Arc<Gradients>) -> (Self, Gradients) {
        (self, Arc::try_unwrap(gradients).unwrap_or_default())
    }
}

/// The tries of one call.
struct Attempt<'a> {
    waiting: Waiting,
    backoff: Backoff,
    subject: &'a str,
    outages: &'a Outages,
    /// From the first notice on.
    outage: Option<Outage>,
}

impl<'a> Attempt<'a> {
    fn new(
        identity: &Identity,
        subject: &'a str,
        deadline: Duration,
        outages: &'a Outages,
    ) -> Self {
        Self {
            waiting: Waiting::new(identity.task.to_string(), subject, deadline),
            backoff: Backoff::new(identity.incarnation),
            subject,
            outages,
            outage: None,
        }
    }

    async fn again(&mut self, started: Instant, error: &Error) -> Result<(), Error> {
        let last = match error {
            Error::Unreachable { message, .. } => message.clone(),
            other => other.to_string(),
        };
        let action = self.waiting.tick(started.elapsed(), &last);
        self.tell(action)?;
        tokio::time::sleep(self.backoff.next_wait()).await;
        Ok(())
    }

    /// Looks at a try that is under way.
    fn look(&mut self, started: Instant) -> Result<(), Error> {
        let action = self.waiting.look(started.elapsed(), "no answer yet");
        self.tell(action)
    }

    /// Whether this call has told of the wait.
    fn tells(&self) -> bool {
        self.outage.as_ref().is_some_and(|outage| outage.is_first)
    }

    fn tell(&mut self, action: Action) -> Result<(), Error> {
        match action {
            Action::Wait => {}
            Action::Notice(notice) => {
                let outage = self
                    .outage
                    .get_or_insert_with(|| self.outages.begin(self.subject));
                if outage.is_first {
                    warn!("{notice}");
                }
            }
            Action::GiveUp(diagnostic) => return Err(Error::Deadline(diagnostic)),
        }
        Ok(())
    }
}

/// Silence of a peer after which the wait for its answer is looked at.
const UNANSWERED: Duration = Duration::from_secs(2);

/// Makes a call again and again while its failure may pass, and says whom it waits for.
///
/// # Errors
/// Refused, or no answer within `deadline`.
pub async fn retry<T, F: Future<Output = Result<T, Error>>>(
    identity: &Identity,
    subject: &str,
    deadline: Duration,
    call: impl Fn() -> F,
) -> Result<T, Error> {
    retry_noted(identity, subject, deadline, &Outages::default(), call).await
}

/// The same, and notes in `outages` that `subject` is waited for.
async fn retry_noted<T, F: Future<Output = Result<T, Error>>>(
    identity: &Identity,
    subject: &str,
    deadline: Duration,
    outages: &Outages,
    call: impl Fn() -> F,
) -> Result<T, Error> {
    let started = Instant::now();
    let mut attempt = Attempt::new(identity, subject, deadline, outages);
    loop {
        let mut call = pin!(call());
        let outcome = loop {
            match tokio::time::timeout(UNANSWERED, call.as_mut()).await {
                Ok(outcome) => break outcome,
                // A peer that has gone without a word takes a while to be noticed.
                Err(_) => attempt.look(started)?,
            }
        };
        match outcome {
            Err(error) if error.may_pass() => attempt.again(started, &error).await?,
            outcome => {
                if let Some(over) = attempt
                    .waiting
                    .over(started.elapsed())
                    .filter(|_| outcome.is_ok() && attempt.tells())
                {
                    info!("{over}");
                }
                return outcome;
            }
        }
    }
}

#[cfg(test)]
mod tests;
