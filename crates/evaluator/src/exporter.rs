//! When to export: after each evaluation, after a better one than ever, after the last (`tf.estimator.*Exporter`).

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use tracing::info;
use trainyard_checkpoint::{Checkpoint, names, read, remove, write_atomically};
use trainyard_diagnostic::{Code, Diagnostic};
use trainyard_model::{AnyModel, Scores};
use trainyard_run_config::{ExporterConfig, ExporterKind};

use crate::export::export;

/// The best evaluation so far, in a file: a restart never forgets it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Best {
    metric: String,
    value: f64,
    global_step: u64,
}

/// Whether `value` is better than the best so far.
fn better(config: &ExporterConfig, best: Option<&Best>, value: f64) -> bool {
    match best.filter(|best| best.metric == config.metric) {
        None => value.is_finite(),
        Some(best) if config.higher_is_better => value > best.value,
        Some(best) => value < best.value,
    }
}

/// Runs one exporter after an evaluation. Returns the path of what it wrote.
pub(crate) fn run(
    config: &ExporterConfig,
    model: &AnyModel,
    checkpoint: &Checkpoint,
    scores: &Scores,
    model_dir: &Path,
    now: u64,
    last: bool,
) -> Result<Option<PathBuf>, Diagnostic> {
    let folder = model_dir.join("export").join(&config.name);
    let state = folder.join("best.json");
    let global_step = checkpoint.manifest().global_step;
    let best = match config.kind {
        ExporterKind::Final if !last => return Ok(None),
        ExporterKind::Final | ExporterKind::Latest => None,
        ExporterKind::Best => {
            let value = *scores.get(&config.metric).ok_or_else(|| {
                let known: Vec<&str> = scores.keys().map(String::as_str).collect();
                Diagnostic::error(
                    Code::E1101,
                    format!(
                        "exporter `{}` compares the metric `{}`, which the model does not report",
                        config.name, config.metric
                    ),
                )
                .note(format!("metrics: {}", known.join(", ")))
                .help("set exporter.metric to one of them")
            })?;
            let before = read(&state)?.and_then(|text| serde_json::from_slice::<Best>(&text).ok());
            if !better(config, before.as_ref(), value) {
                return Ok(None);
            }
            Some(Best { metric: config.metric.clone(), value, global_step })
        }
    };
    let path = export(model, checkpoint, scores, &config.form, &folder, now)?;
    if let Some(best) = best {
        write_atomically(&state, &serde_json::to_vec(&best).unwrap_or_default())?;
        info!(exporter = %config.name, metric = %best.metric, value = best.value, step = global_step, "best so far: exported");
    } else {
        info!(exporter = %config.name, step = global_step, path = %path.display(), "exported");
    }
    collect(&folder, config.exports_to_keep);
    Ok(Some(path))
}

/// Removes all but the newest exports.
fn collect(folder: &Path, keep: usize) {
    let names = names(folder).unwrap_or_default();
    let mut exports: Vec<u64> = names.iter().filter_map(|name| name.parse().ok()).collect();
    exports.sort_unstable();
    if keep > 0 && exports.len() > keep {
        for old in &exports[..exports.len() - keep] {
            // One that stays is tried again after the next.
            let _ = remove(&folder.join(old.to_string()));
        }
    }
}

#[cfg(test)]
mod tests {
    use trainyard_run_config::{ExportForm, ExportFormat};

    use super::*;

    fn config(metric: &str, higher: bool) -> ExporterConfig {
        ExporterConfig {
            kind: ExporterKind::Best,
            name: "best".into(),
            exports_to_keep: 5,
            metric: metric.into(),
            higher_is_better: higher,
            form: ExportForm { formats: vec![ExportFormat::Safetensors], hashed_as_ids: false },
        }
    }

    #[test]
    fn only_a_strictly_better_value_is_better() {
        let best = Best { metric: "loss".into(), value: 0.5, global_step: 1 };
        let lower = config("loss", false);
        assert!(better(&lower, None, 9.0) && !better(&lower, None, f64::NAN));
        assert!(
            better(&lower, Some(&best), 0.4)
                && !better(&lower, Some(&best), 0.5)
                && !better(&lower, Some(&best), f64::NAN)
        );
        let higher = config("loss", true);
        assert!(better(&higher, Some(&best), 0.6) && !better(&higher, Some(&best), 0.5));
        assert!(better(&config("auc", true), Some(&best), 0.1), "another metric starts anew");
    }

    #[test]
    fn old_exports_are_collected() {
        let folder = tempfile::tempdir().unwrap();
        for name in ["10", "30", "20", "temp-5", "other"] {
            std::fs::create_dir(folder.path().join(name)).unwrap();
        }
        collect(folder.path(), 2);
        let mut left: Vec<String> = std::fs::read_dir(folder.path())
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        left.sort();
        assert_eq!(left, ["20", "30", "other", "temp-5"]);
    }
}
