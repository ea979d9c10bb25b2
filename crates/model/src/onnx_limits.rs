//! The features that ONNX cannot express, and their refusal.

use trainyard_feature_column::{Categorical, FeatureColumns};
use trainyard_run_config::{ExportFormat, ExporterConfig, FeatureKind, Job};

use crate::Error;

/// Returns why a graph cannot compute a feature, or `None` if it can.
pub(crate) fn reason(kind: &FeatureKind) -> Option<&'static str> {
    match kind {
        FeatureKind::Hashed { .. } => Some("a hashed column needs FarmHash"),
        FeatureKind::Crossed { .. } => Some("a crossed column needs FarmHash"),
        FeatureKind::Vocabulary {
            oov_buckets: 1.., ..
        } => Some("the oov_buckets of a vocabulary need FarmHash"),
        _ => None,
    }
}

/// Returns the categorical columns that the model reads.
fn used(columns: &FeatureColumns) -> impl Iterator<Item = &Categorical> {
    columns
        .categorical
        .iter()
        .filter(|column| column.wide || column.deep.is_some())
}

/// Refuses columns that a graph cannot compute.
pub(crate) fn refuse(columns: &FeatureColumns, exporter: Option<&str>) -> Result<(), Error> {
    let mut features: Vec<(String, &'static str)> = used(columns)
        .filter_map(|column| Some((column.name.clone(), reason(&column.config.kind)?)))
        .collect();
    features.dedup();
    if features.is_empty() {
        Ok(())
    } else {
        Err(Error::NotInOnnx {
            features,
            exporter: exporter.map(str::to_owned),
        })
    }
}

/// Refuses dynamic columns, even if hashed columns are taken as ids: the row of an id is known only with the
/// checkpoint, and changes with it.
pub(crate) fn refuse_dynamic(
    columns: &FeatureColumns,
    exporter: Option<&str>,
) -> Result<(), Error> {
    let mut features: Vec<String> = used(columns)
        .filter(|column| column.dynamic().is_some())
        .map(|column| column.name.clone())
        .collect();
    features.dedup();
    if features.is_empty() {
        Ok(())
    } else {
        Err(Error::DynamicInOnnx {
            features,
            exporter: exporter.map(str::to_owned),
        })
    }
}

/// Refuses a job whose exporter can never write its graph, before training rather than hours later.
pub(crate) fn check_exporters(job: &Job, columns: &FeatureColumns) -> Result<(), Error> {
    let onnx = |exporter: &&ExporterConfig| exporter.form.formats.contains(&ExportFormat::Onnx);
    job.exporters
        .iter()
        .filter(onnx)
        .try_for_each(|exporter| refuse_dynamic(columns, Some(&exporter.name)))?;
    let exporters = job
        .exporters
        .iter()
        .map(|exporter| (exporter, &exporter.form));
    let mut strict = exporters
        .filter(|(_, form)| form.formats.contains(&ExportFormat::Onnx) && !form.hashed_as_ids);
    strict.try_for_each(|(exporter, _)| refuse(columns, Some(&exporter.name)))
}
