//! `trainyard bench train`: measures a job while it trains, one process per task, as in real use.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use serde::Serialize;
use trainyard_cluster_spec::{ClusterSpec, Role, Task};
use trainyard_command::runtime::single_threaded;
use trainyard_command::{
    Folder, Format, JobArguments, Program, Supervisor, TaskCommand, free_ports, print, resolve,
    tasks, threads,
};
use trainyard_daemon::{LogFormat, StopSignals};
use trainyard_diagnostic::{Code, Diagnostic};
use trainyard_run_config::Job;
use trainyard_trainer::check_cluster;

use super::arguments::BenchTrain;
use super::conditions::Conditions;
use super::figures::{Figures, Observed, Snapshot};
use super::samples::Samples;
use super::usage;

/// Timeout from the start to the first step of the last task. The start initializes tables and writes a first
/// checkpoint.
const START_TIMEOUT: Duration = Duration::from_secs(300);
/// Time between two polls of the tasks before the measurement. It bounds the precision of the time to the first step.
const POLL_INTERVAL: Duration = Duration::from_millis(10);
/// A number of steps, passes or seconds that no measurement reaches.
const NEVER: u64 = 1_000_000_000_000;

/// Output of the benchmark.
#[derive(Debug, Serialize)]
pub(super) struct Report {
    job: String,
    cluster: String,
    #[serde(flatten)]
    pub(super) conditions: Conditions,
    warmup_seconds: f64,
    /// Settings of the job that were changed for the measurement.
    changed: Vec<String>,
    #[serde(flatten)]
    pub(super) figures: Figures,
    /// Exit code of each task.
    exit: BTreeMap<String, i32>,
}

/// Tasks of the job, with their admin addresses.
struct Cluster {
    supervisor: Supervisor,
    admin: BTreeMap<Task, String>,
    began: Instant,
}

/// Trains a job for a while in a temporary folder, and prints its figures.
pub(super) fn bench(arguments: &BenchTrain) -> Result<(), Vec<Diagnostic>> {
    let report = measure(arguments)?;
    print(&report.render(arguments.format)).map_err(|problem| vec![problem])
}

/// Trains a job for a while in a temporary folder, and returns its figures.
pub(super) fn measure(arguments: &BenchTrain) -> Result<Report, Vec<Diagnostic>> {
    let mut job = Job::load(&arguments.job, &arguments.set)?;
    let (set, changed) = endless(&job);
    let (spec, _sockets) = match arguments.cluster.as_str() {
        "none" => (None, None),
        text => training_cluster(text, &job).map(|(spec, sockets)| (Some(spec), sockets))?,
    };
    let conditions = match &spec {
        Some(spec) => Conditions::of_job(&job, spec),
        None => Conditions::of_one_process(),
    };
    let one = |problem: Diagnostic| vec![problem];
    let folder = Folder::new().map_err(one)?;
    job.model_dir = folder.path().join("model");
    job.input.eval = None;
    let tasks_arguments = JobArguments {
        job: arguments.job.clone(),
        model_dir: Some(job.model_dir.clone()),
        set: arguments.set.iter().cloned().chain(set).collect(),
        log_format: LogFormat::Text,
        log_level: Some(arguments.log_level.clone()),
    };
    let (figures, exit) = single_threaded()
        .map_err(one)?
        .block_on(async {
            let mut cluster = Cluster::start(&tasks_arguments, &job, spec)?;
            let measured = cluster.measure_unless_told_to_stop(&job, arguments).await;
            if measured.is_ok() {
                cluster.supervisor.stop_all().await;
            } else {
                cluster.supervisor.kill_all().await;
            }
            Ok((measured?, cluster.supervisor.exits().clone()))
        })
        .map_err(one)?;
    Ok(Report {
        job: arguments.job.display().to_string(),
        cluster: arguments.cluster.clone(),
        conditions,
        warmup_seconds: arguments.warmup,
        changed,
        figures,
        exit: exit
            .iter()
            .map(|(task, code)| (task.to_string(), *code))
            .collect(),
    })
}

/// Returns the cluster of the benchmark, without evaluators.
fn training_cluster(
    text: &str,
    job: &Job,
) -> Result<(ClusterSpec, Option<Folder>), Vec<Diagnostic>> {
    let (mut cluster, sockets) = resolve(text, job)?;
    let servers = cluster.of_role(Role::Ps).count();
    check_cluster(job, servers).map_err(|problem| vec![problem])?;
    cluster.evaluators = 0;
    cluster.admin.retain(|task, _| task.role != Role::Evaluator);
    match cluster
        .tasks
        .keys()
        .find(|task| !cluster.admin.contains_key(task))
    {
        None => Ok((cluster, sockets)),
        Some(task) => {
            let message = format!(
                "cluster file {text} has no admin address of {task}, which is asked for its metrics"
            );
            let help = "add it under [admin], or give --cluster local:ps=1,worker=1";
            Err(vec![Diagnostic::error(Code::E1007, message).help(help)])
        }
    }
}

/// Returns the settings that remove the job's end and its periodic checkpoints, and a description of each change.
fn endless(job: &Job) -> (Vec<String>, Vec<String>) {
    let mut set = Vec::new();
    let mut changed = Vec::new();
    let mut lift = |key: &str, given: Option<u64>, why: &str| {
        if let Some(given) = given {
            set.push(format!("{key}={NEVER}"));
            changed.push(format!("{why} ({key} is {given})"));
        }
    };
    lift(
        "input.train.epochs",
        job.input.train.epochs,
        "the input is repeated without end",
    );
    lift(
        "train.max_steps",
        job.train.max_steps,
        "training continues after its last step",
    );
    let between = "no checkpoint between start and end";
    lift(
        "run.save_checkpoints_steps",
        job.run.save_checkpoints_steps,
        between,
    );
    lift(
        "run.save_checkpoints_secs",
        job.run.save_checkpoints_secs,
        between,
    );
    if job.input.eval.is_some() {
        changed.push("nothing is evaluated".to_owned());
    }
    (set, changed)
}

impl Cluster {
    fn start(
        arguments: &JobArguments,
        job: &Job,
        spec: Option<ClusterSpec>,
    ) -> Result<Self, Diagnostic> {
        let began = Instant::now();
        let (supervisor, admin) = match spec {
            Some(spec) => {
                let tasks = tasks(&spec, job);
                let threads = threads(job, tasks.len());
                let command = TaskCommand {
                    program: &Program::this(),
                    job: arguments,
                    threads,
                };
                let supervisor = Supervisor::start(&command, &job.model_dir, &spec, &tasks)?;
                (supervisor, spec.admin)
            }
            None => {
                let ports = free_ports(1);
                let port = ports
                    .as_ref()
                    .ok()
                    .and_then(|ports| ports.first())
                    .ok_or_else(|| {
                        Diagnostic::error(Code::E2001, "this machine has no free port for metrics")
                    })?;
                let address = format!("127.0.0.1:{port}");
                let supervisor = Supervisor::start_alone(arguments, &address)?;
                (
                    supervisor,
                    [(
                        Task {
                            role: Role::Chief,
                            index: 0,
                        },
                        address,
                    )]
                    .into(),
                )
            }
        };
        Ok(Self {
            supervisor,
            admin,
            began,
        })
    }

    async fn measure_unless_told_to_stop(
        &mut self,
        job: &Job,
        arguments: &BenchTrain,
    ) -> Result<Figures, Diagnostic> {
        let mut signals = StopSignals::catch().map_err(|error| {
            Diagnostic::error(Code::E9002, format!("signals cannot be caught: {error}"))
        })?;
        tokio::select! {
            measured = self.measure(job, arguments) => measured,
            () = signals.next() => Err(interrupted()),
        }
    }

    async fn measure(&mut self, job: &Job, arguments: &BenchTrain) -> Result<Figures, Diagnostic> {
        let first_steps = self.wait_for_first_steps(job).await?;
        self.let_train(arguments.warmup).await?;
        let before = self.look().await?;
        let (idle, began) = (usage::idle(), Instant::now());
        self.let_train(arguments.seconds).await?;
        let idle_cores = usage::idle_cores(idle, began.elapsed().as_secs_f64());
        let mut after = self.look().await?;
        let observed: Vec<Observed> = before
            .into_iter()
            .filter_map(|(task, before)| {
                let first_step_seconds = first_steps.get(&task).copied();
                Some(Observed {
                    task,
                    before,
                    after: after.remove(&task)?,
                    first_step_seconds,
                })
            })
            .collect();
        Figures::new(&observed, idle_cores).ok_or_else(|| {
            let message = format!("no step was applied within {} s", arguments.seconds);
            Diagnostic::error(Code::E1000, message)
                .help("give --seconds more, or the job smaller batches")
        })
    }

    /// Waits until every training task has applied a step and the first checkpoint is written. Returns the seconds
    /// from the start of each process to its first step.
    async fn wait_for_first_steps(&mut self, job: &Job) -> Result<BTreeMap<Task, f64>, Diagnostic> {
        let mut first_steps = BTreeMap::new();
        loop {
            let mut waiting = Vec::new();
            for (task, address) in &self.admin {
                let trains = match task.role {
                    Role::Chief => job.strategy.chief_trains,
                    role => role == Role::Worker,
                };
                let unsaved = |samples: &Samples| {
                    task.role == Role::Chief && samples.get("trainyard_checkpoints_total") < 1.0
                };
                if first_steps.contains_key(task) && task.role != Role::Chief {
                    continue;
                }
                let name = if task.role == Role::Ps {
                    "trainyard_ps_pushes_total"
                } else {
                    "trainyard_steps_total"
                };
                // The port refuses connections while the process starts.
                let samples = Samples::fetch(address).await.unwrap_or_default();
                if samples.get(name) >= 1.0
                    && let Some(started) = self.supervisor.started(*task)
                {
                    first_steps
                        .entry(*task)
                        .or_insert_with(|| started.elapsed().as_secs_f64());
                } else if trains {
                    waiting.push(format!("the first step of {task}"));
                }
                if unsaved(&samples) {
                    waiting.push("the first checkpoint".to_owned());
                }
            }
            if waiting.is_empty() {
                return Ok(first_steps);
            }
            self.all_run().await?;
            if self.began.elapsed() > START_TIMEOUT {
                let message = format!(
                    "the job did not train within {} s of its start",
                    START_TIMEOUT.as_secs()
                );
                let problem = Diagnostic::error(Code::E9002, message);
                return Err(problem.note(format!("waiting for {}", waiting.join(", "))));
            }
            tokio::time::sleep(POLL_INTERVAL).await;
        }
    }

    /// Waits, then fails if a task has ended meanwhile.
    async fn let_train(&mut self, seconds: f64) -> Result<(), Diagnostic> {
        tokio::time::sleep(Duration::from_secs_f64(seconds)).await;
        self.all_run().await
    }

    async fn all_run(&mut self) -> Result<(), Diagnostic> {
        let Some((task, code)) = self.supervisor.ended().await.first().copied() else {
            return Ok(());
        };
        let message = format!("{task} has ended in the benchmark, with exit code {code}");
        Err(Diagnostic::error(Code::E9002, message)
            .help("its own message is above; `trainyard check` may find the cause"))
    }

    /// Polls every task.
    async fn look(&self) -> Result<BTreeMap<Task, Snapshot>, Diagnostic> {
        let processes = self.supervisor.process_ids();
        let mut snapshots = BTreeMap::new();
        for (task, address) in &self.admin {
            let gone =
                || Diagnostic::error(Code::E9002, format!("{task} has ended in the benchmark"));
            let process = processes.get(task).copied().ok_or_else(gone)?;
            let cpu = usage::of_process(process).ok_or_else(gone)?;
            let peak_bytes = usage::peak_bytes(process).ok_or_else(gone)?;
            let at_seconds = self.began.elapsed().as_secs_f64();
            let samples = Samples::fetch(address).await?;
            snapshots.insert(
                *task,
                Snapshot {
                    at_seconds,
                    cpu_seconds: cpu.as_secs_f64(),
                    peak_bytes,
                    samples,
                },
            );
        }
        Ok(snapshots)
    }
}

fn interrupted() -> Diagnostic {
    Diagnostic::error(
        Code::E9002,
        "the benchmark received a request to stop before its measurement",
    )
}

impl Report {
    fn render(&self, format: Format) -> String {
        if format == Format::Json {
            return serde_json::to_string(self).unwrap_or_default() + "\n";
        }
        let place = match self.cluster.as_str() {
            "none" => "in one process".to_owned(),
            cluster => format!("on {cluster}"),
        };
        let mut text = format!(
            "{} {place}, {:.1} s after {:.1} s of warm-up\n\n{}{}",
            self.job,
            self.figures.seconds,
            self.warmup_seconds,
            self.conditions.text(),
            self.figures.text()
        );
        if !self.changed.is_empty() {
            text.push_str(&format!(
                "For the measurement: {}.\n",
                self.changed.join("; ")
            ));
        }
        for (task, code) in self.exit.iter().filter(|(_, code)| **code != 0) {
            text.push_str(&format!("{task} did not stop cleanly: exit code {code}\n"));
        }
        text
    }
}
