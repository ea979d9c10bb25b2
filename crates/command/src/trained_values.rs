//! The trained values that a command uses: a checkpoint of the job, or an export.

use std::sync::Arc;

use trainyard_checkpoint::{Checkpoint, Origin, latest_good, list, of_step};
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
    let checkpoint = match step {
        None => latest_good(&job.model_dir, &mut log_warning)?
            .ok_or_else(|| none(format!("no checkpoint in {folder}")))?,
        Some(step) => {
            let all = list(&job.model_dir)?;
            let found = of_step(&all, step)
                .ok_or_else(|| none(format!("no checkpoint of step {step} in {folder}")))?;
            let checkpoint = Checkpoint::open(&found.path)?;
            checkpoint.verify()?;
            checkpoint
        }
    };
    if checkpoint.manifest().global_step == 0 {
        tracing::warn!(
            "the checkpoint {} is that of step 0: its values are those that training would begin with",
            checkpoint.path().display()
        );
    }
    Ok(checkpoint)
}

fn log_warning(warning: Diagnostic) {
    tracing::warn!("{}", warning.log_line());
}

/// Keys of a job that determine the predictions, and what a class or a probability stands for.
pub(crate) const OF_PREDICTIONS: [&str; 8] = [
    "feature",
    "model",
    "input.label.vocabulary",
    "input.label.positive",
    "input.index_base",
    "input.missing",
    "input.missing_of",
    "input.trim",
];

/// Keys of a job that determine the scores of an evaluation.
pub(crate) const OF_SCORES: [&str; 8] = [
    "feature",
    "model",
    "input.label",
    "input.weight_column",
    "input.index_base",
    "input.missing",
    "input.missing_of",
    "input.trim",
];

/// Logs a warning if the job that trained the values differs from this job in `keys`.
pub(crate) fn warn_of_other_job(job: &Job, trained: &[String], keys: &[&str]) {
    if let Some(warning) = other_job(job, trained, keys) {
        tracing::warn!("{}", warning.log_line());
    }
}

/// Returns a warning if the job that trained the values differs from this job in `keys`.
pub(crate) fn other_job(job: &Job, trained: &[String], keys: &[&str]) -> Option<Diagnostic> {
    if trained.is_empty() {
        // Earlier releases and other programs have not recorded the job.
        return None;
    }
    let trained = Agreement::recorded(trained).of_scores();
    let own = Agreement::of(job).of_scores();
    let trained = trained.only(keys);
    let difference = trained.differences(&own.only(keys), "the run that trained", "this job")?;
    let message = format!("the values were trained by another job: {difference}");
    let help = "give the job file and the --set options of the training; the job.toml in the model directory of the training has both";
    Some(Diagnostic::warning(Code::E2007, message).help(help))
}

/// Returns the source of the values, as the options of a command name it.
pub(crate) fn origin(job: &Job, step: Option<u64>, source: &Source) -> Result<Origin, Diagnostic> {
    match &source.from {
        Some(path) => Origin::open(path, &mut log_warning),
        None => Ok(Origin::Own(Arc::new(find(job, step)?))),
    }
}
