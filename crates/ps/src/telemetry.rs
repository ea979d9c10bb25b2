//! The metrics of a parameter server.

use metrics::{
    Counter, Histogram, counter, describe_counter, describe_gauge, describe_histogram, gauge,
    histogram,
};
use trainyard_parameter_server::journal::LogJournal;
use trainyard_parameter_store::{Fault, Status};

/// Handles of the metrics that change with every call.
#[derive(Debug)]
pub(crate) struct Telemetry {
    /// Seconds from a push's arrival to its answer.
    pub(crate) apply_seconds: Histogram,
    /// Seconds from a pull's arrival to its answer.
    pub(crate) read_seconds: Histogram,
    /// Staleness: pushes applied between a push's pull and itself.
    pub(crate) staleness_steps: Histogram,
    /// Pushes applied.
    pub(crate) pushes: Counter,
    /// Duplicate pushes.
    pub(crate) duplicates: Counter,
    /// Synchronous pushes that came too late for their step.
    pub(crate) stale: Counter,
    /// Steps by which a worker that got a ticket was ahead of the slowest.
    pub(crate) lead_steps: Histogram,
    /// Requests refused.
    pub(crate) refusals: Counter,
    /// Bytes of gradients received.
    pub(crate) received_bytes: Counter,
    /// Bytes of parameters sent.
    pub(crate) sent_bytes: Counter,
    /// Seconds to write the server's part of a checkpoint.
    pub(crate) save_seconds: Histogram,
}

impl Telemetry {
    pub(crate) fn new() -> Self {
        describe_histogram!(
            "trainyard_ps_apply_seconds",
            "Time of a push, from arrival to answer."
        );
        describe_histogram!(
            "trainyard_ps_read_seconds",
            "Time of a pull, from arrival to answer."
        );
        describe_histogram!(
            "trainyard_ps_staleness_steps",
            "Pushes applied between a push's pull and itself."
        );
        describe_counter!("trainyard_ps_pushes_total", "Pushes applied.");
        describe_counter!(
            "trainyard_ps_duplicates_total",
            "Pushes that had been applied before; nothing changed."
        );
        describe_counter!(
            "trainyard_ps_stale_total",
            "Synchronous pushes that came too late for their step, which another worker's push of the same batch had completed; nothing changed."
        );
        describe_histogram!(
            "trainyard_ps_lead_steps",
            "Steps by which an admitted worker was ahead of the slowest live worker; stale-synchronous updates bound it."
        );
        describe_counter!("trainyard_ps_refusals_total", "Requests refused.");
        describe_counter!(
            "trainyard_ps_rejected_total",
            "Pushes whose values were refused, by reason: `nonfinite`, `max_norm` or `max_abs`; by their workers, too."
        );
        describe_counter!(
            "trainyard_ps_received_bytes_total",
            "Bytes of gradients received."
        );
        describe_counter!("trainyard_ps_sent_bytes_total", "Bytes of parameters sent.");
        describe_histogram!(
            "trainyard_ps_save_seconds",
            "Time to write a shard of a checkpoint."
        );
        describe_gauge!("trainyard_global_step", "Steps applied; on ps:0.");
        describe_gauge!(
            "trainyard_ps_value_bytes",
            "Bytes of values and slots held."
        );
        describe_gauge!("trainyard_ps_log_bytes", "Bytes of the log of updates.");
        describe_gauge!(
            "trainyard_ps_log_memory_bytes",
            "Bytes of the log's files in shared memory. The rest of the log lies on the disk."
        );
        describe_counter!(
            "trainyard_ps_log_cuts_total",
            "Cuts of the log: what had changed since the cut before was written to a file, and the log before it was given up."
        );
        describe_counter!(
            "trainyard_ps_log_cut_bytes_total",
            "Bytes of the files of cuts."
        );
        describe_gauge!(
            "trainyard_ps_log_bytes_max",
            "Bytes of the log above which the server requests a checkpoint. After the checkpoint the log starts again."
        );
        describe_gauge!(
            "trainyard_ps_log_free_bytes",
            "Bytes that the disk of the log has room for."
        );
        describe_gauge!(
            "trainyard_ps_memory_bytes",
            "Bytes held in memory, by kind: `variables`, `dynamic_tables`, `set_aside` and `checkpoint_copies` for a checkpoint in progress, `step_parts` of a synchronous step, `messages` without a reply yet."
        );
        describe_gauge!(
            "trainyard_ps_memory_bytes_max",
            "Most bytes that may be held, messages aside; absent where there is no bound."
        );
        describe_gauge!(
            "trainyard_cluster_epoch",
            "Term of the chief: one more with each chief that begins to lead."
        );
        describe_gauge!(
            "trainyard_dynamic_rows",
            "Rows of a dynamic table in use here, by variable."
        );
        describe_counter!(
            "trainyard_dynamic_evicted_total",
            "Rows of a dynamic table given up, by variable and reason: to make `room`, or unused for too long (`expired`)."
        );
        describe_counter!(
            "trainyard_dynamic_gradients_dropped_total",
            "Rows of gradients dropped since their ids had no row, by variable."
        );
        Self {
            apply_seconds: histogram!("trainyard_ps_apply_seconds"),
            read_seconds: histogram!("trainyard_ps_read_seconds"),
            staleness_steps: histogram!("trainyard_ps_staleness_steps"),
            pushes: counter!("trainyard_ps_pushes_total"),
            duplicates: counter!("trainyard_ps_duplicates_total"),
            stale: counter!("trainyard_ps_stale_total"),
            lead_steps: histogram!("trainyard_ps_lead_steps"),
            refusals: counter!("trainyard_ps_refusals_total"),
            received_bytes: counter!("trainyard_ps_received_bytes_total"),
            sent_bytes: counter!("trainyard_ps_sent_bytes_total"),
            save_seconds: histogram!("trainyard_ps_save_seconds"),
        }
    }

    /// Counts a push whose values were refused.
    pub(crate) fn rejected(&self, fault: Fault) {
        counter!("trainyard_ps_rejected_total", "reason" => fault.name()).increment(1);
    }

    /// Records the size of the log and the free space on its disk.
    pub(crate) fn record_log(&self, journal: &LogJournal, bytes_max: u64) {
        gauge!("trainyard_ps_log_bytes").set(journal.bytes() as f64);
        gauge!("trainyard_ps_log_memory_bytes").set(journal.memory_bytes() as f64);
        gauge!("trainyard_ps_log_bytes_max").set(bytes_max as f64);
        if let Some(free) = journal.free() {
            gauge!("trainyard_ps_log_free_bytes").set(free as f64);
        }
    }

    /// Records the global step, of the store that counts the steps.
    pub(crate) fn record_global_step(&self, global_step: u64) {
        gauge!("trainyard_global_step").set(global_step as f64);
    }

    /// Records the status of the store.
    pub(crate) fn record(&self, status: &Status) {
        gauge!("trainyard_ps_value_bytes").set(status.value_bytes as f64);
        gauge!("trainyard_cluster_epoch").set(status.epoch as f64);
        for (kind, bytes) in status.held.kinds() {
            gauge!("trainyard_ps_memory_bytes", "kind" => kind).set(bytes as f64);
        }
        if let Some(max) = status.memory_max {
            gauge!("trainyard_ps_memory_bytes_max").set(max as f64);
        }
        for table in &status.dynamic {
            let variable = || ("variable", table.variable.clone());
            gauge!("trainyard_dynamic_rows", &[variable()]).set(table.rows as f64);
            for (reason, count) in [("room", table.evicted), ("expired", table.expired)] {
                let labels = [variable(), ("reason", reason.to_owned())];
                counter!("trainyard_dynamic_evicted_total", &labels).absolute(count);
            }
            counter!("trainyard_dynamic_gradients_dropped_total", &[variable()])
                .absolute(table.gradients_dropped);
        }
    }
}
