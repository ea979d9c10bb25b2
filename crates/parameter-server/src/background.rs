//! Background work with a lower scheduling priority than training.

use std::thread::Builder;

use tokio::sync::oneshot;
use trainyard_runtime::has_threads;

/// Increment of the niceness (`nice(2)`) of a background thread. On busy cores such a thread gets about a tenth of
/// the time of a thread that serves a step.
const NICENESS: i32 = 10;

/// Reason why work has no outcome.
#[derive(Debug, thiserror::Error)]
pub(crate) enum NotRun {
    /// The system gives no thread.
    #[error("cannot start a thread: {0}")]
    Thread(#[source] std::io::Error),
    #[error("the work has panicked")]
    Panicked,
}

impl From<NotRun> for String {
    fn from(error: NotRun) -> Self {
        error.to_string()
    }
}

/// Runs `work` on a thread of its own, at a lower priority than the threads that serve calls. Where all tasks share
/// one thread, `work` runs on that thread.
///
/// # Errors
/// No thread can be started, or `work` panicked.
pub(crate) async fn in_background<T, W>(name: &str, work: W) -> Result<T, NotRun>
where
    W: FnOnce() -> T + Send + 'static,
    T: Send + 'static,
{
    if !has_threads() {
        return tokio::spawn(async move { work() })
            .await
            .map_err(|_| NotRun::Panicked);
    }
    let (sender, outcome) = oneshot::channel();
    let thread = Builder::new().name(name.to_owned()).spawn(move || {
        // Linux keeps the niceness per thread, and every user may raise it.
        let _ = rustix::process::nice(NICENESS);
        // The caller may have been dropped.
        let _ = sender.send(work());
    });
    thread.map_err(NotRun::Thread)?;
    outcome.await.map_err(|_| NotRun::Panicked)
}

#[cfg(test)]
mod tests {
    use std::thread::current;

    use super::*;

    /// Returns the niceness of this thread: the 19th field of `stat`, counted from 1.
    fn niceness() -> i32 {
        let stat = std::fs::read_to_string("/proc/thread-self/stat").expect("Linux tells it");
        let (_, fields) = stat
            .rsplit_once(')')
            .expect("the name of the thread is in brackets");
        fields
            .split_whitespace()
            .nth(16)
            .expect("it is there")
            .parse()
            .expect("a number")
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 1)]
    async fn work_in_the_background_gives_way_and_its_caller_does_not() {
        let before = niceness();
        let there = in_background("test", niceness).await.expect("it is done");
        assert_eq!(there, (before + NICENESS).min(19));
        assert_eq!(niceness(), before);
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 1)]
    async fn work_that_panics_is_an_error() {
        let outcome: Result<(), NotRun> = in_background("test", || panic!("on purpose")).await;
        assert!(outcome.is_err());
    }

    #[tokio::test]
    async fn where_tasks_share_a_thread_the_work_is_done_on_it() {
        let here = current().id();
        let there = in_background("test", move || current().id()).await;
        assert_eq!(there.expect("it is done"), here);
    }
}
