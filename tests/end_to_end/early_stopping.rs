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
    let text = text.replace("epochs = 2\n", "").replace(
        "[run]",
        "[run]\nsave_checkpoints_steps = 20\nkeep_checkpoint_max = 2",
    );
    let path = folder.join("job.toml");
    std::fs::write(&path, text + &rule).expect("the job is written");
    path.to_string_lossy().into_owned()
}

fn state(folder: &Path) -> Value {
    let text = std::fs::read_to_string(folder.join("model/job_state.json")).expect("a state");
    serde_json::from_str(&text).expect("JSON")
}

/// The value and the step of the best evaluation, as the reason of the end tells them. The evaluator may have found a better one
/// since: that came too late.
fn best_auc(reason: &str) -> (f64, u64) {
    let rest = reason
        .strip_prefix("early stopping: auc has not risen above ")
        .expect("a reason");
    let (value, rest) = rest.split_once(" (step ").expect("a step");
    let (step, _) = rest.split_once(')').expect("what follows");
    (
        value.parse().expect("a number"),
        step.parse().expect("a step"),
    )
}

fn ends_at_its_best(start: &[&str]) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let folder = folder.path();
    let job = endless(folder, 3);
    let arguments = [&start[..1], &[job.as_str()], &start[1..]].concat();
    let told = run(&arguments);
    assert!(
        told.contains("ended early, at the best checkpoint: auc has not risen above"),
        "{told}"
    );
    let state = state(folder);
    assert_eq!(state["phase"], "done");
    let (best, step) = best_auc(state["reason"].as_str().expect("a reason"));
    assert_eq!(state["global_step"], step, "{state}");
    let scores = run(&["evaluate", &job, "--format", "json"]);
    let scores: Value = serde_json::from_str(&scores).expect("JSON");
    assert_eq!(scores["global_step"], step);
    // Sums of several threads differ in the last digits.
    let auc = scores["metrics"]["auc"].as_f64().expect("an auc");
    assert!((auc - best).abs() < 1e-9, "{auc}, {best}");
    // It is over, until the rule is another.
    let again = run(&arguments);
    assert!(
        again.contains("nothing to do: the job is done: early stopping"),
        "{again}"
    );
    let patient = "train.early_stopping.max_evaluations_without_improvement=4";
    let more = run(&[&arguments[..], &["--set", patient]].concat());
    assert!(
        more.contains("ended early") && !more.contains("nothing to do"),
        "{more}"
    );
}

trial!(a_job_in_one_process_ends_at_its_best_checkpoint_when_evaluations_bring_no_gain);
fn a_job_in_one_process_ends_at_its_best_checkpoint_when_evaluations_bring_no_gain() {
    ends_at_its_best(&["train"]);
}

trial!(a_cluster_ends_at_its_best_checkpoint_when_evaluations_bring_no_gain);
fn a_cluster_ends_at_its_best_checkpoint_when_evaluations_bring_no_gain() {
    ends_at_its_best(&["up", "--cluster", "local:ps=2,worker=2"]);
}
