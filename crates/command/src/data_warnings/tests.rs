//! Jobs compared with records that do not fit them.

use std::path::Path;

use trainyard_diagnostic::Diagnostic;
use trainyard_input::{Cell, Decimal, Format, NumberStyle, Profile, Ticks, TypeKind, Value};
use trainyard_run_config::{HeadKind, Job, Update};

use super::{look, look_at_labels_of_evaluation, look_at_length, look_for_unknown_values};

/// Returns a job with this label and these features.
fn job(label: &str, kind: &str, features: &[&str]) -> Job {
    let features: String = features
        .iter()
        .map(|feature| format!("[[feature]]\n{feature}\n"))
        .collect();
    let text = format!(
        "model_dir = \"m\"\n[input]\nlabel = {label}\ntrain = {{ files = [\"rows.csv\"], epochs = 1 }}\n{features}[model]\nkind = \"{kind}\"\n"
    );
    Job::parse(Path::new("job.toml"), &text, &[]).expect("the job is good")
}

/// Returns the profile of a hundred records. Each column repeats its values in turn.
fn profile(columns: &[(&str, &[&str])]) -> Profile {
    let names: Vec<String> = columns.iter().map(|(name, _)| (*name).to_owned()).collect();
    let mut profile = Profile::default();
    for number in 0..100 {
        let cell = |values: &[&str]| match values[number % values.len()] {
            "" => Cell::default(),
            text => Cell {
                values: vec![Value::Text(text.into())],
                list: false,
            },
        };
        let row: Vec<Cell> = columns.iter().map(|(_, values)| cell(values)).collect();
        profile.see(&names, &row);
    }
    profile
}

/// Returns all findings, one per line.
fn told(job: &Job, columns: &[(&str, &[&str])]) -> Vec<String> {
    let found = look(job, &profile(columns));
    let lines = found
        .lines
        .into_iter()
        .map(|(name, text)| format!("ok {name}: {text}"));
    lines
        .chain(
            found
                .warnings
                .iter()
                .map(|warning| warning.render().replace('\n', "")),
        )
        .collect()
}

#[test]
fn missing_words_of_a_column_that_is_not_there_are_told() {
    let label = "{ column = \"y\" }";
    let with = |missing_of: &str| {
        let mut job = job(
            label,
            "linear_regressor",
            &["column = \"age\"\nkind = \"numeric\""],
        );
        let columns = [(missing_of.to_owned(), vec!["NA".to_owned()])];
        job.input.missing.of_columns = columns.into();
        told(&job, &[("age", &["1", "2"]), ("y", &["0.5", "2.5"])])
            .into_iter()
            .filter(|line| line.contains("missing_of"))
            .collect::<Vec<_>>()
    };
    assert_eq!(with("age"), Vec::<String>::new());
    let found = with("agee");
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(
        found[0].contains("`agee`, which no record of the sample of 100 has")
            && found[0].contains("did you mean `age`?"),
        "{found:?}"
    );
}

#[test]
fn times_of_a_format_have_a_unit_of_their_own_and_its_plain_numbers_have_none() {
    let feature = "column = \"at\"\nkind = \"bucketized\"\ntime = \"hour\"\nboundaries = [6, 12]";
    let mut job = job("{ column = \"y\" }", "linear_classifier", &[feature]);
    job.input.format = trainyard_input::Format::Parquet;
    let mut found = profile(&[
        ("at", &["1795823999000", "1795820399000"]),
        ("y", &["0", "1"]),
    ]);
    let is_told = |found: &Profile| {
        let warnings = look(&job, found).warnings;
        warnings
            .iter()
            .any(|one| one.render().contains("far from today"))
    };
    assert!(is_told(&found), "whole numbers");
    found
        .times
        .insert("at".to_owned(), TypeKind::Time(Ticks::Days));
    assert!(!is_told(&found), "times");
}

#[test]
fn a_unit_of_the_files_that_requests_do_not_have_is_told() {
    let feature = "column = \"at\"\nkind = \"bucketized\"\ntime = \"hour\"\nboundaries = [6, 12]";
    let mut found = profile(&[
        ("at", &["1795823999000", "1795820399000"]),
        ("y", &["0", "1"]),
    ]);
    let told = |feature: &str, unit, found: &mut Profile| {
        found.times.insert("at".to_owned(), TypeKind::Time(unit));
        let job = job("{ column = \"y\" }", "linear_classifier", &[feature]);
        let warnings = look(&job, found).warnings;
        warnings.iter().map(Diagnostic::render).collect::<String>()
    };
    let text = told(feature, Ticks::Milliseconds, &mut found);
    for part in [
        "in milliseconds in the files",
        "numbers in seconds",
        "time_unit = \"milliseconds\"",
    ] {
        assert!(text.contains(part), "{text}");
    }
    let right = format!("{feature}\ntime_unit = \"milliseconds\"");
    for (feature, unit) in [
        (right.as_str(), Ticks::Milliseconds),
        (feature, Ticks::Seconds),
        (feature, Ticks::Days),
    ] {
        let text = told(feature, unit, &mut found);
        assert!(!text.contains("requests"), "{text}");
    }
}

#[test]
fn times_in_another_unit_than_the_feature_are_warned_of() {
    let feature = "column = \"at\"\nkind = \"bucketized\"\ntime = \"hour\"\nboundaries = [6, 12]";
    let columns: [(&str, &[&str]); 2] = [
        ("at", &["1795823999000", "1795820399000"]),
        ("y", &["0", "1"]),
    ];
    let text = told(
        &job("{ column = \"y\" }", "linear_classifier", &[feature]),
        &columns,
    )
    .concat();
    assert!(
        text.contains("time_unit = \"milliseconds\"") && !text.contains("boundaries"),
        "{text}"
    );
    let right = format!("{feature}\ntime_unit = \"milliseconds\"");
    let text = told(
        &job("{ column = \"y\" }", "linear_classifier", &[&right]),
        &columns,
    )
    .concat();
    assert!(!text.contains("`at`"), "{text}");
}

#[test]
fn a_file_of_training_and_evaluation_is_warned_of() {
    let folder = tempfile::tempdir().expect("a folder");
    for name in ["a.csv", "b.csv"] {
        std::fs::write(folder.path().join(name), "").expect("written");
    }
    let with = |train: &str| {
        let text = format!(
            "model_dir = \"m\"\n[input]\nlabel = {{ column = \"y\" }}\ntrain = {{ files = [\"{train}\"], epochs = 1 }}\neval = {{ files = [\"b.csv\"] }}\n[[feature]]\n{NUMBER}\n[model]\nkind = \"linear_classifier\"\n"
        );
        let job = Job::parse(&folder.path().join("job.toml"), &text, &[]).expect("a job");
        told(&job, &[("x", &["1", "2"]), ("y", &["0", "1"])]).concat()
    };
    let text = with("*.csv");
    assert!(
        text.contains("b.csv is in input.train.files and in input.eval.files"),
        "{text}"
    );
    assert!(!with("a.csv").contains("input.eval.files"));
}

const NUMBER: &str = "column = \"x\"\nkind = \"numeric\"";

#[test]
fn a_label_that_never_is_the_positive_class_is_warned_of_with_the_nearest_value() {
    let columns: [(&str, &[&str]); 2] = [
        ("y", &["<=50K", "<=50K", "<=50K", ">50K"]),
        ("x", &["1", "2"]),
    ];
    let wrong = job(
        "{ column = \"y\", positive = \">50k\" }",
        "linear_classifier",
        &[NUMBER],
    );
    let text = told(&wrong, &columns).join("\n");
    assert!(
        text.starts_with("warning[E4005]: none of 100 labels of the sample is `>50k`"),
        "{text}"
    );
    assert!(
        text.contains("`y` holds `<=50K` (75.0 %), `>50K` (25.0 %)"),
        "{text}"
    );
    assert!(
        text.contains("did you mean input.label.positive = \">50K\"?"),
        "{text}"
    );
    let right = job(
        "{ column = \"y\", positive = \">50*\" }",
        "linear_classifier",
        &[NUMBER],
    );
    assert_eq!(
        told(&right, &columns),
        ["ok label: 25.0 % of 100 records are positive (`>50*`)"]
    );
    let all = job(
        "{ column = \"y\", positive = \"*\" }",
        "linear_classifier",
        &[NUMBER],
    );
    let text = told(&all, &columns).join("\n");
    assert!(
        text.contains("all 100 labels of the sample are `*`"),
        "{text}"
    );
}

#[test]
fn a_label_of_one_value_is_warned_of_whatever_the_head() {
    for (kind, value) in [("linear_classifier", "1"), ("linear_regressor", "2.5")] {
        let text = told(
            &job("{ column = \"y\" }", kind, &[NUMBER]),
            &[("y", &[value]), ("x", &["1", "2"])],
        )
        .join("\n");
        assert!(
            text.contains(&format!(
                "the label `y` is `{value}` (100.0 %) in all 100 records"
            )),
            "{text}"
        );
    }
}

#[test]
fn labels_that_are_no_class_and_classes_that_no_label_is_are_warned_of() {
    let label = "{ column = \"y\", vocabulary = [\"setos\", \"virginica\"] }";
    let job = job(label, "linear_classifier", &[NUMBER]);
    let text = told(&job, &[("y", &["setosa", "virginica"]), ("x", &["1", "2"])]).join("\n");
    assert!(
        text.contains("50 of 100 labels of the sample are not in input.label.vocabulary"),
        "{text}"
    );
    assert!(text.contains("no label is `setos`"), "{text}");
}

#[test]
fn a_class_that_is_written_in_several_ways_is_warned_of() {
    let vocabulary = |classes: &[&str]| format!("{{ column = \"y\", vocabulary = {classes:?} }}");
    let spelled = |label: &str, kind: &str, values: &[&str]| {
        let text = told(
            &job(label, kind, &[NUMBER]),
            &[("y", values), ("x", &["1", "2"])],
        )
        .join("\n");
        text.contains("which look like one class").then_some(text)
    };
    for values in [
        &["1", "true", "0", "false"][..],
        &["1", "1.0", "2"],
        &["yes", "no", "1"],
        &["Dog", "dog", "cat"],
    ] {
        let text = spelled(&vocabulary(values), "linear_classifier", values);
        let text = text.unwrap_or_else(|| panic!("{values:?}"));
        assert!(text.contains("each is a class of its own"), "{text}");
    }
    for values in [
        &["a", "A", "b"][..],
        &["1", "10", "01x"],
        &["1152921504606846977", "1152921504606846978"],
        &["yes", "0", "x"],
        &["no", "nope"],
    ] {
        assert_eq!(
            spelled(&vocabulary(values), "linear_classifier", values),
            None,
            "{values:?}"
        );
    }
    let positive = "{ column = \"y\", positive = \"true\" }";
    let text = spelled(
        positive,
        "linear_classifier",
        &["true", "0", "1", "False", "false"],
    );
    let text = text.expect("1 is negative");
    assert!(
        text.contains("`true` (20)") && text.contains("`1` (20)"),
        "{text}"
    );
    assert!(text.contains("only `true` is positive"), "{text}");
    // Both are negative.
    assert_eq!(
        spelled(positive, "linear_classifier", &["true", "no", "No"]),
        None
    );
}

#[test]
fn a_vocabulary_that_matches_nothing_is_warned_of_and_one_that_does_is_measured() {
    let of = |values: &str, more: &str| {
        let feature = format!("column = \"w\"\nkind = \"vocabulary\"\nvalues = {values}\n{more}");
        let job = job("{ column = \"y\" }", "linear_classifier", &[&feature]);
        told(&job, &[("y", &["0", "1"]), ("w", &["a|7", "b|8", "c|9"])]).remove(1)
    };
    let text = of("[\"A\", \"B\"]", "separator = \"|\"");
    assert!(
        text.contains("none of 200 values of `w` in the sample is in its vocabulary of 2"),
        "{text}"
    );
    assert_eq!(
        of("[\"a\", \"b\"]", "separator = \"|\""),
        "ok w: 33.5 % of 200 values are in the vocabulary of 2"
    );
}

#[test]
fn numbers_with_fractions_that_are_hashed_are_warned_of_and_whole_ones_are_not() {
    let feature = "column = \"w\"\nkind = \"hashed\"\nbuckets = 10";
    let job = job("{ column = \"y\" }", "linear_classifier", &[feature]);
    let text = told(&job, &[("y", &["0", "1"]), ("w", &["1.5", "2", "3"])]).remove(1);
    assert!(
        text.contains("`w` holds numbers with fractions, 34 of 100 in the sample, from 1.5 to 3"),
        "{text}"
    );
    assert_eq!(
        told(&job, &[("y", &["0", "1"]), ("w", &["1", "2", "3"])]).len(),
        1
    );
}

#[test]
fn columns_that_say_nothing_are_warned_of() {
    let job = job(
        "{ column = \"y\" }",
        "linear_classifier",
        &[NUMBER, "column = \"w\"\nkind = \"hashed\"\nbuckets = 10"],
    );
    let text = told(&job, &[("y", &["0", "1"]), ("x", &["3"]), ("w", &[""])]).join("\n");
    assert!(
        text.contains("`x` is `3` (100.0 %) in all 100 records"),
        "{text}"
    );
    assert!(
        text.contains("`w` holds no value in any of 100 records"),
        "{text}"
    );
}

#[test]
fn boundaries_that_divide_nothing_are_warned_of() {
    let feature = "column = \"x\"\nkind = \"bucketized\"\nboundaries = [100, 200]";
    let job = job("{ column = \"y\" }", "linear_classifier", &[feature]);
    let text = told(&job, &[("y", &["0", "1"]), ("x", &["1", "50"])]).remove(1);
    assert!(
        text.contains("`x` is from 1 to 50 in the sample: all of them are in one bucket"),
        "{text}"
    );
    assert_eq!(
        told(&job, &[("y", &["0", "1"]), ("x", &["1", "150"])]).len(),
        1
    );
}

#[test]
fn weights_that_are_all_0_are_warned_of_for_every_kind_of_label() {
    for (label, kind) in [
        ("{ column = \"y\" }", "linear_classifier"),
        ("{ column = \"y\" }", "linear_regressor"),
        (
            "{ column = \"y\", vocabulary = [\"0\", \"1\"] }",
            "linear_classifier",
        ),
    ] {
        let label = format!("{label}\nweight_column = \"w\"");
        let job = job(&label, kind, &[NUMBER]);
        for (weights, is_told) in [(&["0", "0.0"], true), (&["0", "0.5"], false)] {
            let columns: [(&str, &[&str]); 3] =
                [("y", &["0", "1"]), ("x", &["1", "2"]), ("w", weights)];
            let told = told(&job, &columns).join("\n");
            let found = told.contains("the weight `w` is 0 in all 100 records of the sample");
            assert_eq!(found, is_told, "{kind}: {told}");
            let found = look_at_labels_of_evaluation(&job, &profile(&columns)).warnings;
            let found = found
                .iter()
                .any(|warning| warning.message.contains("weight `w` is 0"));
            assert_eq!(found, is_told, "{kind}: the evaluation");
        }
    }
}

#[test]
fn labels_whose_rounding_to_32_bits_counts_are_warned_of() {
    let job = job("{ column = \"y\" }", "linear_regressor", &[NUMBER]);
    let cases: [(&[&str], Option<&str>); 6] = [
        (
            &["20000001", "20000003", "20000009"],
            Some("which are 2 apart there: 20000001 is 20000000 in them"),
        ),
        (
            &["1e9", "1000000001"],
            Some("1000000001 is 1000000000 in them"),
        ),
        (&["-1700000000.25", "-1700000010.5"], Some("are 128 apart")),
        (&["20000000", "20000002"], None),
        // The rounding is a billionth of the deviation.
        (&["20000001", "900000001"], None),
        (&["0.1", "0.7", "1000.3"], None),
    ];
    for (labels, expected) in cases {
        let told = told(&job, &[("y", labels), ("x", &["1", "2"])]).join("\n");
        match expected {
            Some(part) => assert!(told.contains(part), "{labels:?}: {told}"),
            None => assert!(!told.contains("32 bits"), "{labels:?}: {told}"),
        }
    }
}

#[test]
fn weights_that_32_bits_have_as_0_are_told_with_their_value() {
    let label = "{ column = \"y\" }\nweight_column = \"w\"";
    let job = job(label, "linear_classifier", &[NUMBER]);
    for (weight, is_told) in [
        ("1e-46", true),
        ("-1e-60", true),
        ("1e-40", false),
        ("0", false),
        ("1e-45", false),
    ] {
        let profile = profile(&[
            ("y", &["0", "1"]),
            ("x", &["1", "2"]),
            ("w", &["1", weight]),
        ]);
        let found = look(&job, &profile).warnings;
        let evaluated = look_at_labels_of_evaluation(&job, &profile).warnings;
        let all = found.iter().chain(&evaluated);
        let told: Vec<&str> = all.map(|one| one.message.as_str()).collect();
        let told: Vec<_> = told
            .iter()
            .filter(|told| told.contains("no 0 in the files"))
            .collect();
        assert_eq!(
            told.len(),
            if is_told { 2 } else { 0 },
            "{weight}: {told:?}"
        );
        for told in told {
            assert!(
                told.contains(weight) && told.contains("50 of 100 records"),
                "{told}"
            );
        }
    }
}

#[test]
fn durations_are_plain_numbers_of_a_feature_and_no_times_since_1970() {
    let plain = "column = \"at\"\nkind = \"numeric\"";
    let timed = format!("{plain}\ntime = \"hour\"");
    let mut found = profile(&[("at", &["5", "70"]), ("y", &["0", "1"])]);
    let kind = TypeKind::Duration(Ticks::Milliseconds);
    found.times.insert("at".to_owned(), kind);
    // That no feature takes their part is told of each file.
    for feature in [plain, &timed] {
        let job = job("{ column = \"y\" }", "linear_classifier", &[feature]);
        let warnings = look(&job, &found).warnings;
        let text: String = warnings.iter().map(Diagnostic::render).collect();
        assert!(!text.contains("`at` holds"), "{text}");
    }
}

#[test]
fn labels_and_weights_that_are_times_or_durations_are_warned_of() {
    let label = "{ column = \"y\" }\nweight_column = \"w\"";
    let job = job(label, "linear_regressor", &[NUMBER]);
    let mut profile = profile(&[("y", &["5", "9"]), ("x", &["1", "2"]), ("w", &["1", "3"])]);
    let times = [
        ("y".to_owned(), TypeKind::Time(Ticks::Milliseconds)),
        ("w".to_owned(), TypeKind::Duration(Ticks::Seconds)),
    ];
    profile.times.extend(times);
    let told: Vec<String> = look(&job, &profile)
        .warnings
        .into_iter()
        .map(|warning| warning.message)
        .collect();
    let expected = [
        "the label `y` holds times in milliseconds, which are taken for plain numbers of 32 bits",
        "the weight `w` holds durations in seconds, which are taken for plain numbers of 32 bits",
    ];
    assert_eq!(told, expected);
}

#[test]
fn a_handful_of_records_says_nothing() {
    let job = job(
        "{ column = \"y\", positive = \"a\" }",
        "linear_classifier",
        &[NUMBER],
    );
    let mut few = Profile::default();
    few.see(
        &["y".to_owned()],
        &[Cell {
            values: vec![Value::Text(b"b".to_vec())],
            list: false,
        }],
    );
    assert!(look(&job, &few).warnings.is_empty());
    let cell = |text: &str| Cell {
        values: vec![Value::Text(text.into())],
        list: false,
    };
    for number in 0..12 {
        few.see(
            &["y".to_owned(), "x".to_owned()],
            &[cell("b"), cell(&number.to_string())],
        );
    }
    let told = look(&job, &few).warnings;
    assert_eq!(told.len(), 1, "{told:?}");
    assert!(told[0].message.starts_with("none of 13 labels"), "{told:?}");
}

#[test]
fn infinite_numbers_of_a_feature_are_warned_of_unless_they_are_missing_ones() {
    let plain = job("{ column = \"y\" }", "linear_classifier", &[NUMBER]);
    let mut found = Profile::default();
    for number in 0..100 {
        let value = if number == 7 {
            f64::INFINITY
        } else {
            f64::from(number)
        };
        let row = [Value::Float(value), Value::Int(i64::from(number % 2))];
        let row = row.map(|value| Cell {
            values: vec![value],
            list: false,
        });
        found.see(&["x".to_owned(), "y".to_owned()], &row);
    }
    let told = look(&plain, &found).warnings;
    assert_eq!(told.len(), 1, "{told:?}");
    assert!(
        told[0]
            .message
            .starts_with("`x` holds 1 infinite numbers among 100"),
        "{told:?}"
    );
}

#[test]
fn classes_by_number_that_no_label_is_are_warned_of() {
    let of = |classes: usize, labels: &[&str]| {
        let mut job = job("{ column = \"y\" }", "linear_classifier", &[NUMBER]);
        job.model.n_classes = classes;
        job.model.head = HeadKind::MultiClass;
        told(&job, &[("y", labels), ("x", &["1", "2"])]).join("\n")
    };
    let text = of(3, &["0", "1"]);
    assert!(
        text.contains("none of 100 labels of the sample is the class 2: n_classes is 3"),
        "{text}"
    );
    assert!(
        of(4, &["1", "2", "3"]).contains("is the class 0:"),
        "labels from 1"
    );
    for (classes, labels) in [(3, &["0", "1", "2"][..]), (30, &["0", "1"])] {
        let text = of(classes, labels);
        assert!(!text.contains("is the class"), "{text}");
    }
}

#[test]
fn blanks_beside_the_separator_make_other_values_and_are_told_as_training_reads_them() {
    let of = |kind: &str, values: &[&str]| {
        let feature = format!("column = \"w\"\nseparator = \"|\"\n{kind}");
        let job = job("{ column = \"y\" }", "linear_classifier", &[&feature]);
        told(&job, &[("y", &["0", "1"]), ("w", values)]).join("\n")
    };
    let vocabulary = "kind = \"vocabulary\"\nvalues = [\"a\", \"b\"]";
    let text = of(vocabulary, &["a | b", "c"]);
    assert!(
        text.contains("50 fields of `w` in the sample have blanks beside the separator `|`"),
        "{text}"
    );
    assert!(text.contains("none of 150 values of `w`"), "{text}");
    let text = of("kind = \"hashed\"\nbuckets = 10", &["a| b", "a|b"]);
    assert!(text.contains("another value"), "{text}");
    let text = of(vocabulary, &["a|b", "b"]);
    assert!(!text.contains("blanks"), "{text}");
}

#[test]
fn a_table_that_admits_no_id_before_training_ends_is_warned_of() {
    let feature = "column = \"w\"\nkind = \"dynamic\"\nadmit_after = 150";
    let mut job = job("{ column = \"y\" }", "linear_classifier", &[feature]);
    let mut found = profile(&[("y", &["0", "1"]), ("w", &["a", "b"])]);
    let is_told = |job: &Job, found: &Profile| {
        let warnings = look(job, found).warnings;
        let told = "its most frequent value, `a`, occurs about";
        warnings.iter().any(|one| one.message.contains(told))
    };
    job.input.train.epochs = Some(2);
    assert!(!is_told(&job, &found), "a part of the records");
    found.is_whole = true;
    assert!(is_told(&job, &found), "all records");
    job.input.train.epochs = Some(3);
    assert!(!is_told(&job, &found), "150 times");
    found.is_whole = false;
    job.train.max_steps = Some(2);
    assert!(is_told(&job, &found), "256 records");
    job.train.max_steps = Some(3);
    assert!(!is_told(&job, &found), "384 records");
    job.strategy.update.mode = Update::Sync;
    job.train.max_steps = Some(2);
    assert!(!is_told(&job, &found), "a step of several batches");
}

#[test]
fn records_of_which_a_feature_knows_no_value_are_told_before_predictions() {
    let vocabulary = "column = \"w\"\nkind = \"vocabulary\"\nvalues = [\"red\"]";
    let identity = "column = \"n\"\nkind = \"identity\"\nbuckets = 10\ndefault = 0";
    let job = job(
        "{ column = \"y\" }",
        "linear_classifier",
        &[vocabulary, identity],
    );
    let told = |words: &[&str], ids: &[&str]| {
        let found = profile(&[("y", &["0", "1"]), ("w", words), ("n", ids)]);
        let warnings = look_for_unknown_values(&job, &found);
        warnings.iter().map(Diagnostic::render).collect::<String>()
    };
    let text = told(&["Red", "blue"], &["10", "11"]);
    for part in [
        "none of 100 values of `w` in the sample is in its vocabulary of 1",
        "`Red`",
        "`n` in the sample is an id from 0 to 9: they are from 10 to 11",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    assert_eq!(told(&["Red", "red"], &["10", "9"]), "");
    assert_eq!(told(&[""], &[""]), "");
}

#[test]
fn a_separator_that_no_field_has_is_told_with_the_one_that_they_have() {
    let of = |separator: &str, values: &[&str]| {
        let feature =
            format!("column = \"w\"\nseparator = \"{separator}\"\nkind = \"hashed\"\nbuckets = 10");
        let job = job("{ column = \"y\" }", "linear_classifier", &[&feature]);
        told(&job, &[("y", &["0", "1"]), ("w", values)]).join("\n")
    };
    for (other, values) in [
        (";", ["a;b", "c"]),
        (",", ["a,b", "c"]),
        (" ", ["a b", "c"]),
    ] {
        let text = of("|", &values);
        for part in [
            "none of 100 fields of `w` in the sample holds the separator \"|\"",
            &format!("50 hold \"{other}\""),
            &format!("separator = \"{other}\""),
        ] {
            assert!(text.contains(part), "{part}: {text}");
        }
    }
    for values in [
        &["a|b;c", "d;e"][..],
        &["a", "b"],
        &["a;b", "c", "d", "e", "f", "g"],
    ] {
        let text = of("|", values);
        assert!(!text.contains("holds the separator"), "{text}");
    }
}

#[test]
fn a_separator_in_texts_of_a_format_that_has_lists_is_told() {
    let of = |format: Format, values: &[&str]| {
        let feature = "column = \"w\"\nseparator = \"|\"\nkind = \"hashed\"\nbuckets = 10";
        let mut job = job("{ column = \"y\" }", "linear_classifier", &[feature]);
        job.input.format = format;
        told(&job, &[("y", &["0", "1"]), ("w", values)]).join("\n")
    };
    for format in [Format::Parquet, Format::TfRecord] {
        let text = of(format, &["a|b", "c"]);
        let expected = "50 of 100 values of `w` in the sample hold the separator \"|\", as \"a|b\", and a text of";
        assert!(text.contains(expected), "{text}");
        assert!(text.contains("is not split"), "{text}");
        assert!(!of(format, &["a;b", "c"]).contains("separator"));
    }
    assert!(!of(Format::Csv, &["a|b", "c"]).contains("is not split"));
}

#[test]
fn labels_between_0_and_1_are_probabilities_and_no_class_and_are_told_with_the_first_record() {
    let feature = "column = \"x\"\nkind = \"numeric\"";
    let of = |kind: &str, labels: &[&str]| {
        let job = job("{ column = \"y\" }", kind, &[feature]);
        told(&job, &[("y", labels), ("x", &["1", "2", "3"])]).join("\n")
    };
    let text = of("linear_classifier", &["0", "1", "0.5", "1"]);
    let expected = "25 of 100 labels in `y` are between 0 and 1, as 0.5, the first in record 3";
    assert!(text.contains(expected), "{text}");
    assert!(!text.contains("3 classes"), "{text}");
    for (kind, labels) in [
        ("linear_classifier", &["0", "1.0", "1"][..]),
        ("linear_regressor", &["0", "0.5", "1"]),
    ] {
        let text = of(kind, labels);
        assert!(!text.contains("between 0 and 1"), "{text}");
    }
}

#[test]
fn commas_and_units_that_may_mean_something_else_are_told() {
    let feature = "column = \"x\"\nkind = \"numeric\"";
    let of = |style: NumberStyle, values: &[&str]| {
        let mut job = job("{ column = \"y\" }", "linear_classifier", &[feature]);
        job.input.text.numbers = style.clone();
        let mut found = Profile::default().in_style(style);
        let names = ["y", "x"].map(str::to_owned);
        for row in 0..100 {
            let cells = [["0", "1"][row % 2], values[row % values.len()]];
            let cells = cells.map(|text| Cell {
                values: vec![Value::Text(text.into())],
                list: false,
            });
            found.see(&names, &cells);
        }
        let warnings = look(&job, &found).warnings;
        warnings.iter().map(Diagnostic::render).collect::<String>()
    };
    let decimal = NumberStyle {
        decimal: Decimal::Comma,
        ..NumberStyle::default()
    };
    let text = of(decimal.clone(), &["12,345", "7,250"]);
    for part in ["it may mean", "input.thousands"] {
        assert!(text.contains(part), "{part}: {text}");
    }
    assert!(!of(decimal.clone(), &["12,345", "0,5"]).contains("it may mean"));
    let said = NumberStyle {
        thousands: Some('.'),
        ..decimal
    };
    assert!(!of(said, &["12,345", "7,250"]).contains("it may mean"));
    let units = NumberStyle {
        units: vec!["$".to_owned(), "%".to_owned()],
        ..NumberStyle::default()
    };
    let text = of(units.clone(), &["$5", "5%", "0"]);
    let expected =
        "`x` holds numbers of several units, or with one and without: 34 as \"$5\", 33 as \"5%\"";
    assert!(text.contains(expected), "{text}");
    assert!(!of(units, &["5%", "0", "7%"]).contains("several units"));
}

#[test]
fn numbers_that_are_no_times_since_1970_are_told_where_a_feature_takes_them_for_times() {
    let hours: &[&str] = &["0", "6", "12", "23"];
    let since_midnight: &[&str] = &["600", "43200", "86000"];
    let dates: &[&str] = &["20220105", "20241231"];
    let births: &[&str] = &["100000000", "-100000000"];
    let now: &[&str] = &["1795823999", "1795820399"];
    for (part, numbers, told_of) in [
        (
            "hour",
            hours,
            Some("the feature has the number 0 for all of them"),
        ),
        (
            "weekday",
            hours,
            Some("the feature has the number 3 for all of them"),
        ),
        ("hour", since_midnight, None),
        ("weekday", since_midnight, Some("the number 3")),
        ("hour", dates, Some("all are of 1969 to 1970")),
        ("hour", births, None),
        ("hour", now, None),
    ] {
        let feature = format!("column = \"at\"\nkind = \"numeric\"\ntime = \"{part}\"");
        let job = job("{ column = \"y\" }", "linear_classifier", &[&feature]);
        let text = told(&job, &[("at", numbers), ("y", &["0", "1"])]).concat();
        match told_of {
            Some(of) => assert!(
                text.contains(of) && text.contains("`at`"),
                "{part} {numbers:?}: {text}"
            ),
            None => assert!(!text.contains("`at`"), "{part} {numbers:?}: {text}"),
        }
    }
}

#[test]
fn a_part_that_the_times_of_a_file_do_not_have_is_told() {
    for (part, unit, numbers, told_of) in [
        ("weekday", Ticks::Days, ["20000", "20001"], None),
        (
            "weekday",
            Ticks::Milliseconds,
            ["0", "86399999"],
            Some("the number 3"),
        ),
        ("hour", Ticks::Milliseconds, ["0", "86399999"], None),
    ] {
        let mut found = profile(&[("at", &numbers), ("y", &["0", "1"])]);
        found.times.insert("at".to_owned(), TypeKind::Time(unit));
        let feature = format!(
            "column = \"at\"\nkind = \"numeric\"\ntime = \"{part}\"\ntime_unit = \"milliseconds\""
        );
        let job = job("{ column = \"y\" }", "linear_classifier", &[&feature]);
        let warnings = look(&job, &found).warnings;
        let text: String = warnings.iter().map(Diagnostic::render).collect();
        match told_of {
            Some(of) => assert!(text.contains(of), "{part} {unit:?}: {text}"),
            None => assert!(!text.contains("`at`"), "{part} {unit:?}: {text}"),
        }
    }
}

#[test]
fn a_scale_of_the_label_that_is_not_that_of_the_labels_is_told() {
    let mut job = job(
        "{ column = \"y\" }",
        "linear_regressor",
        &["column = \"x\"\nkind = \"numeric\""],
    );
    let labels: [(&str, &[&str]); 2] = [("x", &["1", "2"]), ("y", &["290", "310"])];
    for (mean, stddev, is_told) in [
        (0.0, 1.0, false),
        (300.0, 10.0, false),
        (301.0, 30.0, false),
        (3.0, 10.0, true),
        (300.0, 10_000.0, true),
        (300.0, 0.01, true),
    ] {
        (job.model.label_mean, job.model.label_stddev) = (mean, stddev);
        let text = told(&job, &labels).concat();
        assert_eq!(
            text.contains("label_mean = "),
            is_told,
            "{mean} {stddev}: {text}"
        );
    }
}

#[test]
fn early_stopping_that_comes_after_the_last_pass_is_told_if_all_records_are_known() {
    let text = "model_dir = \"m\"\n[input]\nlabel = { column = \"y\" }\ntrain = { files = [\"rows.csv\"], epochs = 2, batch_size = 30 }\n\
                eval = { files = [\"rows.csv\"] }\n[[feature]]\ncolumn = \"x\"\nkind = \"numeric\"\n[model]\nkind = \"linear_classifier\"\n\
                [train.early_stopping]\nmetric = \"auc\"\nmax_evaluations_without_improvement = 1\n[run]\nsave_checkpoints_steps = 9\n";
    let job = |set: &[&str]| {
        let set: Vec<String> = set.iter().map(|one| (*one).to_owned()).collect();
        Job::parse(Path::new("job.toml"), text, &set).expect("a job")
    };
    let mut profile = profile(&[("x", &["1", "2"]), ("y", &["0", "1"])]);
    let told = |set: &[&str], profile: &Profile| -> String {
        let warnings = look_at_length(&job(set), profile);
        warnings.iter().map(Diagnostic::render).collect()
    };
    assert_eq!(told(&[], &profile), "", "more records may follow");
    profile.is_whole = true;
    let text = told(&[], &profile);
    assert!(
        text.contains(
            "`save_checkpoints_steps` of [run] is 9: the run has 8 steps, with epochs = 2"
        ),
        "{text}"
    );
    let text = told(&["run.save_checkpoints_steps=4"], &profile);
    assert!(
        text.contains(
            "`max_evaluations_without_improvement` of [train.early_stopping] does nothing at 1"
        ),
        "{text}"
    );
    assert_eq!(told(&["run.save_checkpoints_steps=3"], &profile), "");
    assert_eq!(
        told(&["train.max_steps=8"], &profile),
        "",
        "the job's own warnings have it"
    );
}
