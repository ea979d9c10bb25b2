//! Models of several tasks: gradients compared with finite differences, missing labels, names of metrics and predictions.
#![expect(
    clippy::unwrap_used,
    reason = "a model that is not as the test says fails the test"
)]

use std::path::Path;

use rand::{RngExt as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;
use trainyard_input::Batch;
use trainyard_model::{Canned, Model, Prediction, Scores};
use trainyard_run_config::Job;
use trainyard_testing::Seed;
use trainyard_variable::{Read, Values};

use crate::canned::read_rows;
use crate::gradients;

const FEATURES: &str = r#"
model_dir = "unused"
[input]
train = { files = ["unused.csv"], epochs = 1 }
[[feature]]
column = "x"
kind = "numeric"
deep = true
[[feature]]
columns = ["c", "d"]
kind = "hashed"
buckets = 5
deep = { embedding = 3 }
[model]
activation = "tanh"
"#;
const CLICK: &str =
    "[[model.task]]\nname = \"click\"\nhead = \"binary\"\nlabel = { column = \"y\" }\n";
const BUY: &str = "[[model.task]]\nname = \"buy\"\nhead = \"binary\"\nweight = 2.0\nweight_column = \"w\"\n\
                   label = { column = \"z\", positive = \"yes\" }\n";
const MARK: &str = "[[model.task]]\nname = \"mark\"\nhead = \"multi_class\"\nn_classes = 3\nweight = 0.5\n\
                    label = { column = \"m\" }\n";
/// Some labels of each task are missing.
const ROWS: &str =
    "0.3,a,p,1,yes,1,2\n-1.2,b,q,0,,2,1\n0.9,a,r,,no,0.5,\n1.1,,q,0,no,1,0\n-0.4,b,p,1,yes,3,\n";
/// Each kind with its keys; `esmm` has two tasks, the others three.
const KINDS: [(&str, &str); 5] = [
    ("shared_bottom", "hidden_units = [5]\ntower_units = [4]\n"),
    (
        "mmoe",
        "hidden_units = [4]\nexperts = 3\ntower_units = [3]\n",
    ),
    (
        "ple",
        "hidden_units = [4]\nexperts = 2\ntask_experts = 1\nexpert_levels = 2\ntower_units = [3]\n",
    ),
    (
        "ple",
        "hidden_units = [4]\nexperts = 1\ntask_experts = 2\nexpert_levels = 1\n",
    ),
    ("esmm", "tower_units = [5, 3]\n"),
];

fn model(kind: &str, keys: &str) -> Canned {
    let third = if kind == "esmm" { "" } else { MARK };
    let text = format!("{FEATURES}kind = \"{kind}\"\n{keys}{CLICK}{BUY}{third}");
    let job = Job::parse(Path::new("job.toml"), &text, &[])
        .unwrap_or_else(|problems| panic!("{}", trainyard_diagnostic::render_all(&problems)));
    Canned::from_job(&job).unwrap()
}

fn read(model: &Canned, rows: &str) -> Result<Batch, trainyard_input::Error> {
    read_rows(model, "x,c,d,y,z,w,m", rows)
}

fn features(model: &Canned, rows: &str) -> <Canned as Model>::Features {
    model.features(&read(model, rows).unwrap()).unwrap()
}

/// Draws values for all rows of all variables, by their names.
fn random_values(model: &Canned, features: &<Canned as Model>::Features, seed: u64) -> Values {
    let reads = model.reads(features);
    let reads = reads.iter().zip(model.variables());
    reads
        .map(|(read, spec)| {
            let of_name = spec.name.bytes().fold(seed, |seed, byte| {
                seed.wrapping_mul(31).wrapping_add(u64::from(byte))
            });
            let mut random = ChaCha8Rng::seed_from_u64(of_name);
            let mut drawn = || random.random_range(-1.0..1.0);
            let whole: Vec<f32> = (0..spec.len()).map(|_| drawn()).collect();
            match read {
                Read::Whole => whole,
                Read::Rows(rows) => rows
                    .iter()
                    .flat_map(|row| &whole[*row as usize * spec.width()..][..spec.width()])
                    .copied()
                    .collect(),
                Read::Ids(_) | Read::Nothing => Vec::new(),
            }
        })
        .collect()
}

fn scores(model: &Canned, rows: &[&str], seed: u64) -> Scores {
    let mut metrics = model.metrics();
    for rows in rows {
        let features = features(model, rows);
        let values = random_values(model, &features, seed);
        let scratch = &mut Default::default();
        model
            .evaluate(&features, &values, &mut metrics, scratch)
            .unwrap();
    }
    model.scores(&metrics)
}

#[test]
fn gradients_of_tasks_agree_with_finite_differences() {
    let seed = Seed::of_environment(1);
    for (kind, keys) in KINDS {
        for more in ["", "batch_norm = true\n"] {
            let model = model(kind, &format!("loss_reduction = \"sum\"\n{more}{keys}"));
            let features = features(&model, ROWS);
            let mut values = random_values(&model, &features, seed.get());
            let what = format!("{kind} {more}{keys}, {seed}");
            gradients::agree_with_finite_differences(&what, &model, &features, &mut values);
        }
    }
}

#[test]
fn a_missing_label_leaves_the_record_out_of_its_task_alone() {
    let seed = Seed::of_environment(1).get();
    let model = model(KINDS[1].0, KINDS[1].1);
    let all = scores(&model, &[ROWS], seed);
    let of = |labels: fn(&[&str]) -> bool| {
        let rows = ROWS.lines().map(|line| line.split(',').collect::<Vec<_>>());
        let rows = rows.filter(|cells| labels(cells));
        rows.map(|cells| cells.join(",") + "\n").collect::<String>()
    };
    for (task, rows) in [
        ("click", of(|cells| !cells[3].is_empty())),
        ("buy", of(|cells| !cells[4].is_empty())),
        ("mark", of(|cells| !cells[6].is_empty())),
    ] {
        let alone = scores(&model, &[&rows], seed);
        let own = |scores: &Scores| {
            let of_task = scores.iter().filter(|(name, _)| name.starts_with(task));
            let of_task = of_task.map(|(name, value)| (name.clone(), value.to_bits()));
            of_task.collect::<Vec<_>>()
        };
        assert_eq!(own(&all), own(&alone), "{task}");
        assert!(own(&all).len() > 2, "{all:?}");
    }
    // The loss is the sum of weight times loss, in training and in evaluation.
    let sum = all["click/loss"] + 2.0 * all["buy/loss"] + 0.5 * all["mark/loss"];
    assert_eq!(all["loss"], sum);
    let features = features(&model, ROWS);
    let values = random_values(&model, &features, seed);
    let mut gradients = Vec::new();
    let trained = model.train(&features, &values, &mut gradients, &mut Default::default());
    let loss = trained.unwrap().loss;
    assert!((loss - sum).abs() < 1e-5, "{loss} {sum}");
    // The weights of a task count in no other.
    let doubled = ROWS.replace(",1,2\n", ",9,2\n");
    let weighted = scores(&model, &[&doubled], seed);
    assert_eq!(weighted["click/average_loss"], all["click/average_loss"]);
    assert_ne!(weighted["buy/average_loss"], all["buy/average_loss"]);
}

#[test]
fn a_task_without_a_record_has_no_metrics_and_a_model_names_all_before_its_first() {
    let model = model(KINDS[0].0, KINDS[0].1);
    let names = |scores: Scores| scores.into_keys().collect::<Vec<_>>();
    let before = names(model.scores(&model.metrics()));
    for name in [
        "loss",
        "average_loss",
        "click/auc",
        "buy/auc",
        "mark/accuracy",
    ] {
        assert!(before.iter().any(|known| known == name), "{before:?}");
    }
    let found = scores(&model, &["0.3,a,p,1,,1,\n", "0.4,a,q,0,,1,\n"], 1);
    assert_eq!(found["loss"], found["click/loss"]);
    let of_click =
        |name: &String| name == "loss" || name == "average_loss" || name.starts_with("click/");
    assert!(names(found.clone()).iter().all(of_click), "{found:?}");
}

#[test]
fn a_record_without_any_label_is_bad_and_so_is_a_label_that_its_head_does_not_know() {
    let model = model(KINDS[0].0, KINDS[0].1);
    for (row, told) in [
        ("0.3,a,p,,,1,\n", "the labels of all tasks are missing"),
        (
            "0.3,a,p,2,yes,1,\n",
            "0 or 1, or a probability between them",
        ),
        ("0.3,a,p,1,yes,1,3\n", "a class, 0 to 2"),
        ("0.3,a,p,1,yes,-1,\n", "the weight of an example must be"),
    ] {
        let error = read(&model, row).unwrap_err().to_string();
        assert!(error.contains(told), "{row}: {error}");
    }
}

#[test]
fn predictions_of_tasks_have_their_names_and_a_row_has_the_same_bits_alone() {
    for (kind, keys) in KINDS {
        let model = model(kind, keys);
        let of_rows = |rows: &str| {
            let features = features(&model, rows);
            let values = random_values(&model, &features, 3);
            let rows = model.predict(&features, &values, &mut Default::default());
            rows.unwrap()
        };
        let all = of_rows(ROWS);
        for (row, line) in all.iter().zip(ROWS.lines()) {
            let alone = of_rows(&format!("{line}\n"));
            assert_eq!(alone, std::slice::from_ref(row), "{kind}");
            let Some(Prediction::Floats(click)) = row.get("click/logistic") else {
                panic!("{row:?}")
            };
            let Some(Prediction::Floats(buy)) = row.get("buy/logistic") else {
                panic!("{row:?}")
            };
            if kind == "esmm" {
                // pCTCVR = pCTR pCVR.
                assert!(buy[0] < click[0], "{row:?}");
            } else {
                assert!(row.contains_key("mark/probabilities"), "{row:?}");
            }
        }
    }
}
