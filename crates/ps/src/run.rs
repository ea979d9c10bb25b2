//! The wiring of a parameter server, and how it ends.

use std::time::Duration;

use tokio::time::{Instant, sleep};
use tonic::service::Routes;
use tracing::{info, warn};
use trainyard_cluster_client::LocalShard;
use trainyard_daemon::{CancellationToken, Context, ServerLimits, serve};
use trainyard_diagnostic::{Code, Diagnostic};
use trainyard_parameter_store::State;

use crate::service::Service;
use crate::tensor_service::TensorService;

/// Time between looks at the store's state.
const LOOK: Duration = Duration::from_millis(20);
/// Time for the last answers to leave, before the server closes.
const FAREWELL: Duration = Duration::from_millis(100);

/// Serves a shard until the job ends, or until told to stop and drained.
///
/// # Errors
/// The port is taken, or the server failed.
pub async fn run(context: Context, stop: CancellationToken) -> Result<(), Diagnostic> {
    let task = context.task;
    let address =
        context.cluster.address(task).map(str::to_owned).ok_or_else(|| {
            Diagnostic::error(Code::E1004, format!("the cluster has no address for {task}"))
        })?;
    let listener = context.listener().await?;
    let shard = LocalShard::new(
        task.index,
        context.cluster.num_ps(),
        context.incarnation,
        context.cluster.fingerprint(),
    );
    info!(%task, %address, "serving");
    context.readiness.set("waiting", false, vec!["chief:0".to_owned()]);
    let service = TensorService::new(Service::new(shard.clone(), task.index, context.incarnation));
    let closing = CancellationToken::new();
    let server = serve(
        listener,
        Routes::new(service),
        trainyard_protocol::DESCRIPTORS,
        &context.readiness,
        ServerLimits::default(),
        closing.clone(),
    );
    let watch = watch(&context, &shard, &stop, &closing);
    let (served, ()) = tokio::join!(server, watch);
    served
}

/// Follows the store, and closes the server when the job has ended or the drain has.
async fn watch(context: &Context, shard: &LocalShard, stop: &CancellationToken, closing: &CancellationToken) {
    let mut known = State::Empty;
    // A draining server waits for the checkpoint that the chief takes at once, or has taken before it ended.
    let mut drain_until = None;
    loop {
        let status = shard.store().status();
        let state = status.state;
        if state != known {
            let (word, ready) = match state {
                State::Empty => ("waiting", false),
                State::Prepared => ("prepared", false),
                State::Open => ("training", true),
                State::Draining => ("draining", true),
                State::Finished => ("finished", false),
            };
            context.readiness.set(word, ready, Vec::new());
            known = state;
        }
        if state == State::Finished {
            break;
        }
        if stop.is_cancelled() && drain_until.is_none() {
            if matches!(state, State::Empty | State::Prepared) {
                info!("stopping: nothing was trained here");
                break;
            }
            shard.store().drain();
            drain_until = Some(Instant::now() + context.drain_deadline.mul_f32(0.8));
            info!("draining: waiting for the chief's last checkpoint");
        }
        if drain_until.is_some() && status.saved_version == Some(status.version) {
            info!(version = status.version, "stopping: the latest checkpoint holds every update");
            break;
        }
        if drain_until.is_some_and(|until| Instant::now() >= until) {
            warn!(
                "stopping without a checkpoint: the chief gave no sign; updates since its last one are lost"
            );
            break;
        }
        sleep(LOOK).await;
    }
    sleep(FAREWELL).await;
    closing.cancel();
}
