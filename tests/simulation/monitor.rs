//! A bystander that no fault reaches: it asks the servers how they stand, and holds them to what they said before.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use trainyard_cluster_client::{RemoteShard, Shard, ShardStatus, channel_over};
use trainyard_cluster_spec::Task;
use trainyard_runtime::Network;

use crate::network::Simulated;

/// Time between questions.
const LOOK: Duration = Duration::from_millis(100);
/// Longest wait for an answer.
const PATIENCE: Duration = Duration::from_secs(1);

/// What has been seen.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    /// Answers.
    pub(crate) answers: u64,
    /// What must not be.
    pub(crate) violations: Vec<String>,
    last: BTreeMap<usize, ShardStatus>,
}

impl Seen {
    /// Compares what a server says with what it said before. `logged` says whether it has a log.
    fn take(&mut self, ps: usize, status: ShardStatus, logged: bool) {
        self.answers += 1;
        if let Some(last) = self.last.get(&ps) {
            let same = last.incarnation == status.incarnation;
            // Without a log a server forgets all; with one nothing, but for that it may be put aside as no longer valid.
            let remembers = same || (logged && status.store.memory != 0);
            let was = &last.store;
            let is = &status.store;
            if remembers && is.epoch < was.epoch {
                self.violations.push(format!(
                    "ps:{ps} went back from epoch {} to {}",
                    was.epoch, is.epoch
                ));
            }
            if is.memory == was.memory && is.memory != 0 && is.version < was.version {
                self.violations.push(format!(
                    "ps:{ps} went back from version {} to {} of memory {}",
                    was.version, is.version, is.memory
                ));
            }
            if remembers && is.memory < was.memory {
                self.violations.push(format!(
                    "ps:{ps} went back from memory {} to {}",
                    was.memory, is.memory
                ));
            }
        }
        self.last.insert(ps, status);
    }
}

/// Watches servers for ever.
pub(crate) async fn watch(servers: Vec<(Task, String)>, logged: bool, seen: Arc<Mutex<Seen>>) {
    let network = Network::Other(Arc::new(Simulated));
    let shard = |(task, address): &(Task, String)| {
        let channel = channel_over(&network, *task, address).expect("an address");
        Shard::Remote(RemoteShard::new(task.index, address, channel))
    };
    let shards: Vec<Shard> = servers.iter().map(shard).collect();
    loop {
        tokio::time::sleep(LOOK).await;
        for (ps, shard) in shards.iter().enumerate() {
            if let Ok(Ok(status)) = tokio::time::timeout(PATIENCE, shard.status()).await {
                seen.lock().take(ps, status, logged);
            }
        }
    }
}
