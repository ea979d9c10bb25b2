//! Premade estimators: gradients compared with finite differences, names compared with TensorFlow's, labels and
//! predictions.
#![expect(
    clippy::unwrap_used,
    reason = "a model that is not as the test says fails the test"
)]

use std::path::Path;

use rand::{RngExt as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;
use trainyard_input::{Batch, Dataset, Format, Options};
use trainyard_model::{Canned, Model, Prediction};
use trainyard_run_config::Job;
use trainyard_testing::Seed;
use trainyard_variable::{Read, Values};

use crate::gradients;

const FEATURES: &str = r#"
model_dir = "unused"
[input]
label = { column = "y" LABEL }
weight_column = "w"
train = { files = ["unused.csv"] }
[[feature]]
column = "x"
kind = "numeric"
wide = true
deep = true
[[feature]]
column = "x"
kind = "bucketized"
boundaries = [-0.5, 0.5]
wide = true
deep = true
[[feature]]
column = "c"
kind = "hashed"
buckets = 7
wide = true
deep = { embedding = 3 }
[[feature]]
column = "d"
kind = "vocabulary"
values = ["p", "q"]
oov_buckets = 1
wide = true
deep = { indicator = true }
[[feature]]
columns = ["x_bucketized", "c"]
kind = "crossed"
buckets = 5
wide = true
[train]
max_steps = 1
"#;

/// Kinds that are compositions of layers, with keys that only they use.
const COMPOSITIONS: [(&str, &str); 5] = [
    ("dlrm", "bottom_units = [5]\n"),
    ("xdeepfm", "cin_units = [4, 3]\n"),
    ("masknet", "mask_units = [5, 4]\nmask_ratio = 1\n"),
    (
        "final_mlp",
        "second_hidden_units = [5, 6]\nfusion_heads = 2\n",
    ),
    (
        "autoint",
        "attention_layers = 2\nattention_heads = 2\nattention_dim = 3\n",
    ),
];

fn model(kind: &str, label: &str) -> Canned {
    canned(&job(kind, label))
}

/// Returns the model of a job.
pub(crate) fn canned(job: &str) -> Canned {
    let job = Job::parse(Path::new("job.toml"), job, &[])
        .unwrap_or_else(|problems| panic!("{}", trainyard_diagnostic::render_all(&problems)));
    Canned::from_job(&job).unwrap()
}

/// Returns a job that ends within its section `[model]`.
fn job(kind: &str, label: &str) -> String {
    let mut text = FEATURES.replace("LABEL", label);
    if kind.starts_with("baseline") {
        text = text[..text.find("[[feature]]").unwrap()].to_owned()
            + "[train]\nmax_steps = 1\n[model]\n";
    } else if kind.starts_with("linear") {
        text = text
            .replace("deep = true\n", "")
            .replace("deep = { embedding = 3 }\n", "")
            .replace("deep = { indicator = true }\n", "");
    } else {
        // A smooth activation, because finite differences are wrong at kinks.
        text.push_str("[model]\nhidden_units = [6, 4]\nactivation = \"tanh\"\n");
    }
    if kind.starts_with("dnn_c") || kind.starts_with("dnn_r") || kind.starts_with("dcn") {
        text = text.replace("wide = true\n", "").replace(
            "buckets = 5\n",
            "buckets = 5\ndeep = { embedding = 2, max_norm = 0.4 }\n",
        );
    }
    let composed = COMPOSITIONS
        .iter()
        .find(|(family, _)| kind.starts_with(family));
    if let Some((_, keys)) = composed {
        text.push_str(keys);
    }
    if composed.is_some() && !kind.contains("fm") {
        text = text.replace("wide = true\n", "");
    }
    if kind.contains("fm") || composed.is_some() {
        text = text.replace(
            "buckets = 5\n",
            "buckets = 5\ndeep = { embedding = 3, combiner = \"sum\" }\n",
        );
    }
    if kind.starts_with("fm") {
        text = text.replace("hidden_units = [6, 4]\nactivation = \"tanh\"\n", "");
    }
    let kind = match kind.strip_suffix(" of low rank") {
        Some(kind) => {
            text.push_str("cross_projection_dim = 3\n");
            kind
        }
        None => kind,
    };
    let kind = match kind.strip_suffix(" serial") {
        Some(kind) => {
            text.push_str("mask_blocks = \"serial\"\n");
            kind
        }
        None => kind,
    };
    let kind = match kind.strip_suffix(" normalised") {
        Some(kind) => {
            text.push_str("batch_norm = true\n");
            kind
        }
        None => kind,
    };
    if !text.contains("[model]") {
        text.push_str("[model]\n");
    }
    text + &format!("kind = \"{kind}\"\n")
}

fn batch(model: &Canned, rows: &str) -> Batch {
    read_rows(model, "x,c,d,y,w", rows).unwrap()
}

/// Reads the rows of a CSV file, whose columns are `header`, as one batch.
pub(crate) fn read_rows(
    model: &Canned,
    header: &str,
    rows: &str,
) -> Result<Batch, trainyard_input::Error> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("rows.csv");
    std::fs::write(&path, format!("{header}\n{rows}")).unwrap();
    let options = Options {
        trim: true,
        batch_size: 100,
        ..Options::new(vec![path], Format::Csv)
    };
    let mut batches = Dataset::open(options, model.schema().clone())?;
    batches.next().unwrap()
}

pub(crate) fn random_values(
    model: &Canned,
    features: &<Canned as Model>::Features,
    seed: u64,
) -> Values {
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let reads = model.reads(features);
    let sizes = reads
        .iter()
        .zip(model.variables())
        .map(|(read, spec)| match read {
            Read::Whole => spec.len(),
            Read::Rows(rows) => rows.len() * spec.width(),
            Read::Ids(ids) => ids.len() * spec.width(),
            Read::Nothing => 0,
        });
    sizes
        .map(|size| (0..size).map(|_| random.random_range(-0.5..0.5)).collect())
        .collect()
}

/// Bound on the norm of the rows of an embedding, as the jobs set it.
const BOUND: f32 = 0.4;
const ROWS: &str = "0.3,a,p,1,1\n-1.2,b,q,0,2\n0.9,a,r,1,0.5\n2.1,,q,0,1\n";

#[test]
fn gradients_agree_with_finite_differences() {
    let seed = Seed::of_environment(1);
    for (kind, label) in [
        ("linear_classifier", ""),
        ("linear_regressor", ""),
        ("dnn_classifier", ""),
        ("dnn_linear_combined_classifier", ""),
        ("dnn_linear_combined_regressor", ""),
        (
            "dnn_linear_combined_classifier",
            ", vocabulary = [\"0\", \"1\", \"2\"]",
        ),
        ("dnn_classifier normalised", ""),
        ("fm_classifier", ""),
        ("deepfm_classifier", ""),
        ("dcn_classifier", ""),
        ("dcn_classifier of low rank", ""),
        ("dlrm_classifier", ""),
        (
            "dlrm_classifier normalised",
            ", vocabulary = [\"0\", \"1\", \"2\"]",
        ),
        ("xdeepfm_classifier", ""),
        ("xdeepfm_classifier", ", vocabulary = [\"0\", \"1\", \"2\"]"),
        ("final_mlp_classifier", ""),
        ("final_mlp_classifier normalised", ""),
        (
            "final_mlp_classifier",
            ", vocabulary = [\"0\", \"1\", \"2\"]",
        ),
        ("masknet_classifier", ""),
        ("masknet_classifier serial", ""),
        ("masknet_classifier", ", vocabulary = [\"0\", \"1\", \"2\"]"),
        ("autoint_classifier", ""),
        ("autoint_classifier", ", vocabulary = [\"0\", \"1\", \"2\"]"),
        (
            "baseline_classifier",
            ", vocabulary = [\"0\", \"1\", \"2\"]",
        ),
    ] {
        let model = canned(&(job(kind, label) + "loss_reduction = \"sum\"\n"));
        let features = model.features(&batch(&model, ROWS)).unwrap();
        for draw in 0..2 {
            let mut values = random_values(&model, &features, seed.get().wrapping_add(draw));
            move_off_the_bound(&model, &mut values);
            let what = format!("{kind}{label}, {seed}, draw {draw}");
            gradients::agree_with_finite_differences(&what, &model, &features, &mut values);
        }
    }
}

#[test]
fn cross_layers_of_low_rank_compute_what_their_products_compute_as_whole_kernels() {
    let seed = Seed::of_environment(1);
    let low = canned(&job("dcn_classifier of low rank", ""));
    let full = canned(&job("dcn_classifier", ""));
    let features = low.features(&batch(&low, ROWS)).unwrap();
    let values = random_values(&low, &features, seed.get());
    let place = |model: &Canned, name: &str| {
        let mut names = model.variables().iter();
        names.position(|spec| spec.name == name)
    };
    let whole: Values = full
        .variables()
        .iter()
        .map(|spec| {
            let own = &values[place(&low, &spec.name).unwrap()];
            let projection = spec
                .name
                .strip_suffix("/kernel")
                .map(|scope| format!("{scope}/projection"));
            let Some(projection) = projection.and_then(|name| place(&low, &name)) else {
                return own.clone();
            };
            let [rows, rank] = low.variables()[projection].shape[..] else {
                panic!("a projection is a matrix")
            };
            assert_eq!(rank, 3);
            let columns = own.len() / rank;
            let mut product = vec![0.0; rows * columns];
            for row in 0..rows {
                for column in 0..columns {
                    product[row * columns + column] = (0..rank)
                        .map(|k| values[projection][row * rank + k] * own[k * columns + column])
                        .sum();
                }
            }
            product
        })
        .collect();
    let logits = |model: &Canned, values: &Values| {
        let mut gradients = Vec::new();
        let done = model.train(&features, values, &mut gradients, &mut Default::default());
        done.unwrap().loss
    };
    let (of_low, of_full) = (logits(&low, &values), logits(&full, &whole));
    assert!(
        (of_low - of_full).abs() < 1e-6 * of_full.abs(),
        "{of_low} {of_full}, {seed}"
    );
    assert_eq!(
        low.variables().len(),
        full.variables().len() + 2,
        "a projection a layer"
    );
}

#[test]
fn penalties_add_their_gradient_to_the_parameters_that_they_name_and_to_no_other() {
    let seed = Seed::of_environment(1);
    let penalties = [
        (
            "linear_regularizer",
            "{ l1 = 0.125, l2 = 0.0 }",
            [0.125, 0.0],
        ),
        ("embedding_regularizer", "{ l2 = 0.25 }", [0.0, 0.25]),
        (
            "kernel_regularizer",
            "{ l1 = 0.5, l2 = 0.0625 }",
            [0.5, 0.0625],
        ),
    ];
    let of_name = |name: &str| {
        let ends = [
            name.starts_with("linear/") && name.ends_with("/weights"),
            name.ends_with("/embedding_weights"),
            !name.starts_with("dcn/") && name.ends_with("/kernel"),
        ];
        ends.iter().position(|ends| *ends)
    };
    for (kind, keys) in [
        ("linear_classifier", 0..1),
        ("dnn_classifier", 1..3),
        ("dnn_linear_combined_classifier", 0..3),
        ("fm_classifier", 0..2),
        ("deepfm_classifier", 0..3),
        ("dcn_classifier", 1..3),
        ("dlrm_classifier", 1..3),
        ("autoint_classifier", 1..3),
        ("masknet_classifier", 1..3),
        ("final_mlp_classifier", 1..3),
        ("xdeepfm_classifier", 0..3),
    ] {
        let plain = canned(&job(kind, ""));
        let keys = &penalties[keys];
        let text = keys
            .iter()
            .map(|(key, given, _)| format!("{key} = {given}\n"));
        let penalized = canned(&(job(kind, "") + &text.collect::<String>()));
        let features = plain.features(&batch(&plain, ROWS)).unwrap();
        let values = random_values(&plain, &features, seed.get());
        let trained = |model: &Canned| {
            let mut gradients = Vec::new();
            let done = model.train(&features, &values, &mut gradients, &mut Default::default());
            (gradients, done.unwrap().loss)
        };
        let (without, loss) = trained(&plain);
        let (with, told) = trained(&penalized);
        assert_eq!(loss, told, "{kind}: the loss is told without the penalty");
        for (variable, spec) in plain.variables().iter().enumerate() {
            let penalty = of_name(&spec.name).map(|place| penalties[place]);
            let penalty = penalty.filter(|penalty| keys.contains(penalty));
            let [l1, l2] = penalty.map_or([0.0, 0.0], |(_, _, factors)| factors);
            for (place, value) in values[variable].iter().enumerate() {
                let wanted = without[variable][place] + l1 * value.signum() + 2.0 * l2 * value;
                let given = with[variable][place];
                let name = &spec.name;
                assert!(
                    (given - wanted).abs() < 1e-5,
                    "{kind}, {seed}: {name}[{place}] {given}, {wanted}"
                );
            }
        }
    }
}

/// Moves rows of the bounded embedding away from its bound, where the loss has a kink.
fn move_off_the_bound(model: &Canned, values: &mut Values) {
    for (spec, values) in model.variables().iter().zip(values) {
        if spec.name.contains("c_X_x_bucketized_embedding") && spec.width() == 2 {
            for row in values
                .chunks_mut(2)
                .filter(|row| (row[0].hypot(row[1]) - BOUND).abs() < 0.05)
            {
                row.iter_mut().for_each(|value| *value *= 1.3);
            }
        }
    }
}

#[test]
fn variables_have_tensorflows_names_and_shapes() {
    let model = model("dnn_linear_combined_classifier", "");
    let given: Vec<(&str, Vec<usize>)> = model
        .variables()
        .iter()
        .map(|spec| (spec.name.as_str(), spec.shape.clone()))
        .collect();
    let expected = [
        ("linear/linear_model/x/weights", vec![1, 1]),
        ("linear/linear_model/c/weights", vec![7, 1]),
        ("linear/linear_model/c_X_x_bucketized/weights", vec![5, 1]),
        ("linear/linear_model/d/weights", vec![3, 1]),
        ("linear/linear_model/x_bucketized/weights", vec![3, 1]),
        ("linear/linear_model/bias_weights", vec![1]),
        (
            "dnn/input_from_feature_columns/input_layer/c_embedding/embedding_weights",
            vec![7, 3],
        ),
        ("dnn/hiddenlayer_0/kernel", vec![10, 6]),
        ("dnn/hiddenlayer_0/bias", vec![6]),
        ("dnn/hiddenlayer_1/kernel", vec![6, 4]),
        ("dnn/hiddenlayer_1/bias", vec![4]),
        ("dnn/logits/kernel", vec![4, 1]),
        ("dnn/logits/bias", vec![1]),
    ];
    assert_eq!(given, expected);
}

#[test]
fn predictions_have_tensorflows_keys() {
    let model = model(
        "dnn_classifier",
        ", vocabulary = [\"no\", \"perhaps\", \"yes\"]",
    );
    let labelled = batch(&model, "0.3,a,p,yes,1\n-1.2,b,q,no,2\n");
    let features = model.features(&labelled).unwrap();
    let values = random_values(&model, &features, 3);
    let predictions = model
        .predict(&features, &values, &mut Default::default())
        .unwrap();
    assert_eq!(predictions.len(), 2);
    let keys: Vec<&str> = predictions[0].keys().map(String::as_str).collect();
    assert_eq!(
        keys,
        [
            "all_class_ids",
            "all_classes",
            "class_ids",
            "classes",
            "logits",
            "probabilities"
        ]
    );
    let Prediction::Floats(probabilities) = &predictions[0]["probabilities"] else {
        panic!()
    };
    assert!((probabilities.iter().sum::<f32>() - 1.0).abs() < 1e-6);
}

#[test]
fn dropout_thins_training_alone_and_the_same_way_for_the_same_batch() {
    let text = FEATURES
        .replace("LABEL", "")
        .replace("wide = true\n", "")
        .replace("buckets = 5\n", "buckets = 5\ndeep = { embedding = 2 }\n");
    let build = |dropout: &str| {
        let text =
            format!("{text}[model]\nkind = \"dnn_classifier\"\nhidden_units = [64]\n{dropout}");
        let job = Job::parse(Path::new("job.toml"), &text, &[]).unwrap();
        Canned::from_job(&job).unwrap()
    };
    let plain = build("");
    let thinned = build("dropout = 0.5\n");
    let mut features = plain.features(&batch(&plain, ROWS)).unwrap();
    let values = random_values(&plain, &features, 5);
    let loss = |model: &Canned, features: &<Canned as Model>::Features| {
        model
            .train(features, &values, &mut Vec::new(), &mut Default::default())
            .unwrap()
            .loss
    };
    let first = loss(&thinned, &features);
    assert_eq!(loss(&thinned, &features), first);
    assert!((first - loss(&plain, &features)).abs() > 1e-4);
    let predicted = |model: &Canned| {
        let predictions = model.predict(&features, &values, &mut Default::default());
        predictions.unwrap()
    };
    assert_eq!(predicted(&thinned), predicted(&plain));
    features.position.batch += 1;
    assert_ne!(
        loss(&thinned, &features),
        first,
        "another batch, another mask"
    );
}

#[test]
fn a_row_is_predicted_with_the_same_bits_alone_and_in_a_batch() {
    let seed = Seed::of_environment(1);
    for (family, _) in COMPOSITIONS {
        let model = model(&format!("{family}_classifier"), "");
        let features = model.features(&batch(&model, ROWS)).unwrap();
        let tables: Values = model
            .variables()
            .iter()
            .zip(random_values(&model, &features, seed.get()))
            .map(|(spec, values)| {
                let mut all = values;
                let some = all.clone();
                while all.len() < spec.len() {
                    all.extend_from_slice(&some);
                }
                all.truncate(spec.len());
                all
            })
            .collect();
        let predict = |rows: &str| {
            let features = model.features(&batch(&model, rows)).unwrap();
            let reads = model.reads(&features);
            let read = reads.iter().zip(model.variables()).zip(&tables);
            let values: Values = read
                .map(|((read, spec), table)| match read {
                    Read::Rows(rows) => {
                        let width = spec.width();
                        let rows = rows
                            .iter()
                            .map(|row| &table[*row as usize * width..][..width]);
                        rows.flatten().copied().collect()
                    }
                    _ => table.clone(),
                })
                .collect();
            model
                .predict(&features, &values, &mut Default::default())
                .unwrap()
        };
        let together = predict(ROWS);
        for (row, expected) in ROWS.lines().zip(&together) {
            assert_eq!(
                predict(&format!("{row}\n"))[0],
                *expected,
                "{family}, {seed}"
            );
        }
        assert_ne!(together[0], together[1], "{family}, {seed}: rows differ");
    }
}

#[test]
fn the_group_auc_is_the_mean_of_the_groups() {
    let text = FEATURES.replace("LABEL", "")
        + "[eval]\ngroup_auc_column = \"d\"\n[model]\nkind = \"linear_classifier\"\n";
    let text = text
        .replace("deep = true\n", "")
        .replace("deep = { embedding = 3 }\n", "")
        .replace("deep = { indicator = true }\n", "");
    let job = Job::parse(Path::new("job.toml"), &text, &[])
        .unwrap_or_else(|problems| panic!("{}", trainyard_diagnostic::render_all(&problems)));
    let model = Canned::from_job(&job).unwrap();
    // The score is x: in group p the order is right, in group q wrong, and group r has a single class.
    let rows = "1,a,p,0,1\n2,a,p,1,1\n3,a,q,1,1\n4,a,q,0,1\n9,a,r,1,1\n";
    let features = model.features(&batch(&model, rows)).unwrap();
    let mut values: Values = random_values(&model, &features, 1)
        .iter()
        .map(|v| vec![0.0; v.len()])
        .collect();
    let x = model
        .variables()
        .iter()
        .position(|spec| spec.name.ends_with("/x/weights"))
        .unwrap();
    values[x] = vec![1.0];
    let mut metrics = model.metrics();
    model
        .evaluate(&features, &values, &mut metrics, &mut Default::default())
        .unwrap();
    let scores = model.scores(&metrics);
    assert_eq!(scores["auc_group"], 0.5);
    assert!(
        (scores["auc_exact"] - 4.0 / 6.0).abs() < 1e-9,
        "{}",
        scores["auc_exact"]
    );
}

#[test]
fn models_that_a_head_or_feature_forbids_are_refused_with_the_reason() {
    let refuse = |kind: &str, change: (&str, &str), more: &str| {
        let text = FEATURES.replace("LABEL", "").replace(change.0, change.1);
        let text = format!("{text}[model]\nkind = \"{kind}\"\n{more}");
        let job = Job::parse(Path::new("job.toml"), &text, &[])
            .unwrap_or_else(|problems| panic!("{}", trainyard_diagnostic::render_all(&problems)));
        Canned::from_job(&job).unwrap_err().to_string()
    };
    let one = refuse("fm_classifier", ("", ""), "");
    assert!(one.contains("at least 2 embeddings, given 1"), "{one}");
    let both = ("buckets = 5\n", "buckets = 5\ndeep = { embedding = 4 }\n");
    let sizes = refuse("fm_classifier", both, "");
    assert!(sizes.contains("of one dimension, given 4 and 3"), "{sizes}");
    let same = ("buckets = 5\n", "buckets = 5\ndeep = { embedding = 3 }\n");
    let units = refuse(
        "fm_estimator",
        same,
        "head = \"multi_label\"\nn_classes = 4\n",
    );
    assert!(units.contains("has one logit, its head needs 4"), "{units}");
    const CROSSED: &str = "[[feature]]\ncolumns = [\"x_bucketized\", \"c\"]\nkind = \"crossed\"\nbuckets = 5\nwide = true\n";
    let layers = "hidden_units = [4]\n";
    let one = refuse("dlrm_classifier", (CROSSED, ""), layers);
    let attention = refuse("autoint_classifier", (CROSSED, ""), "");
    let told = "an autoint_classifier needs at least 2 embeddings, given 1";
    assert!(attention.contains(told), "{attention}");
    let none = refuse(
        "xdeepfm_classifier",
        same,
        "hidden_units = [4]\ncin_units = []\n",
    );
    assert!(
        none.contains("cin_units must name at least 1 layer"),
        "{none}"
    );
    let heads = refuse(
        "final_mlp_classifier",
        same,
        "hidden_units = [4]\nfusion_heads = 3\n",
    );
    assert!(heads.contains("given 3 heads and a width of 4"), "{heads}");
    let none = refuse("masknet_classifier", same, "mask_units = []\n");
    assert!(
        none.contains("mask_units must name at least 1 block"),
        "{none}"
    );
    let told = "a dlrm_classifier needs at least 2 embeddings, given 1";
    assert!(one.contains(told), "{one}");
    let sizes = refuse("dlrm_classifier", both, layers);
    assert!(sizes.contains("of one dimension, given 4 and 3"), "{sizes}");
}
