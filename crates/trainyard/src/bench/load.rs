//! One worker of a benchmark: pulls and pushes as fast as it is answered.

use std::io::{BufRead as _, Write as _};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rand::{RngExt as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;
use serde::{Deserialize, Serialize};
use trainyard_cluster_client::{Parameters, RemoteShard, Shard, channel};
use trainyard_cluster_spec::{Role, Task};
use trainyard_diagnostic::{Code, Diagnostic};
use trainyard_parameter_store::{BatchId, Identity, Ticket};
use trainyard_trainer::into_diagnostic;
use trainyard_variable::{Access, Layout, Read, Reads, VariableSpec};

use super::usage;

/// Longest wait for a parameter server.
const DEADLINE: Duration = Duration::from_secs(20);
/// Latencies that are kept.
const LATENCIES_MAX: usize = 1_000_000;

/// What a worker is told.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Order {
    pub(super) servers: Vec<String>,
    pub(super) variables: Vec<VariableSpec>,
    pub(super) layout: Layout,
    pub(super) cluster_id: String,
    pub(super) epoch: u64,
    pub(super) index: usize,
    pub(super) rows_per_step: usize,
    pub(super) seconds: f64,
}

impl Order {
    /// Returns the servers; none is spoken to yet.
    pub(super) fn shards(&self) -> Result<Vec<Shard>, Diagnostic> {
        let shard = |(index, address): (usize, &String)| {
            let task = Task { role: Role::Ps, index };
            Ok(Shard::Remote(RemoteShard::new(index, address, channel(task, address)?)))
        };
        self.servers.iter().enumerate().map(shard).collect()
    }
}

/// What it has done.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Outcome {
    pub(super) steps: u64,
    pub(super) seconds: f64,
    pub(super) pulled_bytes: u64,
    pub(super) pushed_bytes: u64,
    pub(super) cpu_seconds: f64,
    /// Milliseconds of a step, ascending.
    pub(super) latencies: Vec<f32>,
}

fn broken(what: &str, error: impl std::fmt::Display) -> Diagnostic {
    Diagnostic::error(Code::E9002, format!("the load generator {what}: {error}"))
}

/// Opens a session, says that it is ready, waits for a line, loads, and prints its outcome.
pub(super) fn run(order: &str) -> Result<(), Diagnostic> {
    let order: Order = serde_json::from_str(order).map_err(|error| broken("was given no order", error))?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .map_err(|error| broken("has no runtime", error))?;
    let outcome = runtime.block_on(load(&order))?;
    let text = serde_json::to_string(&outcome).map_err(|error| broken("has no outcome", error))?;
    crate::output::print(&format!("{text}\n"))
}

async fn load(order: &Order) -> Result<Outcome, Diagnostic> {
    let shards = order.shards()?;
    let identity = Identity {
        cluster_id: u128::from_str_radix(&order.cluster_id, 16).unwrap_or(0),
        epoch: order.epoch,
        task: Task { role: Role::Worker, index: order.index },
        incarnation: u64::from(std::process::id()),
        session: 1,
        seq: 0,
    };
    let fingerprint = order.layout.fingerprint(&order.variables);
    let layout = Arc::new(order.layout.clone());
    let shard = order.index as u64;
    let (mut parameters, _) = Parameters::open(shards, layout, identity, fingerprint, shard, DEADLINE)
        .await
        .map_err(|error| into_diagnostic(&error))?;
    let (mut values, mut gradients) = (Vec::new(), Vec::new());
    let mut random = ChaCha8Rng::seed_from_u64(order.index as u64);
    crate::output::print("ready\n")?;
    let _ = std::io::stdout().flush();
    std::io::stdin()
        .lock()
        .read_line(&mut String::new())
        .map_err(|error| broken("was not started", error))?;
    let own = std::process::id();
    let (before, began) = (usage::of_process(own).unwrap_or_default(), Instant::now());
    let (mut steps, mut latencies) = (0, Vec::new());
    while began.elapsed().as_secs_f64() < order.seconds {
        let reads = reads(order, &mut random);
        let start = Instant::now();
        let pulled = parameters.pull(&reads, &mut values).await.map_err(|error| into_diagnostic(&error))?;
        if pulled.ticket != Ticket::Granted {
            break;
        }
        gradients.resize_with(values.len(), Vec::new);
        for (gradient, value) in gradients.iter_mut().zip(&values) {
            gradient.clear();
            gradient.extend(value.iter().map(|value: &f32| value * 1e-6 + 1e-6));
        }
        let batch = BatchId { pass: 0, shard, batch: steps };
        parameters.push(batch, &reads, &gradients).await.map_err(|error| into_diagnostic(&error))?;
        steps += 1;
        if latencies.len() < LATENCIES_MAX {
            latencies.push(start.elapsed().as_secs_f32() * 1e3);
        }
    }
    let (seconds, traffic) = (began.elapsed().as_secs_f64(), parameters.traffic());
    latencies.sort_unstable_by(f32::total_cmp);
    let after = usage::of_process(own).unwrap_or_default();
    Ok(Outcome {
        steps,
        seconds,
        pulled_bytes: traffic.pulled_bytes,
        pushed_bytes: traffic.pushed_bytes,
        cpu_seconds: after.saturating_sub(before).as_secs_f64(),
        latencies,
    })
}

/// Dense variables whole, and of all tables the same random rows.
fn reads(order: &Order, random: &mut ChaCha8Rng) -> Reads {
    let table = order.variables.iter().find(|spec| spec.access == Access::Rows);
    let rows: Arc<[u32]> = match table {
        Some(spec) => {
            let mut rows: Vec<u32> =
                (0..order.rows_per_step).map(|_| random.random_range(0..spec.rows() as u32)).collect();
            rows.sort_unstable();
            rows.dedup();
            rows.into()
        }
        None => Arc::from([]),
    };
    let read = |spec: &VariableSpec| match spec.access {
        Access::Whole => Read::Whole,
        _ => Read::Rows(Arc::clone(&rows)),
    };
    order.variables.iter().map(read).collect()
}
