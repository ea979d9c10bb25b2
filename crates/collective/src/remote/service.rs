//! The collective service: deposits and news of other members, and what this member's calls look like on the wire.

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
use trainyard_protocol::limits::{CONTROL_MESSAGE_BYTES_MAX, DEPOSIT_BYTES_MAX};
use trainyard_protocol::message_stream::{self, Messages};
use trainyard_protocol::own_body::{self, answer};
use trainyard_protocol::v1::collective_service_server::SERVICE_NAME;
use trainyard_protocol::{Reason, Refusal, root_cause, shown, v1};

use crate::deposit::{Deposit, Key, Operation};
use crate::error::Cause;
use crate::group::{Group, Membership};
use crate::remote::{Seat, Shared};

/// Time before a peer hears from this member what another should have told it.
const HEARSAY_DELAY: Duration = Duration::from_millis(500);

/// The service of one process, as a server routes to it.
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
                Some("Greet") => shared.greeted(body).await,
                Some("Exchange") => shared.exchange(body).await,
                Some("Abort") => shared.aborted(body).await,
                _ => Err(Status::unimplemented(format!(
                    "{} is no method here",
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
        let (request, _): (v1::GreetRequest, _) = read(body, CONTROL_MESSAGE_BYTES_MAX).await?;
        let seat = self
            .seat_of(&membership_from_wire(request.membership)?)
            .await?;
        match seat.mailbox.cause() {
            None => Ok(reply(&v1::GreetReply {})),
            Some(cause) => Err(over(&cause)),
        }
    }

    async fn aborted(&self, body: Body) -> Result<Outgoing, Status> {
        let (request, _): (v1::AbortRequest, _) = read(body, CONTROL_MESSAGE_BYTES_MAX).await?;
        let membership = membership_from_wire(request.membership)?;
        // Another generation's end is no news.
        if let Some(seat) = self
            .current()
            .filter(|seat| seat.compare(&membership).is_ok_and(|same| same))
        {
            let reason = shown(&request.reason);
            seat.mailbox.end(Cause::Aborted {
                by: seat.mailbox.name(membership.group.rank),
                reason,
            });
        }
        Ok(reply(&v1::AbortReply {}))
    }

    /// Takes all that a peer sends in a generation.
    async fn exchange(&self, body: Body) -> Result<Outgoing, Status> {
        let mut messages = Messages::new(body, DEPOSIT_BYTES_MAX);
        let first: Option<(v1::Deposit, _)> = messages.next().await?;
        let membership = membership_from_wire(first.and_then(|(first, _)| first.membership))?;
        let seat = self.seat_of(&membership).await?;
        let rank = membership.group.rank;
        if std::mem::replace(&mut seat.streams.lock()[rank], true) {
            let message = format!(
                "a member must open one stream, {} has one",
                seat.mailbox.name(rank)
            );
            return Err(Refusal::new(Reason::BadRequest, message).into());
        }
        let mailbox = &seat.mailbox;
        loop {
            let message = tokio::select! {
                biased;
                message = messages.next::<v1::Deposit>() => message,
                cause = mailbox.ended() => return Err(over_in_turn(&cause).await),
            };
            match message {
                Ok(Some((fields, payload))) => {
                    let (key, deposit) =
                        deposit_from_wire(&fields, payload).inspect_err(|refusal| {
                            let message = refusal.message.clone();
                            mailbox.end(Cause::Misfit {
                                peer: mailbox.name(rank),
                                message,
                            });
                        })?;
                    if let Err(cause) = mailbox.put(rank, key, deposit).await {
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

    fn current(&self) -> Option<Arc<Seat>> {
        self.current.borrow().clone()
    }

    /// Returns the seat in the group of a peer; waits for it when the peer's is newer.
    async fn seat_of(&self, peer: &Membership) -> Result<Arc<Seat>, Status> {
        let mut changes = self.current.subscribe();
        let find = |current: &Option<Arc<Seat>>| -> Result<Option<Arc<Seat>>, Refusal> {
            match current {
                None => Ok(None),
                Some(seat) => Ok(seat.compare(peer)?.then(|| Arc::clone(seat))),
            }
        };
        let found = find(&changes.borrow_and_update())?;
        if let Some(seat) = found {
            return Ok(seat);
        }
        let _place = self.greetings.try_acquire().map_err(|_| {
            Refusal::new(
                Reason::TooLarge,
                "too many wait for this member to form their group",
            )
        })?;
        let newer = async {
            loop {
                if changes.changed().await.is_err() {
                    return Err(Status::unavailable("this member ends"));
                }
                let found = find(&changes.borrow_and_update())?;
                if let Some(seat) = found {
                    return Ok(seat);
                }
            }
        };
        tokio::time::timeout(self.form, newer)
            .await
            .unwrap_or_else(|_| {
                let generation = peer.group.generation;
                let waited = self.form.as_secs_f32();
                let message =
                    format!("this member has not formed generation {generation} for {waited:.1} s");
                Err(Refusal::new(Reason::NotReady, message).into())
            })
    }
}

impl Seat {
    /// Returns whether a peer is of the same group; not if it is of a newer one.
    ///
    /// # Errors
    /// It is of an older one or of none that could be.
    fn compare(&self, peer: &Membership) -> Result<bool, Refusal> {
        let own = &self.membership;
        if own.cluster_id != peer.cluster_id {
            return Err(Refusal::new(
                Reason::OtherCluster,
                "a group must be of one cluster",
            ));
        }
        let (own_epoch, known) = own.age();
        let (epoch, given) = peer.age();
        if peer.age() < own.age() {
            let message = format!(
                "the group must be generation {known} of epoch {own_epoch}, given {given} of {epoch}"
            );
            return Err(Refusal::new(Reason::OtherGroup, message));
        }
        if peer.age() > own.age() {
            return Ok(false);
        }
        if peer.group.size != own.group.size || peer.group.rank == own.group.rank {
            let message = format!(
                "the speaker must be another of {} members than rank {}, given rank {} of {}",
                own.group.size, own.group.rank, peer.group.rank, peer.group.size
            );
            return Err(Refusal::new(Reason::OtherGroup, message));
        }
        Ok(true)
    }
}

/// Says that the generation has ended.
fn over(cause: &Cause) -> Status {
    Refusal::new(Reason::GroupEnded, shown(&cause.reason())).into()
}

/// As [`over`], but leaves it to the member that ended it to say so first: in its own words the news is clearer.
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

fn deposit_from_wire(fields: &v1::Deposit, payload: Vec<Bytes>) -> Result<(Key, Deposit), Refusal> {
    let operation = match fields.operation() {
        v1::Operation::Shares => Operation::Shares,
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
        Deposit {
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
        &v1::Deposit {
            membership,
            ..v1::Deposit::default()
        },
        None,
    )
}

/// Returns a deposit as it travels.
pub(crate) fn message(key: Key, deposit: Deposit) -> VecDeque<Bytes> {
    let operation = match deposit.operation {
        Operation::Shares => v1::Operation::Shares,
        Operation::Ring => v1::Operation::Ring,
        Operation::Tree => v1::Operation::Tree,
        Operation::Gather => v1::Operation::Gather,
    };
    let fields = v1::Deposit {
        step: key.step,
        bucket: key.bucket,
        operation: operation.into(),
        part: deposit.part,
        round: deposit.round,
        total: deposit.total,
        ..v1::Deposit::default()
    };
    message_stream::message(&fields, deposit.payload)
}

/// Calls a peer's method.
async fn call<R: Message + Default>(
    channel: &Channel,
    method: &str,
    body: Body,
) -> Result<(), Status> {
    let path = format!("/{SERVICE_NAME}/{method}");
    own_body::call::<R>(channel, &path, None, body, CONTROL_MESSAGE_BYTES_MAX)
        .await
        .map(drop)
}

/// Greets a peer; returns when it has formed the same group.
pub(crate) async fn greet(channel: &Channel, membership: &Membership) -> Result<(), Status> {
    let fields = v1::GreetRequest {
        membership: Some(membership_to_wire(membership)),
    };
    let body = Body::new(Outgoing::request(&fields, VecDeque::new()));
    call::<v1::GreetReply>(channel, "Greet", body).await
}

/// Sends a stream; returns when the peer has taken all of it, or takes no more.
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
