//! Each value of a request, read as each kind of field: it becomes what the same value of a file becomes, or both are refused.

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

/// Returns the cells of a row of a CSV file; nothing where it is refused.
fn of_file(text: &str, kind: &FieldKind) -> Option<String> {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("t.csv");
    std::fs::write(&path, format!("x,other\n{text},o\n")).expect("it is written");
    let mut dataset = Dataset::open(Options::new(vec![path], Format::Csv), schema(kind)).ok()?;
    let mut batch = dataset.next()?.ok()?;
    batch.columns.truncate(1);
    Some(cells(&batch))
}

/// Returns the cells of a row of a request; nothing where it is refused.
fn of_request(value: Given<'_>, kind: &FieldKind) -> Option<String> {
    let options = Options::new(vec!["t.csv".into()], Format::Csv);
    let columns = NamedColumns::new(&schema(kind), &options);
    let mut batch = columns.begin(1);
    for name in ["x", "other"] {
        let place = columns.place(name).expect("the schema has it");
        let value = if name == "x" {
            value
        } else {
            Given::Text(b"o")
        };
        columns.append(&mut batch, place, &[value]).ok()?;
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
    for (text, values) in numbers {
        for (name, kind) in &kinds() {
            let file = of_file(text, kind);
            for value in *values {
                let request = of_request(*value, kind);
                if request != file && !is_of_another_type(*value, kind, request.as_ref()) {
                    wrong.push(format!(
                        "{text} as {name}: a file has {file:?}, {value:?} has {request:?}"
                    ));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn a_number_that_the_job_calls_missing_is_missing_in_a_request_too() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("t.csv");
    std::fs::write(&path, "x,other\n-999,o\n").expect("it is written");
    let mut options = Options::new(vec![path], Format::Csv);
    options.missing = vec!["?".to_owned(), "-999".to_owned()];
    for (name, kind) in &kinds() {
        let mut dataset = Dataset::open(options.clone(), schema(kind)).expect("a data set");
        let of_file = dataset.next().expect("a row").ok().map(|mut batch| {
            batch.columns.truncate(1);
            cells(&batch)
        });
        let columns = NamedColumns::new(&schema(kind), &options);
        for value in [
            Given::Int(-999),
            Given::Decimal("-999"),
            Given::Float(-999.0),
            Given::Double(-999.0),
            Given::Text(b"-999"),
        ] {
            let mut batch = columns.begin(1);
            let x = columns.place("x").expect("a column");
            let other = columns.place("other").expect("a column");
            let built = columns
                .append(&mut batch, x, &[value])
                .and_then(|_| columns.append(&mut batch, other, &[Given::Text(b"o")]))
                .ok()
                .and_then(|_| columns.finish(batch, 1).ok())
                .map(|mut batch| {
                    batch.columns.truncate(1);
                    cells(&batch)
                });
            assert_eq!(built, of_file, "{value:?} as {name}");
        }
    }
}

#[test]
fn a_number_that_is_none_is_a_missing_one_where_a_column_may_lack_it() {
    for (name, kind) in &kinds() {
        let file = of_file("", kind);
        for value in [Given::Float(f32::NAN), Given::Double(f64::NAN)] {
            let request = of_request(value, kind);
            assert!(
                request == file || is_of_another_type(value, kind, request.as_ref()),
                "{value:?} as {name}: {request:?}, a file without it has {file:?}"
            );
        }
    }
}
