//! Where the members of a group meet: over the network, or in one process.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use trainyard_cluster_client::{LocalShard, channel_over};
use trainyard_cluster_spec::Task;
use trainyard_collective::{Collective, Deadlines, Group, Hub, Membership, Peer, local};
use trainyard_diagnostic::Diagnostic;
use trainyard_runtime::Network;

use crate::{Formed, Mirror};

/// Longest silence of a member in the midst of a step: its slowest step, input included.
const SILENCE: Duration = Duration::from_secs(60);
/// Longest time that another member waits for this one to form the same group.
const MEET: Duration = Duration::from_secs(30);
/// Longest time for a group to form once the chief has named it.
const FORM: Duration = Duration::from_secs(5);

/// A place to meet.
#[derive(Debug, Clone)]
pub enum Meeting {
    /// Each member is a process, and serves its hub; the others are reached over a network.
    Remote(Hub, Network),
    /// All members are in this process.
    Local(LocalMeeting),
}

/// A place to meet in one process. Clones share it.
#[derive(Debug, Clone, Default)]
pub struct LocalMeeting {
    /// By generation: the seats that have not been taken.
    seats: Arc<Mutex<BTreeMap<u64, Vec<Option<Collective>>>>>,
}

impl Mirror {
    /// Returns what a task of a process of its own has, and the hub that it is to serve. The others are reached over `network`; `servers` is the fingerprint of
    /// the chief and the parameter servers.
    pub fn remote(network: Network, incarnation: u64, servers: u64) -> (Self, Hub) {
        let shard = LocalShard::new(0, 1, incarnation, servers);
        let hub = Hub::new(MEET);
        (
            Self {
                shard,
                meeting: Meeting::Remote(hub.clone(), network),
            },
            hub,
        )
    }
}

impl Meeting {
    /// Takes a member's seat in a group.
    pub(crate) async fn join(
        &self,
        cluster_id: u128,
        epoch: u64,
        formed: &Formed,
    ) -> Result<Collective, Diagnostic> {
        let Formed {
            generation,
            rank,
            members,
            ..
        } = formed;
        let generation = *generation;
        let rank = *rank;
        let size = members.len();
        let deadlines = Deadlines {
            form: FORM,
            silence: SILENCE,
            ..Deadlines::default()
        };
        match self {
            Self::Local(meeting) => {
                let mut seats = meeting.seats.lock();
                // Whoever did not come to an earlier one will not.
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
    let message = format!("seat {rank} of group {generation} is taken: the group is formed anew");
    Diagnostic::error(trainyard_diagnostic::Code::E2003, message)
}
