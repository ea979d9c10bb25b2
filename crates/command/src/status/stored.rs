//! State of a job whose chief does not respond, read from its model directory.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use trainyard_checkpoint::list;
use trainyard_diagnostic::Diagnostic;
use trainyard_model_dir::{JobPhase, JobState, Leader, read};
use trainyard_run_config::Job;

use crate::arguments::Format;
use crate::status::Observe;

/// Returns the model directory of the target, which is a job file or the directory itself.
pub(super) fn model_dir(arguments: &Observe) -> Option<PathBuf> {
    let target = Path::new(&arguments.target);
    if target.is_dir() {
        return Some(target.to_owned());
    }
    let job = Job::load(target, &arguments.set).ok()?;
    Some(arguments.model_dir.clone().unwrap_or(job.model_dir))
}

/// Returns the state of a finished job. For a job that should run, the error is `unanswered` with the recorded state.
///
/// # Errors
/// The job has not finished, or the directory cannot be read.
pub(super) fn stored(
    folder: &Path,
    format: Format,
    unanswered: Vec<Diagnostic>,
) -> Result<String, Vec<Diagnostic>> {
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
        let found = json!({"run": null, "job_state": state, "checkpoints": checkpoints, "evaluation": evaluation});
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
    Ok(text)
}
