//! `trainyard bench ps`: real parameter servers and workers without a model, each a process of this machine.

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use trainyard_checkpoint::claim_epoch;
use trainyard_cluster_client::{Error, JobEnd, ServerClient, retry};
use trainyard_cluster_spec::{ClusterSpec, Role, Task};
use trainyard_command::{Folder, Format, RuntimeThreads, free_ports, print};
use trainyard_diagnostic::{Code, Diagnostic};
use trainyard_model_dir::{cluster_id, note_prepared};
use trainyard_optimizer::OptimizerConfig;
use trainyard_parameter_server::{Plan, Provenance};
use trainyard_parameter_store::{Guard, Identity, Update};
use trainyard_run_config::Durability;
use trainyard_trainer::into_diagnostic;
use trainyard_variable::{Access, Initializer, Layout, Partitioner, Placement, VariableSpec};

use super::arguments::BenchPs;
use super::load::{Loaded, Order};
use super::servers::{Process, Servers, broken};
use super::slow_link::SlowLink;
use super::traffic::{Load, Traffic};
use super::usage;
use super::zipf::ZipfRows;

/// Timeout for starting a parameter server.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(20);

/// Measures pulls and pushes, and prints the traffic.
pub(super) fn bench(arguments: &BenchPs) -> Result<(), Diagnostic> {
    let traffic = measure(arguments)?;
    print(&match arguments.format {
        Format::Json => {
            serde_json::to_string(&traffic).map_err(|error| broken("encode its result", error))?
                + "\n"
        }
        Format::Text => traffic.text(),
    })
}

/// Starts servers and workers, and runs the load.
pub(super) fn measure(arguments: &BenchPs) -> Result<Traffic, Diagnostic> {
    if arguments.dense == 0 && arguments.rows == 0 {
        let problem = Diagnostic::error(
            Code::E1000,
            "nothing to move: --dense and --rows are both 0",
        );
        return Err(problem.help("for example --dense 1000000, or --rows 4096"));
    }
    if arguments.rows > 0 {
        ZipfRows::new(arguments.table_rows, arguments.zipf)?;
    }
    if arguments.kill_every.is_some() && arguments.durability == Durability::None {
        let problem = "a server that is killed has lost what it held: --kill-every needs --durability shared_memory";
        return Err(Diagnostic::error(Code::E1000, problem));
    }
    let folder = Folder::new()?;
    let addresses = write_files(folder.path(), arguments)?;
    let program = std::env::current_exe().map_err(|error| broken("find its own program", error))?;
    let threads = runtime_threads(arguments);
    let mut servers = Servers::start(&program, folder.path(), arguments.ps, threads)?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| broken("run", error))?;
    let variables = variables(arguments);
    let partitioner = Partitioner::Fixed {
        num_shards: arguments.ps,
    };
    let layout = Layout::new(&variables, partitioner, Placement::Greedy, arguments.ps);
    let order = Order {
        servers: addresses.clone(),
        variables,
        layout,
        cluster_id: String::new(),
        epoch: 0,
        index: 0,
        workers: 0,
        rows_per_step: arguments.rows,
        zipf: arguments.zipf,
        compute_ms: arguments.compute_ms,
        pipeline_depth: arguments.pipeline_depth,
        payload: arguments.payload,
        seconds: arguments.seconds,
    };
    let (mut order, shards, identity) = runtime.block_on(prepare(folder.path(), order))?;
    // Only the workers use the slow link.
    let slow_link = match (arguments.slow_ps_ms, order.servers.last_mut()) {
        (Some(delay), Some(last)) => {
            let link = SlowLink::start(last, Duration::from_secs_f64(delay / 1e3))
                .map_err(|error| broken("slow a server down", error))?;
            *last = link.address().to_string();
            Some(link)
        }
        _ => None,
    };
    let load = run_workers(&program, &order, arguments, &mut servers)?;
    drop(slow_link);
    runtime.block_on(async {
        for shard in &shards {
            let _ = shard
                .finish(identity, "the benchmark has ended", JobEnd::Done)
                .await;
        }
    });
    Ok(Traffic::new(arguments, &load))
}

fn variables(arguments: &BenchPs) -> Vec<VariableSpec> {
    let spec = |name: String, shape: Vec<usize>, access: Access| VariableSpec {
        name,
        shape,
        access,
        initializer: Initializer::Zeros,
        optimizer_group: "all".to_owned(),
    };
    let dense = (arguments.dense > 0)
        .then(|| spec("dense".to_owned(), vec![arguments.dense], Access::Whole));
    let tables = (0..if arguments.rows > 0 {
        arguments.tables
    } else {
        0
    })
        .map(|table| {
            spec(
                format!("table_{table}"),
                vec![arguments.table_rows, arguments.dim],
                Access::Rows,
            )
        });
    dense.into_iter().chain(tables).collect()
}

/// Returns the runtime threads of the processes, which share the cores as in `trainyard up`.
pub(super) fn runtime_threads(arguments: &BenchPs) -> RuntimeThreads {
    let processes = arguments.ps + arguments.workers.div_ceil(arguments.workers_per_process);
    RuntimeThreads::shared_by(processes, arguments.ps)
}

/// Writes a job and a cluster for the servers, and returns their addresses.
fn write_files(folder: &Path, arguments: &BenchPs) -> Result<Vec<String>, Diagnostic> {
    let servers = arguments.ps;
    // These ports lie outside the range from which the system assigns the servers' own admin ports.
    let ports = free_ports(servers + 1).map_err(|error| broken("find free ports", error))?;
    let mut addresses: Vec<String> = ports
        .iter()
        .map(|port| format!("127.0.0.1:{port}"))
        .collect();
    let chief = addresses.pop().unwrap_or_default();
    if arguments.unix_sockets {
        let path =
            |index: usize| format!("unix:{}", folder.join(format!("ps-{index}.sock")).display());
        addresses = (0..servers).map(path).collect();
    }
    let job = format!(
        "model_dir = {:?}\n[input]\nlabel = {{ column = \"y\" }}\ntrain = {{ files = [\"none\"], epochs = 1 }}\n\
         [model]\nkind = \"baseline_regressor\"\n[parameter_servers]\ndurability = {:?}\n",
        folder.join("model"),
        arguments.durability.name()
    );
    let cluster = format!("[cluster]\nchief = [{chief:?}]\nps = {addresses:?}\n");
    for (name, text) in [("job.toml", job), ("cluster.toml", cluster)] {
        std::fs::write(folder.join(name), text)
            .map_err(|error| broken("write its files", error))?;
    }
    Ok(addresses)
}

/// Prepares the servers, as a chief does before workers register.
async fn prepare(
    folder: &Path,
    mut order: Order,
) -> Result<(Order, Vec<Arc<dyn ServerClient>>, Identity), Diagnostic> {
    let model_dir = folder.join("model");
    std::fs::create_dir_all(&model_dir).map_err(|error| broken("make a folder", error))?;
    let id = cluster_id(&model_dir, uuid::Uuid::new_v4().as_u128())?;
    let epoch = claim_epoch(&model_dir)?;
    let cluster = ClusterSpec::load(&folder.join("cluster.toml")).map_err(|mut problems| {
        problems
            .pop()
            .unwrap_or_else(|| broken("read its cluster", "nothing found"))
    })?;
    let task = Task {
        role: Role::Chief,
        index: 0,
    };
    let incarnation = u64::from(std::process::id());
    let identity = Identity {
        cluster_id: id,
        epoch,
        task,
        incarnation,
        session: 0,
    };
    let shards = order.shards()?;
    let plan = Plan {
        variables: order.variables.clone(),
        layout: order.layout.clone(),
        fingerprint: order.layout.fingerprint(&order.variables),
        optimizers: [("all".to_owned(), OptimizerConfig::sgd(1.0))].into(),
        seed: 0,
        global_step_max: 0,
        update: Update::Async,
        hybrid: false,
        checkpoint: None,
        warm_start: None,
        settings: 0,
        provenance: Provenance::default(),
        guard: Guard::default(),
        forget_positions: false,
    };
    let plan = &plan;
    let model_dir = &model_dir;
    let fingerprint = cluster.fingerprint();
    let failed = |error: Error| into_diagnostic(&error);
    for shard in &shards {
        let name = shard.name();
        retry(&identity, name, REQUEST_TIMEOUT, move || {
            shard.claim(identity, fingerprint, model_dir)
        })
        .await
        .map_err(failed)?;
        trainyard_cluster_client::prepare(&identity, &**shard, REQUEST_TIMEOUT, plan)
            .await
            .map_err(failed)?;
        retry(&identity, name, REQUEST_TIMEOUT, move || {
            shard.open(identity)
        })
        .await
        .map_err(failed)?;
    }
    // A server that starts again takes up a log of this epoch.
    note_prepared(model_dir, epoch)?;
    order.cluster_id = format!("{id:032x}");
    order.epoch = epoch;
    Ok((order, shards, identity))
}

/// Starts the workers, releases them at the same time, and collects their results.
fn run_workers(
    program: &Path,
    order: &Order,
    arguments: &BenchPs,
    servers: &mut Servers,
) -> Result<Load, Diagnostic> {
    let mut running: Vec<Process> = Vec::new();
    let mut outputs = Vec::new();
    for index in (0..arguments.workers).step_by(arguments.workers_per_process) {
        let workers = arguments.workers_per_process.min(arguments.workers - index);
        let order = serde_json::to_string(&Order {
            index,
            workers,
            ..order.clone()
        })
        .map_err(|error| broken("give orders", error))?;
        let mut child = Command::new(program)
            .args(["bench-load", &order])
            .envs(runtime_threads(arguments).variable(Role::Worker))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|error| broken("start a worker", error))?;
        outputs.push(child.stdout.take().map(BufReader::new));
        running.push(Process(child));
    }
    let line = |output: &mut Option<BufReader<_>>| {
        let mut text = String::new();
        let read = output.as_mut().map_or(
            Ok(0),
            |output: &mut BufReader<std::process::ChildStdout>| output.read_line(&mut text),
        );
        match read {
            Ok(length) if length > 0 => Ok(text),
            _ => Err(broken(
                "hear from a worker",
                "it has ended; its message stands above",
            )),
        }
    };
    for output in &mut outputs {
        line(output)?;
    }
    let before = servers.processor_time();
    let idle = usage::idle();
    let began = Instant::now();
    for worker in &mut running {
        let input = worker
            .0
            .stdin
            .as_mut()
            .map(|input| input.write_all(b"go\n"));
        input
            .unwrap_or(Ok(()))
            .map_err(|error| broken("start the load", error))?;
    }
    let mut lines =
        || -> Result<Vec<String>, Diagnostic> { outputs.iter_mut().map(line).collect() };
    let (lines, kills) = match arguments.kill_every {
        None => (lines()?, Vec::new()),
        Some(interval) => std::thread::scope(|scope| {
            let (running, ended) = std::sync::mpsc::channel();
            let interval = Duration::from_secs_f64(interval);
            let killed = &mut *servers;
            let killer = scope.spawn(move || killed.kill_in_turn(interval, &ended));
            let lines = lines();
            drop(running);
            let kills = killer.join();
            let kills = kills.map_err(|_| broken("kill servers", "its thread has panicked"))?;
            Ok::<_, Diagnostic>((lines?, kills?))
        })?,
    };
    let seconds = began.elapsed().as_secs_f64();
    let idle_cores = usage::idle_cores(idle, seconds);
    let after = servers.processor_time();
    let spent =
        |(before, after): (&Duration, Duration)| after.saturating_sub(*before).as_secs_f64();
    let processes = lines
        .iter()
        .map(|line| serde_json::from_str(line).map_err(|error| broken("read an outcome", error)))
        .collect::<Result<Vec<Loaded>, Diagnostic>>()?;
    Ok(Load {
        processes,
        seconds,
        idle_cores,
        server_cpu: before.iter().zip(after).map(spent).collect(),
        server_peak_bytes: servers.peak_bytes(),
        kills,
    })
}
