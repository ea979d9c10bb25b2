//! The chief's roster, shared: by its service for the workers, and directly by its own training loop.

use std::sync::Arc;
use std::time::Instant;

use parking_lot::Mutex;
use tokio::sync::mpsc;
use trainyard_cluster_client::{Beat, Coordinator, Error, Join, Joined, LeaveReason, Pulse};
use trainyard_cluster_spec::Task;
use trainyard_protocol::Refusal;

use crate::Roster;

/// Sessions that may wait to be closed at the parameter servers.
const CLOSED_QUEUE: usize = 1024;

/// A roster with a clock. Clones share it.
#[derive(Debug, Clone)]
pub struct LocalCoordinator {
    roster: Arc<Mutex<Roster>>,
    started: Instant,
    closed: mpsc::Sender<(Task, u64)>,
}

impl LocalCoordinator {
    /// Returns the coordinator, and the sessions that end, which the parameter servers must be told of.
    pub fn new(roster: Roster) -> (Self, mpsc::Receiver<(Task, u64)>) {
        let (closed, receiver) = mpsc::channel(CLOSED_QUEUE);
        (Self { roster: Arc::new(Mutex::new(roster)), started: Instant::now(), closed }, receiver)
    }

    /// Looks at the roster, or changes it, at the time it is told.
    pub fn with<T>(&self, look: impl FnOnce(&mut Roster, std::time::Duration) -> T) -> T {
        look(&mut self.roster.lock(), self.started.elapsed())
    }

    pub(crate) fn register_now(&self, join: Join) -> Result<Joined, Refusal> {
        self.with(|roster, now| roster.register(now, join))
    }

    pub(crate) fn heartbeat_now(&self, pulse: &Pulse) -> Result<Beat, Refusal> {
        self.with(|roster, now| roster.heartbeat(now, pulse))
    }

    pub(crate) async fn leave_now(&self, pulse: &Pulse, reason: LeaveReason) -> Result<(), Refusal> {
        let session = self.with(|roster, now| roster.leave(now, pulse, reason))?;
        // A full queue means that the servers are away: they will be claimed anew, which closes all sessions.
        let _ = self.closed.try_send((pulse.task, session));
        Ok(())
    }
}

fn refused(refusal: Refusal) -> Error {
    Error::Refused { peer: "chief:0".to_owned(), refusal }
}

impl Coordinator for LocalCoordinator {
    async fn register(&self, join: Join) -> Result<Joined, Error> {
        self.register_now(join).map_err(refused)
    }

    async fn heartbeat(&self, pulse: Pulse) -> Result<Beat, Error> {
        self.heartbeat_now(&pulse).map_err(refused)
    }

    async fn leave(&self, pulse: Pulse, reason: LeaveReason) -> Result<(), Error> {
        self.leave_now(&pulse, reason).await.map_err(refused)
    }

    fn name(&self) -> String {
        "chief:0 in this process".to_owned()
    }
}
