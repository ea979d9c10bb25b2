//! DIN: attention over histories.
#![expect(
    clippy::unwrap_used,
    reason = "a model that is not as the test says fails the test"
)]

use trainyard_model::{Canned, Model, Prediction};
use trainyard_testing::Seed;
use trainyard_variable::{Read, Values};

use crate::canned::{canned, random_values, read_rows};
use crate::gradients;

const FEATURES: &str = r#"
model_dir = "unused"
[input]
label = { column = "y" }
train = { files = ["unused.csv"] }
[[feature]]
column = "seen"
kind = "identity"
buckets = 7
separator = "|"
deep = { embedding = 3, table = "items" MORE }
[[feature]]
column = "bought"
kind = "identity"
buckets = 7
separator = "|"
deep = { embedding = 3, table = "items" }
[[feature]]
column = "item"
kind = "identity"
buckets = 7
deep = { embedding = 3, table = "items" }
[[feature]]
column = "x"
kind = "numeric"
deep = true
[train]
max_steps = 1
[model]
kind = "din_classifier"
hidden_units = [4]
activation = "tanh"
loss_reduction = "sum"
attention_units = [5, 3]
"#;
const BOTH: &str = r#"
[[model.attention]]
history = "seen"
target = "item"
history_max = 3
[[model.attention]]
history = "bought"
target = "item"
history_max = 2
keep = "first"
"#;
const OF_SEEN: &str = r#"
[[model.attention]]
history = "seen"
target = "item"
history_max = 3
KEEP
"#;
/// Histories that are empty, shorter and longer than their most, with an id twice; a target that is missing.
const ROWS: &str = "1|2|3|4|2,5|6|1,3,0.5,1\n,0,1,-0.7,0\n6|6,,0,0.1,1\n5|0|2,2|4,,1.2,0\n";

type Features = <Canned as Model>::Features;

fn din(more: &str, attention: &str) -> Canned {
    canned(&(FEATURES.replace(" MORE", more) + attention))
}

fn features(model: &Canned, rows: &str) -> Features {
    let batch = read_rows(model, "seen,bought,item,x,y", rows).unwrap();
    model.features(&batch).unwrap()
}

/// Values of all rows of the tables: those that a batch with each id reads.
fn all_values(model: &Canned, seed: u64) -> Values {
    let every = features(model, "0|1|2|3|4|5|6,0,0,0.0,1\n");
    random_values(model, &every, seed)
}

/// Returns the logit of each row, given the whole tables.
fn logits(model: &Canned, rows: &str, all: &Values) -> Vec<f32> {
    let features = features(model, rows);
    let reads = model.reads(&features);
    let read =
        |((read, spec), all): ((&Read, &trainyard_variable::VariableSpec), &Vec<f32>)| match read {
            Read::Rows(rows) => {
                let width = spec.width();
                let rows = rows.iter().map(|row| *row as usize * width);
                rows.flat_map(|begin| &all[begin..begin + width])
                    .copied()
                    .collect()
            }
            _ => all.clone(),
        };
    let values = reads.iter().zip(model.variables()).zip(all);
    let values: Values = values.map(read).collect();
    let predictions = model.predict(&features, &values, &mut Default::default());
    let logit = |row: &std::collections::BTreeMap<String, Prediction>| match &row["logits"] {
        Prediction::Floats(logits) => logits[0],
        other => panic!("{other:?}"),
    };
    predictions.unwrap().iter().map(logit).collect()
}

#[test]
fn the_gradients_of_attention_agree_with_finite_differences() {
    let seed = Seed::of_environment(1);
    for (more, attention) in [
        ("", BOTH),
        (", max_norm = 0.3", BOTH),
        ("", &OF_SEEN.replace("KEEP", "")),
    ] {
        let model = din(more, attention);
        let features = features(&model, ROWS);
        for draw in 0..2 {
            let mut values = random_values(&model, &features, seed.get().wrapping_add(draw));
            // Attention of small weights has small gradients.
            values.iter_mut().flatten().for_each(|value| *value *= 2.0);
            move_off_the_bound(&model, &mut values);
            let what = format!("din{more}, {seed}, draw {draw}");
            gradients::agree_with_finite_differences(&what, &model, &features, &mut values);
        }
    }
}

/// Moves vectors away from the bound on their norm, where the loss has a kink.
fn move_off_the_bound(model: &Canned, values: &mut Values) {
    for (spec, values) in model.variables().iter().zip(values) {
        if spec.name.contains("/items/") {
            for vector in values.chunks_mut(3) {
                let norm = vector.iter().map(|x| x * x).sum::<f32>().sqrt();
                if (norm - 0.3).abs() < 0.1 {
                    vector.iter_mut().for_each(|value| *value *= 2.0);
                }
            }
        }
    }
}

#[test]
fn a_history_counts_its_last_or_first_ids_in_any_order_and_an_empty_one_is_zeros() {
    let seed = Seed::of_environment(2);
    for (keep, long, kept) in [
        ("", "1|2|3|4|2", "4|2|3"),
        ("keep = \"first\"", "1|2|3|4|2", "3|1|2"),
    ] {
        let model = din("", &OF_SEEN.replace("KEEP", keep));
        let all = all_values(&model, seed.get());
        let row = |seen: &str, item: &str| format!("{seen},,{item},0.5,1\n");
        let given = [
            row(long, "5"),
            row(kept, "5"),
            row("", "5"),
            row("4", "5"),
            row(long, "6"),
        ];
        let found = logits(&model, &given.concat(), &all);
        assert!((found[0] - found[1]).abs() < 1e-6, "{found:?}, {seed}");
        assert!((found[0] - found[3]).abs() > 1e-4, "{found:?}, {seed}");
        assert!((found[0] - found[4]).abs() > 1e-4, "{found:?}, {seed}");
        for (row, logit) in given.iter().zip(&found) {
            assert_eq!(logits(&model, row, &all), [*logit], "{row}, {seed}");
        }
        // Without a history, the weights of the attention say nothing.
        let mut other = all.clone();
        for (spec, values) in model.variables().iter().zip(&mut other) {
            if spec.name.starts_with("din/") {
                values.iter_mut().for_each(|value| *value += 0.3);
            }
        }
        let without = logits(&model, &given.concat(), &other);
        assert_eq!(without[2], found[2], "{seed}");
        assert!((without[0] - found[0]).abs() > 1e-4, "{seed}");
    }
}
