//! Jobs that evaluations end: at the best checkpoint, with a reason.

use std::path::Path;

use serde_json::Value;
use trainyard_tests::{Program, write_job};

use crate::end_to_end::LIMIT;

fn run(arguments: &[&str]) -> String {
    let ended = Program::start("trainyard", arguments, &[]).wait(LIMIT);
    assert_eq!(ended.code, 0, "{arguments:?}: {}", ended.output);
    ended.output
}

/// An endless job that is evaluated again and again.
fn endless(folder: &Path, patience: u64) -> String {
    let rule = format!(
        "[train.early_stopping]\nmetric = \"auc\"\nmax_evaluations_without_improvement = {patience}\n"
    );
    let text = std::fs::read_to_string(write_job(folder, 600, "")).expect("the job");
    let text = text
        .replace("epochs = 2\n", "")
        .replace("[run]", "[run]\nsave_checkpoints_steps = 20\nkeep_checkpoint_max = 2");
    let path = folder.join("job.toml");
    std::fs::write(&path, text + &rule).expect("the job is written");
    path.to_string_lossy().into_owned()
}

fn state(folder: &Path) -> Value {
    let text = std::fs::read_to_string(folder.join("model/job_state.json")).expect("a state");
    serde_json::from_str(&text).expect("JSON")
}

/// Of all evaluations, the step and value of the best: what counts is that nothing before or after was better.
fn best_auc(folder: &Path) -> (u64, f64) {
    let text = std::fs::read_to_string(folder.join("model/eval/metrics.jsonl")).expect("evaluations");
    let results = text.lines().map(|line| serde_json::from_str::<Value>(line).expect("a line is JSON"));
    let values = results.map(|result| {
        (result["global_step"].as_u64().expect("a step"), result["metrics"]["auc"].as_f64().expect("an auc"))
    });
    values.max_by(|left, right| left.1.total_cmp(&right.1)).expect("an evaluation")
}

fn ends_at_its_best(start: &[&str]) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let folder = folder.path();
    let job = endless(folder, 3);
    let arguments = [&start[..1], &[job.as_str()], &start[1..]].concat();
    let told = run(&arguments);
    assert!(told.contains("ended early, at the best checkpoint: auc has not risen above"), "{told}");
    let state = state(folder);
    assert_eq!(state["phase"], "done");
    assert!(
        state["reason"].as_str().is_some_and(|why| why.starts_with("early stopping: auc has")),
        "{state}"
    );
    let step = state["global_step"].as_u64().expect("a step");
    let (_, best) = best_auc(folder);
    let scores = run(&["evaluate", &job, "--format", "json"]);
    let scores: Value = serde_json::from_str(&scores).expect("JSON");
    assert_eq!(scores["global_step"], step);
    // Sums of several threads differ in the last digits.
    let auc = scores["metrics"]["auc"].as_f64().expect("an auc");
    assert!((auc - best).abs() < 1e-9, "{auc}, {best}");
    // It is over, until the rule is another.
    let again = run(&arguments);
    assert!(again.contains("nothing to do: the job is done: early stopping"), "{again}");
    let patient = "train.early_stopping.max_evaluations_without_improvement=4";
    let more = run(&[&arguments[..], &["--set", patient]].concat());
    assert!(more.contains("ended early") && !more.contains("nothing to do"), "{more}");
}

trial!(a_job_in_one_process_ends_at_its_best_checkpoint_when_evaluations_bring_no_gain);
fn a_job_in_one_process_ends_at_its_best_checkpoint_when_evaluations_bring_no_gain() {
    ends_at_its_best(&["train"]);
}

trial!(a_cluster_ends_at_its_best_checkpoint_when_evaluations_bring_no_gain);
fn a_cluster_ends_at_its_best_checkpoint_when_evaluations_bring_no_gain() {
    ends_at_its_best(&["up", "--cluster", "local:ps=2,worker=2"]);
}
