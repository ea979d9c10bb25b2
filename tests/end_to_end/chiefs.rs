//! Chiefs that come when there is nothing to do, or when another one leads.

use std::time::{Duration, Instant};

use rustix::process::Signal;
use trainyard_tests::{Program, TestCluster};

use crate::end_to_end::LIMIT;

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
        assert!(
            ended.output.contains("nothing to do") && ended.output.contains(reason),
            "{}",
            ended.output
        );
        assert!(lived < AT_ONCE, "{lived:?}");
        assert_eq!(cluster.job_state(), before, "the marker stays");
        println!("a chief with nothing to do has ended after {lived:?}");
    }
    // Servers and workers that were started with it end too.
    let mut programs = vec![cluster.start("ps", 0, &[]), cluster.start("ps", 1, &[])];
    programs
        .iter_mut()
        .for_each(|server| drop(server.wait_for("serving", LIMIT)));
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
    let step = cluster.job_state()["global_step"].as_u64();
    let before = before["global_step"].as_u64();
    assert!(step > before, "{step:?}, {before:?} before");
}

trial!(a_chief_of_a_job_that_has_all_its_steps_ends_at_once);
fn a_chief_of_a_job_that_has_all_its_steps_ends_at_once() {
    let cluster = done("[train]\nmax_steps = 50\n");
    nothing_to_do(
        &cluster,
        "train.max_steps = 50",
        &["--set", "train.max_steps=80"],
    );
}

trial!(a_chief_of_a_job_whose_data_has_been_applied_ends_at_once);
fn a_chief_of_a_job_whose_data_has_been_applied_ends_at_once() {
    let cluster = done("");
    nothing_to_do(
        &cluster,
        "input.train.epochs = 2",
        &["--set", "input.train.epochs=3"],
    );
}

/// Starts two chiefs at once, and returns the one that is left and what the other said, which has ended.
fn two_at_once(cluster: &TestCluster, more: [&[&str]; 2]) -> (Program, String) {
    let begun = Instant::now();
    let mut chiefs: Vec<Program> = more
        .iter()
        .map(|more| cluster.start("chief", 0, more))
        .collect();
    while chiefs.iter_mut().all(Program::runs) {
        assert!(begun.elapsed() < LIMIT, "both go on");
        std::thread::sleep(Duration::from_millis(5));
    }
    let resolved = begun.elapsed();
    let loser = usize::from(chiefs[0].runs());
    let loser = chiefs.remove(loser).wait(LIMIT);
    let mut winner = chiefs.remove(0);
    assert_eq!(loser.code, 75, "{}", loser.output);
    let line = winner.wait_for("training is open", LIMIT);
    assert!(winner.runs(), "one goes on: {line}");
    assert!(resolved < AT_ONCE, "{resolved:?}");
    println!("two chiefs: the other has ended after {resolved:?}");
    (winner, loser.output)
}

trial!(of_two_chiefs_at_one_address_one_has_effect_and_the_other_names_it);
fn of_two_chiefs_at_one_address_one_has_effect_and_the_other_names_it() {
    let cluster = TestCluster::new(1, 0, 2000, "[train]\nmax_steps = 100000000\n");
    let _server = cluster.start("ps", 0, &[]);
    for _ in 0..6 {
        let (winner, told) = two_at_once(&cluster, [&[], &[]]);
        assert!(
            told.contains(&format!("already served by: pid {}", winner.id())),
            "{told}"
        );
        assert_eq!(
            cluster.job_state()["phase"],
            "running",
            "the job is the other's"
        );
        winner.signal(Signal::KILL);
        winner.wait(LIMIT);
    }
}

trial!(of_two_chiefs_at_different_addresses_one_has_effect_and_the_other_names_it);
fn of_two_chiefs_at_different_addresses_one_has_effect_and_the_other_names_it() {
    let cluster = TestCluster::new(2, 0, 2000, "[train]\nmax_steps = 100000000\n");
    let _servers = [cluster.start("ps", 0, &[]), cluster.start("ps", 1, &[])];
    let elsewhere = ["--listen", "127.0.0.1:0"];
    for _ in 0..6 {
        let (winner, told) = two_at_once(&cluster, [&[], &elsewhere]);
        let name = format!("(pid {} on ", winner.id());
        assert!(
            told.contains("error[E2009]") && told.contains(&name),
            "{name}: {told}"
        );
        assert_eq!(
            cluster.job_state()["phase"],
            "running",
            "the job is the other's"
        );
        winner.signal(Signal::KILL);
        winner.wait(LIMIT);
    }
}

trial!(a_second_process_of_a_server_is_refused_and_the_first_goes_on);
fn a_second_process_of_a_server_is_refused_and_the_first_goes_on() {
    let cluster = TestCluster::new(1, 0, 2000, "[train]\nmax_steps = 100000000\n");
    let server = cluster.start("ps", 0, &[]);
    let mut chief = cluster.start("chief", 0, &[]);
    chief.wait_for("training step=", LIMIT);
    let ended = cluster.start("ps", 0, &[]).wait(LIMIT);
    assert_eq!(ended.code, 75, "{}", ended.output);
    assert!(
        ended
            .output
            .contains(&format!("already served by: pid {}", server.id())),
        "{}",
        ended.output
    );
    chief.wait_for_next("training step=", LIMIT);
}
