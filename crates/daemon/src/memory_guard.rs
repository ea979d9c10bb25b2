//! Guard of the memory of a process under the limit of a control group: it ends with a message and an exit code that is not
//! repeated, before the kernel kills it without a word.
//!
//! The kernel kills the largest process of the group whose limit is reached. The guard of the others only warns.

use std::path::Path;
use std::time::Duration;

use tokio::time::Instant;
use tracing::warn;
use trainyard_diagnostic::{Code, Diagnostic};
use trainyard_runtime::MemoryLimit;

use crate::LogFormat;
use crate::report::report;
use crate::stop_signals::spawn_without_signals;

/// One in so many bytes of the limit are kept free, at most [`KEPT_BYTES_MAX`]. Threads that touch new pages take megabytes
/// between two looks.
const KEPT_PART: u64 = 16;
const KEPT_BYTES_MAX: u64 = 64 << 20;
/// Fastest growth of a process, in bytes a second, which says when to look again.
const GROWTH: u64 = 4 << 30;
/// Shortest and longest time between two looks.
const LOOK_INTERVAL: [Duration; 2] = [Duration::from_millis(1), Duration::from_millis(500)];
/// The guard's own priority, the highest that there is: on a machine with more threads than cores, one that waits for its turn
/// looks too late.
const NICE: i32 = -20;
/// A process with less than one in so many of the bytes in use is not the cause.
const CAUSE_PART: u64 = 8;
/// Time between two warnings.
const WARN_INTERVAL: Duration = Duration::from_secs(10);

/// What a guard does.
#[derive(Debug, PartialEq, Eq)]
enum Act {
    /// It looks again after this time.
    Look(Duration),
    /// It gives back the freed memory that the allocator keeps, and looks again at once.
    GiveBack,
    /// It ends this process, which is the largest one.
    End,
    /// It warns of this process, which is the largest one.
    Warn(Process),
}

/// A process of the group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Process {
    id: u32,
    /// Resident bytes.
    bytes: u64,
}

fn kept(limit: u64) -> u64 {
    (limit / KEPT_PART).min(KEPT_BYTES_MAX)
}

/// `gave_back` says whether the allocator has just given back what it keeps.
fn decide(
    limit: u64,
    used: u64,
    gave_back: bool,
    own: Process,
    others: impl FnOnce() -> Vec<Process>,
) -> Act {
    let left = limit.saturating_sub(used).saturating_sub(kept(limit));
    if left > 0 {
        let [shortest, longest] = LOOK_INTERVAL;
        let until_full = Duration::from_secs_f64(left as f64 / GROWTH as f64);
        return Act::Look(until_full.clamp(shortest, longest));
    }
    if !gave_back {
        return Act::GiveBack;
    }
    let largest = others()
        .into_iter()
        .filter(|process| process.id != own.id)
        .max_by_key(|process| process.bytes)
        .filter(|other| other.bytes > own.bytes);
    match largest {
        Some(other) => Act::Warn(other),
        None if own.bytes >= used / CAUSE_PART => Act::End,
        None => Act::Look(LOOK_INTERVAL[1]),
    }
}

fn resident(id: u32) -> Option<Process> {
    let text = std::fs::read_to_string(format!("/proc/{id}/statm")).ok()?;
    let pages: u64 = text.split_whitespace().nth(1)?.parse().ok()?;
    let bytes = pages * rustix::param::page_size() as u64;
    Some(Process { id, bytes })
}

fn processes(group: &Path) -> Vec<Process> {
    let text = std::fs::read_to_string(group.join("cgroup.procs")).unwrap_or_default();
    let ids = text.lines().filter_map(|line| line.parse().ok());
    ids.filter_map(resident).collect()
}

/// Gives freed memory back to the kernel. The allocator keeps it until it looks again, a second later at the earliest: meanwhile
/// it counts as use under a memory limit.
#[expect(unsafe_code, reason = "the allocator is written in C")]
pub fn give_back_freed_memory() {
    // SAFETY: the function takes no pointer, and any thread may call it at any time.
    unsafe { libmimalloc_sys::mi_collect(true) }
}

/// Guards the memory of this process from now on, on a thread of its own, if a control group limits it.
pub(crate) fn guard_memory(format: LogFormat) {
    let Some((limit, group)) = MemoryLimit::of_process().and_then(|limit| {
        limit
            .group()
            .map(Path::to_owned)
            .map(|group| (limit, group))
    }) else {
        return;
    };
    let started = spawn_without_signals("memory guard", move || guard(&limit, &group, format));
    if let Err(error) = started {
        warn!(%error, "the memory of this process is not guarded");
    }
}

fn guard(limit: &MemoryLimit, group: &Path, format: LogFormat) {
    // The system may forbid it. It is of this thread alone.
    let _ = rustix::process::setpriority_process(None, NICE);
    let mut warned: Option<Instant> = None;
    let mut gave_back = false;
    let id = std::process::id();
    // The limit may be changed while the process runs.
    while let (Some(limit), Some(own)) = (limit.again(), resident(id)) {
        let used = limit.used().unwrap_or_default();
        let act = decide(limit.bytes(), used, gave_back, own, || processes(group));
        gave_back = act == Act::GiveBack;
        match act {
            Act::Look(interval) => std::thread::sleep(interval),
            Act::GiveBack => give_back_freed_memory(),
            Act::Warn(other) => {
                if warned.is_none_or(|at| at.elapsed() >= WARN_INTERVAL) {
                    warned = Some(Instant::now());
                    warn!(
                        used,
                        "{limit} is nearly used up, and process {} has {} bytes of it",
                        other.id,
                        other.bytes
                    );
                }
                std::thread::sleep(LOOK_INTERVAL[0]);
            }
            Act::End => {
                report(&[refusal(&limit, used, own)], format);
                std::process::exit(Code::E3009.exit.into());
            }
        }
    }
}

fn refusal(limit: &MemoryLimit, used: u64, own: Process) -> Diagnostic {
    let message = format!(
        "this process has {} bytes of memory, and {limit} is nearly used up: it ends before the kernel kills it",
        own.bytes
    );
    Diagnostic::error(Code::E3009, message)
        .note(format!(
            "{used} bytes are in use: other processes under the limit count, and files in memory, as a server's log in /dev/shm"
        ))
        .help("raise the memory limit, or need less: a smaller batch_size, fewer batches read ahead, fewer tasks under one limit")
}

#[cfg(test)]
mod tests {
    use super::*;

    const MB: u64 = 1 << 20;

    fn process(id: u32, bytes: u64) -> Process {
        Process { id, bytes }
    }

    fn nobody() -> Vec<Process> {
        panic!("others are not looked at while there is room")
    }

    #[test]
    fn the_nearer_the_limit_is_the_sooner_the_guard_looks_again() {
        let own = process(7, 100 * MB);
        let look = |used| match decide(4096 * MB, used, false, own, nobody) {
            Act::Look(interval) => interval,
            other => panic!("{other:?}"),
        };
        assert_eq!(look(100 * MB), Duration::from_millis(500));
        assert_eq!(
            look(4096 * MB - 64 * MB - 256 * MB),
            Duration::from_micros(62_500)
        );
        assert_eq!(look(4096 * MB - 64 * MB - 1), Duration::from_millis(1));
    }

    #[test]
    fn freed_memory_is_given_back_before_a_process_is_blamed() {
        let (limit, used) = (640 * MB, 631 * MB);
        let own = process(7, 300 * MB);
        assert_eq!(decide(limit, used, false, own, nobody), Act::GiveBack);
        let act = decide(limit, used, true, own, || vec![own]);
        assert_eq!(act, Act::End);
    }

    #[test]
    fn only_the_largest_process_of_the_group_ends_itself() {
        let (limit, used) = (640 * MB, 631 * MB);
        let own = process(7, 300 * MB);
        let others = |bytes| move || vec![own, process(8, bytes), process(9, MB)];
        assert_eq!(decide(limit, used, true, own, others(299 * MB)), Act::End);
        let larger = process(8, 301 * MB);
        assert_eq!(
            decide(limit, used, true, own, others(301 * MB)),
            Act::Warn(larger)
        );
    }

    #[test]
    fn a_small_process_is_not_blamed_for_what_it_cannot_see() {
        let own = process(7, 50 * MB);
        let act = decide(640 * MB, 639 * MB, true, own, || vec![own]);
        assert_eq!(act, Act::Look(Duration::from_millis(500)));
    }
}
