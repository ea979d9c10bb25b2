//! One member of a group, and its operations.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tokio::time::Instant;
use trainyard_protocol::Pool;
use trainyard_protocol::limits::GATHER_BYTES_MAX;

use crate::error::{Cause, Error, THIS_MEMBER, Wait};
use crate::gather::Gather;
use crate::group::{Deadlines, Group};
use crate::mailbox::{Mailbox, Receiver};
use crate::message::{Arrived, Awaited, GroupMessage, InvalidMessage, Key, Outgoing};
use crate::reduction::Reduction;
use crate::sum::Own;
use crate::transport::Transport;

/// One member of one generation of a group.
///
/// All members call the same operations with the same numbers and begin them in the same order. Several operations may
/// be in progress at once. A pair of numbers (step and bucket) is used once in a generation for a sum, and once for a
/// gather. The first error ends the generation for all members: pending and later operations fail at once. An operation
/// that is dropped before its end also ends the generation.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), trainyard_collective::Error> {
/// use trainyard_collective::{Deadlines, local};
///
/// let members = local(1, 2, Deadlines::default());
/// let (mut left, mut right) = (vec![1.0, 2.0], vec![10.0, 20.0]);
/// tokio::try_join!(members[0].all_reduce(7, 0, &mut left, &[]), members[1].all_reduce(7, 0, &mut right, &[]))?;
/// assert_eq!((left, right), (vec![11.0, 22.0], vec![11.0, 22.0]));
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Collective {
    group: Group,
    mailbox: Arc<Mailbox>,
    transport: Box<dyn Transport>,
    deadlines: Deadlines,
    /// Most buffers that a member adds to a sum.
    buffers: usize,
    pool: Pool,
}

/// An operation, as a state machine that takes and sends messages.
trait Machine {
    fn begin(&mut self) -> Option<Outgoing>;
    fn take(
        &mut self,
        arrived: Arrived,
        out: &mut VecDeque<Outgoing>,
    ) -> Result<(), InvalidMessage>;
    fn is_complete(&self) -> bool;
    fn awaited(&self) -> Option<Awaited>;
}

/// A sum, and its values.
struct Summing<'a> {
    reduction: Reduction,
    own: Own<'a>,
    pool: &'a Pool,
}

impl Machine for Summing<'_> {
    fn begin(&mut self) -> Option<Outgoing> {
        self.reduction.begin(&self.own, self.pool)
    }

    fn take(
        &mut self,
        arrived: Arrived,
        out: &mut VecDeque<Outgoing>,
    ) -> Result<(), InvalidMessage> {
        self.reduction.take(arrived, &mut self.own, self.pool, out)
    }

    fn is_complete(&self) -> bool {
        self.reduction.is_complete()
    }

    fn awaited(&self) -> Option<Awaited> {
        self.reduction.awaited()
    }
}

impl Machine for Gather {
    fn begin(&mut self) -> Option<Outgoing> {
        self.begin()
    }

    fn take(
        &mut self,
        arrived: Arrived,
        _out: &mut VecDeque<Outgoing>,
    ) -> Result<(), InvalidMessage> {
        self.take(arrived.from, arrived.message)
    }

    fn is_complete(&self) -> bool {
        self.is_complete()
    }

    fn awaited(&self) -> Option<Awaited> {
        self.awaited()
    }
}

impl Collective {
    pub(crate) fn new(
        group: Group,
        mailbox: Arc<Mailbox>,
        transport: Box<dyn Transport>,
        deadlines: Deadlines,
    ) -> Self {
        Self {
            group,
            mailbox,
            transport,
            deadlines,
            buffers: 1,
            pool: Pool::default(),
        }
    }

    /// Returns the same member of a group in which each member adds up to `buffers` buffers to a sum; 1 by default. All
    /// members must set the same number, because the algorithm depends on it.
    pub fn with_buffers(self, buffers: usize) -> Self {
        Self {
            buffers: buffers.max(1),
            ..self
        }
    }

    /// Returns the group and this member's rank.
    pub fn group(&self) -> Group {
        self.group
    }

    /// Replaces `values` by their sum over all members. Each buffer of `more` must be as long as `values`, and is added
    /// after them.
    ///
    /// All values are added in the order of ranks, in float32, so all members hold the same bits. The same buffers in
    /// the same order give these bits, however they are divided among members. Buffers of up to 16 KiB are summed along
    /// a tree, larger ones by reduce-scatter, or along a ring in large groups.
    ///
    /// # Errors
    /// The generation has ended, by this call or before; `values` are then neither the old values nor the sum. A buffer
    /// has another length, or there are more buffers than announced.
    pub async fn all_reduce(
        &self,
        step: u64,
        bucket: u32,
        values: &mut [f32],
        more: &[Vec<f32>],
    ) -> Result<(), Error> {
        if let Some(wrong) = more.iter().find(|more| more.len() != values.len()) {
            let expected = values.len();
            let given = wrong.len();
            let message =
                format!("every buffer of a sum must hold {expected} values, given {given}");
            return Err(self.error(Cause::Misuse(message)));
        }
        if more.len() >= self.buffers {
            let most = self.buffers;
            let given = more.len() + 1;
            let message =
                format!("a member must add at most {most} buffers to a sum, given {given}");
            return Err(self.error(Cause::Misuse(message)));
        }
        let Group { rank, size, .. } = self.group;
        let reduction = Reduction::new(rank, size, self.buffers, values.len());
        let mut own = Own { values, more };
        if size == 1 {
            own.add_more(&(0..own.values.len()));
            return self.alone();
        }
        let mut summing = Summing {
            reduction,
            own,
            pool: &self.pool,
        };
        self.operate(
            Key {
                step,
                bucket,
                gathers: false,
            },
            &mut summing,
        )
        .await
    }

    /// Returns the bytes of every member, by rank. Lengths may differ; at most 256 MiB each.
    ///
    /// # Errors
    /// The generation has ended, by this call or before; or there are too many bytes.
    pub async fn all_gather(
        &self,
        step: u64,
        bucket: u32,
        bytes: Bytes,
    ) -> Result<Vec<Bytes>, Error> {
        if bytes.len() > GATHER_BYTES_MAX {
            let message = format!(
                "a member must give at most {GATHER_BYTES_MAX} bytes at once, given {}",
                bytes.len()
            );
            return Err(self.error(Cause::Misuse(message)));
        }
        if self.group.size == 1 {
            return self.alone().map(|()| vec![bytes]);
        }
        let mut gather = Gather::new(self.group.rank, self.group.size, bytes);
        self.operate(
            Key {
                step,
                bucket,
                gathers: true,
            },
            &mut gather,
        )
        .await?;
        Ok(gather.into_contributions())
    }

    /// Ends the generation for all members, for example because the chief has announced a new membership.
    pub fn abort(&self, reason: impl Into<String>) {
        self.end(Cause::Aborted {
            by: THIS_MEMBER.to_owned(),
            reason: reason.into(),
        });
    }

    /// Returns why the generation has ended, if it has.
    pub fn failure(&self) -> Option<Error> {
        self.mailbox.cause().map(|cause| self.error(cause))
    }

    /// Waits until the generation ends, by a failure or an abort.
    pub async fn ended(&self) -> Error {
        self.error(self.mailbox.ended().await)
    }

    /// Leaves the group in order: waits until other members have received what this member sent, for at most
    /// [`Deadlines::leave_timeout`]. A member that is dropped leaves, too, but its process must live until all has been
    /// sent.
    pub async fn leave(self) {
        let _ = tokio::time::timeout(self.deadlines.leave_timeout, self.transport.leave()).await;
    }

    /// A group of one member has nothing to exchange, but may have ended.
    fn alone(&self) -> Result<(), Error> {
        self.failure().map_or(Ok(()), Err)
    }

    fn error(&self, cause: Cause) -> Error {
        Error::new(self.group.generation, cause)
    }

    fn end(&self, cause: Cause) {
        if self.mailbox.end(cause.clone()) {
            tracing::warn!(generation = self.group.generation, rank = self.group.rank, %cause, "the group has ended");
            self.transport.tell(&cause);
        }
    }

    /// Runs an operation. Any failure ends the generation.
    async fn operate(&self, key: Key, machine: &mut (impl Machine + Send)) -> Result<(), Error> {
        let begun = Instant::now();
        let receiver = self.mailbox.enter(key).map_err(|cause| self.error(cause))?;
        // If the operation is dropped, the guard tells the other members.
        let guard = Guard {
            collective: self,
            key,
            armed: true,
        };
        let outcome = self.drive(receiver, key, machine).await;
        guard.disarm();
        outcome.map_err(|(cause, what)| {
            self.end(cause);
            // The first cause counts, even if it is a different one.
            let cause = self
                .mailbox
                .cause()
                .unwrap_or(Cause::Misuse("the cause is not known".to_owned()));
            let wait = Wait {
                subject: format!("{what} in {key}"),
                waited: begun.elapsed(),
            };
            Error {
                wait: Some(wait),
                ..self.error(cause)
            }
        })
    }

    async fn drive(
        &self,
        mut receiver: Receiver<'_>,
        key: Key,
        machine: &mut (impl Machine + Send),
    ) -> Result<(), (Cause, String)> {
        let mut out = VecDeque::new();
        loop {
            let arrived = match receiver.try_take() {
                Ok(arrived) => arrived,
                Err(cause) => break Err((cause, awaited_now(machine))),
            };
            let arrived = match arrived {
                Some(arrived) => arrived,
                None => {
                    if let Some(next) = out.pop_front().or_else(|| machine.begin()) {
                        if let Err(cause) = self.send(key, next).await {
                            break Err((cause, awaited_now(machine)));
                        }
                        continue;
                    }
                    if machine.is_complete() {
                        break Ok(());
                    }
                    match self.next(&mut receiver, machine).await {
                        Ok(arrived) => arrived,
                        Err(cause) => break Err((cause, awaited_now(machine))),
                    }
                }
            };
            let (from, message) = arrived;
            if let Err(InvalidMessage(message)) = machine.take(Arrived { from, message }, &mut out)
            {
                let message = format!("{message} (in {key})");
                break Err((
                    Cause::InvalidMessage {
                        peer: self.mailbox.name(from),
                        message,
                    },
                    awaited_now(machine),
                ));
            }
        }
    }

    /// Waits for the next message, for as long as the peer may be silent.
    async fn next(
        &self,
        receiver: &mut Receiver<'_>,
        machine: &impl Machine,
    ) -> Result<(usize, GroupMessage), Cause> {
        let Some(awaited) = machine.awaited() else {
            return Err(Cause::Misuse(
                "an operation that is not complete must wait for a member".to_owned(),
            ));
        };
        // A peer that may itself wait for others is blamed later than they are.
        let patience = self.deadlines.silence + self.deadlines.silence / 4 * awaited.behind;
        let silent = |_| Cause::Silent {
            peer: self.mailbox.name(awaited.from),
            silence: patience,
        };
        tokio::time::timeout(patience, receiver.take(awaited.from))
            .await
            .map_err(silent)?
    }

    /// Sends a message, for as long as the peer may accept nothing.
    async fn send(&self, key: Key, next: Outgoing) -> Result<(), Cause> {
        let patience: Duration = self.deadlines.silence;
        let silent = |_| Cause::Silent {
            peer: self.mailbox.name(next.to),
            silence: patience,
        };
        let sent = async {
            tokio::select! {
                biased;
                sent = self.transport.send(next.to, key, next.message) => sent,
                cause = self.mailbox.ended() => Err(cause),
            }
        };
        tokio::time::timeout(patience, sent).await.map_err(silent)?
    }
}

fn awaited_now(machine: &impl Machine) -> String {
    machine
        .awaited()
        .map_or_else(|| "its end".to_owned(), |awaited| awaited.what)
}

/// Ends the generation when an operation is dropped before its end.
struct Guard<'a> {
    collective: &'a Collective,
    key: Key,
    armed: bool,
}

impl Guard<'_> {
    fn disarm(mut self) {
        self.armed = false;
    }
}

impl Drop for Guard<'_> {
    fn drop(&mut self) {
        if self.armed {
            self.collective.abort(format!("{} was cancelled", self.key));
        }
    }
}
