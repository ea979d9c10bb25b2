//! Units in which numbers count time.

use serde::Serialize;

/// Unit of a column of times.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum TimeUnit {
    /// Seconds.
    Seconds,
    /// Milliseconds.
    Milliseconds,
    /// Microseconds.
    Microseconds,
    /// Nanoseconds.
    Nanoseconds,
}

impl TimeUnit {
    /// Every unit with its name in a job file.
    pub const NAMES: [(&'static str, Self); 4] = [
        ("seconds", Self::Seconds),
        ("milliseconds", Self::Milliseconds),
        ("microseconds", Self::Microseconds),
        ("nanoseconds", Self::Nanoseconds),
    ];

    /// Returns the name of the unit in a job file.
    pub fn name(self) -> &'static str {
        match self {
            Self::Seconds => "seconds",
            Self::Milliseconds => "milliseconds",
            Self::Microseconds => "microseconds",
            Self::Nanoseconds => "nanoseconds",
        }
    }

    /// Returns the number of units in a second.
    pub fn per_second(self) -> i64 {
        match self {
            Self::Seconds => 1,
            Self::Milliseconds => 1_000,
            Self::Microseconds => 1_000_000,
            Self::Nanoseconds => 1_000_000_000,
        }
    }
}
