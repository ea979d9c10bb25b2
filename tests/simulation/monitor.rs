//! A bystander that no fault reaches: it asks the servers how they stand, and holds them to what they said before.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use trainyard_cluster_client::{RemoteServer, ServerClient, channel_over};
use trainyard_cluster_spec::Task;
use trainyard_parameter_server::ServerStatus;
use trainyard_runtime::Network;

use crate::network::Simulated;

/// Time between questions.
const POLL_INTERVAL: Duration = Duration::from_millis(100);
/// Longest wait for an answer.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(1);

/// What has been seen.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    /// Answers.
    pub(crate) answers: u64,
    /// What must not be.
    pub(crate) violations: Vec<String>,
    last: BTreeMap<usize, ServerStatus>,
}

impl Seen {
    /// Compares what a server says with what it said before. `logged` says whether it has a log.
    fn take(&mut self, ps: usize, status: ServerStatus, logged: bool) {
        self.answers += 1;
        if let Some(last) = self.last.get(&ps) {
            let same = last.incarnation == status.incarnation;
            // Without a log a server forgets all; with one nothing, but for that it may be put aside as no longer valid.
            let remembers = same || (logged && status.store.prepared_epoch != 0);
            let was = &last.store;
            let is = &status.store;
            if remembers && is.epoch < was.epoch {
                self.violations.push(format!(
                    "ps:{ps} went back from epoch {} to {}",
                    was.epoch, is.epoch
                ));
            }
            if is.prepared_epoch == was.prepared_epoch
                && is.prepared_epoch != 0
                && is.version.count() < was.version.count()
            {
                self.violations.push(format!(
                    "ps:{ps} went back from version {} to {} of memory {}",
                    was.version, is.version, is.prepared_epoch
                ));
            }
            if remembers && is.prepared_epoch < was.prepared_epoch {
                self.violations.push(format!(
                    "ps:{ps} went back from memory {} to {}",
                    was.prepared_epoch, is.prepared_epoch
                ));
            }
        }
        self.last.insert(ps, status);
    }
}

/// Watches servers for ever.
pub(crate) async fn watch(servers: Vec<(Task, String)>, logged: bool, seen: Arc<Mutex<Seen>>) {
    let network = Network::Other(Arc::new(Simulated));
    let shard = |(task, address): &(Task, String)| -> Arc<dyn ServerClient> {
        let channel = channel_over(&network, *task, address).expect("an address");
        Arc::new(RemoteServer::new(task.index, address, channel))
    };
    let shards: Vec<Arc<dyn ServerClient>> = servers.iter().map(shard).collect();
    loop {
        tokio::time::sleep(POLL_INTERVAL).await;
        for (ps, shard) in shards.iter().enumerate() {
            if let Ok(Ok(status)) = tokio::time::timeout(ANSWER_TIMEOUT, shard.status()).await {
                seen.lock().take(ps, status, logged);
            }
        }
    }
}
