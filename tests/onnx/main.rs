//! Exported ONNX graphs: trained by the program, exported, and compared with the program's own predictions by
//! onnxruntime; their form is checked without.

mod form;
pub(crate) mod jobs;
pub(crate) mod rows;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use jobs::{Case, cases};
use trainyard_tests::{Need, Program};

/// Longest run of one program.
const LIMIT: Duration = Duration::from_secs(120);
/// Records that graphs are compared on.
pub(crate) const ROWS: usize = 400;
/// Cases that are made at the same time: as many as a small machine has cores.
const AT_A_TIME: usize = 2;

pub(crate) fn run(arguments: &[&str]) -> String {
    let ended = Program::start("trainyard", arguments, &[]).wait(LIMIT);
    assert_eq!(ended.code, 0, "{arguments:?}: {}", ended.output);
    ended.output
}

/// The newest export of a case, whose name is its second.
fn newest(folder: &Path) -> PathBuf {
    let entries = std::fs::read_dir(folder)
        .expect("exports")
        .filter_map(Result::ok)
        .map(|entry| entry.path());
    entries.max().expect("an export")
}

/// Where the export of a case lies.
fn export_of(case: &Case, folder: &Path) -> PathBuf {
    folder.join(&case.name).join("export").join(&case.name)
}

/// Trains a case, which exports it, and puts what the comparison needs beside the graph.
fn prepare(case: &Case, folder: &Path, data: &Path) {
    let own = folder.join(&case.name);
    std::fs::create_dir_all(&own).expect("a folder");
    let job = case.write(&own, data);
    let job = job.to_string_lossy();
    let rows = data.to_string_lossy();
    run(&["train", &job, "--log-level", "error"]);
    let export = export_of(case, folder);
    std::fs::create_dir_all(own.join("export")).expect("a folder");
    std::fs::rename(newest(&own.join("model/export/final")), &export).expect("the export is moved");
    for (command, file) in [
        ("predict", "predictions.jsonl"),
        ("transform", "transform.jsonl"),
    ] {
        run(&[
            command,
            &job,
            "--input",
            &rows,
            "--output",
            &export.join(file).to_string_lossy(),
        ]);
    }
    std::fs::copy(data, export.join("rows.csv")).expect("the records are copied");
}

/// Compares exports with predictions. Returns whether they agree, and what there is to say.
fn compare(python: &Path, exports: &[PathBuf]) -> (bool, String) {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("onnx/check.py");
    let output = Command::new(python)
        .arg(script)
        .args(exports)
        .output()
        .expect("the Python starts");
    let [out, err] =
        [output.stdout, output.stderr].map(|text| String::from_utf8_lossy(&text).into_owned());
    (output.status.success(), format!("{out}{err}"))
}

/// Returns every case, trained, with its export, and the folder with those of all: made once for all tests.
pub(crate) fn exported() -> (PathBuf, Vec<(Case, PathBuf)>) {
    let folder = trainyard_tests::made_once("exports", |folder| {
        let data = folder.join("rows.csv");
        rows::write(&data, ROWS, 7);
        let all = cases();
        let next = AtomicUsize::new(0);
        std::thread::scope(|scope| {
            for _ in 0..AT_A_TIME {
                scope.spawn(|| {
                    while let Some(case) = all.get(next.fetch_add(1, Ordering::Relaxed)) {
                        prepare(case, folder, &data);
                    }
                });
            }
        });
    });
    let exported: Vec<_> = cases()
        .into_iter()
        .map(|case| (export_of(&case, &folder), case))
        .map(|(export, case)| (case, export))
        .collect();
    assert!(!exported.is_empty());
    (folder, exported)
}

trial!(every_exported_graph_has_the_form_of_its_model);
fn every_exported_graph_has_the_form_of_its_model() {
    let (_, exported) = exported();
    exported
        .iter()
        .for_each(|(case, export)| form::check(case, export));
}

trial!(every_exported_graph_predicts_what_the_program_predicts, needs Onnxruntime);
fn every_exported_graph_predicts_what_the_program_predicts() {
    let python = Need::Onnxruntime.program();
    let (_, exported) = exported();
    let exports: Vec<PathBuf> = exported.into_iter().map(|(_, export)| export).collect();
    let (agrees, text) = compare(&python, &exports);
    println!("{text}");
    assert!(agrees, "{text}");
    // The comparison itself: the graph of one model does not predict what another does.
    let case = |name: &str| {
        exports
            .iter()
            .find(|export| export.ends_with(name))
            .expect("a case of the table")
    };
    let folder = tempfile::tempdir().expect("a temporary folder");
    let mixed = folder.path().join("mixed");
    std::fs::create_dir(&mixed).expect("a folder");
    for entry in std::fs::read_dir(case("linear binary")).expect("an export") {
        let entry = entry.expect("an entry");
        std::fs::copy(entry.path(), mixed.join(entry.file_name())).expect("a copy");
    }
    let other = case("dnn_linear_combined binary").join("predictions.jsonl");
    std::fs::copy(other, mixed.join("predictions.jsonl")).expect("a copy");
    let (agrees, text) = compare(&python, &[mixed]);
    assert!(!agrees, "{text}");
}

trial!(a_hashed_feature_is_refused_by_name_unless_its_ids_are_inputs);
fn a_hashed_feature_is_refused_by_name_unless_its_ids_are_inputs() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let job = trainyard_tests::write_job(folder.path(), 400, "[train]\nmax_steps = 20\n");
    let job = job.to_string_lossy();
    run(&["train", &job, "--log-level", "error"]);
    let refused =
        Program::start("trainyard", &["export", &job, "--format", "onnx"], &[]).wait(LIMIT);
    assert_eq!(refused.code, 65, "{}", refused.output);
    for text in [
        "E6001",
        "`word`",
        "FarmHash",
        "--hashed-as-ids",
        "trainyard transform",
    ] {
        assert!(
            refused.output.contains(text),
            "{text} is not in {}",
            refused.output
        );
    }
    let early = ["check", &job, "--set", "exporter.0.format=\"onnx\""];
    let early = Program::start("trainyard", &early, &[]).wait(LIMIT);
    assert_eq!(early.code, 65, "{}", early.output);
    assert!(
        early.output.contains("exporter.hashed_as_ids"),
        "{}",
        early.output
    );
    let both = run(&[
        "export",
        &job,
        "--format",
        "onnx,safetensors",
        "--hashed-as-ids",
    ]);
    let files = ["model.onnx", "model.safetensors", "model.json"]
        .map(|name| Path::new(both.trim()).join(name));
    assert!(files.iter().all(|file| file.exists()), "{both}");
    let plain = run(&["export", &job]);
    let plain = Path::new(plain.trim());
    assert!(plain.join("model.safetensors").exists() && !plain.join("model.onnx").exists());
}
