//! The wiring of a replicated parameter server. It holds a replica of its own shard, and one of the shard before it.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, sleep};
use tonic::service::Routes;
use tracing::info;
use trainyard_cluster_spec::{Role, Task};
use trainyard_daemon::{CancellationToken, Context, ServerLimits, serve};
use trainyard_diagnostic::{Code, Diagnostic};
use trainyard_parameter_store::State;
use trainyard_protocol::limits::SHIPPED_MESSAGE_BYTES_MAX;
use trainyard_protocol::v1::replica_service_server::ReplicaServiceServer;

use crate::replication::pair_telemetry;
use crate::replication::replica::Replica;
use crate::replication::replica_service::Replicas;
use crate::replication::shard_service::ShardService;
use crate::run::{LOG_RETIRE_INTERVAL, POLL_INTERVAL, REPLY_FLUSH_DELAY, retire, word_of};
use crate::tensor_service::MessageBudget;

/// Time that the chief has to dismiss the server after the shards served here have finished.
const DISMISSAL_TIMEOUT: Duration = Duration::from_secs(3);

/// Time for open streams to end when the server closes.
const STREAM_CLOSE_TIMEOUT: Duration = Duration::from_millis(200);

/// Returns the server that holds the second replica of a shard.
fn backup_of(context: &Context, shard: usize) -> Result<(Task, String), Diagnostic> {
    let next = (shard + 1) % context.cluster.num_ps();
    peer(context, next)
}

fn peer(context: &Context, index: usize) -> Result<(Task, String), Diagnostic> {
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

/// Serves the shards whose primary is on this server, and follows the others, until the job ends, or until the token
/// stops this server and it has drained.
///
/// # Errors
/// The cluster has only one server, the port is taken, or the server failed.
pub(crate) async fn run_pair(context: Context, stop: CancellationToken) -> Result<(), Diagnostic> {
    let task = context.task;
    let num_ps = context.cluster.num_ps();
    if let Some(problem) = context.job.lacks_backup(num_ps) {
        return Err(problem);
    }
    let before = (task.index + num_ps - 1) % num_ps;
    let own = Replica::new(&context, task.index, backup_of(&context, task.index)?);
    let other = Replica::new(&context, before, peer(&context, before)?);
    let replicas = Replicas::new(vec![Arc::new(own), Arc::new(other)], context.incarnation);
    let listener = context.listener().await?;
    pair_telemetry::describe();
    let address = context.cluster.address(task).unwrap_or_default();
    info!(%task, %address, backs_up = %format!("ps:{before}"), "serving");
    context
        .readiness
        .set("waiting", false, vec!["chief:0".to_owned()]);
    let follows = ReplicaServiceServer::new(replicas.clone())
        .max_decoding_message_size(SHIPPED_MESSAGE_BYTES_MAX)
        .max_encoding_message_size(SHIPPED_MESSAGE_BYTES_MAX);
    let budget = MessageBudget::new(context.job.parameter_servers.memory_bytes_max);
    let closing = CancellationToken::new();
    let server = serve(
        listener,
        Routes::new(ShardService::new(replicas.clone(), task.index, budget)).add_service(follows),
        trainyard_protocol::DESCRIPTORS,
        &context,
        // The streams of the chief and of the neighbour servers do not end by themselves.
        ServerLimits {
            drain: STREAM_CLOSE_TIMEOUT,
            ..ServerLimits::default()
        },
        closing.clone(),
    );
    let work = async {
        let worked = watch(&context, &replicas, &stop).await;
        sleep(REPLY_FLUSH_DELAY).await;
        closing.cancel();
        worked
    };
    let (served, worked) = tokio::join!(server, work);
    worked.and(served)
}

/// Polls the replicas. Returns when the job has ended or the server has drained.
async fn watch(
    context: &Context,
    replicas: &Replicas,
    stop: &CancellationToken,
) -> Result<(), Diagnostic> {
    let mut known = None;
    let mut drain_until = None;
    let mut drained = Vec::<Arc<Replica>>::new();
    let mut retired = Instant::now();
    let mut finished = Instant::now();
    loop {
        if let Some(failure) = replicas.iter().find_map(|replica| replica.failure()) {
            return Err(failure);
        }
        let serving = replicas.iter().filter_map(|replica| replica.serving());
        if let Some(failure) = serving.filter_map(|service| service.failure()).next() {
            return Err(failure);
        }
        if retired.elapsed() >= LOG_RETIRE_INTERVAL {
            for replica in replicas.iter() {
                pair_telemetry::record(replica);
                if let Some(journal) = replica.journal() {
                    retire(&journal, context).await;
                }
            }
            retired = Instant::now();
        }
        let serving: Vec<&Arc<Replica>> = replicas
            .iter()
            .filter(|replica| replica.is_primary())
            .collect();
        // The server reports the least advanced state of the shards that it serves.
        let states = serving
            .iter()
            .map(|replica| replica.store().store().status().state);
        let state = states
            .min_by_key(|state| *state as u8)
            .unwrap_or(State::Empty);
        let now = (state, serving.len());
        if known != Some(now) {
            let (word, ready) = if serving.is_empty() {
                ("standby", false)
            } else {
                word_of(state)
            };
            context.readiness.set(word, ready, Vec::new());
            known = Some(now);
        }
        if replicas.is_dismissed() {
            replicas.iter().for_each(|replica| replica.forget());
            info!("the job has ended");
            return Ok(());
        }
        if state != State::Finished {
            finished = Instant::now();
        }
        if !serving.is_empty() && finished.elapsed() >= DISMISSAL_TIMEOUT {
            info!("the job has ended, and nobody has said more");
            return Ok(());
        }
        if stop.is_cancelled() && drain_until.is_none() {
            if serving.is_empty()
                || matches!(state, State::Empty | State::Preparing | State::Prepared)
            {
                serving
                    .iter()
                    .for_each(|replica| replica.store().store().cancel_preparing());
                info!("stopping: no worker is served here");
                return Ok(());
            }
            serving
                .iter()
                .for_each(|replica| replica.store().store().drain());
            // Only the shards served now are drained. A shard that this server takes over later from a stopping
            // server has a log here.
            drained = serving.into_iter().cloned().collect();
            drain_until = Some(Instant::now() + context.drain_deadline.mul_f32(0.8));
            info!("draining: waiting for the chief's last checkpoint");
        }
        if drain_until.is_some()
            && drained
                .iter()
                .all(|replica| !replica.is_primary() || replica.store().store().close_if_saved())
        {
            info!("stopping: the latest checkpoint holds every update");
            return Ok(());
        }
        if drain_until.is_some_and(|until| Instant::now() >= until) {
            info!("stopping without a checkpoint: the log has the updates since the last one");
            return Ok(());
        }
        sleep(POLL_INTERVAL).await;
    }
}
