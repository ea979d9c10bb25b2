//! Keys beyond what a run reaches: rules that never come into play, bounds that nothing exceeds, and features that an exporter does not
//! find.

use serde_json::{Map, Value as Json};
use trainyard_diagnostic::Section;

use super::{Row, nothing_if, warn_of_key, wider_than_range};
use crate::{FeatureKind, Job, ReduceOnPlateauConfig};

/// Path of the table of reduced learning rates.
const PLATEAU: &[&str] = &["train", "reduce_on_plateau"];

/// Rules of reduced learning rates that never come into play.
pub(super) const OF_PLATEAU: [Row; 3] = [
    Row {
        table: PLATEAU,
        keys: &["min_delta"],
        outcome: |job| {
            let plateau = job.train.reduce_on_plateau.as_ref()?;
            wider_than_range(job, &plateau.metric, plateau.min_delta)
        },
    },
    Row {
        table: PLATEAU,
        keys: &["min_factor"],
        outcome: |job| {
            let ReduceOnPlateauConfig {
                factor, min_factor, ..
            } = job.train.reduce_on_plateau.as_ref()?;
            (min_factor >= factor).then(|| {
                format!(
                    "is {min_factor}, and factor is {factor}: the first reduction is the last one, to {min_factor} of the rates"
                )
            })
        },
    },
    Row {
        table: &["train"],
        keys: &["reduce_on_plateau"],
        outcome: |job| {
            let plateau = job.train.reduce_on_plateau.as_ref()?;
            let stopping = job.train.early_stopping.as_ref()?;
            let most = stopping.max_evaluations_without_improvement?;
            let is_first = stopping.metric == plateau.metric
                && stopping.min_steps == 0
                && stopping.min_delta >= plateau.min_delta
                && most <= plateau.patience;
            nothing_if(
                is_first,
                format!(
                    "with patience = {}: early_stopping ends the job after {most} evaluations without a better one",
                    plateau.patience
                ),
            )
        },
    },
];

/// Bounds of the guard that no clipped gradient exceeds.
pub(super) const OF_CLIPPING: [Row; 2] = [
    Row {
        table: &["parameter_servers", "guard"],
        keys: &["max_norm"],
        outcome: |job| {
            let clip = clip(job, &["global_norm"])?;
            let bound = job.parameter_servers.guard.bounds.max_norm?;
            idle_bound(clip, bound)
        },
    },
    Row {
        table: &["parameter_servers", "guard"],
        keys: &["max_abs"],
        outcome: |job| {
            let clip = clip(job, &["global_norm", "norm", "value"])?;
            let bound = job.parameter_servers.guard.bounds.max_abs?;
            idle_bound(clip, bound)
        },
    },
];

/// Returns the bound of clipped gradients, if they are clipped by one of these rules.
fn clip(job: &Job, kinds: &[&str]) -> Option<f64> {
    let clipping = job.train.clip_gradients.as_ref()?;
    kinds.contains(&clipping.kind.as_str()).then_some(())?;
    clipping.values.get("clip").and_then(Json::as_f64)
}

fn idle_bound(clip: f64, bound: f32) -> Option<String> {
    let is_idle = f64::from(bound) > clip;
    let why = format!("at {bound}: train.clip_gradients brings all gradients to {clip} before");
    nothing_if(is_idle, why)
}

/// Warns of keys in tables of which a job may have several.
pub(super) fn warn_of_tables(root: &Section<'_>, job: &Job) {
    warn_of_optimizers(root, job);
    warn_of_exporters(root, job);
}

/// Warns of a look ahead without momentum.
fn warn_of_optimizers(root: &Section<'_>, job: &Job) {
    each_optimizer(root, job, |section, values| {
        let given = |key: &str| values.get(key);
        let is_still = given("momentum").and_then(Json::as_f64) == Some(0.0);
        if is_still && given("use_nesterov").and_then(Json::as_bool) == Some(true) {
            warn_of_key(section, "use_nesterov", "with momentum = 0");
        }
    });
}

/// Calls `each` for the optimizers of a job that its file has a table of.
pub(super) fn each_optimizer(
    root: &Section<'_>,
    job: &Job,
    each: impl Fn(&Section<'_>, &Map<String, Json>),
) {
    let model = &job.model;
    let optimizers = [
        ("linear_optimizer", &model.linear_optimizer),
        ("dnn_optimizer", &model.dnn_optimizer),
        ("optimizer", &model.optimizer),
    ];
    for (table, optimizer) in optimizers {
        let section = root.section("model");
        let section = section.filter(|model| model.node(table).is_some());
        let section = section.and_then(|model| model.section(table));
        if let (Some(optimizer), Some(section)) = (optimizer, section) {
            each(&section, &optimizer.values);
        }
    }
}

/// Warns of exporters that have no feature whose ids are inputs of the graph.
fn warn_of_exporters(root: &Section<'_>, job: &Job) {
    let is_hashed = |kind: &FeatureKind| {
        matches!(
            kind,
            FeatureKind::Hashed { .. }
                | FeatureKind::Crossed { .. }
                | FeatureKind::Vocabulary {
                    oov_buckets: 1..,
                    ..
                }
        )
    };
    let has_hashed = job.features.iter().any(|feature| is_hashed(&feature.kind));
    if has_hashed || root.node("exporter").is_none() {
        return;
    }
    for (section, exporter) in root.sections("exporter").iter().zip(&job.exporters) {
        if exporter.form.hashed_as_ids {
            let why = "without a hashed or crossed feature, or a vocabulary with oov_buckets";
            warn_of_key(section, "hashed_as_ids", why);
        }
    }
}
