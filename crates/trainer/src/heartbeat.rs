//! Heartbeats to the chief, while the loop computes.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::Instant;
use tracing::{debug, warn};
use trainyard_cluster_client::Error;
use trainyard_protocol::Reason;

use crate::{Coordinator, HeartbeatRequest, JobState, StepTotals};

/// Counters that the loop reports through the heartbeat.
#[derive(Debug, Default)]
pub(crate) struct StepCounters {
    steps: AtomicU64,
    examples: AtomicU64,
    /// Bits of the loss.
    loss: AtomicU64,
    /// Bits of the sum of the losses. Only one loop adds to it.
    loss_sum: AtomicU64,
    staleness_steps: AtomicU64,
    input_nanos: AtomicU64,
    exchange_nanos: AtomicU64,
    compute_nanos: AtomicU64,
}

impl StepCounters {
    /// Counts a step.
    pub(crate) fn step(&self, examples: u64, loss: f64, staleness_steps: u64) {
        self.steps.fetch_add(1, Ordering::Relaxed);
        self.examples.fetch_add(examples, Ordering::Relaxed);
        self.loss.store(loss.to_bits(), Ordering::Relaxed);
        let sum = f64::from_bits(self.loss_sum.load(Ordering::Relaxed)) + loss;
        self.loss_sum.store(sum.to_bits(), Ordering::Relaxed);
        self.staleness_steps
            .fetch_add(staleness_steps, Ordering::Relaxed);
    }

    /// Adds time spent waiting for a batch.
    pub(crate) fn input(&self, time: Duration) {
        self.input_nanos.fetch_add(nanos(time), Ordering::Relaxed);
    }

    /// Adds time spent waiting for servers.
    pub(crate) fn exchange(&self, time: Duration) {
        self.exchange_nanos
            .fetch_add(nanos(time), Ordering::Relaxed);
    }

    /// Adds time of a forward and backward pass.
    pub(crate) fn compute(&self, time: Duration) {
        self.compute_nanos.fetch_add(nanos(time), Ordering::Relaxed);
    }

    /// Returns a heartbeat of this session, with the counters.
    pub(crate) fn told_by(&self, session: &HeartbeatRequest) -> HeartbeatRequest {
        let time = |nanos: &AtomicU64| Duration::from_nanos(nanos.load(Ordering::Relaxed));
        HeartbeatRequest {
            steps: self.steps.load(Ordering::Relaxed),
            examples: self.examples.load(Ordering::Relaxed),
            loss: f64::from_bits(self.loss.load(Ordering::Relaxed)),
            totals: StepTotals {
                loss: f64::from_bits(self.loss_sum.load(Ordering::Relaxed)),
                staleness_steps: self.staleness_steps.load(Ordering::Relaxed),
                input: time(&self.input_nanos),
                exchange: time(&self.exchange_nanos),
                compute: time(&self.compute_nanos),
            },
            ..session.clone()
        }
    }
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

/// A directive of the heartbeat to the loop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Directive {
    /// The loop continues.
    Train,
    /// The chief does not know this session any more.
    Rejoin,
    /// The job has ended, in this state.
    End(JobState),
    /// The job has ended, in this state, and the chief has gone.
    Gone(JobState),
}

/// A spawned task that sends heartbeats until it is dropped.
#[derive(Debug)]
pub(crate) struct HeartbeatSender {
    pub(crate) counts: Arc<StepCounters>,
    directive: watch::Receiver<Directive>,
    lanes: watch::Receiver<Vec<u32>>,
    regroup: Arc<AtomicU64>,
    /// Time since which the chief has not answered. `None` if it answers.
    silent: watch::Receiver<Option<Instant>>,
    handle: JoinHandle<()>,
}

impl HeartbeatSender {
    /// Starts to send heartbeats. If the chief cannot be reached, `ended` returns how the job has ended, if that is
    /// known.
    pub(crate) fn start(
        coordinator: Arc<dyn Coordinator>,
        heartbeat: HeartbeatRequest,
        interval: Duration,
        lanes: Vec<u32>,
        ended: impl Fn() -> Option<JobState> + Send + 'static,
    ) -> Self {
        let counts = Arc::new(StepCounters::default());
        let (sender, directive) = watch::channel(Directive::Train);
        let (told, lanes) = watch::channel(lanes);
        let regroup = Arc::<AtomicU64>::default();
        let (falls_silent, silent) = watch::channel(None);
        let tells = Tells {
            directive: sender,
            lanes: told,
            regroup: Arc::clone(&regroup),
            silent: falls_silent,
        };
        let sending = Heartbeats {
            coordinator,
            heartbeat,
            interval,
            counts: Arc::clone(&counts),
            tells,
        };
        let handle = tokio::spawn(sending.run(ended));
        Self {
            counts,
            directive,
            lanes,
            regroup,
            silent,
            handle,
        }
    }

    pub(crate) fn directive(&self) -> Directive {
        *self.directive.borrow()
    }

    /// Waits until the job has ended and the chief has gone; forever if that does not happen.
    pub(crate) fn gone(&self) -> impl Future<Output = ()> + use<> {
        self.directs(|directive| matches!(directive, Directive::Gone(_)))
    }

    /// Waits for a directive other than to continue; forever if there is none.
    pub(crate) fn directed(&self) -> impl Future<Output = ()> + use<> {
        self.directs(|directive| directive != Directive::Train)
    }

    fn directs(&self, which: fn(Directive) -> bool) -> impl Future<Output = ()> + use<> {
        let mut directive = self.directive.clone();
        async move {
            if directive
                .wait_for(|directive| which(*directive))
                .await
                .is_err()
            {
                std::future::pending().await
            }
        }
    }

    /// Returns the time since which the chief has not answered. `None` if it answers.
    pub(crate) fn silent_since(&self) -> Option<Instant> {
        *self.silent.borrow()
    }

    /// Returns the generation of the group that another task waits to join; 0 = none.
    pub(crate) fn regroup(&self) -> u64 {
        self.regroup.load(Ordering::Relaxed)
    }

    /// Returns the lanes that this task computes in each synchronous step, from the chief's latest reply.
    pub(crate) fn lanes(&self) -> Vec<u32> {
        self.lanes.borrow().clone()
    }
}

impl Drop for HeartbeatSender {
    fn drop(&mut self) {
        self.handle.abort();
    }
}

/// The channels through which the heartbeat reports to the loop.
struct Tells {
    directive: watch::Sender<Directive>,
    lanes: watch::Sender<Vec<u32>>,
    regroup: Arc<AtomicU64>,
    silent: watch::Sender<Option<Instant>>,
}

/// The heartbeats of a session.
struct Heartbeats {
    coordinator: Arc<dyn Coordinator>,
    /// The heartbeat, without its counts.
    heartbeat: HeartbeatRequest,
    interval: Duration,
    counts: Arc<StepCounters>,
    tells: Tells,
}

impl Heartbeats {
    /// Sends heartbeats until the job has ended and the chief has gone.
    async fn run(self, ended: impl Fn() -> Option<JobState>) {
        let Self {
            coordinator,
            heartbeat,
            interval,
            counts,
            tells,
        } = self;
        let mut silent = 0_u32;
        let attend = async |pause: Duration| {
            tokio::time::sleep(pause).await;
            coordinator.keep_alive(heartbeat.clone()).await;
        };
        let mut attending = Box::pin(attend(Duration::ZERO));
        let mut since = Instant::now();
        loop {
            tokio::select! {
                () = tokio::time::sleep(interval) => {}
                // A heartbeat shows the chief at once that this task still runs, unless the chief itself is gone.
                () = &mut attending => {
                    let pause = if since.elapsed() < interval { interval } else { Duration::ZERO };
                    (attending, since) = (Box::pin(attend(pause)), Instant::now() + pause);
                }
            }
            match coordinator.heartbeat(counts.told_by(&heartbeat)).await {
                Ok(beat) => {
                    silent = 0;
                    tells.silent.send_replace(None);
                    tells.regroup.store(beat.regroup, Ordering::Relaxed);
                    tells.lanes.send_if_modified(|known| {
                        let other = *known != beat.lanes;
                        known.clone_from(&beat.lanes);
                        other
                    });
                    if crate::over(beat.state) {
                        tells.directive.send_replace(Directive::End(beat.state));
                    }
                    if beat.state == JobState::Waiting {
                        debug!(waiting_for = ?beat.waiting_for, "the job waits");
                    }
                }
                Err(error)
                    if matches!(
                        error.reason(),
                        Some(Reason::Fenced | Reason::StaleEpoch | Reason::TaskTaken)
                    ) =>
                {
                    // A step that waits for a server ends when the server refuses its session. If the server never answers
                    // again, the step ends with the job, so the heartbeat must continue until it can report that end.
                    tells.directive.send_replace(Directive::Rejoin);
                }
                Err(error) => {
                    // This task may have been suspended while the job ended.
                    if let Error::Unreachable { .. } = error
                        && let Some(state) = ended()
                    {
                        tells.directive.send_replace(Directive::Gone(state));
                        return;
                    }
                    // Training goes on without the chief: the parameter servers decide what counts.
                    silent += 1;
                    tells
                        .silent
                        .send_modify(|since| *since = since.or_else(|| Some(Instant::now())));
                    if silent.is_multiple_of(10) || silent == 2 {
                        warn!(%error, "the chief does not answer; this task continues with the data \
                        shards that it has, as long as its parameter servers answer");
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use futures_util::future::BoxFuture;
    use trainyard_cluster_spec::{Role, Task};
    use trainyard_protocol::Refusal;

    use super::*;
    use crate::{
        HeartbeatReply, JoinGroupReply, JoinGroupRequest, LeaveReason, NextShardReply,
        NextShardRequest, RegisterReply, RegisterRequest,
    };

    /// A chief that does not know the session at the first heartbeat, and is gone at the next.
    #[derive(Debug, Default)]
    struct Replaced {
        heartbeats: AtomicU64,
    }

    fn gone<T: Send>() -> BoxFuture<'static, Result<T, Error>> {
        Box::pin(async {
            Err(Error::Unreachable {
                peer: "chief:0".to_owned(),
                message: "connection refused".to_owned(),
            })
        })
    }

    impl Coordinator for Replaced {
        fn heartbeat(&self, _: HeartbeatRequest) -> BoxFuture<'_, Result<HeartbeatReply, Error>> {
            if self.heartbeats.fetch_add(1, Ordering::Relaxed) > 0 {
                return gone();
            }
            let refusal = Refusal::new(Reason::Fenced, "this session is unknown");
            Box::pin(async {
                Err(Error::Refused {
                    peer: "chief:0".to_owned(),
                    refusal,
                })
            })
        }

        fn keep_alive(&self, _: HeartbeatRequest) -> BoxFuture<'_, ()> {
            Box::pin(std::future::pending())
        }

        fn register(&self, _: RegisterRequest) -> BoxFuture<'_, Result<RegisterReply, Error>> {
            gone()
        }

        fn next_shard(&self, _: NextShardRequest) -> BoxFuture<'_, Result<NextShardReply, Error>> {
            gone()
        }

        fn join_group(&self, _: JoinGroupRequest) -> BoxFuture<'_, Result<JoinGroupReply, Error>> {
            gone()
        }

        fn leave(&self, _: HeartbeatRequest, _: LeaveReason) -> BoxFuture<'_, Result<(), Error>> {
            gone()
        }

        fn name(&self) -> String {
            "chief:0".to_owned()
        }
    }

    #[tokio::test]
    async fn a_task_whose_session_is_unknown_still_hears_that_the_job_has_ended() {
        let task = Task {
            role: Role::Worker,
            index: 0,
        };
        let session = HeartbeatRequest {
            task,
            incarnation: 1,
            epoch: 1,
            session: 1,
            steps: 0,
            examples: 0,
            loss: 0.0,
            totals: StepTotals::default(),
        };
        let heartbeat = HeartbeatSender::start(
            Arc::new(Replaced::default()),
            session,
            Duration::from_millis(1),
            Vec::new(),
            || Some(JobState::Done),
        );
        let told = tokio::time::timeout(Duration::from_secs(30), heartbeat.gone()).await;
        assert!(told.is_ok(), "{:?}", heartbeat.directive());
        assert_eq!(heartbeat.directive(), Directive::Gone(JobState::Done));
    }
}
