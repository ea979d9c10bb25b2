//! The check that exporters and early stopping compare metrics that the model reports.

use trainyard_diagnostic::{Code, Diagnostic, suggest};
use trainyard_model::AnyModel;
use trainyard_run_config::{ExporterKind, Job};

/// Metrics that a model reports only if the data has both classes, or groups.
const CONDITIONAL: [&str; 2] = ["auc_exact", "auc_group"];

/// Checks the metrics of exporters and of early stopping against those of an empty evaluation, so that a misspelt metric is found before
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
    for (what, key, metric) in exporters.chain(early_stopping) {
        let metric = metric.as_str();
        if known.contains(&metric)
            || CONDITIONAL.contains(&metric.rsplit('/').next().unwrap_or(metric))
        {
            continue;
        }
        let message =
            format!("{what} compares the metric `{metric}`, which the model does not report");
        let problem =
            Diagnostic::error(Code::E1101, message).note(format!("metrics: {}", known.join(", ")));
        return Err(match suggest(metric, known.iter().copied()) {
            Some(near) => problem.help(format!("did you mean `{near}`?")),
            None => problem.help(format!("set {key} to one of them")),
        });
    }
    Ok(())
}
