//! What a long run has to say at the end.

use std::fmt;

use super::trend::{Trend, grows};
use crate::Account;

/// Something that is looked at each minute, and may not grow.
#[derive(Debug, Clone, PartialEq)]
pub struct Series {
    /// What, and whose.
    pub name: String,
    /// How its values are shown.
    pub unit: Unit,
    /// Hours since the start, and the value.
    pub points: Vec<(f64, f64)>,
}

/// How a value is shown, and how much it may rise from the end of the warm-up to the end of the run before its slope counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unit {
    /// Bytes of memory: 2 % and 4 MiB.
    Memory,
    /// Open files and connections: 3.
    Files,
    /// Bytes on a disk, which come and go with every checkpoint: a tenth.
    Disk,
    /// Seconds of a step: a quarter.
    Seconds,
    /// A loss: a hundredth.
    Loss,
}

impl Unit {
    fn tolerance(self, level: f64) -> f64 {
        match self {
            Self::Memory => 0.02 * level + f64::from(4 << 20),
            Self::Files => 3.0,
            Self::Disk => 0.1 * level,
            Self::Seconds => 0.25 * level,
            Self::Loss => 0.01 * level,
        }
    }

    pub(super) fn show(self, value: f64) -> String {
        match self {
            Self::Memory | Self::Disk => format!("{:.1} MB", value / 1e6),
            Self::Files => format!("{value:.1}"),
            Self::Seconds => format!("{:.1} ms", value * 1e3),
            Self::Loss => format!("{value:.4}"),
        }
    }
}

impl Series {
    /// The line through the points behind the warm-up, and whether it rises.
    pub fn trend(&self, warm_up_hours: f64) -> Option<(Trend, bool)> {
        let points: Vec<(f64, f64)> = self
            .points
            .iter()
            .copied()
            .filter(|(hours, _)| *hours >= warm_up_hours)
            .collect();
        let trend = Trend::of(&points)?;
        Some((
            trend,
            grows(&points, self.unit.tolerance(trend.first.abs())),
        ))
    }
}

/// The report.
#[derive(Debug, Clone, Default)]
pub struct EnduranceReport {
    /// Seed of every choice.
    pub seed: u64,
    /// Length of the run in hours, without its end.
    pub hours: f64,
    /// Hours that say nothing of slopes.
    pub warm_up_hours: f64,
    /// Examples that were trained, those of redone steps too.
    pub examples: f64,
    /// Workers and servers that were killed.
    pub kills: usize,
    /// Everything that was looked at.
    pub series: Vec<Series>,
    /// The most that the log of one server has held, in bytes, and the most that it may.
    pub log_bytes: (u64, u64),
    /// What became of the updates.
    pub account: Account,
}

impl EnduranceReport {
    /// What grew.
    pub fn growing(&self) -> impl Iterator<Item = &Series> {
        self.series.iter().filter(|series| {
            series
                .trend(self.warm_up_hours)
                .is_some_and(|(_, grows)| grows)
        })
    }

    /// Whether nothing grew, no log was longer than it may be, and each update was applied once.
    pub fn is_good(&self) -> bool {
        self.growing().next().is_none()
            && self.log_bytes.0 <= self.log_bytes.1
            && self.account.is_exact()
    }
}

impl fmt::Display for EnduranceReport {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            formatter,
            "seed {}: {:.1} M examples in {:.1} minutes, {:.0} a second; {} workers and servers killed",
            self.seed,
            self.examples / 1e6,
            self.hours * 60.0,
            self.examples / (self.hours * 3600.0),
            self.kills
        )?;
        writeln!(
            formatter,
            "behind the first {:.1} minutes, by a straight line:\n\
             {:28} {:>12} {:>12} {:>14} {:>14}",
            self.warm_up_hours * 60.0,
            "",
            "first",
            "last",
            "an hour",
            "error of it"
        )?;
        for series in &self.series {
            match series.trend(self.warm_up_hours) {
                Some((trend, grows)) => writeln!(
                    formatter,
                    "{:28} {:>12} {:>12} {:>14} {:>14}{}",
                    series.name,
                    series.unit.show(trend.first),
                    series.unit.show(trend.last),
                    series.unit.show(trend.per_hour),
                    series.unit.show(trend.error),
                    if grows { "  GROWS" } else { "" }
                )?,
                None => writeln!(formatter, "{:28} too few minutes to tell", series.name)?,
            }
        }
        let (most, bound) = self.log_bytes;
        let verdict = if most <= bound { "" } else { "  TOO LONG" };
        writeln!(
            formatter,
            "longest log of a server {}, at most {}{verdict}",
            Unit::Disk.show(most as f64),
            Unit::Disk.show(bound as f64)
        )?;
        write!(formatter, "{}", self.account)?;
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
