//! Warnings about keys that are read and change nothing, because another key of the job decides.

use trainyard_diagnostic::{Code, Diagnostic, Section};

use crate::metric_direction::is_share;
use crate::{BadRows, ExporterKind, HeadKind, Job, StrategyKind};

/// Keys of one table of a job that other keys may make idle.
struct Row {
    /// Path of the table.
    table: &'static [&'static str],
    keys: &'static [&'static str],
    /// Returns the reason why the keys do nothing in a job, as the end of a sentence; `None` where they have an effect.
    why: fn(&Job) -> Option<String>,
}

/// Keys that a strategy ignores.
const BY_STRATEGY: [Row; 4] = [
    Row {
        table: &["parameter_servers"],
        keys: &["guard"],
        // Gradients of a batch are on their way before all of them are known.
        why: |job| {
            let halts = "training ends at the first gradient that is no number";
            let has_guard = matches!(
                job.strategy.kind,
                StrategyKind::ParameterServer | StrategyKind::OneDevice
            );
            (!has_guard).then(|| format!("{}: {halts}", under(job)))
        },
    },
    Row {
        table: &["strategy"],
        keys: &["payload"],
        why: |job| {
            is_in_one_process(job.strategy.kind)
                .then(|| format!("{}, which has no network", under(job)))
        },
    },
    Row {
        table: &["strategy"],
        keys: &["partitioner", "placement"],
        why: without_servers,
    },
    Row {
        table: &["parameter_servers"],
        keys: &[
            "durability",
            "shared_memory_bytes_max",
            "log_bytes_max",
            "memory_bytes_max",
        ],
        why: without_servers,
    },
];

/// Keys of the input that others of them, or the model's head, make idle.
const OF_INPUT: [Row; 2] = [
    Row {
        table: &["input"],
        keys: &["bad_rows_max"],
        why: |job| {
            let fails = job.input.bad_rows == BadRows::Fail;
            fails.then(|| "with bad_rows = \"fail\"".to_owned())
        },
    },
    Row {
        table: &["input", "label"],
        keys: &["separator"],
        why: |job| {
            let has_several = job.model.head == HeadKind::MultiLabel
                || !job.model.head.has_classes() && job.model.label_dimension > 1;
            (!has_several).then(|| "without several labels in a field".to_owned())
        },
    },
];

/// Keys of the model that its head does not have.
const BY_HEAD: [Row; 1] = [Row {
    table: &["model"],
    keys: &["thresholds"],
    why: |job| {
        let head = job.model.head;
        let has_thresholds = !matches!(head, HeadKind::MultiClass | HeadKind::Regression);
        (!has_thresholds).then(|| format!("for a {} head", head.name()))
    },
}];

fn under(job: &Job) -> String {
    format!("under strategy.kind = \"{}\"", job.strategy.kind.name())
}

/// Returns whether everything runs in one process under a strategy.
fn is_in_one_process(kind: StrategyKind) -> bool {
    kind.has_replicas() || kind == StrategyKind::OneDevice
}

fn without_servers(job: &Job) -> Option<String> {
    let kind = job.strategy.kind;
    let has_none = is_in_one_process(kind) || kind == StrategyKind::MultiWorkerMirrored;
    has_none.then(|| format!("{}, which has no parameter servers", under(job)))
}

/// Warns about the keys of a job that others of its keys make idle.
pub(crate) fn warn_of_idle_keys(root: &Section<'_>, job: &Job) {
    let rows = BY_STRATEGY.iter().chain(&BY_HEAD).chain(&OF_INPUT);
    for Row { table, keys, why } in rows {
        let Some(section) = section_at(root, table) else {
            continue;
        };
        if let Some(why) = why(job) {
            warn_of(&section, keys, &why);
        }
    }
}

/// Returns the table at a path, if the job has it.
fn section_at<'a>(root: &Section<'a>, path: &[&'static str]) -> Option<Section<'a>> {
    let (first, rest) = path.split_first()?;
    rest.iter()
        .try_fold(root.section(first)?, |section, key| section.section(key))
}

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
