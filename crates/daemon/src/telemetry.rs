//! Telemetry for Prometheus.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use metrics::{counter, describe_counter, describe_gauge, gauge};
use metrics_exporter_prometheus::{Matcher, PrometheusBuilder, PrometheusHandle};
use trainyard_runtime::MemoryLimit;
use trainyard_security::Security;

/// Buckets of durations, in seconds: 100 µs to 60 s.
const SECONDS: [f64; 18] = [
    1e-4, 2.5e-4, 5e-4, 1e-3, 2.5e-3, 5e-3, 1e-2, 2.5e-2, 5e-2, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0,
    10.0, 30.0, 60.0,
];
/// Buckets of staleness, in steps.
const STEPS: [f64; 11] = [0.0, 1.0, 2.0, 3.0, 4.0, 6.0, 8.0, 16.0, 32.0, 64.0, 128.0];
/// Buckets of rows in a batch.
const ROWS: [f64; 12] = [
    1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0, 512.0, 1024.0, 4096.0,
];
/// Time between sweeps of the recorder. Without sweeps, histograms grow until the next scrape.
const UPKEEP_INTERVAL: Duration = Duration::from_secs(5);

/// The recorder of this process.
#[derive(Debug, Clone)]
pub struct Telemetry {
    handle: Option<PrometheusHandle>,
}

impl Telemetry {
    /// Installs the recorder. If the process has one already, the result renders nothing.
    pub fn install() -> Self {
        let builder = PrometheusBuilder::new()
            .set_buckets_for_metric(Matcher::Suffix("_seconds".to_owned()), &SECONDS)
            .and_then(|builder| {
                builder.set_buckets_for_metric(Matcher::Suffix("_steps".to_owned()), &STEPS)
            })
            .and_then(|builder| {
                builder.set_buckets_for_metric(Matcher::Suffix("_rows".to_owned()), &ROWS)
            });
        let handle = builder
            .ok()
            .and_then(|builder| builder.install_recorder().ok());
        describe_gauge!(
            "process_resident_memory_bytes",
            "Memory of the process in use, in bytes."
        );
        describe_counter!(
            "process_cpu_seconds_total",
            "Processor time used, in whole seconds."
        );
        describe_gauge!("process_open_fds", "Open file descriptors.");
        describe_gauge!(
            "trainyard_file_wait_seconds",
            "Seconds for which the oldest unfinished work on files of a kind has gone on. 0 up to 2 seconds."
        );
        describe_gauge!(
            "trainyard_memory_bytes",
            "Memory in use where this task's memory is limited: of its control group, files in memory included and cached files not, or of the machine."
        );
        describe_gauge!(
            "trainyard_memory_limit_bytes",
            "The memory limit of this task: that of its control group, or the memory of the machine."
        );
        describe_gauge!(
            "process_start_time_seconds",
            "Time at which the process was started, in seconds since 1970."
        );
        describe_gauge!(
            "trainyard_build_info",
            "Always 1; the labels give the version and the commit of the program."
        );
        describe_gauge!(
            "trainyard_certificate_end_seconds",
            "Time at which the certificate of this task expires, in seconds since 1970."
        );
        let now = SystemTime::now()
            .duration_since(SystemTime::UNIX_EPOCH)
            .unwrap_or_default();
        gauge!("process_start_time_seconds").set(now.as_secs_f64());
        gauge!("trainyard_build_info", "version" => env!("CARGO_PKG_VERSION"), "commit" => crate::COMMIT)
            .set(1.0);
        describe_counter!(
            "trainyard_calls_refused_total",
            "Calls refused because the certificate or token of the caller does not allow them."
        );
        describe_counter!(
            "trainyard_connections_refused_total",
            "Connections refused: no valid certificate, no HTTP/2 in time, or too many open ones."
        );
        // If a counter appears only with its first event, `increase()` misses that event.
        counter!("trainyard_calls_refused_total").absolute(0);
        counter!("trainyard_connections_refused_total").absolute(0);
        Self { handle }
    }

    /// Returns all metrics as Prometheus text.
    pub fn render(&self) -> String {
        record_process();
        self.handle
            .as_ref()
            .map(PrometheusHandle::render)
            .unwrap_or_default()
    }

    /// Sweeps the recorder periodically, and records the end of this task's certificate.
    pub(crate) async fn upkeep(self, security: Arc<Security>) {
        let mut ticks = tokio::time::interval(UPKEEP_INTERVAL);
        loop {
            ticks.tick().await;
            if let Some(Ok(end)) = security
                .certificate_end()
                .map(|end| end.duration_since(SystemTime::UNIX_EPOCH))
            {
                gauge!("trainyard_certificate_end_seconds").set(end.as_secs_f64());
            }
            if let Some(handle) = &self.handle {
                handle.run_upkeep();
            }
        }
    }
}

/// Records memory, processor time and descriptors of this process.
fn record_process() {
    if let Ok(text) = std::fs::read_to_string("/proc/self/statm")
        && let Some(pages) = text
            .split_whitespace()
            .nth(1)
            .and_then(|pages| pages.parse::<f64>().ok())
    {
        gauge!("process_resident_memory_bytes").set(pages * 4096.0);
    }
    if let Ok(text) = std::fs::read_to_string("/proc/self/stat")
        && let Some((_, rest)) = text.rsplit_once(')')
    {
        let ticks: u64 = rest
            .split_whitespace()
            .skip(11)
            .take(2)
            .filter_map(|ticks| ticks.parse::<u64>().ok())
            .sum();
        counter!("process_cpu_seconds_total").absolute(ticks / 100);
    }
    if let Some(limit) = MemoryLimit::of_process() {
        gauge!("trainyard_memory_limit_bytes").set(limit.bytes() as f64);
        if let Some(used) = limit.used() {
            gauge!("trainyard_memory_bytes").set(used as f64);
        }
    }
    if let Ok(entries) = std::fs::read_dir("/proc/self/fd") {
        gauge!("process_open_fds").set(entries.count() as f64);
    }
}
