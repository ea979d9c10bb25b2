//! Members in several processes.
//!
//! Each process serves a [`CollectiveService`] and has a [`Hub`]. To form a group, the hub sends a handshake to all
//! other members, and each of them replies once it has formed the same generation. The hub then opens one stream to
//! each of them, which carries all messages. A stream that breaks shows at once that its peer is lost, and an idle
//! connection is pinged.

mod outbox;
mod service;

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::try_join_all;
use parking_lot::Mutex;
use tokio::sync::{Semaphore, watch};
use tokio::time::{Instant, sleep, timeout_at};
use trainyard_protocol::Channel;
use trainyard_protocol::limits::HANDSHAKES_WAITING_MAX;
use trainyard_protocol::{Reason, Refusal, root_cause};

use crate::collective::Collective;
use crate::error::{Cause, Error, THIS_MEMBER};
use crate::group::{Deadlines, Membership};
use crate::mailbox::Mailbox;
use crate::remote::outbox::{Remote, spawn_herald};
pub use crate::remote::service::CollectiveService;

/// Interval of handshakes with a peer that cannot be reached yet.
const HANDSHAKE_RETRY_INTERVAL: Duration = Duration::from_millis(50);

/// Another member of a group.
#[derive(Debug, Clone)]
pub struct Peer {
    /// Rank of the peer, from 0.
    pub rank: usize,
    /// Name for messages: `worker:1 at 10.0.0.5:2222`.
    pub name: String,
    /// Channel to its process. Only the group should use it.
    pub channel: Channel,
}

/// The rendezvous of a process: one service, and one group at a time.
#[derive(Debug, Clone)]
pub struct Hub {
    shared: Arc<Shared>,
}

/// The state that the service and the hub share.
#[derive(Debug)]
pub(crate) struct Shared {
    current: watch::Sender<Option<Arc<GroupMember>>>,
    /// Permits of peers that wait until this member forms their generation.
    greetings: Semaphore,
    /// Longest wait of these peers.
    form: Duration,
}

/// This member of the current group, as its service sees it.
#[derive(Debug)]
pub(crate) struct GroupMember {
    membership: Membership,
    mailbox: Arc<Mailbox>,
    /// By rank: whether the member has opened its stream.
    streams: Mutex<Vec<bool>>,
}

impl Hub {
    /// Returns a hub without a group. Peers that form a newer generation wait for this member for at most `form`.
    pub fn new(form: Duration) -> Self {
        let current = watch::Sender::new(None);
        let greetings = Semaphore::new(HANDSHAKES_WAITING_MAX);
        Self {
            shared: Arc::new(Shared {
                current,
                greetings,
                form,
            }),
        }
    }

    /// Returns the service, to be added to the routes of this process's server: `Routes::new(hub.service())`.
    pub fn service(&self) -> CollectiveService {
        CollectiveService::new(Arc::clone(&self.shared))
    }

    /// Forms a group: ends the former one, if there is one, and waits until all `peers`, which are all other members,
    /// have formed the same. It must be called on a tokio runtime, on which it spawns the tasks that carry messages.
    ///
    /// # Errors
    /// The group is not newer than the former one, or peers and size do not agree; the former group then continues. A
    /// peer cannot be reached, has not formed the group within [`Deadlines::form`], or belongs to a newer one.
    pub async fn join(
        &self,
        membership: Membership,
        peers: Vec<Peer>,
        deadlines: Deadlines,
    ) -> Result<Collective, Error> {
        let generation = membership.group.generation;
        let failed = |cause| Error::new(generation, cause);
        let names = names(&membership, &peers).map_err(|problem| failed(Cause::Misuse(problem)))?;
        let mailbox = Arc::new(Mailbox::new(names));
        self.member(&membership, &mailbox)
            .map_err(|problem| failed(Cause::Misuse(problem)))?;
        // If forming is given up or fails, peers that wait for the group are told.
        let unformed = Unformed {
            mailbox: Some(Arc::clone(&mailbox)),
        };
        let herald = spawn_herald(
            membership.clone(),
            &peers,
            Arc::clone(&mailbox),
            deadlines.leave_timeout,
        );
        let until = Instant::now() + deadlines.form;
        let greeted = try_join_all(
            peers
                .iter()
                .map(|peer| greet(peer, &membership, deadlines.form, until)),
        );
        let greeted = tokio::select! {
            greeted = greeted => greeted.map(drop),
            cause = mailbox.ended() => Err(cause),
        };
        if let Err(cause) = greeted {
            mailbox.end(cause.clone());
            return Err(failed(mailbox.cause().unwrap_or(cause)));
        }
        let transport = Remote::open(
            &membership,
            peers,
            &mailbox,
            deadlines.leave_timeout,
            herald,
        );
        unformed.formed();
        tracing::info!(
            generation,
            rank = membership.group.rank,
            size = membership.group.size,
            "connected to all members of the process group"
        );
        Ok(Collective::new(
            membership.group,
            mailbox,
            Box::new(transport),
            deadlines,
        ))
    }

    /// Makes a group the current one.
    fn member(&self, membership: &Membership, mailbox: &Arc<Mailbox>) -> Result<(), String> {
        let mut problem = None;
        self.shared.current.send_if_modified(|current| {
            let newest = current
                .as_ref()
                .filter(|member| member.membership.cluster_id == membership.cluster_id);
            if let Some(member) =
                newest.filter(|member| member.membership.age() >= membership.age())
            {
                let (known_epoch, known) = member.membership.age();
                let (epoch, given) = membership.age();
                problem = Some(format!(
                    "a process group must be newer than generation {known} of cluster_epoch \
                    {known_epoch}, given generation {given} of cluster_epoch {epoch}"
                ));
                return false;
            }
            let former = current.replace(Arc::new(GroupMember {
                membership: membership.clone(),
                mailbox: Arc::clone(mailbox),
                streams: Mutex::new(vec![false; membership.group.size]),
            }));
            if let Some(former) = former {
                let reason = format!(
                    "the chief has formed generation {}",
                    membership.group.generation
                );
                former.mailbox.end(Cause::Aborted {
                    by: THIS_MEMBER.to_owned(),
                    reason,
                });
            }
            true
        });
        problem.map_or(Ok(()), Err)
    }
}

/// Ends a generation that has not been formed.
struct Unformed {
    mailbox: Option<Arc<Mailbox>>,
}

impl Unformed {
    fn formed(mut self) {
        self.mailbox = None;
    }
}

impl Drop for Unformed {
    fn drop(&mut self) {
        if let Some(mailbox) = &self.mailbox {
            let reason = "forming the process group was cancelled".to_owned();
            mailbox.end(Cause::Aborted {
                by: THIS_MEMBER.to_owned(),
                reason,
            });
        }
    }
}

/// Returns the names of all members by rank, if the peers are all other members.
fn names(membership: &Membership, peers: &[Peer]) -> Result<Vec<String>, String> {
    let group = membership.group;
    if let Some(problem) = group.problem() {
        return Err(problem);
    }
    let mut names = vec![None; group.size];
    names[group.rank] = Some(THIS_MEMBER.to_owned());
    for peer in peers {
        match names.get_mut(peer.rank) {
            Some(name @ None) => *name = Some(peer.name.clone()),
            _ => {
                let size = group.size;
                let rank = peer.rank;
                let name = &peer.name;
                return Err(format!(
                    "each peer must have its own rank below {size}, given rank {rank} for {name}"
                ));
            }
        }
    }
    let given = peers.len() + 1;
    let names: Option<Vec<String>> = names.into_iter().collect();
    names.ok_or_else(|| {
        format!(
            "a process group of {} must have all of its members, given {given} with this member",
            group.size
        )
    })
}

/// Sends handshakes to a peer until it has formed the same group.
async fn greet(
    peer: &Peer,
    membership: &Membership,
    deadline: Duration,
    until: Instant,
) -> Result<(), Cause> {
    let mut last = "no answer".to_owned();
    loop {
        let Ok(answer) = timeout_at(until, service::greet(&peer.channel, membership)).await else {
            break;
        };
        let status = match answer {
            Ok(()) => return Ok(()),
            Err(status) => status,
        };
        match Refusal::from_status(&status) {
            // The peer has stopped waiting for its own process. This member waits longer.
            Some(refusal) if refusal.reason == Reason::NotReady => last = refusal.message,
            Some(refusal) => return Err(Cause::refused(peer.name.clone(), refusal)),
            None => last = root_cause(&status),
        }
        if Instant::now() + HANDSHAKE_RETRY_INTERVAL >= until {
            break;
        }
        sleep(HANDSHAKE_RETRY_INTERVAL).await;
    }
    let message = format!(
        "the peer did not join the process group within {:.1} s (last answer: {last})",
        deadline.as_secs_f32()
    );
    Err(Cause::Lost {
        peer: peer.name.clone(),
        message,
    })
}
