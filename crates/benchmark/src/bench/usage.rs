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

/// Returns the time in which cores of this machine had nothing to do since its start, added up. Returns `None` if it cannot be read.
pub(super) fn idle() -> Option<Duration> {
    idle_of(&std::fs::read_to_string("/proc/stat").ok()?)
}

/// Finds the idle time in the text of `/proc/stat`: `idle` and `iowait`, the fourth and the fifth number of all processors.
fn idle_of(stat: &str) -> Option<Duration> {
    let line = stat.lines().find_map(|line| line.strip_prefix("cpu "))?;
    let mut idle = line.split_whitespace().skip(3).take(2);
    let ticks = idle.next()?.parse::<u64>().ok()? + idle.next()?.parse::<u64>().ok()?;
    Some(Duration::from_millis(ticks * 1000 / TICKS_PER_SECOND))
}

/// Returns how many cores had nothing to do in `seconds` seconds that began with this idle time.
pub(super) fn idle_cores(before: Option<Duration>, seconds: f64) -> Option<f64> {
    let idle = idle()?.saturating_sub(before?);
    Some(idle.as_secs_f64() / seconds.max(1e-9))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn idle_time_is_that_of_all_processors() {
        let stat = "cpu  100 1 50 4000 250 0 3 0 0 0\ncpu0 60 1 20 2000 100 0 3 0 0 0\n";
        assert_eq!(idle_of(stat), Some(Duration::from_millis(42_500)));
        assert_eq!(idle_of("intr 1"), None);
    }
}
