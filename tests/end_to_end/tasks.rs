//! A model of several tasks from CSV, where some labels are missing: trained alone and by a local cluster, evaluated, exported, predicted.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use serde_json::Value;
use trainyard_tests::{Draw, Ended, Program};

use crate::end_to_end::LIMIT;

const ROWS: usize = 600;

/// Writes records whose click depends on `x` and whose amount is twice `z`. Three of ten have no click, four others no amount.
fn write_rows(path: &Path, seed: u64) {
    let mut draw = Draw::new(seed);
    let mut text = "x,z,word,click,spent\n".to_owned();
    for row in 0..ROWS {
        let [x, z] = [0, 1].map(|_| 2.0 * draw.fraction() - 1.0);
        let click = if row % 10 < 3 {
            String::new()
        } else {
            u8::from(x > 0.0).to_string()
        };
        let spent = if row % 10 > 5 {
            String::new()
        } else {
            format!("{:.4}", 2.0 * z)
        };
        let _ = writeln!(text, "{x:.4},{z:.4},w{},{click},{spent}", row % 7);
    }
    std::fs::write(path, text).expect("the records are written");
}

fn write_job(folder: &Path, model: &str) -> PathBuf {
    write_rows(&folder.join("train.csv"), 1);
    write_rows(&folder.join("eval.csv"), 2);
    let text = format!(
        r#"
model_dir = "{0}/model"
[run]
save_checkpoints_steps = 100
[input.train]
files = ["{0}/train.csv"]
batch_size = 32
[input.eval]
files = ["{0}/eval.csv"]
[[feature]]
columns = ["x", "z"]
kind = "numeric"
deep = true
[[feature]]
column = "word"
kind = "hashed"
buckets = 9
deep = {{ embedding = 4 }}
[model]
{model}
dnn_optimizer = {{ kind = "adam", learning_rate = 0.01 }}
[[model.task]]
name = "click"
head = "binary"
label = {{ column = "click" }}
[[model.task]]
name = "spent"
head = "regression"
label = {{ column = "spent" }}
weight = 0.5
[train]
max_steps = 400
[eval]
start_delay_secs = 0
throttle_secs = 0
[[exporter]]
kind = "best"
metric = "click/auc"
[[exporter]]
kind = "best"
name = "cheapest"
metric = "spent/average_loss"
"#,
        folder.display()
    );
    let job = folder.join("job.toml");
    std::fs::write(&job, text).expect("the job is written");
    job
}

fn run(arguments: &[&str]) -> Ended {
    let ended = Program::start("trainyard", arguments, &[]).wait(LIMIT);
    assert_eq!(ended.code, 0, "{arguments:?}: {}", ended.output);
    ended
}

/// The metrics that `evaluate` prints.
fn evaluate(job: &str) -> Value {
    let output = run(&["evaluate", job, "--format", "json"]).output;
    let line = output.lines().find(|line| line.starts_with('{'));
    serde_json::from_str(line.expect("a line of JSON")).expect("the line is JSON")
}

/// Trains, and checks what evaluations, exports and predictions say of both tasks.
fn learns(model: &str, start: &[&str], more: &[&str]) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let folder = folder.path();
    let job = write_job(folder, model).to_string_lossy().into_owned();
    let (command, rest) = start.split_first().expect("a command");
    run(&[&[*command, &job], rest, more].concat());
    let metrics = &evaluate(&job)["metrics"];
    let metric = |name: &str| {
        metrics[name]
            .as_f64()
            .unwrap_or_else(|| panic!("{metrics}"))
    };
    assert!(metric("click/auc") > 0.95, "{metrics}");
    assert!(metric("spent/average_loss") < 0.2, "{metrics}");
    // The amounts of the records that have one, of which the mean is near 0.
    assert!(metric("spent/label/mean").abs() < 0.2, "{metrics}");
    let sum = metric("click/average_loss") + 0.5 * metric("spent/average_loss");
    assert!((metric("average_loss") - sum).abs() < 1e-9, "{metrics}");
    for exporter in ["best", "cheapest"] {
        let exports = folder.join("model/export").join(exporter);
        assert!(
            exports.read_dir().expect("exports").count() > 0,
            "{exporter}"
        );
    }
    // Predictions need no label.
    let records = folder.join("records.csv");
    std::fs::write(&records, "x,z,word\n0.9,-0.8,w1\n-0.9,0.8,w2\n").expect("it is written");
    let out = folder.join("lines");
    let [records, lines] = [&records, &out].map(|path| path.to_string_lossy().into_owned());
    run(&["predict", &job, "--input", &records, "--output", &lines]);
    let lines = std::fs::read_to_string(&out).expect("predictions");
    let lines: Vec<Value> = lines
        .lines()
        .map(|line| serde_json::from_str(line).expect("a line is JSON"))
        .collect();
    let of = |row: usize, key: &str| lines[row][key][0].as_f64().expect("a number");
    assert!(of(0, "click/logistic") > 0.5 && of(1, "click/logistic") < 0.5);
    assert!(of(0, "spent/predictions") < 0.0 && of(1, "spent/predictions") > 0.0);
    let csv = ["--format", "csv", "--output", &records];
    let input = folder.join("train.csv").to_string_lossy().into_owned();
    run(&[&["predict", &job, "--input", &input][..], &csv].concat());
    let header = std::fs::read_to_string(&records).expect("predictions");
    let header = header.lines().next().expect("a header");
    assert_eq!(
        header,
        "click/class_ids,click/classes,click/logistic,click/logits,click/probabilities_0,click/probabilities_1,spent/predictions,error"
    );
}

trial!(tasks_with_missing_labels_are_learned_alone);
fn tasks_with_missing_labels_are_learned_alone() {
    for model in [
        "kind = \"shared_bottom\"\nhidden_units = [16]\ntower_units = [8]",
        "kind = \"mmoe\"\nhidden_units = [8]\nexperts = 3\ntower_units = [8]",
        "kind = \"ple\"\nhidden_units = [8]\nexperts = 2\ntask_experts = 2",
    ] {
        learns(model, &["train"], &[]);
    }
}

trial!(tasks_with_missing_labels_are_learned_by_a_cluster);
fn tasks_with_missing_labels_are_learned_by_a_cluster() {
    let model = "kind = \"mmoe\"\nhidden_units = [8]\nexperts = 3\ntower_units = [8]";
    let cluster = ["--cluster", "local:ps=2,worker=2"];
    learns(model, &["up"], &cluster);
}

trial!(a_task_without_labels_and_a_record_without_any_are_told);
fn a_task_without_labels_and_a_record_without_any_are_told() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let model = "kind = \"shared_bottom\"\nhidden_units = [4]";
    let job = write_job(folder.path(), model);
    let job = job.to_string_lossy();
    let train = folder.path().join("train.csv");
    let rows = std::fs::read_to_string(&train).expect("the records");
    std::fs::write(&train, format!("{rows}0.1,0.2,w1,,\n")).expect("a record more");
    let fails = |arguments: &[&str], told: &str| {
        let ended = Program::start("trainyard", arguments, &[]).wait(LIMIT);
        assert_ne!(ended.code, 0, "{}", ended.output);
        assert!(ended.output.contains(told), "{}", ended.output);
    };
    fails(&["train", &job], "the labels of all tasks are missing");
    fails(
        &["train", &job, "--set", "exporter.0.metric=\"click/auk\""],
        "did you mean",
    );
    fails(
        &[
            "train",
            &job,
            "--set",
            "exporter.0.metric=\"click/auc_group\"",
        ],
        "which the model does not report",
    );
}
