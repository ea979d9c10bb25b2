//! Text of the status of a run.

use serde_json::Value;

use crate::output::size;
use crate::text_table;

/// Shades of a sparkline, lowest first.
const SHADES: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
/// Most columns of a sparkline.
const SPARK_COLUMNS: usize = 40;
/// Most metrics of an evaluation on one line.
const METRICS_MAX: usize = 8;

/// Responses of a chief.
#[derive(Debug, Clone)]
pub(super) struct Seen {
    pub(super) run: Value,
    pub(super) history: Value,
    pub(super) evaluations: Value,
    /// Lines on the shared memory of this machine.
    pub(super) memory: Vec<String>,
}

/// Returns the lines of a report, each at most `width` columns wide.
pub(super) fn lines(seen: &Seen, width: usize) -> Vec<String> {
    let run = &seen.run;
    let mut out = vec![head(run)];
    let facts = ["model", "strategy", "model_dir"].map(|key| text(&run["job"][key]));
    out.push(
        facts
            .into_iter()
            .filter(|fact| !fact.is_empty())
            .collect::<Vec<_>>()
            .join("  "),
    );
    let waits = run["waiting_for"].as_array().cloned().unwrap_or_default();
    if !waits.is_empty() {
        out.push(format!(
            "waits for {}",
            waits.iter().map(text).collect::<Vec<_>>().join(", ")
        ));
    }
    for (name, key) in [("loss", "loss"), ("steps/s", "steps_per_second")] {
        let spark = spark(&seen.history["run"][key]);
        if !spark.is_empty() {
            out.push(format!("{name:8} {spark}  {}", number(&run[key])));
        }
    }
    out.push(String::new());
    out.extend(text_table::lines(&tasks(run)));
    out.push(String::new());
    out.push(checkpoint(run));
    out.push(evaluation(&seen.evaluations));
    out.extend(seen.memory.iter().cloned());
    out.iter()
        .map(|line| line.chars().take(width).collect())
        .collect()
}

fn head(run: &Value) -> String {
    let most = &run["job"]["max_steps"];
    let of = if most.is_u64() {
        format!(" of {most}")
    } else {
        String::new()
    };
    let mut parts = vec![
        text(&run["state"]).to_uppercase(),
        format!("step {}{of}", number(&run["global_step"])),
        format!("{} steps/s", number(&run["steps_per_second"])),
        format!("{} examples/s", number(&run["examples_per_second"])),
        format!("loss {}", number(&run["loss"])),
        format!("staleness {}", number(&run["staleness_steps"])),
    ];
    if let Some(left) = run["seconds_left"]
        .as_f64()
        .filter(|_| run["state"] == "training")
    {
        parts.push(format!("about {} left", duration(left)));
    }
    parts.join("  ")
}

fn tasks(run: &Value) -> Vec<Vec<String>> {
    let titles = [
        "TASK",
        "STATE",
        "STEPS/S",
        "STEPS",
        "LOSS",
        "STALENESS",
        "INPUT ms",
        "SERVERS ms",
        "COMPUTE ms",
        "NOTES",
    ];
    let mut rows = vec![titles.map(str::to_owned).to_vec()];
    for task in run["tasks"].as_array().into_iter().flatten() {
        let mut row = vec![text(&task["task"]), text(&task["state"])];
        let keys = [
            "steps_per_second",
            "steps",
            "loss",
            "staleness_steps",
            "input_ms",
            "exchange_ms",
            "compute_ms",
        ];
        row.extend(keys.map(|key| {
            if task[key].is_null() {
                String::new()
            } else {
                number(&task[key])
            }
        }));
        let mut notes = vec![text(&task["reason"])];
        if let Some(seconds) = task["silent_seconds"]
            .as_f64()
            .filter(|seconds| *seconds > 2.0)
        {
            notes.push(format!("silent for {}", duration(seconds)));
        }
        if let Some(bytes) = task["value_bytes"].as_u64() {
            notes.push(format!(
                "{}, {} updates",
                size(bytes),
                number(&task["updates"])
            ));
        }
        notes.retain(|note| !note.is_empty());
        row.push(notes.join("; "));
        rows.push(row);
    }
    rows
}

fn checkpoint(run: &Value) -> String {
    let Some(newest) = run["checkpoints"].as_array().and_then(|all| all.last()) else {
        return "checkpoint  none yet".to_owned();
    };
    let now = run["unix_secs"].as_f64().unwrap_or_default();
    let age = now - newest["unix_secs"].as_f64().unwrap_or(now);
    let bytes = newest["bytes"].as_u64().unwrap_or_default();
    let failed = run["checkpoint_failures"]
        .as_u64()
        .filter(|count| *count > 0);
    let failed = failed.map_or(String::new(), |count| {
        format!(", {count} COULD NOT BE WRITTEN")
    });
    format!(
        "checkpoint  step {}, {} ago, {}{failed}",
        number(&newest["step"]),
        duration(age),
        size(bytes)
    )
}

fn evaluation(evaluations: &Value) -> String {
    let Some(newest) = evaluations["eval"].as_array().and_then(|all| all.last()) else {
        return "evaluation  none yet".to_owned();
    };
    let metrics = newest["metrics"]
        .as_object()
        .into_iter()
        .flatten()
        .take(METRICS_MAX);
    let metrics: Vec<String> = metrics
        .map(|(name, value)| format!("{} {}", plain(name), number(value)))
        .collect();
    format!(
        "evaluation  step {}: {}",
        number(&newest["global_step"]),
        metrics.join(", ")
    )
}

/// Returns a sparkline: a time series as one line of blocks.
fn spark(values: &Value) -> String {
    let values: Vec<Option<f64>> = values
        .as_array()
        .into_iter()
        .flatten()
        .map(Value::as_f64)
        .collect();
    if values.iter().flatten().count() < 2 {
        return String::new();
    }
    let each = values.len().div_ceil(SPARK_COLUMNS);
    let mean = |chunk: &[Option<f64>]| {
        let known: Vec<f64> = chunk.iter().flatten().copied().collect();
        (!known.is_empty()).then(|| known.iter().sum::<f64>() / known.len() as f64)
    };
    let means: Vec<Option<f64>> = values.chunks(each).map(mean).collect();
    let low = means
        .iter()
        .flatten()
        .copied()
        .fold(f64::INFINITY, f64::min);
    let high = means
        .iter()
        .flatten()
        .copied()
        .fold(f64::NEG_INFINITY, f64::max);
    let shade = |value: f64| {
        let place = if high > low {
            (value - low) / (high - low)
        } else {
            0.5
        };
        SHADES[((place * SHADES.len() as f64) as usize).min(SHADES.len() - 1)]
    };
    means
        .into_iter()
        .map(|mean| mean.map_or(' ', shade))
        .collect()
}

/// Removes control characters from text of other sources, because a terminal would obey them.
fn plain(text: &str) -> String {
    text.chars().filter(|letter| !letter.is_control()).collect()
}

fn text(value: &Value) -> String {
    value.as_str().map(plain).unwrap_or_default()
}

fn number(value: &Value) -> String {
    match (value.as_u64(), value.as_f64()) {
        (Some(whole), _) => whole.to_string(),
        (None, None) => "-".to_owned(),
        (None, Some(0.0)) => "0".to_owned(),
        (None, Some(value)) => match value.abs() {
            size if size >= 1000.0 => format!("{value:.0}"),
            size if size >= 10.0 => format!("{value:.1}"),
            size if size >= 1e-3 => format!("{value:.4}"),
            _ => format!("{value:.2e}"),
        },
    }
}

fn duration(seconds: f64) -> String {
    let seconds = seconds.max(0.0).round() as u64;
    match seconds {
        0..60 => format!("{seconds} s"),
        60..3600 => format!("{} min {} s", seconds / 60, seconds % 60),
        _ => format!("{} h {} min", seconds / 3600, seconds % 3600 / 60),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn seen() -> Seen {
        let run = json!({
            "state": "training", "waiting_for": [], "global_step": 1200, "steps_per_second": 310.55, "loss": 0.25,
            "examples_per_second": 3105.5, "staleness_steps": 1.5, "seconds_left": 75.0, "unix_secs": 1000.0,
            "job": {"model": "linear_regressor", "max_steps": 5000, "model_dir": "/tmp/\u{1b}]0;evil\u{7}m"},
            "tasks": [
                {"task": "chief:0", "state": "training", "steps_per_second": 155.0, "steps": 600, "silent_seconds": 0.1},
                {"task": "worker:0", "state": "silent", "reason": "why", "silent_seconds": 3.2},
                {"task": "ps:0", "state": "ready", "updates": 1200, "value_bytes": 2048},
            ],
            "checkpoints": [{"step": 1000, "unix_secs": 988.0, "bytes": 3_000_000}], "checkpoint_failures": 0,
        });
        let history = json!({"run": {"loss": [4.0, 3.0, null, 1.0], "steps_per_second": []}});
        let evaluations = json!({"eval": [{"global_step": 1000, "metrics": {"accuracy": 0.875}}]});
        Seen {
            run,
            history,
            evaluations,
            memory: vec!["memory      8.0 MiB of the log of ps-0 in /dev/shm/log".to_owned()],
        }
    }

    #[test]
    fn a_report_says_what_matters_and_no_terminal_obeys_it() {
        let text = lines(&seen(), usize::MAX).join("\n");
        for part in [
            "TRAINING  step 1200 of 5000  310.6 steps/s",
            "about 1 min 15 s left",
            "loss     █▆ ▁",
            "worker:0  silent",
            "why; silent for 3 s",
            "2.0 KiB, 1200 updates",
            "checkpoint  step 1000, 12 s ago, 2.9 MiB",
            "evaluation  step 1000: accuracy 0.8750",
            "memory      8.0 MiB of the log of ps-0",
        ] {
            assert!(text.contains(part), "{part}\n{text}");
        }
        assert!(
            !text.contains('\u{1b}') && !text.contains('\u{7}'),
            "{text:?}"
        );
    }

    #[test]
    fn lines_are_as_wide_as_the_terminal_and_an_answer_without_anything_is_shown_too() {
        assert!(
            lines(&seen(), 30)
                .iter()
                .all(|line| line.chars().count() <= 30)
        );
        let nothing = Seen {
            run: json!({}),
            history: Value::Null,
            evaluations: json!([]),
            memory: Vec::new(),
        };
        assert!(lines(&nothing, 80).join("\n").contains("none yet"));
    }
}
