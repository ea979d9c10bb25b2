//! The wiring of an unreplicated parameter server, and its end.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch::channel;
use tokio::time::{Instant, sleep};
use tonic::service::Routes;
use tracing::{debug, info, warn};
use trainyard_cluster_spec::{Role, Task};
use trainyard_daemon::{CancellationToken, Context, ServerLimits, free_bytes, serve};
use trainyard_diagnostic::{Action, Code, Diagnostic, Waiting};
use trainyard_parameter_server::LocalServer;
use trainyard_parameter_server::journal::LogJournal;
use trainyard_parameter_store::{State, Status};
use trainyard_runtime::blocking;

use crate::durable::{Undecided, cannot, has_log, open_log, undecided};
use crate::machine::memory_bytes;
use crate::service::Service;
use crate::tensor_service::{MessageBudget, TensorService};

/// Interval at which the store's state is polled.
pub(crate) const POLL_INTERVAL: Duration = Duration::from_millis(20);
/// Interval of the checks for a newly committed checkpoint.
pub(crate) const LOG_RETIRE_INTERVAL: Duration = Duration::from_millis(500);
/// Time for which a stopping server with a log waits for the workers to stop too.
const STOP_GRACE: Duration = Duration::from_secs(2);
/// Silence of the chief after which a stopping server with a log no longer waits for a checkpoint.
const CHIEF_SILENCE_MAX: Duration = Duration::from_secs(5);
/// Longest time between pushes of workers that are still training.
const PUSH_INTERVAL_MAX: Duration = Duration::from_millis(500);
/// Time for the last replies to be sent before the server closes.
pub(crate) const REPLY_FLUSH_DELAY: Duration = Duration::from_millis(100);

/// Serves one unreplicated part of the parameters.
pub(crate) async fn run_alone(context: Context, stop: CancellationToken) -> Result<(), Diagnostic> {
    let task = context.task;
    let address = context
        .cluster
        .address(task)
        .map(str::to_owned)
        .ok_or_else(|| {
            Diagnostic::error(
                Code::E1004,
                format!("the cluster has no address for {task}"),
            )
        })?;
    let listener = context.listener().await?;
    let index = task.index;
    let num_ps = context.cluster.num_ps();
    let incarnation = context.incarnation;
    let fingerprint = context.cluster.fingerprint();
    let shard = LocalServer::new(index, num_ps, incarnation, fingerprint);
    info!(%task, %address, "serving");
    context
        .readiness
        .set("waiting", false, vec!["chief:0".to_owned()]);
    let (known, journal) = channel(None);
    let service = Arc::new(Service::new(shard.clone(), task.index, &context, journal));
    let budget = MessageBudget::new(context.job.parameter_servers.memory_bytes_max);
    let served = TensorService::new(Arc::clone(&service), budget);
    let closing = CancellationToken::new();
    let server = serve(
        listener,
        Routes::new(served),
        trainyard_protocol::DESCRIPTORS,
        &context,
        ServerLimits::default(),
        closing.clone(),
    );
    let work = async {
        let worked = async {
            // Callers are refused as not ready meanwhile.
            if !wait_for_model_dir(&context, &service, &stop).await? {
                return Ok(());
            }
            service.set_unready("reads its log".to_owned());
            context
                .readiness
                .set("recovering", false, vec!["its log".to_owned()]);
            let given = context.clone();
            let of = shard.clone();
            let opened = blocking(move || open_log(&given, &of)).await;
            let kept = opened.map_err(|panic| {
                Diagnostic::error(Code::E9001, format!("the log could not be read: {panic}"))
            })??;
            context
                .readiness
                .set("waiting", false, vec!["chief:0".to_owned()]);
            // The limit applies only after recovery, because recovered values must be held in any case.
            shard
                .store()
                .bound_memory(context.job.parameter_servers.memory_bytes_max);
            shard.store().know_machine(memory_bytes());
            known.send_replace(Some(kept.clone()));
            watch(&context, &shard, &service, kept.as_ref(), &stop).await
        };
        let worked = worked.await;
        sleep(REPLY_FLUSH_DELAY).await;
        closing.cancel();
        worked
    };
    let (served, worked) = tokio::join!(server, work);
    worked.and(served)
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
    let mut told = None;
    let mut pause = POLL_INTERVAL;
    loop {
        let given = context.clone();
        let claims = *claimant.borrow_and_update();
        let look = blocking(move || undecided(&given, claims));
        let found = look.await.map_err(|panic| {
            Diagnostic::error(
                Code::E9001,
                format!("the model folder could not be looked at: {panic}"),
            )
        })??;
        let Some(why) = found else {
            return Ok(true);
        };
        if told.replace(why) != Some(why) {
            tell_undecided(context, service, why)?;
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
fn tell_undecided(context: &Context, service: &Service, why: Undecided) -> Result<(), Diagnostic> {
    let model_dir = context.job.model_dir.display();
    match why {
        Undecided::NoClusterId => {
            if has_log(context)? {
                warn!(
                    %model_dir,
                    "the model folder has no cluster_id: the log of this server stays as it is until a chief has been \
                     there, or until the folder is mounted"
                );
            } else {
                info!(
                    %model_dir,
                    "the model folder has no cluster_id: this server waits until a chief has been there, or until the \
                     folder is mounted"
                );
            }
            service.set_unready(format!(
                "waits until its model_dir {model_dir} has a cluster_id: is it mounted there?"
            ));
            let waiting_for = vec!["chief:0".to_owned(), format!("cluster_id in {model_dir}")];
            context.readiness.set("waiting", false, waiting_for);
        }
        Undecided::OtherCluster {
            log,
            model_dir: folder,
        } => {
            warn!(
                "the log of this server is of cluster {log:032x}, and model_dir {model_dir} is of cluster {folder:032x}: \
                 the log stays as it is until the folder is mounted, or until a chief of the folder's cluster comes"
            );
            service.set_unready(format!(
                "has a log of cluster {log:032x}, and its model_dir {model_dir} is of cluster {folder:032x}: is the folder \
                 mounted there?"
            ));
            let waiting_for = vec![format!("{model_dir} of cluster {log:032x}")];
            context.readiness.set("waiting", false, waiting_for);
        }
    }
    Ok(())
}

/// Polls the store. Returns when the job has ended or the server has drained.
async fn watch(
    context: &Context,
    shard: &LocalServer,
    service: &Service,
    journal: Option<&Arc<LogJournal>>,
    stop: &CancellationToken,
) -> Result<(), Diagnostic> {
    let mut known = (State::Empty, None);
    // A draining server waits for the checkpoint that the chief takes now, or has taken before it ended.
    let mut drain_until = None;
    let mut retired = Instant::now();
    let mut stopping = Instant::now();
    let mut version = 0;
    let mut moved = Instant::now();
    let chief = Task {
        role: Role::Chief,
        index: 0,
    };
    let address = context.cluster.address(chief).unwrap_or_default();
    let mut waiting = Waiting::new(
        context.task.to_string(),
        format!("{chief} at {address}"),
        Duration::MAX,
    );
    let begun = Instant::now();
    loop {
        if let Some(failure) = journal.and_then(|journal| journal.failure()) {
            return Err(cannot(&failure));
        }
        if let Some(failure) = service.failure() {
            return Err(failure);
        }
        if retired.elapsed() >= LOG_RETIRE_INTERVAL {
            if let Some(journal) = journal {
                retire(journal, context).await;
            }
            service.observe();
            retired = Instant::now();
        }
        let status = shard.store().status();
        if status.version != version {
            (version, moved) = (status.version, Instant::now());
        }
        let state = status.state;
        if state == State::Empty
            && let Action::Notice(notice) =
                waiting.look(begun.elapsed(), "it has not claimed this server")
        {
            warn!("{notice}");
        }
        let told = (state, progress_of(&status));
        if told != known {
            let (word, ready) = word_of(state);
            context
                .readiness
                .set(word, ready, told.1.iter().cloned().collect());
            known = told;
        }
        if state == State::Finished {
            break;
        }
        if stop.is_cancelled() && drain_until.is_none() {
            if matches!(state, State::Empty | State::Preparing | State::Prepared) {
                // Values that are being restored are still in their checkpoint.
                shard.store().cancel_preparing();
                info!("stopping: nothing was trained here");
                break;
            }
            shard.store().drain();
            stopping = Instant::now();
            let wait_max = context.drain_deadline.mul_f32(0.8);
            drain_until = Some(stopping + wait_max);
            info!(
                "draining: waiting up to {:.0} s for the chief's last checkpoint",
                wait_max.as_secs_f32()
            );
        }
        if drain_until.is_some() && shard.store().close_if_saved() {
            info!(
                version = status.version,
                "stopping: the latest checkpoint holds every update"
            );
            break;
        }
        let goes_on = stopping.elapsed() >= STOP_GRACE && moved.elapsed() < PUSH_INTERVAL_MAX;
        if drain_until.is_some() && journal.is_some() && goes_on {
            // The workers continue to train and wait for this server to return, so no checkpoint will hold all of its
            // updates.
            shard.store().close();
            info!(
                "stopping while the job goes on: the log has the updates since the last checkpoint"
            );
            break;
        }
        if drain_until.is_some()
            && journal.is_some()
            && stopping.elapsed() >= STOP_GRACE
            && service.chief_silence() >= CHIEF_SILENCE_MAX
        {
            shard.store().close();
            info!(
                "stopping: the chief is gone, and the log has the updates since its last checkpoint"
            );
            break;
        }
        if drain_until.is_some_and(|until| Instant::now() >= until) {
            match journal {
                Some(_) => info!(
                    "stopping without a checkpoint: the log has the updates since the last one"
                ),
                None => warn!(
                    "stopping without a checkpoint: the chief gave no sign; updates since its last one are lost"
                ),
            }
            break;
        }
        sleep(POLL_INTERVAL).await;
    }
    Ok(())
}

/// Measures the free disk space, and removes the part of the log that a committed checkpoint covers.
pub(crate) async fn retire(journal: &Arc<LogJournal>, context: &Context) {
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
        Ok(Ok(bytes)) => debug!(bytes, "a checkpoint holds the front of the log: removed"),
        Ok(Err(error)) => warn!(%error, "the log stays longer than it has to"),
    }
}

/// Returns the progress of a store that is being prepared, for people.
pub(crate) fn progress_of(status: &Status) -> Option<String> {
    (status.state == State::Preparing).then(|| status.progress.to_string())
}

/// Returns the name of a state for people, and whether the server serves workers in it.
pub(crate) fn word_of(state: State) -> (&'static str, bool) {
    match state {
        State::Empty => ("waiting", false),
        State::Preparing => ("preparing", false),
        State::Prepared => ("prepared", false),
        State::Open => ("training", true),
        State::Draining => ("draining", true),
        State::Finished => ("finished", false),
    }
}
