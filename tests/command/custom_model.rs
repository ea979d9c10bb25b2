//! A program with a model of its own is every role and every command for that model.
#![expect(
    clippy::unwrap_used,
    reason = "a program that does not do as the test says fails the test"
)]

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use trainyard_tests::{Program, free_ports, program};

/// Longest time for a small job.
const LIMIT: Duration = Duration::from_secs(60);

fn job() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../crates/trainyard/examples/custom-mlp.toml")
}

fn run(program: &Path, command: &str, model_dir: &Path, more: &[&str]) -> Output {
    let mut child = Command::new(program)
        .arg(command)
        .arg(job())
        .arg("--model-dir")
        .arg(model_dir)
        .args(more)
        .env_remove("TF_CONFIG")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let until = Instant::now() + LIMIT;
    while child.try_wait().unwrap().is_none() {
        if Instant::now() > until {
            child.kill().unwrap();
            panic!("{command} did not end within {LIMIT:?}");
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    child.wait_with_output().unwrap()
}

trial!(up_starts_the_program_itself_in_every_role);
fn up_starts_the_program_itself_in_every_role() {
    let folder = tempfile::tempdir().unwrap();
    let more = [
        "--cluster",
        "local:ps=1,worker=1",
        "--set",
        "train.max_steps=1000",
    ];
    // The premade programs refuse this job: a task that were one of them would end the job.
    let output = run(
        Path::new(env!("CARGO_BIN_EXE_custom-mlp")),
        "up",
        folder.path(),
        &more,
    );
    let out = String::from_utf8_lossy(&output.stdout);
    let log = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{log}");
    assert!(out.contains("trained to step 1000"), "{out}{log}");
    let scores = std::fs::read_to_string(folder.path().join("eval/metrics.jsonl")).unwrap();
    // Tasks race, so the accuracy differs from run to run: 0.9 and something, or 1.0.
    let good = |line: &str| {
        ["\"accuracy\":0.9", "\"accuracy\":1.0"]
            .iter()
            .any(|text| line.contains(text))
    };
    assert!(scores.lines().last().is_some_and(good), "{scores}");
}

trial!(the_premade_models_refuse_a_job_of_a_custom_one);
fn the_premade_models_refuse_a_job_of_a_custom_one() {
    let folder = tempfile::tempdir().unwrap();
    let output = run(&program("trainyard"), "check", folder.path(), &[]);
    let log = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(78), "{log}");
    assert!(
        log.contains("E1006") && log.contains("the program brings the model along"),
        "{log}"
    );
}

trial!(a_key_of_the_programs_own_of_another_type_is_told_with_its_line);
fn a_key_of_the_programs_own_of_another_type_is_told_with_its_line() {
    let folder = tempfile::tempdir().unwrap();
    let mlp = Path::new(env!("CARGO_BIN_EXE_custom-mlp"));
    let text = std::fs::read_to_string(job()).unwrap();
    let wrong = folder.path().join("job.toml");
    std::fs::write(&wrong, text.replace("units = 16", "units = \"many\"")).unwrap();
    let output = Command::new(mlp).arg("check").arg(&wrong).output().unwrap();
    let log = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(78), "{log}");
    for part in ["E1002", "job.toml:", "units = \"many\"", "expected usize"] {
        assert!(log.contains(part), "{part}: {log}");
    }
}

#[path = "../../crates/trainyard/examples/train-and-evaluate.rs"]
mod as_a_value;

/// The rest of the example.
const _: fn() -> std::process::ExitCode = as_a_value::main;

trial!(a_job_is_trained_evaluated_and_predicted_by_calls);
fn a_job_is_trained_evaluated_and_predicted_by_calls() {
    let folder = tempfile::tempdir().unwrap();
    let iris = Path::new(env!("CARGO_MANIFEST_DIR")).join("../configs/iris.toml");
    let told = as_a_value::run(&iris, &folder.path().to_string_lossy()).unwrap();
    assert!(told.starts_with("step 300, accuracy 0.9"), "{told}");
    assert!(told.ends_with(", 30 records"), "{told}");
    assert!(folder.path().join("eval/metrics.jsonl").is_file());
}

trial!(calls_of_one_program_are_the_tasks_that_tf_config_names);
fn calls_of_one_program_are_the_tasks_that_tf_config_names() {
    let folder = tempfile::tempdir().unwrap();
    let addresses: Vec<String> = free_ports(4)
        .iter()
        .map(|port| format!("127.0.0.1:{port}"))
        .collect();
    let cluster = serde_json::json!({
        "chief": &addresses[..1], "worker": &addresses[1..2], "ps": &addresses[2..],
    });
    let configs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../configs");
    std::os::unix::fs::symlink(configs, folder.path().join("configs")).unwrap();
    let start = |role: &str, index: usize| {
        let config =
            serde_json::json!({"cluster": cluster, "task": {"type": role, "index": index}});
        Program::start_in(
            folder.path(),
            env!("CARGO_BIN_EXE_train-and-evaluate"),
            &[],
            &[("TF_CONFIG", &config.to_string())],
        )
    };
    let tasks = [
        ("ps", 0),
        ("ps", 1),
        ("chief", 0),
        ("worker", 0),
        ("evaluator", 0),
    ];
    for task in tasks.map(|(role, index)| start(role, index)) {
        let ended = task.wait(LIMIT);
        assert_eq!(ended.code, 0, "{}", ended.output);
        let told = "this process was a task of a cluster";
        assert!(ended.output.contains(told), "{}", ended.output);
    }
    let scores = folder.path().join("runs/as-a-value/eval/metrics.jsonl");
    let scores = std::fs::read_to_string(scores).unwrap();
    let last: serde_json::Value = serde_json::from_str(scores.lines().last().unwrap()).unwrap();
    assert_eq!(last["global_step"], 300, "{scores}");
}
