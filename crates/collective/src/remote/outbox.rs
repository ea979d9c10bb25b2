//! The outgoing side of a member: one stream to each peer, and the announcement that a generation has ended.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::join_all;
use http_body::{Body, Frame};
use parking_lot::Mutex;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};
use tonic::Status;
use trainyard_protocol::Channel;
use trainyard_protocol::limits::OUTBOX_MESSAGES_MAX;
use trainyard_protocol::{Refusal, root_cause};

use crate::error::Cause;
use crate::group::Membership;
use crate::mailbox::Mailbox;
use crate::message::{GroupMessage, Key};
use crate::remote::{Peer, service};
use crate::transport::{Sent, Transport};

/// The pieces of a message.
type Pieces = VecDeque<Bytes>;

/// The streams of one member.
#[derive(Debug)]
pub(crate) struct Remote {
    mailbox: Arc<Mailbox>,
    /// By rank; absent for this member, and for all members once it leaves.
    outboxes: Mutex<Vec<Option<mpsc::Sender<Pieces>>>>,
    streams: Mutex<Vec<JoinHandle<()>>>,
    herald: JoinHandle<()>,
}

impl Remote {
    /// Opens a stream to every peer.
    pub(crate) fn open(
        membership: &Membership,
        peers: Vec<Peer>,
        mailbox: &Arc<Mailbox>,
        leave_timeout: Duration,
        herald: JoinHandle<()>,
    ) -> Self {
        let mut outboxes = vec![None; membership.group.size];
        let mut streams = Vec::new();
        for peer in peers {
            let (sender, receiver) = mpsc::channel(OUTBOX_MESSAGES_MAX);
            outboxes[peer.rank] = Some(sender);
            let body = Outbox {
                leaving: service::opening(membership),
                waiting: receiver,
            };
            streams.push(tokio::spawn(stream(
                peer,
                body,
                Arc::clone(mailbox),
                leave_timeout,
            )));
        }
        Self {
            mailbox: Arc::clone(mailbox),
            outboxes: Mutex::new(outboxes),
            streams: Mutex::new(streams),
            herald,
        }
    }

    async fn send(&self, to: usize, pieces: Pieces) -> Result<(), Cause> {
        let outbox = self.outboxes.lock()[to].clone();
        let left = || Cause::Left {
            peer: self.mailbox.name(to),
        };
        let outbox = outbox.ok_or_else(left)?;
        outbox
            .send(pieces)
            .await
            .map_err(|_| self.mailbox.cause().unwrap_or_else(left))
    }
}

impl Transport for Remote {
    fn send(&self, to: usize, key: Key, message: GroupMessage) -> Sent<'_> {
        Box::pin(self.send(to, service::message(key, message)))
    }

    /// The herald tells the others, whatever has ended the generation.
    fn tell(&self, _cause: &Cause) {}

    fn leave(&self) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        self.outboxes.lock().fill(None);
        let streams = std::mem::take(&mut *self.streams.lock());
        Box::pin(async move {
            join_all(streams).await;
        })
    }
}

impl Drop for Remote {
    fn drop(&mut self) {
        // A generation that was left in order needs no announcement.
        if self.mailbox.cause().is_none() {
            self.herald.abort();
        }
    }
}

/// Keeps the stream to a peer until it ends, and ends the generation if the stream has failed.
async fn stream(peer: Peer, body: Outbox, mailbox: Arc<Mailbox>, leave_timeout: Duration) {
    let outcome = tokio::select! {
        outcome = service::exchange(&peer.channel, tonic::body::Body::new(body)) => outcome,
        // The peer receives the reason first. The stream is then cut, whatever it still carries.
        () = async { mailbox.ended().await; sleep(leave_timeout).await } => return,
    };
    let Err(status) = outcome else { return };
    // A process that has left may be gone.
    if mailbox.has_left(peer.rank) {
        return;
    }
    mailbox.end(match Refusal::from_status(&status) {
        Some(refusal) => Cause::refused(peer.name, refusal),
        None => Cause::Lost {
            peer: peer.name,
            message: root_cause(&status),
        },
    });
}

/// The body of a stream.
#[derive(Debug)]
struct Outbox {
    /// Remaining pieces of the message that is being sent.
    leaving: Pieces,
    waiting: mpsc::Receiver<Pieces>,
}

impl Body for Outbox {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        loop {
            if let Some(piece) = self.leaving.pop_front() {
                return Poll::Ready(Some(Ok(Frame::data(piece))));
            }
            match ready!(self.waiting.poll_recv(context)) {
                Some(next) => self.leaving = next,
                None => return Poll::Ready(None),
            }
        }
    }
}

/// Spawns the herald, which tells all other members when this member finds that the generation has ended.
pub(crate) fn spawn_herald(
    membership: Membership,
    peers: &[Peer],
    mailbox: Arc<Mailbox>,
    leave_timeout: Duration,
) -> JoinHandle<()> {
    let channels: Vec<Channel> = peers.iter().map(|peer| peer.channel.clone()).collect();
    tokio::spawn(async move {
        let cause = mailbox.ended().await;
        if cause.was_told() {
            return;
        }
        let reason = cause.reason();
        let told = channels
            .iter()
            .map(|channel| service::abort(channel, &membership, &reason));
        // A peer that cannot be told finds out by itself.
        let _ = timeout(leave_timeout, join_all(told)).await;
    })
}
