//! Dynamic tables in a store: counted occurrences, refused requests, and what survives a restart.

use trainyard_variable::DynamicTable;

use super::*;

/// A table of at most 8 rows of width 2, SGD with learning rate 1, on one server.
pub(super) fn prepare_table(table: DynamicTable) -> Prepare<'static> {
    let mut variables = vec![
        spec("bias", &[2], Access::Whole),
        spec("user", &[8, 2], Access::Dynamic(table)),
    ];
    variables[1].initializer = Initializer::Uniform {
        low: 1.0,
        high: 2.0,
    };
    let slice = |variable, rows, width| Slice {
        variable,
        part: 0,
        rows,
        width,
        ps: 0,
    };
    Prepare {
        variables,
        slices: vec![(0, slice(0, 0..2, 1)), (1, slice(1, 0..8, 2))],
        ..prepare(0)
    }
}

pub(super) fn open_table(table: DynamicTable) -> Store {
    let store = open_prepared(prepare_table(table));
    store.open_session(&worker(0, 1), &opening(0)).unwrap();
    store
}

/// Selects these ids of slice 1.
fn select_ids(ids: &[u64]) -> Selection {
    Selection {
        ids: vec![(1, 0)],
        id_sets: vec![ids.to_vec()],
        ..Selection::default()
    }
}

fn read_ids(store: &Store, ids: &[u64]) -> Vec<f32> {
    let pull = Pull {
        selection: Arc::new(select_ids(ids)),
        ..Pull::default()
    };
    read_all(store.pull(&worker(0, 1), &pull).unwrap().1)
}

pub(super) fn push_ids(store: &Store, seq: u64, ids: &[u64]) -> Result<Pushed, Error> {
    assert_eq!(reserve(store, &worker(0, 1), seq), Ticket::Granted);
    let gradients = vec![1.0; ids.len() * 2];
    let selection = if ids.is_empty() {
        Selection::default()
    } else {
        select_ids(ids)
    };
    store.push(
        &worker(0, 1),
        &push_of(seq, batch(0, seq - 1), selection, &gradients),
    )
}

fn held(store: &Store) -> DynamicStatus {
    store.status().dynamic.remove(0)
}

#[test]
fn reads_make_no_rows_and_give_first_values() {
    let store = open_table(DynamicTable::KEEP_ALL);
    let first = read_ids(&store, &[3, u64::MAX]);
    assert!(
        first.iter().all(|value| (1.0..2.0).contains(value)),
        "{first:?}"
    );
    assert_eq!(
        (read_ids(&store, &[3, u64::MAX]), held(&store).rows),
        (first.clone(), 0)
    );
    push_ids(&store, 1, &[u64::MAX]).unwrap();
    assert_eq!(
        read_ids(&store, &[3, u64::MAX]),
        [first[0], first[1], first[2] - 1.0, first[3] - 1.0]
    );
    assert_eq!((held(&store).rows, held(&store).rows_max), (1, 8));
}

#[test]
fn a_repeated_push_is_no_sighting() {
    let store = open_table(DynamicTable {
        admit_after: 2,
        ..DynamicTable::KEEP_ALL
    });
    let first = read_ids(&store, &[7]);
    push_ids(&store, 1, &[7]).unwrap();
    for _ in 0..3 {
        assert!(push_ids(&store, 1, &[7]).unwrap().duplicate);
    }
    assert_eq!(
        (read_ids(&store, &[7]), held(&store).gradients_dropped),
        (first.clone(), 1)
    );
    push_ids(&store, 2, &[7]).unwrap();
    assert!(push_ids(&store, 2, &[7]).unwrap().duplicate);
    assert_eq!(read_ids(&store, &[7]), [first[0] - 1.0, first[1] - 1.0]);
    assert_eq!((held(&store).rows, held(&store).gradients_dropped), (1, 1));
}

#[test]
fn ids_that_do_not_fit_change_nothing() {
    let store = open_table(DynamicTable::KEEP_ALL);
    let identity = worker(0, 1);
    reserve(&store, &identity, 1);
    let good = select_ids(&[3, 5]);
    let bad = [
        (
            Selection {
                ids: vec![(0, 0)],
                ..good.clone()
            },
            4,
        ),
        (
            Selection {
                ids: vec![(1, 1)],
                ..good.clone()
            },
            4,
        ),
        (
            Selection {
                ids: vec![(1, 0), (1, 0)],
                ..good.clone()
            },
            8,
        ),
        (select_ids(&[5, 3]), 4),
        (select_ids(&[3, 3]), 4),
        (
            Selection {
                whole: vec![1],
                ..good.clone()
            },
            20,
        ),
        (good.clone(), 3),
    ];
    for (selection, values) in bad {
        let refused = store.push(
            &identity,
            &push_of(1, batch(0, 0), selection.clone(), &vec![1.0; values]),
        );
        assert!(
            matches!(refused, Err(Error::BadRequest(_))),
            "{selection:?} gave {refused:?}"
        );
    }
    assert_eq!((held(&store).rows, held(&store).gradients_dropped), (0, 0));
    let good = push_of(1, batch(0, 0), good, &[1.0; 4]);
    assert!(
        !store.push(&identity, &good).unwrap().duplicate,
        "the good push still counts"
    );
}

#[test]
fn a_push_that_is_not_finite_is_no_sighting() {
    let store = open_table(DynamicTable::KEEP_ALL);
    reserve(&store, &worker(0, 1), 1);
    let push = push_of(1, batch(0, 0), select_ids(&[3]), &[1.0, f32::INFINITY]);
    let refused = store.push(&worker(0, 1), &push).unwrap().rejected.unwrap();
    assert_eq!(
        (refused.variable, refused.position, refused.value()),
        (Some(1), 1, f32::INFINITY)
    );
    assert_eq!(held(&store).rows, 0);
}

#[test]
fn rows_never_outnumber_the_room() {
    let store = open_table(DynamicTable::KEEP_ALL);
    for seq in 1..=50 {
        push_ids(&store, seq, &[seq * 3, seq * 3 + 1]).unwrap();
        assert!(held(&store).rows <= 8);
    }
    assert_eq!((held(&store).rows, held(&store).evicted), (8, 92));
    push_ids(&store, 51, &(1000..1020).collect::<Vec<_>>()).unwrap();
    let full = held(&store);
    assert_eq!(
        (full.rows, full.evicted, full.gradients_dropped),
        (8, 100, 12)
    );
    for _ in 0..2 {
        store
            .prepare(&chief(1), prepare_table(DynamicTable::KEEP_ALL))
            .unwrap();
        let anew = held(&store);
        assert_eq!(
            (anew.rows, anew.evicted, anew.gradients_dropped),
            (0, 100, 12),
            "counters do not fall"
        );
    }
}

#[test]
fn rows_expire_by_the_clock_that_is_told_and_by_pushes_of_others() {
    let by_clock = open_table(DynamicTable {
        expire_after_secs: Some(60),
        ..DynamicTable::KEEP_ALL
    });
    by_clock.set_clock(100);
    push_ids(&by_clock, 1, &[1]).unwrap();
    by_clock.set_clock(159);
    push_ids(&by_clock, 2, &[]).unwrap();
    assert_eq!(held(&by_clock).rows, 1);
    by_clock.set_clock(160);
    push_ids(&by_clock, 3, &[2]).unwrap();
    assert_eq!((held(&by_clock).rows, held(&by_clock).expired), (1, 1));
    let by_steps = open_table(DynamicTable {
        expire_after_steps: Some(2),
        ..DynamicTable::KEEP_ALL
    });
    push_ids(&by_steps, 1, &[1]).unwrap();
    push_ids(&by_steps, 2, &[]).unwrap();
    assert_eq!(held(&by_steps).rows, 1);
    push_ids(&by_steps, 3, &[]).unwrap();
    assert_eq!((held(&by_steps).rows, held(&by_steps).expired), (0, 1));
}

#[test]
fn a_restored_table_goes_on_with_rows_sightings_and_times() {
    let table = DynamicTable {
        admit_after: 2,
        expire_after_secs: Some(60),
        ..DynamicTable::KEEP_ALL
    };
    let store = open_table(table);
    store.set_clock(1000);
    for (seq, ids) in [(1, [1, 2]), (2, [1, 3]), (3, [1, 3])] {
        push_ids(&store, seq, &ids).unwrap();
    }
    store.set_clock(1059);
    let snapshot = copy(&store);
    let rows = &snapshot.tables[0].2;
    assert_eq!(
        (
            rows.ids.as_slice(),
            rows.candidates[0].id,
            rows.candidates.len()
        ),
        ([1, 3].as_slice(), 2, 1)
    );
    assert_eq!((rows.idle[0].secs, rows.candidates[0].idle.pushes), (59, 2));
    let restored = restored(&snapshot, prepare_table(table));
    restored.open_session(&worker(0, 1), &opening(0)).unwrap();
    assert_eq!(copy(&restored), snapshot);
    assert_eq!(
        read_ids(&restored, &[1, 2, 3]),
        read_ids(&store, &[1, 2, 3])
    );
    push_ids(&restored, 4, &[2]).unwrap();
    assert_eq!(
        held(&restored).rows,
        3,
        "the second sighting of 2 admits it"
    );
    restored.set_clock(1);
    push_ids(&restored, 5, &[2]).unwrap();
    assert_eq!(
        (held(&restored).rows, held(&restored).expired),
        (1, 2),
        "59 seconds before, and one now"
    );
}

#[test]
fn an_answer_beyond_a_message_is_refused() {
    let store = Store::new(0);
    store
        .claim(&Claim {
            cluster_id: CLUSTER,
            epoch: 1,
        })
        .unwrap();
    let mut prepare = prepare_table(DynamicTable::KEEP_ALL);
    prepare.variables[1].shape = vec![8, 1 << 16];
    prepare.slices[1].1.width = 1 << 16;
    store.prepare(&chief(1), prepare).unwrap();
    store.open(&chief(1)).unwrap();
    store.open_session(&worker(0, 1), &opening(0)).unwrap();
    let ids: Vec<u64> = (0..1025).collect();
    let pull = Pull {
        selection: Arc::new(select_ids(&ids)),
        ..Pull::default()
    };
    let refused = store.pull(&worker(0, 1), &pull).map(|(pulled, _)| pulled);
    assert_eq!(
        refused,
        Err(Error::TooLarge {
            given: 1025 << 16,
            max: 1 << 26
        })
    );
}
