//! The chief's roster, shared: by its service for the workers, and directly by its own training loop.

use std::sync::Arc;

use futures_util::future::BoxFuture;
use parking_lot::Mutex;
use tokio::sync::{Notify, watch};
use tokio::time::Instant;
use tokio_util::sync::{CancellationToken, WaitForCancellationFutureOwned};
use trainyard_cluster_client::Error;
use trainyard_cluster_spec::Task;
use trainyard_protocol::{Reason, Refusal};
use trainyard_runtime::blocking;
use trainyard_trainer::{
    Ask, Beat, Coordinator, Form, Forming, Grant, JobState, Join, Joined, LeaveReason, Pulse,
};

use crate::{Data, EndedSessions, Roster};

/// Longest time that a wish to be in a group is held.
const HOLD: std::time::Duration = std::time::Duration::from_millis(100);

/// A roster with a clock. Clones share it.
#[derive(Debug, Clone)]
pub struct LocalCoordinator {
    roster: Arc<Mutex<Roster>>,
    started: Instant,
    /// Shared with the watch, which tells the parameter servers.
    ended: EndedSessions,
    data: Option<Arc<Data>>,
    /// Told when somebody asks to be in a group.
    asked: Arc<Notify>,
    /// The epoch that the chief has begun last; 0 = none yet.
    epoch: Arc<watch::Sender<u64>>,
    /// Cancelled when the job is over.
    over: CancellationToken,
}

impl LocalCoordinator {
    /// Returns the coordinator, and the sessions that end, which the parameter servers must be told of.
    pub fn new(roster: Roster, data: Option<Data>) -> (Self, EndedSessions) {
        let ended = EndedSessions::default();
        let roster = Arc::new(Mutex::new(roster));
        let data = data.map(Arc::new);
        let started = Instant::now();
        let over = CancellationToken::new();
        let told = ended.clone();
        (
            Self {
                roster,
                started,
                ended,
                data,
                asked: Arc::default(),
                epoch: Arc::default(),
                over,
            },
            told,
        )
    }

    /// Looks at the roster, or changes it, at the time it is told.
    pub fn with<T>(&self, look: impl FnOnce(&mut Roster, std::time::Duration) -> T) -> T {
        look(&mut self.roster.lock(), self.started.elapsed())
    }

    /// Starts an epoch: see [`Roster::begin_epoch`]. Chiefs that stand by hear of it.
    pub(crate) fn begin_epoch(&self, epoch: u64, waiting_for: Vec<String>) {
        self.with(|roster, _| roster.begin_epoch(epoch, waiting_for));
        self.epoch.send_replace(epoch);
    }

    /// The epochs that the chief begins, from the one of now on; 0 = none yet.
    pub(crate) fn epochs(&self) -> watch::Receiver<u64> {
        self.epoch.subscribe()
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
            self.ended.add(task, session);
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
            let message = "data is handed out under input.train.sharding = \"dynamic\" only: the job files differ";
            return Err(Refusal::new(Reason::BadRequest, message));
        };
        // It may read files.
        let answer = blocking(move || data.answer(&ask));
        answer.await.map_err(|error| {
            Refusal::new(
                Reason::Storage,
                format!("the data cannot be handed out: {error}"),
            )
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

    pub(crate) async fn leave_now(
        &self,
        pulse: &Pulse,
        reason: LeaveReason,
    ) -> Result<(), Refusal> {
        let session = self.with(|roster, now| roster.leave(now, pulse, reason))?;
        if let Some(data) = &self.data {
            data.release((pulse.task, session));
        }
        self.ended.add(pulse.task, session);
        Ok(())
    }
}

fn refused(refusal: Refusal) -> Error {
    Error::Refused {
        peer: "chief:0".to_owned(),
        refusal,
    }
}

impl Coordinator for LocalCoordinator {
    fn register(&self, join: Join) -> BoxFuture<'_, Result<Joined, Error>> {
        Box::pin(async move { self.register_now(join).map_err(refused) })
    }

    fn heartbeat(&self, pulse: Pulse) -> BoxFuture<'_, Result<Beat, Error>> {
        Box::pin(async move { self.heartbeat_now(&pulse).map_err(refused) })
    }

    /// Nothing is between this task and the chief.
    fn attend(&self, _pulse: Pulse) -> BoxFuture<'_, ()> {
        Box::pin(async move { std::future::pending().await })
    }

    fn next_shard(&self, ask: Ask) -> BoxFuture<'_, Result<Grant, Error>> {
        Box::pin(async move { self.next_shard_now(ask).await.map_err(refused) })
    }

    fn form(&self, form: Form) -> BoxFuture<'_, Result<Forming, Error>> {
        Box::pin(async move { self.form_now(form).await.map_err(refused) })
    }

    fn leave(&self, pulse: Pulse, reason: LeaveReason) -> BoxFuture<'_, Result<(), Error>> {
        Box::pin(async move { self.leave_now(&pulse, reason).await.map_err(refused) })
    }

    fn name(&self) -> String {
        "chief:0 in this process".to_owned()
    }
}

#[cfg(test)]
mod tests {
    use trainyard_cluster_spec::{Role, Servers};
    use trainyard_run_config::Agreement;
    use trainyard_trainer::Work;

    use super::*;
    use crate::{Admission, RosterConfig};

    /// Sessions that end while the servers are away.
    const SESSIONS: u64 = 3000;

    fn worker(index: usize) -> Task {
        Task {
            role: Role::Worker,
            index,
        }
    }

    fn join(index: usize, incarnation: u64) -> Join {
        Join {
            task: worker(index),
            incarnation,
            servers: Servers::from_lines(["chief:0=host:1", "ps:0=host:2"]),
            layout_fingerprint: 3,
            job: Agreement::default(),
            address: "host:1".into(),
            process_id: 1,
            started_unix_secs: 9,
            spent_session: 0,
        }
    }

    fn pulse(join: &Join, joined: &Joined) -> Pulse {
        Pulse {
            task: join.task,
            incarnation: join.incarnation,
            epoch: joined.epoch,
            session: joined.session,
            steps: 0,
            examples: 0,
            loss: 0.5,
            work: Work::default(),
        }
    }

    fn coordinator() -> (LocalCoordinator, EndedSessions) {
        let second = std::time::Duration::from_secs(1);
        let mut roster = Roster::new(RosterConfig {
            cluster_id: 1,
            servers: Servers::from_lines(["chief:0=host:1", "ps:0=host:2"]),
            layout_fingerprint: 3,
            job: Agreement::default(),
            expected: vec![worker(0), worker(1)],
            admission: Admission::Open,
            lease: 5 * second,
            heartbeat_interval: second / 2,
            takeover: std::time::Duration::ZERO,
            return_within: second,
            lanes: 0,
        });
        roster.begin_epoch(1, Vec::new());
        roster.open();
        LocalCoordinator::new(roster, None)
    }

    /// Under a log, a server comes back with the sessions that it had: a close that it is not told of leaves one open.
    #[tokio::test]
    async fn no_session_that_ended_is_forgotten_however_many_end_before_the_servers_are_told() {
        let (coordinator, ended) = coordinator();
        let mut last = 0;
        for incarnation in 1..=SESSIONS {
            let join = join(0, incarnation);
            let joined = coordinator
                .register_now(join.clone())
                .expect("it may come back");
            let pulse = pulse(&join, &joined);
            coordinator
                .leave_now(&pulse, LeaveReason::Shutdown)
                .await
                .expect("it is there");
            last = joined.session;
        }
        let joined = coordinator
            .register_now(join(1, 1))
            .expect("it is expected");
        assert!(coordinator.quarantine(worker(1), joined.session, "bad values".into()));
        let told = ended.take();
        assert_eq!(
            told,
            [(worker(0), last), (worker(1), joined.session)].into()
        );
        assert_eq!(
            last,
            (1 << 32) | SESSIONS,
            "each of them was another session"
        );
        assert!(ended.take().is_empty(), "they are told once");
    }

    #[test]
    fn an_earlier_session_replaces_no_later_one() {
        let ended = EndedSessions::default();
        ended.add(worker(0), 7);
        ended.add(worker(0), 5);
        assert_eq!(ended.take(), [(worker(0), 7)].into());
    }
}
