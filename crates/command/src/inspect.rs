//! `trainyard inspect`: the contents of a model directory.

use std::path::{Path, PathBuf};

use clap::Args;
use serde_json::json;
use trainyard_checkpoint::{Checkpoint, Manifest, is_committed, list};
use trainyard_diagnostic::{Code, Diagnostic};
use trainyard_model_dir::{JobPhase, JobState};
use trainyard_run_config::{Job, default_logs_dir};

use crate::arguments::Format;
use crate::log_memory::LogMemory;
use crate::output::print;
use crate::text_table::width;

#[derive(Debug, Args)]
pub(crate) struct Inspect {
    /// A model directory, a checkpoint in it, or a job file.
    #[arg(value_name = "MODEL_DIR|JOB.toml")]
    pub(crate) path: PathBuf,
    /// Format of the output.
    #[arg(long, value_enum, default_value = "text")]
    pub(crate) format: Format,
    /// Folder of the logs of this machine's parameter servers, if they are started with --state-dir.
    #[arg(long, value_name = "DIR")]
    pub(crate) state_dir: Option<PathBuf>,
}

/// Shows the checkpoints of a model directory, the variables of the newest, and the memory of the logs on this machine.
pub(crate) fn inspect(arguments: &Inspect) -> Result<(), Diagnostic> {
    let (path, logs) = &folders(&arguments.path)?;
    let logs = arguments.state_dir.as_ref().unwrap_or(logs);
    let memory = LogMemory::of(logs);
    let found = if is_committed(path)? {
        vec![path.clone()]
    } else {
        list(path)?.into_iter().map(|found| found.path).collect()
    };
    let Some(newest) = found.last() else {
        let problem =
            Diagnostic::error(Code::E3004, format!("no checkpoint in {}", path.display()));
        let problem = memory.lines().into_iter().fold(problem, Diagnostic::note);
        return Err(problem.help("give the folder model_dir of a job, or one checkpoint in it"));
    };
    let newest = Checkpoint::open(newest)?;
    let manifest = newest.manifest();
    let state = JobState::read(path)?;
    if arguments.format == Format::Json {
        return print(&format!(
            "{}\n",
            json!({"job_state": state, "checkpoints": found, "newest": manifest, "memory": memory.json()})
        ));
    }
    let mut text = String::new();
    if let Some(state) = state {
        text.push_str(&status_line(&state));
    }
    for path in &found {
        let checkpoint = Checkpoint::open(path)?;
        let manifest = checkpoint.manifest();
        let bytes: u64 = manifest.files().map(|file| file.bytes).sum();
        let whole = checkpoint.verify().map_or_else(
            |error| format!("DAMAGED: {error}"),
            |()| "verified".to_owned(),
        );
        text.push_str(&format!(
            "checkpoint step {} epoch {} from {} ps, {bytes} bytes{}, {whole}\n",
            manifest.global_step,
            manifest.cluster_epoch,
            manifest.num_ps,
            shared(manifest)
        ));
    }
    for line in memory.lines() {
        text.push_str(&format!("{line}\n"));
    }
    text.push_str(&format!("variables of step {}:\n", manifest.global_step));
    let width = width(manifest.variables.iter().map(|spec| spec.name.as_str()));
    for spec in &manifest.variables {
        let parts = manifest.shards.iter().flat_map(|shard| &shard.tensors);
        let parts = parts
            .filter(|tensor| tensor.variable == spec.name && tensor.slot.is_none())
            .count();
        let shape = match spec.dynamic() {
            None => {
                let held: usize = newest
                    .held(&spec.name, 0..spec.rows())?
                    .iter()
                    .map(std::ops::Range::len)
                    .sum();
                if held < spec.rows() {
                    format!("{:?}  {held} of {} rows changed", spec.shape, spec.rows())
                } else {
                    format!("{:?}", spec.shape)
                }
            }
            Some(_) => {
                let used = newest.rows_used(&spec.name);
                let most = spec.rows();
                format!("[dynamic, {}]  {used} of {most} rows", spec.width())
            }
        };
        text.push_str(&format!(
            "  {:width$}  f32{shape}  {parts} part(s)  {}\n",
            spec.name, spec.optimizer_group
        ));
    }
    print(&text)
}

/// Describes how many bytes a checkpoint shares with others.
fn shared(manifest: &Manifest) -> String {
    if manifest.bases.is_empty() {
        return String::new();
    }
    let bytes: u64 = manifest.bases.iter().map(|base| base.bytes).sum();
    format!(" of which {bytes} are a base that other checkpoints share")
}

/// Describes the state of the job. The chief records a step only when the job ends or stops, so a running job has none.
fn status_line(state: &JobState) -> String {
    let ended = match state.phase {
        JobPhase::Running => {
            return format!(
                "job running since epoch {}; `trainyard status` shows its step\n",
                state.cluster_epoch
            );
        }
        JobPhase::Failed if state.finished_before => {
            return format!(
                "the last start failed: {}; an earlier run had finished the job at step {}\n",
                state.reason, state.global_step
            );
        }
        JobPhase::Done => "done",
        JobPhase::Stopped => "stopped",
        JobPhase::Failed => "failed",
    };
    format!(
        "job {ended} at step {}: {}\n",
        state.global_step, state.reason
    )
}

/// Returns the model directory of a job file, or any other path unchanged, and the folder of the logs.
fn folders(path: &Path) -> Result<(PathBuf, PathBuf), Diagnostic> {
    if !path.is_file() {
        return Ok((path.to_owned(), default_logs_dir(path)));
    }
    // One mistake of a job file is enough for this command.
    Job::load(path, &[])
        .map(|job| (job.model_dir.clone(), job.logs_dir()))
        .map_err(|mut problems| problems.remove(0))
}
