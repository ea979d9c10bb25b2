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
pub struct Pulse {
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
pub struct Heart {
    sign: Option<Arc<AtomicBool>>,
}

impl Pulse {
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
    pub fn heart(&self) -> Heart {
        let sign = self.loops.as_ref().map(|loops| {
            let sign = Arc::new(AtomicBool::new(true));
            loops.signs.lock().push(Arc::downgrade(&sign));
            sign
        });
        Heart { sign }
    }

    /// Does some work as a loop of its own: it gives a sign whenever the work hands its thread back. Work that is caught in
    /// a calculation or behind a lock gives none.
    pub async fn within<F: Future>(&self, work: F) -> F::Output {
        let Some(loops) = &self.loops else {
            return work.await;
        };
        let heart = self.heart();
        let mut ticks = tokio::time::interval(loops.interval);
        let mut work = pin!(work);
        loop {
            tokio::select! {
                // In turn: a sign is given behind the work, on its thread, and by nothing else.
                biased;
                outcome = &mut work => return outcome,
                _ = ticks.tick() => heart.beat(),
            }
        }
    }

    /// Returns whether every loop has given a sign since the last question.
    pub fn is_steady(&self) -> bool {
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

impl Heart {
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
        let pulse = Pulse::every(INTERVAL);
        let stuck = pulse.heart();
        let lively = pulse.heart();
        assert!(pulse.is_steady(), "each begins with a sign");
        lively.beat();
        assert!(!pulse.is_steady());
        stuck.beat();
        lively.beat();
        assert!(pulse.is_steady(), "it goes on");
        lively.beat();
        drop(stuck);
        assert!(pulse.is_steady(), "a loop that has ended is not asked");
    }

    #[tokio::test(start_paused = true)]
    async fn work_that_waits_is_alive_and_work_that_keeps_its_thread_is_not() {
        let pulse = Pulse::every(INTERVAL);
        let waits = pulse.within(pending::<()>());
        assert!(timeout(10 * INTERVAL, waits).await.is_err());
        let waits = pulse.within(pending::<()>());
        let mut waits = pin!(waits);
        for _ in 0..3 {
            assert!(timeout(2 * INTERVAL, &mut waits).await.is_err());
            assert!(pulse.is_steady());
        }
        // Nobody polls it, as where its thread is taken.
        advance(10 * INTERVAL).await;
        assert!(!pulse.is_steady());
    }

    #[tokio::test]
    async fn nobody_asks_by_default() {
        let pulse = Pulse::default();
        assert_eq!(pulse.within(async { 7 }).await, 7);
        let heart = pulse.heart();
        heart.beat();
        assert!(pulse.is_steady() && pulse.is_steady());
    }
}
