//! The cutter of a server's logs: it cuts a log when the log is long.

use std::collections::BTreeMap;

use tokio::task::JoinHandle;
use tracing::info;

use crate::log_cut_telemetry;
use crate::replication::{Replica, Replicas};

/// Cuts the logs of a server's primaries when they are long, so that they fit shared memory. A backup cuts its log where its primary
/// has cut its own.
#[derive(Debug, Default)]
pub(crate) struct LogCutter {
    shards: BTreeMap<usize, ShardCutter>,
}

/// Cuts the log of one shard.
#[derive(Debug, Default)]
struct ShardCutter {
    /// The cut that is being written.
    cut: Option<JoinHandle<Outcome>>,
    /// The latest cut could not be written.
    has_failed: bool,
}

/// Bytes that were written; `None` if the log could not be cut at this moment.
type Outcome = Result<Option<u64>, String>;

impl LogCutter {
    /// Begins the cuts that are due.
    pub(crate) async fn look(&mut self, replicas: &Replicas) {
        for replica in replicas.iter() {
            let shard = self.shards.entry(replica.shard()).or_default();
            shard.look(replica).await;
        }
    }
}

impl ShardCutter {
    /// Begins a cut that is due, if none is in progress.
    async fn look(&mut self, replica: &Replica) {
        if let Some(cut) = self.cut.take_if(|cut| cut.is_finished()) {
            self.end(cut.await.unwrap_or_else(|panic| Err(panic.to_string())));
        }
        if self.cut.is_some() || !replica.is_primary() {
            return;
        }
        let Some(journal) = replica.journal() else {
            return;
        };
        let shard = replica.store();
        let memory = journal.memory_bytes_max();
        let Some(cut) = journal.due_cut(memory, || shard.store().log_cut_bytes()) else {
            return;
        };
        self.cut = Some(tokio::spawn(
            async move { shard.cut_log(journal, cut).await },
        ));
    }

    fn end(&mut self, outcome: Outcome) {
        match outcome {
            Ok(None) => {}
            Ok(Some(bytes)) => {
                log_cut_telemetry::count(bytes);
                if std::mem::take(&mut self.has_failed) {
                    info!("the log of this parameter server is cut again");
                }
            }
            Err(problem) => {
                if !std::mem::replace(&mut self.has_failed, true) {
                    log_cut_telemetry::tell(&problem);
                }
            }
        }
    }
}
