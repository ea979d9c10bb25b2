//! Exporters: after each evaluation, after the best so far, or after the last (`tf.estimator.*Exporter`).

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use serde_json::Value;
use tracing::{info, warn};
use trainyard_diagnostic::{Code, Diagnostic, listed};
use trainyard_model::Scores;
use trainyard_model_dir::{encode, names, read, read_json, remove, write_atomically};
use trainyard_run_config::{ExporterConfig, ExporterKind};

use crate::compared::why_absent;
use crate::export::{DESCRIPTION, ScoredModel, export};

/// Name of the file that records the best evaluation.
const STATE: &str = "best.json";

/// The best evaluation so far. It is kept in a file, so that it survives a restart.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Best {
    metric: String,
    value: f64,
    global_step: u64,
}

/// Returns whether `value` is better than the best so far.
fn better(config: &ExporterConfig, best: Option<&Best>, value: f64) -> bool {
    // JSON has no such number: the file would be read as damaged.
    if !value.is_finite() {
        return false;
    }
    match best.filter(|best| best.metric == config.metric) {
        None => true,
        Some(best) if config.higher_is_better => value > best.value,
        Some(best) => value < best.value,
    }
}

/// Losses that every head reports. Those of a further evaluation have its name and `/` before them.
const LOSSES: [&str; 2] = ["average_loss", "loss"];

/// Returns the error that the predictions of an evaluated model are not finite, if its losses are not.
pub fn not_finite(scores: &Scores) -> Option<Diagnostic> {
    let is_loss = |name: &str| LOSSES.contains(&name.rsplit('/').next().unwrap_or(name));
    let (name, value) = scores
        .iter()
        .find(|(name, value)| is_loss(name) && !value.is_finite())?;
    if scores.values().all(|value| value.is_nan()) {
        let message = "no metric of the evaluation is a number: no record of it counts, or no prediction is finite";
        return Some(Diagnostic::error(Code::E5001, message).help(
            "look at the warnings of the evaluation, at its files and at input.weight_column; else train again with a smaller learning rate",
        ));
    }
    let message = format!("the predictions of the model are not finite: `{name}` is {value}");
    Some(Diagnostic::error(Code::E5001, message).help(
        "take an earlier checkpoint, and train again with a smaller learning rate or with clip_gradients",
    ))
}

/// Place of an evaluated checkpoint among those of the job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Turn {
    /// The last one: the job is over.
    Last,
    /// Others may follow.
    Earlier,
}

/// Runs one exporter after an evaluation. Returns the path of the export, if there is one.
pub(crate) fn run(
    config: &ExporterConfig,
    scored: &ScoredModel<'_>,
    model_dir: &Path,
    now: u64,
    turn: Turn,
) -> Result<Option<PathBuf>, Diagnostic> {
    let folder = model_dir.join("export").join(&config.name);
    let state = folder.join(STATE);
    let global_step = scored.checkpoint.manifest().global_step;
    let best = match config.kind {
        ExporterKind::Final if turn != Turn::Last => return Ok(None),
        ExporterKind::Final | ExporterKind::Latest => {
            if let Some(problem) = not_finite(scored.scores) {
                warn!(exporter = %config.name, step = global_step, "not exported: {}", problem.message);
                return Ok(None);
            }
            None
        }
        ExporterKind::Best => {
            let value = *scored.scores.get(&config.metric).ok_or_else(|| {
                let known: Vec<&str> = scored.scores.keys().map(String::as_str).collect();
                let why = why_absent(scored.job, &config.metric);
                Diagnostic::error(
                    Code::E1101,
                    format!(
                        "exporter `{}` compares the metric `{}`, which {}",
                        config.name,
                        config.metric,
                        why.unwrap_or_else(|| "the model does not report".to_owned())
                    ),
                )
                .note(format!("metrics: {}", listed(known)))
                .help("set exporter.metric to one of them")
            })?;
            let before = best_so_far(config, &folder)?;
            if !better(config, before.as_ref(), value) {
                return Ok(None);
            }
            Some(Best {
                metric: config.metric.clone(),
                value,
                global_step,
            })
        }
    };
    let path = export(scored, &config.form, &folder, now)?;
    if let Some(best) = best {
        write_atomically(&state, &encode(&best, &state)?)?;
        info!(exporter = %config.name, metric = %best.metric, value = best.value, step = global_step, "best so far: exported");
    } else {
        info!(exporter = %config.name, step = global_step, path = %path.display(), "exported");
    }
    collect(&folder, config.exports_to_keep);
    Ok(Some(path))
}

/// Returns the best evaluation so far, `None` before the first. A damaged file is renamed, and the best evaluation is
/// found again among the exports that remain, so that no worse model is exported as the best.
///
/// # Errors
/// A file cannot be read or written.
fn best_so_far(config: &ExporterConfig, folder: &Path) -> Result<Option<Best>, Diagnostic> {
    let state = folder.join(STATE);
    let Some(text) = read(&state)? else {
        return Ok(None);
    };
    let what = match serde_json::from_slice::<Best>(&text) {
        Ok(best) => return Ok(Some(best)),
        Err(error) => error.to_string(),
    };
    let aside = folder.join(free_name(&names(folder)?));
    write_atomically(&aside, &text)?;
    let best = best_export(config, folder)?;
    let next = match &best {
        Some(best) => {
            write_atomically(&state, &encode(best, &state)?)?;
            format!(
                "the best export that is left counts: {} {} at step {}",
                best.metric, best.value, best.global_step
            )
        }
        None => {
            remove(&state)?;
            format!(
                "no export records its {}: the next evaluation counts as the best",
                config.metric
            )
        }
    };
    let problem = Diagnostic::warning(
        Code::E3001,
        format!("{} is damaged and was set aside", state.display()),
    );
    let problem = problem.note(what).note(format!(
        "{next}; nothing was deleted: it is now {}",
        aside.display()
    ));
    warn!("{}", problem.log_line());
    Ok(best)
}

/// Returns an unused name for a damaged file.
fn free_name(taken: &[String]) -> String {
    let name = |attempt: u64| match attempt {
        0 => format!("damaged.{STATE}"),
        attempt => format!("damaged.{STATE}.{attempt}"),
    };
    (0..)
        .map(name)
        .find(|name| !taken.contains(name))
        .unwrap_or_else(|| name(u64::MAX))
}

/// The fields of a description that are compared. The others may be long.
#[derive(Debug, Deserialize)]
struct Scored {
    #[serde(default)]
    metrics: Value,
    #[serde(default)]
    global_step: Value,
}

/// Returns the best of the exports in a folder, according to their descriptions.
fn best_export(config: &ExporterConfig, folder: &Path) -> Result<Option<Best>, Diagnostic> {
    let mut best = None;
    for second in names(folder)?
        .iter()
        .filter(|name| name.parse::<u64>().is_ok())
    {
        let path = folder.join(second).join(DESCRIPTION);
        let described: Scored = match read_json(&path)? {
            None => continue,
            Some(Ok(described)) => described,
            Some(Err(error)) => {
                warn!(path = %path.display(), %error, "the description is damaged: this export is not compared");
                continue;
            }
        };
        let told = (
            described.metrics[&config.metric].as_f64(),
            described.global_step.as_u64(),
        );
        if let (Some(value), Some(global_step)) = told
            && better(config, best.as_ref(), value)
        {
            best = Some(Best {
                metric: config.metric.clone(),
                value,
                global_step,
            });
        }
    }
    Ok(best)
}

/// Removes all but the newest `keep` exports; 0 keeps all.
fn collect(folder: &Path, keep: usize) {
    let names = match names(folder) {
        Ok(names) => names,
        Err(error) => {
            warn!(folder = %folder.display(), %error, "older exports are not removed before the next");
            return;
        }
    };
    let mut exports: Vec<u64> = names.iter().filter_map(|name| name.parse().ok()).collect();
    exports.sort_unstable();
    if keep > 0 && exports.len() > keep {
        for old in &exports[..exports.len() - keep] {
            // A failed removal is retried after the next export.
            let path = folder.join(old.to_string());
            if let Err(error) = remove(&path) {
                warn!(path = %path.display(), %error, "an older export is not removed before the next");
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use trainyard_run_config::{ExportForm, ExportFormat};

    use super::*;

    /// An exporter of the model with the highest value of a metric.
    fn higher(metric: &str) -> ExporterConfig {
        ExporterConfig {
            kind: ExporterKind::Best,
            name: "best".into(),
            exports_to_keep: 5,
            metric: metric.into(),
            higher_is_better: true,
            form: ExportForm {
                formats: vec![ExportFormat::Safetensors],
                hashed_as_ids: false,
            },
        }
    }

    fn lower(metric: &str) -> ExporterConfig {
        ExporterConfig {
            higher_is_better: false,
            ..higher(metric)
        }
    }

    #[test]
    fn only_a_strictly_better_value_is_better() {
        let best = Best {
            metric: "loss".into(),
            value: 0.5,
            global_step: 1,
        };
        let least = lower("loss");
        assert!(better(&least, None, 9.0) && !better(&least, None, f64::NAN));
        assert!(
            better(&least, Some(&best), 0.4)
                && !better(&least, Some(&best), 0.5)
                && !better(&least, Some(&best), f64::NAN)
        );
        let most = higher("loss");
        assert!(better(&most, Some(&best), 0.6) && !better(&most, Some(&best), 0.5));
        assert!(
            better(&higher("auc"), Some(&best), 0.1),
            "another metric starts anew"
        );
    }

    #[test]
    fn a_value_that_is_not_finite_is_never_the_best() {
        let best = Best {
            metric: "loss".into(),
            value: 0.5,
            global_step: 1,
        };
        assert!(!better(&higher("loss"), Some(&best), f64::INFINITY));
        assert!(!better(&lower("loss"), Some(&best), f64::NEG_INFINITY));
    }

    fn exported(folder: &Path, second: u64, text: &str) {
        std::fs::create_dir_all(folder.join(second.to_string())).expect("there is room");
        std::fs::write(folder.join(second.to_string()).join(DESCRIPTION), text).expect("written");
    }

    #[test]
    fn a_damaged_best_is_set_aside_and_found_again_among_the_exports() {
        let folder = tempfile::tempdir().expect("a folder");
        let config = higher("auc");
        let state = folder.path().join(STATE);
        assert_eq!(best_so_far(&config, folder.path()).expect("none yet"), None);
        exported(
            folder.path(),
            10,
            "{\"global_step\": 100, \"metrics\": {\"auc\": 0.7}}",
        );
        exported(
            folder.path(),
            20,
            "{\"global_step\": 200, \"metrics\": {\"auc\": 0.8}}",
        );
        exported(folder.path(), 30, "{\"global_step\": 300, \"met");
        let best = Best {
            metric: "auc".into(),
            value: 0.8,
            global_step: 200,
        };
        let whole = serde_json::to_vec(&best).expect("a best");
        for (attempt, damaged) in [&whole[..whole.len() - 1], b"", b"{\"metric\": \"auc\"}"]
            .iter()
            .enumerate()
        {
            std::fs::write(&state, damaged).expect("written");
            let found = best_so_far(&config, folder.path()).expect("it goes on");
            assert_eq!(found.as_ref(), Some(&best), "{attempt}");
            assert!(
                !better(&config, found.as_ref(), 0.75),
                "a worse model must not be exported as the best"
            );
            let aside = free_name(&names(folder.path()).expect("names"));
            assert_eq!(
                aside,
                format!("damaged.best.json.{}", attempt + 1),
                "one more file is aside"
            );
            assert_eq!(
                best_so_far(&config, folder.path()).expect("it is mended"),
                Some(best.clone())
            );
        }
        assert_eq!(
            std::fs::read(folder.path().join("damaged.best.json")).expect("kept"),
            whole[..whole.len() - 1]
        );
    }

    #[test]
    fn a_damaged_best_without_exports_lets_the_next_evaluation_be_the_best() {
        let folder = tempfile::tempdir().expect("a folder");
        std::fs::write(folder.path().join(STATE), "{").expect("written");
        assert_eq!(
            best_so_far(&higher("auc"), folder.path()).expect("it goes on"),
            None
        );
        assert!(
            !folder.path().join(STATE).exists() && folder.path().join("damaged.best.json").exists()
        );
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
