//! Tells that threads of this process wait for a disk: one that hangs, or a network file system whose server is away, answers
//! nothing and gives no error.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::time::Duration;

use tokio::time::Instant;
use tracing::warn;
use trainyard_runtime::{FILE_NOTICE_AFTER, FILE_NOTICE_INTERVAL};

use crate::stop_signals::spawn_without_signals;

/// Time between two looks at the threads.
const LOOK_INTERVAL: Duration = Duration::from_secs(1);

/// A wait of a thread that nothing interrupts.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Wait {
    thread: String,
    /// How often the thread has waited before.
    nth: u64,
}

impl Wait {
    /// Returns the wait in the text of `/proc/self/task/THREAD/status`; `None` if the thread does not wait for a device.
    fn parse(thread: String, status: &str) -> Option<Self> {
        let value = |name: &str| {
            let mut lines = status.lines();
            lines.find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))
        };
        let waits = value("State")?.trim_start().starts_with('D');
        let nth = value("voluntary_ctxt_switches")?.trim().parse().ok()?;
        waits.then_some(Self { thread, nth })
    }
}

/// The waits of a process. Pure: the time is an argument.
#[derive(Debug, Default)]
struct Waits {
    since: BTreeMap<Wait, Instant>,
    told: Option<Instant>,
}

/// The longest wait of a process.
#[derive(Debug, PartialEq, Eq)]
struct Longest {
    thread: String,
    age: Duration,
    is_notice_due: bool,
}

impl Waits {
    /// Looks at the waits of `now`. Returns the longest, if it is worth a notice.
    fn look(&mut self, now: Instant, found: Vec<Wait>) -> Option<Longest> {
        self.since.retain(|wait, _| found.contains(wait));
        for wait in found {
            self.since.entry(wait).or_insert(now);
        }
        let longest = self.since.iter().min_by_key(|(_, since)| **since);
        let (thread, age) = longest.map(|(wait, since)| (&wait.thread, now - *since))?;
        if age < FILE_NOTICE_AFTER {
            return None;
        }
        let is_notice_due = self
            .told
            .is_none_or(|told| now - told >= FILE_NOTICE_INTERVAL);
        if is_notice_due {
            self.told = Some(now);
        }
        Some(Longest {
            thread: thread.clone(),
            age,
            is_notice_due,
        })
    }
}

/// A watch over the threads of this process, until it is dropped. It logs what they wait for from 2 s on, every 10 s.
#[derive(Debug)]
pub struct DiskWatch {
    _is_watching: Sender<()>,
}

impl DiskWatch {
    /// Begins.
    pub fn begin() -> Self {
        Self::telling(|_| {})
    }

    /// Begins. `tell` learns each second how long the longest wait is, 0 up to 2 seconds.
    pub fn telling(tell: impl Fn(Duration) + Send + 'static) -> Self {
        let (is_watching, ended) = channel::<()>();
        let watch = move || {
            let mut waits = Waits::default();
            while ended.recv_timeout(LOOK_INTERVAL) == Err(RecvTimeoutError::Timeout) {
                let longest = waits.look(Instant::now(), found());
                tell(longest.as_ref().map_or(Duration::ZERO, |wait| wait.age));
                if let Some(wait) = longest.filter(|wait| wait.is_notice_due) {
                    let seconds = format!("{:.1}", wait.age.as_secs_f64());
                    match file_of(&wait.thread) {
                        Some(path) => {
                            warn!(path = %path.display(), seconds, "waiting for a disk: it is slow, or it hangs")
                        }
                        None => warn!(seconds, "waiting for a disk: it is slow, or it hangs"),
                    }
                }
            }
        };
        // Without a thread for it, nothing is told.
        drop(spawn_without_signals("disk-watch", watch));
        Self {
            _is_watching: is_watching,
        }
    }
}

/// Returns the waits of the threads of this process.
fn found() -> Vec<Wait> {
    let Ok(threads) = std::fs::read_dir("/proc/self/task") else {
        return Vec::new();
    };
    let threads = threads.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    threads
        .filter_map(|thread| {
            let status = std::fs::read_to_string(format!("/proc/self/task/{thread}/status"));
            Wait::parse(thread, &status.ok()?)
        })
        .collect()
}

/// Returns the file that the system call of a thread works on, if the call names it by its number.
fn file_of(thread: &str) -> Option<PathBuf> {
    let call = std::fs::read_to_string(format!("/proc/self/task/{thread}/syscall")).ok()?;
    let number = call.split_whitespace().nth(1)?.strip_prefix("0x")?;
    let number = u32::from_str_radix(number, 16).ok()?;
    let path = std::fs::read_link(format!("/proc/self/fd/{number}")).ok()?;
    path.is_absolute()
        .then_some(path)
        .filter(|path| !path.starts_with(Path::new("/dev")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status(state: char, nth: u64) -> String {
        format!(
            "Name:\ttrainyard\nState:\t{state} (some words)\nPid:\t7\nvoluntary_ctxt_switches:\t{nth}\nnonvoluntary_ctxt_switches:\t3\n"
        )
    }

    #[test]
    fn only_a_thread_that_nothing_interrupts_waits_for_a_device() {
        let wait = |state| Wait::parse("7".to_owned(), &status(state, 41));
        let thread = "7".to_owned();
        assert_eq!(wait('D'), Some(Wait { thread, nth: 41 }));
        for state in ['S', 'R', 'T', 'Z'] {
            assert_eq!(wait(state), None, "{state}");
        }
        assert!(found().is_empty() || found().len() < 100, "this process");
    }

    #[test]
    fn one_long_wait_is_told_every_ten_seconds_and_many_short_ones_are_not() {
        let begun = Instant::now();
        let at = |secs: u64| begun + Duration::from_secs(secs);
        let wait = |nth| {
            let thread = "7".to_owned();
            vec![Wait { thread, nth }]
        };
        let mut waits = Waits::default();
        for second in 0..20 {
            assert_eq!(waits.look(at(second), wait(second)), None);
        }
        let told: Vec<u64> = (20..45)
            .filter(|second| {
                let found = waits.look(at(*second), wait(19));
                found.is_some_and(|longest| longest.is_notice_due)
            })
            .collect();
        assert_eq!(told, [21, 31, 41]);
        assert_eq!(waits.look(at(45), Vec::new()), None);
    }
}
