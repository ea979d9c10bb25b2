//! Repetition of a call while its failure may pass, with a deadline and log lines about the wait.

use std::ops::RangeInclusive;
use std::pin::pin;
use std::time::Duration;

use tokio::time::Instant;
use tracing::{info, warn};
use trainyard_diagnostic::{Action, Waiting};
use trainyard_parameter_store::Identity;
use trainyard_protocol::Reason;
use trainyard_runtime::Backoff;

use crate::Error;
use crate::outages::{Outage, Outages};

/// Interval at which the wait for a reply is checked.
const NOTICE_AFTER: Duration = Duration::from_secs(2);

/// Bound of the first pause between retries, and of every pause.
const PAUSES: RangeInclusive<Duration> = Duration::from_millis(20)..=Duration::from_secs(1);

/// Returns the pauses between the retries of one call. Incarnations of a task, and tasks, pause for different times.
pub fn backoff(incarnation: u64) -> Backoff {
    Backoff::new(PAUSES, incarnation)
}

/// The attempts of one call.
struct Attempt<'a> {
    waiting: Waiting,
    backoff: Backoff,
    subject: &'a str,
    outages: &'a Outages,
    /// Set at the first notice.
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
            backoff: backoff(identity.incarnation),
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
        tokio::time::sleep(self.backoff.next_pause()).await;
        Ok(())
    }

    /// Checks the duration of an attempt in progress.
    fn look(&mut self, started: Instant) -> Result<(), Error> {
        let action = self.waiting.look(started.elapsed(), "no answer yet");
        self.tell(action)
    }

    /// Returns whether this call has logged the wait.
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

/// Makes a call, and repeats it while its failure may pass. Logs the peer that the call waits for.
///
/// # Errors
/// The peer refuses, or does not reply within `deadline`.
pub async fn retry<T, F: Future<Output = Result<T, Error>>>(
    identity: &Identity,
    subject: &str,
    deadline: Duration,
    call: impl Fn() -> F,
) -> Result<T, Error> {
    retry_noted(identity, subject, deadline, &Outages::default(), call).await
}

/// As [`retry`], and repeats the call while the peer cannot read or write its files, too: of calls whose answer nobody
/// waits for, and which no one makes again after a restart.
///
/// # Errors
/// As [`retry`].
pub async fn retry_over_faults_of_files<T, F: Future<Output = Result<T, Error>>>(
    identity: &Identity,
    subject: &str,
    deadline: Duration,
    call: impl Fn() -> F,
) -> Result<T, Error> {
    let may_pass = |error: &Error| error.may_pass() || error.reason() == Some(Reason::Storage);
    let outages = Outages::default();
    retry_while(may_pass, identity, subject, deadline, &outages, call).await
}

/// As [`retry`], and records in `outages` that the call waits for `subject`.
pub(crate) async fn retry_noted<T, F: Future<Output = Result<T, Error>>>(
    identity: &Identity,
    subject: &str,
    deadline: Duration,
    outages: &Outages,
    call: impl Fn() -> F,
) -> Result<T, Error> {
    retry_while(Error::may_pass, identity, subject, deadline, outages, call).await
}

async fn retry_while<T, F: Future<Output = Result<T, Error>>>(
    may_pass: impl Fn(&Error) -> bool,
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
            match tokio::time::timeout(NOTICE_AFTER, call.as_mut()).await {
                Ok(outcome) => break outcome,
                // A peer that vanished without closing the connection is noticed late.
                Err(_) => attempt.look(started)?,
            }
        };
        match outcome {
            Err(error) if may_pass(&error) => attempt.again(started, &error).await?,
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
