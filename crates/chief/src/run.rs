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
use trainyard_checkpoint::{
    Evaluated, EvaluatorMark, RunLock, Runner, cluster_id, known_cluster_id,
};
use trainyard_cluster_client::{RemoteShard, Shard};
use trainyard_cluster_spec::{Role, Servers, Task};
use trainyard_daemon::{CancellationToken, Context, ServerLimits, serve};
use trainyard_diagnostic::{Code, Diagnostic};
use trainyard_model::{AnyModel, Build};
use trainyard_protocol::limits;
use trainyard_protocol::v1::session_service_server::SessionServiceServer;
use trainyard_run_config::{Agreement, Job, Sharding, UpdateConfig};
use trainyard_runtime::blocking;
use trainyard_trainer::{Mirror, OnStanding, OnStep, check_cluster, plan, scale_learning_rates};

use crate::clock::Clock;
use crate::lead::{Ending, host};
use crate::observation::Observation;
use crate::page::RunPage;
use crate::service::Service;
use crate::standby;
use crate::{Admission, Data, Lead, LocalCoordinator, Pairs, Roster, RosterConfig, lead};

/// Silence after which a task counts as gone.
const LEASE: Duration = Duration::from_secs(5);
/// Time between heartbeats.
const HEARTBEAT_INTERVAL: Duration = Duration::from_millis(400);
/// Silence after which a task whose connection has broken off counts as gone: its process is, or it would have called.
const RETURN_WITHIN: Duration = Duration::from_millis(500);
/// Silence after which another process may take a task over.
const TAKEOVER: Duration = Duration::from_millis(1000);

impl Lead {
    /// Puts together what a chief leads with: model, layout, servers and roster.
    ///
    /// # Errors
    /// The model cannot be built, or the model folder not be used.
    pub fn new(
        context: &Context,
        model: Box<AnyModel>,
        shards: Vec<Shard>,
        standing: OnStanding,
        progress: OnStep,
    ) -> Result<Self, Diagnostic> {
        let job = Arc::clone(&context.job);
        let servers = shards
            .iter()
            .filter(|shard| matches!(shard, Shard::Remote(_)))
            .count();
        // A store in this process stands for a server.
        let mut plan = plan(&job, &*model, servers.max(1));
        let fingerprint = plan.fingerprint;
        let runner = Runner {
            host: host(),
            process_id: std::process::id(),
            started_unix_secs: context.started_unix_secs(),
        };
        let alone = servers == 0 && context.cluster.standbys.is_empty();
        let run_lock = RunLock::take(&job.model_dir, alone, &runner)?;
        let id = cluster_id(&job.model_dir, uuid::Uuid::new_v4().as_u128())?;
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
        let asynchronous = !matches!(job.strategy.update, UpdateConfig::Sync { .. });
        // Whoever comes later may do all the work; only the size of a synchronous step is told by those who are known.
        let others_may = admission(&job) == Admission::Open && asynchronous;
        if expected.is_empty() && !others_may {
            let message =
                "nobody trains: strategy.chief_trains is false and the cluster has no worker";
            return Err(Diagnostic::error(Code::E1006, message)
                .help("add a worker to the cluster, or let the chief train"));
        }
        let tasks = expected.len();
        let lanes = lanes(&job, tasks)?;
        scale_learning_rates(&job, &mut plan, if lanes > 0 { lanes } else { tasks });
        let clock = Clock::new(context.started);
        let observation = Observation::new(clock, shards.iter().map(|shard| task_of(shard.name())));
        let handed_out = job.input.train.sharding == Sharding::Dynamic;
        let data = handed_out.then(|| Data::of(&job, lanes)).transpose()?;
        let (coordinator, ended) = LocalCoordinator::new(
            Roster::new(RosterConfig {
                cluster_id: id,
                servers: Servers::of(&context.cluster),
                layout_fingerprint: fingerprint,
                job: Agreement::of(&context.job),
                expected,
                admission: admission(&job),
                lease: LEASE,
                heartbeat_interval: HEARTBEAT_INTERVAL,
                takeover: TAKEOVER,
                return_within: RETURN_WITHIN,
                lanes,
            }),
            data,
        );
        let page = RunPage::new(context, coordinator.clone(), observation.clone());
        context.page.show(move |path| page.answer(path));
        Ok(Self {
            model: Arc::from(model),
            shards,
            plan,
            // Whichever of the chiefs leads is the first.
            task: Task {
                role: Role::Chief,
                index: 0,
            },
            incarnation: context.incarnation,
            started: Instant::now()
                .checked_sub(context.started.elapsed().unwrap_or_default())
                .unwrap_or_else(Instant::now),
            started_unix_secs: context.started_unix_secs(),
            cluster_id: id,
            servers: Servers::of(&context.cluster),
            address: context
                .cluster
                .address(context.task)
                .unwrap_or("this process")
                .to_owned(),
            run_lock,
            connect_deadline: context.connect_deadline,
            coordinator,
            ended,
            tasks,
            lanes,
            mirror: None,
            pairs: None,
            num_ps: servers.max(1),
            standing,
            progress,
            pulse: context.pulse.clone(),
            observation,
            events: None,
            looked: watch::Sender::default(),
            job,
        })
    }
}

/// The task in a server's name, which may say where it listens, too.
fn task_of(name: &str) -> String {
    name.split(" at ").next().unwrap_or_default().to_owned()
}

/// Returns who may join while the job runs.
fn admission(job: &Job) -> Admission {
    match job.elastic() {
        Ok(()) => Admission::Open,
        Err(reason) => Admission::Expected(reason),
    }
}

/// Returns the batches of a synchronous step; 0 where the updates are not synchronous.
fn lanes(job: &Job, tasks: usize) -> Result<usize, Diagnostic> {
    let UpdateConfig::Sync {
        replicas_to_aggregate,
    } = job.strategy.update
    else {
        return Ok(0);
    };
    match replicas_to_aggregate {
        Some(given) if given > tasks => {
            let message = format!(
                "strategy.replicas_to_aggregate must be at most {tasks}, the tasks that train, given {given}"
            );
            Err(Diagnostic::error(Code::E1006, message)
                .help("add workers to the cluster, or aggregate fewer batches"))
        }
        Some(given) => Ok(given),
        None => Ok(tasks),
    }
}

/// Leads and trains until the job ends, or until told to stop.
///
/// # Errors
/// The job cannot begin or go on.
pub fn run(
    context: Context,
    build: Build,
    stop: CancellationToken,
) -> BoxFuture<'static, Result<(), Diagnostic>> {
    // Boxed, so that it is compiled here and not once more in each program that is the chief.
    Box::pin(turn_and_lead(context, build, stop))
}

/// Time in which an evaluator comes that is started with the others.
const EVALUATOR_COMES: Duration = Duration::from_secs(30);

/// Says early that nobody evaluates, where nobody has come to.
async fn miss_evaluator(job: Arc<Job>) {
    tokio::time::sleep(EVALUATOR_COMES).await;
    if !has_evaluator(&job.model_dir, None).await {
        warn_of_no_evaluator(&job);
    }
}

/// Whether an evaluator runs, or has ended because it has evaluated `last_step`. Where that cannot be told, nobody is warned.
async fn has_evaluator(model_dir: &Path, last_step: Option<u64>) -> bool {
    let model_dir = model_dir.to_owned();
    let look =
        move || -> Result<bool, trainyard_checkpoint::Error> {
            // The mark first: an evaluator writes its last result before it takes its mark away.
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

/// Warns of a job that is to be evaluated by nobody.
fn warn_of_no_evaluator(job: &Job) {
    let exports = if job.exporters.is_empty() {
        ""
    } else {
        ", and nothing is exported"
    };
    warn!(
        "no evaluator is there: the job has [input.eval], and its checkpoints are not evaluated{exports}. Start \
         `trainyard-evaluator` with the same job file, or `trainyard evaluate` now and then"
    );
}

/// Time for a server to say which cluster it is of, before this chief writes into an empty model folder.
const CLUSTER_ID_TIMEOUT: Duration = Duration::from_secs(1);

/// Refuses to begin a cluster in an empty model folder where servers that are up are of another: the folder is not mounted on this
/// host, most likely. Nothing has been written when this is called, and no worker knows of this chief.
async fn refuse_unmounted_model_dir(context: &Context) -> Result<(), Diagnostic> {
    let model_dir = context.job.model_dir.clone();
    let known = blocking(move || known_cluster_id(&model_dir)).await;
    if !matches!(known, Ok(Ok(None))) {
        // Whatever is wrong with the folder is told where it is used.
        return Ok(());
    }
    let servers = context.cluster.of_role(Role::Ps);
    let remote = RemoteShard::all(&context.network, servers, context.job.is_replicated())?;
    let asked = remote.into_iter().map(|server| async move {
        let shard = Shard::Remote(server);
        let told = tokio::time::timeout(CLUSTER_ID_TIMEOUT, shard.status()).await;
        let cluster = told.ok()?.ok()?.store.cluster_id?;
        Some((shard.name().to_owned(), cluster))
    });
    let told = join_all(asked).await;
    let Some((server, cluster)) = told.into_iter().flatten().next() else {
        return Ok(());
    };
    let model_dir = context.job.model_dir.display();
    let message = format!(
        "model_dir {model_dir} is empty on the host of {}, and {server} is of cluster {cluster:032x} already",
        context.task
    );
    Err(Diagnostic::error(Code::E2006, message)
        .note("nothing has been written there")
        .help(
            "mount the folder on this host; to begin anew in an empty folder, stop the parameter servers first",
        ))
}

async fn turn_and_lead(
    context: Context,
    build: Build,
    stop: CancellationToken,
) -> Result<(), Diagnostic> {
    let model = build(&context.job)?;
    let servers: Vec<(Task, String)> = context
        .cluster
        .of_role(Role::Ps)
        .map(|(task, address)| (task, address.to_owned()))
        .collect();
    check_cluster(&context.job, servers.len())?;
    refuse_unmounted_model_dir(&context).await?;
    if !standby::turn(&context, &stop).await? {
        return Ok(());
    }
    let mirrors = context.job.strategy.kind.is_mirrored();
    let mut shards = Vec::new();
    let mut mirror = None;
    let mut hub = None;
    if mirrors {
        let (own, meets) = Mirror::remote(
            context.network.clone(),
            context.incarnation,
            context.cluster.fingerprint(),
        );
        shards.push(Shard::Local(own.shard.clone()));
        (mirror, hub) = (Some(own), Some(meets));
    }
    let cluster = context.cluster.of_role(Role::Ps);
    let remote = RemoteShard::all(&context.network, cluster, context.job.is_replicated())?;
    let remote = remote
        .into_iter()
        .map(|server| server.behind(usize::from(mirrors)));
    shards.extend(remote.map(Shard::Remote));
    let listener = context.listener().await?;
    let readiness = context.readiness.clone();
    let standing: OnStanding =
        Arc::new(move |state, ready, waiting| readiness.set(state, ready, waiting));
    let mut leading = Lead::new(&context, model, shards, standing, Arc::new(|_| {}))?;
    leading.mirror = mirror;
    if context.job.is_replicated() && !servers.is_empty() {
        leading.pairs = Some(Pairs::new(
            &context.network,
            &servers,
            leading.cluster_id,
            context.job.model_dir.clone(),
        )?);
    }
    let service = SessionServiceServer::new(Service::new(leading.coordinator.clone()))
        .max_decoding_message_size(limits::CONTROL_MESSAGE_BYTES_MAX)
        .max_encoding_message_size(limits::PARCEL_MESSAGE_BYTES_MAX);
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
        serve(
            listener,
            routes,
            trainyard_protocol::DESCRIPTORS,
            &own,
            limits,
            end,
        )
        .await
    });
    let job = Arc::clone(&context.job);
    let missed = job
        .input
        .eval
        .is_some()
        .then(|| AbortOnDropHandle::new(tokio::spawn(miss_evaluator(job))));
    let outcome = lead(leading, stop).await;
    drop(missed);
    // A job that evaluations have ended has an evaluator.
    if let Ok((Ending::Done, report)) = &outcome
        && context.job.input.eval.is_some()
        && report.ended_early.is_none()
        && !has_evaluator(&context.job.model_dir, Some(report.global_step)).await
    {
        warn_of_no_evaluator(&context.job);
    }
    // Tasks that still ask are told that the job is over, before the door closes.
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
