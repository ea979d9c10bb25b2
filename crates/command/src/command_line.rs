//! The command line.

use std::io::IsTerminal as _;
use std::path::Path;
use std::process::ExitCode;

use clap::{Parser, Subcommand};
use trainyard_daemon::{DiskWatch, LogFormat, StopSource, at_stop_signal, begin, taken_console};
use trainyard_diagnostic::{Diagnostic, refuse_shell_parts};
use trainyard_model::{Build, Error, ExportOnnx, Model, any_of, exportable_of};
use trainyard_run_config::Job;
use trainyard_storage::ResultFile;

use crate::arguments::JobArguments;
use crate::ended::Ended;
use crate::program::Program;
use crate::progress::Show;
use crate::{
    analyze, check, convert, deploy, evaluate, export, import_tf, init, inspect, pki, predict, run,
    scale, serve, stats, status, train, transform, up,
};

/// Exit code of a wrong command line (sysexits `EX_USAGE`).
const USAGE: u8 = 64;

#[derive(Debug, Parser)]
#[command(
    name = "trainyard",
    version = trainyard_daemon::VERSION,
    about = "Trains click-through and ranking models on one machine or many, with parameter servers."
)]
struct Command<C: Subcommand> {
    #[command(subcommand)]
    action: Action<C>,
}

#[derive(Debug, Subcommand)]
enum Action<C: Subcommand> {
    /// Trains, evaluates and exports in one process.
    Train(train::Train),
    /// Starts every task of a cluster on this machine, and ends when the job does.
    Up(up::Up),
    /// Changes the number of workers of a running `up`, while it trains.
    #[command(long_about = scale::SCALE)]
    Scale(scale::Scale),
    /// Prints the status of a run once: tasks and their states, rates, loss, the newest checkpoint and evaluation.
    Status(status::Status),
    /// Shows the status of a run until a key ends it. Without a terminal, prints it once.
    Top(status::Observe),
    /// Runs one task. Its role comes from --role, or from the environment variable TF_CONFIG.
    Run(run::Run),
    /// Makes a certificate for each task of a cluster, and the authority that signs them; or tokens. For trials: if you
    /// have a certificate authority, use that.
    Pki(pki::Pki),
    /// Checks a job, a cluster and the data, and starts no task.
    Check(check::Check),
    /// Prepares hosts for the daemons of a cluster.
    #[command(subcommand)]
    Deploy(deploy::Deploy),
    /// Writes a job for data: looks at the columns, and says for each what it became and why.
    #[command(long_about = init::INIT)]
    Init(init::Init),
    /// Makes the vocabularies and boundaries of a job from its training data.
    #[command(long_about = analyze::ANALYZE)]
    Analyze(analyze::Analyze),
    /// Shows statistics of the columns of a job's input: types, missing and distinct values, moments and quantiles.
    Stats(stats::Stats),
    /// Scores a checkpoint.
    Evaluate(evaluate::Evaluate),
    /// Writes the predictions of a checkpoint, one line per record.
    Predict(predict::Predict),
    /// Answers requests for predictions over HTTP, with the newest checkpoint of a run.
    #[command(long_about = serve::SERVE)]
    Serve(serve::Serve),
    /// Writes a checkpoint for other programs: its variables, or the model as an ONNX graph, with a description.
    Export(export::Export),
    /// Writes the inputs of an exported ONNX graph, one JSON object per record, with the ids of hashed and crossed
    /// features.
    Transform(transform::Transform),
    /// Shows the checkpoints of a model directory.
    Inspect(inspect::Inspect),
    /// Shows a TensorFlow checkpoint, matches it to a job, and imports it.
    #[command(name = "import-tf")]
    ImportTf(import_tf::ImportTf),
    #[command(flatten)]
    Further(C),
    /// Converts records between csv, tsv, libsvm, tfrecord and parquet.
    #[command(long_about = convert::CONVERT)]
    Convert(convert::Convert),
}

/// Commands that a program has beside those of every model.
pub trait Commands: Subcommand {
    /// Runs the command and returns its exit code. `build` makes the model of a job.
    fn run(self, build: Build) -> u8;
}

#[derive(Debug, Subcommand)]
enum NoCommands {}

impl Commands for NoCommands {
    fn run(self, _: Build) -> u8 {
        match self {}
    }
}

/// Runs the command line for a model: every role and every command.
///
/// `build` makes the model of a job. The exit code is 0, or that of the message printed last.
pub fn main_with<M: Model>(build: fn(&Job) -> Result<M, Error>) -> ExitCode {
    main_with_commands::<NoCommands>(any_of(build))
}

/// Runs the command line, as [`main_with`], for a model of the program's own that can be exported as an ONNX graph.
pub fn main_with_onnx<M: Model + ExportOnnx>(build: fn(&Job) -> Result<M, Error>) -> ExitCode {
    main_with_commands::<NoCommands>(exportable_of(build))
}

/// As [`main_with`], with further commands.
pub fn main_with_commands<C: Commands>(build: Build) -> ExitCode {
    run_commands::<C>(&Program::this(), build, &StopSource::Signals)
        .code
        .into()
}

/// Runs the command line of a program. A process may do so more than once. `stop` ends training with a checkpoint,
/// `evaluate` without a result, and `predict` behind the present record.
pub fn run_program(program: &Program, build: Build, stop: &StopSource) -> Ended {
    run_commands::<NoCommands>(program, build, stop)
}

fn run_commands<C: Commands>(program: &Program, build: Build, stop: &StopSource) -> Ended {
    let command = match Command::<C>::try_parse_from(program.words()) {
        Ok(command) => command,
        Err(error) => {
            let failed = error.use_stderr();
            match taken_console() {
                Some(console) => console.print(&error.to_string()),
                None => drop(error.print()),
            }
            return Ended {
                code: if failed { USAGE } else { 0 },
                messages: if failed {
                    error.to_string()
                } else {
                    String::new()
                },
                problems: Vec::new(),
            };
        }
    };
    if let Err(problem) = refuse_shell_parts(&program.arguments) {
        return Ended::reported(Err(vec![problem]), LogFormat::Text);
    }
    let one = |outcome: Result<(), Diagnostic>| outcome.map_err(|problem| vec![problem]);
    let with_log = |job: &JobArguments, fallback: &str| {
        one(begin(
            job.log_format,
            job.log_level.as_deref().unwrap_or(fallback),
        ))
    };
    // Tasks, and the commands that start them, watch their disks themselves.
    let _watch = match &command.action {
        Action::Train(_) | Action::Up(_) | Action::Run(_) | Action::Further(_) => None,
        _ => Some(DiskWatch::begin()),
    };
    match command.action {
        Action::Train(train) => {
            let (show, level) = match taken_console() {
                Some(_) => (Show::Console, "info"),
                None if std::io::stderr().is_terminal() => (Show::Line, "warn"),
                None => (Show::Nothing, "info"),
            };
            let outcome = with_log(&train.job, level);
            Ended::reported(
                outcome.and_then(|()| train::train(&train, build, show, stop.clone())),
                train.job.log_format,
            )
        }
        Action::Up(up) => {
            let code = with_log(&up.job, "info").and_then(|()| up::up(&up, program, stop));
            match code {
                Ok(code) => Ended::with(code),
                Err(problems) => Ended::reported(Err(problems), up.job.log_format),
            }
        }
        Action::Scale(arguments) => Ended::reported(
            with_log(&arguments.job, "warn").and_then(|()| scale::scale(&arguments)),
            arguments.job.log_format,
        ),
        Action::Status(arguments) => {
            let outcome = one(begin(LogFormat::Text, "warn"));
            Ended::reported(
                outcome.and_then(|()| status::status(&arguments)),
                LogFormat::Text,
            )
        }
        Action::Top(arguments) => Ended::reported(status::top(&arguments), LogFormat::Text),
        Action::Run(run) => run::run(&run, build, stop.clone()),
        Action::Check(check) => Ended::reported(
            with_log(&check.job, "warn").and_then(|()| check::check(&check, build)),
            check.job.log_format,
        ),
        Action::Init(arguments) => {
            let outcome = one(begin(LogFormat::Text, init::LOG_FILTER));
            Ended::reported(
                outcome.and_then(|()| init::init(&arguments, stop)),
                LogFormat::Text,
            )
        }
        Action::Analyze(arguments) => Ended::reported(
            with_log(&arguments.job, "warn").and_then(|()| analyze::analyze(&arguments)),
            arguments.job.log_format,
        ),
        Action::Stats(arguments) => Ended::reported(
            with_log(&arguments.job, "warn").and_then(|()| stats::stats(&arguments)),
            arguments.job.log_format,
        ),
        Action::Deploy(deploy::Deploy::Render(arguments)) => {
            Ended::reported(deploy::render(&arguments), LogFormat::Text)
        }
        Action::Evaluate(arguments) => {
            let outcome = with_log(&arguments.job, "warn")
                .and_then(|()| evaluate::evaluate(&arguments, build, stop));
            Ended::reported(outcome, arguments.job.log_format)
        }
        Action::Predict(arguments) => {
            remove_at_signal(arguments.output.as_deref(), stop);
            let outcome = with_log(&arguments.job, "warn")
                .and_then(|()| predict::predict(&arguments, build, stop));
            Ended::reported(outcome, arguments.job.log_format)
        }
        Action::Serve(arguments) => {
            let service = &arguments.service;
            let format = service.log_format;
            let outcome = one(begin(format, &service.log_level));
            Ended::reported(
                outcome.and_then(|()| serve::serve(&arguments, build, stop.clone())),
                format,
            )
        }
        Action::Export(arguments) => {
            let outcome =
                with_log(&arguments.job, "warn").and_then(|()| export::export(&arguments, build));
            Ended::reported(outcome, arguments.job.log_format)
        }
        Action::Transform(arguments) => {
            remove_at_signal(arguments.output.as_deref(), stop);
            let outcome = with_log(&arguments.job, "warn")
                .and_then(|()| transform::transform(&arguments, build));
            Ended::reported(outcome, arguments.job.log_format)
        }
        Action::Inspect(arguments) => {
            let outcome = begin(LogFormat::Text, "warn");
            Ended::reported(
                one(outcome.and_then(|()| inspect::inspect(&arguments))),
                LogFormat::Text,
            )
        }
        Action::ImportTf(arguments) => {
            let outcome = one(begin(LogFormat::Text, "warn"));
            Ended::reported(
                outcome.and_then(|()| import_tf::import_tf(&arguments, build)),
                LogFormat::Text,
            )
        }
        Action::Further(command) => Ended::with(command.run(build)),
        Action::Pki(arguments) => Ended::reported(pki::pki(&arguments), LogFormat::Text),
        Action::Convert(arguments) => {
            remove_at_signal(Some(&arguments.output), stop);
            let outcome = one(begin(LogFormat::Text, "warn"));
            Ended::reported(
                outcome.and_then(|()| convert::convert(&arguments)),
                LogFormat::Text,
            )
        }
    }
}

/// Removes the unfinished file of a result where a signal ends this process. A process whose signals cannot be caught leaves it.
fn remove_at_signal(output: Option<&Path>, stop: &StopSource) {
    let (StopSource::Signals, Some(output)) = (stop, output) else {
        return;
    };
    let output = output.to_owned();
    if let Err(error) = at_stop_signal(move || ResultFile::remove_unfinished(&output)) {
        tracing::warn!(%error, "signals cannot be caught: one that ends this command leaves an unfinished file");
    }
}
