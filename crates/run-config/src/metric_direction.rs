//! The direction of metrics: whether a higher value is better.

use trainyard_diagnostic::{Code, Section, suggest};

/// Direction of a metric.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Direction {
    Higher,
    Lower,
    /// It describes data or predictions, and no value is better than another.
    Neither,
}

/// Metrics that are reported under these names, and under these names with `/` and a class, a threshold or a `k`.
const DIRECTIONS: [(&str, Direction); 18] = [
    ("accuracy", Direction::Higher),
    ("accuracy_baseline", Direction::Neither),
    ("auc", Direction::Higher),
    ("auc_exact", Direction::Higher),
    ("auc_group", Direction::Higher),
    ("auc_precision_recall", Direction::Higher),
    ("average_loss", Direction::Lower),
    ("calibration", Direction::Neither),
    ("calibration_error", Direction::Lower),
    ("f1_score", Direction::Higher),
    ("label", Direction::Neither),
    ("loss", Direction::Lower),
    ("precision", Direction::Higher),
    ("precision_at_k", Direction::Higher),
    ("prediction", Direction::Neither),
    ("probability_mean", Direction::Neither),
    ("recall", Direction::Higher),
    ("recall_at_k", Direction::Higher),
];

fn of_name(name: &str) -> Option<Direction> {
    let found = DIRECTIONS.iter().find(|(known, _)| *known == name);
    found.map(|(_, direction)| *direction)
}

/// Returns whether a metric is from 0 to 1: those for which higher is better are shares of what is right.
pub(crate) fn is_share(metric: &str) -> bool {
    higher_is_better(metric) == Some(true)
}

/// Returns whether a higher value of a metric is better; `None` if its name does not tell. The metric of a further evaluation
/// begins with the evaluation's name and `/`.
fn higher_is_better(metric: &str) -> Option<bool> {
    let mut parts = metric.splitn(3, '/');
    let first = of_name(parts.next().unwrap_or_default());
    let second = parts.next().and_then(of_name);
    let direction = match (first, second) {
        // A class, or an evaluation, may have the name of a metric.
        (Some(first), Some(second)) if first != second => return None,
        (first, second) => first.or(second),
    };
    match direction? {
        Direction::Higher => Some(true),
        Direction::Lower => Some(false),
        Direction::Neither => None,
    }
}

/// Returns whether a higher value of the metric that a section compares is better: what its key `higher_is_better` says, or
/// what the metric's name tells. Reports that the key is missing otherwise: the worst model would be kept as the best.
pub(crate) fn direction(section: &Section<'_>, metric: &str, higher: Option<bool>) -> Option<bool> {
    let known = higher.or_else(|| higher_is_better(metric));
    if known.is_none() {
        let message = format!(
            "{} compares the metric `{metric}`, whose name does not tell whether a higher value is better",
            section.title()
        );
        let key = "higher_is_better = true or false";
        let last = metric.rsplit('/').next().unwrap_or(metric);
        let help = match suggest(last, DIRECTIONS.map(|(name, _)| name)) {
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
    use super::higher_is_better;

    #[test]
    fn losses_and_errors_are_lower_better_in_every_evaluation() {
        for metric in ["loss", "average_loss", "calibration_error"] {
            for name in [metric.to_owned(), format!("holdout/{metric}")] {
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
            for name in [metric.to_owned(), format!("holdout/{metric}")] {
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
