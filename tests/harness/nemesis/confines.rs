//! The limits of a job's tasks on this machine: control groups, file systems, limits of open files, tracers.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use trainyard_cluster_spec::{Role, Task};

use super::deaths::Limit;
use super::limits::{
    FileFault, OpenFiles, Resource, SERVER_MEMORY_BYTES_MIN, ServerLimits, model_disk_bytes,
};
use crate::{Draw, MemoryGroup, Mount, Supervisor};

/// Least size of a disk. What a job may not have of it is taken by [`BASE`].
const DISK_BYTES_MIN: u64 = 96 << 20;
/// The file that makes a disk as small as it was drawn.
const BASE: &str = "base";
/// The file of another program, which comes and goes.
const BALLAST: &str = "ballast";
/// Time for a tracer to let its process go.
const DETACH_TIMEOUT: Duration = Duration::from_secs(1);
/// Part of a limit that a server leaves free. A limit that comes down is not below what this needs.
const FREE_PART: u64 = 8;
/// Waits until the process has a tracer, for some seconds at most.
const WAIT_FOR_TRACER: &str = "i=0; until grep -q '^TracerPid:[^0-9]*[1-9]' /proc/$$/status || \
     [ $i = 100 ]; do sleep 0.02; i=$((i+1)); done";

/// What a parameter server has.
#[derive(Debug)]
struct Server {
    limits: ServerLimits,
    group: MemoryGroup,
    log_memory: Mount,
    log_disk: Mount,
}

/// A tracer that is attached to a process, until it is dropped.
#[derive(Debug)]
struct Tracer {
    process: u32,
    strace: Child,
}

impl Tracer {
    fn attach(process: u32, arguments: &[String]) -> Self {
        let strace = Command::new("strace")
            .args(["-qq", "--follow-forks", "--output=/dev/null"])
            .args(arguments)
            .args(["--attach", &process.to_string()])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("strace is installed");
        Self { process, strace }
    }
}

impl Drop for Tracer {
    fn drop(&mut self) {
        // It lets its process go. One whose process has just died may wait for ever.
        if let Some(strace) = Pid::from_raw(self.strace.id().cast_signed()) {
            let _ = kill_process(strace, Signal::TERM);
        }
        let until = Instant::now() + DETACH_TIMEOUT;
        while matches!(self.strace.try_wait(), Ok(None)) && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(5));
        }
        let _ = self.strace.kill();
        let _ = self.strace.wait();
    }
}

/// Calls of a task that do not work at present.
#[derive(Debug)]
struct Tracing {
    arguments: Vec<String>,
    tracer: Option<Tracer>,
}

/// The limits of all tasks. They outlive the tasks.
#[derive(Debug)]
pub(super) struct Confines {
    servers: BTreeMap<Task, Server>,
    model_disk: Mount,
    model_disk_bytes: u64,
    open_files: BTreeMap<Task, OpenFiles>,
    tracing: BTreeMap<Task, Tracing>,
}

impl Confines {
    /// Draws limits for so many servers and workers, a chief and an evaluator.
    pub(super) fn drawn(tasks: &[Task], draw: &mut Draw) -> Self {
        let servers = tasks.iter().filter(|task| task.role == Role::Ps);
        let servers = servers.map(|task| {
            let limits = ServerLimits::drawn(draw);
            let server = Server {
                limits,
                group: MemoryGroup::of(limits.memory_bytes),
                log_memory: Mount::of(&limits.log_memory_bytes.to_string()),
                log_disk: disk(limits.log_disk_bytes),
            };
            (*task, server)
        });
        let servers = servers.collect();
        let model_disk_bytes = model_disk_bytes(draw);
        let open_files = tasks.iter().map(|task| (*task, OpenFiles::drawn(draw)));
        Self {
            servers,
            model_disk: disk(model_disk_bytes),
            model_disk_bytes,
            open_files: open_files.collect(),
            tracing: BTreeMap::new(),
        }
    }

    /// Returns the model directory.
    pub(super) fn model_dir(&self) -> PathBuf {
        self.model_disk.path().join("model")
    }

    /// Gives the tasks their limits, before they are started.
    pub(super) fn apply(&self, tasks: &mut Supervisor) {
        for (task, server) in &self.servers {
            let path = |mount: &Mount| mount.path().to_string_lossy().into_owned();
            let (memory, disk) = (path(&server.log_memory), path(&server.log_disk));
            tasks.give(
                *task,
                &["--shared-memory-dir", &memory, "--state-dir", &disk],
            );
        }
        for task in tasks.tasks() {
            tasks.start_by(task, self.entry(task));
        }
    }

    /// Returns what a task is started by.
    fn entry(&self, task: Task) -> Vec<String> {
        let mut steps = Vec::new();
        steps.extend(self.servers.get(&task).map(|server| server.group.entry()));
        steps.extend(self.open_files.get(&task).map(|files| {
            let OpenFiles { soft, hard } = files;
            format!("ulimit -S -n {soft} && ulimit -H -n {hard}")
        }));
        if self.tracing.contains_key(&task) {
            steps.push(WAIT_FOR_TRACER.to_owned());
        }
        steps.push("exec \"$@\"".to_owned());
        ["sh", "-ec", &steps.join("\n"), "sh"]
            .map(str::to_owned)
            .to_vec()
    }

    /// Makes something short. Returns how short, in words; nothing where the kernel does not let it.
    pub(super) fn begin_shortage(
        &self,
        resource: Resource,
        task: Task,
        draw: &mut Draw,
    ) -> Option<String> {
        let more = draw.fraction();
        if resource == Resource::ModelDisk {
            let left = (more * 1e6) as u64;
            self.model_disk.fill(BALLAST, left);
            return Some(format!("{left} bytes left"));
        }
        let server = self.servers.get(&task)?;
        match resource {
            Resource::Memory => {
                let used = server.group.used()? as f64;
                let least = used * FREE_PART as f64 / (FREE_PART - 1) as f64;
                let bytes = (least * (1.0 + more / 4.0)) as u64;
                let limit = bytes
                    .max(SERVER_MEMORY_BYTES_MIN)
                    .min(server.limits.memory_bytes);
                server.group.try_set_limit(limit).ok()?;
                Some(format!("limit {limit} bytes, {used} used"))
            }
            Resource::LogMemory | Resource::LogDisk => {
                let left = (more * 1e6) as u64;
                let mount = match resource {
                    Resource::LogMemory => &server.log_memory,
                    _ => &server.log_disk,
                };
                mount.fill(BALLAST, left);
                Some(format!("{left} bytes left"))
            }
            Resource::ModelDisk => None,
        }
    }

    /// Ends a shortage.
    pub(super) fn end_shortage(&self, resource: Resource, task: Task) {
        let server = self.servers.get(&task);
        match (resource, server) {
            (Resource::ModelDisk, _) => self.model_disk.free(BALLAST),
            (Resource::Memory, Some(server)) => {
                server.group.set_limit(server.limits.memory_bytes);
            }
            (Resource::LogMemory, Some(server)) => server.log_memory.free(BALLAST),
            (Resource::LogDisk, Some(server)) => server.log_disk.free(BALLAST),
            _ => {}
        }
    }

    /// Makes calls of a task not work, those of its lives to come, too.
    pub(super) fn begin_fault(&mut self, fault: FileFault, task: Task, tasks: &mut Supervisor) {
        let mut files = Vec::new();
        if fault.is_on_files() {
            add_paths(&self.model_dir(), &mut files);
            if let Some(server) = self.servers.get(&task) {
                add_paths(server.log_disk.path(), &mut files);
                add_paths(server.log_memory.path(), &mut files);
            }
        }
        let tracing = Tracing {
            arguments: fault.arguments(&files),
            tracer: None,
        };
        self.tracing.insert(task, tracing);
        tasks.start_by(task, self.entry(task));
    }

    /// Lets the calls of a task work again.
    pub(super) fn end_fault(&mut self, task: Task, tasks: &mut Supervisor) {
        self.tracing.remove(&task);
        tasks.start_by(task, self.entry(task));
    }

    /// Attaches tracers to processes that were started.
    pub(super) fn look(&mut self, tasks: &Supervisor) {
        for (task, tracing) in &mut self.tracing {
            let Some(process) = tasks.id(*task) else {
                continue;
            };
            if tracing.tracer.as_ref().map(|tracer| tracer.process) != Some(process) {
                // The tracer before it has ended with its process.
                tracing.tracer = None;
                tracing.tracer = Some(Tracer::attach(process, &tracing.arguments));
            }
        }
    }

    /// Returns how many processes the kernel has killed for their memory.
    pub(super) fn kills(&self) -> u64 {
        self.servers
            .values()
            .map(|server| server.group.kills())
            .sum()
    }

    /// Raises the limits of a kind that a task has named in `text`, as a user does. Returns what was raised.
    pub(super) fn raise(
        &mut self,
        limit: Limit,
        task: Task,
        text: &str,
        tasks: &mut Supervisor,
    ) -> Vec<String> {
        let mut raised = Vec::new();
        match limit {
            Limit::Memory => {
                let names = |server: &Server| text.contains(&server.group.name());
                let is_named = self.servers.values().any(names);
                let meant = self.servers.iter_mut().filter(|(of, server)| {
                    if is_named {
                        names(server)
                    } else {
                        **of == task
                    }
                });
                for (of, server) in meant {
                    server.limits.memory_bytes *= 2;
                    server.group.set_limit(server.limits.memory_bytes);
                    raised.push(format!("memory of {of} to {}", server.limits.memory_bytes));
                }
            }
            Limit::Disk => {
                let is_meant = |mount: &Mount| text.contains(&*mount.path().to_string_lossy());
                for (of, server) in &mut self.servers {
                    if is_meant(&server.log_memory) {
                        server.limits.log_memory_bytes *= 2;
                        let bytes = server.limits.log_memory_bytes;
                        server.log_memory.resize(bytes);
                        raised.push(format!("log memory of {of} to {bytes}"));
                    }
                    if is_meant(&server.log_disk) {
                        server.log_disk.free(BASE);
                        raised.push(format!("log disk of {of}"));
                    }
                }
                if is_meant(&self.model_disk) {
                    self.model_disk.free(BASE);
                    raised.push("model disk".to_owned());
                }
            }
            Limit::OpenFiles => {
                if let Some(files) = self.open_files.get_mut(&task) {
                    (files.soft, files.hard) = (2 * files.soft, 2 * files.hard);
                    raised.push(format!("open files of {task} to {}", files.hard));
                }
                tasks.start_by(task, self.entry(task));
            }
            // There is no limit of errors.
            Limit::Files => {}
        }
        raised
    }
}

impl fmt::Display for Confines {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (task, server) in &self.servers {
            let ServerLimits {
                memory_bytes,
                log_memory_bytes,
                log_disk_bytes,
            } = server.limits;
            writeln!(
                formatter,
                "{task}: memory {memory_bytes}, log memory {log_memory_bytes}, log disk {log_disk_bytes} bytes"
            )?;
        }
        writeln!(formatter, "model disk {} bytes", self.model_disk_bytes)?;
        let files = self.open_files.iter();
        let files = files.map(|(task, files)| format!("{task} {}/{}", files.soft, files.hard));
        let files: Vec<String> = files.collect();
        write!(formatter, "open files: {}", files.join(", "))
    }
}

/// Mounts a disk of which so many bytes are free, and at least as many can be freed.
fn disk(bytes: u64) -> Mount {
    let disk = Mount::disk((2 * bytes).max(DISK_BYTES_MIN));
    disk.fill(BASE, bytes);
    disk
}

/// Adds a folder, and all below it, to `paths`. Files come and go meanwhile.
fn add_paths(folder: &Path, paths: &mut Vec<PathBuf>) {
    paths.push(folder.to_owned());
    let entries = std::fs::read_dir(folder).into_iter().flatten();
    for path in entries.filter_map(|entry| Some(entry.ok()?.path())) {
        if path.is_dir() {
            add_paths(&path, paths);
        } else {
            paths.push(path);
        }
    }
}
