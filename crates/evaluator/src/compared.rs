//! The check that exporters, early stopping and reductions of learning rates compare metrics that the model reports.

use trainyard_diagnostic::{Code, Diagnostic, listed, suggest};
use trainyard_model::AnyModel;
use trainyard_run_config::{ExporterKind, HeadKind, Job};

/// A metric that a model reports only if the data has both classes.
const OF_BOTH_CLASSES: &str = "auc_exact";
/// A metric that a model reports only of groups of records.
const OF_GROUPS: &str = "auc_group";

/// Returns the name of a metric without that of a further evaluation before it.
fn without_evaluation<'a>(job: &Job, metric: &'a str) -> &'a str {
    match metric.split_once('/') {
        Some((name, own)) if job.evaluations.iter().any(|one| one.name == name) => own,
        _ => metric,
    }
}

/// Returns the name of a metric of a task without that of the task before it, or the name of a metric of a model of one task. A model
/// of several has no other metrics than the loss.
fn without_task<'a>(job: &Job, metric: &'a str) -> &'a str {
    match metric.split_once('/') {
        Some((name, own)) if job.model.tasks.iter().any(|task| task.name == name) => own,
        _ if job.model.tasks.is_empty() => metric,
        _ => "",
    }
}

/// Returns whether a model reports a metric from its first record on: those of classes, of thresholds and of calibration.
fn is_of_records(job: &Job, metric: &str) -> bool {
    const OF_CLASSES: [&str; 3] = ["auc", "auc_precision_recall", "probability_mean"];
    const OF_THRESHOLDS: [&str; 4] = ["accuracy", "f1_score", "precision", "recall"];
    let model = &job.model;
    let Some((first, rest)) = metric.split_once('/') else {
        return false;
    };
    let is_threshold = |text: &str| model.thresholds.iter().any(|one| one.to_string() == text);
    model.head == HeadKind::MultiLabel && OF_CLASSES.contains(&first)
        || OF_THRESHOLDS.contains(&first)
            && rest
                .strip_prefix("positive_threshold_")
                .is_some_and(is_threshold)
        || first == "calibration" && model.calibration_buckets > 0
}

/// Returns what the evaluated records lack, without which an evaluation does not report a metric that the model has.
pub(crate) fn why_absent(job: &Job, metric: &str) -> Option<String> {
    let metric = without_evaluation(job, metric);
    match (without_task(job, metric), &job.eval.group_auc_column) {
        (OF_GROUPS, Some(column)) => Some(format!(
            "no evaluation has here: no group of `{column}` (eval.group_auc_column) has records of both classes"
        )),
        (OF_BOTH_CLASSES, _) => Some(
            "no evaluation has here: all records are of one class, or there are more than 20 million"
                .to_owned(),
        ),
        (own, _) if own != metric && !own.is_empty() => Some(
            "no evaluation has here: no record has the label of the task, or all weights are 0"
                .to_owned(),
        ),
        _ => None,
    }
}

/// Checks the metrics of exporters, early stopping and reductions of learning rates against those of an empty evaluation, so that a misspelt metric is found before
/// training, not after. A model in Python reports none before its first batch: the export after its first evaluation finds a
/// misspelt one.
///
/// # Errors
/// A metric is compared that the model does not report.
pub fn check_metrics(job: &Job, model: &AnyModel) -> Result<(), Diagnostic> {
    let scores = model.scores(&model.metrics());
    if scores.is_empty() {
        return Ok(());
    }
    let of = |name: &str| {
        scores
            .keys()
            .map(|metric| format!("{name}/{metric}"))
            .collect::<Vec<String>>()
    };
    let further: Vec<String> = job
        .evaluations
        .iter()
        .flat_map(|evaluation| of(&evaluation.name))
        .collect();
    let known: Vec<&str> = scores.keys().chain(&further).map(String::as_str).collect();
    let exporters = job
        .exporters
        .iter()
        .filter(|exporter| exporter.kind == ExporterKind::Best)
        .map(|exporter| {
            let what = format!("exporter `{}`", exporter.name);
            (what, "exporter.metric", &exporter.metric)
        });
    let early_stopping = job.train.early_stopping.iter().map(|config| {
        let what = "train.early_stopping".to_owned();
        (what, "train.early_stopping.metric", &config.metric)
    });
    let plateau = job.train.reduce_on_plateau.iter().map(|config| {
        let what = "train.reduce_on_plateau".to_owned();
        (what, "train.reduce_on_plateau.metric", &config.metric)
    });
    for (what, key, metric) in exporters.chain(early_stopping).chain(plateau) {
        let metric = metric.as_str();
        let own = without_task(job, without_evaluation(job, metric));
        let has_groups = job.eval.group_auc_column.is_some();
        if known.contains(&metric)
            || own == OF_BOTH_CLASSES
            || own == OF_GROUPS && has_groups
            || is_of_records(job, own)
        {
            continue;
        }
        if own == OF_GROUPS && job.model.tasks.is_empty() {
            let message =
                format!("{what} compares the metric `{metric}`, and the job names no groups");
            return Err(Diagnostic::error(Code::E1101, message)
                .help("set eval.group_auc_column, for example to the user's column"));
        }
        let message =
            format!("{what} compares the metric `{metric}`, which the model does not report");
        let problem =
            Diagnostic::error(Code::E1101, message).note(format!("metrics: {}", listed(&known)));
        return Err(match suggest(metric, known.iter().copied()) {
            Some(near) => problem.help(format!("did you mean `{near}`?")),
            None => problem.help(format!("set {key} to one of them")),
        });
    }
    Ok(())
}
