//! Conversion of files: the content of one format is in the other.

use std::path::{Path, PathBuf};

use trainyard_diagnostic::{Code, Diagnostic};
use trainyard_input::*;
use trainyard_testing::Golden;

const LIBSVM: Format = Format::LibSvm(IndexBase::One);

fn rows(path: &Path, format: Format) -> (Vec<String>, Vec<Vec<Cell>>) {
    let mut reader = TableReader::new(vec![path.to_owned()], format, None, None);
    let mut rows = Vec::new();
    let mut row = Vec::new();
    while reader.read(&mut row).expect("the file is read") {
        rows.push(row.clone());
    }
    (reader.columns().to_vec(), rows)
}

fn convert(from: &Path, format: Format, to: &Path, into: Format) -> Result<(), Error> {
    let mut reader = TableReader::new(vec![from.to_owned()], format, None, None);
    let mut layout = Layout::default();
    let mut row = Vec::new();
    while reader.read(&mut row)? {
        layout.see(reader.columns(), &row);
    }
    reader.rewind();
    let mut writer = TableWriter::create(to, into, layout)?;
    while reader.read(&mut row)? {
        writer.write(&row)?;
    }
    writer.finish()
}

struct Files(tempfile::TempDir);

impl Files {
    fn new() -> Self {
        Self(tempfile::tempdir().expect("a folder"))
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn write(&self, name: &str, text: &str) -> PathBuf {
        std::fs::write(self.path(name), text).expect("the file is written");
        self.path(name)
    }

    fn text(&self, name: &str) -> String {
        std::fs::read_to_string(self.path(name)).expect("the file is there")
    }
}

#[test]
fn csv_comes_back_through_every_format() {
    let files = Files::new();
    let text = "age,name,zip,score\n31,\"Ann, the \"\"first\"\"\",00501,1.5\n-4,,10115,\n,\" spaced \",x,2\n";
    let from = files.write("a.csv", text);
    convert(
        &from,
        Format::Csv,
        &files.path("b.parquet"),
        Format::Parquet,
    )
    .expect("to Parquet");
    convert(
        &files.path("b.parquet"),
        Format::Parquet,
        &files.path("c.tfrecord.gz"),
        Format::TfRecord,
    )
    .expect("on");
    convert(
        &files.path("c.tfrecord.gz"),
        Format::TfRecord,
        &files.path("d.tsv.gz"),
        Format::Tsv,
    )
    .expect("on");
    convert(
        &files.path("d.tsv.gz"),
        Format::Tsv,
        &files.path("e.csv"),
        Format::Csv,
    )
    .expect("and back");
    assert_eq!(files.text("e.csv"), text);
    let (_, rows) = rows(&files.path("b.parquet"), Format::Parquet);
    assert_eq!(rows[0][0].values, [Value::Int(31)]);
    assert_eq!(rows[0][2].values, [Value::Text(b"00501".to_vec())]);
    assert_eq!(rows[0][3].values, [Value::Float(1.5)]);
    assert!(rows[1][1].values.is_empty() && rows[1][3].values.is_empty());
}

#[test]
fn pairs_of_libsvm_are_lists_elsewhere_and_come_back() {
    let files = Files::new();
    let from = files.write("a.svm", "+1 qid:3 1:0.5 7:2 # a\n-1 2:1e3\n+1\n");
    let expected = "+1 qid:3 1:0.5 7:2\n-1 2:1000\n+1\n";
    for (name, format) in [
        ("b.parquet", Format::Parquet),
        ("b.csv", Format::Csv),
        ("b.tsv", Format::Tsv),
        ("b.tfrecord", Format::TfRecord),
    ] {
        convert(&from, LIBSVM, &files.path(name), format).expect("from libsvm");
        convert(&files.path(name), format, &files.path("c.svm"), LIBSVM).expect("and back");
        assert_eq!(files.text("c.svm"), expected, "through {name}");
    }
    let (columns, rows) = rows(&files.path("b.parquet"), Format::Parquet);
    assert_eq!(columns, ["label", "qid", "index", "value"]);
    assert_eq!(rows[0][2].values, [Value::Int(1), Value::Int(7)]);
}

#[test]
fn columns_of_numbers_become_libsvm_without_their_zeros() {
    let files = Files::new();
    let from = files.write("a.csv", "x,label,y\n0,1,2.5\n3,0,0.0\n,1,1\n");
    convert(&from, Format::Csv, &files.path("b.svm"), LIBSVM).expect("numbers alone");
    assert_eq!(files.text("b.svm"), "1 2:2.5\n0 1:3\n1 2:1\n");
    let from = files.write("c.csv", "x,label\nred,1\n");
    let told = convert(&from, Format::Csv, &files.path("d.svm"), LIBSVM)
        .expect_err("a text")
        .to_string();
    assert!(told.contains("column `x` holds texts"), "{told}");
}

#[test]
fn a_file_that_is_not_finished_is_not_there() {
    let files = Files::new();
    let from = files.write("a.csv", "x,y\n1,2\n1\n");
    assert!(
        convert(
            &from,
            Format::Csv,
            &files.path("b.parquet"),
            Format::Parquet
        )
        .is_err()
    );
    let from = files.write("c.tsv", "x\ty\n1\t2\n");
    let mut writer = TableWriter::create(&files.path("d.csv"), Format::Csv, Layout::default())
        .expect("it begins");
    writer.write(&rows(&from, Format::Tsv).1[0]).expect("a row");
    drop(writer);
    let mut names: Vec<_> = std::fs::read_dir(files.0.path())
        .expect("the folder")
        .filter_map(|entry| Some(entry.ok()?.file_name().to_string_lossy().into_owned()))
        .collect();
    names.sort();
    assert_eq!(names, ["a.csv", "c.tsv"]);
}

#[test]
fn files_with_other_columns_are_joined_by_name() {
    let files = Files::new();
    let first = files.write("a.csv", "x,y\n1,2\n");
    let second = files.write("b.csv", "z,x\n3,4\n");
    let mut reader = TableReader::new(vec![first, second], Format::Csv, None, None);
    let mut row = Vec::new();
    let mut seen = Vec::new();
    while reader.read(&mut row).expect("both are read") {
        seen.push(row.iter().map(|cell| cell.values.len()).collect::<Vec<_>>());
    }
    assert_eq!(reader.columns(), ["x", "y", "z"]);
    assert_eq!(seen, [vec![1, 1], vec![1, 0, 1]]);
}

/// Bytes that are no text are not declared as one, and a row tells which of its columns are times.
#[cfg(feature = "parquet")]
#[test]
fn bytes_and_times_of_parquet_are_known_as_such() {
    let files = Files::new();
    let path = files.path("a.parquet");
    let column = |name: &str, kind| ColumnLayout {
        name: name.to_owned(),
        kind,
        list: false,
    };
    let layout = Layout {
        columns: vec![
            column("bytes", None),
            column("text", Some(ColumnKind::Text)),
        ],
    };
    let cell = |bytes: &[u8]| Cell {
        values: vec![Value::Text(bytes.to_vec())],
        list: false,
    };
    let mut writer = TableWriter::create(&path, Format::Parquet, layout).expect("it begins");
    writer.write(&[cell(b"\xff"), cell(b"a")]).expect("a row");
    writer.finish().expect("it is written");
    let written = std::fs::read(&path).expect("the file");
    assert!(!written.is_empty());
    let (_, rows) = rows(&path, Format::Parquet);
    assert_eq!(rows[0][0].values, [Value::Text(b"\xff".to_vec())]);

    let mut reader = TableReader::new(vec![path], Format::Parquet, None, None);
    let mut row = Vec::new();
    assert!(reader.read(&mut row).expect("it is read"));
    let is_plain = |kind: &TypeKind| matches!(kind, TypeKind::Text | TypeKind::Other);
    assert!(
        reader.kinds().values().all(is_plain),
        "{:?}",
        reader.kinds()
    );
}

/// Examples that TensorFlow wrote survive the conversion to Parquet and back.
#[test]
fn golden_examples_come_through_parquet() {
    let golden = Golden::find();
    let Some(recorded) = golden.bytes("tfrecord/examples_plain.tfrecord") else {
        return;
    };
    let files = Files::new();
    let from = files.path("a.tfrecord");
    std::fs::write(&from, recorded).expect("the file is written");
    convert(
        &from,
        Format::TfRecord,
        &files.path("b.parquet"),
        Format::Parquet,
    )
    .expect("to Parquet");
    convert(
        &files.path("b.parquet"),
        Format::Parquet,
        &files.path("c.tfrecord"),
        Format::TfRecord,
    )
    .expect("back");
    let before = rows(&from, Format::TfRecord);
    let after = rows(&files.path("c.tfrecord"), Format::TfRecord);
    assert_eq!(before.1.len(), after.1.len());
    golden.assert_counts("examples_plain.tfrecord", &[("records", before.1.len(), 5)]);
    for (left, right) in before.1.iter().zip(&after.1) {
        for (place, name) in before.0.iter().enumerate() {
            let there = after.0.iter().position(|other| other == name);
            let values = |row: &[Cell], place: Option<usize>| {
                place
                    .and_then(|place| row.get(place))
                    .map(|cell| cell.values.clone())
                    .unwrap_or_default()
            };
            assert_eq!(values(left, Some(place)), values(right, there), "{name}");
        }
    }
}

/// The device is a disk without room.
#[test]
fn a_full_disk_is_told_as_such_by_every_writer_and_not_as_a_fault_of_the_data() {
    let full = Path::new("/dev/full");
    let row = |text: &str| {
        [
            Cell {
                values: vec![Value::Int(1)],
                list: false,
            },
            Cell {
                values: vec![Value::Float(text.len() as f64)],
                list: false,
            },
        ]
    };
    let names = ["label", "x"].map(str::to_owned);
    let mut layout = Layout::default();
    layout.see_typed(&names, &row(""));
    let write = |format: Format| -> Result<(), Error> {
        let mut writer = TableWriter::create(full, format, layout.clone())?;
        for _ in 0..10_000 {
            writer.write(&row("a"))?;
        }
        writer.finish()
    };
    let formats = [
        Format::Csv,
        Format::Tsv,
        Format::TfRecord,
        Format::LibSvm(IndexBase::One),
        Format::Parquet,
    ];
    let mut told: Vec<Error> = formats
        .into_iter()
        .map(|format| write(format).expect_err("it is full"))
        .collect();
    let copied = copy_rows(&[crate::testdata("types.parquet")], full);
    told.push(copied.expect_err("it is full"));
    for error in told {
        let problem = Diagnostic::from(error);
        assert_eq!(problem.code, Code::E3006, "{problem:?}");
        assert!(problem.message.contains("/dev/full"), "{problem:?}");
    }
}
