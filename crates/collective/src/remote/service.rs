//! The collective service: the messages and announcements of other members, and this member's calls on the wire.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use prost::Message;
use tonic::Status;
use tonic::body::Body;
use tonic::codegen::{BoxFuture, Service as TowerService, http};
use tonic::server::NamedService;
use trainyard_protocol::Channel;
use trainyard_protocol::framing::{Outgoing, read};
use trainyard_protocol::limits::{CONTROL_MESSAGE_BYTES_MAX, GROUP_MESSAGE_BYTES_MAX};
use trainyard_protocol::message_stream::{self, Messages};
use trainyard_protocol::unary_call::{self, answer};
use trainyard_protocol::v1::collective_service_server::SERVICE_NAME;
use trainyard_protocol::{Reason, Refusal, root_cause, shown, v1};

use crate::error::Cause;
use crate::group::{Group, Membership};
use crate::message::{GroupMessage, Key, Operation};
use crate::remote::{GroupMember, Shared};

/// Delay before this member tells a peer what another member should have told it.
const HEARSAY_DELAY: Duration = Duration::from_millis(500);

/// The service of one process, to be added to the routes of a server.
#[derive(Debug, Clone)]
pub struct CollectiveService {
    shared: Arc<Shared>,
}

impl CollectiveService {
    pub(crate) fn new(shared: Arc<Shared>) -> Self {
        Self { shared }
    }
}

impl NamedService for CollectiveService {
    const NAME: &'static str = SERVICE_NAME;
}

impl TowerService<http::Request<Body>> for CollectiveService {
    type Response = http::Response<Body>;
    type Error = Infallible;
    type Future = BoxFuture<http::Response<Body>, Infallible>;

    fn poll_ready(&mut self, _context: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<Body>) -> Self::Future {
        let shared = Arc::clone(&self.shared);
        Box::pin(async move {
            let (head, body) = request.into_parts();
            let outcome = match head.uri.path().rsplit('/').next() {
                Some("Handshake") => shared.greeted(body).await,
                Some("Exchange") => shared.exchange(body).await,
                Some("Abort") => shared.aborted(body).await,
                _ => Err(Status::unimplemented(format!(
                    "{}: no such method exists",
                    head.uri.path()
                ))),
            };
            Ok(answer(outcome))
        })
    }
}

fn reply(fields: &impl Message) -> Outgoing {
    Outgoing::reply(fields, VecDeque::new())
}

impl Shared {
    async fn greeted(&self, body: Body) -> Result<Outgoing, Status> {
        let (request, _): (v1::HandshakeRequest, _) = read(body, CONTROL_MESSAGE_BYTES_MAX).await?;
        let member = self
            .member_of(&membership_from_wire(request.membership)?)
            .await?;
        match member.mailbox.cause() {
            None => Ok(reply(&v1::HandshakeReply {})),
            Some(cause) => Err(over(&cause)),
        }
    }

    async fn aborted(&self, body: Body) -> Result<Outgoing, Status> {
        let (request, _): (v1::AbortRequest, _) = read(body, CONTROL_MESSAGE_BYTES_MAX).await?;
        let membership = membership_from_wire(request.membership)?;
        // The end of another generation does not matter.
        if let Some(member) = self
            .current()
            .filter(|member| member.compare(&membership).is_ok_and(|same| same))
        {
            let reason = shown(&request.reason);
            member.mailbox.end(Cause::Aborted {
                by: member.mailbox.name(membership.group.rank),
                reason,
            });
        }
        Ok(reply(&v1::AbortReply {}))
    }

    /// Receives all messages that a peer sends in a generation.
    async fn exchange(&self, body: Body) -> Result<Outgoing, Status> {
        let mut messages = Messages::new(body, GROUP_MESSAGE_BYTES_MAX);
        let first: Option<(v1::GroupMessage, _)> = messages.next().await?;
        let membership = membership_from_wire(first.and_then(|(first, _)| first.membership))?;
        let member = self.member_of(&membership).await?;
        let rank = membership.group.rank;
        if std::mem::replace(&mut member.streams.lock()[rank], true) {
            let message = format!(
                "a member must open one stream, {} has opened one before",
                member.mailbox.name(rank)
            );
            return Err(Refusal::new(Reason::BadRequest, message).into());
        }
        let mailbox = &member.mailbox;
        loop {
            let message = tokio::select! {
                biased;
                message = messages.next::<v1::GroupMessage>() => message,
                cause = mailbox.ended() => return Err(over_in_turn(&cause).await),
            };
            match message {
                Ok(Some((fields, payload))) => {
                    let (key, message) =
                        message_from_wire(&fields, payload).inspect_err(|refusal| {
                            let message = refusal.message.clone();
                            mailbox.end(Cause::InvalidMessage {
                                peer: mailbox.name(rank),
                                message,
                            });
                        })?;
                    if let Err(cause) = mailbox.put(rank, key, message).await {
                        mailbox.end(cause.clone());
                        return Err(over_in_turn(&cause).await);
                    }
                }
                Ok(None) => {
                    mailbox.leave(rank);
                    return Ok(reply(&v1::ExchangeReply {}));
                }
                Err(status) => {
                    let message = root_cause(&status);
                    mailbox.end(Cause::Lost {
                        peer: mailbox.name(rank),
                        message,
                    });
                    return Err(status);
                }
            }
        }
    }

    fn current(&self) -> Option<Arc<GroupMember>> {
        self.current.borrow().clone()
    }

    /// Returns this member of the peer's group. If that group is newer, waits until this member has formed it.
    async fn member_of(&self, peer: &Membership) -> Result<Arc<GroupMember>, Status> {
        let mut changes = self.current.subscribe();
        let find =
            |current: &Option<Arc<GroupMember>>| -> Result<Option<Arc<GroupMember>>, Refusal> {
                match current {
                    None => Ok(None),
                    Some(member) => Ok(member.compare(peer)?.then(|| Arc::clone(member))),
                }
            };
        let found = find(&changes.borrow_and_update())?;
        if let Some(member) = found {
            return Ok(member);
        }
        let _place = self.greetings.try_acquire().map_err(|_| {
            Refusal::new(
                Reason::TooLarge,
                "too many peers wait for this member to join their process group",
            )
        })?;
        let newer = async {
            loop {
                if changes.changed().await.is_err() {
                    return Err(Status::unavailable("this member is about to end"));
                }
                let found = find(&changes.borrow_and_update())?;
                if let Some(member) = found {
                    return Ok(member);
                }
            }
        };
        tokio::time::timeout(self.form, newer)
            .await
            .unwrap_or_else(|_| {
                let generation = peer.group.generation;
                let waited = self.form.as_secs_f32();
                let message = format!(
                    "this member has not joined generation {generation} within {waited:.1} s"
                );
                Err(Refusal::new(Reason::NotReady, message).into())
            })
    }
}

impl GroupMember {
    /// Returns whether a peer belongs to the same group; `false` if its group is newer.
    ///
    /// # Errors
    /// The peer belongs to an older group, or its group contradicts this one.
    fn compare(&self, peer: &Membership) -> Result<bool, Refusal> {
        let own = &self.membership;
        if own.cluster_id != peer.cluster_id {
            return Err(Refusal::new(
                Reason::OtherCluster,
                "all members of a process group must belong to one cluster",
            ));
        }
        let (own_epoch, known) = own.age();
        let (epoch, given) = peer.age();
        if peer.age() < own.age() {
            let message = format!(
                "the process group must have generation {known} of cluster_epoch {own_epoch}, \
                given generation {given} of cluster_epoch {epoch}"
            );
            return Err(Refusal::new(Reason::OtherGroup, message));
        }
        if peer.age() > own.age() {
            return Ok(false);
        }
        if peer.group.size != own.group.size || peer.group.rank == own.group.rank {
            let message = format!(
                "the caller must be another of {} members than rank {}, given rank {} of {}",
                own.group.size, own.group.rank, peer.group.rank, peer.group.size
            );
            return Err(Refusal::new(Reason::OtherGroup, message));
        }
        Ok(true)
    }
}

/// Returns the status that says that the generation has ended.
fn over(cause: &Cause) -> Status {
    Refusal::new(Reason::GroupEnded, shown(&cause.reason())).into()
}

/// As [`over`], but first gives the member that has ended the generation time to say so, because its own words are
/// clearer.
async fn over_in_turn(cause: &Cause) -> Status {
    if cause.was_told() {
        tokio::time::sleep(HEARSAY_DELAY).await;
    }
    over(cause)
}

fn membership_to_wire(membership: &Membership) -> v1::Membership {
    let Membership {
        cluster_id,
        cluster_epoch,
        group,
    } = membership;
    v1::Membership {
        cluster_id: Bytes::copy_from_slice(cluster_id),
        cluster_epoch: *cluster_epoch,
        generation: group.generation,
        rank: group.rank as u32,
        size: group.size as u32,
    }
}

fn membership_from_wire(membership: Option<v1::Membership>) -> Result<Membership, Refusal> {
    let bad = |message: String| Refusal::new(Reason::BadRequest, message);
    let membership = membership.ok_or_else(|| bad("membership must be given".to_owned()))?;
    let cluster_id = membership.cluster_id[..].try_into().map_err(|_| {
        bad(format!(
            "membership.cluster_id must be 16 bytes, given {}",
            membership.cluster_id.len()
        ))
    })?;
    let group = Group {
        generation: membership.generation,
        rank: membership.rank as usize,
        size: membership.size as usize,
    };
    match group.problem() {
        Some(problem) => Err(bad(problem)),
        None => Ok(Membership {
            cluster_id,
            cluster_epoch: membership.cluster_epoch,
            group,
        }),
    }
}

fn message_from_wire(
    fields: &v1::GroupMessage,
    payload: Vec<Bytes>,
) -> Result<(Key, GroupMessage), Refusal> {
    let operation = match fields.operation() {
        v1::Operation::ReduceScatter => Operation::ReduceScatter,
        v1::Operation::Ring => Operation::Ring,
        v1::Operation::Tree => Operation::Tree,
        v1::Operation::Gather => Operation::Gather,
        v1::Operation::Unspecified => {
            let message = format!(
                "operation must be ring, tree or gather, given {}",
                fields.operation
            );
            return Err(Refusal::new(Reason::BadRequest, message));
        }
    };
    let key = Key {
        step: fields.step,
        bucket: fields.bucket,
        gathers: operation == Operation::Gather,
    };
    let part = fields.part;
    let round = fields.round;
    let total = fields.total;
    Ok((
        key,
        GroupMessage {
            operation,
            part,
            round,
            total,
            payload,
        },
    ))
}

/// Returns the first message of a stream.
pub(crate) fn opening(membership: &Membership) -> VecDeque<Bytes> {
    let membership = Some(membership_to_wire(membership));
    message_stream::message(
        &v1::GroupMessage {
            membership,
            ..v1::GroupMessage::default()
        },
        None,
    )
}

/// Returns a message as it is sent.
pub(crate) fn message(key: Key, message: GroupMessage) -> VecDeque<Bytes> {
    let operation = match message.operation {
        Operation::ReduceScatter => v1::Operation::ReduceScatter,
        Operation::Ring => v1::Operation::Ring,
        Operation::Tree => v1::Operation::Tree,
        Operation::Gather => v1::Operation::Gather,
    };
    let fields = v1::GroupMessage {
        step: key.step,
        bucket: key.bucket,
        operation: operation.into(),
        part: message.part,
        round: message.round,
        total: message.total,
        ..v1::GroupMessage::default()
    };
    message_stream::message(&fields, message.payload)
}

/// Calls a peer's method.
async fn call<R: Message + Default>(
    channel: &Channel,
    method: &str,
    body: Body,
) -> Result<(), Status> {
    let path = format!("/{SERVICE_NAME}/{method}");
    unary_call::call::<R>(channel, &path, None, body, CONTROL_MESSAGE_BYTES_MAX)
        .await
        .map(drop)
}

/// Sends a handshake to a peer. Returns when the peer has formed the same group.
pub(crate) async fn greet(channel: &Channel, membership: &Membership) -> Result<(), Status> {
    let fields = v1::HandshakeRequest {
        membership: Some(membership_to_wire(membership)),
    };
    let body = Body::new(Outgoing::request(&fields, VecDeque::new()));
    call::<v1::HandshakeReply>(channel, "Handshake", body).await
}

/// Sends a stream. Returns when the peer has received all of it, or accepts no more.
pub(crate) async fn exchange(channel: &Channel, body: Body) -> Result<(), Status> {
    call::<v1::ExchangeReply>(channel, "Exchange", body).await
}

/// Tells a peer that the generation has ended.
pub(crate) async fn abort(
    channel: &Channel,
    membership: &Membership,
    reason: &str,
) -> Result<(), Status> {
    let reason = shown(reason);
    let fields = v1::AbortRequest {
        membership: Some(membership_to_wire(membership)),
        reason,
    };
    let body = Body::new(Outgoing::request(&fields, VecDeque::new()));
    call::<v1::AbortReply>(channel, "Abort", body).await
}
