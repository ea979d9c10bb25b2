//! Exported SavedModels: trained and exported by the program, loaded by TensorFlow, and compared with the program's own
//! predictions.

use std::path::{Path, PathBuf};
use std::process::Command;

use trainyard_tests::Need;

use crate::onnx::{export_all, run};

/// Exports a trained case as a SavedModel, beside the records and predictions of its other export.
fn export(name: &str, folder: &Path, other: &Path) -> PathBuf {
    let job = folder.join(name).join("job.toml");
    let printed = run(&["export", &job.to_string_lossy(), "--format", "saved_model"]);
    let export = folder.join(name).join("saved_model").join(name);
    std::fs::create_dir_all(export.parent().expect("a folder")).expect("a folder");
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
    let exported = export_all(folder.path());
    let exports: Vec<PathBuf> = exported
        .iter()
        .map(|(case, other)| export(&case.name, folder.path(), other))
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
