//! Watchdog: checks that the loops of a daemon still run.

use std::future::Future;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use parking_lot::Mutex;

/// Watchdog of a daemon's loops, which beat periodically. By default it watches no loop and costs nothing.
#[derive(Debug, Clone, Default)]
pub struct Watchdog {
    loops: Option<Arc<Loops>>,
}

#[derive(Debug)]
struct Loops {
    /// Time between two beats of a waiting loop.
    interval: Duration,
    /// For each loop, whether it has beaten since the last check.
    signs: Mutex<Vec<Weak<AtomicBool>>>,
}

/// Handle of one watched loop. Dropping it ends the watch.
#[derive(Debug)]
pub struct WatchedLoop {
    sign: Option<Arc<AtomicBool>>,
}

impl Watchdog {
    /// Returns a watchdog whose loops beat every `interval` while they wait.
    pub fn every(interval: Duration) -> Self {
        Self {
            loops: Some(Arc::new(Loops {
                interval,
                signs: Mutex::default(),
            })),
        }
    }

    /// Adds a loop. Adding counts as its first beat.
    pub fn watch_loop(&self) -> WatchedLoop {
        let sign = self.loops.as_ref().map(|loops| {
            let sign = Arc::new(AtomicBool::new(true));
            loops.signs.lock().push(Arc::downgrade(&sign));
            sign
        });
        WatchedLoop { sign }
    }

    /// Runs `work` as a watched loop. It beats while the work yields its thread. Work that is stuck in a computation or
    /// on a lock does not beat.
    pub async fn within<F: Future>(&self, work: F) -> F::Output {
        let Some(loops) = &self.loops else {
            return work.await;
        };
        let watched_loop = self.watch_loop();
        let mut ticks = tokio::time::interval(loops.interval);
        let mut work = pin!(work);
        loop {
            tokio::select! {
                // The order matters: the beat comes after a poll of the work, on the same thread.
                biased;
                outcome = &mut work => return outcome,
                _ = ticks.tick() => watched_loop.beat(),
            }
        }
    }

    /// Returns whether every loop has beaten since the last check.
    pub(crate) fn all_loops_alive(&self) -> bool {
        let Some(loops) = &self.loops else {
            return true;
        };
        let mut signs = loops.signs.lock();
        signs.retain(|sign| sign.strong_count() > 0);
        // All loops are checked and reset, also those after a silent one.
        let silent = signs
            .iter()
            .filter_map(Weak::upgrade)
            .filter(|sign| !sign.swap(false, Ordering::Relaxed));
        silent.count() == 0
    }
}

impl WatchedLoop {
    /// Records a beat.
    pub fn beat(&self) {
        if let Some(sign) = &self.sign {
            sign.store(true, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::pending;

    use tokio::time::{advance, timeout};

    use super::*;

    const INTERVAL: Duration = Duration::from_millis(10);

    #[test]
    fn a_loop_that_gives_no_sign_is_noticed_behind_others_that_do() {
        let watchdog = Watchdog::every(INTERVAL);
        let stuck = watchdog.watch_loop();
        let lively = watchdog.watch_loop();
        assert!(watchdog.all_loops_alive(), "each begins with a sign");
        lively.beat();
        assert!(!watchdog.all_loops_alive());
        stuck.beat();
        lively.beat();
        assert!(watchdog.all_loops_alive(), "it goes on");
        lively.beat();
        drop(stuck);
        assert!(
            watchdog.all_loops_alive(),
            "a loop that has ended is not asked"
        );
    }

    #[tokio::test(start_paused = true)]
    async fn work_that_waits_is_alive_and_work_that_keeps_its_thread_is_not() {
        let watchdog = Watchdog::every(INTERVAL);
        let waits = watchdog.within(pending::<()>());
        assert!(timeout(10 * INTERVAL, waits).await.is_err());
        let waits = watchdog.within(pending::<()>());
        let mut waits = pin!(waits);
        for _ in 0..3 {
            assert!(timeout(2 * INTERVAL, &mut waits).await.is_err());
            assert!(watchdog.all_loops_alive());
        }
        // The loop is not polled, as if its thread were blocked.
        advance(10 * INTERVAL).await;
        assert!(!watchdog.all_loops_alive());
    }

    #[tokio::test]
    async fn nobody_asks_by_default() {
        let watchdog = Watchdog::default();
        assert_eq!(watchdog.within(async { 7 }).await, 7);
        let watched_loop = watchdog.watch_loop();
        watched_loop.beat();
        assert!(watchdog.all_loops_alive() && watchdog.all_loops_alive());
    }
}
