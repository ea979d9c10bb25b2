//! The command line of the benchmarks.

use std::path::PathBuf;

use clap::builder::TypedValueParser as _;
use clap::{Args, Subcommand, ValueEnum};
use trainyard_command::{Format, JobArguments};
use trainyard_run_config::{Durability, Encoding};

#[derive(Debug, Subcommand)]
pub(crate) enum Bench {
    /// The parameter servers alone: pulls and pushes of real workers, without a model.
    Ps(BenchPs),
    /// The parameter servers, or the training of a job, by number of workers.
    Scale(BenchScale),
    /// Reading a job's training input.
    Input(BenchJob),
    /// The forward and backward pass of a job's model.
    Model(BenchJob),
    /// A server of predictions: requests by a rate, or as fast as it answers.
    Serve(BenchServe),
    /// Training a job on a cluster of this machine, in a temporary folder: steps, processor time and memory of each
    /// role.
    Train(BenchTrain),
}

/// Protocol of the requests for predictions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum ServeProtocol {
    /// Open Inference Protocol over HTTP, with tensors of bytes.
    Http,
    /// Open Inference Protocol over HTTP, with tensors of JSON.
    HttpJson,
    /// Open Inference Protocol over gRPC.
    Grpc,
}

impl ServeProtocol {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Http => "HTTP",
            Self::HttpJson => "HTTP with JSON",
            Self::Grpc => "gRPC",
        }
    }
}

#[derive(Debug, Args)]
pub(crate) struct BenchServe {
    /// The job whose training input has the records that are sent.
    #[command(flatten)]
    pub(crate) job: JobArguments,
    /// Address of the server; with --protocol grpc, its address of gRPC.
    #[arg(long, value_name = "HOST:PORT", default_value = "127.0.0.1:8501")]
    pub(crate) server: String,
    /// Name of the model in requests. By default the name of the job file.
    #[arg(long, value_name = "NAME")]
    pub(crate) model: Option<String>,
    /// Protocol of the requests.
    #[arg(long, value_enum, default_value = "http")]
    pub(crate) protocol: ServeProtocol,
    /// File of the requests to send in turn, instead of records of the job: in each line the JSON of a body. With
    /// --protocol http-json, for servers that take other columns.
    #[arg(long, value_name = "FILE.jsonl")]
    pub(crate) requests: Option<PathBuf>,
    /// Rows of a request.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=16384).map(usize::from))]
    pub(crate) rows: usize,
    /// Requests that begin in a second. The latency counts from the intended start. Without it, a connection sends a
    /// request after each answer.
    #[arg(long, value_name = "N", value_parser = rate)]
    pub(crate) rate: Option<f64>,
    /// Connections, each with one request at a time.
    #[arg(long, value_name = "N", default_value_t = 32, value_parser = clap::value_parser!(u16).range(1..=8192).map(usize::from))]
    pub(crate) connections: usize,
    /// Length of the measurement, in seconds.
    #[arg(long, value_name = "SECONDS", default_value_t = 10.0, value_parser = seconds)]
    pub(crate) seconds: f64,
    /// Load before the measurement, in seconds.
    #[arg(long, value_name = "SECONDS", default_value_t = 2.0, value_parser = seconds)]
    pub(crate) warmup: f64,
    /// Format of the output.
    #[arg(long, value_enum, default_value = "text")]
    pub(crate) format: Format,
}

/// Parses requests a second: more than 0, at most a million.
fn rate(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(rate) if rate > 0.0 && rate <= 1e6 => Ok(rate),
        _ => {
            Err("must be a number of requests a second, more than 0 and at most 1000000".to_owned())
        }
    }
}

#[derive(Debug, Args)]
pub(crate) struct BenchTrain {
    /// The job file.
    #[arg(value_name = "JOB.toml")]
    pub(crate) job: PathBuf,
    /// A cluster on this machine, local:ps=2,worker=3; a cluster file with admin addresses; or `none`: one process, as
    /// in `trainyard train`.
    #[arg(long, value_name = "CLUSTER", default_value = "local:ps=1,worker=1")]
    pub(crate) cluster: String,
    /// Length of the measurement, in seconds.
    #[arg(long, value_name = "SECONDS", default_value_t = 15.0, value_parser = seconds)]
    pub(crate) seconds: f64,
    /// Time between the first step of the last task and the measurement, in seconds.
    #[arg(long, value_name = "SECONDS", default_value_t = 2.0, value_parser = seconds)]
    pub(crate) warmup: f64,
    /// Sets one key of the job file, for example input.train.batch_size=512. May be given more than once.
    #[arg(long = "set", value_name = "SECTION.KEY=VALUE")]
    pub(crate) set: Vec<String>,
    /// Least severity of the tasks' log lines: error, warn, info, debug, or a filter.
    #[arg(
        long,
        value_name = "LEVEL",
        env = "TRAINYARD_LOG",
        default_value = "warn"
    )]
    pub(crate) log_level: String,
    /// Format of the output.
    #[arg(long, value_enum, default_value = "text")]
    pub(crate) format: Format,
}

/// Parses a duration of a benchmark: more than 0, at most a day.
fn seconds(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(seconds) if seconds > 0.0 && seconds <= 86_400.0 => Ok(seconds),
        _ => Err("must be a number of seconds, more than 0 and at most 86400".to_owned()),
    }
}

fn payload(text: &str) -> Result<Encoding, String> {
    let found = Encoding::NAMES.into_iter().find(|(name, _)| *name == text);
    found
        .map(|(_, encoding)| encoding)
        .ok_or_else(|| "it must be float32, bfloat16 or float16".to_owned())
}

fn durability(text: &str) -> Result<Durability, String> {
    let known = [Durability::None, Durability::SharedMemory];
    let found = known.into_iter().find(|known| known.name() == text);
    found.ok_or_else(|| {
        "it must be none or shared_memory; a chief assigns backups, so `bench train` measures replica".to_owned()
    })
}

#[derive(Debug, Args)]
pub(crate) struct BenchPs {
    /// Values of a dense variable. Each step reads and updates all of them.
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(crate) dense: usize,
    /// Random rows that each step reads and updates in each table.
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(crate) rows: usize,
    /// Number of tables.
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) tables: usize,
    /// Rows per table.
    #[arg(long, value_name = "N", default_value_t = 1_000_000)]
    pub(crate) table_rows: usize,
    /// Values per row.
    #[arg(long, value_name = "N", default_value_t = 16)]
    pub(crate) dim: usize,
    /// Number of workers.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=1024).map(usize::from))]
    pub(crate) workers: usize,
    /// Workers per process. Each worker has its own session and connections nevertheless.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=1024).map(usize::from))]
    pub(crate) workers_per_process: usize,
    /// Time between the pull and the push of each worker. It stands for the computation of a model.
    #[arg(long, value_name = "MS", default_value_t = 0.0, value_parser = milliseconds)]
    pub(crate) compute_ms: f64,
    /// Steps whose parameters a worker reads ahead while it computes, like strategy.pipeline_depth.
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = clap::value_parser!(u16).range(0..=8).map(usize::from))]
    pub(crate) pipeline_depth: usize,
    /// Type of values on the wire, like strategy.payload.
    #[arg(long, value_name = "TYPE", default_value = "float32", value_parser = payload)]
    pub(crate) payload: Encoding,
    /// What a server does before it acknowledges a push, like parameter_servers.durability: none or shared_memory.
    #[arg(long, value_name = "MODE", default_value = "shared_memory", value_parser = durability)]
    pub(crate) durability: Durability,
    /// Draws rows by Zipf's law with this exponent, 0 to 10. Without it, all rows have the same probability.
    #[arg(long, value_name = "S", value_parser = exponent)]
    pub(crate) zipf: Option<f64>,
    /// Makes the servers listen at socket files (`unix:` addresses) instead of ports.
    #[arg(long, conflicts_with = "slow_ps_ms")]
    pub(crate) unix_sockets: bool,
    /// Delays all traffic of the last server by this time, in each direction.
    #[arg(long, value_name = "MS", value_parser = milliseconds)]
    pub(crate) slow_ps_ms: Option<f64>,
    /// Kills a server at this interval, each in turn, starts it again at once, and reports the time to the next step.
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    pub(crate) kill_every: Option<f64>,
    /// Number of parameter servers, each a process.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=1024).map(usize::from))]
    pub(crate) ps: usize,
    /// Duration of the load.
    #[arg(long, value_name = "SECONDS", default_value_t = 5.0, value_parser = seconds)]
    pub(crate) seconds: f64,
    /// Format of the output.
    #[arg(long, value_enum, default_value = "text")]
    pub(crate) format: Format,
}

#[derive(Debug, Args)]
pub(crate) struct BenchScale {
    /// Numbers of workers to measure, each by itself: 1,2,4,8,16,32,64 by default, or 1,2,4, ... up to the cores of the machine with --train.
    /// There, they are the tasks that train; the chief is one of them unless strategy.chief_trains is false.
    #[arg(long, value_name = "N,N,...", value_delimiter = ',', value_parser = clap::value_parser!(u16).range(1..=1024).map(usize::from))]
    pub(crate) workers: Option<Vec<usize>>,
    /// Trains this job with each number of workers, instead of a load that only reads and updates.
    #[arg(long, value_name = "JOB.toml", conflicts_with_all = ["workers_per_process", "compute_ms", "dense", "rows", "table_rows", "dim", "durability"])]
    pub(crate) train: Option<PathBuf>,
    /// With --train: sets one key of the job file. May be given more than once.
    #[arg(long = "set", value_name = "SECTION.KEY=VALUE", requires = "train")]
    pub(crate) set: Vec<String>,
    /// With --train: time between the first step of the last task and the measurement, in seconds.
    #[arg(long, value_name = "SECONDS", default_value_t = 2.0, value_parser = seconds)]
    pub(crate) warmup: f64,
    /// File to which the curve is written as a picture.
    #[arg(long, value_name = "FILE.svg")]
    pub(crate) plot: Option<PathBuf>,
    /// Workers per process. Each worker has its own session and connections nevertheless.
    #[arg(long, value_name = "N", default_value_t = 16, value_parser = clap::value_parser!(u16).range(1..=1024).map(usize::from))]
    pub(crate) workers_per_process: usize,
    /// Time between the pull and the push of each worker. It stands for the computation of a model.
    #[arg(long, value_name = "MS", default_value_t = 50.0, value_parser = milliseconds)]
    pub(crate) compute_ms: f64,
    /// Number of parameter servers, each a process. A job of multi_worker_mirrored has none.
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u16).range(1..=1024).map(usize::from))]
    pub(crate) ps: usize,
    /// Values of a dense variable. Each step reads and updates all of them.
    #[arg(long, value_name = "N", default_value_t = 100_000)]
    pub(crate) dense: usize,
    /// Random rows that each step reads and updates.
    #[arg(long, value_name = "N", default_value_t = 1000)]
    pub(crate) rows: usize,
    /// Rows of the table.
    #[arg(long, value_name = "N", default_value_t = 1_000_000)]
    pub(crate) table_rows: usize,
    /// Values per row.
    #[arg(long, value_name = "N", default_value_t = 16)]
    pub(crate) dim: usize,
    /// What a server does before it acknowledges a push, like parameter_servers.durability: none or shared_memory.
    #[arg(long, value_name = "MODE", default_value = "shared_memory", value_parser = durability)]
    pub(crate) durability: Durability,
    /// Duration of the load at each number of workers.
    #[arg(long, value_name = "SECONDS", default_value_t = 5.0, value_parser = seconds)]
    pub(crate) seconds: f64,
    /// Format of the output.
    #[arg(long, value_enum, default_value = "text")]
    pub(crate) format: Format,
}

/// Parses a wait of a benchmark: 0 to a minute.
fn milliseconds(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(wait) if (0.0..=60_000.0).contains(&wait) => Ok(wait),
        _ => Err("must be a number of milliseconds, 0 to 60000".to_owned()),
    }
}

/// Parses an exponent of Zipf's law.
fn exponent(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(exponent) if (0.0..=10.0).contains(&exponent) => Ok(exponent),
        _ => Err("must be a number, 0 to 10; ids of real data have about 1".to_owned()),
    }
}

#[derive(Debug, Args)]
pub(crate) struct BenchJob {
    #[command(flatten)]
    pub(crate) job: JobArguments,
    /// Length of each measurement.
    #[arg(long, value_name = "SECONDS", default_value_t = 3.0, value_parser = seconds)]
    pub(crate) seconds: f64,
    /// Format of the output.
    #[arg(long, value_enum, default_value = "text")]
    pub(crate) format: Format,
}

#[derive(Debug, Args)]
pub(crate) struct BenchLoad {
    /// The order, as JSON.
    pub(crate) order: String,
}
