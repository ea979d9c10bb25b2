//! Chiefs that come when there is nothing to do.

use std::time::{Duration, Instant};

use trainyard_tests::TestCluster;

use crate::LIMIT;

/// Longest life of a chief that has nothing to do: it looks for servers for 2 s.
const AT_ONCE: Duration = Duration::from_secs(10);

/// Runs a job to its end, with nobody left.
fn done(end: &str) -> TestCluster {
    let cluster = TestCluster::new(2, 1, 1000, end);
    let programs = [
        cluster.start("ps", 0, &[]),
        cluster.start("ps", 1, &[]),
        cluster.start("chief", 0, &[]),
        cluster.start("worker", 0, &[]),
    ];
    for program in programs {
        let ended = program.wait(LIMIT);
        assert_eq!(ended.code, 0, "{}", ended.output);
    }
    assert_eq!(cluster.job_state()["phase"], "done");
    cluster
}

/// A chief that is alone ends at once, and says why; one with more to do waits for its servers.
fn nothing_to_do(cluster: &TestCluster, reason: &str, more: &[&str]) {
    let before = cluster.job_state();
    for _ in 0..2 {
        let begun = Instant::now();
        let ended = cluster.start("chief", 0, &[]).wait(LIMIT);
        let lived = begun.elapsed();
        assert_eq!(ended.code, 0, "{}", ended.output);
        assert!(ended.output.contains("nothing to do") && ended.output.contains(reason), "{}", ended.output);
        assert!(lived < AT_ONCE, "{lived:?}");
        assert_eq!(cluster.job_state(), before, "the marker stays");
        println!("a chief with nothing to do has ended after {lived:?}");
    }
    // Servers and workers that were started with it end too.
    let mut programs = vec![cluster.start("ps", 0, &[]), cluster.start("ps", 1, &[])];
    programs.iter_mut().for_each(|server| drop(server.wait_for("serving", LIMIT)));
    programs.push(cluster.start("chief", 0, &[]));
    for program in programs {
        let ended = program.wait(LIMIT);
        assert_eq!(ended.code, 0, "{}", ended.output);
    }
    let mut programs = vec![cluster.start("chief", 0, more)];
    programs[0].wait_for("waiting: chief:0 for ps:", LIMIT);
    programs.extend([
        cluster.start("ps", 0, more),
        cluster.start("ps", 1, more),
        cluster.start("worker", 0, more),
    ]);
    for program in programs {
        let ended = program.wait(LIMIT);
        assert_eq!(ended.code, 0, "{}", ended.output);
    }
    let (step, before) = (cluster.job_state()["global_step"].as_u64(), before["global_step"].as_u64());
    assert!(step > before, "{step:?}, {before:?} before");
}

#[test]
fn a_chief_of_a_job_that_has_all_its_steps_ends_at_once() {
    let cluster = done("[train]\nmax_steps = 50\n");
    nothing_to_do(&cluster, "train.max_steps = 50", &["--set", "train.max_steps=80"]);
}

#[test]
fn a_chief_of_a_job_whose_data_has_been_applied_ends_at_once() {
    let cluster = done("");
    nothing_to_do(&cluster, "input.train.epochs = 2", &["--set", "input.train.epochs=3"]);
}
