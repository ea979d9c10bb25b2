//! Metrics and log lines of cuts of a server's logs.

use metrics::counter;
use tracing::warn;

/// Records the end of a cut of a backup's log.
pub(crate) fn record(outcome: &Result<u64, String>) {
    match outcome {
        Ok(bytes) => count(*bytes),
        Err(problem) => tell(problem),
    }
}

/// Counts a cut of so many bytes.
pub(crate) fn count(bytes: u64) {
    counter!("trainyard_ps_log_cut_bytes_total").increment(bytes);
    counter!("trainyard_ps_log_cuts_total").increment(1);
}

/// Logs why a cut could not be written.
pub(crate) fn tell(problem: &str) {
    warn!(%problem, "the log of this parameter server cannot be cut: it grows until it can, or until a checkpoint");
}
