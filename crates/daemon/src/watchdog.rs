//! Whether the loops that do a daemon's work still run.

use std::future::Future;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use parking_lot::Mutex;

/// The loops of a daemon's work, each of which gives signs of life. Without anybody who asks, which is the default, there
/// are none, and they cost nothing.
#[derive(Debug, Clone, Default)]
pub struct Watchdog {
    loops: Option<Arc<Loops>>,
}

#[derive(Debug)]
struct Loops {
    /// Time between two signs of a loop that waits.
    interval: Duration,
    /// Whether each loop has given a sign since it was last asked.
    signs: Mutex<Vec<Weak<AtomicBool>>>,
}

/// The signs of life of one loop; it is asked for them until this is dropped.
#[derive(Debug)]
pub struct WatchedLoop {
    sign: Option<Arc<AtomicBool>>,
}

impl Watchdog {
    /// Returns one whose loops give a sign every `interval` while they wait.
    pub fn every(interval: Duration) -> Self {
        Self {
            loops: Some(Arc::new(Loops {
                interval,
                signs: Mutex::default(),
            })),
        }
    }

    /// Adds a loop, which has just given its first sign.
    pub fn watch_loop(&self) -> WatchedLoop {
        let sign = self.loops.as_ref().map(|loops| {
            let sign = Arc::new(AtomicBool::new(true));
            loops.signs.lock().push(Arc::downgrade(&sign));
            sign
        });
        WatchedLoop { sign }
    }

    /// Does some work as a loop of its own: it gives a sign whenever the work hands its thread back. Work that is caught in
    /// a calculation or behind a lock gives none.
    pub async fn within<F: Future>(&self, work: F) -> F::Output {
        let Some(loops) = &self.loops else {
            return work.await;
        };
        let watched_loop = self.watch_loop();
        let mut ticks = tokio::time::interval(loops.interval);
        let mut work = pin!(work);
        loop {
            tokio::select! {
                // In turn: a sign is given behind the work, on its thread, and by nothing else.
                biased;
                outcome = &mut work => return outcome,
                _ = ticks.tick() => watched_loop.beat(),
            }
        }
    }

    /// Returns whether every loop has given a sign since the last question.
    pub fn all_loops_alive(&self) -> bool {
        let Some(loops) = &self.loops else {
            return true;
        };
        let mut signs = loops.signs.lock();
        signs.retain(|sign| sign.strong_count() > 0);
        // Every one is asked anew, also behind one that is silent.
        let silent = signs
            .iter()
            .filter_map(Weak::upgrade)
            .filter(|sign| !sign.swap(false, Ordering::Relaxed));
        silent.count() == 0
    }
}

impl WatchedLoop {
    /// Gives a sign of life.
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
        // Nobody polls it, as where its thread is taken.
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
