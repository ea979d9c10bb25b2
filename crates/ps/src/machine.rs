//! The memory limit of the process.

use std::path::Path;

/// Returns the memory limit of this process in bytes: the smaller of the control group's limit and the machine's
/// memory. `None` if neither is known.
pub(crate) fn memory_bytes() -> Option<u64> {
    let read = |path: &str| std::fs::read_to_string(path).ok();
    let machine = read("/proc/meminfo").and_then(|text| of_machine(&text));
    let group = read("/proc/self/cgroup").and_then(|text| {
        let group = text.lines().find_map(|line| line.strip_prefix("0::"))?;
        let folders = Path::new(group).ancestors().filter_map(Path::to_str);
        // The smallest limit of the group and its ancestors applies.
        folders
            .filter_map(|group| read(&format!("/sys/fs/cgroup{group}/memory.max")))
            .filter_map(|text| text.trim().parse::<u64>().ok())
            .min()
    });
    machine.into_iter().chain(group).min()
}

/// Reads `MemTotal` of `/proc/meminfo`.
fn of_machine(text: &str) -> Option<u64> {
    let total = text
        .lines()
        .find_map(|line| line.strip_prefix("MemTotal:"))?;
    let kilobytes: u64 = total.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kilobytes << 10)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_memory_of_a_machine_is_read_from_what_the_kernel_says() {
        let text = "MemTotal:       24684160 kB\nMemFree:         1234 kB\n";
        assert_eq!(of_machine(text), Some(24_684_160 << 10));
        assert_eq!(of_machine("MemFree: 12 kB\n"), None);
        assert_eq!(of_machine("MemTotal: many kB\n"), None);
        assert!(
            memory_bytes().is_some_and(|bytes| bytes > 1 << 20),
            "of this machine"
        );
    }
}
