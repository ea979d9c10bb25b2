//! Servers that take long to come back, and jobs whose end something stands in the way of.

use std::path::Path;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use trainyard_tests::{Program, TestCluster, get, metric};

use crate::end_to_end::LIMIT;

/// Longest time to an answer of a server's admin port while it restores: also of a machine that is busy.
const ANSWERS_WITHIN: Duration = Duration::from_secs(2);
/// Time between questions.
const POLL_INTERVAL: Duration = Duration::from_millis(100);

fn ended_well(program: Program) -> String {
    let ended = program.wait(LIMIT);
    assert_eq!(ended.code, 0, "{}", ended.output);
    ended.output
}

/// Starts the servers, the chief and the worker of a job on two servers.
fn start(
    cluster: &TestCluster,
    more: &[&str],
    slow: &[(&str, &str)],
) -> (Vec<Program>, Program, Program) {
    let servers = (0..2)
        .map(|index| cluster.start_in("ps", index, more, slow))
        .collect();
    (
        servers,
        cluster.start("chief", 0, more),
        cluster.start("worker", 0, more),
    )
}

/// What has a job of 300 steps go on.
const GOES_ON: [&str; 2] = ["--set", "train.max_steps=400"];

/// Trains a job to its end, and starts it again to go on, with what its servers do before each piece that they restore.
fn train_and_restore(
    cluster: &TestCluster,
    before_reading: &str,
) -> (Vec<Program>, Program, Program) {
    let (servers, chief, worker) = start(cluster, &[], &[]);
    [worker, chief]
        .into_iter()
        .chain(servers)
        .for_each(|program| drop(ended_well(program)));
    start(
        cluster,
        &GOES_ON,
        &[("FAILPOINTS", &format!("ps.restore.read={before_reading}"))],
    )
}

trial!(a_restore_that_takes_longer_than_any_call_is_made_once_and_its_servers_answer_meanwhile);
fn a_restore_that_takes_longer_than_any_call_is_made_once_and_its_servers_answer_meanwhile() {
    let cluster = TestCluster::new(2, 1, 2000, "[train]\nmax_steps = 300\n");
    // Longer than a connection without a sign of life is believed in, and than systemd's watchdog would be if it were as
    // short as here.
    let (mut servers, mut chief, worker) = train_and_restore(&cluster, "sleep(1500)");
    let admin = &servers[0].admin_address(LIMIT);
    chief.wait_for("restoring", LIMIT);
    let begun = Instant::now();
    let mut preparing = 0;
    while !servers
        .iter_mut()
        .all(|server| server.has_said("variables are ready"))
    {
        assert!(begun.elapsed() < LIMIT, "it is never restored");
        let (_, body) =
            get(admin, "/readyz", ANSWERS_WITHIN).expect("the server answers while it restores");
        preparing += usize::from(body.contains("preparing") && body.contains("GB"));
        get(admin, "/metrics", ANSWERS_WITHIN).expect("the server answers while it restores");
        std::thread::sleep(POLL_INTERVAL);
    }
    println!(
        "restored within {:?}, seen {preparing} times",
        begun.elapsed()
    );
    assert!(
        begun.elapsed() > Duration::from_secs(8),
        "it must take longer than a silent peer is believed in"
    );
    assert!(
        preparing > 20,
        "/readyz says how far it has come: {preparing}"
    );
    let [worker, chief] = [worker, chief].map(ended_well);
    for server in servers {
        let output = ended_well(server);
        assert_eq!(output.matches("variables are ready").count(), 1, "{output}");
    }
    assert!(
        !chief.contains("was restarted") && !chief.contains("cannot be reached"),
        "{chief}"
    );
    assert!(worker.contains("joined"), "{worker}");
    assert_eq!(cluster.job_state()["global_step"].as_u64(), Some(400));
}

trial!(a_save_that_takes_long_holds_up_neither_steps_nor_answers);
fn a_save_that_takes_long_holds_up_neither_steps_nor_answers() {
    let cluster = TestCluster::new(2, 1, 2000, "");
    let slow = [("FAILPOINTS", "ps.ckpt.before_fsync=sleep(4000)")];
    let (mut servers, mut chief, worker) = start(
        &cluster,
        &[
            "--set",
            "input.train.epochs=1000000",
            "--set",
            "run.save_checkpoints_secs=3",
        ],
        &slow,
    );
    let admin = &servers[0].admin_address(LIMIT);
    chief.wait_for("training is open", LIMIT);
    let pushes =
        || metric(admin, "trainyard_ps_pushes_total").expect("the server answers while it saves");
    let begun = Instant::now();
    let mut before = pushes();
    let mut asked = 0;
    let mut idle = 0;
    while !chief.has_said("checkpoint saved") || asked < 40 {
        assert!(begun.elapsed() < LIMIT, "it is never saved");
        get(admin, "/readyz", ANSWERS_WITHIN).expect("the server answers while it saves");
        let now = pushes();
        idle += usize::from(now == before);
        (before, asked) = (now, asked + 1);
        std::thread::sleep(POLL_INTERVAL);
    }
    println!("asked {asked} times, of which {idle} had no push since the one before");
    assert!(
        idle < asked / 4,
        "training stood still in {idle} of {asked} tenths of a second"
    );
    drop((worker, chief, servers));
}

/// Whether a checkpoint is being written.
fn is_saving(cluster: &TestCluster) -> bool {
    let entries = std::fs::read_dir(cluster.model_dir())
        .expect("the model folder")
        .filter_map(Result::ok);
    entries
        .into_iter()
        .any(|entry| entry.file_name().to_string_lossy().starts_with("tmp."))
}

trial!(a_worker_that_dies_while_a_checkpoint_is_written_is_missed_before_it_is_written);
fn a_worker_that_dies_while_a_checkpoint_is_written_is_missed_before_it_is_written() {
    let cluster = TestCluster::new(2, 2, 2000, "");
    let more = [
        "--set",
        "input.train.epochs=1000000",
        "--set",
        "run.save_checkpoints_secs=3",
        "--set",
        "strategy.update=ssp",
        "--set",
        "strategy.staleness_steps_max=0",
    ];
    // The first save, before training, takes as long.
    let slow = [("FAILPOINTS", "ps.ckpt.before_fsync=sleep(15000)")];
    let (servers, mut chief, first) = start(&cluster, &more, &slow);
    let second = cluster.start("worker", 1, &more);
    chief.wait_for("checkpoint saved", LIMIT);
    chief.wait_for_next("training step=", LIMIT);
    let begun = Instant::now();
    while !is_saving(&cluster) {
        assert!(begun.elapsed() < LIMIT, "no save begins");
        std::thread::sleep(POLL_INTERVAL);
    }
    let said = chief.said();
    second.signal(Signal::KILL);
    chief.wait_for_after(said, "is silent: the chief has ended its session", LIMIT);
    chief.wait_for_next("training step=", LIMIT);
    assert!(
        is_saving(&cluster),
        "nobody trained before the checkpoint was written"
    );
    drop((first, second, chief, servers));
}

trial!(a_server_that_is_told_to_stop_while_it_restores_ends_and_its_successor_restores);
fn a_server_that_is_told_to_stop_while_it_restores_ends_and_its_successor_restores() {
    let cluster = TestCluster::new(2, 1, 2000, "[train]\nmax_steps = 300\n");
    let (mut servers, mut chief, worker) = train_and_restore(&cluster, "sleep(1000)");
    chief.wait_for("restoring", LIMIT);
    let begun = Instant::now();
    let stopped = servers.remove(1);
    stopped.signal(Signal::TERM);
    let output = ended_well(stopped);
    println!("it ended {:?} after it was told to", begun.elapsed());
    assert!(output.contains("nothing was trained here"), "{output}");
    servers.push(cluster.start("ps", 1, &GOES_ON));
    [worker, chief]
        .into_iter()
        .chain(servers)
        .for_each(|program| drop(ended_well(program)));
    assert_eq!(cluster.job_state()["global_step"].as_u64(), Some(400));
}

trial!(a_server_that_dies_in_the_last_checkpoint_comes_back_and_nothing_is_trained_twice);
fn a_server_that_dies_in_the_last_checkpoint_comes_back_and_nothing_is_trained_twice() {
    let cluster = TestCluster::new(2, 1, 2000, "[train]\nmax_steps = 300\n");
    // There are two: that of step 0, and the last.
    let more = ["--set", "run.save_checkpoints_secs=100000"];
    let chief = cluster.start("chief", 0, &more);
    let worker = cluster.start("worker", 0, &more);
    let first = cluster.start("ps", 0, &more);
    let dies = cluster.start_in(
        "ps",
        1,
        &more,
        &[("FAILPOINTS", "ps.ckpt.before_fsync=1*off->panic")],
    );
    let died = dies.wait(LIMIT);
    assert_ne!(died.code, 0, "{}", died.output);
    assert!(
        died.output.contains("failpoint ps.ckpt.before_fsync panic"),
        "{}",
        died.output
    );
    let second = cluster.start("ps", 1, &more);
    let chief = ended_well(chief);
    assert!(
        chief.contains("the chief retries the last checkpoint"),
        "{chief}"
    );
    assert!(!chief.contains("restoring"), "{chief}");
    for program in [worker, first, second] {
        ended_well(program);
    }
    assert_eq!(cluster.job_state()["global_step"].as_u64(), Some(300));
}

trial!(a_job_that_fails_keeps_the_logs_of_its_servers_and_goes_on_from_them);
fn a_job_that_fails_keeps_the_logs_of_its_servers_and_goes_on_from_them() {
    let cluster = TestCluster::new(2, 1, 2000, "[train]\nmax_steps = 100000000\n");
    // The last row spoils its batch, and the job is to halt there.
    let data = cluster.folder.path().join("train.csv");
    let mut text = std::fs::read_to_string(&data).expect("the data");
    text.push_str("3e38,3e38,a,1\n");
    std::fs::write(&data, text).expect("written");
    let more = [
        "--set",
        "run.save_checkpoints_secs=100000",
        "--set",
        "input.train.shuffle_rows=1",
    ];
    let halt = ["--set", "parameter_servers.guard.nonfinite=halt"];
    let (servers, chief, worker) = start(&cluster, &[&more[..], &halt].concat(), &[]);
    let [chief, _] = [chief, worker].map(|program| program.wait(LIMIT));
    assert_eq!(chief.code, 65, "{}", chief.output);
    for server in servers {
        let ended = server.wait(LIMIT);
        assert_eq!(
            ended.code, 75,
            "it is to be started again: {}",
            ended.output
        );
        assert!(
            ended.output.contains("error[E2010]: the job has failed: "),
            "{}",
            ended.output
        );
    }
    let state = cluster.job_state();
    assert_eq!(state["phase"], "failed", "{state}");
    // Such batches are to be left out now: the servers go on from what they had.
    let servers = [0, 1].map(|index| cluster.start("ps", index, &more));
    let mut chief = cluster.start("chief", 0, &more);
    let line = chief.wait_for("checkpoint saved", LIMIT);
    let step = line
        .split("step=")
        .nth(1)
        .and_then(|rest| rest.split(' ').next())
        .expect("a step");
    assert!(
        step.parse::<u64>().expect("a number") > 50,
        "everything since step 0 was in the logs: {line}"
    );
    chief.wait_for("training is open", LIMIT);
    cluster
        .start("worker", 0, &more)
        .wait_for("training step=", LIMIT);
    drop((servers, chief));
}

trial!(a_log_stays_while_the_model_folder_is_not_there_and_is_used_when_it_is);
fn a_log_stays_while_the_model_folder_is_not_there_and_is_used_when_it_is() {
    let cluster = TestCluster::new(1, 1, 2000, "[train]\nmax_steps = 100000000\n");
    let state = tempfile::tempdir().expect("a folder");
    let more = ["--state-dir", state.path().to_str().expect("a name")];
    let settings = ["--set", "run.save_checkpoints_secs=100000"];
    let server = cluster.start("ps", 0, &[&more[..], &settings].concat());
    let mut chief = cluster.start("chief", 0, &settings);
    let worker = cluster.start("worker", 0, &settings);
    chief.wait_for("training step=", LIMIT);
    for program in [server, chief, worker] {
        program.signal(Signal::KILL);
        assert_eq!(program.wait(LIMIT).code, 137);
    }
    // As a folder is seen that is not mounted yet.
    let model = cluster.model_dir();
    let away = cluster.folder.path().join("away");
    std::fs::rename(&model, &away).expect("moved");
    std::fs::create_dir(&model).expect("an empty one");
    let mut server = cluster.start("ps", 0, &[&more[..], &settings].concat());
    server.wait_for("this server keeps its log unread", LIMIT);
    std::fs::remove_dir(&model).expect("it is empty");
    std::fs::rename(&away, &model).expect("mounted");
    server.wait_for("recovered the values from the log", LIMIT);
    let mut chief = cluster.start("chief", 0, &settings);
    chief.wait_for("taking over a job that is running", LIMIT);
    let mut worker = cluster.start("worker", 0, &settings);
    worker.wait_for("training step=", LIMIT);
}

trial!(tasks_of_a_job_that_fails_end_with_a_code_that_has_them_started_again);
fn tasks_of_a_job_that_fails_end_with_a_code_that_has_them_started_again() {
    let cluster = TestCluster::new(1, 1, 2000, "[train]\nmax_steps = 100000000\n");
    let server = cluster.start("ps", 0, &[]);
    // It alone gives up, and soon.
    let mut chief = cluster.start(
        "chief",
        0,
        &["--set", "run.session_creation_timeout_secs=3"],
    );
    let mut worker = cluster.start("worker", 0, &[]);
    let evaluator = cluster.start("evaluator", 0, &[]);
    chief.wait_for("training step=", LIMIT);
    worker.wait_for("training step=", LIMIT);
    server.signal(Signal::KILL);
    assert_eq!(server.wait(LIMIT).code, 137);
    let chief = chief.wait(LIMIT);
    assert_eq!(chief.code, 69, "{}", chief.output);
    for program in [worker, evaluator] {
        let ended = program.wait(LIMIT);
        assert_eq!(
            ended.code, 75,
            "it is to be started again: {}",
            ended.output
        );
        assert!(
            ended.output.contains("error[E2010]: the job has failed: "),
            "{}",
            ended.output
        );
    }
    // One that is started beside what is left of the job waits for its next chief.
    let mut evaluator = cluster.start("evaluator", 0, &[]);
    evaluator.wait_for("waiting for", LIMIT);
    evaluator.signal(Signal::TERM);
    assert_eq!(evaluator.wait(LIMIT).code, 0);
}

/// A job on one server that trains until it is told to stop, and the folder that a host sees whose mount is missing.
fn train_beside_an_empty_folder() -> (TestCluster, tempfile::TempDir) {
    let cluster = TestCluster::new(1, 1, 2000, "[train]\nmax_steps = 100000000\n");
    (cluster, tempfile::tempdir().expect("a folder"))
}

trial!(a_chief_without_the_mount_ends_and_the_worker_that_trains_waits_for_another);
fn a_chief_without_the_mount_ends_and_the_worker_that_trains_waits_for_another() {
    let (cluster, empty) = train_beside_an_empty_folder();
    let _server = cluster.start("ps", 0, &[]);
    let mut chief = cluster.start("chief", 0, &[]);
    let mut worker = cluster.start("worker", 0, &[]);
    chief.wait_for("training step=", LIMIT);
    worker.wait_for("training step=", LIMIT);
    chief.signal(Signal::KILL);
    assert_eq!(chief.wait(LIMIT).code, 137);
    let unmounted = ["--model-dir", empty.path().to_str().expect("a name")];
    let refused = cluster.start("chief", 0, &unmounted).wait(LIMIT);
    assert_eq!(refused.code, 76, "{}", refused.output);
    assert!(
        refused.output.contains("is empty on the host of chief:0"),
        "{}",
        refused.output
    );
    let written = std::fs::read_dir(empty.path()).expect("a folder").count();
    assert_eq!(written, 0, "a folder that is not mounted stays empty");
    assert!(
        !worker.has_said("the session has ended"),
        "the chief that is wrong ends nobody's session"
    );
    let mut chief = cluster.start("chief", 0, &[]);
    chief.wait_for("taking over a job that is running", LIMIT);
    worker.wait_for_next("training step=", LIMIT);
}

trial!(a_server_without_the_mount_waits_for_it_and_the_others_keep_what_they_have);
fn a_server_without_the_mount_waits_for_it_and_the_others_keep_what_they_have() {
    let (cluster, empty) = train_beside_an_empty_folder();
    let server = cluster.start("ps", 0, &[]);
    let mut chief = cluster.start("chief", 0, &[]);
    let mut worker = cluster.start("worker", 0, &[]);
    chief.wait_for("training step=", LIMIT);
    worker.wait_for("training step=", LIMIT);
    server.signal(Signal::KILL);
    assert_eq!(server.wait(LIMIT).code, 137);
    let unmounted = ["--model-dir", empty.path().to_str().expect("a name")];
    let mut server = cluster.start("ps", 0, &unmounted);
    server.wait_for("has no cluster_id", LIMIT);
    chief.wait_for("has a cluster_id: is it mounted there?", LIMIT);
    server.signal(Signal::TERM);
    assert_eq!(server.wait(LIMIT).code, 0, "nothing was trained here");
    let mut server = cluster.start("ps", 0, &[]);
    server.wait_for("recovered the values from the log", LIMIT);
    worker.wait_for_next("training step=", LIMIT);
    assert!(
        !chief.has_said("restoring"),
        "what the server had is in its log"
    );
}

trial!(a_server_whose_folder_is_of_another_cluster_waits_and_keeps_its_log);
fn a_server_whose_folder_is_of_another_cluster_waits_and_keeps_its_log() {
    let (cluster, wrong) = train_beside_an_empty_folder();
    // As a chief leaves it behind that began where nothing was mounted.
    std::fs::write(
        wrong.path().join("cluster_id"),
        "000000000000000000000000000000a7",
    )
    .expect("written");
    let elsewhere = tempfile::tempdir().expect("a folder");
    let state = elsewhere.path().to_str().expect("a name");
    let server = cluster.start("ps", 0, &["--state-dir", state]);
    let mut chief = cluster.start("chief", 0, &[]);
    let mut worker = cluster.start("worker", 0, &[]);
    chief.wait_for("training step=", LIMIT);
    worker.wait_for("training step=", LIMIT);
    server.signal(Signal::KILL);
    assert_eq!(server.wait(LIMIT).code, 137);
    let wrong = wrong.path().to_str().expect("a name");
    let mut server = cluster.start("ps", 0, &["--model-dir", wrong, "--state-dir", state]);
    server.wait_for("belongs to cluster 000000000000000000000000000000a7", LIMIT);
    chief.wait_for("is the folder mounted there?", LIMIT);
    server.signal(Signal::TERM);
    assert_eq!(server.wait(LIMIT).code, 0, "nothing was trained here");
    let mut server = cluster.start("ps", 0, &["--state-dir", state]);
    server.wait_for("recovered the values from the log", LIMIT);
    worker.wait_for_next("training step=", LIMIT);
    assert!(
        !chief.has_said("restoring"),
        "what the server had is in its log"
    );
}

trial!(a_model_directory_that_is_moved_away_gets_no_checkpoint_in_its_place_and_goes_on_when_it_is_back);
fn a_model_directory_that_is_moved_away_gets_no_checkpoint_in_its_place_and_goes_on_when_it_is_back()
 {
    let saves = [
        "--set",
        "run.save_checkpoints_steps=200",
        "--set",
        "input.train.epochs=1000000",
        "--set",
        "train.max_steps=10000000",
    ];
    let cluster = TestCluster::new(1, 1, 4_000, "[train]\nmax_steps = 100\n");
    let all = ["ps", "worker", "chief"].map(|role| cluster.start(role, 0, &saves));
    let [server, worker, mut chief] = all;
    chief.wait_for("checkpoint saved step=2", LIMIT);
    let moved = cluster.folder.path().join("elsewhere");
    std::fs::rename(cluster.model_dir(), &moved).expect("it is moved");
    chief.wait_for("no checkpoint is written into it", LIMIT);
    let names = |folder: &Path| -> Vec<String> {
        let entries = std::fs::read_dir(folder).into_iter().flatten();
        let names = entries.map(|entry| entry.expect("readable").file_name());
        names
            .map(|name| name.to_string_lossy().into_owned())
            .collect()
    };
    let wrong = names(&cluster.model_dir());
    assert!(
        !wrong.iter().any(|name| name.starts_with("model.ckpt")),
        "{wrong:?}"
    );
    if cluster.model_dir().exists() {
        std::fs::remove_dir_all(cluster.model_dir()).expect("removed");
    }
    std::fs::rename(&moved, cluster.model_dir()).expect("it is back");
    for program in [&chief, &worker] {
        program.signal(Signal::TERM);
    }
    let ended = chief.wait(LIMIT);
    assert_eq!(ended.code, 0, "{}", ended.output);
    drop(worker.wait(LIMIT));
    server.signal(Signal::TERM);
    let server = server.wait(LIMIT);
    assert!(
        server
            .output
            .contains("the latest checkpoint holds every update"),
        "{}",
        server.output
    );
}
