//! State of a job whose chief does not respond, read from its model directory.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use trainyard_checkpoint::list;
use trainyard_diagnostic::Diagnostic;
use trainyard_model_dir::{JobPhase, JobState, Leader, read};
use trainyard_run_config::{Job, default_logs_dir};

use crate::arguments::Format;
use crate::log_memory::LogMemory;
use crate::status::Observe;

/// The folders of a job.
#[derive(Debug)]
pub(super) struct Folders {
    pub(super) model_dir: PathBuf,
    /// Folder of the parameter servers' logs.
    pub(super) logs: PathBuf,
}

impl Folders {
    /// Returns the folders of the target, if it is a job file or a model directory.
    pub(super) fn of(arguments: &Observe) -> Option<Self> {
        let target = Path::new(&arguments.target);
        if target.is_dir() {
            return Some(Self {
                model_dir: target.to_owned(),
                logs: default_logs_dir(target),
            });
        }
        let mut job = Job::load(target, &arguments.set).ok()?;
        if let Some(model_dir) = &arguments.model_dir {
            job.model_dir.clone_from(model_dir);
        }
        Some(Self {
            logs: job.logs_dir(),
            model_dir: job.model_dir,
        })
    }
}

/// Returns the state of a finished job. For a job that should run, the error is `unanswered` with the recorded state.
///
/// # Errors
/// The job has not finished, or the directory cannot be read.
pub(super) fn stored(
    folders: &Folders,
    format: Format,
    unanswered: Vec<Diagnostic>,
) -> Result<String, Vec<Diagnostic>> {
    let folder = &folders.model_dir;
    let memory = LogMemory::of(&folders.logs);
    let noted = |said: String| {
        unanswered
            .iter()
            .map(|problem| problem.clone().note(said.clone()))
            .collect()
    };
    let state = match JobState::read(folder) {
        Ok(Some(state)) => state,
        Ok(None) => return Err(unanswered),
        Err(error) => return Err(noted(format!("nor can the model folder be asked: {error}"))),
    };
    if state.phase == JobPhase::Running {
        // The leader is only part of the message.
        let leader = Leader::read(folder).ok().flatten();
        let is_alone = leader
            .as_ref()
            .is_some_and(|leader| leader.address == Leader::IN_PROCESS);
        let reach = if is_alone {
            "It is `trainyard train`, which has an admin port only with --admin-listen"
        } else {
            "The first line of the chief's log names its admin port"
        };
        let said = format!(
            "{} says that the job runs{}. {reach}",
            folder.display(),
            leader.map_or_else(String::new, |leader| format!(" ({leader})"))
        );
        return Err(noted(said));
    }
    let checkpoints = list(folder).map_err(|error| vec![error.into()])?;
    let evaluation: Option<Value> = read(&folder.join("eval/result.json"))
        .map_err(|error| vec![error.into()])?
        .and_then(|text| serde_json::from_slice(&text).ok());
    if let Format::Json = format {
        let checkpoints: Vec<&PathBuf> = checkpoints.iter().map(|found| &found.path).collect();
        let found = json!({"run": null, "job_state": state, "checkpoints": checkpoints, "evaluation": evaluation,
            "memory": memory.json()});
        return Ok(format!("{found}\n"));
    }
    let phase = state.phase.name().to_uppercase();
    let mut text = format!("{phase}  step {}  {}\n", state.global_step, state.reason);
    match checkpoints.last() {
        Some(latest) => {
            let count = checkpoints.len();
            let step = latest.step;
            let checkpoints = if count == 1 {
                "checkpoint"
            } else {
                "checkpoints"
            };
            text += &format!("{count} {checkpoints}, the latest of step {step}\n");
        }
        None => text += "no checkpoint\n",
    }
    if let Some(evaluation) = evaluation {
        let scores = evaluation["metrics"].as_object().into_iter().flatten();
        let scores: Vec<String> = scores
            .map(|(name, value)| format!("{name} {value}"))
            .collect();
        text += &format!(
            "evaluated at step {}: {}\n",
            evaluation["global_step"],
            scores.join(", ")
        );
    }
    for line in memory.lines() {
        text += &format!("{line}\n");
    }
    Ok(text)
}
