//! Order of rows.

use trainyard_input::*;

use super::records::{Form, data};
use super::{indexed, ints, planner, shards, whole};

fn order(rows: usize, planner: &ShardPlanner, pass: u64) -> Vec<i64> {
    let data = data(&[rows], &Form::csv());
    let index = indexed(&data.options, planner);
    let mut reader =
        ShardReader::open(data.options.clone(), data.schema.clone()).expect("the files open");
    let read = shards(planner, &index, pass)
        .into_iter()
        .flat_map(|shard| whole(&mut reader, &shard));
    read.flat_map(|(_, batch)| ints(&batch)).collect()
}

#[test]
fn passes_and_seeds_have_orders_of_their_own() {
    let planner = planner(8, 1, 2);
    let first = order(500, &planner, 0);
    assert!(first == order(500, &planner, 0) && first != (0..500).collect::<Vec<_>>());
    assert!(
        first != order(500, &planner, 1)
            && first != order(500, &ShardPlanner { seed: 6, ..planner }, 0)
    );
}

#[test]
fn rows_of_each_data_shard_have_an_order_of_their_own() {
    // Each of the two lanes has one run, so the order of the runs does not affect the order of rows within a lane.
    let planner = planner(100, 2, 1);
    let first = order(200, &planner, 0);
    let second = order(200, &planner, 1);
    let lane = |read: &[i64], lane: usize| -> Vec<i64> {
        read[lane * 100..][..100]
            .iter()
            .map(|row| row % 100)
            .collect()
    };
    let orders = [
        lane(&first, 0),
        lane(&first, 1),
        lane(&second, 0),
        lane(&second, 1),
    ];
    for (place, order) in orders.iter().enumerate() {
        assert!(
            orders[..place].iter().all(|other| other != order),
            "order {place} comes twice"
        );
    }
}

#[test]
fn a_later_pass_waits_for_the_whole_index() {
    let data = data(&[500], &Form::csv());
    let planner = ShardPlanner {
        shuffle: false,
        ..planner(8, 1, 2)
    };
    let mut indexer =
        Indexer::open(data.options.clone(), planner.batch_size).expect("the file is there");
    let index = indexer.advance(10).expect("the file is read");
    assert!(!index.is_complete() && matches!(planner.shard(index, 0, 1, 0), Answer::Shard(_)));
    assert_eq!(
        planner.shard(index, 1, 0, 0),
        Answer::NotIndexed { runs: u64::MAX }
    );
    let index = indexer.advance(u64::MAX).expect("the file is read");
    let Answer::Shard(shard) = planner.shard(index, 1, 0, 0) else {
        panic!()
    };
    assert_eq!((shard.first_batch, shard.first_step), (63, 63));
}

#[test]
fn windows_come_in_order_and_rows_are_mixed_within() {
    // A window has 128 rows: 8 rounds of 2 batches of 8.
    let planner = planner(8, 1, 2);
    let read = order(500, &planner, 3);
    for (place, row) in read.iter().enumerate() {
        assert_eq!(
            place / 128,
            *row as usize / 128,
            "row {row} is read at {place}"
        );
    }
    let moved = read
        .iter()
        .enumerate()
        .filter(|(place, row)| (*place as i64 - **row).abs() > 32)
        .count();
    assert!(moved > 150, "only {moved} of 500 rows moved far");
    let wide = order(
        500,
        &ShardPlanner {
            window_rows: 400,
            ..planner
        },
        3,
    );
    let beyond = wide
        .iter()
        .enumerate()
        .filter(|(place, row)| (*place as i64 - **row).abs() > 128)
        .count();
    assert!(beyond > 100, "only {beyond} rows went beyond 128");
}

#[test]
fn settings_make_windows_of_whole_hands() {
    let planner = ShardPlanner {
        window_rows: 1000,
        ..planner(10, 3, 4)
    };
    assert_eq!(
        (planner.batches_per_round(), planner.runs_per_window()),
        (12, 108)
    );
    assert_eq!(
        ShardPlanner {
            window_rows: 0,
            ..planner
        }
        .runs_per_window(),
        96
    );
}

#[test]
fn data_shards_are_read_ahead_one_after_the_other() {
    let data = data(&[30], &Form::csv());
    let planner = planner(4, 1, 2);
    let index = indexed(&data.options, &planner);
    let mut reader =
        ShardReader::open(data.options.clone(), data.schema.clone()).expect("the files open");
    let wanted: Vec<u64> = shards(&planner, &index, 0)
        .iter()
        .flat_map(|shard| whole(&mut reader, shard))
        .map(|(number, _)| number)
        .collect();
    let mut waiting = shards(&planner, &index, 0).into_iter();
    let source = move |batch: &mut Batch| {
        while !reader.read(batch)? {
            let Some(shard) = waiting.next() else {
                return Ok(false);
            };
            reader.begin(shard, 0..u32::MAX, Direction::Forward)?;
        }
        Ok(true)
    };
    let mut prefetch =
        Prefetch::<usize, String>::spawn(source, 2, |batch| Ok(batch.rows)).expect("a thread");
    let read: Vec<(Position, usize)> = std::iter::from_fn(|| prefetch.blocking_next())
        .map(|item| item.expect("a batch"))
        .collect();
    assert_eq!(
        read.iter()
            .map(|(position, _)| position.batch)
            .collect::<Vec<_>>(),
        wanted
    );
    assert_eq!(read.iter().map(|(_, rows)| rows).sum::<usize>(), 30);
}
