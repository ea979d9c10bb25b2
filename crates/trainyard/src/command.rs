//! The command line.

mod benchmark;
mod deployment;

use std::io::IsTerminal as _;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, Parser, Subcommand, ValueEnum};
use trainyard_daemon::{Arguments, LogFormat, finish, start_logging};
use trainyard_diagnostic::Diagnostic;
use trainyard_model::{Build, Error, Model, any_of};
use trainyard_run_config::Job;

pub(crate) use benchmark::{Bench, BenchJob, BenchLoad, BenchPs, BenchScale, BenchTrain};
pub(crate) use deployment::{Deploy, Render};

use crate::{
    bench, check, convert, datagen, deploy, import_tf, init, inspect, one_shot, pki, predict, run,
    scale, stats, status, train, transform, up,
};

/// Exit code of a wrong command line (sysexits `EX_USAGE`).
const USAGE: u8 = 64;

#[derive(Debug, Parser)]
#[command(
    name = "trainyard",
    version = trainyard_daemon::VERSION,
    about = "Trains click-through and ranking models on one machine or many, with parameter servers."
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
    /// Changes the number of workers of a running `up`, while it trains.
    #[command(long_about = SCALE)]
    Scale(Scale),
    /// Prints the status of a run once: tasks and their states, rates, loss, the newest checkpoint and evaluation.
    Status(Status),
    /// Shows the status of a run until a key ends it. Without a terminal, prints it once.
    Top(Observe),
    /// Runs one task. Its role comes from --role, or from the environment variable TF_CONFIG.
    Run(Run),
    /// Makes a certificate for each task of a cluster, and the authority that signs them; or tokens. For trials: if you
    /// have a certificate authority, use that.
    Pki(pki::Pki),
    /// Checks a job, a cluster and the data, and starts no task.
    Check(Check),
    /// Prepares hosts for the daemons of a cluster.
    #[command(subcommand)]
    Deploy(Deploy),
    /// Writes a job for data: looks at the columns, and says for each what it became and why.
    #[command(long_about = INIT)]
    Init(Init),
    /// Shows statistics of the columns of a job's input: types, missing and distinct values, moments and quantiles.
    Stats(Stats),
    /// Scores a checkpoint.
    Evaluate(OneShot),
    /// Writes the predictions of a checkpoint, one line per record.
    Predict(Predict),
    /// Writes a checkpoint for other programs: its variables, or the model as an ONNX graph, with a description.
    Export(Export),
    /// Writes the inputs of an exported ONNX graph, one JSON object per record, with the ids of hashed and crossed
    /// features.
    Transform(Transform),
    /// Shows the checkpoints of a model directory.
    Inspect(Inspect),
    /// Shows a TensorFlow checkpoint, matches it to a job, and imports it.
    #[command(name = "import-tf")]
    ImportTf(ImportTf),
    /// Measures parts of training on this machine.
    #[command(subcommand)]
    Bench(Bench),
    /// Runs workers of `bench ps`.
    #[command(hide = true)]
    BenchLoad(BenchLoad),
    /// Writes synthetic training data.
    Datagen(Datagen),
    /// Converts records between csv, tsv, libsvm, tfrecord and parquet.
    #[command(long_about = CONVERT)]
    Convert(Convert),
}

const CONVERT: &str = "Converts records between csv, tsv, libsvm, tfrecord (tf.train.Example) and parquet.

Several files become one. The names of the files say their formats, and `.gz` that they are compressed; --from and --to say \
otherwise. Columns are known by name. A column of texts that are all numbers becomes one of numbers. Lists are written to \
text with `|` between their values. From libsvm come the columns label, qid, index and value; to libsvm go those, or \
`label` and all other columns, which must be numbers and are numbered from 1. The result appears when it is whole.";

/// The job file, and its changes for this run.
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
    /// Format of log lines and messages.
    #[arg(long, value_enum, default_value_t)]
    pub(crate) log_format: LogFormat,
    /// Least severity of log lines: error, warn, info, debug, or a filter. Default: info, or warn if a progress line is
    /// shown.
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
    /// Writes a JSON object about the run to this file at its end.
    #[arg(long, value_name = "FILE")]
    pub(crate) report: Option<PathBuf>,
    /// Disables evaluation: the job's evaluation input is not read, and nothing is exported.
    #[arg(long)]
    pub(crate) no_evaluation: bool,
    /// Address of the admin port: the page of the run, its API, /metrics, /healthz, /readyz. Without it, there is no
    /// admin port.
    #[arg(long, value_name = "HOST:PORT")]
    pub(crate) admin_listen: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct Up {
    #[command(flatten)]
    pub(crate) job: JobArguments,
    /// A cluster file, or a cluster on this machine: local:ps=2,worker=3.
    #[arg(long, value_name = "CLUSTER", default_value = "local")]
    pub(crate) cluster: String,
    /// Writes a JSON object about the run to this file at its end.
    #[arg(long, value_name = "FILE")]
    pub(crate) report: Option<PathBuf>,
}

/// Long help of `scale`.
const SCALE: &str = "Changes the number of workers of a running `trainyard up`, while it trains.

More workers are started, or the ones with the highest numbers are stopped; the command returns when they have joined or \
left. No batch is lost or counted twice: a worker that goes gives back what it has not done. The chief and the parameter \
servers stay as they are.

The job must hand its data out (input.train.sharding = \"dynamic\", the default) and keep its parameters on servers \
(strategy.kind = \"parameter_server\", the default). Give the same JOB.toml, --set and --model-dir as to `up`: the \
running job is found by its model_dir.

  trainyard up job.toml --cluster local:ps=1,worker=1
  trainyard scale job.toml --workers 4";

#[derive(Debug, Args)]
pub(crate) struct Scale {
    #[command(flatten)]
    pub(crate) job: JobArguments,
    /// Number of workers, without the chief: 0 to 256.
    #[arg(long, value_name = "N")]
    pub(crate) workers: usize,
}

/// The run to observe.
#[derive(Debug, Args)]
pub(crate) struct Observe {
    /// A cluster file with the chief's admin port, the job file or model directory of a `trainyard up`, or host:port of
    /// the admin port.
    #[arg(value_name = "CLUSTER|JOB")]
    pub(crate) target: String,
    /// The model directory that `up` was given, if the target is a job file.
    #[arg(long, value_name = "DIR")]
    pub(crate) model_dir: Option<PathBuf>,
    /// Sets one key of the job file. May be given more than once.
    #[arg(long = "set", value_name = "SECTION.KEY=VALUE")]
    pub(crate) set: Vec<String>,
}

#[derive(Debug, Args)]
pub(crate) struct Status {
    #[command(flatten)]
    pub(crate) run: Observe,
    /// Format of the output.
    #[arg(long, value_enum, default_value = "text")]
    pub(crate) format: Format,
}

/// Roles by name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum RoleName {
    /// Leads the job, and trains unless the job says otherwise.
    Chief,
    /// Trains.
    Worker,
    /// Holds parameters.
    Ps,
    /// Evaluates checkpoints.
    Evaluator,
}

#[derive(Debug, Args)]
pub(crate) struct Run {
    #[command(flatten)]
    pub(crate) arguments: Arguments,
    /// The role, with --cluster. Without --cluster, TF_CONFIG gives the role.
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
    /// Format of the output.
    #[arg(long, value_enum, default_value = "text")]
    pub(crate) format: Format,
}

/// Long help of `init`.
const INIT: &str = "Writes a job for data: looks at the columns, and says for each what it became and why.

The files may be csv, tsv, libsvm, tfrecord or parquet, all of one format. The label is the column that is called so (label, \
target, click, rating, ...), or the only one of two values, or the one named by --label. A number becomes a numeric feature, \
brought into range by its mean and deviation or its logarithm, and buckets at its tenths for the linear part; a text becomes a \
vocabulary, or is hashed where it has many values; columns that only name their record are left out.

Without --eval, a tenth of the records is kept for evaluation: the latest, where a column says when they were made, else some \
drawn at random, written beside the job; of five files and more, the last ones.

  trainyard init clicks.parquet --out clicks
  trainyard train clicks/job.toml";

#[derive(Debug, Args)]
pub(crate) struct Init {
    /// Files, URLs and patterns.
    #[arg(value_name = "DATA", required = true)]
    pub(crate) data: Vec<String>,
    /// Folder for the job and the files that are written; it is created if it does not exist.
    #[arg(long, value_name = "DIR", default_value = "job")]
    pub(crate) out: PathBuf,
    /// Column to predict. Default: the column that looks like a label, by its name or its two values.
    #[arg(long, value_name = "COLUMN")]
    pub(crate) label: Option<String>,
    /// Value of the label that is the positive class. Default: the rarer of two values.
    #[arg(long, value_name = "VALUE")]
    pub(crate) positive: Option<String>,
    /// Column with the time of a record: the latest records are kept for evaluation.
    #[arg(long, value_name = "COLUMN")]
    pub(crate) time: Option<String>,
    /// Files for evaluation.
    #[arg(long, value_name = "FILE", num_args = 1..)]
    pub(crate) eval: Vec<String>,
    /// Share of the records to keep for evaluation, if no files are given for it; 0 = none.
    #[arg(long, value_name = "SHARE", default_value_t = 0.1, value_parser = share)]
    pub(crate) eval_share: f64,
    /// Records to read from each file, the first ones.
    #[arg(long, value_name = "N", default_value_t = 100_000, value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) rows: u64,
    /// Reads all records.
    #[arg(long, conflicts_with = "rows")]
    pub(crate) all: bool,
    /// Format of the files. Default: the format that the name of the first file stands for.
    #[arg(long, value_enum)]
    pub(crate) format: Option<TableFormat>,
    /// Names of the columns of csv and tsv files whose first line does not name them.
    #[arg(long, value_name = "NAME,NAME", value_delimiter = ',')]
    pub(crate) columns: Option<Vec<String>>,
    /// Overwrites an existing job.
    #[arg(long)]
    pub(crate) force: bool,
}

/// Parses a share of records that leaves some for training.
fn share(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(share) if (0.0..=0.9).contains(&share) => Ok(share),
        _ => Err("must be a number from 0 to 0.9".to_owned()),
    }
}

/// An input of a job, by name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum InputName {
    /// `[input.train]`.
    Train,
    /// `[input.eval]`.
    Eval,
}

#[derive(Debug, Args)]
pub(crate) struct Stats {
    #[command(flatten)]
    pub(crate) job: JobArguments,
    /// The input to read.
    #[arg(long, value_enum, default_value = "train")]
    pub(crate) part: InputName,
    /// Records to read from each file, the first ones.
    #[arg(long, value_name = "N", default_value_t = 100_000)]
    pub(crate) rows: u64,
    /// Reads all records.
    #[arg(long, conflicts_with = "rows")]
    pub(crate) all: bool,
    /// Format of the output.
    #[arg(long, value_enum, default_value = "text")]
    pub(crate) format: Format,
}

/// Source of the model's values, if it is not the job's model directory.
#[derive(Debug, Args)]
pub(crate) struct Source {
    /// Values to use instead of a checkpoint of the job: an export, or a folder of exports, whose newest counts;
    /// another model_dir, or a checkpoint in it; a .safetensors file; a TensorFlow checkpoint with the same names.
    #[arg(long, value_name = "PATH", conflicts_with = "step")]
    pub(crate) from: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct OneShot {
    #[command(flatten)]
    pub(crate) job: JobArguments,
    /// Global step of the checkpoint. Default: the newest checkpoint.
    #[arg(long, value_name = "N")]
    pub(crate) step: Option<u64>,
    #[command(flatten)]
    pub(crate) source: Source,
    /// Format of the output.
    #[arg(long, value_enum, default_value = "text")]
    pub(crate) format: Format,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Lines {
    /// One JSON object per line.
    Jsonl,
    /// A header, then one record per line.
    Csv,
}

#[derive(Debug, Args)]
pub(crate) struct Predict {
    #[command(flatten)]
    pub(crate) job: JobArguments,
    /// Global step of the checkpoint. Default: the newest checkpoint.
    #[arg(long, value_name = "N")]
    pub(crate) step: Option<u64>,
    #[command(flatten)]
    pub(crate) source: Source,
    /// Files to predict, in the job's input format. Default: the job's evaluation input. Labels are not read.
    #[arg(long, value_name = "FILE", num_args = 1..)]
    pub(crate) input: Vec<String>,
    /// Columns of the files to write beside each prediction, unchanged, so that records can be identified. Separate
    /// names by commas, or repeat the flag.
    #[arg(long, value_name = "COLUMN,COLUMN", value_delimiter = ',')]
    pub(crate) keep: Vec<String>,
    /// Format of the predictions.
    #[arg(long, value_enum, default_value = "jsonl")]
    pub(crate) format: Lines,
    /// File of the predictions. Default: standard output.
    #[arg(long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct Export {
    #[command(flatten)]
    pub(crate) job: JobArguments,
    /// Global step of the checkpoint. Default: the newest checkpoint.
    #[arg(long, value_name = "N")]
    pub(crate) step: Option<u64>,
    /// Folder of exports. Default: model_dir/export/manual.
    #[arg(long, value_name = "DIR")]
    pub(crate) output: Option<PathBuf>,
    /// Formats to write besides the description; several may be given.
    #[arg(long, value_enum, value_delimiter = ',', default_value = "safetensors")]
    pub(crate) format: Vec<FileFormat>,
    /// Makes the ids of features that ONNX cannot hash inputs of the graph. Without it, such features are refused.
    #[arg(long)]
    pub(crate) hashed_as_ids: bool,
}

/// Formats of an export, by name.
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
    /// Files to read, in the job's input format. Default: the job's evaluation input. Labels are not read.
    #[arg(long, value_name = "FILE", num_args = 1..)]
    pub(crate) input: Vec<String>,
    /// File of the output. Default: standard output.
    #[arg(long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct Inspect {
    /// A model directory, a checkpoint in it, or a job file.
    #[arg(value_name = "MODEL_DIR|JOB.toml")]
    pub(crate) path: PathBuf,
    /// Format of the output.
    #[arg(long, value_enum, default_value = "text")]
    pub(crate) format: Format,
}

#[derive(Debug, Args)]
pub(crate) struct ImportTf {
    /// The prefix of the checkpoint (`model.ckpt-1000`), its index file, or its folder.
    #[arg(value_name = "CHECKPOINT")]
    pub(crate) checkpoint: PathBuf,
    /// The job whose variables are matched. Without it, the tensors are listed.
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
    /// Writes a checkpoint into model_dir, from which training resumes.
    #[arg(long, requires = "job")]
    pub(crate) write: bool,
    /// Format of the output.
    #[arg(long, value_enum, default_value = "text")]
    pub(crate) format: Format,
}

#[derive(Debug, Args)]
pub(crate) struct Datagen {
    /// Kind of the data.
    #[arg(value_enum)]
    pub(crate) kind: DataKind,
    /// Folder of the data.
    #[arg(long, value_name = "DIR")]
    pub(crate) out: PathBuf,
    /// Training records.
    #[arg(long, value_name = "N", default_value_t = 100_000)]
    pub(crate) rows: u64,
    /// Evaluation records; a fifth of the training records, at most 100000, by default.
    #[arg(long, value_name = "N")]
    pub(crate) eval_rows: Option<u64>,
    /// Number of training files of click data.
    #[arg(long, value_name = "N", default_value_t = 4)]
    pub(crate) shards: u64,
    /// Seed of the random data.
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) seed: u64,
}

#[derive(Debug, Args)]
pub(crate) struct Convert {
    /// Files, URLs and patterns.
    #[arg(value_name = "IN", required = true)]
    pub(crate) input: Vec<String>,
    /// The file to write.
    #[arg(value_name = "OUT")]
    pub(crate) output: PathBuf,
    /// Format of the input files. Default: the format that the name of the first file stands for.
    #[arg(long, value_enum)]
    pub(crate) from: Option<TableFormat>,
    /// Format of the output file. Default: the format that its name stands for.
    #[arg(long, value_enum)]
    pub(crate) to: Option<TableFormat>,
    /// Names of the columns of csv and tsv files whose first line does not name them.
    #[arg(long, value_name = "NAME,NAME", value_delimiter = ',')]
    pub(crate) columns: Option<Vec<String>>,
    /// Keeps the spaces around fields and names of csv and tsv files. Without it, they are dropped, as a job drops them
    /// (`trim`): a job reads the same from the result as from the files.
    #[arg(long)]
    pub(crate) keep_spaces: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum TableFormat {
    /// Comma-separated, with a header.
    Csv,
    /// Tab-separated, with a header.
    Tsv,
    /// `label index:value ...`.
    Libsvm,
    /// `tf.train.Example` messages in a TFRecord file.
    Tfrecord,
    /// Parquet.
    Parquet,
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
    run_command(any_of(build))
}

fn run_command(build: Build) -> ExitCode {
    let command = match Command::try_parse() {
        Ok(command) => command,
        Err(error) => {
            let _ = error.print();
            return ExitCode::from(if error.use_stderr() { USAGE } else { 0 });
        }
    };
    let one = |outcome: Result<(), Diagnostic>| outcome.map_err(|problem| vec![problem]);
    let with_log = |job: &JobArguments, fallback: &str| {
        one(start_logging(
            job.log_format,
            job.log_level.as_deref().unwrap_or(fallback),
        ))
    };
    match command.action {
        Action::Train(train) => {
            let quiet = std::io::stderr().is_terminal();
            let outcome = with_log(&train.job, if quiet { "warn" } else { "info" });
            finish(
                outcome.and_then(|()| train::train(&train, build, quiet)),
                train.job.log_format,
            )
        }
        Action::Up(up) => match with_log(&up.job, "info").and_then(|()| up::up(&up)) {
            Ok(code) => ExitCode::from(code),
            Err(problems) => finish(Err(problems), up.job.log_format),
        },
        Action::Scale(arguments) => finish(
            with_log(&arguments.job, "warn").and_then(|()| scale::scale(&arguments)),
            arguments.job.log_format,
        ),
        Action::Status(arguments) => finish(status::status(&arguments), LogFormat::Text),
        Action::Top(arguments) => finish(status::top(&arguments), LogFormat::Text),
        Action::Run(run) => run::run(&run, build),
        Action::Check(check) => finish(
            with_log(&check.job, "warn").and_then(|()| check::check(&check, build)),
            check.job.log_format,
        ),
        Action::Init(arguments) => {
            let outcome = one(start_logging(LogFormat::Text, "warn"));
            finish(
                outcome.and_then(|()| init::init(&arguments)),
                LogFormat::Text,
            )
        }
        Action::Stats(arguments) => finish(
            with_log(&arguments.job, "warn").and_then(|()| stats::stats(&arguments)),
            arguments.job.log_format,
        ),
        Action::Deploy(Deploy::Render(arguments)) => {
            finish(deploy::render(&arguments), LogFormat::Text)
        }
        Action::Evaluate(arguments) => {
            let outcome = with_log(&arguments.job, "warn")
                .and_then(|()| one_shot::evaluate(&arguments, build));
            finish(outcome, arguments.job.log_format)
        }
        Action::Predict(arguments) => {
            let outcome =
                with_log(&arguments.job, "warn").and_then(|()| predict::predict(&arguments, build));
            finish(outcome, arguments.job.log_format)
        }
        Action::Export(arguments) => {
            let outcome =
                with_log(&arguments.job, "warn").and_then(|()| one_shot::export(&arguments, build));
            finish(outcome, arguments.job.log_format)
        }
        Action::Transform(arguments) => {
            let outcome = with_log(&arguments.job, "warn")
                .and_then(|()| transform::transform(&arguments, build));
            finish(outcome, arguments.job.log_format)
        }
        Action::Inspect(arguments) => finish(one(inspect::inspect(&arguments)), LogFormat::Text),
        Action::ImportTf(arguments) => {
            finish(import_tf::import_tf(&arguments, build), LogFormat::Text)
        }
        Action::Bench(arguments) => {
            let outcome = one(start_logging(LogFormat::Text, "warn"));
            finish(
                outcome.and_then(|()| bench::bench(&arguments, build)),
                LogFormat::Text,
            )
        }
        Action::BenchLoad(arguments) => finish(one(bench::load(&arguments)), LogFormat::Text),
        Action::Pki(arguments) => finish(pki::pki(&arguments), LogFormat::Text),
        Action::Datagen(arguments) => finish(one(datagen::datagen(&arguments)), LogFormat::Text),
        Action::Convert(arguments) => {
            let outcome = one(start_logging(LogFormat::Text, "warn"));
            finish(
                outcome.and_then(|()| convert::convert(&arguments)),
                LogFormat::Text,
            )
        }
    }
}
