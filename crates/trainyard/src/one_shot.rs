//! `trainyard evaluate` and `trainyard export`: commands on a single checkpoint.

use std::path::Path;
use std::sync::Arc;
use std::time::SystemTime;

use serde_json::json;
use trainyard_checkpoint::{Checkpoint, JobRecord, Origin, latest_good, list};
use trainyard_diagnostic::{Code, Diagnostic};
use trainyard_evaluator::{
    Parameters, evaluate as score, export as write_export, warn_of_one_class,
};
use trainyard_model::{Build, Part, Scores, Shard, input_options};
use trainyard_run_config::{Agreement, EvaluationConfig, ExportForm, ExportFormat, Job};

use crate::command::{Export, FileFormat, Format, OneShot, Source};
use crate::output::{print, table};

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

/// Evaluates a checkpoint on the job's evaluation inputs.
pub(crate) fn evaluate(arguments: &OneShot, build: Build) -> Result<(), Vec<Diagnostic>> {
    let job = arguments.job.load()?;
    let work = || {
        let model = build(&job)?;
        let origin = origin(&job, arguments.step, &arguments.source)?;
        if arguments.source.from.is_none() {
            warn_of_other_job(
                &job,
                &["feature", "model", "input.label", "input.weight_column"],
            )?;
        }
        let parameters = Parameters::read(&origin, &*model)?;
        let score = |part: Part, steps: Option<u64>| {
            let input = input_options(&job, part, Shard::WHOLE, None)?;
            score(&*model, &parameters, input, steps, || {})
        };
        let mut scores = score(Part::Eval, job.eval.steps)?;
        warn_of_one_class(&scores);
        for (place, EvaluationConfig { name, steps, .. }) in job.evaluations.iter().enumerate() {
            let further = score(Part::Evaluation(place), *steps)?;
            scores.extend(
                further
                    .into_iter()
                    .map(|(metric, value)| (format!("{name}/{metric}"), value)),
            );
        }
        let at = match (origin.global_step(), &arguments.source.from) {
            (Some(step), Some(from)) => format!("at step {step}, of {}", from.display()),
            (Some(step), None) => format!("at step {step}"),
            (None, from) => format!("of {}", from.as_deref().unwrap_or(Path::new("")).display()),
        };
        print(&match arguments.format {
            Format::Text => format!("evaluation {at}:\n{}", table(&scores)),
            Format::Json => format!(
                "{}\n",
                json!({"global_step": origin.global_step(), "metrics": scores})
            ),
        })
    };
    work().map_err(|problem| vec![problem])
}

/// Exports a checkpoint for other programs.
pub(crate) fn export(arguments: &Export, build: Build) -> Result<(), Vec<Diagnostic>> {
    let job = arguments.job.load()?;
    let work = || {
        let model = build(&job)?;
        let checkpoint = find(&job, arguments.step)?;
        if let Some(problem) = trainyard_checkpoint::misfit(
            checkpoint.manifest(),
            model.variables(),
            &model.optimizers(),
        ) {
            return Err(problem);
        }
        let folder = arguments
            .output
            .clone()
            .unwrap_or_else(|| job.model_dir.join("export/manual"));
        let now = SystemTime::now()
            .duration_since(SystemTime::UNIX_EPOCH)
            .map_or(0, |since| since.as_secs());
        let format = |format: &FileFormat| match format {
            FileFormat::Safetensors => ExportFormat::Safetensors,
            FileFormat::Onnx => ExportFormat::Onnx,
        };
        let formats = arguments.format.iter().map(format).collect();
        let form = ExportForm {
            formats,
            hashed_as_ids: arguments.hashed_as_ids,
        };
        let path = write_export(&*model, &checkpoint, &Scores::new(), &form, &folder, now)?;
        print(&format!("{}\n", path.display()))
    };
    work().map_err(|problem| vec![problem])
}
