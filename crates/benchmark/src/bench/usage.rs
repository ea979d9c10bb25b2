//! Processor time of processes, as the kernel counts it.

use std::time::Duration;

/// Clock ticks of `/proc` in a second, on every Linux.
const TICKS_PER_SECOND: u64 = 100;

/// Returns the processor time of a process so far, user and system. Returns `None` if it cannot be read.
pub(super) fn of_process(pid: u32) -> Option<Duration> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name of the program stands in brackets and may hold any character, so fields are counted from the last
    // bracket.
    let (_, fields) = text.rsplit_once(')')?;
    let mut times = fields
        .split_whitespace()
        .skip(11)
        .take(2)
        .map(|field| field.parse::<u64>().ok());
    let ticks = times.next()?? + times.next()??;
    Some(Duration::from_millis(ticks * 1000 / TICKS_PER_SECOND))
}

/// Returns the most memory that a process has held, in bytes. Returns `None` if it cannot be read.
pub(super) fn peak_bytes(pid: u32) -> Option<u64> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    line.trim()
        .trim_end_matches("kB")
        .trim()
        .parse::<u64>()
        .ok()
        .map(|kib| kib << 10)
}
