//! Data shards: their content is the same for every reader and every source.

mod inline_records;
mod messages;
mod order;
mod properties;
mod records;

use std::num::NonZeroU32;

use trainyard_input::*;

/// Number and content of a batch.
type Read = (u64, Batch);

fn count(number: u32) -> NonZeroU32 {
    NonZeroU32::new(number).expect("a test's count is not 0")
}

/// Returns a planner that shuffles, with seed 5.
fn planner(batch_size: u32, lanes: u32, batches_per_shard: u32) -> ShardPlanner {
    ShardPlanner {
        batch_size: count(batch_size),
        lanes: count(lanes),
        batches_per_shard: count(batches_per_shard),
        shuffle: true,
        window_rows: 0,
        seed: 5,
    }
}

/// Returns the complete index.
fn indexed(options: &Options, planner: &ShardPlanner) -> RecordIndex {
    let mut indexer =
        Indexer::open(options.clone(), planner.batch_size).expect("the files are there");
    indexer
        .advance(u64::MAX)
        .expect("the files are read")
        .clone()
}

/// Returns all data shards of a pass, ordered by round and lane.
fn shards(planner: &ShardPlanner, index: &RecordIndex, pass: u64) -> Vec<DataShard> {
    let mut shards = Vec::new();
    let mut round = 0;
    loop {
        let before = shards.len();
        for lane in 0..planner.lanes.get() {
            match planner.shard(index, pass, round, lane) {
                Answer::Shard(shard) => shards.push(shard),
                Answer::End => {}
                answer @ Answer::NotIndexed { .. } => panic!("{answer:?}"),
            }
        }
        if shards.len() == before {
            return shards;
        }
        round += 1;
    }
}

/// Reads the remaining batches of the current data shard.
fn rest(reader: &mut ShardReader) -> Result<Vec<Read>, Error> {
    let mut batch = Batch::default();
    let mut read = Vec::new();
    while reader.read(&mut batch)? {
        read.push((batch.position.batch, batch.clone()));
    }
    Ok(read)
}

fn whole(reader: &mut ShardReader, shard: &DataShard) -> Vec<Read> {
    reader
        .begin(shard.clone(), 0..u32::MAX, Direction::Forward)
        .expect("the data shard is sound");
    rest(reader).expect("the data shard is read")
}

/// Returns the numbers of the first column.
fn ints(batch: &Batch) -> Vec<i64> {
    let Cells::Int(values) = &batch.columns[0].cells else {
        panic!("{batch:?}")
    };
    values.clone()
}
