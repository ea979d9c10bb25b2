//! The command line.

use std::io::IsTerminal as _;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::builder::TypedValueParser as _;
use clap::{Args, Parser, Subcommand, ValueEnum};
use trainyard_daemon::{Arguments, LogFormat, finish, start_logging};
use trainyard_diagnostic::Diagnostic;
use trainyard_model::{Error, Model};
use trainyard_run_config::{Job, PayloadType};

use crate::{bench, check, datagen, import_tf, inspect, one_shot, run, train, transform, up};

/// Exit code of a wrong command line (sysexits `EX_USAGE`).
const USAGE: u8 = 64;

#[derive(Debug, Parser)]
#[command(
    name = "trainyard",
    version,
    about = "Trains models on one machine or many, with parameter servers."
)]
struct Command {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Trains, evaluates and exports in one process.
    Train(Train),
    /// Starts every task of a cluster on this machine, and ends when the job does.
    Up(Up),
    /// Runs one task. Its role comes from --role, or from the environment variable TF_CONFIG.
    Run(Run),
    /// Checks job, cluster and data, and starts nothing.
    Check(Check),
    /// Scores a checkpoint.
    Evaluate(OneShot),
    /// Writes the predictions of a checkpoint, one line a record.
    Predict(Predict),
    /// Writes a checkpoint for other programs: its variables, or the model as an ONNX graph, with a description.
    Export(Export),
    /// Writes what an exported ONNX graph takes, one JSON object a record: the ids of hashed and crossed features among
    /// it.
    Transform(Transform),
    /// Shows the checkpoints of a model folder.
    Inspect(Inspect),
    /// Shows a checkpoint that TensorFlow wrote, matches it to a job, and takes it over.
    #[command(name = "import-tf")]
    ImportTf(ImportTf),
    /// Measures the pieces of training on this machine.
    #[command(subcommand)]
    Bench(Bench),
    /// Workers of `bench ps`.
    #[command(hide = true)]
    BenchLoad(BenchLoad),
    /// Writes synthetic training data.
    Datagen(Datagen),
}

/// The job, and how it is changed for this run.
#[derive(Debug, Clone, Args)]
pub(crate) struct JobArguments {
    /// The job file.
    #[arg(value_name = "JOB.toml")]
    pub(crate) job: PathBuf,
    /// Overrides the job's model_dir.
    #[arg(long, value_name = "DIR")]
    pub(crate) model_dir: Option<PathBuf>,
    /// Sets one key of the job file, for example train.max_steps=1000. May be given more than once.
    #[arg(long = "set", value_name = "SECTION.KEY=VALUE")]
    pub(crate) set: Vec<String>,
    /// Form of log lines and messages.
    #[arg(long, value_enum, default_value_t)]
    pub(crate) log_format: LogFormat,
    /// Least severity of log lines: error, warn, info, debug, or a filter. By default info; warn where a progress
    /// line is shown.
    #[arg(long, value_name = "LEVEL", env = "TRAINYARD_LOG")]
    pub(crate) log_level: Option<String>,
}

impl JobArguments {
    pub(crate) fn load(&self) -> Result<Job, Vec<Diagnostic>> {
        let mut job = Job::load(&self.job, &self.set)?;
        if let Some(folder) = &self.model_dir {
            job.model_dir.clone_from(folder);
        }
        Ok(job)
    }
}

#[derive(Debug, Args)]
pub(crate) struct Train {
    #[command(flatten)]
    pub(crate) job: JobArguments,
    /// Writes one JSON object about the run at its end.
    #[arg(long, value_name = "FILE")]
    pub(crate) report: Option<PathBuf>,
    /// Scores no checkpoints: the job's evaluation input is not read, and nothing is exported.
    #[arg(long)]
    pub(crate) no_evaluation: bool,
    /// Address of an admin port: /metrics, /healthz, /readyz. None by default.
    #[arg(long, value_name = "HOST:PORT")]
    pub(crate) admin_listen: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct Up {
    #[command(flatten)]
    pub(crate) job: JobArguments,
    /// A cluster file, or a cluster of this machine: local:ps=2,worker=3.
    #[arg(long, value_name = "CLUSTER", default_value = "local")]
    pub(crate) cluster: String,
    /// Writes one JSON object about the run at its end.
    #[arg(long, value_name = "FILE")]
    pub(crate) report: Option<PathBuf>,
}

/// Roles by name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum RoleName {
    /// Leads, and trains too.
    Chief,
    /// Trains.
    Worker,
    /// Keeps parameters.
    Ps,
    /// Scores checkpoints.
    Evaluator,
}

#[derive(Debug, Args)]
pub(crate) struct Run {
    #[command(flatten)]
    pub(crate) arguments: Arguments,
    /// The role, with --cluster. Without --cluster it comes from TF_CONFIG.
    #[arg(long, value_enum, requires = "cluster")]
    pub(crate) role: Option<RoleName>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// For people.
    Text,
    /// For programs.
    Json,
}

#[derive(Debug, Args)]
pub(crate) struct Check {
    #[command(flatten)]
    pub(crate) job: JobArguments,
    /// A cluster file. Without it, the environment variable TF_CONFIG is read, if it is set.
    #[arg(long, value_name = "CLUSTER.toml")]
    pub(crate) cluster: Option<PathBuf>,
    /// Form of the result.
    #[arg(long, value_enum, default_value = "text")]
    pub(crate) format: Format,
}

#[derive(Debug, Args)]
pub(crate) struct OneShot {
    #[command(flatten)]
    pub(crate) job: JobArguments,
    /// Global step of the checkpoint; the newest by default.
    #[arg(long, value_name = "N")]
    pub(crate) step: Option<u64>,
    /// Form of the result.
    #[arg(long, value_enum, default_value = "text")]
    pub(crate) format: Format,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Lines {
    /// One JSON object a line.
    Jsonl,
    /// A header, then one row a line.
    Csv,
}

#[derive(Debug, Args)]
pub(crate) struct Predict {
    #[command(flatten)]
    pub(crate) job: JobArguments,
    /// Global step of the checkpoint; the newest by default.
    #[arg(long, value_name = "N")]
    pub(crate) step: Option<u64>,
    /// Files to predict, in the job's input format; the job's evaluation input by default. Labels are not read.
    #[arg(long, value_name = "FILE", num_args = 1..)]
    pub(crate) input: Vec<String>,
    /// Form of the predictions.
    #[arg(long, value_enum, default_value = "jsonl")]
    pub(crate) format: Lines,
    /// Where they go; standard output by default.
    #[arg(long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct Export {
    #[command(flatten)]
    pub(crate) job: JobArguments,
    /// Global step of the checkpoint; the newest by default.
    #[arg(long, value_name = "N")]
    pub(crate) step: Option<u64>,
    /// Folder of exports; model_dir/export/manual by default.
    #[arg(long, value_name = "DIR")]
    pub(crate) output: Option<PathBuf>,
    /// What is written besides the description; several may be given.
    #[arg(long, value_enum, value_delimiter = ',', default_value = "safetensors")]
    pub(crate) format: Vec<FileFormat>,
    /// Makes the ids of features that ONNX cannot hash inputs of the graph; otherwise such features are refused.
    #[arg(long)]
    pub(crate) hashed_as_ids: bool,
}

/// Formats of an export by name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum FileFormat {
    /// The variables, in model.safetensors.
    Safetensors,
    /// The model as a graph that predicts, in model.onnx.
    Onnx,
}

#[derive(Debug, Args)]
pub(crate) struct Transform {
    #[command(flatten)]
    pub(crate) job: JobArguments,
    /// Files to read, in the job's input format; the job's evaluation input by default. Labels are not read.
    #[arg(long, value_name = "FILE", num_args = 1..)]
    pub(crate) input: Vec<String>,
    /// Where the lines go; standard output by default.
    #[arg(long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct Inspect {
    /// A model folder, or one checkpoint in it.
    #[arg(value_name = "MODEL_DIR")]
    pub(crate) path: PathBuf,
    /// Form of the result.
    #[arg(long, value_enum, default_value = "text")]
    pub(crate) format: Format,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Bench {
    /// The parameter plane: pulls and pushes of real workers against real servers, and nothing else.
    Ps(BenchPs),
    /// Reading a job's training input.
    Input(BenchJob),
    /// The forward and backward pass of a job's model.
    Model(BenchJob),
    /// Training a job on a cluster of this machine, in a temporary folder: steps, processor time and memory of each role.
    Train(BenchTrain),
}

#[derive(Debug, Args)]
pub(crate) struct BenchTrain {
    /// The job file.
    #[arg(value_name = "JOB.toml")]
    pub(crate) job: PathBuf,
    /// A cluster of this machine, local:ps=2,worker=3; a cluster file with [admin] addresses; or `none`: one process,
    /// as `trainyard train` is.
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
    #[arg(long, value_name = "LEVEL", env = "TRAINYARD_LOG", default_value = "warn")]
    pub(crate) log_level: String,
    /// Form of the result.
    #[arg(long, value_enum, default_value = "text")]
    pub(crate) format: Format,
}

/// Reads a length of time for a benchmark: more than 0, at most a day.
fn seconds(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(seconds) if seconds > 0.0 && seconds <= 86_400.0 => Ok(seconds),
        _ => Err("must be a number of seconds, more than 0 and at most 86400".to_owned()),
    }
}

fn payload_type(text: &str) -> Result<PayloadType, String> {
    let known = [PayloadType::Float32, PayloadType::Bfloat16, PayloadType::Float16];
    let found = known.into_iter().find(|known| serde_json::json!(known) == text);
    found.ok_or_else(|| "it must be float32, bfloat16 or float16".to_owned())
}

#[derive(Debug, Args)]
pub(crate) struct BenchPs {
    /// Values of a dense variable that every step reads and updates whole.
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(crate) dense: usize,
    /// Random rows that every step reads and updates in each table.
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(crate) rows: usize,
    /// Tables.
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) tables: usize,
    /// Rows of a table.
    #[arg(long, value_name = "N", default_value_t = 1_000_000)]
    pub(crate) table_rows: usize,
    /// Values in a row.
    #[arg(long, value_name = "N", default_value_t = 16)]
    pub(crate) dim: usize,
    /// Workers.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=1024).map(usize::from))]
    pub(crate) workers: usize,
    /// Workers in one process. Each has its own session and connections all the same.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=1024).map(usize::from))]
    pub(crate) workers_per_process: usize,
    /// Time that every worker waits between its pull and its push, as one that computes.
    #[arg(long, value_name = "MS", default_value_t = 0.0, value_parser = milliseconds)]
    pub(crate) compute_ms: f64,
    /// Steps whose parameters a worker reads ahead while it computes, as strategy.pipeline_depth has it.
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = clap::value_parser!(u16).range(0..=8).map(usize::from))]
    pub(crate) pipeline_depth: usize,
    /// How values travel, as strategy.payload has it.
    #[arg(long, value_name = "TYPE", default_value = "float32", value_parser = payload_type)]
    pub(crate) payload: PayloadType,
    /// Draws rows by Zipf's law with this exponent, 0 to 10, instead of all alike.
    #[arg(long, value_name = "S", value_parser = exponent)]
    pub(crate) zipf: Option<f64>,
    /// Puts the last server behind a link that takes so much longer, each way.
    #[arg(long, value_name = "MS", value_parser = milliseconds)]
    pub(crate) slow_ps_ms: Option<f64>,
    /// Parameter servers, each a process.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=1024).map(usize::from))]
    pub(crate) ps: usize,
    /// Length of the load.
    #[arg(long, value_name = "SECONDS", default_value_t = 5.0, value_parser = seconds)]
    pub(crate) seconds: f64,
    /// Form of the result.
    #[arg(long, value_enum, default_value = "text")]
    pub(crate) format: Format,
}

/// Reads a wait of a benchmark: 0 to a minute.
fn milliseconds(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(wait) if (0.0..=60_000.0).contains(&wait) => Ok(wait),
        _ => Err("must be a number of milliseconds, 0 to 60000".to_owned()),
    }
}

/// Reads an exponent of Zipf's law.
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
    /// Form of the result.
    #[arg(long, value_enum, default_value = "text")]
    pub(crate) format: Format,
}

#[derive(Debug, Args)]
pub(crate) struct BenchLoad {
    /// What to do, as JSON.
    pub(crate) order: String,
}

#[derive(Debug, Args)]
pub(crate) struct ImportTf {
    /// The prefix of the checkpoint (`model.ckpt-1000`), its index file, or its folder.
    #[arg(value_name = "CHECKPOINT")]
    pub(crate) checkpoint: PathBuf,
    /// The job whose variables are looked for; without it, the tensors are listed.
    #[arg(long, value_name = "JOB.toml")]
    pub(crate) job: Option<PathBuf>,
    /// Overrides the job's model_dir.
    #[arg(long, value_name = "DIR", requires = "job")]
    pub(crate) model_dir: Option<PathBuf>,
    /// Sets one key of the job file. May be given more than once.
    #[arg(long = "set", value_name = "SECTION.KEY=VALUE", requires = "job")]
    pub(crate) set: Vec<String>,
    /// Takes a variable of the job from a tensor of another name. May be given more than once.
    #[arg(long, value_name = "OURS=THEIRS", requires = "job")]
    pub(crate) rename: Vec<String>,
    /// Writes a checkpoint into model_dir, from which training goes on.
    #[arg(long, requires = "job")]
    pub(crate) write: bool,
    /// Form of the result.
    #[arg(long, value_enum, default_value = "text")]
    pub(crate) format: Format,
}

#[derive(Debug, Args)]
pub(crate) struct Datagen {
    /// What to make.
    #[arg(value_enum)]
    pub(crate) kind: DataKind,
    /// Where it goes.
    #[arg(long, value_name = "DIR")]
    pub(crate) out: PathBuf,
    /// Training records.
    #[arg(long, value_name = "N", default_value_t = 100_000)]
    pub(crate) rows: u64,
    /// Evaluation records; a fifth of the training records, at most 100000, by default.
    #[arg(long, value_name = "N")]
    pub(crate) eval_rows: Option<u64>,
    /// Training files, of click data.
    #[arg(long, value_name = "N", default_value_t = 4)]
    pub(crate) shards: u64,
    /// Other seeds give other data.
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) seed: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum DataKind {
    /// Records shaped like the adult census: CSV with a header.
    Census,
    /// Click records: 13 numbers and 26 categories, TSV without a header.
    Ctr,
}

/// Runs the command line for a model: every role and every command.
///
/// `build` makes the model of a job. The exit code is 0, or that of the message printed last.
pub fn main_with<M: Model>(build: fn(&Job) -> Result<M, Error>) -> ExitCode {
    let command = match Command::try_parse() {
        Ok(command) => command,
        Err(error) => {
            let _ = error.print();
            return ExitCode::from(if error.use_stderr() { USAGE } else { 0 });
        }
    };
    let one = |outcome: Result<(), Diagnostic>| outcome.map_err(|problem| vec![problem]);
    let with_log = |job: &JobArguments, fallback: &str| {
        one(start_logging(job.log_format, job.log_level.as_deref().unwrap_or(fallback)))
    };
    match command.action {
        Action::Train(train) => {
            let quiet = std::io::stderr().is_terminal();
            let outcome = with_log(&train.job, if quiet { "warn" } else { "info" });
            finish(outcome.and_then(|()| train::train(&train, build, quiet)), train.job.log_format)
        }
        Action::Up(up) => match with_log(&up.job, "info").and_then(|()| up::up(&up)) {
            Ok(code) => ExitCode::from(code),
            Err(problems) => finish(Err(problems), up.job.log_format),
        },
        Action::Run(run) => run::run(&run, build),
        Action::Check(check) => finish(
            with_log(&check.job, "warn").and_then(|()| check::check(&check, build)),
            check.job.log_format,
        ),
        Action::Evaluate(arguments) => {
            let outcome =
                with_log(&arguments.job, "warn").and_then(|()| one_shot::evaluate(&arguments, build));
            finish(outcome, arguments.job.log_format)
        }
        Action::Predict(arguments) => {
            let outcome =
                with_log(&arguments.job, "warn").and_then(|()| one_shot::predict(&arguments, build));
            finish(outcome, arguments.job.log_format)
        }
        Action::Export(arguments) => {
            let outcome = with_log(&arguments.job, "warn").and_then(|()| one_shot::export(&arguments, build));
            finish(outcome, arguments.job.log_format)
        }
        Action::Transform(arguments) => {
            let outcome =
                with_log(&arguments.job, "warn").and_then(|()| transform::transform(&arguments, build));
            finish(outcome, arguments.job.log_format)
        }
        Action::Inspect(arguments) => finish(one(inspect::inspect(&arguments)), LogFormat::Text),
        Action::ImportTf(arguments) => finish(import_tf::import_tf(&arguments, build), LogFormat::Text),
        Action::Bench(arguments) => {
            let outcome = one(start_logging(LogFormat::Text, "warn"));
            finish(outcome.and_then(|()| bench::bench(&arguments, build)), LogFormat::Text)
        }
        Action::BenchLoad(arguments) => finish(one(bench::load(&arguments)), LogFormat::Text),
        Action::Datagen(arguments) => finish(one(datagen::datagen(&arguments)), LogFormat::Text),
    }
}
