//! Command lines that an exception of a signal handler of Python ends: Ctrl-C, and SIGTERM if there is a handler.

use std::sync::mpsc::{RecvTimeoutError, sync_channel};
use std::time::Duration;

use pyo3::exceptions::PyRuntimeError;
use pyo3::{PyErr, PyResult, Python};
use trainyard_command::Ended;
use trainyard_daemon::{CancellationToken, StopSource};

use crate::console::PythonConsole;

/// Time between two calls of Python's signal handlers, and of the console.
const POLL_INTERVAL: Duration = Duration::from_millis(100);
/// Stack of the thread, in bytes: that of a main thread. The module is built on it.
const STACK_BYTES: usize = 8 << 20;

/// Runs a command line on a thread of its own, and meanwhile Python's signal handlers on this one, which Python calls on its
/// main thread alone. The run catches no signal itself, so that Python's handlers stay as they are.
///
/// `console` is also called on this thread. An exception of a handler, or of the console, asks the run to stop, and is raised
/// when it has ended. A second one is raised at once.
///
/// # Errors
/// The exception of a handler or of the console, or the thread cannot be started.
pub(crate) fn interruptible(
    python: Python<'_>,
    console: Option<PythonConsole>,
    run: impl FnOnce(StopSource) -> Ended + Send + 'static,
) -> PyResult<Ended> {
    let stop = CancellationToken::new();
    let (sender, mut receiver) = sync_channel(1);
    let source = StopSource::Caller(stop.clone());
    let work = move || drop(sender.send(run(source)));
    let thread = std::thread::Builder::new()
        .name("trainyard".to_owned())
        .stack_size(STACK_BYTES)
        .spawn(work)
        .map_err(|error| PyRuntimeError::new_err(format!("a thread cannot be started: {error}")))?;
    let deliver = || {
        console
            .as_ref()
            .map_or(Ok(()), |console| console.deliver(python))
    };
    let mut interrupt: Option<PyErr> = None;
    loop {
        let ended = &mut receiver;
        match python.detach(move || ended.recv_timeout(POLL_INTERVAL)) {
            Ok(ended) => {
                let delivered = deliver();
                return interrupt.map_or(delivered, Err).map(|()| ended);
            }
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => match thread.join() {
                Err(panic) => std::panic::resume_unwind(panic),
                Ok(()) => {
                    return Err(PyRuntimeError::new_err(
                        "the run has ended without a result",
                    ));
                }
            },
        }
        if let Err(error) = python.check_signals().and_then(|()| deliver()) {
            if interrupt.is_some() {
                return Err(error);
            }
            stop.cancel();
            interrupt = Some(error);
        }
    }
}
