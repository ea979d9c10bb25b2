//! Warnings about keys that are read and change nothing, because another key of the job decides.

use trainyard_diagnostic::{Code, Diagnostic, Section};

use crate::metric_direction::is_share;
use crate::{
    BadRows, ExporterKind, HeadKind, InputConfig, ModelConfig, StrategyConfig, StrategyKind,
};

/// Warns that a given key does nothing, for this reason.
pub(crate) fn warn_of_key(section: &Section<'_>, key: &str, why: &str) {
    let message = format!("`{key}` of {} does nothing {why}", section.title());
    let warning = Diagnostic::warning(Code::E1006, message);
    section.problems().warn(match section.place(key) {
        Some(place) => warning.at(place),
        None => warning,
    });
}

/// Warns about given keys of `section`, one of the tables of a job.
fn warn_of(section: &Section<'_>, keys: &[&str], why: &str) {
    for key in keys {
        if section.keys().any(|given| given == *key) {
            warn_of_key(section, key, why);
        }
    }
}

/// Warns about the keys of a job that its strategy ignores.
pub(crate) fn warn_by_strategy(root: &Section<'_>, strategy: &StrategyConfig) {
    let kind = strategy.kind;
    let under = format!("under strategy.kind = \"{}\"", kind.name());
    let table = root.section_or_empty("strategy");
    let servers = root.section_or_empty("parameter_servers");
    if !matches!(
        kind,
        StrategyKind::ParameterServer | StrategyKind::OneDevice
    ) {
        // Gradients of a batch are on their way before all of them are known.
        let why = format!("{under}: training ends at the first gradient that is no number");
        warn_of(&servers, &["guard"], &why);
    }
    let is_in_one_process = kind.has_replicas() || kind == StrategyKind::OneDevice;
    if is_in_one_process {
        warn_of(
            &table,
            &["payload"],
            &format!("{under}, which has no network"),
        );
    }
    if is_in_one_process || kind == StrategyKind::MultiWorkerMirrored {
        let why = format!("{under}, which has no parameter servers");
        warn_of(&table, &["partitioner", "placement"], &why);
        let of_servers = [
            "durability",
            "shared_memory_bytes_max",
            "log_bytes_max",
            "memory_bytes_max",
        ];
        warn_of(&servers, &of_servers, &why);
    }
}

/// Warns about the keys of `[input]` that others of them, or the model's head, make idle.
pub(crate) fn warn_by_input(root: &Section<'_>, input: &InputConfig, head: HeadKind) {
    let table = root.section_or_empty("input");
    if input.bad_rows == BadRows::Fail {
        warn_of(&table, &["bad_rows_max"], "with bad_rows = \"fail\"");
    }
    if head != HeadKind::MultiLabel
        && let Some(label) = table.section("label")
    {
        warn_of(&label, &["separator"], "without several labels in a field");
    }
}

/// Warns about metrics that the model's head does not have.
pub(crate) fn warn_by_head(root: &Section<'_>, model: &ModelConfig) {
    if matches!(model.head, HeadKind::MultiClass | HeadKind::Regression) {
        let table = root.section_or_empty("model");
        let why = format!("for a {} head", model.head.name());
        warn_of(&table, &["thresholds"], &why);
    }
}

/// Warns about the keys of an exporter that compares nothing.
pub(crate) fn warn_by_trigger(section: &Section<'_>, kind: ExporterKind) {
    if kind != ExporterKind::Best {
        let why = "without kind = \"best\"";
        warn_of(section, &["metric", "higher_is_better"], why);
    }
}

/// Warns about bounds of early stopping that no evaluation reaches, and about keys for bounds that are not there.
pub(crate) fn warn_by_bounds(
    section: &Section<'_>,
    metric: &str,
    is_higher_better: bool,
    stop_at: Option<f64>,
) {
    let of_improvement = [
        "max_evaluations_without_improvement",
        "max_steps_without_improvement",
    ];
    if !section.keys().any(|key| of_improvement.contains(&key)) {
        let why = format!("without {}", of_improvement.join(" or "));
        warn_of(section, &["min_delta"], &why);
    }
    // On the other side of its range, a bound ends training at the first evaluation.
    let is_beyond = |bound: &f64| {
        if is_higher_better {
            *bound > 1.0
        } else {
            *bound < 0.0
        }
    };
    if let Some(bound) = stop_at.filter(is_beyond).filter(|_| is_share(metric)) {
        let why = format!("at {bound}: `{metric}` is from 0 to 1");
        warn_of(section, &["stop_at"], &why);
    }
}
