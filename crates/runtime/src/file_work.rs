//! Work on files that tells when it takes long: a disk that hangs, or a network file system whose server is away, answers
//! nothing and gives no error.

use std::future::Future;
use std::path::Path;
use std::pin::pin;
use std::time::Duration;

use metrics::gauge;
use tokio::time::{Instant, sleep_until};
use tracing::warn;

/// Time before the first notice.
const FIRST_NOTICE_AFTER: Duration = Duration::from_secs(2);
/// Time between two notices.
const NOTICE_INTERVAL: Duration = Duration::from_secs(10);

/// A kind of work on files, as metrics and log lines name it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileWork {
    /// Writing and removing checkpoints.
    Checkpoint,
    /// Writing the log of updates.
    Log,
    /// Writing the cuts that servers of predictions follow.
    PublishedCut,
    /// Writing the history of the run.
    History,
}

impl FileWork {
    fn name(self) -> &'static str {
        match self {
            Self::Checkpoint => "checkpoint",
            Self::Log => "log",
            Self::PublishedCut => "published_cut",
            Self::History => "history",
        }
    }
}

/// Sets the metric of a kind of work to the age of its oldest unfinished part.
pub fn tell_file_wait(work: FileWork, age: Duration) {
    gauge!("trainyard_file_wait_seconds", "work" => work.name()).set(age.as_secs_f64());
}

/// A wait that the metric shows until this value is dropped.
struct Shown(FileWork);

impl Drop for Shown {
    fn drop(&mut self) {
        tell_file_wait(self.0, Duration::ZERO);
    }
}

/// Waits for work on files below `path`. From 2 s on, a line of the log every 10 s and the gauge
/// `trainyard_file_wait_seconds` say for how long it has gone on.
pub async fn tell_if_slow<F: Future>(work: FileWork, path: &Path, done: F) -> F::Output {
    let mut done = pin!(done);
    let begun = Instant::now();
    let mut next = begun + FIRST_NOTICE_AFTER;
    let mut shown = None;
    loop {
        tokio::select! {
            biased;
            output = &mut done => {
                if shown.is_some() {
                    let seconds = format!("{:.1}", begun.elapsed().as_secs_f64());
                    warn!(work = work.name(), path = %path.display(), seconds, "the files have answered");
                }
                return output;
            }
            () = sleep_until(next) => {
                let age = begun.elapsed();
                shown.get_or_insert(Shown(work));
                tell_file_wait(work, age);
                warn!(
                    work = work.name(),
                    path = %path.display(),
                    seconds = format!("{:.1}", age.as_secs_f64()),
                    "waiting for files: the disk is slow, or it hangs"
                );
                next += NOTICE_INTERVAL;
            }
        }
    }
}
