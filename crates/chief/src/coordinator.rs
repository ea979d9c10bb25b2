//! The chief's roster, shared: by its service for the workers, and directly by its own training loop.

use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::{Notify, mpsc};
use tokio::time::Instant;
use tokio_util::sync::{CancellationToken, WaitForCancellationFutureOwned};
use trainyard_cluster_client::Error;
use trainyard_cluster_spec::Task;
use trainyard_protocol::{Reason, Refusal};
use trainyard_runtime::blocking;
use trainyard_trainer::{
    Ask, Beat, Coordinator, Form, Forming, Grant, JobState, Join, Joined, LeaveReason, Pulse,
};

use crate::{Data, Roster};

/// Sessions that may wait to be closed at the parameter servers.
const CLOSED_QUEUE: usize = 1024;

/// Longest time that a wish to be in a group is held.
const HOLD: std::time::Duration = std::time::Duration::from_millis(100);

/// A roster with a clock. Clones share it.
#[derive(Debug, Clone)]
pub struct LocalCoordinator {
    roster: Arc<Mutex<Roster>>,
    started: Instant,
    closed: mpsc::Sender<(Task, u64)>,
    data: Option<Arc<Data>>,
    /// Told when somebody asks to be in a group.
    asked: Arc<Notify>,
    /// Cancelled when the job is over.
    over: CancellationToken,
}

impl LocalCoordinator {
    /// Returns the coordinator, and the sessions that end, which the parameter servers must be told of.
    pub fn new(roster: Roster, data: Option<Data>) -> (Self, mpsc::Receiver<(Task, u64)>) {
        let (closed, receiver) = mpsc::channel(CLOSED_QUEUE);
        let (roster, data) = (Arc::new(Mutex::new(roster)), data.map(Arc::new));
        let started = Instant::now();
        let over = CancellationToken::new();
        (Self { roster, started, closed, data, asked: Arc::default(), over }, receiver)
    }

    /// Looks at the roster, or changes it, at the time it is told.
    pub fn with<T>(&self, look: impl FnOnce(&mut Roster, std::time::Duration) -> T) -> T {
        look(&mut self.roster.lock(), self.started.elapsed())
    }

    pub(crate) fn register_now(&self, join: Join) -> Result<Joined, Refusal> {
        let task = join.task;
        let joined = self.with(|roster, now| roster.register(now, join))?;
        if let Some(data) = &self.data {
            data.release_before((task, joined.session));
        }
        Ok(joined)
    }

    pub(crate) fn heartbeat_now(&self, pulse: &Pulse) -> Result<Beat, Refusal> {
        self.with(|roster, now| roster.heartbeat(now, pulse))
    }

    /// Ends the job, and tells all who are there.
    pub(crate) fn end(&self, state: JobState) {
        self.with(|roster, _| roster.end(state));
        self.over.cancel();
    }

    /// Waits until the job is over.
    pub(crate) fn over(&self) -> WaitForCancellationFutureOwned {
        self.over.clone().cancelled_owned()
    }

    pub(crate) fn attend_now(&self, pulse: &Pulse) -> Result<(), Refusal> {
        self.with(|roster, now| roster.attend(now, pulse))
    }

    /// Ends a session for good. Returns whether it was under way.
    pub(crate) fn quarantine(&self, task: Task, session: u64, why: String) -> bool {
        let ended = self.with(|roster, _| roster.quarantine(task, session, why));
        if ended {
            if let Some(data) = &self.data {
                data.release((task, session));
            }
            let _ = self.closed.try_send((task, session));
        }
        ended
    }

    /// Takes note that a task's connection has broken off.
    pub(crate) fn lost_now(&self, pulse: &Pulse) {
        self.with(|roster, now| roster.lost(now, pulse));
    }

    /// Returns the data that is handed out, if it is.
    pub(crate) fn data(&self) -> Option<&Arc<Data>> {
        self.data.as_ref()
    }

    pub(crate) async fn next_shard_now(&self, ask: Ask) -> Result<Grant, Refusal> {
        self.with(|roster, now| roster.check(now, &ask.pulse))?;
        let Some(data) = self.data.clone() else {
            let message =
                "data is handed out under input.train.sharding = \"dynamic\" only: the job files differ";
            return Err(Refusal::new(Reason::BadRequest, message));
        };
        // It may read files.
        let answer = blocking(move || data.answer(&ask));
        answer.await.map_err(|error| {
            Refusal::new(Reason::Storage, format!("the data cannot be handed out: {error}"))
        })?
    }

    pub(crate) async fn form_now(&self, form: Form) -> Result<Forming, Refusal> {
        let until = Instant::now() + HOLD;
        loop {
            let asked = self.asked.notified();
            tokio::pin!(asked);
            asked.as_mut().enable();
            let forming = self.with(|roster, now| roster.form(now, &form))?;
            if matches!(forming, Forming::Formed(_)) {
                self.asked.notify_waiters();
                return Ok(forming);
            }
            if tokio::time::timeout_at(until, asked).await.is_err() {
                return Ok(forming);
            }
        }
    }

    pub(crate) async fn leave_now(&self, pulse: &Pulse, reason: LeaveReason) -> Result<(), Refusal> {
        let session = self.with(|roster, now| roster.leave(now, pulse, reason))?;
        if let Some(data) = &self.data {
            data.release((pulse.task, session));
        }
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

    /// Nothing is between this task and the chief.
    async fn attend(&self, _pulse: Pulse) {
        std::future::pending().await
    }

    async fn next_shard(&self, ask: Ask) -> Result<Grant, Error> {
        self.next_shard_now(ask).await.map_err(refused)
    }

    async fn form(&self, form: Form) -> Result<Forming, Error> {
        self.form_now(form).await.map_err(refused)
    }

    async fn leave(&self, pulse: Pulse, reason: LeaveReason) -> Result<(), Error> {
        self.leave_now(&pulse, reason).await.map_err(refused)
    }

    fn name(&self) -> String {
        "chief:0 in this process".to_owned()
    }
}
