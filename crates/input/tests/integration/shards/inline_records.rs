//! Inline records: the chief reads them, and a worker parses them.

use trainyard_input::*;

use super::records::{Form, data};
use super::{indexed, planner, rest, shards, whole};

#[test]
fn inline_records_need_no_files() {
    let data = data(&[5, 0, 9], &Form::csv());
    let planner = planner(3, 1, 2);
    let index = indexed(&data.options, &planner);
    let mut fetcher = RecordFetcher::new(data.options.clone());
    let mut reader =
        ShardReader::open(data.options.clone(), data.schema.clone()).expect("the files open");
    let mut cases = Vec::new();
    for shard in shards(&planner, &index, 0) {
        let mut inline_records = InlineRecords::default();
        fetcher
            .fetch(&shard, 1 << 20, &mut inline_records)
            .expect("fetched");
        let wanted = whole(&mut reader, &shard);
        cases.push((shard, inline_records, wanted));
    }
    // This pattern matches no file. Only the reader of the records knows its files.
    let options = Options {
        files: vec!["elsewhere/*.csv".into()],
        ..data.options.clone()
    };
    let mut other = ShardReader::new(options, data.schema.clone());
    drop(data);
    for (shard, inline_records, wanted) in cases {
        other
            .begin_inline(shard, inline_records, 0..u32::MAX, Direction::Forward)
            .expect("sound");
        assert_eq!(rest(&mut other).expect("read"), wanted);
    }
}

#[test]
fn a_parcel_is_bounded() {
    let data = data(&[50], &Form::csv());
    let planner = planner(10, 1, 5);
    let shard = shards(&planner, &indexed(&data.options, &planner), 0).remove(0);
    let mut fetcher = RecordFetcher::new(data.options.clone());
    let error = fetcher
        .fetch(&shard, 100, &mut InlineRecords::default())
        .expect_err("it is too large");
    assert!(
        matches!(
            error,
            Error::ShardBytes {
                of: 50,
                most: 100,
                bytes: 101..,
                ..
            }
        ),
        "{error:?}"
    );
}

#[test]
fn a_parcel_that_does_not_fit_is_refused() {
    let data = data(&[20], &Form::csv());
    let planner = planner(10, 1, 2);
    let shard = shards(&planner, &indexed(&data.options, &planner), 0).remove(0);
    let mut inline_records = InlineRecords::default();
    RecordFetcher::new(data.options.clone())
        .fetch(&shard, 1 << 20, &mut inline_records)
        .expect("fetched");
    let damages: [fn(&mut InlineRecords); 4] = [
        |inline_records| inline_records.bytes.truncate(5),
        |inline_records| inline_records.lines.clear(),
        |inline_records| inline_records.lengths[0] = u32::MAX,
        |inline_records| inline_records.headers.clear(),
    ];
    for damage in damages {
        let mut damaged = inline_records.clone();
        damage(&mut damaged);
        let mut reader = ShardReader::new(data.options.clone(), data.schema.clone());
        let outcome = reader.begin_inline(shard.clone(), damaged, 0..2, Direction::Forward);
        assert!(matches!(outcome, Err(Error::Shard { .. })), "{outcome:?}");
        assert!(matches!(reader.read(&mut Batch::default()), Ok(false)));
    }
}

#[test]
fn a_data_shard_that_makes_no_sense_is_refused() {
    let data = data(&[20], &Form::csv());
    let planner = planner(10, 1, 2);
    let shard = shards(&planner, &indexed(&data.options, &planner), 0).remove(0);
    let damages: [fn(&mut DataShard); 6] = [
        |shard| shard.batch_size = 0,
        |shard| shard.lanes = 0,
        |shard| shard.rows += 1,
        |shard| shard.batches += 1,
        |shard| shard.ranges[0].file = 1,
        |shard| shard.ranges.clear(),
    ];
    for damage in damages {
        let mut damaged = shard.clone();
        damage(&mut damaged);
        let mut reader = ShardReader::new(data.options.clone(), data.schema.clone());
        let outcome = reader.begin(damaged, 0..2, Direction::Forward);
        assert!(matches!(outcome, Err(Error::Shard { .. })), "{outcome:?}");
    }
}
