//! The log of a parameter server in shared memory: copies of a model directory, stops, and a memory that is small.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde_json::Value;
use trainyard_checkpoint::Checkpoint;
use trainyard_tests::{Mount, Program, TestCluster, get, write_job};

use crate::end_to_end::LIMIT;

const ENDLESS: [&str; 6] = [
    "--set",
    "input.train.epochs=1000000",
    "--set",
    "train.max_steps=10000000",
    "--set",
    "run.save_checkpoints_steps=1000000",
];

/// The folder in shared memory that the log of a model directory's first server names.
fn memory_of(model_dir: &Path) -> PathBuf {
    let pointer = model_dir.join("wal/ps-0/memory");
    let text = std::fs::read_to_string(pointer).expect("the log names its memory");
    PathBuf::from(text.trim())
}

fn bytes_in(folder: &Path) -> u64 {
    let entries = std::fs::read_dir(folder).expect("readable");
    entries
        .map(|entry| {
            entry
                .and_then(|entry| entry.metadata())
                .map_or(0, |file| file.len())
        })
        .sum()
}

/// Returns the files below a folder.
fn files_below(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).expect("readable");
    let paths = entries.map(|entry| entry.expect("readable").path());
    paths
        .flat_map(|path| {
            if path.is_dir() {
                files_below(&path)
            } else {
                vec![path]
            }
        })
        .collect()
}

fn start_all(cluster: &TestCluster, more: &[&str], environment: &[(&str, &str)]) -> [Program; 3] {
    ["ps", "worker", "chief"].map(|role| cluster.start_in(role, 0, more, environment))
}

fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).expect("made");
    for entry in std::fs::read_dir(from).expect("readable") {
        let entry = entry.expect("readable");
        let to = to.join(entry.file_name());
        if entry.file_type().expect("readable").is_dir() {
            copy(&entry.path(), &to);
        } else {
            std::fs::copy(entry.path(), to).expect("copied");
        }
    }
}

trial!(a_job_from_a_copy_of_a_model_directory_leaves_the_log_of_the_original_alone);
fn a_job_from_a_copy_of_a_model_directory_leaves_the_log_of_the_original_alone() {
    let cluster = TestCluster::new(1, 1, 4_000, "[train]\nmax_steps = 100\n");
    let [server, worker, mut chief] = start_all(&cluster, &ENDLESS, &[]);
    for _ in 0..3 {
        chief.wait_for_next("training step=", LIMIT);
    }
    for program in [server, worker, chief] {
        program.signal(Signal::KILL);
        assert_eq!(program.wait(LIMIT).code, 137);
    }
    let other = tempfile::tempdir().expect("a temporary folder");
    copy(&cluster.model_dir(), other.path());
    let moved = format!("model_dir=\"{}\"", other.path().display());
    let of_copy = ["--set", &moved, "--set", "train.max_steps=50"];
    let mut output = String::new();
    for program in start_all(&cluster, &of_copy, &[]) {
        let ended = program.wait(LIMIT);
        assert_eq!(ended.code, 0, "{}", ended.output);
        output.push_str(&ended.output);
    }
    assert!(
        output.contains("of which this folder is a copy"),
        "{output}"
    );
    assert!(!output.contains("recovered the values"), "{output}");
    let [mut server, worker, mut chief] = start_all(&cluster, &ENDLESS, &[]);
    let line = server.wait_for("recovered the values from the log", LIMIT);
    let version = line
        .split("version=")
        .nth(1)
        .and_then(|rest| rest.split(' ').next());
    let version: u64 = version
        .and_then(|version| version.parse().ok())
        .expect("a version");
    assert!(version >= 200, "{line}");
    chief.wait_for("taking over a job that is running", LIMIT);
    for program in [chief, worker, server] {
        program.signal(Signal::TERM);
        drop(program.wait(LIMIT));
    }
}

trial!(a_job_that_is_stopped_gives_back_the_memory_of_its_log_and_continues_where_it_was);
fn a_job_that_is_stopped_gives_back_the_memory_of_its_log_and_continues_where_it_was() {
    let cluster = TestCluster::new(1, 1, 4_000, "[train]\nmax_steps = 100\n");
    let memory = tempfile::tempdir().expect("a temporary folder");
    let memory_dir = memory.path().to_string_lossy();
    let environment = [("TRAINYARD_SHARED_MEMORY_DIR", &*memory_dir)];
    let [server, worker, mut chief] = start_all(&cluster, &ENDLESS, &environment);
    for _ in 0..3 {
        chief.wait_for_next("training step=", LIMIT);
    }
    let log = memory_of(&cluster.model_dir());
    assert!(
        bytes_in(&log) >= 8 << 20,
        "{} bytes in {}",
        bytes_in(&log),
        log.display()
    );
    let programs = [chief, worker, server];
    for program in &programs {
        program.signal(Signal::TERM);
    }
    for program in programs {
        let ended = program.wait(LIMIT);
        assert_eq!(ended.code, 0, "{}", ended.output);
    }
    let step = cluster.job_state()["global_step"].as_u64().expect("a step");
    assert_eq!(files_below(memory.path()), Vec::<PathBuf>::new());
    let most = format!("train.max_steps={}", step + 50);
    let mut output = String::new();
    for program in start_all(&cluster, &["--set", &most], &environment) {
        let ended = program.wait(LIMIT);
        assert_eq!(ended.code, 0, "{}", ended.output);
        output.push_str(&ended.output);
    }
    assert_eq!(
        cluster.job_state()["global_step"].as_u64(),
        Some(step + 50),
        "{output}"
    );
}

/// Starts `up` with two servers, whose logs lie below `memory`.
fn up(job: &Path, memory: &Path, more: &[&str]) -> Program {
    let job = job.to_string_lossy();
    let local = ["up", &*job, "--cluster", "local:ps=2,worker=1,evaluator=0"];
    let arguments = [&local, more].concat();
    let memory = memory.to_string_lossy();
    let environment = [("TRAINYARD_SHARED_MEMORY_DIR", &*memory)];
    Program::start("trainyard", &arguments, &environment)
}

fn told(arguments: &[&str]) -> String {
    let ended = Program::start("trainyard", arguments, &[]).wait(LIMIT);
    assert_eq!(ended.code, 0, "{arguments:?}: {}", ended.output);
    ended.output
}

trial!(
    up_that_is_stopped_leaves_nothing_in_memory_and_status_and_inspect_name_what_a_running_job_has
);
fn up_that_is_stopped_leaves_nothing_in_memory_and_status_and_inspect_name_what_a_running_job_has()
{
    let folder = tempfile::tempdir().expect("a temporary folder");
    let memory = tempfile::tempdir().expect("a temporary folder");
    let job = write_job(folder.path(), 4_000, "[train]\nmax_steps = 100\n");
    let mut running = up(&job, memory.path(), &ENDLESS);
    for _ in 0..3 {
        running.wait_for_next("training step=", LIMIT);
    }
    let job = job.to_string_lossy();
    let model_dir = folder.path().join("model");
    let model_dir = model_dir.to_string_lossy();
    let named = |output: &str| {
        let is_named = |name: &str| {
            let line = format!("MiB of the log of {name} in {}/", memory.path().display());
            output.contains(&line)
        };
        assert!(is_named("ps-0") && is_named("ps-1"), "{output}");
    };
    named(&told(&["status", &job]));
    named(&told(&["inspect", &job]));
    named(&told(&["inspect", &model_dir]));
    for command in ["status", "inspect"] {
        let output = told(&[command, &job, "--format", "json"]);
        let answer: Value = serde_json::from_str(&output).expect("JSON");
        let logs = answer["memory"].as_array().expect("an array");
        assert_eq!(logs.len(), 2, "{output}");
        assert_eq!(logs[1]["log"], "ps-1");
        assert!(logs[1]["bytes"].as_u64() >= Some(8 << 20), "{output}");
    }
    running.signal(Signal::INT);
    let ended = running.wait(LIMIT);
    assert_eq!(ended.code, 0, "{}", ended.output);
    assert_eq!(files_below(memory.path()), Vec::<PathBuf>::new());
    assert!(
        !ended.output.contains("stays in shared memory"),
        "{}",
        ended.output
    );
    let output = told(&["status", &job]);
    assert!(
        output.starts_with("STOPPED") && !output.contains("memory"),
        "{output}"
    );
    let most = format!(
        "train.max_steps={}",
        output
            .split(' ')
            .nth(3)
            .map_or(0, |step| { step.parse::<u64>().expect("a step") + 50 })
    );
    let ended = up(Path::new(&*job), memory.path(), &["--set", &most]).wait(LIMIT);
    assert_eq!(ended.code, 0, "{}", ended.output);
    assert!(
        ended.output.contains("recovered the values from the log"),
        "the short log has moved to its own folder: {}",
        ended.output
    );
    assert_eq!(files_below(memory.path()), Vec::<PathBuf>::new());
}

trial!(the_end_of_up_and_status_and_inspect_name_what_a_job_without_its_last_checkpoint_leaves_in_memory, needs Mounts);
fn the_end_of_up_and_status_and_inspect_name_what_a_job_without_its_last_checkpoint_leaves_in_memory()
 {
    let disk = Mount::of("64m");
    let memory = tempfile::tempdir().expect("a temporary folder");
    let job = write_job(disk.path(), 4_000, "[train]\nmax_steps = 100\n");
    let large = ["--set", "model.hidden_units=[16384]"];
    let mut running = up(&job, memory.path(), &[&ENDLESS[..], &large].concat());
    for _ in 0..3 {
        running.wait_for_next("training step=", LIMIT);
    }
    let mut ballast = std::fs::File::create(disk.path().join("ballast")).expect("created");
    let mut bytes = 0;
    while std::io::Write::write_all(&mut ballast, &[1; 1 << 16]).is_ok() {
        bytes += 1 << 16;
    }
    // Room for the state of the job, not for a checkpoint.
    ballast.set_len(bytes - (256 << 10)).expect("truncated");
    running.signal(Signal::INT);
    let ended = running.wait(LIMIT);
    assert_eq!(ended.code, 74, "{}", ended.output);
    assert!(
        ended.output.contains("a log stays in shared memory")
            && ended.output.contains("log=\"ps-0\""),
        "{}",
        ended.output
    );
    let job = job.to_string_lossy();
    let output = told(&["status", &job]);
    assert!(output.starts_with("STOPPED"), "{output}");
    for output in [output, told(&["inspect", &job])] {
        let line = format!("MiB of the log of ps-0 in {}/", memory.path().display());
        assert!(output.contains(&line), "{output}");
    }
}

/// A dynamic table of many ids, and a static one, both of which change a lot. Adagrad has one slot: checkpoints take twice the values.
const TABLES: &str = r#"
[[feature]]
column = "x"
name = "id"
kind = "dynamic"
deep = { embedding = 16 }
[[feature]]
column = "z"
name = "hash"
kind = "hashed"
buckets = 20000
deep = { embedding = 16 }
[model.dnn_optimizer]
kind = "adagrad"
"#;

/// Everything that a checkpoint holds, as bits.
fn bits(cluster: &TestCluster) -> Vec<(String, Vec<u32>)> {
    let step = cluster.job_state()["global_step"].as_u64().expect("a step");
    let folder = cluster.model_dir().join(format!("model.ckpt-{step}"));
    let checkpoint = Checkpoint::open(&folder).expect("the last checkpoint");
    let manifest = checkpoint.manifest().clone();
    let mut all = Vec::new();
    let to_bits = |values: &[f32]| values.iter().map(|value| value.to_bits()).collect();
    for spec in &manifest.variables {
        if spec.dynamic().is_some() {
            let rows = checkpoint
                .read_dynamic(&spec.name, &["accumulator"], 0..1 << 64)
                .or_else(|_| checkpoint.read_dynamic(&spec.name, &[], 0..1 << 64))
                .expect("a table");
            assert!(rows.ids.len() > 1_000, "{} ids", rows.ids.len());
            let ids = rows
                .ids
                .iter()
                .flat_map(|id| [*id as u32, (*id >> 32) as u32]);
            all.push((format!("{} ids", spec.name), ids.collect()));
            all.push((spec.name.clone(), to_bits(&rows.values)));
            continue;
        }
        let mut values = vec![0.0; spec.len()];
        checkpoint
            .read_rows(&spec.name, None, 0..spec.rows(), &mut values)
            .expect("it is whole");
        all.push((spec.name.clone(), to_bits(&values)));
    }
    all
}

trial!(killed_servers_whose_shared_memory_is_small_lose_nothing, needs Mounts);
fn killed_servers_whose_shared_memory_is_small_lose_nothing() {
    let settings = [
        "--set",
        "strategy.update=\"sync\"",
        "--set",
        "parameter_servers.shared_memory_bytes_max=16777216",
        "--set",
        "input.train.batch_size=128",
    ];
    let end = format!("[train]\nmax_steps = 700\n{TABLES}");
    let train = |memory_dir: &Path, kills: usize| {
        let cluster = TestCluster::new(1, 1, 20_000, &end);
        let memory_dir = memory_dir.to_string_lossy().into_owned();
        let environment = [("TRAINYARD_SHARED_MEMORY_DIR", &*memory_dir)];
        let [mut server, worker, mut chief] = start_all(&cluster, &settings, &environment);
        let mut output = String::new();
        for _ in 0..kills {
            chief.wait_for_next("training step=", LIMIT);
            server.signal(Signal::KILL);
            let ended = server.wait(LIMIT);
            assert_eq!(ended.code, 137);
            output.push_str(&ended.output);
            server = cluster.start_in("ps", 0, &settings, &environment);
        }
        for program in [chief, worker, server] {
            let ended = program.wait(LIMIT);
            assert_eq!(ended.code, 0, "{}", ended.output);
            output.push_str(&ended.output);
        }
        (bits(&cluster), output)
    };
    let roomy = tempfile::tempdir().expect("a temporary folder");
    let (expected, _) = train(roomy.path(), 0);
    let small = Mount::of("28m");
    let (found, output) = train(small.path(), 4);
    assert!(
        !output.contains("restoring every") && !output.contains("set a log aside"),
        "{output}"
    );
    assert!(
        output.contains("the rest of the log is written to the disk"),
        "{output}"
    );
    for ((name, expected), (_, found)) in expected.iter().zip(&found) {
        assert!(expected == found, "{name} differs: {output}");
    }
}

trial!(a_server_whose_log_fills_its_disk_takes_no_push_until_a_checkpoint_and_goes_on, needs Mounts);
fn a_server_whose_log_fills_its_disk_takes_no_push_until_a_checkpoint_and_goes_on() {
    let disk = Mount::of("40m");
    let state = disk.path().to_string_lossy().into_owned();
    let server_settings: Vec<&str> = ON_DISK.into_iter().chain(["--state-dir", &state]).collect();
    let end = format!("[train]\nmax_steps = 2000\n{TABLES}");
    let cluster = TestCluster::new(1, 1, 20_000, &end);
    let server = cluster.start("ps", 0, &server_settings);
    let worker = cluster.start("worker", 0, &ON_DISK);
    let chief = cluster.start("chief", 0, &ON_DISK);
    let output = finish(&cluster, [chief, worker, server], 2000);
    assert!(!output.contains("cannot be written"), "{output}");
}

trial!(a_log_on_the_disk_of_the_checkpoints_leaves_them_room, needs Mounts);
fn a_log_on_the_disk_of_the_checkpoints_leaves_them_room() {
    for (shared_memory, servers) in [("0", 1), ("16777216", 1), ("0", 2)] {
        let disk = Mount::disk((44 + 44 * servers) << 20);
        let model_dir = format!("model_dir=\"{}\"", disk.path().join("model").display());
        let memory = format!("parameter_servers.shared_memory_bytes_max={shared_memory}");
        let more = ["--set", &model_dir, "--set", &memory];
        let keep = ["--set", "run.keep_checkpoint_max=1"];
        let settings = ON_DISK[2..].iter().copied().chain(more).chain(keep);
        let settings: Vec<&str> = settings.collect();
        let end = format!("[train]\nmax_steps = 2500\n{}", TABLES.replace("16", "64"));
        let cluster = TestCluster::new(servers as usize, 1, 20_000, &end);
        let servers = (0..servers as usize).map(|index| cluster.start("ps", index, &settings));
        let servers: Vec<Program> = servers.collect();
        let chief = cluster.start("chief", 0, &settings);
        let worker = cluster.start("worker", 0, &settings);
        let output = end_well([chief, worker].into_iter().chain(servers));
        assert!(output.contains("requests a checkpoint"), "{output}");
        assert!(!output.contains("cannot be written"), "{output}");
        let newest = disk.path().join("model/model.ckpt-2500");
        let newest = Checkpoint::open(&newest).expect("the last checkpoint");
        newest.verify().expect("it is whole");
    }
}

/// Returns whether a log has two files for later, and none that the latest checkpoint covers.
fn keeps_two_files_and_nothing_old(log: &Path) -> bool {
    let files = std::fs::read_dir(log).expect("the folder of the log");
    let names: Vec<String> = files
        .map(|file| {
            file.expect("a file")
                .file_name()
                .to_string_lossy()
                .into_owned()
        })
        .collect();
    let kept = names.iter().filter(|name| name.starts_with("free-"));
    let parts = names.iter().filter(|name| name.ends_with(".log"));
    let segments: BTreeSet<_> = parts.filter_map(|name| name.split('-').next()).collect();
    kept.count() == 2 && segments.len() == 1
}

trial!(a_log_gives_what_it_keeps_for_later_to_a_checkpoint_for_which_somebody_else_has_left_no_room, needs Mounts);
fn a_log_gives_what_it_keeps_for_later_to_a_checkpoint_for_which_somebody_else_has_left_no_room() {
    let disk = Mount::of("200m");
    let model_dir = format!("model_dir=\"{}\"", disk.path().join("model").display());
    let settings = [
        &ON_DISK[..4],
        &["--set", &model_dir, "--set", "run.keep_checkpoint_max=1"],
        &["--set", "run.save_checkpoints_steps=800"],
    ];
    let settings = settings.concat();
    let end = format!("[train]\nmax_steps = 2500\n{}", TABLES.replace("16", "64"));
    let cluster = TestCluster::new(1, 1, 20_000, &end);
    let server = cluster.start("ps", 0, &settings);
    let mut chief = cluster.start("chief", 0, &settings);
    let worker = cluster.start("worker", 0, &settings);
    chief.wait_for("checkpoint saved step=8", LIMIT);
    let log = disk.path().join("model/wal/ps-0");
    loop {
        server.signal(Signal::STOP);
        if keeps_two_files_and_nothing_old(&log) {
            break;
        }
        server.signal(Signal::CONT);
        std::thread::yield_now();
    }
    // Less than a checkpoint takes, but not without the files that the log keeps.
    disk.fill("ballast", 17 << 20);
    server.signal(Signal::CONT);
    let output = end_well([chief, worker, server]);
    assert!(output.contains("has no room"), "it had room: {output}");
    // It is told before that two checkpoints may not fit.
    let attempts = output.replace("warning[E3006]", "");
    assert!(!attempts.contains("E3006"), "{output}");
    let newest = disk.path().join("model/model.ckpt-2500");
    let newest = Checkpoint::open(&newest).expect("the last checkpoint");
    newest.verify().expect("it is whole");
}

trial!(a_server_that_takes_no_push_because_its_disk_is_full_is_not_ready, needs Mounts);
fn a_server_that_takes_no_push_because_its_disk_is_full_is_not_ready() {
    let disk = Mount::of("150m");
    let model_dir = format!("model_dir=\"{}\"", disk.path().join("model").display());
    let settings = [&ON_DISK[..], &["--set", &model_dir]].concat();
    let end = format!(
        "[train]\nmax_steps = 100000\n{}",
        TABLES.replace("16", "64")
    );
    let cluster = TestCluster::new(1, 1, 20_000, &end);
    let mut server = cluster.start("ps", 0, &settings);
    let mut chief = cluster.start("chief", 0, &settings);
    let worker = cluster.start("worker", 0, &settings);
    let admin = server.admin_address(LIMIT);
    chief.wait_for("training step=", LIMIT);
    let begun = Instant::now();
    let ready = loop {
        disk.fill("ballast", 0);
        let (head, ready) = get(&admin, "/readyz", ANSWERS).expect("the server answers");
        if head.contains(" 503 ") && ready.contains("room on the disk of its log") {
            break ready;
        }
        assert!(begun.elapsed() < LIMIT, "{ready}");
        assert!(server.runs() && chief.runs(), "{ready}");
    };
    assert!(ready.contains("\"ready\":false"), "{ready}");
    for program in [worker, chief, server] {
        program.signal(Signal::KILL);
        drop(program.wait(LIMIT));
    }
}

trial!(synchronous_servers_of_which_one_has_a_small_disk_for_its_log_finish_their_step_and_save, needs Mounts);
fn synchronous_servers_of_which_one_has_a_small_disk_for_its_log_finish_their_step_and_save() {
    let disk = Mount::of("28m");
    let state = disk.path().to_string_lossy().into_owned();
    let settings = [
        "--set",
        "strategy.update=\"sync\"",
        "--set",
        "parameter_servers.shared_memory_bytes_max=0",
        "--set",
        "input.train.batch_size=128",
        "--set",
        "run.save_checkpoints_steps=1000000",
    ];
    let small: Vec<&str> = settings
        .into_iter()
        .chain(["--state-dir", &state])
        .collect();
    let end = format!("[train]\nmax_steps = 1000\n{TABLES}");
    let cluster = TestCluster::new(2, 1, 20_000, &end);
    let servers = [
        cluster.start("ps", 0, &settings),
        cluster.start("ps", 1, &small),
    ];
    let worker = cluster.start("worker", 0, &settings);
    let chief = cluster.start("chief", 0, &settings);
    let output = end_well([chief, worker].into_iter().chain(servers));
    assert!(output.contains("requests a checkpoint"), "{output}");
    assert_eq!(
        cluster.job_state()["global_step"].as_u64(),
        Some(1000),
        "{output}"
    );
}

trial!(a_server_whose_log_moves_from_memory_to_a_disk_that_hangs_answers_and_goes_on, needs Mounts);
fn a_server_whose_log_moves_from_memory_to_a_disk_that_hangs_answers_and_goes_on() {
    let disk = Mount::disk(300 << 20);
    let state = disk.path().to_string_lossy();
    let memory = "parameter_servers.shared_memory_bytes_max=16777216";
    let settings = [&ON_DISK[2..], &["--set", memory]].concat();
    let of_server = [&settings[..], &["--state-dir", &state]].concat();
    let end = format!("[train]\nmax_steps = 1500\n{}", TABLES.replace("16", "64"));
    let cluster = TestCluster::new(1, 1, 20_000, &end);
    let mut server = cluster.start("ps", 0, &of_server);
    let worker = cluster.start("worker", 0, &settings);
    let mut chief = cluster.start("chief", 0, &settings);
    let admin = server.admin_address(LIMIT);
    chief.wait_for("training is open", LIMIT);
    let frozen = disk.freeze();
    server.wait_for("waiting for the disk of the log", LIMIT);
    // Every thread that answers would wait for the disk with it.
    for _request in 0..20 {
        let answer = get(&admin, "/readyz", ANSWERS);
        let (head, ready) = answer.expect("the server answers while its disk hangs");
        assert!(head.contains(" 503 "), "{head}");
        assert!(ready.contains("the disk of its log"), "{ready}");
    }
    drop(frozen);
    let output = end_well([chief, worker, server]);
    assert_eq!(
        cluster.job_state()["global_step"].as_u64(),
        Some(1500),
        "{output}"
    );
}

/// Arguments of a job in one process that saves a checkpoint every 50 steps into `model_dir`.
fn saving_often<'a>(job: &'a str, model_dir: &'a str, more: &[&'a str]) -> Vec<&'a str> {
    let settings = [
        "train",
        job,
        "--no-evaluation",
        "--model-dir",
        model_dir,
        "--set",
        "run.save_checkpoints_steps=50",
        // Each checkpoint is whole, because all rows have changed.
        "--set",
        "input.train.batch_size=1000",
    ];
    [&settings[..], more].concat()
}

trial!(checkpoints_beyond_those_that_are_kept_give_way_to_one_that_finds_no_room, needs Mounts);
fn checkpoints_beyond_those_that_are_kept_give_way_to_one_that_finds_no_room() {
    let disk = Mount::of("300m");
    let folder = tempfile::tempdir().expect("a temporary folder");
    let end = format!("[train]\nmax_steps = 200\n{}", TABLES.replace("16", "64"));
    let job = write_job(folder.path(), 20_000, &end);
    let (job, model_dir) = (job.to_string_lossy(), disk.path().join("model"));
    let model_dir = model_dir.to_string_lossy();
    let first = saving_often(&job, &model_dir, &[]);
    drop(end_well([Program::start("trainyard", &first, &[])]));
    disk.fill("ballast", 1 << 20);
    let one = [
        "--set",
        "run.keep_checkpoint_max=1",
        "--set",
        "train.max_steps=300",
    ];
    let second = saving_often(&job, &model_dir, &one);
    let output = end_well([Program::start("trainyard", &second, &[])]);
    // It is told before that two checkpoints may not fit.
    let attempts = output.replace("warning[E3006]", "");
    assert!(!attempts.contains("E3006"), "{output}");
    let newest = disk.path().join("model/model.ckpt-300");
    let newest = Checkpoint::open(&newest).expect("the last checkpoint");
    newest.verify().expect("it is whole");
}

trial!(a_checkpoint_that_has_found_no_room_is_written_soon_after_there_is_some, needs Mounts);
fn a_checkpoint_that_has_found_no_room_is_written_soon_after_there_is_some() {
    let disk = Mount::of("300m");
    let folder = tempfile::tempdir().expect("a temporary folder");
    let end = format!(
        "[train]\nmax_steps = 10000000\n{}",
        TABLES.replace("16", "64")
    );
    let job = write_job(folder.path(), 20_000, &end);
    let (job, model_dir) = (job.to_string_lossy(), disk.path().join("model"));
    let model_dir = model_dir.to_string_lossy();
    let arguments = saving_often(&job, &model_dir, &["--set", "input.train.epochs=1000000"]);
    let mut training = Program::start("trainyard", &arguments, &[]);
    training.wait_for("checkpoint saved step=50", LIMIT);
    // A checkpoint that was being written meanwhile leaves room behind: its own, or that of an older one.
    // That two of them may not fit was told at the start.
    training.act_until("tries again in 3 s", LIMIT, || disk.fill("ballast", 0));
    let said = training.said();
    std::fs::remove_file(disk.path().join("ballast")).expect("the ballast");
    // Other failures are retried after 30 s.
    training.wait_for_after(said, "checkpoint saved", Duration::from_secs(20));
    training.signal(Signal::TERM);
    drop(end_well([training]));
}

/// Time within which an admin port answers.
const ANSWERS: Duration = Duration::from_secs(3);

/// Settings of a job whose log is on the disk alone, and which saves no checkpoint by itself.
const ON_DISK: [&str; 6] = [
    "--set",
    "parameter_servers.shared_memory_bytes_max=0",
    "--set",
    "input.train.batch_size=128",
    "--set",
    "run.save_checkpoints_steps=1000000",
];

/// A job that trains while another program has filled the disk of its server's log.
struct FilledDisk {
    disk: Mount,
    cluster: TestCluster,
    /// Chief, worker and server.
    tasks: [Program; 3],
}

impl FilledDisk {
    fn while_it_trains(max_steps: u64) -> Self {
        let disk = Mount::of("100m");
        let end = format!("[train]\nmax_steps = {max_steps}\n{TABLES}");
        let cluster = TestCluster::new(1, 1, 20_000, &end);
        let server = Self::start_server(&cluster, &disk);
        let worker = cluster.start("worker", 0, &ON_DISK);
        let mut chief = cluster.start("chief", 0, &ON_DISK);
        chief.wait_for("training step=", LIMIT);
        disk.fill("ballast", 0);
        Self {
            disk,
            cluster,
            tasks: [chief, worker, server],
        }
    }

    fn start_server(cluster: &TestCluster, disk: &Mount) -> Program {
        let state = disk.path().to_string_lossy();
        let settings = ON_DISK.into_iter().chain(["--state-dir", &state]);
        cluster.start("ps", 0, &settings.collect::<Vec<_>>())
    }
}

/// Waits until the tasks of a job have ended well. Returns what they have written.
fn end_well(tasks: impl IntoIterator<Item = Program>) -> String {
    let mut output = String::new();
    for program in tasks {
        let ended = program.wait(LIMIT);
        output.push_str(&ended.output);
        assert_eq!(ended.code, 0, "{output}");
    }
    output
}

/// Waits until the tasks of a job have ended well at this step. Returns what they have written.
fn finish(cluster: &TestCluster, tasks: [Program; 3], step: u64) -> String {
    let output = end_well(tasks);
    let reached = cluster.job_state()["global_step"].as_u64();
    assert_eq!(reached, Some(step), "{output}");
    output
}

trial!(a_server_whose_log_disk_somebody_else_fills_to_the_last_byte_stays_up_and_goes_on, needs Mounts);
fn a_server_whose_log_disk_somebody_else_fills_to_the_last_byte_stays_up_and_goes_on() {
    let FilledDisk {
        disk: _disk,
        cluster,
        tasks,
    } = FilledDisk::while_it_trains(2500);
    let output = finish(&cluster, tasks, 2500);
    assert!(!output.contains("E3007"), "{output}");
}

trial!(a_server_that_is_killed_while_somebody_else_has_filled_its_log_disk_starts_again_and_goes_on, needs Mounts);
fn a_server_that_is_killed_while_somebody_else_has_filled_its_log_disk_starts_again_and_goes_on() {
    let FilledDisk {
        disk,
        cluster,
        tasks: [chief, worker, server],
    } = FilledDisk::while_it_trains(1500);
    server.signal(Signal::KILL);
    assert_eq!(server.wait(LIMIT).code, 137);
    let mut server = FilledDisk::start_server(&cluster, &disk);
    server.wait_for("serving", LIMIT);
    // The other program takes what the server does not hold.
    while !server.has_said("keeping a log") && server.runs() {
        disk.fill("ballast", 0);
    }
    let output = finish(&cluster, [chief, worker, server], 1500);
    assert!(!output.contains("restoring every"), "{output}");
}
