//! `trainyard export`: writes one checkpoint for other programs.

use std::path::PathBuf;
use std::time::SystemTime;

use clap::{Args, ValueEnum};
use trainyard_checkpoint::list;
use trainyard_diagnostic::{Code, Diagnostic};
use trainyard_evaluator::{ScoredModel, export as write_export};
use trainyard_model::{Build, Scores};
use trainyard_run_config::{ExportForm, ExportFormat};
use trainyard_storage::is_remote;

use crate::arguments::JobArguments;
use crate::output::print;
use crate::trained_values::{OF_PREDICTIONS, find, warn_of_other_job};

/// Formats of an export, by name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum FileFormat {
    /// The variables, in model.safetensors.
    Safetensors,
    /// The model as a graph that predicts, in model.onnx.
    Onnx,
    /// The model for TensorFlow and TensorFlow Serving, in saved_model.pb and the folder variables.
    #[value(name = "saved_model")]
    SavedModel,
}

#[derive(Debug, Args)]
pub(crate) struct Export {
    #[command(flatten)]
    pub(crate) job: JobArguments,
    /// Global step of the checkpoint. Default: the newest checkpoint.
    #[arg(long, value_name = "N")]
    pub(crate) step: Option<u64>,
    /// Folder of exports. Default: model_dir/export/manual.
    #[arg(long, value_name = "DIR")]
    pub(crate) output: Option<PathBuf>,
    /// Formats to write besides the description; several may be given.
    #[arg(long, value_enum, value_delimiter = ',', default_value = "safetensors")]
    pub(crate) format: Vec<FileFormat>,
    /// Makes the ids of features that ONNX cannot hash inputs of the graph. Without it, such features are refused.
    #[arg(long)]
    pub(crate) hashed_as_ids: bool,
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
        warn_of_other_job(&job, &checkpoint.manifest().job, &OF_PREDICTIONS);
        let folder = arguments
            .output
            .clone()
            .unwrap_or_else(|| job.model_dir.join("export/manual"));
        if !is_remote(&folder) && !list(&folder)?.is_empty() {
            let message = format!(
                "--output {}: the folder holds checkpoints, and who reads it would take the export for the newest of them",
                folder.display()
            );
            return Err(Diagnostic::error(Code::E1000, message)
                .help("name a folder for exports alone, such as one below it"));
        }
        let now = SystemTime::now()
            .duration_since(SystemTime::UNIX_EPOCH)
            .map_or(0, |since| since.as_secs());
        let format = |format: &FileFormat| match format {
            FileFormat::Safetensors => ExportFormat::Safetensors,
            FileFormat::Onnx => ExportFormat::Onnx,
            FileFormat::SavedModel => ExportFormat::SavedModel,
        };
        let formats = arguments.format.iter().map(format).collect();
        let form = ExportForm {
            formats,
            hashed_as_ids: arguments.hashed_as_ids,
        };
        let scored = ScoredModel {
            job: &job,
            model: &*model,
            checkpoint: &checkpoint,
            scores: &Scores::new(),
        };
        let path = write_export(&scored, &form, &folder, now)?;
        print(&format!("{}\n", path.display()))
    };
    work().map_err(|problem| vec![problem])
}
