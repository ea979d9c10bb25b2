//! `trainyard predict`: its lines can be joined to the records.

use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::{Value, json};
use trainyard_input::{Cell, Format, Kept, Layout, TableReader, TableWriter};
use trainyard_tests::{Ended, Program, write_job};

use crate::end_to_end::LIMIT;

/// A trained job with the rows of `records.csv`: ten, of which the third, seventh and tenth cannot be read. Each has its number.
fn trained(folder: &Path) -> String {
    let job = write_job(folder, 400, "[train]\nmax_steps = 20\n")
        .to_string_lossy()
        .into_owned();
    let ended = Program::start("trainyard", &["train", &job], &[]).wait(LIMIT);
    assert_eq!(ended.code, 0, "{}", ended.output);
    let row = |number: usize| match number {
        3 => "three,0.5,w1,0".to_owned(),
        7 => "0.1,seven,w1,0".to_owned(),
        10 => "0.1,0.2".to_owned(),
        _ => format!("0.{number},-0.{number},w{number},0"),
    };
    let rows: String = (1..=10)
        .map(|number| {
            let name = if number == 10 {
                String::new()
            } else {
                format!(",\"user {number}, \"\"x\"\"\"")
            };
            format!("{}{name}\n", row(number))
        })
        .collect();
    std::fs::write(
        folder.join("records.csv"),
        format!("x,z,word,y,user\n{rows}"),
    )
    .expect("it is written");
    job
}

/// Predicts the records, and returns the lines.
fn predict(folder: &Path, job: &str, more: &[&str]) -> (Ended, Vec<String>) {
    let records = folder.join("records.csv");
    let lines = folder.join("lines");
    let [records, out] = [&records, &lines].map(|path| path.to_string_lossy().into_owned());
    let arguments = [
        &["predict", job, "--input", &records, "--output", &out],
        more,
    ]
    .concat();
    let ended = Program::start("trainyard", &arguments, &[]).wait(LIMIT);
    let text = std::fs::read_to_string(lines).unwrap_or_default();
    (ended, text.lines().map(str::to_owned).collect())
}

trial!(each_record_has_a_line_with_its_kept_columns_and_a_bad_one_says_why);
fn each_record_has_a_line_with_its_kept_columns_and_a_bad_one_says_why() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let folder = folder.path();
    let job = trained(folder);
    let skip = "input.bad_rows=\"skip\"";
    let (ended, lines) = predict(folder, &job, &["--keep", "user,word", "--set", skip]);
    assert_eq!(ended.code, 0, "{}", ended.output);
    assert!(
        ended.output.contains("predicted 7 of 10 records"),
        "{}",
        ended.output
    );
    assert_eq!(lines.len(), 10);
    for (number, line) in (1_u32..).zip(&lines) {
        let line: Value = serde_json::from_str(line).expect("a line is JSON");
        match number {
            // The record has no such field.
            10 => assert_eq!(line["user"], Value::Null, "{line}"),
            _ => assert_eq!(line["user"], format!("user {number}, \"x\""), "{line}"),
        }
        if [3, 7, 10].contains(&number) {
            let why = line["error"].as_str().expect("a reason");
            assert!(
                why.contains(&format!("records.csv:{}", number + 1)),
                "{why}"
            );
            assert_eq!(line["probabilities"], Value::Null, "{line}");
        } else {
            assert_eq!(line["word"], format!("w{number}"));
            assert_eq!(
                line["probabilities"].as_array().map(Vec::len),
                Some(2),
                "{line}"
            );
        }
    }
    let (ended, csv) = predict(
        folder,
        &job,
        &["--keep", "user", "--format", "csv", "--set", skip],
    );
    assert_eq!(ended.code, 0, "{}", ended.output);
    let header = "user,class_ids,classes,logistic,logits,probabilities_0,probabilities_1,error";
    assert_eq!((csv.len(), csv[0].as_str()), (11, header));
    assert!(
        csv[1].starts_with("\"user 1, \"\"x\"\"\",") && csv[1].ends_with(','),
        "{}",
        csv[1]
    );
    assert!(
        csv[3].starts_with("\"user 3, \"\"x\"\"\",,,,,,,\""),
        "{}",
        csv[3]
    );
}

trial!(where_no_row_may_be_bad_all_records_have_their_lines_and_the_command_fails);
fn where_no_row_may_be_bad_all_records_have_their_lines_and_the_command_fails() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let folder = folder.path();
    let job = trained(folder);
    let (ended, lines) = predict(folder, &job, &[]);
    assert_eq!((ended.code, lines.len()), (65, 10), "{}", ended.output);
    for words in [
        "error[E4004]: 3 of 10 records are unreadable, 0 may be",
        "records.csv:4: column `x`",
        "bad_rows",
    ] {
        assert!(
            ended.output.contains(words),
            "`{words}` in {}",
            ended.output
        );
    }
    // A run that fails before its end leaves an earlier result as it is.
    let (ended, after) = predict(folder, &job, &["--keep", "usr"]);
    assert_eq!((ended.code, after), (65, lines), "{}", ended.output);
    assert!(
        ended.output.contains("column `usr`") && ended.output.contains("did you mean `user`?"),
        "{}",
        ended.output
    );
    let (ended, _) = predict(
        folder,
        &job,
        &[
            "--keep",
            "y",
            "--set",
            "input.columns=[\"x\",\"z\",\"word\",\"y\",\"logits\"]",
            "--keep",
            "logits",
        ],
    );
    assert_eq!(ended.code, 64, "{}", ended.output);
    assert!(
        ended
            .output
            .contains("--keep logits: a prediction has a value of that name"),
        "{}",
        ended.output
    );
    let (ended, _) = predict(folder, &job, &["--keep", "word,user", "--keep", "word"]);
    assert_eq!(ended.code, 64, "{}", ended.output);
    assert!(
        ended
            .output
            .contains("--keep names the column `word` twice"),
        "{}",
        ended.output
    );
}

trial!(kept_columns_are_the_same_whatever_the_format_of_the_files);
fn kept_columns_are_the_same_whatever_the_format_of_the_files() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let folder = folder.path();
    let job = trained(folder);
    std::fs::write(
        folder.join("records.csv"),
        "x,z,word,y,id,note\n0.5,1,w1,0,17,\n0.25,2,w2,1,18,late\n",
    )
    .expect("it is written");
    let told = |format: &str| {
        let input = folder
            .join(format!("records.{format}"))
            .to_string_lossy()
            .into_owned();
        let from = folder.join("records.csv").to_string_lossy().into_owned();
        if format != "csv" {
            let ended = Program::start("trainyard", &["convert", &from, &input], &[]).wait(LIMIT);
            assert_eq!(ended.code, 0, "{}", ended.output);
        }
        let kind = format!("input.format=\"{format}\"");
        let out = folder.join("lines").to_string_lossy().into_owned();
        let arguments = [
            "predict",
            &job,
            "--input",
            &input,
            "--output",
            &out,
            "--keep",
            "id,note,x",
            "--set",
            &kind,
        ];
        let ended = Program::start("trainyard", &arguments, &[]).wait(LIMIT);
        assert_eq!(ended.code, 0, "{}", ended.output);
        let text = std::fs::read_to_string(out).expect("the lines");
        let lines = text
            .lines()
            .map(|line| serde_json::from_str::<Value>(line).expect("a line is JSON"));
        lines
            .map(|line| ["id", "note", "x", "logits"].map(|key| line[key].clone()))
            .collect::<Vec<_>>()
    };
    let parquet = told("parquet");
    assert_eq!(parquet[0][..3], [json!(17), json!(null), json!(0.5)]);
    assert_eq!(parquet[1][..3], [json!(18), json!("late"), json!(0.25)]);
    assert_eq!(told("tfrecord"), parquet);
    // Fields of text have no type.
    let csv = told("csv");
    assert_eq!(csv[1][..3], [json!("18"), json!("late"), json!("0.25")]);
    let logits =
        |lines: &[[Value; 4]]| lines.iter().map(|line| line[3].clone()).collect::<Vec<_>>();
    assert_eq!(logits(&csv), logits(&parquet));
    let mut records = std::fs::read(folder.join("records.csv")).expect("readable");
    records.extend_from_slice(b"0.1,0.2,w1,0,19,\xff\n");
    std::fs::write(folder.join("records.csv"), records).expect("it is written");
    for format in ["jsonl", "csv"] {
        let skip = "input.bad_rows=\"skip\"";
        let arguments = ["--keep", "note", "--format", format, "--set", skip];
        let (ended, _) = predict(folder, &job, &arguments);
        assert_eq!(ended.code, 65, "{}", ended.output);
        let told = "--keep note: a record holds bytes that are not UTF-8";
        assert!(ended.output.contains(told), "{}", ended.output);
    }
}

trial!(predictions_end_well_where_nobody_reads_them_any_more);
fn predictions_end_well_where_nobody_reads_them_any_more() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let folder = folder.path();
    let job = trained(folder);
    let rows: String = (0..20_000)
        .map(|row| format!("0.{row},0.1,w1,0\n"))
        .collect();
    let many = folder.join("many.csv");
    std::fs::write(&many, format!("x,z,word,y\n{rows}")).expect("it is written");
    let program = trainyard_tests::program("trainyard");
    let mut child = Command::new(program)
        .args(["predict", &job, "--input", &many.to_string_lossy()])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("it is started");
    let mut first = String::new();
    BufReader::new(child.stdout.take().expect("a pipe"))
        .read_line(&mut first)
        .expect("a line");
    assert!(first.starts_with('{'), "{first}");
    // The pipe is closed by now: it had room for a fraction of the lines.
    let ended = child.wait_with_output().expect("it ends");
    let told = String::from_utf8_lossy(&ended.stderr);
    assert_eq!((ended.status.code(), told.as_ref()), (Some(0), ""));
}

trial!(the_ending_of_the_output_says_its_format_and_all_formats_have_the_same_predictions);
fn the_ending_of_the_output_says_its_format_and_all_formats_have_the_same_predictions() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let folder = folder.path();
    let job = trained(folder);
    let at = |name: &str| folder.join(name).to_string_lossy().into_owned();
    let run = |arguments: &[&str]| Program::start("trainyard", arguments, &[]).wait(LIMIT);
    let predict = |name: &str, more: &[&str]| {
        let begin = [
            "predict",
            &job,
            "--input",
            &at("records.csv"),
            "--output",
            &at(name),
        ];
        let skip = ["--keep", "word", "--set", "input.bad_rows=\"skip\""];
        run(&[&begin, &skip[..], more].concat())
    };
    let text = |name: &str| std::fs::read_to_string(folder.join(name)).expect("it is there");
    // Through csv all tables have the same lines, but for lists, which have a column each or bars.
    let logits = |name: &str| -> Vec<String> {
        let lines = text(name);
        let mut lines = lines
            .lines()
            .map(|line| line.split(',').map(str::to_owned).collect());
        let header: Vec<String> = lines.next().expect("a header");
        let place = |name: &str| header.iter().position(|one| one == name).expect("a column");
        let (word, logits) = (place("word"), place("logits"));
        lines
            .map(|row: Vec<String>| format!("{} {}", row[word], row[logits]))
            .collect()
    };
    let ended = predict("p.csv", &[]);
    assert_eq!(ended.code, 0, "{}", ended.output);
    let expected = logits("p.csv");
    assert_eq!(expected.len(), 10);
    for name in ["p.tsv", "p.tsv.gz", "p.parquet", "p.tfrecord"] {
        let ended = predict(name, &[]);
        assert_eq!(ended.code, 0, "{name}: {}", ended.output);
        let back = format!("{name}.csv");
        let ended = run(&["convert", &at(name), &at(&back)]);
        assert_eq!(ended.code, 0, "{name}: {}", ended.output);
        assert_eq!(logits(&back), expected, "{name}");
    }
    for name in ["p.jsonl", "p.json", "p", "p.txt", "p.old"] {
        assert_eq!(predict(name, &[]).code, 0, "{name}");
        assert!(text(name).starts_with('{'), "{name}");
    }
    for (name, more, told) in [
        ("p.xlsx", &[][..], "does not write `.xlsx`"),
        ("p.bz2", &[], "does not write `.bz2`"),
        ("p.parquet.gz", &[], "compresses its pages"),
        ("p.csv", &["--format", "jsonl"], "contradict each other"),
    ] {
        let ended = predict(name, more);
        assert!(
            ended.code != 0 && ended.output.contains(told),
            "{name}: {}",
            ended.output
        );
    }
    assert_eq!(predict("p.xlsx", &["--format", "csv"]).code, 0);
    let evaluate = |name: &str| run(&["evaluate", &job, "--output", &at(name)]);
    assert_eq!(evaluate("m.json").code, 0);
    serde_json::from_str::<Value>(&text("m.json")).expect("JSON");
    assert!(evaluate("m.csv").output.contains("does not write `.csv`"));
    let report = run(&["train", &job, "--report", &at("r.yaml")]);
    assert!(
        report.output.contains("does not write `.yaml`"),
        "{}",
        report.output
    );
    let export = run(&["export", &job, "--output", &at("model.onnx")]);
    assert!(
        export.output.contains("an export is a folder"),
        "{}",
        export.output
    );
}

trial!(values_that_no_vocabulary_has_and_paths_of_a_shell_are_told_on_the_command_line);
fn values_that_no_vocabulary_has_and_paths_of_a_shell_are_told_on_the_command_line() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let folder = folder.path();
    let job = trained(folder);
    let at = |name: &str| folder.join(name).to_string_lossy().into_owned();
    let run = |arguments: &[&str]| Program::start("trainyard", arguments, &[]).wait(LIMIT);
    let told = run(&["predict", &job, "--output=~/p.csv"]);
    assert_eq!(told.code, 64, "{}", told.output);
    assert!(told.output.contains("begins with `~`"), "{}", told.output);
    let told = run(&["check", &job, "--set", "model_dir=\"$HOME/m\""]);
    assert!(
        told.output.contains("model_dir has `$HOME`"),
        "{}",
        told.output
    );
    let rows = |word: &str| {
        let rows: String = (0..60)
            .map(|row| format!("0.{row},0.5,{word},{}\n", row % 2))
            .collect();
        format!("x,z,word,y\n{rows}")
    };
    std::fs::write(folder.join("strange.csv"), rows("W1")).expect("written");
    std::fs::write(folder.join("known.csv"), rows("w1")).expect("written");
    let listed = std::fs::read_to_string(&job).expect("the job");
    let feature = "\n[[feature]]\ncolumn = \"word\"\nname = \"listed\"\nkind = \"vocabulary\"\nvalues = [\"w1\", \"w2\"]\nwide = true\ndeep = { embedding = 2 }\n";
    let other = folder.join("listed.toml");
    let begin = listed.find("[model]").expect("a model");
    let text = format!("{}{feature}\n{}", &listed[..begin], &listed[begin..]);
    std::fs::write(&other, text).expect("written");
    let other = other.to_string_lossy().into_owned();
    let model = at("listed-model");
    let trained = run(&["train", &other, "--model-dir", &model]);
    assert_eq!(trained.code, 0, "{}", trained.output);
    for (file, is_told) in [("strange.csv", true), ("known.csv", false)] {
        let ended = run(&[
            "predict",
            &other,
            "--model-dir",
            &model,
            "--input",
            &at(file),
            "--output",
            &at("p.jsonl"),
        ]);
        assert_eq!(ended.code, 0, "{}", ended.output);
        let found = ended
            .output
            .contains("none of 60 values of `word` in the sample is in its vocabulary");
        assert_eq!(found, is_told, "{file}: {}", ended.output);
    }
}

/// Writes the rows of a Parquet file of all types 40 times, with a number and a label beside them. Returns the names of its columns.
fn write_all_types(path: &Path) -> Vec<String> {
    let types =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../crates/input/testdata/types.parquet");
    let mut reader = TableReader::new(vec![types.clone()], Format::Parquet, None, None);
    let mut rows = 0_i64;
    while reader.read(&mut Vec::new()).expect("read") {
        rows += 40;
    }
    let columns = reader.columns().to_vec();
    let kept = Kept {
        files: vec![types; 40],
        columns: columns.clone(),
    };
    let names = ["x", "label"].map(str::to_owned);
    let row = |row: i64| {
        [row, row % 3 % 2].map(|number| Cell {
            values: vec![trainyard_input::Value::Int(number)],
            list: false,
        })
    };
    let mut layout = Layout::default();
    layout.see_typed(&names, &row(0));
    let mut writer = TableWriter::create_with_kept(path, layout, &kept).expect("created");
    for number in 0..rows {
        writer.write(&row(number)).expect("written");
    }
    writer.finish().expect("finished");
    columns
}

trial!(columns_of_all_types_of_parquet_are_kept_with_their_values_and_times_with_their_units);
fn columns_of_all_types_of_parquet_are_kept_with_their_values_and_times_with_their_units() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let folder = folder.path();
    let at = |name: &str| folder.join(name).to_string_lossy().into_owned();
    let run = |arguments: &[&str]| {
        let ended = Program::start("trainyard", arguments, &[]).wait(LIMIT);
        assert_eq!(ended.code, 0, "{arguments:?}: {}", ended.output);
    };
    let columns = write_all_types(&folder.join("all.parquet"));
    run(&[
        "init",
        &at("all.parquet"),
        "--out",
        &at("job"),
        "--seconds",
        "0",
    ]);
    let job = at("job/job.toml");
    run(&["train", &job, "--no-evaluation"]);
    let keep = columns.join(",");
    for name in ["p.parquet", "p.jsonl", "p.csv", "p.tfrecord"] {
        // The values of two columns are no text.
        let texts: Vec<&str> = columns.iter().map(String::as_str).collect();
        let texts: Vec<&str> = texts.into_iter().filter(|name| *name != "binary").collect();
        // JSON has no infinite numbers, and the column is refused by name.
        let texts: Vec<&str> = match name {
            "p.jsonl" => texts
                .into_iter()
                .filter(|name| *name != "f64_inf")
                .collect(),
            _ => texts,
        };
        let keep = match name {
            "p.jsonl" | "p.csv" => texts.join(","),
            // A list of a TFRecord has no place for a missing value, and the column is refused by name.
            "p.tfrecord" => {
                let with_gaps = ["texts", "ints", "u64s", "floats"];
                let whole = columns
                    .iter()
                    .filter(|name| !with_gaps.contains(&name.as_str()));
                whole.cloned().collect::<Vec<_>>().join(",")
            }
            _ => keep.clone(),
        };
        let data = at("all.parquet");
        let begin = ["predict", &job, "--input", &data, "--output"];
        run(&[&begin[..], &[&at(name), "--keep", &keep]].concat());
    }
    // The cells of each row, and where the file says that they are times, in which unit.
    let read = |name: &str| {
        let mut reader = TableReader::new(vec![folder.join(name)], Format::Parquet, None, None);
        let mut row = Vec::new();
        let mut found = Vec::new();
        while reader.read(&mut row).expect("read") {
            let kinds: Vec<_> = columns
                .iter()
                .map(|name| reader.kinds().get(name))
                .collect();
            found.push(format!("{:?} {kinds:?}", &row[..columns.len()]));
        }
        assert_eq!(reader.columns()[..columns.len()], columns, "{name}");
        found
    };
    assert_eq!(read("p.parquet"), read("all.parquet"));
}

trial!(times_are_compared_with_those_of_training_after_its_files_have_been_replaced);
fn times_are_compared_with_those_of_training_after_its_files_have_been_replaced() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let folder = folder.path();
    let at = |name: &str| folder.join(name).to_string_lossy().into_owned();
    let times = Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata/times");
    let copy = |from: &str, name: &str| {
        std::fs::copy(times.join(from), folder.join(name)).expect("it is copied");
    };
    let text = "model_dir = \"MODEL\"\n[input]\nformat = \"parquet\"\nlabel = { column = \"y\" }\ntrain = { files = [\"t.parquet\"], batch_size = 10, \
                epochs = 1 }\n[[feature]]\ncolumn = \"at\"\nkind = \"numeric\"\nnormalizer = \"standardize\"\nmean = 1.79507e12\nstddev = 4e7\n[model]\nkind = \"linear_classifier\"\n";
    std::fs::write(at("job.toml"), text.replace("MODEL", &at("model"))).expect("written");
    let job = at("job.toml");
    let run = |arguments: &[&str]| Program::start("trainyard", arguments, &[]).wait(LIMIT);
    copy("ms.parquet", "t.parquet");
    let ended = run(&["train", &job]);
    assert_eq!(ended.code, 0, "{}", ended.output);
    let exported = run(&["export", &job, "--output", &at("export")]);
    assert_eq!(exported.code, 0, "{}", exported.output);
    copy("ms.parquet", "ms.parquet");
    copy("us.parquet", "us.parquet");
    let look = |name: &str| {
        let input = at(name);
        let eval = format!("input.eval.files=[{input:?}]");
        let commands: [&[&str]; 4] = [
            &["predict", &job, "--input", &input, "--output", &at("p.csv")],
            &[
                "predict",
                &job,
                "--input",
                &input,
                "--output",
                &at("p.csv"),
                "--from",
                &at("export"),
            ],
            &["evaluate", &job, "--set", &eval],
            &[
                "transform",
                &job,
                "--input",
                &input,
                "--output",
                &at("x.jsonl"),
            ],
        ];
        commands.map(|arguments| (arguments[0].to_owned(), run(arguments)))
    };
    let replace: [&dyn Fn(); 3] = [&|| {}, &|| copy("us.parquet", "t.parquet"), &|| {
        std::fs::remove_file(at("t.parquet")).expect("removed")
    }];
    for (step, replace) in replace.iter().enumerate() {
        replace();
        for (command, ended) in look("us.parquet") {
            assert!(
                ended.code != 0
                    && ended.output.contains("times in microseconds")
                    && ended
                        .output
                        .contains("times in milliseconds in the files of training"),
                "{step} {command}: {}",
                ended.output
            );
        }
        for (command, ended) in look("ms.parquet") {
            assert_eq!(ended.code, 0, "{step} {command}: {}", ended.output);
            assert!(
                !ended.output.contains("times in"),
                "{step} {command}: {}",
                ended.output
            );
        }
    }
}

trial!(a_result_that_a_signal_ends_leaves_no_file_beside_it);
fn a_result_that_a_signal_ends_leaves_no_file_beside_it() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let folder = folder.path();
    let at = |name: &str| folder.join(name).to_string_lossy().into_owned();
    let rows = "0.5,1\n".repeat(2_000_000);
    std::fs::write(at("rows.csv"), format!("x,y\n{rows}")).expect("written");
    std::fs::write(at("few.csv"), "x,y\n0.5,1\n0.2,0\n").expect("written");
    let text = "model_dir = \"MODEL\"\n[input]\nlabel = { column = \"y\" }\ntrain = { files = [\"few.csv\"], batch_size = 2, epochs = 1 }\n\
                [[feature]]\ncolumn = \"x\"\nkind = \"numeric\"\n[model]\nkind = \"linear_classifier\"\n";
    std::fs::write(at("job.toml"), text.replace("MODEL", &at("model"))).expect("written");
    let (job, rows, out) = (at("job.toml"), at("rows.csv"), at("out.tfrecord"));
    let ended = Program::start("trainyard", &["train", &job], &[]).wait(LIMIT);
    assert_eq!(ended.code, 0, "{}", ended.output);
    let partial = || {
        let names = std::fs::read_dir(folder).expect("the folder");
        let mut names = names.map(|entry| entry.expect("an entry").file_name());
        names.find(|name| name.to_string_lossy().contains(".partial-"))
    };
    let predict = ["predict", &job, "--input", &rows, "--output", &out];
    let convert = ["convert", &rows, &out];
    for (signal, code) in [
        (rustix::process::Signal::TERM, 143),
        (rustix::process::Signal::INT, 130),
    ] {
        for arguments in [&predict[..], &convert] {
            let mut program = Program::start("trainyard", arguments, &[]);
            while partial().is_none() && program.runs() {
                std::thread::yield_now();
            }
            program.signal(signal);
            let ended = program.wait(LIMIT);
            assert_eq!(ended.code, code, "{arguments:?}: {}", ended.output);
            assert_eq!(partial(), None, "{arguments:?}");
            assert!(!Path::new(&out).exists(), "{arguments:?}");
        }
    }
}
