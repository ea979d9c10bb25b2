//! Exports answer as the checkpoints that they were made of, and damaged ones are refused.

use std::path::{Path, PathBuf};

use safetensors::SafeTensors;
use serde_json::{Value, json};
use trainyard_tests::{Link, Program, Proxy, free_ports, metric};

use crate::serving::client::{get, post};
use crate::serving::published::{age_of_model, environment_of, wait_for};
use crate::serving::{LIMIT, Server, published, run, trained};
use crate::storage::server::Server as Store;

/// Exports the newest checkpoint, and returns the folder.
fn exported(job: &str) -> PathBuf {
    let told = run(&["export", job, "--log-level", "error"]);
    let path = told.lines().rfind(|line| line.starts_with('/'));
    PathBuf::from(path.unwrap_or_else(|| panic!("no path: {told}")))
}

/// Trains to a further step.
fn train_to(job: &str, step: u64) {
    let steps = format!("train.max_steps={step}");
    run(&["train", job, "--set", &steps, "--log-level", "error"]);
}

/// The second of an export, which is its version.
fn version(export: &Path) -> u64 {
    let name = export.file_name().expect("a name").to_string_lossy();
    name.parse().expect("a second")
}

/// Asks for the predictions of some rows.
fn answer(server: &Server, model: &str) -> (u16, Value) {
    let rows: Vec<Value> = (0..40)
        .map(|row| json!({"x": f64::from(row) / 7.0, "z": -1, "word": format!("w{row}")}))
        .collect();
    let body = json!({ "instances": rows }).to_string();
    post(
        &server.address,
        &format!("/v1/models/{model}:predict"),
        &body,
    )
}

fn predictions(server: &Server, model: &str) -> Value {
    let (status, answer) = answer(server, model);
    assert_eq!(status, 200, "{answer}");
    answer
}

/// Flips the lowest bit of each value of a tensor whose name holds `part`, and returns the name.
fn flip(export: &Path, part: &str) -> String {
    let path = export.join("model.safetensors");
    let mut bytes = std::fs::read(&path).expect("the file");
    let (header, found) = SafeTensors::read_metadata(&bytes).expect("a header");
    let mut tensors: Vec<String> = found.tensors().into_keys().collect();
    tensors.sort();
    let name = tensors.into_iter().find(|name| name.contains(part));
    let name = name.unwrap_or_else(|| panic!("no tensor of {part}"));
    let (begin, end) = found.info(&name).expect("it is there").data_offsets;
    let values = &mut bytes[8 + header + begin..8 + header + end];
    values.iter_mut().step_by(4).for_each(|byte| *byte ^= 1);
    // It is written anew, because the old file may be mapped.
    std::fs::remove_file(&path).expect("it is there");
    std::fs::write(&path, bytes).expect("it is written");
    name
}

trial!(an_export_answers_as_its_checkpoint_and_newer_ones_follow_unless_they_are_damaged);
fn an_export_answers_as_its_checkpoint_and_newer_ones_follow_unless_they_are_damaged() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let job = trained(folder.path(), 20);
    let mut checkpoints = Server::start(&[&job]);
    checkpoints.wait_for_version("job", 20);
    let first = exported(&job);
    let manual = first.parent().expect("a folder").to_owned();
    let mut server = Server::start(&[&manual.to_string_lossy()]);
    server.wait_for_version("manual", version(&first));
    let expected = predictions(&checkpoints, "job");
    assert_eq!(predictions(&server, "manual"), expected);
    server
        .program
        .wait_for("the checksums of the export agree", LIMIT);

    train_to(&job, 60);
    checkpoints.wait_for_version("job", 60);
    let second = exported(&job);
    server.wait_for_version("manual", version(&second));
    let later = predictions(&checkpoints, "job");
    assert_ne!(later, expected);
    assert_eq!(predictions(&server, "manual"), later);

    // What answers needs its files no more, and exports that are cut short or changed do not come in its place.
    let hidden = manual.join("hidden");
    std::fs::rename(&second, &hidden).expect("it is there");
    assert_eq!(predictions(&server, "manual"), later);
    for (further, damage) in [(1, "cut"), (2, "table"), (3, "dense"), (4, "job")] {
        let broken = manual.join((version(&second) + further).to_string());
        let arriving = manual.join("arriving");
        crate::serving::versions::copy(&hidden, &arriving);
        let said = server.program.said();
        let told = match damage {
            "cut" => {
                let path = arriving.join("model.safetensors");
                let bytes = std::fs::read(&path).expect("the file");
                std::fs::write(&path, &bytes[..bytes.len() - 1]).expect("it is written");
                "ends behind its".to_owned()
            }
            "table" => format!("{}: crc32c", flip(&arriving, "word")),
            "dense" => format!("{}: crc32c", flip(&arriving, "kernel")),
            _ => {
                std::fs::write(arriving.join("job.toml"), "[model]\n").expect("it is written");
                "job.toml".to_owned()
            }
        };
        std::fs::rename(&arriving, &broken).expect("it arrives whole");
        let line = server
            .program
            .wait_for_after(said, "goes on answering", LIMIT);
        let stays = format!("version {} goes on answering", version(&second));
        assert!(
            line.contains(&told) && line.contains(&stays),
            "{damage}: {line}"
        );
        assert_eq!(predictions(&server, "manual"), later);
    }
}

trial!(a_first_export_answers_at_once_and_is_withdrawn_if_a_table_is_damaged);
fn a_first_export_answers_at_once_and_is_withdrawn_if_a_table_is_damaged() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let job = trained(folder.path(), 20);
    let export = exported(&job);
    let table = flip(&export, "word");
    let mut server = Server::start(&[&export.to_string_lossy(), "--name", "job"]);
    server.wait_for_version("job", version(&export));
    let line = server.program.wait_for("no version answers yet", LIMIT);
    assert!(line.contains(&format!("{table}: crc32c")), "{line}");
    let (status, told) = answer(&server, "job");
    let told = told["error"].as_str().unwrap_or_default().to_owned();
    assert!(status == 503 && told.contains("E3001"), "{status} {told}");
    let (_, state) = get(&server.address, "/v1/models/job");
    assert!(!state.to_string().contains("AVAILABLE"), "{state}");
    // A good one comes, and answers.
    train_to(&job, 60);
    let good = exported(&job);
    let manual = export.parent().expect("a folder");
    let mut following = Server::start(&[&manual.to_string_lossy(), "--name", "job"]);
    following.wait_for_version("job", version(&good));
    assert_eq!(answer(&following, "job").0, 200);
}

trial!(an_export_without_values_or_without_a_job_is_refused_with_the_remedy);
fn an_export_without_values_or_without_a_job_is_refused_with_the_remedy() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let job = trained(folder.path(), 20);
    let export = exported(&job);
    std::fs::remove_file(export.join("job.toml")).expect("an export has its job");
    let path = export.to_string_lossy();
    let arguments = ["serve", &path, "--listen", "127.0.0.1:0"];
    let ended = trainyard_tests::Program::start("trainyard", &arguments, &[]).wait(LIMIT);
    assert_ne!(ended.code, 0);
    assert!(
        ended.output.contains("holds no job.toml") && ended.output.contains("export again"),
        "{}",
        ended.output
    );
    let told = run(&["export", &job, "--format", "saved_model"]);
    let graph = told.lines().rfind(|line| line.starts_with('/'));
    let mut server = Server::start(&[graph.expect("a path"), "--name", "job"]);
    let line = server.program.wait_for("no version answers yet", LIMIT);
    assert!(line.contains("holds no model.safetensors"), "{line}");
    assert_eq!(answer(&server, "job").0, 503);
}

trial!(an_export_whose_vocabulary_file_has_changed_is_refused_until_it_is_as_before);
fn an_export_whose_vocabulary_file_has_changed_is_refused_until_it_is_as_before() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let write = |name: &str, text: &str| {
        let path = folder.path().join(name);
        std::fs::write(&path, text).expect("it is written");
        path.to_string_lossy().into_owned()
    };
    write("t.csv", &format!("v,y\n{}", "a,1\nb,0\n".repeat(50)));
    write("v.txt", "a\nb\n");
    let model_dir = folder.path().join("model");
    let keys = r#"
[input]
label = { column = "y" }
train = { files = ["t.csv"], epochs = 5 }
eval = { files = ["t.csv"] }
[[feature]]
column = "v"
kind = "vocabulary"
file = "v.txt"
wide = true
[model]
kind = "linear_classifier"
"#;
    let job = write("job.toml", &format!("model_dir = {model_dir:?}\n{keys}"));
    run(&["train", &job, "--log-level", "error"]);
    let export = exported(&job);
    let path = export.to_string_lossy();
    let logistic = |server: &Server| {
        let body = r#"{"instances": [{"v": "a"}]}"#;
        let (status, answer) = post(&server.address, "/v1/models/job:predict", body);
        assert_eq!(status, 200, "{answer}");
        answer.to_string()
    };
    let start = || Server::start(&[&*path, "--name", "job"]);
    let mut server = start();
    server.wait_for_version("job", version(&export));
    let right = logistic(&server);
    drop(server);
    write("v.txt", "b\na\n");
    let mut server = start();
    let line = server.program.wait_for("no version answers yet", LIMIT);
    assert!(
        line.contains("E2007") && line.contains("another job"),
        "{line}"
    );
    drop(server);
    write("v.txt", "a\nb\n");
    let mut server = start();
    server.wait_for_version("job", version(&export));
    assert_eq!(logistic(&server), right);
}

/// Exports the newest checkpoint of a job into a bucket, and returns the second of the export.
fn export_into_bucket(job: &str, store: &Store) -> u64 {
    let endpoint = format!("http://{}", store.address);
    let arguments = ["export", job, "--output", "s3://data/exports"];
    let ended = Program::start("trainyard", &arguments, &environment_of(&endpoint)).wait(LIMIT);
    assert_eq!(ended.code, 0, "{}", ended.output);
    let path = ended.output.lines().find(|line| line.starts_with("s3://"));
    version(Path::new(
        path.unwrap_or_else(|| panic!("no path: {}", ended.output)),
    ))
}

/// Returns the number of looks at the model that have failed, which the alert `TrainyardModelUnreachable` reads.
fn looks_failed(admin: &str) -> Option<f64> {
    metric(
        admin,
        "trainyard_serving_looks_failed_total{model=\"model\"}",
    )
}

trial!(an_export_answers_while_its_bucket_is_away_and_failed_looks_are_counted, needs S3);
fn an_export_answers_while_its_bucket_is_away_and_failed_looks_are_counted() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let job = trained(folder.path(), 20);
    let store = Store::start();
    let first = export_into_bucket(&job, &store);
    let proxy = Proxy::new(&store.address);
    let through = format!("http://{}", proxy.address());
    let admin = format!("127.0.0.1:{}", free_ports(1)[0]);
    let exports = "s3://data/exports";
    let arguments = [exports, "--name", "model", "--admin-listen", &admin];
    let mut server = Server::start_in(&arguments, &environment_of(&through));
    server.wait_for_version("model", first);
    let expected = predictions(&server, "model");
    assert_eq!(looks_failed(&admin), Some(0.0));
    proxy.set(Link::CUT);
    let age = wait_for("an age", || age_of_model(&admin));
    train_to(&job, 40);
    let second = export_into_bucket(&job, &store);
    assert!(second > first, "{second} after {first}");
    let is_counted = || (looks_failed(&admin) > Some(0.0)).then_some(());
    wait_for("a failed look", is_counted);
    assert_eq!(published::version(&server), first);
    assert_eq!(predictions(&server, "model"), expected);
    assert!(age_of_model(&admin) > Some(age));
    proxy.heal();
    proxy.reset();
    server.wait_for_version("model", second);
    assert_ne!(predictions(&server, "model"), expected);
}
