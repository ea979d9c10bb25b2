//! Parquet and libsvm, read like text: in order, shuffled, and in data shards.
//!
//! pyarrow wrote the Parquet files of `testdata/`. All hold the same 3000 rows, with different codecs, versions and
//! sizes of pages, row groups, with and without dictionaries. The content of row `i` is a formula of `i`.

use std::num::NonZeroU32;
use std::path::PathBuf;

use trainyard_input::*;

use crate::testdata;

const ROWS: usize = 3000;
const FILES: [&str; 4] = [
    "snappy.parquet",
    "zstd_v2.parquet",
    "gzip_plain.parquet",
    "lz4.parquet",
];

fn options(files: Vec<PathBuf>, format: Format, batch_size: usize) -> Options {
    Options {
        trim: true,
        batch_size,
        seed: 7,
        ..Options::new(files, format)
    }
}

fn floats(default: f32) -> FieldKind {
    FieldKind::Float {
        width: 1,
        separator: None,
        default: Some(vec![default]),
    }
}

fn schema() -> Schema {
    let mut schema = Schema::default();
    schema.want("id", FieldKind::INT);
    schema.want("age", FieldKind::INT);
    schema.want("score", floats(-5.0));
    schema.want("job", FieldKind::BYTES);
    schema.want("member", FieldKind::FLOAT);
    schema.want(
        "tags",
        FieldKind::Bytes {
            separator: Some(b'|'),
        },
    );
    schema.want(
        "vector",
        FieldKind::Float {
            width: 2,
            separator: Some(b'|'),
            default: None,
        },
    );
    schema.want("price", FieldKind::FLOAT);
    schema
}

/// Checks the row at `row` of a batch against the formulas, and returns its number.
fn compare(batch: &Batch, row: usize) -> usize {
    let [id, age, score, job, member, tags, vector, price] = batch.columns.as_slice() else {
        panic!("{} columns", batch.columns.len())
    };
    let (Cells::Int(ids), Cells::Int(ages), Cells::Float(scores)) =
        (&id.cells, &age.cells, &score.cells)
    else {
        panic!("other types")
    };
    let i = (ids[row] / 1_000_003) as usize;
    assert_eq!(ids[row], i as i64 * 1_000_003);
    assert_eq!(
        ages[row],
        if i % 7 == 3 { -1 } else { i as i64 % 90 },
        "age of {i}"
    );
    assert_eq!(
        scores[row],
        if i % 11 == 5 { -5.0 } else { i as f32 / 4.0 },
        "score of {i}"
    );
    let (Cells::Bytes(jobs), Cells::Float(members), Cells::Bytes(texts)) =
        (&job.cells, &member.cells, &tags.cells)
    else {
        panic!("other types")
    };
    assert_eq!(
        jobs.get(row),
        [b"clerk".as_slice(), b"farmer", b"", b""][i % 4],
        "job of {i}"
    );
    assert_eq!(
        members[row],
        f32::from(u8::from(i.is_multiple_of(3))),
        "member of {i}"
    );
    let found: Vec<&[u8]> = tags
        .row(row, batch.rows)
        .map(|place| texts.get(place))
        .collect();
    let expected: [&[u8]; 4] = [b"t0", b"t1", b"t2", b"t3"];
    assert_eq!(
        found,
        expected[..if i % 5 == 4 { 0 } else { i % 5 }],
        "tags of {i}"
    );
    let (Cells::Float(vectors), Cells::Float(prices)) = (&vector.cells, &price.cells) else {
        panic!("other types")
    };
    assert_eq!(
        vectors[2 * row..2 * row + 2],
        [i as f32, i as f32 + 0.5],
        "vector of {i}"
    );
    assert!(
        (prices[row] - i as f32 / 100.0).abs() < 1e-4,
        "price of {i} is {}",
        prices[row]
    );
    i
}

fn read(options: Options) -> Vec<usize> {
    let dataset = Dataset::open(options, schema()).expect("the files open");
    dataset
        .flat_map(|batch| {
            let batch = batch.expect("the files are read");
            (0..batch.rows)
                .map(|row| compare(&batch, row))
                .collect::<Vec<_>>()
        })
        .collect()
}

#[test]
fn rows_of_parquet_are_those_that_pyarrow_wrote() {
    for name in FILES {
        let rows = read(options(vec![testdata(name)], Format::Parquet, 100));
        assert!(rows.into_iter().eq(0..ROWS), "{name}");
    }
}

#[test]
fn shuffled_and_interleaved_parquet_has_every_row_once_a_file() {
    let files = FILES.map(testdata).to_vec();
    let interleave = Interleave {
        cycle_length: 3,
        block_length: 7,
    };
    let mut rows = read(Options {
        shuffle_rows: 500,
        interleave,
        ..options(files, Format::Parquet, 64)
    });
    assert!(!rows.is_sorted());
    rows.sort_unstable();
    assert!(rows.into_iter().eq((0..ROWS).flat_map(|row| [row; 4])));
}

#[test]
fn parquet_rows_divide_among_workers() {
    let mut all: Vec<usize> = (0..3)
        .flat_map(|index| {
            let options = options(vec![testdata(FILES[1])], Format::Parquet, 32);
            read(Options {
                sharding: Sharding::Row,
                shard_index: index,
                shard_count: 3,
                ..options
            })
        })
        .collect();
    all.sort_unstable();
    assert!(all.into_iter().eq(0..ROWS));
}

/// Reads every data shard from the files and from inline records, forward and backward.
#[test]
fn data_shards_of_parquet_hold_every_row_once() {
    let options = options(
        FILES[..2].iter().map(|name| testdata(name)).collect(),
        Format::Parquet,
        64,
    );
    let size = |count| NonZeroU32::new(count).expect("above 0");
    let mut indexer = Indexer::open(options.clone(), size(64)).expect("the files open");
    let index = indexer
        .advance(u64::MAX)
        .expect("the files are counted")
        .clone();
    assert_eq!(index.rows(), 2 * ROWS as u64);
    let planner = ShardPlanner {
        batch_size: size(64),
        lanes: size(2),
        batches_per_shard: size(5),
        shuffle: true,
        window_rows: 1500,
        seed: 3,
    };
    let mut fetcher = RecordFetcher::new(options.clone());
    let mut files = ShardReader::open(options.clone(), schema()).expect("the files open");
    let mut readers = ShardReader::new(options, schema());
    let mut rows = Vec::new();
    let mut batch = Batch::default();
    let mut other = Batch::default();
    'rounds: for round in 0.. {
        for lane in 0..2 {
            let shard = match planner.shard(&index, 0, round, lane) {
                Answer::Shard(shard) => shard,
                _ if lane == 0 => break 'rounds,
                _ => continue,
            };
            let mut inline_records = InlineRecords::default();
            fetcher
                .fetch(&shard, u64::MAX, &mut inline_records)
                .expect("the files are read");
            let direction = if round % 2 == 0 {
                Direction::Forward
            } else {
                Direction::Backward
            };
            files
                .begin(shard.clone(), 0..u32::MAX, direction)
                .expect("the shard is good");
            readers
                .begin_inline(shard, inline_records, 0..u32::MAX, direction)
                .expect("the inline records are good");
            while files.read(&mut batch).expect("the files are read") {
                assert!(
                    readers
                        .read(&mut other)
                        .expect("the inline records are read")
                );
                assert_eq!(batch, other);
                rows.extend((0..batch.rows).map(|row| compare(&batch, row)));
            }
        }
    }
    rows.sort_unstable();
    assert!(rows.into_iter().eq((0..ROWS).flat_map(|row| [row; 2])));
}

fn refused(format: Format, name: &str, wanted: &[(&str, FieldKind)]) -> String {
    let mut schema = Schema::default();
    wanted.iter().for_each(|(name, kind)| {
        schema.want(name, kind.clone());
    });
    let error =
        Dataset::open(options(vec![testdata(name)], format, 8), schema).expect_err("it is refused");
    error.to_string()
}

#[test]
fn another_schema_is_told_with_file_column_and_types() {
    let told = refused(
        Format::Parquet,
        "other_schema.parquet",
        &[("age", FieldKind::FLOAT)],
    );
    for part in ["other_schema.parquet", "`age`", "string", "numbers"] {
        assert!(told.contains(part), "{told}");
    }
    let told = refused(
        Format::Parquet,
        "other_schema.parquet",
        &[("clicked", FieldKind::INT)],
    );
    assert!(
        told.contains("double") && told.contains("whole numbers"),
        "{told}"
    );
    let told = refused(Format::Parquet, FILES[0], &[("tags", FieldKind::BYTES)]);
    assert!(
        told.contains("list<string>") && told.contains("one value a row"),
        "{told}"
    );
    let told = refused(Format::Parquet, FILES[0], &[("agee", FieldKind::FLOAT)]);
    assert!(told.contains("`agee` is not in"), "{told}");
}

#[test]
fn what_is_no_parquet_file_is_told() {
    let folder = tempfile::tempdir().expect("a folder");
    let whole = std::fs::read(testdata(FILES[0])).expect("the file is there");
    let path = folder.path().join("broken.parquet");
    for bytes in [
        b"".as_slice(),
        b"age,id\n1,2\n",
        &whole[..whole.len() / 2],
        &whole[whole.len() / 2..whole.len() - 1],
    ] {
        std::fs::write(&path, bytes).expect("the file is written");
        let error = Dataset::open(options(vec![path.clone()], Format::Parquet, 8), schema())
            .expect_err("broken");
        assert!(error.to_string().contains("broken.parquet"), "{error}");
    }
}

/// Damage in any place leads to rows or to an error, never to a panic.
#[test]
fn damaged_parquet_does_not_panic() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("damaged.parquet");
    let whole = std::fs::read(testdata(FILES[2])).expect("the file is there");
    for step in 0..150 {
        let mut bytes = whole.clone();
        let place = step * bytes.len() / 150 + step % 7;
        bytes[place.min(whole.len() - 1)] ^= 1 << (step % 8);
        std::fs::write(&path, &bytes).expect("the file is written");
        let Ok(dataset) =
            Dataset::open(options(vec![path.clone()], Format::Parquet, 500), schema())
        else {
            continue;
        };
        let read = dataset.take_while(Result::is_ok).count();
        assert!(read <= 6, "{read} batches of {place}");
    }
}

fn libsvm(lines: &str) -> tempfile::NamedTempFile {
    let file = tempfile::NamedTempFile::new().expect("a file");
    std::fs::write(file.path(), lines).expect("the file is written");
    file
}

fn pairs() -> Schema {
    let mut schema = Schema::default();
    schema.want("label", FieldKind::BYTES);
    schema.want(
        "index",
        FieldKind::Int {
            separator: Some(b' '),
            fraction: Fraction::Refused,
        },
    );
    schema.want("value", FieldKind::Floats { separator: b' ' });
    schema
}

#[test]
fn lines_of_libsvm_are_records_and_comments_are_none() {
    let file = libsvm("# a comment\n+1 1:0.5 3:2\n   \n-1 qid:4 2:1 # and why\n  # another\n+1\n");
    for (base, indices) in [
        (IndexBase::One, vec![0, 2, 1]),
        (IndexBase::Zero, vec![1, 3, 2]),
    ] {
        let options = options(vec![file.path().to_owned()], Format::LibSvm(base), 8);
        let mut indexer = Indexer::open(options.clone(), NonZeroU32::MIN).expect("it opens");
        assert_eq!(indexer.advance(u64::MAX).expect("it is counted").rows(), 3);
        let batch = Dataset::open(options, pairs())
            .expect("it opens")
            .next()
            .expect("a batch")
            .expect("good lines");
        assert_eq!(batch.columns[1].cells, Cells::Int(indices));
        assert_eq!(batch.columns[1].offsets, Some(vec![0, 2, 3, 3]));
        assert_eq!(batch.columns[2].cells, Cells::Float(vec![0.5, 2.0, 1.0]));
    }
}

#[test]
fn bad_lines_of_libsvm_are_told_with_their_place() {
    let file = libsvm("+1 1:1\n+1 0:1\n");
    let options = options(
        vec![file.path().to_owned()],
        Format::LibSvm(IndexBase::One),
        8,
    );
    let told = Dataset::open(options, pairs())
        .expect("it opens")
        .find_map(Result::err)
        .expect("index 0")
        .to_string();
    assert!(
        told.contains(":2: ") && told.contains("input.index_base = 0"),
        "{told}"
    );
    let path = file.path().to_owned();
    let mut schema = Schema::default();
    schema.want("index", FieldKind::INT);
    let other = self::options(vec![path], Format::LibSvm(IndexBase::One), 8);
    let told = Dataset::open(other, schema)
        .expect_err("one index a line")
        .to_string();
    assert!(
        told.contains("`index`") && told.contains("any number"),
        "{told}"
    );
}

fn csv(lines: &str) -> tempfile::NamedTempFile {
    let file = tempfile::Builder::new()
        .suffix(".csv")
        .tempfile()
        .expect("a file");
    std::fs::write(file.path(), lines).expect("the file is written");
    file
}

fn read_csv(lines: &str, schema: Schema) -> Result<Batch, Error> {
    let file = csv(lines);
    let options = Options {
        missing: vec!["?".to_owned()].into(),
        ..options(vec![file.path().to_owned()], Format::Csv, 64)
    };
    let mut dataset = Dataset::open(options, schema)?;
    dataset.next().expect("a batch")
}

#[test]
fn a_quote_inside_a_field_of_csv_is_a_character() {
    let mut schema = Schema::default();
    schema.want("c", FieldKind::BYTES);
    schema.want("n", FieldKind::FLOAT);
    let lines = "c,n,label\na,1,0\nb\"x,2,1\na,3,0\nb\"y,4,1\n\"q\"\"\n, r\",5,0\n";
    let batch = read_csv(lines, schema).expect("good records");
    let Cells::Bytes(texts) = &batch.columns[0].cells else {
        panic!("texts")
    };
    let texts: Vec<&[u8]> = (0..texts.len()).map(|row| texts.get(row)).collect();
    let expected: [&[u8]; 5] = [b"a", b"b\"x", b"a", b"b\"y", b"q\"\n, r"];
    assert_eq!(texts, expected);
    assert_eq!(
        batch.columns[1].cells,
        Cells::Float(vec![1.0, 2.0, 3.0, 4.0, 5.0])
    );
}

#[test]
fn a_wanted_column_that_is_there_twice_is_refused() {
    let lines = "c,n,c,label\na,1,b,0\n";
    let mut schema = Schema::default();
    schema.want("n", FieldKind::FLOAT);
    assert_eq!(read_csv(lines, schema.clone()).expect("a batch").rows, 1);
    schema.want("c", FieldKind::BYTES);
    let refused = read_csv(lines, schema).expect_err("two columns `c`");
    assert!(
        matches!(&refused, Error::ColumnTwice { column, .. } if column == "c"),
        "{refused}"
    );
    let file = csv(lines);
    let mut reader = TableReader::new(vec![file.path().to_owned()], Format::Csv, None, None);
    let refused = reader.read(&mut Vec::new()).expect_err("two columns `c`");
    assert!(matches!(refused, Error::ColumnTwice { .. }), "{refused}");
}

#[test]
fn each_column_has_the_missing_words_of_its_own_in_every_format_and_in_requests() {
    const COLUMNS: [&str; 4] = ["country", "age", "city", "scores"];
    let rows = [
        ["NA", "-999", "NA", "-999|1"],
        ["NL", "NA", "Oslo", "NA|2"],
        ["-999", "3", "-999", "3"],
    ];
    let missing = MissingTexts {
        everywhere: vec!["NA".to_owned()],
        of_columns: [
            ("country", vec![]),
            ("age", vec!["-999", "NA"]),
            ("scores", vec!["NA"]),
        ]
        .map(|(name, texts)| {
            (
                name.to_owned(),
                texts.into_iter().map(str::to_owned).collect(),
            )
        })
        .into(),
    };
    let mut schema = Schema::default();
    schema.want("country", FieldKind::BYTES);
    schema.want("age", floats(-9.0));
    schema.want("city", FieldKind::BYTES);
    // A list leaves missing values out.
    schema.want(
        "scores",
        FieldKind::Bytes {
            separator: Some(b'|'),
        },
    );
    let shown = |batch: &Batch| -> Vec<String> {
        let column = |column: &Column| {
            let cells: Vec<String> = match &column.cells {
                Cells::Bytes(texts) => (0..texts.len())
                    .map(|row| String::from_utf8_lossy(texts.get(row)).into_owned())
                    .collect(),
                other => vec![format!("{other:?}")],
            };
            format!("{cells:?} {:?}", column.offsets)
        };
        batch.columns.iter().map(column).collect()
    };
    let expected = [
        r#"["NA", "NL", "-999"] None"#,
        r#"["Float([-9.0, -9.0, 3.0])"] None"#,
        r#"["", "Oslo", "-999"] None"#,
        r#"["-999", "1", "2", "3"] Some([0, 2, 3, 4])"#,
    ];
    let folder = tempfile::tempdir().expect("a folder");
    for format in [Format::Csv, Format::Tsv, Format::TfRecord, Format::Parquet] {
        let path = folder.path().join(format!("rows.{}", format.name()));
        let is_text = matches!(format, Format::Csv | Format::Tsv);
        let cells = |row: &[&str; 4]| {
            row.iter()
                .zip(COLUMNS)
                .map(|(text, name)| {
                    let is_list = name == "scores" && !is_text;
                    let parts = text.split(|one| is_list && one == '|');
                    let texts = parts.map(|part| Value::Text(part.as_bytes().to_vec()));
                    Cell {
                        values: texts.collect(),
                        list: is_list,
                    }
                })
                .collect::<Vec<_>>()
        };
        let names = COLUMNS.map(str::to_owned);
        // A format with types has numbers where a column is one of numbers.
        let typed = |row: &[&str; 4]| {
            let mut cells = cells(row);
            if !is_text {
                cells[1].values = match row[1].parse() {
                    Ok(number) => vec![Value::Int(number)],
                    Err(_) => Vec::new(),
                };
            }
            cells
        };
        let mut layout = Layout::default();
        rows.iter().for_each(|row| layout.see(&names, &typed(row)));
        let mut writer = TableWriter::create(&path, format, layout).expect("a file");
        rows.iter()
            .for_each(|row| writer.write(&typed(row)).expect("there is room"));
        writer.finish().expect("there is room");
        let options = Options {
            missing: missing.clone(),
            ..options(vec![path], format, 10)
        };
        let mut dataset = Dataset::open(options, schema.clone()).expect("it opens");
        let batch = dataset.next().expect("a batch").expect("good rows");
        assert_eq!(shown(&batch), expected, "{format:?}");
    }
    let options = Options {
        missing: missing.clone(),
        ..options(Vec::new(), Format::Csv, 10)
    };
    let columns = NamedColumns::new(&schema, &options);
    let mut batch = columns.begin(rows.len());
    for row in rows {
        for (text, name) in row.iter().zip(COLUMNS) {
            let place = columns.place(name).expect("the schema has it");
            // A number of a request is no text.
            let given = match text.parse() {
                Ok(number) if name == "age" => [Given::Int(number)],
                _ => [Given::Text(text.as_bytes())],
            };
            columns.append(&mut batch, place, &given).expect("a value");
        }
    }
    let batch = columns.finish(batch, rows.len()).expect("whole rows");
    assert_eq!(shown(&batch), expected, "a request");
    // libsvm has a label alone that may be missing.
    let path = folder.path().join("rows.libsvm");
    std::fs::write(&path, "1 1:1\n-1 1:2\n").expect("written");
    let mut schema = Schema::default();
    schema.want("label", floats(-9.0));
    for (of_label, second) in [(vec!["-1".to_owned()], -9.0), (Vec::new(), -1.0)] {
        let options = Options {
            missing: MissingTexts {
                everywhere: vec!["-1".to_owned()],
                of_columns: [("label".to_owned(), of_label)].into(),
            },
            ..options.clone()
        };
        let options = Options {
            files: vec![path.clone()],
            format: Format::LibSvm(IndexBase::One),
            ..options
        };
        let mut dataset = Dataset::open(options, schema.clone()).expect("it opens");
        let batch = dataset.next().expect("a batch").expect("good rows");
        assert_eq!(batch.columns[0].cells, Cells::Float(vec![1.0, second]));
    }
}

/// Nulls in lists of a Parquet file are the missing parts of the same lists in text: what is beside them keeps its place.
#[test]
fn nulls_in_lists_are_missing_parts_in_their_places() {
    let text = "ids,words,pair,fixed\n\
                1||5,a||b,|7,|7\n1|5,|c,7|,7|\n,,1|2,1|2\n,,|,|\n,,3|4,3|4\n7|,d,5|6,5|6\n";
    let file = csv(text);
    let separator = Some(b'|');
    let ints = FieldKind::Int {
        separator,
        fraction: Fraction::Refused,
    };
    let pair = |default| FieldKind::Float {
        width: 2,
        separator,
        default,
    };
    let kinds = [
        ("ids", ints),
        ("ids", FieldKind::Floats { separator: b'|' }),
        ("words", FieldKind::Bytes { separator }),
        ("pair", pair(None)),
        ("pair", pair(Some(vec![9.0, 8.0]))),
        ("fixed", pair(None)),
        ("fixed", pair(Some(vec![9.0, 8.0]))),
    ];
    let mut bad = 0;
    for (column, kind) in kinds {
        for gaps in [Gaps::LeftOut, Gaps::Refused] {
            let read = |path: PathBuf, format| {
                let options = Options {
                    bad_rows: BadRows::Skip,
                    bad_rows_max: 100,
                    ..options(vec![path], format, 10)
                };
                let mut schema = Schema::default();
                schema.want(column, kind.clone());
                schema.fields[0].gaps = gaps;
                let mut dataset = Dataset::open(options, schema).expect("it opens");
                let batch = dataset.next().expect("a batch").expect("good rows");
                let column = &batch.columns[0];
                let Cells::Bytes(texts) = &column.cells else {
                    return (
                        batch.rows,
                        format!("{:?} {:?}", column.cells, column.offsets),
                    );
                };
                let texts: Vec<&[u8]> = (0..texts.len()).map(|row| texts.get(row)).collect();
                (batch.rows, format!("{texts:?} {:?}", column.offsets))
            };
            let of_text = read(file.path().to_owned(), Format::Csv);
            let found = read(testdata("lists_with_nulls.parquet"), Format::Parquet);
            assert_eq!(found, of_text, "{column} {kind:?} {gaps:?}");
            bad += 6 - of_text.0;
        }
    }
    assert!(bad > 5, "{bad} rows were bad");
}

#[test]
fn nan_and_the_missing_parts_of_lists_are_missing() {
    let list = |kind| match kind {
        "text" => FieldKind::Bytes {
            separator: Some(b'|'),
        },
        "int" => FieldKind::Int {
            separator: Some(b'|'),
            fraction: Fraction::Refused,
        },
        _ => FieldKind::Float {
            width: 2,
            separator: Some(b'|'),
            default: Some(vec![7.0, 8.0]),
        },
    };
    let mut schema = Schema::default();
    schema.want("x", floats(-5.0));
    schema.want("i", FieldKind::INT);
    schema.want("t", list("text"));
    schema.want("n", list("int"));
    schema.want("v", list("float"));
    let lines = "x,i,t,n,v\nNaN,nan,a||?|b,1||?|2,1|nan\n-nan,3,?,?,?|2\n1,?,|,|,\n";
    let batch = read_csv(lines, schema).expect("good records");
    let [x, i, t, n, v] = batch.columns.as_slice() else {
        panic!("{} columns", batch.columns.len())
    };
    assert_eq!(x.cells, Cells::Float(vec![-5.0, -5.0, 1.0]));
    assert_eq!(i.cells, Cells::Int(vec![-1, 3, -1]));
    let mut texts = Bytes::default();
    [b"a", b"b"].into_iter().for_each(|text| texts.push(text));
    assert_eq!(t.cells, Cells::Bytes(texts));
    assert_eq!(t.offsets, Some(vec![0, 2, 2, 2]));
    assert_eq!(n.cells, Cells::Int(vec![1, 2]));
    assert_eq!(n.offsets, Some(vec![0, 2, 2, 2]));
    assert_eq!(v.cells, Cells::Float(vec![1.0, 8.0, 7.0, 2.0, 7.0, 8.0]));
    let mut weights = Schema::default();
    weights.want("v", FieldKind::Floats { separator: b'|' });
    let batch = read_csv("v\n1|\n", weights.clone()).expect("no value needs this weight");
    assert_eq!(batch.columns[0].cells, Cells::Float(vec![1.0]));
    let refused = read_csv("v\n1||2\n", weights).expect_err("a weight is missing");
    let told = refused.to_string();
    assert!(told.contains("each value needs its weight"), "{told}");
}

/// A text file, how it is written, and what is read from its columns `x` (a number, -9 where it is missing), `n` (a whole number) and `t`.
struct Written {
    bytes: &'static [u8],
    style: TextStyle,
    missing: &'static [&'static str],
    x: &'static [f32],
    n: &'static [i64],
    t: &'static [&'static str],
}

#[test]
fn text_files_are_read_as_spreadsheets_and_databases_write_them() {
    let numbers = |decimal, thousands, units: &[&str]| NumberStyle {
        decimal,
        thousands,
        units: units.iter().map(|unit| (*unit).to_owned()).collect(),
    };
    let style = |delimiter: u8, numbers| TextStyle {
        delimiter: Some(delimiter),
        numbers,
        ..TextStyle::default()
    };
    let plain = NumberStyle::default;
    for written in [
        Written {
            bytes: b"x;n;t\n0,5;1;red\n-1.234,25;2.000;\"a;b\"\n;-3;\n",
            style: style(b';', numbers(Decimal::Comma, Some('.'), &[])),
            missing: &[],
            x: &[0.5, -1234.25, -9.0],
            n: &[1, 2000, -3],
            t: &["red", "a;b", ""],
        },
        Written {
            bytes: b"t,x,n\r\n\"a,\"\"b\"\"\",\"$1,234.50\",7\r\nc,NULL,\"1,000\"\r\n",
            style: style(b',', numbers(Decimal::Point, Some(','), &["$"])),
            missing: &["NULL"],
            x: &[1234.5, -9.0],
            n: &[7, 1000],
            t: &["a,\"b\"", "c"],
        },
        Written {
            bytes: b"x\tn\tt\n12.5%\t1\t\"a\tb\"\nnan\t2\t\"\"\n7 %\t3\t c \n",
            style: style(b'\t', numbers(Decimal::Point, None, &["%"])),
            missing: &[],
            x: &[12.5, -9.0, 7.0],
            n: &[1, 2, 3],
            t: &["a\tb", "", "c"],
        },
        Written {
            bytes: b"t|x|n\ncaf\xe9|1e30|1\n\x80|-.5|2\n",
            style: TextStyle {
                encoding: TextEncoding::Latin1,
                ..style(b'|', plain())
            },
            missing: &[],
            x: &[1e30, -0.5],
            n: &[1, 2],
            t: &["caf\u{e9}", "\u{20ac}"],
        },
    ] {
        let file = tempfile::NamedTempFile::new().expect("a file");
        std::fs::write(file.path(), written.bytes).expect("written");
        let options = Options {
            text: written.style,
            missing: written
                .missing
                .iter()
                .map(|word| (*word).to_owned())
                .collect::<Vec<_>>()
                .into(),
            ..options(vec![file.path().to_owned()], Format::Csv, 10)
        };
        let mut schema = Schema::default();
        schema.want("x", floats(-9.0));
        schema.want("n", FieldKind::INT);
        schema.want("t", FieldKind::BYTES);
        let mut dataset = Dataset::open(options, schema).expect("it opens");
        let batch = dataset.next().expect("a batch").expect("good rows");
        let [x, n, t] = batch.columns.as_slice() else {
            panic!("three columns");
        };
        assert_eq!(x.cells, Cells::Float(written.x.to_vec()));
        assert_eq!(n.cells, Cells::Int(written.n.to_vec()));
        let mut texts = Bytes::default();
        written
            .t
            .iter()
            .for_each(|text| texts.push(text.as_bytes()));
        assert_eq!(t.cells, Cells::Bytes(texts));
    }
}

#[test]
fn a_number_of_another_style_is_a_bad_row_that_names_the_style() {
    let file = tempfile::NamedTempFile::new().expect("a file");
    std::fs::write(file.path(), "x;y\n1,5;1\n2.5;0\n").expect("written");
    let options = Options {
        text: TextStyle {
            delimiter: Some(b';'),
            numbers: NumberStyle {
                decimal: Decimal::Comma,
                ..NumberStyle::default()
            },
            ..TextStyle::default()
        },
        ..options(vec![file.path().to_owned()], Format::Csv, 10)
    };
    let mut schema = Schema::default();
    schema.want("x", FieldKind::FLOAT);
    let mut dataset = Dataset::open(options, schema).expect("it opens");
    match dataset.next() {
        Some(Err(Error::Row(row))) => assert_eq!(
            (row.line, row.reason.as_str()),
            (3, r#""2.5" is not a number of [input] decimal = ",""#)
        ),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_text_that_is_no_utf8_is_a_bad_row_that_names_the_encoding() {
    for (content, kind) in [
        (&b"t,n\ncaf\xe9,1\n"[..], FieldKind::BYTES),
        (b"t,n\n\"caf\xe9, th\xe9\",1\n", FieldKind::BYTES),
        (
            b"t,n\nth\xc3\xa9|caf\xe9,1\n",
            FieldKind::Bytes {
                separator: Some(b'|'),
            },
        ),
    ] {
        let file = tempfile::NamedTempFile::new().expect("a file");
        std::fs::write(file.path(), content).expect("written");
        let read = |wanted: &str, kind: FieldKind| {
            let mut schema = Schema::default();
            schema.want(wanted, kind);
            let options = options(vec![file.path().to_owned()], Format::Csv, 10);
            let mut dataset = Dataset::open(options, schema).expect("it opens");
            dataset.next().expect("a batch or an error")
        };
        let problem = read("t", kind).expect_err("no text").to_string();
        for part in ["`t`", "UTF-8", "input.encoding"] {
            assert!(problem.contains(part), "{problem}");
        }
        // A column that nobody reads may hold anything.
        assert_eq!(read("n", FieldKind::INT).expect("a batch").rows, 1);
    }
}

#[test]
fn a_line_of_the_names_of_the_columns_is_no_record() {
    let names = ["word", "n"].map(str::to_owned).to_vec();
    let read = |content: &str, columns: Option<Vec<String>>| {
        let file = tempfile::NamedTempFile::new().expect("a file");
        std::fs::write(file.path(), content).expect("written");
        let mut schema = Schema::default();
        schema.want("word", FieldKind::BYTES);
        let options = Options {
            columns,
            ..options(vec![file.path().to_owned()], Format::Csv, 10)
        };
        let mut dataset = Dataset::open(options, schema).expect("it opens");
        dataset.next().expect("a batch or an error")
    };
    for (content, columns) in [
        ("word,n\na,1\n", Some(names.clone())),
        ("\"word\", n\na,1\n", Some(names.clone())),
        ("word,n\na,1\nword,n\nb,2\n", None),
    ] {
        let problem = read(content, columns).expect_err("a header").to_string();
        assert!(problem.contains("names of the columns"), "{problem}");
    }
    for content in ["word,1\na,1\n", "words,n\n", "word,\n"] {
        let batch = read(content, Some(names.clone())).expect("records");
        assert!(batch.rows > 0, "{content}");
    }
}

#[test]
fn text_after_a_closing_quote_makes_a_row_bad_for_every_reader() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("a.csv");
    std::fs::write(&path, "a,b\n1,\"q\"\n2,\"q\"r\n3,\"q\"\"r\"\n4,q\"r\"\n").expect("written");
    let mut reader = TableReader::new(vec![path.clone()], Format::Csv, None, None).trimmed();
    let mut row = Vec::new();
    let mut found = Vec::new();
    loop {
        match reader.read(&mut row) {
            Ok(false) => break,
            Ok(true) => match &row[1].values[..] {
                [Value::Text(text)] => found.push(String::from_utf8_lossy(text).into_owned()),
                other => panic!("{other:?}"),
            },
            Err(Error::Row(bad)) => {
                found.push(bad.to_string().replace(&*path.to_string_lossy(), ""))
            }
            Err(error) => panic!("{error}"),
        }
    }
    let told = ":3: a quoted field has text after its closing quote, or no closing quote, as here: `\"q\"r`; a quote in a quoted \
                field is written twice";
    assert_eq!(found, ["q", told, "q\"r", "q\"r\""]);
    let mut schema = Schema::default();
    schema.want("b", FieldKind::BYTES);
    let options = Options {
        bad_rows: BadRows::Skip,
        bad_rows_max: 1,
        batch_size: 4,
        ..Options::new(vec![path.clone()], Format::Csv)
    };
    let mut dataset = Dataset::open(options, schema.clone()).expect("it opens");
    let batch = dataset.next().expect("a batch").expect("good rows");
    assert_eq!(batch.rows, 3);
    let mut dataset =
        Dataset::open(Options::new(vec![path], Format::Csv), schema).expect("it opens");
    let mut outcomes = std::iter::from_fn(|| dataset.next());
    let refused = outcomes.find_map(Result::err).expect("the bad row");
    assert!(
        refused.to_string().contains(":3: a quoted field has text"),
        "{refused}"
    );
}
