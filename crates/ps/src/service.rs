//! The parameter service: gRPC methods over one shard.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::watch;
use tokio::time::Instant;
use tonic::{Request, Response, Status};
use trainyard_checkpoint::{FilePurpose, begun_folder, committed_folder};
use trainyard_cluster_spec::{Role, Task};
use trainyard_daemon::{Caller, Context, LogRateLimit};
use trainyard_diagnostic::{Code, Diagnostic};
use trainyard_model_dir::{absolute, known_cluster_id};
use trainyard_parameter_server::journal::LogJournal;
use trainyard_parameter_server::replication_log::NotCommitted;
use trainyard_parameter_server::wire::{
    WireStep, identity_from_wire, part_read_to_wire, pulled_to_wire, pushed_to_wire,
    status_to_wire, step_from_wire,
};
use trainyard_parameter_server::{
    Error, LocalServer, ServerStatus, SnapshotPurpose, SnapshotRequest, WireGradients, plan_of,
};
use trainyard_parameter_store::{
    Identity, OpenSession, Opened, Push, Pushed, State, StepNumber, StepReply, Ticket, Update,
};
use trainyard_protocol::framing::Tensor as _;
use trainyard_protocol::v1::parameter_service_server::ParameterService;
use trainyard_protocol::{Pool, Reason, Refusal, convert, shown, v1};
use trainyard_runtime::blocking;

use crate::answer::AnswerTensor;
use crate::chief_heard::ChiefHeard;
use crate::initial_values::InitialValues;
use crate::preparation::{Asked, LONG_POLL_TIMEOUT, Made, PreparationWork, within};
use crate::telemetry::Telemetry;

/// The service of one shard.
#[derive(Debug)]
pub(crate) struct Service {
    shard: LocalServer,
    task: Task,
    incarnation: u64,
    /// Model directory of this server's job.
    model_dir: PathBuf,
    initial_values: InitialValues,
    telemetry: Telemetry,
    pool: Pool,
    journal: SharedJournal,
    /// Cluster of the latest chief that tried to claim this server while the server was reading its log.
    claimant: watch::Sender<Option<u128>>,
    chief: ChiefHeard,
    /// Reason why this server refuses calls until it has read its log, as in "reads its log".
    unready: Mutex<String>,
    /// Size of the log, in bytes, above which a checkpoint is requested.
    log_bytes_max: u64,
    preparation: PreparationWork,
    /// Reason why the job has failed, if it has.
    failed: Mutex<Option<String>>,
    session_lines: LogRateLimit,
}

/// The journal, once the server has read its log. The inner `None` means that there is no log.
pub(crate) type SharedJournal = watch::Receiver<Option<Option<Arc<LogJournal>>>>;

fn bad(message: impl ToString) -> Status {
    Refusal::new(Reason::BadRequest, message.to_string()).into()
}

fn identity(caller: &Caller, identity: Option<v1::Identity>) -> Result<Identity, Status> {
    if let Some(identity) = &identity {
        caller.speaks_as(convert::task_from_wire(identity.task).map_err(bad)?)?;
    }
    identity_from_wire(identity).map_err(bad)
}

/// Returns the sender of a request that only the chief may send.
///
/// # Errors
/// The sender is another task, or calls itself one.
fn chief_identity(caller: &Caller, sender: Option<v1::Identity>) -> Result<Identity, Status> {
    let identity = identity(caller, sender)?;
    if identity.task.role != Role::Chief {
        let task = identity.task;
        return Err(bad(format!(
            "only the chief may send this request, given {task}"
        )));
    }
    Ok(identity)
}

/// Checks that a session is one that a chief of the sender's term has granted: the term is its upper half, the number of the
/// grant its lower half. Another number would be later than all that the chief will grant.
fn check_session(identity: &Identity) -> Result<(), Status> {
    let Identity { session, epoch, .. } = *identity;
    if session >> 32 != epoch || session & u64::from(u32::MAX) == 0 {
        let most = (epoch << 32) | u64::from(u32::MAX);
        let least = (epoch << 32) | 1;
        return Err(bad(format!(
            "session must be between {least} and {most}, which a chief of cluster_epoch {epoch} grants, given {session}"
        )));
    }
    Ok(())
}

fn as_status(error: Error) -> Status {
    let Error::Refused { refusal, .. } = error;
    refusal.into()
}

impl Service {
    pub(crate) fn new(
        shard: LocalServer,
        index: usize,
        context: &Context,
        journal: SharedJournal,
    ) -> Self {
        let task = Task {
            role: Role::Ps,
            index,
        };
        let telemetry = Telemetry::new();
        let pool = Pool::default();
        let preparation = PreparationWork::default();
        let failed = Mutex::default();
        Self {
            shard,
            task,
            incarnation: context.incarnation,
            model_dir: context.job.model_dir.clone(),
            initial_values: InitialValues::of(&context.job),
            telemetry,
            pool,
            journal,
            claimant: watch::Sender::new(None),
            chief: ChiefHeard::new(),
            unready: Mutex::new("reads its log".to_owned()),
            log_bytes_max: context.job.parameter_servers.log_bytes_max,
            preparation,
            failed,
            session_lines: LogRateLimit::default(),
        }
    }

    /// Returns a receiver of the cluster of the chief that tries to claim this server.
    pub(crate) fn claimant(&self) -> watch::Receiver<Option<u128>> {
        self.claimant.subscribe()
    }

    /// Returns the time since the server last heard of the chief.
    pub(crate) fn chief_silence(&self) -> Duration {
        self.chief.silence()
    }

    /// Refuses a chief whose model directory is not the one of this server: the log and the state of this server would
    /// be written among the files of another cluster.
    async fn check_model_dir(&self, chief: u128, model_dir_of_chief: &str) -> Result<(), Status> {
        let model_dir = self.model_dir.clone();
        let own = blocking(move || known_cluster_id(&model_dir))
            .await
            .map_err(|panic| Status::internal(panic.to_string()))?
            .map_err(|error| Refusal::new(Reason::Storage, Diagnostic::from(error).message))?;
        // A directory without a cluster id may not be mounted yet: the server waits for it.
        let Some(own) = own.filter(|own| *own != chief) else {
            return Ok(());
        };
        let message = format!(
            "the model_dir {} of {} is of cluster {own:032x}, and the chief is of cluster {chief:032x}: give {} the \
             model_dir of the chief, {}",
            self.model_dir.display(),
            self.task,
            self.task,
            shown(model_dir_of_chief)
        );
        Err(Refusal::new(Reason::OtherCluster, message).into())
    }

    /// Sets the refusal that callers get until the server has read its log, as in "ps:0 reads its log".
    pub(crate) fn set_unready(&self, what: String) {
        *self.unready.lock().unwrap_or_else(PoisonError::into_inner) = what;
    }

    /// Returns the error that ends this server after the chief has reported that the job failed. The log stays, and
    /// the server is to be restarted with the job.
    pub(crate) fn failure(&self) -> Option<Diagnostic> {
        let reason = self
            .failed
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()?;
        let problem = Diagnostic::error(Code::E2010, format!("the job has failed: {reason}"));
        Some(
            problem.help(
                "correct what the chief names and start the job again: this server continues from its log",
            ),
        )
    }

    /// Replaces the name of the checkpoint in a request by its path in the own model directory, and checks that values come
    /// from no other run than the one that the own job names.
    ///
    /// # Errors
    /// The name is none, or the own job names no or another origin of initial values.
    fn take_own_paths(&self, request: &mut v1::PrepareRequest) -> Result<(), Status> {
        if !request.checkpoint.is_empty() {
            let folder = committed_folder(&self.model_dir, &request.checkpoint).map_err(bad)?;
            request.checkpoint = absolute(&folder).to_string_lossy().into_owned();
        }
        let checked = (self.initial_values).check(&request.warm_start, "the chief", self.task);
        checked.map_err(bad)
    }

    /// Returns the journal, if there is one.
    ///
    /// # Errors
    /// The log is still being read.
    fn journal(&self) -> Result<Option<Arc<LogJournal>>, Status> {
        let refused = || {
            let what = self.unready.lock().unwrap_or_else(PoisonError::into_inner);
            Refusal::new(Reason::NotReady, format!("{} {what}", self.task)).into()
        };
        self.journal.borrow().clone().ok_or_else(refused)
    }

    /// Waits until every change that a reply may reveal is committed.
    ///
    /// # Errors
    /// The changes are not committed, so nothing may be acknowledged.
    async fn commit(&self) -> Result<(), Status> {
        match self.journal()? {
            Some(journal) => journal.commit().await.map_err(|error| match error {
                NotCommitted::Log(error) => Status::unavailable(error.to_string()),
                NotCommitted::Deposed => Refusal::new(Reason::NotPrimary, error.to_string()).into(),
                NotCommitted::Unconfirmed { .. } => {
                    let message = format!("{} waits for its backup: {error}", self.task);
                    Refusal::new(Reason::NotReady, message).into()
                }
            }),
            None => Ok(()),
        }
    }

    /// Gives files that the log keeps for later back to a checkpoint on their disk.
    async fn make_room(&self, journal: Arc<LogJournal>) {
        if self.shard.is_saving() {
            return;
        }
        match blocking(move || journal.make_room_for_checkpoint()).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => {
                tracing::warn!(%error, "a file that the log keeps for later could not be removed, though a checkpoint needs its room");
            }
            Err(panic) => tracing::error!(%panic, "making room for a checkpoint has failed"),
        }
    }

    /// Makes a change of the shard: not before the server has read its log, and acknowledged only once it is committed.
    ///
    /// # Errors
    /// The log is still being read, the shard refuses, or the change is not committed.
    async fn change<T>(&self, change: impl Future<Output = Result<T, Error>>) -> Result<T, Status> {
        self.journal()?;
        let made = self.answer(change.await)?;
        self.commit().await?;
        Ok(made)
    }

    /// Applies the push of a step, whose payload arrives separately, and begins the reply to its pull. Returns the
    /// reply without its payload, and the payload.
    pub(crate) async fn apply(
        &self,
        caller: Caller,
        request: v1::StepRequest,
        payload: Vec<Bytes>,
    ) -> Result<(v1::StepReply, Option<AnswerTensor>), Status> {
        let started = Instant::now();
        let journal = self.journal()?;
        let is_short = journal.is_some_and(|journal| journal.is_short_of_room());
        let no_room = |service: &Self| {
            service.telemetry.refusals.increment(1);
            let message = "the disk of its log has no room: pushes wait until a checkpoint covers the log, or until what else \
                           fills the disk is gone";
            Status::from(Refusal::new(Reason::NotReady, message))
        };
        // A checkpoint of synchronous servers has all at one step. So the step in progress is finished, and none begun.
        let finishes_step = is_short && self.shard.store().update_mode() == Update::Sync;
        if is_short && (request.push.is_none() == finishes_step) {
            return Err(no_room(self));
        }
        let begins_step = finishes_step && request.pull.is_some();
        let pull = if finishes_step { None } else { request.pull };
        let identity = identity(&caller, request.identity)?;
        let WireStep { request, encoding } =
            step_from_wire(request.push, pull, payload).map_err(bad)?;
        let StepReply { pushed, pulled } =
            self.answer(self.shard.apply(&identity, &request).await)?;
        if pushed.is_some() {
            #[cfg(feature = "failpoints")]
            fail::fail_point!("ps.push.after_apply_before_wal");
        }
        // A reply must not contain values that a restart would undo.
        self.commit().await?;
        if pushed.is_some() {
            #[cfg(feature = "failpoints")]
            fail::fail_point!("ps.push.after_wal_before_ack");
        }
        let mut applied = started;
        if let (Some(pushed), Some(push)) = (&pushed, &request.push) {
            applied = Instant::now();
            self.telemetry.apply_seconds.record(applied - started);
            self.count(identity.task, push, pushed);
        }
        if begins_step {
            return Err(no_room(self));
        }
        let mut reply = v1::StepReply {
            pushed: pushed.as_ref().map(pushed_to_wire),
            pulled: None,
            payload: Bytes::new(),
        };
        let Some((pulled, reading)) = pulled else {
            return Ok((reply, None));
        };
        let asked = request.pull.is_some_and(|pull| pull.reserve_step);
        if asked && pulled.ticket == Ticket::Granted {
            self.telemetry.lead_steps.record(pulled.lead as f64);
        }
        reply.pulled = Some(pulled_to_wire(pulled, reading.unchanged().to_vec()));
        let pool = self.pool.clone();
        let seconds = self.telemetry.read_seconds.clone();
        let tensor = AnswerTensor::new(reading, encoding, pool, applied, seconds);
        self.telemetry.sent_bytes.increment(tensor.bytes() as u64);
        Ok((reply, Some(tensor)))
    }

    /// Records the metrics of a push.
    fn count(&self, task: Task, push: &Push<WireGradients>, pushed: &Pushed) {
        let received = push.gradients.0.bytes() as u64;
        self.telemetry.received_bytes.increment(received);
        if pushed.stale {
            self.telemetry.stale.increment(1);
        } else if pushed.duplicate {
            self.telemetry.duplicates.increment(1);
        } else if let Some(rejection) = &pushed.rejected {
            self.telemetry.rejected(rejection.fault);
            let fault = rejection.fault.name();
            let value = rejection.value();
            let batch = push.header.batch.to_string();
            tracing::warn!(%task, batch, fault, value, "refused the values of a push: its batch is done with, nothing else changed");
        } else {
            self.telemetry.pushes.increment(1);
            self.telemetry
                .staleness_steps
                .record(pushed.staleness as f64);
        }
    }

    /// Converts an outcome of the shard to a reply, and counts refusals.
    fn answer<T>(&self, outcome: Result<T, Error>) -> Result<T, Status> {
        outcome.map_err(|error| {
            self.telemetry.refusals.increment(1);
            as_status(error)
        })
    }

    /// Refuses callers of another term than the one that has claimed the shard.
    fn of_chief(&self, identity: &Identity) -> Result<(), Error> {
        let checked = self.shard.store().check_chief(identity);
        checked.map_err(|error| Error::refused(&self.task.to_string(), &error))
    }

    /// Records the metrics of the server's status. Without this they would change only at status requests.
    pub(crate) fn observe(&self) {
        let journal = self.journal.borrow().clone().flatten();
        self.record(&self.shard.store().status(), journal.as_ref());
    }

    fn record(&self, store: &trainyard_parameter_store::Status, journal: Option<&Arc<LogJournal>>) {
        self.telemetry.record(store);
        if self.task.index == 0 {
            self.telemetry.record_global_step(store.global_step);
        }
        if let Some(journal) = journal {
            self.telemetry.record_log(journal, self.log_bytes_max);
        }
    }

    fn status_reply(&self) -> v1::StatusReply {
        self.status_with(self.shard.status())
    }

    fn status_with(&self, status: ServerStatus) -> v1::StatusReply {
        let journal = self.journal.borrow().clone().flatten();
        self.record(&status.store, journal.as_ref());
        let status = ServerStatus {
            incarnation: self.incarnation,
            wants_checkpoint: journal
                .is_some_and(|journal| journal.wants_checkpoint(self.log_bytes_max)),
            ..status
        };
        status_to_wire(status, self.task)
    }
}

#[tonic::async_trait]
impl ParameterService for Service {
    async fn claim(
        &self,
        request: Request<v1::ClaimRequest>,
    ) -> Result<Response<v1::StatusReply>, Status> {
        let caller = Caller::of(request.extensions());
        let request = request.into_inner();
        if request.release != trainyard_protocol::RELEASE {
            let message = format!(
                "chief {} cannot work with {} {}: run the same release on every host",
                shown(&request.release),
                self.task,
                trainyard_protocol::RELEASE
            );
            return Err(Refusal::new(Reason::OtherCluster, message).into());
        }
        let identity = chief_identity(&caller, request.identity)?;
        self.check_model_dir(identity.cluster_id, &request.model_dir)
            .await?;
        if self.journal.borrow().is_none() {
            self.claimant.send_replace(Some(identity.cluster_id));
        }
        let fingerprint = request.cluster_fingerprint;
        self.change(async { self.shard.claim(identity, fingerprint, &self.model_dir) })
            .await?;
        tracing::info!(
            epoch = identity.epoch,
            peer = %caller.address(),
            "claimed by a chief"
        );
        Ok(Response::new(self.status_reply()))
    }

    async fn prepare(
        &self,
        request: Request<v1::PrepareRequest>,
    ) -> Result<Response<v1::StatusReply>, Status> {
        let caller = Caller::of(request.extensions());
        let mut request = request.into_inner();
        let identity = chief_identity(&caller, request.identity.clone())?;
        self.take_own_paths(&mut request)?;
        let (plan, place, slices) = plan_of(&request, self.task.index)?;
        let journal = self.journal()?;
        self.answer(self.of_chief(&identity))?;
        let store = self.shard.store().status();
        if store.prepared_epoch == identity.epoch
            && matches!(store.state, State::Open | State::Draining | State::Finished)
        {
            // A late copy of the request: its values are already being trained.
            let held = (store.layout_fingerprint, self.shard.status().settings);
            if held != (plan.fingerprint, plan.settings) {
                return Err(bad(format!(
                    "the values of cluster_epoch {} are being trained with layout fingerprint {:016x} and settings {:016x}, \
                     given {:016x} and {:016x}",
                    identity.epoch, held.0, held.1, plan.fingerprint, plan.settings
                )));
            }
            return Ok(Response::new(self.status_reply()));
        }
        let until = Instant::now() + LONG_POLL_TIMEOUT;
        let mut outcome = loop {
            // A term has one preparation, so values prepared in this term are those of this request.
            let made = if self.shard.store().status().prepared_epoch == identity.epoch {
                Made::Held
            } else {
                Made::Gone
            };
            let begin = || {
                let shard = self.shard.clone();
                let plan = plan.clone();
                let slices = slices.clone();
                let journal = journal.clone();
                let staged = request.clone();
                let peer = caller.address().to_owned();
                async move {
                    if let Some(journal) = &journal {
                        journal.stage(identity.cluster_id, staged);
                    }
                    let from = plan.checkpoint.clone();
                    let count = slices.len();
                    let num_ps = plan.layout.num_ps as u128;
                    let prepared = shard.prepare_slices(identity, plan, place, slices).await;
                    prepared.map_err(as_status)?;
                    let bytes = shard.store().status().value_bytes;
                    let checkpoint = from.as_ref().map(|path| path.display().to_string());
                    tracing::info!(
                        slices = count,
                        bytes,
                        checkpoint,
                        %peer,
                        "variables are ready"
                    );
                    if let Some((all_rows, memory)) = shard.store().outgrows() {
                        let servers =
                            (u128::from(all_rows) * num_ps).div_ceil(memory.max(1).into());
                        tracing::warn!(
                            all_rows,
                            memory,
                            "the tables are larger than the memory of this server: rows take memory when they are first \
                             changed, and a push that would need more than there is is refused; {servers} servers would \
                             hold all rows"
                        );
                    }
                    Ok(())
                }
            };
            match self.preparation.ask(&request, made, begin) {
                Asked::Joined(outcome) => break outcome,
                Asked::After(mut other) => {
                    // The chief of an earlier term began the other preparation and no longer waits for it.
                    self.shard.store().cancel_preparing();
                    let left = until.saturating_duration_since(Instant::now());
                    if let Ok(None) = within(left, &mut other).await {
                        return Ok(Response::new(self.status_reply()));
                    }
                }
            }
        };
        let left = until.saturating_duration_since(Instant::now());
        if within(left, &mut outcome).await?.is_none() {
            return Ok(Response::new(self.status_reply()));
        }
        self.commit().await?;
        let parts_read = self
            .shard
            .parts_read()
            .into_iter()
            .map(part_read_to_wire)
            .collect();
        Ok(Response::new(v1::StatusReply {
            parts_read,
            ..self.status_reply()
        }))
    }

    async fn open(
        &self,
        request: Request<v1::OpenRequest>,
    ) -> Result<Response<v1::StatusReply>, Status> {
        let caller = Caller::of(request.extensions());
        let identity = chief_identity(&caller, request.into_inner().identity)?;
        self.change(async { self.shard.open(identity) }).await?;
        Ok(Response::new(self.status_reply()))
    }

    async fn status(
        &self,
        request: Request<v1::StatusRequest>,
    ) -> Result<Response<v1::StatusReply>, Status> {
        self.journal()?;
        let caller = Caller::of(request.extensions());
        let request = request.into_inner();
        // Anyone may ask. Only the chief knows which checkpoints are committed.
        if caller.may_be_chief() {
            self.chief.note();
            if let Some(version) = request.saved_version {
                self.shard.store().saved(request.cluster_epoch, version);
            }
            if request.checkpoint_lacks_room
                && let Some(journal) = self.journal()?
            {
                self.make_room(journal).await;
            }
        }
        let status = if request.positions {
            self.shard.positions()
        } else {
            self.shard.status()
        };
        let reply = self.status_with(status);
        // The chief may end the job because of this reply, so a restart must not undo it.
        self.commit().await?;
        Ok(Response::new(reply))
    }

    async fn open_session(
        &self,
        request: Request<v1::OpenSessionRequest>,
    ) -> Result<Response<v1::OpenSessionReply>, Status> {
        let caller = Caller::of(request.extensions());
        let request = request.into_inner();
        let identity = identity(&caller, request.identity)?;
        check_session(&identity)?;
        let opening = OpenSession {
            seq: request.seq,
            layout_fingerprint: request.layout_fingerprint,
            data_shard: request.data_shard,
        };
        let Opened {
            version,
            batches_applied,
        } = self
            .change(async { self.shard.open_session(identity, &opening) })
            .await?;
        if let Some(unsaid) = self.session_lines.may() {
            let peer = caller.address();
            tracing::info!(task = %identity.task, session = identity.session, batches_applied, %peer, unsaid, "session opened");
        }
        let global_step = self.shard.store().status().global_step;
        Ok(Response::new(v1::OpenSessionReply {
            version,
            global_step,
            batches_applied,
        }))
    }

    /// Serves routers of the generated service. The daemon bypasses this method, see `tensor_service`.
    async fn step(
        &self,
        request: Request<v1::StepRequest>,
    ) -> Result<Response<v1::StepReply>, Status> {
        let caller = Caller::of(request.extensions());
        let mut request = request.into_inner();
        let payload = std::mem::take(&mut request.payload);
        let (reply, tensor) = self.apply(caller, request, vec![payload]).await?;
        let mut payload = Vec::with_capacity(tensor.bytes());
        let mut tensor = tensor;
        while let Some(piece) = tensor.next() {
            payload.extend_from_slice(&piece);
        }
        Ok(Response::new(v1::StepReply {
            payload: payload.into(),
            ..reply
        }))
    }

    async fn close_session(
        &self,
        request: Request<v1::CloseSessionRequest>,
    ) -> Result<Response<v1::StatusReply>, Status> {
        let caller = Caller::of(request.extensions());
        let request = request.into_inner();
        let identity = chief_identity(&caller, request.identity)?;
        let task = convert::task_from_wire(request.task).map_err(bad)?;
        let session = request.session;
        self.change(async { self.shard.close_session(identity, task, session) })
            .await?;
        tracing::info!(%task, session = request.session, "session closed");
        Ok(Response::new(self.status_reply()))
    }

    async fn save_shard(
        &self,
        request: Request<v1::SaveShardRequest>,
    ) -> Result<Response<v1::SaveShardReply>, Status> {
        let caller = Caller::of(request.extensions());
        let started = Instant::now();
        let request = request.into_inner();
        let identity = chief_identity(&caller, request.identity)?;
        let (purpose, file_purpose) = if request.publication {
            (SnapshotPurpose::Publication, FilePurpose::Publication)
        } else {
            (SnapshotPurpose::Checkpoint, FilePurpose::Checkpoint)
        };
        let directory =
            begun_folder(&self.model_dir, &request.folder, file_purpose).map_err(bad)?;
        let directory = &absolute(&directory);
        let at = SnapshotRequest {
            step: request.at_version.map(StepNumber::new),
            base: request.base,
            purpose,
        };
        let saved = self
            .change(async {
                // A chief that publishes goes on asking for the status.
                let is_checkpoint = at.purpose == SnapshotPurpose::Checkpoint;
                let _heard = is_checkpoint.then(|| self.chief.save());
                self.shard.save(identity, directory, at).await
            })
            .await?;
        self.telemetry.save_seconds.record(started.elapsed());
        let global_step = saved.global_step;
        let peer = caller.address();
        match purpose {
            SnapshotPurpose::Checkpoint => {
                tracing::info!(global_step, folder = %directory.display(), %peer, "saved the own part of a checkpoint");
            }
            // A job may publish every second.
            SnapshotPurpose::Publication => {
                tracing::debug!(global_step, folder = %directory.display(), %peer, "wrote the own part of a cut");
            }
        }
        Ok(Response::new(v1::SaveShardReply {
            record: saved.record,
            global_step: saved.global_step,
        }))
    }

    async fn finish(
        &self,
        request: Request<v1::FinishRequest>,
    ) -> Result<Response<v1::StatusReply>, Status> {
        let caller = Caller::of(request.extensions());
        let request = request.into_inner();
        let identity = chief_identity(&caller, request.identity)?;
        if request.failed {
            self.change(async { self.of_chief(&identity) }).await?;
            let mut failed = self.failed.lock().unwrap_or_else(PoisonError::into_inner);
            failed.get_or_insert_with(|| shown(&request.reason));
            drop(failed);
            tracing::info!(reason = %shown(&request.reason), peer = %caller.address(), "the job has failed");
            return Ok(Response::new(self.status_reply()));
        }
        self.change(async { self.shard.finish(identity) }).await?;
        let journal = self.journal()?;
        if let Some(Err(error)) = journal.map(|journal| journal.clear()) {
            tracing::warn!(%error, "the log of a job that has ended stays: it may be removed by hand");
        }
        tracing::info!(reason = %shown(&request.reason), peer = %caller.address(), "the job has ended");
        Ok(Response::new(self.status_reply()))
    }
}
