//! Kills, pauses and stops the tasks of a counting job at random, and tells whether every update counted once.
//!
//! `cargo run --release -p trainyard-tests --bin nemesis -- --minutes 10 --seed 7`

use std::io::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;
use trainyard_tests::{Need, Nemesis, Periods, Way, as_task};

/// What limits need.
const NEEDS: [Need; 3] = [Need::MemoryGroups, Need::Disks, Need::Strace];

#[global_allocator]
static ALLOCATOR: trainyard::Allocator = trainyard::ALLOCATOR;

/// Runs a counting job on a chief, servers, workers and an evaluator, kills them at random under a supervisor, and reports
/// what became of the updates. Its exit code is 0 only if each was applied once on every
/// server and all tasks have ended by themselves.
#[derive(Debug, Parser)]
struct Arguments {
    /// Length of the job without faults, in minutes.
    #[arg(long, default_value_t = 10.0)]
    minutes: f64,
    /// Length of the run without faults that goodput is compared with, in seconds; as long as the job by default.
    #[arg(long)]
    baseline_seconds: Option<f64>,
    /// Seed of every choice; by default one that no run had.
    #[arg(long)]
    seed: Option<u64>,
    /// The way to train: async, ssp, sync, in_graph, multi_worker_mirrored, hybrid or replica.
    #[arg(long, default_value = "async", value_parser = Way::named)]
    way: Way,
    /// Parameter servers.
    #[arg(long, default_value_t = 2)]
    servers: usize,
    /// Workers, besides the chief.
    #[arg(long, default_value_t = 3)]
    workers: usize,
    /// Row ids of the data.
    #[arg(long, default_value_t = 50_000)]
    rows: u32,
    /// Seconds between kills of workers; 0 = none. This and the others are means.
    #[arg(long, default_value_t = 30.0)]
    kill_worker: f64,
    /// Seconds between kills of servers; 0 = none.
    #[arg(long, default_value_t = 60.0)]
    kill_server: f64,
    /// Seconds between kills of the chief; 0 = none.
    #[arg(long, default_value_t = 90.0)]
    kill_chief: f64,
    /// Seconds between kills of the evaluator; 0 = none.
    #[arg(long, default_value_t = 120.0)]
    kill_evaluator: f64,
    /// Seconds between kills of two tasks in the same instant, of any roles but the evaluator's; 0 = none.
    #[arg(long, default_value_t = 80.0)]
    kill_pair: f64,
    /// Seconds between tasks that stand still for a while; 0 = none.
    #[arg(long, default_value_t = 75.0)]
    pause: f64,
    /// Seconds between tasks that are told to stop, and started again; 0 = none.
    #[arg(long, default_value_t = 100.0)]
    terminate: f64,
    /// Draws limits of memory, disks and open files, and lets them be short and files fail for a while. Needs root.
    #[arg(long)]
    limits: bool,
    /// Seconds between shortages of each kind, with --limits; 0 = none.
    #[arg(long, default_value_t = 40.0)]
    shortage: f64,
    /// Seconds between errors of files, and between slow files, with --limits; 0 = none.
    #[arg(long, default_value_t = 40.0)]
    files: f64,
    /// Sets one key of the job, for example strategy.update=sync. May be given more than once.
    #[arg(long = "set", value_name = "SECTION.KEY=VALUE")]
    set: Vec<String>,
    /// Keeps data, logs and checkpoints in this folder.
    #[arg(long)]
    keep: Option<PathBuf>,
}

fn main() -> ExitCode {
    if let Some(code) = as_task() {
        return code;
    }
    let arguments = Arguments::parse();
    if arguments.limits
        && let Some((need, why)) = NEEDS.iter().find_map(|need| Some((need, need.missing()?)))
    {
        let _ = writeln!(std::io::stdout(), "--limits needs {}: {why}", need.name());
        return ExitCode::FAILURE;
    }
    let scratch = tempfile::tempdir().expect("a temporary folder");
    let folder = arguments.keep.as_deref().unwrap_or(scratch.path());
    let period = |seconds: f64| (seconds > 0.0).then(|| Duration::from_secs_f64(seconds));
    let length = Duration::from_secs_f64(arguments.minutes * 60.0);
    let nemesis = Nemesis {
        program: std::env::current_exe().expect("the path of this program"),
        seed: arguments
            .seed
            .unwrap_or_else(|| trainyard_tests::seed("every update counts once")),
        length,
        baseline: arguments
            .baseline_seconds
            .map_or(length, Duration::from_secs_f64),
        servers: arguments.servers,
        workers: arguments.workers,
        rows: arguments.rows,
        way: arguments.way,
        periods: Periods {
            worker: period(arguments.kill_worker),
            server: period(arguments.kill_server),
            chief: period(arguments.kill_chief),
            evaluator: period(arguments.kill_evaluator),
            pair: period(arguments.kill_pair),
            pause: period(arguments.pause),
            terminate: period(arguments.terminate),
            shortage: period(arguments.shortage),
            files: period(arguments.files),
        },
        limits: arguments.limits,
        settings: arguments.set,
    };
    let mut out = std::io::stdout();
    let _ = writeln!(out, "seed {}", nemesis.seed);
    let outcome = nemesis.run(folder, &mut |line| {
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
