//! Answers of the Open Inference Protocol.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::Arc;

use trainyard_model::Prediction;

use crate::batching::Predictions;
use crate::http_answer::Answer;
use crate::inference::request::{Form, WantedOutput};
use crate::intake::AnswerRoom;
use crate::json::write_text;
use crate::models::Version;
use crate::rest::write_float;
use crate::signature::Tensor;

/// Returns the body about the server.
pub(crate) fn server() -> String {
    format!(
        "{{\"name\":\"trainyard-serving\",\"version\":\"{}\",\"extensions\":[\"binary_tensor_data\"]}}",
        env!("CARGO_PKG_VERSION")
    )
}

/// Returns the body about a model that is ready.
pub(crate) fn model_ready(name: &str) -> String {
    let mut text = "{\"name\":".to_owned();
    write_text(&mut text, name);
    text.push_str(",\"ready\":true}");
    text
}

/// Returns the body about a version of a model.
pub(crate) fn metadata(name: &str, version: &Version, versions: &[Arc<Version>]) -> String {
    let about = &version.signature.about;
    let tensor = |tensor: &Tensor, descriptions: &BTreeMap<String, String>| {
        let mut text = "{\"name\":".to_owned();
        write_text(&mut text, &tensor.name);
        let width = tensor
            .width
            .map_or("-1".to_owned(), |width| width.to_string());
        let _ = write!(
            text,
            ",\"datatype\":\"{}\",\"shape\":[-1,{width}]",
            tensor.kind.inference()
        );
        if let Some(description) = descriptions.get(&tensor.name) {
            text.push_str(",\"parameters\":{\"description\":");
            write_text(&mut text, description);
            text.push('}');
        }
        text.push('}');
        text
    };
    let tensors = |all: &[Tensor], descriptions| {
        let all = all.iter().map(|one| tensor(one, descriptions));
        all.collect::<Vec<_>>().join(",")
    };
    let numbers: Vec<String> = versions
        .iter()
        .map(|version| format!("\"{}\"", version.number))
        .collect();
    let mut text = "{\"name\":".to_owned();
    write_text(&mut text, name);
    let _ = write!(
        text,
        ",\"versions\":[{}],\"platform\":\"trainyard\",\"inputs\":[{}],\"outputs\":[{}]}}",
        numbers.join(","),
        tensors(&version.signature.inputs, &about.inputs),
        tensors(&version.signature.outputs, &about.outputs)
    );
    text
}

/// Returns the answer with the wanted outputs of all rows.
pub(crate) fn infer(
    name: &str,
    version: &Version,
    id: Option<&str>,
    wanted: &[WantedOutput],
    rows: &Predictions,
) -> Answer {
    let mut text = "{\"model_name\":".to_owned();
    write_text(&mut text, name);
    let _ = write!(text, ",\"model_version\":\"{}\"", version.number);
    if let Some(id) = id {
        text.push_str(",\"id\":");
        write_text(&mut text, id);
    }
    text.push_str(",\"outputs\":[");
    let mut binary = Vec::new();
    for (nth, output) in wanted.iter().enumerate() {
        let tensor = &version.signature.outputs[output.place];
        let values = || rows.iter().filter_map(|row| row.get(&tensor.name));
        if nth > 0 {
            text.push(',');
        }
        text.push_str("{\"name\":");
        write_text(&mut text, &tensor.name);
        let _ = write!(
            text,
            ",\"datatype\":\"{}\",\"shape\":[{},{}],",
            tensor.kind.inference(),
            rows.len(),
            tensor.width.unwrap_or(1)
        );
        match output.form {
            Form::Json => {
                text.push_str("\"data\":[");
                let mut is_first = true;
                for value in values() {
                    write_flat(&mut text, value, &mut is_first);
                }
                text.push_str("]}");
            }
            Form::Binary => {
                let before = binary.len();
                values().for_each(|value| write_bytes(&mut binary, value));
                let _ = write!(
                    text,
                    "\"parameters\":{{\"binary_data_size\":{}}}}}",
                    binary.len() - before
                );
            }
        }
    }
    text.push_str("]}");
    if binary.is_empty() {
        return Answer::json(text);
    }
    let header_length = Some(text.len());
    let mut body = text.into_bytes();
    body.extend_from_slice(&binary);
    Answer {
        body: body.into(),
        header_length,
        room: AnswerRoom::default(),
    }
}

fn write_flat(out: &mut String, values: &Prediction, is_first: &mut bool) {
    let mut comma = |out: &mut String| {
        if !std::mem::take(is_first) {
            out.push(',');
        }
    };
    match values {
        Prediction::Floats(values) => values.iter().for_each(|value| {
            comma(out);
            write_float(out, *value);
        }),
        Prediction::Ints(values) => values.iter().for_each(|value| {
            comma(out);
            let _ = write!(out, "{value}");
        }),
        Prediction::Texts(values) => values.iter().for_each(|value| {
            comma(out);
            write_text(out, value);
        }),
    }
}

/// Appends the values of a row as bytes, little-endian. A text begins with its length in 4 bytes.
pub(crate) fn write_bytes(out: &mut Vec<u8>, values: &Prediction) {
    match values {
        Prediction::Floats(values) => {
            out.extend(values.iter().flat_map(|value| value.to_le_bytes()));
        }
        Prediction::Ints(values) => out.extend(values.iter().flat_map(|value| value.to_le_bytes())),
        Prediction::Texts(values) => {
            for text in values {
                // A class name is a text of the job file, far below 4 GiB.
                out.extend_from_slice(&(text.len() as u32).to_le_bytes());
                out.extend_from_slice(text.as_bytes());
            }
        }
    }
}
