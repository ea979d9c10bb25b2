//! Interval: a time between two looks into a model directory.

use std::path::Path;
use std::time::Duration;

use crate::model_dir::ModelDir;

/// A time between two looks into a model directory. Each look into a bucket costs several requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Interval {
    /// The time for a folder.
    pub folder: Duration,
    /// The time for a bucket.
    pub bucket: Duration,
}

impl Interval {
    /// Returns the time for a directory.
    pub fn of(self, model_dir: &Path) -> Duration {
        if ModelDir::is_bucket(model_dir) {
            self.bucket
        } else {
            self.folder
        }
    }
}
