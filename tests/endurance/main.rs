//! Trains a stream that never repeats for as long as it is told, kills a worker and a server now and then, and tells whether
//! memory, open files, logs, checkpoints, the time of steps or the loss grow.
//!
//! `cargo run --release -p trainyard-tests --bin endurance -- --minutes 60 --seed 7`

use std::io::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;
use trainyard_tests::{Clicks, Endurance};

#[global_allocator]
static ALLOCATOR: trainyard::Allocator = trainyard::ALLOCATOR;

/// Trains generated click records on a chief, servers, workers and an evaluator, with hashed and dynamic tables, and looks at
/// memory, open files, logs, checkpoints, the time of steps and the loss. Its exit code is 0 only if none of them grows, no
/// log is longer than it may be, and each update was applied once.
#[derive(Debug, Parser)]
struct Arguments {
    /// Length of the run, in minutes.
    #[arg(long, default_value_t = 60.0)]
    minutes: f64,
    /// Minutes at its start that say nothing of slopes; by default 10, or a third of a shorter run.
    #[arg(long)]
    warm_up: Option<f64>,
    /// Seconds between two points of a slope.
    #[arg(long, default_value_t = 60.0)]
    point_seconds: f64,
    /// Seed of every choice; by default one that no run had.
    #[arg(long)]
    seed: Option<u64>,
    /// Parameter servers.
    #[arg(long, default_value_t = 2)]
    servers: usize,
    /// Workers, besides the chief.
    #[arg(long, default_value_t = 2)]
    workers: usize,
    /// Mean seconds between kills of the last worker; 0 = none.
    #[arg(long, default_value_t = 180.0)]
    kill_worker: f64,
    /// Mean seconds between kills of the last server; 0 = none.
    #[arg(long, default_value_t = 240.0)]
    kill_server: f64,
    /// Row ids of the data, each counted on the servers.
    #[arg(long, default_value_t = 200_000)]
    rows: u32,
    /// Bytes of a server's log from which it asks for a checkpoint.
    #[arg(long, default_value_t = 1 << 30)]
    log_bytes_max: u64,
    /// Sets one key of the job, for example strategy.update=sync. May be given more than once.
    #[arg(long = "set", value_name = "SECTION.KEY=VALUE")]
    set: Vec<String>,
    /// Keeps data, logs and checkpoints in this folder.
    #[arg(long)]
    keep: Option<PathBuf>,
}

fn main() -> ExitCode {
    let commands = ["run", "evaluate", "predict", "inspect"];
    if std::env::args()
        .nth(1)
        .is_some_and(|first| commands.contains(&first.as_str()))
    {
        return trainyard::main_with(Clicks::from_job);
    }
    let arguments = Arguments::parse();
    let scratch = tempfile::tempdir().expect("a temporary folder");
    let folder = arguments.keep.as_deref().unwrap_or(scratch.path());
    let period = |seconds: f64| (seconds > 0.0).then(|| Duration::from_secs_f64(seconds));
    let minutes = |minutes: f64| Duration::from_secs_f64(minutes * 60.0);
    let endurance = Endurance {
        program: std::env::current_exe().expect("the path of this program"),
        seed: arguments
            .seed
            .unwrap_or_else(|| trainyard_tests::seed("nothing grows")),
        length: minutes(arguments.minutes),
        point: Duration::from_secs_f64(arguments.point_seconds),
        warm_up: minutes(
            arguments
                .warm_up
                .unwrap_or((arguments.minutes / 3.0).min(10.0)),
        ),
        servers: arguments.servers,
        workers: arguments.workers,
        kill_worker: period(arguments.kill_worker),
        kill_server: period(arguments.kill_server),
        rows: arguments.rows,
        log_bytes_max: arguments.log_bytes_max,
        settings: arguments.set,
    };
    let mut out = std::io::stdout();
    let _ = writeln!(out, "seed {}", endurance.seed);
    let outcome = endurance.run(folder, &mut |line| {
        drop(writeln!(std::io::stdout(), "{line}"))
    });
    let (text, code) = match outcome {
        Ok(report) => (
            report.to_string(),
            ExitCode::from(u8::from(!report.is_good())),
        ),
        Err(problem) => (format!("{problem}\n"), ExitCode::FAILURE),
    };
    let _ = out.write_all(text.as_bytes());
    if arguments.keep.is_none() && code != ExitCode::SUCCESS {
        let _ = writeln!(out, "logs and checkpoints: {}", scratch.keep().display());
    }
    code
}
