//! `[[exporter]]`: exports after evaluations.

use serde::Serialize;
use trainyard_diagnostic::{Code, Section, Takes, Value, section, suggest};

use super::input::duplicate;
use crate::metric::direction;
use crate::without_effect::warn_by_trigger;

section! {
    /// Keys of `[[exporter]]`.
    #[derive(Debug)]
    pub(crate) struct ExporterKeys {
        /// `latest`, `best` or `final`
        kind: Option<ExporterKind> = choice("exporter", &ExporterKind::NAMES).required_or_invalid("\"best\"");
        /// folder under `model_dir/export`
        name: Option<String> = text().optional("the kind");
        /// number of exports to keep; 0 = all
        exports_to_keep: usize = integer(0..=EXPORTS_MAX).or(5);
        /// metric that `best` compares
        metric: String = text().or("loss".to_owned());
        /// direction of the metric
        higher_is_better: Option<bool> = flag().optional("that of the metric; required for metrics that have none");
        /// `safetensors`, `onnx`, `saved_model`, or a list of them ([export.md](export.md))
        format: Option<Vec<ExportFormat>> = custom(read_formats, formats_taken, "\"safetensors\"")
            .or_invalid(vec![ExportFormat::Safetensors]);
        /// `onnx`: the graph takes the ids of hashed and crossed features as inputs; without this key a job with such
        /// features is refused
        hashed_as_ids: bool = flag().or(false);
    }
}

/// Most exports that are kept.
const EXPORTS_MAX: u64 = 1_000_000;

/// Trigger of an exporter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ExporterKind {
    /// After every evaluation (`LatestExporter`).
    Latest,
    /// After an evaluation whose metric is better than all earlier ones (`BestExporter`).
    Best,
    /// After the last evaluation (`FinalExporter`).
    Final,
}

impl ExporterKind {
    /// Every kind with its name in a job file.
    pub const NAMES: [(&'static str, Self); 3] = [
        ("latest", Self::Latest),
        ("best", Self::Best),
        ("final", Self::Final),
    ];
}

/// Format of an export.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ExportFormat {
    /// The variables, in one file `model.safetensors` (the default).
    Safetensors,
    /// The model as an ONNX graph that predicts, in one file `model.onnx`.
    Onnx,
    /// The model as a SavedModel of TensorFlow, in `saved_model.pb` and the folder `variables`.
    SavedModel,
}

impl ExportFormat {
    /// Every format with its name in a job file.
    pub const NAMES: [(&'static str, Self); 3] = [
        ("safetensors", Self::Safetensors),
        ("onnx", Self::Onnx),
        ("saved_model", Self::SavedModel),
    ];
}

/// Files of an export besides its description.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ExportForm {
    /// Formats, at least one; safetensors by default.
    pub formats: Vec<ExportFormat>,
    /// The ids of features that ONNX cannot hash become inputs of the graph. By default, such features are
    /// refused.
    pub hashed_as_ids: bool,
}

/// One `[[exporter]]`.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ExporterConfig {
    /// Trigger of the exporter.
    pub kind: ExporterKind,
    /// Folder under `export/`; the kind by default.
    pub name: String,
    /// Number of exports to keep; 5 by default, 0 = all.
    pub exports_to_keep: usize,
    /// Metric that `best` compares; `loss` by default.
    pub metric: String,
    /// A higher metric is better. Of `best` alone.
    pub higher_is_better: bool,
    /// Files that it writes.
    #[serde(flatten)]
    pub form: ExportForm,
}

pub(crate) fn read_all(root: &Section<'_>) -> Option<Vec<ExporterConfig>> {
    let mut out = Vec::new();
    if root.node("exporter").is_none() {
        return Some(out);
    }
    for section in root.sections("exporter") {
        out.extend(read(&section));
        section.finish();
    }
    let names: Vec<String> = out.iter().map(|exporter| exporter.name.clone()).collect();
    if let Some(twice) = duplicate(&names) {
        root.fail(
            Code::E1002,
            "exporter",
            format!("exporters must have unique names, `{twice}` is given twice"),
        );
    }
    Some(out)
}

fn read(section: &Section<'_>) -> Option<ExporterConfig> {
    let keys = ExporterKeys::read_keys(section)?;
    let known = ExporterKind::NAMES
        .iter()
        .find(|(_, known)| Some(*known) == keys.kind);
    let default = known.map_or("best", |(name, _)| name);
    let name = keys.name.unwrap_or_else(|| default.to_owned());
    if name.is_empty() || name.starts_with('.') || name.contains(['/', '\\']) {
        let message = format!("exporter.name must be a plain folder name, given `{name}`");
        section.fail(Code::E1002, "name", message);
    }
    let is_best = keys.kind == Some(ExporterKind::Best);
    let higher_is_better = if is_best {
        direction(section, &keys.metric, keys.higher_is_better)?
    } else {
        false
    };
    if let Some(kind) = keys.kind {
        warn_by_trigger(section, kind);
    }
    let formats = keys.format?;
    if keys.hashed_as_ids && !formats.contains(&ExportFormat::Onnx) {
        section.fail(
            Code::E1006,
            "hashed_as_ids",
            "hashed_as_ids has no meaning without format = \"onnx\"",
        );
        return None;
    }
    Some(ExporterConfig {
        kind: keys.kind?,
        name,
        exports_to_keep: keys.exports_to_keep,
        metric: keys.metric,
        higher_is_better,
        form: ExportForm {
            formats,
            hashed_as_ids: keys.hashed_as_ids,
        },
    })
}

/// Reads one format, or a list of formats.
fn read_formats(section: &Section<'_>, key: &'static str) -> Option<Vec<ExportFormat>> {
    let mut formats = Vec::new();
    match section.node(key).map(|node| &node.value) {
        Some(Value::List(_)) => {
            for name in section.texts(key)? {
                let Some((_, format)) =
                    ExportFormat::NAMES.iter().find(|(known, _)| *known == name)
                else {
                    let message = format!("unknown export format `{name}`");
                    let problem = section.reject(Code::E1101, key, message);
                    let known = ExportFormat::NAMES.map(|(name, _)| name);
                    section.problems().push(match suggest(&name, known) {
                        Some(near) => problem.help(format!("did you mean `{near}`?")),
                        None => problem.help(format!("known: {}", known.join(", "))),
                    });
                    return None;
                };
                if !formats.contains(format) {
                    formats.push(*format);
                }
            }
            if formats.is_empty() {
                section.fail(
                    Code::E1002,
                    key,
                    "format must name at least one format, given none",
                );
                return None;
            }
        }
        _ => formats.push(section.choice(key, "export format", &ExportFormat::NAMES)?),
    }
    Some(formats)
}

fn formats_taken() -> Takes {
    Takes::Choices(ExportFormat::NAMES.map(|(name, _)| name).to_vec())
}
