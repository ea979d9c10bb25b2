//! The worker: registers with the chief and trains until the job ends, or until it is told to stop.
//!
//! The training loop itself is in `trainyard-trainer`. This crate connects it to a chief and parameter servers over the
//! network.

use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use tokio::time::Instant;
use tonic::service::Routes;
use trainyard_cluster_client::{RemoteServer, ServerClient, channel_in_turn};
use trainyard_cluster_spec::{Role, Servers, Task};
use trainyard_daemon::{CancellationToken, Context, ReadinessState, ServerLimits, Services, serve};
use trainyard_diagnostic::{Code, Diagnostic};
use trainyard_model::{AnyModel, Build, PREMADE, add_constants};
use trainyard_runtime::apart;
use trainyard_storage::ResultFile;
use trainyard_trainer::{Mirror, RemoteCoordinator, check_cluster};

/// Runs the daemon `trainyard-worker` with the premade estimators. Returns its exit code.
pub fn main() -> ExitCode {
    trainyard_daemon::launch(Role::Worker, |context, stop| run(context, PREMADE, stop))
}

/// Trains until the job ends, the input ends, or the token is cancelled.
///
/// # Errors
/// The model cannot be built, the input cannot be read, or the cluster was not reachable in time.
pub fn run(
    context: Context,
    build: Build,
    stop: CancellationToken,
) -> BoxFuture<'static, Result<(), Diagnostic>> {
    // The future is boxed, so that it is compiled once here, and not again in each program that runs a worker.
    Box::pin(work(context, build, stop))
}

async fn work(
    mut context: Context,
    build: Build,
    stop: CancellationToken,
) -> Result<(), Diagnostic> {
    let model: Arc<AnyModel> = Arc::from(build(&context.job)?);
    add_constants(&mut context.job, &*model);
    let chief = Task {
        role: Role::Chief,
        index: 0,
    };
    let addresses = context.cluster.chiefs();
    if addresses.is_empty() {
        return Err(Diagnostic::error(Code::E1007, "the cluster has no chief")
            .help("add chief = [\"host:2222\"] to [cluster]"));
    }
    let coordinator = RemoteCoordinator::new(
        &addresses,
        channel_in_turn(&context.network, chief, &addresses)?,
    );
    let mirrors = context.job.strategy.kind.is_mirrored();
    let servers = context.cluster.of_role(Role::Ps);
    let servers = if context.job.is_replicated() {
        RemoteServer::all_replicated(&context.network, servers)?
    } else {
        RemoteServer::all(&context.network, servers)?
    };
    let mut shards: Vec<Arc<dyn ServerClient>> = Vec::new();
    for server in servers {
        shards.push(Arc::new(server.behind(usize::from(mirrors))));
    }
    check_cluster(&context.job, shards.len())?;
    let address = context
        .cluster
        .address(context.task)
        .unwrap_or_default()
        .to_owned();
    let mut mirror = None;
    let mut served = None;
    let closing = CancellationToken::new();
    if mirrors {
        let (own, hub) = Mirror::remote(
            context.network.clone(),
            context.incarnation,
            context.cluster.fingerprint(),
        );
        let listener = context.listener().await?;
        let routes = Routes::new(hub.service());
        let context = context.clone();
        let end = closing.clone();
        mirror = Some(own);
        served = Some(tokio::spawn(async move {
            let limits = ServerLimits {
                drain: Duration::from_millis(200),
                ..ServerLimits::default()
            };
            let services = Services {
                routes,
                descriptors: trainyard_protocol::DESCRIPTORS,
            };
            serve(listener, services, &context, limits, end).await
        }));
    }
    let readiness = context.readiness.clone();
    let config = trainyard_trainer::Config {
        job: Arc::clone(&context.job),
        task: context.task,
        incarnation: context.incarnation,
        started: Instant::now()
            .checked_sub(context.started.elapsed().unwrap_or_default())
            .unwrap_or_else(Instant::now),
        started_unix_secs: context.started_unix_secs(),
        servers: Servers::of(&context.cluster),
        // Without parameter servers, the worker's own copy of the parameters counts as one.
        num_ps: shards.len().max(1),
        address,
        connect_deadline: context.connect_deadline,
        set_status: Arc::new(move |status| {
            readiness.set(ReadinessState {
                state: status.state.to_owned(),
                ready: status.is_ready,
                waiting_for: status.waiting_for,
            });
        }),
        progress: Arc::new(|_| {}),
        mirror,
        hold: None,
        callbacks_end_job: false,
    };
    // The training loop has its own thread: its arithmetic must not delay connections and heartbeats.
    let watchdog = context.watchdog.clone();
    let training = trainyard_trainer::run(config, model, Arc::new(coordinator), shards, stop);
    let training = apart(async move { watchdog.within(training).await });
    let outcome = training.await.map_err(|error| {
        Diagnostic::error(
            Code::E9001,
            format!("the training loop has failed: {error}"),
        )
    });
    closing.cancel();
    if let Some(served) = served {
        drop(tokio::time::timeout(Duration::from_secs(1), served).await);
    }
    let outcome = outcome??;
    if let Some(path) = &context.report {
        let report = serde_json::json!({
            "task": context.task.to_string(), "steps": outcome.steps, "examples": outcome.examples,
            "train_seconds": outcome.train_seconds, "first_step_seconds": outcome.first_step_seconds,
            "final_loss": outcome.loss,
        });
        ResultFile::write(path, format!("{report}\n").as_bytes())?;
    }
    Ok(())
}
