//! Rows of `[[feature]]`: the keys of every kind, and how features are embedded.

use crate::keys::row::{Row, row};
use crate::keys::see::{rows_in_use, trained, variables};
use crate::keys::site::{How, Ran, Site};

/// Makes the files that the job describes, if it describes any, and trains.
const ANALYZE_AND_TRAIN: How = How {
    name: "analyze and train",
    run: analyze_and_train,
};

fn analyze_and_train(site: &Site) -> Ran {
    let job = site.job_text();
    if job.contains("quantiles") || job.contains("min_count") {
        let made = site.run("analyze", &[]);
        if made.code != 0 {
            return made;
        }
    }
    site.run("train", &["--no-evaluation"])
}

/// Features beside the one that a row is about, so that both parts of the model have one.
const OTHERS: &str = r#"{ column = "z", kind = "numeric" }, { column = "k", kind = "identity", buckets = 3, wide = true }"#;

/// A row of a key of the first feature, which holds this.
fn of(key: impl Into<String>, feature: &str) -> Row {
    let key = key.into();
    row(key).over(&[("feature", &format!("[{{ {feature} }}, {OTHERS}]"))])
}

impl Row {
    /// The second job has another value of the key of the first feature.
    fn with(self, value: &str) -> Self {
        let name = self.key.rsplit('.').next().unwrap_or_default().to_owned();
        self.set(format!("feature.0.{name}"), value)
    }

    fn without(self, name: &str) -> Self {
        self.set(format!("feature.0.{name}"), crate::keys::site::ABSENT)
    }
}

/// A kind: a feature without its column, two columns that it may have, and how it may be deep.
struct Kind {
    name: &'static str,
    rest: &'static str,
    columns: [&'static str; 2],
    deep: &'static str,
}

const KINDS: [Kind; 6] = [
    Kind {
        name: "numeric",
        rest: "",
        columns: ["x", "r"],
        deep: "true",
    },
    Kind {
        name: "bucketized",
        rest: ", boundaries = [0.0]",
        columns: ["x", "r"],
        deep: "true",
    },
    Kind {
        name: "hashed",
        rest: ", buckets = 7",
        columns: ["word", "user"],
        deep: "{ embedding = 3 }",
    },
    Kind {
        name: "vocabulary",
        rest: ", values = [\"w0\", \"w1\", \"w2\"], oov_buckets = 3",
        columns: ["word", "user"],
        deep: "{ embedding = 3 }",
    },
    Kind {
        name: "identity",
        rest: ", buckets = 6",
        columns: ["n", "count"],
        deep: "{ embedding = 3 }",
    },
    Kind {
        name: "dynamic",
        rest: "",
        columns: ["word", "user"],
        deep: "{ embedding = 3 }",
    },
];

pub(crate) fn rows() -> Vec<Row> {
    let mut rows = of_every_kind();
    rows.extend(of_numbers());
    rows.extend(of_ids());
    rows.extend(of_dynamic());
    rows.extend(of_crosses());
    rows.extend(of_weights_and_separators());
    rows.extend(of_embeddings());
    rows
}

fn of_every_kind() -> Vec<Row> {
    let mut rows = Vec::new();
    for Kind {
        name,
        rest,
        columns: [one, other],
        deep,
    } in KINDS
    {
        let key = |key: &str| format!("feature.{name}.{key}");
        let kind = format!("kind = \"{name}\"{rest}");
        let named = format!("{kind}, column = \"{one}\", name = \"f\", deep = {deep}");
        rows.push(of(key("column"), &named).with(&format!("\"{other}\"")));
        let plain = format!("{kind}, column = \"{one}\", deep = {deep}");
        rows.push(
            of(key("columns"), &plain)
                .without("column")
                .with(&format!("[\"{one}\", \"{other}\"]")),
        );
        let wide = format!("{kind}, column = \"{one}\", wide = true");
        rows.push(of(key("name"), &wide).with("\"other\"").sees(variables));
        let neither = format!("{kind}, column = \"{one}\", deep = {deep}");
        rows.push(of(key("wide"), &neither).with("true").sees(variables));
        match name {
            "numeric" => rows.push(of("feature.deep", &wide).with("false")),
            _ => rows.push(of("feature.deep", &wide).with(deep)),
        }
        if name != "numeric" {
            let numeric = of(
                "feature.kind",
                "kind = \"numeric\", column = \"x\", name = \"f\", deep = true",
            );
            rows.push(numeric.set("feature.0", format!("{{ {named} }}")));
        }
    }
    rows
}

fn of_numbers() -> Vec<Row> {
    let mut rows = Vec::new();
    for (name, rest) in [
        ("numeric", ""),
        ("bucketized", ", boundaries = [-1.0, 0.3, 1.0]"),
    ] {
        let key = |key: &str| format!("feature.{name}.{key}");
        let kind = format!("kind = \"{name}\"{rest}, name = \"f\", deep = true");
        // Hours and seconds in a range that boundaries divide and training bears.
        let scaled =
            ", normalizer = \"standardize\", mean = 12.0, stddev = 6.0, clip = [-3.0, 30.0]";
        let on = |name: &str, column: &str, more: &str| {
            of(key(name), &format!("{kind}, column = \"{column}\"{more}"))
        };
        rows.push(on("shape", "pair", "").with("2").fails_before("error[E4"));
        rows.push(
            on("separator", "pair_semicolons", ", shape = 2")
                .with("\";\"")
                .fails_before("error[E4"),
        );
        rows.push(
            on("default", "gaps", "")
                .with("0.9")
                .fails_before("error[E4"),
        );
        rows.push(on("default", "gaps", ", default = 0.9").with("-1.5"));
        rows.push(on("normalizer", "r", "").with("\"log1p\""));
        rows.push(on("normalizer", "r", "").with("\"signed_log1p\""));
        let standard = ", normalizer = \"standardize\", mean = 0.5, stddev = 2.0";
        rows.push(
            on("normalizer", "r", "")
                .set("feature.0.normalizer", "\"standardize\"")
                .set("feature.0.mean", "0.5")
                .set("feature.0.stddev", "2.0"),
        );
        rows.push(on("mean", "r", standard).with("1.1"));
        rows.push(on("stddev", "r", standard).with("0.8"));
        rows.push(on("normalizer", "r", "").with("\"log\""));
        let range = ", normalizer = \"min_max\", min = -1.0, max = 3.0";
        rows.push(
            on("normalizer", "r", "")
                .set("feature.0.normalizer", "\"min_max\"")
                .set("feature.0.min", "-1.0")
                .set("feature.0.max", "3.0"),
        );
        rows.push(on("min", "r", range).with("-2.0"));
        rows.push(on("max", "r", range).with("2.0"));
        rows.push(on("clip", "r", "").with("[-0.5, 0.2]"));
        rows.push(on("minus", "r", "").with("\"x\""));
        rows.push(on("divided_by", "r", "").with("\"z\""));
        rows.push(on("time", "moment", scaled).with("\"hour\""));
        rows.push(on("time", "moment", &format!(", time = \"hour\"{scaled}")).with("\"weekday\""));
        rows.push(
            on("time_unit", "moment", &format!(", time = \"hour\"{scaled}"))
                .with("\"milliseconds\""),
        );
        for unit in ["\"microseconds\"", "\"nanoseconds\""] {
            let hour = format!(", time = \"hour\"{scaled}");
            rows.push(on("time_unit", "moment", &hour).with(unit));
        }
    }
    let bucketized = "kind = \"bucketized\", column = \"x\", boundaries = [0.0], deep = true";
    rows.push(of("feature.bucketized.boundaries", bucketized).with("[0.7]"));
    let file = ("feature.0.boundaries_file", "\"{run}/bounds.toml\"");
    let made = |key: &str| {
        of(key, bucketized).by(ANALYZE_AND_TRAIN).over(&[
            ("feature.0.boundaries", "-"),
            file,
            ("feature.0.quantiles", "3"),
        ])
    };
    rows.push(made("feature.bucketized.quantiles").with("4"));
    let bins = "kind = \"numeric\", column = \"r\", name = \"f\", boundaries = [-1.0, 0.0, 1.0], encoding = \"piecewise_linear\"";
    rows.push(
        of(
            "feature.numeric.encoding",
            "kind = \"numeric\", column = \"r\", name = \"f\"",
        )
        .set("feature.0.boundaries", "[-1.0, 0.0, 1.0]")
        .with("\"piecewise_linear\""),
    );
    rows.push(
        of("feature.numeric.encoding", bins)
            .with("\"none\"")
            .fails("E1006"),
    );
    rows.push(of("feature.numeric.boundaries", bins).with("[-1.0, 0.5, 1.0]"));
    let number = "kind = \"numeric\", column = \"r\", name = \"f\"";
    rows.push(of("feature.numeric.encoding", number).with("\"periodic\""));
    let waves = "kind = \"numeric\", column = \"r\", name = \"f\", encoding = \"periodic\", frequencies = 2, sigma = 0.5";
    rows.push(of("feature.numeric.frequencies", waves).with("3"));
    rows.push(of("feature.numeric.sigma", waves).with("2.0"));
    rows.push(of("feature.numeric.encoding_units", waves).with("4"));
    let shares = "kind = \"numeric\", column = \"r\", name = \"f\", boundaries = [-1.0, 0.0, 1.0], normalizer = \"quantile\"";
    rows.push(
        of(
            "feature.numeric.normalizer",
            "kind = \"numeric\", column = \"r\", name = \"f\"",
        )
        .set("feature.0.boundaries", "[-1.0, 0.0, 0.0, 1.0]")
        .with("\"quantile\""),
    );
    rows.push(
        of(
            "feature.bucketized.normalizer",
            "kind = \"bucketized\", column = \"x\", boundaries = [0.0], deep = true",
        )
        .with("\"quantile\"")
        .fails("E1006"),
    );
    rows.push(of("feature.numeric.output_distribution", shares).with("\"normal\""));
    let scores = format!("{shares}, output_distribution = \"normal\"");
    rows.push(of("feature.numeric.output_distribution", &scores).with("\"uniform\""));
    let of_file = |row: Row| {
        row.by(ANALYZE_AND_TRAIN)
            .without("boundaries")
            .set("feature.0.quantiles", "3")
    };
    rows.push(of_file(of("feature.numeric.boundaries_file", bins)).with(file.1));
    rows.push(
        of("feature.numeric.quantiles", bins)
            .by(ANALYZE_AND_TRAIN)
            .over(&[
                ("feature.0.boundaries", "-"),
                file,
                ("feature.0.quantiles", "3"),
            ])
            .with("4"),
    );
    rows.push(
        of("feature.bucketized.boundaries_file", bucketized)
            .by(ANALYZE_AND_TRAIN)
            .without("boundaries")
            .set("feature.0.quantiles", "3")
            .with(file.1),
    );
    rows
}

fn of_ids() -> Vec<Row> {
    let embedded = |rest: &str| format!("name = \"f\", deep = {{ embedding = 3 }}, {rest}");
    let hashed = |rest: &str| embedded(&format!("kind = \"hashed\", {rest}"));
    let vocabulary = |rest: &str| embedded(&format!("kind = \"vocabulary\", {rest}"));
    let identity = |rest: &str| embedded(&format!("kind = \"identity\", {rest}"));
    let words = "column = \"word\", values = [\"w0\", \"w1\", \"w2\"]";
    let padded = "column = \"padded\", values = [\"0\", \"1\", \"2\"]";
    vec![
        of(
            "feature.hashed.buckets",
            &hashed("column = \"word\", buckets = 7"),
        )
        .with("5"),
        of(
            "feature.hashed.integers",
            &hashed("column = \"padded\", buckets = 97"),
        )
        .with("true"),
        of("feature.vocabulary.values", &vocabulary(words)).with("[\"w0\", \"w2\", \"w4\"]"),
        of("feature.vocabulary.file", &vocabulary(words))
            .without("values")
            .with("\"{data}/words.txt\"")
            .like(&[(
                "feature",
                &format!(
                    "[{{ {} }}, {OTHERS}]",
                    vocabulary("column = \"word\", values = [\"w0\", \"w1\", \"w3\"]")
                ),
            )]),
        of(
            "feature.vocabulary.min_count",
            &vocabulary("column = \"word\""),
        )
        .by(ANALYZE_AND_TRAIN)
        .over(&[
            ("feature.0.file", "\"{run}/words.txt\""),
            ("feature.0.min_count", "1"),
        ])
        .with("1_000_000")
        .fails("E4005"),
        of("feature.vocabulary.size", &vocabulary(words)).with("2"),
        of("feature.vocabulary.oov_buckets", &vocabulary(words)).with("2"),
        of("feature.vocabulary.default", &vocabulary(words)).with("1"),
        // Text "00" is none of the values; number 0 is.
        of("feature.vocabulary.integers", &vocabulary(padded)).with("true"),
        of(
            "feature.identity.buckets",
            &identity("column = \"n\", buckets = 6"),
        )
        .with("8"),
        of(
            "feature.identity.default",
            &identity("column = \"n\", buckets = 4"),
        )
        .with("2")
        .fails_before("error[E4"),
    ]
}

fn of_dynamic() -> Vec<Row> {
    let dynamic = |rest: &str| {
        format!("kind = \"dynamic\", name = \"f\", deep = {{ embedding = 3 }}, {rest}")
    };
    let word = dynamic("column = \"word\"");
    let rare = dynamic("column = \"rare\"");
    let own =
        |key: &str, feature: &str| of(format!("feature.dynamic.{key}"), feature).sees(rows_in_use);
    vec![
        own("rows_max", &word).with("2").gives("5", "2"),
        own("admit_after", &dynamic("column = \"rare\""))
            .with("3")
            .gives("2", "1"),
        // The rare value stands in the first of 3 batches of a pass.
        own("expire_after_steps", &rare).with("2").gives("2", "1"),
        own("expire_after_secs", &rare)
            .by(crate::keys::train::FORGETTING)
            .over(&crate::keys::site::ENDLESS)
            .over(&[("run.save_checkpoints_secs", "1")])
            .with("1")
            .gives("2", "1"),
        of("feature.dynamic.shared_row", &rare)
            .with("true")
            .sees(trained),
        of("feature.dynamic.integers", &dynamic("column = \"padded\""))
            .with("true")
            .sees(trained),
    ]
}

fn of_crosses() -> Vec<Row> {
    let cross = |rest: &str| {
        format!(
            "kind = \"crossed\", name = \"f\", columns = [\"word\", \"user\"], buckets = 101, {rest}"
        )
    };
    let embedded = cross("deep = { embedding = 3 }");
    let unnamed = embedded.replace("name = \"f\", ", "");
    let kind = of(
        "feature.kind",
        "kind = \"numeric\", column = \"x\", name = \"f\", deep = true",
    );
    vec![
        kind.set("feature.0", format!("{{ {embedded} }}")),
        // A cross has keys, no column of its own.
        of("feature.crossed.column", &embedded)
            .with("\"word\"")
            .fails("E1006"),
        of("feature.crossed.columns", &embedded).with("[\"word\", \"count\"]"),
        of("feature.crossed.name", &unnamed)
            .with("\"other\"")
            .sees(variables),
        of("feature.crossed.wide", &embedded)
            .with("true")
            .sees(variables),
        of("feature.deep", &cross("wide = true")).with("{ embedding = 3 }"),
        of("feature.crossed.buckets", &embedded).with("11"),
        of("feature.crossed.hash_key", &embedded).with("7"),
    ]
}

fn of_weights_and_separators() -> Vec<Row> {
    let kinds = [
        ("hashed", "column = \"tags\", buckets = 97"),
        (
            "vocabulary",
            "column = \"tags\", values = [\"a0\", \"a1\", \"b0\", \"b1\"], oov_buckets = 3",
        ),
        ("identity", "column = \"ids\", buckets = 6"),
        ("dynamic", "column = \"tags\""),
    ];
    let mut rows = Vec::new();
    for (kind, rest) in kinds {
        let feature = format!(
            "kind = \"{kind}\", name = \"f\", {rest}, deep = {{ embedding = 3, combiner = \"sum\" }}"
        );
        let split = of(format!("feature.{kind}.separator"), &feature).with("\"|\"");
        rows.push(if kind == "identity" {
            split.fails_before("error[E4")
        } else {
            split
        });
        let several = format!("{feature}, separator = \"|\"");
        rows.push(of(format!("feature.{kind}.weights"), &several).with("\"tag_weights\""));
    }
    let cross = |columns: &str| {
        format!(
            "kind = \"crossed\", name = \"f\", columns = {columns}, buckets = 101, \
             deep = {{ embedding = 3, combiner = \"sum\" }}"
        )
    };
    let one = cross("[\"word\", \"user\"]");
    rows.push(of("feature.crossed.weights", &one).with("\"w\""));
    // A cross of two tags and a word has two ids, and takes a weight for each.
    let two = format!(
        "{}, weights = \"tag_weights\"",
        cross("[\"tags\", \"word\"]")
    );
    let tags =
        "{ column = \"tags\", kind = \"hashed\", buckets = 7, separator = \"|\", wide = true }";
    let features = format!("[{{ {two} }}, {tags}, {OTHERS}]");
    rows.push(
        row("feature.crossed.separator")
            .over(&[("feature", &features)])
            .with("\"|\"")
            .fails_before("error[E4"),
    );
    rows
}

fn of_embeddings() -> Vec<Row> {
    let tags = |deep: &str| {
        let rest =
            "kind = \"hashed\", column = \"tags\", name = \"f\", buckets = 97, separator = \"|\"";
        format!("{rest}, deep = {{ {deep} }}")
    };
    let plain = tags("embedding = 3");
    let own = |key: &str| of(format!("feature.deep.{key}"), &plain);
    let combined = |deep: &str| [("feature", format!("[{{ {} }}, {OTHERS}]", tags(deep)))];
    let sum = combined("embedding = 3, combiner = \"sum\"");
    let plain_feature = combined("embedding = 3");
    let mut rows = vec![
        own("indicator").set("feature.0.deep", "{ indicator = true }"),
        own("embedding").set("feature.0.deep.embedding", "4"),
        own("combiner").set("feature.0.deep.combiner", "\"sum\""),
        own("combiner").set("feature.0.deep.combiner", "\"sqrtn\""),
        row("feature.deep.combiner")
            .over(&[(sum[0].0, &sum[0].1)])
            .set("feature.0.deep.combiner", "\"sqrtn\""),
        own("max_norm").set("feature.0.deep.max_norm", "0.005"),
        own("trainable").set("feature.0.deep.trainable", "false"),
        own("table")
            .set("feature.0.deep.table", "\"shared\"")
            .sees(variables),
    ];
    let place = "feature.0.deep.initializer";
    rows.extend(of_initial_values(
        "feature.deep.initializer",
        place,
        |row| row.over(&[(plain_feature[0].0, &plain_feature[0].1)]),
    ));
    let place = "feature.0.deep.regularizer";
    rows.extend(of_penalty("feature.deep.regularizer", place, |row| {
        row.over(&[(plain_feature[0].0, &plain_feature[0].1)])
    }));
    rows
}

/// Rows of a penalty under the name of its key, and at the place where a job gives it. `over` gives the job.
pub(crate) fn of_penalty(key: &str, place: &str, over: impl Fn(Row) -> Row) -> Vec<Row> {
    let factor = |name: &str| {
        let row = over(row(format!("{key}.{name}")));
        row.set(place, format!("{{ {name} = 0.5 }}"))
    };
    vec![factor("l1"), factor("l2")]
}

/// Rows of initial values under the name of their key, and at the place where a job gives them. `over` gives the job.
pub(crate) fn of_initial_values(key: &str, place: &str, over: impl Fn(Row) -> Row) -> Vec<Row> {
    let kinds = [
        "{ kind = \"normal\", stddev = 0.5 }",
        "{ kind = \"truncated_normal\", stddev = 0.5 }",
        "{ kind = \"uniform\", low = -0.5, high = 0.5 }",
        "{ kind = \"glorot_uniform\" }",
        "{ kind = \"he_normal\" }",
        "{ kind = \"zeros\" }",
        "{ kind = \"constant\", value = 0.5 }",
    ];
    let of_kind = |kind: &&str| over(row(format!("{key}.kind"))).set(place, *kind);
    let mut rows: Vec<Row> = kinds.iter().map(of_kind).collect();
    rows.push(over(row(key)).set(place, kinds[0]));
    for (kind, name, base) in [
        ("normal", "stddev", kinds[0]),
        ("truncated_normal", "stddev", kinds[1]),
        ("uniform", "low", kinds[2]),
        ("uniform", "high", kinds[2]),
        ("constant", "value", kinds[6]),
    ] {
        let row = over(row(format!("{key}.{kind}.{name}"))).over(&[(place, base)]);
        rows.push(row.set(format!("{place}.{name}"), "0.25"));
    }
    rows
}
