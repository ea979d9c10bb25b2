//! Workers that come and go while a job runs: the input is applied once, whoever computed it.

use std::collections::BTreeMap;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::process::Signal;
use trainyard_checkpoint::latest_good;
use trainyard_tests::{Draw, Ledger, Program, free_ports, passes_to_go, seed, write_job};

use crate::end_to_end::LIMIT;

/// Records of the ledger, in batches of [`BATCH`].
const ROWS: u64 = 1003;
const BATCH: u64 = 4;
/// What each applied batch adds to the bias.
const QUARTER: f64 = 0.25;

/// Writes a job that counts: far below its label, each batch moves the bias by exactly a quarter, so that the bias tells
/// how many were applied. Quarters below 4 million are exact in 32 bits.
fn ledger(folder: &Path) -> PathBuf {
    let mut rows = "x,y\n".to_owned();
    for _ in 0..ROWS {
        rows.push_str("0,1000000\n");
    }
    std::fs::write(folder.join("rows.csv"), rows).expect("the data is written");
    let job = format!(
        r#"model_dir = "{}"
[run]
save_checkpoints_secs = 2
[input]
label = {{ column = "y" }}
train = {{ files = ["rows.csv"], batch_size = {BATCH}, epochs = {endless}, shuffle_rows = 0 }}
[[feature]]
column = "x"
kind = "numeric"
[model]
kind = "linear_regressor"
linear_optimizer = {{ kind = "sgd", learning_rate = 1.0 }}
[train]
clip_gradients = {{ kind = "value", clip = {QUARTER} }}
"#,
        folder.join("model").display(),
        endless = Ledger::ENDLESS,
    );
    let path = folder.join("job.toml");
    std::fs::write(&path, job).expect("the job is written");
    path
}

/// Tells a job to stop, and waits until it has. Returns one pass more than any that was begun, of so many batches.
fn stop(up: Program, folder: &Path, batches_of_epoch: u64) -> u64 {
    up.signal(Signal::TERM);
    let ended = up.wait(LIMIT);
    assert_eq!(ended.code, 0, "{}", ended.output);
    passes_of(folder, batches_of_epoch)
}

/// Returns one pass more than any that was begun of a job that has stopped.
fn passes_of(folder: &Path, batches_of_epoch: u64) -> u64 {
    let found = latest_good(&folder.join("model"), &mut |warning| {
        panic!("{}", warning.render())
    });
    passes_to_go(
        &found
            .expect("the folder can be read")
            .expect("a checkpoint"),
        batches_of_epoch,
    )
}

/// Checks that the job ended behind its last batch, that every server has applied all of them, and that none counted
/// twice.
fn check_ledger(folder: &Path, epochs: u64) {
    let steps = ROWS.div_ceil(BATCH) * epochs;
    let read = |path: PathBuf| -> serde_json::Value {
        let text =
            std::fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        serde_json::from_slice(&text).expect("JSON")
    };
    let state = read(folder.join("model/job_state.json"));
    assert_eq!(
        (state["phase"].as_str(), state["global_step"].as_u64()),
        (Some("done"), Some(steps))
    );
    let manifest = read(folder.join(format!("model/model.ckpt-{steps}/manifest.json")));
    let shards = manifest["shards"].as_array().expect("shards");
    assert!(!shards.is_empty());
    for shard in shards {
        let positions = shard["positions"].as_array().expect("positions");
        assert_eq!(positions.len(), 1, "{shard}");
        assert_eq!(positions[0]["batch"].as_u64(), Some(steps), "{shard}");
        assert!(
            positions[0]["ahead"].as_array().is_none_or(Vec::is_empty),
            "{shard}"
        );
    }
    std::fs::write(folder.join("one.csv"), "x\n0\n").expect("a row is written");
    let job = folder.join("job.toml");
    let input = folder.join("one.csv");
    let arguments = [
        "predict",
        &job.to_string_lossy(),
        "--input",
        &input.to_string_lossy(),
    ];
    let predicted = Program::start("trainyard", &arguments, &[]).wait(LIMIT);
    assert_eq!(predicted.code, 0, "{}", predicted.output);
    let bias = predicted.output.lines().find_map(|line| {
        serde_json::from_str::<serde_json::Value>(line).ok()?["predictions"][0].as_f64()
    });
    assert_eq!(
        bias,
        Some(steps as f64 * QUARTER),
        "each batch counts once: {}",
        predicted.output
    );
}

/// Asks the chief's admin port for the global step; 0 before it knows.
fn global_step(admin: &str) -> u64 {
    let ask = || -> std::io::Result<String> {
        let mut stream = TcpStream::connect(admin)?;
        stream.set_read_timeout(Some(Duration::from_secs(5)))?;
        stream.write_all(b"GET /metrics HTTP/1.0\r\n\r\n")?;
        let mut text = String::new();
        stream.read_to_string(&mut text)?;
        Ok(text)
    };
    let text = ask().unwrap_or_default();
    let value = text
        .lines()
        .find_map(|line| line.strip_prefix("trainyard_global_step "));
    value
        .and_then(|value| value.trim().parse::<f64>().ok())
        .map_or(0, |step| step as u64)
}

trial!(workers_come_and_go_a_hundred_times_and_every_batch_counts_once);
fn workers_come_and_go_a_hundred_times_and_every_batch_counts_once() {
    /// Workers that may run at once.
    const WORKERS: usize = 6;
    const CHANGES: u64 = 100;
    /// Steps between two changes, at least.
    const STEPS: u64 = 50;
    let seed = seed("workers come and go a hundred times");
    let mut draw = Draw::new(seed);
    let folder = tempfile::tempdir().expect("a temporary folder");
    let folder = folder.path();
    let job = ledger(folder).to_string_lossy().into_owned();
    let ports = free_ports(4 + WORKERS);
    let quoted = |ports: &[u16]| {
        ports
            .iter()
            .map(|port| format!("\"127.0.0.1:{port}\""))
            .collect::<Vec<_>>()
            .join(", ")
    };
    // The chief and the servers know of no worker at all.
    let servers = format!(
        "[cluster]\nchief = [{}]\nps = [{}]\n",
        quoted(&ports[..1]),
        quoted(&ports[1..3])
    );
    let small = folder.join("servers.toml");
    let large = folder.join("workers.toml");
    std::fs::write(&small, &servers).expect("a cluster file");
    std::fs::write(
        &large,
        format!("{servers}worker = [{}]\n", quoted(&ports[4..])),
    )
    .expect("a cluster file");
    let start = |role: &str, index: usize, cluster: &Path, more: &[&str]| {
        let cluster = cluster.to_string_lossy();
        let index = index.to_string();
        let arguments = ["--job", &job, "--cluster", &cluster, "--index", &index];
        let arguments = [
            &arguments[..],
            &["--set", "strategy.chief_trains=false"],
            more,
        ]
        .concat();
        Program::start(&format!("trainyard-{role}"), &arguments, &[])
    };
    let admin = format!("127.0.0.1:{}", ports[3]);
    let lead = |more: &[&str]| {
        let servers = [start("ps", 0, &small, more), start("ps", 1, &small, more)];
        let mut chief = start(
            "chief",
            0,
            &small,
            &[&["--admin-listen", &admin], more].concat(),
        );
        chief.wait_for("training is open", LIMIT);
        [chief].into_iter().chain(servers)
    };
    let leading = lead(&[]);
    let mut workers: BTreeMap<usize, Program> = BTreeMap::new();
    let mut counts = [0_u32; 3];
    let mut reached = 0;
    for _ in 0..CHANGES {
        // While nobody trains, there is nothing to wait for.
        let due = Instant::now() + LIMIT;
        while !workers.is_empty() && global_step(&admin) < reached + STEPS {
            assert!(
                Instant::now() < due,
                "no progress with {:?}, seed {seed}",
                workers.keys()
            );
            std::thread::sleep(Duration::from_millis(5));
        }
        reached = global_step(&admin).max(reached);
        let index = draw.below(WORKERS as u64) as usize;
        match workers.remove(&index) {
            None => {
                workers.insert(index, start("worker", index, &large, &[]));
                counts[0] += 1;
            }
            Some(worker) if draw.below(3) == 0 => {
                worker.signal(Signal::KILL);
                assert_eq!(worker.wait(LIMIT).code, 137);
                counts[1] += 1;
            }
            Some(worker) => {
                worker.signal(Signal::TERM);
                let ended = worker.wait(LIMIT);
                assert!(
                    [0, 143].contains(&ended.code),
                    "seed {seed}: {}",
                    ended.output
                );
                counts[2] += 1;
            }
        }
    }
    println!(
        "started {}, killed {}, stopped {} by step {reached}",
        counts[0], counts[1], counts[2]
    );
    for (index, worker) in workers {
        worker.signal(Signal::TERM);
        let ended = worker.wait(LIMIT);
        assert!(
            [0, 143].contains(&ended.code),
            "worker:{index}, seed {seed}: {}",
            ended.output
        );
    }
    // The servers behind the chief, which has their last checkpoint written.
    for program in leading {
        program.signal(Signal::TERM);
        let ended = program.wait(LIMIT);
        assert_eq!(ended.code, 0, "seed {seed}: {}", ended.output);
    }
    let epochs = passes_of(folder, ROWS.div_ceil(BATCH));
    let set = format!("input.train.epochs={epochs}");
    let more = ["--set", &set];
    let leading = lead(&more);
    let workers = [0, 1, 2].map(|index| start("worker", index, &large, &more));
    for program in workers.into_iter().chain(leading) {
        let ended = program.wait(LIMIT);
        assert_eq!(ended.code, 0, "seed {seed}: {}", ended.output);
    }
    check_ledger(folder, epochs);
}

/// Runs `trainyard scale`, and returns its exit code and output.
fn scale(job: &Path, workers: usize) -> (i32, String) {
    let arguments = [
        "scale",
        &job.to_string_lossy(),
        "--workers",
        &workers.to_string(),
    ];
    let ended = Program::start("trainyard", &arguments, &[]).wait(3 * LIMIT);
    (ended.code, ended.output)
}

trial!(up_is_scaled_up_and_down_and_reports_who_was_there);
fn up_is_scaled_up_and_down_and_reports_who_was_there() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let job = ledger(folder.path());
    let (code, output) = scale(&job, 2);
    assert_eq!(code, 69, "{output}");
    assert!(output.contains("no `trainyard up` runs here"), "{output}");
    let report = folder.path().join("report.json");
    let path = job.to_string_lossy();
    let report_path = report.to_string_lossy();
    let arguments = [
        "up",
        &path,
        "--cluster",
        "local:ps=2,worker=1",
        "--report",
        &report_path,
    ];
    let mut up = Program::start("trainyard", &arguments, &[]);
    up.wait_for("training is open", LIMIT);
    let second = Program::start("trainyard", &["up", &path], &[]).wait(LIMIT);
    assert_eq!(second.code, 75, "two at once: {}", second.output);
    let mut from = 1;
    for to in [3, 2, 0, 4, 4, 1] {
        let (code, output) = scale(&job, to);
        assert_eq!(code, 0, "{from} -> {to}: {output}");
        let told = if from == to {
            format!("workers: {to}, as before")
        } else {
            format!("workers: {from} -> {to}")
        };
        assert!(output.contains(&told), "no `{told}` in {output}");
        assert_eq!(
            output.matches(" has joined").count(),
            to.saturating_sub(from),
            "{output}"
        );
        assert_eq!(
            output.matches(" has left: exit code 0").count(),
            from.saturating_sub(to),
            "{output}"
        );
        from = to;
    }
    let (code, output) = scale(&job, 257);
    assert_eq!(code, 64, "{output}");
    let epochs = stop(up, folder.path(), ROWS.div_ceil(BATCH));
    let report: serde_json::Value =
        serde_json::from_slice(&std::fs::read(&report).expect("the report"))
            .expect("the report is JSON");
    let exit = report["exit"].as_object().expect("exit codes");
    assert_eq!(
        exit.len(),
        3 + 4,
        "chief, servers, and every worker there was: {report}"
    );
    assert!(
        exit.values().all(|code| code.as_i64() == Some(0)),
        "{report}"
    );
    // On another number of servers: each of them goes on behind what all have applied.
    let set = format!("input.train.epochs={epochs}");
    let arguments = [
        "up",
        &path,
        "--cluster",
        "local:ps=3,worker=1",
        "--set",
        &set,
    ];
    let ended = Program::start("trainyard", &arguments, &[]).wait(LIMIT);
    assert_eq!(ended.code, 0, "{}", ended.output);
    check_ledger(folder.path(), epochs);
}

trial!(up_that_is_told_to_stop_while_its_chief_is_down_waits_for_no_checkpoint);
fn up_that_is_told_to_stop_while_its_chief_is_down_waits_for_no_checkpoint() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let job = ledger(folder.path());
    let path = job.to_string_lossy();
    let arguments = ["up", &path, "--cluster", "local:ps=2,worker=1"];
    let mut up = Program::start("trainyard", &arguments, &[]);
    let line = up.wait_for("listens task=chief:0", LIMIT);
    let pid = pid_in(&line);
    // Updates that no checkpoint holds.
    up.wait_for("training step=", LIMIT);
    let pid = rustix::process::Pid::from_raw(pid).expect("a process");
    rustix::process::kill_process(pid, Signal::KILL).expect("it runs");
    up.wait_for("chief:0 has died: it was ended by SIGKILL", LIMIT);
    up.signal(Signal::TERM);
    let ended = up.wait(LIMIT);
    assert!(
        !ended.output.contains("stopping without a checkpoint"),
        "{}",
        ended.output
    );
    assert!(
        !ended.output.contains("did not stop in time"),
        "{}",
        ended.output
    );
}

/// Ends a task of an `up`, as the kernel does.
fn kill_task(up: &mut Program, task: &str) {
    let line = up.wait_for(&format!("listens task={task}"), LIMIT);
    let pid = rustix::process::Pid::from_raw(pid_in(&line)).expect("a process");
    rustix::process::kill_process(pid, Signal::KILL).expect("it runs");
}

/// Starts a ledger's job on a server and a worker, and waits until it trains.
fn training_ledger(folder: &Path) -> Program {
    let job = ledger(folder);
    let path = job.to_string_lossy();
    let arguments = ["up", &path, "--cluster", "local:ps=1,worker=1"];
    let mut up = Program::start("trainyard", &arguments, &[]);
    up.wait_for("training step=", LIMIT);
    up
}

trial!(up_whose_task_fails_for_good_leaves_the_job_as_failed_and_names_the_task);
fn up_whose_task_fails_for_good_leaves_the_job_as_failed_and_names_the_task() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let mut up = training_ledger(folder.path());
    // From now on, no server can start.
    let logs = folder.path().join("model/wal");
    std::fs::rename(&logs, folder.path().join("aside")).expect("moved");
    std::fs::write(&logs, "no folder").expect("written");
    kill_task(&mut up, "ps:0");
    let ended = up.wait(LIMIT);
    assert_ne!(ended.code, 0, "{}", ended.output);
    let state = std::fs::read(folder.path().join("model/job_state.json")).expect("the state");
    let state: serde_json::Value = serde_json::from_slice(&state).expect("JSON");
    let reason = state["reason"].as_str().expect("a reason");
    assert_eq!(state["phase"], "failed", "{state}");
    assert!(reason.starts_with("ps:0 has failed permanently"), "{state}");
}

trial!(up_whose_model_dir_is_removed_says_that_and_not_that_its_own_cluster_file_is_wrong);
fn up_whose_model_dir_is_removed_says_that_and_not_that_its_own_cluster_file_is_wrong() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let mut up = training_ledger(folder.path());
    std::fs::rename(folder.path().join("model"), folder.path().join("gone")).expect("moved");
    kill_task(&mut up, "worker:0");
    let ended = up.wait(LIMIT);
    assert_ne!(ended.code, 0, "{}", ended.output);
    let told = "model_dir was removed while the job ran";
    assert!(ended.output.contains(told), "{}", ended.output);
}

trial!(up_whose_model_dir_is_replaced_by_that_of_another_job_writes_nothing_into_it);
fn up_whose_model_dir_is_replaced_by_that_of_another_job_writes_nothing_into_it() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let at = |name: &str| folder.path().join(name);
    let text = |name: &str| at(name).to_string_lossy().into_owned();
    let job = write_job(folder.path(), 4_000, "[train]\nmax_steps = 40\n");
    let job = job.to_string_lossy();
    let other = text("other");
    let arguments = ["train", &job, "--model-dir", &other];
    let ended = Program::start("trainyard", &arguments, &[]).wait(LIMIT);
    assert_eq!(ended.code, 0, "{}", ended.output);
    // What a job says of itself, and its evaluations.
    let files = |name: &str| {
        let told = [
            "job_state.json",
            "job.json",
            "history.json",
            "leader.json",
            "cluster_epoch",
        ];
        let told = told.map(|file| std::fs::read(at(name).join(file)).ok());
        let results = std::fs::read(at(name).join("eval/metrics.jsonl")).ok();
        (told, results)
    };
    // Its state says that it runs, as that of a job on another machine.
    let state = std::fs::read_to_string(at("other/job_state.json")).expect("the state");
    assert!(state.contains("\"done\""), "{state}");
    std::fs::write(
        at("other/job_state.json"),
        state.replace("\"done\"", "\"running\""),
    )
    .expect("room");
    let before = files("other");
    let arguments = [
        "up",
        &job,
        "--cluster",
        "local:ps=1,worker=1,evaluator=1",
        "--set",
        "train.max_steps=10000000",
        "--set",
        "input.train.epochs=1000000",
        "--set",
        "run.save_checkpoints_secs=1",
    ];
    let mut up = Program::start("trainyard", &arguments, &[]);
    up.wait_for("training step=", LIMIT);
    std::fs::rename(at("model"), at("aside")).expect("moved");
    std::fs::rename(at("other"), at("model")).expect("moved");
    up.wait_for("is that of another cluster", LIMIT);
    up.signal(Signal::TERM);
    let ended = up.wait(LIMIT);
    assert_ne!(ended.code, 0, "{}", ended.output);
    assert_eq!(files("model"), before, "{}", ended.output);
}

trial!(a_job_whose_rows_are_divided_is_not_scaled_and_takes_no_stranger);
fn a_job_whose_rows_are_divided_is_not_scaled_and_takes_no_stranger() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let job = ledger(folder.path());
    let path = job.to_string_lossy();
    let rows = "input.train.sharding=row";
    let arguments = ["up", &path, "--set", rows, "--cluster", "local:worker=1"];
    let mut up = Program::start("trainyard", &arguments, &[]);
    up.wait_for("training is open", LIMIT);
    let (code, output) = scale(&job, 2);
    assert_eq!(code, 78, "{output}");
    assert!(
        output.contains("the rows are divided among them at the start"),
        "{output}"
    );
    let spec = std::fs::read_to_string(folder.path().join("model/up/cluster.toml"))
        .expect("the cluster file");
    let stranger = |name: &str, from: &str, to: &str| {
        assert!(spec.contains(from), "{spec}");
        let cluster = folder.path().join(name);
        std::fs::write(&cluster, spec.replacen(from, to, 1)).expect("a cluster file");
        let cluster = cluster.to_string_lossy();
        let arguments = [
            "--job",
            &path,
            "--set",
            rows,
            "--cluster",
            &cluster,
            "--index",
            "1",
        ];
        let ended = Program::start("trainyard-worker", &arguments, &[]).wait(LIMIT);
        assert_eq!(ended.code, 76, "{}", ended.output);
        ended.output
    };
    let output = stranger("more.toml", "worker = [", "worker = [\"127.0.0.1:1\", ");
    for part in [
        "worker:1 is not in the chief's cluster",
        "the rows are divided",
        "name worker:1 in the chief's cluster file",
    ] {
        assert!(output.contains(part), "no `{part}` in\n{output}");
    }
    up.signal(Signal::TERM);
    assert_eq!(up.wait(LIMIT).code, 0);
}

trial!(a_worker_with_other_servers_is_told_which_ones_differ);
fn a_worker_with_other_servers_is_told_which_ones_differ() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let job = ledger(folder.path());
    let path = job.to_string_lossy();
    let mut up = Program::start("trainyard", &["up", &path], &[]);
    up.wait_for("training is open", LIMIT);
    let spec = std::fs::read_to_string(folder.path().join("model/up/cluster.toml"))
        .expect("the cluster file");
    let cluster = folder.path().join("other.toml");
    let other = spec.replacen(
        "ps = [",
        "worker = [\"127.0.0.1:2\"]\nps = [\"elsewhere.example:1\", ",
        1,
    );
    std::fs::write(&cluster, other).expect("a cluster file");
    let cluster = cluster.to_string_lossy();
    let arguments = ["--job", &path, "--cluster", &cluster, "--index", "0"];
    let ended = Program::start("trainyard-worker", &arguments, &[]).wait(LIMIT);
    assert_eq!(ended.code, 76, "{}", ended.output);
    for part in [
        "ps:0 is elsewhere.example:1 for worker:0 and unix:",
        "chief:0 does not know ps:1 at unix:",
    ] {
        assert!(
            ended.output.contains(part),
            "no `{part}` in\n{}",
            ended.output
        );
    }
    up.signal(Signal::TERM);
    assert_eq!(up.wait(LIMIT).code, 0);
}

/// Starts a synchronous job of so many passes.
fn synchronous(job: &Path, epochs: u64) -> Program {
    let path = job.to_string_lossy();
    let set = format!("input.train.epochs={epochs}");
    let mut arguments = vec!["up", &path, "--cluster", "local:ps=1,worker=1,evaluator=0"];
    for set in [
        &set,
        "strategy.update=sync",
        "strategy.replicas_to_aggregate=2",
    ] {
        arguments.extend(["--set", set]);
    }
    Program::start("trainyard", &arguments, &[])
}

/// Lets a synchronous job train to its end, and returns what the last checkpoint holds.
fn trained(folder: &Path, job: &Path, epochs: u64) -> Vec<u8> {
    let ended = synchronous(job, epochs).wait(LIMIT);
    assert_eq!(ended.code, 0, "{}", ended.output);
    // 63 batches of 16 a pass, two a step.
    let checkpoint = folder
        .join("model")
        .join(format!("model.ckpt-{}", epochs * 32));
    std::fs::read(checkpoint.join("shard-0-of-1.safetensors")).expect("the last checkpoint")
}

trial!(a_synchronous_job_that_is_scaled_computes_the_same_bits);
fn a_synchronous_job_that_is_scaled_computes_the_same_bits() {
    let folders = [(); 2].map(|()| tempfile::tempdir().expect("a temporary folder"));
    let [scaled, still] = folders
        .each_ref()
        .map(|folder| write_job(folder.path(), 1000, ""));
    let mut up = synchronous(&scaled, Ledger::ENDLESS);
    up.wait_for("training is open", LIMIT);
    for to in [3, 0, 2, 1] {
        let (code, output) = scale(&scaled, to);
        assert_eq!(code, 0, "to {to}: {output}");
    }
    let epochs = stop(up, folders[0].path(), 63);
    let of_scaled = trained(folders[0].path(), &scaled, epochs);
    assert!(
        of_scaled == trained(folders[1].path(), &still, epochs),
        "the values differ"
    );
}

/// Returns the process id in the line with which a task says that it has started.
fn pid_in(line: &str) -> i32 {
    let (_, behind) = line.split_once("pid=").expect("it says which process");
    let number = behind.split(' ').next().unwrap_or_default();
    number.parse().expect("a number")
}

trial!(up_that_is_killed_takes_its_tasks_along_and_the_next_one_goes_on);
fn up_that_is_killed_takes_its_tasks_along_and_the_next_one_goes_on() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let job = ledger(folder.path());
    let path = job.to_string_lossy();
    let arguments = ["up", &path, "--cluster", "local:ps=2,worker=1,evaluator=0"];
    let mut up = Program::start("trainyard", &arguments, &[]);
    let pids = ["ps:0", "ps:1", "chief:0", "worker:0"]
        .map(|task| pid_in(&up.wait_for(&format!("listens task={task}"), LIMIT)));
    for _ in 0..2 {
        up.wait_for_next("training step=", LIMIT);
    }
    up.signal(Signal::KILL);
    drop(up.wait(LIMIT));
    let until = Instant::now() + LIMIT;
    for pid in pids {
        while Path::new(&format!("/proc/{pid}/exe")).exists() {
            assert!(Instant::now() < until, "process {pid} stays");
            std::thread::sleep(Duration::from_millis(20));
        }
    }
    let mut next = Program::start("trainyard", &arguments, &[]);
    next.wait_for("training step=", LIMIT);
    assert!(stop(next, folder.path(), ROWS.div_ceil(BATCH)) > 0);
}

trial!(of_two_that_are_started_at_one_moment_one_is_told_of_the_other);
fn of_two_that_are_started_at_one_moment_one_is_told_of_the_other() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let job = ledger(folder.path());
    let path = job.to_string_lossy();
    let arguments = ["up", &path, "--cluster", "local:ps=1,worker=1,evaluator=0"];
    let mut both = [(); 2].map(|()| Program::start("trainyard", &arguments, &[]));
    let until = Instant::now() + LIMIT;
    let refused = loop {
        assert!(Instant::now() < until, "both run");
        if let Some(place) = both.iter_mut().position(|up| !up.runs()) {
            break place;
        }
        std::thread::sleep(Duration::from_millis(10));
    };
    let [first, second] = both;
    let (refused, mut other) = if refused == 0 {
        (first, second)
    } else {
        (second, first)
    };
    let refused = refused.wait(LIMIT);
    assert_eq!(refused.code, 75, "{}", refused.output);
    assert!(refused.output.contains("E2008"), "{}", refused.output);
    other.wait_for("training step=", LIMIT);
    assert!(stop(other, folder.path(), ROWS.div_ceil(BATCH)) > 0);
}
