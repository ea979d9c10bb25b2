//! A scan reports every record, in order.

use std::path::PathBuf;

use trainyard_input::*;

/// Writes two files, some of whose rows are bad. Column `k` is only kept.
fn files(folder: &tempfile::TempDir) -> Vec<PathBuf> {
    let texts = [
        ("a.csv", "x,k\n1,a\nbad,b\n3,c\n"),
        ("b.csv", "k,x\nd,4\ne\nf,6\n"),
    ];
    let write = |(name, text)| {
        let path = folder.path().join(name);
        std::fs::write(&path, text).expect("the file is written");
        path
    };
    texts.map(write).to_vec()
}

fn schema() -> Schema {
    let mut schema = Schema::default();
    schema.want("x", FieldKind::FLOAT);
    schema
}

#[test]
fn every_record_is_told_of_in_order_and_good_ones_are_in_the_batch_whatever_its_size() {
    let folder = tempfile::tempdir().expect("a folder");
    for batch_size in 1..8 {
        let options = Options {
            batch_size,
            ..Options::new(files(&folder), Format::Csv)
        };
        let mut scan =
            Scan::open(options, schema(), vec!["k".to_owned()]).expect("the files are there");
        let mut batch = Batch::default();
        let mut records = Vec::new();
        let mut told = Vec::new();
        while scan
            .read(&mut batch, &mut records)
            .expect("the files are read")
        {
            assert!(records.len() <= batch_size);
            let Cells::Float(values) = &batch.columns[0].cells else {
                panic!("floats")
            };
            let mut values = values.iter();
            for Scanned { kept, bad } in &records {
                let kept = kept
                    .first()
                    .map(|cell| cell.values.clone())
                    .unwrap_or_default();
                let value = if bad.is_none() { values.next() } else { None };
                told.push((kept, value.copied(), bad.as_ref().map(|bad| bad.line)));
            }
            assert_eq!(values.next(), None);
        }
        let text = |text: &str| vec![Value::Text(text.into())];
        let expected = [
            (text("a"), Some(1.0), None),
            (text("b"), None, Some(3)),
            (text("c"), Some(3.0), None),
            (text("d"), Some(4.0), None),
            (Vec::new(), None, Some(3)),
            (text("f"), Some(6.0), None),
        ];
        assert_eq!(told, expected, "batches of {batch_size}");
    }
}

#[test]
fn kept_texts_are_those_of_the_file_with_their_blanks() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("a.csv");
    for end in ["\n", "\r\n"] {
        let lines = [
            "x, k ,l",
            "1,\" a\",b ",
            "2, \"c \" ,\"d\"",
            "3, e,  ",
            "\" 4 \",f,\"\tg\"",
            "",
        ];
        std::fs::write(&path, lines.join(end)).expect("written");
        let options = Options {
            batch_size: 9,
            trim: true,
            ..Options::new(vec![path.clone()], Format::Csv)
        };
        let kept = ["k", "l"].map(str::to_owned).to_vec();
        let mut scan = Scan::open(options, schema(), kept).expect("the file is there");
        let (mut batch, mut records) = (Batch::default(), Vec::new());
        assert!(scan.read(&mut batch, &mut records).expect("read"));
        let Cells::Float(values) = &batch.columns[0].cells else {
            panic!("floats")
        };
        assert_eq!(values[..], [1.0, 2.0, 3.0, 4.0]);
        let text = |cell: &Cell| match &cell.values[..] {
            [Value::Text(text)] => String::from_utf8_lossy(text).into_owned(),
            other => format!("{other:?}"),
        };
        let texts = records.iter().flat_map(|one| one.kept.iter().map(text));
        let expected = [" a", "b ", "c ", "d", " e", "  ", "f", "\tg"];
        assert_eq!(texts.collect::<Vec<_>>(), expected, "{end:?}");
    }
}

#[test]
fn a_kept_column_that_no_file_has_is_named_before_anything_is_read() {
    let folder = tempfile::tempdir().expect("a folder");
    let options = Options::new(files(&folder), Format::Csv);
    let error = Scan::open(options, schema(), vec!["kk".to_owned()]).expect_err("there is none");
    assert!(
        matches!(&error, Error::Column { columns, .. } if *columns == ["kk"]),
        "{error}"
    );
}

#[test]
fn a_decimal_that_is_a_feature_and_kept_keeps_its_digits() {
    let file = crate::testdata("decimals.parquet");
    let options = || Options::new(vec![file.clone()], Format::Parquet);
    let types = column_types(std::slice::from_ref(&file), None).expect("types");
    let mut rounded = 0;
    for column in types.iter().filter(|found| found.kind == TypeKind::Decimal) {
        let name = &column.name;
        let kind = FieldKind::Float {
            width: 1,
            separator: None,
            default: Some(vec![-9.0]),
        };
        let scan = |schema: Schema| {
            let scan = Scan::open(options(), schema, vec![name.clone()]);
            let (mut batch, mut records) = (Batch::default(), Vec::new());
            let read = scan.and_then(|mut scan| scan.read(&mut batch, &mut records));
            read.ok().map(|_| (batch, records))
        };
        let mut schema = Schema::default();
        schema.want(name, kind);
        let read = |schema| {
            Dataset::open(options(), schema)
                .and_then(|mut dataset| dataset.next().expect("the file has rows"))
        };
        // Lists, and numbers beyond 32 bits, are no such features.
        let Ok(alone) = read(schema.clone()) else {
            continue;
        };
        let (batch, records) = scan(schema).expect("read");
        let (_, expected) = scan(Schema::default()).expect("read");
        assert_eq!(records, expected, "{name}");
        let floats = |batch: &Batch| match &batch.columns[0].cells {
            Cells::Float(values) => values.clone(),
            other => panic!("{other:?}"),
        };
        assert_eq!(floats(&batch), floats(&alone), "{name}");
        let is_text = |record: &Scanned| {
            record
                .kept
                .iter()
                .any(|cell| matches!(cell.values.as_slice(), [Value::Text(_)]))
        };
        rounded += usize::from(records.iter().any(is_text));
    }
    assert!(rounded > 0, "a float rounds no digit of the decimals");
}
