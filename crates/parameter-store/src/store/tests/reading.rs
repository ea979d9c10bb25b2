//! The contents of a reply, in whatever pieces it is read, and the slices that it leaves out.

use super::*;

/// A store with a dense variable of three stripes and a half, and a table of two stripes.
fn open_large() -> Store {
    let mut request = prepare_sized(450_000, 300_000);
    request
        .variables
        .iter_mut()
        .for_each(|spec| spec.initializer = Initializer::GlorotUniform);
    let store = open_prepared(request);
    store.open_session(&worker(0, 1), &opening(0)).unwrap();
    store
}

#[test]
fn an_answer_read_bit_by_bit_is_the_answer_read_at_once() {
    let store = open_large();
    let rows: Vec<u32> = (0..300_000).step_by(7).collect();
    let pull = Pull {
        selection: select(&rows),
        ..Pull::default()
    };
    let at_once = read_all(store.pull(&worker(0, 1), &pull).unwrap().1);
    let Copy { slices, .. } = copy(&store);
    let table = &slices[1].1.values;
    let expected = slices[0]
        .1
        .values
        .iter()
        .chain(rows.iter().flat_map(|row| &table[*row as usize * 2..][..2]));
    assert!(at_once.iter().eq(expected));
    for room in [2, 3, 1001, 65_536, 200_000] {
        let (_, mut reading) = store.pull(&worker(0, 1), &pull).unwrap();
        let mut bits = Vec::new();
        let mut buffer = vec![0.0; room];
        while reading.remaining() > 0 {
            let count = reading.read(&mut buffer);
            assert!(count > 0, "{room} values are room enough for a row");
            bits.extend_from_slice(&buffer[..count]);
        }
        assert_eq!(reading.read(&mut buffer), 0);
        assert!(bits == at_once, "read {room} values at a time");
    }
}

#[test]
fn whole_slices_that_nobody_updated_are_not_read_again() {
    let store = open_store(0);
    store.open_session(&worker(0, 1), &opening(0)).unwrap();
    let pull = |known: Vec<u64>| {
        let pull = Pull {
            selection: select(&[2]),
            known,
            ..Pull::default()
        };
        store.pull(&worker(0, 1), &pull).unwrap()
    };
    let (first, reading) = pull(Vec::new());
    assert_eq!((reading.unchanged(), reading.remaining()), (&[][..], 4));
    let (second, reading) = pull(first.updates.clone());
    assert_eq!(
        (reading.unchanged(), reading.remaining()),
        (&[0][..], 2),
        "the rows alone are read"
    );
    assert_eq!(read_all(reading), [0.0, 0.0]);
    assert_eq!(second.updates, first.updates);
    step(&store, &worker(0, 1), 1, batch(0, 0), &[1.0; 4]).unwrap();
    let (third, reading) = pull(first.updates.clone());
    assert_eq!((reading.unchanged(), reading.remaining()), (&[][..], 4));
    assert!(third.updates > first.updates);
    assert_eq!(read_all(reading), [-1.0, -1.0, 0.0, 0.0]);
}

#[test]
fn a_push_that_names_nothing_updates_what_its_pull_read() {
    let store = open_store(0);
    store.open_session(&worker(0, 1), &opening(0)).unwrap();
    for (seq, rows) in [(1, &[2][..]), (2, &[3])] {
        let pull = Pull {
            seq,
            selection: select(rows),
            known: Vec::new(),
            reserve_step: true,
            ..Pull::default()
        };
        store.pull(&worker(0, 1), &pull).unwrap();
    }
    let apply = |seq: u64, gradients: &[f32]| {
        let batch = batch(0, seq);
        store.push(
            &worker(0, 1),
            &Push {
                header: header(seq, batch),
                selection: None,
                gradients,
            },
        )
    };
    apply(2, &[0.0, 0.0, 5.0, 6.0]).unwrap();
    apply(1, &[1.0, 2.0, 3.0, 4.0]).unwrap();
    assert_eq!(
        read(&store, &worker(0, 1)),
        [-1.0, -2.0, -3.0, -4.0, -5.0, -6.0]
    );
    assert!(
        apply(1, &[1.0; 4]).unwrap().duplicate,
        "sent again, it needs no memory of its pull"
    );
    reserve(&store, &worker(0, 1), 4);
    let refused = apply(3, &[1.0; 4]);
    assert!(
        matches!(refused, Err(Error::Forgotten { seq: 3 })),
        "{refused:?}"
    );
    // A session cannot use the pulls of an earlier one.
    let pull = Pull {
        seq: 5,
        selection: select(&[2]),
        known: Vec::new(),
        reserve_step: true,
        ..Pull::default()
    };
    store.pull(&worker(0, 1), &pull).unwrap();
    store.open_session(&worker(0, 2), &opening(0)).unwrap();
    let push = Push {
        header: header(5, batch(0, 9)),
        selection: None,
        gradients: &[1.0; 4][..],
    };
    let refused = store.push(&worker(0, 2), &push);
    assert!(
        matches!(refused, Err(Error::Forgotten { seq: 5 })),
        "{refused:?}"
    );
}

#[test]
fn a_checkpoint_knows_batches_that_came_before_their_turn() {
    let store = open_store(0);
    store.open_session(&worker(0, 1), &opening(4)).unwrap();
    for (seq, number) in [(1, 0), (3, 2)] {
        step(&store, &worker(0, 1), seq, batch(4, number), &[1.0; 4]).unwrap();
    }
    let snapshot = copy(&store);
    let ahead = std::iter::once(2..3).collect();
    assert_eq!(
        snapshot.positions,
        [ShardPosition {
            shard: 4,
            pass: 0,
            batch: 1,
            ahead
        }]
    );
    let restored = restored(&snapshot, prepare(0));
    assert_eq!(
        restored
            .open_session(&worker(0, 1), &opening(4))
            .unwrap()
            .batches_applied,
        1
    );
    assert!(
        !step(&restored, &worker(0, 1), 1, batch(4, 1), &[1.0; 4])
            .unwrap()
            .duplicate
    );
    assert!(
        step(&restored, &worker(0, 1), 2, batch(4, 2), &[1.0; 4])
            .unwrap()
            .duplicate
    );
    assert_eq!(copy(&restored).positions[0].batch, 3);
}
