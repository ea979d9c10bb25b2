//! What `trainyard analyze` makes of the training data before training: vocabularies and boundaries of buckets.

use std::path::PathBuf;

/// Whether the files that features name must be there when a job is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FilesNeeded {
    /// They must be.
    Now,
    /// They are about to be made, if the job says how. Features have values that stand for theirs.
    NotYet,
}

/// How a file is made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AnalysisRule {
    /// The values that occur at least so often.
    Vocabulary {
        /// Occurrences, at least 1.
        min_count: u64,
    },
    /// Numbers that divide those of the records.
    Boundaries {
        /// Most boundaries, at least 1.
        quantiles: usize,
        /// What they divide the numbers into.
        purpose: BoundaryPurpose,
    },
}

/// Purpose of boundaries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BoundaryPurpose {
    /// Buckets: quantiles of the records, and of the distinct numbers.
    Buckets,
    /// Bins of an encoding: the same, and the least and the greatest number besides.
    Bins,
    /// Quantiles of the records alone, from the least number to the greatest, equal ones as often as they occur.
    Quantiles,
}

/// A file that is made for a feature.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Analysis {
    /// Place of the feature in the job.
    pub feature: usize,
    /// The file. Several features may name the same one.
    pub file: PathBuf,
    /// How it is made.
    pub rule: AnalysisRule,
}
