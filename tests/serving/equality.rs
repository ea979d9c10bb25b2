//! Answers of the server against the lines of `trainyard predict`.

use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::onnx::exported;
use crate::serving::client::{get, post};
use crate::serving::{Server, run};

/// Records that are compared.
const ROWS: usize = 70;
/// Records that are also sent one by one.
const ALONE: usize = 5;

/// A job with dynamic tables, of texts and of whole numbers.
const DYNAMIC: &str = r#"
[[feature]]
column = "word"
kind = "dynamic"
wide = true
deep = { embedding = 3 }
[[feature]]
column = "visits"
kind = "dynamic"
integers = true
separator = "|"
deep = { embedding = 3, combiner = "sum" }
[[feature]]
column = "income"
kind = "numeric"
normalizer = "log1p"
wide = true
deep = true
[model]
kind = "dnn_linear_combined_classifier"
hidden_units = [7]
[train]
max_steps = 60
"#;

fn name(case: &str) -> String {
    case.replace(' ', "-")
}

/// Trains a job, and writes its predictions.
fn train(job: &str, data: &str, predictions: &Path) {
    run(&["train", job, "--set", "exporter=[]", "--log-level", "error"]);
    let out = predictions.to_string_lossy();
    run(&["predict", job, "--input", data, "--output", &out]);
}

/// A model that is served, and what `predict` says of the records.
struct Served {
    name: String,
    job: PathBuf,
    predictions: PathBuf,
}

/// Returns every case, as it was trained for the tests of exports, and a job with dynamic tables, which is trained in a folder.
/// Beside them, the records of which the predictions are.
fn trained(own: &Path) -> (PathBuf, Vec<Served>) {
    let (folder, exported) = exported();
    let data = folder.join("rows.csv");
    let cases = exported.into_iter().map(|(case, export)| Served {
        name: name(&case.name),
        job: folder.join(&case.name).join("job.toml"),
        predictions: export.join("predictions.jsonl"),
    });
    let mut all: Vec<Served> = cases.collect();
    let shown = data.to_string_lossy();
    let job = own.join("job.toml");
    let text = format!(
        "model_dir = {:?}\n[input]\nlabel = {{ column = \"binary\" }}\n[input.train]\nfiles = [{shown:?}]\n\
         batch_size = 32\n[input.eval]\nfiles = [{shown:?}]\n{DYNAMIC}",
        own.join("model").display().to_string()
    );
    std::fs::write(&job, text).expect("the job is written");
    let predictions = own.join("predictions.jsonl");
    train(&job.to_string_lossy(), &shown, &predictions);
    all.push(Served {
        name: "dynamic".to_owned(),
        job,
        predictions,
    });
    (data, all)
}

/// The inputs of a model: names, and whether they are numbers.
fn inputs(address: &str, model: &str) -> Vec<(String, bool)> {
    let (status, metadata) = get(address, &format!("/v1/models/{model}/metadata"));
    assert_eq!(status, 200, "{metadata}");
    let inputs =
        &metadata["metadata"]["signature_def"]["signature_def"]["serving_default"]["inputs"];
    let inputs = inputs.as_object().expect("an object").iter();
    inputs
        .map(|(name, input)| (name.clone(), input["dtype"] != "DT_STRING"))
        .collect()
}

/// The records as rows of JSON, with the columns of a model. Numbers have the text of the file.
fn instances(data: &str, inputs: &[(String, bool)]) -> Vec<String> {
    let mut lines = data.lines();
    let header: Vec<&str> = lines.next().expect("a header").split(',').collect();
    let cell = |fields: &[&str], (name, is_number): &(String, bool)| {
        let place = header.iter().position(|column| column == name);
        let text = fields[place.expect("a column of the records")];
        let value = match (text, is_number) {
            ("", _) => "null".to_owned(),
            (text, true) if text.contains('|') => format!("[{}]", text.replace('|', ",")),
            (text, true) => text.to_owned(),
            (text, false) => format!("{text:?}"),
        };
        format!("{name:?}:{value}")
    };
    lines
        .map(|line| {
            let fields: Vec<&str> = line.split(',').collect();
            let cells: Vec<String> = inputs.iter().map(|input| cell(&fields, input)).collect();
            format!("{{{}}}", cells.join(","))
        })
        .collect()
}

/// Returns a value whose numbers are the bits of their floats: two texts may say one number.
pub(crate) fn bits(value: &Value) -> Value {
    match value {
        Value::Number(number) => {
            let number = number.as_f64().expect("a number") as f32;
            format!("{number} = {:#x}", number.to_bits()).into()
        }
        Value::Array(values) => values.iter().map(bits).collect(),
        Value::Object(fields) => fields
            .iter()
            .map(|(key, value)| (key.clone(), bits(value)))
            .collect(),
        other => other.clone(),
    }
}

/// What a model answers to rows: an object of keys for each, as the lines of `predict`.
fn answers(address: &str, model: &str, instances: &[String], keys: &[String]) -> Vec<Value> {
    let path = format!("/v1/models/{model}:predict");
    let body = format!("{{\"instances\":[{}]}}", instances.join(","));
    let (status, answer) = post(address, &path, &body);
    assert_eq!(status, 200, "{model}: {answer}");
    let rows = answer["predictions"].as_array().expect("predictions");
    let named = |row: &Value| match keys {
        [one] => serde_json::json!({ one: row }),
        _ => row.clone(),
    };
    rows.iter().map(|row| bits(&named(row))).collect()
}

trial!(a_served_model_answers_what_predict_answers_to_the_bit_for_every_kind);
fn a_served_model_answers_what_predict_answers_to_the_bit_for_every_kind() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let folder = folder.path();
    let (data, models) = trained(folder);
    // Every model in one server, by its job file.
    let config: String = models
        .iter()
        .map(|Served { name, job, .. }| format!("[[model]]\nname = {name:?}\npath = {job:?}\n"))
        .collect();
    let file = folder.join("serving.toml");
    std::fs::write(&file, config).expect("the configuration is written");
    let mut server = Server::start(&["--config", &file.to_string_lossy()]);
    let address = server.address.clone();
    let text = std::fs::read_to_string(&data).expect("the records");
    for Served {
        name: model,
        predictions,
        ..
    } in &models
    {
        server.wait_for_version(model, 60);
        let lines = std::fs::read_to_string(predictions).expect("predictions");
        let expected: Vec<Value> = lines
            .lines()
            .take(ROWS)
            .map(|line| bits(&serde_json::from_str(line).expect("a line is JSON")))
            .collect();
        assert_eq!(expected.len(), ROWS);
        let keys = expected[0].as_object().expect("an object").keys();
        let keys: Vec<String> = keys.cloned().collect();
        let mut rows = instances(&text, &inputs(&address, model));
        rows.truncate(ROWS);
        assert_eq!(
            answers(&address, model, &rows, &keys),
            expected,
            "{model}: all at once"
        );
        for (row, expected) in rows.iter().zip(&expected).take(ALONE) {
            let alone = answers(&address, model, std::slice::from_ref(row), &keys);
            assert_eq!(alone, std::slice::from_ref(expected), "{model}: alone");
        }
    }
    assert!(models.len() > 50, "{}", models.len());
}
