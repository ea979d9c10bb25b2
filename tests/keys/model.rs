//! Rows of `[model]`.

use crate::keys::row::{Row, row};
use crate::keys::see::{metric_names, metrics, trained, variables};
use crate::keys::site::{EVALUATE, How};

/// Trains a model of the tests' own, which has one optimizer.
const TRAIN_CUSTOM: How = How {
    name: "custom model",
    run: |site| {
        let job = site.job().to_string_lossy().into_owned();
        let ended =
            trainyard_tests::Program::start(env!("CARGO_BIN_EXE_nemesis"), &["train", &job], &[])
                .wait(crate::keys::site::LIMIT);
        site.ran(ended.code, ended.output)
    },
};

/// Trains the tutorial's model by hand.
const TRAIN_MLP: How = How {
    name: "custom mlp",
    run: |site| {
        let job = site.job().to_string_lossy().into_owned();
        let mlp = env!("CARGO_BIN_EXE_custom-mlp");
        let ended = trainyard_tests::Program::start(mlp, &["train", &job], &[])
            .wait(crate::keys::site::LIMIT);
        site.ran(ended.code, ended.output)
    },
};

const MLP: [(&str, &str); 2] = [
    (
        "model",
        "{ kind = \"custom_classifier\", params = { units = 3 } }",
    ),
    (
        "feature",
        "[{ columns = [\"x\", \"z\"], kind = \"numeric\" }]",
    ),
];

const CUSTOM: [(&str, &str); 6] = [
    (
        "model",
        "{ kind = \"custom_regressor\", hidden_units = [1] }",
    ),
    (
        "feature",
        "[{ column = \"n\", kind = \"identity\", buckets = 6 }]",
    ),
    ("input.label.column", "\"n\""),
    ("input.eval", "-"),
    ("train.max_steps", "3"),
    ("model.optimizer", "{ kind = \"sgd\", learning_rate = 1.0 }"),
];

/// A model of the kind, whose features the others keep.
fn deep(kind: &str, more: &str) -> [(&'static str, String); 2] {
    [
        ("model", format!("{{ kind = \"{kind}\"{more} }}")),
        ("feature.1.wide", "-".to_owned()),
    ]
}

/// A linear model with this head, of this label.
fn head(kind: &str, more: &str, label: &str) -> [(&'static str, String); 4] {
    [
        ("model", format!("{{ kind = \"{kind}\"{more} }}")),
        ("feature.0.wide", "true".to_owned()),
        ("feature.1.deep", "-".to_owned()),
        ("input.label", format!("{{ column = \"{label}\" }}")),
    ]
}

fn over<const N: usize>(row: Row, pairs: &[(&'static str, String); N]) -> Row {
    row.over(
        &pairs
            .each_ref()
            .map(|(path, value)| (*path, value.as_str())),
    )
}

pub(crate) fn rows() -> Vec<Row> {
    let mut rows = of_kinds();
    rows.extend(of_parts());
    rows.extend(of_heads());
    rows.extend(of_layers());
    rows.extend(of_attention());
    rows.extend(of_tasks());
    let key = "model.embedding_initializer";
    rows.extend(crate::keys::feature::of_initial_values(key, key, |row| row));
    for key in [
        "model.embedding_regularizer",
        "model.linear_regularizer",
        "model.kernel_regularizer",
    ] {
        rows.extend(crate::keys::feature::of_penalty(key, key, |row| row));
    }
    rows
}

/// A row for each kind of model, which has other variables than a linear one, or other metrics.
fn of_kinds() -> Vec<Row> {
    let words = |parts: &str| {
        format!("[{{ columns = [\"word\", \"user\"], kind = \"hashed\", buckets = 7{parts} }}]")
    };
    let embedded = ", deep = { embedding = 3 }";
    let families = [
        ("baseline", "", crate::keys::site::ABSENT.to_owned()),
        ("dnn", ", hidden_units = [4]", words(embedded)),
        (
            "dnn_linear_combined",
            ", hidden_units = [4]",
            words(&format!(", wide = true{embedded}")),
        ),
        ("fm", "", words(embedded)),
        ("deepfm", ", hidden_units = [4]", words(embedded)),
        ("dcn", ", hidden_units = [4]", words(embedded)),
        ("dlrm", ", hidden_units = [4]", words(embedded)),
        ("autoint", ", attention_dim = 4", words(embedded)),
        (
            "xdeepfm",
            ", hidden_units = [4], cin_units = [3]",
            words(embedded),
        ),
        ("final_mlp", ", hidden_units = [4]", words(embedded)),
        ("masknet", ", mask_units = [4]", words(embedded)),
    ];
    let mut rows = Vec::new();
    for (goal, head) in [
        ("classifier", ""),
        ("regressor", ""),
        ("estimator", ", head = \"poisson\""),
    ] {
        let model =
            |family: &str, more: &str| format!("{{ kind = \"{family}_{goal}\"{head}{more} }}");
        let features = words("");
        let linear = model("linear", "");
        let linear = row("model.kind").over(&[("model", &linear), ("feature", &features)]);
        for (family, more, features) in &families {
            let changed = linear
                .clone()
                .set("model", model(family, more))
                .set("feature", features.clone());
            rows.push(changed.sees(variables));
        }
        // Premade models are all that the program has.
        rows.push(
            linear
                .clone()
                .set("model", model("custom", ""))
                .fails("the program brings the model along"),
        );
        let other = if goal == "classifier" {
            "linear_regressor"
        } else {
            "linear_classifier"
        };
        let goals = linear.set("model", format!("{{ kind = \"{other}\" }}"));
        rows.push(goals.by(EVALUATE).sees(metric_names));
    }
    rows
}

fn of_parts() -> Vec<Row> {
    let combined = |kind: &str| row("model.kind").set("model.kind", kind);
    let features = "[{ column = \"word\", kind = \"hashed\", buckets = 7, wide = true, deep = { embedding = 3 } }, \
                    { column = \"user\", kind = \"hashed\", buckets = 7, wide = true, deep = { embedding = 3 } }]";
    let fm = [
        ("feature", features),
        ("model", "{ kind = \"fm_classifier\" }"),
    ];
    vec![
        combined("\"dnn_linear_combined_regressor\"")
            .sees(metric_names)
            .by(EVALUATE),
        row("model.kind").over(&fm).set(
            "model",
            "{ kind = \"deepfm_classifier\", hidden_units = [4] }",
        ),
        row("model.kind").over(&fm).set(
            "model",
            "{ kind = \"dnn_linear_combined_classifier\", hidden_units = [4] }",
        ),
        over(
            row("model.kind"),
            &deep("dnn_classifier", ", hidden_units = [4]"),
        )
        .set("model", "{ kind = \"dcn_classifier\", hidden_units = [4] }"),
        over(row("model.kind"), &head("linear_classifier", "", "y"))
            .set("model", "{ kind = \"baseline_classifier\" }")
            .set("feature", "-"),
        row("model.linear_optimizer").to("{ kind = \"sgd\", learning_rate = 0.3 }"),
        row("model.dnn_optimizer").to("{ kind = \"sgd\", learning_rate = 0.3 }"),
        row("model.optimizer")
            .by(TRAIN_CUSTOM)
            .over(&CUSTOM)
            .to("{ kind = \"sgd\", learning_rate = 0.5 }"),
        row("model.params")
            .by(TRAIN_MLP)
            .over(&MLP)
            .to("{ units = 4 }"),
        row("model.defaults").to("\"tensorflow1\""),
        row("model.defaults").to("\"tensorflow2\""),
        row("model.defaults")
            .over(&[("model.defaults", "\"tensorflow1\"")])
            .to("\"tensorflow2\""),
        row("model.loss_reduction").to("\"sum\""),
        row("model.sparse_combiner")
            .over(&[
                ("feature.1.column", "\"tags\""),
                ("feature.1.separator", "\"|\""),
            ])
            .to("\"mean\""),
        row("model.sparse_combiner")
            .over(&[
                ("feature.1.column", "\"tags\""),
                ("feature.1.separator", "\"|\""),
            ])
            .to("\"sqrtn\""),
        row("model.sparse_combiner")
            .over(&[
                ("feature.1.column", "\"tags\""),
                ("feature.1.separator", "\"|\""),
            ])
            .over(&[("model.sparse_combiner", "\"mean\"")])
            .to("\"sqrtn\""),
    ]
}

fn of_heads() -> Vec<Row> {
    let estimator = |one: &str, other: &str, label: &str| {
        over(
            row("model.head"),
            &head("linear_estimator", &format!(", head = \"{one}\""), label),
        )
        .to(&format!("\"{other}\""))
    };
    let labels = head(
        "linear_estimator",
        ", head = \"multi_label\", n_classes = 3",
        "labels",
    );
    vec![
        estimator("regression", "poisson", "count"),
        estimator("regression", "logistic_regression", "y"),
        estimator("regression", "binary", "y")
            .by(EVALUATE)
            .sees(metric_names),
        over(
            row("model.head"),
            &head(
                "linear_estimator",
                ", head = \"multi_class\", n_classes = 3",
                "k",
            ),
        )
        .to("\"multi_label\""),
        over(row("model.n_classes"), &head("linear_classifier", "", "k"))
            .to("3")
            .fails_before("error[E4"),
        over(
            row("model.label_dimension"),
            &head("linear_regressor", "", "r_pair"),
        )
        .to("2")
        .fails_before("error[E4"),
        over(row("model.label_mean"), &head("linear_regressor", "", "r")).to("1000.0"),
        over(
            row("model.label_stddev"),
            &head("linear_regressor", "", "r"),
        )
        .to("1000.0"),
        row("model.thresholds")
            .by(EVALUATE)
            .to("[0.3, 0.6]")
            .sees(metric_names),
        over(row("model.classes_for_class_based_metrics"), &labels)
            .by(EVALUATE)
            .to("[1]")
            .sees(metric_names),
        row("model.loss_reduction")
            .by(EVALUATE)
            .to("\"sum\"")
            .sees(metrics),
        row("model.loss").to("\"focal\""),
        row("model.loss").to("\"hinge\""),
        row("model.loss")
            .over(&[("model.loss", "\"hinge\"")])
            .to("\"cross_entropy\""),
        row("model.focal_gamma")
            .over(&[("model.loss", "\"focal\"")])
            .to("0.5"),
        row("model.focal_alpha")
            .over(&[("model.loss", "\"focal\"")])
            .to("0.25"),
        row("model.class_weights").to("[1.0, 3.0]"),
        row("model.top_k")
            .by(EVALUATE)
            .over(&[("eval.group_auc_column", "\"user\"")])
            .to("[2]")
            .sees(metric_names),
        row("model.calibration_buckets")
            .by(EVALUATE)
            .to("4")
            .sees(metric_names),
    ]
}

/// A row of a model that is a composition of layers, over two embeddings of one dimension and a number.
fn composed(key: &'static str, model: &str) -> Row {
    let features = "[{ column = \"x\", kind = \"numeric\", deep = true }, \
                    { columns = [\"word\", \"user\"], kind = \"hashed\", buckets = 7, deep = { embedding = 4 } }]";
    row(key).over(&[("feature", features), ("model", model)])
}

/// A row of a model with attention over the history `ids`, for the target `n`.
fn attended(key: &'static str, more: &str) -> Row {
    let features = "[{ column = \"ids\", kind = \"identity\", buckets = 7, separator = \"|\", deep = { embedding = 3, table = \"t\" } }, \
                    { column = \"ids\", name = \"again\", kind = \"identity\", buckets = 7, separator = \"|\", deep = { embedding = 3, table = \"t\" } }, \
                    { columns = [\"n\", \"padded\"], kind = \"identity\", buckets = 7, deep = { embedding = 3, table = \"t\" } }]";
    let model = format!(
        "{{ kind = \"din_classifier\", hidden_units = [4], attention_units = [4], \
         attention = [{{ history = \"ids\", target = \"n\", history_max = 1{more} }}] }}"
    );
    row(key).over(&[("feature", features), ("model", model.as_str())])
}

fn of_attention() -> Vec<Row> {
    let kinds = ["classifier", "regressor", "estimator"].map(|goal| {
        let head = if goal == "estimator" {
            ", head = \"poisson\""
        } else {
            ""
        };
        let attention = "attention = [{ history = \"ids\", target = \"n\" }]";
        let dnn = format!("{{ kind = \"dnn_{goal}\", hidden_units = [4]{head}, {attention} }}");
        attended("model.kind", "")
            .set("model", dnn)
            .set("model.kind", format!("\"din_{goal}\""))
            .sees(variables)
    });
    let mut rows = kinds.to_vec();
    rows.extend([
        attended("model.attention_units", "")
            .to("[3]")
            .sees(trained),
        attended("model.attention.history", "")
            .set("model.attention.0.history", "\"again\"")
            .sees(variables),
        attended("model.attention.target", "")
            .set("model.attention.0.target", "\"padded\"")
            .sees(trained),
        attended("model.attention.history_max", "")
            .set("model.attention.0.history_max", "2")
            .sees(trained),
        attended("model.attention.keep", "")
            .set("model.attention.0.keep", "\"first\"")
            .sees(trained),
        attended("model.attention.keep", ", keep = \"first\"")
            .set("model.attention.0.keep", "\"last\"")
            .sees(trained),
    ]);
    rows
}

fn of_layers() -> Vec<Row> {
    let activations = [
        "relu",
        "relu6",
        "leaky_relu",
        "elu",
        "selu",
        "tanh",
        "sigmoid",
        "softplus",
        "softsign",
        "swish",
        "linear",
    ];
    // Inputs of up to 40: some outputs pass 6.
    let steep = [
        ("feature.0.normalizer", "\"standardize\""),
        ("feature.0.mean", "0.0"),
        ("feature.0.stddev", "0.05"),
    ];
    let mut rows: Vec<Row> = Vec::new();
    for (place, one) in activations.iter().enumerate() {
        for other in &activations[..place] {
            let both = format!("\"{other}\"");
            let row = row("model.activation")
                .over(&steep)
                .over(&[("model.activation", &both)]);
            rows.push(row.to(&format!("\"{one}\"")));
        }
    }
    let dcn = deep("dcn_classifier", ", hidden_units = [4]");
    rows.extend([
        row("model.hidden_units").to("[4, 3]").sees(trained),
        row("model.dropout").to("0.5"),
        row("model.batch_norm").to("true"),
        over(row("model.cross_layers"), &dcn).to("3"),
        over(row("model.cross_projection_dim"), &dcn).to("2"),
        composed(
            "model.bottom_units",
            "{ kind = \"dlrm_classifier\", hidden_units = [4] }",
        )
        .to("[3]")
        .sees(trained),
        composed(
            "model.cin_units",
            "{ kind = \"xdeepfm_classifier\", hidden_units = [4], cin_units = [4] }",
        )
        .to("[3]")
        .sees(trained),
        composed(
            "model.second_hidden_units",
            "{ kind = \"final_mlp_classifier\", hidden_units = [4] }",
        )
        .to("[3]")
        .sees(trained),
        composed(
            "model.fusion_heads",
            "{ kind = \"final_mlp_classifier\", hidden_units = [4] }",
        )
        .to("2")
        .sees(trained),
        composed(
            "model.mask_units",
            "{ kind = \"masknet_classifier\", mask_units = [4, 4] }",
        )
        .to("[3]")
        .sees(trained),
        composed(
            "model.mask_ratio",
            "{ kind = \"masknet_classifier\", mask_units = [4, 4] }",
        )
        .to("3")
        .sees(trained),
        composed(
            "model.mask_blocks",
            "{ kind = \"masknet_classifier\", mask_units = [4, 4] }",
        )
        .to("\"serial\"")
        .sees(trained),
        composed(
            "model.attention_layers",
            "{ kind = \"autoint_classifier\", attention_dim = 4 }",
        )
        .to("2")
        .sees(trained),
        composed(
            "model.attention_heads",
            "{ kind = \"autoint_classifier\", attention_dim = 4 }",
        )
        .to("3")
        .sees(trained),
        composed(
            "model.attention_dim",
            "{ kind = \"autoint_classifier\", attention_dim = 4 }",
        )
        .to("5")
        .sees(trained),
        composed(
            "model.mask_blocks",
            "{ kind = \"masknet_classifier\", mask_units = [4, 4], mask_blocks = \"serial\" }",
        )
        .to("\"parallel\"")
        .sees(trained),
    ]);
    rows
}

/// The tiny job with a model of these tasks.
fn tasks(model: &str, tasks: &str) -> [(&'static str, String); 3] {
    [
        ("model", format!("{{ {model}, task = [{tasks}] }}")),
        ("feature.1.wide", "-".to_owned()),
        ("input.label", "-".to_owned()),
    ]
}

fn of_tasks() -> Vec<Row> {
    let task = |name: &str, head: &str, more: &str, label: &str| {
        format!("{{ name = \"{name}\", head = \"{head}\"{more}, label = {{ {label} }} }}")
    };
    let clicks = task("click", "binary", "", "column = \"y\"");
    let both = format!(
        "{clicks}, {}",
        task("other", "regression", "", "column = \"r\"")
    );
    let binary = format!(
        "{clicks}, {}",
        task("other", "binary", "", "column = \"y2\"")
    );
    let bottom = "kind = \"shared_bottom\", hidden_units = [4], tower_units = [3]";
    let of = |key: &'static str, model: &str, all: &str| over(row(key), &tasks(model, all));
    let mmoe = "kind = \"mmoe\", hidden_units = [4], experts = 2";
    let ple = "kind = \"ple\", hidden_units = [4], experts = 2, task_experts = 2";
    let first = |key: &'static str, one: String| of(key, bottom, &one);
    let head = |one: &str, other: &str, column: &str| {
        let label = format!("column = \"{column}\"");
        first("model.task.head", task("a", one, "", &label))
            .set("model.task.0.head", format!("\"{other}\""))
    };
    let mut rows: Vec<Row> = ["mmoe", "ple", "esmm"]
        .iter()
        .map(|kind| {
            of("model.kind", bottom, &binary)
                .set("model.kind", format!("\"{kind}\""))
                .sees(variables)
        })
        .collect();
    rows.extend([
        of(
            "model.kind",
            "kind = \"shared_bottom\", hidden_units = [4]",
            &binary,
        )
        .set("model.kind", "\"custom_multi_task\"")
        .fails("the program brings the model along"),
        of("model.tower_units", bottom, &both).to("[2]"),
        of("model.experts", mmoe, &both).to("3"),
        of("model.task_experts", ple, &both).to("3"),
        of("model.expert_levels", ple, &both).to("1"),
        of("model.task.name", bottom, &both)
            .set("model.task.0.name", "\"buy\"")
            .by(EVALUATE)
            .sees(metric_names),
        of("model.task.weight", bottom, &both).set("model.task.1.weight", "0.5"),
        of("model.task.weight_column", bottom, &both).set("model.task.0.weight_column", "\"w\""),
        of("model.task.label.column", bottom, &both)
            .set("model.task.0.label", "{ column = \"y2\" }"),
        first(
            "model.task.label.positive",
            task(
                "a",
                "binary",
                "",
                "column = \"answer_dot\", positive = \">50K\"",
            ),
        )
        .set(
            "model.task.0.label",
            "{ column = \"answer_dot\", positive = \">50K*\" }",
        ),
        first(
            "model.task.label.vocabulary",
            task(
                "a",
                "binary",
                "",
                "column = \"answer\", vocabulary = [\"<=50K\", \">50K\"]",
            ),
        )
        .set(
            "model.task.0.label",
            "{ column = \"answer\", vocabulary = [\">50K\", \"<=50K\"] }",
        ),
        head("regression", "binary", "y"),
        head("regression", "logistic_regression", "y"),
        head("regression", "poisson", "count"),
        head("regression", "multi_class", "k").set("model.task.0.n_classes", "3"),
        first(
            "model.task.n_classes",
            task("a", "multi_class", ", n_classes = 3", "column = \"k\""),
        )
        .set("model.task.0.n_classes", "4")
        .sees(trained),
    ]);
    rows
}
