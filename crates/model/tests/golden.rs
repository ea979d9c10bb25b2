//! Metrics of heads as TensorFlow reports them.
#![expect(clippy::unwrap_used, reason = "a recorded case that is not as its README says fails the test")]

use serde_json::Value;
use trainyard_model::{Head, HeadMetrics};

fn floats(value: &Value, out: &mut Vec<f32>) {
    match value {
        Value::Array(items) => items.iter().for_each(|item| floats(item, out)),
        other => out.push(other.as_f64().unwrap() as f32),
    }
}

fn flat(value: &Value) -> Vec<f32> {
    let mut out = Vec::new();
    floats(value, &mut out);
    out
}

/// The head of a case whose arguments are all ours.
fn head(case: &Value) -> Option<Head> {
    let known = ["class", "weight_column", "n_classes"];
    let head = case["head"].as_object()?;
    // Labels between the classes: ours are classes, and anything else is refused.
    // And TensorFlow's ratios of negative weights lie outside [0, 1], which nobody wants reproduced.
    if case["name"] == "binary_soft_labels" || case["name"] == "binary_negative_weights_unchecked" {
        return None;
    }
    if !head.keys().all(|key| known.contains(&key.as_str())) || case["evaluate"].get("error").is_some() {
        return None;
    }
    match head["class"].as_str()? {
        "BinaryClassHead" => Some(Head::Binary(None)),
        "MultiClassHead" => Some(Head::MultiClass(None, head["n_classes"].as_u64()? as usize)),
        "RegressionHead" => Some(Head::Regression),
        _ => None,
    }
}

#[test]
fn golden_heads_report_tensorflows_metrics() {
    let default = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared/golden");
    let folder = std::env::var("TRAINYARD_GOLDEN").unwrap_or_else(|_| default.into());
    let Ok(text) = std::fs::read_to_string(format!("{folder}/metrics.json")) else {
        println!("skipped: {folder}/metrics.json is not here");
        return;
    };
    let golden: Value = serde_json::from_str(&text).unwrap();
    let heads = golden["heads"].as_array().unwrap();
    let mut covered = 0;
    for case in heads {
        let Some(head) = head(case) else { continue };
        let Some(expected) = case["evaluate"].as_object() else { continue };
        let mut metrics = HeadMetrics::default();
        for batch in case["batches"].as_array().unwrap() {
            let weights = batch.get("weights").map(flat);
            metrics.add(&head, &flat(&batch["logits"]), &flat(&batch["labels"]), weights.as_deref());
        }
        let scores = metrics.scores(&head);
        for (name, expected) in expected {
            let Some(expected) = expected.as_f64() else { continue };
            let given = scores[name];
            let tolerance = if name.starts_with("auc") { 1e-5 } else { 1e-6 } + 1e-5 * expected.abs();
            assert!(
                (given - expected).abs() <= tolerance,
                "{} {name}: {given} is not {expected}",
                case["name"]
            );
        }
        covered += 1;
    }
    println!("metrics.json: {covered} of {} heads", heads.len());
    assert!(covered >= 5, "only {covered} heads were covered");
}
