//! Servers of predictions follow the cuts that a running job publishes.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde_json::Value;
use trainyard_tests::{Link, Program, Proxy, free_ports, metric};

use crate::serving::client::{get, post};
use crate::serving::equality::bits;
use crate::serving::versions::damage;
use crate::serving::{LIMIT, Server, run};
use crate::storage::server::Server as Store;

const ROW: &str = r#"{"instances": [{"x": 0.5, "z": -1, "word": "w1"}]}"#;
pub(crate) const PATH: &str = "/v1/models/model:predict";
/// Interval between questions.
const POLL: Duration = Duration::from_millis(50);
/// Steps that no run reaches.
pub(crate) const ENDLESS: u64 = 1 << 40;

/// Returns the answer of a server to a request, to the last digit.
pub(crate) fn answer(server: &Server, request: &str) -> String {
    let (status, answer) = post(&server.address, PATH, request);
    assert_eq!(status, 200, "{answer}");
    answer["predictions"].to_string()
}

/// Writes a job that trains until it is told to stop, publishes each second, and writes a checkpoint at its end only.
fn publishing(folder: &Path) -> String {
    let end = format!("[train]\nmax_steps = {ENDLESS}\n[publish]\nevery_secs = 1\n");
    let job = trainyard_tests::write_job(folder, 400, &end);
    job.to_string_lossy().into_owned()
}

fn train(job: &str) -> Program {
    Program::start("trainyard", &["train", job, "--log-level", "error"], &[])
}

/// Stops training, which writes its last checkpoint. Returns the step of that.
fn stop(training: Program, model_dir: &Path) -> u64 {
    training.signal(Signal::TERM);
    let ended = training.wait(LIMIT);
    let (phase, step) = state_of(model_dir);
    assert_eq!(phase, "stopped", "{}", ended.output);
    step
}

/// Returns the phase and the step of a job.
pub(crate) fn state_of(model_dir: &Path) -> (String, u64) {
    let text = std::fs::read_to_string(model_dir.join("job_state.json")).expect("a state");
    let state: Value = serde_json::from_str(&text).expect("JSON");
    let phase = state["phase"].as_str().expect("a phase").to_owned();
    (phase, state["global_step"].as_u64().expect("a step"))
}

/// Returns the folders of the cuts, oldest first.
fn cuts(model_dir: &Path) -> Vec<PathBuf> {
    let Ok(entries) = std::fs::read_dir(model_dir.join("publish")) else {
        return Vec::new();
    };
    let paths = entries.map(|entry| entry.expect("an entry").path());
    // A cut that is being written has a temporary name.
    let mut cuts: Vec<PathBuf> = paths
        .filter(|path| !name_of(path).starts_with("tmp."))
        .collect();
    let number = |path: &PathBuf| name_of(path).rsplit('-').next().map(str::to_owned);
    cuts.sort_by_key(number);
    cuts
}

fn name_of(path: &Path) -> String {
    path.file_name()
        .unwrap_or_default()
        .to_string_lossy()
        .into_owned()
}

/// Returns the global step of a cut.
fn step_of(cut: &Path) -> u64 {
    let text = std::fs::read(cut.join("manifest.json")).expect("a manifest");
    let manifest: Value = serde_json::from_slice(&text).expect("JSON");
    manifest["global_step"].as_u64().expect("a step")
}

/// Waits until `found` finds something.
pub(crate) fn wait_for<T>(what: &str, mut found: impl FnMut() -> Option<T>) -> T {
    let begun = Instant::now();
    loop {
        if let Some(found) = found() {
            return found;
        }
        assert!(begun.elapsed() < LIMIT, "{what} has not come");
        std::thread::sleep(POLL);
    }
}

/// Returns the newest version that a server has.
pub(crate) fn version(server: &Server) -> u64 {
    let (_, status) = get(&server.address, "/v1/models/model");
    let states = status["model_version_status"].as_array();
    let newest = states.into_iter().flatten().filter_map(|state| {
        let version = state["version"].as_str()?;
        (state["state"] == "AVAILABLE").then(|| version.parse().ok())?
    });
    newest.max().unwrap_or(0)
}

/// The end of a job that was followed.
pub(crate) struct Last<'a> {
    pub(crate) model_dir: &'a Path,
    /// Step of the last checkpoint.
    pub(crate) step: u64,
    pub(crate) request: &'a str,
    /// Answer of the server that followed.
    pub(crate) answer: &'a str,
}

/// Asserts that a server that reads no cut gives an answer at a step, which it has from the last checkpoint.
pub(crate) fn assert_answer_of_last_checkpoint(job: &str, last: &Last<'_>) {
    std::fs::remove_dir_all(last.model_dir.join("publish")).expect("the cuts are removed");
    let mut server = Server::start(&[job, "--name", "model"]);
    server.wait_for_version("model", last.step);
    assert_eq!(answer(&server, last.request), last.answer);
}

/// Returns the predictions of a server for the records of a file of `write_job`, in which numbers are bits.
fn served_predictions(server: &Server, records: &Path) -> Vec<Value> {
    let text = std::fs::read_to_string(records).expect("the records");
    let mut rows = text.lines().map(|line| line.split(',').collect::<Vec<_>>());
    assert_eq!(rows.next().expect("a header"), ["x", "z", "word", "y"]);
    let instances = rows.map(|cells| {
        let [x, z, word, _] = cells[..] else {
            panic!("{cells:?}")
        };
        format!(r#"{{"x": {x}, "z": {z}, "word": "{word}"}}"#)
    });
    let instances: Vec<String> = instances.collect();
    let request = format!(r#"{{"instances": [{}]}}"#, instances.join(","));
    let (status, answer) = post(&server.address, PATH, &request);
    assert_eq!(status, 200, "{answer}");
    let predictions = answer["predictions"].as_array().expect("predictions");
    predictions.iter().map(bits).collect()
}

/// Returns the predictions that `trainyard predict` writes with the last checkpoint for the records of a file, in which
/// numbers are bits.
fn written_predictions(job: &str, records: &Path) -> Vec<Value> {
    let out = records.with_extension("jsonl");
    let input = records.to_string_lossy();
    let output = out.to_string_lossy();
    run(&["predict", job, "--input", &input, "--output", &output]);
    let text = std::fs::read_to_string(&out).expect("predictions");
    let line = |line: &str| serde_json::from_str(line).expect("a line is JSON");
    text.lines().map(|text| bits(&line(text))).collect()
}

/// Asserts that a server that has followed a job ends with the answers of its last checkpoint, which has this step: those of
/// `trainyard predict`, and those of a server that has read no cut.
fn assert_ends_with_last_checkpoint(server: Server, job: &str, model_dir: &Path, step: u64) {
    wait_for("the last step", || (version(&server) == step).then_some(()));
    let records = model_dir.with_file_name("eval.csv");
    let expected = written_predictions(job, &records);
    assert!(expected.len() > 50, "{}", expected.len());
    assert_eq!(served_predictions(&server, &records), expected);
    let followed = answer(&server, ROW);
    drop(server);
    let last = Last {
        model_dir,
        step,
        request: ROW,
        answer: &followed,
    };
    assert_answer_of_last_checkpoint(job, &last);
}

trial!(answers_follow_training_and_end_with_those_of_the_last_checkpoint);
fn answers_follow_training_and_end_with_those_of_the_last_checkpoint() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let job = publishing(folder.path());
    let model_dir = folder.path().join("model");
    let server = Server::start(&[&job, "--name", "model"]);
    let training = train(&job);
    wait_for("a version", || (version(&server) > 0).then_some(()));
    let first = answer(&server, ROW);
    wait_for("another answer", || {
        (answer(&server, ROW) != first).then_some(())
    });
    let last = stop(training, &model_dir);
    assert_ends_with_last_checkpoint(server, &job, &model_dir, last);
}

trial!(a_damaged_increment_is_refused_and_what_is_trained_later_answers);
fn a_damaged_increment_is_refused_and_what_is_trained_later_answers() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let job = publishing(folder.path());
    let model_dir = folder.path().join("model");
    let training = train(&job);
    wait_for("increments", || (cuts(&model_dir).len() > 3).then_some(()));
    let last = stop(training, &model_dir);
    let mut published = cuts(&model_dir);
    let damaged = loop {
        let newest = published.pop().expect("an increment");
        if name_of(&newest).starts_with("increment-") {
            break newest;
        }
        std::fs::remove_dir_all(newest).expect("the base is removed");
    };
    damage(&damaged);
    let mut server = Server::start(&[&job, "--name", "model"]);
    server.program.wait_for(&name_of(&damaged), LIMIT);
    // The cut before answers, or the last checkpoint if that cut is old.
    let before = version(&server);
    assert!(before > 0 && before <= last, "{before} of {last}");
    answer(&server, ROW);
    let training = train(&job);
    wait_for("later steps", || (version(&server) > last).then_some(()));
    let last = stop(training, &model_dir);
    assert_ends_with_last_checkpoint(server, &job, &model_dir, last);
}

trial!(a_job_that_ends_early_is_answered_from_its_best_checkpoint);
fn a_job_that_ends_early_is_answered_from_its_best_checkpoint() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let rule = "[train.early_stopping]\nmetric = \"auc\"\nmax_evaluations_without_improvement = 3\n[publish]\nevery_secs = 1\n";
    let path = trainyard_tests::write_job(folder.path(), 600, rule);
    let text = std::fs::read_to_string(&path).expect("the job");
    let text = text
        .replace("epochs = 2\n", "")
        .replace("[run]", "[run]\nsave_checkpoints_steps = 20");
    std::fs::write(&path, text).expect("the job is written");
    let job = path.to_string_lossy().into_owned();
    let model_dir = folder.path().join("model");
    let server = Server::start(&[&job, "--name", "model"]);
    run(&["train", &job, "--log-level", "error"]);
    let (phase, best) = state_of(&model_dir);
    assert_eq!(phase, "done");
    let is_later = |cut: &PathBuf| step_of(cut) > best;
    assert!(!cuts(&model_dir).iter().any(is_later), "later cuts remain");
    assert_ends_with_last_checkpoint(server, &job, &model_dir, best);
}

/// Returns the number and the name of the newest cut in a bucket.
fn newest_in(store: &Store) -> Option<String> {
    let keys = store.keys("followed/publish/");
    let committed = keys.iter().filter(|key| key.ends_with("/manifest.json"));
    let number = |key: &String| key.rsplit('-').next().map(str::to_owned);
    committed.filter_map(number).max()
}

/// Returns the environment of a program that reaches a store at an endpoint.
pub(crate) fn environment_of(endpoint: &str) -> [(&'static str, &str); 3] {
    [
        ("AWS_ENDPOINT_URL", endpoint),
        ("AWS_ACCESS_KEY_ID", "test"),
        ("AWS_SECRET_ACCESS_KEY", "test"),
    ]
}

/// Returns the age of the values that answer, in seconds.
pub(crate) fn age_of_model(admin: &str) -> Option<f64> {
    metric(
        admin,
        "trainyard_serving_model_age_seconds{model=\"model\"}",
    )
}

trial!(answers_stay_while_a_bucket_is_away_and_follow_it_again, needs S3);
fn answers_stay_while_a_bucket_is_away_and_follow_it_again() {
    let store = Store::start();
    let proxy = Proxy::new(&store.address);
    let folder = tempfile::tempdir().expect("a temporary folder");
    let job = publishing(folder.path());
    let local = format!("local_dir={:?}", folder.path().join("local"));
    let bucket = "model_dir=\"s3://data/followed\"";
    let settings = ["--set", bucket, "--set", &local, "--log-level", "error"];
    let direct = format!("http://{}", store.address);
    let arguments = [&["train", &job], &settings[..]].concat();
    let mut training = Program::start("trainyard", &arguments, &environment_of(&direct));
    let through = format!("http://{}", proxy.address());
    let admin = format!("127.0.0.1:{}", free_ports(1)[0]);
    let arguments = [
        &job,
        "--name",
        "model",
        "--set",
        bucket,
        "--admin-listen",
        &admin,
    ];
    let server = Server::start_in(&arguments, &environment_of(&through));
    wait_for("a version", || (version(&server) > 0).then_some(()));
    proxy.set(Link::CUT);
    let wait_for_cut_after = |before: Option<String>| {
        wait_for("another cut", || {
            let newest = newest_in(&store);
            (newest > before).then_some(newest)
        })
    };
    // What had arrived before may answer now.
    let cut = wait_for_cut_after(newest_in(&store));
    let before = version(&server);
    let age = wait_for("an age", || age_of_model(&admin));
    let cut = wait_for_cut_after(cut);
    wait_for_cut_after(cut);
    assert_eq!(version(&server), before, "no cut has arrived");
    answer(&server, ROW);
    wait_for("a higher age", || {
        (age_of_model(&admin) > Some(age)).then_some(())
    });
    proxy.heal();
    proxy.reset();
    wait_for("later steps", || (version(&server) > before).then_some(()));
    assert!(training.runs());
}
