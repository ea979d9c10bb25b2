//! Work on files that tells when it takes long: a disk that hangs, or a network file system whose server is away, answers
//! nothing and gives no error.

use std::future::Future;
use std::path::Path;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use metrics::gauge;
use tokio::time::{Instant, sleep};
use tracing::warn;

use crate::{FileStall, FoundFiles};

/// Time between two looks whether work goes on.
const LOOK_INTERVAL: Duration = Duration::from_secs(1);

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
    /// Reading and marking model_dir at the start.
    Start,
    /// Any work of a task that names none.
    Any,
}

impl FileWork {
    fn name(self) -> &'static str {
        match self {
            Self::Checkpoint => "checkpoint",
            Self::Log => "log",
            Self::PublishedCut => "published_cut",
            Self::History => "history",
            Self::Start => "start",
            Self::Any => "any",
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

/// Counts the parts of a long work on files as they are done. Its clones count together.
#[derive(Debug, Clone, Default)]
pub struct Progress(Arc<AtomicU64>);

impl Progress {
    /// Counts a part that is done.
    pub fn step(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    fn parts(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// Waits for work on files below `path`. From 2 s on, a line of the log every 10 s and the gauge
/// `trainyard_file_wait_seconds` say for how long it has gone on.
pub async fn tell_if_slow<F: Future>(work: FileWork, path: &Path, done: F) -> F::Output {
    tell_if_stuck(work, path, &Progress::default(), done).await
}

/// Waits for work on files below `path`, however long it takes. If no part of it gets done for 2 s, a line of the log every
/// 10 s and the gauge `trainyard_file_wait_seconds` say for how long it has been stuck.
pub async fn tell_if_stuck<F: Future>(
    work: FileWork,
    path: &Path,
    progress: &Progress,
    done: F,
) -> F::Output {
    let mut done = pin!(done);
    let mut stall = FileStall::default();
    stall.look(Instant::now(), Some(progress.parts()));
    let mut shown = None;
    loop {
        let output = tokio::select! {
            biased;
            output = &mut done => Some(output),
            () = sleep(LOOK_INTERVAL) => None,
        };
        let part = output.is_none().then(|| progress.parts());
        match stall.look(Instant::now(), part) {
            FoundFiles::Working => {}
            FoundFiles::WorkingAgain(after) => {
                shown = None;
                let seconds = format!("{:.1}", after.as_secs_f64());
                warn!(work = work.name(), path = %path.display(), seconds, "the files have answered");
            }
            FoundFiles::Stalled { age, is_notice_due } => {
                shown.get_or_insert(Shown(work));
                tell_file_wait(work, age);
                if is_notice_due {
                    let seconds = format!("{:.1}", age.as_secs_f64());
                    warn!(work = work.name(), path = %path.display(), seconds, "waiting for files: the disk is slow, or it hangs");
                }
            }
        }
        if let Some(output) = output {
            return output;
        }
    }
}
