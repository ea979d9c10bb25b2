//! How many updates each server has applied, watched while servers die and come back.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use crate::metric;

/// Time between looks: what is said of recovery is no finer.
const POLL_INTERVAL: Duration = Duration::from_millis(10);

/// What tells that a store has applied an update.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Counted {
    /// The pushes that a server's process has applied.
    Pushes,
    /// The steps of the job, as a worker that holds the parameters knows them.
    Steps,
}

/// Threads that ask each store, until it is dropped.
#[derive(Debug)]
pub(super) struct StepMonitor {
    applied: Arc<Vec<AtomicU64>>,
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl StepMonitor {
    /// Watches the stores with these admin ports.
    pub(super) fn of(admins: Vec<String>, counted: Counted) -> Self {
        let applied: Arc<Vec<AtomicU64>> =
            Arc::new(admins.iter().map(|_| AtomicU64::new(0)).collect());
        let stop = Arc::new(AtomicBool::new(false));
        let watch = |(server, admin): (usize, String)| {
            let applied = Arc::clone(&applied);
            let stop = Arc::clone(&stop);
            std::thread::spawn(move || {
                let mut last = 0;
                while !stop.load(Ordering::Relaxed) {
                    let name = match counted {
                        Counted::Pushes => "trainyard_ps_pushes_total",
                        Counted::Steps => "trainyard_global_step",
                    };
                    if let Some(count) = metric(&admin, name) {
                        let count = count as u64;
                        let more = match counted {
                            // A process that was started again counts from 0.
                            Counted::Pushes if count < last => count,
                            _ => count.saturating_sub(last),
                        };
                        applied[server].fetch_add(more, Ordering::Relaxed);
                        last = match counted {
                            Counted::Pushes => count,
                            Counted::Steps => count.max(last),
                        };
                    }
                    std::thread::sleep(POLL_INTERVAL);
                }
            })
        };
        let threads = admins.into_iter().enumerate().map(watch).collect();
        Self {
            applied,
            stop,
            threads,
        }
    }

    /// Updates that each server was seen to apply, those that were redone too.
    pub(super) fn applied(&self) -> Vec<u64> {
        self.applied
            .iter()
            .map(|count| count.load(Ordering::Relaxed))
            .collect()
    }

    /// Updates of all servers.
    pub(super) fn total(&self) -> u64 {
        self.applied().iter().sum()
    }
}

impl Drop for StepMonitor {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}
