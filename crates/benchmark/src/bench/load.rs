//! Workers of a benchmark, several in a process. Each worker pulls and pushes without pause.

use std::io::{BufRead as _, Write as _};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use rand::SeedableRng as _;
use rand_chacha::ChaCha8Rng;
use serde::{Deserialize, Serialize};
use trainyard_cluster_client::{
    OpenParameters, Parameters, Push, RemoteServer, SequenceNumbers, ServerClient, channel,
};
use trainyard_cluster_spec::{Role, Task};
use trainyard_diagnostic::{Code, Diagnostic};
use trainyard_parameter_store::{BatchId, Identity, Ticket};
use trainyard_run_config::Encoding;
use trainyard_trainer::{Pipeline, beside, into_diagnostic};
use trainyard_variable::{Access, Layout, Read, Reads, VariableSpec};

use super::recovery::micros;
use super::usage;
use super::zipf::ZipfRows;

/// Timeout of a request to a parameter server.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(20);
/// Number of prepared draws of rows, used in turn. It is large, so that the rows of a draw have left the caches when
/// the draw is used again.
const DRAWS: usize = 256;
/// Most latencies that a worker records.
const LATENCIES_MAX: usize = 1_000_000;

/// Least time in which a server that was killed answers again. A step that waits longer may have waited for one.
const SERVER_RESTART_MIN: Duration = Duration::from_millis(10);

/// Order to one load process.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Order {
    pub(super) servers: Vec<String>,
    pub(super) variables: Vec<VariableSpec>,
    pub(super) layout: Layout,
    pub(super) cluster_id: String,
    pub(super) epoch: u64,
    /// Index of the first worker of this process.
    pub(super) index: usize,
    /// Number of workers of this process.
    pub(super) workers: usize,
    pub(super) rows_per_step: usize,
    /// Exponent of Zipf's law by which rows are drawn. `None` draws uniformly.
    pub(super) zipf: Option<f64>,
    /// Wait between pull and push, in milliseconds. It stands for the computation of a model.
    pub(super) compute_ms: f64,
    /// Steps whose parameters a worker reads ahead.
    pub(super) pipeline_depth: usize,
    pub(super) payload: Encoding,
    pub(super) seconds: f64,
}

impl Order {
    /// Returns clients of the servers, without connecting to them.
    pub(super) fn shards(&self) -> Result<Vec<Arc<dyn ServerClient>>, Diagnostic> {
        let shard = |(index, address): (usize, &String)| -> Result<Arc<dyn ServerClient>, _> {
            let task = Task {
                role: Role::Ps,
                index,
            };
            Ok(Arc::new(RemoteServer::new(
                index,
                address,
                channel(task, address)?,
            )))
        };
        self.servers.iter().enumerate().map(shard).collect()
    }
}

/// Result of one load process.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Loaded {
    pub(super) workers: Vec<Outcome>,
    pub(super) cpu_seconds: f64,
}

/// Result of one worker.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(super) struct Outcome {
    pub(super) steps: u64,
    pub(super) seconds: f64,
    pub(super) pulled_bytes: u64,
    pub(super) pushed_bytes: u64,
    /// Rows read from each table. A row that a step draws twice counts once.
    pub(super) rows: u64,
    /// Milliseconds that a step waited for the servers, ascending: for the push of an earlier step and for its own
    /// pull.
    pub(super) latencies: Vec<f32>,
    /// Times at which a step ended that had waited for [`SERVER_RESTART_MIN`] or longer, in microseconds of the Unix epoch.
    pub(super) long_waits: Vec<u64>,
}

fn broken(what: &str, error: impl std::fmt::Display) -> Diagnostic {
    Diagnostic::error(Code::E9002, format!("the load generator {what}: {error}"))
}

/// Opens the sessions of its workers, prints `ready`, waits for a line of input, runs the load, and prints the result.
pub(super) fn run(order: &str) -> Result<(), Diagnostic> {
    let order: Order =
        serde_json::from_str(order).map_err(|error| broken("was given no order", error))?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(|error| broken("has no runtime", error))?;
    let outcome = runtime.block_on(load(&order))?;
    let text = serde_json::to_string(&outcome).map_err(|error| broken("has no outcome", error))?;
    trainyard_command::print(&format!("{text}\n"))
}

async fn load(order: &Order) -> Result<Loaded, Diagnostic> {
    let mut workers = Vec::new();
    for index in order.index..order.index + order.workers {
        workers.push(Worker::open(order, index).await?);
    }
    trainyard_command::print("ready\n")?;
    let _ = std::io::stdout().flush();
    std::io::stdin()
        .lock()
        .read_line(&mut String::new())
        .map_err(|error| broken("was not started", error))?;
    let own = std::process::id();
    let before = usage::of_process(own).unwrap_or_default();
    let running: Vec<_> = workers
        .into_iter()
        .map(|worker| tokio::spawn(worker.load(order.clone())))
        .collect();
    let mut workers = Vec::new();
    for worker in running {
        workers.push(
            worker
                .await
                .map_err(|error| broken("has lost a worker", error))??,
        );
    }
    let after = usage::of_process(own).unwrap_or_default();
    Ok(Loaded {
        workers,
        cpu_seconds: after.saturating_sub(before).as_secs_f64(),
    })
}

/// One worker, with its own session and connections.
struct Worker {
    index: usize,
    law: Option<ZipfRows>,
    parameters: Parameters,
}

impl Worker {
    async fn open(order: &Order, index: usize) -> Result<Self, Diagnostic> {
        let shards = order.shards()?;
        let identity = Identity {
            cluster_id: u128::from_str_radix(&order.cluster_id, 16).unwrap_or(0),
            epoch: order.epoch,
            task: Task {
                role: Role::Worker,
                index,
            },
            incarnation: u64::from(std::process::id()),
            session: (order.epoch << 32) | 1,
        };
        let fingerprint = order.layout.fingerprint(&order.variables);
        let layout = Arc::new(order.layout.clone());
        let opened = Parameters::open(
            shards,
            layout,
            identity,
            OpenParameters {
                latest: SequenceNumbers::default(),
                layout_fingerprint: fingerprint,
                data_shard: index as u64,
            },
            REQUEST_TIMEOUT,
        )
        .await;
        let (parameters, _) = opened.map_err(|error| into_diagnostic(&error))?;
        let parameters = parameters.with_encoding(order.payload);
        let table = order
            .variables
            .iter()
            .find(|spec| spec.access == Access::Rows);
        let law = table
            .map(|spec| ZipfRows::new(spec.rows(), order.zipf))
            .transpose()?;
        Ok(Self {
            index,
            law,
            parameters,
        })
    }

    async fn load(mut self, order: Order) -> Result<Outcome, Diagnostic> {
        let shard = self.index as u64;
        let mut random = ChaCha8Rng::seed_from_u64(shard);
        let compute = Duration::from_secs_f64(order.compute_ms / 1e3);
        // Rows are drawn before the load starts, because drawing and sorting are no part of a worker's work.
        let draws: Vec<(Reads, usize)> = (0..DRAWS)
            .map(|_| reads(&order, self.law.as_ref(), &mut random))
            .collect();
        let mut draws = draws.iter().cycle();
        let began = Instant::now();
        let mut outcome = Outcome::default();
        let mut pipeline: Pipeline<Option<usize>> = Pipeline::new(order.pipeline_depth);
        let mut computed = None::<Push>;
        let mut batch = 0_u64;
        loop {
            let over = began.elapsed().as_secs_f64() >= order.seconds;
            while !over && pipeline.has_room(0) {
                let Some((reads, drawn)) = draws.next() else {
                    break;
                };
                let push = computed.take();
                let step = self.parameters.plan(reads);
                let call = self
                    .parameters
                    .call(push, Some((step, pipeline.spare_held())));
                pipeline.push(Some(*drawn), call);
            }
            if let Some(push) = computed.take() {
                pipeline.push(None, self.parameters.call(Some(push), None));
            }
            let Some(ahead) = pipeline.pop() else { break };
            let asked = Instant::now();
            let returned = ahead
                .call
                .returned()
                .await
                .map_err(|error| into_diagnostic(&error))?;
            outcome.pulled_bytes += returned.traffic.pulled_bytes;
            outcome.pushed_bytes += returned.traffic.pushed_bytes;
            if let Some((_, gradients)) = returned.pushed {
                pipeline.keep_gradients(gradients);
                outcome.steps += 1;
                let waited = asked.elapsed();
                if outcome.latencies.len() < LATENCIES_MAX {
                    outcome.latencies.push(waited.as_secs_f32() * 1e3);
                }
                if waited >= SERVER_RESTART_MIN && outcome.long_waits.len() < LATENCIES_MAX {
                    outcome.long_waits.push(micros(SystemTime::now()));
                }
            }
            let Some(pulled) = returned
                .pulled
                .filter(|pulled| pulled.ticket == Ticket::Granted)
            else {
                continue;
            };
            outcome.rows += ahead.about.unwrap_or(0) as u64;
            let mut gradients = pipeline.spare_gradients();
            let values = &pulled.held.values;
            let mut fill = || {
                gradients.resize_with(values.len(), Vec::new);
                for (gradient, value) in gradients.iter_mut().zip(values) {
                    gradient.clear();
                    gradient.extend(value.iter().map(|value: &f32| value * 1e-6 + 1e-6));
                }
            };
            if pipeline.is_empty() {
                fill();
            } else {
                beside(fill);
            }
            if !compute.is_zero() {
                tokio::time::sleep(compute).await;
            }
            pipeline.keep(pulled.held);
            let id = BatchId {
                pass: 0,
                shard,
                batch,
            };
            batch += 1;
            computed = Some(Push {
                step: pulled.step,
                batch: id,
                batches: 1,
                micro_batch: None,
                optimizer_step: None,
                stores: None,
                gradients,
                rejected: None,
            });
        }
        outcome.seconds = began.elapsed().as_secs_f64();
        outcome.latencies.sort_unstable_by(f32::total_cmp);
        Ok(outcome)
    }
}

/// Returns one step's reads, and the number of rows in each table. A step reads dense variables whole, and the same
/// random rows of all tables.
fn reads(order: &Order, law: Option<&ZipfRows>, random: &mut ChaCha8Rng) -> (Reads, usize) {
    let mut rows: Vec<u32> = law.map_or_else(Vec::new, |law| {
        (0..order.rows_per_step).map(|_| law.draw(random)).collect()
    });
    rows.sort_unstable();
    rows.dedup();
    let rows: Arc<[u32]> = rows.into();
    let read = |spec: &VariableSpec| match spec.access {
        Access::Whole => Read::Whole,
        _ => Read::Rows(Arc::clone(&rows)),
    };
    (order.variables.iter().map(read).collect(), rows.len())
}
