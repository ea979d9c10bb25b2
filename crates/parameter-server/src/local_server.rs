//! A parameter server in this process: the store, its clock, and its place in the cluster.
//!
//! The daemon serves exactly this over gRPC, so that one process and a cluster follow the same rules.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::watch;
use tokio::time::Instant;
use trainyard_checkpoint::PartRead;
use trainyard_cluster_spec::Task;
use trainyard_parameter_store::{
    Gradients, Identity, OpenSession, Opened, Pulled, Reading, StepReply, StepRequest, Store,
    Ticket,
};
use trainyard_protocol::{Reason, Refusal};

use crate::{Error, Provenance, ServerStatus};

/// Longest time for which a pull waits for its ticket or version.
const LONG_POLL_TIMEOUT: Duration = Duration::from_millis(250);

/// A store and its place in the cluster.
#[derive(Debug, Clone)]
pub struct LocalServer {
    name: String,
    /// Place among the stores of the job, and their number. The cluster spec gives both until the chief does.
    pub(crate) place: Arc<Mutex<(usize, usize)>>,
    incarnation: u64,
    pub(crate) cluster_fingerprint: u64,
    /// Start of the clock of this process. It is monotonic, so that changes of the system time do not matter. `None` if the clock is
    /// stopped.
    started: Option<Instant>,
    /// Seconds of training before this process started.
    trained_secs: Arc<AtomicU64>,
    pub(crate) store: Arc<Store>,
    /// Notified when a change may let a waiting pull proceed.
    pub(crate) changed: watch::Sender<()>,
    /// Parts that were read of checkpoint tensors which other servers have read too.
    pub(crate) parts_read: Arc<Mutex<Vec<PartRead>>>,
    /// Settings and run that the store was prepared with.
    pub(crate) prepared_with: Arc<Mutex<(u64, Provenance)>>,
    /// Held while a snapshot is requested and written, of which there is one at a time.
    pub(crate) snapshot_turn: Arc<tokio::sync::Mutex<()>>,
}

impl LocalServer {
    /// Returns the empty server `ps` of `num_ps`.
    pub fn new(ps: usize, num_ps: usize, incarnation: u64, cluster_fingerprint: u64) -> Self {
        let store = Arc::new(Store::new(ps));
        let name = format!("ps:{ps}");
        let started = Some(Instant::now());
        let changed = watch::Sender::new(());
        let place = Arc::new(Mutex::new((ps, num_ps)));
        let trained_secs = Arc::default();
        Self {
            name,
            place,
            incarnation,
            cluster_fingerprint,
            started,
            trained_secs,
            store,
            changed,
            parts_read: Arc::default(),
            prepared_with: Arc::default(),
            snapshot_turn: Arc::default(),
        }
    }

    /// Sets the clock of the store, which has none of its own.
    pub(crate) fn tell_time(&self) {
        let Some(started) = self.started else { return };
        let trained = self.trained_secs.load(Ordering::Relaxed);
        self.store
            .set_clock(trained.saturating_add(started.elapsed().as_secs()));
    }

    /// Stops the clock, so that the same work leads to the same times. Whoever stops it sets the clock of the store.
    #[cfg(any(test, feature = "testing"))]
    pub(crate) fn stop_clock(self) -> Self {
        Self {
            started: None,
            ..self
        }
    }

    /// Continues the training time from the store's clock.
    pub fn go_on(&self) {
        self.trained_secs
            .store(self.store.clock(), Ordering::Relaxed);
    }

    /// Returns the store.
    pub fn store(&self) -> &Store {
        &self.store
    }

    /// Returns whether a snapshot is requested or written.
    pub fn is_saving(&self) -> bool {
        self.snapshot_turn.try_lock().is_err()
    }

    /// Returns the name for messages, for example `ps:1`.
    pub fn name(&self) -> &str {
        &self.name
    }

    pub(crate) fn refused(&self, reason: Reason, message: impl Into<String>) -> Error {
        Error::Refused {
            server: self.name.clone(),
            refusal: Refusal::new(reason, message),
        }
    }

    pub(crate) fn check<T>(
        &self,
        outcome: Result<T, trainyard_parameter_store::Error>,
    ) -> Result<T, Error> {
        outcome.map_err(|error| Error::refused(&self.name, &error))
    }

    /// Returns the status of the server.
    pub fn status(&self) -> ServerStatus {
        ServerStatus {
            store: self.store.status(),
            incarnation: self.incarnation,
            settings: self.prepared_with.lock().0,
            wants_checkpoint: false,
            positions: Vec::new(),
            provenance: Provenance::default(),
        }
    }

    /// Returns the status of the server with the positions of the data shards, and the run to which they refer.
    pub fn positions(&self) -> ServerStatus {
        let provenance = self.prepared_with.lock().1.clone();
        ServerStatus {
            positions: self.store.positions(),
            provenance,
            ..self.status()
        }
    }

    /// Admits workers.
    ///
    /// # Errors
    /// The store refuses.
    pub fn open(&self, identity: Identity) -> Result<(), Error> {
        self.check(self.store.open(&identity))
    }

    /// Opens a session of a worker. Returns the first batch of its data shard that has not been applied on this server.
    ///
    /// # Errors
    /// The store refuses.
    pub fn open_session(&self, identity: Identity, request: &OpenSession) -> Result<Opened, Error> {
        self.check(self.store.open_session(&identity, request))
    }

    /// Applies a push, then a pull. A pull that must wait is held for up to 250 ms.
    ///
    /// # Errors
    /// The push is refused and nothing was done, or the pull is refused and the push is applied.
    pub async fn apply<G: Gradients>(
        &self,
        identity: &Identity,
        request: &StepRequest<G>,
    ) -> Result<StepReply<Reading>, Error> {
        self.tell_time();
        let push = request.push.as_ref();
        let pushed = push.map(|push| self.store.push(identity, push));
        let pushed = self.check(pushed.transpose())?;
        if pushed.is_some() && request.pull.is_none() {
            // The push counts, even if the session or the job has ended since.
            let _ = self.store.rest(identity);
        }
        if pushed.is_some() {
            // A duplicate also returns a ticket and advances a clock.
            self.changed.send_replace(());
        }
        let Some(pull) = &request.pull else {
            return Ok(StepReply {
                pushed,
                pulled: None,
            });
        };
        let until = Instant::now() + LONG_POLL_TIMEOUT;
        loop {
            let mut changed = self.changed.subscribe();
            let pulled = match self.store.pull(identity, pull) {
                // The job ended with this push or right after it. The push counts, so the call is not refused.
                Err(trainyard_parameter_store::Error::Ended) if pushed.is_some() => {
                    let (version, global_step) =
                        pushed.map_or((0, 0), |pushed| (pushed.version, pushed.global_step));
                    let ticket = Ticket::Finished;
                    let reached = version;
                    (
                        Pulled {
                            version,
                            reached,
                            global_step,
                            ticket,
                            lead: 0,
                            updates: Vec::new(),
                            without_row: Vec::new(),
                        },
                        Reading::default(),
                    )
                }
                pulled => self.check(pulled)?,
            };
            let waits = pulled.0.ticket == Ticket::Wait;
            if !waits
                || tokio::time::timeout_at(until, changed.changed())
                    .await
                    .is_err()
            {
                return Ok(StepReply {
                    pushed,
                    pulled: Some(pulled),
                });
            }
        }
    }

    /// Closes a session of `task`.
    ///
    /// # Errors
    /// The store refuses.
    pub fn close_session(&self, identity: Identity, task: Task, session: u64) -> Result<(), Error> {
        self.check(self.store.close_session(&identity, task, session))?;
        self.changed.send_replace(());
        Ok(())
    }

    /// Ends the job on this server.
    ///
    /// # Errors
    /// The store refuses.
    pub fn finish(&self, identity: Identity) -> Result<(), Error> {
        self.check(self.store.finish(&identity))?;
        self.changed.send_replace(());
        Ok(())
    }
}
