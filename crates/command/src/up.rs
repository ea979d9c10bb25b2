//! `trainyard up`: runs every task of a cluster as a process on this machine.

mod child;
mod control;
mod runtime_threads;
mod scaling;
mod supervisor;

use std::collections::{BTreeMap, BTreeSet};
use std::io::ErrorKind;
use std::net::TcpListener;
use std::path::{Path, PathBuf};

pub use child::TaskCommand;
use clap::Args;
pub(crate) use control::{Address, Answer, Order};
pub use runtime_threads::RuntimeThreads;
pub(crate) use runtime_threads::share_of_cores;
use scaling::Scaling;
use serde::Deserialize;
pub use supervisor::Supervisor;
use tracing::{info, warn};
use trainyard_chief::Report;
use trainyard_cluster_spec::{ClusterSpec, LocalCounts, Role, Task};
use trainyard_daemon::{DiskWatch, LogFormat, StopSource, report};
use trainyard_diagnostic::{Code, Diagnostic, system_limit, system_problem};
use trainyard_model::Scores;
use trainyard_model_dir::{JobPhase, JobState, RunLock};
use trainyard_run_config::{Job, StrategyKind};
use trainyard_trainer::check_cluster;

use crate::arguments::JobArguments;
use crate::data_warnings::report_at_start;
use crate::folder::Folder;
use crate::log_memory::LogMemory;
use crate::output::{print, refuse_absent_folder, refuse_untrained, result_line, table};
use crate::output_form::{JSON, refuse_other_ending};
use crate::program::Program;
use crate::runtime::single_threaded;
use crate::targets::refuse_own_file;
use crate::times_of_files::{compare_times_of_evaluations, compare_times_of_training};

#[derive(Debug, Args)]
pub(crate) struct Up {
    #[command(flatten)]
    pub(crate) job: JobArguments,
    /// A cluster file, or a cluster on this machine: local:ps=2,worker=3.
    #[arg(long, value_name = "CLUSTER", default_value = "local")]
    pub(crate) cluster: String,
    /// Writes a JSON object about the run to this file at its end. A file of that name is replaced then.
    #[arg(long, value_name = "FILE")]
    pub(crate) report: Option<PathBuf>,
}

/// Ports of tasks on this machine, below the range from which the system assigns ports.
pub const LOCAL_PORTS: std::ops::Range<u16> = 20_000..32_000;

/// Longest name of a folder whose socket names still fit into a socket address, in bytes.
const SOCKET_FOLDER_BYTES_MAX: usize = 90;

/// Starts a cluster, and returns the exit code of its job. `stop` ends the job with a checkpoint.
pub(crate) fn up(
    arguments: &Up,
    program: &Program,
    stop: &StopSource,
) -> Result<u8, Vec<Diagnostic>> {
    let _watch = DiskWatch::begin();
    let job = arguments.job.load()?;
    RunLock::refuse_if_taken(&job.model_dir).map_err(|problem| vec![problem.into()])?;
    if let Some(path) = &arguments.report {
        refuse_own_file(path, &job).map_err(|problem| vec![problem])?;
        refuse_absent_folder(path).map_err(|problem| vec![problem])?;
        refuse_other_ending(path, &JSON).map_err(|problem| vec![problem])?;
    }
    report_at_start(&job, arguments.job.log_format);
    let mut other_times = compare_times_of_training(&job, trainyard_input::COMPARED_AT_START_MAX)
        .map_err(|problem| vec![problem])?;
    other_times.extend(compare_times_of_evaluations(&job).map_err(|problem| vec![problem])?);
    report(&other_times, arguments.job.log_format);
    let (cluster, _sockets) = resolve(&arguments.cluster, &job)?;
    let one = |problem: Diagnostic| vec![problem];
    check_cluster(&job, cluster.of_role(Role::Ps).count()).map_err(one)?;
    single_threaded()
        .map_err(one)?
        .block_on(supervise(arguments, &job, cluster, program, stop))
        .map_err(one)
}

/// Reads a cluster file, or makes a cluster on this machine with a folder for its sockets.
///
/// # Errors
/// The file cannot be read, or describes no cluster; this machine has too few free ports.
pub fn resolve(text: &str, job: &Job) -> Result<(ClusterSpec, Option<Folder>), Vec<Diagnostic>> {
    let ps = usize::from(job.strategy.kind != StrategyKind::MultiWorkerMirrored);
    let Some(counts) = LocalCounts::parse(text, ps) else {
        return ClusterSpec::load(Path::new(text)).map(|cluster| (cluster, None));
    };
    let counts = counts.map_err(|problem| vec![problem])?;
    let ports = free_ports(2 * counts.ports() + counts.evaluators).map_err(|error| {
        let message = format!("this machine has too few free ports: {error}");
        let otherwise = (Code::E2001, "give a cluster file");
        vec![system_problem(&error, message, otherwise)]
    })?;
    let mut cluster = ClusterSpec::local(counts, &ports);
    let evaluators = (0..counts.evaluators).map(|index| Task {
        role: Role::Evaluator,
        index,
    });
    let tasks: Vec<Task> = cluster.tasks.keys().copied().chain(evaluators).collect();
    let admin = tasks.into_iter().zip(&ports[counts.ports()..]);
    cluster.admin = admin
        .map(|(task, port)| (task, format!("127.0.0.1:{port}")))
        .collect();
    // Most traffic goes to the servers, or between the workers under allreduce, so these tasks listen at socket files.
    // If the name of the folder is too long for a socket address, they listen at their ports.
    let sockets = Folder::new()
        .ok()
        .filter(|folder| folder.path().as_os_str().len() < SOCKET_FOLDER_BYTES_MAX);
    if let Some(folder) = &sockets {
        let mirrored = job.strategy.kind.is_mirrored();
        for (task, address) in cluster
            .tasks
            .iter_mut()
            .filter(|(task, _)| mirrored || task.role == Role::Ps)
        {
            let name = format!("{}-{}.sock", task.role, task.index);
            *address = format!("unix:{}", folder.path().join(name).display());
        }
    }
    Ok((cluster, sockets))
}

/// Finds free ports. All are bound during the search, so that no port is found twice.
///
/// # Errors
/// There are too few; the error is that of the last port that could not be bound.
pub fn free_ports(count: usize) -> std::io::Result<Vec<u16>> {
    free_ports_beside(count, &BTreeSet::new())
}

/// Returns the port at which the search of a process begins. Processes that start together have neighbouring ids. They
/// begin far apart (multiplicative hashing, Knuth, The Art of Computer Programming 6.4), because a port that was found
/// stays free until its task listens.
fn first_port(process_id: u32) -> u16 {
    let hash = u64::from(process_id.wrapping_mul(0x9e37_79b9));
    LOCAL_PORTS.start + ((hash * u64::from(LOCAL_PORTS.end - LOCAL_PORTS.start)) >> 32) as u16
}

/// As [`free_ports`], without the ports in `taken`, whose tasks may not listen yet.
fn free_ports_beside(count: usize, taken: &BTreeSet<u16>) -> std::io::Result<Vec<u16>> {
    let start = first_port(std::process::id());
    let candidates = (start..LOCAL_PORTS.end).chain(LOCAL_PORTS.start..start);
    let mut held: Vec<(u16, TcpListener)> = Vec::new();
    let mut refused = None;
    for port in candidates.filter(|port| !taken.contains(port)) {
        if held.len() == count {
            break;
        }
        match TcpListener::bind(("127.0.0.1", port)) {
            Ok(listener) => held.push((port, listener)),
            Err(error) => {
                let is_limit = system_limit(&error).is_some();
                refused = Some(error);
                if is_limit {
                    break;
                }
            }
        }
    }
    if held.len() == count {
        return Ok(held.iter().map(|(port, _)| *port).collect());
    }
    Err(refused.unwrap_or_else(|| ErrorKind::AddrInUse.into()))
}

/// Returns the tasks in the order of their start and stop. Any order works; this one reads well in the log.
pub fn tasks(cluster: &ClusterSpec, job: &Job) -> Vec<Task> {
    let evaluators = if job.input.eval.is_some() {
        cluster.evaluators
    } else {
        0
    };
    let evaluators = (0..evaluators).map(|index| Task {
        role: Role::Evaluator,
        index,
    });
    let of = |role| cluster.of_role(role).map(|(task, _)| task);
    of(Role::Ps)
        .chain(of(Role::Chief))
        .chain(of(Role::Worker))
        .chain(evaluators)
        .collect()
}

/// Returns the threads of a step if `tasks` tasks share this machine, unless the job sets them.
pub fn threads(job: &Job, tasks: usize) -> Option<usize> {
    (job.run.intra_op_parallelism_threads == 0).then(|| share_of_cores(tasks))
}

/// Reports the address of the run's page, if the cluster has an admin port of the chief: as a line for a person, or in
/// the log for a program.
fn tell_page(cluster: &ClusterSpec, format: LogFormat) -> Result<(), Diagnostic> {
    match (page(cluster), format) {
        (None, _) => Ok(()),
        (Some(page), LogFormat::Text) => print(&format!("watch this run in a browser: {page}\n")),
        (Some(page), LogFormat::Json) => {
            tracing::info!(page, "a browser shows this run");
            Ok(())
        }
    }
}

/// Returns the address of the run's page.
fn page(cluster: &ClusterSpec) -> Option<String> {
    let chief = cluster
        .admin
        .iter()
        .find(|(task, _)| task.role == Role::Chief);
    chief.map(|(_, address)| format!("http://{address}/"))
}

async fn supervise(
    arguments: &Up,
    job: &Job,
    cluster: ClusterSpec,
    program: &Program,
    stop: &StopSource,
) -> Result<u8, Diagnostic> {
    let tasks = tasks(&cluster, job);
    let threads = threads(job, tasks.len());
    let mut scaling = Scaling::open(job, &cluster)?;
    tell_page(&cluster, arguments.job.log_format)?;
    let command = TaskCommand {
        program,
        job: &arguments.job,
        threads,
    };
    let mut supervisor = Supervisor::start(&command, &job.local_dir(), &cluster, &tasks)?;
    for (task, address) in &cluster.admin {
        info!(%task, "metrics at http://{address}/metrics");
    }
    if job.elastic().is_ok() {
        let folder = arguments.job.model_dir.as_ref();
        let folder = folder.map_or(String::new(), |folder| {
            format!(" --model-dir {}", folder.display())
        });
        let job = arguments.job.job.display();
        info!(
            "workers can be added and removed while it runs: trainyard scale {job}{folder} --workers N"
        );
    }
    let watched = supervisor.watch(&mut scaling, stop).await;
    scaling.end();
    LogMemory::of(&job.logs_dir()).warn_of_rest();
    let code = watched?;
    if let Some(failure) = supervisor.failure()
        && supervisor.check_folder().is_ok()
    {
        mark_failed(&job.model_dir, failure);
    }
    let by_chief = told(read_report(supervisor.report_file()));
    // A chief that stopped before it trained has written no report.
    let has_report = by_chief.is_some();
    let mut report = by_chief.unwrap_or_default();
    if !has_report {
        // The chief has marked in model_dir how far the job was.
        let state = JobState::read(&job.model_dir).map_err(|error| error.to_string());
        report.global_step = told(state).map_or(0, |state| state.global_step);
    }
    report.exit = supervisor
        .exits()
        .iter()
        .map(|(task, code)| (task.to_string(), *code))
        .collect();
    let evaluation = told(read_evaluation(&job.model_dir));
    report.eval = evaluation.map_or_else(BTreeMap::new, |(_, metrics)| metrics);
    if let Some(path) = &arguments.report {
        report.write(path)?;
    }
    if code == 0 && has_report {
        print(&summary(&report, job))?;
        let state = JobState::read(&job.model_dir).ok().flatten();
        if state.is_some_and(|state| state.phase == JobPhase::Done) {
            refuse_untrained(&report)?;
        }
    }
    Ok(code)
}

/// Marks in a model directory that its job has failed. The chief knows only that it was told to stop, or has died itself.
fn mark_failed(model_dir: &Path, reason: &str) {
    let marked = JobState::read(model_dir).and_then(|found| {
        let open = |state: &JobState| matches!(state.phase, JobPhase::Stopped | JobPhase::Running);
        found.filter(open).map_or(Ok(()), |state| {
            let failed = JobState {
                phase: JobPhase::Failed,
                reason: reason.to_owned(),
                ..state
            };
            failed.write(model_dir)
        })
    });
    if let Err(error) = marked {
        warn!(%error, "job_state.json does not say that the job has failed");
    }
}

/// Returns the value that was read. A value that cannot be read is logged, and missing from the report.
fn told<T>(read: Result<Option<T>, String>) -> Option<T> {
    read.unwrap_or_else(|problem| {
        warn!(%problem, "the report lacks what this file should say");
        None
    })
}

/// Reads the chief's report. Returns `None` if the chief has written none.
fn read_report(path: &Path) -> Result<Option<Report>, String> {
    parsed(path, |text| serde_json::from_slice(text))
}

/// Reads the step and the metrics of the last evaluation. Returns `None` if there was none.
pub(crate) fn read_evaluation(model_dir: &Path) -> Result<Option<(u64, Scores)>, String> {
    #[derive(Deserialize)]
    struct Evaluation {
        global_step: u64,
        metrics: BTreeMap<String, Option<f64>>,
    }
    let path = model_dir.join("eval/result.json");
    let evaluation = parsed(&path, |text| serde_json::from_slice::<Evaluation>(text))?;
    // JSON has no number for a metric that is not finite.
    let known = |metrics: BTreeMap<String, Option<f64>>| {
        metrics
            .into_iter()
            .filter_map(|(name, value)| Some((name, value?)))
            .collect()
    };
    Ok(evaluation.map(|evaluation| (evaluation.global_step, known(evaluation.metrics))))
}

fn parsed<T>(
    path: &Path,
    parse: impl Fn(&[u8]) -> serde_json::Result<T>,
) -> Result<Option<T>, String> {
    let wrong = |error: &dyn std::fmt::Display| format!("{}: {error}", path.display());
    let text = trainyard_model_dir::read(path).map_err(|error| wrong(&error))?;
    text.map(|text| parse(&text).map_err(|error| wrong(&error)))
        .transpose()
}

fn summary(report: &Report, job: &Job) -> String {
    let mut text = result_line("trained to", report, job.train.max_steps);
    if !report.eval.is_empty() {
        text.push_str(&format!("last evaluation:\n{}", table(&report.eval)));
    }
    text.push_str(&format!("model: {}\n", job.model_dir.display()));
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_that_cannot_be_read_is_told_and_one_that_is_not_there_is_none() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("chief-report.json");
        let results = folder.path().join("eval/result.json");
        assert_eq!(
            (read_report(&path), read_evaluation(folder.path())),
            (Ok(None), Ok(None))
        );
        std::fs::create_dir(folder.path().join("eval")).expect("there is room");
        let report = Report {
            global_step: 7,
            ..Report::default()
        };
        let whole = serde_json::to_string(&report).expect("a report");
        std::fs::write(&path, &whole).expect("written");
        std::fs::write(
            &results,
            "{\"global_step\": 7, \"metrics\": {\"auc\": 0.5, \"loss\": null}}",
        )
        .expect("written");
        assert_eq!(read_report(&path), Ok(Some(report)));
        assert_eq!(
            read_evaluation(folder.path()),
            Ok(Some((7, [("auc".to_owned(), 0.5)].into())))
        );
        for damaged in ["", "[1]", &whole[..whole.len() - 1]] {
            std::fs::write(&path, damaged).expect("written");
            std::fs::write(&results, damaged).expect("written");
            let problem = read_report(&path).expect_err("it is damaged");
            assert!(
                problem.starts_with(&path.display().to_string()),
                "{problem}"
            );
            let problem = read_evaluation(folder.path()).expect_err("it is damaged");
            assert!(
                problem.starts_with(&results.display().to_string()),
                "{problem}"
            );
        }
    }

    #[test]
    fn processes_that_start_together_look_for_ports_far_apart() {
        let mut places: Vec<u16> = (4_194_300_u32..4_194_320).map(first_port).collect();
        places.sort_unstable();
        assert!(
            places.iter().all(|place| LOCAL_PORTS.contains(place)),
            "{places:?}"
        );
        assert!(
            places.windows(2).all(|pair| pair[1] - pair[0] >= 100),
            "{places:?}"
        );
    }

    #[test]
    fn the_page_is_at_the_admin_port_of_the_chief() {
        let counts = LocalCounts {
            ps: 1,
            workers: 1,
            evaluators: 0,
        };
        let mut cluster = ClusterSpec::local(counts, &[1, 2, 3]);
        assert_eq!(page(&cluster), None);
        let admin = [(Role::Worker, 4), (Role::Chief, 5), (Role::Ps, 6)];
        cluster.admin = admin
            .map(|(role, port)| (Task { role, index: 0 }, format!("127.0.0.1:{port}")))
            .into_iter()
            .collect();
        assert_eq!(page(&cluster).as_deref(), Some("http://127.0.0.1:5/"));
    }
}
