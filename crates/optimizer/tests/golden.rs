//! Every recorded case of TensorFlow's optimizers and learning rate schedules.

#![expect(
    clippy::unwrap_used,
    reason = "a recorded case that is not as its README says fails the test"
)]

use serde_json::{Map, Value, json};
use trainyard_optimizer::{OptimizerConfig, RowGradient, Schedule};
use trainyard_tensor::IndexedSlices;
use trainyard_testing::{Golden, difference, flat, list};

/// Returns TensorFlow's arguments under our names, with the defaults that differ from ours.
fn config(case: &Value) -> OptimizerConfig {
    let class = case["optimizer"].as_str().unwrap();
    let args = case["args"].as_object().unwrap();
    let keras = class.contains("keras");
    let (kind, defaults) = match class.rsplit('.').next().unwrap() {
        "GradientDescentOptimizer" => ("sgd", json!({})),
        "SGD" if args.contains_key("momentum") => ("keras_momentum", json!({})),
        "SGD" => ("sgd", json!({})),
        "MomentumOptimizer" => ("momentum", json!({})),
        "AdagradOptimizer" => ("adagrad", json!({})),
        "Adagrad" => ("adagrad", json!({"epsilon": 1e-7})),
        "AdagradDAOptimizer" => ("adagrad_da", json!({})),
        "AdadeltaOptimizer" => ("adadelta", json!({})),
        "AdamOptimizer" => ("adam", json!({})),
        "Adam" => ("adam", json!({"epsilon": 1e-7})),
        "RMSPropOptimizer" => ("rmsprop", json!({})),
        "RMSprop" => ("keras_rmsprop", json!({})),
        "FtrlOptimizer" | "Ftrl" => ("ftrl", json!({})),
        "ProximalAdagradOptimizer" => ("proximal_adagrad", json!({})),
        "ProximalGradientDescentOptimizer" => ("proximal_sgd", json!({})),
        other => panic!("no rule for {other}"),
    };
    let mut fields = defaults.as_object().unwrap().clone();
    for (name, value) in args {
        let name = match name.as_str() {
            "beta_1" => "beta1",
            "beta_2" => "beta2",
            "rho" if keras => "decay",
            "nesterov" => "use_nesterov",
            name => name,
        };
        fields.insert(name.to_owned(), value.clone());
    }
    fields.insert("kind".to_owned(), kind.into());
    let config: OptimizerConfig = serde_json::from_value(Value::Object(fields)).unwrap();
    config.validate().unwrap();
    config
}

fn assert_close(name: &str, given: &[f32], expected: &[f32], relative: f32) {
    let difference = difference(given, expected, relative, 1e-6);
    assert_eq!(difference, None, "{name}");
}

/// Returns a slot by its name in TensorFlow. Keras's Ftrl calls its first slot `accumulator`.
fn slot<'a>(slots: &'a Map<String, Value>, name: &str) -> Option<&'a Value> {
    slots
        .get(name)
        .or_else(|| slots.get(if name == "accum" { "accumulator" } else { name }))
}

/// Replays a case and returns the number of its steps.
fn replay(case: &Value, config: &OptimizerConfig) -> usize {
    let name = format!("{} {}", case["optimizer"], case["args"]);
    let odd_power = case["args"]["learning_rate_power"]
        .as_f64()
        .is_some_and(|power| power != -0.5);
    let loose = ["Adam", "Adadelta"].iter().any(|rule| name.contains(rule))
        || case["args"]["centered"] == true
        || odd_power;
    let relative = if loose { 5e-5 } else { 1e-5 };
    let mut values = flat(&case["init"]);
    let mut slots: Vec<Vec<f32>> = config
        .slots()
        .iter()
        .map(|slot| vec![slot.initial; values.len()])
        .collect();
    for (index, step) in list(&case["steps"]).iter().enumerate() {
        let at = format!("{name} step {}", index + 1);
        let mut views: Vec<&mut [f32]> = slots.iter_mut().map(Vec::as_mut_slice).collect();
        let count = index as u64 + 1;
        if case["kind"] == "sparse" {
            let rows: Vec<u32> = flat(&step["grad"]["indices"])
                .iter()
                .map(|&row| row as u32)
                .collect();
            let gradient = flat(&step["grad"]["values"]);
            let width = case["shape"][1].as_u64().unwrap() as usize;
            let summed = IndexedSlices {
                rows,
                values: gradient,
                width,
            }
            .summed();
            let gradient = RowGradient {
                width,
                rows: &summed.rows,
                values: &summed.values,
            };
            config.apply_rows(count, &mut values, &mut views, gradient);
        } else {
            config.apply_dense(count, &mut values, &mut views, &flat(&step["grad"]));
        }
        assert_close(&at, &values, &flat(&step["var"]), relative);
        let expected = step["slots"].as_object().unwrap();
        let mut compared = 0;
        for (ours, given) in config.slots().iter().zip(&slots) {
            if let Some(expected) = slot(expected, ours.name) {
                assert_close(
                    &format!("{at} slot {}", ours.name),
                    given,
                    &flat(expected),
                    relative,
                );
                compared += 1;
            }
        }
        assert_eq!(
            compared,
            expected.len(),
            "{at}: every slot of TensorFlow's is one of ours"
        );
    }
    list(&case["steps"]).len()
}

#[test]
fn golden_optimizers_agree_step_by_step() {
    let golden = Golden::find();
    let cases = golden.cases("optimizers.json", "cases");
    let steps: usize = cases.iter().map(|case| replay(case, &config(case))).sum();
    golden.assert_counts(
        "optimizers.json",
        &[("equal", cases.len(), 82), ("steps equal", steps, 451)],
    );
}

#[test]
fn golden_schedules_agree_at_every_step() {
    let golden = Golden::find();
    let cases = golden.cases("schedules.json", "cases");
    let mut compared = 0;
    for case in &cases {
        let kind = case["schedule"]
            .as_str()
            .unwrap()
            .rsplit('.')
            .next()
            .unwrap();
        let mut fields = case["args"].as_object().unwrap().clone();
        fields.insert("kind".to_owned(), kind.into());
        let schedule: Schedule = serde_json::from_value(Value::Object(fields)).unwrap();
        let steps: Vec<u64> = list(&case["steps"])
            .iter()
            .map(|step| step.as_u64().unwrap())
            .collect();
        let rates: Vec<f32> = steps.iter().map(|step| schedule.rate(*step)).collect();
        let absolute = if kind.contains("cosine") { 1e-6 } else { 1e-7 };
        let difference = difference(&rates, &flat(&case["lr"]), 1e-5, absolute);
        assert_eq!(
            difference, None,
            "{kind} {} at the steps {steps:?}",
            case["args"]
        );
        compared += rates.len();
    }
    let counts = [("equal", cases.len(), 52), ("steps equal", compared, 1092)];
    golden.assert_counts("schedules.json", &counts);
}
