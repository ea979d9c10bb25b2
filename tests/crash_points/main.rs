//! Kills a save at each of its system calls in turn, and tells whether a good checkpoint was left each time.
//!
//! `cargo run -p trainyard-tests --bin crash-points -- --daemons`

use std::io::Write as _;
use std::path::Path;
use std::process::ExitCode;

use clap::Parser;
use trainyard_tests::{CrashPoints, Need, as_task, save};

/// Saves a checkpoint again and again, killed at each of its system calls in turn by strace, and checks that the last good
/// checkpoint is restored and the next one is saved.
#[derive(Debug, Parser)]
struct Arguments {
    /// Kills chiefs and servers of whole jobs too, at each of their file operations: some minutes.
    #[arg(long)]
    daemons: bool,
    /// Tries only so many points of each, drawn at random.
    #[arg(long)]
    sample: Option<usize>,
    /// Seed of that choice.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Tries only the points of daemons whose names hold this: `ps:1 at rename 1`.
    #[arg(long, requires = "daemons")]
    only: Option<String>,
}

fn main() -> ExitCode {
    if let Some(code) = as_task() {
        return code;
    }
    let given: Vec<String> = std::env::args().skip(1).collect();
    if let [command, folder, step] = &given[..]
        && command == "save"
    {
        let saved = step.parse().ok().map(|step| save(Path::new(folder), step));
        return ExitCode::from(u8::from(!matches!(saved, Some(Ok(())))));
    }
    let arguments = Arguments::parse();
    let mut out = std::io::stdout();
    if let Some(reason) = Need::Strace.missing() {
        let _ = writeln!(out, "{reason}");
        return ExitCode::FAILURE;
    }
    let program = std::env::current_exe().expect("the path of this program");
    let points = CrashPoints {
        program,
        sample: arguments.sample,
        seed: arguments.seed,
        only: arguments.only,
    };
    let mut parts = Vec::new();
    if points.only.is_none() {
        parts.push(("a save", points.of_a_save()));
    }
    if arguments.daemons {
        parts.push((
            "daemons",
            points.of_daemons(&mut |line| drop(writeln!(std::io::stdout(), "{line}"))),
        ));
    }
    let mut code = ExitCode::SUCCESS;
    for (what, outcome) in parts {
        let text = match outcome {
            Ok(survived) => {
                let passed = survived.tried - survived.failures.len();
                let counts = format!("{passed}/{} crash points survived", survived.tried);
                if !survived.failures.is_empty() {
                    code = ExitCode::FAILURE;
                }
                format!(
                    "{what}: {counts}, of {} in all\n{}",
                    survived.points,
                    survived.failures.join("\n")
                )
            }
            Err(problem) => {
                code = ExitCode::FAILURE;
                format!("{what}: {problem}")
            }
        };
        let _ = writeln!(out, "{text}");
    }
    code
}
