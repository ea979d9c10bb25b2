//! ONNX graphs of premade estimators: their inputs and outputs, their refusals, and the rows that feed them.
#![expect(
    clippy::unwrap_used,
    reason = "a model that is not as the test says fails the test"
)]

use std::path::Path;

use prost::Message as _;
use trainyard_diagnostic::Diagnostic;
use trainyard_feature_column::fingerprint64;
use trainyard_input::{Batch, Dataset, Format, Options};
use trainyard_model::{Canned, Error, ExportOnnx, HashedColumns, Model, OnnxModel, any};
use trainyard_onnx::{Dimension, GraphProto, ModelProto};
use trainyard_run_config::Job;
use trainyard_variable::Values;

const FEATURES: &str = r#"
model_dir = "unused"
[input]
label = { column = "y" }
train = { files = ["unused.csv"] }
[[feature]]
column = "age"
kind = "numeric"
default = 30.0
wide = true
[[feature]]
column = "age"
kind = "identity"
name = "age_number"
buckets = 100
wide = true
[[feature]]
column = "logits"
kind = "vocabulary"
values = ["p", "q"]
separator = "|"
weights = "w"
wide = true
deep = { embedding = 2, max_norm = 1.0 }
"#;
/// One feature, wide and embedded.
const HASHED: &str = r#"
[[feature]]
column = "word"
kind = "hashed"
buckets = 10
wide = true
[[feature]]
column = "word"
kind = "hashed"
buckets = 10
deep = { embedding = 2 }
[[feature]]
columns = ["word", "logits"]
kind = "crossed"
buckets = 7
wide = true
"#;
const MODEL: &str = r#"
[model]
kind = "dnn_linear_combined_classifier"
hidden_units = [3]
[train]
max_steps = 1
"#;

fn canned(text: &str) -> Result<Canned, Error> {
    Canned::from_job(&Job::parse(Path::new("job.toml"), text, &[]).unwrap())
}

fn values(model: &Canned) -> Values {
    model
        .variables()
        .iter()
        .map(|spec| (0..spec.len()).map(|place| place as f32).collect())
        .collect()
}

fn graph(model: &OnnxModel) -> GraphProto {
    ModelProto::decode(model.file.bytes.as_slice())
        .unwrap()
        .graph
        .unwrap()
}

fn batch(model: &Canned, text: &str) -> Batch {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("data.csv");
    std::fs::write(&file, text).unwrap();
    let options = Options {
        trim: true,
        batch_size: 100,
        ..Options::new(vec![file], Format::Csv)
    };
    Dataset::open(options, model.serving_schema().clone())
        .unwrap()
        .next()
        .unwrap()
        .unwrap()
}

#[test]
fn a_premade_model_is_exported_behind_an_erased_type() {
    let model = canned(&format!("{FEATURES}{MODEL}")).unwrap();
    let values = values(&model);
    let direct = model.to_onnx(&values, HashedColumns::Refuse).unwrap();
    let erased = any(model).unwrap();
    let found = erased.onnx().unwrap();
    assert_eq!(
        found.to_onnx(&values, HashedColumns::Refuse).unwrap(),
        direct
    );
}

#[test]
fn inputs_are_named_by_columns_and_told_apart() {
    let model = canned(&format!("{FEATURES}{MODEL}")).unwrap();
    let onnx = model
        .to_onnx(&values(&model), HashedColumns::Refuse)
        .unwrap();
    let shown: Vec<String> = onnx
        .inputs
        .iter()
        .map(|input| {
            let columns = match &input.port.shape[1] {
                Dimension::Fixed(width) => width.to_string(),
                Dimension::Any(name) => name.clone(),
            };
            format!("{} {} {columns}", input.port.name, input.port.tensor.name())
        })
        .collect();
    let expected = [
        "age/float32 float32 1",
        "age/int64 int64 1",
        "logits_2 string logits_2/n",
        "w float32 w/n",
    ];
    assert_eq!(shown, expected);
    let described = onnx.describe();
    assert_eq!(
        described["opset"],
        serde_json::json!({"ai.onnx": 17, "ai.onnx.ml": 3})
    );
    assert_eq!(
        described["inputs"][2],
        serde_json::json!({
            "name": "logits_2", "dtype": "string", "shape": ["batch", "logits_2/n"], "column": "logits",
            "separator": "|", "missing": "",
        })
    );
    let outputs: Vec<String> = graph(&onnx)
        .output
        .into_iter()
        .map(|port| port.name)
        .collect();
    let keys = [
        "logits",
        "logistic",
        "probabilities",
        "class_ids",
        "classes",
        "all_class_ids",
        "all_classes",
    ];
    assert_eq!(outputs, keys);
}

#[test]
fn tables_are_the_variables_with_bounded_rows_where_a_bound_is_set() {
    let model = canned(&format!("{FEATURES}{MODEL}")).unwrap();
    let graph = graph(
        &model
            .to_onnx(&values(&model), HashedColumns::Refuse)
            .unwrap(),
    );
    let tensor = |end: &str| {
        let found = graph
            .initializer
            .iter()
            .find(|tensor| tensor.name.ends_with(end))
            .unwrap();
        let floats = found.raw_data.chunks_exact(4);
        floats
            .map(|bytes| f32::from_le_bytes(bytes.try_into().unwrap()))
            .collect::<Vec<f32>>()
    };
    assert_eq!(tensor("linear_model/age/weights"), [0.0]);
    let clipped = tensor("embedding_weights/clipped");
    assert_eq!(clipped[..2], [0.0, 1.0], "within the bound");
    assert!(
        (clipped[2].hypot(clipped[3]) - 1.0).abs() < 1e-6,
        "{clipped:?}"
    );
}

#[test]
fn features_that_need_a_hash_are_refused_by_name_or_become_ids() {
    let model = canned(&format!("{FEATURES}{HASHED}{MODEL}")).unwrap();
    let refused = model
        .to_onnx(&values(&model), HashedColumns::Refuse)
        .unwrap_err();
    let text = Diagnostic::from(refused).render();
    for part in [
        "E6001",
        "feature `word`: a hashed column",
        "feature `logits_X_word`: a crossed",
        "--hashed-as-ids",
    ] {
        assert!(text.contains(part), "{part} is not in {text}");
    }
    let onnx = model
        .to_onnx(&values(&model), HashedColumns::AsIds)
        .unwrap();
    let names: Vec<&str> = onnx
        .inputs
        .iter()
        .map(|input| input.port.name.as_str())
        .collect();
    let expected = [
        "age/float32",
        "age/int64",
        "logits_2",
        "w",
        "logits_X_word/ids",
        "word/ids",
    ];
    assert_eq!(names, expected, "the two features `word` have the same ids");
}

#[test]
fn an_exporter_that_could_not_write_is_refused_before_training() {
    let exporter = "[[exporter]]\nkind = \"final\"\nname = \"graph\"\nformat = \"onnx\"\n";
    let text =
        Diagnostic::from(canned(&format!("{FEATURES}{HASHED}{MODEL}{exporter}")).unwrap_err())
            .render();
    assert!(
        text.contains("exporter `graph`") && text.contains("exporter.hashed_as_ids = true"),
        "{text}"
    );
    canned(&format!(
        "{FEATURES}{HASHED}{MODEL}{exporter}hashed_as_ids = true\n"
    ))
    .unwrap();
    canned(&format!("{FEATURES}{MODEL}{exporter}")).unwrap();
}

#[test]
fn values_of_another_size_are_refused() {
    let model = canned(&format!("{FEATURES}{MODEL}")).unwrap();
    let mut values = values(&model);
    values[0].pop();
    let refused = model.to_onnx(&values, HashedColumns::Refuse).unwrap_err();
    let first = &model.variables()[0];
    assert!(
        matches!(&refused, Error::Values { variable, wanted, given }
            if *variable == first.name && *wanted == first.len() && *given + 1 == first.len()),
        "{refused}"
    );
}

#[test]
fn rows_hold_what_the_graph_takes_and_the_ids_of_every_feature() {
    let model = canned(&format!("{FEATURES}{HASHED}{MODEL}")).unwrap();
    let rows = model
        .graph_rows(&batch(&model, "age,logits,w,word\n7,q|z|p,1|2|3,a\n,,,\n"))
        .unwrap();
    let shown: Vec<String> = rows
        .into_iter()
        .map(|row| serde_json::Value::Object(row).to_string())
        .collect();
    let ids = |text: &[u8]| fingerprint64(text) % 10;
    assert!(
        shown[0].contains(&format!("\"word/ids\":[{}]", ids(b"a"))),
        "{}",
        shown[0]
    );
    for part in [
        "\"age/float32\":[7.0]",
        "\"age/int64\":[7]",
        "\"logits_weighted_by_w/ids\":[1,0]",
        "\"logits_2\":[\"q\",\"z\",\"p\"]",
    ] {
        assert!(shown[0].contains(part), "{part} is not in {}", shown[0]);
    }
    for part in [
        "\"age/float32\":[30.0]",
        "\"age/int64\":[-1]",
        "\"age_number/ids\":[]",
        "\"w\":[]",
        "\"word/ids\":[]",
    ] {
        assert!(shown[1].contains(part), "{part} is not in {}", shown[1]);
    }
}

#[test]
fn a_model_that_reads_nothing_takes_the_number_of_records() {
    let text = FEATURES[..FEATURES.find("[[feature]]").unwrap()].to_owned()
        + "[train]\nmax_steps = 1\n[model]\nkind = \"baseline_classifier\"\n";
    let model = canned(&text).unwrap();
    let onnx = model
        .to_onnx(&values(&model), HashedColumns::Refuse)
        .unwrap();
    assert_eq!(onnx.inputs.len(), 1);
    assert_eq!(
        (
            onnx.inputs[0].port.name.as_str(),
            onnx.inputs[0].port.shape.len()
        ),
        ("records", 1)
    );
}
