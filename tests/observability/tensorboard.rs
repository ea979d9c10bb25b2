//! Event files, read by TensorBoard itself where there is a Python that has it.

use std::path::Path;
use std::process::Command;

use serde_json::Value;
use trainyard_tests::{Need, Program, write_job};

use crate::observability::LIMIT;

/// Prints what TensorBoard finds in folders, as JSON.
const READ: &str = r#"
import json, sys
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
out = []
for folder in sys.argv[1:]:
    found = EventAccumulator(folder, size_guidance={"scalars": 0, "histograms": 0, "tensors": 0}).Reload()
    tags = found.Tags()
    out.append({
        "scalars": {tag: [[e.step, e.value] for e in found.Scalars(tag)] for tag in tags["scalars"]},
        "histograms": {tag: [[e.step, e.histogram_value.num, e.histogram_value.sum, sum(e.histogram_value.bucket)]
                             for e in found.Histograms(tag)] for tag in tags["histograms"]},
        "texts": {tag: [[e.step, e.tensor_proto.string_val[0].decode()] for e in found.Tensors(tag)]
                  for tag in tags["tensors"]},
    })
print(json.dumps(out))
"#;

fn event_files(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder)
        .expect("a folder")
        .filter_map(Result::ok);
    let names = entries.map(|entry| entry.file_name().to_string_lossy().into_owned());
    names
        .filter(|name| name.starts_with("events.out.tfevents."))
        .collect()
}

fn steps(points: &Value) -> Vec<u64> {
    points
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(|point| point[0].as_u64())
        .collect()
}

trial!(tensorboard_shows_a_run_as_it_shows_one_of_the_estimator, needs TensorBoard);
fn tensorboard_shows_a_run_as_it_shows_one_of_the_estimator() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let job = write_job(folder.path(), 4000, "");
    let arguments = [
        "train",
        &job.to_string_lossy(),
        "--set",
        "train.max_steps=250",
        "--set",
        "run.summary_histograms=true",
    ];
    let ended = Program::start("trainyard", &arguments, &[]).wait(LIMIT);
    assert_eq!(ended.code, 0, "{}", ended.output);
    let model_dir = folder.path().join("model");
    for place in [model_dir.clone(), model_dir.join("eval")] {
        let files = event_files(&place);
        assert_eq!(files.len(), 1, "{}: {files:?}", place.display());
    }
    let read = Command::new(Need::TensorBoard.program())
        .args(["-c", READ])
        .arg(&model_dir)
        .arg(model_dir.join("eval"))
        .output();
    let read = read.expect("Python runs");
    assert!(
        read.status.success(),
        "{}",
        String::from_utf8_lossy(&read.stderr)
    );
    let found: Vec<Value> = serde_json::from_slice(&read.stdout).expect("JSON");
    let train = &found[0];
    let eval = &found[1];

    assert_eq!(steps(&train["scalars"]["loss"]), [1, 101, 201], "{train}");
    assert_eq!(
        steps(&train["scalars"]["global_step/sec"]),
        [101, 201],
        "{train}"
    );
    for (tag, points) in train["scalars"].as_object().expect("scalars") {
        let positive = |point: &Value| point[1].as_f64().is_some_and(|value| value > 0.0);
        assert!(
            points.as_array().expect("points").iter().all(positive),
            "{tag}: {points}"
        );
    }
    // Of every variable at every checkpoint that is left, and each value of it.
    let histograms = train["histograms"].as_object().expect("histograms");
    assert!(histograms.len() >= 3, "{histograms:?}");
    for (tag, points) in histograms {
        assert!(steps(points).contains(&250), "{tag}: {points}");
        let whole =
            |point: &Value| point[1] == point[3] && point[1].as_f64().is_some_and(|num| num >= 1.0);
        assert!(
            points.as_array().expect("points").iter().all(whole),
            "{tag}: {points}"
        );
    }

    let results = std::fs::read_to_string(model_dir.join("eval/metrics.jsonl")).expect("results");
    let results: Vec<Value> = results
        .lines()
        .map(|line| serde_json::from_str(line).expect("JSON"))
        .collect();
    for result in &results {
        let step = &result["global_step"];
        for (name, value) in result["metrics"].as_object().expect("metrics") {
            let points = eval["scalars"][name]
                .as_array()
                .unwrap_or_else(|| panic!("{name}: {eval}"));
            let shown = points
                .iter()
                .find(|point| point[0] == *step)
                .unwrap_or_else(|| panic!("{step}: {eval}"));
            let shown = shown[1].as_f64().expect("a number");
            let value = value.as_f64().expect("a number");
            assert!(
                (shown - value).abs() <= 1e-6 * value.abs().max(1e-6),
                "{name}: {shown} {value}"
            );
        }
        let texts = eval["texts"]["checkpoint_path"].as_array().expect("paths");
        let path = model_dir
            .join(format!("model.ckpt-{step}"))
            .display()
            .to_string();
        assert!(
            texts.iter().any(|text| text[0] == *step && text[1] == path),
            "{texts:?}"
        );
    }
    assert_eq!(
        results.last().map(|result| result["global_step"].clone()),
        Some(250.into())
    );
}
