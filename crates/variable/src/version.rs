//! How often values have changed, with the unit in which it is counted.

use std::fmt;

/// Number of synchronous steps that the values have had: the step that schedules and bias corrections see. All stores of
/// a job that count steps count the same ones.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StepNumber(u64);

impl StepNumber {
    /// Before the first step.
    pub const FIRST: Self = Self(0);

    /// Returns the number of this many steps.
    pub const fn new(steps: u64) -> Self {
        Self(steps)
    }

    /// Returns how many steps these are.
    pub const fn get(self) -> u64 {
        self.0
    }

    /// Returns the number after one step more.
    pub const fn next(self) -> Self {
        Self(self.0 + 1)
    }

    /// Returns the number after so many steps more.
    pub const fn after(self, steps: u64) -> Self {
        Self(self.0.saturating_add(steps))
    }

    /// Returns the steps since an earlier number; 0 if it is not earlier.
    pub const fn since(self, earlier: Self) -> u64 {
        self.0.saturating_sub(earlier.0)
    }
}

impl fmt::Display for StepNumber {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(formatter)
    }
}

/// How often the values of a store have changed. Stores that count in different units have nothing to compare.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Version {
    /// Synchronous steps, which are common to all stores that count them.
    Steps(StepNumber),
    /// Pushes: each is an update of its own, and each store counts those that it has applied.
    Pushes(u64),
}

impl Version {
    /// Returns the count, whatever is counted.
    pub const fn count(self) -> u64 {
        match self {
            Self::Steps(step) => step.get(),
            Self::Pushes(pushes) => pushes,
        }
    }

    /// Returns the synchronous steps; `None` if pushes are counted.
    pub const fn steps(self) -> Option<StepNumber> {
        match self {
            Self::Steps(step) => Some(step),
            Self::Pushes(_) => None,
        }
    }
}

impl fmt::Display for Version {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.count().fmt(formatter)
    }
}
