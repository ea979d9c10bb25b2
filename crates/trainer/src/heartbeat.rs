//! Signs of life to the chief, while the loop computes.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::Instant;
use tracing::{debug, warn};
use trainyard_protocol::Reason;

use crate::{Coordinator, JobState, Pulse};

/// What the loop tells the heartbeat.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    pub(crate) steps: AtomicU64,
    pub(crate) examples: AtomicU64,
    /// Bits of the loss.
    pub(crate) loss: AtomicU64,
}

/// What the heartbeat tells the loop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Directive {
    /// Go on.
    Train,
    /// The chief does not know this session any more.
    Rejoin,
    /// The job is over.
    End,
}

/// A task of its own that beats until it is dropped.
#[derive(Debug)]
pub(crate) struct Heartbeat {
    pub(crate) counts: Arc<Counts>,
    directive: watch::Receiver<Directive>,
    lanes: watch::Receiver<Vec<u32>>,
    regroup: Arc<AtomicU64>,
    handle: JoinHandle<()>,
}

impl Heartbeat {
    pub(crate) fn start<C: Coordinator>(
        coordinator: C,
        pulse: Pulse,
        interval: Duration,
        lanes: Vec<u32>,
    ) -> Self {
        let counts = Arc::new(Counts::default());
        let (sender, directive) = watch::channel(Directive::Train);
        let (told, lanes) = watch::channel(lanes);
        let regroup = Arc::<AtomicU64>::default();
        let tells = Tells { directive: sender, lanes: told, regroup: Arc::clone(&regroup) };
        let handle = tokio::spawn(beat(coordinator, pulse, interval, Arc::clone(&counts), tells));
        Self { counts, directive, lanes, regroup, handle }
    }

    pub(crate) fn directive(&self) -> Directive {
        *self.directive.borrow()
    }

    /// Returns the generation of the group that somebody waits to join; 0 = nobody.
    pub(crate) fn regroup(&self) -> u64 {
        self.regroup.load(Ordering::Relaxed)
    }

    /// Returns the slots of each synchronous step that this task computes, as the chief said last.
    pub(crate) fn lanes(&self) -> Vec<u32> {
        self.lanes.borrow().clone()
    }
}

impl Drop for Heartbeat {
    fn drop(&mut self) {
        self.handle.abort();
    }
}

/// What the beats tell.
struct Tells {
    directive: watch::Sender<Directive>,
    lanes: watch::Sender<Vec<u32>>,
    regroup: Arc<AtomicU64>,
}

async fn beat<C: Coordinator>(
    coordinator: C,
    pulse: Pulse,
    interval: Duration,
    counts: Arc<Counts>,
    tells: Tells,
) {
    let mut silent = 0_u32;
    let attend = async |pause: Duration| {
        tokio::time::sleep(pause).await;
        coordinator.attend(pulse.clone()).await;
    };
    let (mut attending, mut since) = (Box::pin(attend(Duration::ZERO)), Instant::now());
    loop {
        tokio::select! {
            () = tokio::time::sleep(interval) => {}
            // The chief is to hear at once that this task is there all the same, unless it is the chief that is gone.
            () = &mut attending => {
                let pause = if since.elapsed() < interval { interval } else { Duration::ZERO };
                (attending, since) = (Box::pin(attend(pause)), Instant::now() + pause);
            }
        }
        let pulse = Pulse {
            steps: counts.steps.load(Ordering::Relaxed),
            examples: counts.examples.load(Ordering::Relaxed),
            loss: f64::from_bits(counts.loss.load(Ordering::Relaxed)),
            ..pulse.clone()
        };
        match coordinator.heartbeat(pulse).await {
            Ok(beat) => {
                silent = 0;
                tells.regroup.store(beat.regroup, Ordering::Relaxed);
                tells.lanes.send_if_modified(|known| {
                    let other = *known != beat.lanes;
                    known.clone_from(&beat.lanes);
                    other
                });
                if crate::over(beat.state) {
                    tells.directive.send_replace(Directive::End);
                }
                if beat.state == JobState::Waiting {
                    debug!(waiting_for = ?beat.waiting_for, "the chief waits");
                }
            }
            Err(error)
                if matches!(
                    error.reason(),
                    Some(Reason::Fenced | Reason::StaleEpoch | Reason::TaskTaken)
                ) =>
            {
                tells.directive.send_replace(Directive::Rejoin);
                return;
            }
            Err(error) => {
                // Training goes on without the chief: the parameter servers decide what counts.
                silent += 1;
                if silent.is_multiple_of(10) || silent == 2 {
                    warn!(%error, "the chief does not answer; training goes on");
                }
            }
        }
    }
}
