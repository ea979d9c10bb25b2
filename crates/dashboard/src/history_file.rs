//! The curves of a run as JSON, for the page, and for the next chief in `history.json` of the model directory.

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::{Map, Value, json};
use trainyard_cluster_spec::Task;
use trainyard_model_dir::{Error, read, write_atomically};

use crate::run_history::{Curves, RUN_SERIES, TASK_SERIES};
use crate::time_series::Point;

const FILE: &str = "history.json";

/// Returns the curves as JSON, by columns.
pub fn to_json((run, tasks): &Curves) -> Value {
    let tasks: Map<String, Value> = tasks
        .iter()
        .map(|(task, points)| (task.to_string(), columns(points, &TASK_SERIES)))
        .collect();
    json!({"run": columns(run, &RUN_SERIES), "tasks": tasks})
}

/// Writes the curves, if there are any.
///
/// # Errors
/// The file cannot be written.
pub fn keep(model_dir: &Path, curves: &Curves) -> Result<(), Error> {
    if curves.0.is_empty() {
        return Ok(());
    }
    write_atomically(
        &model_dir.join(FILE),
        to_json(curves).to_string().as_bytes(),
    )
}

/// Reads the curves; empty if there is no file.
///
/// # Errors
/// The file cannot be read, or holds no curve. The error is a sentence that names the path.
pub fn kept(model_dir: &Path) -> Result<Curves, String> {
    let path = model_dir.join(FILE);
    let wrong = |what: &dyn std::fmt::Display| format!("{}: {what}", path.display());
    let Some(text) = read(&path).map_err(|error| wrong(&error))? else {
        return Ok(Curves::default());
    };
    let curves = from_json(&serde_json::from_slice(&text).map_err(|error| wrong(&error))?);
    // No file is written before there is a point.
    if curves.0.is_empty() {
        Err(wrong(&"the file holds no curve of the run"))
    } else {
        Ok(curves)
    }
}

fn from_json(history: &Value) -> Curves {
    let tasks = history["tasks"].as_object().into_iter().flatten();
    let curve =
        |(name, curve): (&String, &Value)| Some((Task::named(name)?, points(curve, &TASK_SERIES)));
    (
        points(&history["run"], &RUN_SERIES),
        tasks.filter_map(curve).collect::<BTreeMap<_, _>>(),
    )
}

/// Returns a curve by columns, so that the names of the values are not repeated.
fn columns<const N: usize>(points: &[Point<N>], names: &[&str; N]) -> Value {
    let mut out = Map::new();
    let secs: Vec<Value> = points
        .iter()
        .map(|point| json!((point.unix_secs * 10.0).round() / 10.0))
        .collect();
    out.insert("unix_secs".to_owned(), secs.into());
    let steps: Vec<Value> = points.iter().map(|point| json!(point.step)).collect();
    out.insert("global_step".to_owned(), steps.into());
    for (place, name) in names.iter().enumerate() {
        let values: Vec<Value> = points
            .iter()
            .map(|point| json!(short(f64::from(point.values[place]))))
            .collect();
        out.insert((*name).to_owned(), values.into());
    }
    Value::Object(out)
}

/// Returns the points of a curve by columns. Values of a missing column are unknown.
fn points<const N: usize>(columns: &Value, names: &[&str; N]) -> Vec<Point<N>> {
    let column = |name: &str| columns[name].as_array().map_or(&[][..], Vec::as_slice);
    let values = names.map(column);
    let value = |of: usize, place: usize| {
        values[of]
            .get(place)
            .and_then(Value::as_f64)
            .map_or(f32::NAN, |value| value as f32)
    };
    let times = column("unix_secs")
        .iter()
        .zip(column("global_step"))
        .enumerate();
    times
        .filter_map(|(place, (secs, step))| {
            let values = std::array::from_fn(|of| value(of, place));
            Some(Point {
                unix_secs: secs.as_f64()?,
                step: step.as_u64()?,
                values,
            })
        })
        .collect()
}

/// Rounds to five digits, which is more than can be seen. Returns `None` if the value is not finite.
pub fn short(value: f64) -> Option<f64> {
    if !value.is_finite() {
        return None;
    }
    format!("{value:.4e}").parse().ok()
}

#[cfg(test)]
mod tests {
    use trainyard_cluster_spec::Role;

    use super::*;

    #[test]
    fn numbers_are_short_and_no_number_is_nothing() {
        assert_eq!(short(0.1 + 0.2), Some(0.3));
        assert_eq!(short(123_456.0), Some(123_460.0));
        assert_eq!(
            (short(f64::NAN), short(f64::INFINITY), short(0.0)),
            (None, None, Some(0.0))
        );
    }

    #[test]
    fn curves_that_were_kept_are_those_that_are_read_and_a_damaged_file_is_told() {
        let folder = tempfile::tempdir().expect("a folder");
        assert_eq!(kept(folder.path()), Ok(Curves::default()));
        let run = |second: u32| Point {
            unix_secs: f64::from(second),
            step: u64::from(second) * 10,
            values: std::array::from_fn(|of| (second + of as u32) as f32 / 4.0),
        };
        let task = Point {
            unix_secs: 1.5,
            step: 7,
            values: [2.0, 0.5, 0.0],
        };
        let tasks = [(
            Task {
                role: Role::Worker,
                index: 12,
            },
            vec![task],
        )]
        .into();
        let curves: Curves = ((0..5).map(run).collect(), tasks);
        keep(folder.path(), &curves).expect("it is written");
        assert_eq!(kept(folder.path()).as_ref(), Ok(&curves));
        let path = folder.path().join(FILE);
        let whole = std::fs::read_to_string(&path).expect("it is there");
        for end in 0..whole.len() {
            std::fs::write(&path, &whole[..end]).expect("it is written");
            let told = kept(folder.path()).expect_err("it is cut");
            assert!(told.starts_with(&format!("{}: ", path.display())), "{told}");
        }
        for text in [
            "[1]",
            "{\"run\": 3}",
            "{\"run\": {\"unix_secs\": [1, 2], \"global_step\": [\"x\"]}, \"tasks\": []}",
        ] {
            std::fs::write(&path, text).expect("it is written");
            let told = kept(folder.path()).expect_err("it holds no point");
            assert!(told.starts_with(&format!("{}: ", path.display())), "{told}");
        }
    }

    #[test]
    fn a_value_that_is_no_number_or_that_an_earlier_release_did_not_know_is_not_known() {
        let history =
            json!({"run": {"unix_secs": [1, 2], "global_step": [3, 4], "loss": [null, 0.5]}});
        let (run, _) = from_json(&history);
        assert!(run.len() == 2 && run[0].values.iter().all(|value| value.is_nan()));
        assert!(run[1].values[0] == 0.5 && run[1].values[1..].iter().all(|value| value.is_nan()));
    }
}
