//! The rendezvous of a process group: over a network, or in one process.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use trainyard_cluster_client::channel_over;
use trainyard_cluster_spec::Task;
use trainyard_collective::{Collective, Deadlines, Group, Hub, Membership, Peer, local};
use trainyard_diagnostic::Diagnostic;
use trainyard_parameter_server::LocalServer;
use trainyard_runtime::Network;

use crate::{GroupAssignment, Mirror};

/// Longest silence of a member within a step, which includes its slowest step and its input.
const PEER_TIMEOUT: Duration = Duration::from_secs(60);
/// Longest time that another member waits for this one to join the same group.
const RENDEZVOUS_TIMEOUT: Duration = Duration::from_secs(30);
/// Longest time for a group to form once the chief has assigned it.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(5);

/// The rendezvous of the members of a group.
#[derive(Debug, Clone)]
pub enum Rendezvous {
    /// Each member is a process that serves its own hub and reaches the others over a network.
    Remote(Hub, Network),
    /// All members are in this process.
    Local(LocalRendezvous),
}

/// A rendezvous in one process. Clones share it.
#[derive(Debug, Clone, Default)]
pub struct LocalRendezvous {
    /// By generation: the members that have not joined yet, by rank.
    seats: Arc<Mutex<BTreeMap<u64, Vec<Option<Collective>>>>>,
}

impl Mirror {
    /// Returns the state of a task in a process of its own, and the hub that the process must serve. Other members are
    /// reached over `network`. `servers` is the fingerprint of the chief and the parameter servers.
    pub fn remote(network: Network, incarnation: u64, servers: u64) -> (Self, Hub) {
        let shard = LocalServer::new(0, 1, incarnation, servers);
        let hub = Hub::new(RENDEZVOUS_TIMEOUT);
        (
            Self {
                shard,
                rendezvous: Rendezvous::Remote(hub.clone(), network),
            },
            hub,
        )
    }
}

impl Rendezvous {
    /// Joins a group with the assigned rank.
    pub(crate) async fn join(
        &self,
        cluster_id: u128,
        epoch: u64,
        formed: &GroupAssignment,
    ) -> Result<Collective, Diagnostic> {
        let GroupAssignment {
            generation,
            rank,
            members,
            ..
        } = formed;
        let generation = *generation;
        let rank = *rank;
        let size = members.len();
        let deadlines = Deadlines {
            form: HANDSHAKE_TIMEOUT,
            silence: PEER_TIMEOUT,
            ..Deadlines::default()
        };
        match self {
            Self::Local(rendezvous) => {
                let mut seats = rendezvous.seats.lock();
                // Members that did not join an earlier group will not join it any more.
                *seats = seats.split_off(&generation);
                let group = seats.entry(generation).or_insert_with(|| {
                    local(generation, size, deadlines)
                        .into_iter()
                        .map(Some)
                        .collect()
                });
                group
                    .get_mut(rank)
                    .and_then(Option::take)
                    .ok_or_else(|| taken(generation, rank))
            }
            Self::Remote(hub, network) => {
                let group = Group {
                    generation,
                    rank,
                    size,
                };
                let membership = Membership {
                    cluster_id: cluster_id.to_be_bytes(),
                    cluster_epoch: epoch,
                    group,
                };
                let others = members
                    .iter()
                    .enumerate()
                    .filter(|(other, _)| *other != rank);
                let peer = |(rank, (task, address)): (usize, &(Task, String))| {
                    let name = format!("{task} at {address}");
                    let channel = channel_over(network, *task, address)?;
                    Ok(Peer {
                        rank,
                        name,
                        channel,
                    })
                };
                let peers = others.map(peer).collect::<Result<Vec<_>, Diagnostic>>()?;
                hub.join(membership, peers, deadlines)
                    .await
                    .map_err(|error| error.diagnostic())
            }
        }
    }
}

fn taken(generation: u64, rank: usize) -> Diagnostic {
    let message = format!(
        "rank {rank} of generation {generation} belongs to another member: the \
        chief forms a new process group"
    );
    Diagnostic::error(trainyard_diagnostic::Code::E2003, message)
}
