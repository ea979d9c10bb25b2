//! `[train]`, `[eval]` and `[[exporter]]`: end of training, evaluations and exports.

use trainyard_diagnostic::{Code, Section, Value, suggest};

use super::input::duplicate;
use super::optimizer;
use crate::{
    EarlyStoppingConfig, EvalSpec, ExportForm, ExportFormat, ExporterConfig, ExporterKind,
    TrainSpec, WarmStartConfig,
};

pub(crate) fn read_train(section: Option<Section<'_>>) -> Option<TrainSpec> {
    let Some(section) = section else {
        return Some(TrainSpec {
            max_steps: None,
            clip_gradients: None,
            warm_start: None,
            early_stopping: None,
        });
    };
    let max_steps = section.integer("max_steps", 1..=u64::MAX);
    let clip_gradients = section
        .section("clip_gradients")
        .map(optimizer::read_clipping);
    let warm_start = section.section("warm_start").map(read_warm_start);
    let early_stopping = section.section("early_stopping").map(read_early_stopping);
    section.finish();
    Some(TrainSpec {
        max_steps,
        clip_gradients: match clip_gradients {
            Some(clipping) => Some(clipping?),
            None => None,
        },
        warm_start: match warm_start {
            Some(warm_start) => Some(warm_start?),
            None => None,
        },
        early_stopping: match early_stopping {
            Some(early_stopping) => Some(early_stopping?),
            None => None,
        },
    })
}

fn read_warm_start(section: Section<'_>) -> Option<WarmStartConfig> {
    let from = section.required_text("from", "\"runs/old\"");
    let variables = section.text("variables").unwrap_or_else(|| ".*".to_owned());
    if let Err(error) = regex::Regex::new(&variables) {
        let reason = error.to_string();
        let reason = reason.lines().last().unwrap_or_default().to_owned();
        section.fail(
            Code::E1002,
            "variables",
            format!("variables must be a regular expression: {reason}"),
        );
    }
    let mut rename = Vec::new();
    if let Some(table) = section.section("rename") {
        for (key, node) in table.entries() {
            match &node.value {
                Value::Text(text) => rename.push((key.to_owned(), text.clone())),
                _ => section.fail(
                    Code::E1002,
                    "rename",
                    format!("rename of `{key}` must be a string"),
                ),
            }
        }
    }
    section.finish();
    Some(WarmStartConfig {
        from: from?,
        variables,
        rename,
    })
}

/// Returns whether a lower value of a metric is better, unless the job says otherwise.
fn lower_is_better(metric: &str) -> bool {
    metric == "loss" || metric == "average_loss"
}

fn read_early_stopping(section: Section<'_>) -> Option<EarlyStoppingConfig> {
    let metric = section.text("metric").unwrap_or_else(|| "loss".to_owned());
    let higher_is_better = section
        .flag("higher_is_better")
        .unwrap_or(!lower_is_better(&metric));
    let max_evaluations = section.integer("max_evaluations_without_improvement", 1..=u64::MAX);
    let max_steps = section.integer("max_steps_without_improvement", 1..=u64::MAX);
    let stop_at = section.number("stop_at");
    let min_steps = section.integer("min_steps", 0..=u64::MAX).unwrap_or(0);
    let min_delta = section.number("min_delta").unwrap_or(0.0);
    if min_delta.is_nan() || min_delta < 0.0 {
        let message = format!("min_delta must be >= 0, given {min_delta}");
        section.fail(Code::E1002, "min_delta", message);
    }
    let bounds = [
        "max_evaluations_without_improvement",
        "max_steps_without_improvement",
        "stop_at",
    ];
    if bounds.iter().all(|key| section.node(key).is_none()) {
        section.missing("max_evaluations_without_improvement", "3");
    }
    section.finish();
    Some(EarlyStoppingConfig {
        metric,
        higher_is_better,
        max_evaluations_without_improvement: max_evaluations,
        max_steps_without_improvement: max_steps,
        stop_at,
        min_steps,
        min_delta,
    })
}

pub(crate) fn read_eval(section: Option<Section<'_>>) -> Option<EvalSpec> {
    let Some(section) = section else {
        return Some(EvalSpec {
            steps: None,
            start_delay_secs: 120,
            throttle_secs: 600,
            on_training_data: false,
            every_checkpoint: false,
            group_auc_column: None,
        });
    };
    let eval = EvalSpec {
        steps: section.integer("steps", 1..=u64::MAX),
        start_delay_secs: section
            .integer("start_delay_secs", 0..=u64::MAX)
            .unwrap_or(120),
        throttle_secs: section
            .integer("throttle_secs", 0..=u64::MAX)
            .unwrap_or(600),
        on_training_data: section.flag("on_training_data").unwrap_or(false),
        every_checkpoint: section.flag("every_checkpoint").unwrap_or(false),
        group_auc_column: section.text("group_auc_column"),
    };
    if eval.every_checkpoint {
        for key in ["start_delay_secs", "throttle_secs"]
            .into_iter()
            .filter(|key| section.node(key).is_some())
        {
            let message = format!(
                "{key} has no meaning with every_checkpoint = true: no checkpoint is passed over"
            );
            section.fail(Code::E1006, key, message);
        }
    }
    section.finish();
    Some(eval)
}

pub(crate) fn read_exporters(root: &Section<'_>) -> Option<Vec<ExporterConfig>> {
    let mut out = Vec::new();
    if root.node("exporter").is_none() {
        return Some(out);
    }
    for section in root.sections("exporter") {
        let known = [
            ("latest", ExporterKind::Latest),
            ("best", ExporterKind::Best),
            ("final", ExporterKind::Final),
        ];
        let kind = match section.node("kind") {
            Some(_) => section.choice("kind", "exporter", &known),
            None => {
                section.missing("kind", "\"best\"");
                None
            }
        };
        let default = known
            .iter()
            .find(|(_, known)| Some(*known) == kind)
            .map_or("best", |(name, _)| name);
        let name = section.text("name").unwrap_or_else(|| default.to_owned());
        if name.is_empty() || name.starts_with('.') || name.contains(['/', '\\']) {
            let message = format!("exporter.name must be a plain folder name, given `{name}`");
            section.fail(Code::E1002, "name", message);
        }
        let metric = section.text("metric").unwrap_or_else(|| "loss".to_owned());
        let exports_to_keep = section
            .integer("exports_to_keep", 0..=1_000_000)
            .unwrap_or(5) as usize;
        let higher_is_better = section
            .flag("higher_is_better")
            .unwrap_or(!lower_is_better(&metric));
        let form = read_form(&section);
        if let (Some(kind), Some(form)) = (kind, form) {
            out.push(ExporterConfig {
                kind,
                name,
                exports_to_keep,
                metric,
                higher_is_better,
                form,
            });
        }
        section.finish();
    }
    let names: Vec<String> = out.iter().map(|exporter| exporter.name.clone()).collect();
    if let Some(twice) = duplicate(&names) {
        root.fail(
            Code::E1002,
            "exporter",
            format!("exporters must have unique names, `{twice}` is given twice"),
        );
    }
    Some(out)
}

/// Reads one format, or a list of formats.
fn read_form(section: &Section<'_>) -> Option<ExportForm> {
    let hashed_as_ids = section.flag("hashed_as_ids").unwrap_or(false);
    let mut formats = Vec::new();
    match section.node("format").map(|node| &node.value) {
        None => formats.push(ExportFormat::Safetensors),
        Some(Value::List(_)) => {
            for name in section.texts("format")? {
                let Some((_, format)) =
                    ExportFormat::NAMES.iter().find(|(known, _)| *known == name)
                else {
                    let message = format!("unknown export format `{name}`");
                    let problem = section.reject(Code::E1101, "format", message);
                    let known = ExportFormat::NAMES.map(|(name, _)| name);
                    section.problems().push(match suggest(&name, known) {
                        Some(near) => problem.help(format!("did you mean `{near}`?")),
                        None => problem.help(format!("known: {}", known.join(", "))),
                    });
                    return None;
                };
                if !formats.contains(format) {
                    formats.push(*format);
                }
            }
            if formats.is_empty() {
                section.fail(
                    Code::E1002,
                    "format",
                    "format must name at least one format, given none",
                );
                return None;
            }
        }
        Some(_) => formats.push(section.choice("format", "export format", &ExportFormat::NAMES)?),
    }
    if hashed_as_ids && !formats.contains(&ExportFormat::Onnx) {
        section.fail(
            Code::E1006,
            "hashed_as_ids",
            "hashed_as_ids has no meaning without format = \"onnx\"",
        );
        return None;
    }
    Some(ExportForm {
        formats,
        hashed_as_ids,
    })
}
