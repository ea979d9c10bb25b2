//! A crash at some moments of the life of a daemon; at all of them: `crash-points`.

use std::path::Path;

use trainyard_tests::{CrashPoints, Survived, seed};

/// Kills of each kind of daemon, of all that could be tried.
const SAMPLE: usize = 3;
/// The kinds of daemons: chief and server.
const DAEMONS: usize = 2;

/// Runs an enumeration.
fn all_survive(
    sample: Option<usize>,
    only: Option<&str>,
    run: impl Fn(&CrashPoints) -> Result<Survived, String>,
) {
    let seed = seed("killed at a file operation");
    let program = Path::new(env!("CARGO_BIN_EXE_crash-points")).to_owned();
    let survived = run(&CrashPoints {
        program,
        sample,
        seed,
        only: only.map(str::to_owned),
    })
    .expect("strace may trace");
    let Survived {
        points,
        tried,
        failures,
    } = &survived;
    println!(
        "seed {seed}: {}/{tried} crash points survived, of {points}",
        tried - failures.len()
    );
    assert!(failures.is_empty(), "seed {seed}:\n{}", failures.join("\n"));
    // A point that a run does not come to proves nothing: another one is drawn for it.
    let wanted = match (sample, only) {
        (Some(sample), _) => sample * DAEMONS,
        (None, Some(_)) => 1,
        (None, None) => *points,
    };
    assert!(
        *tried >= wanted.max(1),
        "seed {seed}: {tried} of {wanted} kills were reached, of {points} points"
    );
}

trial!(a_chief_or_server_that_is_killed_at_a_file_operation_loses_and_repeats_nothing, needs Strace);
fn a_chief_or_server_that_is_killed_at_a_file_operation_loses_and_repeats_nothing() {
    all_survive(Some(SAMPLE), None, |points| {
        points.of_daemons(&mut |line| println!("{line}"))
    });
}

trial!(a_server_that_is_killed_before_its_log_has_a_file_is_claimed_again, needs Strace);
fn a_server_that_is_killed_before_its_log_has_a_file_is_claimed_again() {
    // Its second life knows of no claim, and its chief was told that it is claimed.
    all_survive(None, Some("ps:1 at rename 1"), |points| {
        points.of_daemons(&mut |line| println!("{line}"))
    });
}
