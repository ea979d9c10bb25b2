//! `trainyard evaluate`, `predict` and `export`: one checkpoint, once.

use std::collections::BTreeMap;
use std::time::SystemTime;

use serde_json::{Value, json};
use trainyard_checkpoint::{Checkpoint, latest_good, list};
use trainyard_diagnostic::{Code, Diagnostic};
use trainyard_evaluator::{evaluate_checkpoint, export as write_export};
use trainyard_model::{Build, Part, Prediction, Scores, Shard, input_options};
use trainyard_run_config::{ExportForm, ExportFormat, Job};

use crate::command::{Export, FileFormat, Format, Lines, OneShot, Predict};
use crate::output::{Sink, print, read_files, table};

/// Returns the checkpoint of a step, or the newest good one.
fn find(job: &Job, step: Option<u64>) -> Result<Checkpoint, Diagnostic> {
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
        None => latest_good(&job.model_dir, &mut |warning| tracing::warn!("{}", warning.render()))?
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

/// Writes the predictions of a checkpoint.
pub(crate) fn predict(arguments: &Predict, build: Build) -> Result<(), Vec<Diagnostic>> {
    let mut job = arguments.job.load()?;
    read_files(&mut job, &arguments.input);
    let work = || {
        let model = build(&job)?;
        let checkpoint = find(&job, arguments.step)?;
        let input = input_options(&job, Part::Eval, Shard::WHOLE, None)?;
        let mut out = Sink::open(arguments.output.as_deref())?;
        let mut first = true;
        trainyard_evaluator::predict(&*model, &checkpoint, input, |prediction| {
            let line = match arguments.format {
                Lines::Jsonl => jsonl(&prediction),
                Lines::Csv => csv(&prediction, std::mem::take(&mut first)),
            };
            out.write(&line)
        })?;
        out.finish()
    };
    work().map_err(|problem| vec![problem])
}

fn jsonl(prediction: &BTreeMap<String, Prediction>) -> String {
    let value = |prediction: &Prediction| match prediction {
        // Through the shortest text, so that 0.1 is not written as 0.10000000149011612.
        Prediction::Floats(values) => {
            values.iter().map(|value| json!(value.to_string().parse::<f64>().ok())).collect()
        }
        Prediction::Ints(values) => json!(values),
        Prediction::Texts(values) => json!(values),
    };
    let object: serde_json::Map<String, Value> =
        prediction.iter().map(|(key, values)| (key.clone(), value(values))).collect();
    format!("{}\n", Value::Object(object))
}

/// One column for each value: `probabilities_0`, `probabilities_1`; a key with one value is a column by itself. Keys
/// that are the same for every record are left out.
fn csv(prediction: &BTreeMap<String, Prediction>, header: bool) -> String {
    let (mut names, mut cells) = (Vec::new(), Vec::new());
    for (key, values) in prediction.iter().filter(|(key, _)| !key.starts_with("all_")) {
        let texts: Vec<String> = match values {
            Prediction::Floats(values) => values.iter().map(f32::to_string).collect(),
            Prediction::Ints(values) => values.iter().map(i64::to_string).collect(),
            Prediction::Texts(values) => {
                values.iter().map(|text| format!("\"{}\"", text.replace('"', "\"\""))).collect()
            }
        };
        let single = texts.len() == 1;
        for (index, text) in texts.into_iter().enumerate() {
            names.push(if single { key.clone() } else { format!("{key}_{index}") });
            cells.push(text);
        }
    }
    let row = format!("{}\n", cells.join(","));
    if header { format!("{}\n{row}", names.join(",")) } else { row }
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
