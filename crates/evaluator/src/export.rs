//! An export: the variables of a checkpoint in one safetensors file, the model as an ONNX graph or as a SavedModel, and
//! a description of the model beside them.

use std::fs::File;
use std::io::{BufWriter, Write as _};
use std::path::{Path, PathBuf};

use serde::ser::SerializeMap as _;
use serde::{Serialize, Serializer};
use serde_json::json;
use trainyard_checkpoint::Checkpoint;
use trainyard_diagnostic::Diagnostic;
use trainyard_model::{AnyModel, HashedColumns, Scores};
use trainyard_model_dir::durable::{create_folders, flush_tree, rename};
use trainyard_model_dir::{ModelDir, names, send, write_atomically};
use trainyard_predictor::check_room;
use trainyard_run_config::{ExportForm, ExportFormat, Job};
use trainyard_variable::Values;

use trainyard_tensorflow_formats::saved_model::VARIABLES;

use crate::exported::{Exported, failed, failed_at_size, value_bytes};
use crate::saved_model;

/// The file that describes the model.
pub(crate) const DESCRIPTION: &str = "model.json";

/// The file of the job, by which a server of predictions builds the model.
const JOB: &str = "job.toml";

/// A model, its values, and how good they are.
#[derive(Clone, Copy)]
pub struct ScoredModel<'a> {
    /// The job of the model.
    pub job: &'a Job,
    /// The model.
    pub model: &'a AnyModel,
    /// The values.
    pub checkpoint: &'a Checkpoint,
    /// Metrics of the values; empty if they were not evaluated.
    pub scores: &'a Scores,
}

/// The content of [`DESCRIPTION`].
#[derive(Serialize)]
struct Description<'a> {
    columns: Vec<serde_json::Value>,
    description: OfModel<'a>,
    format: &'static str,
    global_step: u64,
    job: &'a [String],
    metrics: &'a Scores,
    #[serde(skip_serializing_if = "Option::is_none")]
    onnx: Option<serde_json::Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    saved_model: Option<serde_json::Value>,
    variables: Vec<serde_json::Value>,
}

/// The description of a model, with its features.
struct OfModel<'a>(&'a AnyModel);

impl Serialize for OfModel<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let fields = match self.0.describe() {
            serde_json::Value::Object(fields) => fields,
            other => return other.serialize(serializer),
        };
        let mut out = serializer.serialize_map(None)?;
        for (key, value) in &fields {
            out.serialize_entry(key, value)?;
        }
        let features = self.0.described_features();
        if !features.is_empty() {
            out.serialize_entry("features", features)?;
        }
        out.end()
    }
}

/// Writes an export into `folder/<unix seconds>`, whole or not at all, and returns its path. If there is an export of
/// that second or of a later one, the second after the latest is used: the newest export has the highest number.
///
/// # Errors
/// The checkpoint cannot be read, the folder cannot be written, or the model cannot be expressed in a format.
pub fn export(
    scored: &ScoredModel<'_>,
    form: &ExportForm,
    folder: &Path,
    unix_secs: u64,
) -> Result<PathBuf, Diagnostic> {
    if ModelDir::is_bucket(folder) {
        return export_remotely(scored, form, folder, unix_secs);
    }
    create_folders(folder)?;
    let second = free_second(folder, unix_secs)?;
    let temporary = folder.join(format!("temp-{second}"));
    let target = folder.join(second.to_string());
    // A server takes what has its name for whole: a power cut leaves all of an export or none.
    let written = write(scored, form, &temporary).and_then(|()| {
        flush_tree(&temporary)?;
        Ok(rename(&temporary, &target)?)
    });
    if written.is_err() {
        let _ = std::fs::remove_dir_all(&temporary);
    }
    written.map(|()| target)
}

/// Writes an export into a bucket, by way of a local temporary folder. The description is sent last: an export without
/// it is incomplete.
fn export_remotely(
    scored: &ScoredModel<'_>,
    form: &ExportForm,
    folder: &Path,
    unix_secs: u64,
) -> Result<PathBuf, Diagnostic> {
    let target = folder.join(free_second(folder, unix_secs)?.to_string());
    let here = tempfile::tempdir().map_err(|error| failed(&target, error))?;
    write(scored, form, here.path())?;
    let files = names(here.path())?
        .into_iter()
        .filter(|name| name != DESCRIPTION && name != VARIABLES);
    let variables = here.path().join(VARIABLES);
    if variables.is_dir() {
        for name in names(&variables)? {
            send(&variables.join(&name), &target.join(VARIABLES).join(&name))?;
        }
    }
    for name in files.chain([DESCRIPTION.to_owned()]) {
        send(&here.path().join(&name), &target.join(&name))?;
    }
    Ok(target)
}

/// Returns the first second from `unix_secs` on that is later than those of all exports in the folder. Several exports may be
/// written within a second, older ones are removed, and a clock may have been set back.
fn free_second(folder: &Path, unix_secs: u64) -> Result<u64, Diagnostic> {
    let taken = names(folder)?;
    let latest = taken
        .iter()
        .filter_map(|name| name.parse::<u64>().ok())
        .max();
    Ok(latest.map_or(unix_secs, |latest| unix_secs.max(latest.saturating_add(1))))
}

fn write(scored: &ScoredModel<'_>, form: &ExportForm, folder: &Path) -> Result<(), Diagnostic> {
    let ScoredModel {
        job,
        model,
        checkpoint,
        scores,
    } = *scored;
    std::fs::create_dir_all(folder).map_err(|error| failed(folder, error))?;
    let mut saved_model = None;
    if form.formats.contains(&ExportFormat::SavedModel) {
        saved_model = Some(saved_model::write(model, checkpoint, folder)?);
    }
    let specs = model.variables().iter();
    let whole = form
        .formats
        .iter()
        .any(|format| *format != ExportFormat::SavedModel);
    // The values of a SavedModel are a stream: they need not fit into memory.
    let variables = if whole {
        check_room(
            specs
                .clone()
                .map(|spec| value_bytes(checkpoint, spec))
                .sum(),
        )?;
        let read = specs.clone().map(|spec| Exported::read(checkpoint, spec));
        read.collect::<Result<Vec<_>, trainyard_checkpoint::Error>>()?
    } else {
        Vec::new()
    };
    if form.formats.contains(&ExportFormat::Safetensors) {
        safetensors(&variables, &folder.join("model.safetensors"))?;
    }
    let described: Vec<_> = if whole {
        let read = variables.iter();
        read.map(|variable| variable.describe(checkpoint)).collect()
    } else {
        specs
            .map(|spec| Exported::unread(checkpoint, spec))
            .collect()
    };
    let mut onnx = None;
    if form.formats.contains(&ExportFormat::Onnx) {
        let hashed = if form.hashed_as_ids {
            HashedColumns::AsIds
        } else {
            HashedColumns::Refuse
        };
        let values: Values = variables
            .into_iter()
            .map(|variable| variable.values)
            .collect();
        let graph = model.onnx()?.to_onnx(&values, hashed)?;
        write_graph(&graph.file, folder)?;
        onnx = Some(graph.describe());
    }
    let wanted = |schema: &trainyard_input::Schema| -> Vec<serde_json::Value> {
        let fields = schema.fields.iter();
        fields
            .map(|field| json!({"column": field.name, "kind": format!("{:?}", field.kind)}))
            .collect()
    };
    let manifest = checkpoint.manifest();
    let description = Description {
        columns: wanted(model.serving_schema()),
        description: OfModel(model),
        format: "trainyard-export-1",
        global_step: manifest.global_step,
        job: &manifest.job,
        metrics: scores,
        onnx,
        saved_model,
        variables: described,
    };
    let path = folder.join(JOB);
    let text = job
        .as_run()
        .map_err(|error| failed(&path, std::io::Error::other(error)))?;
    write_atomically(&path, text.as_bytes())?;
    let path = folder.join(DESCRIPTION);
    write_description(&description, &path).map_err(|error| failed(&path, error))
}

/// Writes a description piece by piece, because that of a long vocabulary would be larger than the vocabulary.
fn write_description(description: &Description<'_>, path: &Path) -> std::io::Result<()> {
    let mut out = BufWriter::new(File::create(path)?);
    serde_json::to_writer_pretty(&mut out, description)?;
    out.into_inner()?.sync_all()
}

fn safetensors(variables: &[Exported<'_>], path: &Path) -> Result<(), Diagnostic> {
    let mut views = Vec::with_capacity(variables.len());
    for variable in variables {
        views.extend(variable.views().map_err(|error| failed(path, error))?);
    }
    let size: usize = views
        .iter()
        .map(|(_, view)| safetensors::View::data_len(view))
        .sum();
    safetensors::serialize_to_file(views, None, path)
        .map_err(|error| failed_at_size(path, Some(size as u64), error))
}

fn write_graph(file: &trainyard_onnx::File, folder: &Path) -> Result<(), Diagnostic> {
    let path = folder.join("model.onnx");
    let size = Some(file.bytes.len() as u64);
    std::fs::write(&path, &file.bytes).map_err(|error| failed_at_size(&path, size, error))?;
    if !file.data.is_empty() {
        let path = folder.join(trainyard_onnx::File::DATA);
        let write = || {
            let mut out = std::fs::File::create(&path)?;
            file.data.iter().try_for_each(|table| out.write_all(table))
        };
        let size = file.data.iter().map(|table| table.len() as u64).sum();
        write().map_err(|error: std::io::Error| failed_at_size(&path, Some(size), error))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_export_has_the_highest_number_whatever_was_removed_and_whatever_the_clock_says() {
        let folder = tempfile::tempdir().expect("a folder");
        let make = |second: u64| {
            std::fs::create_dir(folder.path().join(second.to_string())).expect("there is room");
        };
        let free = |now| free_second(folder.path(), now).expect("readable");
        assert_eq!(free(100), 100);
        make(101);
        assert_eq!(free(100), 102, "100 was removed within its second");
        assert_eq!(free(90), 102, "the clock was set back");
        assert_eq!(free(110), 110);
    }
}
