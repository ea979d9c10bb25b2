//! Keys beyond what a run reaches: steps after its end, bounds that nothing exceeds, and features that an exporter does not find.

use serde_json::{Map, Value as Json};
use trainyard_diagnostic::{Section, Value};

use super::{Row, nothing_if, shown, warn_of, warn_of_key};
use crate::metric::bounds;
use crate::{FeatureKind, Job, ReduceOnPlateauConfig};

/// Path of the table of reduced learning rates.
const PLATEAU: &[&str] = &["train", "reduce_on_plateau"];

/// Rules of reduced learning rates that never come into play.
pub(super) const OF_PLATEAU: [Row; 3] = [
    Row {
        table: PLATEAU,
        keys: &["min_delta"],
        outcome: |job| {
            let ReduceOnPlateauConfig {
                metric, min_delta, ..
            } = job.train.reduce_on_plateau.as_ref()?;
            let range = bounds(metric, &job.model)?;
            (*min_delta >= range.end() - range.start()).then(|| {
                format!(
                    "is {min_delta}, and no evaluation is better than the first: `{metric}` is {}",
                    shown(&range)
                )
            })
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

/// Steps that lie after the end of the job.
pub(super) const BY_LENGTH: [Row; 1] = [Row {
    table: &["run"],
    keys: &["save_checkpoints_steps"],
    outcome: |job| {
        let steps = job.run.save_checkpoints_steps?;
        let max_steps = job.train.max_steps.filter(|most| steps >= *most)?;
        let rule = match (&job.train.early_stopping, &job.train.reduce_on_plateau) {
            (Some(_), _) => "early_stopping",
            (None, Some(_)) => "reduce_on_plateau",
            (None, None) => return None,
        };
        Some(format!(
            "is {steps} and train.max_steps {max_steps}: the only evaluation is that of the end, and train.{rule} does nothing"
        ))
    },
}];

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
    if let Some(max_steps) = job.train.max_steps {
        warn_of_expiry(root, max_steps);
    }
    warn_of_optimizers(root, job);
    warn_of_exporters(root, job);
}

/// Warns of rows that would expire after the end of the job.
fn warn_of_expiry(root: &Section<'_>, max_steps: u64) {
    if root.node("feature").is_none() {
        return;
    }
    for feature in root.sections("feature") {
        let steps = match feature.node("expire_after_steps").map(|node| &node.value) {
            Some(Value::Integer(steps)) => u64::try_from(*steps).unwrap_or(0),
            _ => continue,
        };
        if steps >= max_steps {
            let why = format!("does nothing at {steps}: train.max_steps is {max_steps}");
            warn_of(&feature, &["expire_after_steps"], &why);
        }
    }
}

/// Warns of schedules that go on after the end of the job, and of a look ahead without momentum.
fn warn_of_optimizers(root: &Section<'_>, job: &Job) {
    let model = &job.model;
    let optimizers = [
        ("linear_optimizer", &model.linear_optimizer),
        ("dnn_optimizer", &model.dnn_optimizer),
        ("optimizer", &model.optimizer),
    ];
    for (table, optimizer) in optimizers {
        let section = root.section("model");
        let section = section.filter(|model| model.node(table).is_some());
        let (Some(optimizer), Some(section)) =
            (optimizer, section.and_then(|model| model.section(table)))
        else {
            continue;
        };
        let given = |key: &str| optimizer.values.get(key);
        let is_still = given("momentum").and_then(Json::as_f64) == Some(0.0);
        if is_still && given("use_nesterov").and_then(Json::as_bool) == Some(true) {
            warn_of_key(&section, "use_nesterov", "with momentum = 0");
        }
        if let Some(max_steps) = job.train.max_steps
            && let Some(rate) = given("learning_rate").and_then(Json::as_object)
            && let Some(section) = section.section("learning_rate")
        {
            warn_of_schedule(&section, rate, max_steps);
        }
    }
}

fn warn_of_schedule(section: &Section<'_>, rate: &Map<String, Json>, max_steps: u64) {
    let is_over = |step: &f64| *step > max_steps as f64;
    let warmup = rate.get("warmup_steps").and_then(Json::as_f64);
    if let Some(steps) = warmup.filter(is_over) {
        let why = format!(
            "is {steps}, and the rate never gets to its value: train.max_steps is {max_steps}"
        );
        warn_of(section, &["warmup_steps"], &why);
    }
    let boundaries = rate.get("boundaries").and_then(Json::as_array);
    let mut boundaries = boundaries.into_iter().flatten().filter_map(Json::as_f64);
    if let Some(late) = boundaries.find(|step| *step >= max_steps as f64) {
        let why =
            format!("has {late}, after which there is no step: train.max_steps is {max_steps}");
        warn_of(section, &["boundaries"], &why);
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
