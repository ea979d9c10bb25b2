//! Keys that come into play after the last step of a run.

use serde_json::{Map, Value as Json};
use trainyard_diagnostic::{Section, Value};

use super::reach::each_optimizer;
use super::{EARLY_STOPPING, warn_at, warn_of};
use crate::Job;

/// Most steps of a run, and what says so.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Length {
    steps: u64,
    told: String,
}

impl Length {
    /// Returns the length that a job gives its runs.
    pub(super) fn of(job: &Job) -> Option<Self> {
        let steps = job.train.max_steps?;
        let told = format!("train.max_steps is {steps}");
        Some(Self { steps, told })
    }

    /// Returns the length that the passes give the runs of a job, if `train.max_steps` does not end them before.
    pub(super) fn of_passes(job: &Job, steps: u64) -> Option<Self> {
        let epochs = job.input.train.epochs?;
        let is_shorter = job.train.max_steps.is_none_or(|most| steps < most);
        let told = format!("the run has {steps} steps, with epochs = {epochs}");
        is_shorter.then_some(Self { steps, told })
    }
}

/// Keys of one table of a job that may come into play too late.
struct Row {
    table: &'static [&'static str],
    key: &'static str,
    /// As that of a row of other keys.
    outcome: fn(&Job, &Length) -> Option<String>,
}

const ROWS: [Row; 5] = [
    Row {
        table: &["run"],
        key: "save_checkpoints_steps",
        outcome: |job, Length { steps: most, told }| {
            let steps = job
                .run
                .save_checkpoints_steps
                .filter(|steps| steps >= most)?;
            let rule = match (&job.train.early_stopping, &job.train.reduce_on_plateau) {
                (Some(_), _) => "early_stopping",
                (None, Some(_)) => "reduce_on_plateau",
                (None, None) => return None,
            };
            Some(format!(
                "is {steps}: {told}, the only evaluation is that of the end, and train.{rule} does nothing"
            ))
        },
    },
    Row {
        table: EARLY_STOPPING,
        key: "min_steps",
        outcome: |job, Length { steps: most, told }| {
            let steps = job.train.early_stopping.as_ref()?.min_steps;
            (steps > *most).then(|| format!("is {steps}, and no evaluation ends the job: {told}"))
        },
    },
    Row {
        table: EARLY_STOPPING,
        key: "max_steps_without_improvement",
        outcome: |job, Length { steps: most, told }| {
            let stopping = job.train.early_stopping.as_ref()?;
            let steps = stopping.max_steps_without_improvement?;
            (steps > *most).then(|| format!("does nothing at {steps}: {told}"))
        },
    },
    Row {
        table: EARLY_STOPPING,
        key: "max_evaluations_without_improvement",
        outcome: |job, length| {
            let stopping = job.train.early_stopping.as_ref()?;
            let evaluations = stopping.max_evaluations_without_improvement?;
            let why = too_many_evaluations(job, length, evaluations)?;
            Some(format!("does nothing at {evaluations}: {why}"))
        },
    },
    Row {
        table: &["train"],
        key: "reduce_on_plateau",
        outcome: |job, length| {
            let patience = job.train.reduce_on_plateau.as_ref()?.patience;
            let why = too_many_evaluations(job, length, patience)?;
            Some(format!("does nothing with patience = {patience}: {why}"))
        },
    },
];

/// Says why a number of evaluations after the first one are not over before the end of the run, if they are not.
fn too_many_evaluations(
    job: &Job,
    Length { steps: most, told }: &Length,
    evaluations: u64,
) -> Option<String> {
    // Where a checkpoint is rarer than the run is long, that is told.
    let every = job
        .run
        .save_checkpoints_steps
        .filter(|every| every < most)?;
    let last = evaluations.saturating_add(1).saturating_mul(every);
    (last >= *most).then(|| {
        format!(
            "{told}, and run.save_checkpoints_steps = {every} makes {} evaluations of them, the first of which is \
             the best so far",
            most.div_ceil(every)
        )
    })
}

/// Warns of the keys of a job that come into play after the last step.
pub(super) fn warn_by_length(root: &Section<'_>, job: &Job, length: &Length) {
    for row in &ROWS {
        if let Some(outcome) = (row.outcome)(job, length) {
            warn_at(root, row.table, &[row.key], &outcome);
        }
    }
    warn_of_expiry(root, length);
    each_optimizer(root, job, |section, values| {
        if let Some(rate) = values.get("learning_rate").and_then(Json::as_object)
            && let Some(section) = section.section("learning_rate")
        {
            warn_of_schedule(&section, rate, length);
        }
    });
}

/// Warns of rows that would expire after the end of the job.
fn warn_of_expiry(root: &Section<'_>, Length { steps: most, told }: &Length) {
    if root.node("feature").is_none() {
        return;
    }
    for feature in root.sections("feature") {
        let steps = match feature.node("expire_after_steps").map(|node| &node.value) {
            Some(Value::Integer(steps)) => u64::try_from(*steps).unwrap_or(0),
            _ => continue,
        };
        if steps >= *most {
            let why = format!("does nothing at {steps}: {told}");
            warn_of(&feature, &["expire_after_steps"], &why);
        }
    }
}

/// Warns of schedules that go on after the end of the job.
fn warn_of_schedule(
    section: &Section<'_>,
    rate: &Map<String, Json>,
    Length { steps: most, told }: &Length,
) {
    let most = *most as f64;
    let warmup = rate.get("warmup_steps").and_then(Json::as_f64);
    if let Some(steps) = warmup.filter(|steps| *steps > most) {
        let why = format!("is {steps}, and the rate never gets to its value: {told}");
        warn_of(section, &["warmup_steps"], &why);
    }
    let boundaries = rate.get("boundaries").and_then(Json::as_array);
    let mut boundaries = boundaries.into_iter().flatten().filter_map(Json::as_f64);
    if let Some(late) = boundaries.find(|step| *step >= most) {
        let why = format!("has {late}, after which there is no step: {told}");
        warn_of(section, &["boundaries"], &why);
    }
}
