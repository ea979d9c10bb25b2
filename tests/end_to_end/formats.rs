//! The same records in every format that a job can name: training ends with the same bits.

use std::fmt::Write as _;
use std::path::Path;

use trainyard_tests::{Draw, TestCluster};

use crate::end_to_end::LIMIT;
use crate::end_to_end::solo::{Solo, Trained, trainyard};

/// Rows of a file.
const ROWS: usize = 250;
/// A wide-and-deep job whose files the tests name.
const JOB: &str = r#"
[run]
seed = 3
[input]
label = { column = "y" }
[input.train]
files = ["unnamed"]
batch_size = 16
shuffle_rows = 100
epochs = 2
[[feature]]
columns = ["x", "z"]
kind = "numeric"
default = 0.5
[[feature]]
column = "word"
kind = "hashed"
buckets = 100
wide = true
deep = { embedding = 4 }
[model]
kind = "dnn_linear_combined_classifier"
hidden_units = [8]
"#;

/// Returns the assignment of the training files.
fn files(names: &[&str]) -> String {
    format!("input.train.files={names:?}")
}

/// Returns the assignment of the format.
fn format(name: &str) -> String {
    format!("input.format=\"{name}\"")
}

/// Rows of two numbers, of which some are missing, a word and a label that they tell, as CSV. The label is written by `label`
/// from a truth and a number of the row.
fn rows(seed: u64, label: impl Fn(bool, usize) -> &'static str) -> String {
    let mut draw = Draw::new(seed);
    let mut text = "x,z,word,y\n".to_owned();
    for row in 0..ROWS {
        let x = draw.fraction() * 4.0 - 2.0;
        let z = draw.fraction() * 4.0 - 2.0;
        let word = draw.below(5);
        let truth = x - 0.5 * z + word as f64 - 2.0 + draw.fraction() > 0.5;
        let z = if row % 7 == 3 {
            String::new()
        } else {
            format!("{z:.4}")
        };
        let _ = writeln!(text, "{x:.4},{z},w{word},{}", label(truth, row));
    }
    text
}

fn zero_or_one(truth: bool, _: usize) -> &'static str {
    if truth { "1" } else { "0" }
}

/// Trains in one process, by an assignment a line.
fn train(solo: &Solo, model: &str, set: &[String]) -> Trained {
    solo.train(model, &set.iter().map(String::as_str).collect::<Vec<_>>())
}

trial!(the_same_records_train_to_the_same_bits_in_every_format_and_compression);
fn the_same_records_train_to_the_same_bits_in_every_format_and_compression() {
    let solo = Solo::new(JOB);
    let parts = ["a", "b"];
    for (seed, part) in (1..).zip(parts) {
        solo.write(&format!("{part}.csv"), &rows(seed, zero_or_one));
    }
    let formats = [
        ("tsv", "tsv"),
        ("tsv.zz", "tsv"),
        ("csv.gz", "csv"),
        ("csv.zlib", "csv"),
        ("tfrecord", "tfrecord"),
        ("tfrecord.gz", "tfrecord"),
        ("parquet", "parquet"),
    ];
    // Batches that are handed out end with the pass; whoever reads a share fills its batches from the next one.
    let rows = 2 * ROWS as u64;
    for (sharding, steps) in [
        ("dynamic", 2 * rows.div_ceil(16)),
        ("row", (2 * rows).div_ceil(16)),
    ] {
        let divided = format!("input.train.sharding=\"{sharding}\"");
        let csv = train(
            &solo,
            &format!("csv-{sharding}"),
            &[files(&["a.csv", "b.csv"]), divided.clone()],
        );
        assert_eq!(csv.global_step, steps, "{sharding}");
        for (ending, name) in formats {
            let names = parts.map(|part| format!("{part}.{ending}"));
            for (part, converted) in parts.iter().zip(&names) {
                let from = solo.argument(&format!("{part}.csv"));
                trainyard(&["convert", "--force", &from, &solo.argument(converted)], 0);
            }
            let set = [
                files(&[&names[0], &names[1]]),
                format(name),
                divided.clone(),
            ];
            let other = train(&solo, &format!("{ending}-{sharding}"), &set);
            other.assert_equals(&csv, &format!("{ending}, {sharding}"));
        }
    }
}

trial!(records_that_the_chief_sends_train_to_the_same_bits_in_every_format);
fn records_that_the_chief_sends_train_to_the_same_bits_in_every_format() {
    let cluster = TestCluster::new(1, 1, 600, "");
    let path = |name: &str| {
        cluster
            .folder
            .path()
            .join(name)
            .to_string_lossy()
            .into_owned()
    };
    let trained = |name: &str, format_name: &str| {
        let files = files(&[&path(name)]);
        let named = format(format_name);
        let model = path(&format!("model-{name}"));
        let set = ["strategy.replication=\"in_graph\"", &files, &named].map(|set| ["--set", set]);
        let more = [&["--model-dir", &model], set.as_flattened()].concat();
        let tasks = [("ps", 0), ("chief", 0), ("worker", 0)];
        for program in tasks.map(|(role, index)| cluster.start(role, index, &more)) {
            let ended = program.wait(LIMIT);
            assert_eq!(ended.code, 0, "{name}: {}", ended.output);
        }
        Trained::of(model.as_ref())
    };
    let csv = trained("train.csv", "csv");
    assert_eq!(csv.global_step, 2 * 600_u64.div_ceil(16));
    for (name, format_name) in [
        ("train.tsv.gz", "tsv"),
        ("train.tfrecord", "tfrecord"),
        ("train.parquet", "parquet"),
    ] {
        trainyard(&["convert", &path("train.csv"), &path(name)], 0);
        trained(name, format_name).assert_equals(&csv, name);
    }
}

trial!(compression_is_what_the_job_says_whatever_the_name_of_the_file);
fn compression_is_what_the_job_says_whatever_the_name_of_the_file() {
    let solo = Solo::new(JOB);
    solo.write("rows.csv", &rows(1, zero_or_one));
    let plain = train(&solo, "plain", &[files(&["rows.csv"])]);
    for (ending, compression) in [("gz", "gzip"), ("zz", "zlib")] {
        let packed = solo.argument(&format!("rows.csv.{ending}"));
        trainyard(&["convert", &solo.argument("rows.csv"), &packed], 0);
        let without_name = format!("rows-{ending}.bin");
        std::fs::rename(&packed, solo.path(&without_name)).expect("it was written");
        let said = format!("input.compression=\"{compression}\"");
        let trained = train(&solo, compression, &[files(&[&without_name]), said]);
        trained.assert_equals(&plain, compression);
    }
    solo.write("rows.gz", &rows(1, zero_or_one));
    let said = "input.compression=\"none\"".to_owned();
    train(&solo, "none", &[files(&["rows.gz"]), said]).assert_equals(&plain, "none");
}

/// Pairs of libsvm: each of 12 indices from `first` on is in about half of the lines.
fn pairs(first: usize) -> String {
    let mut draw = Draw::new(7);
    let mut text = String::new();
    for _ in 0..ROWS {
        let values: Vec<f64> = (0..12).map(|_| draw.fraction() * 2.0 - 1.0).collect();
        let kept: Vec<bool> = (0..12).map(|_| draw.below(2) == 0).collect();
        let sum: f64 = values
            .iter()
            .zip(&kept)
            .filter(|(_, kept)| **kept)
            .map(|(value, _)| value)
            .sum();
        text.push_str(if sum > 0.0 { "+1" } else { "-1" });
        for (place, value) in values.iter().enumerate().filter(|(place, _)| kept[*place]) {
            let _ = write!(text, " {}:{value:.3}", first + place);
        }
        text.push('\n');
    }
    text
}

trial!(lines_of_libsvm_train_to_the_bits_of_the_same_lists_in_other_formats);
fn lines_of_libsvm_train_to_the_bits_of_the_same_lists_in_other_formats() {
    let solo = Solo::new(
        r#"
[run]
seed = 3
[input]
format = "libsvm"
label = { column = "label", positive = "+1" }
[input.train]
files = ["unnamed"]
batch_size = 16
shuffle_rows = 100
epochs = 2
[[feature]]
column = "index"
kind = "identity"
buckets = 13
separator = "|"
weights = "value"
[model]
kind = "linear_classifier"
"#,
    );
    let base = |first: u8| format!("input.index_base={first}");
    solo.write("zero.svm", &pairs(0));
    solo.write("one.svm", &pairs(1));
    let from_one = train(&solo, "from-one", &[files(&["one.svm"])]);
    let ids = &from_one.parameters["linear/linear_model/index_weighted_by_value/weights values"];
    assert!(
        ids[0] != 0 && ids[12] == 0,
        "index 1 is id 0, and no line holds index 13: {ids:?}"
    );
    let said = train(&solo, "said-one", &[files(&["one.svm"]), base(1)]);
    said.assert_equals(&from_one, "index_base = 1 is the default");
    let from_zero = train(&solo, "from-zero", &[files(&["zero.svm"]), base(0)]);
    from_zero.assert_equals(&from_one, "index_base = 0 of the indices less 1");
    let told = solo.run("wrong-base", &[&files(&["zero.svm"])], 65);
    assert!(
        told.contains("error[E4004]") && told.contains("set input.index_base = 0"),
        "{told}"
    );

    // Other formats hold indices as the file does, and count ids as they are.
    let as_they_are = train(&solo, "as-they-are", &[files(&["one.svm"]), base(0)]);
    let shifted =
        &as_they_are.parameters["linear/linear_model/index_weighted_by_value/weights values"];
    assert_eq!(
        (shifted[0], &shifted[1..]),
        (0, &ids[..12]),
        "each index is the next id"
    );
    for (name, other) in [
        ("lists.csv", "csv"),
        ("lists.tsv.gz", "tsv"),
        ("lists.tfrecord", "tfrecord"),
        ("lists.parquet", "parquet"),
    ] {
        trainyard(
            &["convert", &solo.argument("one.svm"), &solo.argument(name)],
            0,
        );
        let trained = train(&solo, other, &[files(&[name]), format(other)]);
        trained.assert_equals(&as_they_are, name);
    }
    // And come back.
    trainyard(
        &[
            "convert",
            &solo.argument("lists.parquet"),
            &solo.argument("back.svm.gz"),
        ],
        0,
    );
    let back = train(&solo, "back", &[files(&["back.svm.gz"])]);
    back.assert_equals(&from_one, "libsvm through Parquet, compressed");
}

trial!(numbers_of_columns_are_the_values_of_libsvm_and_their_places_its_indices);
fn numbers_of_columns_are_the_values_of_libsvm_and_their_places_its_indices() {
    let mut draw = Draw::new(11);
    let mut table = "label,a,b,c\n".to_owned();
    let mut lists = "label,index,value\n".to_owned();
    for _ in 0..ROWS {
        let values: Vec<f64> = (0..3)
            .map(|_| (draw.fraction() * 8.0 - 4.0).round() / 2.0)
            .collect();
        let label = u8::from(values.iter().sum::<f64>() > 0.0);
        let _ = writeln!(table, "{label},{},{},{}", values[0], values[1], values[2]);
        let there: Vec<usize> = (0..3).filter(|place| values[*place] != 0.0).collect();
        let join = |texts: Vec<String>| texts.join("|");
        let indices = join(there.iter().map(usize::to_string).collect());
        let _ = writeln!(
            lists,
            "{label},{indices},{}",
            join(
                there
                    .iter()
                    .map(|place| values[*place].to_string())
                    .collect()
            )
        );
    }
    let solo = Solo::new(
        r#"
[input]
label = { column = "label" }
[input.train]
files = ["lists.csv"]
batch_size = 16
epochs = 2
[[feature]]
column = "index"
kind = "identity"
buckets = 3
separator = "|"
weights = "value"
[model]
kind = "linear_classifier"
"#,
    );
    solo.write("table.csv", &table);
    solo.write("lists.csv", &lists);
    trainyard(
        &[
            "convert",
            &solo.argument("table.csv"),
            &solo.argument("table.svm"),
        ],
        0,
    );
    let expected = train(&solo, "lists", &[]);
    let trained = train(&solo, "libsvm", &[files(&["table.svm"]), format("libsvm")]);
    trained.assert_equals(&expected, "columns as libsvm");
}

trial!(a_positive_label_with_a_star_stands_for_every_ending);
fn a_positive_label_with_a_star_stands_for_every_ending() {
    let solo = Solo::new(JOB);
    let adult = |truth: bool, row: usize| match (truth, row % 3) {
        (true, 0) => ">50K",
        (true, _) => ">50K.",
        (false, 0) => "<=50K",
        (false, _) => "<=50K.",
    };
    solo.write("adult.csv", &rows(1, adult));
    solo.write("any.csv", &rows(1, zero_or_one));
    solo.write(
        "exact.csv",
        &rows(1, |truth, row| zero_or_one(truth && row % 3 == 0, row)),
    );
    let star = train(
        &solo,
        "star",
        &[
            files(&["adult.csv"]),
            "input.label.positive=\">50K*\"".to_owned(),
        ],
    );
    let any = train(&solo, "any", &[files(&["any.csv"])]);
    star.assert_equals(&any, "`>50K*` is `>50K` and `>50K.`");
    let text = train(
        &solo,
        "text",
        &[
            files(&["adult.csv"]),
            "input.label.positive=\">50K\"".to_owned(),
        ],
    );
    let exact = train(&solo, "exact", &[files(&["exact.csv"])]);
    text.assert_equals(&exact, "`>50K` is that text alone");
    assert!(star != text, "the star changes something");
}

trial!(texts_that_stand_for_a_missing_value_are_missing);
fn texts_that_stand_for_a_missing_value_are_missing() {
    let solo = Solo::new(JOB);
    let empty = rows(1, zero_or_one);
    solo.write("empty.csv", &empty);
    let marked: String = empty
        .lines()
        .enumerate()
        .map(|(line, text)| text.replace(",,", if line % 2 == 0 { ",?," } else { ",NULL," }) + "\n")
        .collect();
    assert!(marked.contains(",?,") && marked.contains(",NULL,"));
    solo.write("marked.csv", &marked);
    let expected = train(&solo, "empty", &[files(&["empty.csv"])]);
    let missing = "input.missing=[\"?\", \"NULL\"]".to_owned();
    train(&solo, "marked", &[files(&["marked.csv"]), missing]).assert_equals(&expected, "missing");
    let told = solo.run("unsaid", &[&files(&["marked.csv"])], 65);
    assert!(
        told.contains("error[E4004]") && told.contains("column `z`"),
        "{told}"
    );
}

trial!(spaces_around_a_field_belong_to_it_where_the_job_does_not_trim);
fn spaces_around_a_field_belong_to_it_where_the_job_does_not_trim() {
    let solo = Solo::new(JOB);
    let narrow = rows(1, zero_or_one);
    let (names, records) = narrow.split_once('\n').expect("a header");
    let spaced = format!("{names}\n{}", records.replace(",w", ", w"));
    solo.write("narrow.csv", &narrow);
    solo.write("spaced.csv", &spaced);
    let from = solo.argument("spaced.csv");
    trainyard(
        &[
            "convert",
            &from,
            &solo.argument("kept.tfrecord"),
            "--keep-spaces",
        ],
        0,
    );
    trainyard(&["convert", &from, &solo.argument("dropped.tfrecord")], 0);
    let spaced = |trim: bool| [files(&["spaced.csv"]), format!("input.trim={trim}")];
    let examples = |name: &str| [files(&[name]), format("tfrecord")];
    let kept = train(&solo, "kept", &spaced(false));
    let dropped = train(&solo, "dropped", &spaced(true));
    train(&solo, "narrow", &[files(&["narrow.csv"])]).assert_equals(&dropped, "trim = true");
    train(&solo, "dropped-examples", &examples("dropped.tfrecord"))
        .assert_equals(&dropped, "converted");
    let kept_examples = train(&solo, "kept-examples", &examples("kept.tfrecord"));
    kept_examples.assert_equals(&kept, "converted with --keep-spaces");
    assert!(kept != dropped, "` w1` is another word than `w1`");
    // So it is with the names of the columns.
    solo.write("spaced.csv", &narrow.replace(",w", ", w"));
    train(&solo, "names", &spaced(true)).assert_equals(&dropped, "names are trimmed too");
    let told = solo.run(
        "other-name",
        &[&files(&["spaced.csv"]), "input.trim=false"],
        65,
    );
    assert!(
        told.contains("error[E4003]") && told.contains("did you mean ` word`?"),
        "{told}"
    );
}

/// A bad row as a dead-letter file tells it: its number, column and content. In the order of the numbers.
type Letter = (u64, Option<String>, String);

/// Reads the dead letters of a model folder; `number` is the key of their numbers.
fn dead_letters(solo: &Solo, model: &str, number: &str) -> Vec<Letter> {
    let letter = |line: &str| -> Letter {
        let value: serde_json::Value = serde_json::from_str(line).expect("a line is JSON");
        assert!(
            value["reason"]
                .as_str()
                .is_some_and(|reason| !reason.is_empty()),
            "{value}"
        );
        let text = |key: &str| value[key].as_str().map(str::to_owned);
        let content = text("content").unwrap_or_else(|| panic!("no content in {value}"));
        let number = value[number]
            .as_u64()
            .unwrap_or_else(|| panic!("no number of a {number} in {value}"));
        (number, text("column"), content)
    };
    let mut letters: Vec<Letter> = solo
        .read(&format!("{model}/dead_letter/chief-0.jsonl"))
        .lines()
        .map(letter)
        .collect();
    letters.sort();
    letters
}

trial!(bad_rows_are_left_out_written_down_once_and_bounded);
fn bad_rows_are_left_out_written_down_once_and_bounded() {
    let solo = Solo::new(JOB);
    let clean = rows(1, zero_or_one);
    let long = format!("one,2,{},1", "w".repeat(1000));
    // The header is line 1.
    let bad: [(u64, Option<&str>, &str); 3] = [
        (21, None, "1,2,w3"),
        (102, Some("x"), &long),
        (184, Some("y"), "1,2,w3,maybe"),
    ];
    let mut lines: Vec<&str> = clean.lines().collect();
    for (number, _, content) in bad {
        lines.insert(number as usize - 1, content);
    }
    solo.write("clean.csv", &clean);
    solo.write("bad.csv", &(lines.join("\n") + "\n"));
    let expected =
        bad.map(|(number, column, text)| (number, column.map(str::to_owned), text.to_owned()));
    let bad = files(&["bad.csv"]);
    let skip = "input.bad_rows=\"skip\"";

    // A batch that is handed out has fewer rows; who reads a share goes on until a batch is full.
    let mut arguments = solo.training("dynamic", &[&bad, skip]);
    arguments.extend(["--report".to_owned(), solo.argument("report.json")]);
    let told = trainyard(&arguments.iter().map(String::as_str).collect::<Vec<_>>(), 0);
    assert!(
        told.contains("records are bad and left out, as input.bad_rows is \"skip\""),
        "{told}"
    );
    let report: serde_json::Value =
        serde_json::from_str(&solo.read("report.json")).expect("the report is JSON");
    assert_eq!(
        report["examples"].as_u64(),
        Some(2 * ROWS as u64),
        "{report}"
    );
    assert_eq!(dead_letters(&solo, "dynamic", "line"), expected);

    let in_order = ["input.train.sharding=\"row\"", "input.train.shuffle_rows=0"];
    let clean = solo.train("clean", &[&files(&["clean.csv"]), in_order[0], in_order[1]]);
    let left = solo.train("row", &[&bad, skip, in_order[0], in_order[1]]);
    left.assert_equals(&clean, "what is left when bad rows are left out");
    assert_eq!(dead_letters(&solo, "row", "line"), expected);

    let most = "input.bad_rows_max=3";
    solo.run("as-many", &[&bad, skip, most], 0);
    for (model, set) in [
        ("too-many", [skip, "input.bad_rows_max=2"]),
        ("fail", ["input.bad_rows=\"fail\"", most]),
    ] {
        let told = solo.run(model, &[&bad, set[0], set[1]], 65);
        assert!(
            told.contains("error[E4004]") && told.contains("bad.csv"),
            "{model}: {told}"
        );
    }
}

trial!(a_bad_row_is_known_by_its_number_in_every_format);
fn a_bad_row_is_known_by_its_number_in_every_format() {
    let solo = Solo::new(JOB);
    // Two rows without a label, of 250.
    let mut lines: Vec<String> = rows(1, zero_or_one).lines().map(str::to_owned).collect();
    for row in [7, 200] {
        let text = &mut lines[row];
        text.pop();
    }
    solo.write("bad.csv", &(lines.join("\n") + "\n"));
    for (format_name, number, first) in [
        ("csv", "line", 1),
        ("tsv", "line", 1),
        ("tfrecord", "record", 0),
        ("parquet", "row", 0),
    ] {
        let name = format!("bad.{format_name}");
        if format_name != "csv" {
            trainyard(
                &["convert", &solo.argument("bad.csv"), &solo.argument(&name)],
                0,
            );
        }
        let skip = "input.bad_rows=\"skip\"".to_owned();
        train(
            &solo,
            format_name,
            &[files(&[&name]), format(format_name), skip],
        );
        let letters = dead_letters(&solo, format_name, number);
        let told: Vec<(u64, Option<&str>)> = letters
            .iter()
            .map(|(number, column, _)| (*number, column.as_deref()))
            .collect();
        assert_eq!(
            told,
            [(7 + first, Some("y")), (200 + first, Some("y"))],
            "{format_name}"
        );
    }
}

trial!(a_chief_refuses_training_files_of_two_units_before_it_writes_anything);
fn a_chief_refuses_training_files_of_two_units_before_it_writes_anything() {
    let cluster = TestCluster::new(1, 1, 8, "");
    let file = |name: &str| {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../crates/input/testdata");
        folder.join(name).display().to_string()
    };
    let files = [file("duration_s.parquet"), file("duration_ms.parquet")];
    let model_dir = cluster.model_dir();
    let job = format!(
        "model_dir = {model_dir:?}\n[input]\nformat = \"parquet\"\nlabel = {{ column = \"d\" }}\ntrain = {{ files = {files:?}, epochs = 1 }}\n\
         [[feature]]\ncolumn = \"d\"\nkind = \"numeric\"\n[model]\nkind = \"linear_regressor\"\n"
    );
    std::fs::write(&cluster.job, job).expect("the job is written");
    let ended = cluster.start("chief", 0, &[]).wait(LIMIT);
    assert_eq!(ended.code, 65, "{}", ended.output);
    for part in [
        "E4003",
        "`d`",
        "durations in seconds in",
        "durations in milliseconds in",
        "duration_ms.parquet",
    ] {
        assert!(ended.output.contains(part), "{part}: {}", ended.output);
    }
    let made = std::fs::read_dir(&model_dir).expect("a folder");
    let names: Vec<String> = made
        .map(|entry| {
            entry
                .expect("a file")
                .file_name()
                .to_string_lossy()
                .into_owned()
        })
        .filter(|name| name.starts_with("model.ckpt"))
        .collect();
    assert!(names.is_empty(), "{names:?}");
}
