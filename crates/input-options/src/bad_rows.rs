//! Treatment of bad records.

use serde::Serialize;

/// Treatment of a record that cannot be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum BadRows {
    /// Stop at the first bad record.
    Fail,
    /// Skip the record and write it to the dead-letter file. Stop after more than `bad_rows_max` records.
    Skip,
}

impl BadRows {
    /// Every treatment with its name in a job file.
    pub const NAMES: [(&'static str, Self); 2] = [("fail", Self::Fail), ("skip", Self::Skip)];
}
