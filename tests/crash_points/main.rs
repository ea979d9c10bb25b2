//! Kills a chief and a server at each of their file operations in turn, and tells whether each update counted once.
//!
//! `cargo run -p trainyard-tests --bin crash-points -- --sample 20`

use std::io::Write as _;
use std::process::ExitCode;

use clap::Parser;
use trainyard_tests::{CrashPoints, Need, as_task};

/// Runs a counting job again and again, whose chief or server strace kills at one of its file operations after the other: some
/// minutes. A supervisor starts it again, and each update must count once.
#[derive(Debug, Parser)]
struct Arguments {
    /// Tries only so many points of each, drawn at random.
    #[arg(long)]
    sample: Option<usize>,
    /// Seed of that choice.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Tries only the points whose names hold this: `ps:1 at rename 1`.
    #[arg(long)]
    only: Option<String>,
}

fn main() -> ExitCode {
    if let Some(code) = as_task() {
        return code;
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
    let told = &mut |line: &str| drop(writeln!(std::io::stdout(), "{line}"));
    match points.of_daemons(told) {
        Ok(survived) => {
            let passed = survived.tried - survived.failures.len();
            let _ = writeln!(
                out,
                "{passed}/{} crash points survived, of {} in all\n{}",
                survived.tried,
                survived.points,
                survived.failures.join("\n")
            );
            ExitCode::from(u8::from(!survived.failures.is_empty()))
        }
        Err(problem) => {
            let _ = writeln!(out, "{problem}");
            ExitCode::FAILURE
        }
    }
}
