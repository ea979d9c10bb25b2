//! `trainyard evaluate`: evaluates one checkpoint, once.

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use clap::Args;
use serde_json::json;
use trainyard_checkpoint::Origin;
use trainyard_daemon::StopSource;
use trainyard_diagnostic::{Code, Diagnostic};
use trainyard_evaluator::{evaluate as score, not_finite, warn_of_one_class};
use trainyard_model::{AnyModel, Build, Part, Scores, Shard, input_options, with_constants};
use trainyard_predictor::Parameters;
use trainyard_run_config::{EvaluationConfig, Job};

use crate::arguments::{Format, JobArguments, Source};
use crate::data_warnings::{report_ambiguous_files, report_unknown_values};
use crate::output::{Sink, refuse_absent_folder, table};
use crate::output_form::{JSON, ending, refuse_other_ending};
use crate::targets::{refuse_own_file, refuse_source};
use crate::times_of_files::{Labels, warn_of_times};
use crate::trained_values::{OF_SCORES, origin, warn_of_other_job};
use crate::unseen_columns::unseen_columns;

#[derive(Debug, Args)]
pub(crate) struct Evaluate {
    #[command(flatten)]
    pub(crate) job: JobArguments,
    /// Global step of the checkpoint. Default: the newest checkpoint.
    #[arg(long, value_name = "N")]
    pub(crate) step: Option<u64>,
    #[command(flatten)]
    pub(crate) source: Source,
    /// Format of the output. Default: json for an --output that ends by .json, else text.
    #[arg(long, value_enum)]
    pub(crate) format: Option<Format>,
    /// File of the metrics. Default: standard output. A file of that name is replaced when the new one is whole.
    #[arg(long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
}

/// Evaluates a checkpoint on the job's evaluation inputs. Writes nothing if `stop` asks for the end before.
pub(crate) fn evaluate(
    arguments: &Evaluate,
    build: Build,
    stop: &StopSource,
) -> Result<(), Vec<Diagnostic>> {
    let job = arguments.job.load()?;
    report_ambiguous_files(&job, arguments.job.log_format);
    let work = || {
        if let Some(path) = &arguments.output {
            refuse_own_file(path, &job)?;
            refuse_absent_folder(path)?;
            refuse_source(path, arguments.source.from.as_deref())?;
        }
        let format = form(arguments.format, arguments.output.as_deref())?;
        let model = build(&job)?;
        let origin = origin(&job, arguments.step, &arguments.source)?;
        for part in parts(&job) {
            let input = input_options(&job, part, Shard::WHOLE, None)?;
            report_unknown_values(&job, &input, arguments.job.log_format);
        }
        let Some(scores) = scores(&job, &*model, &origin, stop)? else {
            return Ok(());
        };
        let at = match (origin.global_step(), &arguments.source.from) {
            (Some(step), Some(from)) => format!("at step {step}, of {}", from.display()),
            (Some(step), None) => format!("at step {step}"),
            (None, from) => format!("of {}", from.as_deref().unwrap_or(Path::new("")).display()),
        };
        let text = match format {
            Format::Text => format!("evaluation {at}:\n{}", table(&scores)),
            Format::Json => format!(
                "{}\n",
                json!({"global_step": origin.global_step(), "metrics": scores})
            ),
        };
        let mut out = Sink::open(arguments.output.as_deref(), &[])?;
        out.write(&text)?;
        out.finish()?;
        not_finite(&scores).map_or(Ok(()), Err)
    };
    work().map_err(|problem| vec![problem])
}

/// Returns the evaluation inputs of a job.
fn parts(job: &Job) -> impl Iterator<Item = Part> + use<> {
    let further = (0..job.evaluations.len()).map(Part::Evaluation);
    std::iter::once(Part::Eval).chain(further)
}

/// Returns the format of the metrics: that of the arguments, or that of the file's name.
fn form(given: Option<Format>, output: Option<&Path>) -> Result<Format, Diagnostic> {
    let Some(path) = output else {
        return Ok(given.unwrap_or(Format::Text));
    };
    refuse_other_ending(path, &JSON)?;
    let is_json = ending(path).is_some_and(|ending| JSON.contains(&ending.as_str()));
    match given {
        Some(Format::Text) if is_json => {
            let message = format!(
                "--output {} and --format text contradict each other: the name stands for JSON",
                path.display()
            );
            let problem = Diagnostic::error(Code::E1000, message);
            Err(problem.help("leave --format out, or give the file another ending"))
        }
        Some(given) => Ok(given),
        None if is_json => Ok(Format::Json),
        None => Ok(Format::Text),
    }
}

/// Evaluates values on the job's evaluation inputs. Returns `None` if `stop` asks for the end before.
pub(crate) fn scores(
    job: &Job,
    model: &AnyModel,
    origin: &Origin,
    stop: &StopSource,
) -> Result<Option<Scores>, Diagnostic> {
    warn_of_other_job(&with_constants(job, model), origin.job(), &OF_SCORES);
    let parameters = Parameters::read(origin, model)?;
    let score = |part: Part, steps: Option<u64>| {
        let input = input_options(job, part, Shard::WHOLE, None)?;
        warn_of_times(job, origin.job(), &input, Labels::Read)?;
        if let Some(unseen) = unseen_columns(&input, model.schema()) {
            tracing::warn!("{}", unseen.log_line());
        }
        let weight = job.input.weight_column.as_deref();
        score(model, &parameters, weight, input, steps, || {
            if stop.is_requested() {
                ControlFlow::Break(())
            } else {
                ControlFlow::Continue(())
            }
        })
    };
    let Some(mut scores) = score(Part::Eval, job.eval.steps)? else {
        return Ok(None);
    };
    warn_of_one_class(&scores);
    for (place, EvaluationConfig { name, steps, .. }) in job.evaluations.iter().enumerate() {
        let Some(further) = score(Part::Evaluation(place), *steps)? else {
            return Ok(None);
        };
        scores.extend(
            further
                .into_iter()
                .map(|(metric, value)| (format!("{name}/{metric}"), value)),
        );
    }
    Ok(Some(scores))
}
