//! Rows of `[input]`, `[input.train]` and `[input.eval]`.

use crate::keys::row::{Row, row};
use crate::keys::see::{metrics, steps};
use crate::keys::site::{EVALUATE, How, LIMIT, Ran, Site, UP_TWO_WORKERS};

/// Trains for as long as it takes to see how many batches are read ahead.
const WATCH_QUEUE: How = How {
    name: "watch the queue",
    run: watch_queue,
};

/// Looks at the queue until it holds 2 batches, or has been looked at so often.
const LOOKS: usize = 300;

fn watch_queue(site: &Site) -> Ran {
    let mut program = site.start(
        "train",
        &["--no-evaluation", "--admin-listen", "127.0.0.1:0"],
    );
    let address = program.admin_address(LIMIT);
    program.wait_for(" training step=", LIMIT);
    let looks = (0..LOOKS)
        .filter_map(|_| trainyard_tests::metric(&address, "trainyard_input_queue_batches"));
    let mut seen = 0;
    let several = looks.inspect(|_| seen += 1).any(|batches| batches >= 2.0);
    assert!(
        several || seen > LOOKS / 2,
        "the metric was seen {seen} times only"
    );
    site.ran(0, format!("several batches wait: {several}"))
}

/// The rows of `rows.csv`, which the tiny job reads.
fn as_csv(row: Row) -> Row {
    row.like(&[])
}

fn reads(file: &str) -> [(&str, &str); 2] {
    [("input.train.files", file), ("input.eval", "-")]
}

fn features(text: &str) -> [(&str, &str); 1] {
    [("feature", text)]
}

const GAPS: &str = r#"[{ column = "gaps", kind = "numeric", default = 0.5, name = "g" },
    { column = "word", kind = "hashed", buckets = 7, wide = true }]"#;
const GAPS_NA: &str = r#"[{ column = "gaps_na", kind = "numeric", default = 0.5, name = "g" },
    { column = "word", kind = "hashed", buckets = 7, wide = true }]"#;
const WORD: &str = r#"[{ column = "x", kind = "numeric" }, { column = "word", kind = "hashed", buckets = 1000, wide = true, name = "f" }]"#;
const SPACED: &str = r#"[{ column = "x", kind = "numeric" }, { column = "spaced", kind = "hashed", buckets = 1000, wide = true, name = "f" }]"#;
const MOMENT: &str = r#"[{ column = "moment", kind = "numeric", normalizer = "standardize", mean = 1.6e9, stddev = 1e5 },
    { column = "word", kind = "hashed", buckets = 7, wide = true }]"#;
const PAIRS: &str = r#"[{ column = "index", kind = "identity", buckets = 5, separator = " ", weights = "value", name = "f" }]"#;
const PAIRS_CSV: &str = r#"[{ column = "index", kind = "identity", buckets = 5, separator = "|", weights = "value", name = "f" }]"#;

pub(crate) fn rows() -> Vec<Row> {
    let mut rows = of_input();
    rows.extend(of_encodings());
    rows.extend(of_label());
    rows.extend(of_bad_rows());
    rows.extend(of_parts());
    rows
}

fn of_input() -> Vec<Row> {
    let linear = [
        ("model", "{ kind = \"linear_classifier\" }"),
        ("input.label.column", "\"label\""),
    ];
    let svm = |file| {
        row("")
            .over(&linear)
            .over(&reads(file))
            .over(&features(PAIRS))
    };
    let svm_csv = [
        &linear[..],
        &reads("[\"{data}/svm.csv\"]"),
        &features(PAIRS_CSV),
    ]
    .concat();
    vec![
        as_csv(
            row("input.format")
                .over(&reads("[\"{data}/rows.text\"]"))
                .to("\"tsv\"")
                .fails_before("error[E4"),
        ),
        as_csv(
            row("input.format")
                .over(&reads("[\"{data}/rows.tfrecord\"]"))
                .to("\"tfrecord\"")
                .fails_before("error[E4"),
        ),
        as_csv(
            row("input.format")
                .over(&reads("[\"{data}/rows.parquet\"]"))
                .to("\"parquet\"")
                .fails_before("error[E4"),
        ),
        svm("[\"{data}/one.svm\"]")
            .of("input.format")
            .to("\"libsvm\"")
            .fails_before("error[E4")
            .like(&svm_csv),
        svm("[\"{data}/zero.svm\"]")
            .of("input.index_base")
            .over(&[("input.format", "\"libsvm\"")])
            .to("0")
            .fails_before("error[E4")
            .like(&svm_csv),
        as_csv(
            row("input.compression")
                .over(&reads("[\"{data}/gzip.bytes\"]"))
                .to("\"gzip\"")
                .fails_before("error[E4"),
        ),
        as_csv(
            row("input.compression")
                .over(&reads("[\"{data}/zlib.bytes\"]"))
                .to("\"zlib\"")
                .fails_before("error[E4"),
        ),
        as_csv(
            row("input.compression")
                .over(&reads("[\"{data}/plain.gz\"]"))
                .to("\"none\"")
                .fails_before("error[E4"),
        ),
        as_csv(
            row("input.columns")
                .over(&reads("[\"{data}/headless.csv\"]"))
                .to(&format!(
                    "{:?}",
                    crate::keys::tiny_records::COLUMNS
                        .split(',')
                        .collect::<Vec<_>>()
                ))
                .fails_before("error[E4"),
        ),
        as_csv(
            row("input.delimiter")
                .over(&reads("[\"{data}/semicolons.csv\"]"))
                .to("\";\"")
                .fails_before("error[E4"),
        ),
        as_csv(
            row("input.decimal")
                .over(&reads("[\"{data}/commas.csv\"]"))
                .over(&[("input.delimiter", "\";\"")])
                .to("\",\"")
                .fails_before("error[E4"),
        ),
        row("input.encoding")
            .over(&[("input.encoding", "\"latin1\"")])
            .over(&reads("[\"{data}/big5-as-utf-8.csv\"]"))
            .to("\"utf-8\"")
            .like(&reads("[\"{data}/big5-as-utf-8.csv\"]")),
        as_csv(
            row("input.decimal")
                .over(&[("input.decimal", "\",\"")])
                .to("\".\"")
                .fails_before("error[E4"),
        ),
        row("input.thousands")
            .over(&features(MOMENT))
            .over(&reads("[\"{data}/grouped.csv\"]"))
            .to("\"'\"")
            .fails_before("error[E4")
            .like(&features(MOMENT)),
        row("input.units")
            .over(&features(MOMENT))
            .over(&reads("[\"{data}/units.csv\"]"))
            .to("[\"s\"]")
            .fails_before("error[E4")
            .like(&features(MOMENT)),
        row("input.weight_column").to("\"w\""),
        // Trimmed, the words of both columns are the same.
        row("input.trim").over(&features(SPACED)).to("false"),
        row("input.trim")
            .over(&features(SPACED))
            .over(&[("input.trim", "false")])
            .to("true")
            .like(&features(WORD)),
        row("input.missing")
            .over(&features(GAPS_NA))
            .to("[\"NA\"]")
            .fails_before("error[E4")
            .like(&features(GAPS)),
        // The word is missing in this column, and a word in the other ones.
        row("input.missing_of")
            .over(&features(GAPS_NA))
            .to("{ gaps_na = [\"NA\"] }")
            .fails_before("error[E4")
            .like(&features(GAPS)),
    ]
}

fn of_encodings() -> Vec<Row> {
    let of = |encoding: &str| {
        let text = format!("[\"{{data}}/{encoding}-as-utf-8.csv\"]");
        row("input.encoding")
            .over(&reads(&format!("[\"{{data}}/{encoding}.csv\"]")))
            .to(&format!("\"{encoding}\""))
            .fails_before("error[E4")
            .like(&reads(&text))
    };
    let encodings = crate::keys::tiny_records::ENCODED.iter();
    encodings.map(|(encoding, ..)| of(encoding)).collect()
}

fn of_label() -> Vec<Row> {
    let text = [("input.label", "{ column = \"answer\" }")];
    let dotted = [(
        "input.label",
        "{ column = \"answer_dot\", positive = \">50K\" }",
    )];
    let labels = |column| {
        [
            (
                "model",
                "{ kind = \"linear_estimator\", head = \"multi_label\", n_classes = 3 }",
            ),
            ("feature.0.wide", "true"),
            ("feature.1.deep", "-"),
            ("input.label", column),
        ]
    };
    let classes = [
        ("model", "{ kind = \"linear_classifier\", n_classes = 3 }"),
        ("feature.0.wide", "true"),
        ("feature.1.deep", "-"),
    ];
    vec![
        row("input.label.column").to("\"y2\""),
        as_csv(
            row("input.label.positive")
                .over(&text)
                .to("\">50K\"")
                .fails_before("error[E4"),
        ),
        as_csv(row("input.label.positive").over(&dotted).to("\">50K*\"")),
        row("input.label.vocabulary")
            .over(&classes)
            .over(&[("input.label", "{ column = \"color\" }")])
            .to("[\"red\", \"green\", \"blue\"]")
            .fails_before("error[E4")
            .like(&[&classes[..], &[("input.label", "{ column = \"k\" }")]].concat()),
        row("input.label.separator")
            .over(&labels("{ column = \"labels_semicolons\" }"))
            .to("\";\"")
            .fails_before("error[E4")
            .like(&labels("{ column = \"labels\" }")),
    ]
}

fn of_bad_rows() -> Vec<Row> {
    let dead_letters = |ran: &Ran| {
        let path = ran.folder.join("model/dead_letter/chief-0.jsonl");
        let letters = std::fs::read_to_string(path).unwrap_or_default();
        format!("{} {}", letters.lines().count(), letters.contains("oops"))
    };
    let bad = reads("[\"{data}/bad.csv\"]");
    let skipped = [("input.bad_rows", "\"skip\"")];
    vec![
        row("input.bad_rows")
            .over(&bad)
            .to("\"skip\"")
            .fails_before("error[E4")
            .sees(dead_letters)
            .gives("fails with error[E4", "3 true"),
        row("input.bad_rows_max")
            .over(&bad)
            .over(&skipped)
            .to("2")
            .fails("error[E4"),
    ]
}

fn of_parts() -> Vec<Row> {
    let three = "[\"{data}/first.csv\", \"{data}/second.csv\", \"{data}/rest.csv\"]";
    let files = [
        ("input.train.files", three),
        ("input.train.batch_size", "10"),
        ("input.train.epochs", "1"),
        ("input.eval", "-"),
    ];
    let sharding = |name: &str, steps: &str| {
        row("input.train.sharding")
            .by(UP_TWO_WORKERS)
            .over(&files)
            .to(name)
            .sees(self::steps)
            .gives("5", steps)
    };
    let first_batch = [("eval.steps", "1"), ("input.eval.batch_size", "16")];
    let large = [
        ("model.hidden_units", "[300, 300, 300]"),
        ("input.train.epochs", "-"),
        ("train.max_steps", "1000000"),
        ("run.log_step_count_steps", "5"),
        ("input.train.batch_size", "40"),
    ];
    vec![
        row("input.train.files").to("[\"{data}/reversed.csv\"]"),
        row("input.train.batch_size")
            .to("12")
            .sees(steps)
            .gives("6", "8"),
        row("input.train.shuffle_rows").to("48"),
        row("input.train.epochs")
            .to("3")
            .sees(steps)
            .gives("6", "9"),
        // 48 records in batches of 10, for three tasks: all together, 16 each, files of 1, 1 and 46, or all for each.
        sharding("\"row\"", "6"),
        sharding("\"file\"", "7"),
        sharding("\"none\"", "15"),
        row("input.train.prefetch_batches")
            .by(WATCH_QUEUE)
            .over(&large)
            .to("1")
            .sees(crate::keys::see::output)
            .gives("several batches wait: true", "several batches wait: false"),
        row("input.eval.files")
            .by(EVALUATE)
            .to("[\"{data}/rest.csv\"]")
            .sees(metrics),
        row("input.eval.batch_size")
            .by(EVALUATE)
            .over(&first_batch)
            .to("12")
            .sees(metrics),
        row("input.eval.shuffle_rows")
            .by(EVALUATE)
            .over(&first_batch)
            .to("48")
            .sees(metrics),
        // Of four batches, the fourth is of the second pass.
        row("input.eval.epochs")
            .by(EVALUATE)
            .over(&[("input.eval.batch_size", "16"), ("eval.steps", "4")])
            .to("2")
            .sees(metrics),
    ]
}
