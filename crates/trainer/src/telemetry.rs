//! Metrics of the training loop.

use metrics::{
    Counter, Gauge, Histogram, counter, describe_counter, describe_gauge, describe_histogram,
    gauge, histogram,
};
use trainyard_parameter_store::Fault;

/// Handles of the metrics of a step.
#[derive(Debug)]
pub(crate) struct Telemetry {
    pub(crate) input_seconds: Histogram,
    pub(crate) exchange_seconds: Histogram,
    pub(crate) compute_seconds: Histogram,
    pub(crate) step_seconds: Histogram,
    pub(crate) staleness_steps: Histogram,
    pub(crate) steps: Counter,
    pub(crate) examples: Counter,
    pub(crate) duplicates: Counter,
    pub(crate) stale: Counter,
    pub(crate) pulled_bytes: Counter,
    pub(crate) pushed_bytes: Counter,
    pub(crate) global_step: Gauge,
    pub(crate) loss: Gauge,
    pub(crate) steps_per_second: Gauge,
    pub(crate) examples_per_second: Gauge,
    pub(crate) input_queue: Gauge,
}

impl Telemetry {
    /// Counts a step whose gradients were rejected.
    pub(crate) fn rejected(&self, fault: Fault) {
        counter!("trainyard_rejected_steps_total", "reason" => fault.name()).increment(1);
    }

    pub(crate) fn new() -> Self {
        describe_histogram!(
            "trainyard_step_input_seconds",
            "Time a step waits for its batch."
        );
        describe_histogram!(
            "trainyard_step_exchange_seconds",
            "Time a step waits for the parameter servers: for the push of an earlier step and its own pull."
        );
        describe_histogram!(
            "trainyard_step_compute_seconds",
            "Time of forward and backward pass."
        );
        describe_histogram!(
            "trainyard_step_seconds",
            "Time from a step of this task to its next."
        );
        describe_histogram!(
            "trainyard_staleness_steps",
            "Steps of others between a step's pull and its push."
        );
        describe_counter!("trainyard_steps_total", "Steps applied.");
        describe_counter!("trainyard_examples_total", "Examples in the steps applied.");
        describe_counter!(
            "trainyard_duplicate_steps_total",
            "Duplicate steps, which the parameter servers had applied before."
        );
        describe_counter!(
            "trainyard_stale_steps_total",
            "Micro-batches of synchronous steps that came too late: another task had computed \
            the same lane."
        );
        describe_counter!(
            "trainyard_rejected_steps_total",
            "Steps whose gradients were refused, by reason: `nonfinite`, `max_norm` or \
            `max_abs`. Their batches count as read."
        );
        describe_counter!("trainyard_pulled_bytes_total", "Bytes of parameters read.");
        describe_counter!("trainyard_pushed_bytes_total", "Bytes of gradients sent.");
        describe_gauge!("trainyard_global_step", "Steps applied by all tasks.");
        describe_gauge!("trainyard_loss", "Training loss of the latest step.");
        describe_gauge!(
            "trainyard_steps_per_second",
            "Steps per second of this task, over the latest log interval."
        );
        describe_gauge!(
            "trainyard_examples_per_second",
            "Examples per second of this task, over the latest log interval."
        );
        describe_gauge!(
            "trainyard_input_queue_batches",
            "Batches that are prepared and wait for their step."
        );
        Self {
            input_seconds: histogram!("trainyard_step_input_seconds"),
            exchange_seconds: histogram!("trainyard_step_exchange_seconds"),
            compute_seconds: histogram!("trainyard_step_compute_seconds"),
            step_seconds: histogram!("trainyard_step_seconds"),
            staleness_steps: histogram!("trainyard_staleness_steps"),
            steps: counter!("trainyard_steps_total"),
            examples: counter!("trainyard_examples_total"),
            duplicates: counter!("trainyard_duplicate_steps_total"),
            stale: counter!("trainyard_stale_steps_total"),
            pulled_bytes: counter!("trainyard_pulled_bytes_total"),
            pushed_bytes: counter!("trainyard_pushed_bytes_total"),
            global_step: gauge!("trainyard_global_step"),
            loss: gauge!("trainyard_loss"),
            steps_per_second: gauge!("trainyard_steps_per_second"),
            examples_per_second: gauge!("trainyard_examples_per_second"),
            input_queue: gauge!("trainyard_input_queue_batches"),
        }
    }
}
