//! All parameter servers as one store, in one session: each step is pulled and pushed once, whatever is lost on the way.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::{join_all, try_join_all};
use tokio::time::Instant;
use tracing::warn;
use trainyard_diagnostic::{Action, Waiting};
use trainyard_parameter_store::{BatchId, Identity, Ticket};
use trainyard_variable::{Gradients, Layout, Read, Reads, Values};

use crate::split::{ShardPlan, split};
use crate::{Answer, Backoff, Error, Shard, ShardGradients};

/// What a pull told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PulledStep {
    /// Whether the step may be computed and pushed.
    pub ticket: Ticket,
    /// Steps applied by all, at the pull.
    pub global_step: u64,
}

/// What a push told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PushedStep {
    /// Whether every server had applied the batch before.
    pub duplicate: bool,
    /// Steps applied by all.
    pub global_step: u64,
    /// Steps of others between this one's pull and its push, at `ps:0`.
    pub staleness: u64,
}

/// Bytes of values moved, for telemetry.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Traffic {
    /// Bytes of parameters pulled.
    pub pulled_bytes: u64,
    /// Bytes of gradients pushed.
    pub pushed_bytes: u64,
}

/// One session with every parameter server.
#[derive(Debug)]
pub struct Parameters {
    shards: Vec<Shard>,
    layout: Arc<Layout>,
    identity: Identity,
    deadline: Duration,
    /// Version of each server at the latest pull.
    versions: Vec<u64>,
    plans: Vec<ShardPlan>,
    answers: Vec<Answer>,
    gradients: Vec<Vec<f32>>,
    traffic: Traffic,
}

impl Parameters {
    /// Opens a session at every server. Returns it with the first batch of `data_shard` that is not applied
    /// everywhere.
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
    ) -> Result<(Self, u64), Error> {
        let opened = shards.iter().map(|shard| {
            retry(&identity, shard.name(), deadline, move || {
                shard.open_session(identity, fingerprint, data_shard)
            })
        });
        let next = try_join_all(opened).await?.into_iter().min().unwrap_or(0);
        let count = shards.len();
        let versions = vec![0; count];
        let answers = std::iter::repeat_with(Answer::default).take(count).collect();
        let (plans, gradients, traffic) = (Vec::new(), Vec::new(), Traffic::default());
        Ok((Self { shards, layout, identity, deadline, versions, plans, answers, gradients, traffic }, next))
    }

    /// Returns the bytes moved so far.
    pub fn traffic(&self) -> Traffic {
        self.traffic
    }

    /// Asks for the right to push one more step, and reads what it needs into `values` if it is granted.
    ///
    /// Asking again before the push is the same question.
    ///
    /// # Errors
    /// A server refuses, or gives no answer in time.
    pub async fn pull(&mut self, reads: &Reads, values: &mut Values) -> Result<PulledStep, Error> {
        self.plans = split(&self.layout, reads, |_| true);
        let identity = Identity { seq: self.identity.seq + 1, ..self.identity };
        let deadline = self.deadline;
        // The first server gives the ticket; the others are read at the same time, in case it is granted.
        let calls = self.shards.iter().zip(&self.plans).zip(&mut self.answers).enumerate().map(
            |(ps, ((shard, plan), answer))| async move {
                if ps > 0 && plan.floats == 0 {
                    answer.clear();
                    return Ok(None);
                }
                let started = Instant::now();
                let mut attempt = Attempt::new(&identity, shard.name(), deadline);
                loop {
                    match shard.pull(identity, &plan.reads, ps == 0, plan.floats, answer).await {
                        Err(error) if error.may_pass() => attempt.again(started, &error).await?,
                        outcome => return outcome.map(Some),
                    }
                }
            },
        );
        let pulled = join_all(calls).await.into_iter().collect::<Result<Vec<_>, Error>>()?;
        let first = pulled.first().copied().flatten();
        let step = first.map_or(PulledStep { ticket: Ticket::Granted, global_step: 0 }, |first| PulledStep {
            ticket: first.ticket,
            global_step: first.global_step,
        });
        for (version, pulled) in self.versions.iter_mut().zip(&pulled) {
            *version = pulled.map_or(*version, |pulled| pulled.version);
        }
        if step.ticket == Ticket::Granted {
            self.gather(reads, values);
        }
        Ok(step)
    }

    /// Puts the servers' answers together.
    fn gather(&mut self, reads: &Reads, values: &mut Values) {
        values.resize_with(reads.len(), Vec::new);
        for (variable, (read, values)) in reads.iter().zip(values.iter_mut()).enumerate() {
            let slices = &self.layout.slices[self.layout.of_variable(variable)];
            let width = slices.first().map_or(0, |slice| slice.width);
            let rows = match read {
                Read::Nothing => 0,
                Read::Whole => slices.last().map_or(0, |slice| slice.rows.end),
                Read::Rows(rows) => rows.len(),
                Read::Ids(ids) => ids.len(),
            };
            values.resize(rows * width, 0.0);
        }
        for (plan, answer) in self.plans.iter().zip(&mut self.answers) {
            for (variable, place) in &plan.places {
                answer.read(&mut values[*variable][place.clone()]);
            }
            self.traffic.pulled_bytes += plan.floats as u64 * 4;
        }
    }

    /// Pushes the gradients of the step that was pulled last, to every server at once, each until it has answered.
    ///
    /// # Errors
    /// A server refuses, or gives no answer in time. The same step may then be pushed again in a new session: what
    /// was applied is answered as a duplicate.
    pub async fn push(
        &mut self,
        batch: BatchId,
        reads: &Reads,
        gradients: &Gradients,
    ) -> Result<PushedStep, Error> {
        self.identity.seq += 1;
        let identity = self.identity;
        let plans = split(&self.layout, reads, |variable| !gradients[variable].is_empty());
        self.gradients.resize_with(self.shards.len(), Vec::new);
        let messages: Vec<ShardGradients> = plans
            .into_iter()
            .zip(&self.versions)
            .zip(&mut self.gradients)
            .map(|((plan, &pulled_version), buffer)| {
                // The memory of the step before.
                let mut values = std::mem::take(buffer);
                values.clear();
                values.reserve(plan.floats);
                plan.places.iter().for_each(|(variable, place)| {
                    values.extend_from_slice(&gradients[*variable][place.clone()]);
                });
                ShardGradients { batch, pulled_version, targets: plan.reads, values: Arc::new(values) }
            })
            .collect();
        self.traffic.pushed_bytes +=
            messages.iter().map(|message| message.values.len() as u64 * 4).sum::<u64>();
        let calls = self.shards.iter().zip(&messages).map(|(shard, message)| {
            retry(&identity, shard.name(), self.deadline, move || shard.push(identity, message))
        });
        let pushed = try_join_all(calls).await?;
        for (buffer, message) in self.gradients.iter_mut().zip(messages) {
            *buffer = Arc::try_unwrap(message.values).unwrap_or_default();
        }
        let first = pushed.first();
        Ok(PushedStep {
            duplicate: pushed.iter().all(|pushed| pushed.duplicate),
            global_step: first.map_or(0, |first| first.global_step),
            staleness: first.map_or(0, |first| first.staleness),
        })
    }
}

/// The tries of one call.
struct Attempt {
    waiting: Waiting,
    backoff: Backoff,
}

impl Attempt {
    fn new(identity: &Identity, subject: &str, deadline: Duration) -> Self {
        let waiting = Waiting::new(identity.task.to_string(), subject, deadline);
        Self { waiting, backoff: Backoff::new(identity.incarnation) }
    }

    async fn again(&mut self, started: Instant, error: &Error) -> Result<(), Error> {
        let last = match error {
            Error::Unreachable { message, .. } => message.clone(),
            other => other.to_string(),
        };
        match self.waiting.tick(started.elapsed(), &last) {
            Action::Wait => {}
            Action::Notice(notice) => warn!("{notice}"),
            Action::GiveUp(diagnostic) => return Err(Error::Deadline(diagnostic)),
        }
        tokio::time::sleep(self.backoff.next_wait()).await;
        Ok(())
    }
}

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
    let started = Instant::now();
    let mut attempt = Attempt::new(identity, subject, deadline);
    loop {
        match call().await {
            Err(error) if error.may_pass() => attempt.again(started, &error).await?,
            outcome => return outcome,
        }
    }
}
