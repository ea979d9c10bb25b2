//! Metrics of the evaluator.

use metrics::{
    Counter, Gauge, Histogram, counter, describe_counter, describe_gauge, describe_histogram,
    gauge, histogram,
};
use trainyard_model::Scores;

/// Handles of the metrics.
#[derive(Debug)]
pub(crate) struct Telemetry {
    pub(crate) evaluations: Counter,
    pub(crate) exports: Counter,
    pub(crate) seconds: Histogram,
    pub(crate) step: Gauge,
}

impl Telemetry {
    pub(crate) fn new() -> Self {
        describe_counter!("trainyard_evaluations_total", "Checkpoints evaluated.");
        describe_counter!("trainyard_exports_total", "Exports written.");
        describe_histogram!("trainyard_evaluation_seconds", "Time of an evaluation.");
        describe_gauge!(
            "trainyard_evaluated_step",
            "Global step of the latest evaluation."
        );
        describe_gauge!(
            "trainyard_eval_metric",
            "Value of a metric (label `metric`) at the latest evaluation."
        );
        Self {
            evaluations: counter!("trainyard_evaluations_total"),
            exports: counter!("trainyard_exports_total"),
            seconds: histogram!("trainyard_evaluation_seconds"),
            step: gauge!("trainyard_evaluated_step"),
        }
    }

    /// Records an evaluation.
    pub(crate) fn record(&self, step: u64, scores: &Scores) {
        self.evaluations.increment(1);
        self.step.set(step as f64);
        for (name, value) in scores {
            gauge!("trainyard_eval_metric", "metric" => name.clone()).set(*value);
        }
    }
}
