//! The check that each exporter compares a metric that the model reports.

use trainyard_diagnostic::{Code, Diagnostic, suggest};
use trainyard_model::AnyModel;
use trainyard_run_config::{ExporterKind, Job};

/// Metrics that a model reports only if the data has both classes, or groups.
const CONDITIONAL: [&str; 2] = ["auc_exact", "auc_group"];

/// Checks the metrics of the exporters against those of an empty evaluation, so that a misspelt metric is found before
/// training, not after. A model in Python reports none before its first batch: the export after its first evaluation finds a
/// misspelt one.
///
/// # Errors
/// An exporter compares a metric that the model does not report.
pub fn check_exporters(job: &Job, model: &AnyModel) -> Result<(), Diagnostic> {
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
    let compared = job
        .exporters
        .iter()
        .filter(|exporter| exporter.kind == ExporterKind::Best);
    for exporter in compared {
        let name = &exporter.name;
        let metric = exporter.metric.as_str();
        if known.contains(&metric)
            || CONDITIONAL.contains(&metric.rsplit('/').next().unwrap_or(metric))
        {
            continue;
        }
        let message = format!(
            "exporter `{name}` compares the metric `{metric}`, which the model does not report"
        );
        let problem =
            Diagnostic::error(Code::E1101, message).note(format!("metrics: {}", known.join(", ")));
        return Err(match suggest(metric, known.iter().copied()) {
            Some(near) => problem.help(format!("did you mean `{near}`?")),
            None => problem.help("set exporter.metric to one of them"),
        });
    }
    Ok(())
}
