//! Metrics of the chief, besides those of its training loop.

use metrics::{
    Counter, Gauge, Histogram, counter, describe_counter, describe_gauge, describe_histogram,
    gauge, histogram,
};

/// Handles of the metrics.
#[derive(Debug, Clone)]
pub(crate) struct Telemetry {
    pub(crate) checkpoint_seconds: Histogram,
    pub(crate) checkpoints: Counter,
    pub(crate) checkpoint_failures: Counter,
    pub(crate) checkpoint_step: Gauge,
    pub(crate) checkpoint_unix_seconds: Gauge,
    pub(crate) active_tasks: Gauge,
    pub(crate) expected_tasks: Gauge,
    pub(crate) leases_lost: Counter,
    pub(crate) quarantined: Counter,
    pub(crate) global_step: Gauge,
    pub(crate) global_steps_per_second: Gauge,
    pub(crate) epoch: Gauge,
    pub(crate) cuts: Counter,
    pub(crate) cut_failures: Counter,
    pub(crate) cut_bytes: Counter,
    pub(crate) cut_seconds: Histogram,
    pub(crate) cut_unix_seconds: Gauge,
}

impl Telemetry {
    pub(crate) fn new() -> Self {
        describe_histogram!(
            "trainyard_checkpoint_seconds",
            "Time to write and commit a checkpoint."
        );
        describe_counter!("trainyard_checkpoints_total", "Checkpoints committed.");
        describe_counter!(
            "trainyard_checkpoint_failures_total",
            "Checkpoints that could not be written."
        );
        describe_gauge!(
            "trainyard_checkpoint_step",
            "Global step of the newest checkpoint."
        );
        describe_gauge!(
            "trainyard_checkpoint_unix_seconds",
            "Time at which the newest checkpoint was written, in seconds since 1970."
        );
        describe_gauge!(
            "trainyard_checkpoint_interval_seconds",
            "Configured seconds between checkpoints; absent if the job counts steps instead."
        );
        describe_gauge!(
            "trainyard_expected_tasks",
            "Tasks of the cluster that should train, without the tasks that have read all of \
            their input."
        );
        describe_gauge!("trainyard_active_tasks", "Tasks that train.");
        describe_counter!("trainyard_leases_lost_total", "Tasks whose lease expired.");
        describe_counter!(
            "trainyard_quarantined_total",
            "Tasks that were quarantined because too many of their pushes were refused for their \
            values."
        );
        describe_gauge!("trainyard_global_step", "Steps applied by all tasks.");
        describe_gauge!(
            "trainyard_global_steps_per_second",
            "Steps per second of all tasks, over the latest second."
        );
        describe_gauge!(
            "trainyard_cluster_epoch",
            "Term of the chief: it grows by one with each chief that begins to lead."
        );
        describe_counter!("trainyard_published_cuts_total", "Cuts published.");
        describe_counter!(
            "trainyard_publish_failures_total",
            "Cuts that could not be published."
        );
        describe_counter!(
            "trainyard_published_bytes_total",
            "Bytes of the published cuts."
        );
        describe_histogram!(
            "trainyard_publish_seconds",
            "Time to write and commit a cut."
        );
        describe_gauge!(
            "trainyard_published_unix_seconds",
            "Time at which the newest cut was written, in seconds since 1970."
        );
        Self {
            checkpoint_seconds: histogram!("trainyard_checkpoint_seconds"),
            checkpoints: counter!("trainyard_checkpoints_total"),
            checkpoint_failures: counter!("trainyard_checkpoint_failures_total"),
            checkpoint_step: gauge!("trainyard_checkpoint_step"),
            checkpoint_unix_seconds: gauge!("trainyard_checkpoint_unix_seconds"),
            active_tasks: gauge!("trainyard_active_tasks"),
            expected_tasks: gauge!("trainyard_expected_tasks"),
            leases_lost: counter!("trainyard_leases_lost_total"),
            quarantined: counter!("trainyard_quarantined_total"),
            global_step: gauge!("trainyard_global_step"),
            global_steps_per_second: gauge!("trainyard_global_steps_per_second"),
            epoch: gauge!("trainyard_cluster_epoch"),
            cuts: counter!("trainyard_published_cuts_total"),
            cut_failures: counter!("trainyard_publish_failures_total"),
            cut_bytes: counter!("trainyard_published_bytes_total"),
            cut_seconds: histogram!("trainyard_publish_seconds"),
            cut_unix_seconds: gauge!("trainyard_published_unix_seconds"),
        }
    }
}
