//! Every pair of formats with the values that they write in other ways: read again they are the same, or they are refused by name.

use std::path::Path;

use clap::Parser;
use trainyard_input::{ColumnKind, ColumnLayout};

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
        Value::Float(number) => return number.to_string(),
        Value::Text(text) => String::from_utf8_lossy(text).into_owned(),
    };
    match (text.parse::<i128>(), text.parse::<f64>()) {
        (Ok(_), _) | (_, Err(_)) => text,
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
            ColumnKind::Int => Value::Int(text.parse().expect("a whole number")),
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
