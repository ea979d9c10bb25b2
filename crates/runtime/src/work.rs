//! Threads for blocking work, so that it does not delay other tasks.

use std::future::Future;

use tokio::runtime::{Handle, RuntimeFlavor};
use tokio::task::{JoinHandle, spawn_blocking};

/// Returns whether tasks have more than one thread, as in a daemon. On a single-threaded runtime all work runs on
/// that thread, so that the same events occur in the same order. Further threads would make the order random.
pub fn has_threads() -> bool {
    Handle::try_current().map_or(true, |handle| {
        handle.runtime_flavor() != RuntimeFlavor::CurrentThread
    })
}

/// Runs blocking work on a thread where it does not delay other tasks.
///
/// # Panics
/// The caller is outside of a tokio runtime.
pub fn blocking<T, W>(work: W) -> JoinHandle<T>
where
    W: FnOnce() -> T + Send + 'static,
    T: Send + 'static,
{
    if has_threads() {
        spawn_blocking(work)
    } else {
        tokio::spawn(async move { work() })
    }
}

/// Runs a compute-bound task on a thread of its own, where it does not delay other tasks.
///
/// # Panics
/// The caller is outside of a tokio runtime.
pub fn apart<F>(task: F) -> JoinHandle<F::Output>
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
{
    if has_threads() {
        let runtime = Handle::current();
        spawn_blocking(move || runtime.block_on(task))
    } else {
        tokio::spawn(task)
    }
}

#[cfg(test)]
mod tests {
    use std::thread::current;

    use super::*;

    #[tokio::test(flavor = "multi_thread", worker_threads = 1)]
    async fn a_daemons_work_has_threads_of_its_own() {
        let tasks = tokio::spawn(async { current().id() })
            .await
            .expect("it does not panic");
        let elsewhere = [
            blocking(|| current().id())
                .await
                .expect("it does not panic"),
            apart(async { current().id() })
                .await
                .expect("it does not panic"),
        ];
        assert!(
            elsewhere
                .iter()
                .all(|thread| *thread != tasks && *thread != current().id())
        );
    }

    #[tokio::test]
    async fn on_one_thread_all_work_is_done_there_in_turn() {
        let here = current().id();
        assert_eq!(
            blocking(|| current().id())
                .await
                .expect("it does not panic"),
            here
        );
        assert_eq!(
            apart(async { current().id() })
                .await
                .expect("it does not panic"),
            here
        );
        let failed = blocking(|| panic!("expected")).await;
        assert!(
            failed.is_err_and(|error| error.is_panic()),
            "a panic is told to who waits, as of a thread"
        );
    }
}
