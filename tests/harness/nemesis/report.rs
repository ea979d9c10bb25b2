//! What a nemesis has to say at the end.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use super::fault::{Injected, Kind};
use super::operator::LimitReport;
use crate::Account;

/// Recovery from the faults of one kind.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Recovery {
    /// Faults.
    pub faults: usize,
    /// Time from the fault to the next applied update: at the victim where it is a server, otherwise anywhere.
    pub update: Vec<Duration>,
    /// Time from the fault until the victim does its work again.
    pub back: Vec<Duration>,
}

/// The report.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Report {
    /// Seed of every choice.
    pub seed: u64,
    /// Recovery by kind of fault.
    pub recovery: BTreeMap<Kind, Recovery>,
    /// Steps of the job.
    pub steps: u64,
    /// Length of the run with faults, in seconds.
    pub seconds: f64,
    /// Steps a second, divided by those of the run without faults.
    pub goodput: f64,
    /// Times that the chief has restored the servers.
    pub restores: usize,
    /// Processes that were started.
    pub starts: u64,
    /// What became of the updates.
    pub account: Account,
    /// Tasks that did not end by themselves behind the chief.
    pub late: Vec<String>,
    /// Kinds of faults that were to come and did not.
    pub absent: Vec<Kind>,
    /// What limits have led to, of a job that had some.
    pub limits: Option<LimitReport>,
}

impl Report {
    pub(super) fn new(seed: u64) -> Self {
        Self {
            seed,
            ..Self::default()
        }
    }

    pub(super) fn add(&mut self, fault: &Injected) {
        let recovery = self.recovery.entry(fault.kind).or_default();
        recovery.faults += 1;
        recovery.update.extend(fault.update);
        recovery.back.extend(fault.back);
    }

    /// Whether each update was applied once, every task has ended by itself, and each that died of a limit has named it.
    pub fn is_good(&self) -> bool {
        let is_told = self
            .limits
            .as_ref()
            .is_none_or(|limits| limits.unnamed.is_empty());
        self.account.is_exact() && self.late.is_empty() && is_told
    }

    /// Faults of all kinds.
    pub fn faults(&self) -> usize {
        self.recovery.values().map(|recovery| recovery.faults).sum()
    }
}

/// `p50 / p99 / max`, in seconds, by nearest rank.
fn quantiles(times: &[Duration]) -> String {
    let mut times: Vec<f64> = times.iter().map(Duration::as_secs_f64).collect();
    times.sort_by(f64::total_cmp);
    let rank =
        |part: f64| times.get(((times.len() as f64 * part).ceil() as usize).saturating_sub(1));
    match (rank(0.5), rank(0.99), times.last()) {
        (Some(half), Some(most), Some(max)) => format!("{half:6.2} {most:6.2} {max:6.2}"),
        _ => "     -      -      -".to_owned(),
    }
}

impl fmt::Display for Report {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            formatter,
            "seed {}: {} faults in {:.1} s, {} processes started, {} restores",
            self.seed,
            self.faults(),
            self.seconds,
            self.starts,
            self.restores
        )?;
        writeln!(
            formatter,
            "                      next update, s            victim back, s\n\
             fault            count    p50    p99    max     p50    p99    max"
        )?;
        for (kind, recovery) in &self.recovery {
            writeln!(
                formatter,
                "{:16} {:5} {}  {}",
                kind.to_string(),
                recovery.faults,
                quantiles(&recovery.update),
                quantiles(&recovery.back)
            )?;
        }
        writeln!(
            formatter,
            "acknowledged updates {}, on every server",
            self.steps
        )?;
        write!(formatter, "{}", self.account)?;
        if !self.late.is_empty() {
            writeln!(
                formatter,
                "did not end by themselves: {}",
                self.late.join(", ")
            )?;
        }
        for kind in &self.absent {
            writeln!(formatter, "there was no fault of the kind: {kind}")?;
        }
        if let Some(limits) = &self.limits {
            write!(formatter, "{limits}")?;
        }
        writeln!(
            formatter,
            "goodput {:.1} % of the run without faults",
            self.goodput * 100.0
        )?;
        writeln!(
            formatter,
            "{}",
            if self.account.is_exact() {
                "exact"
            } else {
                "NOT EXACT"
            }
        )
    }
}
