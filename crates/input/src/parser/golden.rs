//! Comparison with recorded results of TensorFlow 2.15 for TFRecord files and examples.

use std::path::PathBuf;

use serde_json::Value;
use trainyard_storage::Storage;
use trainyard_testing::{Golden, list};

use super::Parser;
use crate::cells::clear;
use crate::record::{Content, Place, Record};
use crate::record_format::Want;
use crate::record_reader::RecordReader;
use crate::*;

const FILE: &str = "tfrecord/expected.json";

fn text<'a>(value: &'a Value, key: &str) -> &'a str {
    value[key].as_str().unwrap_or_default()
}

/// Decodes standard base64.
fn decode(text: &str) -> Vec<u8> {
    const DIGITS: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let digit = |byte: u8| {
        DIGITS
            .iter()
            .position(|digit| *digit == byte)
            .expect("a digit of base64") as u32
    };
    let quads = text
        .trim_end_matches('=')
        .as_bytes()
        .chunks(4)
        .flat_map(|quad| {
            let bits = quad.iter().fold(0, |bits, byte| bits << 6 | digit(*byte))
                << (6 * (4 - quad.len()));
            bits.to_be_bytes()[1..quad.len()].to_vec()
        });
    quads.collect()
}

fn compression(case: &Value) -> Compression {
    match text(case, "compression") {
        "GZIP" => Compression::Gzip,
        "ZLIB" => Compression::Zlib,
        _ => Compression::None,
    }
}

/// Returns the records of a file before the first bad record, and the fault of the bad record.
fn records(path: PathBuf, compression: Compression) -> (Vec<Vec<u8>>, Option<String>) {
    let options = Options {
        compression: Some(compression),
        ..options(vec![path.clone()], 1)
    };
    let mut reader = match RecordReader::open(&options, &Storage::default(), None, 0) {
        Ok(reader) => reader,
        Err(error) => return (Vec::new(), Some(error.to_string())),
    };
    let mut records = Vec::new();
    while reader
        .next(&path, Want::Content)
        .expect("the file can be read")
    {
        let record = reader.record(0);
        if let Some(fault) = record.fault {
            return (records, Some(fault.to_owned()));
        }
        records.push(record.content.bytes().into_owned());
    }
    (records, None)
}

#[test]
fn golden_files_hold_the_records_that_tensorflow_reads() {
    let golden = Golden::find();
    let files = golden.cases(FILE, "files");
    let folder = golden.path("tfrecord");
    for case in &files {
        let (read, fault) = records(folder.join(text(case, "file")), compression(case));
        assert_eq!(
            (read.len() as u64, fault),
            (case["records_read"].as_u64().unwrap_or_default(), None),
            "{case}"
        );
        let recorded: Vec<Vec<u8>> = match text(case, "note") {
            "record i holds the decimal text of i" => (0..read.len())
                .map(|number| number.to_string().into_bytes())
                .collect(),
            _ => list(&case["records"])
                .iter()
                .map(|record| decode(text(record, "b64")))
                .collect(),
        };
        assert_eq!(read, recorded, "{}", text(case, "file"));
    }
    golden.assert_counts(
        "tfrecord/expected.json, files",
        &[("equal", files.len(), 9)],
    );
}

/// Files with a header or gzip trailer that is cut short. TensorFlow ends without an error; this parser reports a
/// bad record.
const TOLD_HERE_ALONE: [&str; 5] = [
    "corrupt_truncated_in_length.tfrecord",
    "corrupt_truncated_in_length_crc.tfrecord",
    "corrupt_trailing_garbage_3_bytes.tfrecord",
    "corrupt_one_byte.tfrecord",
    "corrupt_gzip_missing_trailer.tfrecord",
];

#[test]
fn golden_damage_is_found_where_tensorflow_finds_it() {
    let golden = Golden::find();
    let cases = golden.cases(FILE, "corrupt");
    let folder = golden.path("tfrecord");
    let mut told_here_alone = 0;
    for case in &cases {
        let name = text(case, "file");
        let compression = compression(case);
        let (read, fault) = records(folder.join(name), compression);
        let wanted: Vec<Vec<u8>> = list(&case["records_b64"])
            .iter()
            .map(|record| decode(record.as_str().unwrap_or_default()))
            .collect();
        // The part of a compressed file that is read before an error depends on buffer sizes.
        match compression {
            Compression::None => assert_eq!(read, wanted, "{name}"),
            _ => assert!(
                read.starts_with(&wanted) || wanted.starts_with(&read),
                "{name}"
            ),
        }
        let told = !case["error_type"].is_null();
        let here_alone = !told && TOLD_HERE_ALONE.contains(&name);
        told_here_alone += usize::from(here_alone);
        assert_eq!(fault.is_some(), told || here_alone, "{name}: {fault:?}");
    }
    let equal = cases.len() - told_here_alone;
    let counts = [
        ("equal", equal, 24),
        ("told here alone", told_here_alone, 5),
    ];
    golden.assert_counts("tfrecord/expected.json, corrupt", &counts);
}

/// Returns the field kinds that correspond to a field of `parse_example`'s spec. A single `int64` is also read as a
/// float, so that a missing value without default is an error.
fn kinds(spec: &Value) -> Vec<FieldKind> {
    let separator = Some(b'|');
    let shape = spec.get("shape").map_or(&[][..], |shape| list(shape));
    let width = shape
        .iter()
        .map(|size| size.as_u64().unwrap_or(1) as usize)
        .product();
    let default: Option<Vec<f32>> = match &spec["default"] {
        Value::Null => None,
        Value::Array(values) => Some(
            values
                .iter()
                .map(|value| value.as_f64().unwrap_or_default() as f32)
                .collect(),
        ),
        value => Some(vec![value.as_f64().unwrap_or_default() as f32]),
    };
    let floats = FieldKind::Float {
        width,
        separator,
        default,
    };
    match (text(spec, "kind"), text(spec, "dtype")) {
        ("VarLen", "string") => vec![FieldKind::Bytes { separator }],
        ("VarLen", "int64") => vec![FieldKind::Int {
            separator,
            fraction: Fraction::Refused,
        }],
        ("VarLen", _) => vec![FieldKind::Floats { separator: b'|' }],
        ("FixedLen", "string") => vec![FieldKind::BYTES],
        ("FixedLen", "int64") if width == 1 => vec![FieldKind::INT, floats],
        _ => vec![floats],
    }
}

fn numbers(value: &Value, out: &mut Vec<f64>) {
    match value {
        Value::Array(values) => values.iter().for_each(|value| numbers(value, out)),
        value => out.extend(value.as_f64()),
    }
}

fn options(files: Vec<PathBuf>, batch_size: usize) -> Options {
    Options {
        trim: true,
        batch_size,
        ..Options::new(files, Format::TfRecord)
    }
}

/// Parses the examples as one batch.
fn parse(examples: &[Value], schema: &Schema) -> Result<Batch, String> {
    let options = options(vec!["/dev/null".into()], examples.len());
    let (_, mut parser) = Parser::open(&options, &Storage::default(), schema, 0, None)
        .map_err(|error| error.to_string())?;
    let mut batch = Batch::default();
    clear(&mut batch, schema, examples.len(), Position::default());
    for example in examples {
        let bytes = decode(example.as_str().unwrap_or_default());
        let record = Record {
            content: Content::Bytes(&bytes),
            place: Place::default(),
            fault: None,
        };
        parser
            .append(record, schema, &mut batch)
            .map_err(|(_, reason)| reason)?;
    }
    Ok(batch)
}

#[test]
fn golden_examples_are_parsed_as_parse_example_does() {
    let golden = Golden::find();
    let cases = golden.cases(FILE, "parse_example");
    for case in &cases {
        let name = text(case, "name");
        let mut schema = Schema::default();
        for (key, spec) in case["spec"].as_object().expect("a spec") {
            for kind in kinds(spec) {
                schema.want(key, kind);
            }
        }
        let batch = parse(list(&case["serialized_b64"]), &schema);
        assert_eq!(
            batch.is_err(),
            !case["error_type"].is_null(),
            "{name}: {batch:?}"
        );
        let Ok(batch) = batch else { continue };
        for (field, column) in schema.fields.iter().zip(&batch.columns) {
            let output = &case["outputs"][&field.name];
            // TensorFlow keeps the empty texts of a list. Here they are missing, as in every format and in requests.
            let is_kept = |value: &Value| column.offsets.is_none() || value.as_str() != Some("");
            let values = list(&output["values"]).iter();
            let kept: Vec<bool> = values.map(is_kept).collect();
            let mut wanted = Vec::new();
            numbers(&output["values"], &mut wanted);
            match &column.cells {
                Cells::Float(cells) => assert_eq!(
                    cells
                        .iter()
                        .map(|cell| f64::from(*cell))
                        .collect::<Vec<_>>(),
                    wanted,
                    "{name}"
                ),
                Cells::Int(cells) => {
                    assert_eq!(
                        cells.iter().map(|cell| *cell as f64).collect::<Vec<_>>(),
                        wanted,
                        "{name}"
                    )
                }
                Cells::Bytes(cells) => {
                    let wanted: Vec<_> = list(&output["values"])
                        .iter()
                        .filter(|value| is_kept(value))
                        .map(|value| value.as_str().unwrap_or_default().as_bytes())
                        .collect();
                    assert_eq!(
                        (0..cells.len())
                            .map(|place| cells.get(place))
                            .collect::<Vec<_>>(),
                        wanted,
                        "{name}"
                    );
                }
            }
            if column.offsets.is_some() {
                let rows = list(&output["indices"])
                    .iter()
                    .zip(&kept)
                    .filter_map(|(pair, is_kept)| is_kept.then_some(pair))
                    .map(|pair| pair[0].as_u64().unwrap_or_default());
                let held = column
                    .rows(batch.rows)
                    .enumerate()
                    .flat_map(|(row, places)| places.map(move |_| row as u64));
                assert!(rows.eq(held), "{name}");
            }
        }
    }
    golden.assert_counts(
        "tfrecord/expected.json, parse_example",
        &[("equal", cases.len(), 15)],
    );
}
