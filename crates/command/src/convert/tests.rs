//! Every pair of formats with the values that they write in other ways: read again they are the same, or they are refused by name.

use std::path::Path;

use clap::Parser;
use trainyard_input::{ColumnKind, ColumnLayout, Error};

use super::*;

#[derive(Debug, Parser)]
struct Line {
    #[command(flatten)]
    convert: Convert,
}

/// A value as a job takes it: a text, as a number if it is one; absent = missing.
fn read(path: &Path, format: Format) -> Vec<Vec<String>> {
    let is_text = matches!(format, Format::Csv | Format::Tsv);
    let mut reader = TableReader::new(vec![path.to_owned()], format, None, None)
        .divided(is_text.then_some(b'|'))
        .trimmed();
    let mut row = Vec::new();
    let mut out = Vec::new();
    while reader.read(&mut row).expect("it is written well") {
        let place = reader.columns().iter().position(|name| name == "x");
        let cell = place.and_then(|place| row.get(place));
        let values = cell.map_or(&[][..], |cell| cell.values.as_slice());
        out.push(
            values
                .iter()
                .map(said)
                .filter(|text| !text.is_empty())
                .collect(),
        );
    }
    out
}

fn said(value: &Value) -> String {
    let text = match value {
        Value::Int(number) => return number.to_string(),
        Value::Float(number) if number.is_nan() => return String::new(),
        Value::Float(number) => return number.to_string(),
        Value::Text(text) => String::from_utf8_lossy(text).into_owned(),
        Value::Missing => return String::new(),
    };
    match (text.parse::<i128>(), text.parse::<f64>()) {
        (Ok(_), _) | (_, Err(_)) => text,
        (_, Ok(number)) if number.is_nan() => String::new(),
        (_, Ok(number)) => number.to_string(),
    }
}

fn write(path: &Path, format: Format, kind: ColumnKind, rows: &[&[&str]]) -> Result<(), Error> {
    let column = |name: &str, kind, list| ColumnLayout {
        name: name.to_owned(),
        kind: Some(kind),
        list,
    };
    let is_list = rows.iter().any(|row| row.len() > 1);
    let columns = vec![
        column("label", ColumnKind::Int, false),
        column("x", kind, is_list),
    ];
    let mut writer = TableWriter::create(path, format, Layout { columns })?;
    for row in rows {
        let values = row.iter().map(|text| match kind {
            ColumnKind::Boolean | ColumnKind::Int => {
                Value::Int(text.parse().expect("a whole number"))
            }
            ColumnKind::Float => Value::Float(text.parse().expect("a number")),
            ColumnKind::Text => Value::Text(text.as_bytes().to_vec()),
        });
        let label = Cell {
            values: vec![Value::Int(1)],
            list: false,
        };
        let cell = Cell {
            values: values.collect(),
            list: is_list,
        };
        writer.write(&[label, cell])?;
    }
    writer.finish()
}

const FORMATS: [(Format, &str); 5] = [
    (Format::Csv, "csv"),
    (Format::Tsv, "tsv"),
    (Format::TfRecord, "tfrecord"),
    (Format::Parquet, "parquet"),
    (Format::LibSvm(IndexBase::One), "svm"),
];

#[test]
fn every_pair_of_formats_keeps_what_a_job_reads_or_refuses_it_by_name() {
    let folder = tempfile::tempdir().expect("a folder");
    let cases: [(ColumnKind, &[&[&str]]); 13] = [
        (ColumnKind::Int, &[&["0"], &["5"]]),
        (ColumnKind::Int, &[&["0"], &[], &["5"]]),
        (
            ColumnKind::Int,
            &[
                &["9223372036854775807"],
                &["-9223372036854775808"],
                &["9007199254740993"],
            ],
        ),
        (ColumnKind::Float, &[&["0"], &["2.5"], &["-0.125"]]),
        (ColumnKind::Float, &[&["0"], &[], &["2.5"]]),
        (ColumnKind::Int, &[&["1", "2"], &[], &["3"]]),
        (ColumnKind::Text, &[&["a"], &["b c"], &[]]),
        (ColumnKind::Text, &[&["a,b;\"c\""], &["\"quoted\""]]),
        (ColumnKind::Text, &[&["two\nlines"], &["a\tb"]]),
        (ColumnKind::Text, &[&["Zürich"], &["東京"], &["007"]]),
        (ColumnKind::Text, &[&["a", "b"], &[], &["c"]]),
        (ColumnKind::Text, &[&["a", "", "b"], &[""]]),
        (
            ColumnKind::Text,
            &[
                &["18446744073709551615"],
                &["123456789012345678901234567890"],
            ],
        ),
    ];
    let is_built = |format: Format| cfg!(feature = "parquet") || format != Format::Parquet;
    let (mut kept, mut refused) = (0, 0);
    for (case, (kind, rows)) in cases.into_iter().enumerate() {
        for (from, ending) in FORMATS.into_iter().filter(|(from, _)| is_built(*from)) {
            let source = folder.path().join(format!("{case}-from-{ending}.{ending}"));
            // libsvm has no names, and tsv no tabs.
            if matches!(from, Format::LibSvm(_)) || write(&source, from, kind, rows).is_err() {
                continue;
            }
            for (to, other) in FORMATS.into_iter().filter(|(to, _)| is_built(*to)) {
                let out = folder.path().join(format!("{case}-{ending}.{other}"));
                let mut words = vec!["convert".into(), source.clone().into_os_string()];
                words.push(out.clone().into_os_string());
                if matches!(from, Format::Csv | Format::Tsv) && rows.iter().any(|row| row.len() > 1)
                {
                    words.extend(["--separator".into(), "|".into()]);
                }
                let line = Line::try_parse_from(words).expect("arguments");
                match convert(&line.convert) {
                    Ok(()) if matches!(to, Format::LibSvm(_)) => {
                        let lines = std::fs::read_to_string(&out).expect("lines");
                        let of = |row: &&[&str]| match row {
                            ["0"] => "1\n".to_owned(),
                            [number] => format!("1 1:{number}\n"),
                            other => panic!("{other:?} is in {lines}"),
                        };
                        assert_eq!(lines, rows.iter().map(of).collect::<String>());
                        kept += 1;
                    }
                    Ok(()) => {
                        assert_eq!(
                            read(&source, from),
                            read(&out, to),
                            "{ending} to {other}: {rows:?}"
                        );
                        kept += 1;
                    }
                    Err(problems) => {
                        let told = problems.iter().map(Diagnostic::render).collect::<String>();
                        assert!(told.contains("`x`"), "{ending} to {other}: {told}");
                        refused += 1;
                    }
                }
            }
        }
    }
    assert!(kept > 100 && refused > 20, "{kept} kept, {refused} refused");
}

#[test]
fn a_column_without_values_is_told_where_the_result_does_not_name_it() {
    let column = |name: &str, kind| ColumnLayout {
        name: name.to_owned(),
        kind,
        list: false,
    };
    let layout = Layout {
        columns: vec![column("a", Some(ColumnKind::Int)), column("b", None)],
    };
    let told = told_of_empty(&layout, Format::TfRecord).expect("a warning");
    assert!(
        told.message.contains("`b` has no value"),
        "{}",
        told.message
    );
    assert_eq!(told_of_empty(&layout, Format::Parquet), None);
}

fn convert_to(words: &[&std::ffi::OsStr]) -> Result<(), String> {
    let line = Line::try_parse_from(words).expect("arguments");
    let told = convert(&line.convert);
    told.map_err(|problems| problems.iter().map(Diagnostic::render).collect())
}

#[test]
fn texts_of_a_format_with_types_stay_texts_unless_their_column_is_named() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = |name: &str| folder.path().join(name);
    let (from, to) = (path("a.tfrecord"), path("b.tfrecord"));
    write(
        &from,
        Format::TfRecord,
        ColumnKind::Text,
        &[&["1.10"], &["1.1"]],
    )
    .expect("written");
    let values = |path: &Path| {
        let mut reader = TableReader::new(vec![path.to_owned()], Format::TfRecord, None, None);
        let mut row = Vec::new();
        let mut out = Vec::new();
        while reader.read(&mut row).expect("read") {
            let place = reader.columns().iter().position(|name| name == "x");
            out.extend(row[place.expect("x")].values.clone());
        }
        out
    };
    let words = ["convert".as_ref(), from.as_os_str(), to.as_os_str()];
    convert_to(&words).expect("converted");
    let text = |text: &str| Value::Text(text.into());
    assert_eq!(values(&to), [text("1.10"), text("1.1")]);
    let more = ["--force", "--numbers", "x"].map(std::ffi::OsStr::new);
    convert_to(&[&words[..], &more].concat()).expect("converted");
    let number = Value::Float(f64::from(1.1_f32));
    assert_eq!(values(&to), [number.clone(), number]);
    let more = ["--force", "--numbers", "labels"].map(std::ffi::OsStr::new);
    let told = convert_to(&[&words[..], &more].concat()).expect_err("no such column");
    assert!(told.contains("did you mean `label`?"), "{told}");
    let csv = path("c.csv");
    let more = ["--numbers", "x"].map(std::ffi::OsStr::new);
    let words = ["convert".as_ref(), from.as_os_str(), csv.as_os_str()];
    let told = convert_to(&[&words[..], &more].concat()).expect_err("csv has no types");
    assert!(told.contains("--numbers is for"), "{told}");
}

#[test]
fn bytes_that_are_no_text_are_refused_where_text_is_written_with_row_and_column() {
    let folder = tempfile::tempdir().expect("a folder");
    let from = folder.path().join("a.tfrecord");
    let names = ["label", "x"].map(str::to_owned);
    let row = |bytes: &[u8]| {
        [b"1", bytes].map(|bytes| Cell {
            values: vec![Value::Text(bytes.to_vec())],
            list: false,
        })
    };
    let rows = [row(b"a"), row(b"\xff\x00")];
    let mut layout = Layout::default();
    rows.iter().for_each(|row| layout.see_typed(&names, row));
    let mut writer = TableWriter::create(&from, Format::TfRecord, layout).expect("created");
    rows.iter()
        .for_each(|row| writer.write(row).expect("written"));
    writer.finish().expect("finished");
    for ending in ["csv", "tsv", "svm"] {
        let to = folder.path().join(format!("b.{ending}"));
        let words = ["convert".as_ref(), from.as_os_str(), to.as_os_str()];
        let more = ["--to", if ending == "svm" { "libsvm" } else { ending }];
        let words = [&words[..], &more.map(std::ffi::OsStr::new)].concat();
        let told = convert_to(&words).expect_err("no text");
        for part in ["row 2", "`x`", "\\xff\\x00", "is no UTF-8"] {
            assert!(told.contains(part), "{part}: {told}");
        }
        assert!(!to.exists());
    }
}

#[test]
fn numbers_of_several_units_are_refused_and_those_with_and_without_one_are_told() {
    let folder = tempfile::tempdir().expect("a folder");
    let (from, to) = (folder.path().join("a.csv"), folder.path().join("b.csv"));
    let words = ["convert".as_ref(), from.as_os_str(), to.as_os_str()];
    let more = ["--force", "--units", "$,%"].map(std::ffi::OsStr::new);
    let words = [&words[..], &more].concat();
    std::fs::write(&from, "x,y\n$5,7%\n0,1%\n5%,2%\n").expect("written");
    let told = convert_to(&words).expect_err("two units");
    for part in ["`x`", "\"$5\" in row 1", "\"5%\" in row 3"] {
        assert!(told.contains(part), "{part}: {told}");
    }
    assert!(!to.exists());
    std::fs::write(&from, "x,y\n$5,7%\n0,1%\nnone,2%\n5%,3%\n").expect("written");
    convert_to(&words).expect("a column of texts");
    let text = std::fs::read_to_string(&to).expect("written");
    assert_eq!(text, "x,y\n$5,7\n0,1\nnone,2\n5%,3\n");
    let style = NumberStyle {
        units: vec!["%".to_owned()],
        ..NumberStyle::default()
    };
    let mut numbers = NumberColumns::new(style);
    for (row, text) in (1..).zip(["5%", "0", "7"]) {
        let row_of = [Cell {
            values: vec![Value::Text(text.into())],
            list: false,
        }];
        numbers.see(&row_of);
        numbers.see_units(row, &row_of);
    }
    let columns = ["x".to_owned()];
    numbers.refuse_several_units(&columns).expect("one unit");
    let notes = numbers.notes(&columns);
    let told: String = notes.iter().map(Diagnostic::render).collect();
    assert!(
        told.contains("\"7\" in row 3 and \"5%\" in row 1"),
        "{told}"
    );
}

#[cfg(feature = "parquet")]
#[test]
fn floats_of_any_size_are_the_same_numbers_after_csv() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = |name: &str| folder.path().join(name);
    let (from, text, to) = (path("a.parquet"), path("b.csv"), path("c.parquet"));
    let numbers = [
        "1e20",
        "-1e16",
        "1e15",
        "1.7976931348623157e308",
        "5e-324",
        "1e-5",
        "9.9e-6",
        "0.1",
        "123456789012345680",
        "-2.5",
        "0",
    ];
    let rows: Vec<[&str; 1]> = numbers.iter().map(|number| [*number]).collect();
    let rows: Vec<&[&str]> = rows.iter().map(|row| &row[..]).collect();
    write(&from, Format::Parquet, ColumnKind::Float, &rows).expect("written");
    for (from, to) in [(&from, &text), (&text, &to)] {
        let words = ["convert".as_ref(), from.as_os_str(), to.as_os_str()];
        convert_to(&words).expect("converted");
    }
    let mut reader = TableReader::new(vec![to], Format::Parquet, None, None);
    let mut row = Vec::new();
    let mut found = Vec::new();
    while reader.read(&mut row).expect("read") {
        found.extend(row[1].values.clone());
    }
    let expected = numbers.map(|number| Value::Float(number.parse().expect("a number")));
    assert_eq!(found, expected);
}

/// Returns the rows of a file of two columns, `label` and another one, as a job takes them.
#[cfg(feature = "parquet")]
fn read_other(path: &Path, format: Format) -> Vec<Vec<String>> {
    let is_text = matches!(format, Format::Csv | Format::Tsv);
    let mut reader = TableReader::new(vec![path.to_owned()], format, None, None)
        .divided(is_text.then_some(b'|'));
    let mut row = Vec::new();
    let mut out = Vec::new();
    while reader.read(&mut row).expect("it is written well") {
        let place = reader.columns().iter().position(|name| name != "label");
        let cell = place.and_then(|place| row.get(place));
        let values = cell.map_or(&[][..], |cell| cell.values.as_slice()).iter();
        let said = values.map(said);
        // A list of nothing has no value.
        let said: Vec<String> = said.collect();
        out.push(if said.concat().is_empty() {
            Vec::new()
        } else {
            said
        });
    }
    out
}

/// Each type of Parquet that is read, alone in a file, to each format and back to Parquet: the same values, or a refusal that names the
/// column, and the row or the type.
#[cfg(feature = "parquet")]
#[test]
fn every_type_of_parquet_keeps_its_values_in_every_format_or_is_refused_with_column_and_row() {
    let folder = tempfile::tempdir().expect("a folder");
    let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("../input/testdata");
    let mut others = Vec::new();
    let (mut kept, mut refused) = (0, 0);
    for name in [
        "types",
        "arrow_types",
        "decimals",
        "int96",
        "lists_with_nulls",
        "extensions",
        "nan",
    ] {
        let file = data.join(format!("{name}.parquet"));
        let mut reader = TableReader::new(vec![file.clone()], Format::Parquet, None, None);
        let mut rows = 0;
        while reader.read(&mut Vec::new()).expect("read") {
            rows += 1;
        }
        for column in reader.columns().to_vec() {
            let source = folder.path().join("source.parquet");
            let of = trainyard_input::Kept {
                files: vec![file.clone()],
                columns: vec![column.clone()],
            };
            let label = [Cell {
                values: vec![Value::Int(1)],
                list: false,
            }];
            let mut layout = Layout::default();
            layout.see_typed(&["label".to_owned()], &label);
            let mut writer = TableWriter::create_with_kept(&source, layout, &of).expect("created");
            for _ in 0..rows {
                writer.write(&label).expect("written");
            }
            writer.finish().expect("finished");
            let expected = read_other(&source, Format::Parquet);
            for (to, ending) in FORMATS.into_iter().take(4) {
                let out = folder.path().join(format!("out.{ending}"));
                let back = folder.path().join(format!("back-{ending}.parquet"));
                let words = ["convert".as_ref(), source.as_os_str(), out.as_os_str()];
                let force = ["--force".as_ref()];
                // Its floats have 32 bits, which is told.
                let rounded = |rows: Vec<Vec<String>>| match to {
                    Format::TfRecord => rows.into_iter().map(in_32_bits).collect(),
                    _ => rows,
                };
                match convert_to(&[&words[..], &force].concat()) {
                    Ok(()) => {
                        kept += 1;
                        let known = |path: &Path| column_types(&[path.to_owned()], None);
                        if to == Format::Parquet {
                            assert_eq!(known(&out).expect("types"), known(&source).expect("types"));
                        }
                        let found = rounded(read_other(&out, to));
                        let expected = rounded(expected.clone());
                        let words = ["convert".as_ref(), out.as_os_str(), back.as_os_str()];
                        let more = ["--force", "--separator", "|"].map(std::ffi::OsStr::new);
                        convert_to(&[&words[..], &more].concat()).expect("converted back");
                        let again = rounded(read_other(&back, Format::Parquet));
                        if found != expected || again != expected {
                            others.push(format!(
                                "{name} {column} {ending}: {expected:?} {found:?} {again:?}"
                            ));
                        }
                    }
                    Err(told) => {
                        refused += 1;
                        let is_told = told.contains("row ") || told.contains("holds bytes (");
                        assert!(
                            told.contains(&format!("`{column}`")) && is_told,
                            "{name} {column} {ending}: {told}"
                        );
                    }
                }
            }
        }
    }
    assert!(others.is_empty(), "{others:#?}");
    assert!(kept > 100 && refused > 5, "{kept} kept, {refused} refused");
}

/// Returns the path of a file that pyarrow wrote.
#[cfg(feature = "parquet")]
fn testdata(name: &str) -> PathBuf {
    let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("../input/testdata");
    data.join(format!("{name}.parquet"))
}

/// Writes a file of one column of another file.
#[cfg(feature = "parquet")]
fn write_one_column(path: &Path, file: &Path, column: &str) {
    let kept = trainyard_input::Kept {
        files: vec![file.to_owned()],
        columns: vec![column.to_owned()],
    };
    let label = [Cell {
        values: vec![Value::Int(1)],
        list: false,
    }];
    let mut layout = Layout::default();
    layout.see_typed(&["label".to_owned()], &label);
    let mut writer = TableWriter::create_with_kept(path, layout, &kept).expect("created");
    for _ in 0..3 {
        writer.write(&label).expect("written");
    }
    writer.finish().expect("finished");
}

/// The column's type decides, and not whether its bytes happen to be a text: those of `extensions` all are.
#[cfg(feature = "parquet")]
#[test]
fn bytes_become_no_texts_and_extension_types_are_written_by_their_meaning_or_told() {
    let folder = tempfile::tempdir().expect("a folder");
    let source = folder.path().join("source.parquet");
    for (column, told, fields) in [
        ("bytes", Some("(binary)"), &[][..]),
        ("large_bytes", Some("(binary)"), &[]),
        ("bytes_view", Some("(binary)"), &[]),
        ("fixed_bytes", Some("(fixed_size_binary[2])"), &[]),
        ("list_of_bytes", Some("(list<binary>)"), &[]),
        ("opaque_bytes", Some("(extension<arrow.opaque>)"), &[]),
        (
            "uuid",
            None,
            &[
                "61626364-6566-6768-696a-6b6c6d6e6f70",
                "123e4567-e89b-12d3-a456-426614174000",
                "",
            ],
        ),
        (
            "uuids",
            None,
            &[
                "61626364-6566-6768-696a-6b6c6d6e6f70|123e4567-e89b-12d3-a456-426614174000",
                "",
                "61626364-6566-6768-696a-6b6c6d6e6f70",
            ],
        ),
        ("flag", None, &["0", "1", ""]),
        ("opaque_text", None, &["ab", "cd", ""]),
        ("opaque_int", None, &["1", "2", ""]),
        ("tensor", None, &["1|2", "3|4", ""]),
    ] {
        write_one_column(&source, &testdata("extensions"), column);
        for (to, ending) in FORMATS.into_iter().take(2) {
            let out = folder.path().join(format!("out.{ending}"));
            let words = ["convert".as_ref(), source.as_os_str(), out.as_os_str()];
            let converted = convert_to(&[&words[..], &["--force".as_ref()]].concat());
            let Some(told) = told else {
                converted.expect(column);
                let text = std::fs::read_to_string(&out).expect("written");
                let delimiter = if to == Format::Csv { ',' } else { '\t' };
                let found = text.lines().skip(1).map(|line| {
                    let (field, _) = line.rsplit_once(delimiter).expect("two fields");
                    field.to_owned()
                });
                assert_eq!(found.collect::<Vec<_>>(), fields, "{column} {ending}");
                continue;
            };
            let refused = converted.expect_err("no texts");
            for part in [&format!("`{column}`"), "holds bytes", told, "parquet"] {
                assert!(refused.contains(part), "{part}: {refused}");
            }
            assert!(!out.exists(), "{column}");
        }
        let types = column_types(std::slice::from_ref(&source), None).expect("types");
        let found = types.iter().find(|found| found.name == column).expect("it");
        let typed = Written::Typed(ColumnKind::Text);
        for (written, is_told) in [
            (
                Written::Fields,
                !fields.is_empty() && !column.starts_with("uuid"),
            ),
            (
                typed,
                ![
                    "bytes",
                    "large_bytes",
                    "bytes_view",
                    "fixed_bytes",
                    "list_of_bytes",
                ]
                .contains(&column),
            ),
        ] {
            let other = other_type(found, written);
            assert_eq!(other.is_some(), is_told, "{column} {written:?}: {other:?}");
        }
    }
}

/// A number that is none is no missing one where the result has a place for it.
#[cfg(feature = "parquet")]
#[test]
fn nan_stays_nan_in_values_and_lists_alike() {
    let folder = tempfile::tempdir().expect("a folder");
    let out = folder.path().join("out.csv");
    let words = |out: &Path| {
        [
            "convert".into(),
            testdata("nan").into_os_string(),
            out.as_os_str().to_owned(),
        ]
    };
    let convert = |out: &Path| {
        let words = words(out);
        let words: Vec<&std::ffi::OsStr> =
            words.iter().map(std::ffi::OsString::as_os_str).collect();
        convert_to(&words)
    };
    convert(&out).expect("converted");
    let text = std::fs::read_to_string(&out).expect("written");
    let expected = "x,h,l,name\n1.5,1.5,1.5|NaN,a\nNaN,NaN,NaN,b\n,,,c\nNaN,2,2.5|,d\n";
    assert_eq!(text, expected);
    let told = convert(&folder.path().join("out.svm")).expect_err("no label");
    assert!(told.contains("label"), "{told}");
}

#[cfg(feature = "parquet")]
fn in_32_bits(values: Vec<String>) -> Vec<String> {
    let short = |text: String| match text.parse::<f64>() {
        Ok(number) if number.fract() != 0.0 || number.abs() > 1e15 => (number as f32).to_string(),
        _ => text,
    };
    values.into_iter().map(short).collect()
}

#[test]
fn records_whose_columns_have_other_types_do_not_become_one_file() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = |name: &str| folder.path().join(name);
    let kinds = [
        ("ints", ColumnKind::Int, "an int64_list"),
        ("floats", ColumnKind::Float, "a float_list"),
        ("texts", ColumnKind::Text, "a bytes_list"),
    ];
    for (name, kind, _) in kinds {
        write(&path(name), Format::TfRecord, kind, &[&["1"], &["2"]]).expect("written");
    }
    let out = path("out.tfrecord");
    for (first, _, first_kind) in kinds {
        for (second, _, second_kind) in kinds {
            let joined = path("joined.tfrecord");
            let bytes = [first, second].map(|name| std::fs::read(path(name)).expect("read"));
            std::fs::write(&joined, bytes.concat()).expect("written");
            let (one, other) = (path(first), path(second));
            let files: [&[&Path]; 2] = [&[&joined], &[&one, &other]];
            for files in files {
                if first == second && files.len() > 1 {
                    continue;
                }
                for out in [&out, &path("out.csv")] {
                    let mut words: Vec<&std::ffi::OsStr> = vec!["convert".as_ref()];
                    words.extend(files.iter().map(|file| file.as_os_str()));
                    words.push(out.as_os_str());
                    words.extend(["--force", "--from", "tfrecord"].map(std::ffi::OsStr::new));
                    let outcome = convert_to(&words);
                    if first == second {
                        outcome.expect("one type");
                        continue;
                    }
                    let told = outcome.expect_err("two types");
                    let record = if files.len() > 1 { 1 } else { 3 };
                    let here = format!("{second_kind} in record {record} of");
                    for part in ["`x`", first_kind, here.as_str()] {
                        assert!(told.contains(part), "{part}: {told}");
                    }
                    assert!(
                        files
                            .iter()
                            .all(|file| told.contains(&file.display().to_string()))
                    );
                }
            }
        }
    }
}

#[test]
fn whole_floats_beyond_those_of_32_bits_keep_their_digits_in_text() {
    for number in [
        1_728_000_128.0,
        16_777_218.0,
        3_000_000_000_000.0,
        0.5,
        16_777_216.0,
    ] {
        let text = Value::Float(number).to_text();
        let text = String::from_utf8(text).expect("digits");
        assert_eq!(text.parse::<f64>(), Ok(number), "{text}");
    }
    assert_eq!(Value::Float(f64::from(0.1_f32)).to_text(), b"0.1");
}
