//! The job that trained the values: checkpoints and exports record it, and a run that trains nothing does not change it.

use std::path::Path;

use rustix::process::Signal;
use serde_json::Value;
use trainyard_tests::{Ended, Program, TestCluster, write_job};

use crate::end_to_end::LIMIT;

/// Another job with the same variables.
const OTHER: [&str; 2] = ["--set", "input.label.positive=\"1.0\""];

/// The difference of that job, in a message.
const DIFFERENCE: &str =
    "input.label.positive is \"1.0\" for this job and not set for the run that trained";

fn trainyard(command: &[&str], more: &[&str]) -> Ended {
    Program::start("trainyard", &[command, more].concat(), &[]).wait(LIMIT)
}

/// Trains a job of 50 steps in `folder`, and returns its job file.
fn trained(folder: &Path) -> String {
    let job = write_job(folder, 1000, "[train]\nmax_steps = 50\n");
    let job = job.to_string_lossy().into_owned();
    let ended = trainyard(&["train", &job], &[]);
    assert_eq!(ended.code, 0, "{}", ended.output);
    job
}

fn model_dir(folder: &Path) -> std::path::PathBuf {
    folder.join("model")
}

fn job_state(folder: &Path) -> Value {
    let text = std::fs::read(model_dir(folder).join("job_state.json")).expect("a marker");
    serde_json::from_slice(&text).expect("JSON")
}

trial!(a_run_that_trains_nothing_does_not_become_the_job_that_trained);
fn a_run_that_trains_nothing_does_not_become_the_job_that_trained() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let job = trained(folder.path());
    let as_run =
        || std::fs::read_to_string(model_dir(folder.path()).join("job.toml")).expect("it is there");
    let before = as_run();
    // The last step has been applied: this run only looks.
    let ended = trainyard(&["train", &job], &OTHER);
    assert_eq!(ended.code, 0, "{}", ended.output);
    // This run ends before it trains.
    let ended = trainyard(
        &["train", &job],
        &[
            "--set",
            "model.hidden_units=[3]",
            "--set",
            "train.max_steps=60",
        ],
    );
    assert_eq!(ended.code, 65, "{}", ended.output);
    assert_eq!(as_run(), before, "job.toml is the job that trained");
    let own = trainyard(&["evaluate", &job], &[]);
    assert!(
        own.code == 0 && !own.output.contains("E2007"),
        "{}",
        own.output
    );
    let other = trainyard(&["evaluate", &job], &OTHER);
    assert!(
        other.code == 0 && other.output.contains(DIFFERENCE),
        "{}",
        other.output
    );
}

trial!(exports_and_checks_compare_the_job_with_the_one_that_trained);
fn exports_and_checks_compare_the_job_with_the_one_that_trained() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let job = trained(folder.path());
    let out = folder.path().join("exports").to_string_lossy().into_owned();
    let export = ["export", job.as_str(), "--output", out.as_str()];
    let predictions = folder.path().join("predictions.jsonl");
    let predictions = predictions.to_string_lossy().into_owned();
    let commands: [&[&str]; 5] = [
        &["check", &job],
        &export,
        &["evaluate", &job, "--from", &out],
        &["evaluate", &job],
        &["predict", &job, "--output", &predictions],
    ];
    for command in commands {
        let own = trainyard(command, &[]);
        assert!(
            own.code == 0 && !own.output.contains("E2007"),
            "{command:?}: {}",
            own.output
        );
        let other = trainyard(command, &OTHER);
        assert!(
            other.code == 0 && other.output.contains("E2007") && other.output.contains(DIFFERENCE),
            "{command:?}: {}",
            other.output
        );
    }
}

trial!(a_start_that_fails_keeps_the_step_and_the_end_of_the_job_before);
fn a_start_that_fails_keeps_the_step_and_the_end_of_the_job_before() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let job = trained(folder.path());
    let misfit = ["--set", "model.hidden_units=[3]"];
    let ended = trainyard(&["train", &job], &misfit);
    assert_eq!(ended.code, 65, "{}", ended.output);
    let state = job_state(folder.path());
    assert_eq!(state["global_step"], 50, "{state}");
    assert_eq!(state["finished_before"], true, "{state}");
    assert_eq!(state["phase"], "failed", "{state}");
    let shown = trainyard(
        &["inspect", &model_dir(folder.path()).to_string_lossy()],
        &[],
    );
    assert!(
        shown.output.contains("the last start failed: ")
            && shown
                .output
                .contains("an earlier run had finished the job at step 50"),
        "{}",
        shown.output
    );
    let ended = trainyard(&["train", &job], &[]);
    assert_eq!(ended.code, 0, "{}", ended.output);
    let state = job_state(folder.path());
    assert_eq!(state["phase"], "done", "{state}");
}

trial!(a_server_with_the_model_dir_of_another_run_is_refused_and_changes_nothing_there);
fn a_server_with_the_model_dir_of_another_run_is_refused_and_changes_nothing_there() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    trained(folder.path());
    let other = model_dir(folder.path());
    let names = || {
        let entries = std::fs::read_dir(&other)
            .expect("a folder")
            .map(|entry| entry.expect("an entry").file_name());
        // The server has opened a log there, which is empty.
        let mut names: Vec<_> = entries.filter(|name| name != "wal").collect();
        names.sort();
        names
    };
    let before = names();
    let cluster = TestCluster::new(1, 0, 1000, "[train]\nmax_steps = 50\n");
    let server = cluster.start("ps", 0, &["--model-dir", &other.to_string_lossy()]);
    let refused = cluster.start("chief", 0, &[]).wait(LIMIT);
    assert_eq!(refused.code, 76, "{}", refused.output);
    for part in [
        "error[E2006]",
        "give ps:0 the model_dir of the chief",
        &*other.to_string_lossy(),
    ] {
        assert!(refused.output.contains(part), "{part}: {}", refused.output);
    }
    server.signal(Signal::TERM);
    let ended = server.wait(LIMIT);
    assert_eq!(ended.code, 0, "{}", ended.output);
    assert_eq!(names(), before, "the folder of the other run is as it was");
}

trial!(a_job_that_names_a_missing_column_writes_no_checkpoint_and_the_corrected_job_trains);
fn a_job_that_names_a_missing_column_writes_no_checkpoint_and_the_corrected_job_trains() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let job = write_job(folder.path(), 1000, "[train]\nmax_steps = 50\n");
    let good = std::fs::read_to_string(&job).expect("the job");
    std::fs::write(&job, good.replace("[\"x\", \"z\"]", "[\"x\", \"zz\"]")).expect("written");
    let path = job.to_string_lossy().into_owned();
    let ended = trainyard(&["train", &path], &[]);
    assert!(
        ended.code == 65 && ended.output.contains("column `zz` is not in"),
        "{}",
        ended.output
    );
    assert!(
        !ended.output.contains("checkpoint saved"),
        "{}",
        ended.output
    );
    std::fs::write(&job, good).expect("written");
    let ended = trainyard(&["train", &path], &[]);
    assert_eq!(ended.code, 0, "{}", ended.output);
}

trial!(a_check_names_what_training_would_stumble_over);
fn a_check_names_what_training_would_stumble_over() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let job = write_job(folder.path(), 1000, "[train]\nmax_steps = 50\n");
    let text = std::fs::read_to_string(&job).expect("the job");
    let path = job.to_string_lossy().into_owned();
    let good = trainyard(&["check", &path], &[]);
    let train = folder.path().join("train.csv");
    assert!(
        good.code == 0
            && !good.output.contains("warning")
            && good.output.contains(&*train.to_string_lossy()),
        "{}",
        good.output
    );
    let unwritable = trainyard(&["check", &path, "--model-dir", "/proc/none"], &[]);
    assert!(
        unwritable.code == 74
            && unwritable
                .output
                .contains("nothing can be written in /proc"),
        "{}",
        unwritable.output
    );
    let vocabulary = [
        "--set",
        "input.label={column=\"y\", vocabulary=[\"0\", \"one\"]}",
    ];
    let strangers = trainyard(&["check", &path], &vocabulary);
    assert!(
        strangers.code == 65 && strangers.output.contains("is not in the vocabulary"),
        "{}",
        strangers.output
    );
    std::fs::write(
        &job,
        text.replace("[\"x\", \"z\"]", "[\"x\", \"z\", \"y\"]"),
    )
    .expect("written");
    let label = trainyard(&["check", &path], &[]);
    assert!(
        label.code == 0
            && label
                .output
                .contains("feature `y` reads the label column `y`"),
        "{}",
        label.output
    );
}

trial!(a_relative_input_with_two_meanings_is_warned_of_with_both_files);
fn a_relative_input_with_two_meanings_is_warned_of_with_both_files() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let beside = folder.path().join("job");
    std::fs::create_dir(&beside).expect("a folder");
    let job = write_job(&beside, 1000, "[train]\nmax_steps = 50\n");
    std::fs::copy(beside.join("train.csv"), folder.path().join("train.csv")).expect("copied");
    let path = job.to_string_lossy().into_owned();
    let ended = Program::start_in(folder.path(), "trainyard", &["check", &path], &[]).wait(LIMIT);
    let (read, other) = (beside.join("train.csv"), folder.path().join("train.csv"));
    let told = format!(
        "input `train.csv` is read from {}, and {} is another file",
        read.display(),
        other.display()
    );
    assert!(
        ended.code == 0 && ended.output.contains(&told),
        "{}",
        ended.output
    );
}
