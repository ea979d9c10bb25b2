//! Models with dynamic tables: their reads, and the optimizers that they accept.

use std::path::Path;

use rand::{RngExt as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;
use trainyard_diagnostic::Diagnostic;
use trainyard_feature_column::fingerprint64;
use trainyard_input::{Batch, Bytes, Column, FieldKind, Position};
use trainyard_model::{Canned, Error, ExportOnnx, HashedColumns, Model, any};
use trainyard_run_config::Job;
use trainyard_testing::Seed;
use trainyard_variable::{Access, DynamicTable, Read, Values};

use crate::gradients;

const JOB: &str = r#"
model_dir = "unused"
[input]
label = { column = "y" }
train = { files = ["unused.csv"] }
[[feature]]
column = "user"
kind = "dynamic"
rows_max = 50
admit_after = 2
wide = true
deep = { embedding = 3 }
[[feature]]
column = "item"
kind = "dynamic"
integers = true
separator = "|"
deep = { embedding = 3, combiner = "sum" }
[model]
kind = "dnn_linear_combined_classifier"
hidden_units = [4]
activation = "tanh"
[train]
max_steps = 1
"#;

fn build(more: &str) -> Result<Canned, Error> {
    parse(&format!("{JOB}{more}"))
}

fn parse(text: &str) -> Result<Canned, Error> {
    let job = Job::parse(Path::new("job.toml"), text, &[])
        .unwrap_or_else(|problems| panic!("{}", trainyard_diagnostic::render_all(&problems)));
    Canned::from_job(&job)
}

fn batch(model: &Canned, users: &[&str], items: &[&[i64]]) -> Batch {
    let columns = model.schema().fields.iter().map(|field| match field.kind {
        FieldKind::Int { .. } => {
            let ends = items.iter().scan(0, |end, row| {
                *end += row.len() as u32;
                Some(*end)
            });
            let offsets = std::iter::once(0).chain(ends).collect();
            Column {
                offsets: Some(offsets),
                ..Column::ints(items.concat())
            }
        }
        FieldKind::Bytes { .. } => {
            let mut texts = Bytes::default();
            users.iter().for_each(|user| texts.push(user.as_bytes()));
            Column::bytes(texts)
        }
        _ => Column::floats((0..users.len()).map(|row| (row % 2) as f32).collect()),
    });
    Batch {
        rows: users.len(),
        columns: columns.collect(),
        position: Position::default(),
    }
}

#[test]
fn tables_have_the_rules_of_their_feature_and_their_ids_travel_once() {
    let model = build("").unwrap();
    let table = DynamicTable {
        admit_after: 2,
        ..DynamicTable::KEEP_ALL
    };
    let found: Vec<_> = model
        .variables()
        .iter()
        .filter(|spec| spec.dynamic().is_some())
        .collect();
    let shown: Vec<_> = found
        .iter()
        .map(|spec| (spec.name.as_str(), spec.shape.clone()))
        .collect();
    let scope = "dnn/input_from_feature_columns/input_layer";
    let item = format!("{scope}/item_embedding/embedding_weights");
    let user = format!("{scope}/user_embedding/embedding_weights");
    let expected = [
        ("linear/linear_model/user/weights", vec![50, 1]),
        (item.as_str(), vec![1_000_000, 3]),
        (user.as_str(), vec![50, 3]),
    ];
    assert_eq!(shown, expected);
    assert_eq!(found[2].access, Access::Dynamic(table));
    let features = model
        .features(&batch(&model, &["a", "b", "a"], &[&[7, 8], &[], &[7]]))
        .unwrap();
    let reads = model.reads(&features);
    let ids: Vec<_> = reads
        .iter()
        .filter_map(|read| {
            if let Read::Ids(ids) = read {
                Some(ids)
            } else {
                None
            }
        })
        .collect();
    assert!(
        ids[0].as_ptr() == ids[2].as_ptr(),
        "wide and deep share the ids of user"
    );
    let mut users = [b"a", b"b"].map(|text| fingerprint64(text));
    let mut items = [b"7", b"8"].map(|text| fingerprint64(text));
    users.sort_unstable();
    items.sort_unstable();
    assert_eq!(
        (&**ids[0], &**ids[1]),
        (users.as_slice(), items.as_slice()),
        "the row without item reads none"
    );
}

#[test]
fn shared_rows_are_variables_behind_those_that_a_model_knows() {
    let own = build("").unwrap().variables().len();
    let model = parse(&JOB.replace("rows_max", "shared_row = true\nrows_max")).unwrap();
    assert_eq!(model.variables().len(), own);
    let features = model
        .features(&batch(&model, &["a", "b"], &[&[7], &[]]))
        .unwrap();
    assert_eq!(model.reads(&features).len(), own);
    let model = any(model).unwrap();
    let shared: Vec<_> = model.variables()[own..]
        .iter()
        .map(|spec| (spec.name.as_str(), spec.shape.as_slice(), spec.access))
        .collect();
    let deep =
        "dnn/input_from_feature_columns/input_layer/user_embedding/embedding_weights/shared_row";
    let wide = "linear/linear_model/user/weights/shared_row";
    let expected = [
        (wide, &[1, 1][..], Access::Rows),
        (deep, &[1, 3][..], Access::Rows),
    ];
    assert_eq!(shared, expected);
}

#[test]
fn gradients_agree_with_finite_differences() {
    let model = parse(&JOB.replace("[train]\n", "loss_reduction = \"sum\"\n[train]\n")).unwrap();
    let features = model
        .features(&batch(&model, &["a", "b", "a"], &[&[7, 8], &[], &[7]]))
        .unwrap();
    let seed = Seed::of_environment(1);
    let mut random = ChaCha8Rng::seed_from_u64(seed.get());
    let reads = model.reads(&features);
    let sizes = reads
        .iter()
        .zip(model.variables())
        .map(|(read, spec)| match read {
            Read::Whole => spec.len(),
            Read::Rows(rows) => rows.len() * spec.width(),
            Read::Ids(ids) => ids.len() * spec.width(),
            Read::Nothing => 0,
        });
    let values = sizes.map(|size| (0..size).map(|_| random.random_range(-0.5..0.5)).collect());
    let mut values: Values = values.collect();
    gradients::agree_with_finite_differences(&seed.to_string(), &model, &features, &mut values);
}

#[test]
fn a_graph_cannot_hold_them() {
    let model = build("").unwrap();
    let values: Values = model.variables().iter().map(|_| Vec::new()).collect();
    for hashed in [HashedColumns::Refuse, HashedColumns::AsIds] {
        let refused = model
            .to_onnx(&values, hashed)
            .expect_err("there is no graph")
            .to_string();
        assert_eq!(
            refused,
            "an ONNX graph cannot hold the dynamic tables of `item`, `user`"
        );
    }
    let exporter = "[[exporter]]\nkind = \"final\"\nname = \"graph\"\nformat = \"onnx\"\nhashed_as_ids = true\n";
    let text = Diagnostic::from(build(exporter).expect_err("refused before training")).render();
    assert!(
        text.contains("exporter `graph` of the job") && text.contains("export safetensors"),
        "{text}"
    );
}

#[test]
fn rules_that_move_all_rows_are_refused() {
    for (section, expected) in [
        (
            "[model.dnn_optimizer]\nkind = \"adam\"\n",
            "set lazy = true in [model.dnn_optimizer]",
        ),
        (
            "[model.linear_optimizer]\nkind = \"adam\"\n",
            "`linear/linear_model/user/weights` cannot take: set lazy",
        ),
        (
            "[model.dnn_optimizer]\nkind = \"keras_rmsprop\"\n",
            "set a momentum, or use rmsprop",
        ),
    ] {
        let text = build(section).expect_err("the rule is refused").to_string();
        assert!(
            text.contains(expected) && text.contains("moves all rows at each step"),
            "{text}"
        );
    }
    assert!(build("[model.dnn_optimizer]\nkind = \"adam\"\nlazy = true\n").is_ok());
}
