//! Synchronous and stale-synchronous updates.

use proptest::prelude::*;

use super::*;

fn open_with(update: Update, global_step_max: u64) -> Store {
    open_prepared(Prepare {
        update,
        ..prepare(global_step_max)
    })
}

/// Pushes one micro-batch of a step: gradients of the vector, and of some rows of the table.
fn contribute(
    store: &Store,
    identity: &Identity,
    seq: u64,
    (step, lane, lanes): (u64, u32, u32),
    rows: &[u32],
    gradients: &[f32],
) -> Result<Pushed, Error> {
    let push = Push {
        header: PushHeader {
            pulled_version: step,
            micro_batch: Some(MicroBatch { lane, lanes }),
            ..header(seq, batch(0, step * u64::from(lanes) + u64::from(lane)))
        },
        selection: Some(select(rows)),
        gradients,
    };
    store.push(identity, &push)
}

/// Requests a ticket at a version.
fn ask(store: &Store, identity: &Identity, seq: u64, at_least: u64) -> Pulled {
    let pull = Pull {
        seq,
        selection: select(&[2, 3]),
        at_least,
        reserve_step: true,
        ..Pull::default()
    };
    store.pull(identity, &pull).unwrap().0
}

#[test]
fn the_parts_of_a_step_are_one_update_their_mean() {
    let store = open_with(Update::Sync, 0);
    for task in 0..2 {
        store.open_session(&worker(task, 1), &opening(0)).unwrap();
    }
    let first = contribute(
        &store,
        &worker(1, 1),
        1,
        (0, 1, 2),
        &[3],
        &[2.0, 0.0, 8.0, 8.0],
    )
    .unwrap();
    assert_eq!(
        (first.version, first.global_step, first.duplicate),
        (0, 0, false)
    );
    assert_eq!(
        read(&store, &worker(0, 1)),
        [0.0; 6],
        "nothing moves before all are there"
    );
    assert_eq!(ask(&store, &worker(1, 1), 2, 1).ticket, Ticket::Wait);
    let last = contribute(
        &store,
        &worker(0, 1),
        1,
        (0, 0, 2),
        &[2],
        &[4.0, 2.0, 6.0, 6.0],
    )
    .unwrap();
    assert_eq!((last.version, last.global_step), (1, 1));
    // Rows that only one micro-batch names count as zeros in the other.
    assert_eq!(
        read(&store, &worker(0, 1)),
        [-3.0, -1.0, -3.0, -3.0, -4.0, -4.0]
    );
    assert_eq!(ask(&store, &worker(1, 1), 2, 1).ticket, Ticket::Granted);
    assert_eq!(store.status().slowest_lane, Some(0));
}

#[test]
fn copies_of_a_part_count_once_and_those_that_come_late_are_stale() {
    let store = open_with(Update::Sync, 0);
    for task in 0..3 {
        store.open_session(&worker(task, 1), &opening(0)).unwrap();
    }
    let gradients = [2.0, 2.0, 2.0, 2.0];
    contribute(&store, &worker(0, 1), 1, (0, 0, 2), &[2], &gradients).unwrap();
    let copy = contribute(&store, &worker(2, 1), 1, (0, 0, 2), &[2], &gradients).unwrap();
    assert_eq!((copy.duplicate, copy.stale, copy.version), (true, false, 0));
    contribute(&store, &worker(1, 1), 1, (0, 1, 2), &[2], &gradients).unwrap();
    let late = contribute(&store, &worker(2, 1), 2, (0, 1, 2), &[2], &gradients).unwrap();
    assert_eq!(
        (late.duplicate, late.stale, late.version, late.staleness),
        (true, true, 1, 1)
    );
    // A repeated message is a duplicate, and not stale.
    let again = contribute(&store, &worker(1, 1), 1, (0, 1, 2), &[2], &gradients).unwrap();
    assert_eq!((again.duplicate, again.stale), (true, false));
    assert_eq!(
        read(&store, &worker(0, 1)),
        [-2.0, -2.0, -2.0, -2.0, 0.0, 0.0]
    );
    assert_eq!(store.status().version.count(), 1);
}

#[test]
fn parts_that_do_not_fit_change_nothing() {
    let store = open_with(Update::Sync, 0);
    store.open_session(&worker(0, 1), &opening(0)).unwrap();
    let gradients = [2.0; 4];
    for (place, rule) in [
        ((0, 2, 2), "lane must be below 2"),
        (
            (0, 2, u32::MAX),
            "a step has at most 65536 lanes, given 4294967295",
        ),
        (
            (3, 0, 2),
            "step of a synchronous push must be at most 0, given 3",
        ),
    ] {
        let refused = contribute(&store, &worker(0, 1), 1, place, &[2], &gradients).unwrap_err();
        assert!(refused.to_string().contains(rule), "{refused}");
    }
    let unnamed = push(&store, &worker(0, 1), 1, batch(0, 0), &gradients).unwrap_err();
    assert!(
        unnamed.to_string().contains("must name its lane"),
        "{unnamed}"
    );
    contribute(&store, &worker(0, 1), 1, (0, 0, 2), &[2], &gradients).unwrap();
    let other = contribute(&store, &worker(0, 1), 2, (0, 2, 3), &[2], &gradients).unwrap_err();
    assert!(other.to_string().contains("has 2 lanes"), "{other}");
    assert_eq!(
        (store.status().version.count(), read(&store, &worker(0, 1))),
        (0, vec![0.0; 6])
    );
}

#[test]
fn a_synchronous_job_ends_at_its_last_step() {
    let store = open_with(Update::Sync, 1);
    store.open_session(&worker(0, 1), &opening(0)).unwrap();
    assert_eq!(ask(&store, &worker(0, 1), 1, 0).ticket, Ticket::Granted);
    contribute(&store, &worker(0, 1), 1, (0, 0, 1), &[2], &[1.0; 4]).unwrap();
    assert_eq!(ask(&store, &worker(0, 1), 2, 1).ticket, Ticket::Finished);
    assert_eq!(store.status().global_step, 1);
}

#[test]
fn a_snapshot_is_taken_at_the_very_step_that_was_asked_for() {
    let store = open_with(Update::Sync, 0);
    store.open_session(&worker(0, 1), &opening(0)).unwrap();
    assert!(matches!(
        store
            .snapshot_at(&chief(1), StepNumber::new(2), Basis::Whole)
            .unwrap(),
        SnapshotAt::NotYet
    ));
    for step in 0..4 {
        contribute(
            &store,
            &worker(0, 1),
            step + 1,
            (step, 0, 1),
            &[2],
            &[1.0; 4],
        )
        .unwrap();
    }
    let SnapshotAt::Taken(mut snapshot) = store
        .snapshot_at(&chief(1), StepNumber::new(2), Basis::Whole)
        .unwrap()
    else {
        panic!("it was taken")
    };
    assert_eq!((snapshot.version, snapshot.global_step), (2, 2));
    assert_eq!(snapshot.positions[0].batch, 2);
    assert_eq!(snapshot.slices.remove(0).read_all().values, [-2.0, -2.0]);
    drop(snapshot);
    assert!(matches!(
        store.snapshot_at(&chief(1), StepNumber::new(3), Basis::Whole).unwrap(),
        SnapshotAt::Passed { reached } if reached == StepNumber::new(4)
    ));
    let SnapshotAt::Taken(mut now) = store
        .snapshot_at(&chief(1), StepNumber::new(4), Basis::Whole)
        .unwrap()
    else {
        panic!("it is there")
    };
    assert_eq!(now.slices.remove(0).read_all().values, [-4.0, -4.0]);
}

#[test]
fn nobody_runs_ahead_of_the_slowest_by_more_than_the_bound() {
    let store = open_with(
        Update::StaleSynchronous {
            staleness_steps_max: 2,
        },
        0,
    );
    for task in 0..2 {
        store
            .open_session(&worker(task, 1), &opening(task as u64))
            .unwrap();
    }
    assert_eq!(ask(&store, &worker(1, 1), 1, 0).ticket, Ticket::Granted);
    for seq in 1..=3 {
        let pulled = ask(&store, &worker(0, 1), seq, 0);
        assert_eq!((pulled.ticket, pulled.lead), (Ticket::Granted, seq - 1));
        push(&store, &worker(0, 1), seq, batch(0, seq - 1), &[0.0; 4]).unwrap();
    }
    assert_eq!(ask(&store, &worker(0, 1), 4, 0).ticket, Ticket::Wait);
    step(&store, &worker(1, 1), 1, batch(1, 0), &[0.0; 4]).unwrap();
    assert_eq!(ask(&store, &worker(0, 1), 4, 0).ticket, Ticket::Granted);
    push(&store, &worker(0, 1), 4, batch(0, 3), &[0.0; 4]).unwrap();
    assert_eq!(ask(&store, &worker(0, 1), 5, 0).ticket, Ticket::Wait);
    // No task waits for the slow task, which has left. A task that joins later starts at the slowest clock.
    store
        .close_session(&chief(1), worker(1, 1).task, 1)
        .unwrap();
    assert_eq!(ask(&store, &worker(0, 1), 5, 0).ticket, Ticket::Granted);
    store.open_session(&worker(2, 1), &opening(2)).unwrap();
    assert_eq!(ask(&store, &worker(2, 1), 1, 0).ticket, Ticket::Granted);
}

#[test]
fn nobody_waits_for_a_task_that_has_no_data() {
    let store = open_with(
        Update::StaleSynchronous {
            staleness_steps_max: 1,
        },
        0,
    );
    for task in 0..3 {
        store.open_session(&worker(task, 1), &opening(0)).unwrap();
    }
    // The third task has never requested a step, and the second requests no further one.
    step(&store, &worker(1, 1), 1, batch(0, 0), &[0.0; 4]).unwrap();
    store.rest(&worker(1, 1)).unwrap();
    for seq in 1..=5 {
        step(&store, &worker(0, 1), seq, batch(0, seq), &[0.0; 4]).unwrap();
    }
    // The task continues at the clock of the others.
    assert_eq!(ask(&store, &worker(1, 1), 2, 0).ticket, Ticket::Granted);
    let ahead = |seq| {
        let pulled = ask(&store, &worker(0, 1), seq, 0);
        (pulled.ticket, pulled.lead)
    };
    assert_eq!(ahead(6), (Ticket::Granted, 0));
    assert_eq!(ahead(7), (Ticket::Granted, 1));
    assert_eq!(ahead(8).0, Ticket::Wait);
    // A task with a step in progress is not idle.
    store.rest(&worker(1, 1)).unwrap();
    assert_eq!(ahead(8).0, Ticket::Wait);
}

#[test]
fn the_values_before_the_latest_step_can_be_read_for_a_part_that_others_miss() {
    let store = open_with(Update::Sync, 0);
    for task in 0..2 {
        store.open_session(&worker(task, 1), &opening(0)).unwrap();
    }
    let pull = |at_least, or_before| Pull {
        selection: select(&[2, 3]),
        at_least,
        or_before,
        reserve_step: true,
        ..Pull::default()
    };
    let values = |seq, pull: &Pull| {
        let (pulled, mut reading) = store
            .pull(
                &worker(1, 1),
                &Pull {
                    seq,
                    ..pull.clone()
                },
            )
            .unwrap();
        let mut values = vec![0.0; reading.remaining()];
        reading.read(&mut values);
        (pulled.ticket, pulled.version, pulled.reached, values)
    };
    let mut before = values(1, &pull(0, true)).3;
    for step in 0..3 {
        let row = 2 + step as u32 % 2;
        for lane in 0..2 {
            let gradients = [1.0, 2.0, 3.0 + lane as f32, 4.0];
            contribute(
                &store,
                &worker(0, 1),
                2 * step + u64::from(lane) + 1,
                (step, lane, 2),
                &[row],
                &gradients,
            )
            .unwrap();
        }
        let old = values(1, &pull(step, true));
        assert_eq!(
            old,
            (Ticket::Granted, step, step + 1, before),
            "of step {step}"
        );
        let now = values(1, &pull(step, false));
        assert_eq!((now.0, now.1, now.2), (Ticket::Granted, step + 1, step + 1));
        assert_ne!(now.3, old.3);
        before = now.3;
    }
    assert_eq!(values(1, &pull(1, true)).1, 3, "those before them are gone");
}

proptest! {
    /// Whichever task computes a batch, however often and in whatever order pushes arrive, the values have the same
    /// bits.
    #[test]
    fn a_synchronous_run_has_the_same_bits_in_every_order(
        seed in 0_u64..1000, order in prop::collection::vec((0_usize..5, 0_u32..3), 20..120),
    ) {
        let gradient = |step: u64, lane: u32| -> Vec<f32> {
            let value = |place: u64| ((seed * 31 + step * 7 + u64::from(lane) * 3 + place) as f32).sin() / 3.0;
            (0..4).map(value).collect()
        };
        let row = |step: u64, lane: u32| 2 + ((step + u64::from(lane)) % 2) as u32;
        let expected = open_with(Update::Sync, 0);
        let given = open_with(Update::Sync, 0);
        for task in 0..5 {
            expected.open_session(&worker(task, 1), &opening(0)).unwrap();
            given.open_session(&worker(task, 1), &opening(0)).unwrap();
        }
        let mut seqs = [0; 5];
        for (task, lane) in order {
            let step = given.status().version.count();
            seqs[task] += 1;
            let identity = worker(task, 1);
            contribute(&given, &identity, seqs[task], (step, lane, 3), &[row(step, lane)], &gradient(step, lane)).unwrap();
        }
        for step in 0..given.status().version.count() {
            for lane in 0..3 {
                let identity = worker(0, 1);
                contribute(&expected, &identity, step * 3 + u64::from(lane) + 1, (step, lane, 3), &[row(step, lane)], &gradient(step, lane)).unwrap();
            }
        }
        let bits = |store: &Store| read(store, &worker(0, 1)).iter().map(|value| value.to_bits()).collect::<Vec<_>>();
        prop_assert_eq!(bits(&expected), bits(&given));
    }
}
