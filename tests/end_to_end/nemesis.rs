//! Random faults, many of them, in a job whose every update is counted.

use std::path::Path;
use std::time::Duration;

use trainyard_tests::{Nemesis, Periods, Way, seed};

/// A job that mostly stands still has less: faults come every second or two here, and each costs a fraction of one.
const GOODPUT_MIN: f64 = 0.2;

/// Runs a counting job under faults, and fails unless each update was applied once.
fn exact(way: Way, length: Duration, periods: Periods) {
    run(way, length, periods, false, GOODPUT_MIN);
}

fn run(way: Way, length: Duration, periods: Periods, limits: bool, goodput_min: f64) {
    let seed = seed("every update counts once");
    let nemesis = Nemesis {
        program: Path::new(env!("CARGO_BIN_EXE_nemesis")).to_owned(),
        seed,
        length,
        baseline: Duration::from_secs(3),
        servers: 2,
        workers: 3,
        rows: 5000,
        way,
        periods,
        limits,
        settings: vec!["run.save_checkpoints_secs=2".to_owned()],
    };
    let folder = tempfile::tempdir().expect("a temporary folder");
    let report = nemesis.run(folder.path(), &mut |line| println!("{line}"));
    let problem = match report {
        Ok(report)
            if report.is_good() && report.absent.is_empty() && report.goodput > goodput_min =>
        {
            println!("{report}");
            return;
        }
        Ok(report) => report.to_string(),
        Err(problem) => problem,
    };
    panic!(
        "seed {seed}, kept in {}:\n{problem}",
        folder.keep().display()
    );
}

trial!(
    every_update_counts_once_while_workers_servers_and_the_chief_are_killed_at_random,
    alone
);
fn every_update_counts_once_while_workers_servers_and_the_chief_are_killed_at_random() {
    let every = |seconds: f64| Some(Duration::from_secs_f64(seconds));
    let periods = Periods {
        worker: every(2.0),
        server: every(4.0),
        chief: every(6.0),
        evaluator: every(5.0),
        pair: every(6.0),
        ..Periods::default()
    };
    exact(Way::Async, Duration::from_secs(20), periods);
}

trial!(
    every_update_counts_once_while_tasks_stand_still_or_are_told_to_stop_at_random,
    alone
);
fn every_update_counts_once_while_tasks_stand_still_or_are_told_to_stop_at_random() {
    let every = |seconds: f64| Some(Duration::from_secs_f64(seconds));
    let periods = Periods {
        pause: every(4.0),
        terminate: every(3.0),
        ..Periods::default()
    };
    exact(Way::Async, Duration::from_secs(15), periods);
}

trial!(
    every_update_counts_once_while_servers_in_pairs_are_killed_at_random,
    alone
);
fn every_update_counts_once_while_servers_in_pairs_are_killed_at_random() {
    let every = |seconds: f64| Some(Duration::from_secs_f64(seconds));
    let periods = Periods {
        worker: every(5.0),
        server: every(4.0),
        chief: every(6.0),
        ..Periods::default()
    };
    exact(Way::Replica, Duration::from_secs(20), periods);
}

trial!(
    every_update_counts_once_where_workers_hold_dense_variables_and_servers_tables,
    alone
);
fn every_update_counts_once_where_workers_hold_dense_variables_and_servers_tables() {
    let every = |seconds: f64| Some(Duration::from_secs_f64(seconds));
    let periods = Periods {
        worker: every(4.0),
        server: every(4.0),
        chief: every(5.0),
        pair: every(6.0),
        ..Periods::default()
    };
    exact(Way::Hybrid, Duration::from_secs(15), periods);
}

trial!(
    every_update_counts_once_and_every_death_names_its_limit_while_memory_disks_and_files_are_short,
    needs MemoryGroups Disks Strace,
    alone
);
fn every_update_counts_once_and_every_death_names_its_limit_while_memory_disks_and_files_are_short()
{
    let every = |seconds: f64| Some(Duration::from_secs_f64(seconds));
    let periods = Periods {
        server: every(8.0),
        shortage: every(5.0),
        files: every(4.0),
        ..Periods::default()
    };
    // The time until the operator has raised a limit that cannot be met counts, too.
    run(Way::Async, Duration::from_secs(15), periods, true, 0.0);
}
