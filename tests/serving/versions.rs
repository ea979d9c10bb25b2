//! New checkpoints answer, damaged ones are refused, and the configuration is read again.

use std::path::{Path, PathBuf};

use crate::serving::client::{get, post};
use crate::serving::{LIMIT, Server, run, trained};

const ROW: &str = r#"{"instances": [{"x": 0.5, "z": -1, "word": "w1"}]}"#;

fn logistic(server: &Server, path: &str) -> String {
    let (status, answer) = post(&server.address, path, ROW);
    assert_eq!(status, 200, "{answer}");
    answer["predictions"][0]["logistic"].to_string()
}

/// Trains a job up to a step.
fn train_to(job: &str, step: u64) {
    let end = format!("train.max_steps={step}");
    run(&["train", job, "--set", &end, "--log-level", "error"]);
}

/// Copies a folder.
pub(crate) fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).expect("a folder");
    for entry in std::fs::read_dir(from).expect("a folder") {
        let path = entry.expect("an entry").path();
        let target = to.join(path.file_name().expect("a name"));
        if path.is_dir() {
            copy(&path, &target);
        } else {
            std::fs::copy(&path, &target).expect("a copy");
        }
    }
}

/// Flips a bit of each value in the largest file of a folder: variables lie beside what only training needs.
pub(crate) fn damage(folder: &Path) {
    let files = std::fs::read_dir(folder).expect("a folder");
    let files = files.map(|entry| entry.expect("an entry").path());
    let largest = files
        .filter(|path| path.extension().is_some_and(|kind| kind == "safetensors"))
        .max_by_key(|path| path.metadata().map_or(0, |metadata| metadata.len()))
        .expect("a file of values");
    let mut bytes = std::fs::read(&largest).expect("the file");
    let header = bytes
        .first_chunk()
        .map(|length| u64::from_le_bytes(*length));
    let values = 8 + header.expect("the length of the header") as usize;
    bytes[values..]
        .iter_mut()
        .step_by(4)
        .for_each(|byte| *byte ^= 1);
    std::fs::write(&largest, bytes).expect("it is written");
}

trial!(a_new_checkpoint_answers_and_a_damaged_one_is_refused);
fn a_new_checkpoint_answers_and_a_damaged_one_is_refused() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let job = trained(folder.path(), 20);
    let model_dir = folder.path().join("model");
    let mut server = Server::start(&[&model_dir.to_string_lossy()]);
    server.wait_for_version("model", 20);
    let path = "/v1/models/model:predict";
    let first = logistic(&server, path);
    train_to(&job, 60);
    server.wait_for_version("model", 60);
    let second = logistic(&server, path);
    assert_ne!(first, second);
    // A run in a copy of the folder makes the next checkpoint, which is damaged on its way back.
    let elsewhere = folder.path().join("elsewhere");
    copy(&model_dir, &elsewhere);
    run(&[
        "train",
        &job,
        "--model-dir",
        &elsewhere.to_string_lossy(),
        "--set",
        "train.max_steps=90",
        "--log-level",
        "error",
    ]);
    let name = "model.ckpt-90";
    damage(&elsewhere.join(name));
    let arriving = model_dir.join("arriving");
    copy(&elsewhere.join(name), &arriving);
    std::fs::rename(&arriving, model_dir.join(name)).expect("it arrives whole");
    let line = server.program.wait_for("goes on answering", LIMIT);
    assert!(line.contains("version 60 goes on answering"), "{line}");
    assert_eq!(logistic(&server, path), second);
    let (_, status) = get(&server.address, "/v1/models/model");
    let states = status["model_version_status"].as_array().expect("a list");
    let state = |version: &str| {
        let found = states.iter().find(|state| state["version"] == version);
        found.map(|state| state["state"].as_str().unwrap_or_default().to_owned())
    };
    assert_eq!(state("60").as_deref(), Some("AVAILABLE"), "{status}");
    assert_eq!(state("90").as_deref(), Some("END"), "{status}");
}

trial!(a_version_of_a_changed_job_is_taken_with_it_or_refused);
fn a_version_of_a_changed_job_is_taken_with_it_or_refused() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let job = trained(folder.path(), 20);
    let own = folder.path().join("own.toml");
    std::fs::copy(&job, &own).expect("a copy");
    let model_dir = folder.path().join("model");
    let mut following = Server::start(&[&model_dir.to_string_lossy()]);
    let mut of_own_file = Server::start(&[&own.to_string_lossy()]);
    following.wait_for_version("model", 20);
    of_own_file.wait_for_version("own", 20);
    let first = logistic(&of_own_file, "/v1/models/own:predict");
    let text = std::fs::read_to_string(&job).expect("the job");
    let numeric = "columns = [\"x\", \"z\"]\nkind = \"numeric\"\n";
    assert!(text.contains(numeric), "{text}");
    let standardized = format!("{numeric}normalizer = \"standardize\"\nmean = 3.0\nstddev = 2.0\n");
    std::fs::write(&job, text.replace(numeric, &standardized)).expect("the job is written");
    train_to(&job, 60);
    following.wait_for_version("model", 60);
    let line = of_own_file.program.wait_for("E2007", LIMIT);
    for part in [
        "version 60 was trained by another job",
        "mean",
        "version 20 goes on",
    ] {
        assert!(line.contains(part), "no `{part}`: {line}");
    }
    assert_eq!(logistic(&of_own_file, "/v1/models/own:predict"), first);
    // A server that begins with the changed job.
    let mut fresh = Server::start(&[&job]);
    fresh.wait_for_version("job", 60);
    let expected = logistic(&fresh, "/v1/models/job:predict");
    assert_eq!(logistic(&following, "/v1/models/model:predict"), expected);
}

trial!(a_label_answers_after_a_restart);
fn a_label_answers_after_a_restart() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let job = trained(folder.path(), 20);
    train_to(&job, 60);
    let file = folder.path().join("serving.toml");
    let text = format!(
        "[[model]]\nname = \"one\"\npath = {job:?}\nlabels = {{ stable = 20, \"café/1:a\" = 20, gone = 30 }}\n"
    );
    std::fs::write(&file, text).expect("the configuration is written");
    let mut server = Server::start(&["--config", &file.to_string_lossy()]);
    let line = server.program.wait_for("no checkpoint of step 30", LIMIT);
    assert!(line.contains("E3004"), "{line}");
    server.wait_for_version("one", 60);
    let newest = logistic(&server, "/v1/models/one:predict");
    let stable = logistic(&server, "/v1/models/one/labels/stable:predict");
    assert_ne!(newest, stable);
    let encoded = "/v1/models/%6fne/labels/caf%C3%A9%2F1%3Aa:predict";
    assert_eq!(logistic(&server, encoded), stable);
    for path in [
        "/v1/models/one/labels/%zz:predict",
        "/v1/models/one/labels/%ff",
    ] {
        let (status, told) = get(&server.address, path);
        assert_eq!(status, 400, "{path}: {told}");
    }
}

trial!(a_version_whose_files_are_deleted_goes_on_answering_until_the_next_one);
fn a_version_whose_files_are_deleted_goes_on_answering_until_the_next_one() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let job = trained(folder.path(), 20);
    let mut server = Server::start(&[&job]);
    server.wait_for_version("job", 20);
    let path = "/v1/models/job:predict";
    let first = logistic(&server, path);
    let model_dir = folder.path().join("model");
    let elsewhere = folder.path().join("elsewhere");
    std::fs::rename(&model_dir, &elsewhere).expect("it is there");
    for _ in 0..20 {
        assert_eq!(logistic(&server, path), first);
    }
    let (_, status) = get(&server.address, "/v1/models/job");
    assert_eq!(
        status["model_version_status"][0]["state"], "AVAILABLE",
        "{status}"
    );
    std::fs::rename(&elsewhere, &model_dir).expect("its place is free");
    train_to(&job, 60);
    server.wait_for_version("job", 60);
    assert_ne!(logistic(&server, path), first);
}

trial!(a_second_server_on_a_port_is_told_who_has_it_and_the_first_goes_on);
fn a_second_server_on_a_port_is_told_who_has_it_and_the_first_goes_on() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let job = trained(folder.path(), 20);
    let mut server = Server::start(&[&job]);
    server.wait_for_version("job", 20);
    let own = server.address.clone();
    for taken in [
        ["--listen", &own, "--listen-grpc", "127.0.0.1:0"],
        ["--listen", "127.0.0.1:0", "--listen-grpc", &own],
    ] {
        let arguments = [&["serve", &job][..], &taken].concat();
        let ended = trainyard_tests::Program::start("trainyard", &arguments, &[]).wait(LIMIT);
        assert_eq!(ended.code, 75, "{}", ended.output);
        let told = format!("cannot listen on {own}: address already in use");
        let holder = format!("pid {}", server.program.id());
        assert!(
            ended.output.contains(&told) && ended.output.contains(&holder),
            "{}",
            ended.output
        );
    }
    logistic(&server, "/v1/models/job:predict");
}

trial!(the_configuration_is_read_again_and_a_wrong_one_is_not_used);
fn the_configuration_is_read_again_and_a_wrong_one_is_not_used() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let job = trained(folder.path(), 20);
    let file: PathBuf = folder.path().join("serving.toml");
    let model = |name: &str| format!("[[model]]\nname = {name:?}\npath = {job:?}\n");
    let write = |text: String| {
        // Another length in each case, so that a change within a tick of the clock is seen, too.
        std::fs::write(&file, text).expect("the configuration is written");
    };
    write(model("one"));
    let mut server = Server::start(&["--config", &file.to_string_lossy()]);
    server.wait_for_version("one", 20);
    write(format!(
        "{}{}[model.labels]\nstable = 20\n",
        model("one"),
        model("second")
    ));
    server.wait_for_version("second", 20);
    let labelled = logistic(&server, "/v1/models/second/labels/stable:predict");
    assert_eq!(logistic(&server, "/v1/models/one:predict"), labelled);
    write("[[model]]\nname = 1\n".to_owned());
    server
        .program
        .wait_for("the configuration has changed and is not used", LIMIT);
    assert_eq!(logistic(&server, "/v1/models/one:predict"), labelled);
    write(format!("# only the second\n{}", model("second")));
    server.program.wait_for("not served any more", LIMIT);
    assert_eq!(post(&server.address, "/v1/models/one:predict", ROW).0, 404);
    assert_eq!(logistic(&server, "/v1/models/second:predict"), labelled);
}
