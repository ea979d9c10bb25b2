//! Command-line arguments of all daemons.

use std::path::PathBuf;

use clap::builder::{OsStringValueParser, TypedValueParser};
use clap::{Args, ValueEnum};

/// Folder of a file system in memory, by default.
pub const SHARED_MEMORY: &str = "/dev/shm";
/// Environment variable that names another folder of a file system in memory.
pub const SHARED_MEMORY_DIR: &str = "TRAINYARD_SHARED_MEMORY_DIR";
/// Environment variable that names the folder of a certificate.
pub const TLS_DIR: &str = "TRAINYARD_TLS_DIR";
/// Environment variable that names the file of the tokens.
pub const TOKEN_FILE: &str = "TRAINYARD_TOKEN_FILE";

/// Environment variable that lets a task listen without protection.
pub const INSECURE_NO_AUTH: &str = "TRAINYARD_INSECURE_NO_AUTH";

/// Returns the parser of a path that an environment variable also gives. It names the variable that is set and empty.
pub fn path_by(variable: &'static str) -> impl TypedValueParser<Value = PathBuf> {
    OsStringValueParser::new().try_map(move |text| {
        if text.is_empty() {
            Err(format!(
                "it is empty: give a value, or unset {variable}, which also sets it"
            ))
        } else {
            Ok(PathBuf::from(text))
        }
    })
}

/// Form of log lines.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub enum LogFormat {
    /// For people.
    #[default]
    Text,
    /// One JSON object a line.
    Json,
}

/// Arguments of a role.
#[derive(Debug, Clone, Args)]
pub struct Arguments {
    /// The job file.
    #[arg(long, value_name = "JOB.toml")]
    pub job: PathBuf,
    /// The cluster file. Without it, the environment variable TF_CONFIG describes cluster and task.
    #[arg(long, value_name = "CLUSTER.toml")]
    pub cluster: Option<PathBuf>,
    /// Index of this task in its role.
    #[arg(long, value_name = "N", requires = "cluster")]
    pub index: Option<usize>,
    /// Sets one key of the job file, for example train.max_steps=1000. May be given more than once.
    #[arg(long = "set", value_name = "SECTION.KEY=VALUE")]
    pub set: Vec<String>,
    /// Overrides the job's model_dir.
    #[arg(long, value_name = "DIR")]
    pub model_dir: Option<PathBuf>,
    /// Writes one JSON object about the run at its end.
    #[arg(long, value_name = "FILE")]
    pub report: Option<PathBuf>,
    /// Address at which this task listens, if it is not its address in the cluster: other tasks then reach it through a
    /// proxy or a translated address.
    #[arg(long, value_name = "HOST:PORT")]
    pub listen: Option<String>,
    /// Address of the admin port: /metrics, /healthz, /readyz. By default the cluster file's, else a free port of
    /// 127.0.0.1.
    #[arg(long, value_name = "HOST:PORT")]
    pub admin_listen: Option<String>,
    /// Form of log lines.
    #[arg(long, value_enum, default_value_t)]
    pub log_format: LogFormat,
    /// Least severity of log lines: error, warn, info, debug, or a filter such as trainyard_trainer=debug.
    #[arg(
        long,
        value_name = "LEVEL",
        env = "TRAINYARD_LOG",
        default_value = "info"
    )]
    pub log_level: String,
    /// Folder of this task's certificate: ca.crt, tls.crt, tls.key. The task then uses TLS, and other tasks must prove
    /// their identity. By default the cluster file's security.tls_dir.
    #[arg(long, value_name = "DIR", env = TLS_DIR, value_parser = path_by(TLS_DIR))]
    pub tls_dir: Option<PathBuf>,
    /// File of the roles' tokens, for tasks of one host or behind a mesh. By default the cluster file's
    /// security.token_file.
    #[arg(long, value_name = "FILE", env = TOKEN_FILE, value_parser = path_by(TOKEN_FILE))]
    pub token_file: Option<PathBuf>,
    /// Listens at addresses that other hosts can reach, without any protection.
    #[arg(long, env = INSECURE_NO_AUTH)]
    pub insecure_no_auth: bool,
    /// Folder of a file system in memory, for the write-ahead log of a ps. What does not fit there lies in the state
    /// folder.
    #[arg(long, value_name = "DIR", env = SHARED_MEMORY_DIR, default_value = SHARED_MEMORY,
        value_parser = path_by(SHARED_MEMORY_DIR))]
    pub shared_memory_dir: PathBuf,
    /// Local folder for the write-ahead log of a ps. By default STATE_DIRECTORY, which systemd sets, else `wal` in the
    /// model_dir.
    #[arg(long, value_name = "DIR")]
    pub state_dir: Option<PathBuf>,
    /// Longest wait for the other tasks at start, in seconds. By default the job's run.session_creation_timeout_secs.
    #[arg(long, value_name = "SECONDS")]
    pub connect_deadline: Option<u64>,
    /// Longest time to stop in after SIGTERM, in seconds, at most a day.
    #[arg(long, value_name = "SECONDS", default_value_t = 10, value_parser = clap::value_parser!(u64).range(0..=86_400))]
    pub drain_deadline: u64,
}

/// Arguments of a daemon that is no task of a cluster.
#[derive(Debug, Clone, Args)]
pub struct ServiceArguments {
    /// Address of the admin port: /metrics, /healthz, /readyz. By default a free port of 127.0.0.1.
    #[arg(long, value_name = "HOST:PORT")]
    pub admin_listen: Option<String>,
    /// Form of log lines.
    #[arg(long, value_enum, default_value_t)]
    pub log_format: LogFormat,
    /// Least severity of log lines: error, warn, info, debug, or a filter such as trainyard_serving=debug.
    #[arg(
        long,
        value_name = "LEVEL",
        env = "TRAINYARD_LOG",
        default_value = "info"
    )]
    pub log_level: String,
    /// Longest time to stop in after SIGTERM, in seconds, at most a day.
    #[arg(long, value_name = "SECONDS", default_value_t = 10, value_parser = clap::value_parser!(u64).range(0..=86_400))]
    pub drain_deadline: u64,
}
