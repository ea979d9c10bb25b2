//! The wiring of a chief.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::{BoxFuture, join_all};
use tokio::sync::watch;
use tokio::time::Instant;
use tokio_util::task::AbortOnDropHandle;
use tonic::service::Routes;
use tracing::warn;
use trainyard_cluster_client::{RemoteServer, ServerClient};
use trainyard_cluster_spec::{Role, Servers, Task};
use trainyard_daemon::{CancellationToken, Context, ReadinessState, ServerLimits, Services, serve};
use trainyard_diagnostic::{Code, Diagnostic};
use trainyard_model::{AnyModel, Build, add_constants};
use trainyard_model_dir::{
    Evaluated, EvaluatorMark, Leader, RunKind, RunLock, Runner, cluster_id, known_cluster_id,
};
use trainyard_protocol::limits;
use trainyard_protocol::v1::session_service_server::SessionServiceServer;
use trainyard_run_config::{Agreement, Job, Sharding, Update};
use trainyard_runtime::blocking;
use trainyard_trainer::{
    Mirror, OnStep, StatusCallback, check_cluster, plan, scale_learning_rates,
};

use crate::chief::{Ending, Process, host};
use crate::own_folder::OwnFolder;
use crate::service::Service;
use crate::standby;
use crate::start_files::at_start;
use crate::{Chief, Failover, run_job};
use trainyard_coordinator::{
    Admission, Dispatcher, LocalCoordinator, Membership, MembershipConfig,
};
use trainyard_dashboard::Clock;
use trainyard_dashboard::RunHistory;
use trainyard_dashboard::RunPage;

/// Silence after which a task counts as gone.
const LEASE_DURATION: Duration = Duration::from_secs(5);
/// Time between heartbeats.
const HEARTBEAT_INTERVAL: Duration = Duration::from_millis(400);
/// Silence after which a task counts as gone whose keep-alive stream has broken: a running process would have sent a
/// request.
const RETURN_TIMEOUT: Duration = Duration::from_millis(500);
/// Silence after which another process may take over a task.
const TAKEOVER_AFTER: Duration = Duration::from_millis(1000);

impl Chief {
    /// Creates a chief from its model, layout, servers and membership.
    ///
    /// # Errors
    /// The model directory or the input cannot be used, or no task or too few tasks train.
    pub async fn new(
        context: &Context,
        model: Box<AnyModel>,
        shards: Vec<Arc<dyn ServerClient>>,
        set_status: StatusCallback,
        progress: OnStep,
    ) -> Result<Self, Diagnostic> {
        let job = Arc::clone(&context.job);
        let servers = shards.iter().filter(|shard| shard.is_remote()).count();
        // A store in this process counts as a server.
        let mut plan = plan(&job, &*model, servers.max(1));
        let fingerprint = plan.fingerprint;
        let runner = Runner {
            host: host(),
            process_id: std::process::id(),
            started_unix_secs: context.started_unix_secs(),
        };
        let kind = if servers == 0 && context.cluster.standbys.is_empty() {
            RunKind::Alone
        } else {
            RunKind::Cluster
        };
        let claim = move |model_dir: &Path| {
            let run_lock = RunLock::take(model_dir, kind, &runner)?;
            let id = cluster_id(model_dir, uuid::Uuid::new_v4().as_u128())?;
            Ok((run_lock, id))
        };
        let (run_lock, id) = at_start(&job.model_dir, claim).await?;
        let trains = |task: &Task| match task.role {
            Role::Chief => job.strategy.chief_trains,
            Role::Worker => true,
            Role::Ps | Role::Evaluator => false,
        };
        let expected: Vec<Task> = context
            .cluster
            .tasks
            .keys()
            .copied()
            .filter(trains)
            .collect();
        let asynchronous = job.strategy.update.mode != Update::Sync;
        // Tasks that join later may do all the work. Only the size of a synchronous step depends on the expected tasks.
        let address = context.cluster.address(context.task);
        let is_reachable = address.is_some_and(|address| address != Leader::IN_PROCESS);
        let others_may = is_reachable && admission(&job) == Admission::Open && asynchronous;
        if expected.is_empty() && !others_may {
            let message =
                "no task trains: strategy.chief_trains is false and the cluster has no worker";
            return Err(Diagnostic::error(Code::E1006, message)
                .help("add a worker to the cluster, or let the chief train"));
        }
        let tasks = expected.len();
        let lanes = lanes(&job, tasks)?;
        scale_learning_rates(&job, &mut plan, if lanes > 0 { lanes } else { tasks });
        let clock = Clock::new(context.started);
        let observation = RunHistory::new(clock, shards.iter().map(|shard| task_of(shard.name())));
        let handed_out = job.input.train.sharding == Sharding::Dynamic;
        let data = handed_out
            .then(|| Dispatcher::of(&job, lanes))
            .transpose()?;
        let (coordinator, ended) = LocalCoordinator::new(
            Membership::new(MembershipConfig {
                cluster_id: id,
                servers: Servers::of(&context.cluster),
                layout_fingerprint: fingerprint,
                job: Agreement::of(&context.job),
                expected,
                admission: admission(&job),
                lease: LEASE_DURATION,
                heartbeat_interval: HEARTBEAT_INTERVAL,
                takeover: TAKEOVER_AFTER,
                return_within: RETURN_TIMEOUT,
                lanes,
            }),
            data,
        );
        let page = RunPage::new(context, coordinator.clone(), observation.clone());
        context.page.show(move |path| page.answer(path));
        Ok(Self {
            model: Arc::from(model),
            shards,
            optimizers: plan.optimizers.clone(),
            plan,
            // The leading chief is always `chief:0`.
            task: Task {
                role: Role::Chief,
                index: 0,
            },
            process: Process {
                incarnation: context.incarnation,
                started: Instant::now()
                    .checked_sub(context.started.elapsed().unwrap_or_default())
                    .unwrap_or_else(Instant::now),
                started_unix_secs: context.started_unix_secs(),
                address: context
                    .cluster
                    .address(context.task)
                    .unwrap_or(Leader::IN_PROCESS)
                    .to_owned(),
            },
            cluster_id: id,
            folder: OwnFolder::new(&job.model_dir, id),
            servers: Servers::of(&context.cluster),
            _run_lock: run_lock,
            connect_deadline: context.connect_deadline,
            drain_deadline: context.drain_deadline,
            out_of_time: CancellationToken::new(),
            coordinator,
            ended,
            tasks,
            lanes,
            mirror: None,
            pairs: None,
            num_ps: servers.max(1),
            set_status,
            progress,
            watchdog: context.watchdog.clone(),
            observation,
            events: None,
            looked: watch::Sender::default(),
            job,
        })
    }
}

/// Returns the task in a server's name, which may contain the address, too.
fn task_of(name: &str) -> String {
    name.split(" at ").next().unwrap_or_default().to_owned()
}

/// Returns the rule that admits tasks while the job runs.
fn admission(job: &Job) -> Admission {
    match job.elastic() {
        Ok(()) => Admission::Open,
        Err(reason) => Admission::Expected(reason),
    }
}

/// Returns the batches of a synchronous step; 0 if the updates are not synchronous.
fn lanes(job: &Job, tasks: usize) -> Result<usize, Diagnostic> {
    let update = job.strategy.update;
    if update.mode != Update::Sync {
        return Ok(0);
    }
    match update.replicas_to_aggregate {
        Some(given) if given > tasks => {
            let message = format!(
                "strategy.replicas_to_aggregate must be at most {tasks}, the number of tasks \
                that train, given {given}"
            );
            Err(Diagnostic::error(Code::E1006, message)
                .help("add workers to the cluster, or aggregate fewer batches"))
        }
        Some(given) => Ok(given),
        None => Ok(tasks),
    }
}

/// Leads and trains until the job ends, or until the token is cancelled.
///
/// # Errors
/// The job cannot begin or continue.
pub fn run(
    context: Context,
    build: Build,
    stop: CancellationToken,
) -> BoxFuture<'static, Result<(), Diagnostic>> {
    // The future is boxed, so that it is compiled once here, and not again in each program that runs a chief.
    Box::pin(elect_and_lead(context, build, stop))
}

/// Time in which an evaluator that is started with the other tasks is ready.
const EVALUATOR_START_TIMEOUT: Duration = Duration::from_secs(30);

/// Warns early in the job if there is no evaluator.
async fn miss_evaluator(job: Arc<Job>) {
    tokio::time::sleep(EVALUATOR_START_TIMEOUT).await;
    if !has_evaluator(&job.model_dir, None).await {
        warn_of_no_evaluator(&job);
    }
}

/// Returns whether an evaluator runs, or has ended because it has evaluated `last_step`. Returns `true` if that is not
/// known, so that there is no false warning.
async fn has_evaluator(model_dir: &Path, last_step: Option<u64>) -> bool {
    let model_dir = model_dir.to_owned();
    let look =
        move || -> Result<bool, trainyard_checkpoint::Error> {
            // The mark is read first: an evaluator writes its last result before it removes its mark.
            if EvaluatorMark::is_there(&model_dir)? {
                return Ok(true);
            }
            let Some(last_step) = last_step else {
                return Ok(false);
            };
            Ok(Evaluated::read(&model_dir)?
                .is_some_and(|evaluated| evaluated.global_step == last_step))
        };
    !matches!(blocking(look).await, Ok(Ok(false)))
}

/// Warns of a job with evaluation input and without an evaluator.
fn warn_of_no_evaluator(job: &Job) {
    let exports = if job.exporters.is_empty() {
        ""
    } else {
        ", and nothing is exported"
    };
    warn!(
        "no evaluator runs: the job has [input.eval], and its checkpoints are not \
        evaluated{exports}. Start `trainyard-evaluator` with the same job file, or run \
        `trainyard evaluate` from time to time"
    );
}

/// Returns the clients of these parameter servers.
fn remote_servers<'a>(
    context: &Context,
    servers: impl IntoIterator<Item = (Task, &'a str)>,
) -> Result<Vec<RemoteServer>, Diagnostic> {
    if context.job.is_replicated() {
        RemoteServer::all_replicated(&context.network, servers)
    } else {
        RemoteServer::all(&context.network, servers)
    }
}

/// Timeout for a server to report its cluster, before this chief writes into an empty model directory.
const CLUSTER_ID_TIMEOUT: Duration = Duration::from_secs(1);

/// Refuses to begin a cluster in an empty model directory while a running server belongs to another cluster: most
/// likely, the directory is not mounted on this host. Nothing has been written when this is called, and no worker knows
/// of this chief.
async fn refuse_unmounted_model_dir(context: &Context) -> Result<(), Diagnostic> {
    let known = at_start(&context.job.model_dir, known_cluster_id).await;
    if !matches!(known, Ok(None)) {
        // A problem with the directory is reported where the directory is used.
        return Ok(());
    }
    let servers = context.cluster.of_role(Role::Ps);
    let remote = remote_servers(context, servers)?;
    let asked = remote.into_iter().map(|server| async move {
        let told = tokio::time::timeout(CLUSTER_ID_TIMEOUT, server.status()).await;
        let cluster = told.ok()?.ok()?.store.cluster_id?;
        Some((server.name().to_owned(), cluster))
    });
    let told = join_all(asked).await;
    let Some((server, cluster)) = told.into_iter().flatten().next() else {
        return Ok(());
    };
    let model_dir = context.job.model_dir.display();
    let message = format!(
        "model_dir {model_dir} is empty on the host of {}, and {server} already belongs to \
        cluster {cluster:032x}",
        context.task
    );
    Err(Diagnostic::error(Code::E2006, message)
        .note("the chief has written nothing into the folder")
        .help(
            "mount the folder on this host; to start from the beginning in an empty folder, stop the parameter servers first",
        ))
}

async fn elect_and_lead(
    mut context: Context,
    build: Build,
    stop: CancellationToken,
) -> Result<(), Diagnostic> {
    let model = build(&context.job)?;
    add_constants(&mut context.job, &*model);
    let servers: Vec<(Task, String)> = context
        .cluster
        .of_role(Role::Ps)
        .map(|(task, address)| (task, address.to_owned()))
        .collect();
    check_cluster(&context.job, servers.len())?;
    refuse_unmounted_model_dir(&context).await?;
    if !standby::wait_for_leadership(&context, &stop).await? {
        return Ok(());
    }
    let mirrors = context.job.strategy.kind.is_mirrored();
    let mut shards: Vec<Arc<dyn ServerClient>> = Vec::new();
    let mut mirror = None;
    let mut hub = None;
    if mirrors {
        let (own, meets) = Mirror::remote(
            context.network.clone(),
            context.incarnation,
            context.cluster.fingerprint(),
        );
        shards.push(Arc::new(own.shard.clone()));
        (mirror, hub) = (Some(own), Some(meets));
    }
    let cluster = context.cluster.of_role(Role::Ps);
    let remote = remote_servers(&context, cluster)?;
    for server in remote {
        shards.push(Arc::new(server.behind(usize::from(mirrors))));
    }
    let listener = context.listener().await?;
    let readiness = context.readiness.clone();
    let set_status: StatusCallback = Arc::new(move |status| {
        readiness.set(ReadinessState {
            state: status.state.to_owned(),
            ready: status.is_ready,
            waiting_for: status.waiting_for,
        });
    });
    let mut leading = Chief::new(&context, model, shards, set_status, Arc::new(|_| {})).await?;
    leading.mirror = mirror;
    if context.job.is_replicated() && !servers.is_empty() {
        leading.pairs = Some(Failover::new(
            &context.network,
            &servers,
            leading.cluster_id,
            context.job.model_dir.clone(),
        )?);
    }
    let service = SessionServiceServer::new(Service::new(leading.coordinator.clone(), mirrors))
        .max_decoding_message_size(limits::CONTROL_MESSAGE_BYTES_MAX)
        .max_encoding_message_size(limits::INLINE_RECORDS_MESSAGE_BYTES_MAX);
    let closing = CancellationToken::new();
    let limits = ServerLimits {
        drain: Duration::from_millis(200),
        ..ServerLimits::default()
    };
    let own = context.clone();
    let end = closing.clone();
    let server = tokio::spawn(async move {
        let routes = Routes::new(service);
        let routes = match hub {
            Some(hub) => routes.add_service(hub.service()),
            None => routes,
        };
        let services = Services {
            routes,
            descriptors: trainyard_protocol::DESCRIPTORS,
        };
        serve(listener, services, &own, limits, end).await
    });
    let job = Arc::clone(&context.job);
    let missed = job
        .input
        .eval
        .is_some()
        .then(|| AbortOnDropHandle::new(tokio::spawn(miss_evaluator(job))));
    let outcome = run_job(leading, stop).await;
    drop(missed);
    // A job that evaluations have ended has an evaluator.
    if let Ok((Ending::Done, report)) = &outcome
        && context.job.input.eval.is_some()
        && report.ended_early.is_none()
        && !has_evaluator(&context.job.model_dir, Some(report.global_step)).await
    {
        warn_of_no_evaluator(&context.job);
    }
    // Tasks that still send requests receive the end of the job before the server closes.
    tokio::time::sleep(Duration::from_millis(200)).await;
    closing.cancel();
    drop(tokio::time::timeout(Duration::from_secs(1), server).await);
    let (_, report) = outcome?;
    match &context.report {
        Some(path) => report.write(path),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn an_evaluator_is_there_while_it_runs_and_where_it_has_evaluated_the_last_step() {
        let folder = tempfile::tempdir().expect("a folder");
        let model_dir = folder.path();
        assert!(
            !has_evaluator(model_dir, Some(301)).await,
            "none was started"
        );
        EvaluatorMark {
            process_id: 7,
            started_unix_secs: 9,
        }
        .write(model_dir)
        .expect("there is room");
        assert!(has_evaluator(model_dir, None).await, "one runs");
        let result = r#"{"cluster_epoch": 1, "global_step": 301}"#;
        std::fs::write(model_dir.join("eval/result.json"), result).expect("there is room");
        EvaluatorMark::remove(model_dir).expect("removed");
        assert!(
            has_evaluator(model_dir, Some(301)).await,
            "it has ended before the chief looked"
        );
        assert!(
            !has_evaluator(model_dir, Some(400)).await,
            "it was stopped before the end"
        );
    }
}
