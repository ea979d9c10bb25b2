//! Tests of the data shards without clock or network: tasks read, die and restart, and so does the chief.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write as _;
use std::num::NonZeroU32;

use proptest::prelude::*;
use trainyard_cluster_spec::Role;
use trainyard_input::{Format, Indexer, Options};

use super::*;

const BATCH: u32 = 3;

/// Returns the indexer of a file of `rows` records.
fn indexer(folder: &std::path::Path, rows: usize) -> Indexer {
    let path = folder.join("rows.csv");
    let mut file = std::fs::File::create(&path).expect("a file");
    (0..rows).for_each(|row| writeln!(file, "{row}").expect("written"));
    let options = Options {
        columns: Some(vec!["x".to_owned()]),
        trim: true,
        batch_size: BATCH as usize,
        shuffle_rows: 10,
        epochs: Some(2),
        seed: 1,
        ..Options::new(vec![path], Format::Csv)
    };
    Indexer::open(options, NonZeroU32::new(BATCH).expect("not 0")).expect("an index")
}

fn deal(lanes: u32, batches_per_shard: u32) -> ShardPlanner {
    ShardPlanner {
        batch_size: NonZeroU32::new(BATCH).expect("not 0"),
        lanes: NonZeroU32::new(lanes).expect("not 0"),
        batches_per_shard: NonZeroU32::new(batches_per_shard).expect("not 0"),
        shuffle: true,
        window_rows: 10,
        seed: 7,
    }
}

fn holder(index: usize, session: u64) -> Holder {
    (
        Task {
            role: Role::Worker,
            index,
        },
        session,
    )
}

/// The data shard that a task reads: its first batch, and the batches that the task has yet to apply, the next one
/// last.
type Reading = (u64, Vec<u64>);

/// Returns the position of a parameter server that has applied these batches.
fn position(applied: &BTreeSet<u64>) -> Vec<ShardPosition> {
    let batch = (0..)
        .find(|batch| !applied.contains(batch))
        .expect("it is finite");
    let ahead = applied
        .range(batch..)
        .map(|batch| *batch..batch + 1)
        .collect();
    vec![ShardPosition {
        shard: 0,
        pass: 0,
        batch,
        ahead,
    }]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    /// Tasks read data shards, apply a batch at a time at two servers, or die in between, and the chief is restarted.
    #[test]
    fn every_batch_is_applied_whatever_happens(
        rows in 1_usize..200, batches_per_shard in 1_u32..5,
        events in prop::collection::vec((0_usize..4, 0_u8..20), 0..300),
    ) {
        let folder = tempfile::tempdir().expect("a folder");
        let mut indexer = indexer(folder.path(), rows);
        let passes = 2;
        let mut shards = DataShards::new(deal(1, batches_per_shard), Some(passes));
        let mut servers = [BTreeSet::new(), BTreeSet::new()];
        let mut tasks: BTreeMap<usize, (u64, Option<Reading>)> = (0..4).map(|task| (task, (1, None))).collect();
        let mut ended = BTreeSet::new();
        let calm = (0..100_000).map(|turn| (turn % 4, 10_u8));
        for (task, event) in events.into_iter().chain(calm) {
            if ended.len() == 4 {
                break;
            }
            let (session, reading) = tasks.get_mut(&task).expect("one of four");
            match event {
                0 => {
                    // The task dies and restarts.
                    shards.release(holder(task, *session));
                    (*session, *reading) = (*session + 1, None);
                    ended.remove(&task);
                }
                1 => {
                    shards.restart(&[position(&servers[0]), position(&servers[1])]);
                    tasks.values_mut().for_each(|(session, reading)| (*session, *reading) = (*session + 1, None));
                    ended.clear();
                }
                _ => match reading {
                    None => loop {
                        match shards.next(indexer.index(), holder(task, *session)) {
                            Next::Shard { shard, batches, direction, .. } => {
                                let mut left: Vec<u64> = batches.map(|nth| shard.batch(nth)).collect();
                                if direction == Direction::Forward {
                                    left.reverse();
                                }
                                *reading = Some((shard.first_batch, left));
                            }
                            Next::NotIndexed { runs } => {
                                indexer.advance(runs).expect("the file is there");
                                continue;
                            }
                            Next::Wait => {}
                            Next::End { .. } => {
                                ended.insert(task);
                            }
                        }
                        break;
                    },
                    Some((first, left)) => match left.last() {
                        Some(batch) => {
                            servers[0].insert(*batch);
                            if event == 2 {
                                // The task dies between two servers.
                                shards.release(holder(task, *session));
                                (*session, *reading) = (*session + 1, None);
                            } else {
                                servers[1].insert(*batch);
                                left.pop();
                            }
                        }
                        None => {
                            shards.done(*first);
                            *reading = None;
                        }
                    },
                },
            }
        }
        prop_assert_eq!(ended.len(), 4, "everybody comes to the end");
        let all: BTreeSet<u64> = (0..passes * rows.div_ceil(BATCH as usize) as u64).collect();
        prop_assert!(servers == [all.clone(), all]);
    }

    /// Together, the lanes contain every batch once, from any start.
    #[test]
    fn lanes_give_every_batch_of_every_step(
        rows in 1_usize..200, lanes in 1_u32..5, batches_per_shard in 1_u32..4, start in 0_u64..150,
    ) {
        let folder = tempfile::tempdir().expect("a folder");
        let mut indexer = indexer(folder.path(), rows);
        let shards = DataShards::new(deal(lanes, batches_per_shard), Some(2));
        let per_pass = rows.div_ceil(BATCH as usize) as u64;
        let mut seen = BTreeMap::new();
        for lane in 0..lanes {
            let mut from = start;
            loop {
                match shards.of_lane(indexer.index(), lane, from) {
                    Next::Shard { shard, batches, .. } => {
                        for nth in batches {
                            prop_assert!(shard.batch(nth) >= from);
                            let steps_per_pass = per_pass.div_ceil(u64::from(lanes));
                            let pass = shard.batch(nth) / per_pass;
                            let within = shard.batch(nth) % per_pass;
                            let expected = pass * steps_per_pass + within / u64::from(lanes);
                            prop_assert_eq!(shard.step(nth), expected);
                            prop_assert!(seen.insert(shard.batch(nth), lane).is_none(), "once each");
                        }
                        from = shard.batch(shard.batches - 1) + 1;
                    }
                    Next::NotIndexed { runs } => {
                        indexer.advance(runs).expect("the file is there");
                    }
                    Next::Wait => prop_assert!(false, "lanes never wait"),
                    Next::End { steps, .. } => {
                        prop_assert_eq!(steps, 2 * per_pass.div_ceil(u64::from(lanes)));
                        break;
                    }
                }
            }
        }
        let seen: Vec<u64> = seen.into_keys().collect();
        prop_assert_eq!(seen, (start..2 * per_pass).collect::<Vec<_>>());
    }
}

#[test]
fn the_data_is_applied_when_every_server_has_had_every_batch_of_every_pass() {
    let folder = tempfile::tempdir().expect("a folder");
    // 4 batches a pass, two passes.
    let mut indexer = indexer(folder.path(), 10);
    let shards = DataShards::new(deal(1, 2), Some(2));
    let all = position(&(0..8).collect());
    let most = position(&(0..7).collect());
    assert!(
        shards.is_applied(indexer.index(), std::slice::from_ref(&most)),
        "as far as is known: the end of a pass is not"
    );
    while !indexer.index().is_complete() {
        let runs = indexer.index().runs();
        indexer.advance(runs + 1).expect("the file is read");
    }
    assert!(shards.is_applied(indexer.index(), &[all.clone(), all.clone()]));
    assert!(
        !shards.is_applied(indexer.index(), &[all, most]),
        "one server misses the last batch"
    );
}

#[test]
fn the_data_of_tasks_that_came_back_is_read_again() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut indexer = indexer(folder.path(), 2 * BATCH as usize);
    indexer.advance(u64::MAX).expect("the file is there");
    let mut shards = DataShards::new(deal(1, 2), Some(1));
    let granted = |shards: &mut DataShards, holder| {
        matches!(shards.next(indexer.index(), holder), Next::Shard { .. })
    };
    // Two tasks read the only data shard, and a third has to wait. Both die, and restart at once.
    assert!(granted(&mut shards, holder(0, 1)) && granted(&mut shards, holder(1, 2)));
    assert!(!granted(&mut shards, holder(2, 3)));
    shards.release_before(holder(0, 4));
    shards.release_before(holder(1, 5));
    assert!(granted(&mut shards, holder(0, 4)));
    // A task keeps the data shard of its present session.
    shards.release_before(holder(0, 4));
    assert!(granted(&mut shards, holder(1, 5)) && !granted(&mut shards, holder(2, 3)));
}

/// Returns the first batches of data shards.
fn firsts(shards: &[DataShard]) -> Vec<u64> {
    shards.iter().map(|shard| shard.first_batch).collect()
}

#[test]
fn reserves_overlap_neither_each_other_nor_what_is_handed_out_soon_and_go_on_in_the_next_pass() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let mut indexer = indexer(folder.path(), 600);
    indexer.advance(u64::MAX).expect("the file is read");
    // 200 batches a pass, 2 a data shard.
    let mut shards = DataShards::new(deal(1, 2), Some(2));
    let one = holder(0, 1);
    let two = holder(1, 1);
    assert_eq!(
        firsts(&shards.reserve(indexer.index(), one, 4)),
        [0; 0],
        "nobody has had anything"
    );
    for who in [one, two, one] {
        assert!(matches!(
            shards.next(indexer.index(), who),
            Next::Shard { .. }
        ));
    }
    let first = shards.reserve(indexer.index(), one, 20);
    let second = shards.reserve(indexer.index(), two, 20);
    let handed_out: BTreeSet<u64> = [0, 2, 4].into();
    let first: BTreeSet<u64> = firsts(&first).into_iter().collect();
    let second: BTreeSet<u64> = firsts(&second).into_iter().collect();
    assert_eq!((first.len(), second.len()), (20, 20));
    assert!(
        first.is_disjoint(&second)
            && first.is_disjoint(&handed_out)
            && second.is_disjoint(&handed_out)
    );
    assert!(
        first.first() > Some(&6),
        "the next ones are handed out before the reserve is renewed: {first:?}"
    );
    let all = firsts(&shards.reserve(indexer.index(), one, 512));
    assert!(
        all.contains(&200) && all.iter().all(|first| *first < 400),
        "to the end of the last pass"
    );
}

#[test]
fn what_was_applied_out_of_a_reserve_is_not_handed_out() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let mut indexer = indexer(folder.path(), 60);
    indexer.advance(u64::MAX).expect("the file is read");
    let mut shards = DataShards::new(deal(1, 2), Some(1));
    let who = holder(0, 1);
    let mut seen = Vec::new();
    shards.next(indexer.index(), who);
    let reserve = firsts(&shards.reserve(indexer.index(), who, 3));
    assert_eq!(reserve.len(), 3);
    reserve.iter().for_each(|first| shards.done(*first));
    while let Next::Shard {
        shard,
        direction: Direction::Forward,
        ..
    } = shards.next(indexer.index(), who)
    {
        seen.push(shard.first_batch);
        shards.done(shard.first_batch);
    }
    assert_eq!(seen.len(), 10 - 1 - 3, "{seen:?}");
    assert!(
        reserve.iter().all(|first| !seen.contains(first)),
        "{reserve:?}, {seen:?}"
    );
}

#[test]
fn the_reserve_of_a_lane_is_what_comes_next() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let mut indexer = indexer(folder.path(), 120);
    indexer.advance(u64::MAX).expect("the file is read");
    let shards = DataShards::new(deal(2, 2), Some(2));
    let Next::Shard { shard, .. } = shards.of_lane(indexer.index(), 1, 0) else {
        panic!("a data shard")
    };
    let reserve = shards.reserve_of_lane(indexer.index(), 1, &shard, 100);
    // 20 steps a pass, 2 a data shard.
    assert_eq!(reserve.len(), 2 * 10 - 1);
    let steps: Vec<u64> = reserve.iter().map(|shard| shard.first_step).collect();
    assert_eq!(steps, (1..20).map(|nth| 2 * nth).collect::<Vec<u64>>());
    assert!(reserve.iter().all(|shard| shard.lane == 1));
}

#[test]
fn behind_the_last_step_only_batches_are_handed_out_that_some_servers_have_applied_and_others_have_not()
 {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let mut indexer = indexer(folder.path(), 60);
    indexer.advance(u64::MAX).expect("indexed");
    let index = indexer.index();
    let mut shards = DataShards::new(deal(1, 4), Some(2));
    let one = holder(0, 1);
    let other = holder(1, 1);
    assert!(
        matches!(shards.next(index, one), Next::Shard { .. }),
        "before it, data is handed out as ever"
    );
    let first: BTreeSet<u64> = [0, 1, 2, 5, 22].into();
    let second: BTreeSet<u64> = [0, 1, 2, 3, 5].into();
    assert!(!shards.complete(&[position(&first), position(&second)]));
    let batch = |next: Next| match next {
        Next::Shard { shard, batches, .. } => {
            assert_eq!(batches.len(), 1);
            shard.batch(batches.start)
        }
        next => panic!("{next:?}"),
    };
    assert_eq!(batch(shards.next(index, one)), 3);
    assert_eq!(batch(shards.next(index, other)), 22);
    assert_eq!(shards.next(index, one), Next::Wait, "others have them");
    shards.release(other);
    assert!(
        !shards.complete(&[position(&first), position(&second)]),
        "looked at again, and nothing has changed"
    );
    assert_eq!(batch(shards.next(index, one)), 22, "who had it is gone");
    let all: BTreeSet<u64> = first.union(&second).copied().collect();
    assert!(shards.complete(&[position(&all), position(&all)]));
    assert_eq!(shards.next(index, one), END);
    shards.restart(&[position(&all), position(&all)]);
    assert!(
        matches!(shards.next(index, one), Next::Shard { .. }),
        "another epoch begins as ever"
    );
}
