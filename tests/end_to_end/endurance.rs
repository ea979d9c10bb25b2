//! The run of hours, for half a minute: what it kills, counts and bounds. Its slopes take longer.

use std::path::Path;
use std::time::Duration;

use trainyard_tests::{Endurance, seed};

trial!(
    a_stream_that_never_repeats_is_trained_exactly_under_kills_and_its_logs_stay_below_their_bound,
    alone
);
fn a_stream_that_never_repeats_is_trained_exactly_under_kills_and_its_logs_stay_below_their_bound()
{
    let seed = seed("nothing grows");
    let endurance = Endurance {
        program: Path::new(env!("CARGO_BIN_EXE_endurance")).to_owned(),
        seed,
        length: Duration::from_secs(30),
        point: Duration::from_secs(5),
        warm_up: Duration::from_secs(30),
        servers: 2,
        workers: 2,
        kill_worker: Some(Duration::from_secs(8)),
        kill_server: Some(Duration::from_secs(10)),
        rows: 20_000,
        // Of a server that writes some 10 MB a second: it asks for several checkpoints.
        // Far more than what comes while a checkpoint is written beside other work.
        log_bytes_max: 160 << 20,
        settings: Vec::new(),
    };
    let folder = tempfile::tempdir().expect("a temporary folder");
    let report = endurance.run(folder.path(), &mut |line| println!("{line}"));
    let problem = match report {
        Ok(report) if report.is_good() && report.kills > 1 && report.log_bytes.0 > 16 << 20 => {
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
