//! SIGTERM and SIGINT, by which a process is told to stop.

use nix::sys::signal::{SigSet, SigmaskHow, Signal as Number};
use tokio::signal::unix::{Signal, SignalKind, signal};

/// Starts a thread that no signal of the process goes to: one that arrived there while [`StopSignals::catch`] holds signals back
/// would have no effect.
///
/// # Errors
/// The system gives no thread, or does not let this process hold signals back.
pub(crate) fn spawn_without_signals(
    name: &str,
    work: impl FnOnce() + Send + 'static,
) -> std::io::Result<()> {
    let before = SigSet::all().thread_swap_mask(SigmaskHow::SIG_BLOCK)?;
    // A thread begins with the mask of the one that starts it.
    let thread = std::thread::Builder::new()
        .name(name.to_owned())
        .spawn(work);
    before.thread_set_mask()?;
    thread.map(drop)
}

/// Streams of SIGTERM and SIGINT, which no longer end the process.
#[derive(Debug)]
pub struct StopSignals {
    terminate: Signal,
    interrupt: Signal,
}

impl StopSignals {
    /// Catches both signals. Called within a runtime.
    ///
    /// A signal that arrives meanwhile is held back, and is received afterwards: tokio first installs the handler and then says
    /// what it does, and a signal in between would have no effect at all. Other threads, if there are any, hold nothing back.
    ///
    /// # Errors
    /// The system does not let this process catch signals.
    pub fn catch() -> std::io::Result<Self> {
        let both = SigSet::from_iter([Number::SIGTERM, Number::SIGINT]);
        let before = both.thread_swap_mask(SigmaskHow::SIG_BLOCK)?;
        let caught = signal(SignalKind::terminate()).and_then(|terminate| {
            let interrupt = signal(SignalKind::interrupt())?;
            Ok(Self {
                terminate,
                interrupt,
            })
        });
        before.thread_set_mask()?;
        caught
    }

    /// Waits for the next signal.
    pub async fn next(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }
}
