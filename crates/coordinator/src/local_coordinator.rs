//! The membership of the job, shared by the chief's service for the workers and by its own training loop.

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
    Coordinator, HeartbeatReply, HeartbeatRequest, JobState, JoinGroupReply, JoinGroupRequest,
    LeaveReason, NextShardReply, NextShardRequest, RegisterReply, RegisterRequest,
};

use crate::{Dispatcher, EndedSessions, Membership};

/// Longest time for which a request to join the allreduce group is held open.
const JOIN_GROUP_HOLD_MAX: std::time::Duration = std::time::Duration::from_millis(100);

/// The membership with a clock. Clones share it.
#[derive(Debug, Clone)]
pub struct LocalCoordinator {
    membership: Arc<Mutex<Membership>>,
    started: Instant,
    /// Shared with the watch, which closes the sessions on the parameter servers.
    ended: EndedSessions,
    data: Option<Arc<Dispatcher>>,
    /// Notified when a process group has been formed.
    asked: Arc<Notify>,
    /// The term that the chief has begun last; 0 = none yet.
    epoch: Arc<watch::Sender<u64>>,
    /// Cancelled when the job is over.
    over: CancellationToken,
}

impl LocalCoordinator {
    /// Returns the coordinator, and the ended sessions, which must be closed on the parameter servers.
    pub fn new(membership: Membership, data: Option<Dispatcher>) -> (Self, EndedSessions) {
        let ended = EndedSessions::default();
        let membership = Arc::new(Mutex::new(membership));
        let data = data.map(Arc::new);
        let started = Instant::now();
        let over = CancellationToken::new();
        let told = ended.clone();
        (
            Self {
                membership,
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

    /// Calls a function with the membership and the present time.
    pub fn with<T>(&self, look: impl FnOnce(&mut Membership, std::time::Duration) -> T) -> T {
        look(&mut self.membership.lock(), self.started.elapsed())
    }

    /// Begins a term: see [`Membership::begin_epoch`]. Notifies standby chiefs.
    pub fn begin_epoch(&self, epoch: u64, waiting_for: Vec<String>) {
        self.with(|membership, _| membership.begin_epoch(epoch, waiting_for));
        self.epoch.send_replace(epoch);
    }

    /// Returns the terms that the chief begins, from the present one on; 0 = none yet.
    pub fn epochs(&self) -> watch::Receiver<u64> {
        self.epoch.subscribe()
    }

    /// Registers a task: see [`Membership::register`].
    ///
    /// # Errors
    /// The membership refuses the task.
    pub fn register_now(&self, join: RegisterRequest) -> Result<RegisterReply, Refusal> {
        let task = join.task;
        let joined = self.with(|membership, now| membership.register(now, join))?;
        if let Some(data) = &self.data {
            data.release_before((task, joined.session));
        }
        Ok(joined)
    }

    /// Renews the lease of a task: see [`Membership::heartbeat`].
    ///
    /// # Errors
    /// The session has ended.
    pub fn heartbeat_now(&self, heartbeat: &HeartbeatRequest) -> Result<HeartbeatReply, Refusal> {
        self.with(|membership, now| membership.heartbeat(now, heartbeat))
    }

    /// Ends the job. Heartbeats report the state to the tasks, and their keep-alive streams end.
    pub fn end(&self, state: JobState) {
        self.with(|membership, _| membership.end(state));
        self.over.cancel();
    }

    /// Waits until the job is over.
    pub fn over(&self) -> WaitForCancellationFutureOwned {
        self.over.clone().cancelled_owned()
    }

    /// Begins a keep-alive stream of a task: see [`Membership::keep_alive`].
    ///
    /// # Errors
    /// The session has ended.
    pub fn attend_now(&self, heartbeat: &HeartbeatRequest) -> Result<(), Refusal> {
        self.with(|membership, now| membership.keep_alive(now, heartbeat))
    }

    /// Ends a session, and bars its task from registering. Returns whether the session was active.
    pub fn quarantine(&self, task: Task, session: u64, why: String) -> bool {
        let ended = self.with(|membership, _| membership.quarantine(task, session, why));
        if ended {
            if let Some(data) = &self.data {
                data.release((task, session));
            }
            self.ended.add(task, session);
        }
        ended
    }

    /// Records that a keep-alive stream of a task has broken.
    pub fn lost_now(&self, heartbeat: &HeartbeatRequest) {
        self.with(|membership, now| membership.lost(now, heartbeat));
    }

    /// Returns the dispatcher, under dynamic sharding.
    pub fn data(&self) -> Option<&Arc<Dispatcher>> {
        self.data.as_ref()
    }

    /// Assigns a data shard: see [`Dispatcher`].
    ///
    /// # Errors
    /// The session has ended, or the job has no dispatcher.
    pub async fn next_shard_now(&self, ask: NextShardRequest) -> Result<NextShardReply, Refusal> {
        self.with(|membership, now| membership.check(now, &ask.heartbeat))?;
        let Some(data) = self.data.clone() else {
            let message = "the chief assigns data shards only with input.train.sharding = \
                \"dynamic\": the job files differ";
            return Err(Refusal::new(Reason::BadRequest, message));
        };
        // The dispatcher may read files.
        let answer = blocking(move || data.answer(&ask));
        answer.await.map_err(|error| {
            Refusal::new(
                Reason::Storage,
                format!("the chief cannot assign a data shard: {error}"),
            )
        })?
    }

    /// Adds a task to the next process group. Returns the group, or after 100 ms that it is not complete yet.
    ///
    /// # Errors
    /// The session has ended.
    pub async fn form_now(&self, form: JoinGroupRequest) -> Result<JoinGroupReply, Refusal> {
        let until = Instant::now() + JOIN_GROUP_HOLD_MAX;
        loop {
            let asked = self.asked.notified();
            tokio::pin!(asked);
            asked.as_mut().enable();
            let forming = self.with(|membership, now| membership.join_group(now, &form))?;
            if matches!(forming, JoinGroupReply::Assigned(_)) {
                self.asked.notify_waiters();
                return Ok(forming);
            }
            if tokio::time::timeout_at(until, asked).await.is_err() {
                return Ok(forming);
            }
        }
    }

    /// Ends the session of a task that leaves.
    ///
    /// # Errors
    /// The session has ended before.
    pub async fn leave_now(
        &self,
        heartbeat: &HeartbeatRequest,
        reason: LeaveReason,
    ) -> Result<(), Refusal> {
        let session = self.with(|membership, now| membership.leave(now, heartbeat, reason))?;
        if let Some(data) = &self.data {
            data.release((heartbeat.task, session));
        }
        self.ended.add(heartbeat.task, session);
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
    fn register(&self, join: RegisterRequest) -> BoxFuture<'_, Result<RegisterReply, Error>> {
        Box::pin(async move { self.register_now(join).map_err(refused) })
    }

    fn heartbeat(
        &self,
        heartbeat: HeartbeatRequest,
    ) -> BoxFuture<'_, Result<HeartbeatReply, Error>> {
        Box::pin(async move { self.heartbeat_now(&heartbeat).map_err(refused) })
    }

    /// Never returns: this task and the chief share a process.
    fn keep_alive(&self, _heartbeat: HeartbeatRequest) -> BoxFuture<'_, ()> {
        Box::pin(async move { std::future::pending().await })
    }

    fn next_shard(&self, ask: NextShardRequest) -> BoxFuture<'_, Result<NextShardReply, Error>> {
        Box::pin(async move { self.next_shard_now(ask).await.map_err(refused) })
    }

    fn join_group(&self, form: JoinGroupRequest) -> BoxFuture<'_, Result<JoinGroupReply, Error>> {
        Box::pin(async move { self.form_now(form).await.map_err(refused) })
    }

    fn leave(
        &self,
        heartbeat: HeartbeatRequest,
        reason: LeaveReason,
    ) -> BoxFuture<'_, Result<(), Error>> {
        Box::pin(async move { self.leave_now(&heartbeat, reason).await.map_err(refused) })
    }

    fn name(&self) -> String {
        "chief:0 in this process".to_owned()
    }
}

#[cfg(test)]
mod tests {
    use trainyard_cluster_spec::{Role, Servers};
    use trainyard_run_config::Agreement;
    use trainyard_trainer::StepTotals;

    use super::*;
    use crate::{Admission, MembershipConfig};

    /// Sessions that end while the servers are away.
    const SESSIONS: u64 = 3000;

    fn worker(index: usize) -> Task {
        Task {
            role: Role::Worker,
            index,
        }
    }

    fn join(index: usize, incarnation: u64) -> RegisterRequest {
        RegisterRequest {
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

    fn heartbeat(join: &RegisterRequest, joined: &RegisterReply) -> HeartbeatRequest {
        HeartbeatRequest {
            task: join.task,
            incarnation: join.incarnation,
            epoch: joined.epoch,
            session: joined.session,
            steps: 0,
            examples: 0,
            loss: 0.5,
            totals: StepTotals::default(),
        }
    }

    fn coordinator() -> (LocalCoordinator, EndedSessions) {
        let second = std::time::Duration::from_secs(1);
        let mut membership = Membership::new(MembershipConfig {
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
        membership.begin_epoch(1, Vec::new());
        membership.open();
        LocalCoordinator::new(membership, None)
    }

    /// A server with a write-ahead log returns with the sessions that it had. If it misses a close, that session stays
    /// open.
    #[tokio::test]
    async fn no_session_that_ended_is_forgotten_however_many_end_before_the_servers_are_told() {
        let (coordinator, ended) = coordinator();
        let mut last = 0;
        for incarnation in 1..=SESSIONS {
            let join = join(0, incarnation);
            let joined = coordinator
                .register_now(join.clone())
                .expect("it may come back");
            let heartbeat = heartbeat(&join, &joined);
            coordinator
                .leave_now(&heartbeat, LeaveReason::Shutdown)
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
