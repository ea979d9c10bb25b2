//! A control group with a memory limit.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::{LIMIT, Program, TestCluster, program};

/// Where control groups with a memory limit can be made, for each version: the folder, and the file of the limit.
const ROOTS: [(&str, &str); 2] = [
    ("/sys/fs/cgroup/memory", "memory.limit_in_bytes"),
    ("/sys/fs/cgroup", "memory.max"),
];

/// Groups that this process has made.
static MADE: AtomicU64 = AtomicU64::new(0);

/// A control group, removed with this value.
#[derive(Debug)]
pub struct MemoryGroup {
    folder: PathBuf,
    limit: &'static str,
}

impl MemoryGroup {
    /// Makes a group whose processes may use `bytes` together.
    ///
    /// # Panics
    /// It cannot be made, for which the test would have been skipped.
    pub fn of(bytes: u64) -> Self {
        let group = Self::make().expect("control groups can be made");
        group.set_limit(bytes);
        group
    }

    /// Returns why no group can be made; nothing where one can.
    pub(crate) fn missing() -> Option<String> {
        Self::make().err()
    }

    fn make() -> Result<Self, String> {
        let number = MADE.fetch_add(1, Ordering::Relaxed);
        let name = format!("trainyard-test-{}-{number}", std::process::id());
        let mut why = "the kernel shows no control groups".to_owned();
        for (root, limit) in ROOTS {
            let folder = Path::new(root).join(&name);
            if !Path::new(root).join("cgroup.procs").exists() {
                continue;
            }
            if let Err(error) = std::fs::create_dir(&folder) {
                why = format!("{}: {error}", folder.display());
                continue;
            }
            let group = Self { folder, limit };
            if group.folder.join(limit).exists() {
                return Ok(group);
            }
            why = format!("{root} has no {limit}");
        }
        Err(why)
    }

    /// Changes the limit.
    ///
    /// # Panics
    /// The kernel does not take it.
    pub fn set_limit(&self, bytes: u64) {
        self.try_set_limit(bytes).expect("the limit is set");
    }

    /// Changes the limit.
    ///
    /// # Errors
    /// The kernel does not take it: version 1 keeps a limit that is above what is in use.
    pub fn try_set_limit(&self, bytes: u64) -> std::io::Result<()> {
        std::fs::write(self.folder.join(self.limit), bytes.to_string())
    }

    /// Returns the bytes in use that the kernel cannot take back; `None` where it does not tell.
    pub fn used(&self) -> Option<u64> {
        let read = |name: &str| std::fs::read_to_string(self.folder.join(name)).ok();
        let all = read("memory.current").or_else(|| read("memory.usage_in_bytes"))?;
        let all: u64 = all.trim().parse().ok()?;
        let stat = read("memory.stat")?;
        let cached = stat.lines().filter_map(|line| line.split_once(' '));
        let cached = cached.filter(|(name, _)| ["inactive_file", "active_file"].contains(name));
        let cached: u64 = cached
            .filter_map(|(_, bytes)| bytes.parse::<u64>().ok())
            .sum();
        Some(all.saturating_sub(cached))
    }

    /// Returns its name, which a message about its limit has.
    pub fn name(&self) -> String {
        let name = self.folder.file_name().unwrap_or_default();
        name.to_string_lossy().into_owned()
    }

    /// Returns the command of a shell with which it enters the group.
    pub fn entry(&self) -> String {
        format!("echo $$ > {}/cgroup.procs", self.folder.display())
    }

    /// Returns how many processes of the group the kernel has killed for their memory.
    ///
    /// # Panics
    /// The kernel does not tell.
    pub fn kills(&self) -> u64 {
        let files = ["memory.events", "memory.oom_control"];
        let texts = files.map(|file| std::fs::read_to_string(self.folder.join(file)));
        let text = texts.into_iter().find_map(Result::ok).expect("it tells");
        let line = text.lines().find_map(|line| line.strip_prefix("oom_kill "));
        line.and_then(|count| count.trim().parse().ok())
            .expect("a count")
    }

    /// Starts a daemon by its flags as a process of the group.
    pub fn start(
        &self,
        cluster: &TestCluster,
        role: &str,
        index: usize,
        more: &[&str],
        environment: &[(&str, &str)],
    ) -> Program {
        let (job, file) = (
            cluster.job.to_string_lossy(),
            cluster.cluster.to_string_lossy(),
        );
        let index = index.to_string();
        let mut arguments = vec!["--job", &job, "--cluster", &file, "--index", &index];
        arguments.extend(more);
        self.start_program(&format!("trainyard-{role}"), &arguments, environment)
    }

    /// Starts a program as a process of the group.
    pub fn start_program(
        &self,
        name: &str,
        arguments: &[&str],
        environment: &[(&str, &str)],
    ) -> Program {
        let enter = format!("{} && exec \"$@\"", self.entry());
        let task = program(name);
        let task = task.to_string_lossy();
        let arguments = [&["-c", &enter, "sh", &*task], arguments].concat();
        Program::start("sh", &arguments, environment)
    }
}

impl Drop for MemoryGroup {
    fn drop(&mut self) {
        let until = Instant::now() + LIMIT;
        // The kernel keeps the group for a moment after the end of its last process.
        while std::fs::remove_dir(&self.folder).is_err() && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}
