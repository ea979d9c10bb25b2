//! `metrics.json`, `cases`: streaming metrics, after each batch.

use serde_json::Value;
use trainyard_model::metric::{
    Auc, Class, Confusion, Mean, MeanPerClassAccuracy, SensitivityAtSpecificity, Summation,
};
use trainyard_testing::{Golden, difference, flat, list};

use super::report;

/// Returns the examples of a batch: label, prediction (or value), weight.
fn examples(batch: &Value) -> Vec<(f32, f32, f32)> {
    let given = flat(batch.get("predictions").unwrap_or(&batch["values"]));
    let labels = batch.get("labels").map_or_else(|| given.clone(), flat);
    let weights = batch
        .get("weights")
        .map_or_else(|| vec![1.0; given.len()], flat);
    assert_eq!((labels.len(), weights.len()), (given.len(), given.len()));
    labels
        .into_iter()
        .zip(given)
        .zip(weights)
        .map(|((label, given), weight)| (label, given, weight))
        .collect()
}

type Examples<'a> = &'a [(f32, f32, f32)];

fn mean(examples: Examples<'_>, value: impl Fn(f32, f32) -> f64) -> f64 {
    let mut mean = Mean::default();
    examples
        .iter()
        .for_each(|(label, given, weight)| mean.add(value(*label, *given), f64::from(*weight)));
    mean.value()
}

fn confusion(examples: Examples<'_>, predicted: impl Fn(f32) -> Class) -> Confusion {
    let mut counts = Confusion::default();
    examples.iter().for_each(|(label, given, weight)| {
        counts.add(predicted(*given), Class::of_label(*label), *weight)
    });
    counts
}

fn value(case: &Value, examples: Examples<'_>) -> Vec<f64> {
    let args = &case["args"];
    let flag = |holds: bool| f64::from(u8::from(holds));
    let decided = || confusion(examples, Class::of_label);
    let squared = |label: f32, given: f32| (f64::from(label) - f64::from(given)).powi(2);
    let at = |read: fn(&Confusion) -> f64| {
        let thresholds = flat(&args["thresholds"]);
        thresholds
            .iter()
            .map(|threshold| {
                read(&confusion(examples, |given| {
                    Class::above(given, *threshold)
                }))
            })
            .collect()
    };
    let one = |value: f64| vec![value];
    match case["metric"].as_str().unwrap().rsplit('.').next().unwrap() {
        "accuracy" => one(mean(examples, |label, given| flag(label == given))),
        "mean" => one(mean(examples, |_, given| f64::from(given))),
        "percentage_below" => {
            let threshold = flat(&args["threshold"])[0];
            one(mean(examples, |_, given| flag(given < threshold)))
        }
        "mean_squared_error" => one(mean(examples, squared)),
        "root_mean_squared_error" => one(mean(examples, squared).sqrt()),
        "mean_absolute_error" => one(mean(examples, |label, given| squared(label, given).sqrt())),
        "precision" => one(decided().precision()),
        "recall" => one(decided().recall()),
        "true_positives" => one(decided().true_positives),
        "false_positives" => one(decided().false_positives),
        "true_negatives" => one(decided().true_negatives),
        "false_negatives" => one(decided().false_negatives),
        "precision_at_thresholds" => at(Confusion::precision),
        "recall_at_thresholds" => at(Confusion::recall),
        "mean_per_class_accuracy" => {
            let mut metric =
                MeanPerClassAccuracy::new(args["num_classes"].as_u64().unwrap() as usize);
            examples.iter().for_each(|(label, given, weight)| {
                metric.add(*given as usize, *label as usize, *weight)
            });
            one(metric.value())
        }
        "sensitivity_at_specificity" => {
            let mut metric = SensitivityAtSpecificity::new(args["specificity"].as_f64().unwrap());
            examples.iter().for_each(|(label, given, weight)| {
                metric.add(*given, Class::of_label(*label), *weight)
            });
            one(metric.value())
        }
        "auc" => {
            let mut auc = Auc::new(args["num_thresholds"].as_u64().unwrap_or(200) as usize);
            examples.iter().for_each(|(label, given, weight)| {
                auc.add(*given, Class::of_label(*label), *weight)
            });
            let summation = match args["summation_method"].as_str() {
                Some("minoring") => Summation::Minoring,
                Some("majoring") => Summation::Majoring,
                _ => Summation::Trapezoidal,
            };
            one(
                match (args["curve"].as_str(), args["summation_method"].as_str()) {
                    (Some("PR"), Some("careful_interpolation")) => auc.precision_recall(),
                    (Some("PR"), _) => auc.precision_recall_by(summation),
                    _ => auc.roc_by(summation),
                },
            )
        }
        other => panic!("no metric {other}"),
    }
}

fn check(case: &Value) -> Result<(), String> {
    let mut seen = Vec::new();
    let initial: Vec<f32> = value(case, &seen)
        .into_iter()
        .map(|value| value as f32)
        .collect();
    if let Some(problem) = difference(&initial, &flat(&case["initial"]), 1e-5, 1e-6) {
        return Err(format!("before any batch: {problem}"));
    }
    for (number, batch) in list(&case["batches"]).iter().enumerate() {
        seen.extend(examples(batch));
        let given: Vec<f32> = value(case, &seen)
            .into_iter()
            .map(|value| value as f32)
            .collect();
        let absolute = if case["metric"].as_str().unwrap().ends_with("auc") {
            1e-5
        } else {
            1e-6
        };
        if let Some(problem) = difference(&given, &flat(&case["values"][number]), 1e-5, absolute) {
            return Err(format!("after batch {number}: {problem}"));
        }
    }
    Ok(())
}

#[test]
fn golden_metrics_agree_after_each_batch() {
    let golden = Golden::find();
    let mut equal = 0;
    let mut failures = Vec::new();
    for case in &golden.cases("metrics.json", "cases") {
        match check(case) {
            Ok(()) => equal += 1,
            Err(problem) => {
                failures.push(format!("{} {}: {problem}", case["metric"], case["args"]))
            }
        }
    }
    report(
        &golden,
        "metrics.json, cases",
        &failures,
        &[("equal", equal, 50)],
    );
}
