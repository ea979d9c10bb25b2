//! Executor: the threads that read and write remote files, for blocking callers.

use std::future::Future;
use std::sync::mpsc::{RecvTimeoutError, sync_channel};
use std::time::Duration;

use tokio::runtime::{Builder, Handle, Runtime, RuntimeFlavor};
use tokio::task::block_in_place;

/// Number of threads that wait for the network.
const THREADS: usize = 2;

/// A separate runtime. Callers may be on any thread, also on a thread of another runtime.
#[derive(Debug)]
pub(crate) struct Executor(Option<Runtime>);

impl Executor {
    pub(crate) fn start() -> std::io::Result<Self> {
        let mut builder = Builder::new_multi_thread();
        builder
            .worker_threads(THREADS)
            .thread_name("storage")
            .enable_all();
        Ok(Self(Some(builder.build()?)))
    }

    pub(crate) fn handle(&self) -> Option<&Handle> {
        self.0.as_ref().map(Runtime::handle)
    }

    /// Waits for a value, at most `deadline`; returns nothing after that.
    pub(crate) fn wait<T: Send + 'static>(
        &self,
        deadline: Duration,
        future: impl Future<Output = T> + Send + 'static,
    ) -> Option<T> {
        let (sender, receiver) = sync_channel(1);
        let task = self.handle()?.spawn(async move {
            // The send fails if the caller no longer waits.
            let _ = sender.send(future.await);
        });
        match beside_tasks(|| receiver.recv_timeout(deadline)) {
            Ok(value) => Some(value),
            Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => {
                task.abort();
                None
            }
        }
    }
}

/// Blocks this thread. If the thread runs tasks of a daemon, another thread runs them meanwhile.
fn beside_tasks<T>(wait: impl FnOnce() -> T) -> T {
    match Handle::try_current().map(|runtime| runtime.runtime_flavor()) {
        Ok(RuntimeFlavor::MultiThread) => block_in_place(wait),
        _ => wait(),
    }
}

impl Drop for Executor {
    fn drop(&mut self) {
        // Inside another runtime, blocking until the threads have ended is not allowed.
        if let Some(runtime) = self.0.take() {
            runtime.shutdown_background();
        }
    }
}
