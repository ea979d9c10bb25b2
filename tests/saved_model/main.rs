//! Exported SavedModels: trained and exported by the program, loaded by TensorFlow, and compared with the program's own
//! predictions.

use std::path::{Path, PathBuf};
use std::process::Command;

use trainyard_tests::Need;

use crate::onnx::{exported, run};

/// Exports a trained case as a SavedModel below a folder, beside the records and predictions of its other export.
fn export(name: &str, trained: &Path, other: &Path, folder: &Path) -> PathBuf {
    let job = trained.join(name).join("job.toml");
    let output = folder.join("manual");
    let [job, output] = [job, output].map(|path| path.to_string_lossy().into_owned());
    let printed = run(&[
        "export",
        &job,
        "--format",
        "saved_model",
        "--output",
        &output,
    ]);
    let export = folder.join(name);
    std::fs::rename(printed.trim(), &export).expect("the export is moved");
    for file in ["rows.csv", "predictions.jsonl"] {
        std::fs::copy(other.join(file), export.join(file)).expect("a copy");
    }
    export
}

/// Compares exports with predictions. Returns whether they agree, and what there is to say.
fn compare(exports: &[PathBuf]) -> (bool, String) {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("saved_model/check.py");
    let output = Command::new(Need::TensorFlow.program())
        .arg(script)
        .args(exports)
        .output()
        .expect("the Python starts");
    let [out, err] =
        [output.stdout, output.stderr].map(|text| String::from_utf8_lossy(&text).into_owned());
    (output.status.success(), format!("{out}{err}"))
}

trial!(tensorflow_predicts_from_every_saved_model_what_the_program_predicts, needs TensorFlow);
fn tensorflow_predicts_from_every_saved_model_what_the_program_predicts() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let (trained, exported) = exported();
    let exports: Vec<PathBuf> = exported
        .iter()
        .map(|(case, other)| export(&case.name, &trained, other, folder.path()))
        .collect();
    let (agrees, text) = compare(&exports);
    println!("{text}");
    assert!(agrees, "{text}");
    // The comparison itself: one model does not predict what another does.
    let of = |name: &str| {
        let found = exports.iter().find(|export| export.ends_with(name));
        found.expect("a case of the table")
    };
    let one = of("linear binary");
    let other = of("dnn_linear_combined binary").join("predictions.jsonl");
    std::fs::copy(other, one.join("predictions.jsonl")).expect("a copy");
    let (agrees, text) = compare(std::slice::from_ref(one));
    assert!(!agrees, "{text}");
}
