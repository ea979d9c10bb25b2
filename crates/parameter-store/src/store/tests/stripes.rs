//! Concurrent pushes: every update counts once, whichever stripes it shares with others.

use super::*;

const WORKERS: usize = 8;
const STEPS: u64 = 60;
const DENSE: usize = 300_000;
const ROWS: usize = 200_000;

/// Whole numbers below 2^24 add up exactly in any order, so a lost or repeated update shows.
#[test]
fn a_ledger_of_whole_numbers_is_exact_under_eight_workers() {
    let store = open_prepared(prepare_sized(DENSE, ROWS));
    // All workers share some rows, and each has some rows of its own.
    let rows_of = |index: usize| -> Vec<u32> {
        let shared = (0..ROWS as u32).step_by(1009);
        let own = (0..ROWS as u32).skip(index + 1).step_by(997);
        let all: std::collections::BTreeSet<u32> = shared.chain(own).collect();
        all.into_iter().collect()
    };
    std::thread::scope(|scope| {
        for index in 0..WORKERS {
            let store = &store;
            scope.spawn(move || {
                store
                    .open_session(&worker(index, 1), &opening(index as u64))
                    .unwrap();
                let selection = select(&rows_of(index));
                let mut gradients = vec![-1.0; DENSE];
                gradients.resize(DENSE + rows_of(index).len() * 2, -(index as f32 + 1.0));
                for seq in 1..=STEPS {
                    let identity = worker(index, 1);
                    let pull = Pull {
                        seq,
                        selection: Arc::clone(&selection),
                        known: Vec::new(),
                        reserve_step: true,
                        ..Pull::default()
                    };
                    let (pulled, reading) = store.pull(&identity, &pull).unwrap();
                    assert_eq!(pulled.ticket, Ticket::Granted);
                    drop(read_all(reading));
                    let batch = batch(index as u64, seq - 1);
                    let push = Push {
                        header: header(seq, batch),
                        selection: None,
                        gradients: &gradients[..],
                    };
                    // The push is sent twice, as after a lost reply.
                    assert!(!store.push(&identity, &push).unwrap().duplicate);
                    assert!(store.push(&identity, &push).unwrap().duplicate);
                }
            });
        }
    });
    let snapshot = copy(&store);
    assert_eq!(snapshot.version, WORKERS as u64 * STEPS);
    let dense = (WORKERS as u64 * STEPS) as f32;
    assert!(
        snapshot.slices[0]
            .1
            .values
            .iter()
            .all(|value| *value == dense)
    );
    let mut expected = vec![0.0; ROWS];
    for index in 0..WORKERS {
        rows_of(index)
            .iter()
            .for_each(|row| expected[*row as usize] += (index as f32 + 1.0) * STEPS as f32);
    }
    let table = &snapshot.slices[1].1.values;
    assert!(
        table
            .chunks(2)
            .zip(&expected)
            .all(|(row, sum)| row == [*sum, *sum])
    );
}
