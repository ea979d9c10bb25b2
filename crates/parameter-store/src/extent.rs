//! Extent of a snapshot: the rows that it reads.

/// The rows that a snapshot reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Extent {
    /// Every held row.
    Whole,
    /// Every held row. Later increments may be based on this snapshot.
    Base,
    /// The rows that have changed since the base.
    Increment,
    /// Every held row, for the log of the server. Later cuts of the log count from this one.
    LogWhole,
    /// The rows that have changed since the cut of the log before. Later cuts of the log count from this one.
    LogIncrement,
}
