//! `toy.json`: one dense layer under a squared loss, which is a linear regressor.

use std::path::Path;

use serde_json::Value;
use trainyard_model::Model;
use trainyard_testing::{Golden, difference, flat, list};

use super::batch::{Recorded, batch};
use super::canned::Trained;
use super::columns::optimizer;
use super::report;

fn check(case: &Value, folder: &Path) -> Result<(), String> {
    let class = case["optimizer"].as_str().unwrap();
    let rule =
        serde_json::json!({"class": class, "args": {"learning_rate": case["learning_rate"]}});
    let defaults = if class.contains("keras") {
        "tensorflow2"
    } else {
        "trainyard"
    };
    let text = format!(
        "model_dir = \"m\"\n[input]\nlabel = {{ column = \"y\" }}\n[input.train]\nfiles = [\"t\"]\nepochs = 1\n\
         [[feature]]\ncolumn = \"dense\"\nkind = \"numeric\"\nshape = 2\n\
         [model]\nkind = \"linear_regressor\"\ndefaults = \"{defaults}\"\n{}",
        optimizer("linear_optimizer", &rule)
    );
    let mut trained = Trained::new(&text, folder);
    let schema = trained.model.schema().clone();
    let kernel = "linear/linear_model/dense/weights";
    let bias = "linear/linear_model/bias_weights";
    trained.set(kernel, &case["init"]["dense/kernel"]);
    trained.set(bias, &case["init"]["dense/bias"]);
    let rows = |features: &str, labels: &str, row: usize| {
        let column = |key: &str| Recorded {
            dtype: "float32".to_owned(),
            sparse: false,
            rows: list(&case[key])
                .iter()
                .map(|row| list(row).to_vec())
                .collect(),
        };
        let columns = [
            ("dense".to_owned(), column(features)),
            ("y".to_owned(), column(labels)),
        ]
        .into();
        batch(&schema, &columns, &[row], 0).unwrap()
    };
    let far = |given: &[f32], expected: &Value| difference(given, &flat(expected), 1e-4, 1e-5);
    for step in 0..case["steps"].as_u64().unwrap() as usize {
        let features = trained
            .model
            .features(&rows(
                "features",
                "labels",
                step % list(&case["features"]).len(),
            ))
            .unwrap();
        let loss = trained.step(&features) as f32;
        for (what, problem) in [
            ("loss", far(&[loss], &case["loss_per_step"][step])),
            (
                "kernel",
                far(
                    trained.variable(kernel).unwrap(),
                    &case["kernel_per_step"][step],
                ),
            ),
            (
                "bias",
                far(
                    trained.variable(bias).unwrap(),
                    &case["bias_per_step"][step],
                ),
            ),
        ] {
            if let Some(problem) = problem {
                return Err(format!("{what} of step {}: {problem}", step + 1));
            }
        }
    }
    let mut metrics = trained.model.metrics();
    let mut scratch = Default::default();
    for row in 0..list(&case["eval_features"]).len() {
        let features = trained
            .model
            .features(&rows("eval_features", "eval_labels", row))
            .unwrap();
        let (_, values) = trained.gather(&features);
        trained
            .model
            .evaluate(&features, &values, &mut metrics, &mut scratch)
            .unwrap();
    }
    let loss = trained.model.scores(&metrics)["loss"] as f32;
    far(&[loss], &case["evaluate"]["loss"])
        .map_or(Ok(()), |problem| Err(format!("evaluation: {problem}")))
}

#[test]
fn golden_toy_agrees_at_each_of_its_steps() {
    let golden = Golden::find();
    let mut equal = 0;
    let mut failures = Vec::new();
    for case in &golden.cases("toy.json", "cases") {
        let folder = tempfile::tempdir().unwrap();
        match check(case, folder.path()) {
            Ok(()) => equal += 1,
            Err(problem) => failures.push(format!("{}: {problem}", case["name"])),
        }
    }
    report(&golden, "toy.json", &failures, &[("equal", equal, 2)]);
}
