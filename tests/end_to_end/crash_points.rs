//! A crash at every moment of a save. Those of the life of a daemon are for the program `crash-points --daemons`.

use std::path::Path;

use trainyard_tests::{CrashPoints, Survived, has_strace};

/// Runs an enumeration; says `skipped` where nothing can be traced.
fn all_survive(sample: Option<usize>, run: impl Fn(&CrashPoints) -> Result<Survived, String>) {
    if !has_strace() {
        println!("skipped: strace is not installed here");
        return;
    }
    let seed = u64::from(std::process::id());
    let program = Path::new(env!("CARGO_BIN_EXE_crash-points")).to_owned();
    let survived = run(&CrashPoints { program, sample, seed }).expect("strace may trace");
    let Survived { points, tried, failures } = &survived;
    println!("seed {seed}: {}/{tried} crash points survived, of {points}", tried - failures.len());
    assert!(*tried > 0 && failures.is_empty(), "seed {seed}:\n{}", failures.join("\n"));
}

#[test]
fn a_save_that_is_killed_at_any_system_call_leaves_a_good_checkpoint_behind() {
    all_survive(None, CrashPoints::of_a_save);
}
