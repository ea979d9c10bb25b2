//! The primary's side of replication: sends the log and then every change to the backup, and receives confirmations.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures_util::StreamExt as _;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio::time::Instant;
use tonic::Status;
use tracing::{debug, info, warn};
use trainyard_cluster_client::channel_over;
use trainyard_model_dir::{known_cluster_id, prepared_epoch};
use trainyard_parameter_server::journal::LogJournal;
use trainyard_parameter_server::log_cut::DueCut;
use trainyard_parameter_server::recovery::{Expected, Problem};
use trainyard_parameter_server::replication_log::Subscription;
use trainyard_parameter_store::LogCut;
use trainyard_protocol::v1::replica_service_client::ReplicaServiceClient;
use trainyard_protocol::{Reason, Refusal, convert, limits, root_cause, v1};
use trainyard_runtime::blocking;

use crate::replication::replica::Replica;
use crate::replication::replica_role::Term;
use crate::replication::shipping::{LogReader, has_start, item_to_wire};

/// Interval between attempts to reach the backup.
const RETRY_INTERVAL: Duration = Duration::from_millis(50);
/// Timeout for the backup's first reply.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(5);
/// Interval between warnings that the backup does not follow, while the reason stays the same.
const WARNING_INTERVAL: Duration = Duration::from_secs(10);
/// Shortest interval between two warnings, with different reasons.
const OTHER_WARNING_INTERVAL: Duration = Duration::from_secs(1);
/// Time for which a backup may say that it is not ready, as it does until the chief has told it its role, before that is
/// worth a warning.
const READY_TIMEOUT: Duration = Duration::from_secs(5);

/// Decides which failed attempts to bring the backup in sync are warned of.
#[derive(Debug, Default)]
struct Warnings {
    not_ready_since: Option<Instant>,
    last: Option<(Instant, String)>,
}

impl Warnings {
    /// Records an attempt that failed at `now`, and returns whether it is due a warning.
    fn is_due(&mut self, now: Instant, reason: Option<Reason>, problem: &str) -> bool {
        if reason == Some(Reason::NotReady) {
            let since = *self.not_ready_since.get_or_insert(now);
            if now.duration_since(since) < READY_TIMEOUT {
                return false;
            }
        } else {
            self.not_ready_since = None;
        }
        let is_told = self.last.as_ref().is_some_and(|(at, before)| {
            let interval = if before == problem {
                WARNING_INTERVAL
            } else {
                OTHER_WARNING_INTERVAL
            };
            now.duration_since(*at) < interval
        });
        if !is_told {
            self.last = Some((now, problem.to_owned()));
        }
        !is_told
    }
}

#[derive(Debug)]
struct Shared {
    state: v1::LinkState,
    term: Term,
}

/// The connection to the backup. It is restored after failures until this value is dropped.
#[derive(Debug)]
pub(crate) struct LogSender {
    shared: Arc<Mutex<Shared>>,
    task: JoinHandle<()>,
}

impl Drop for LogSender {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl LogSender {
    /// Starts to bring the backup of `replica` in sync.
    pub(crate) fn begin(replica: Arc<Replica>, cluster: u128, term: Term) -> Self {
        let shared = Arc::new(Mutex::new(Shared {
            state: v1::LinkState::Broken,
            term,
        }));
        let sender = SendLoop {
            replica,
            cluster,
            shared: Arc::clone(&shared),
        };
        Self {
            shared,
            task: tokio::spawn(sender.run()),
        }
    }

    /// Returns the state of the connection.
    pub(crate) fn state(&self) -> v1::LinkState {
        self.shared
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .state
    }

    /// Sets the term of a later order of the chief that does not change the role.
    pub(crate) fn set_term(&self, term: Term) {
        self.shared
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .term = term;
    }

    /// Returns whether sending has ended for good, for example because the other replica is the primary.
    pub(crate) fn is_over(&self) -> bool {
        self.task.is_finished()
    }
}

/// A subscription that ends when this value is dropped.
struct HeldSubscription {
    journal: Arc<LogJournal>,
    subscription: Subscription,
}

impl Drop for HeldSubscription {
    fn drop(&mut self) {
        self.journal
            .replication_log()
            .unsubscribe(self.subscription);
    }
}

struct SendLoop {
    replica: Arc<Replica>,
    cluster: u128,
    shared: Arc<Mutex<Shared>>,
}

impl SendLoop {
    /// Sets the state of the connection and returns the one before.
    fn set(&self, state: v1::LinkState) -> v1::LinkState {
        let mut shared = self.shared.lock().unwrap_or_else(PoisonError::into_inner);
        std::mem::replace(&mut shared.state, state)
    }

    async fn run(self) {
        let Some((peer, address)) = self.replica.peer().cloned() else {
            return;
        };
        let channel = match channel_over(&self.replica.context().network, peer, &address) {
            Ok(channel) => channel,
            Err(problem) => {
                warn!("{}", problem.log_line());
                return;
            }
        };
        let client = ReplicaServiceClient::new(channel)
            .max_decoding_message_size(limits::CONTROL_MESSAGE_BYTES_MAX)
            .max_encoding_message_size(limits::SHIPPED_MESSAGE_BYTES_MAX);
        let mut warnings = Warnings::default();
        loop {
            if let Some(journal) = self.replica.journal() {
                let Err(status) = self.send(client.clone(), &journal).await;
                if self.set(v1::LinkState::Broken) == v1::LinkState::InSync {
                    warnings.not_ready_since = None;
                }
                let reason = Refusal::from_status(&status).map(|refusal| refusal.reason);
                if reason == Some(Reason::NotPrimary) {
                    self.replica.depose(status.message());
                    return;
                }
                let problem = root_cause(&status);
                if warnings.is_due(Instant::now(), reason, &problem) {
                    let shard = self.replica.task();
                    warn!(%shard, backup = %peer, problem, "the backup does not follow, and the shard has no second copy: it is tried again");
                } else {
                    debug!(backup = %peer, problem, "the backup is tried again");
                }
            }
            tokio::time::sleep(RETRY_INTERVAL).await;
        }
    }

    /// Cuts the log if its begin was given up for cuts of which none is whole, so that the backup can begin.
    async fn make_start(&self, journal: &Arc<LogJournal>) -> Result<(), Status> {
        let replica = Arc::clone(&self.replica);
        let of = Arc::clone(journal);
        let has_start = read(move || {
            of.write()?;
            has_start(&of, expected(&replica)?)
        });
        if has_start.await? {
            return Ok(());
        }
        let shard = self.replica.store();
        let cut = DueCut {
            rows: LogCut::Whole,
            bytes: shard.store().log_cut_bytes().whole,
        };
        let written = shard.cut_log(Arc::clone(journal), cut).await;
        written
            .map_err(Status::internal)?
            .map(drop)
            .ok_or_else(|| Status::unavailable("another snapshot of the store is in progress"))
    }

    /// Sends until an error occurs.
    async fn send(
        &self,
        mut client: ReplicaServiceClient<trainyard_protocol::Channel>,
        journal: &Arc<LogJournal>,
    ) -> Result<std::convert::Infallible, Status> {
        let (outgoing, requests) = mpsc::channel::<v1::FollowRequest>(limits::SHIPPED_MESSAGES_MAX);
        let term = self
            .shared
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .term;
        let handshake = v1::FollowHandshake {
            cluster_id: convert::cluster_id_to_wire(self.cluster),
            shard: self.replica.shard() as u32,
            term: Some(v1::Term {
                cluster_epoch: term.epoch,
                version: term.version,
            }),
        };
        let gone = |_| Status::unavailable("the stream has ended");
        let first = v1::FollowRequest {
            handshake: Some(handshake),
            ..v1::FollowRequest::default()
        };
        outgoing.send(first).await.map_err(gone)?;
        let requests = futures_util::stream::unfold(requests, |mut requests| async move {
            requests.recv().await.map(|request| (request, requests))
        });
        let answer = tokio::time::timeout(HANDSHAKE_TIMEOUT, client.follow(requests)).await;
        let answer = answer.map_err(|_| Status::unavailable("it does not answer"))??;
        let mut replies = answer.into_inner();
        self.set(v1::LinkState::Behind);
        // No file goes until the log has been sent.
        let pause = journal.pause_retiring();
        let pause =
            pause.ok_or_else(|| Status::unavailable("a part of the log is being removed"))?;
        self.make_start(journal).await?;
        // The subscription has every change from here on. Earlier changes are in the files.
        let held = HeldSubscription {
            subscription: journal.replication_log().subscribe(),
            journal: Arc::clone(journal),
        };
        let subscription = held.subscription;
        let written = journal.written().await;
        written.map_err(|error| Status::internal(error.to_string()))?;
        let started = Instant::now();
        let log = async {
            let _pause = pause;
            let changes = subscription.changes;
            send_log(&self.replica, journal, changes, &outgoing).await
        };
        // If the backup ends the stream meanwhile, its status is the reason.
        tokio::select! {
            sent = log => match sent? {
                Sent::Everything => {}
                Sent::Part => return Err(ended(replies.message().await)),
            },
            reply = replies.message() => return Err(ended(reply)),
        }
        let in_sync = v1::FollowRequest {
            in_sync: true,
            ..v1::FollowRequest::default()
        };
        outgoing.send(in_sync).await.map_err(gone)?;
        let mut in_sync = false;
        let mut sending = None;
        loop {
            tokio::select! {
                reply = replies.next() => {
                    let reply = match reply {
                        Some(Ok(reply)) => reply,
                        Some(Err(status)) => return Err(status),
                        None => return Err(ended(Ok(None))),
                    };
                    journal.replication_log().confirm(subscription.items + reply.items);
                    if !std::mem::replace(&mut in_sync, true) {
                        self.set(v1::LinkState::InSync);
                        let backup = self.replica.peer().map(|(task, _)| task.to_string());
                        let shard = self.replica.task();
                        let seconds = started.elapsed().as_secs_f64();
                        info!(%shard, backup, changes = subscription.changes, seconds = format!("{seconds:.3}"), "the backup is in sync");
                    }
                }
                () = journal.replication_log().filled(), if sending.is_none() => {
                    sending = Some(());
                }
                permit = outgoing.reserve(), if sending.is_some() => {
                    let permit = permit.map_err(|_| Status::unavailable("the stream has ended"))?;
                    let Some(items) = journal.replication_log().take(subscription, limits::SHIPPED_BYTES as u64) else {
                        return Err(Status::cancelled("the primary sends the log again"));
                    };
                    if items.is_empty() {
                        sending = None;
                    } else {
                        let items = items.iter().map(item_to_wire).collect();
                        permit.send(v1::FollowRequest { items, ..v1::FollowRequest::default() });
                    }
                }
            }
        }
    }
}

/// How far the log of a primary has been sent.
enum Sent {
    Everything,
    /// The stream has ended.
    Part,
}

/// Sends the log up to its `changes`-th change.
async fn send_log(
    replica: &Arc<Replica>,
    journal: &Arc<LogJournal>,
    changes: u64,
    outgoing: &mpsc::Sender<v1::FollowRequest>,
) -> Result<Sent, Status> {
    let of = Arc::clone(replica);
    let journal = Arc::clone(journal);
    let open = move || LogReader::open(&journal, expected(&of)?, changes);
    let mut log = read(open).await?;
    while let Some(mut reader) = log {
        let next = move || Ok((reader.next()?, reader));
        let (request, reader) = read(next).await?;
        let Some(request) = request else { break };
        if outgoing.send(request).await.is_err() {
            return Ok(Sent::Part);
        }
        log = Some(reader);
    }
    Ok(Sent::Everything)
}

/// Reads from the log while other calls go on.
async fn read<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, Problem> + Send + 'static,
) -> Result<T, Status> {
    let read = blocking(work).await;
    let read = read.map_err(|panic| Status::internal(panic.to_string()))?;
    read.map_err(|problem| Status::internal(problem.to_string()))
}

/// Returns the expected origin of a replica's log.
fn expected(replica: &Replica) -> Result<Expected<'_>, Problem> {
    let model_dir = &replica.context().job.model_dir;
    Ok(Expected {
        model_dir,
        owner: known_cluster_id(model_dir)?,
        prepared_epoch: prepared_epoch(model_dir)?,
        task: replica.task(),
    })
}

/// Returns the reason for the end of a stream.
fn ended(reply: Result<Option<v1::FollowReply>, Status>) -> Status {
    match reply {
        Err(status) => status,
        Ok(_) => Status::unavailable("it has ended the stream"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_backup_that_is_not_ready_is_warned_of_once_it_has_been_so_for_too_long() {
        let mut warnings = Warnings::default();
        let begin = Instant::now();
        let mut is_due = |milliseconds, reason| {
            let now = begin + Duration::from_millis(milliseconds);
            warnings.is_due(now, reason, "the same problem")
        };
        let not_ready = Some(Reason::NotReady);
        assert!(!is_due(0, not_ready));
        assert!(!is_due(4_999, not_ready));
        assert!(is_due(5_000, not_ready));
        assert!(!is_due(14_999, not_ready));
        assert!(is_due(15_000, not_ready));
        // Another failure meanwhile is another story.
        assert!(is_due(25_000, None));
        assert!(!is_due(35_000, not_ready));
        assert!(is_due(40_000, not_ready));
    }

    #[test]
    fn each_other_failure_is_warned_of_at_once_and_then_rarely() {
        for reason in [None, Some(Reason::OtherCluster), Some(Reason::BadRequest)] {
            let mut warnings = Warnings::default();
            let begin = Instant::now();
            let mut is_due = |seconds, problem: &str| {
                warnings.is_due(begin + Duration::from_secs(seconds), reason, problem)
            };
            assert!(is_due(0, "one"), "{reason:?}");
            assert!(!is_due(9, "one"), "{reason:?}");
            assert!(is_due(10, "one"), "{reason:?}");
            assert!(!is_due(10, "another"), "{reason:?}");
            assert!(is_due(11, "another"), "{reason:?}");
        }
    }
}
