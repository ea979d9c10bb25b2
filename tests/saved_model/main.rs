//! Exported SavedModels: trained and exported by the program, loaded by TensorFlow, and compared with the program's own
//! predictions.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;

use trainyard_tests::{Draw, Need, is_thorough};

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

/// How a SavedModel is compared with predictions.
enum Comparison<'a> {
    /// Loaded as a graph.
    Graph(&'a Path),
    /// Loaded as functions, too.
    Functions(&'a Path),
    /// Another model's predictions lie beside it.
    Differs(&'a Path),
}

/// Compares exports with predictions. Returns whether they are as said, and what there is to say. One process compares all:
/// TensorFlow takes seconds to load.
fn compare(comparisons: &[Comparison]) -> (bool, String) {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("saved_model/check.py");
    let mut command = Command::new(Need::TensorFlow.program());
    command.arg(script);
    for comparison in comparisons {
        match comparison {
            Comparison::Graph(export) => command.arg(export),
            Comparison::Functions(export) => command.arg("--as-function").arg(export),
            Comparison::Differs(export) => command.arg("--differs").arg(export),
        };
    }
    let output = command.output().expect("the Python starts");
    let [out, err] =
        [output.stdout, output.stderr].map(|text| String::from_utf8_lossy(&text).into_owned());
    (output.status.success(), format!("{out}{err}"))
}

/// Kinds of models of which one is loaded as functions in each run: one that has all kinds of signatures and features, and one of
/// several tasks.
const ALWAYS_FUNCTIONS: [&str; 2] = ["dnn_linear_combined", "mmoe"];
/// Kinds that are drawn besides, as loading a model as functions takes seconds.
const DRAWN_FUNCTIONS: usize = 3;

/// Returns the exports that are loaded as functions: of some kinds the first, or all where everything is to be tried.
fn functions(exports: &[PathBuf]) -> BTreeSet<PathBuf> {
    if is_thorough() {
        return exports.iter().cloned().collect();
    }
    let mut first = BTreeMap::new();
    for export in exports {
        let name = export.file_name().unwrap_or_default().to_string_lossy();
        let kind = name.split(' ').next().unwrap_or_default().to_owned();
        first.entry(kind).or_insert_with(|| export.clone());
    }
    let mut chosen: BTreeSet<PathBuf> = ALWAYS_FUNCTIONS
        .iter()
        .map(|kind| first.remove(*kind).expect("a kind of the table"))
        .collect();
    let mut draw = Draw::seeded("models loaded as functions");
    let mut others: Vec<PathBuf> = first.into_values().collect();
    for _ in 0..DRAWN_FUNCTIONS {
        let place = draw.below(others.len() as u64) as usize;
        chosen.insert(others.swap_remove(place));
    }
    chosen
}

trial!(tensorflow_predicts_from_every_saved_model_what_the_program_predicts, needs TensorFlow);
fn tensorflow_predicts_from_every_saved_model_what_the_program_predicts() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let (trained, exported) = exported();
    let exports: Vec<PathBuf> = exported
        .iter()
        .map(|(case, other)| export(&case.name, &trained, other, folder.path()))
        .collect();
    // The comparison itself: one model does not predict what another does.
    let of = |name: &str| {
        let found = exported.iter().find(|(case, _)| case.name == name);
        found.expect("a case of the table")
    };
    let mixed = folder.path().join("mixed");
    std::fs::create_dir(&mixed).expect("a folder");
    let (case, beside) = of("linear binary");
    let mixed = export(&case.name, &trained, beside, &mixed);
    let (_, other) = of("dnn_linear_combined binary");
    std::fs::copy(
        other.join("predictions.jsonl"),
        mixed.join("predictions.jsonl"),
    )
    .expect("a copy");
    let functions = functions(&exports);
    let compared = exports.iter().map(|export| match functions.get(export) {
        Some(export) => Comparison::Functions(export),
        None => Comparison::Graph(export),
    });
    let comparisons: Vec<_> = compared.chain([Comparison::Differs(&mixed)]).collect();
    let (agrees, text) = compare(&comparisons);
    println!("{text}");
    assert!(agrees, "{text}");
    assert!(text.contains("linear binary: "), "{text}");
}
