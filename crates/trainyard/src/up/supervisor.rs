//! The processes of a cluster: started together, watched, stopped in the right order.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::{Duration, Instant};

use tokio::signal::unix::{SignalKind, signal};
use tracing::{info, warn};
use trainyard_cluster_spec::{ClusterSpec, Role, Task};
use trainyard_diagnostic::{Code, Diagnostic};

use super::child::{Child, Launch};
use super::control::Request;
use super::scaling::{Changes, Fate, Scaling};
use super::share_of_cores;
use crate::command::JobArguments;

/// Longest time for the other tasks to end after the chief has.
const END: Duration = Duration::from_secs(5);
/// Longest time for the evaluator to score and export the last checkpoint.
const EVALUATOR_END: Duration = Duration::from_secs(600);
/// Longest time that the others wait for the workers to stop.
const WORKERS_STOP: Duration = Duration::from_secs(5);
/// Longest time for everything else to stop after SIGTERM: the chief and its servers write a last checkpoint, which takes as
/// long as the model is large. It is more than [`DRAIN_SECS`](super::child::DRAIN_SECS), as in the units of systemd.
const STOP: Duration = Duration::from_secs(75);
/// Exit code of a process that SIGTERM has ended.
const TERMINATED: i32 = 128 + 15;
/// Longest time for servers to end that have no checkpoint to wait for.
const SERVERS_STOP: Duration = Duration::from_secs(5);
/// Time between looks at the processes.
const LOOK: Duration = Duration::from_millis(20);
/// Exit codes after which a restart would end in the same way: command line, data, files, ports, versions, rights,
/// configuration.
const PERMANENT: [i32; 7] = [64, 65, 66, 73, 76, 77, 78];

/// Running processes and how the others have ended.
#[derive(Debug)]
pub(crate) struct Supervisor {
    launch: Launch,
    children: BTreeMap<Task, Child>,
    exits: BTreeMap<Task, i32>,
    /// Tasks that have died, and when they are started again.
    due: BTreeMap<Task, Instant>,
}

impl Supervisor {
    /// Starts tasks of a job. The cluster file that they read, and the chief's report, lie in `local_dir/up`.
    ///
    /// # Errors
    /// The folder cannot be written, or a process not be started.
    pub(crate) fn start(
        job: &JobArguments,
        threads: Option<usize>,
        local_dir: &Path,
        cluster: &ClusterSpec,
        tasks: &[Task],
    ) -> Result<Self, Diagnostic> {
        let folder = local_dir.join("up");
        let written = |path: &Path, error: std::io::Error| {
            Diagnostic::error(
                Code::E9002,
                format!("{} cannot be written: {error}", path.display()),
            )
            .help("check the folder model_dir")
        };
        std::fs::create_dir_all(&folder).map_err(|error| written(&folder, error))?;
        let cluster_file = folder.join("cluster.toml");
        std::fs::write(&cluster_file, cluster.to_toml())
            .map_err(|error| written(&cluster_file, error))?;
        let report_file = folder.join("chief-report.json");
        let _ = std::fs::remove_file(&report_file);
        let launch = Launch::new(
            job,
            threads,
            share_of_cores(tasks.len()),
            &cluster_file,
            &report_file,
        )?;
        let mut children = BTreeMap::new();
        for task in tasks {
            children.insert(*task, launch.start(*task)?);
        }
        Ok(Self {
            launch,
            children,
            exits: BTreeMap::new(),
            due: BTreeMap::new(),
        })
    }

    /// Starts a job as one process, `chief:0`, that serves its metrics at `admin` and evaluates nothing.
    ///
    /// # Errors
    /// The process cannot be started.
    pub(crate) fn start_alone(job: &JobArguments, admin: &str) -> Result<Self, Diagnostic> {
        let launch = Launch::new(job, None, share_of_cores(1), Path::new(""), Path::new(""))?;
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
        })
    }

    /// Where the chief writes its report.
    pub(crate) fn report_file(&self) -> &Path {
        self.launch.report()
    }

    /// Exit codes of the tasks that have ended.
    pub(crate) fn exits(&self) -> &BTreeMap<Task, i32> {
        &self.exits
    }

    /// Returns the process id of each running task.
    pub(crate) fn process_ids(&self) -> BTreeMap<Task, u32> {
        self.children
            .iter()
            .filter_map(|(task, child)| Some((*task, child.id()?)))
            .collect()
    }

    /// Returns when a task was last started.
    pub(crate) fn started(&self, task: Task) -> Option<Instant> {
        self.launch.started(task)
    }

    /// Takes note of the tasks that have ended since the last look, and returns them with their exit codes. All that they
    /// had to say is written then.
    pub(crate) async fn ended(&mut self) -> Vec<(Task, i32)> {
        let mut ended = Vec::new();
        for (task, child) in &mut self.children {
            ended.extend(child.try_wait().await.map(|code| (*task, code)));
        }
        self.children
            .retain(|task, _| !ended.iter().any(|(gone, _)| gone == task));
        self.exits.extend(ended.iter().copied());
        ended
    }

    /// Watches the processes, and adds and removes workers, until the job has ended. Returns its exit code.
    pub(super) async fn watch(&mut self, scaling: &mut Scaling) -> Result<u8, Diagnostic> {
        let signals = signal(SignalKind::terminate())
            .and_then(|terminate| Ok((terminate, signal(SignalKind::interrupt())?)));
        let (mut terminate, mut interrupt) = signals.map_err(|error| {
            Diagnostic::error(Code::E9002, format!("signals cannot be caught: {error}"))
        })?;
        loop {
            tokio::select! {
                () = tokio::time::sleep(LOOK) => {}
                request = scaling.next() => self.scale(scaling, request),
                _ = terminate.recv() => return Ok(self.stop_all().await),
                _ = interrupt.recv() => return Ok(self.stop_all().await),
            }
            for (task, code) in self.ended().await {
                if task.role == Role::Chief && code == 0 {
                    self.wait_for_the_rest().await;
                    return Ok(0);
                }
                match scaling.ended(task, code, PERMANENT.contains(&code)) {
                    Fate::Other => {}
                    Fate::Stopped => {
                        info!(%task, code, "{task} has left");
                        continue;
                    }
                    Fate::Unfit => {
                        warn!(%task, code, "{task} cannot be added: the job goes on without it");
                        continue;
                    }
                }
                if PERMANENT.contains(&code) {
                    warn!(%task, code, "{task} has failed for good: stopping the job");
                    self.stop_all().await;
                    return Ok(u8::try_from(code).unwrap_or(1));
                }
                if code != 0 {
                    warn!(%task, code, "{task} has died: starting it again");
                    self.due
                        .insert(task, Instant::now() + self.launch.pause(task));
                } else if task.role == Role::Ps {
                    // The chief follows at once. One that has died just as the job ended comes back and needs it.
                    self.due.insert(task, Instant::now() + END);
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

    /// Starts again what has died, when it is time.
    fn start_due(&mut self) -> Result<(), Diagnostic> {
        let now = Instant::now();
        let due: Vec<Task> = self
            .due
            .iter()
            .filter(|(_, at)| **at <= now)
            .map(|(task, _)| *task)
            .collect();
        for task in due {
            self.due.remove(&task);
            self.children.insert(task, self.launch.start(task)?);
        }
        Ok(())
    }

    /// Starts and stops workers, as an order asks.
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
                    scaling.ended(task, code, true);
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
                // It has ended by itself, or was to be started again.
                None => {
                    scaling.ended(*task, self.exits.get(task).copied().unwrap_or(0), false);
                }
            }
        }
    }

    /// After the chief has ended well, the others end by themselves.
    async fn wait_for_the_rest(&mut self) {
        let ended = Instant::now();
        while !self.children.is_empty() {
            tokio::time::sleep(LOOK).await;
            let late: Vec<Task> = self
                .children
                .keys()
                .copied()
                .filter(|task| {
                    ended.elapsed()
                        > if task.role == Role::Evaluator {
                            EVALUATOR_END
                        } else {
                            END
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

    /// Stops everything: the workers first, so that the checkpoint which the chief then writes holds their last steps;
    /// the servers when it is written.
    pub(crate) async fn stop_all(&mut self) -> u8 {
        info!("stopping every task");
        self.due.clear();
        let chief = self
            .children
            .keys()
            .copied()
            .find(|task| task.role == Role::Chief);
        self.stop(&[Role::Worker], Instant::now() + WORKERS_STOP)
            .await;
        let until = Instant::now() + STOP;
        self.stop(&[Role::Chief, Role::Evaluator], until).await;
        if chief.is_none() {
            // They would wait for the last checkpoint of a chief that has ended before them.
            self.end_at_once(Role::Ps, Instant::now() + SERVERS_STOP)
                .await;
        } else {
            self.stop(&[Role::Ps], until).await;
        }
        for task in self.children.keys() {
            warn!(%task, "{task} did not stop in time: it is killed");
        }
        if self.children.is_empty() {
            // Without its last checkpoint the job has not stopped well. One that could not catch signals yet had none to write.
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
        while self.children.keys().any(|task| roles.contains(&task.role)) && Instant::now() < until
        {
            tokio::time::sleep(LOOK).await;
            self.ended().await;
        }
    }

    /// Tells the tasks of a role twice to stop, so that they wait for nothing, and waits for them.
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
            tokio::time::sleep(LOOK).await;
            self.ended().await;
        }
    }

    /// Ends every process at once, without a last checkpoint.
    pub(crate) async fn kill_all(&mut self) {
        for child in self.children.values_mut() {
            child.kill();
        }
        for (task, mut child) in std::mem::take(&mut self.children) {
            self.exits.insert(task, child.wait().await);
        }
    }
}
