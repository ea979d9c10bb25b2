//! Traffic between workers and parameter servers: the result of `trainyard bench ps`.

use std::time::SystemTime;

use serde::Serialize;

use super::arguments::BenchPs;
use super::conditions::{Conditions, TCP, UNIX_SOCKETS};
use super::load::{Loaded, Outcome};
use super::recovery::Recovery;

/// Result of one load.
#[derive(Debug)]
pub(super) struct Load {
    pub(super) processes: Vec<Loaded>,
    /// Seconds from the start of the workers to the end of the last worker.
    pub(super) seconds: f64,
    /// Cores of the machine that had nothing to do meanwhile, if the system says it.
    pub(super) idle_cores: Option<f64>,
    /// Processor time of each server during the load, in seconds.
    pub(super) server_cpu: Vec<f64>,
    /// Most memory that one server has held, in bytes.
    pub(super) server_peak_bytes: u64,
    /// Times at which a server was killed, ascending.
    pub(super) kills: Vec<SystemTime>,
}

/// Arguments of the benchmark, and its figures. Rates are the sum over all workers; 1 MB is 1e6 bytes.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) struct Traffic {
    #[serde(flatten)]
    pub(super) conditions: Conditions,
    pub(super) ps: usize,
    pub(super) workers: usize,
    pub(super) dense: usize,
    pub(super) rows: usize,
    pub(super) tables: usize,
    pub(super) dim: usize,
    pub(super) compute_ms: f64,
    pub(super) zipf: Option<f64>,
    pub(super) slow_ps_ms: Option<f64>,
    pub(super) steps_per_second: f64,
    pub(super) pulled_mb_per_second: f64,
    pub(super) pushed_mb_per_second: f64,
    /// Rows read from all tables; as many are updated. A row that a step draws twice counts once.
    pub(super) rows_per_second: f64,
    /// Processor time of servers and workers.
    pub(super) cpu_ms_per_mb: f64,
    pub(super) cpu_ms_per_step: f64,
    pub(super) server_cpu_seconds: f64,
    pub(super) worker_cpu_seconds: f64,
    /// Processors that the busiest server kept busy.
    pub(super) busiest_ps_cores: f64,
    /// Processors that the workers kept busy.
    pub(super) worker_cores: f64,
    /// Cores of the machine that had nothing to do.
    pub(super) idle_cores: Option<f64>,
    /// Median time that a step waited for the servers: for the push of an earlier step and for its own pull.
    pub(super) p50_ms: f64,
    pub(super) p99_ms: f64,
    /// Most memory that one server has held.
    pub(super) server_peak_bytes: u64,
    /// Recovery from kills, if servers were killed.
    pub(super) recovery: Option<Recovery>,
}

impl Traffic {
    /// Adds up the results of a load.
    pub(super) fn new(arguments: &BenchPs, load: &Load) -> Self {
        let Load {
            processes,
            seconds,
            idle_cores,
            server_cpu,
            server_peak_bytes,
            kills,
        } = load;
        let outcomes: Vec<&Outcome> = processes
            .iter()
            .flat_map(|process| &process.workers)
            .collect();
        let sum = |value: fn(&Outcome) -> f64| outcomes.iter().map(|one| value(one)).sum::<f64>();
        let rate = |value: fn(&Outcome) -> f64| {
            outcomes
                .iter()
                .map(|one| value(one) / one.seconds.max(1e-9))
                .sum::<f64>()
        };
        let moved = sum(|one| (one.pulled_bytes + one.pushed_bytes) as f64) / 1e6;
        let worker_cpu: f64 = processes.iter().map(|process| process.cpu_seconds).sum();
        let cpu_ms = (server_cpu.iter().sum::<f64>() + worker_cpu) * 1e3;
        let mut latencies: Vec<f32> = outcomes
            .iter()
            .flat_map(|one| one.latencies.iter().copied())
            .collect();
        latencies.sort_unstable_by(f32::total_cmp);
        let transport = if arguments.unix_sockets {
            UNIX_SOCKETS
        } else {
            TCP
        };
        Self {
            conditions: Conditions::of_servers(arguments.durability, transport),
            ps: arguments.ps,
            workers: arguments.workers,
            dense: arguments.dense,
            rows: arguments.rows,
            tables: arguments.tables,
            dim: arguments.dim,
            compute_ms: arguments.compute_ms,
            zipf: arguments.zipf,
            slow_ps_ms: arguments.slow_ps_ms,
            steps_per_second: rate(|one| one.steps as f64),
            pulled_mb_per_second: rate(|one| one.pulled_bytes as f64) / 1e6,
            pushed_mb_per_second: rate(|one| one.pushed_bytes as f64) / 1e6,
            rows_per_second: rate(|one| one.rows as f64) * arguments.tables as f64,
            cpu_ms_per_mb: cpu_ms / moved.max(1e-9),
            cpu_ms_per_step: cpu_ms / sum(|one| one.steps as f64).max(1.0),
            server_cpu_seconds: server_cpu.iter().sum(),
            worker_cpu_seconds: worker_cpu,
            busiest_ps_cores: server_cpu.iter().copied().fold(0.0, f64::max) / seconds.max(1e-9),
            worker_cores: worker_cpu / seconds.max(1e-9),
            idle_cores: *idle_cores,
            p50_ms: at(&latencies, 0.5),
            p99_ms: at(&latencies, 0.99),
            server_peak_bytes: *server_peak_bytes,
            recovery: arguments.kill_every.map(|_| {
                let waits = outcomes.iter().flat_map(|one| &one.long_waits);
                Recovery::new(kills, waits.copied().collect())
            }),
        }
    }

    /// Returns the figures as text.
    pub(super) fn text(&self) -> String {
        let pulled = self.pulled_mb_per_second;
        let pushed = self.pushed_mb_per_second;
        let mut text = self.conditions.text();
        text.push_str(&format!(
            "steps/s           {:.1}\nMB/s each way     {pulled:.0} pulled, {pushed:.0} pushed\n",
            self.steps_per_second
        ));
        if self.rows > 0 {
            text.push_str(&format!(
                "rows/s each way   {:.2} M\n",
                self.rows_per_second / 1e6
            ));
        }
        text.push_str(&format!(
            "CPU               {:.2} ms per MB moved, {:.2} ms per step (servers {:.1} s, workers {:.1} s)\n\
             cores busy        {:.2} by the busiest server, {:.2} by all workers\n\
             exchange          p50 {:.2} ms, p99 {:.2} ms\n\
             server memory     {:.0} MB at most\n",
            self.cpu_ms_per_mb,
            self.cpu_ms_per_step,
            self.server_cpu_seconds,
            self.worker_cpu_seconds,
            self.busiest_ps_cores,
            self.worker_cores,
            self.p50_ms,
            self.p99_ms,
            self.server_peak_bytes as f64 / 1e6
        ));
        if let Some(recovery) = self.recovery {
            text.push_str(&format!(
                "recovery          next step after a kill: p50 {:.2} s, max {:.2} s, {} kills, {} without a step\n",
                recovery.p50_seconds,
                recovery.max_seconds,
                recovery.kills,
                recovery.without_step
            ));
        }
        text
    }
}

/// Returns a quantile of ascending values, or 0 if there are none.
fn at(ascending: &[f32], share: f64) -> f64 {
    let place = ((ascending.len() as f64 * share) as usize).min(ascending.len().saturating_sub(1));
    ascending.get(place).copied().unwrap_or(0.0).into()
}
