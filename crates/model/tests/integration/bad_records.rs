//! Records that a model cannot use are bad records: in every format, for every kind of feature and label, wherever
//! records are read.
#![expect(
    clippy::unwrap_used,
    reason = "a model that is not as the test says fails the test"
)]

use std::path::{Path, PathBuf};

use trainyard_input::{
    BadRows, Batch, Cell, Dataset, Error, Format, Given, Layout, NamedColumns, Options, Scan,
    TableWriter, Unfinished, Value, check,
};
use trainyard_model::{Canned, Model};
use trainyard_run_config::Job;

/// A table of three records, whose second one is bad.
struct Case {
    /// Keys of `input.label` after the column.
    label: &'static str,
    /// The section `[model]`.
    model: &'static str,
    /// The sections `[[feature]]`.
    features: &'static str,
    columns: &'static [&'static str],
    good: &'static [&'static str],
    bad: &'static [&'static str],
    /// The column at fault.
    column: &'static str,
    reason: &'static str,
}

const LINEAR: &str = "kind = \"linear_classifier\"";
const DNN: &str = "kind = \"dnn_classifier\"\nhidden_units = [2]";
const NUMBER: &str = "[[feature]]\ncolumn = \"x\"\nkind = \"numeric\"\nwide = true\n";

/// A case of a feature: its label is good.
const FEATURE: Case = Case {
    label: "",
    model: LINEAR,
    features: "",
    columns: &[],
    good: &[],
    bad: &[],
    column: "v",
    reason: "",
};

/// A case of a label.
const LABEL: Case = Case {
    features: NUMBER,
    columns: &["x", "y"],
    column: "y",
    ..FEATURE
};

const LETTERS: &str = "a|b|c|d|e|f|g|h|i|j|k|l|m|n|o|p|q";

const CASES: &[Case] = &[
    Case {
        features: "column = \"v\"\nkind = \"identity\"\nbuckets = 10\nwide = true\n",
        columns: &["v", "y"],
        good: &["3", "1"],
        bad: &["12", "1"],
        reason: "id must be below 10, given 12",
        ..FEATURE
    },
    Case {
        model: DNN,
        features: "column = \"v\"\nkind = \"identity\"\nbuckets = 10\nseparator = \"|\"\ndeep = { embedding = 2 }\n",
        columns: &["v", "y"],
        good: &["3|4", "1"],
        bad: &["3|10", "1"],
        reason: "id must be below 10, given 10",
        ..FEATURE
    },
    Case {
        features: "column = \"v\"\nkind = \"numeric\"\ntime = \"hour\"\nwide = true\n",
        columns: &["v", "y"],
        good: &["1700000000", "1"],
        bad: &["", "1"],
        reason: "a time is missing",
        ..FEATURE
    },
    Case {
        features: "column = \"v\"\nkind = \"bucketized\"\ntime = \"weekday\"\nboundaries = [5]\nwide = true\n",
        columns: &["v", "y"],
        good: &["1700000000", "1"],
        bad: &["", "1"],
        reason: "a time is missing",
        ..FEATURE
    },
    Case {
        features: "column = \"v\"\nkind = \"hashed\"\nbuckets = 9\nseparator = \"|\"\nweights = \"w\"\nwide = true\n",
        columns: &["v", "w", "y"],
        good: &["a|b", "1|2.5", "1"],
        bad: &["a|b", "1|2.5|3", "1"],
        column: "w",
        reason: "each of 2 ids must have a weight, given 3",
        ..FEATURE
    },
    Case {
        features: "column = \"v\"\nkind = \"hashed\"\nbuckets = 9\nseparator = \"|\"\nweights = \"w\"\nwide = true\n",
        columns: &["v", "w", "y"],
        good: &["a|b|?", "1|2.5", "1"],
        bad: &["a|?|b", "1|2.5", "1"],
        reason: "value 2 of the list is missing, and each value needs its weight",
        ..FEATURE
    },
    Case {
        features: "column = \"v\"\nkind = \"vocabulary\"\nvalues = [\"a\"]\nseparator = \"|\"\nweights = \"w\"\nwide = true\n",
        columns: &["v", "w", "y"],
        good: &["a|b", "1|2.5", "1"],
        bad: &["a|b", "1.5", "1"],
        column: "w",
        reason: "each of 2 ids must have a weight, given 1",
        ..FEATURE
    },
    Case {
        features: "column = \"v\"\nkind = \"identity\"\nbuckets = 9\nseparator = \"|\"\nweights = \"w\"\nwide = true\n",
        columns: &["v", "w", "y"],
        good: &["1|2", "1|2.5", "1"],
        bad: &["1|2", "", "1"],
        column: "w",
        reason: "each of 2 ids must have a weight, given 0",
        ..FEATURE
    },
    Case {
        model: DNN,
        features: "column = \"v\"\nkind = \"dynamic\"\nrows_max = 9\nseparator = \"|\"\nweights = \"w\"\ndeep = { embedding = 2 }\n",
        columns: &["v", "w", "y"],
        good: &["a|b", "1|2.5", "1"],
        bad: &["", "1|2.5", "1"],
        column: "w",
        reason: "each of 0 ids must have a weight, given 2",
        ..FEATURE
    },
    Case {
        features: "columns = [\"v\", \"u\", \"t\", \"s\", \"r\"]\nkind = \"hashed\"\nbuckets = 9\nseparator = \"|\"\nwide = true\n\
                   [[feature]]\nname = \"c\"\ncolumns = [\"v\", \"u\", \"t\", \"s\", \"r\"]\nkind = \"crossed\"\nbuckets = 9\nwide = true\n",
        columns: &["v", "u", "t", "s", "r", "y"],
        good: &["a|b", "a", "a", "a", "a|b|c", "1"],
        // 17 values each: 17^5 combinations.
        bad: &[LETTERS, LETTERS, LETTERS, LETTERS, LETTERS, "1"],
        reason: "a cross may make at most 1048576 combinations of the lists of a row, given lists of 1419857",
        ..FEATURE
    },
    Case {
        features: "column = \"v\"\nkind = \"hashed\"\nbuckets = 9\nseparator = \"|\"\nwide = true\n[[feature]]\n\
                   columns = [\"v\", \"u\"]\nkind = \"crossed\"\nbuckets = 9\nseparator = \"|\"\nweights = \"w\"\nwide = true\n",
        columns: &["v", "u", "w", "y"],
        good: &["a|b", "z", "1|2.5", "1"],
        bad: &["a|b|c", "z", "1|2.5", "1"],
        column: "w",
        reason: "each of 3 ids must have a weight, given 2",
        ..FEATURE
    },
    Case {
        features: "column = \"v\"\nkind = \"vocabulary\"\nvalues = [\"a\"]\nwide = true\n[[feature]]\n\
                   columns = [\"ids(v)\", \"u\"]\nkind = \"crossed\"\nbuckets = 9\nweights = \"w\"\nwide = true\n",
        columns: &["v", "u", "w", "y"],
        good: &["other", "z", "2.5", "1"],
        bad: &["", "z", "2.5", "1"],
        column: "w",
        reason: "each of 0 ids must have a weight, given 1",
        ..FEATURE
    },
    Case {
        good: &["1.5", "1"],
        bad: &["1.5", "7"],
        reason: "label must be 0 or 1, or a probability between them, given 7",
        ..LABEL
    },
    Case {
        label: ", positive = \"yes\"",
        good: &["1.5", "yes"],
        bad: &["1.5", ""],
        reason: "the label is missing",
        ..LABEL
    },
    Case {
        label: ", vocabulary = [\"no\", \"yes\"]",
        good: &["1.5", "yes"],
        bad: &["1.5", "maybe"],
        reason: "label \"maybe\" is not in the vocabulary no, yes",
        ..LABEL
    },
    Case {
        model: "kind = \"linear_classifier\"\nn_classes = 3",
        good: &["1.5", "2"],
        bad: &["1.5", "3"],
        reason: "label must be a class, 0 to 2, given 3",
        ..LABEL
    },
    Case {
        model: "kind = \"linear_classifier\"\nn_classes = 3",
        good: &["1.5", "2"],
        bad: &["1.5", "0.5"],
        reason: "label must be a class, 0 to 2, given 0.5",
        ..LABEL
    },
    Case {
        label: ", vocabulary = [\"no\", \"perhaps\", \"yes\"]",
        good: &["1.5", "yes"],
        bad: &["1.5", "maybe"],
        reason: "label \"maybe\" is not in the vocabulary no, perhaps, yes",
        ..LABEL
    },
    Case {
        model: "kind = \"linear_estimator\"\nhead = \"multi_label\"\nn_classes = 3",
        good: &["1.5", "0|2"],
        bad: &["1.5", "0|3"],
        reason: "label must be a class, 0 to 2, given 3",
        ..LABEL
    },
    Case {
        label: ", vocabulary = [\"no\", \"perhaps\", \"yes\"]",
        model: "kind = \"linear_estimator\"\nhead = \"multi_label\"",
        good: &["1.5", "no|yes"],
        bad: &["1.5", "no|maybe"],
        reason: "label \"maybe\" is not in the vocabulary no, perhaps, yes",
        ..LABEL
    },
    Case {
        model: "kind = \"linear_estimator\"\nhead = \"poisson\"",
        good: &["1.5", "3"],
        bad: &["1.5", "-1"],
        reason: "label must be >= 0, given -1",
        ..LABEL
    },
    Case {
        model: "kind = \"linear_estimator\"\nhead = \"logistic_regression\"",
        good: &["1.5", "0.5"],
        bad: &["1.5", "1.5"],
        reason: "label must be 0 or 1, or a probability between them, given 1.5",
        ..LABEL
    },
    Case {
        columns: &["x", "weight", "y"],
        good: &["1.5", "0", "1"],
        bad: &["1.5", "-0.5", "1"],
        column: "weight",
        reason: "the weight of an example must be a number of 0 or more, given -0.5",
        ..LABEL
    },
    Case {
        columns: &["x", "weight", "y"],
        good: &["1.5", "2", "1"],
        bad: &["1.5", "", "1"],
        column: "weight",
        reason: "the value is missing and has no default",
        ..LABEL
    },
];

const FORMATS: &[(Format, &str)] = &[
    (Format::Csv, "rows.csv"),
    (Format::Tsv, "rows.tsv"),
    (Format::TfRecord, "rows.tfrecord"),
    #[cfg(feature = "parquet")]
    (Format::Parquet, "rows.parquet"),
];

impl Case {
    fn model(&self) -> Canned {
        let features = match self.features.strip_prefix("[[feature]]\n") {
            Some(features) => features,
            None => self.features,
        };
        let weight = if self.columns.contains(&"weight") {
            "weight_column = \"weight\"\n"
        } else {
            ""
        };
        let text = format!(
            "model_dir = \"unused\"\n[input]\n{weight}label = {{ column = \"y\" {} }}\ntrain = {{ files = [\"unused.csv\"] }}\n\
             [[feature]]\n{features}[model]\n{}\n[train]\nmax_steps = 1\n",
            self.label, self.model
        );
        let job = Job::parse(Path::new("job.toml"), &text, &[]).unwrap_or_else(|problems| {
            panic!("{text}\n{}", trainyard_diagnostic::render_all(&problems))
        });
        Canned::from_job(&job).unwrap()
    }

    /// Returns whether predictions do not read the column.
    fn is_of_label(&self) -> bool {
        ["y", "weight"].contains(&self.column)
    }

    /// Writes the three records.
    fn write(&self, path: &Path, format: Format) {
        let rows = [self.good, self.bad, self.good];
        let is_list = |column: usize| rows.iter().any(|row| row[column].contains('|'));
        let cell = |(column, text): (usize, &&str)| Cell {
            values: text
                .split('|')
                .filter(|part| !part.is_empty())
                .map(|part| Value::Text(part.into()))
                .collect(),
            list: is_list(column),
        };
        let cells = |row: &[&str]| -> Vec<Cell> { row.iter().enumerate().map(cell).collect() };
        let names: Vec<String> = self.columns.iter().map(|name| (*name).to_owned()).collect();
        let mut layout = Layout::default();
        rows.iter().for_each(|row| layout.see(&names, &cells(row)));
        let mut writer = TableWriter::create(path, format, layout).unwrap();
        for row in rows {
            writer.write(&cells(row)).unwrap();
        }
        writer.finish().unwrap();
    }
}

/// Calls `each` for each case in each format, with the file of its records.
fn for_each(mut each: impl FnMut(&Case, &Canned, Options)) {
    for case in CASES {
        let model = case.model();
        for (format, name) in FORMATS {
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join(name);
            case.write(&path, *format);
            let options = Options {
                batch_size: 10,
                missing: vec!["?".to_owned()].into(),
                ..Options::new(vec![path], *format)
            };
            each(case, &model, options);
        }
    }
}

#[test]
fn the_first_bad_record_is_refused_with_its_place_column_and_value() {
    for_each(|case, model, options| {
        let second = if matches!(options.format, Format::Csv | Format::Tsv) {
            3
        } else {
            2
        };
        let what = format!("{:?}: {}", options.format, case.reason);
        let mut batches = Dataset::open(options.clone(), model.schema().clone()).unwrap();
        let Some(Err(Error::Row(row))) = batches.next() else {
            panic!("{what}");
        };
        assert_eq!(row.file, options.files[0], "{what}");
        assert_eq!(
            (row.line, row.column.as_deref()),
            (second, Some(case.column)),
            "{row}"
        );
        assert!(row.reason.contains(case.reason), "{what}: {row}");
    });
}

#[test]
fn bad_records_are_skipped_and_kept_as_dead_letters() {
    for_each(|case, model, options| {
        let folder = tempfile::tempdir().unwrap();
        let dead_letter: PathBuf = folder.path().join("dead");
        let options = Options {
            bad_rows: BadRows::Skip,
            bad_rows_max: 1,
            dead_letter: Some(dead_letter.clone()),
            ..options
        };
        let what = format!("{:?}: {}", options.format, case.reason);
        let batches: Result<Vec<Batch>, Error> = Dataset::open(options, model.schema().clone())
            .unwrap()
            .collect();
        let batches = batches.unwrap_or_else(|error| panic!("{what}: {error}"));
        assert_eq!((batches.len(), batches[0].rows), (1, 2), "{what}");
        let features = model.features(&batches[0]);
        features.unwrap_or_else(|error| panic!("{what}: {error}"));
        let dead = std::fs::read_to_string(dead_letter).unwrap_or_default();
        let reason = case.reason.replace('"', "\\\"");
        assert!(
            dead.contains(case.reason) || dead.contains(&reason),
            "{what}: {dead}"
        );
    });
}

#[test]
fn the_check_of_a_sample_reports_them() {
    for_each(|case, model, options| {
        let checked = check(&options, model.schema(), 100);
        let [alike] = &*checked.bad else {
            panic!("{}: {checked:?}", case.reason);
        };
        assert_eq!(alike.count, 1);
        assert!(alike.first.reason.contains(case.reason), "{}", alike.first);
    });
}

#[test]
fn predictions_leave_out_the_records_that_the_features_refuse() {
    for_each(|case, model, options| {
        let what = format!("{:?}: {}", options.format, case.reason);
        let schema = model.serving_schema().clone();
        let mut scan = Scan::open(options, schema, Vec::new()).unwrap();
        let (mut batch, mut records) = (Batch::default(), Vec::new());
        assert!(scan.read(&mut batch, &mut records).unwrap());
        let bad: Vec<bool> = records.iter().map(|record| record.bad.is_some()).collect();
        assert_eq!(bad, [false, !case.is_of_label(), false], "{what}");
        model
            .features(&batch)
            .unwrap_or_else(|error| panic!("{what}: {error}"));
    });
}

#[test]
fn rows_of_requests_are_refused_by_the_same_rules() {
    for case in CASES.iter().filter(|case| !case.is_of_label()) {
        let model = case.model();
        let options = Options {
            missing: vec!["?".to_owned()].into(),
            ..Options::new(vec![PathBuf::from("unused")], Format::Csv)
        };
        let columns = NamedColumns::new(model.serving_schema(), &options);
        let batch = |rows: &[&[&str]]| {
            let mut batch = columns.begin(rows.len());
            for (number, row) in rows.iter().enumerate() {
                for (name, text) in case.columns.iter().zip(*row) {
                    let Some(place) = columns.place(name) else {
                        continue;
                    };
                    let parts = text.split('|').filter(|part| !part.is_empty());
                    let value = |part| match str::parse(part) {
                        Ok(number) => Given::Int(number),
                        Err(_) if str::parse::<f32>(part).is_ok() => Given::Decimal(part),
                        Err(_) => Given::Text(part.as_bytes()),
                    };
                    let values: Vec<Given<'_>> = parts.map(value).collect();
                    let appended = columns.append(&mut batch, place, &values);
                    appended.map_err(|reason| Unfinished::Bad {
                        row: number,
                        column: (*name).to_owned(),
                        reason,
                    })?;
                }
            }
            columns.finish(batch, rows.len())
        };
        model
            .features(&batch(&[case.good, case.good]).unwrap())
            .unwrap();
        let refused = batch(&[case.good, case.bad, case.good]);
        let Err(Unfinished::Bad {
            row: 1,
            column,
            reason,
        }) = refused
        else {
            panic!("{}: {refused:?}", case.reason);
        };
        assert_eq!(column, case.column);
        assert!(reason.contains(case.reason), "{reason}");
    }
}
