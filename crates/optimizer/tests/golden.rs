//! Every case of TensorFlow's recorded optimizers whose rule we have, step by step.

#![expect(clippy::unwrap_used, reason = "a recorded case that is not as its README says fails the test")]

use serde_json::Value;
use trainyard_optimizer::OptimizerConfig;
use trainyard_tensor::IndexedSlices;

fn number(args: &Value, key: &str, default: f64) -> f32 {
    args.get(key).and_then(Value::as_f64).unwrap_or(default) as f32
}

/// The configuration of a recorded case, or nothing where its rule is not ours.
fn config(case: &Value) -> Option<OptimizerConfig> {
    let args = &case["args"];
    let learning_rate = number(args, "learning_rate", 0.001);
    match case["optimizer"].as_str()?.rsplit_once(".train.")?.1 {
        "GradientDescentOptimizer" => Some(OptimizerConfig::Sgd { learning_rate }),
        "AdagradOptimizer" => Some(OptimizerConfig::Adagrad {
            learning_rate,
            initial_accumulator_value: number(args, "initial_accumulator_value", 0.1),
        }),
        "AdamOptimizer" if case["kind"] == "dense" => Some(OptimizerConfig::Adam {
            learning_rate,
            beta1: number(args, "beta1", 0.9),
            beta2: number(args, "beta2", 0.999),
            epsilon: number(args, "epsilon", 1e-8),
        }),
        "FtrlOptimizer" => Some(OptimizerConfig::Ftrl {
            learning_rate,
            learning_rate_power: number(args, "learning_rate_power", -0.5),
            initial_accumulator_value: number(args, "initial_accumulator_value", 0.1),
            l1_regularization_strength: number(args, "l1_regularization_strength", 0.0),
            l2_regularization_strength: number(args, "l2_regularization_strength", 0.0),
            l2_shrinkage_regularization_strength: number(args, "l2_shrinkage_regularization_strength", 0.0),
            beta: number(args, "beta", 0.0),
        }),
        _ => None,
    }
}

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

fn assert_close(name: &str, given: &[f32], expected: &[f32], relative: f32) {
    assert_eq!(given.len(), expected.len(), "{name}");
    for (given, expected) in given.iter().zip(expected) {
        assert!(
            (given - expected).abs() <= 1e-6 + relative * expected.abs(),
            "{name}: {given} is not {expected}"
        );
    }
}

fn replay(case: &Value, config: &OptimizerConfig) {
    let name = format!("{} {}", case["optimizer"], case["args"]);
    let adam = matches!(config, OptimizerConfig::Adam { .. });
    let odd_power = number(&case["args"], "learning_rate_power", -0.5) != -0.5;
    let relative = if adam || odd_power { 5e-5 } else { 1e-5 };
    let mut values = flat(&case["init"]);
    let mut slots: Vec<Vec<f32>> =
        config.slots().iter().map(|slot| vec![slot.initial; values.len()]).collect();
    for (index, step) in case["steps"].as_array().unwrap().iter().enumerate() {
        let at = format!("{name} step {}", index + 1);
        let mut views: Vec<&mut [f32]> = slots.iter_mut().map(Vec::as_mut_slice).collect();
        let count = index as u64 + 1;
        if case["kind"] == "sparse" {
            let rows: Vec<u32> = flat(&step["grad"]["indices"]).iter().map(|&row| row as u32).collect();
            let gradient = flat(&step["grad"]["values"]);
            let width = gradient.len().checked_div(rows.len()).unwrap_or(1);
            let summed = IndexedSlices { rows, values: gradient, width }.summed();
            config.apply_rows(count, width, &summed.rows, &mut values, &mut views, &summed.values);
        } else {
            config.apply_dense(count, &mut values, &mut views, &flat(&step["grad"]));
        }
        assert_close(&at, &values, &flat(&step["var"]), relative);
        for (slot, given) in config.slots().iter().zip(&slots) {
            assert_close(
                &format!("{at} slot {}", slot.name),
                given,
                &flat(&step["slots"][slot.name]),
                relative,
            );
        }
    }
}

#[test]
fn golden_optimizers_agree_step_by_step() {
    let default = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared/golden");
    let folder = std::env::var("TRAINYARD_GOLDEN").unwrap_or_else(|_| default.into());
    let Ok(text) = std::fs::read_to_string(format!("{folder}/optimizers.json")) else {
        println!("skipped: {folder}/optimizers.json is not here");
        return;
    };
    let golden: Value = serde_json::from_str(&text).unwrap();
    let cases: Vec<&Value> =
        golden["cases"].as_array().unwrap().iter().filter(|case| case.get("error").is_none()).collect();
    let mut covered = 0;
    for case in &cases {
        if let Some(config) = config(case) {
            replay(case, &config);
            covered += 1;
        }
    }
    println!("optimizers.json: {covered} of {} cases", cases.len());
    assert!(covered >= 20, "only {covered} cases were covered");
}
