//! Answers of TensorFlow Serving's REST interface.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use trainyard_model::Prediction;

use crate::Error;
use crate::batching::Predictions;
use crate::json::write_text;
use crate::models::{ServedModel, Version};
use crate::rest::request::Layout;
use crate::results::{classes, numbers};
use crate::signature::Tensor;

/// Appends items with commas between them.
fn write_list<T>(
    out: &mut String,
    items: impl IntoIterator<Item = T>,
    mut write: impl FnMut(&mut String, T),
) {
    out.push('[');
    for (nth, item) in items.into_iter().enumerate() {
        if nth > 0 {
            out.push(',');
        }
        write(out, item);
    }
    out.push(']');
}

/// Appends a float as the shortest decimal that parses to it. JSON has no infinity and no NaN: they become null.
pub(crate) fn write_float(out: &mut String, value: f32) {
    if value.is_finite() {
        // Writing to a String cannot fail.
        let _ = write!(out, "{value}");
    } else {
        out.push_str("null");
    }
}

/// Appends the values of a row.
pub(crate) fn write_values(out: &mut String, prediction: &Prediction) {
    match prediction {
        Prediction::Floats(values) => {
            write_list(out, values, |out, value| write_float(out, *value));
        }
        Prediction::Ints(values) => write_list(out, values, |out, value| {
            let _ = write!(out, "{value}");
        }),
        Prediction::Texts(values) => write_list(out, values, |out, value| write_text(out, value)),
    }
}

/// Returns the body of an answer to `:predict`.
pub(crate) fn predictions(rows: &Predictions, outputs: &[Tensor], layout: Layout) -> String {
    let mut out = String::with_capacity(64 + 256 * rows.len());
    match (layout, outputs) {
        (Layout::Rows, [one]) => {
            out.push_str("{\"predictions\":");
            write_list(&mut out, rows, |out, row| write_key(out, row, &one.name));
        }
        (Layout::Rows, _) => {
            out.push_str("{\"predictions\":");
            write_list(&mut out, rows, write_row);
        }
        (Layout::Columns, [one]) => {
            out.push_str("{\"outputs\":");
            write_list(&mut out, rows, |out, row| write_key(out, row, &one.name));
        }
        (Layout::Columns, outputs) => {
            out.push_str("{\"outputs\":{");
            for (nth, output) in outputs.iter().enumerate() {
                if nth > 0 {
                    out.push(',');
                }
                write_text(&mut out, &output.name);
                out.push(':');
                write_list(&mut out, rows, |out, row| write_key(out, row, &output.name));
            }
            out.push('}');
        }
    }
    out.push('}');
    out
}

fn write_key(out: &mut String, row: &BTreeMap<String, Prediction>, key: &str) {
    match row.get(key) {
        Some(values) => write_values(out, values),
        None => out.push_str("null"),
    }
}

fn write_row(out: &mut String, row: &BTreeMap<String, Prediction>) {
    out.push('{');
    for (nth, (key, values)) in row.iter().enumerate() {
        if nth > 0 {
            out.push(',');
        }
        write_text(out, key);
        out.push(':');
        write_values(out, values);
    }
    out.push('}');
}

/// Returns the body of an answer to `:classify`: for each row, classes and their scores.
///
/// # Errors
/// The model has no classes.
pub(crate) fn classifications(rows: &Predictions) -> Result<String, Error> {
    let rows = rows
        .iter()
        .map(classes)
        .collect::<Result<Vec<_>, Error>>()?;
    let mut out = "{\"result\":".to_owned();
    write_list(&mut out, rows, |out, row| {
        write_list(
            out,
            row.names.iter().zip(row.scores),
            |out, (name, score)| {
                out.push('[');
                write_text(out, name);
                out.push(',');
                write_float(out, *score);
                out.push(']');
            },
        );
    });
    out.push('}');
    Ok(out)
}

/// Returns the body of an answer to `:regress`: a number for each row.
///
/// # Errors
/// The model has no number for a row.
pub(crate) fn regressions(rows: &Predictions) -> Result<String, Error> {
    let rows = rows
        .iter()
        .map(numbers)
        .collect::<Result<Vec<_>, Error>>()?;
    let mut out = "{\"result\":".to_owned();
    write_list(&mut out, rows, |out, row| match row {
        [one] => write_float(out, *one),
        several => write_list(out, several, |out, value| write_float(out, *value)),
    });
    out.push('}');
    Ok(out)
}

/// Returns the body of the status of a model.
pub(crate) fn status(model: &ServedModel, versions: &[std::sync::Arc<Version>]) -> String {
    let refused = model.refused();
    let entry = |number: u64, state: &str, code: &str, message: &str| {
        let mut text = format!(
            "{{\"version\":\"{number}\",\"state\":\"{state}\",\"status\":{{\"error_code\":\"{code}\",\"error_message\":"
        );
        write_text(&mut text, message);
        text.push_str("}}");
        text
    };
    let refused = refused.map(|refused| {
        let code = match refused.status {
            tonic::Code::ResourceExhausted => "RESOURCE_EXHAUSTED",
            _ => "DATA_LOSS",
        };
        entry(refused.number, "END", code, &refused.reason)
    });
    let available = versions.iter().rev();
    let available = available.map(|version| entry(version.number, "AVAILABLE", "OK", ""));
    let entries: Vec<String> = refused.into_iter().chain(available).collect();
    format!("{{\"model_version_status\":[{}]}}", entries.join(","))
}

/// Returns the body of the metadata of a version.
pub(crate) fn metadata(name: &str, version: &Version) -> String {
    let tensor = |tensor: &Tensor| {
        let width = tensor
            .width
            .map_or("-1".to_owned(), |width| width.to_string());
        let mut text = String::new();
        write_text(&mut text, &tensor.name);
        let dimension = |size: &str| format!("{{\"size\":\"{size}\",\"name\":\"\"}}");
        let _ = write!(
            text,
            ":{{\"dtype\":\"{}\",\"tensor_shape\":{{\"dim\":[{},{}],\"unknown_rank\":false}},\"name\":",
            tensor.kind.tensorflow(),
            dimension("-1"),
            dimension(&width)
        );
        write_text(&mut text, &tensor.name);
        text.push('}');
        text
    };
    let tensors = |all: &[Tensor]| all.iter().map(tensor).collect::<Vec<_>>().join(",");
    let mut spec = String::new();
    write_text(&mut spec, name);
    format!(
        "{{\"model_spec\":{{\"name\":{spec},\"signature_name\":\"\",\"version\":\"{}\"}},\"metadata\":{{\"signature_def\":\
         {{\"signature_def\":{{\"serving_default\":{{\"inputs\":{{{}}},\"outputs\":{{{}}},\"method_name\":\
         \"tensorflow/serving/predict\"}}}}}},\"description\":{{{}}}}}}}",
        version.number,
        tensors(&version.signature.inputs),
        tensors(&version.signature.outputs),
        version.signature.about.members().trim_start_matches(','),
    )
}
