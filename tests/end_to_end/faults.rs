//! Jobs in which something dies, or is told to stop.

use std::path::Path;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use trainyard_cluster_spec::{LocalCounts, Role, Task};
use trainyard_tests::{Account, Ledger, Program, Supervisor, TestCluster, get, is_ready, metric};

use crate::end_to_end::LIMIT;

trial!(a_killed_worker_comes_back_and_every_batch_still_counts_once);
fn a_killed_worker_comes_back_and_every_batch_still_counts_once() {
    kill_a_worker(&[]);
}

trial!(a_killed_worker_that_read_ahead_comes_back_and_every_batch_still_counts_once);
fn a_killed_worker_that_read_ahead_comes_back_and_every_batch_still_counts_once() {
    kill_a_worker(&["--set", "strategy.pipeline_depth=2"]);
}

fn kill_a_worker(more: &[&str]) {
    // Two passes of 3750 batches of 16: it lasts until the worker is back, on a fast machine too.
    let cluster = TestCluster::new(2, 1, 60_000, "");
    let servers = [cluster.start("ps", 0, more), cluster.start("ps", 1, more)];
    let chief = cluster.start("chief", 0, more);
    let mut worker = cluster.start("worker", 0, more);
    worker.wait_for("training step=", LIMIT);
    worker.signal(Signal::KILL);
    assert_eq!(worker.wait(LIMIT).code, 137);
    let back = Instant::now();
    let mut worker = cluster.start("worker", 0, more);
    let line = worker.wait_for("joined", LIMIT);
    assert!(
        !line.contains("next_batch=0"),
        "it goes on where it was: {line}"
    );
    println!("rejoined after {:?}", back.elapsed());
    for program in [worker, chief].into_iter().chain(servers) {
        let ended = program.wait(LIMIT);
        assert_eq!(ended.code, 0, "{}", ended.output);
    }
    assert_eq!(cluster.job_state()["global_step"].as_u64(), Some(2 * 3750));
}

trial!(a_stopped_job_goes_on_from_its_checkpoint);
fn a_stopped_job_goes_on_from_its_checkpoint() {
    let cluster = TestCluster::new(2, 0, 2000, "[train]\nmax_steps = 100000000\n");
    let start = || {
        [
            cluster.start("ps", 0, &[]),
            cluster.start("ps", 1, &[]),
            cluster.start("chief", 0, &[]),
        ]
    };
    let mut programs = start();
    programs[2].wait_for("training step=200", LIMIT);
    for program in programs.iter().rev() {
        program.signal(Signal::TERM);
    }
    for program in programs {
        let ended = program.wait(LIMIT);
        assert_eq!(ended.code, 0, "{}", ended.output);
    }
    let state = cluster.job_state();
    let step = state["global_step"].as_u64().expect("a step");
    assert!(state["phase"] == "stopped" && step >= 200, "{state}");
    let mut programs = start();
    let line = programs[2].wait_for("training is open", LIMIT);
    assert!(
        line.contains(&format!("step={step}")),
        "step {step}: {line}"
    );
    let joined = programs[2].wait_for("joined", LIMIT);
    assert!(
        joined.contains(&format!("next_batch={step}")),
        "step {step}: {joined}"
    );
}

trial!(a_killed_server_without_a_log_is_restored_and_training_goes_on);
fn a_killed_server_without_a_log_is_restored_and_training_goes_on() {
    let end = "[train]\nmax_steps = 8000\n[parameter_servers]\ndurability = \"none\"\n";
    let cluster = TestCluster::new(2, 1, 2000, end);
    let mut servers = vec![cluster.start("ps", 0, &[]), cluster.start("ps", 1, &[])];
    let more = ["--set", "run.save_checkpoints_steps=500"];
    let mut chief = cluster.start("chief", 0, &more);
    let worker = cluster.start("worker", 0, &more);
    chief.wait_for("checkpoint saved step=5", LIMIT);
    let server = servers.remove(1);
    server.signal(Signal::KILL);
    assert_eq!(server.wait(LIMIT).code, 137);
    servers.push(cluster.start("ps", 1, &[]));
    chief.wait_for("ps:1", LIMIT);
    chief.wait_for("restoring", LIMIT);
    for program in [worker, chief].into_iter().chain(servers) {
        let ended = program.wait(LIMIT);
        assert_eq!(ended.code, 0, "{}", ended.output);
    }
    assert_eq!(cluster.job_state()["global_step"].as_u64(), Some(8_000));
}

trial!(a_restarted_chief_takes_the_running_job_over);
fn a_restarted_chief_takes_the_running_job_over() {
    let cluster = TestCluster::new(1, 1, 2000, "[train]\nmax_steps = 12000\n");
    let server = cluster.start("ps", 0, &[]);
    let mut chief = cluster.start("chief", 0, &[]);
    let mut worker = cluster.start("worker", 0, &[]);
    chief.wait_for("training step=", LIMIT);
    worker.wait_for("training step=", LIMIT);
    chief.signal(Signal::KILL);
    assert_eq!(chief.wait(LIMIT).code, 137);
    let mut chief: Program = cluster.start("chief", 0, &[]);
    chief.wait_for("taking over a job that is running", LIMIT);
    for program in [worker, chief, server] {
        let ended = program.wait(LIMIT);
        assert_eq!(ended.code, 0, "{}", ended.output);
    }
    assert_eq!(cluster.job_state()["global_step"].as_u64(), Some(12_000));
}

trial!(a_second_process_of_a_task_is_refused);
fn a_second_process_of_a_task_is_refused() {
    let cluster = TestCluster::new(1, 1, 2000, "[train]\nmax_steps = 100000000\n");
    let _server = cluster.start("ps", 0, &[]);
    let mut chief = cluster.start("chief", 0, &[]);
    let mut worker = cluster.start("worker", 0, &[]);
    chief.wait_for("training step=", LIMIT);
    worker.wait_for("training step=", LIMIT);
    let ended = cluster.start("worker", 0, &[]).wait(LIMIT);
    assert_eq!(ended.code, 75, "{}", ended.output);
    assert!(
        ended.output.contains("error[E2008]") && ended.output.contains("already served by"),
        "{}",
        ended.output
    );
    worker.wait_for("training step=", Duration::from_secs(10));
}

trial!(a_worker_that_stood_still_while_the_job_ended_ends_too);
fn a_worker_that_stood_still_while_the_job_ended_ends_too() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let ledger = Ledger {
        rows: 5000,
        epochs: 100,
        batch_size: 64,
        lanes: 1,
        servers: 2,
    };
    let job = ledger.write(folder.path());
    let counts = LocalCounts {
        ps: 2,
        workers: 2,
        evaluators: 0,
    };
    let program = Path::new(env!("CARGO_BIN_EXE_nemesis"));
    let mut tasks = Supervisor::new(program, folder.path(), &job, counts, &[]);
    let [chief, worker] = [Role::Chief, Role::Worker].map(|role| Task { role, index: 0 });
    tasks.start_all();
    let trains = |tasks: &Supervisor| {
        metric(tasks.admin(worker), "trainyard_steps_total").is_some_and(|steps| steps > 0.0)
    };
    tasks.wait_until("it trains", LIMIT, trains);
    tasks.signal(worker, Signal::STOP);
    assert!(
        tasks.wait_for_end_of(chief, LIMIT),
        "the others end the job without it"
    );
    let others: Vec<Task> = tasks
        .tasks()
        .into_iter()
        .filter(|task| *task != worker)
        .collect();
    tasks.wait_until("the others end", LIMIT, |tasks| {
        others.iter().all(|task| !tasks.runs(*task))
    });
    let begun = Instant::now();
    tasks.signal(worker, Signal::CONT);
    assert!(
        tasks.wait_for_end_of(worker, LIMIT / 4),
        "{:?}",
        tasks.lines(worker, "").last()
    );
    println!("it ended {:?} after it went on", begun.elapsed());
    let account =
        Account::of_model_dir(&folder.path().join("model"), &ledger).expect("a last checkpoint");
    assert!(account.is_exact(), "{account}");
}

trial!(a_worker_without_data_whose_chief_stands_still_is_not_ready_until_the_chief_goes_on);
fn a_worker_without_data_whose_chief_stands_still_is_not_ready_until_the_chief_goes_on() {
    for replication in ["between_graph", "in_graph"] {
        let set = format!("strategy.replication=\"{replication}\"");
        let more = ["--set", &*set, "--set", "input.train.epochs=1000000"];
        let cluster = TestCluster::new(1, 1, 4000, "");
        let _server = cluster.start("ps", 0, &more);
        let chief = cluster.start("chief", 0, &more);
        let mut worker = cluster.start("worker", 0, &more);
        let admin = worker.admin_address(LIMIT);
        worker.wait_for("training step=", LIMIT);
        let steps = || metric(&admin, "trainyard_steps_total").expect("it answers");
        chief.signal(Signal::STOP);
        let begun = Instant::now();
        let waits_for_chief = || {
            let (head, body) =
                get(&admin, "/readyz", Duration::from_secs(5)).expect("the worker answers");
            head.contains(" 503 ") && body.contains("chief:0")
        };
        wait_until("it waits for the chief", waits_for_chief);
        println!("{replication}: not ready {:?} after", begun.elapsed());
        let before = steps();
        chief.signal(Signal::CONT);
        wait_until("it is ready", || is_ready(&admin));
        wait_until("it trains on", || steps() > before);
    }
}

fn wait_until(what: &str, is_so: impl Fn() -> bool) {
    let until = Instant::now() + LIMIT;
    while !is_so() {
        assert!(Instant::now() < until, "{what}: not within {LIMIT:?}");
        std::thread::sleep(Duration::from_millis(20));
    }
}
