//! One task's process, its output prefixed with its name.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::Command;
use trainyard_cluster_spec::{Role, Task};
use trainyard_daemon::LogFormat;
use trainyard_diagnostic::{Code, Diagnostic};

use super::sibling;
use crate::command::Up;

/// Wait before a restart; doubled for each that follows soon.
const PAUSE: Duration = Duration::from_millis(50);
/// Longest wait before a restart.
const PAUSE_MAX: Duration = Duration::from_secs(5);
/// Life after which a process counts as having started well.
const SETTLED: Duration = Duration::from_secs(10);

/// A running process.
#[derive(Debug)]
pub(super) struct Child {
    process: tokio::process::Child,
}

/// How tasks are started.
#[derive(Debug)]
pub(super) struct Launch {
    program: PathBuf,
    arguments: Vec<OsString>,
    cluster: PathBuf,
    report: PathBuf,
    starts: RefCell<BTreeMap<Task, (Instant, u32)>>,
}

impl Launch {
    /// Prepares to start tasks of a job in a cluster, each with so many threads for a step if the job leaves it open.
    pub(super) fn new(
        up: &Up,
        threads: Option<usize>,
        cluster: &Path,
        report: &Path,
    ) -> Result<Self, Diagnostic> {
        let program = std::env::current_exe().map_err(|error| {
            Diagnostic::error(Code::E9002, format!("the path of this program is not known: {error}"))
        })?;
        let mut arguments: Vec<OsString> = vec!["--job".into(), up.job.job.clone().into()];
        for assignment in &up.job.set {
            arguments.extend(["--set".into(), assignment.into()]);
        }
        if let Some(threads) = threads {
            arguments.extend(["--set".into(), format!("run.intra_op_parallelism_threads={threads}").into()]);
        }
        if let Some(folder) = &up.job.model_dir {
            arguments.extend(["--model-dir".into(), folder.clone().into()]);
        }
        if let Some(level) = &up.job.log_level {
            arguments.extend(["--log-level".into(), level.into()]);
        }
        if up.job.log_format == LogFormat::Json {
            arguments.extend(["--log-format".into(), "json".into()]);
        }
        let (cluster, report) = (cluster.to_owned(), report.to_owned());
        Ok(Self { program, arguments, cluster, report, starts: RefCell::default() })
    }

    /// Returns the wait before a task is started again.
    pub(super) fn pause(&self, task: Task) -> Duration {
        let starts = self.starts.borrow();
        let (last, soon) = starts.get(&task).copied().unwrap_or((Instant::now(), 0));
        if last.elapsed() > SETTLED {
            PAUSE
        } else {
            (PAUSE * 2_u32.saturating_pow(soon.min(8))).min(PAUSE_MAX)
        }
    }

    /// Starts a task: the daemon of its role where it was built beside this program, else this program in its role.
    pub(super) fn start(&self, task: Task) -> Result<Child, Diagnostic> {
        let name = format!("trainyard-{}", task.role);
        let own = self.program.file_name().is_some_and(|own| own == "trainyard");
        let daemon = sibling(&name).filter(|_| own);
        let mut command = Command::new(daemon.as_ref().unwrap_or(&self.program));
        if daemon.is_none() {
            command.args(["run", "--role", task.role.as_str()]);
        }
        command
            .args(&self.arguments)
            .arg("--cluster")
            .arg(&self.cluster)
            .args(["--index", &task.index.to_string()]);
        if task.role == Role::Chief {
            command.arg("--report").arg(&self.report);
        }
        command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .env_remove("TF_CONFIG");
        // A process group of its own: an interrupt at the terminal reaches this program alone, which stops the tasks
        // in the right order.
        command.process_group(0);
        let mut process = command
            .spawn()
            .map_err(|error| Diagnostic::error(Code::E9002, format!("{task} cannot be started: {error}")))?;
        let mut starts = self.starts.borrow_mut();
        let soon =
            starts.get(&task).map_or(0, |(last, soon)| if last.elapsed() > SETTLED { 0 } else { soon + 1 });
        starts.insert(task, (Instant::now(), soon));
        if let Some(output) = process.stdout.take() {
            tokio::spawn(forward(task, BufReader::new(output)));
        }
        if let Some(output) = process.stderr.take() {
            tokio::spawn(forward(task, BufReader::new(output)));
        }
        Ok(Child { process })
    }
}

/// Writes a task's lines to standard error, each behind the task's name.
async fn forward<R: tokio::io::AsyncRead + Unpin>(task: Task, output: BufReader<R>) {
    let mut lines = output.lines();
    while let Ok(Some(line)) = lines.next_line().await {
        use std::io::Write as _;
        let _ = writeln!(std::io::stderr(), "[{task}] {line}");
    }
}

impl Child {
    /// Returns the exit code of a process that has ended; 128 + n where signal n ended it.
    pub(super) fn try_wait(&mut self) -> Option<i32> {
        use std::os::unix::process::ExitStatusExt as _;
        let status = self.process.try_wait().ok()??;
        Some(status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or(0)))
    }

    /// Waits for the end.
    pub(super) async fn wait(&mut self) -> i32 {
        use std::os::unix::process::ExitStatusExt as _;
        self.process
            .wait()
            .await
            .map_or(-1, |status| status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or(0)))
    }

    /// Asks the process to stop.
    pub(super) fn terminate(&self) {
        if let Some(pid) = self.process.id().and_then(|pid| rustix::process::Pid::from_raw(pid.cast_signed()))
        {
            let _ = rustix::process::kill_process(pid, rustix::process::Signal::TERM);
        }
    }

    /// Ends the process.
    pub(super) fn kill(&mut self) {
        let _ = self.process.start_kill();
    }
}
