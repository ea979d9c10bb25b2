//! The trained values that a command uses: a checkpoint of the job, or an export.

use std::sync::Arc;

use trainyard_checkpoint::{Checkpoint, JobRecord, Origin, latest_good, list};
use trainyard_diagnostic::{Code, Diagnostic};
use trainyard_run_config::{Agreement, Job};

use crate::arguments::Source;

/// Returns the checkpoint of a step, or the newest checkpoint that can be read.
pub(crate) fn find(job: &Job, step: Option<u64>) -> Result<Checkpoint, Diagnostic> {
    let folder = job.model_dir.display();
    let none = |what: String| {
        let steps: Vec<String> = match list(&job.model_dir) {
            Ok(found) => found.iter().map(|found| found.step.to_string()).collect(),
            Err(error) => return error.into(),
        };
        let problem = Diagnostic::error(Code::E3004, what);
        if steps.is_empty() {
            problem.help("train first, or give --model-dir")
        } else {
            problem
                .note(format!("steps: {}", steps.join(", ")))
                .help("give one of these steps")
        }
    };
    match step {
        None => latest_good(&job.model_dir, &mut |warning| {
            tracing::warn!("{}", warning.log_line())
        })?
        .ok_or_else(|| none(format!("no checkpoint in {folder}"))),
        Some(step) => {
            let found = list(&job.model_dir)?
                .into_iter()
                .find(|found| found.step == step);
            let found =
                found.ok_or_else(|| none(format!("no checkpoint of step {step} in {folder}")))?;
            let checkpoint = Checkpoint::open(&found.path)?;
            checkpoint.verify()?;
            Ok(checkpoint)
        }
    }
}

/// Warns if the job of the checkpoints in the model directory differs from this job in `keys`.
///
/// # Errors
/// The record of the job cannot be read.
pub(crate) fn warn_of_other_job(job: &Job, keys: &[&str]) -> Result<(), Diagnostic> {
    // Runs of earlier releases have written no record.
    let Some(record) = JobRecord::read(&job.model_dir)? else {
        return Ok(());
    };
    let trained = Agreement::recorded(&record.keys).of_scores();
    let own = Agreement::of(job).of_scores();
    let difference =
        trained
            .only(keys)
            .differences(&own.only(keys), "the run that trained", "this job");
    if let Some(difference) = difference {
        let message = format!(
            "the checkpoints of {} were trained by another job: {difference}",
            job.model_dir.display()
        );
        let help = "the scores are of a model that was not trained so: give the job file and --set of the training (model_dir/job.toml)";
        tracing::warn!(
            "{}",
            Diagnostic::warning(Code::E2007, message)
                .help(help)
                .log_line()
        );
    }
    Ok(())
}

/// Returns the source of the values, as the options of a command name it.
pub(crate) fn origin(job: &Job, step: Option<u64>, source: &Source) -> Result<Origin, Diagnostic> {
    match &source.from {
        Some(path) => Origin::open(path),
        None => Ok(Origin::Own(Arc::new(find(job, step)?))),
    }
}
