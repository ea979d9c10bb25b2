//! Dynamic tables with a shared row: what readers learn of ids without a row, and occurrences that are only counted.

use trainyard_variable::DynamicTable;

use super::dynamic::prepare_table;
use super::*;

const ADMITS_SECOND: DynamicTable = DynamicTable {
    admit_after: 2,
    shared_row: true,
    ..DynamicTable::KEEP_ALL
};

fn open(table: DynamicTable, update: Update) -> Store {
    let store = open_prepared(Prepare {
        update,
        stores: 2,
        ..prepare_table(table)
    });
    for task in 0..2 {
        store
            .open_session(&worker(task, 1), &opening(task as u64))
            .unwrap();
    }
    store
}

/// Selects ids with gradients, and ids that are only counted.
fn select_both(ids: &[u64], counted: &[u64]) -> Selection {
    Selection {
        ids: vec![(1, 0)],
        id_sets: vec![ids.to_vec(), counted.to_vec()],
        counted: vec![(1, 1)],
        ..Selection::default()
    }
}

fn pull(store: &Store, ids: &[u64], at_least: u64) -> (Vec<Vec<u32>>, Vec<f32>) {
    let pull = Pull {
        selection: Arc::new(Selection {
            ids: vec![(1, 0)],
            id_sets: vec![ids.to_vec()],
            ..Selection::default()
        }),
        at_least,
        or_before: at_least > 0,
        ..Pull::default()
    };
    let (pulled, reading) = store.pull(&worker(0, 1), &pull).unwrap();
    (pulled.without_row, read_all(reading))
}

fn push_both(store: &Store, seq: u64, ids: &[u64], counted: &[u64]) -> Result<Pushed, Error> {
    assert_eq!(reserve(store, &worker(0, 1), seq), Ticket::Granted);
    let gradients = vec![1.0; ids.len() * 2];
    let push = push_of(
        seq,
        batch(0, seq - 1),
        select_both(ids, counted),
        &gradients,
    );
    store.push(&worker(0, 1), &push)
}

fn table(store: &Store) -> DynamicStatus {
    store.status().dynamic.remove(0)
}

#[test]
fn readers_learn_which_ids_have_no_row_of_tables_with_a_shared_one_alone() {
    let store = open(ADMITS_SECOND, Update::Async);
    assert_eq!(pull(&store, &[3, 7], 0), (vec![vec![0, 1]], vec![0.0; 4]));
    push_both(&store, 1, &[3], &[]).unwrap();
    push_both(&store, 2, &[3], &[]).unwrap();
    let (without_row, values) = pull(&store, &[3, 7], 0);
    assert_eq!((without_row, &values[2..]), (vec![vec![1]], &[0.0; 2][..]));
    let other = open(DynamicTable::KEEP_ALL, Update::Async);
    assert_eq!(pull(&other, &[3, 7], 0).0, Vec::<Vec<u32>>::new());
}

#[test]
fn a_counted_occurrence_may_give_a_row_and_never_moves_it() {
    let store = open(ADMITS_SECOND, Update::Async);
    push_both(&store, 1, &[], &[7]).unwrap();
    push_both(&store, 2, &[], &[7]).unwrap();
    let (without_row, first) = pull(&store, &[7], 0);
    assert!(without_row[0].is_empty());
    let rule = FirstRows::new(&prepare_table(ADMITS_SECOND).variables[1], 1);
    let mut expected = [0.0; 2];
    trainyard_variable::InitialRows::of(rule).fill(7, &mut expected);
    assert_eq!(first, expected, "it begins with its own initial values");
    // The reader of this occurrence has not seen the row yet.
    push_both(&store, 3, &[], &[7]).unwrap();
    assert_eq!(pull(&store, &[7], 0).1, first);
    push_both(&store, 4, &[7], &[9]).unwrap();
    assert_eq!(pull(&store, &[7], 0).1, [first[0] - 1.0, first[1] - 1.0]);
    assert_eq!(
        (table(&store).rows, table(&store).gradients_dropped),
        (1, 0)
    );
    assert!(push_both(&store, 4, &[7], &[9]).unwrap().duplicate);
    assert_eq!(
        pull(&store, &[9], 0).0,
        [[0]],
        "a repeated push counts once"
    );
}

#[test]
fn ids_that_cannot_be_counted_are_refused() {
    let store = open(ADMITS_SECOND, Update::Async);
    let refused = |store: &Store, ids: &[u64], counted: &[u64], expected: &str| {
        let error = push_both(store, 1, ids, counted).unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
    };
    let both = "an id of slice 1 must be counted or have a gradient, given both for 7";
    refused(&store, &[3, 7], &[7, 9], both);
    refused(&store, &[3], &[9, 7], "ids of slice 1 must ascend");
    let other = open(DynamicTable::KEEP_ALL, Update::Async);
    let rule = "must be of a table with a shared row, given slice 1";
    refused(&other, &[3], &[7], rule);
    let pull = Pull {
        selection: Arc::new(select_both(&[3], &[7])),
        ..Pull::default()
    };
    let error = store.pull(&worker(0, 1), &pull).unwrap_err().to_string();
    assert!(error.contains("a pull counts no ids"), "{error}");
}

fn contribute(store: &Store, step: u64, lane: u32, ids: &[u64], counted: &[u64]) -> Pushed {
    let gradients = vec![2.0; ids.len() * 2];
    let push = Push {
        header: PushHeader {
            pulled_version: step,
            micro_batch: Some(MicroBatch { lane, lanes: 2 }),
            ..header(step + 1, batch(0, step * 2 + u64::from(lane)))
        },
        selection: Some(Arc::new(select_both(ids, counted))),
        gradients: gradients.as_slice(),
    };
    store.push(&worker(lane as usize, 1), &push).unwrap()
}

#[test]
fn a_synchronous_step_counts_what_its_parts_count_once() {
    let store = open(ADMITS_SECOND, Update::Sync);
    contribute(&store, 0, 0, &[], &[3, 7]);
    contribute(&store, 0, 1, &[], &[7, 9]);
    assert_eq!(
        pull(&store, &[3, 7, 9], 0).0,
        [[0, 1, 2]],
        "one step is one occurrence"
    );
    contribute(&store, 1, 0, &[], &[3]);
    contribute(&store, 1, 1, &[], &[5, 9]);
    assert_eq!(pull(&store, &[3, 5, 7, 9], 0).0, [[1, 2]]);
}

#[test]
fn a_part_that_is_computed_again_reads_the_ids_that_had_no_row_before_the_step() {
    let store = open(ADMITS_SECOND, Update::Sync);
    let all = [3, 7, 9];
    contribute(&store, 0, 0, &[], &[3, 7]);
    contribute(&store, 0, 1, &[], &[7]);
    contribute(&store, 1, 0, &[], &[7]);
    contribute(&store, 1, 1, &[], &[9]);
    let before = pull(&store, &all, 0);
    assert_eq!(before.0, [[0, 2]]);
    // 3 and 9 get rows, and 7 changes.
    contribute(&store, 2, 0, &[7], &[3]);
    contribute(&store, 2, 1, &[7], &[9]);
    let after = pull(&store, &all, 0);
    assert!(after.0[0].is_empty() && after.1 != before.1);
    assert_eq!(pull(&store, &all, 2), before);
    let again = open(ADMITS_SECOND, Update::Sync);
    again.resume(1, State::Open, &store.metadata()).unwrap();
    for task in 0..2 {
        drop(again.open_session(&worker(task, 1), &opening(task as u64)));
    }
    let (without_row, values) = pull(&again, &all, 2);
    assert_eq!((&without_row, &values[2..4]), (&before.0, &before.1[2..4]));
}

#[test]
fn counted_ids_of_a_step_in_progress_survive_a_restart() {
    let store = open(ADMITS_SECOND, Update::Sync);
    contribute(&store, 0, 0, &[], &[3, 7]);
    let again = open(ADMITS_SECOND, Update::Sync);
    again.resume(1, State::Open, &store.metadata()).unwrap();
    assert_eq!(again.metadata().parts, store.metadata().parts);
    for store in [&store, &again] {
        contribute(store, 0, 1, &[], &[9]);
        contribute(store, 1, 0, &[], &[7]);
        contribute(store, 1, 1, &[], &[9]);
        assert_eq!(pull(store, &[3, 7, 9], 0).0, [[0]]);
    }
}
