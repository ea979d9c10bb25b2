//! The store's locking, under a checker that runs the threads in thousands of interleavings, each given by a seed:
//! `cargo test -p trainyard-parameter-store --features shuttle --test interleavings`. A failure prints the
//! interleaving.

use std::collections::BTreeMap;
use std::sync::Arc;

use shuttle::thread;
use trainyard_cluster_spec::{Role, Task};
use trainyard_optimizer::OptimizerConfig;
use trainyard_parameter_store::{
    Basis, BatchId, Claim, Error, Guard, Identity, OpenSession, Prepare, Pull, Push, PushHeader,
    Reading, Selection, Store, Ticket, Update,
};
use trainyard_variable::{Access, Initializer, Slice, VariableSpec};

/// Number of interleavings.
const ORDERS: usize = 2_000;
/// Values of the dense variable: two stripes.
const DENSE: usize = (128 << 10) + 3;

fn chief() -> Identity {
    let task = Task {
        role: Role::Chief,
        index: 0,
    };
    Identity {
        cluster_id: 1,
        epoch: 1,
        task,
        incarnation: 1,
        session: 0,
    }
}

fn worker(index: usize, session: u64) -> Identity {
    let task = Task {
        role: Role::Worker,
        index,
    };
    Identity {
        cluster_id: 1,
        epoch: 1,
        task,
        incarnation: 1,
        session,
    }
}

/// A store with `dense` values in one column, and a table of 4 rows of 2. Every push adds its negative.
fn open(dense: usize, global_step_max: u64) -> Arc<Store> {
    let spec = |name: &str, shape: Vec<usize>, access: Access| VariableSpec {
        name: name.into(),
        shape,
        access,
        initializer: Initializer::Zeros,
        optimizer_group: "sgd".into(),
    };
    let slice = |variable: usize, rows: usize, width: usize| Slice {
        variable,
        part: 0,
        rows: 0..rows,
        width,
        ps: 0,
    };
    let prepare = Prepare {
        variables: vec![
            spec("dense", vec![dense], Access::Whole),
            spec("table", vec![4, 2], Access::Rows),
        ],
        slices: vec![(0, slice(0, dense, 1)), (1, slice(1, 4, 2))],
        optimizers: BTreeMap::from([("sgd".to_owned(), OptimizerConfig::sgd(1.0))]),
        seed: 0,
        layout_fingerprint: 1,
        counts_steps: true,
        global_step_max,
        update: Update::Async,
        guard: Guard::default(),
        stores: 2,
        restore: None,
        first_values: None,
    };
    let store = Store::new(0);
    store
        .claim(&Claim {
            cluster_id: 1,
            epoch: 1,
        })
        .unwrap();
    store.prepare(&chief(), prepare).unwrap();
    store.open(&chief()).unwrap();
    Arc::new(store)
}

/// A first session, whose task reads this data shard.
fn opening(data_shard: u64) -> OpenSession {
    OpenSession {
        seq: 0,
        layout_fingerprint: 1,
        data_shard,
    }
}

fn rows(rows: &[u32]) -> Arc<Selection> {
    Arc::new(Selection {
        rows: vec![(1, 0)],
        row_sets: vec![rows.to_vec()],
        ..Selection::default()
    })
}

fn pull(store: &Store, identity: &Identity, selection: &Arc<Selection>) -> Result<Ticket, Error> {
    let pull = Pull {
        seq: 1,
        selection: Arc::clone(selection),
        known: Vec::new(),
        reserve_step: true,
        ..Pull::default()
    };
    store.pull(identity, &pull).map(|(pulled, _)| pulled.ticket)
}

fn push(
    store: &Store,
    identity: &Identity,
    shard: u64,
    batch: u64,
    gradients: &[f32],
) -> Result<bool, Error> {
    let batch = BatchId {
        pass: 0,
        shard,
        batch,
    };
    let push = Push {
        header: PushHeader {
            seq: 1,
            batch,
            batches: 1,
            pulled_version: 0,
            micro_batch: None,
            optimizer_step: None,
            rejected: None,
        },
        selection: None,
        gradients,
    };
    store.push(identity, &push).map(|pushed| pushed.duplicate)
}

fn read_all(mut reading: Reading) -> Vec<f32> {
    let mut out = vec![0.0; reading.remaining()];
    reading.read(&mut out);
    out
}

fn table(store: &Store) -> Vec<f32> {
    let mut snapshot = store.snapshot(&chief(), Basis::Whole).unwrap();
    snapshot.slices.remove(1).read_all().values
}

/// A task whose reply was lost repeats its push while the first one is still in progress. Meanwhile the chief gives the
/// task's batch to another task. The batch counts once.
#[test]
fn a_batch_counts_once_whoever_sends_it_and_however_often() {
    let run = || {
        let store = open(1, 0);
        let selection = rows(&[0, 2]);
        for index in 0..2 {
            store.open_session(&worker(index, 1), &opening(0)).unwrap();
            assert_eq!(
                pull(&store, &worker(index, 1), &selection),
                Ok(Ticket::Granted)
            );
        }
        let threads: Vec<_> = [0, 0, 1]
            .into_iter()
            .map(|index| {
                let store = Arc::clone(&store);
                thread::spawn(move || {
                    push(&store, &worker(index, 1), 0, 0, &[-1.0, -2.0, -3.0, -4.0])
                })
            })
            .collect();
        let closing = {
            let store = Arc::clone(&store);
            let task = worker(0, 1).task;
            thread::spawn(move || store.close_session(&chief(), task, 1))
        };
        let outcomes: Vec<_> = threads
            .into_iter()
            .map(|thread| thread.join().unwrap())
            .collect();
        closing.join().unwrap().unwrap();
        let applied = outcomes
            .iter()
            .filter(|outcome| **outcome == Ok(false))
            .count();
        assert_eq!(applied, 1, "{outcomes:?}");
        assert_eq!(
            table(&store),
            [1.0, 2.0, 0.0, 0.0, 3.0, 4.0, 0.0, 0.0],
            "{outcomes:?}"
        );
    };
    shuttle::check_pct(run, ORDERS, 3);
    shuttle::check_random(run, ORDERS);
}

/// Several tasks push to the same rows and stripes while a checkpoint is taken. No update is lost, and the checkpoint
/// holds each push as a whole or not at all.
#[test]
fn updates_add_up_and_a_checkpoint_sees_each_whole_or_not_at_all() {
    let run = || {
        let store = open(DENSE, 0);
        let selection = Arc::new(Selection {
            whole: vec![0],
            ..Selection::clone(&rows(&[1, 3]))
        });
        let threads: Vec<_> = (0..3_usize)
            .map(|index| {
                let store = Arc::clone(&store);
                let selection = Arc::clone(&selection);
                thread::spawn(move || {
                    store
                        .open_session(&worker(index, 1), &opening(index as u64))
                        .unwrap();
                    pull(&store, &worker(index, 1), &selection).unwrap();
                    let gradients = vec![-1.0; DENSE + 4];
                    assert_eq!(
                        push(&store, &worker(index, 1), index as u64, 0, &gradients),
                        Ok(false)
                    );
                })
            })
            .collect();
        let mut snapshot = store.snapshot(&chief(), Basis::Whole).unwrap();
        let held = snapshot.version as f32;
        let embedding = snapshot.slices.remove(1).read_all();
        let dense = snapshot.slices.remove(0).read_all();
        assert!(
            dense.values.iter().all(|value| *value == held),
            "version {held}"
        );
        assert_eq!(
            embedding.values,
            [0.0, 0.0, held, held, 0.0, 0.0, held, held]
        );
        assert_eq!(
            snapshot
                .positions
                .iter()
                .map(|position| position.batch)
                .sum::<u64>(),
            snapshot.version
        );
        threads
            .into_iter()
            .for_each(|thread| thread.join().unwrap());
        drop(snapshot);
        assert_eq!(table(&store), [0.0, 0.0, 3.0, 3.0, 0.0, 0.0, 3.0, 3.0]);
    };
    shuttle::check_random(run, ORDERS / 20);
    shuttle::check_pct(run, ORDERS / 20, 3);
}

/// A reader that is told "unchanged" has the values of the store, even while pushes are in progress.
#[test]
fn what_is_said_to_be_unchanged_is() {
    let run = || {
        let store = open(2, 0);
        store.open_session(&worker(9, 1), &opening(9)).unwrap();
        let threads: Vec<_> = (0..2_usize)
            .map(|index| {
                let store = Arc::clone(&store);
                thread::spawn(move || {
                    store
                        .open_session(&worker(index, 1), &opening(index as u64))
                        .unwrap();
                    let selection = Arc::new(Selection {
                        whole: vec![0],
                        ..Selection::default()
                    });
                    pull(&store, &worker(index, 1), &selection).unwrap();
                    push(&store, &worker(index, 1), index as u64, 0, &[-1.0, -1.0]).unwrap();
                })
            })
            .collect();
        let selection = Arc::new(Selection {
            whole: vec![0],
            ..Selection::default()
        });
        let mut values = vec![0.0; 2];
        let mut known = Vec::new();
        let mut look = || {
            let pull = Pull {
                selection: Arc::clone(&selection),
                known: known.clone(),
                ..Pull::default()
            };
            let (pulled, reading) = store.pull(&worker(9, 1), &pull).unwrap();
            if reading.unchanged().is_empty() {
                values = read_all(reading);
            }
            known = pulled.updates;
            values.clone()
        };
        for _ in 0..3 {
            look();
        }
        threads
            .into_iter()
            .for_each(|thread| thread.join().unwrap());
        assert_eq!(look(), [2.0, 2.0]);
    };
    shuttle::check_random(run, ORDERS);
    shuttle::check_pct(run, ORDERS, 3);
}

/// Two steps are left and three tasks request one. Exactly two are granted and applied.
#[test]
fn the_last_step_is_never_overshot() {
    let run = || {
        let store = open(1, 2);
        let threads: Vec<_> = (0..3_usize)
            .map(|index| {
                let store = Arc::clone(&store);
                thread::spawn(move || {
                    let selection = rows(&[0]);
                    store
                        .open_session(&worker(index, 1), &opening(index as u64))
                        .unwrap();
                    let ticket = pull(&store, &worker(index, 1), &selection).unwrap();
                    if ticket == Ticket::Granted {
                        push(&store, &worker(index, 1), index as u64, 0, &[-1.0, -1.0]).unwrap();
                    }
                    ticket
                })
            })
            .collect();
        let tickets: Vec<_> = threads
            .into_iter()
            .map(|thread| thread.join().unwrap())
            .collect();
        assert_eq!(
            tickets
                .iter()
                .filter(|ticket| **ticket == Ticket::Granted)
                .count(),
            2,
            "{tickets:?}"
        );
        assert_eq!(table(&store)[..2], [2.0, 2.0]);
    };
    shuttle::check_random(run, ORDERS);
    shuttle::check_pct(run, ORDERS, 3);
}
