//! The process of one task. Its output is prefixed with the name of the task.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use serde_json::json;
use tokio::io::{AsyncBufReadExt as _, AsyncRead, BufReader};
use tokio::process::Command;
use tokio::task::JoinSet;
use tokio::time::Instant;
use trainyard_cluster_spec::{Role, Task};
use trainyard_daemon::{ENDS_WITH, LogFormat};
use trainyard_diagnostic::{Code, Diagnostic, system_problem};

use super::runtime_threads::RuntimeThreads;
use crate::arguments::JobArguments;
use crate::program::Program;

/// Time in which a task must stop, in seconds, as in the systemd units.
pub(super) const DRAIN_SECS: u64 = 60;
/// Wait before a restart. It doubles with each restart that follows soon.
const RESTART_DELAY: Duration = Duration::from_millis(50);
/// Longest wait before a restart.
const RESTART_DELAY_MAX: Duration = Duration::from_secs(5);
/// Run time after which a start counts as successful.
const STABLE_AFTER: Duration = Duration::from_secs(10);
/// Exit codes above it are those of processes that a signal has ended: 128 and the number of the signal.
pub(super) const SIGNALLED: i32 = 128;
/// Exit code of a script that does not know its arguments (Python's argparse).
pub(super) const UNKNOWN_ARGUMENTS: i32 = 2;
/// Exit code of a script that ends by an exception. No message of this program has it.
const EXCEPTION: i32 = 1;
/// Deaths of a task in a row by a signal or an exception, each soon after its start, after which the job is stopped.
const KILLS_MAX: u32 = 12;
/// Timeout for the last lines of a process that has ended: a child of the process may still hold its output open.
const LAST_LINES_TIMEOUT: Duration = Duration::from_secs(1);

/// A running process.
#[derive(Debug)]
pub(super) struct Child {
    process: tokio::process::Child,
    /// Forwards the output of the process until it ends.
    lines: JoinSet<()>,
}

/// Arguments of a worker that is added while the job runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Added {
    /// Cluster file that contains the worker.
    pub(super) cluster: PathBuf,
    /// Address of its admin port.
    pub(super) admin: String,
}

/// The command that starts a task.
#[derive(Debug)]
pub struct TaskCommand<'a> {
    /// Program whose `run` is the task.
    pub program: &'a Program,
    /// The job, and its changes for this run.
    pub job: &'a JobArguments,
    /// Threads of a step, if the job does not set them.
    pub threads: Option<usize>,
}

/// Arguments and history of the tasks' processes.
#[derive(Debug)]
pub(super) struct Launch {
    program: Program,
    job: PathBuf,
    arguments: Vec<OsString>,
    cluster: PathBuf,
    report: PathBuf,
    log_format: LogFormat,
    runtime_threads: RuntimeThreads,
    starts: RefCell<BTreeMap<Task, (Instant, u32)>>,
    /// Deaths of a task by a signal or an exception, each soon after its start.
    killed: RefCell<BTreeMap<Task, u32>>,
    added: BTreeMap<Task, Added>,
}

impl Launch {
    /// Prepares to start tasks of a job in a cluster.
    pub(super) fn new(
        command: &TaskCommand<'_>,
        runtime_threads: RuntimeThreads,
        cluster: &Path,
        report: &Path,
    ) -> Self {
        let TaskCommand {
            program,
            job,
            threads,
        } = command;
        let mut arguments: Vec<OsString> = Vec::new();
        for assignment in &job.set {
            arguments.extend(["--set".into(), assignment.into()]);
        }
        if let Some(threads) = threads {
            arguments.extend([
                "--set".into(),
                format!("run.intra_op_parallelism_threads={threads}").into(),
            ]);
        }
        if let Some(folder) = &job.model_dir {
            arguments.extend(["--model-dir".into(), folder.clone().into()]);
        }
        if let Some(level) = &job.log_level {
            arguments.extend(["--log-level".into(), level.into()]);
        }
        if job.log_format == LogFormat::Json {
            arguments.extend(["--log-format".into(), "json".into()]);
        }
        let cluster = cluster.to_owned();
        let report = report.to_owned();
        Self {
            program: Program::clone(program),
            job: job.job.clone(),
            arguments,
            cluster,
            report,
            log_format: job.log_format,
            runtime_threads,
            starts: RefCell::default(),
            killed: RefCell::default(),
            added: BTreeMap::new(),
        }
    }

    /// Returns the path of the chief's report.
    pub(super) fn report(&self) -> &Path {
        &self.report
    }

    /// Returns the path of the cluster file.
    pub(super) fn cluster(&self) -> &Path {
        &self.cluster
    }

    /// Records the arguments of an added worker, for its start and for restarts.
    pub(super) fn add(&mut self, task: Task, added: Added) {
        self.starts.borrow_mut().remove(&task);
        self.added.insert(task, added);
    }

    /// Returns the time of a task's last start.
    pub(super) fn started(&self, task: Task) -> Option<Instant> {
        self.starts.borrow().get(&task).map(|(last, _)| *last)
    }

    /// Records that a task has died with this exit code. Returns whether a signal or an exception has ended it so often, each
    /// time soon after its start, that the next start would end in the same way.
    pub(super) fn died(&self, task: Task, code: i32) -> bool {
        let mut killed = self.killed.borrow_mut();
        let is_soon = self
            .started(task)
            .is_some_and(|last| last.elapsed() <= STABLE_AFTER);
        let count = killed.entry(task).or_default();
        *count = if is_soon && (code > SIGNALLED || code == EXCEPTION) {
            *count + 1
        } else {
            0
        };
        *count >= KILLS_MAX
    }

    /// Returns the wait before a task is restarted.
    pub(super) fn pause(&self, task: Task) -> Duration {
        let starts = self.starts.borrow();
        let (last, soon) = starts.get(&task).copied().unwrap_or((Instant::now(), 0));
        if last.elapsed() > STABLE_AFTER {
            RESTART_DELAY
        } else {
            (RESTART_DELAY * 2_u32.saturating_pow(soon.min(8))).min(RESTART_DELAY_MAX)
        }
    }

    /// Starts a task: the daemon of its role if it was built beside this program, otherwise this program in that role.
    pub(super) fn start(&self, task: Task) -> Result<Child, Diagnostic> {
        let name = format!("trainyard-{}", task.role);
        let mut command = match self.program.daemon_beside(&name) {
            Some(daemon) => Command::new(daemon),
            None => {
                let mut command = self.own_command();
                command.args(["run", "--role", task.role.as_str()]);
                command
            }
        };
        command
            .arg("--job")
            .arg(&self.job)
            .args(&self.arguments)
            .arg("--cluster")
            .arg(
                self.added
                    .get(&task)
                    .map_or(&self.cluster, |added| &added.cluster),
            )
            .args(["--index", &task.index.to_string()])
            .args(["--drain-deadline", &DRAIN_SECS.to_string()]);
        if let Some(added) = self.added.get(&task) {
            command.args(["--admin-listen", &added.admin]);
        }
        if task.role == Role::Chief {
            command.arg("--report").arg(&self.report);
        }
        command.envs(self.runtime_threads.variable(task.role));
        self.spawn(task, command, Stdio::piped())
    }

    /// Starts the whole job as one process. It serves its metrics at `admin`, and does not evaluate.
    pub(super) fn start_alone(&self, task: Task, admin: &str) -> Result<Child, Diagnostic> {
        let mut command = self.own_command();
        command.arg("train").arg(&self.job).args(&self.arguments);
        command.args(["--no-evaluation", "--admin-listen", admin]);
        // The user has not asked for the summary of this run.
        self.spawn(task, command, Stdio::null())
    }

    /// Returns the command that starts this program once more.
    fn own_command(&self) -> Command {
        let mut command = Command::new(&self.program.file);
        command.args(&self.program.leading);
        command
    }

    fn spawn(&self, task: Task, mut command: Command, output: Stdio) -> Result<Child, Diagnostic> {
        command
            .stdin(Stdio::null())
            .stdout(output)
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            // A program that is killed cannot stop its tasks.
            .env(ENDS_WITH, std::process::id().to_string())
            .env_remove("TF_CONFIG");
        // With a process group of its own, an interrupt at the terminal reaches only this program, which stops the
        // tasks in the right order.
        command.process_group(0);
        let begun = Instant::now();
        let mut process = command.spawn().map_err(|error| {
            let otherwise = (Code::E9002, "start the program by hand to see more");
            system_problem(
                &error,
                format!("{task} cannot be started: {error}"),
                otherwise,
            )
        })?;
        let mut starts = self.starts.borrow_mut();
        let soon = starts.get(&task).map_or(0, |(last, soon)| {
            if last.elapsed() > STABLE_AFTER {
                0
            } else {
                soon + 1
            }
        });
        starts.insert(task, (begun, soon));
        let mut lines = JoinSet::new();
        if let Some(output) = process.stdout.take() {
            lines.spawn(forward(task, self.log_format, output));
        }
        if let Some(errors) = process.stderr.take() {
            lines.spawn(forward(task, self.log_format, errors));
        }
        Ok(Child { process, lines })
    }
}

/// Returns how a task has died, in words.
pub(super) fn cause_of(code: i32) -> String {
    let signal = code - SIGNALLED;
    let known = match signal {
        4 => "SIGILL: its program has an instruction that this processor does not know",
        6 => "SIGABRT: it has ended itself, as without memory",
        7 => "SIGBUS: a file that it has mapped was truncated, or its file system is full",
        9 => "SIGKILL: somebody has killed it, perhaps the kernel for want of memory",
        11 => "SIGSEGV: a fault in its program",
        25 => "SIGXFSZ: a file has reached the limit of its size (ulimit -f)",
        _ if signal > 0 => return format!("it was ended by signal {signal}"),
        _ if code == UNKNOWN_ARGUMENTS => {
            return format!(
                "it has ended with code {code}, as a script that does not know its arguments: a script that starts a cluster \
                 must pass the arguments of its process on"
            );
        }
        _ => return format!("it has ended with code {code}"),
    };
    format!("it was ended by {known}")
}

/// Writes the output lines of a task to standard error, each with the task's name.
async fn forward(task: Task, format: LogFormat, output: impl AsyncRead + Unpin) {
    let mut lines = BufReader::new(output).lines();
    while let Ok(Some(line)) = lines.next_line().await {
        use std::io::Write as _;
        let _ = writeln!(std::io::stderr(), "{}", named(task, format, &line));
    }
}

/// Returns a line with the name of its task: before the text, or as the field `from` of a JSON object.
fn named(task: Task, format: LogFormat, line: &str) -> String {
    match (format, line.strip_prefix("{\"")) {
        (LogFormat::Text, _) => format!("[{task}] {line}"),
        (LogFormat::Json, Some(rest)) => format!("{{\"from\":\"{task}\",\"{rest}"),
        // A line that is no log event, such as a panic message.
        (LogFormat::Json, None) => json!({"from": task.to_string(), "message": line}).to_string(),
    }
}

impl Child {
    /// Returns the process id while the process runs.
    pub(super) fn id(&self) -> Option<u32> {
        self.process.id()
    }

    /// Returns the exit code of a process that has ended, after its last lines are written. Signal n gives 128 + n.
    pub(super) async fn try_wait(&mut self) -> Option<i32> {
        let status = self.process.try_wait().ok()??;
        self.write_last_lines().await;
        Some(exit_code(status))
    }

    /// Waits until the process has ended and its last lines are written.
    pub(super) async fn wait(&mut self) -> i32 {
        let status = self.process.wait().await;
        self.write_last_lines().await;
        status.map_or(-1, exit_code)
    }

    async fn write_last_lines(&mut self) {
        let written = async { while self.lines.join_next().await.is_some() {} };
        let _ = tokio::time::timeout(LAST_LINES_TIMEOUT, written).await;
    }

    /// Asks the process to stop.
    pub(super) fn terminate(&self) {
        if let Some(pid) = self
            .process
            .id()
            .and_then(|pid| rustix::process::Pid::from_raw(pid.cast_signed()))
        {
            let _ = rustix::process::kill_process(pid, rustix::process::Signal::TERM);
        }
    }

    /// Ends the process.
    pub(super) fn kill(&mut self) {
        let _ = self.process.start_kill();
    }
}

fn exit_code(status: ExitStatus) -> i32 {
    use std::os::unix::process::ExitStatusExt as _;
    status
        .code()
        .unwrap_or_else(|| 128 + status.signal().unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Starts a shell in place of a task.
    fn shell(script: &str) -> Child {
        let job = JobArguments {
            job: "job.toml".into(),
            model_dir: None,
            set: Vec::new(),
            log_format: LogFormat::default(),
            log_level: None,
        };
        let command = TaskCommand {
            program: &Program::this(),
            job: &job,
            threads: None,
        };
        let launch = Launch::new(
            &command,
            RuntimeThreads::shared_by(1, 0),
            Path::new("cluster.toml"),
            Path::new("report.json"),
        );
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        launch
            .spawn(
                Task {
                    role: Role::Chief,
                    index: 0,
                },
                command,
                Stdio::piped(),
            )
            .expect("there is a shell")
    }

    /// Returns what starts the tasks of a job that is not there.
    fn launch() -> Launch {
        let job = JobArguments {
            job: "job.toml".into(),
            model_dir: None,
            set: Vec::new(),
            log_format: LogFormat::Text,
            log_level: None,
        };
        let command = TaskCommand {
            program: &Program::this(),
            job: &job,
            threads: None,
        };
        Launch::new(
            &command,
            RuntimeThreads::shared_by(1, 0),
            Path::new("cluster.toml"),
            Path::new("report.json"),
        )
    }

    #[test]
    fn a_task_that_dies_again_and_again_soon_after_its_start_is_given_up() {
        let task = Task {
            role: Role::Ps,
            index: 0,
        };
        let launch = launch();
        let start = || {
            let now = Instant::now();
            launch.starts.borrow_mut().insert(task, (now, 0));
        };
        let dies = |code: i32| {
            start();
            launch.died(task, code)
        };
        assert!((1..KILLS_MAX).all(|_| !dies(137)));
        assert!(dies(137), "the last straw");
        assert!(
            !dies(74),
            "a task that ends with a message is started again"
        );
        assert!((1..KILLS_MAX).all(|_| !dies(153)));
        assert!(dies(EXCEPTION), "a script that always raises");
    }

    #[test]
    fn the_signal_that_has_ended_a_task_is_named() {
        assert!(cause_of(137).contains("SIGKILL"));
        assert!(cause_of(153).contains("limit of its size"));
        assert_eq!(cause_of(128 + 44), "it was ended by signal 44");
        assert_eq!(cause_of(74), "it has ended with code 74");
        assert!(cause_of(2).contains("does not know its arguments"));
    }

    #[test]
    fn a_line_names_its_task_and_stays_an_object_where_logs_are_json() {
        let task = Task {
            role: Role::Worker,
            index: 3,
        };
        assert_eq!(
            named(task, LogFormat::Text, "{\"a\":1}"),
            "[worker:3] {\"a\":1}"
        );
        assert_eq!(
            named(task, LogFormat::Json, "{\"a\":1}"),
            "{\"from\":\"worker:3\",\"a\":1}"
        );
        let panic = named(task, LogFormat::Json, "thread 'main' panicked: \"why\"");
        let panic: serde_json::Value = serde_json::from_str(&panic).expect("an object");
        assert_eq!(
            panic,
            json!({"from": "worker:3", "message": "thread 'main' panicked: \"why\""})
        );
    }

    #[tokio::test]
    async fn a_process_has_ended_when_its_last_lines_are_written() {
        let mut child = shell("echo out; echo why >&2; exit 65");
        let code = loop {
            // Only this call lets the output tasks run, because the runtime has a single thread.
            std::thread::sleep(Duration::from_millis(1));
            if let Some(code) = child.try_wait().await {
                break code;
            }
        };
        assert_eq!(code, 65);
        assert!(child.lines.is_empty());
    }

    #[tokio::test]
    async fn a_process_whose_output_others_hold_has_ended_all_the_same() {
        let mut child = shell("sleep 5 & exit 3");
        assert_eq!(child.wait().await, 3);
    }
}
