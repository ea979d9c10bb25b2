//! Each value of a request, read as each kind of field: it becomes what the same value of a file becomes, or both are refused.

use std::path::{Path, PathBuf};

use trainyard_input::*;

/// A column of a file has as many rows as have a value.
fn cells(batch: &Batch) -> String {
    let [column] = batch.columns.as_slice() else {
        panic!("{} columns", batch.columns.len())
    };
    let value = |place: usize| match &column.cells {
        Cells::Float(values) => format!("{:?}", values[place]),
        Cells::Int(values) => values[place].to_string(),
        Cells::Bytes(values) => format!("'{}'", values.get(place).escape_ascii()),
    };
    let row: Vec<String> = column.row(0, batch.rows).map(value).collect();
    row.join(" ")
}

fn schema(kind: &FieldKind) -> Schema {
    let mut schema = Schema::default();
    schema.want("x", kind.clone());
    schema.want("other", FieldKind::BYTES);
    schema
}

/// Texts that stand for a missing value.
type Missing<'a> = &'a [&'a str];

fn options(path: PathBuf, format: Format, missing: Missing<'_>) -> Options {
    let mut options = Options::new(vec![path], format);
    options.missing = missing
        .iter()
        .map(|text| (*text).to_owned())
        .collect::<Vec<_>>()
        .into();
    options
}

/// Returns the cells of the first row of a file; nothing where it is refused.
fn read(path: PathBuf, format: Format, kind: &FieldKind, missing: Missing<'_>) -> Option<String> {
    let mut dataset = Dataset::open(options(path, format, missing), schema(kind)).ok()?;
    let mut batch = dataset.next()?.ok()?;
    batch.columns.truncate(1);
    Some(cells(&batch))
}

/// Writes a row to a CSV file.
fn write(folder: &Path, text: &str) -> PathBuf {
    let path = folder.join("t.csv");
    std::fs::write(&path, format!("x,other\n{text},o\n")).expect("it is written");
    path
}

/// Returns the cells of a row of a CSV file; nothing where it is refused.
fn of_file(text: &str, kind: &FieldKind, missing: Missing<'_>) -> Option<String> {
    let folder = tempfile::tempdir().expect("a folder");
    read(write(folder.path(), text), Format::Csv, kind, missing)
}

fn separator(kind: &FieldKind) -> Option<u8> {
    match kind {
        FieldKind::Floats { separator } => Some(*separator),
        FieldKind::Float { separator, .. }
        | FieldKind::Int { separator, .. }
        | FieldKind::Bytes { separator } => *separator,
    }
}

/// As [`of_file`], of the file that it becomes in another format.
fn of_converted(text: &str, to: Format, kind: &FieldKind, missing: Missing<'_>) -> Option<String> {
    let folder = tempfile::tempdir().expect("a folder");
    let from = write(folder.path(), text);
    let reader = TableReader::new(vec![from], Format::Csv, None, None);
    let mut reader = reader.divided(separator(kind));
    let (mut layout, mut row) = (Layout::default(), Vec::new());
    while reader.read(&mut row).expect("a row") {
        layout.see(reader.columns(), &row);
    }
    reader.rewind();
    let path = folder.path().join("converted");
    let mut writer = TableWriter::create(&path, to, layout).expect("a file");
    while reader.read(&mut row).expect("a row") {
        // TFRecord takes no number that its floats do not reach, as training takes none.
        writer.write(&row).ok()?;
    }
    writer.finish().expect("there is room");
    read(path, to, kind, missing)
}

/// As [`of_file`], of a file of another format with a list of values.
fn of_list(list: &[&str], to: Format, kind: &FieldKind, missing: Missing<'_>) -> Option<String> {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("list");
    let value = |text: &&str| Value::Text(text.as_bytes().to_vec());
    let cell = |values: Vec<Value>| Cell {
        list: values.len() > 1,
        values,
    };
    let row = [
        cell(list.iter().map(value).collect()),
        cell(vec![value(&"o")]),
    ];
    let mut layout = Layout::default();
    layout.see(&["x".to_owned(), "other".to_owned()], &row);
    let mut writer = TableWriter::create(&path, to, layout).expect("a file");
    writer.write(&row).expect("there is room");
    writer.finish().expect("there is room");
    read(path, to, kind, missing)
}

/// Returns the cells of a row of a request; nothing where it is refused.
fn of_request(value: Given<'_>, kind: &FieldKind, missing: Missing<'_>) -> Option<String> {
    let columns = NamedColumns::new(
        &schema(kind),
        &options("t.csv".into(), Format::Csv, missing),
    );
    request(&columns, &[value])
}

fn request(columns: &NamedColumns, values: &[Given<'_>]) -> Option<String> {
    let mut batch = columns.begin(1);
    for name in ["x", "other"] {
        let place = columns.place(name).expect("the schema has it");
        let values = if name == "x" {
            values
        } else {
            &[Given::Text(b"o")]
        };
        columns.append(&mut batch, place, values).ok()?;
    }
    let mut batch = columns.finish(batch, 1).ok()?;
    batch.columns.truncate(1);
    Some(cells(&batch))
}

fn kinds() -> Vec<(&'static str, FieldKind)> {
    let number = |default| FieldKind::Float {
        width: 1,
        separator: None,
        default,
    };
    let int = |fraction| FieldKind::Int {
        separator: None,
        fraction,
    };
    vec![
        ("number", number(None)),
        ("number with default", number(Some(vec![-9.0]))),
        ("weights", FieldKind::Floats { separator: b'|' }),
        ("whole number", int(Fraction::Refused)),
        ("label", int(Fraction::Dropped)),
        ("seconds", int(Fraction::Time(TimeUnit::Seconds))),
        ("milliseconds", int(Fraction::Time(TimeUnit::Milliseconds))),
        ("text", FieldKind::BYTES),
        (
            "whole numbers",
            FieldKind::Int {
                separator: Some(b'|'),
                fraction: Fraction::Refused,
            },
        ),
        (
            "texts",
            FieldKind::Bytes {
                separator: Some(b'|'),
            },
        ),
    ]
}

/// Returns whether a value was refused for its type, which a field of a file does not have: a number in a text is no number,
/// a float has no digits of its own, and is no whole number.
fn is_of_another_type(value: Given<'_>, kind: &FieldKind, request: Option<&String>) -> bool {
    let is_text = matches!(value, Given::Text(_));
    let is_float = matches!(
        value,
        Given::Float(_) | Given::Double(_) | Given::Decimal(_)
    );
    request.is_none()
        && match kind {
            FieldKind::Bytes { .. } => is_float,
            FieldKind::Int {
                fraction: Fraction::Refused,
                ..
            } => is_text || is_float,
            _ => is_text,
        }
}

#[test]
fn times_are_the_same_in_requests_and_all_files_and_refused_outside_of_the_years_1_to_9999() {
    let of = |unit, text: &'static str| {
        let kind = FieldKind::Int {
            separator: None,
            fraction: Fraction::Time(unit),
        };
        let given = match text.parse() {
            Ok(number) => Given::Int(number),
            Err(_) => Given::Decimal(text),
        };
        let converted = [Format::TfRecord, Format::Parquet]
            .map(|format| of_converted(text, format, &kind, &[]));
        let found = of_request(given, &kind, &[]);
        for other in converted.into_iter().chain([of_file(text, &kind, &[])]) {
            assert_eq!(found, other, "{text} {unit:?}");
        }
        found
    };
    for (unit, text, expected) in [
        (TimeUnit::Seconds, "1700000000", Some("1700000000")),
        (TimeUnit::Seconds, "-1", Some("-1")),
        (TimeUnit::Milliseconds, "-1", Some("-1")),
        // It is in the last second of 1969, as it is in formats with times.
        (TimeUnit::Seconds, "-0.5", Some("-1")),
        (TimeUnit::Seconds, "253402300799", Some("253402300799")),
        (TimeUnit::Seconds, "253402300800", None),
        (TimeUnit::Seconds, "1700000000000", None),
        (TimeUnit::Seconds, "-62135596800", Some("-62135596800")),
        (TimeUnit::Seconds, "-62135596801", None),
        (
            TimeUnit::Milliseconds,
            "1700000000000",
            Some("1700000000000"),
        ),
        (TimeUnit::Milliseconds, "1700000000000000", None),
        (
            TimeUnit::Microseconds,
            "1700000000000000",
            Some("1700000000000000"),
        ),
        (TimeUnit::Microseconds, "1700000000000000000", None),
        (
            TimeUnit::Nanoseconds,
            "1700000000000000000",
            Some("1700000000000000000"),
        ),
    ] {
        assert_eq!(of(unit, text).as_deref(), expected, "{text} {unit:?}");
    }
}

/// Returns whether a value was refused for the type of its column, which a field of CSV does not have: a column of texts has
/// no numbers, one of floats has no digits and no whole numbers, and a text is no list.
fn is_of_another_column(text: &str, kind: &FieldKind, converted: Option<&String>) -> bool {
    let is_whole = text.parse::<i64>().is_ok();
    // As a float, an unsigned id of 64 bits would be another one: its column is one of texts.
    let is_id = !is_whole && text.parse::<u64>().is_ok();
    let is_number = is_whole || !is_id && text.parse::<f64>().is_ok_and(f64::is_finite);
    converted.is_none()
        && match kind {
            FieldKind::Bytes { .. } => is_number && !is_whole,
            FieldKind::Int {
                fraction: Fraction::Refused,
                ..
            } => !is_whole,
            _ => !is_number,
        }
}

#[test]
fn a_value_of_a_request_is_what_the_same_value_of_a_file_is() {
    let numbers: &[(&str, &[Given<'_>])] = &[
        ("0", &[Given::Int(0), Given::Text(b"0")]),
        ("-7", &[Given::Int(-7), Given::Text(b"-7")]),
        ("16777217", &[Given::Int(16_777_217)]),
        ("1700000001", &[Given::Int(1_700_000_001)]),
        ("9007199254740993", &[Given::Int(9_007_199_254_740_993)]),
        ("9223372036854775807", &[Given::Int(i64::MAX)]),
        ("-9223372036854775808", &[Given::Int(i64::MIN)]),
        (
            "18446744073709551615",
            &[Given::Decimal("18446744073709551615")],
        ),
        (
            "99999999999999999999",
            &[Given::Decimal("99999999999999999999")],
        ),
        ("0.1", &[Given::Decimal("0.1"), Given::Double(0.1)]),
        ("-2.5", &[Given::Decimal("-2.5"), Given::Float(-2.5)]),
        (
            "1700000001.75",
            &[
                Given::Decimal("1700000001.75"),
                Given::Double(1_700_000_001.75),
            ],
        ),
        ("1e3", &[Given::Decimal("1e3")]),
        ("1e30", &[Given::Decimal("1e30"), Given::Double(1e30)]),
        ("1e39", &[Given::Decimal("1e39"), Given::Double(1e39)]),
        ("1e400", &[Given::Decimal("1e400")]),
        ("inf", &[Given::Float(f32::INFINITY), Given::Text(b"inf")]),
        (
            "-inf",
            &[Given::Double(f64::NEG_INFINITY), Given::Text(b"-inf")],
        ),
        ("nan", &[Given::Text(b"nan")]),
        ("", &[Given::Text(b"")]),
        ("b", &[Given::Text(b"b")]),
        ("2|3", &[Given::Text(b"2|3")]),
        ("2024-02-29", &[Given::Text(b"2024-02-29")]),
        ("true", &[Given::Text(b"true")]),
    ];
    let mut wrong = Vec::new();
    for missing in [&[][..], &["?", "-7", "0.1", "nan", "2024-02-29"]] {
        for (text, values) in numbers {
            for (name, kind) in &kinds() {
                let file = of_file(text, kind, missing);
                for value in *values {
                    let request = of_request(*value, kind, missing);
                    if request != file && !is_of_another_type(*value, kind, request.as_ref()) {
                        wrong.push(format!(
                            "{text} as {name}, missing {missing:?}: a file has {file:?}, {value:?} has {request:?}"
                        ));
                    }
                }
                // A float of 32 bits has no seconds of today. The writer warns.
                let is_wide = *text == "1700000001.75" && matches!(kind, FieldKind::Int { .. });
                for format in [Format::TfRecord, Format::Parquet] {
                    if is_wide && format == Format::TfRecord {
                        continue;
                    }
                    let converted = of_converted(text, format, kind, missing);
                    if converted != file && !is_of_another_column(text, kind, converted.as_ref()) {
                        wrong.push(format!(
                            "{text} as {name}, missing {missing:?}: a file has {file:?}, {format:?} has {converted:?}"
                        ));
                    }
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn a_number_that_the_job_calls_missing_is_missing_in_requests_and_all_files() {
    let missing = &["?", "-999", "-99.9"][..];
    let mut wrong = Vec::new();
    for (text, values) in [
        (
            "-999",
            &[
                Given::Int(-999),
                Given::Decimal("-999"),
                Given::Float(-999.0),
                Given::Double(-999.0),
                Given::Text(b"-999"),
            ][..],
        ),
        (
            "-99.9",
            &[
                Given::Decimal("-99.9"),
                Given::Float(-99.9),
                Given::Double(-99.9),
            ],
        ),
        ("-999.0", &[Given::Decimal("-999.0")]),
        ("-998", &[Given::Int(-998)]),
    ] {
        for (name, kind) in &kinds() {
            let file = of_file(text, kind, missing);
            for format in [Format::Csv, Format::TfRecord, Format::Parquet] {
                let columns =
                    NamedColumns::new(&schema(kind), &options("t".into(), format, missing));
                for value in values {
                    let built = request(&columns, &[*value]);
                    if built != file && !is_of_another_type(*value, kind, built.as_ref()) {
                        wrong.push(format!(
                            "{value:?} as {name}, {format:?}: {built:?}, not {file:?}"
                        ));
                    }
                }
                let converted = of_converted(text, format, kind, missing);
                if converted != file && !is_of_another_column(text, kind, converted.as_ref()) {
                    wrong.push(format!(
                        "{text} as {name}, {format:?}: {converted:?}, not {file:?}"
                    ));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn a_list_is_the_same_in_requests_and_all_files() {
    let missing = &["?", "-7"][..];
    let lists = [
        ("texts", vec!["a", "", "b"]),
        ("texts", vec!["", "a"]),
        ("texts", vec!["a", "?"]),
        ("texts", vec!["", ""]),
        ("texts", vec!["a", "b", "a"]),
        ("whole numbers", vec!["1", "-7", "3"]),
        ("whole numbers", vec!["-7", "-7"]),
        ("weights", vec!["0.5", "-7"]),
        ("weights", vec!["0.5", "-7", "1"]),
        ("three numbers", vec!["0.5", "-7", "1"]),
        ("three numbers", vec!["0.5", "1"]),
    ];
    let mut wrong = Vec::new();
    for (name, list) in lists {
        let mut kinds = kinds();
        kinds.push((
            "three numbers",
            FieldKind::Float {
                width: 3,
                separator: Some(b'|'),
                default: Some(vec![7.0, 8.0, 9.0]),
            },
        ));
        let kind = kinds.into_iter().find(|(known, _)| *known == name);
        let kind = kind.expect("a kind of that name").1;
        let file = of_file(&list.join("|"), &kind, missing);
        let given = |text: &'static str| match text.parse::<i64>() {
            Ok(number) => Given::Int(number),
            Err(_) if text.parse::<f64>().is_ok() => Given::Decimal(text),
            Err(_) => Given::Text(text.as_bytes()),
        };
        let columns = NamedColumns::new(&schema(&kind), &options("t".into(), Format::Csv, missing));
        let values: Vec<Given<'_>> = list.iter().map(|text| given(text)).collect();
        let built = request(&columns, &values);
        if built != file {
            wrong.push(format!(
                "{list:?} as {name}: {built:?}, a file has {file:?}"
            ));
        }
        for format in [Format::TfRecord, Format::Parquet] {
            let written = of_list(&list, format, &kind, missing);
            if written != file {
                wrong.push(format!(
                    "{list:?} as {name}: {format:?} has {written:?}, a file has {file:?}"
                ));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn a_number_that_is_none_is_a_missing_one_where_a_column_may_lack_it() {
    for (name, kind) in &kinds() {
        let file = of_file("", kind, &[]);
        for value in [Given::Float(f32::NAN), Given::Double(f64::NAN)] {
            let request = of_request(value, kind, &[]);
            assert!(
                request == file || is_of_another_type(value, kind, request.as_ref()),
                "{value:?} as {name}: {request:?}, a file without it has {file:?}"
            );
        }
    }
}
