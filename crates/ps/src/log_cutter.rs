//! The cutter of a server's log: it cuts the log when the log is long.

use metrics::counter;
use tracing::{info, warn};
use trainyard_daemon::Context;

use crate::replication::Replicas;

/// Cuts a server's log when it is long, so that it fits shared memory.
#[derive(Debug, Default)]
pub(crate) struct LogCutter {
    /// The cut that is being written.
    cut: Option<tokio::task::JoinHandle<Result<Option<u64>, String>>>,
    /// The latest cut could not be written.
    has_failed: bool,
}

impl LogCutter {
    /// Begins a cut that is due, if none is in progress. The log of a server with a backup is not cut, because the backup
    /// continues from a checkpoint.
    pub(crate) async fn look(&mut self, context: &Context, replicas: &Replicas) {
        if let Some(cut) = self.cut.take_if(|cut| cut.is_finished()) {
            self.end(cut.await.unwrap_or_else(|panic| Err(panic.to_string())));
        }
        let Some(replica) = replicas.single().filter(|_| self.cut.is_none()) else {
            return;
        };
        let Some(journal) = replica.journal() else {
            return;
        };
        let shard = replica.store();
        let memory = context.job.parameter_servers.shared_memory_bytes_max;
        let Some(cut) = journal.due_cut(memory, || shard.store().log_cut_bytes()) else {
            return;
        };
        self.cut = Some(tokio::spawn(
            async move { shard.cut_log(journal, cut).await },
        ));
    }

    fn end(&mut self, outcome: Result<Option<u64>, String>) {
        match outcome {
            Ok(None) => {}
            Ok(Some(bytes)) => {
                counter!("trainyard_ps_log_cut_bytes_total").increment(bytes);
                counter!("trainyard_ps_log_cuts_total").increment(1);
                if std::mem::take(&mut self.has_failed) {
                    info!("the log of this parameter server is cut again");
                }
            }
            Err(problem) => {
                if !std::mem::replace(&mut self.has_failed, true) {
                    warn!(%problem, "the log of this parameter server cannot be cut: it grows until it can, or until a checkpoint");
                }
            }
        }
    }
}
