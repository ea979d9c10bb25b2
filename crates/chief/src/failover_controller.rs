//! The failover controller: receives the status of every server, decides, writes the shard map and sets the roles.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::Instant;
use tonic::Status;
use tracing::{debug, error, info, warn};
use trainyard_cluster_client::channel_over;
use trainyard_cluster_spec::Task;
use trainyard_diagnostic::Diagnostic;
use trainyard_protocol::Channel;
use trainyard_protocol::v1::replica_service_client::ReplicaServiceClient;
use trainyard_protocol::{convert, limits, root_cause, v1};
use trainyard_runtime::Network;

use crate::own_folder::OwnFolder;
use trainyard_coordinator::decide;
use trainyard_coordinator::{
    Decision, PairReport, ReplicaReport, ReplicaState, ShardEntry, ShardMap,
};

/// Silence after which a server counts as gone: less than the lease of a worker, more than a delay of the scheduler.
const PEER_TIMEOUT: Duration = Duration::from_secs(4);
/// Longest wait for a server to begin to report its status.
const WATCH_TIMEOUT: Duration = Duration::from_millis(500);
/// Interval between attempts to reach a server.
const RECONNECT_INTERVAL: Duration = Duration::from_millis(25);
/// Timeout of a request that sets a role: the server may have to wait for its backup.
const SET_ROLE_TIMEOUT: Duration = Duration::from_secs(3);
/// Time in which a server is to hear that the job has ended, and the pause between two attempts: one that never hears of
/// it waits for a chief, forever.
const DISMISS_TIMEOUT: Duration = Duration::from_secs(3);
const DISMISS_PAUSE: Duration = Duration::from_millis(100);
/// Longest interval between two decisions on all pairs.
const POLL_INTERVAL: Duration = Duration::from_millis(100);
/// Wait after the shard map could not be read or written.
const MAP_RETRY_INTERVAL: Duration = Duration::from_millis(50);
/// Longest wait until every shard has its two replicas, before training begins without them.
const PAIRING_TIMEOUT: Duration = Duration::from_secs(10);

type Client = ReplicaServiceClient<Channel>;

/// The status of the servers, by index; absent if a server is not present.
type Statuses = Vec<Option<v1::ServerStatus>>;

/// The role that a server's replica of a shard is to take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum RoleToSet {
    /// A primary that acknowledges changes without its backup.
    PrimaryAlone,
    /// A primary that waits for its backup.
    PrimaryWithBackup,
    /// A backup.
    Backup,
}

/// A parameter server.
#[derive(Debug, Clone)]
struct Server {
    task: Task,
    client: Client,
}

/// Handle of the failover controller of a cluster. The controller runs as tasks of its own until the handle is dropped.
#[derive(Debug)]
pub struct Failover {
    epoch: watch::Sender<u64>,
    map: watch::Receiver<Option<ShardMap>>,
    servers: Vec<Server>,
    cluster: u128,
    tasks: Vec<JoinHandle<()>>,
}

impl Drop for Failover {
    fn drop(&mut self) {
        self.tasks.iter().for_each(JoinHandle::abort);
    }
}

impl Failover {
    /// Starts to watch the servers, in the order of their indices. Nothing is decided before [`Failover::lead`].
    ///
    /// # Errors
    /// An address is invalid.
    pub fn new(
        network: &Network,
        servers: &[(Task, String)],
        cluster: u128,
        model_dir: PathBuf,
    ) -> Result<Self, Diagnostic> {
        let server = |(task, address): &(Task, String)| {
            let client = ReplicaServiceClient::new(channel_over(network, *task, address)?)
                .max_decoding_message_size(limits::CONTROL_MESSAGE_BYTES_MAX)
                .max_encoding_message_size(limits::CONTROL_MESSAGE_BYTES_MAX);
            Ok(Server {
                task: *task,
                client,
            })
        };
        let servers = servers
            .iter()
            .map(server)
            .collect::<Result<Vec<_>, Diagnostic>>()?;
        let statuses = Arc::new(watch::Sender::new(vec![None; servers.len()]));
        let mut tasks: Vec<_> = servers
            .iter()
            .enumerate()
            .map(|(index, server)| {
                tokio::spawn(hear(server.clone(), index, cluster, Arc::clone(&statuses)))
            })
            .collect();
        let (epoch, epochs) = watch::channel(0);
        let (told, map) = watch::channel(None);
        let broken = vec![None; servers.len()];
        let servers_kept = servers.clone();
        let problem = None;
        let keeper = FailoverController {
            servers: servers_kept,
            cluster,
            folder: OwnFolder::new(&model_dir, cluster),
            model_dir,
            statuses,
            epochs,
            told,
            broken,
            problem,
        };
        tasks.push(tokio::spawn(keeper.run()));
        Ok(Self {
            epoch,
            map,
            servers,
            cluster,
            tasks,
        })
    }

    /// Starts to decide, in this term of the chief.
    pub fn lead(&self, epoch: u64) {
        self.epoch.send_replace(epoch);
    }

    /// Waits for a limited time until every shard has two replicas.
    pub async fn wait_until_paired(&self) {
        let mut map = self.map.clone();
        let all = |map: &Option<ShardMap>| {
            map.as_ref()
                .is_some_and(|map| map.shards.iter().all(|entry| entry.paired))
        };
        let paired = tokio::time::timeout(PAIRING_TIMEOUT, map.wait_for(all)).await;
        if paired.is_err() {
            let alone = self.map.borrow().as_ref().map(|map| {
                let alone = map
                    .shards
                    .iter()
                    .enumerate()
                    .filter(|(_, entry)| !entry.paired);
                alone
                    .map(|(shard, _)| format!("ps:{shard}"))
                    .collect::<Vec<_>>()
                    .join(", ")
            });
            warn!(alone, "training begins before every shard has a backup");
        }
    }

    /// Reports to every server that the job has ended.
    pub async fn dismiss(&self) {
        let epoch = *self.epoch.borrow();
        let request = v1::DismissRequest {
            cluster_id: convert::cluster_id_to_wire(self.cluster),
            cluster_epoch: epoch,
        };
        let told = self.servers.iter().map(|server| {
            let mut client = server.client.clone();
            let request = request.clone();
            async move {
                let until = Instant::now() + DISMISS_TIMEOUT;
                let error = loop {
                    let told = client.dismiss(request.clone());
                    let error = match tokio::time::timeout_at(until, told).await {
                        Ok(Ok(_)) => return,
                        Ok(Err(status)) => root_cause(&status),
                        Err(_) => format!("no answer within {DISMISS_TIMEOUT:?}"),
                    };
                    // One that cannot read its model directory now may read it later.
                    if Instant::now() + DISMISS_PAUSE > until {
                        break error;
                    }
                    tokio::time::sleep(DISMISS_PAUSE).await;
                };
                warn!(ps = %server.task, error, "{} did not accept the report that the job has ended", server.task);
            }
        });
        futures_util::future::join_all(told).await;
    }
}

/// Receives the status of a server, and reconnects whenever the stream ends.
async fn hear(server: Server, index: usize, cluster: u128, statuses: Arc<watch::Sender<Statuses>>) {
    let cluster_id = convert::cluster_id_to_wire(cluster);
    loop {
        let mut client = server.client.clone();
        let request = v1::WatchRequest {
            cluster_id: cluster_id.clone(),
        };
        if let Ok(Ok(answer)) = tokio::time::timeout(WATCH_TIMEOUT, client.watch(request)).await {
            let mut told = answer.into_inner();
            while let Ok(Ok(Some(status))) =
                tokio::time::timeout(PEER_TIMEOUT, told.message()).await
            {
                statuses.send_if_modified(|statuses| {
                    let changed = statuses[index].as_ref() != Some(&status);
                    statuses[index] = Some(status);
                    changed
                });
            }
            // The next attempt finds whether the server is gone: at once, if nothing listens at its address.
            continue;
        }
        statuses.send_if_modified(|statuses| statuses[index].take().is_some());
        tokio::time::sleep(RECONNECT_INTERVAL).await;
    }
}

struct FailoverController {
    servers: Vec<Server>,
    cluster: u128,
    model_dir: PathBuf,
    folder: OwnFolder,
    statuses: Arc<watch::Sender<Statuses>>,
    epochs: watch::Receiver<u64>,
    told: watch::Sender<Option<ShardMap>>,
    /// Time since which each primary has been without its backup.
    broken: Vec<Option<Instant>>,
    /// The reason why the map cannot be read, once it has been logged.
    problem: Option<String>,
}

impl FailoverController {
    async fn run(mut self) {
        if self.epochs.wait_for(|epoch| *epoch > 0).await.is_err() {
            return;
        }
        let mut statuses = self.statuses.subscribe();
        let mut map: Option<ShardMap> = None;
        loop {
            let epoch = *self.epochs.borrow();
            let known = match map.take().filter(|map| map.cluster_epoch == epoch) {
                Some(known) => known,
                None => match self.take_up(epoch) {
                    Some(known) => known,
                    None => {
                        tokio::time::sleep(MAP_RETRY_INTERVAL).await;
                        continue;
                    }
                },
            };
            let told = statuses.borrow_and_update().clone();
            let (next, busy) = self.look(known, &told).await;
            self.told
                .send_if_modified(|told| told.replace(next.clone()).as_ref() != Some(&next));
            map = Some(next);
            if !busy {
                // A status that has arrived meanwhile is handled at once.
                drop(tokio::time::timeout(POLL_INTERVAL, statuses.changed()).await);
            }
        }
    }

    /// Reads the shard map of the previous chief, and writes it in the term of this one.
    fn take_up(&mut self, epoch: u64) -> Option<ShardMap> {
        let left = match ShardMap::read(&self.model_dir, self.servers.len()) {
            Ok(left) => left,
            Err(problem) => {
                // A new map could name a server that lacks changes that the other one has acknowledged.
                if self.problem.as_ref() != Some(&problem) {
                    error!(
                        problem,
                        "the shard map cannot be read: no server serves until the chief can read \
                        it. If the file is damaged, stop the job and remove the file: each \
                        server then serves its own shard, from its own log"
                    );
                    self.problem = Some(problem);
                }
                return None;
            }
        };
        self.problem = None;
        let map = match left {
            Some(left) if left.cluster_epoch > epoch => {
                debug!(epoch, "a later chief leads: this chief decides nothing");
                return None;
            }
            Some(left) => ShardMap {
                cluster_epoch: epoch,
                version: left.version + 1,
                ..left
            },
            None => ShardMap::new(epoch, self.servers.len()),
        };
        if !self.folder.is_own() {
            return None;
        }
        match map.write(&self.model_dir) {
            Ok(()) => Some(map),
            Err(problem) => {
                warn!(%problem, "the shard map cannot be written: the servers wait for it");
                None
            }
        }
    }

    /// Decides on every pair, and acts. Returns the map, and whether there was any action.
    async fn look(&mut self, mut map: ShardMap, statuses: &Statuses) -> (ShardMap, bool) {
        let decisions: Vec<Decision> = (0..self.servers.len())
            .map(|shard| self.decide(&map, shard, statuses))
            .collect();
        if decisions.iter().all(|decision| *decision == Decision::Rest) {
            return (map, false);
        }
        // A lost server belongs to two pairs: the map is written once for both.
        let publish = decisions
            .iter()
            .enumerate()
            .filter_map(|(shard, decision)| match decision {
                Decision::Publish(entry) => Some((shard, *entry)),
                _ => None,
            });
        let published = self.publish(&map, &publish.collect::<Vec<_>>());
        if let Some(next) = published.clone() {
            map = next;
        }
        let told = decisions.iter().enumerate().map(|(shard, decision)| {
            let primary = map.shards[shard].primary;
            let other = map.other(shard);
            let (server, role) = match *decision {
                // The role is set at once, from the status that the decision was made on.
                Decision::Publish(_) if published.is_some() => (primary, RoleToSet::PrimaryAlone),
                Decision::Serve {
                    waits_for_backup: false,
                } => (primary, RoleToSet::PrimaryAlone),
                Decision::Serve {
                    waits_for_backup: true,
                } => (primary, RoleToSet::PrimaryWithBackup),
                Decision::Follow => (other, RoleToSet::Backup),
                Decision::Pair => (primary, RoleToSet::PrimaryWithBackup),
                Decision::Publish(_) | Decision::Rest => return None,
            };
            Some(self.set_role(&map, shard, server, role))
        });
        let told: Vec<_> = told
            .map(|call| async {
                match call {
                    Some(call) => call.await.is_ok(),
                    None => false,
                }
            })
            .collect();
        let told = futures_util::future::join_all(told).await;
        let paired = decisions.iter().zip(told).enumerate();
        let paired = paired.filter_map(|(shard, (decision, told))| {
            let entry = ShardEntry {
                primary: map.shards[shard].primary,
                paired: true,
            };
            (*decision == Decision::Pair && told).then_some((shard, entry))
        });
        if let Some(next) = self.publish(&map, &paired.collect::<Vec<_>>()) {
            map = next;
        }
        // The status from before the actions is out of date.
        tokio::time::sleep(limits::STATUS_INTERVAL).await;
        (map, true)
    }

    fn decide(&mut self, map: &ShardMap, shard: usize, statuses: &Statuses) -> Decision {
        let report = PairReport {
            primary: report(statuses, map.shards[shard].primary, shard),
            other: report(statuses, map.other(shard), shard),
        };
        let is_broken = matches!(
            report.primary,
            Some(ReplicaReport {
                state: ReplicaState::Primary { broken: true, .. },
                ..
            })
        );
        let since = is_broken.then(|| self.broken[shard].unwrap_or_else(Instant::now));
        self.broken[shard] = since;
        let decision = decide(
            map,
            shard,
            report,
            since.map_or(Duration::ZERO, |since| since.elapsed()),
        );
        if decision != Decision::Rest {
            debug!(shard, ?decision, ?report, "decided");
        }
        decision
    }

    /// Writes new entries for shards into the map. Returns `None` if there are none, or the map cannot be written.
    fn publish(&self, map: &ShardMap, entries: &[(usize, ShardEntry)]) -> Option<ShardMap> {
        let (first, _) = entries.split_first()?;
        let next = entries
            .iter()
            .fold(map.with(first.0, first.1), |mut next, &(shard, entry)| {
                next.shards[shard] = entry;
                next
            });
        if !self.folder.is_own() {
            return None;
        }
        if let Err(problem) = next.write(&self.model_dir) {
            warn!(%problem, "the shard map cannot be written: the servers keep their roles");
            return None;
        }
        for &(shard, entry) in entries {
            let before = map.shards[shard];
            let server = self.servers[entry.primary].task;
            let version = next.version;
            let backup = self.servers[next.other(shard)].task;
            let shard = self.servers[shard].task;
            match (before.primary == entry.primary, entry.paired) {
                (false, _) => {
                    warn!(%shard, by = %server, map = version, "failover: the primary of this \
                        shard is gone, and its backup is the primary now");
                }
                (true, true) => {
                    info!(%shard, by = %server, %backup, map = version, "this shard has a primary and a backup");
                }
                (true, false) => {
                    warn!(%shard, by = %server, without = %backup, map = version, "the backup of this shard is gone: the primary serves without a backup");
                }
            }
        }
        Some(next)
    }

    /// Sets the role of a server's replica of a shard.
    async fn set_role(
        &self,
        map: &ShardMap,
        shard: usize,
        server: usize,
        to_set: RoleToSet,
    ) -> Result<(), Status> {
        let role = match to_set {
            RoleToSet::PrimaryAlone | RoleToSet::PrimaryWithBackup => v1::ReplicaRole::Primary,
            RoleToSet::Backup => v1::ReplicaRole::Backup,
        };
        let request = v1::SetRoleRequest {
            cluster_id: convert::cluster_id_to_wire(self.cluster),
            shard: shard as u32,
            term: Some(v1::Term {
                cluster_epoch: map.cluster_epoch,
                version: map.version,
            }),
            role: role.into(),
            waits_for_backup: to_set == RoleToSet::PrimaryWithBackup,
        };
        let mut client = self.servers[server].client.clone();
        let told = tokio::time::timeout(SET_ROLE_TIMEOUT, client.set_role(request)).await;
        let told = told.unwrap_or_else(|_| Err(Status::deadline_exceeded("no answer")));
        if let Err(status) = &told {
            let ps = self.servers[server].task;
            debug!(%ps, shard, ?role, problem = root_cause(status), "the server did not accept its role");
        }
        told.map(drop)
    }
}

/// Returns a server's report on its replica of a shard.
fn report(statuses: &Statuses, server: usize, shard: usize) -> Option<ReplicaReport> {
    let status = statuses[server].as_ref()?;
    let replica = status
        .replicas
        .iter()
        .find(|replica| replica.shard as usize == shard)?;
    let state = match replica.role() {
        v1::ReplicaRole::Primary => ReplicaState::Primary {
            waits_for_backup: replica.waits_for_backup,
            in_sync: replica.link() == v1::LinkState::InSync,
            broken: replica.link() == v1::LinkState::Broken,
        },
        v1::ReplicaRole::Backup => ReplicaState::Backup {
            in_sync: replica.in_sync,
        },
        v1::ReplicaRole::Idle | v1::ReplicaRole::Unspecified if replica.incomplete => {
            ReplicaState::Incomplete
        }
        v1::ReplicaRole::Idle | v1::ReplicaRole::Unspecified => ReplicaState::Idle,
    };
    let term = replica.term.unwrap_or_default();
    Some(ReplicaReport {
        state,
        term: (term.cluster_epoch, term.version),
    })
}
