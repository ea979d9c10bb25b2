//! Context of a role: everything that it gets at its start.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use tracing::warn;
use trainyard_cluster_spec::{ClusterSpec, Role, Task, TfConfig};
use trainyard_diagnostic::{Code, Diagnostic, Place};
use trainyard_run_config::Job;
use trainyard_runtime::Network;
use trainyard_security::{Caller, CredentialSources, Protection, Security, check_exposure};

use crate::arguments::SHARED_MEMORY;
use crate::{Arguments, Listener, LogFormat, Page, Readiness, StopSource, Watchdog, listen};

/// Environment variable that describes cluster and task.
const TF_CONFIG: &str = "TF_CONFIG";
/// Environment variable in which systemd passes the state directory of a unit.
const STATE_DIRECTORY: &str = "STATE_DIRECTORY";

/// Everything that a role gets at its start.
#[derive(Debug, Clone)]
pub struct Context {
    /// The job.
    pub job: Arc<Job>,
    /// The cluster.
    pub cluster: Arc<ClusterSpec>,
    /// This task.
    pub task: Task,
    /// Random number of this process start.
    pub incarnation: u64,
    /// Start of the process.
    pub started: SystemTime,
    /// Timeout for the other tasks at start.
    pub connect_deadline: Duration,
    /// Timeout for stopping.
    pub drain_deadline: Duration,
    /// Source of requests to stop; by default the signals of this process.
    pub stop: StopSource,
    /// Address at which this task listens; absent = its address in the cluster.
    pub listen: Option<String>,
    /// File of the report; absent = no report.
    pub report: Option<PathBuf>,
    /// Folder in which a parameter server keeps its log; absent = in the model directory.
    pub state_dir: Option<PathBuf>,
    /// Folder of a file system in memory, in which a parameter server keeps its log as far as there is room.
    pub shared_memory_dir: PathBuf,
    /// Readiness, which the admin port and the health service report.
    pub readiness: Readiness,
    /// Watchdog of the daemon's loops, for the watchdog of the service manager.
    pub watchdog: Watchdog,
    /// Page of the role at the admin port.
    pub page: Page,
    /// Address of the admin port; absent = a free port of 127.0.0.1.
    pub admin_listen: Option<String>,
    /// The task serves an admin port.
    pub serves_admin: bool,
    /// Network that connects this task with the others.
    pub network: Network,
    /// Credentials of this task, and verification of its callers.
    pub security: Arc<Security>,
    /// Form of log lines and messages.
    pub log_format: LogFormat,
}

impl Context {
    /// Reads job and cluster, from flags or `TF_CONFIG`. `role` is the role of the daemon; absent = the role in
    /// `TF_CONFIG`.
    ///
    /// # Errors
    /// All mistakes in the files, or a task that is not in the cluster. No port is bound and no file created before.
    pub fn from_arguments(
        role: Option<Role>,
        arguments: &Arguments,
    ) -> Result<Self, Vec<Diagnostic>> {
        let tf_config = std::env::var(TF_CONFIG).ok();
        Self::resolve(role, arguments, tf_config.as_deref())
    }

    /// As [`Context::from_arguments`], with the value of `TF_CONFIG` given.
    ///
    /// # Errors
    /// As [`Context::from_arguments`].
    pub fn resolve(
        role: Option<Role>,
        arguments: &Arguments,
        tf_config: Option<&str>,
    ) -> Result<Self, Vec<Diagnostic>> {
        let job = Job::load(&arguments.job, &arguments.set);
        Self::of(job, role, arguments, tf_config)
    }

    /// Reads the cluster from flags or `TF_CONFIG`, for a job that a program has read or changed itself. The arguments
    /// for the job are not used.
    ///
    /// # Errors
    /// As [`Context::from_arguments`].
    pub fn of_job(job: Job, arguments: &Arguments) -> Result<Self, Vec<Diagnostic>> {
        let tf_config = std::env::var(TF_CONFIG).ok();
        Self::of(Ok(job), None, arguments, tf_config.as_deref())
    }

    fn of(
        job: Result<Job, Vec<Diagnostic>>,
        role: Option<Role>,
        arguments: &Arguments,
        tf_config: Option<&str>,
    ) -> Result<Self, Vec<Diagnostic>> {
        let mut problems = Vec::new();
        let mut keep = |found: Vec<Diagnostic>| problems.extend(found);
        let job = job.map_err(&mut keep).ok();
        let place = match (&arguments.cluster, tf_config) {
            (Some(path), _) => ClusterSpec::load(path)
                .and_then(|cluster| {
                    let role = role.ok_or_else(|| vec![no_role()])?;
                    let index = arguments.index.unwrap_or(0);
                    let task = cluster.task(role, index);
                    let task = task.map_err(|problem| {
                        vec![problem.at(Place::Named("flag --index".to_owned()))]
                    })?;
                    Ok((Arc::new(cluster), task, None))
                })
                .map_err(&mut keep)
                .ok(),
            (None, Some(text)) => from_tf_config(role, text)
                .map_err(|problem| keep(vec![problem]))
                .ok(),
            (None, None) => {
                let message =
                    "no cluster: neither --cluster nor the environment variable TF_CONFIG is set";
                let help = "give --cluster CLUSTER.toml --index N, or set TF_CONFIG; `trainyard train` needs no cluster";
                keep(vec![Diagnostic::error(Code::E1004, message).help(help)]);
                None
            }
        };
        let (Some(mut job), Some((cluster, task, model_dir))) = (job, place) else {
            return Err(problems);
        };
        if let Some(folder) = &arguments.model_dir {
            job.model_dir.clone_from(folder);
        }
        if let Some(folder) = model_dir {
            if job.model_dir.as_os_str() != folder.as_str() {
                let message = format!(
                    "model_dir must be the same in the job and in TF_CONFIG, given {} and {folder}",
                    job.model_dir.display()
                );
                return Err(vec![Diagnostic::error(Code::E1006, message)]);
            }
            job.model_dir = folder.into();
        }
        let security = security(arguments, &cluster, task).map_err(|problem| vec![problem])?;
        // The log names its folder there, and is found again from any working folder.
        let folder = &arguments.shared_memory_dir;
        let shared_memory_dir = std::path::absolute(folder).unwrap_or_else(|_| folder.clone());
        let network = if security.asks_who() {
            Network::Other(Arc::new(Caller(Arc::clone(&security))))
        } else {
            Network::System
        };
        let deadline = arguments
            .connect_deadline
            .unwrap_or(job.run.session_creation_timeout_secs);
        Ok(Self {
            cluster,
            task,
            incarnation: uuid::Uuid::new_v4().as_u64_pair().0,
            started: SystemTime::now(),
            connect_deadline: Duration::from_secs(deadline),
            drain_deadline: Duration::from_secs(arguments.drain_deadline),
            stop: StopSource::default(),
            listen: arguments.listen.clone(),
            report: arguments.report.clone(),
            state_dir: arguments.state_dir.clone().or_else(state_directory),
            shared_memory_dir,
            readiness: Readiness::default(),
            watchdog: Watchdog::default(),
            page: Page::default(),
            admin_listen: arguments.admin_listen.clone(),
            serves_admin: true,
            network,
            security,
            log_format: arguments.log_format,
            job: Arc::new(job),
        })
    }

    /// Returns the context of a job that runs only in this process, as `chief:0`, without sockets.
    pub fn alone(job: Job, report: Option<PathBuf>, log_format: LogFormat) -> Self {
        let task = Task {
            role: Role::Chief,
            index: 0,
        };
        let tasks = [(task, "this process".to_owned())].into_iter().collect();
        Self {
            cluster: Arc::new(ClusterSpec {
                tasks,
                ..ClusterSpec::without_tasks()
            }),
            task,
            incarnation: uuid::Uuid::new_v4().as_u64_pair().0,
            started: SystemTime::now(),
            connect_deadline: Duration::from_secs(job.run.session_creation_timeout_secs),
            drain_deadline: Duration::from_secs(30),
            stop: StopSource::default(),
            listen: None,
            report,
            state_dir: None,
            shared_memory_dir: SHARED_MEMORY.into(),
            readiness: Readiness::default(),
            watchdog: Watchdog::default(),
            page: Page::default(),
            admin_listen: None,
            serves_admin: false,
            network: Network::System,
            security: Arc::default(),
            log_format,
            job: Arc::new(job),
        }
    }

    /// Listens at the address of this task.
    ///
    /// # Errors
    /// The cluster has no address for the task, or the address is in use or not of this host.
    pub async fn listener(&self) -> Result<Listener, Diagnostic> {
        let address = self
            .listen
            .as_deref()
            .or_else(|| self.cluster.address(self.task))
            .ok_or_else(|| {
                Diagnostic::error(
                    Code::E1004,
                    format!("the cluster has no address for {}", self.task),
                )
            })?;
        match &self.network {
            Network::Other(transport) if !self.security.asks_who() => transport
                .listen(address.to_owned())
                .await
                .map(Listener::Other)
                .map_err(|error| {
                    Diagnostic::error(Code::E2001, format!("cannot listen on {address}: {error}"))
                }),
            _ => {
                let listener = listen(address).await?;
                if let Listener::Tcp(port) = &listener
                    && let Ok(bound) = port.local_addr()
                {
                    check_exposure(bound, self.security.protection())?;
                }
                Ok(listener)
            }
        }
    }

    /// Returns the start of the process, in seconds since 1970.
    pub fn started_unix_secs(&self) -> u64 {
        self.started
            .duration_since(SystemTime::UNIX_EPOCH)
            .map_or(0, |since| since.as_secs())
    }
}

/// Loads the credentials that flags or the cluster file name.
fn security(
    arguments: &Arguments,
    cluster: &ClusterSpec,
    task: Task,
) -> Result<Arc<Security>, Diagnostic> {
    // The evaluator only reads the model directory. It makes no calls and serves none.
    if task.role == Role::Evaluator {
        return Ok(Arc::default());
    }
    let named = &cluster.credentials;
    let tls_dir = arguments.tls_dir.clone().or_else(|| named.tls_dir_of(task));
    let token_file = arguments
        .token_file
        .clone()
        .or_else(|| named.token_file_of(task));
    let sources = CredentialSources {
        tls_dir: tls_dir.as_deref(),
        token_file: token_file.as_deref(),
        is_waived: arguments.insecure_no_auth || named.insecure_no_auth,
    };
    let security = Security::load(cluster, task, sources)?;
    if security.protection() == Protection::Waived {
        warn!(
            "insecure: this task does not verify the identity of callers; any process that \
            reaches it can change the parameters"
        );
    }
    Ok(Arc::new(security))
}

/// Returns the state directory of the service manager; of several, the first.
fn state_directory() -> Option<PathBuf> {
    let folders = std::env::var_os(STATE_DIRECTORY)?;
    std::env::split_paths(&folders).find(|folder| folder.is_absolute())
}

type Place3 = (Arc<ClusterSpec>, Task, Option<String>);

fn from_tf_config(role: Option<Role>, text: &str) -> Result<Place3, Diagnostic> {
    let config = TfConfig::parse(text)?;
    let at = || Place::Named(format!("environment variable {TF_CONFIG}, at task.type"));
    let Some(cluster) = config.cluster else {
        let message = "TF_CONFIG names no cluster";
        return Err(Diagnostic::error(Code::E1004, message)
            .at(at())
            .help("add `cluster`, or use `trainyard train`"));
    };
    if let Some(role) = role
        && role != config.task.role
    {
        let message = format!(
            "this program runs the role {role}, TF_CONFIG names the task {}",
            config.task
        );
        let help = format!(
            "start trainyard-{} here, or `trainyard run`, which takes its role from TF_CONFIG",
            config.task.role
        );
        return Err(Diagnostic::error(Code::E1004, message).at(at()).help(help));
    }
    Ok((Arc::new(cluster), config.task, config.model_dir))
}

fn no_role() -> Diagnostic {
    let message = "no role is given: without --role, the role comes from the environment variable \
        TF_CONFIG, which --cluster replaces";
    Diagnostic::error(Code::E1004, message).help(
        "give --role, leave out --cluster, or start the daemon of the role: trainyard-ps, ...",
    )
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;

    /// A program that has only the arguments of a daemon.
    #[derive(clap::Parser)]
    struct Program {
        #[command(flatten)]
        arguments: Arguments,
    }

    const JOB: &str = r#"
model_dir = "/models/job"
[input]
label = { column = "y" }
train = { files = ["t.csv"], epochs = 1 }
[model]
kind = "baseline_classifier"
"#;

    #[test]
    fn a_model_folder_of_tf_config_must_be_the_jobs() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let job = folder.path().join("job.toml");
        std::fs::write(&job, JOB).expect("a job file");
        let program = Program::try_parse_from(["daemon", "--job", &job.to_string_lossy()]);
        let arguments = program.unwrap_or_else(|error| panic!("{error}")).arguments;
        let resolve = |model_dir: &str| {
            let cluster = r#"{"chief": ["127.0.0.1:2222"]}"#;
            let task = r#"{"type": "chief", "index": 0}"#;
            let tf_config =
                format!(r#"{{"cluster": {cluster}, "task": {task}, "model_dir": "{model_dir}"}}"#);
            Context::resolve(Some(Role::Chief), &arguments, Some(&tf_config))
                .map(|context| context.job.model_dir.clone())
                .map_err(|problems| trainyard_diagnostic::render_all(&problems))
        };
        assert_eq!(resolve("/models/job"), Ok(PathBuf::from("/models/job")));
        let refused = resolve("/models/other").expect_err("another folder than the job's");
        let expected = "the same in the job and in TF_CONFIG, given /models/job and /models/other";
        assert!(
            refused.contains("E1006") && refused.contains(expected),
            "{refused}"
        );
    }
}
