//! The wiring of a parameter server, and the loop that polls it. The server has a set of replicas: one of its own shard or,
//! under `parameter_servers.durability = "replica"`, one of its own shard and one of the shard before it.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, MissedTickBehavior, sleep};
use tokio_util::task::AbortOnDropHandle;
use tonic::service::Routes;
use tracing::{debug, info, warn};
use trainyard_cluster_spec::{Role, Task};
use trainyard_daemon::{
    CancellationToken, Context, ReadinessState, ServerLimits, Services, are_on_one_disk,
    free_bytes, serve,
};
use trainyard_diagnostic::{Action, Code, Diagnostic, Waiting};
use trainyard_parameter_server::journal::LogJournal;
use trainyard_parameter_store::{State, Status};
use trainyard_protocol::limits::SHIPPED_MESSAGE_BYTES_MAX;
use trainyard_protocol::v1::replica_service_server::ReplicaServiceServer;
use trainyard_run_config::StrategyKind;
use trainyard_runtime::{
    FileStall, FileWork, FoundFiles, blocking, has_threads, tell_file_wait, tell_if_slow,
};
use trainyard_write_ahead_log::Folder;

use crate::durable::{Undecided, has_log, undecided};
use crate::ending::{End, Ending, Next, Seen};
use crate::log_cutter::LogCutter;
use crate::memory;
use crate::replication::{Replica, Replicas, ShardService, replica_telemetry};
use crate::service::Service;
use crate::tensor_service::MessageBudget;

/// Interval of the polls.
const POLL_INTERVAL: Duration = Duration::from_millis(20);
/// Interval between measurements of the memory.
const MEMORY_INTERVAL: Duration = Duration::from_millis(100);
/// Interval between log lines while the disk of a log has no room.
const SHORTAGE_NOTICE_INTERVAL: Duration = Duration::from_secs(30);
/// Time without room for the log from which on the server is not ready.
const SHORTAGE_GRACE: Duration = Duration::from_secs(5);
/// Longest time in which a server that ends gives back memory.
const GIVE_BACK_TIMEOUT: Duration = Duration::from_secs(3);
/// Most bytes of a log that a server which ends moves from shared memory to the folder of the log. A log whose updates are in
/// a checkpoint has a few kilobytes.
const MOVED_BYTES_MAX: u64 = 8 << 20;
/// Interval of the checks for a newly committed checkpoint.
const LOG_RETIRE_INTERVAL: Duration = Duration::from_millis(500);
/// Time for the last replies to be sent before the server closes.
const REPLY_FLUSH_DELAY: Duration = Duration::from_millis(100);
/// Time for the streams of the chief and of the neighbour servers to end when the server closes. They do not end by
/// themselves.
const STREAM_CLOSE_TIMEOUT: Duration = Duration::from_millis(200);
/// Time that the chief has to dismiss a replicated server after the shards served here have finished.
const DISMISSAL_TIMEOUT: Duration = Duration::from_secs(3);
/// Part of the supervisor's deadline for which a stopping server waits for a checkpoint.
const DRAIN_PART: f32 = 0.8;

/// Serves parameters until the job ends, or until the token stops this server and it has drained.
///
/// # Errors
/// The cluster has too few servers for replicas, the port is taken, or the server failed.
pub(crate) async fn serve_parameters(
    context: Context,
    stop: CancellationToken,
) -> Result<(), Diagnostic> {
    // The memory of a simulated machine is that of the simulation.
    if has_threads() {
        memory::check_limit()?;
    }
    let task = context.task;
    let kind = context.job.strategy.kind;
    if !matches!(kind, StrategyKind::ParameterServer | StrategyKind::Hybrid) {
        let message = format!(
            "strategy `{}` has no parameter servers, this is {task}",
            kind.name()
        );
        return Err(Diagnostic::error(Code::E1006, message)
            .help("start no ps, or use kind = \"parameter_server\""));
    }
    let is_replicated = context.job.is_replicated();
    let replicas = replicas(&context)?;
    let listener = context.listener().await?;
    let address = context.cluster.address(task).unwrap_or_default();
    let shards: Vec<String> = replicas
        .iter()
        .map(|replica| replica.task().to_string())
        .collect();
    info!(%task, %address, shards = shards.join(" "), "serving");
    context.readiness.set(ReadinessState::waiting(
        "waiting",
        vec!["chief:0".to_owned()],
    ));
    let budget = MessageBudget::new(memory::message_bytes_max(&context));
    let mut routes = Routes::new(ShardService::new(replicas.clone(), task.index, budget));
    let mut limits = ServerLimits::default();
    if is_replicated {
        replica_telemetry::describe();
        limits.drain = STREAM_CLOSE_TIMEOUT;
        let follows = ReplicaServiceServer::new(replicas.clone())
            .max_decoding_message_size(SHIPPED_MESSAGE_BYTES_MAX)
            .max_encoding_message_size(SHIPPED_MESSAGE_BYTES_MAX);
        routes = routes.add_service(follows);
    }
    let closing = CancellationToken::new();
    let services = Services {
        routes,
        descriptors: trainyard_protocol::DESCRIPTORS,
    };
    let server = serve(listener, services, &context, limits, closing.clone());
    let work = async {
        let worked = async {
            // The chief decides which of two replicas serves. A single one serves as soon as it has read its log.
            if let Some(replica) = replicas.single()
                && !recover(&context, replica, &stop).await?
            {
                return Ok(());
            }
            watch(&context, &replicas, &stop).await
        };
        let worked = worked.await;
        sleep(REPLY_FLUSH_DELAY).await;
        closing.cancel();
        worked
    };
    let measuring = async {
        tokio::select! {
            () = measure_memory(&context, &replicas) => unreachable!("it never ends"),
            outcome = async { tokio::join!(server, work) } => outcome,
        }
    };
    let (served, worked) = measuring.await;
    leave_memory(replicas).await;
    worked.and(served)
}

/// Moves what the logs of a server that has ended still have in shared memory to their own folders, unless it is long.
async fn leave_memory(replicas: Replicas) {
    let journals = replicas.iter().filter_map(|replica| replica.journal());
    let logs: Vec<PathBuf> = journals
        .filter(|journal| journal.failure().is_none())
        .map(|journal| journal.folder().to_owned())
        .collect();
    // Closes the logs.
    drop(replicas);
    // Memory of a simulated machine is that of the simulation.
    if !has_threads() {
        return;
    }
    let leaving = blocking(move || {
        for log in logs {
            let left = Folder::open(&log).and_then(|log| log.leave_memory(MOVED_BYTES_MAX));
            if let Err(error) = left {
                warn!(log = %log.display(), %error, "the log stays in shared memory until the next start");
            }
        }
    });
    if tokio::time::timeout(GIVE_BACK_TIMEOUT, leaving)
        .await
        .is_err()
    {
        warn!(
            "the folder of the log does not answer: the log stays in shared memory until the next start"
        );
    }
}

/// Measures all the time what memory the process may use.
async fn measure_memory(context: &Context, replicas: &Replicas) {
    // The memory of a simulated machine is that of the simulation.
    if !has_threads() {
        return std::future::pending().await;
    }
    let messages = memory::message_bytes_max(context);
    let mut ticks = tokio::time::interval(MEMORY_INTERVAL);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        let room = memory::room(messages);
        for replica in replicas.iter() {
            replica.store().store().set_memory_room(room.clone());
        }
    }
}

/// Returns the replicas of this server.
fn replicas(context: &Context) -> Result<Replicas, Diagnostic> {
    let index = context.task.index;
    let num_ps = context.cluster.num_ps();
    if !context.job.is_replicated() {
        address_of(context, index)?;
        let single = Replica::single(context);
        return Ok(Replicas::new(vec![Arc::new(single)], context.incarnation));
    }
    if let Some(problem) = context.job.lacks_backup(num_ps) {
        return Err(problem);
    }
    let before = (index + num_ps - 1) % num_ps;
    let backup = address_of(context, (index + 1) % num_ps)?;
    let own = Replica::of_pair(context, index, backup);
    let other = Replica::of_pair(context, before, address_of(context, before)?);
    let replicas = vec![Arc::new(own), Arc::new(other)];
    Ok(Replicas::new(replicas, context.incarnation))
}

/// Returns a server and its address.
fn address_of(context: &Context, index: usize) -> Result<(Task, String), Diagnostic> {
    let task = Task {
        role: Role::Ps,
        index,
    };
    let address = context.cluster.address(task).ok_or_else(|| {
        Diagnostic::error(
            Code::E1004,
            format!("the cluster has no address for {task}"),
        )
    })?;
    Ok((task, address.to_owned()))
}

/// Reads the log of a server without a backup, once it is known whether the log belongs to the job. Callers are refused as
/// not ready meanwhile. Returns `false` if the token stops the server first.
async fn recover(
    context: &Context,
    replica: &Arc<Replica>,
    stop: &CancellationToken,
) -> Result<bool, Diagnostic> {
    let Some(service) = replica.serving() else {
        return Ok(true);
    };
    if !wait_for_model_dir(context, &service, stop).await? {
        return Ok(false);
    }
    service.set_unready("reads its log".to_owned());
    context.readiness.set(ReadinessState::waiting(
        "recovering",
        vec!["its log".to_owned()],
    ));
    replica.recover().await;
    context.readiness.set(ReadinessState::waiting(
        "waiting",
        vec!["chief:0".to_owned()],
    ));
    Ok(true)
}

/// Waits until the server can decide whether its log belongs to the current job. If only a mount is missing, the
/// server must not take the empty or wrong directory for that of a new job: it would set its log aside and make the
/// chief restore all servers. Returns `false` if the token stops the server.
async fn wait_for_model_dir(
    context: &Context,
    service: &Service,
    stop: &CancellationToken,
) -> Result<bool, Diagnostic> {
    let mut claimant = service.claimant();
    let mut reported = None;
    let mut pause = POLL_INTERVAL;
    loop {
        let given = context.clone();
        let claims = *claimant.borrow_and_update();
        let look = tell_if_slow(
            FileWork::Start,
            &context.job.model_dir,
            blocking(move || undecided(&given, claims)),
        );
        let found = look.await.map_err(|panic| {
            Diagnostic::error(
                Code::E9001,
                format!("reading the model directory has failed: {panic}"),
            )
        })??;
        let Some(why) = found else {
            return Ok(true);
        };
        if reported.replace(why) != Some(why) {
            report_undecided(context, service, why)?;
        }
        tokio::select! {
            // In a new job the chief comes soon. A mount may take long, and each check in a bucket is a request.
            () = sleep(pause) => pause = (pause * 2).min(LOG_RETIRE_INTERVAL),
            _ = claimant.changed() => {}
            () = stop.cancelled() => return Ok(false),
        }
    }
}

/// Reports to the log, to callers and to the service manager what this server waits for.
fn report_undecided(
    context: &Context,
    service: &Service,
    why: Undecided,
) -> Result<(), Diagnostic> {
    let model_dir = context.job.model_dir.display();
    match why {
        Undecided::NoClusterId => {
            if has_log(context)? {
                warn!(
                    %model_dir,
                    "the model directory has no cluster_id: this server keeps its log unread until a chief has written \
                     into the directory, or until the directory is mounted"
                );
            } else {
                info!(
                    %model_dir,
                    "the model directory has no cluster_id: this server waits until a chief has written into the \
                     directory, or until the directory is mounted"
                );
            }
            service.set_unready(format!(
                "waits until its model_dir {model_dir} has a cluster_id: is it mounted there?"
            ));
            let waiting_for = vec!["chief:0".to_owned(), format!("cluster_id in {model_dir}")];
            context
                .readiness
                .set(ReadinessState::waiting("waiting", waiting_for));
        }
        Undecided::OtherCluster {
            log,
            model_dir: folder,
        } => {
            warn!(
                "the log of this server belongs to cluster {log:032x}, and model_dir {model_dir} belongs to cluster \
                 {folder:032x}: this server keeps its log unread until the folder is mounted, or until a chief of the \
                 folder's cluster claims this server"
            );
            service.set_unready(format!(
                "has a log of cluster {log:032x}, and its model_dir {model_dir} is of cluster {folder:032x}: is the folder \
                 mounted there?"
            ));
            let waiting_for = vec![format!("{model_dir} of cluster {log:032x}")];
            context
                .readiness
                .set(ReadinessState::waiting("waiting", waiting_for));
        }
    }
    Ok(())
}

/// Polls the replicas. Returns when the job has ended or the server has drained.
async fn watch(
    context: &Context,
    replicas: &Replicas,
    stop: &CancellationToken,
) -> Result<(), Diagnostic> {
    let begun = Instant::now();
    let dismissal_timeout = if replicas.single().is_some() {
        // Its chief ends the shard and dismisses the server at once.
        Duration::ZERO
    } else {
        DISMISSAL_TIMEOUT
    };
    let drain_timeout = context.drain_deadline.mul_f32(DRAIN_PART);
    let mut ending = Ending::new(begun, dismissal_timeout, drain_timeout);
    // A shard that this server takes over while it drains has a log here, and is not drained.
    let mut drained: Vec<Arc<Replica>> = Vec::new();
    let mut shown = None;
    let mut retired = begun;
    let mut tending = None;
    let mut shortage = Shortage::default();
    let mut stalls = Vec::new();
    let mut waiting = wait_for_chief(context);
    let mut cutter = LogCutter::default();
    loop {
        if let Some(failure) = replicas.failure() {
            return Err(failure);
        }
        if retired.elapsed() >= LOG_RETIRE_INTERVAL {
            observe(replicas);
            // The model directory may not answer for long, and nothing else here may wait for it.
            if tending.as_ref().is_none_or(AbortOnDropHandle::is_finished) {
                tending = Some(tend_logs(context, replicas));
            }
            shortage.look(replicas);
            retired = Instant::now();
        }
        leave_room(replicas);
        let is_stalled = look_for_stalls(&mut stalls, replicas);
        cutter.look(replicas).await;
        let serving = replicas.serving();
        let statuses: Vec<Status> = serving
            .iter()
            .map(|replica| replica.store().store().status())
            .collect();
        // The server reports the least advanced state of the shards that it serves.
        let least = statuses.iter().min_by_key(|status| status.state as u8);
        let is_unclaimed = least.is_some_and(|status| status.state == State::Empty);
        if is_unclaimed
            && let Action::Notice(notice) =
                waiting.look(begun.elapsed(), "it has not claimed this server")
        {
            warn!("{notice}");
        }
        let now = if is_stalled {
            ReadinessState::waiting("waiting", vec!["the disk of its log".to_owned()])
        } else if shortage.lasts() {
            let what = "room on the disk of its log";
            ReadinessState::waiting("waiting", vec![what.to_owned()])
        } else {
            readiness_of(least)
        };
        if shown.as_ref() != Some(&now) {
            context.readiness.set(now.clone());
            shown = Some(now);
        }
        let is_saved = ending.is_draining()
            && drained
                .iter()
                .all(|replica| !replica.is_primary() || replica.store().store().close_if_saved());
        let seen = Seen {
            state: least.map(|status| status.state),
            version: statuses.iter().map(|status| status.version.count()).sum(),
            is_dismissed: replicas.is_dismissed(),
            is_stopping: stop.is_cancelled(),
            is_saved,
            has_log: !serving.is_empty()
                && serving.iter().all(|replica| replica.journal().is_some()),
            chief_silence: replicas.chief_silence(),
        };
        match ending.next(Instant::now(), &seen) {
            Next::Serve => {}
            Next::Drain(timeout) => {
                for replica in &serving {
                    replica.store().store().drain();
                }
                drained = serving;
                info!(
                    "draining: waiting up to {:.0} s for the chief's last checkpoint",
                    timeout.as_secs_f32()
                );
            }
            Next::End(end) => {
                leave(replicas, &serving, end);
                give_back_memory(context, replicas).await;
                return Ok(());
            }
        }
        sleep(POLL_INTERVAL).await;
    }
}

/// Returns the wait for the chief to claim this server.
fn wait_for_chief(context: &Context) -> Waiting {
    let chief = Task {
        role: Role::Chief,
        index: 0,
    };
    let address = context.cluster.address(chief).unwrap_or_default();
    Waiting::new(
        context.task.to_string(),
        format!("{chief} at {address}"),
        Duration::MAX,
    )
}

/// Ends the service of the shards, and logs the reason.
fn leave(replicas: &Replicas, serving: &[Arc<Replica>], end: End) {
    match end {
        End::Dismissed => {
            replicas.iter().for_each(|replica| replica.forget());
            info!("the job has ended");
        }
        End::Finished if replicas.single().is_some() => {}
        End::Finished => info!("the job has ended, and the chief has not dismissed this server"),
        End::Untrained if serving.is_empty() => info!("stopping: this server serves no shard"),
        End::Untrained => {
            // Values that are being restored are still in their checkpoint.
            for replica in serving {
                replica.store().store().cancel_preparing();
            }
            info!("stopping: nothing was trained here");
        }
        End::Saved => info!("stopping: the latest checkpoint holds every update"),
        End::WorkersContinue => {
            close(serving);
            info!(
                "stopping while the job continues: the log has the updates since the last checkpoint"
            );
        }
        End::ChiefGone => {
            close(serving);
            info!(
                "stopping: the chief is gone, and the log has the updates since its last checkpoint"
            );
        }
        End::Unsaved if serving.iter().all(|replica| replica.journal().is_some()) => {
            info!("stopping without a checkpoint: the log has the updates since the last one");
        }
        End::Unsaved => warn!(
            "stopping without a checkpoint: the chief gave no sign; updates since its last one are lost"
        ),
    }
}

/// Refuses further pushes.
fn close(serving: &[Arc<Replica>]) {
    for replica in serving {
        replica.store().store().close();
    }
}

/// Records metrics.
fn observe(replicas: &Replicas) {
    for replica in replicas.iter().filter(|_| replicas.single().is_none()) {
        replica_telemetry::record(replica);
    }
    let first = replicas.iter().find_map(|replica| replica.serving());
    if let Some(service) = first {
        service.observe();
    }
}

/// Removes what committed checkpoints cover from the logs.
fn tend_logs(context: &Context, replicas: &Replicas) -> AbortOnDropHandle<()> {
    let journals: Vec<_> = replicas
        .iter()
        .filter_map(|replica| Some((replica.journal()?, replica.store())))
        .collect();
    let context = context.clone();
    AbortOnDropHandle::new(tokio::spawn(async move {
        for (journal, server) in journals {
            look_for_checkpoints(&journal, &context).await;
            retire(&journal, &context).await;
            if journal.may_give_way() && !server.is_saving() {
                give_way_to_checkpoint(journal).await;
            }
        }
    }))
}

/// Makes a log that has taken room of the next checkpoint give it back.
async fn give_way_to_checkpoint(journal: Arc<LogJournal>) {
    if let Ok(Err(error)) = blocking(move || journal.give_way_to_checkpoint()).await {
        warn!(%error, "a file that the log keeps for later could not be removed, though a checkpoint needs its room");
    }
}

/// Looks whether a log lies on the disk of the checkpoints.
async fn look_for_checkpoints(journal: &Arc<LogJournal>, context: &Context) {
    let (log, job) = (journal.folder().to_owned(), Arc::clone(&context.job));
    if let Ok(is_beside) = blocking(move || are_on_one_disk(&log, &job.model_dir)).await {
        journal.set_beside_checkpoints(is_beside);
    }
}

/// Makes logs that lie on the disk of the checkpoints leave them room.
fn leave_room(replicas: &Replicas) {
    for replica in replicas.iter() {
        if let Some(journal) = replica.journal() {
            journal.leave_room(|| replica.store().checkpoint_bytes());
        }
    }
}

/// Looks whether a log of this server stands still because its files do not answer, and tells of it. `stalls` has one
/// entry for each replica.
fn look_for_stalls(stalls: &mut Vec<FileStall>, replicas: &Replicas) -> bool {
    stalls.resize_with(replicas.iter().count(), FileStall::default);
    let now = Instant::now();
    let mut oldest = Duration::ZERO;
    for (stall, replica) in stalls.iter_mut().zip(replicas.iter()) {
        let Some(journal) = replica.journal() else {
            *stall = FileStall::default();
            continue;
        };
        match stall.look(now, journal.writes_from()) {
            FoundFiles::Working => {}
            FoundFiles::WorkingAgain(after) => {
                let (log, seconds) = (journal.folder().display(), after.as_secs());
                info!(%log, seconds, "the files of the log answer again: pushes are applied");
            }
            FoundFiles::Stalled { age, is_notice_due } => {
                oldest = oldest.max(age);
                if is_notice_due {
                    let (log, seconds) = (journal.folder().display(), age.as_secs());
                    warn!(%log, seconds, "waiting for the disk of the log: a write has not ended, and no push is answered until it has");
                }
            }
        }
    }
    tell_file_wait(FileWork::Log, oldest);
    !oldest.is_zero()
}

/// A disk that has no room for a log.
#[derive(Debug, Default)]
struct Shortage {
    begun: Option<Instant>,
    noticed: Option<Instant>,
}

impl Shortage {
    /// Returns whether it lasts longer than a checkpoint takes that makes the log short.
    fn lasts(&self) -> bool {
        self.begun
            .is_some_and(|begun| begun.elapsed() >= SHORTAGE_GRACE)
    }

    /// Looks for room again, and logs that there is none.
    fn look(&mut self, replicas: &Replicas) {
        let short = replicas
            .iter()
            .filter_map(|replica| replica.journal())
            .find(|journal| journal.check_room());
        let Some(journal) = short else {
            self.begun = None;
            if self.noticed.take().is_some() {
                info!("the disk of the log has room again: pushes are taken");
            }
            return;
        };
        self.begun.get_or_insert_with(Instant::now);
        if self
            .noticed
            .is_some_and(|noticed| noticed.elapsed() < SHORTAGE_NOTICE_INTERVAL)
        {
            return;
        }
        self.noticed = Some(Instant::now());
        warn!(
            log = %journal.folder().display(),
            log_bytes = journal.bytes(),
            free_bytes = journal.free(),
            "the disk of the log has no room: this server takes no push until a checkpoint covers the log, or there is room again"
        );
    }
}

/// Gives back what the logs of a server that ends do not need: what the last checkpoint covers, and the files that are kept
/// for later.
async fn give_back_memory(context: &Context, replicas: &Replicas) {
    let giving = async {
        for journal in replicas.iter().filter_map(|replica| replica.journal()) {
            retire(&journal, context).await;
            let trimmed = blocking(move || journal.trim()).await;
            if let Ok(Err(error)) = trimmed {
                warn!(%error, "files of the log stay in shared memory until the next start");
            }
        }
    };
    if tokio::time::timeout(GIVE_BACK_TIMEOUT, giving)
        .await
        .is_err()
    {
        warn!("model_dir does not answer: the log stays in shared memory until the next start");
    }
}

/// Measures the free disk space, and removes the part of the log that a committed checkpoint covers.
async fn retire(journal: &Arc<LogJournal>, context: &Context) {
    let folder = journal.folder().to_owned();
    if let Ok(Some(free)) = blocking(move || free_bytes(&folder)).await {
        journal.set_free(free);
    }
    if !journal.waits_for_checkpoint() {
        return;
    }
    let journal = Arc::clone(journal);
    let job = Arc::clone(&context.job);
    match blocking(move || journal.retire(&job.model_dir)).await {
        Ok(Ok(0)) | Err(_) => {}
        Ok(Ok(bytes)) => debug!(bytes, "removed the part of the log that a checkpoint holds"),
        Ok(Err(error)) => {
            warn!(%error, "a part of the log that a checkpoint holds could not be removed")
        }
    }
}

/// Returns the readiness of a server. `least` is the least advanced shard that it serves; `None` if it serves none.
fn readiness_of(least: Option<&Status>) -> ReadinessState {
    let waiting = |state: &str| ReadinessState::waiting(state, Vec::new());
    let Some(status) = least else {
        return waiting("standby");
    };
    match status.state {
        State::Empty => waiting("waiting"),
        State::Preparing => ReadinessState::waiting("preparing", vec![status.progress.to_string()]),
        State::Prepared => waiting("prepared"),
        State::Open => ReadinessState::ready("training"),
        State::Draining => ReadinessState::ready("draining"),
        State::Finished => waiting("finished"),
    }
}
