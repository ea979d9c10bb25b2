//! The order, number and content of batches.
#![expect(clippy::disallowed_types, reason = "a test bounds the time of threads")]

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::PathBuf;

use proptest::prelude::*;
use trainyard_diagnostic::Diagnostic;
use trainyard_input::*;

fn options(files: Vec<PathBuf>) -> Options {
    Options {
        trim: true,
        missing: vec!["?".to_owned()].into(),
        bad_rows_max: 100,
        batch_size: 4,
        seed: 11,
        ..Options::new(files, Format::Csv)
    }
}

fn schema() -> Schema {
    let mut schema = Schema::default();
    schema.want("n", FieldKind::INT);
    schema
}

/// Returns a folder with files of consecutive numbers, `counts[i]` of them in file i.
fn numbers(counts: &[usize]) -> (tempfile::TempDir, Vec<PathBuf>) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let mut next = 0;
    let mut files = Vec::new();
    for (index, &count) in counts.iter().enumerate() {
        let mut text = "n,other\n".to_owned();
        for _ in 0..count {
            let _ = writeln!(text, "{next},x");
            next += 1;
        }
        let path = folder.path().join(format!("{index}.csv"));
        std::fs::write(&path, text).expect("a file is written");
        files.push(path);
    }
    (folder, files)
}

fn read(options: Options) -> Vec<(Position, Vec<i64>)> {
    let batches = Dataset::open(options, schema()).expect("the dataset opens");
    let read = batches.map(|batch| {
        let batch = batch.expect("a batch is read");
        let Cells::Int(values) = batch.columns[0].cells.clone() else {
            panic!("{batch:?}")
        };
        (batch.position, values)
    });
    read.collect()
}

fn rows(options: Options) -> Vec<Vec<i64>> {
    read(options)
        .into_iter()
        .map(|(_, values)| values)
        .collect()
}

#[test]
fn batches_cross_files_and_the_last_is_smaller() {
    let (_folder, files) = numbers(&[3, 7]);
    assert_eq!(
        rows(options(files)),
        [vec![0, 1, 2, 3], vec![4, 5, 6, 7], vec![8, 9]]
    );
}

#[test]
fn batches_cross_passes_as_repeat_then_batch() {
    let (_folder, files) = numbers(&[3]);
    let batches = read(Options {
        epochs: Some(3),
        ..options(files)
    });
    let values: Vec<_> = batches.iter().map(|(_, values)| values.clone()).collect();
    assert_eq!(values, [vec![0, 1, 2, 0], vec![1, 2, 0, 1], vec![2]]);
    let positions: Vec<_> = batches
        .iter()
        .map(|(position, _)| (position.pass, position.batch))
        .collect();
    assert_eq!(positions, [(0, 0), (1, 1), (2, 2)]);
}

#[test]
fn row_shards_are_those_of_tensorflow() {
    let (_folder, files) = numbers(&[4, 6]);
    let shard = |index| {
        let options = Options {
            sharding: Sharding::Row,
            shard_index: index,
            shard_count: 3,
            ..options(files.clone())
        };
        rows(options).concat()
    };
    assert_eq!(
        (shard(0), shard(1), shard(2)),
        (vec![0, 3, 6, 9], vec![1, 4, 7], vec![2, 5, 8])
    );
}

#[test]
fn file_shards_divide_whole_files() {
    let (_folder, files) = numbers(&[2, 2, 1]);
    let shard = |index, count| {
        let options = Options {
            sharding: Sharding::File,
            shard_index: index,
            shard_count: count,
            ..options(files.clone())
        };
        rows(options).concat()
    };
    assert_eq!((shard(0, 2), shard(1, 2)), (vec![0, 1, 4], vec![2, 3]));
    assert_eq!(
        shard(3, 4),
        Vec::<i64>::new(),
        "a worker without a file ends at once"
    );
}

#[test]
fn shuffled_passes_hold_every_record_once_in_new_orders() {
    let (_folder, files) = numbers(&[40, 60]);
    let make = |seed| Options {
        shuffle_rows: 30,
        epochs: Some(2),
        batch_size: 100,
        seed,
        ..options(files.clone())
    };
    let passes = rows(make(11));
    for pass in &passes {
        let mut sorted = pass.clone();
        sorted.sort_unstable();
        assert_eq!(sorted, (0..100).collect::<Vec<_>>());
    }
    assert!(passes[0] != passes[1] && passes[0] != (0..100).collect::<Vec<_>>());
    assert_eq!(rows(make(11)), passes, "the same seed gives the same order");
    assert!(rows(make(12)) != passes);
}

#[test]
fn skipped_batches_are_those_at_the_front() {
    let (_folder, files) = numbers(&[50]);
    let make = |skip| Options {
        shuffle_rows: 20,
        epochs: Some(2),
        skip_batches: skip,
        ..options(files.clone())
    };
    assert_eq!(read(make(7)), read(make(0))[7..]);
}

#[test]
fn an_input_without_records_is_an_error_not_an_endless_loop() {
    let (_folder, files) = numbers(&[0]);
    let first = Dataset::open(
        Options {
            epochs: None,
            ..options(files)
        },
        schema(),
    )
    .map(|mut dataset| dataset.next());
    assert!(
        matches!(first, Ok(Some(Err(Error::Empty { .. })))),
        "{first:?}"
    );
}

#[test]
fn missing_files_and_columns_are_named() {
    let (folder, files) = numbers(&[1]);
    let missing =
        Dataset::open(options(vec![folder.path().join("none.csv")]), schema()).map(|_| ());
    assert!(matches!(missing, Err(Error::File { .. })), "{missing:?}");
    let mut wanted = schema();
    wanted.want("othr", FieldKind::BYTES);
    let error = Dataset::open(options(files), wanted)
        .map(|_| ())
        .expect_err("the column is missing");
    let text = Diagnostic::from(error).render();
    assert!(
        text.contains("column `othr` is not in") && text.contains("did you mean `other`?"),
        "{text}"
    );
}

fn table(text: &str) -> (tempfile::TempDir, Options, Schema) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("t.csv");
    std::fs::write(&path, text).expect("a file is written");
    let mut schema = Schema::default();
    schema.want("age", FieldKind::FLOAT);
    schema.want("city", FieldKind::BYTES);
    let dead_letter = Some(folder.path().join("dead/letters.jsonl"));
    (
        folder,
        Options {
            dead_letter,
            ..options(vec![path])
        },
        schema,
    )
}

const BAD: &str = "age,city\n1,a\ntwelve,b\n2,c,extra\ninf,d\n,e\n3,f\n";

#[test]
fn a_bad_row_stops_the_input_with_its_place() {
    let (_folder, options, schema) = table(BAD);
    let error = Dataset::open(options, schema)
        .expect("opens")
        .next()
        .expect("an item")
        .expect_err("a bad row");
    let text = Diagnostic::from(error).render();
    assert!(
        text.contains("t.csv:3: column `age`: \"twelve\" is not a number"),
        "{text}"
    );
}

#[test]
fn bad_rows_are_left_out_written_once_and_bounded() {
    let (folder, options, schema) = table(BAD);
    let skip = Options {
        bad_rows: BadRows::Skip,
        epochs: Some(2),
        ..options
    };
    let dataset = Dataset::open(skip.clone(), schema.clone()).expect("opens");
    let statistics = dataset.statistics();
    let read: Vec<Batch> = dataset.map(|batch| batch.expect("a batch")).collect();
    assert_eq!(read[0].columns[0], Column::floats(vec![1.0, 3.0, 1.0, 3.0]));
    let count =
        |counter: &std::sync::atomic::AtomicU64| counter.load(std::sync::atomic::Ordering::Relaxed);
    assert_eq!(
        (
            count(&statistics.rows_read),
            count(&statistics.rows_skipped)
        ),
        (12, 4)
    );
    let letters = std::fs::read_to_string(folder.path().join("dead/letters.jsonl"))
        .expect("the dead letters");
    let reasons = [
        "\\\"twelve\\\" is not a number",
        "must have 2 columns, given 3",
        "is not a finite number",
        "missing",
    ];
    assert_eq!(letters.lines().count(), 4, "{letters}");
    for ((line, reason), content) in
        letters
            .lines()
            .zip(reasons)
            .zip(["twelve,b", "2,c,extra", "inf,d", ",e"])
    {
        assert!(line.contains(reason), "{line}");
        assert!(
            line.contains(&format!("\"content\":\"{content}\"")),
            "{line}"
        );
    }
    let strict = Options {
        bad_rows_max: 2,
        ..skip
    };
    let error = Dataset::open(strict, schema)
        .expect("opens")
        .find_map(Result::err)
        .expect("too many bad rows");
    let text = Diagnostic::from(error).render();
    assert!(
        text.contains("3 of 4 rows are unreadable, bad_rows_max is 2") && text.contains("t.csv:3"),
        "{text}"
    );
}

#[test]
fn spaces_quotes_marks_and_line_ends_are_read() {
    let text =
        "\u{feff}age, city\r\n1, \"a, b\"\r\n\r\n 2 ,\"say \"\"hi\"\"\"\r\n3,\"two\nlines\"\r\n4,?";
    let (_folder, options, schema) = table(text);
    let batch = Dataset::open(options, schema)
        .expect("opens")
        .next()
        .expect("an item")
        .expect("a batch");
    let Cells::Bytes(cities) = &batch.columns[1].cells else {
        panic!("{batch:?}")
    };
    let cities: Vec<&[u8]> = (0..batch.rows).map(|row| cities.get(row)).collect();
    assert_eq!(
        cities,
        [b"a, b".as_slice(), b"say \"hi\"", b"two\nlines", b""]
    );
    assert_eq!(batch.columns[0], Column::floats(vec![1.0, 2.0, 3.0, 4.0]));
}

#[test]
fn check_reports_all_problems_of_the_first_rows() {
    let (_folder, options, schema) = table(BAD);
    let bad = |rows| {
        check(&options, &schema, rows)
            .bad
            .iter()
            .map(|alike| alike.count)
            .sum::<u64>()
    };
    assert_eq!((bad(100), bad(1)), (4, 0));
}

#[test]
fn prefetch_delivers_in_order_and_reports_failures() {
    let (_folder, files) = numbers(&[10]);
    let dataset = Dataset::open(options(files.clone()), schema()).expect("opens");
    let mut prefetch =
        Prefetch::<usize, String>::spawn(dataset, 2, |batch| Ok(batch.rows)).expect("a thread");
    let read: Vec<usize> = std::iter::from_fn(|| prefetch.blocking_next())
        .map(|item| item.expect("a batch").1)
        .collect();
    assert_eq!(read, [4, 4, 2]);
    let dataset = Dataset::open(options(files), schema()).expect("opens");
    let broken = |batch: &Batch| {
        if batch.position.batch == 1 {
            panic!("on purpose")
        } else {
            Ok(())
        }
    };
    let mut prefetch = Prefetch::<(), String>::spawn(dataset, 2, broken).expect("a thread");
    assert!(matches!(prefetch.blocking_next(), Some(Ok(_))));
    assert!(matches!(
        prefetch.blocking_next(),
        Some(Err(PrefetchError::Panicked))
    ));
}

#[tokio::test]
async fn a_task_prefetches_as_a_thread_does() {
    let (_folder, files) = numbers(&[10]);
    let dataset = Dataset::open(options(files.clone()), schema()).expect("opens");
    let mut prefetch = Prefetch::<usize, String>::spawn_task(dataset, 2, |batch| Ok(batch.rows));
    let mut read = Vec::new();
    while let Some(item) = prefetch.next().await {
        read.push(item.expect("a batch").1);
    }
    assert_eq!(read, [4, 4, 2]);
    let dataset = Dataset::open(options(files), schema()).expect("opens");
    let broken = |batch: &Batch| {
        if batch.position.batch == 1 {
            panic!("on purpose")
        } else {
            Ok(())
        }
    };
    let mut prefetch = Prefetch::<(), String>::spawn_task(dataset, 2, broken);
    assert!(matches!(prefetch.next().await, Some(Ok(_))));
    assert!(matches!(
        prefetch.next().await,
        Some(Err(PrefetchError::Panicked))
    ));
}

#[test]
fn dropping_an_endless_prefetch_ends_its_thread() {
    let (_folder, files) = numbers(&[10]);
    let dataset = Dataset::open(
        Options {
            epochs: None,
            ..options(files)
        },
        schema(),
    )
    .expect("opens");
    let statistics = dataset.statistics();
    let mut prefetch =
        Prefetch::<usize, String>::spawn(dataset, 2, |batch| Ok(batch.rows)).expect("a thread");
    assert!(prefetch.blocking_next().is_some());
    drop(prefetch);
    // The thread owns the other handle of the counters. When it has ended, one handle remains.
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(10);
    while std::sync::Arc::strong_count(&statistics) > 1 {
        assert!(
            std::time::Instant::now() < deadline,
            "the input thread goes on"
        );
        std::thread::yield_now();
    }
}

proptest! {
    #[test]
    fn quoted_tables_give_back_their_cells(cells in prop::collection::vec(("[a-z\",\n ]{0,8}", -1000_i32..1000), 1..20)) {
        let mut text = "city,n\n".to_owned();
        for (city, number) in &cells {
            let _ = writeln!(text, "\"{}\",{number}", city.replace('"', "\"\""));
        }
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = folder.path().join("t.csv");
        std::fs::write(&path, &text).expect("a file is written");
        let mut schema = Schema::default();
        schema.want("n", FieldKind::FLOAT);
        schema.want("city", FieldKind::BYTES);
        let dataset = Dataset::open(Options { trim: false, missing: MissingTexts::default(), ..options(vec![path]) }, schema).expect("opens");
        let mut read = BTreeMap::new();
        for batch in dataset {
            let batch = batch.expect("a batch");
            let (Cells::Float(numbers), Cells::Bytes(cities)) = (&batch.columns[0].cells, &batch.columns[1].cells) else { panic!() };
            for (row, number) in numbers.iter().enumerate() {
                read.insert(read.len(), (String::from_utf8_lossy(cities.get(row)).into_owned(), *number as i32));
            }
        }
        prop_assert_eq!(read.into_values().collect::<Vec<_>>(), cells);
    }
}
