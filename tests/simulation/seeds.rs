//! Which seeds are run, each in a process of its own.

use std::process::Command;
use std::time::Instant;

/// Says which seed the process runs.
pub(crate) const SEED: &str = "SIMULATION_SEED";
/// Says how many seeds are run in all.
const SEEDS: &str = "SIMULATION_SEEDS";
/// Says which seed is the first.
const FIRST: &str = "SIMULATION_FIRST";
/// Seeds that are run where nothing is said.
const SEEDS_DEFAULT: u64 = 100;
/// The test that runs one.
const ONE: &str = "one_cluster_keeps_every_promise";
/// Seeds that have failed, and what they found.
const FAILED: &str = include_str!("failed_seeds.txt");

fn number(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |text| {
        text.parse()
            .unwrap_or_else(|_| panic!("{name} must be a number, given `{text}`"))
    })
}

/// Returns the seeds of one way of updating: those with this remainder by 3.
pub(crate) fn of_remainder(remainder: u64) -> Vec<u64> {
    let first = number(FIRST, 0);
    let count = number(SEEDS, SEEDS_DEFAULT);
    (first..first + count)
        .filter(|seed| seed % 3 == remainder)
        .collect()
}

/// Returns seeds of another kind, which begin at `start`: a third as many as there are others.
pub(crate) fn a_third_from(start: u64) -> Vec<u64> {
    let first = number(FIRST, 0);
    let count = number(SEEDS, SEEDS_DEFAULT).div_ceil(3);
    (first..first + count).map(|seed| start + seed).collect()
}

/// Returns the seeds that have failed before.
pub(crate) fn of_file() -> Vec<u64> {
    let words = FAILED
        .lines()
        .filter_map(|line| line.split_whitespace().next());
    words
        .filter(|word| *word != "#")
        .map(|word| word.parse().expect("a seed begins the line"))
        .collect()
}

/// Runs a seed; returns the line that it ends with, or everything that it printed, where it failed.
fn attempt(seed: u64) -> Result<String, String> {
    let program = std::env::current_exe().expect("the path of this program");
    let mut command = Command::new(program);
    command
        .args([ONE, "--exact", "--nocapture"])
        .env(SEED, seed.to_string())
        .env("RUST_BACKTRACE", "0");
    let output = command.output().expect("this program can be started");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let line = text
        .lines()
        .find(|line| line.starts_with("seed="))
        .map(str::to_owned);
    match line {
        Some(line) if output.status.success() => Ok(line),
        _ => Err(format!("{text}{}", String::from_utf8_lossy(&output.stderr))),
    }
}

/// Runs a seed, and returns its report.
pub(crate) fn run_once(seed: u64) -> String {
    attempt(seed).unwrap_or_else(|output| fail(&[(seed, output)]))
}

/// Runs seeds one after the other.
pub(crate) fn run_each(seeds: Vec<u64>) {
    let begun = Instant::now();
    let mut failed = Vec::new();
    let mut simulated = 0.0;
    let mut healed_max = 0.0_f64;
    let mut faults = 0;
    for seed in &seeds {
        match attempt(*seed) {
            Ok(report) => {
                let of = |name: &str| -> f64 {
                    let part = report
                        .split_whitespace()
                        .find_map(|part| part.strip_prefix(name));
                    part.and_then(|text| text.parse().ok()).unwrap_or_default()
                };
                simulated += of("simulated=");
                healed_max = healed_max.max(of("healed="));
                faults += of("faults=") as u64;
            }
            Err(output) => failed.push((*seed, output)),
        }
    }
    println!(
        "{} seeds, {:.2} simulated hours, {faults} faults, at most {healed_max:.1} s to the end behind the last, in {:.0} s",
        seeds.len(),
        simulated / 3600.0,
        begun.elapsed().as_secs_f64()
    );
    if !failed.is_empty() {
        fail(&failed);
    }
}

/// Says which seeds have failed, and shows the first.
fn fail(failed: &[(u64, String)]) -> ! {
    let seeds: Vec<String> = failed.iter().map(|(seed, _)| seed.to_string()).collect();
    let (seed, output) = &failed[0];
    panic!(
        "{output}\nseeds that fail: {}\nto see it again: {SEED}={seed} cargo test -p trainyard-tests --test simulation {ONE} \
         -- --nocapture",
        seeds.join(" ")
    );
}
