//! The parameter servers of a benchmark: processes that can be killed and started again.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, SystemTime};

use trainyard_cluster_spec::Role;
use trainyard_command::RuntimeThreads;
use trainyard_diagnostic::{Code, Diagnostic};

use super::usage;

/// Returns the failure of the benchmark to do something.
pub(super) fn broken(what: &str, error: impl std::fmt::Display) -> Diagnostic {
    Diagnostic::error(Code::E9002, format!("the benchmark cannot {what}: {error}"))
}

/// A process that is killed when the benchmark ends.
#[derive(Debug)]
pub(super) struct Process(pub(super) Child);

impl Process {
    fn kill(&mut self) -> std::io::Result<()> {
        self.0.kill()?;
        self.0.wait().map(drop)
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.kill();
    }
}

/// A parameter server.
#[derive(Debug)]
struct Server {
    process: Process,
    /// Processor time of the processes before this one.
    earlier: Duration,
    /// Most memory that one of those has held, in bytes.
    earlier_peak_bytes: u64,
}

/// The servers.
#[derive(Debug)]
pub(super) struct Servers {
    program: PathBuf,
    /// Folder of the job file and the cluster file.
    folder: PathBuf,
    threads: RuntimeThreads,
    servers: Vec<Server>,
}

impl Servers {
    /// Starts servers with the job file and the cluster file of a folder. Each has so many runtime threads.
    ///
    /// # Errors
    /// A process cannot be started.
    pub(super) fn start(
        program: &Path,
        folder: &Path,
        servers: usize,
        threads: RuntimeThreads,
    ) -> Result<Self, Diagnostic> {
        let mut started = Self {
            program: program.to_owned(),
            folder: folder.to_owned(),
            threads,
            servers: Vec::new(),
        };
        for index in 0..servers {
            let process = started.start_process(index)?;
            started.servers.push(Server {
                process,
                earlier: Duration::ZERO,
                earlier_peak_bytes: 0,
            });
        }
        Ok(started)
    }

    fn start_process(&self, index: usize) -> Result<Process, Diagnostic> {
        let process = Command::new(&self.program)
            .args(["run", "--role", "ps", "--log-level", "error"])
            .args(["--index", &index.to_string(), "--job"])
            .arg(self.folder.join("job.toml"))
            .arg("--cluster")
            .arg(self.folder.join("cluster.toml"))
            .envs(self.threads.variable(Role::Ps))
            .stdin(Stdio::null())
            .spawn();
        let process = process.map_err(|error| broken("start a server", error))?;
        Ok(Process(process))
    }

    /// Kills a server, and starts it again at once. Returns the time of the kill.
    fn restart(&mut self, index: usize) -> Result<SystemTime, Diagnostic> {
        let server = &mut self.servers[index];
        let id = server.process.0.id();
        let spent = usage::of_process(id).unwrap_or_default();
        let peak = usage::peak_bytes(id).unwrap_or(0);
        let killed = SystemTime::now();
        let dead = server.process.kill();
        dead.map_err(|error| broken("kill a server", error))?;
        server.earlier += spent;
        server.earlier_peak_bytes = server.earlier_peak_bytes.max(peak);
        self.servers[index].process = self.start_process(index)?;
        Ok(killed)
    }

    /// Kills the servers in turn, one in each `interval`, until the other end of `ended` is dropped. The first `interval` passes
    /// without a kill. Returns the times of the kills.
    ///
    /// # Errors
    /// A server cannot be started again.
    pub(super) fn kill_in_turn(
        &mut self,
        interval: Duration,
        ended: &Receiver<()>,
    ) -> Result<Vec<SystemTime>, Diagnostic> {
        let mut kills = Vec::new();
        while ended.recv_timeout(interval) == Err(RecvTimeoutError::Timeout) {
            kills.push(self.restart(kills.len() % self.servers.len())?);
        }
        Ok(kills)
    }

    /// Returns the processor time of each server so far.
    pub(super) fn processor_time(&self) -> Vec<Duration> {
        let of_one = |server: &Server| {
            server.earlier + usage::of_process(server.process.0.id()).unwrap_or_default()
        };
        self.servers.iter().map(of_one).collect()
    }

    /// Returns the most memory that one server has held, in bytes.
    pub(super) fn peak_bytes(&self) -> u64 {
        let of_one = |server: &Server| {
            let now = usage::peak_bytes(server.process.0.id()).unwrap_or(0);
            now.max(server.earlier_peak_bytes)
        };
        self.servers.iter().map(of_one).max().unwrap_or(0)
    }
}
