//! Reads that fail once, as those of a share that is away for a moment: nothing is concluded from them. And files that
//! do not answer for a while: the tasks say so, and whoever does not need the files goes on.

use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::process::Signal;
use trainyard_checkpoint::Checkpoint;
use trainyard_tests::{Ended, Mount, Program, TestCluster, Unreadable, get, write_job};

use crate::end_to_end::LIMIT;

fn manifest_of(cluster: &TestCluster, step: u64) -> PathBuf {
    let folder = cluster.model_dir().join(format!("model.ckpt-{step}"));
    folder.join("manifest.json")
}

fn end_well(program: Program) -> Ended {
    let ended = program.wait(LIMIT);
    assert_eq!(ended.code, 0, "{}", ended.output);
    ended
}

/// Asserts that a checkpoint is there and whole, and that none was set aside.
fn assert_kept(model_dir: &Path, step: u64, output: &str) {
    let checkpoint = Checkpoint::open(&model_dir.join(format!("model.ckpt-{step}")));
    let checkpoint = checkpoint.unwrap_or_else(|error| panic!("step {step}: {error}: {output}"));
    checkpoint.verify().expect("it is whole");
    let entries = std::fs::read_dir(model_dir).expect("readable");
    let names: Vec<String> = entries
        .map(|entry| {
            entry
                .expect("readable")
                .file_name()
                .to_string_lossy()
                .into_owned()
        })
        .collect();
    assert!(
        !names.iter().any(|name| name.contains("damaged")),
        "{names:?}: {output}"
    );
}

const SAVES: [&str; 6] = [
    "--set",
    "run.save_checkpoints_steps=100",
    "--set",
    "run.keep_checkpoint_max=2",
    "--set",
    "train.max_steps=500",
];

trial!(a_manifest_that_a_chief_cannot_read_while_it_removes_old_checkpoints_removes_no_other, needs Strace);
fn a_manifest_that_a_chief_cannot_read_while_it_removes_old_checkpoints_removes_no_other() {
    for when in ["2+2", "3+2"] {
        let cluster = TestCluster::new(1, 1, 8_000, "[train]\nmax_steps = 500\n");
        let server = cluster.start("ps", 0, &SAVES);
        let worker = cluster.start("worker", 0, &SAVES);
        let fault = Unreadable {
            calls: "openat",
            when,
            paths: (1..=10)
                .map(|hundreds| manifest_of(&cluster, 100 * hundreds / 2))
                .collect(),
        };
        let chief = cluster
            .start_unreadable("chief", 0, &SAVES, &[], &fault)
            .wait(LIMIT);
        drop(worker.wait(LIMIT));
        drop(server.wait(LIMIT));
        let step = cluster.job_state()["global_step"].as_u64().expect("a step");
        assert_eq!(step, 500, "{}", chief.output);
        assert_kept(&cluster.model_dir(), 500, &chief.output);
    }
}

trial!(a_chief_that_cannot_read_the_newest_checkpoint_at_first_restores_that_one, needs Strace);
fn a_chief_that_cannot_read_the_newest_checkpoint_at_first_restores_that_one() {
    let cluster = TestCluster::new(1, 1, 8_000, "[train]\nmax_steps = 500\n");
    let all = ["ps", "worker", "chief"].map(|role| cluster.start(role, 0, &SAVES));
    all.into_iter().for_each(|program| drop(end_well(program)));
    let shard = cluster
        .model_dir()
        .join("model.ckpt-500/shard-0-of-1.safetensors");
    let more: Vec<&str> = SAVES[..4]
        .iter()
        .copied()
        .chain(["--set", "train.max_steps=550"])
        .collect();
    for (call, when, path) in [
        ("openat", "2", manifest_of(&cluster, 500)),
        ("pread64", "1", shard),
    ] {
        let model_dir = tempfile::tempdir().expect("a temporary folder");
        copy(&cluster.model_dir(), model_dir.path());
        let below = path.strip_prefix(cluster.model_dir()).expect("it is below");
        let moved = model_dir.path().join(below);
        let folder = format!("model_dir=\"{}\"", model_dir.path().display());
        let more: Vec<&str> = more.iter().copied().chain(["--set", &folder]).collect();
        let server = cluster.start("ps", 0, &more);
        let worker = cluster.start("worker", 0, &more);
        let fault = Unreadable {
            calls: call,
            when,
            paths: vec![moved],
        };
        let chief = end_well(cluster.start_unreadable("chief", 0, &more, &[], &fault));
        for program in [worker, server] {
            end_well(program);
        }
        assert!(
            chief.output.contains("restoring step=500"),
            "{call}: {}",
            chief.output
        );
        assert_kept(model_dir.path(), 550, &chief.output);
    }
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

trial!(a_server_that_cannot_read_the_checkpoint_below_its_log_keeps_the_log_and_recovers_later, needs Strace);
fn a_server_that_cannot_read_the_checkpoint_below_its_log_keeps_the_log_and_recovers_later() {
    let endless = [
        "--set",
        "run.save_checkpoints_steps=100",
        "--set",
        "input.train.epochs=1000000",
        "--set",
        "train.max_steps=10000000",
    ];
    let cluster = TestCluster::new(1, 1, 2_000, "[train]\nmax_steps = 500\n");
    let mut server = cluster.start("ps", 0, &endless);
    let worker = cluster.start("worker", 0, &endless);
    let mut chief = cluster.start("chief", 0, &endless);
    chief.wait_for("checkpoint saved step=2", LIMIT);
    for call in ["openat", "pread64"] {
        server.signal(Signal::KILL);
        assert_eq!(server.wait(LIMIT).code, 137);
        let entries = std::fs::read_dir(cluster.model_dir()).expect("readable");
        let folders = entries.map(|entry| entry.expect("readable").path());
        let folders = folders.filter(|path| path.join("manifest.json").exists());
        let file = match call {
            "openat" => "manifest.json",
            _ => "shard-0-of-1.safetensors",
        };
        let fault = Unreadable {
            calls: call,
            // Opens are tried again at once.
            when: if call == "openat" { "1+" } else { "2" },
            paths: folders.map(|folder| folder.join(file)).collect(),
        };
        let failed = cluster
            .start_unreadable("ps", 0, &endless, &[], &fault)
            .wait(LIMIT);
        assert_eq!(failed.code, 74, "{call}: {}", failed.output);
        assert!(
            !failed.output.contains("set a log aside"),
            "{call}: {}",
            failed.output
        );
        server = cluster.start("ps", 0, &endless);
        server.wait_for("recovered the values from the log", LIMIT);
    }
    for program in [&chief, &worker, &server] {
        program.signal(Signal::TERM);
    }
    let chief = chief.wait(LIMIT);
    assert!(
        !chief.output.contains("restoring every"),
        "{}",
        chief.output
    );
    drop(worker.wait(LIMIT));
    drop(server.wait(LIMIT));
}

/// Time for which a call hangs: longer than a wait is silent.
const HANGS: Duration = Duration::from_secs(3);

trial!(a_model_directory_that_hangs_in_a_checkpoint_is_told_and_training_goes_on, needs Strace);
fn a_model_directory_that_hangs_in_a_checkpoint_is_told_and_training_goes_on() {
    let cluster = TestCluster::new(1, 1, 8_000, "[train]\nmax_steps = 1000000\n");
    let endless = ["--set", "input.train.epochs=1000000"];
    let more: Vec<&str> = SAVES[..4].iter().copied().chain(endless).collect();
    let server = cluster.start("ps", 0, &more);
    let mut worker = cluster.start("worker", 0, &more);
    let fault = Unreadable {
        calls: "fsync",
        when: "1+",
        paths: vec![cluster.model_dir()],
    };
    let mut chief = cluster.start_on_hanging_files("chief", 0, &more, &fault, HANGS);
    chief.wait_for("training is open", LIMIT);
    let told = chief.wait_for_next("waiting for files", LIMIT);
    assert!(told.contains("work=\"checkpoint\""), "{told}");
    worker.wait_for_next("training step=", LIMIT);
    chief.wait_for_next("the files have answered", LIMIT);
    chief.wait_for_next("checkpoint saved", LIMIT);
    // The tracer lives as long as the chief.
    worker.signal(Signal::KILL);
    server.signal(Signal::KILL);
    chief.signal(Signal::KILL);
    drop((worker.wait(LIMIT), server.wait(LIMIT), chief.wait(LIMIT)));
}

trial!(a_server_whose_part_of_a_checkpoint_hangs_tells_it_and_applies_pushes, needs Strace);
fn a_server_whose_part_of_a_checkpoint_hangs_tells_it_and_applies_pushes() {
    let cluster = TestCluster::new(1, 1, 8_000, "[train]\nmax_steps = 1000000\n");
    let endless = ["--set", "input.train.epochs=1000000"];
    let more: Vec<&str> = SAVES[..4].iter().copied().chain(endless).collect();
    // Its log lies in memory, so that only the checkpoint is flushed.
    let fault = Unreadable {
        calls: "fsync",
        when: "1+",
        paths: Vec::new(),
    };
    let mut server = cluster.start_on_hanging_files("ps", 0, &more, &fault, HANGS);
    let mut worker = cluster.start("worker", 0, &more);
    let chief = cluster.start("chief", 0, &more);
    let told = server.wait_for_next("waiting for files", LIMIT);
    assert!(told.contains("work=\"checkpoint\""), "{told}");
    worker.wait_for_next("training step=", LIMIT);
    server.wait_for_next("the files have answered", LIMIT);
    server.wait_for_next("saved the own part of a checkpoint", LIMIT);
    // The tracer lives as long as the server.
    for program in [&worker, &server, &chief] {
        program.signal(Signal::KILL);
    }
    drop((worker.wait(LIMIT), server.wait(LIMIT), chief.wait(LIMIT)));
}

trial!(a_server_whose_log_hangs_says_so_and_is_not_ready, needs Strace);
fn a_server_whose_log_hangs_says_so_and_is_not_ready() {
    let cluster = TestCluster::new(1, 1, 8_000, "[train]\nmax_steps = 200\n");
    let more = ["--set", "parameter_servers.shared_memory_bytes_max=0"];
    let fault = Unreadable {
        calls: "fallocate",
        when: "1",
        paths: Vec::new(),
    };
    let mut server = cluster.start_on_hanging_files("ps", 0, &more, &fault, HANGS);
    let worker = cluster.start("worker", 0, &more);
    let chief = cluster.start("chief", 0, &more);
    let admin = server.admin_address(LIMIT);
    let page = |page| get(&admin, page, HANGS).expect("the server answers while its log hangs");
    server.wait_for("waiting for the disk of the log", LIMIT);
    let (head, ready) = page("/readyz");
    assert!(head.contains(" 503 "), "{head}");
    assert!(ready.contains("the disk of its log"), "{ready}");
    let (_, metrics) = page("/metrics");
    let waits = metrics
        .lines()
        .find_map(|line| line.strip_prefix("trainyard_file_wait_seconds{work=\"log\"} "));
    let waits: f64 = waits.expect("the metric").parse().expect("a number");
    assert!(waits >= 2.0, "{waits}");
    server.wait_for("the files of the log answer again", LIMIT);
    for program in [worker, chief, server] {
        end_well(program);
    }
}

trial!(whoever_starts_a_job_whose_model_dir_hangs_says_so_and_goes_on, needs Mounts);
fn whoever_starts_a_job_whose_model_dir_hangs_says_so_and_goes_on() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let job = write_job(folder.path(), 1000, "[train]\nmax_steps = 20\n");
    let job = job.to_string_lossy();
    let disk = Mount::disk(64 << 20);
    for command in [
        &["train"][..],
        &["up", "--cluster", "local:ps=1,worker=1"],
        &["run", "--role", "chief"],
    ] {
        let name = command.join("-").replace([',', ':', '='], "-");
        let model_dir = disk.path().join(name);
        let model_dir = model_dir.to_string_lossy();
        let is_alone = command[0] != "run";
        let cluster = TestCluster::new(1, 1, 1000, "[train]\nmax_steps = 20\n");
        let frozen = disk.freeze();
        let mut starting = if is_alone {
            let arguments = [command, &[&job, "--model-dir", &model_dir]].concat();
            Program::start("trainyard", &arguments, &[])
        } else {
            cluster.start(command[2], 0, &["--model-dir", &model_dir])
        };
        starting.wait_for_any(&["waiting for files", "waiting for a disk"], LIMIT);
        drop(frozen);
        if is_alone {
            end_well(starting);
        }
    }
}

trial!(whoever_writes_to_a_disk_that_hangs_says_so_and_goes_on, needs Mounts);
fn whoever_writes_to_a_disk_that_hangs_says_so_and_goes_on() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let job = write_job(folder.path(), 1000, "[train]\nmax_steps = 20\n");
    let job = job.to_string_lossy();
    end_well(Program::start("trainyard", &["train", &job], &[]));
    let disk = Mount::disk(64 << 20);
    let at = |name: &str| disk.path().join(name).to_string_lossy().into_owned();
    let (text, table) = (folder.path().join("eval.csv"), at("table.parquet"));
    let text = text.to_string_lossy();
    for arguments in [
        vec!["predict", &job, "--output", &at("predictions")],
        vec!["export", &job, "--output", &at("export")],
        vec!["convert", &text, &table],
        vec!["train", &job, "--report", &at("report.json")],
        vec!["up", &job, "--report", &at("of-up.json")],
        vec!["datagen", "ctr", "--rows", "1000", "--out", &at("data")],
    ] {
        let frozen = disk.freeze();
        let mut writing = Program::start("trainyard", &arguments, &[]);
        writing.wait_for("waiting for a disk", LIMIT);
        drop(frozen);
        end_well(writing);
    }
}

trial!(an_evaluator_whose_disk_hangs_says_so_is_not_ready_and_its_metric_tells, needs Mounts);
fn an_evaluator_whose_disk_hangs_says_so_is_not_ready_and_its_metric_tells() {
    let cluster = TestCluster::new(1, 1, 1000, "[train]\nmax_steps = 20\n");
    let disk = Mount::disk(64 << 20);
    std::fs::create_dir_all(cluster.model_dir()).expect("a folder");
    let aside = disk.path().join("eval");
    std::fs::create_dir(&aside).expect("a folder");
    std::os::unix::fs::symlink(&aside, cluster.model_dir().join("eval")).expect("a link");
    let mut evaluator = cluster.start("evaluator", 0, &[]);
    let admin = evaluator.admin_address(LIMIT);
    evaluator.wait_for("waiting for the first checkpoint", LIMIT);
    let frozen = disk.freeze();
    let tasks = ["ps", "chief", "worker"].map(|role| cluster.start(role, 0, &[]));
    evaluator.wait_for("waiting for a disk", LIMIT);
    let page = |page| get(&admin, page, Duration::from_secs(3)).expect("it answers");
    let (_, metrics) = page("/metrics");
    let told = metrics
        .lines()
        .find(|line| line.starts_with("trainyard_file_wait_seconds{work=\"any\"}"));
    assert!(told.is_some_and(|line| !line.ends_with(" 0")), "{metrics}");
    let (head, ready) = page("/readyz");
    assert!(
        head.contains(" 503 ") && ready.contains("a disk"),
        "{head}{ready}"
    );
    drop(frozen);
    for program in tasks.into_iter().chain([evaluator]) {
        end_well(program);
    }
}
