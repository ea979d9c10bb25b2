//! Supervisor of a cluster's processes: starts them together, restarts them, and stops them in order.

use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::path::Path;
use std::time::Duration;

use tokio::time::Instant;
use tracing::{info, warn};
use trainyard_cluster_spec::{ClusterSpec, Role, Task};
use trainyard_daemon::StopSource;
use trainyard_diagnostic::{Code, Diagnostic, system_problem};

use super::child::{Child, Launch, SIGNALLED, TaskCommand, UNKNOWN_ARGUMENTS, cause_of};
use super::control::Request;
use super::runtime_threads::RuntimeThreads;
use super::scaling::{Changes, Fate, Restart, Scaling};
use crate::arguments::JobArguments;
use crate::program::Program;

/// Time in which the other tasks must end after the chief.
const STOP_TIMEOUT: Duration = Duration::from_secs(5);
/// Time in which the evaluator must evaluate and export the last checkpoint.
const EVALUATOR_END_TIMEOUT: Duration = Duration::from_secs(600);
/// Time in which the workers must stop before the chief is stopped.
const WORKERS_STOP_TIMEOUT: Duration = Duration::from_secs(5);
/// Time in which the remaining tasks must stop after SIGTERM. The chief and its servers write a last checkpoint, which
/// takes longer the larger the model is. The time exceeds [`DRAIN_SECS`](super::child::DRAIN_SECS), as in the systemd
/// units.
const CHIEF_STOP_TIMEOUT: Duration = Duration::from_secs(75);
/// Exit code of a process that SIGTERM has ended.
const TERMINATED: i32 = 128 + 15;
/// Time in which servers must end that wait for no checkpoint.
const SERVERS_STOP_TIMEOUT: Duration = Duration::from_secs(5);
/// Time after which a line of the log names the tasks that have not stopped yet, and between two such lines.
const STOP_NOTICE_INTERVAL: Duration = Duration::from_secs(10);
/// Time between two polls of the processes.
const POLL_INTERVAL: Duration = Duration::from_millis(20);
/// Exit codes that make a restart pointless: command line, data, files, ports, versions, rights, configuration.
const PERMANENT: [i32; 8] = [UNKNOWN_ARGUMENTS, 64, 65, 66, 73, 76, 77, 78];

/// Returns what comes of a restart after an exit code.
fn restart_after(code: i32) -> Restart {
    if PERMANENT.contains(&code) {
        Restart::Fails
    } else {
        Restart::MaySucceed
    }
}

/// Running processes, and the exit codes of ended ones.
#[derive(Debug)]
pub struct Supervisor {
    launch: Launch,
    children: BTreeMap<Task, Child>,
    exits: BTreeMap<Task, i32>,
    /// Tasks that have died, with the time of their restart.
    due: BTreeMap<Task, Instant>,
    /// Why the job was stopped, if a task has failed for good.
    failure: Option<String>,
    /// Content of the cluster file.
    cluster: String,
}

impl Supervisor {
    /// Starts tasks of a job. Their cluster file and the chief's report lie in `local_dir/up`.
    ///
    /// # Errors
    /// The folder cannot be written, or a process cannot be started.
    pub fn start(
        command: &TaskCommand<'_>,
        local_dir: &Path,
        cluster: &ClusterSpec,
        tasks: &[Task],
    ) -> Result<Self, Diagnostic> {
        let folder = local_dir.join("up");
        let written = |path: &Path, error: std::io::Error| {
            let message = format!("{} cannot be written: {error}", path.display());
            system_problem(&error, message, (Code::E9002, "check the folder model_dir"))
        };
        std::fs::create_dir_all(&folder).map_err(|error| written(&folder, error))?;
        let cluster_file = folder.join("cluster.toml");
        let cluster = cluster.to_toml();
        std::fs::write(&cluster_file, &cluster).map_err(|error| written(&cluster_file, error))?;
        let report_file = folder.join("chief-report.json");
        let _ = std::fs::remove_file(&report_file);
        let servers = tasks.iter().filter(|task| task.role == Role::Ps).count();
        let runtime_threads = RuntimeThreads::shared_by(tasks.len(), servers);
        let launch = Launch::new(command, runtime_threads, &cluster_file, &report_file);
        let mut children = BTreeMap::new();
        for task in tasks {
            children.insert(*task, launch.start(*task)?);
        }
        Ok(Self {
            launch,
            children,
            exits: BTreeMap::new(),
            due: BTreeMap::new(),
            failure: None,
            cluster,
        })
    }

    /// Starts a job as one process, `chief:0`. It serves its metrics at `admin`, and does not evaluate.
    ///
    /// # Errors
    /// The process cannot be started.
    pub fn start_alone(job: &JobArguments, admin: &str) -> Result<Self, Diagnostic> {
        let command = TaskCommand {
            program: &Program::this(),
            job,
            threads: None,
        };
        let none = Path::new("");
        let launch = Launch::new(&command, RuntimeThreads::shared_by(1, 0), none, none);
        let task = Task {
            role: Role::Chief,
            index: 0,
        };
        let children = [(task, launch.start_alone(task, admin)?)].into();
        Ok(Self {
            launch,
            children,
            exits: BTreeMap::new(),
            due: BTreeMap::new(),
            failure: None,
            cluster: String::new(),
        })
    }

    /// Returns the path of the chief's report.
    pub(crate) fn report_file(&self) -> &Path {
        self.launch.report()
    }

    /// Returns why the job was stopped, if a task has failed for good.
    pub(crate) fn failure(&self) -> Option<&str> {
        self.failure.as_deref()
    }

    /// Returns the exit codes of the tasks that have ended.
    pub fn exits(&self) -> &BTreeMap<Task, i32> {
        &self.exits
    }

    /// Returns the process id of each running task.
    pub fn process_ids(&self) -> BTreeMap<Task, u32> {
        self.children
            .iter()
            .filter_map(|(task, child)| Some((*task, child.id()?)))
            .collect()
    }

    /// Returns the time of a task's last start.
    pub fn started(&self, task: Task) -> Option<Instant> {
        self.launch.started(task)
    }

    /// Returns the tasks that have ended since the last call, with their exit codes. Their output is written by then.
    pub async fn ended(&mut self) -> Vec<(Task, i32)> {
        let mut ended = Vec::new();
        for (task, child) in &mut self.children {
            ended.extend(child.try_wait().await.map(|code| (*task, code)));
        }
        self.children
            .retain(|task, _| !ended.iter().any(|(gone, _)| gone == task));
        self.exits.extend(ended.iter().copied());
        ended
    }

    /// Watches the processes, and adds and removes workers, until the job has ended. Returns the job's exit code.
    pub(super) async fn watch(
        &mut self,
        scaling: &mut Scaling,
        stop: &StopSource,
    ) -> Result<u8, Diagnostic> {
        let mut requests = stop.requests().map_err(|error| {
            Diagnostic::error(Code::E9002, format!("signals cannot be caught: {error}"))
        })?;
        loop {
            tokio::select! {
                () = tokio::time::sleep(POLL_INTERVAL) => {}
                request = scaling.next() => self.scale(scaling, request),
                () = requests.next() => return Ok(self.stop_all().await),
            }
            for (task, code) in self.ended().await {
                if task.role == Role::Chief && code == 0 {
                    self.wait_for_the_rest().await;
                    return Ok(0);
                }
                match scaling.ended(task, code, restart_after(code)) {
                    Fate::Other => {}
                    Fate::Stopped => {
                        info!(%task, code, "{task} has left");
                        continue;
                    }
                    Fate::Unfit => {
                        warn!(%task, code, "{task} cannot be added: the job continues without it");
                        continue;
                    }
                }
                if PERMANENT.contains(&code) {
                    let cause = cause_of(code);
                    warn!(%task, code, "{task} has failed permanently: {cause}. Stopping the job");
                    self.failure = Some(format!("{task} has failed permanently: {cause}"));
                    self.stop_all().await;
                    return Ok(u8::try_from(code).unwrap_or(1));
                }
                if self.launch.died(task, code) {
                    let cause = cause_of(code);
                    warn!(%task, code, "{task} dies again and again, soon after its start: {cause}. Stopping the job");
                    self.failure = Some(format!(
                        "{task} died again and again, soon after its start: {cause}"
                    ));
                    self.stop_all().await;
                    let is_killed = code == SIGNALLED + 9;
                    return Ok(if is_killed { Code::E3009 } else { Code::E9001 }.exit);
                }
                if code != 0 {
                    let cause = cause_of(code);
                    warn!(%task, code, "{task} has died: {cause}. Starting it again");
                    self.due
                        .insert(task, Instant::now() + self.launch.pause(task));
                } else if task.role == Role::Ps {
                    // The chief is expected to end at once. A chief that died as the job ended restarts, and needs its
                    // servers.
                    self.due.insert(task, Instant::now() + STOP_TIMEOUT);
                }
            }
            self.start_due()?;
            let looked = scaling.look();
            self.ask_to_stop(scaling, &looked.terminate);
            for task in looked.kill {
                if let Some(mut child) = self.children.remove(&task) {
                    child.kill();
                    self.exits.insert(task, child.wait().await);
                }
            }
        }
    }

    /// Checks that the folder of the job is the one in which it was started. A cluster file that cannot be read now is neither
    /// gone nor another one.
    ///
    /// # Errors
    /// The folder was removed, or that of another run is in its place.
    pub(crate) fn check_folder(&self) -> Result<(), Diagnostic> {
        let path = self.launch.cluster();
        let what = match std::fs::read_to_string(path) {
            Ok(found) if found != self.cluster => "is that of another run: model_dir was replaced",
            Err(error)
                if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) =>
            {
                "is gone: model_dir was removed"
            }
            Ok(_) | Err(_) => return Ok(()),
        };
        let message = format!("{} {what} while the job ran", path.display());
        Err(Diagnostic::error(Code::E9002, message).help(
            "its checkpoints and logs are gone with it: start the job anew, or bring the folder back first",
        ))
    }

    /// Restarts the tasks whose restart is due.
    fn start_due(&mut self) -> Result<(), Diagnostic> {
        let now = Instant::now();
        let due: Vec<Task> = self
            .due
            .iter()
            .filter(|(_, at)| **at <= now)
            .map(|(task, _)| *task)
            .collect();
        if !due.is_empty() {
            self.check_folder()?;
        }
        for task in due {
            self.due.remove(&task);
            self.children.insert(task, self.launch.start(task)?);
        }
        Ok(())
    }

    /// Starts and stops workers for an order.
    fn scale(&mut self, scaling: &mut Scaling, request: Request) {
        let Changes { start, stop } = scaling.begin(request);
        for (task, added) in start {
            self.launch.add(task, added);
            match self.launch.start(task) {
                Ok(child) => {
                    scaling.started(task, child.id());
                    self.children.insert(task, child);
                }
                Err(problem) => {
                    warn!("{}", problem.log_line());
                    let code = i32::from(problem.code.exit);
                    self.exits.insert(task, code);
                    scaling.ended(task, code, Restart::Fails);
                }
            }
        }
        self.ask_to_stop(scaling, &stop);
    }

    fn ask_to_stop(&mut self, scaling: &mut Scaling, tasks: &[Task]) {
        for task in tasks {
            self.due.remove(task);
            match self.children.get(task) {
                Some(child) => child.terminate(),
                // The worker has ended by itself, or was waiting for its restart.
                None => {
                    let code = self.exits.get(task).copied().unwrap_or(0);
                    scaling.ended(*task, code, Restart::MaySucceed);
                }
            }
        }
    }

    /// Waits for the other tasks, which end by themselves after the chief has ended successfully.
    async fn wait_for_the_rest(&mut self) {
        let ended = Instant::now();
        while !self.children.is_empty() {
            tokio::time::sleep(POLL_INTERVAL).await;
            let late: Vec<Task> = self
                .children
                .keys()
                .copied()
                .filter(|task| {
                    ended.elapsed()
                        > if task.role == Role::Evaluator {
                            EVALUATOR_END_TIMEOUT
                        } else {
                            STOP_TIMEOUT
                        }
                })
                .collect();
            for task in late {
                warn!(%task, "{task} did not end by itself in time: it is killed");
                if let Some(mut child) = self.children.remove(&task) {
                    child.kill();
                    self.exits.insert(task, child.wait().await);
                }
            }
            self.ended().await;
        }
    }

    /// Stops all tasks in order: first the workers, so that the chief's last checkpoint holds their last steps; then
    /// the chief; then the servers, after that checkpoint is written.
    pub async fn stop_all(&mut self) -> u8 {
        info!("stopping every task");
        self.due.clear();
        let chief = self
            .children
            .keys()
            .copied()
            .find(|task| task.role == Role::Chief);
        self.stop(&[Role::Worker], Instant::now() + WORKERS_STOP_TIMEOUT)
            .await;
        let until = Instant::now() + CHIEF_STOP_TIMEOUT;
        self.stop(&[Role::Chief, Role::Evaluator], until).await;
        if chief.is_none() {
            // The servers would wait for the last checkpoint of a chief that has ended already.
            self.end_at_once(Role::Ps, Instant::now() + SERVERS_STOP_TIMEOUT)
                .await;
        } else {
            self.stop(&[Role::Ps], until).await;
        }
        for task in self.children.keys() {
            warn!(%task, "{task} did not stop in time: it is killed");
        }
        if self.children.is_empty() {
            // An exit code of the chief other than 0 means that its last checkpoint is missing. A chief that SIGTERM
            // ended did not catch signals yet, and had none to write.
            let failed = chief
                .and_then(|chief| self.exits.get(&chief))
                .filter(|code| **code != TERMINATED);
            return failed.map_or(0, |code| u8::try_from(*code).unwrap_or(Code::E9003.exit));
        }
        self.kill_all().await;
        Code::E9003.exit
    }

    /// Asks the tasks of some roles to stop, and waits for them.
    async fn stop(&mut self, roles: &[Role], until: Instant) {
        for (task, child) in &self.children {
            if roles.contains(&task.role) {
                child.terminate();
            }
        }
        let mut notice = Instant::now() + STOP_NOTICE_INTERVAL;
        while self.children.keys().any(|task| roles.contains(&task.role)) && Instant::now() < until
        {
            tokio::time::sleep(POLL_INTERVAL).await;
            self.ended().await;
            if Instant::now() >= notice {
                notice = Instant::now() + STOP_NOTICE_INTERVAL;
                let left = self
                    .children
                    .keys()
                    .filter(|task| roles.contains(&task.role));
                let left: Vec<String> = left.map(Task::to_string).collect();
                let seconds = until.saturating_duration_since(Instant::now()).as_secs();
                warn!(
                    "waiting for the end of {}, which is killed in {seconds} s",
                    left.join(", ")
                );
            }
        }
    }

    /// Asks the tasks of a role to stop repeatedly, so that they skip their waits, and waits for them.
    async fn end_at_once(&mut self, role: Role, until: Instant) {
        while self.children.keys().any(|task| task.role == role) && Instant::now() < until {
            for child in self
                .children
                .iter()
                .filter(|(task, _)| task.role == role)
                .map(|(_, child)| child)
            {
                child.terminate();
            }
            tokio::time::sleep(POLL_INTERVAL).await;
            self.ended().await;
        }
    }

    /// Kills every process, without a last checkpoint.
    pub async fn kill_all(&mut self) {
        for child in self.children.values_mut() {
            child.kill();
        }
        for (task, mut child) in std::mem::take(&mut self.children) {
            let mut ended = std::pin::pin!(child.wait());
            let code = loop {
                match tokio::time::timeout(STOP_NOTICE_INTERVAL, &mut ended).await {
                    Ok(code) => break code,
                    // A process that waits for a disk dies when the disk answers.
                    Err(_) => {
                        warn!(%task, "{task} was killed and has not ended: it waits for a disk")
                    }
                }
            };
            self.exits.insert(task, code);
        }
    }
}
