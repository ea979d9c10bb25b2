//! The memory budget of a store, and what it refuses.

use trainyard_variable::DynamicTable;

use super::dynamic::{open_table, push_ids};
use super::*;

fn refusal<T: std::fmt::Debug>(outcome: Result<T, Error>) -> (u64, u64, &'static str) {
    match outcome.unwrap_err() {
        Error::NoRoom {
            max,
            held,
            asked,
            what,
            ..
        } => {
            assert!(
                held.total() <= max && held.total() + asked > max,
                "{held:?} and {asked} of {max}"
            );
            (max, asked, what)
        }
        other => panic!("{other}"),
    }
}

#[test]
fn variables_that_do_not_fit_are_refused_and_nothing_is_held() {
    let store = Store::new(0);
    store.bound_memory(Some(40));
    store
        .claim(&Claim {
            cluster_id: CLUSTER,
            epoch: 1,
        })
        .unwrap();
    assert_eq!(
        refusal(store.prepare(&chief(1), prepare_sized(100, 8))),
        (40, 400, "the variables and slots of the job")
    );
    assert_eq!(
        (store.held().total(), store.status().state),
        (0, State::Empty)
    );
    store.prepare(&chief(1), prepare(0)).unwrap();
    // The vector has 2 values of 4 bytes.
    assert_eq!(
        store.held(),
        Held {
            slices: 8,
            ..Held::default()
        }
    );
}

#[test]
fn a_table_that_does_not_fit_opens_and_a_push_that_would_make_it_too_large_is_refused_whole() {
    let store = Store::new(0);
    store.bound_memory(Some(3000));
    store
        .claim(&Claim {
            cluster_id: CLUSTER,
            epoch: 1,
        })
        .unwrap();
    // The rows take 8 GB.
    store
        .prepare(&chief(1), prepare_sized(100, 1_000_000_000))
        .unwrap();
    store.open(&chief(1)).unwrap();
    store.open_session(&worker(0, 1), &opening(0)).unwrap();
    let push = |seq: u64, rows: &[u32]| {
        let gradients = vec![1.0; 100 + 2 * rows.len()];
        let push = push_of(
            seq,
            batch(0, seq - 1),
            Selection::clone(&select(rows)),
            &gradients,
        );
        assert_eq!(reserve(&store, &worker(0, 1), seq), Ticket::Granted);
        store.push(&worker(0, 1), &push)
    };
    let far: Vec<u32> = (0..10).map(|place| place * 90_000_000).collect();
    push(1, &far).unwrap();
    let held = store.held();
    assert!(held.slices > 480, "{held:?}");
    let many: Vec<u32> = (1..200).map(|place| place * 1_000_000).collect();
    assert_eq!(
        refusal(push(2, &many)).2,
        "rows that are changed for the first time"
    );
    assert_eq!(
        (store.held(), store.status().version.count()),
        (held, 1),
        "nothing of it was applied"
    );
    push(2, &far).unwrap();
}

#[test]
fn new_ids_are_refused_where_there_is_no_room_and_known_ones_go_on() {
    let store = open_table(DynamicTable::KEEP_ALL);
    push_ids(&store, 1, &[1, 2, 3]).unwrap();
    let held = store.held();
    assert!(
        held.tables > 0 && held.total() == held.slices + held.tables,
        "{held:?}"
    );
    store.bound_memory(Some(held.total()));
    let refused = push_ids(&store, 2, &[2, 4]);
    let text = refused.clone().unwrap_err().to_string();
    assert_eq!(refusal(refused).2, "rows of new ids");
    let figures = format!(
        "may hold {0} bytes (parameter_servers.memory_bytes_max) and holds {0}",
        held.total()
    );
    assert!(text.contains(&figures), "{text}");
    assert_eq!(
        (store.held(), store.status().version.count()),
        (held, 1),
        "nothing changed"
    );
    push_ids(&store, 2, &[1, 3]).unwrap();
    store.bound_memory(None);
    push_ids(&store, 3, &[4]).unwrap();
    assert!(store.held().tables > held.tables);
}

#[test]
fn a_checkpoint_of_tables_takes_room_until_it_is_written() {
    let store = open_table(DynamicTable::KEEP_ALL);
    push_ids(&store, 1, &[1, 2, 3]).unwrap();
    let held = store.held();
    store.bound_memory(Some(held.total() + 10));
    assert_eq!(
        refusal(store.snapshot(&chief(1), Basis::Whole)).2,
        "the copies of dynamic tables that a checkpoint takes"
    );
    store.bound_memory(Some(held.total() * 3));
    let snapshot = store.snapshot(&chief(1), Basis::Whole).unwrap();
    assert!(store.held().copies > 0);
    drop(snapshot);
    assert_eq!(store.held(), held);
}

#[test]
fn a_push_waits_for_a_checkpoint_where_there_is_no_room_to_set_aside() {
    let store = open_prepared(prepare_sized(100, 8));
    store.open_session(&worker(0, 1), &opening(0)).unwrap();
    let push = |seq: u64| {
        let push = push_of(
            seq,
            batch(0, seq - 1),
            Selection::clone(&select(&[3])),
            &[1.0; 102],
        );
        assert_eq!(reserve(&store, &worker(0, 1), seq), Ticket::Granted);
        store.push(&worker(0, 1), &push)
    };
    push(1).unwrap();
    let held = store.held().total();
    store.bound_memory(Some(held + 300));
    let snapshot = store.snapshot(&chief(1), Basis::Whole).unwrap();
    assert!(matches!(push(2), Err(Error::NotReady(why)) if why.contains("no room to set aside")));
    assert_eq!(store.held().total(), held, "nothing was set aside");
    drop(snapshot);
    push(2).unwrap();
    store.bound_memory(Some(held + 3000));
    let mut snapshot = store.snapshot(&chief(1), Basis::Whole).unwrap();
    push(3).unwrap();
    let aside = store.held().set_aside;
    assert!((400..=1000).contains(&aside), "{aside}");
    let slices = std::mem::take(&mut snapshot.slices);
    slices.into_iter().for_each(|slice| drop(slice.read_all()));
    assert_eq!(
        store.held().set_aside,
        0,
        "what has been read needs nothing"
    );
    drop(snapshot);
    assert_eq!(store.held().total(), held);
}

#[test]
fn a_push_that_the_memory_limit_of_the_process_does_not_hold_is_refused_until_it_does() {
    let store = open_prepared(Prepare {
        update: Update::Sync,
        ..prepare(0)
    });
    store.open_session(&worker(0, 1), &opening(0)).unwrap();
    let push = |seq: u64| {
        let micro_batch = Some(MicroBatch { lane: 0, lanes: 2 });
        let push = push_of(
            seq,
            batch(0, seq - 1),
            Selection::clone(&select(&[3])),
            &[1.0; 4],
        );
        let header = PushHeader {
            micro_batch,
            ..push.header
        };
        store.push(&worker(0, 1), &Push { header, ..push })
    };
    let room = |free: u64| {
        store.set_memory_room(Some(MemoryRoom {
            limit: 1 << 30,
            of: "the limit of a group".into(),
            free: Some(free),
        }));
    };
    room(0);
    let refused = push(1).unwrap_err().to_string();
    assert!(
        refused.contains("what the limit of a group leaves"),
        "{refused}"
    );
    room(1 << 20);
    push(1).unwrap();
}

#[test]
fn new_ids_leave_a_checkpoint_the_memory_that_it_takes_where_the_process_has_a_limit() {
    let store = open_table(DynamicTable::KEEP_ALL);
    let first: Vec<u64> = (0..8).collect();
    push_ids(&store, 1, &first).unwrap();
    let room = |free: u64| {
        store.set_memory_room(Some(MemoryRoom {
            limit: 1 << 30,
            of: "the limit of a group".into(),
            free: Some(free),
        }));
    };
    let copies = store.tables.reading_bytes_max();
    room(copies);
    let refused = push_ids(&store, 2, &[8]).unwrap_err().to_string();
    assert!(
        refused.contains("rows of new ids, and the next checkpoint"),
        "{refused}"
    );
    push_ids(&store, 2, &first).unwrap();
    // What was acknowledged before is made again all the same.
    store.set_replaying(true);
    room(copies);
    push_ids(&store, 3, &[9]).unwrap();
    store.set_replaying(false);
    room(copies);
    assert!(push_ids(&store, 4, &[10]).is_err());
    drop(store.snapshot(&chief(1), Basis::Whole).unwrap());
    room(copies + store.held().total());
    push_ids(&store, 4, &[8]).unwrap();
}

#[test]
fn parts_of_a_step_are_held_until_it_is_whole() {
    let store = open_prepared(Prepare {
        update: Update::Sync,
        ..prepare(0)
    });
    for task in 0..2 {
        store.open_session(&worker(task, 1), &opening(0)).unwrap();
    }
    let push = |task: usize| {
        let micro_batch = Some(MicroBatch {
            lane: task as u32,
            lanes: 2,
        });
        let push = push_of(
            1,
            batch(0, task as u64),
            Selection::clone(&select(&[3])),
            &[1.0; 4],
        );
        store.push(
            &worker(task, 1),
            &Push {
                header: PushHeader {
                    micro_batch,
                    ..push.header
                },
                ..push
            },
        )
    };
    // The micro-batch, and the two rows that it changes for the first time.
    store.bound_memory(Some(8 + 31));
    assert_eq!(refusal(push(0)), (39, 32, "the part of a synchronous step"));
    store.bound_memory(Some(8 + 16 + 32));
    push(0).unwrap();
    assert_eq!(store.held().parts, 16);
    push(1).unwrap();
    assert_eq!((store.held().parts, store.status().version.count()), (0, 1));
}
