//! Every tensor of the checkpoints that TensorFlow wrote.

#![expect(
    clippy::unwrap_used,
    reason = "a recorded case that is not as its README says fails the test"
)]

use std::path::PathBuf;

use serde_json::Value;
use trainyard_tensorflow_formats::tensor_bundle::{Bundle, Tensor, Values};
use trainyard_testing::Golden;

/// Returns the folder of the repository's checkpoints, which other tests also read and damage.
pub(crate) fn recorded() -> PathBuf {
    Golden::repository().path("checkpoint")
}

fn flat<'a>(value: &'a Value, out: &mut Vec<&'a Value>) {
    match value {
        Value::Array(items) => items.iter().for_each(|item| flat(item, out)),
        other => out.push(other),
    }
}

/// Parses recorded decimal numbers. They are the shortest that restore the value in its own precision.
fn numbers<T: std::str::FromStr>(values: &[&Value]) -> Vec<T> {
    let parse = |value: &&Value| value.to_string().parse().ok();
    values.iter().map(parse).collect::<Option<_>>().unwrap()
}

fn expected(dtype: &str, value: &Value) -> Values {
    let mut values = Vec::new();
    flat(value, &mut values);
    match dtype {
        "float32" => Values::F32(numbers(&values)),
        "float64" => Values::F64(numbers(&values)),
        "int32" => Values::I32(numbers(&values)),
        "int64" => Values::I64(numbers(&values)),
        "uint8" => Values::U8(numbers(&values)),
        "bfloat16" => Values::Bf16(numbers(&values)),
        "bool" => Values::Bool(
            values
                .iter()
                .map(|value| value.as_bool().unwrap())
                .collect(),
        ),
        "string" => Values::Strings(
            values
                .iter()
                .map(|value| value.as_str().unwrap().into())
                .collect(),
        ),
        other => panic!("{other} is no recorded type"),
    }
}

#[test]
fn golden_checkpoints_are_read_exactly() {
    let golden = Golden::find();
    let Some(recorded) = golden.json("checkpoint/expected.json") else {
        return;
    };
    let recorded = recorded.as_object().unwrap();
    let mut compared = 0;
    for checkpoint in recorded.values() {
        let prefix = golden
            .path("checkpoint")
            .join(checkpoint["prefix"].as_str().unwrap());
        let bundle = Bundle::open(&prefix).unwrap();
        let tensors = checkpoint["tensors"].as_object().unwrap();
        let mut names: Vec<&str> = tensors.keys().map(String::as_str).collect();
        names.sort_unstable();
        assert_eq!(
            bundle
                .tensors()
                .map(|info| info.name.as_str())
                .collect::<Vec<_>>(),
            names
        );
        for (name, recorded) in tensors {
            let Tensor { info, values } = bundle.read(name).unwrap();
            assert_eq!(
                (&info.name, info.dtype.to_string().as_str()),
                (name, recorded["dtype"].as_str().unwrap())
            );
            assert_eq!(serde_json::json!(info.shape), recorded["shape"], "{name}");
            assert_eq!(
                values,
                expected(recorded["dtype"].as_str().unwrap(), &recorded["value"]),
                "{name}"
            );
            assert_eq!(info.slices, if name == "emb" { 3 } else { 0 });
            compared += 1;
        }
    }
    let counts = [
        ("checkpoints", recorded.len(), 2),
        ("tensors equal", compared, 15),
    ];
    golden.assert_counts("checkpoint/expected.json", &counts);
}

#[test]
fn a_folder_stands_for_its_newest_checkpoint_and_an_index_for_its_own() {
    let folder = recorded();
    for path in [
        folder.clone(),
        folder.join("model.ckpt-30.index"),
        folder.join("model.ckpt-30"),
    ] {
        let bundle = Bundle::open(&path).unwrap();
        assert_eq!(bundle.prefix(), folder.join("model.ckpt-30"));
        assert_eq!(
            bundle.read("global_step").unwrap().values,
            Values::I64(vec![30])
        );
    }
}

#[test]
fn rows_of_a_partitioned_table_are_those_of_the_whole() {
    let bundle = Bundle::open(&recorded().join("mixed.ckpt-7")).unwrap();
    let Values::F32(whole) = bundle.read("emb").unwrap().values else {
        panic!("emb is float32")
    };
    for begin in 0..=10 {
        for end in begin..=10 {
            let mut rows = vec![f32::NAN; (end - begin) * 3];
            bundle.read_f32_rows("emb", begin..end, &mut rows).unwrap();
            assert_eq!(rows, whole[begin * 3..end * 3]);
        }
    }
    let mut row = [0.0; 2];
    bundle.read_f32_rows("f64", 0..1, &mut row).unwrap();
    assert_eq!(
        row.map(|value| value.to_string()),
        ["0", "3.14"],
        "1e-300 is no f32"
    );
    bundle.read_f32_rows("bf16", 0..2, &mut row).unwrap();
    assert_eq!(row, [1.5, -2.25]);
}
