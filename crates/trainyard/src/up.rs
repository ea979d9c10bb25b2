//! `trainyard up`: every task of a cluster as a process of its own on this machine.

mod child;

use std::collections::BTreeMap;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use tokio::signal::unix::{SignalKind, signal};
use tracing::{info, warn};
use trainyard_chief::Report;
use trainyard_cluster_spec::{ClusterSpec, LocalCounts, Role, Task};
use trainyard_diagnostic::{Code, Diagnostic};
use trainyard_run_config::Job;

use crate::command::Up;
use crate::output::{print, table};
use child::{Child, Launch};

/// Longest time for the other tasks to end after the chief has.
const END: Duration = Duration::from_secs(5);
/// Longest time for the evaluator to score and export the last checkpoint.
const EVALUATOR_END: Duration = Duration::from_secs(600);
/// Longest time for everything to stop after SIGTERM.
const STOP: Duration = Duration::from_secs(15);
/// Time between looks at the processes.
const LOOK: Duration = Duration::from_millis(20);
/// Exit codes after which a restart would end in the same way: command line, data, files, ports, versions, rights,
/// configuration.
const PERMANENT: [i32; 7] = [64, 65, 66, 73, 76, 77, 78];
/// Ports are taken below the range from which the system gives its own.
const PORTS: std::ops::Range<u16> = 20_000..32_000;

/// Starts a cluster, and returns the exit code of its job.
pub(crate) fn up(arguments: &Up) -> Result<u8, Vec<Diagnostic>> {
    let job = arguments.job.load()?;
    let cluster = resolve(&arguments.cluster)?;
    let one = |problem: Diagnostic| vec![problem];
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| one(Diagnostic::error(Code::E9002, format!("the runtime cannot start: {error}"))))?;
    runtime.block_on(supervise(arguments, &job, cluster)).map_err(one)
}

/// Reads a cluster file, or makes a cluster of this machine.
fn resolve(text: &str) -> Result<ClusterSpec, Vec<Diagnostic>> {
    let Some(counts) = LocalCounts::parse(text) else { return ClusterSpec::load(Path::new(text)) };
    let counts = counts.map_err(|problem| vec![problem])?;
    let ports = free_ports(2 * counts.ports() + counts.evaluators).ok_or_else(|| {
        vec![
            Diagnostic::error(Code::E2001, "this machine has too few free ports").help("give a cluster file"),
        ]
    })?;
    let mut cluster = ClusterSpec::local(counts, &ports);
    let evaluators = (0..counts.evaluators).map(|index| Task { role: Role::Evaluator, index });
    let tasks: Vec<Task> = cluster.tasks.keys().copied().chain(evaluators).collect();
    let admin = tasks.into_iter().zip(&ports[counts.ports()..]);
    cluster.admin = admin.map(|(task, port)| (task, format!("127.0.0.1:{port}"))).collect();
    Ok(cluster)
}

/// Finds ports that nobody listens at. They are held together while they are looked for, so that none comes twice.
fn free_ports(count: usize) -> Option<Vec<u16>> {
    let start = PORTS.start + (std::process::id() % u32::from(PORTS.end - PORTS.start)) as u16;
    let candidates = (start..PORTS.end).chain(PORTS.start..start);
    let held: Vec<(u16, TcpListener)> = candidates
        .filter_map(|port| TcpListener::bind(("127.0.0.1", port)).ok().map(|listener| (port, listener)))
        .take(count)
        .collect();
    (held.len() == count).then(|| held.iter().map(|(port, _)| *port).collect())
}

/// The order in which tasks are started and stopped makes no difference to them; this one reads well.
fn tasks(cluster: &ClusterSpec, job: &Job) -> Vec<Task> {
    let evaluators = if job.input.eval.is_some() { cluster.evaluators } else { 0 };
    let evaluators = (0..evaluators).map(|index| Task { role: Role::Evaluator, index });
    let of = |role| cluster.of_role(role).map(|(task, _)| task);
    of(Role::Ps).chain(of(Role::Chief)).chain(of(Role::Worker)).chain(evaluators).collect()
}

async fn supervise(arguments: &Up, job: &Job, cluster: ClusterSpec) -> Result<u8, Diagnostic> {
    let folder = job.model_dir.join("up");
    let written = |path: &Path, error: std::io::Error| {
        Diagnostic::error(Code::E9002, format!("{} cannot be written: {error}", path.display()))
            .help("check the folder model_dir")
    };
    std::fs::create_dir_all(&folder).map_err(|error| written(&folder, error))?;
    let cluster_file = folder.join("cluster.toml");
    std::fs::write(&cluster_file, cluster.to_toml()).map_err(|error| written(&cluster_file, error))?;
    let report_file = folder.join("chief-report.json");
    let _ = std::fs::remove_file(&report_file);
    let tasks = tasks(&cluster, job);
    let threads = match job.run.intra_op_parallelism_threads {
        // They share the cores.
        0 => Some((std::thread::available_parallelism().map_or(1, usize::from) / tasks.len().max(1)).max(1)),
        _ => None,
    };
    let launch = Launch::new(arguments, threads, &cluster_file, &report_file)?;
    let mut children = BTreeMap::new();
    for task in tasks {
        children.insert(task, launch.start(task)?);
    }
    for (task, address) in &cluster.admin {
        info!(%task, "metrics at http://{address}/metrics");
    }
    let mut supervisor = Supervisor { launch, children, exits: BTreeMap::new() };
    let code = supervisor.watch().await?;
    let mut report = read_report(&report_file);
    report.exit = supervisor.exits.iter().map(|(task, code)| (task.to_string(), *code)).collect();
    report.eval = read_evaluation(&job.model_dir);
    if let Some(path) = &arguments.report {
        report.write(path)?;
    }
    if code == 0 {
        print(&summary(&report, job))?;
    }
    Ok(code)
}

fn read_report(path: &Path) -> Report {
    let text = std::fs::read(path).unwrap_or_default();
    serde_json::from_slice(&text).unwrap_or_default()
}

fn read_evaluation(model_dir: &Path) -> BTreeMap<String, f64> {
    let text = std::fs::read(model_dir.join("eval/result.json")).unwrap_or_default();
    let result: serde_json::Value = serde_json::from_slice(&text).unwrap_or_default();
    let metrics = result["metrics"].as_object().cloned().unwrap_or_default();
    metrics.into_iter().filter_map(|(name, value)| Some((name, value.as_f64()?))).collect()
}

fn summary(report: &Report, job: &Job) -> String {
    let rate =
        format!("{:.0} steps/s, {:.0} examples/s", report.steps_per_second, report.examples_per_second);
    let mut text =
        format!("trained to step {} in {:.1} s ({rate})\n", report.global_step, report.train_seconds);
    if !report.eval.is_empty() {
        text.push_str(&format!("last evaluation:\n{}", table(&report.eval)));
    }
    text.push_str(&format!("model: {}\n", job.model_dir.display()));
    text
}

struct Supervisor {
    launch: Launch,
    children: BTreeMap<Task, Child>,
    exits: BTreeMap<Task, i32>,
}

impl Supervisor {
    /// Watches the processes until the job has ended, and returns its exit code.
    async fn watch(&mut self) -> Result<u8, Diagnostic> {
        let signals = signal(SignalKind::terminate())
            .and_then(|terminate| Ok((terminate, signal(SignalKind::interrupt())?)));
        let (mut terminate, mut interrupt) = signals
            .map_err(|error| Diagnostic::error(Code::E9002, format!("signals cannot be caught: {error}")))?;
        loop {
            tokio::select! {
                () = tokio::time::sleep(LOOK) => {}
                _ = terminate.recv() => return Ok(self.stop_all().await),
                _ = interrupt.recv() => return Ok(self.stop_all().await),
            }
            let ended: Vec<(Task, i32)> = self
                .children
                .iter_mut()
                .filter_map(|(task, child)| child.try_wait().map(|code| (*task, code)))
                .collect();
            for (task, code) in ended {
                self.children.remove(&task);
                if task.role == Role::Chief && code == 0 {
                    self.exits.insert(task, code);
                    self.wait_for_the_rest().await;
                    return Ok(0);
                }
                if code == 0 {
                    self.exits.insert(task, code);
                } else if PERMANENT.contains(&code) {
                    warn!(%task, code, "has failed for good: stopping the job");
                    self.exits.insert(task, code);
                    self.stop_all().await;
                    return Ok(u8::try_from(code).unwrap_or(1));
                } else {
                    warn!(%task, code, "has died: starting it again");
                    tokio::time::sleep(self.launch.pause(task)).await;
                    let child = self.launch.start(task)?;
                    self.children.insert(task, child);
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
                    ended.elapsed() > if task.role == Role::Evaluator { EVALUATOR_END } else { END }
                })
                .collect();
            for task in late {
                warn!(%task, "did not end by itself in time: it is killed");
                if let Some(mut child) = self.children.remove(&task) {
                    child.kill();
                    self.exits.insert(task, child.wait().await);
                }
            }
            self.collect();
        }
    }

    fn collect(&mut self) {
        let exits = &mut self.exits;
        self.children.retain(|task, child| match child.try_wait() {
            Some(code) => {
                exits.insert(*task, code);
                false
            }
            None => true,
        });
    }

    /// Stops everything: those who train first, then, when the chief has written its checkpoint, the servers.
    async fn stop_all(&mut self) -> u8 {
        info!("stopping every task");
        let until = Instant::now() + STOP;
        for servers in [false, true] {
            let group: Vec<Task> =
                self.children.keys().copied().filter(|task| (task.role == Role::Ps) == servers).collect();
            for task in &group {
                if let Some(child) = self.children.get(task) {
                    child.terminate();
                }
            }
            while self.children.keys().any(|task| group.contains(task)) && Instant::now() < until {
                tokio::time::sleep(LOOK).await;
                self.collect();
            }
        }
        let left: Vec<Task> = self.children.keys().copied().collect();
        for task in &left {
            warn!(%task, "did not stop in time: it is killed");
            if let Some(mut child) = self.children.remove(task) {
                child.kill();
                self.exits.insert(*task, child.wait().await);
            }
        }
        if left.is_empty() { 0 } else { Code::E9003.exit }
    }
}

/// Where a binary of a role lies, if it was built beside this one.
fn sibling(name: &str) -> Option<PathBuf> {
    let own = std::env::current_exe().ok()?;
    let path = own.with_file_name(name);
    path.is_file().then_some(path)
}
