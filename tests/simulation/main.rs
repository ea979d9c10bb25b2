//! Whole clusters on one thread: the very functions that the daemons run, on a network, with clocks and under faults that a
//! seed makes up. See `docs/CONTRIBUTING.md` on how to run more of them, and one again.
//!
//! Each seed has a process of its own: what the runtime counts in a process would make the next one different.

mod entropy;
mod fault;
mod monitor;
mod network;
mod options;
mod process;
mod seeds;
mod trace;
mod trial;

use std::path::Path;

use options::{Options, SEEDS_WITH_BACKUPS, SEEDS_WITH_LIMIT, SEEDS_WITH_STORE};
use seeds::{SEED, a_third_from, of_file, of_remainder, run_each, run_once};
use trace::Trace;

/// Says what of the tasks' log lines is printed and compared: a filter such as `trainyard=debug`.
const LOG: &str = "SIMULATION_LOG";

/// Runs one seed in this process.
fn run(seed: u64) {
    let options = Options::of(seed);
    let memory = Path::new("/dev/shm");
    let mut folder = tempfile::Builder::new();
    folder.prefix("simulation-");
    // Nothing here is to survive the machine, and flushing a disk takes long.
    let folder = if memory.is_dir() {
        folder.tempdir_in(memory)
    } else {
        folder.tempdir()
    };
    let folder = folder.expect("a temporary folder");
    let filter = std::env::var(LOG).ok();
    let trace = Trace::new(&folder.path().to_string_lossy(), filter.is_some());
    let subscriber = trace.subscriber(filter.as_deref().unwrap_or("trainyard=info"));
    let outcome = tracing::subscriber::with_default(subscriber, || {
        trial::run(&options, folder.path(), &trace)
    });
    match outcome {
        Ok(report) => println!("seed={seed} {report}"),
        Err(problem) => {
            if filter.is_none() {
                println!("{}", trace.text());
            }
            panic!("{options}{problem}");
        }
    }
}

/// What the others start for each seed, and what to start to see one again.
#[test]
fn one_cluster_keeps_every_promise() {
    let seed = std::env::var(SEED).ok();
    let seed = seed.map_or(0, |text| text.parse().expect("SIMULATION_SEED is a number"));
    entropy::seed(seed);
    // On a thread that has drawn nothing yet.
    let ran = std::thread::spawn(move || run(seed)).join();
    assert!(ran.is_ok(), "seed {seed} has failed");
}

#[test]
fn asynchronous_updates_count_once_whatever_befalls_the_cluster() {
    run_each(of_remainder(0));
}

#[test]
fn stale_synchronous_updates_count_once_whatever_befalls_the_cluster() {
    run_each(of_remainder(1));
}

#[test]
fn synchronous_updates_count_once_whatever_befalls_the_cluster() {
    run_each(of_remainder(2));
}

#[test]
fn updates_count_once_while_the_model_folder_fails_for_seconds() {
    run_each(a_third_from(SEEDS_WITH_STORE));
}

#[test]
fn updates_count_once_while_shards_move_between_a_server_and_its_backup() {
    run_each(a_third_from(SEEDS_WITH_BACKUPS));
}

#[test]
fn a_job_that_ends_by_its_steps_has_each_batch_on_every_server_or_on_none() {
    run_each(a_third_from(SEEDS_WITH_LIMIT));
}

#[test]
fn seeds_that_have_failed_before_do_not_fail_again() {
    run_each(of_file());
}

/// Whatever a seed shows can be looked at again: log lines, with their times, are the same in each run of it.
#[test]
fn a_seed_goes_the_same_way_each_time() {
    for seed in 0..6 {
        let [first, second] = [run_once(seed), run_once(seed)];
        assert!(first.contains("hash="), "{first}");
        assert_eq!(first, second, "seed {seed} went another way");
    }
}
