//! `trainyard evaluate` and `export`: one checkpoint, once.

use std::time::SystemTime;

use serde_json::json;
use trainyard_checkpoint::{Checkpoint, latest_good, list};
use trainyard_diagnostic::{Code, Diagnostic};
use trainyard_evaluator::{evaluate_checkpoint, export as write_export};
use trainyard_model::{Build, Part, Scores, Shard, input_options};
use trainyard_run_config::{ExportForm, ExportFormat, Job};

use crate::command::{Export, FileFormat, Format, OneShot};
use crate::output::{print, table};

/// Returns the checkpoint of a step, or the newest good one.
pub(crate) fn find(job: &Job, step: Option<u64>) -> Result<Checkpoint, Diagnostic> {
    let folder = job.model_dir.display();
    let none = |what: String| {
        let steps: Vec<String> = match list(&job.model_dir) {
            Ok(found) => found.iter().map(|found| found.step.to_string()).collect(),
            Err(error) => return error.into(),
        };
        let problem = Diagnostic::error(Code::E3004, what);
        match steps.is_empty() {
            true => problem.help("train first, or give --model-dir"),
            false => problem.note(format!("steps: {}", steps.join(", "))).help("give one of these steps"),
        }
    };
    match step {
        None => latest_good(&job.model_dir, &mut |warning| tracing::warn!("{}", warning.log_line()))?
            .ok_or_else(|| none(format!("no checkpoint in {folder}"))),
        Some(step) => {
            let found = list(&job.model_dir)?.into_iter().find(|found| found.step == step);
            let found = found.ok_or_else(|| none(format!("no checkpoint of step {step} in {folder}")))?;
            let checkpoint = Checkpoint::open(&found.path)?;
            checkpoint.verify()?;
            Ok(checkpoint)
        }
    }
}

/// Scores a checkpoint on the job's evaluation input.
pub(crate) fn evaluate(arguments: &OneShot, build: Build) -> Result<(), Vec<Diagnostic>> {
    let job = arguments.job.load()?;
    let work = || {
        let model = build(&job)?;
        let checkpoint = find(&job, arguments.step)?;
        let input = input_options(&job, Part::Eval, Shard::WHOLE, None)?;
        let scores = evaluate_checkpoint(&*model, &checkpoint, input, job.eval.steps, || {})?;
        let step = checkpoint.manifest().global_step;
        print(&match arguments.format {
            Format::Text => format!("evaluation at step {step}:\n{}", table(&scores)),
            Format::Json => format!("{}\n", json!({"global_step": step, "metrics": scores})),
        })
    };
    work().map_err(|problem| vec![problem])
}

/// Writes a checkpoint for other programs.
pub(crate) fn export(arguments: &Export, build: Build) -> Result<(), Vec<Diagnostic>> {
    let job = arguments.job.load()?;
    let work = || {
        let model = build(&job)?;
        let checkpoint = find(&job, arguments.step)?;
        if let Some(problem) =
            trainyard_checkpoint::misfit(checkpoint.manifest(), model.variables(), &model.optimizers())
        {
            return Err(problem);
        }
        let folder = arguments.output.clone().unwrap_or_else(|| job.model_dir.join("export/manual"));
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, |since| since.as_secs());
        let format = |format: &FileFormat| match format {
            FileFormat::Safetensors => ExportFormat::Safetensors,
            FileFormat::Onnx => ExportFormat::Onnx,
        };
        let formats = arguments.format.iter().map(format).collect();
        let form = ExportForm { formats, hashed_as_ids: arguments.hashed_as_ids };
        let path = write_export(&*model, &checkpoint, &Scores::new(), &form, &folder, now)?;
        print(&format!("{}\n", path.display()))
    };
    work().map_err(|problem| vec![problem])
}
