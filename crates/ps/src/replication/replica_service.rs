//! The replica service: gRPC methods over the replicas of this server.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::Stream;
use tokio::sync::watch;
use tonic::{Request, Response, Status, Streaming};
use trainyard_diagnostic::Diagnostic;
use trainyard_model_dir::{Leader, known_cluster_id};
use trainyard_protocol::v1::replica_service_server::ReplicaService;
use trainyard_protocol::{Reason, Refusal, convert, limits, v1};

use crate::replication::replica::Replica;
use crate::replication::replica_role::{Order, Refused, Term};

/// Timeout for the first message of a primary.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(5);

/// The replicas of a server, served to the chief and to the neighbour servers.
#[derive(Debug, Clone)]
pub(crate) struct Replicas {
    replicas: Arc<[Arc<Replica>]>,
    incarnation: u64,
    dismissed: Arc<watch::Sender<bool>>,
}

fn bad(message: impl ToString) -> Status {
    Refusal::new(Reason::BadRequest, message.to_string()).into()
}

fn refused(refused: Refused) -> Status {
    let reason = match refused {
        Refused::Stale { .. } => Reason::StaleEpoch,
        Refused::Deposed { .. } => Reason::NotPrimary,
        Refused::NotInSync | Refused::NotBackup | Refused::Superseded | Refused::Unconfirmed => {
            Reason::NotReady
        }
    };
    Refusal::new(reason, refused.to_string()).into()
}

fn term(term: Option<v1::Term>) -> Result<Term, Status> {
    let v1::Term {
        cluster_epoch: epoch,
        version,
    } = term.ok_or_else(|| bad("field `term` must be set, given nothing"))?;
    Ok(Term { epoch, version })
}

impl Replicas {
    pub(crate) fn new(replicas: Vec<Arc<Replica>>, incarnation: u64) -> Self {
        Self {
            replicas: replicas.into(),
            incarnation,
            dismissed: Arc::new(watch::Sender::new(false)),
        }
    }

    /// Returns the only replica, if the server has no backups.
    pub(crate) fn single(&self) -> Option<&Arc<Replica>> {
        match &*self.replicas {
            [single] if single.peer().is_none() => Some(single),
            _ => None,
        }
    }

    /// Returns the primaries.
    pub(crate) fn serving(&self) -> Vec<Arc<Replica>> {
        let primaries = self.iter().filter(|replica| replica.is_primary());
        primaries.cloned().collect()
    }

    /// Returns the failure that ends the server, if there is one.
    pub(crate) fn failure(&self) -> Option<Diagnostic> {
        self.iter().find_map(|replica| replica.failure())
    }

    /// Returns the time since the chief's last call to a primary.
    pub(crate) fn chief_silence(&self) -> Duration {
        let services = self.iter().filter_map(|replica| replica.serving());
        let silences = services.map(|service| service.chief_silence());
        silences.min().unwrap_or_default()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Arc<Replica>> {
        self.replicas.iter()
    }

    /// Returns the replica of a shard, if this server has one.
    pub(crate) fn of(&self, shard: usize) -> Option<&Arc<Replica>> {
        self.replicas
            .iter()
            .find(|replica| replica.shard() == shard)
    }

    /// Returns whether the chief has ended the job.
    pub(crate) fn is_dismissed(&self) -> bool {
        *self.dismissed.borrow()
    }

    fn find(&self, shard: u32) -> Result<&Arc<Replica>, Status> {
        self.of(shard as usize).ok_or_else(|| {
            let message = format!(
                "this server has no replica of ps:{shard}: its cluster file is another one"
            );
            Refusal::new(Reason::OtherCluster, message).into()
        })
    }

    /// Checks that the caller uses the same model directory. Returns its cluster id.
    fn check(&self, cluster: &[u8]) -> Result<u128, Status> {
        let given = convert::cluster_id_from_wire(cluster).map_err(bad)?;
        let folder = self
            .replicas
            .first()
            .map(|replica| replica.context().job.model_dir.clone());
        let own = folder.as_deref().map(known_cluster_id).transpose();
        let own = own
            .map_err(|error| Status::unavailable(error.to_string()))?
            .flatten();
        if own == Some(given) {
            return Ok(given);
        }
        let own = own.map_or_else(|| "none".to_owned(), |own| format!("{own:032x}"));
        let message = format!(
            "the caller is of cluster {given:032x}, the model_dir of this server is of cluster {own}"
        );
        Err(Refusal::new(Reason::OtherCluster, message).into())
    }

    fn status(&self) -> v1::ServerStatus {
        let replicas = self
            .replicas
            .iter()
            .map(|replica| replica.status())
            .collect();
        v1::ServerStatus {
            incarnation: self.incarnation,
            replicas,
        }
    }
}

type Answers<T> = Pin<Box<dyn Stream<Item = Result<T, Status>> + Send>>;

#[tonic::async_trait]
impl ReplicaService for Replicas {
    type WatchStream = Answers<v1::ServerStatus>;
    type FollowStream = Answers<v1::FollowReply>;

    async fn watch(
        &self,
        request: Request<v1::WatchRequest>,
    ) -> Result<Response<Self::WatchStream>, Status> {
        self.check(&request.into_inner().cluster_id)?;
        let told = futures_util::stream::unfold((self.clone(), true), |(this, first)| async move {
            if !first {
                tokio::time::sleep(limits::STATUS_INTERVAL).await;
            }
            Some((Ok(this.status()), (this, false)))
        });
        Ok(Response::new(Box::pin(told)))
    }

    async fn set_role(
        &self,
        request: Request<v1::SetRoleRequest>,
    ) -> Result<Response<v1::ReplicaStatus>, Status> {
        let request = request.into_inner();
        let cluster = self.check(&request.cluster_id)?;
        let replica = self.find(request.shard)?;
        let term = term(request.term)?;
        // A server that has just started knows no chief, but the model directory does.
        let leader = Leader::read(&replica.context().job.model_dir).map_err(|error| {
            let message = format!("whether another chief leads cannot be read: {error}");
            Status::from(Refusal::new(Reason::NotReady, message))
        })?;
        if let Some(leader) = leader.filter(|leader| leader.cluster_epoch > term.epoch) {
            return Err(Refusal::new(Reason::StaleEpoch, leader.to_string()).into());
        }
        let order = match request.role() {
            v1::ReplicaRole::Primary => Order::Primary {
                waits_for_backup: request.waits_for_backup,
            },
            v1::ReplicaRole::Backup => Order::Backup,
            other => {
                return Err(bad(format!(
                    "field `role` must be primary or backup, given {other:?}"
                )));
            }
        };
        replica
            .set_role(cluster, term, order)
            .await
            .map_err(refused)?;
        Ok(Response::new(replica.status()))
    }

    async fn dismiss(
        &self,
        request: Request<v1::DismissRequest>,
    ) -> Result<Response<v1::DismissReply>, Status> {
        let request = request.into_inner();
        self.check(&request.cluster_id)?;
        let known = self.replicas.iter().map(|replica| replica.status());
        let latest = known
            .filter_map(|status| status.term)
            .map(|term| term.cluster_epoch)
            .max();
        if let Some(latest) = latest.filter(|latest| *latest > request.cluster_epoch) {
            let message = format!(
                "cluster_epoch must be at least {latest}, given {}",
                request.cluster_epoch
            );
            return Err(Refusal::new(Reason::StaleEpoch, message).into());
        }
        self.dismissed.send_replace(true);
        Ok(Response::new(v1::DismissReply {}))
    }

    async fn follow(
        &self,
        request: Request<Streaming<v1::FollowRequest>>,
    ) -> Result<Response<Self::FollowStream>, Status> {
        let mut requests = request.into_inner();
        let first = tokio::time::timeout(HANDSHAKE_TIMEOUT, requests.message()).await;
        let first = first.map_err(|_| Status::deadline_exceeded("the primary says nothing"))??;
        let handshake = first.and_then(|first| first.handshake);
        let handshake =
            handshake.ok_or_else(|| bad("field `handshake` must be set, given nothing"))?;
        let cluster = self.check(&handshake.cluster_id)?;
        let replica = Arc::clone(self.find(handshake.shard)?);
        let term = term(handshake.term)?;
        let stream = replica.handshake(cluster, term).await.map_err(refused)?;
        // Only the latest state matters, so a watch channel suffices.
        let (sender, told) = watch::channel(Word::default());
        tokio::spawn(async move {
            let status = follow(&replica, cluster, stream, requests, &sender).await;
            sender.send_modify(|word| word.end = Some(status));
        });
        let answers = futures_util::stream::unfold(Some(told), |told| async move {
            let mut told = told?;
            told.changed().await.ok()?;
            let Word { items, end } = told.borrow_and_update().clone();
            Some(match end {
                Some(status) => (Err(status), None),
                None => (Ok(v1::FollowReply { items }), Some(told)),
            })
        });
        Ok(Response::new(Box::pin(answers)))
    }
}

/// State of a backup's replies: the number of confirmed items, or the end of the stream.
#[derive(Debug, Clone, Default)]
struct Word {
    items: u64,
    end: Option<Status>,
}

/// Applies the requests of a primary until the stream ends or this replica is no longer its backup. Returns the
/// reason.
async fn follow(
    replica: &Replica,
    cluster: u128,
    stream: u64,
    mut requests: Streaming<v1::FollowRequest>,
    sender: &watch::Sender<Word>,
) -> Status {
    let mut counts = false;
    loop {
        let request = match requests.message().await {
            Ok(Some(request)) => request,
            Ok(None) => return Status::unavailable("the primary has ended the stream"),
            Err(status) => return status,
        };
        let in_sync = request.in_sync;
        let confirm = |count: usize| {
            if counts {
                sender.send_modify(|word| word.items += count as u64);
            }
        };
        if let Err(why) = replica.take(cluster, stream, request, confirm).await {
            return refused(why);
        }
        if in_sync {
            counts = true;
            // A reply without new items reports that the backup is in sync.
            sender.send_modify(|word| word.items = 0);
        }
    }
}
