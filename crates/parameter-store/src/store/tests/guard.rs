//! Pushes whose values are rejected.

use trainyard_variable::MOVING_AVERAGE;

use super::*;

fn open_guarded(guard: Guard, update: Update) -> Store {
    let store = open_prepared(Prepare {
        guard,
        update,
        ..prepare(2)
    });
    for task in 0..2 {
        store.open_session(&worker(task, 1), &opening(0)).unwrap();
    }
    store
}

const REJECT: Guard = Guard {
    nonfinite: Nonfinite::Reject,
    max_norm: None,
    max_abs: None,
};

/// Pushes one micro-batch of the first synchronous step, which has two lanes.
fn part(store: &Store, task: usize, gradients: &[f32], rejected: Option<Rejection>) -> Pushed {
    let micro_batch = Some(MicroBatch {
        lane: task as u32,
        lanes: 2,
    });
    let push = push_of(
        1,
        batch(0, task as u64),
        Selection::clone(&select(&[3])),
        gradients,
    );
    store
        .push(
            &worker(task, 1),
            &Push {
                header: PushHeader {
                    micro_batch,
                    rejected,
                    ..push.header
                },
                ..push
            },
        )
        .unwrap()
}

#[test]
fn a_refused_push_changes_nothing_and_its_batch_is_done_with() {
    let store = open_guarded(REJECT, Update::Async);
    let pushed = step(
        &store,
        &worker(0, 1),
        1,
        batch(0, 0),
        &[1.0, 1.0, 1.0, f32::NAN],
    )
    .unwrap();
    let rejection = pushed.rejected.unwrap();
    assert_eq!(
        (rejection.fault, rejection.variable, rejection.position),
        (Fault::Nonfinite, Some(1), 1)
    );
    assert!(rejection.value().is_nan() && !pushed.duplicate);
    assert_eq!(
        (pushed.version, pushed.global_step),
        (1, 0),
        "no step was applied"
    );
    assert!(
        read(&store, &worker(0, 1))
            .iter()
            .all(|&value| value == 0.0)
    );
    // The push is repeated because its reply was lost. Its gradients are not checked again.
    let again = push(&store, &worker(0, 1), 1, batch(0, 0), &[1.0; 4]).unwrap();
    assert_eq!(
        (again.duplicate, again.rejected, again.version),
        (true, Some(rejection), 1)
    );
    // No other task needs to compute the batch.
    let other = step(&store, &worker(1, 1), 1, batch(0, 0), &[1.0; 4]).unwrap();
    assert_eq!((other.duplicate, other.rejected), (true, None));
    assert_eq!(store.positions()[0].batch, 1);
    // Both steps of the job are still left.
    assert_eq!(
        step(&store, &worker(0, 1), 2, batch(0, 1), &[1.0; 4])
            .unwrap()
            .global_step,
        1
    );
    assert_eq!(
        step(&store, &worker(1, 1), 2, batch(0, 2), &[1.0; 4])
            .unwrap()
            .global_step,
        2
    );
}

#[test]
fn what_a_worker_has_refused_itself_is_done_with_everywhere() {
    let store = open_guarded(REJECT, Update::Async);
    assert_eq!(reserve(&store, &worker(0, 1), 1), Ticket::Granted);
    let rejection = Rejection {
        fault: Fault::Norm,
        variable: None,
        position: 0,
        bits: 9.0_f32.to_bits(),
    };
    let told = Push {
        header: PushHeader {
            rejected: Some(rejection),
            ..header(1, batch(0, 0))
        },
        selection: Some(Arc::default()),
        gradients: &[][..],
    };
    assert_eq!(
        store.push(&worker(0, 1), &told).unwrap().rejected,
        Some(rejection)
    );
    assert_eq!(
        store.push(&worker(0, 1), &told).unwrap().rejected,
        Some(rejection)
    );
    assert_eq!(
        (store.positions()[0].batch, store.status().global_step),
        (1, 0)
    );
}

#[test]
fn values_and_norms_above_their_bounds_are_refused() {
    let guard = Guard {
        max_norm: Some(5.0),
        max_abs: Some(4.0),
        ..REJECT
    };
    let store = open_guarded(guard, Update::Async);
    let push = |seq: u64, gradients: &[f32]| {
        step(&store, &worker(0, 1), seq, batch(0, seq - 1), gradients)
            .unwrap()
            .rejected
    };
    let large = push(1, &[0.0, -4.5, 0.0, 0.0]).unwrap();
    assert_eq!(
        (large.fault, large.variable, large.position, large.value()),
        (Fault::Abs, Some(0), 1, -4.5)
    );
    let long = push(2, &[4.0, 4.0, 0.0, 0.0]).unwrap();
    assert_eq!((long.fault, long.variable), (Fault::Norm, None));
    assert!((long.value() - 32.0_f32.sqrt()).abs() < 1e-5);
    assert_eq!(
        push(3, &[4.0, 3.0, 0.0, 0.0]),
        None,
        "a bound may be reached"
    );
    assert_eq!(read(&store, &worker(0, 1))[..2], [-4.0, -3.0]);
}

#[test]
fn bounds_do_not_apply_to_moving_averages() {
    let mut request = prepare(2);
    request.variables[0].optimizer_group = MOVING_AVERAGE.to_owned();
    request
        .optimizers
        .insert(MOVING_AVERAGE.to_owned(), OptimizerConfig::sgd(1.0));
    let store = open_prepared(Prepare {
        guard: Guard {
            max_norm: Some(5.0),
            max_abs: Some(4.0),
            ..REJECT
        },
        ..request
    });
    store.open_session(&worker(0, 1), &opening(0)).unwrap();
    let push = |seq: u64, gradients: &[f32]| {
        step(&store, &worker(0, 1), seq, batch(0, seq - 1), gradients)
            .unwrap()
            .rejected
            .map(|rejection| (rejection.fault, rejection.variable, rejection.position))
    };
    assert_eq!(push(1, &[-900.0, 900.0, 1.0, 1.0]), None);
    assert_eq!(
        push(2, &[0.0, 0.0, 1.0, 4.5]),
        Some((Fault::Abs, Some(1), 1))
    );
    assert_eq!(
        push(3, &[0.0, f32::NAN, 1.0, 1.0]),
        Some((Fault::Nonfinite, Some(0), 1))
    );
}

#[test]
fn values_that_are_not_finite_become_zero_where_the_job_says_so() {
    let guard = Guard {
        nonfinite: Nonfinite::Zero,
        max_abs: Some(4.0),
        ..REJECT
    };
    let store = open_guarded(guard, Update::Async);
    let gradients = [1.0, f32::INFINITY, f32::NAN, 2.0];
    let pushed = step(&store, &worker(0, 1), 1, batch(0, 0), &gradients).unwrap();
    assert_eq!((pushed.rejected, pushed.global_step), (None, 1));
    assert_eq!(
        read(&store, &worker(0, 1)),
        [-1.0, 0.0, 0.0, 0.0, 0.0, -2.0]
    );
    let pushed = step(
        &store,
        &worker(0, 1),
        2,
        batch(0, 1),
        &[f32::NAN, 5.0, 0.0, 0.0],
    )
    .unwrap();
    assert_eq!(
        pushed.rejected.map(|rejection| rejection.fault),
        Some(Fault::Abs),
        "the others are looked at"
    );
}

#[test]
fn a_job_that_halts_is_told_task_batch_variable_and_value() {
    let store = open_guarded(
        Guard {
            nonfinite: Nonfinite::Halt,
            ..REJECT
        },
        Update::Async,
    );
    let refused = step(
        &store,
        &worker(0, 1),
        1,
        batch(0, 3),
        &[1.0, 1.0, f32::NEG_INFINITY, 1.0],
    )
    .unwrap_err();
    let text = refused.to_string();
    let all = [
        "worker:0",
        "batch pass 0/shard 0/3",
        "value 0 of its gradient of `table` is -inf",
    ];
    assert!(all.iter().all(|part| text.contains(part)), "{text}");
    assert!(
        read(&store, &worker(0, 1))
            .iter()
            .all(|&value| value == 0.0)
    );
    assert!(
        push(&store, &worker(0, 1), 1, batch(0, 3), &[1.0; 4])
            .unwrap()
            .duplicate,
        "its number is used up"
    );
    assert_eq!(store.positions(), [], "and its batch is not done with");
}

#[test]
fn a_refused_part_of_a_synchronous_step_holds_nobody_up() {
    for by_its_worker in [false, true] {
        let store = open_guarded(REJECT, Update::Sync);
        let rejection = Rejection {
            fault: Fault::Nonfinite,
            variable: None,
            position: 0,
            bits: 0,
        };
        let first = part(
            &store,
            0,
            &[f32::NAN; 4],
            by_its_worker.then_some(rejection),
        );
        assert!(first.rejected.is_some() && !first.duplicate);
        let last = part(&store, 1, &[2.0, 2.0, 4.0, 4.0], None);
        assert_eq!(
            (last.version, last.global_step, last.rejected),
            (1, 1, None)
        );
        // The rejected micro-batch counts as zeros in the mean.
        assert_eq!(
            read(&store, &worker(0, 1)),
            [-1.0, -1.0, 0.0, 0.0, -2.0, -2.0]
        );
        assert_eq!(store.positions()[0].batch, 2);
        assert!(
            part(&store, 0, &[1.0; 4], None).rejected.is_some(),
            "a repeated one is answered the same"
        );
    }
}

#[test]
fn it_is_told_whose_pushes_are_refused_how_often_and_of_which_batches() {
    let store = open_prepared(Prepare {
        guard: REJECT,
        ..prepare(0)
    });
    store.open_session(&worker(0, 1), &opening(0)).unwrap();
    for seq in 1..=20_u64 {
        let value = if seq % 2 == 0 { f32::NAN } else { 1.0 };
        step(&store, &worker(0, 1), seq, batch(0, seq - 1), &[value; 4]).unwrap();
    }
    let told = store.status().rejections;
    assert_eq!(
        (told.len(), told[0].task, told[0].session, told[0].recent),
        (1, worker(0, 1).task, 1, 10)
    );
    assert_eq!(
        told[0]
            .latest
            .iter()
            .map(|batch| batch.batch)
            .collect::<Vec<_>>(),
        [5, 7, 9, 11, 13, 15, 17, 19]
    );
    let reason = told[0].reason.expect("the reason of the last one");
    assert_eq!(reason.fault, Fault::Nonfinite);
    assert!(reason.value().is_nan());
    // Rejections before the window do not count.
    for seq in 21..=76 {
        step(&store, &worker(0, 1), seq, batch(0, seq - 1), &[1.0; 4]).unwrap();
    }
    assert_eq!(store.status().rejections[0].recent, 4);
    store.open_session(&worker(0, 2), &opening(0)).unwrap();
    assert_eq!(
        store.status().rejections,
        [],
        "a new session is a new count"
    );
}
