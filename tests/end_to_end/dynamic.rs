//! Jobs with dynamic tables: trained on a cluster, resumed on another, scored and looked up.

use std::fmt::Write as _;
use std::path::Path;

use trainyard_tests::{Draw, Program};

use crate::end_to_end::LIMIT;

/// Rows of a user and a label that the user decides. Few users are seen often, and many once.
fn write_rows(path: &Path, rows: u64, seed: u64) {
    let mut text = "user,y\n".to_owned();
    let mut draw = Draw::new(seed);
    for row in 0..rows {
        let user = if draw.below(10) == 0 {
            1000 + seed * rows + row
        } else {
            draw.below(40)
        };
        let _ = writeln!(text, "u{user},{}", user % 2);
    }
    std::fs::write(path, text).expect("the rows are written");
}

fn write_job(folder: &Path) -> String {
    write_rows(&folder.join("train.csv"), 4000, 1);
    write_rows(&folder.join("eval.csv"), 1000, 2);
    let job = format!(
        r#"model_dir = "{}"
[run]
seed = 3
save_checkpoints_steps = 100
[input]
label = {{ column = "y" }}
[input.train]
files = ["train.csv"]
batch_size = 16
[input.eval]
files = ["eval.csv"]
[[feature]]
column = "user"
kind = "dynamic"
rows_max = 60
admit_after = 2
expire_after_steps = 2000
wide = true
deep = {{ embedding = 4 }}
[model]
kind = "dnn_linear_combined_classifier"
hidden_units = [8]
[model.dnn_optimizer]
kind = "adagrad"
learning_rate = 0.3
[train]
max_steps = 300
[eval]
start_delay_secs = 0
throttle_secs = 0
"#,
        folder.join("model").display()
    );
    let path = folder.join("job.toml");
    std::fs::write(&path, job).expect("the job is written");
    path.to_string_lossy().into_owned()
}

/// Runs a command that is to end well, and returns what it has said.
pub(super) fn run(arguments: &[&str]) -> String {
    let ended = Program::start("trainyard", arguments, &[]).wait(LIMIT);
    assert_eq!(ended.code, 0, "{arguments:?}: {}", ended.output);
    ended.output
}

/// The JSON object in what a command has said.
fn object(text: &str) -> serde_json::Value {
    let line = text
        .lines()
        .find(|line| line.starts_with('{'))
        .expect("a line of JSON");
    serde_json::from_str(line).expect("JSON")
}

/// What `evaluate` says of a job.
pub(super) fn scores(job: &str) -> serde_json::Value {
    object(&run(&["evaluate", job, "--format", "json"]))
}

/// Returns the prediction for one record, which has one column.
pub(super) fn prediction(job: &str, folder: &Path, column: &str, value: &str) -> serde_json::Value {
    let input = folder.join("one.csv");
    std::fs::write(&input, format!("{column}\n{value}\n")).expect("a row is written");
    object(&run(&["predict", job, "--input", &input.to_string_lossy()]))
}

fn auc(job: &str) -> f64 {
    scores(job)["metrics"]["auc"].as_f64().expect("an auc")
}

/// Rows in use of both tables, as `inspect` tells them.
fn rows_used(model: &str) -> Vec<usize> {
    let text = run(&["inspect", model]);
    let used = text
        .lines()
        .filter_map(|line| line.split_once("]  ")?.1.split_once(" of 60 rows"));
    used.map(|(used, _)| used.parse().expect("a number"))
        .collect()
}

fn logit_of(job: &str, folder: &Path, user: &str) -> f64 {
    prediction(job, folder, "user", user)["logits"][0]
        .as_f64()
        .expect("a logit")
}

trial!(ids_are_learned_in_bounded_memory_and_outlive_a_resume_on_other_servers);
fn ids_are_learned_in_bounded_memory_and_outlive_a_resume_on_other_servers() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let job = write_job(folder.path());
    let model = folder.path().join("model").to_string_lossy().into_owned();
    run(&["up", &job, "--cluster", "local:ps=2,worker=2"]);
    let used = rows_used(&model);
    assert!(
        used.len() == 2 && used.iter().all(|used| (40..=60).contains(used)),
        "{used:?}"
    );
    // 90% of the rows are of users that the model has seen often, and knows.
    assert!(auc(&job) > 0.93, "auc {}", auc(&job));
    let logits = ["u7", "u8", "u999999", "u999999"].map(|user| logit_of(&job, folder.path(), user));
    assert!(
        logits[0] > 1.0 && logits[1] < -1.0,
        "known users: {logits:?}"
    );
    assert!(
        (logits[1]..logits[0]).contains(&logits[2]) && logits[2] == logits[3],
        "an unknown one: {logits:?}"
    );
    // On, on another number of servers: nothing is forgotten, and nothing grows beyond its room.
    run(&[
        "up",
        &job,
        "--cluster",
        "local:ps=3,worker=1",
        "--set",
        "train.max_steps=500",
    ]);
    let used = rows_used(&model);
    assert!(
        used.len() == 2 && used.iter().all(|used| (40..=60).contains(used)),
        "{used:?}"
    );
    assert!(logit_of(&job, folder.path(), "u7") > 1.0 && auc(&job) > 0.93);
    let export = run(&["export", &job]);
    let bytes =
        std::fs::read(Path::new(export.trim()).join("model.safetensors")).expect("an export");
    let text = String::from_utf8_lossy(&bytes);
    assert!(
        text.contains("linear/linear_model/user/weights/ids"),
        "ids stand beside the values"
    );
}

trial!(a_dynamic_table_takes_no_rule_that_moves_all_rows);
fn a_dynamic_table_takes_no_rule_that_moves_all_rows() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let job = write_job(folder.path());
    let arguments = ["check", &job, "--set", "model.dnn_optimizer.kind=adam"];
    let ended = Program::start("trainyard", &arguments, &[]).wait(LIMIT);
    assert_eq!(ended.code, 78, "{}", ended.output);
    assert!(
        ended
            .output
            .contains("set lazy = true in [model.dnn_optimizer]"),
        "{}",
        ended.output
    );
}
