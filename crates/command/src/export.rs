//! `trainyard export`: writes one checkpoint for other programs.

use std::path::{Path, PathBuf};
use std::time::SystemTime;

use clap::{Args, ValueEnum};
use trainyard_checkpoint::list;
use trainyard_diagnostic::{Code, Diagnostic};
use trainyard_evaluator::{ScoredModel, export as write_export};
use trainyard_model::{Build, Scores, with_constants};
use trainyard_model_dir::is_of_run;
use trainyard_run_config::{ExportForm, ExportFormat, Job, identity};
use trainyard_storage::is_remote;

use crate::arguments::JobArguments;
use crate::output::print;
use crate::output_form::refuse_name_of_file;
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
        warn_of_other_job(
            &with_constants(&job, &*model),
            &checkpoint.manifest().job,
            &OF_PREDICTIONS,
        );
        let folder = arguments
            .output
            .clone()
            .unwrap_or_else(|| job.model_dir.join("export/manual"));
        check_folder(&folder, &job)?;
        refuse_name_of_file(&folder)?;
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

/// Checks that exports may be written into a folder.
///
/// # Errors
/// It is no folder, holds checkpoints, or is one of the job's run or of an exporter, which removes old exports there.
fn check_folder(folder: &Path, job: &Job) -> Result<(), Diagnostic> {
    let refused = |why: String| {
        Err(
            Diagnostic::error(Code::E1000, format!("--output {}: {why}", folder.display())).help(
                "name a folder for exports alone; without --output it is model_dir/export/manual",
            ),
        )
    };
    if !is_remote(folder) {
        let found = folder
            .ancestors()
            .find(|folder| folder.symlink_metadata().is_ok());
        if let Some(other) = found.filter(|found| !found.is_dir() && !found.as_os_str().is_empty())
        {
            return refused(format!("{} is no folder", other.display()));
        }
        if !list(folder)?.is_empty() {
            return refused(
                "the folder holds checkpoints, and who reads it would take the export for the newest of them"
                    .to_owned(),
            );
        }
    }
    let Some(within) = within_model_dir(folder, &job.model_dir) else {
        return Ok(());
    };
    let of_exporter = job
        .exporters
        .iter()
        .find(|exporter| within.starts_with(Path::new("export").join(&exporter.name)));
    if let Some(exporter) = of_exporter {
        return refused(format!(
            "the folder is that of the exporter `{}`, which keeps its own exports there and removes old ones",
            exporter.name
        ));
    }
    let first = within.iter().next().unwrap_or_default().to_string_lossy();
    let is_evaluation = first == "eval" || first.starts_with("eval_");
    if first.is_empty() || is_of_run(&within) || is_evaluation {
        return refused("the folder is one of the run in model_dir".to_owned());
    }
    Ok(())
}

/// Returns the path of a folder below a model directory; none for one that is elsewhere.
fn within_model_dir(folder: &Path, model_dir: &Path) -> Option<PathBuf> {
    let (folder, model_dir) = if is_remote(folder) || is_remote(model_dir) {
        (folder.to_owned(), model_dir.to_owned())
    } else {
        (identity(folder), identity(model_dir))
    };
    folder.strip_prefix(model_dir).ok().map(Path::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exports_are_written_into_no_folder_of_the_run_or_of_an_exporter() {
        let folder = tempfile::tempdir().expect("a folder");
        let at = |name: &str| folder.path().join(name);
        let text = format!(
            "model_dir = {:?}\n[input]\nlabel = {{ column = \"y\" }}\ntrain = {{ files = [\"rows.csv\"], epochs = 1 }}\n\
             eval = {{ files = [\"eval.csv\"] }}\n[model]\nkind = \"linear_classifier\"\n\
             [[feature]]\ncolumn = \"x\"\nkind = \"numeric\"\n\
             [[exporter]]\nkind = \"best\"\nname = \"best\"\nmetric = \"auc\"\n",
            at("m")
        );
        let job = Job::parse(Path::new("job.toml"), &text, &[]).expect("the job is good");
        std::fs::write(at("file"), "mine").expect("written");
        let check = |job: &Job, expected: &[(&str, bool)]| {
            for (name, is_taken) in expected {
                let checked = check_folder(&at(name), job);
                assert_eq!(checked.is_ok(), *is_taken, "{name}: {checked:?}");
            }
        };
        let expected = [
            ("elsewhere", true),
            ("m/export/manual", true),
            ("m/export/mine/deep", true),
            ("m/exports", true),
            ("m", false),
            ("m/export/best", false),
            ("m/export/best/deep", false),
            ("m/publish", false),
            ("m/wal/x", false),
            ("m/eval", false),
            ("m/eval_train/x", false),
            ("m/model.ckpt-7", false),
            ("m/model.ckpt-7/x", false),
            ("file", false),
            ("file/below", false),
        ];
        check(&job, &expected);
        // Whether the folders exist or not, and by whatever name.
        std::fs::create_dir_all(at("m/export/best")).expect("a folder");
        std::os::unix::fs::symlink(at("m"), at("link")).expect("a link");
        check(&job, &expected);
        check(
            &job,
            &[("link/export/best", false), ("link/export/manual", true)],
        );
        let device = check_folder(Path::new("/dev/null"), &job).expect_err("no folder");
        assert!(
            device.message.contains("/dev/null is no folder"),
            "{device:?}"
        );
        let mut remote = job;
        remote.model_dir = PathBuf::from("s3://bucket/m");
        let of_exporter = check_folder(Path::new("s3://bucket/m/export/best"), &remote);
        assert!(of_exporter.is_err());
        assert!(check_folder(Path::new("s3://bucket/m/export/manual"), &remote).is_ok());
    }
}
