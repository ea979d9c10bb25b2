//! Properties of data shards, for any files and any plan.

use std::collections::BTreeMap;

use proptest::prelude::*;
use trainyard_input::*;

use super::records::{Data, data, form};
use super::{Read, count, indexed, ints, rest, shards, whole};

#[derive(Debug, Clone)]
struct Settings {
    planner: ShardPlanner,
    counts: Vec<usize>,
}

fn settings() -> impl Strategy<Value = Settings> {
    let counts = prop::collection::vec(prop_oneof![1 => Just(0_usize), 4 => 0..40_usize], 1..9)
        .prop_filter("some row", |counts| counts.iter().sum::<usize>() > 0);
    (
        counts,
        1..9_u32,
        1..4_u32,
        1..4_u32,
        any::<bool>(),
        0..200_u64,
        any::<u64>(),
    )
        .prop_map(
            |(counts, batch_size, lanes, batches_per_shard, shuffle, window_rows, seed)| Settings {
                planner: ShardPlanner {
                    batch_size: count(batch_size),
                    lanes: count(lanes),
                    batches_per_shard: count(batches_per_shard),
                    shuffle,
                    window_rows,
                    seed,
                },
                counts,
            },
        )
}

fn reader(data: &Data) -> ShardReader {
    ShardReader::open(data.options.clone(), data.schema.clone()).expect("the files open")
}

/// Returns the batches of a pass by number. One reader reads all data shards.
fn pass(
    data: &Data,
    planner: &ShardPlanner,
    index: &RecordIndex,
    pass: u64,
) -> BTreeMap<u64, Batch> {
    let mut reader = reader(data);
    let read: Vec<Read> = shards(planner, index, pass)
        .iter()
        .flat_map(|shard| whole(&mut reader, shard))
        .collect();
    let count = read.len();
    let batches: BTreeMap<u64, Batch> = read.into_iter().collect();
    assert_eq!(batches.len(), count, "no number is given twice");
    batches
}

/// Returns the rows of the files as a `Dataset` reads them, in order.
fn expected(data: &Data) -> Vec<Batch> {
    let dataset = Dataset::open(data.options.clone(), data.schema.clone()).expect("the files open");
    dataset.map(|batch| batch.expect("a row")).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn a_pass_is_every_row_once_in_numbered_full_batches(
        Settings { planner, counts } in settings(), form in form(), passes in 1..4_u64,
    ) {
        let data = data(&counts, &form);
        let index = indexed(&data.options, &planner);
        let size = u64::from(planner.batch_size.get());
        let batches = data.rows.div_ceil(size);
        prop_assert_eq!((index.rows(), index.runs()), (data.rows, batches));
        let rows = expected(&data);
        for number in 0..passes {
            let read = pass(&data, &planner, &index, number);
            prop_assert!(read.keys().copied().eq(number * batches..(number + 1) * batches));
            let mut seen = vec![false; rows.len()];
            for (batch_number, batch) in &read {
                let last = *batch_number == (number + 1) * batches - 1;
                let full = if last { data.rows - (batches - 1) * size } else { size };
                prop_assert_eq!(batch.rows as u64, full);
                prop_assert_eq!(batch.position, Position { pass: number, shard: 0, batch: *batch_number });
                let Cells::Bytes(texts) = &batch.columns[1].cells else { panic!() };
                for (row, n) in ints(batch).into_iter().enumerate() {
                    let n = n as usize;
                    prop_assert!(!std::mem::replace(&mut seen[n], true), "row {} comes twice", n);
                    let Cells::Bytes(text) = &rows[n].columns[1].cells else { panic!() };
                    prop_assert_eq!(texts.get(row), text.get(0));
                }
            }
            prop_assert!(seen.iter().all(|seen| *seen));
            if !planner.shuffle {
                let in_order: Vec<i64> = read.values().flat_map(ints).collect();
                prop_assert!(in_order.into_iter().eq(0..data.rows as i64));
            }
        }
    }

    #[test]
    fn a_batch_is_the_same_whoever_reads_it_from_wherever(
        Settings { planner, counts } in settings(), form in form(), number in 0..3_u64, pick in any::<prop::sample::Index>(),
        part in (0..5_u32, 0..5_u32), order in any::<u64>(),
    ) {
        let data = data(&counts, &form);
        let index = indexed(&data.options, &planner);
        let wanted = pass(&data, &planner, &index, number);
        // The shards are read in another order, by a reader that has read other shards before.
        let mut all = shards(&planner, &index, number);
        let first = pick.index(all.len());
        all.rotate_left(first);
        if order.is_multiple_of(2) {
            all.reverse();
        }
        let mut reader = reader(&data);
        let mut other = ShardReader::new(data.options.clone(), data.schema.clone());
        let mut fetcher = RecordFetcher::new(data.options.clone());
        let mut inline_records = InlineRecords::default();
        for shard in all {
            let places: Vec<_> = shard.ranges.iter().map(|range| (range.file, range.offset)).collect();
            prop_assert!(places.is_sorted());
            let same = |read: &[Read]| read.iter().all(|(number, batch)| wanted[number] == *batch);
            let numbers = |read: &[Read]| read.iter().map(|(number, _)| *number).collect::<Vec<_>>();
            let from = part.0.min(shard.batches);
            let to = part.1.min(shard.batches);
            reader.begin(shard.clone(), from..to, Direction::Forward).expect("sound");
            let read = rest(&mut reader).expect("read");
            prop_assert!(same(&read));
            prop_assert_eq!(numbers(&read), (from..to).map(|nth| shard.batch(nth)).collect::<Vec<_>>());
            reader.begin(shard.clone(), from..u32::MAX, Direction::Backward).expect("sound");
            let read = rest(&mut reader).expect("read");
            prop_assert!(same(&read));
            prop_assert_eq!(numbers(&read), (from..shard.batches).rev().map(|nth| shard.batch(nth)).collect::<Vec<_>>());
            fetcher.fetch(&shard, u64::MAX, &mut inline_records).expect("fetched");
            other.begin_inline(shard.clone(), inline_records.clone(), 0..u32::MAX, Direction::Forward).expect("sound");
            let read = rest(&mut other).expect("read");
            prop_assert!(same(&read));
            prop_assert_eq!(read.len() as u32, shard.batches);
        }
    }

    #[test]
    fn lanes_and_steps_divide_the_batches_in_order(Settings { planner, counts } in settings(), number in 0..3_u64) {
        let data = data(&counts, &super::records::Form::csv());
        let index = indexed(&data.options, &planner);
        let batches = planner.batches_per_pass(&index);
        let per_pass = batches.expect("the index is complete");
        let lanes = u64::from(planner.lanes.get());
        let mut slots = BTreeMap::<u64, u32>::new();
        for shard in shards(&planner, &index, number) {
            for nth in 0..shard.batches {
                let batch = shard.batch(nth);
                let in_pass = batch - number * per_pass.get();
                prop_assert_eq!(in_pass % lanes, u64::from(shard.lane));
                let step = number * planner.steps_per_pass(per_pass).get() + in_pass / lanes;
                prop_assert_eq!((shard.step(nth), planner.step(batch, batches)), (step, step));
                prop_assert_eq!(shard.slots(nth), planner.slots(step, batches));
                *slots.entry(step).or_default() += 1;
                let PlannedBatch { pass, round, lane, nth: at } = planner.find(batch, batches);
                prop_assert_eq!((pass, round, lane, at), (number, shard.round, shard.lane, nth));
            }
        }
        for (step, count) in slots {
            prop_assert_eq!(planner.slots(step, batches), count);
        }
    }

    #[test]
    fn an_index_in_part_gives_the_same_shards_or_none(Settings { planner, counts } in settings(), form in form()) {
        let data = data(&counts, &form);
        let wanted = shards(&planner, &indexed(&data.options, &planner), 0);
        let mut indexer = Indexer::open(data.options.clone(), planner.batch_size).expect("the files are there");
        for shard in wanted {
            let answer = loop {
                match planner.shard(indexer.index(), 0, shard.round, shard.lane) {
                    Answer::NotIndexed { runs } => {
                        prop_assert!(!indexer.index().is_complete() && runs > indexer.index().runs());
                        indexer.advance(runs).expect("the files are read");
                    }
                    answer => break answer,
                }
            };
            prop_assert_eq!(answer, Answer::Shard(shard));
        }
    }
}
