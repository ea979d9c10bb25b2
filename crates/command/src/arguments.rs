//! Arguments that several commands share.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use trainyard_daemon::LogFormat;
use trainyard_diagnostic::Diagnostic;
use trainyard_run_config::Job;

/// The job file, and its changes for this run.
#[derive(Debug, Clone, Args)]
pub struct JobArguments {
    /// The job file.
    #[arg(value_name = "JOB.toml")]
    pub job: PathBuf,
    /// Overrides the job's model_dir.
    #[arg(long, value_name = "DIR")]
    pub model_dir: Option<PathBuf>,
    /// Sets one key of the job file, for example train.max_steps=1000. May be given more than once.
    #[arg(long = "set", value_name = "SECTION.KEY=VALUE")]
    pub set: Vec<String>,
    /// Format of log lines and messages.
    #[arg(long, value_enum, default_value_t)]
    pub log_format: LogFormat,
    /// Least severity of log lines: error, warn, info, debug, or a filter. Default: info, or warn if a progress line is
    /// shown.
    #[arg(long, value_name = "LEVEL", env = "TRAINYARD_LOG")]
    pub log_level: Option<String>,
}

impl JobArguments {
    /// Reads the job, with its changes.
    ///
    /// # Errors
    /// All problems of the job file, or that it cannot be read.
    pub fn load(&self) -> Result<Job, Vec<Diagnostic>> {
        let mut job = Job::load(&self.job, &self.set)?;
        if let Some(folder) = &self.model_dir {
            job.model_dir.clone_from(folder);
        }
        Ok(job)
    }
}

/// Format of the output.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// For people.
    Text,
    /// For programs.
    Json,
}

/// Source of the model's values, if it is not the job's model directory.
#[derive(Debug, Args)]
pub(crate) struct Source {
    /// Values to use instead of a checkpoint of the job: an export, or a folder of exports, whose newest counts;
    /// another model_dir, or a checkpoint in it; a .safetensors file; a TensorFlow checkpoint with the same names.
    #[arg(long, value_name = "PATH", conflicts_with = "step")]
    pub(crate) from: Option<PathBuf>,
}
