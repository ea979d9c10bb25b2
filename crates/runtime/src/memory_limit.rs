//! The memory that this process may use: the limit of its control group (cgroups v1 and v2), or the memory of the machine.

use std::fmt;
use std::path::{Path, PathBuf};

/// Where the kernel shows control groups of v2, and those of v1 for memory.
const UNIFIED: &str = "/sys/fs/cgroup";
const V1: &str = "/sys/fs/cgroup/memory";
/// Files of the limit.
const UNIFIED_LIMIT: &str = "memory.max";
const V1_LIMIT: &str = "memory.limit_in_bytes";

/// Whose memory is limited.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Of {
    /// A control group of v2, by its folder.
    Unified(PathBuf),
    /// A control group of v1, by its folder.
    V1(PathBuf),
    /// The machine.
    Machine,
}

/// The memory that this process may use, together with the others in its control group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MemoryLimit {
    bytes: u64,
    of: Of,
}

impl MemoryLimit {
    /// Returns the limit of this process: the smallest one of its control group, the groups above it, and the machine.
    /// `None` if the kernel shows neither.
    pub fn of_process() -> Option<Self> {
        Self::read(&|path| std::fs::read_to_string(path).ok())
    }

    fn read(file: &dyn Fn(&Path) -> Option<String>) -> Option<Self> {
        let machine = file(Path::new("/proc/meminfo"))
            .and_then(|text| kilobytes(&text, "MemTotal:"))
            .map(|bytes| Self {
                bytes,
                of: Of::Machine,
            });
        let groups = file(Path::new("/proc/self/cgroup")).unwrap_or_default();
        let of_groups = groups.lines().flat_map(|line| of_group(line, file));
        // At the same size, the group says more than the machine.
        of_groups.chain(machine).min_by_key(|limit| limit.bytes)
    }

    /// Returns the bytes.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Whether a control group sets it, such as that of a container or of a unit of systemd.
    pub fn is_of_group(&self) -> bool {
        self.of != Of::Machine
    }

    /// Returns the folder of the control group that sets it.
    pub fn group(&self) -> Option<&Path> {
        match &self.of {
            Of::Machine => None,
            Of::Unified(group) | Of::V1(group) => Some(group),
        }
    }

    /// Returns the limit of the same group or machine as it is now; `None` if the kernel does not show it any more.
    pub fn again(&self) -> Option<Self> {
        let file = match &self.of {
            Of::Machine => return Some(self.clone()),
            Of::Unified(group) => group.join(UNIFIED_LIMIT),
            Of::V1(group) => group.join(V1_LIMIT),
        };
        // A limit of v2 that was lifted is the text `max`.
        let text = std::fs::read_to_string(file).ok()?;
        let bytes = text.trim().parse().unwrap_or(u64::MAX);
        Some(Self {
            bytes,
            of: self.of.clone(),
        })
    }

    /// Returns the bytes that are in use and that the kernel cannot take back: files on disks are cached in what is left.
    /// Files in memory count as use. `None` if the kernel does not show it.
    pub fn used(&self) -> Option<u64> {
        self.used_by(&|path| std::fs::read_to_string(path).ok())
    }

    fn used_by(&self, file: &dyn Fn(&Path) -> Option<String>) -> Option<u64> {
        let (all, cached) = match &self.of {
            Of::Machine => {
                let text = file(Path::new("/proc/meminfo"))?;
                let total = kilobytes(&text, "MemTotal:")?;
                return Some(total.saturating_sub(kilobytes(&text, "MemAvailable:")?));
            }
            Of::Unified(group) => {
                let stat = file(&group.join("memory.stat"))?;
                let cached = number(&stat, "inactive_file")? + number(&stat, "active_file")?;
                (file(&group.join("memory.current"))?, cached)
            }
            Of::V1(group) => {
                let stat = file(&group.join("memory.stat"))?;
                let cached =
                    number(&stat, "total_inactive_file")? + number(&stat, "total_active_file")?;
                (file(&group.join("memory.usage_in_bytes"))?, cached)
            }
        };
        let all: u64 = all.trim().parse().ok()?;
        Some(all.saturating_sub(cached))
    }

    /// Returns how many processes of the control group the kernel has killed because of the limit; `None` if it does not
    /// tell.
    pub fn kills(&self) -> Option<u64> {
        let read = |path: PathBuf| std::fs::read_to_string(path).ok();
        match &self.of {
            Of::Machine => None,
            Of::Unified(group) => number(&read(group.join("memory.events"))?, "oom_kill"),
            Of::V1(group) => number(&read(group.join("memory.oom_control"))?, "oom_kill"),
        }
    }
}

impl fmt::Display for MemoryLimit {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bytes = self.bytes;
        match &self.of {
            Of::Machine => write!(formatter, "the {bytes} bytes of memory of the machine"),
            Of::Unified(group) | Of::V1(group) => write!(
                formatter,
                "the limit of {bytes} bytes of the control group {}",
                group.display()
            ),
        }
    }
}

/// Returns the limits of the control group in a line of `/proc/self/cgroup`, and of the groups above it.
fn of_group(line: &str, file: &dyn Fn(&Path) -> Option<String>) -> Vec<MemoryLimit> {
    let mut parts = line.splitn(3, ':').skip(1);
    let (Some(controllers), Some(group)) = (parts.next(), parts.next()) else {
        return Vec::new();
    };
    let (root, name) = if controllers.is_empty() {
        (UNIFIED, UNIFIED_LIMIT)
    } else if controllers
        .split(',')
        .any(|controller| controller == "memory")
    {
        (V1, V1_LIMIT)
    } else {
        return Vec::new();
    };
    // A container may see its group as the root, under the name that the group has outside.
    let above = Path::new(group).ancestors();
    let folders = above.map(|group| match group.strip_prefix("/") {
        Ok(below) => Path::new(root).join(below),
        Err(_) => Path::new(root).to_owned(),
    });
    folders
        .filter_map(|folder| {
            let text = file(&folder.join(name))?;
            let bytes = text.trim().parse().ok()?;
            let of = if controllers.is_empty() {
                Of::Unified(folder)
            } else {
                Of::V1(folder)
            };
            Some(MemoryLimit { bytes, of })
        })
        .collect()
}

/// Returns the number behind a word at the start of a line.
fn number(text: &str, word: &str) -> Option<u64> {
    let mut lines = text.lines().map(str::split_whitespace);
    lines.find_map(|mut words| {
        (words.next() == Some(word))
            .then(|| words.next())
            .flatten()?
            .parse()
            .ok()
    })
}

fn kilobytes(text: &str, word: &str) -> Option<u64> {
    Some(number(text, word)? << 10)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The files of a kernel.
    fn kernel<'a>(files: &'a [(&'a str, &'a str)]) -> impl Fn(&Path) -> Option<String> + 'a {
        |path| {
            let found = files.iter().find(|(name, _)| Path::new(name) == path);
            found.map(|(_, text)| (*text).to_owned())
        }
    }

    const MACHINE: (&str, &str) = (
        "/proc/meminfo",
        "MemTotal:       24684160 kB\nMemFree:         1234 kB\nMemAvailable:   20000000 kB\n",
    );

    #[test]
    fn without_a_group_the_memory_of_the_machine_is_the_limit() {
        let files = [MACHINE, ("/proc/self/cgroup", "0::/\n")];
        let limit = MemoryLimit::read(&kernel(&files)).expect("a limit");
        assert_eq!(
            (limit.bytes(), limit.is_of_group()),
            (24_684_160 << 10, false)
        );
        assert_eq!(limit.used_by(&kernel(&files)), Some(4_684_160 << 10));
        assert_eq!(MemoryLimit::read(&kernel(&[])), None);
        assert!(MemoryLimit::of_process().is_some_and(|limit| limit.bytes() > 1 << 20));
    }

    #[test]
    fn the_smallest_limit_of_a_group_of_v2_and_those_above_it_counts() {
        let files = [
            MACHINE,
            ("/proc/self/cgroup", "0::/pods/one/ps\n"),
            ("/sys/fs/cgroup/pods/one/ps/memory.max", "max\n"),
            ("/sys/fs/cgroup/pods/one/memory.max", "500000000\n"),
            ("/sys/fs/cgroup/pods/memory.max", "900000000\n"),
            ("/sys/fs/cgroup/pods/one/memory.current", "300000000\n"),
            (
                "/sys/fs/cgroup/pods/one/memory.stat",
                "anon 1\nfile 9\ninactive_file 40000000\nactive_file 10000000\n",
            ),
        ];
        let limit = MemoryLimit::read(&kernel(&files)).expect("a limit");
        assert_eq!((limit.bytes(), limit.is_of_group()), (500_000_000, true));
        assert_eq!(limit.used_by(&kernel(&files)), Some(250_000_000));
    }

    #[test]
    fn a_group_of_v1_counts_also_where_its_folder_is_only_known_outside_of_the_container() {
        let groups = "12:cpu,cpuacct:/x\n4:hugetlb,memory:/docker/abc\n0::/\n";
        let root = "/sys/fs/cgroup/memory/memory.limit_in_bytes";
        let stat = "cache 5\ntotal_inactive_file 1000\ntotal_active_file 500\n";
        let files = [
            MACHINE,
            ("/proc/self/cgroup", groups),
            (root, "400000000\n"),
            ("/sys/fs/cgroup/memory/memory.usage_in_bytes", "100000000\n"),
            ("/sys/fs/cgroup/memory/memory.stat", stat),
        ];
        let limit = MemoryLimit::read(&kernel(&files)).expect("a limit");
        assert_eq!((limit.bytes(), limit.is_of_group()), (400_000_000, true));
        assert_eq!(limit.used_by(&kernel(&files)), Some(99_998_500));
        // What v1 calls no limit is more than the machine has.
        let unlimited = [MACHINE, files[1], (root, "9223372036854771712\n")];
        let limit = MemoryLimit::read(&kernel(&unlimited)).expect("a limit");
        assert!(!limit.is_of_group());
    }
}
