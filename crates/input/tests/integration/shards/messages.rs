//! Errors for bad rows and for files that have changed.

use std::sync::atomic::Ordering;

use trainyard_diagnostic::Diagnostic;
use trainyard_input::*;

use super::records::{Data, Form, data};
use super::{Read, indexed, ints, planner, rest, shards, whole};

/// Returns an input of rows. The rows in `bad` have no number.
fn damaged(rows: usize, bad: &[usize]) -> Data {
    let data = data(&[rows], &Form::csv());
    let path = &data.options.files[0];
    let mut text = std::fs::read_to_string(path).expect("the file is read");
    for row in bad {
        text = text.replace(&format!("\n{row},"), "\nx,");
    }
    std::fs::write(path, text).expect("the file is written");
    data
}

#[test]
fn a_bad_row_is_named_from_files_and_inline_records_alike() {
    let data = damaged(40, &[17]);
    let planner = planner(4, 1, 2);
    let dataset = Dataset::open(data.options.clone(), data.schema.clone()).expect("opens");
    let wanted = dataset
        .into_iter()
        .find_map(Result::err)
        .expect("a bad row");
    let index = indexed(&data.options, &planner);
    let mut reader = ShardReader::open(data.options.clone(), data.schema.clone()).expect("opens");
    let mut fetcher = RecordFetcher::new(data.options.clone());
    let mut told = Vec::new();
    for shard in shards(&planner, &index, 0) {
        reader
            .begin(shard.clone(), 0..2, Direction::Forward)
            .expect("sound");
        told.extend(rest(&mut reader).err());
        assert!(
            matches!(reader.read(&mut Batch::default()), Ok(false)),
            "nothing comes after an error"
        );
        let mut inline_records = InlineRecords::default();
        fetcher
            .fetch(&shard, 1 << 20, &mut inline_records)
            .expect("fetched");
        reader
            .begin_inline(shard, inline_records, 0..2, Direction::Backward)
            .expect("sound");
        told.extend(rest(&mut reader).err());
    }
    assert_eq!(told, [wanted.clone(), wanted]);
}

#[test]
fn bad_rows_are_left_out_of_their_batches_and_counted_once() {
    let mut data = damaged(12, &[4, 5, 6, 7, 9]);
    data.options.bad_rows = BadRows::Skip;
    let letters = data._folder.path().join("letters.jsonl");
    data.options.dead_letter = Some(letters.clone());
    let planner = ShardPlanner {
        shuffle: false,
        ..planner(4, 1, 2)
    };
    let index = indexed(&data.options, &planner);
    let mut reader = ShardReader::open(data.options.clone(), data.schema.clone()).expect("opens");
    let statistics = reader.statistics();
    for pass in 0..2 {
        let read: Vec<Read> = shards(&planner, &index, pass)
            .iter()
            .flat_map(|shard| whole(&mut reader, shard))
            .collect();
        let rows: Vec<_> = read
            .iter()
            .map(|(number, batch)| (*number, ints(batch)))
            .collect();
        assert_eq!(
            rows,
            [
                (pass * 3, vec![0, 1, 2, 3]),
                (pass * 3 + 1, vec![]),
                (pass * 3 + 2, vec![8, 10, 11])
            ]
        );
    }
    let counters = [
        &statistics.rows_read,
        &statistics.rows_skipped,
        &statistics.passes,
    ];
    assert_eq!(
        counters.map(|counter| counter.load(Ordering::Relaxed)),
        [24, 5, 1]
    );
    let letters = std::fs::read_to_string(letters).expect("the dead letters");
    assert_eq!(letters.lines().count(), 5, "{letters}");
    data.options.bad_rows_max = 4;
    let mut strict = ShardReader::open(data.options.clone(), data.schema.clone()).expect("opens");
    let errors = shards(&planner, &index, 0).into_iter().filter_map(|shard| {
        strict
            .begin(shard, 0..2, Direction::Forward)
            .expect("sound");
        rest(&mut strict).err()
    });
    let errors: Vec<Error> = errors.collect();
    assert!(
        matches!(
            errors[..],
            [Error::Rows {
                bad: 5,
                read: 10,
                most: 4,
                ..
            }]
        ),
        "{errors:?}"
    );
}

#[test]
fn damage_of_tfrecord_is_a_bad_row_as_it_is_to_a_dataset() {
    for (at, compression) in [
        (8, Compression::None),
        (60, Compression::None),
        (60, Compression::Gzip),
    ] {
        let form = Form {
            format: Format::TfRecord,
            compression: Compression::None,
            ..Form::csv()
        };
        let mut data = data(&[9], &form);
        let path = data.options.files[0].clone();
        let mut bytes = std::fs::read(&path).expect("the file is read");
        let place = bytes.len() - at;
        bytes[place] ^= 1;
        // Another record, cut short.
        bytes.extend(crate::writer::header(100));
        std::fs::write(&path, crate::writer::compress(&bytes, compression))
            .expect("the file is written");
        data.options.compression = Some(compression);
        data.options.bad_rows = BadRows::Skip;
        data.options.dead_letter = Some(data._folder.path().join("letters.jsonl"));
        let dataset = Dataset::open(data.options.clone(), data.schema.clone()).expect("opens");
        let wanted: Vec<i64> = dataset
            .flat_map(|batch| ints(&batch.expect("a batch")))
            .collect();
        let letters =
            || std::fs::read_to_string(data._folder.path().join("letters.jsonl")).expect("letters");
        let told = letters();
        std::fs::remove_file(data._folder.path().join("letters.jsonl")).expect("removed");
        let planner = ShardPlanner {
            shuffle: false,
            ..planner(2, 1, 2)
        };
        let index = indexed(&data.options, &planner);
        let mut reader =
            ShardReader::open(data.options.clone(), data.schema.clone()).expect("opens");
        for pass in 0..2 {
            let read = shards(&planner, &index, pass)
                .into_iter()
                .flat_map(|shard| whole(&mut reader, &shard));
            assert_eq!(
                read.flat_map(|(_, batch)| ints(&batch)).collect::<Vec<_>>(),
                wanted
            );
        }
        assert!(
            wanted.len() < 9 && letters() == told,
            "{told} {}",
            letters()
        );
    }
}

#[test]
fn files_that_change_are_told() {
    let data = data(&[30], &Form::csv());
    let planner = ShardPlanner {
        shuffle: false,
        ..planner(5, 1, 2)
    };
    let mut indexer =
        Indexer::open(data.options.clone(), planner.batch_size).expect("the file is there");
    let index = indexer.advance(u64::MAX).expect("the file is read").clone();
    assert_eq!(indexer.check(), Ok(()));
    let before = indexer.fingerprint();
    let path = &data.options.files[0];
    let text = std::fs::read_to_string(path).expect("the file is read");
    std::fs::write(path, text.replace("\n1,", "\n1111,")).expect("the file is written");
    assert!(matches!(indexer.check(), Err(Error::Changed { .. })));
    let again = Indexer::open(data.options.clone(), planner.batch_size).expect("the file is there");
    assert!(again.fingerprint() != before);
    let mut reader = ShardReader::open(data.options.clone(), data.schema.clone()).expect("opens");
    for shard in shards(&planner, &index, 0) {
        reader
            .begin(shard, 0..2, Direction::Forward)
            .expect("sound");
        let text = Diagnostic::from(rest(&mut reader).expect_err("it has changed")).render();
        assert!(text.contains("has changed: expected"), "{text}");
    }
    std::fs::write(path, &text[..text.len() / 2]).expect("the file is written");
    let last = shards(&planner, &index, 0).pop().expect("a data shard");
    reader.begin(last, 0..2, Direction::Forward).expect("sound");
    assert!(matches!(rest(&mut reader), Err(Error::Changed { .. })));
}

#[test]
fn an_index_of_nothing_is_an_error() {
    let data = data(&[0, 0], &Form::csv());
    let outcome = Indexer::open(data.options, super::count(2))
        .expect("the files are there")
        .advance(1)
        .map(|_| ());
    assert!(matches!(outcome, Err(Error::Empty { .. })), "{outcome:?}");
}
