//! SIGTERM, SIGINT and SIGHUP, by which a process is told to stop: by a service manager, at the keyboard, and by the end of the
//! terminal or of the connection in which it was started.

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

/// Exit code of a process that a signal has ended, less the number of the signal.
const SIGNALLED: i32 = 128;

/// Streams of the signals, which no longer end the process.
#[derive(Debug)]
pub struct StopSignals {
    terminate: Signal,
    interrupt: Signal,
    /// Absent if the process was started to ignore it, as by `nohup`: its end is not that of its terminal.
    hangup: Option<Signal>,
}

impl StopSignals {
    /// Catches the signals. Called within a runtime.
    ///
    /// A signal that arrives meanwhile is held back, and is received afterwards: tokio first installs the handler and then says
    /// what it does, and a signal in between would have no effect at all. Other threads, if there are any, hold nothing back.
    ///
    /// # Errors
    /// The system does not let this process catch signals.
    pub fn catch() -> std::io::Result<Self> {
        let all = SigSet::from_iter([Number::SIGTERM, Number::SIGINT, Number::SIGHUP]);
        let before = all.thread_swap_mask(SigmaskHow::SIG_BLOCK)?;
        let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
        let hangs_up = !ignores(&status, Number::SIGHUP);
        let caught = signal(SignalKind::terminate()).and_then(|terminate| {
            let interrupt = signal(SignalKind::interrupt())?;
            let hangup = hangs_up.then(|| signal(SignalKind::hangup())).transpose()?;
            Ok(Self {
                terminate,
                interrupt,
                hangup,
            })
        });
        before.thread_set_mask()?;
        caught
    }

    /// Waits for the next signal.
    pub async fn next(&mut self) {
        self.next_number().await;
    }

    async fn next_number(&mut self) -> Number {
        tokio::select! {
            _ = self.terminate.recv() => Number::SIGTERM,
            _ = self.interrupt.recv() => Number::SIGINT,
            () = received(self.hangup.as_mut()) => Number::SIGHUP,
        }
    }
}

/// Does some work when a signal tells this process to stop, and then ends the process with the exit code that shells have for the signal.
/// Returns once the signals are caught.
///
/// # Errors
/// The system gives no thread, or does not let this process catch signals.
pub fn at_stop_signal(work: impl FnOnce() + Send + 'static) -> std::io::Result<()> {
    let (sender, caught) = std::sync::mpsc::channel();
    spawn_without_signals("stop signals", move || {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build();
        let wait = |runtime: tokio::runtime::Runtime| {
            runtime.block_on(async {
                let mut signals = StopSignals::catch()?;
                // The caller waits for it.
                let _ = sender.send(Ok(()));
                Ok(signals.next_number().await)
            })
        };
        match runtime.and_then(wait) {
            Ok(signal) => {
                work();
                std::process::exit(SIGNALLED + signal as i32);
            }
            Err(error) => drop(sender.send(Err(error))),
        }
    })?;
    let ended = |_| std::io::Error::other("the thread that waits for signals has ended");
    caught.recv().map_err(ended)?
}

async fn received(signal: Option<&mut Signal>) {
    match signal {
        Some(signal) => drop(signal.recv().await),
        None => std::future::pending().await,
    }
}

/// Returns whether a process ignores a signal, by its `/proc/<id>/status`.
fn ignores(status: &str, signal: Number) -> bool {
    let mask = status
        .lines()
        .find_map(|line| line.strip_prefix("SigIgn:"))
        .and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    mask.is_some_and(|mask| mask >> (signal as u64 - 1) & 1 == 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_ignores_the_signals_whose_bit_is_set() {
        let status = "Name:\tx\nSigIgn:\t0000000000001001\nSigCgt:\t0000000000000002\n";
        assert!(ignores(status, Number::SIGHUP));
        assert!(ignores(status, Number::SIGPIPE));
        for other in [Number::SIGINT, Number::SIGTERM] {
            assert!(!ignores(status, other), "{other}");
        }
        assert!(!ignores("", Number::SIGHUP), "a kernel that tells nothing");
    }
}
