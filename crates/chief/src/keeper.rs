//! Keeps the pairs: hears every server, decides, writes the map down and tells the servers.

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

use crate::pairs::decide;
use crate::{Decision, PairReport, ReplicaReport, ReplicaState, ShardEntry, ShardMap};

/// Silence after which a server counts as gone: less than the lease of a worker, more than it takes to be scheduled.
const SILENCE: Duration = Duration::from_secs(4);
/// Longest wait for a server to begin to say how it stands.
const WATCH_TIMEOUT: Duration = Duration::from_millis(500);
/// Time between tries to reach a server.
const AGAIN: Duration = Duration::from_millis(25);
/// Longest wait for a server that is told something: it may have to wait for its backup.
const APPOINT_TIMEOUT: Duration = Duration::from_secs(3);
/// Longest time between two looks at all pairs.
const LOOK: Duration = Duration::from_millis(100);
/// Wait after a map could not be read or written.
const TRY_AGAIN: Duration = Duration::from_millis(50);
/// Longest wait until every shard has its two replicas, before training begins without.
const PAIRED_WITHIN: Duration = Duration::from_secs(10);

type Client = ReplicaServiceClient<Channel>;

/// What the servers say, by index; absent where one is not there.
type Standings = Vec<Option<v1::ServerStanding>>;

/// A server.
#[derive(Debug, Clone)]
struct Server {
    task: Task,
    client: Client,
}

/// The pairs of a cluster, kept by a task of their own for as long as the value is there.
#[derive(Debug)]
pub struct Pairs {
    epoch: watch::Sender<u64>,
    map: watch::Receiver<Option<ShardMap>>,
    servers: Vec<Server>,
    cluster: u128,
    tasks: Vec<JoinHandle<()>>,
}

impl Drop for Pairs {
    fn drop(&mut self) {
        self.tasks.iter().for_each(JoinHandle::abort);
    }
}

impl Pairs {
    /// Begins to hear the servers, in the order of their indices. Nothing is decided before [`Pairs::lead`].
    ///
    /// # Errors
    /// An address is none.
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
        let standings = Arc::new(watch::Sender::new(vec![None; servers.len()]));
        let mut tasks: Vec<_> = servers
            .iter()
            .enumerate()
            .map(|(index, server)| {
                tokio::spawn(hear(server.clone(), index, cluster, Arc::clone(&standings)))
            })
            .collect();
        let (epoch, epochs) = watch::channel(0);
        let (told, map) = watch::channel(None);
        let broken = vec![None; servers.len()];
        let servers_kept = servers.clone();
        let problem = None;
        let keeper = Keeper {
            servers: servers_kept,
            cluster,
            model_dir,
            standings,
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

    /// Decides from now on, in this epoch of the chief.
    pub fn lead(&self, epoch: u64) {
        self.epoch.send_replace(epoch);
    }

    /// Waits, for a while, until every shard has two replicas.
    pub async fn wait_until_paired(&self) {
        let mut map = self.map.clone();
        let all = |map: &Option<ShardMap>| {
            map.as_ref()
                .is_some_and(|map| map.shards.iter().all(|entry| entry.paired))
        };
        let paired = tokio::time::timeout(PAIRED_WITHIN, map.wait_for(all)).await;
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
            warn!(alone, "training begins before every shard has its backup");
        }
    }

    /// Tells every server that the job has ended.
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
                let told = tokio::time::timeout(APPOINT_TIMEOUT, client.dismiss(request)).await;
                if !matches!(told, Ok(Ok(_))) {
                    warn!(ps = %server.task, "{} could not be told that the job has ended", server.task);
                }
            }
        });
        futures_util::future::join_all(told).await;
    }
}

/// Hears how a server stands, again and again.
async fn hear(
    server: Server,
    index: usize,
    cluster: u128,
    standings: Arc<watch::Sender<Standings>>,
) {
    let cluster_id = convert::cluster_id_to_wire(cluster);
    loop {
        let mut client = server.client.clone();
        let request = v1::WatchRequest {
            cluster_id: cluster_id.clone(),
        };
        if let Ok(Ok(answer)) = tokio::time::timeout(WATCH_TIMEOUT, client.watch(request)).await {
            let mut told = answer.into_inner();
            while let Ok(Ok(Some(standing))) = tokio::time::timeout(SILENCE, told.message()).await {
                standings.send_if_modified(|standings| {
                    let changed = standings[index].as_ref() != Some(&standing);
                    standings[index] = Some(standing);
                    changed
                });
            }
            // Whether it is gone, the next try tells: at once, where nobody listens.
            continue;
        }
        standings.send_if_modified(|standings| standings[index].take().is_some());
        tokio::time::sleep(AGAIN).await;
    }
}

struct Keeper {
    servers: Vec<Server>,
    cluster: u128,
    model_dir: PathBuf,
    standings: Arc<watch::Sender<Standings>>,
    epochs: watch::Receiver<u64>,
    told: watch::Sender<Option<ShardMap>>,
    /// Since when each primary has been without its backup.
    broken: Vec<Option<Instant>>,
    /// Why the map cannot be read, once it has been said.
    problem: Option<String>,
}

impl Keeper {
    async fn run(mut self) {
        if self.epochs.wait_for(|epoch| *epoch > 0).await.is_err() {
            return;
        }
        let mut standings = self.standings.subscribe();
        let mut map: Option<ShardMap> = None;
        loop {
            let epoch = *self.epochs.borrow();
            let known = match map.take().filter(|map| map.cluster_epoch == epoch) {
                Some(known) => known,
                None => match self.take_up(epoch) {
                    Some(known) => known,
                    None => {
                        tokio::time::sleep(TRY_AGAIN).await;
                        continue;
                    }
                },
            };
            let told = standings.borrow_and_update().clone();
            let (next, busy) = self.look(known, &told).await;
            self.told
                .send_if_modified(|told| told.replace(next.clone()).as_ref() != Some(&next));
            map = Some(next);
            if !busy {
                // What has been heard meanwhile is looked at at once.
                drop(tokio::time::timeout(LOOK, standings.changed()).await);
            }
        }
    }

    /// Reads the map that the chief before has left, and makes it this one's.
    fn take_up(&mut self, epoch: u64) -> Option<ShardMap> {
        let left = match ShardMap::read(&self.model_dir, self.servers.len()) {
            Ok(left) => left,
            Err(problem) => {
                // A new one could name a server that lacks what the other has acknowledged.
                if self.problem.as_ref() != Some(&problem) {
                    error!(
                        problem,
                        "the map of shards cannot be read: nobody serves until it can. If the file is damaged for good, \
                         stop the job and remove it: each server then serves its own shard, from its own log"
                    );
                    self.problem = Some(problem);
                }
                return None;
            }
        };
        self.problem = None;
        let map = match left {
            Some(left) if left.cluster_epoch > epoch => {
                debug!(epoch, "a later chief leads: nothing is decided here");
                return None;
            }
            Some(left) => ShardMap {
                cluster_epoch: epoch,
                version: left.version + 1,
                ..left
            },
            None => ShardMap::new(epoch, self.servers.len()),
        };
        match map.write(&self.model_dir) {
            Ok(()) => Some(map),
            Err(problem) => {
                warn!(%problem, "the map of shards cannot be written: the servers wait");
                None
            }
        }
    }

    /// Looks at every pair, and does what is to be done. Returns the map, and whether anything was done.
    async fn look(&mut self, mut map: ShardMap, standings: &Standings) -> (ShardMap, bool) {
        let decisions: Vec<Decision> = (0..self.servers.len())
            .map(|shard| self.decide(&map, shard, standings))
            .collect();
        if decisions.iter().all(|decision| *decision == Decision::Rest) {
            return (map, false);
        }
        // A server that is gone is in two pairs: one write for both.
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
            let (server, waits) = match *decision {
                // The word follows at once, on what is known: it is what the decision was made on.
                Decision::Publish(_) if published.is_some() => (primary, Some(false)),
                Decision::Serve { waits } => (primary, Some(waits)),
                Decision::Follow => (other, None),
                Decision::Pair => (primary, Some(true)),
                Decision::Publish(_) | Decision::Rest => return None,
            };
            Some(self.appoint(&map, shard, server, waits))
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
        // What was heard before is not what is the case now.
        tokio::time::sleep(limits::STANDING_INTERVAL).await;
        (map, true)
    }

    fn decide(&mut self, map: &ShardMap, shard: usize, standings: &Standings) -> Decision {
        let report = PairReport {
            primary: report(standings, map.shards[shard].primary, shard),
            other: report(standings, map.other(shard), shard),
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

    /// Writes down how shards are served from now on. Nothing, where there is nothing to write, or it cannot be.
    fn publish(&self, map: &ShardMap, entries: &[(usize, ShardEntry)]) -> Option<ShardMap> {
        let (first, _) = entries.split_first()?;
        let next = entries
            .iter()
            .fold(map.with(first.0, first.1), |mut next, &(shard, entry)| {
                next.shards[shard] = entry;
                next
            });
        if let Err(problem) = next.write(&self.model_dir) {
            warn!(%problem, "the map of shards cannot be written: nothing changes");
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
                    warn!(%shard, by = %server, map = version, "the server of this shard is gone: its backup serves it from now on");
                }
                (true, true) => {
                    info!(%shard, by = %server, %backup, map = version, "this shard has two replicas");
                }
                (true, false) => {
                    warn!(%shard, by = %server, without = %backup, map = version, "the backup of this shard is gone: it is served without one");
                }
            }
        }
        Some(next)
    }

    /// Tells a server what its replica of a shard is: primary, waiting or not, or backup.
    async fn appoint(
        &self,
        map: &ShardMap,
        shard: usize,
        server: usize,
        primary: Option<bool>,
    ) -> Result<(), Status> {
        let role = if primary.is_some() {
            v1::ReplicaRole::Primary
        } else {
            v1::ReplicaRole::Backup
        };
        let request = v1::AppointRequest {
            cluster_id: convert::cluster_id_to_wire(self.cluster),
            shard: shard as u32,
            term: Some(v1::Term {
                cluster_epoch: map.cluster_epoch,
                version: map.version,
            }),
            role: role.into(),
            waits: primary == Some(true),
        };
        let mut client = self.servers[server].client.clone();
        let told = tokio::time::timeout(APPOINT_TIMEOUT, client.appoint(request)).await;
        let told = told.unwrap_or_else(|_| Err(Status::deadline_exceeded("no answer")));
        if let Err(status) = &told {
            let ps = self.servers[server].task;
            debug!(%ps, shard, ?role, problem = root_cause(status), "could not be told");
        }
        told.map(drop)
    }
}

/// Returns what a server says of its replica of a shard.
fn report(standings: &Standings, server: usize, shard: usize) -> Option<ReplicaReport> {
    let standing = standings[server].as_ref()?;
    let replica = standing
        .replicas
        .iter()
        .find(|replica| replica.shard as usize == shard)?;
    let state = match replica.role() {
        v1::ReplicaRole::Primary => ReplicaState::Primary {
            waits: replica.waits,
            level: replica.link() == v1::LinkState::Level,
            broken: replica.link() == v1::LinkState::Broken,
        },
        v1::ReplicaRole::Backup => ReplicaState::Backup {
            level: replica.level,
        },
        v1::ReplicaRole::Idle | v1::ReplicaRole::Unspecified => ReplicaState::Idle,
    };
    let term = replica.term.unwrap_or_default();
    Some(ReplicaReport {
        state,
        term: (term.cluster_epoch, term.version),
    })
}
