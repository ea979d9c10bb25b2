//! Metrics: whether a higher value is better, and which values there are.

use std::ops::RangeInclusive;

use trainyard_diagnostic::{Code, Diagnostic, Section, suggest};

use crate::{HeadKind, LossConfig, ModelConfig};

/// Direction of a metric.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Direction {
    Higher,
    Lower,
    /// It describes data or predictions, and no value is better than another.
    Neither,
}

/// Values that a metric may have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Range {
    /// From 0 to 1, as shares and probabilities.
    Share,
    /// That of the labels and their predictions: shares where a label is a class or a probability, otherwise any number.
    Labels,
    /// 0 or more, as losses. A custom model may have one of its own.
    NotNegative,
}

/// Metrics that are reported under these names, and under these names with `/` and a class, a threshold or a `k`.
const METRICS: [(&str, Direction, Range); 18] = [
    ("accuracy", Direction::Higher, Range::Share),
    ("accuracy_baseline", Direction::Neither, Range::Share),
    ("auc", Direction::Higher, Range::Share),
    ("auc_exact", Direction::Higher, Range::Share),
    ("auc_group", Direction::Higher, Range::Share),
    ("auc_precision_recall", Direction::Higher, Range::Share),
    ("average_loss", Direction::Lower, Range::NotNegative),
    ("calibration", Direction::Neither, Range::Share),
    ("calibration_error", Direction::Lower, Range::Share),
    ("f1_score", Direction::Higher, Range::Share),
    ("label", Direction::Neither, Range::Labels),
    ("loss", Direction::Lower, Range::NotNegative),
    ("precision", Direction::Higher, Range::Share),
    ("precision_at_k", Direction::Higher, Range::Share),
    ("prediction", Direction::Neither, Range::Labels),
    ("probability_mean", Direction::Neither, Range::Share),
    ("recall", Direction::Higher, Range::Share),
    ("recall_at_k", Direction::Higher, Range::Share),
];

/// Returns whether metrics are reported under this name, or under it with `/` and more.
pub(crate) fn is_metric(name: &str) -> bool {
    METRICS.iter().any(|(known, ..)| *known == name)
}

/// Returns a property of a metric by its direction and range, if its name tells them. The metric of a further evaluation begins with the
/// evaluation's name and `/`, that of a task with the task's, and that of a task in a further evaluation with both.
fn of_name<T: PartialEq>(metric: &str, of: impl Fn(Direction, Range) -> T) -> Option<T> {
    let known = |name: &str| {
        let found = METRICS.iter().find(|(known, ..)| *known == name);
        found.map(|(_, direction, range)| of(*direction, *range))
    };
    let mut parts = metric.splitn(4, '/');
    let first = known(parts.next().unwrap_or_default());
    let second = parts.next().and_then(known);
    match (first, second) {
        // A class, or an evaluation, may have the name of a metric.
        (Some(first), Some(second)) if first != second => None,
        (None, None) => parts.next().and_then(known),
        (first, second) => first.or(second),
    }
}

/// Returns the least and the greatest value that a metric of a model can have, if its name tells them.
pub(crate) fn bounds(metric: &str, model: &ModelConfig) -> Option<RangeInclusive<f64>> {
    let share = 0.0..=1.0;
    match of_name(metric, |_, range| range)? {
        Range::Share => Some(share),
        Range::Labels | Range::NotNegative if model.kind.is_custom() => None,
        Range::NotNegative => Some(0.0..=f64::INFINITY),
        Range::Labels => {
            let is_share =
                |head: HeadKind| matches!(head, HeadKind::Binary | HeadKind::LogisticRegression);
            model.heads().into_iter().all(is_share).then_some(share)
        }
    }
}

/// Returns the value of a metric that a model has which has learnt nothing and predicts the same for all records, if that depends on
/// no record.
pub(crate) fn of_no_learning(metric: &str, model: &ModelConfig) -> Option<f64> {
    // Weights of classes, records and tasks would change the values.
    let has_classes = model.head.has_classes() && model.tasks.is_empty() && !model.kind.is_custom();
    let name = metric.rsplit('/').next().filter(|_| has_classes)?;
    let classes = model.n_classes as f64;
    let is_single = model.head != HeadKind::MultiLabel;
    match name {
        "auc" | "auc_exact" | "auc_group" if model.head == HeadKind::Binary => Some(0.5),
        "accuracy" if is_single => Some(1.0 / classes),
        "average_loss" if is_single && model.loss == LossConfig::CrossEntropy => Some(classes.ln()),
        _ => None,
    }
}

/// Returns whether a higher value of a metric is better; `None` if its name does not tell.
fn higher_is_better(metric: &str) -> Option<bool> {
    match of_name(metric, |direction, _| direction)? {
        Direction::Higher => Some(true),
        Direction::Lower => Some(false),
        Direction::Neither => None,
    }
}

/// Returns whether a higher value of the metric that a section compares is better: what its key `higher_is_better` says, or
/// what the metric's name tells. Reports that the key is missing otherwise: the worst model would be kept as the best.
pub(crate) fn direction(section: &Section<'_>, metric: &str, higher: Option<bool>) -> Option<bool> {
    let of_metric = higher_is_better(metric);
    if let (Some(given), Some(better)) = (higher, of_metric)
        && given != better
    {
        let message = format!(
            "`higher_is_better` of {} takes the worst for the best: the {} `{metric}` is the best one",
            section.title(),
            if better { "highest" } else { "lowest" }
        );
        let warning = Diagnostic::warning(Code::E1006, message);
        section
            .problems()
            .warn(match section.place("higher_is_better") {
                Some(place) => warning.at(place),
                None => warning,
            });
    }
    let known = higher.or(of_metric);
    if known.is_none() {
        let message = format!(
            "{} compares the metric `{metric}`, whose name does not tell whether a higher value is better",
            section.title()
        );
        let key = "higher_is_better = true or false";
        let last = metric.rsplit('/').next().unwrap_or(metric);
        let help = match suggest(last, METRICS.map(|(name, ..)| name)) {
            Some(near) if near != last => format!("did you mean `{near}`? Else add {key}"),
            _ => format!("add {key}"),
        };
        let problem = section.reject(Code::E1005, "metric", message);
        section.problems().push(problem.help(help));
    }
    known
}

#[cfg(test)]
mod tests {
    use super::{Direction, METRICS, Range, higher_is_better};

    #[test]
    fn a_metric_of_which_more_is_better_is_a_share() {
        for (name, direction, range) in METRICS {
            assert!(
                direction != Direction::Higher || range == Range::Share,
                "{name}"
            );
        }
    }

    #[test]
    fn losses_and_errors_are_lower_better_in_every_evaluation() {
        for metric in ["loss", "average_loss", "calibration_error"] {
            for before in ["", "holdout/", "click/", "holdout/click/"] {
                let name = format!("{before}{metric}");
                assert_eq!(higher_is_better(&name), Some(false), "{name}");
            }
        }
    }

    #[test]
    fn shares_of_what_is_right_are_higher_better_in_every_evaluation_of_every_class_and_threshold()
    {
        let metrics = [
            "accuracy",
            "accuracy/positive_threshold_0.3",
            "auc",
            "auc/class1",
            "auc_exact",
            "auc_group",
            "auc_precision_recall/cats",
            "f1_score",
            "precision/positive_threshold_0.3",
            "precision_at_k/5",
            "recall",
            "recall_at_k/5",
        ];
        for metric in metrics {
            for before in ["", "holdout/", "click/", "holdout/click/"] {
                let name = format!("{before}{metric}");
                assert_eq!(higher_is_better(&name), Some(true), "{name}");
            }
        }
    }

    #[test]
    fn no_direction_is_guessed_for_other_metrics_and_where_a_name_means_two_things() {
        let metrics = [
            "rmse",
            "label/mean",
            "prediction/mean",
            "holdout/prediction/mean",
            "calibration/0.1_to_0.2/share",
            "probability_mean/loss",
            "accuracy_baseline",
            // A class called `loss`, or an evaluation called `auc`.
            "auc/loss",
            "holdout/rmse",
            "",
            "/",
        ];
        for metric in metrics {
            assert_eq!(higher_is_better(metric), None, "{metric}");
        }
    }
}
