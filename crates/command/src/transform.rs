//! `trainyard transform`: inputs of an exported graph, made from records by the job's feature columns.

use std::path::PathBuf;

use clap::Args;
use serde_json::Value;
use trainyard_daemon::report;
use trainyard_diagnostic::Diagnostic;
use trainyard_input::Dataset;
use trainyard_model::{Build, Part, Shard, input_options};

use crate::arguments::JobArguments;
use crate::data_warnings::report_ambiguous_files;
use crate::output::{Sink, read_files};
use crate::output_form::{JSON, refuse_other_content};
use crate::targets::refuse_own_file;
use crate::times_of_files::{Labels, compare_times, trained_job};

#[derive(Debug, Args)]
pub(crate) struct Transform {
    #[command(flatten)]
    pub(crate) job: JobArguments,
    /// Files to read, in the job's input format. Default: the job's evaluation input. Labels are not read.
    #[arg(long, value_name = "FILE", num_args = 1..)]
    pub(crate) input: Vec<String>,
    /// File of the output, compressed if it ends by .gz. Default: standard output. A file of that name is replaced when the new one is whole.
    #[arg(long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
}

/// Writes a JSON object for each record: lists of values by name of the input.
pub(crate) fn transform(arguments: &Transform, build: Build) -> Result<(), Vec<Diagnostic>> {
    let mut job = arguments.job.load()?;
    read_files(&mut job, &arguments.input);
    report_ambiguous_files(&job, arguments.job.log_format);
    let work = || {
        if let Some(path) = &arguments.output {
            refuse_own_file(path, &job)?;
            refuse_other_content(path, &JSON)?;
        }
        let model = build(&job)?;
        let graph = model.onnx()?;
        let input = input_options(&job, Part::Eval, Shard::WHOLE, None)?;
        let other_times =
            compare_times(&job, &trained_job(&job.model_dir), &input, Labels::Unread)?;
        report(&other_times, arguments.job.log_format);
        let mut out = Sink::of_job(arguments.output.as_deref(), &job, &input.files)?;
        let dataset = Dataset::open(input, model.serving_schema().clone())?;
        for batch in dataset {
            for row in graph.graph_rows(&batch?)? {
                out.write(&format!("{}\n", Value::Object(row)))?;
            }
            if out.is_closed() {
                break;
            }
        }
        out.finish()
    };
    work().map_err(|problem: Diagnostic| vec![problem])
}
