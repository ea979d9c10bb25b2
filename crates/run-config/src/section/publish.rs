//! `[publish]`: publication of the values of a running job.

use serde::Serialize;
use trainyard_diagnostic::{Section, section};

/// Longest interval between cuts, in seconds.
const EVERY_SECS_MAX: u64 = 86_400;

section! {
    /// Publication of the values of a running job, for servers of predictions that follow training.
    #[derive(Debug, Clone, PartialEq, Eq, Serialize)]
    pub struct PublishConfig {
        /// seconds between cuts of the values, which servers of predictions read from `publish` in `model_dir`; 0 = none
        /// ([serving.md](serving.md#following-training))
        every_secs: u64 = integer(0..=EVERY_SECS_MAX).or(0);
    }
}

pub(crate) fn read(section: Section<'_>) -> Option<PublishConfig> {
    let publish = PublishConfig::read_keys(&section)?;
    section.finish();
    Some(publish)
}
