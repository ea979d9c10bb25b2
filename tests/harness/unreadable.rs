//! A task whose reads fail, as those of a share that is away for a while.

use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::{Program, TestCluster, program};

/// Calls on files that fail with EIO, or hang. `strace` makes them do so.
#[derive(Debug)]
pub struct Unreadable<'a> {
    /// Names of system calls, with commas between.
    pub calls: &'a str,
    /// Number of the call among those of its thread on the paths, from 1; or the first one and their distance, as strace
    /// writes it; `1+` is every call.
    pub when: &'a str,
    /// Files; empty = all.
    pub paths: Vec<PathBuf>,
}

impl TestCluster {
    /// Starts a daemon by its flags, whose calls fail.
    pub fn start_unreadable(
        &self,
        role: &str,
        index: usize,
        more: &[&str],
        environment: &[(&str, &str)],
        fault: &Unreadable<'_>,
    ) -> Program {
        self.start_traced(role, index, more, environment, fault, "error=EIO")
    }

    /// Starts a daemon by its flags, whose calls take `delay` each, as those of a disk that hangs for a while.
    pub fn start_on_hanging_files(
        &self,
        role: &str,
        index: usize,
        more: &[&str],
        fault: &Unreadable<'_>,
        delay: Duration,
    ) -> Program {
        let effect = format!("delay_enter={}", delay.as_micros());
        self.start_traced(role, index, more, &[], fault, &effect)
    }

    fn start_traced(
        &self,
        role: &str,
        index: usize,
        more: &[&str],
        environment: &[(&str, &str)],
        fault: &Unreadable<'_>,
        effect: &str,
    ) -> Program {
        let trace = format!("--trace={}", fault.calls);
        let inject = format!("--inject={}:{effect}:when={}", fault.calls, fault.when);
        let task = program(&format!("trainyard-{role}"));
        let task = task.to_string_lossy();
        let (job, file) = (self.job.to_string_lossy(), self.cluster.to_string_lossy());
        let index = index.to_string();
        let paths: Vec<_> = fault
            .paths
            .iter()
            .map(|path| path.to_string_lossy())
            .collect();
        let mut arguments = vec![
            "--daemonize",
            "-qq",
            "--follow-forks",
            "--seccomp-bpf",
            "--output=/dev/null",
            &trace,
            &inject,
        ];
        arguments.extend(paths.iter().flat_map(|path| ["-P", &**path]));
        arguments.extend([&*task, "--job", &job, "--cluster", &file, "--index", &index]);
        arguments.extend(more);
        Program::start("strace", &arguments, environment)
    }
}

/// Returns every file below a folder.
///
/// # Panics
/// A folder cannot be read.
pub fn files_below(folder: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).expect("the folder can be read") {
            let path = entry.expect("the folder can be read").path();
            if path.is_dir() {
                folders.push(path);
            } else {
                files.push(path);
            }
        }
    }
    files
}
