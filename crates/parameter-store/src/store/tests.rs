//! The rules of the store, each driven directly: no network, no clock.

use std::collections::BTreeMap;
use std::sync::Arc;

use trainyard_cluster_spec::{Role, Task, WORKERS_MAX};
use trainyard_optimizer::OptimizerConfig;
use trainyard_variable::{Access, DynamicRows, FirstRows, Initializer, Slice, VariableSpec};

use crate::*;

mod dynamic;
mod first_values;
mod guard;
mod memory;
mod preparing;
mod publication;
mod reading;
mod shared_rows;
mod stripes;
mod synchronous;

const CLUSTER: u128 = 7;
const FINGERPRINT: u64 = 0xfeed;

fn chief(epoch: u64) -> Identity {
    let task = Task {
        role: Role::Chief,
        index: 0,
    };
    Identity {
        cluster_id: CLUSTER,
        epoch,
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
        cluster_id: CLUSTER,
        epoch: 1,
        task,
        incarnation: 2,
        session,
    }
}

/// A first session, whose task reads this data shard.
fn opening(data_shard: u64) -> OpenSession {
    OpenSession {
        seq: 0,
        layout_fingerprint: FINGERPRINT,
        data_shard,
    }
}

fn batch(shard: u64, batch: u64) -> BatchId {
    BatchId {
        pass: 0,
        shard,
        batch,
    }
}

fn spec(name: &str, shape: &[usize], access: Access) -> VariableSpec {
    let initializer = Initializer::Zeros;
    VariableSpec {
        name: name.into(),
        shape: shape.into(),
        access,
        initializer,
        optimizer_group: "sgd".into(),
    }
}

/// A dense vector of 2 and the upper half of a 4 x 2 table, SGD with learning rate 1.
fn prepare(global_step_max: u64) -> Prepare<'static> {
    Prepare {
        variables: vec![
            spec("bias", &[2], Access::Whole),
            spec("table", &[4, 2], Access::Rows),
        ],
        slices: vec![
            (
                0,
                Slice {
                    variable: 0,
                    part: 0,
                    rows: 0..2,
                    width: 1,
                    ps: 0,
                },
            ),
            (
                2,
                Slice {
                    variable: 1,
                    part: 1,
                    rows: 2..4,
                    width: 2,
                    ps: 0,
                },
            ),
        ],
        optimizers: BTreeMap::from([("sgd".to_owned(), OptimizerConfig::sgd(1.0))]),
        seed: 1,
        layout_fingerprint: FINGERPRINT,
        counts_steps: true,
        global_step_max,
        update: Update::Async,
        guard: Guard::default(),
        stores: 2,
        restore: None,
        first_values: None,
    }
}

/// Returns a store that is open to workers.
fn open_prepared(request: Prepare<'_>) -> Store {
    let store = Store::new(0);
    store
        .claim(&Claim {
            cluster_id: CLUSTER,
            epoch: 1,
        })
        .unwrap();
    store.prepare(&chief(1), request).unwrap();
    store.open(&chief(1)).unwrap();
    store
}

fn open_store(global_step_max: u64) -> Store {
    open_prepared(prepare(global_step_max))
}

/// A dense vector and a table of rows of 2, of these sizes, SGD with learning rate 1.
fn prepare_sized(dense: usize, rows: usize) -> Prepare<'static> {
    let mut request = prepare(0);
    request.variables = vec![
        spec("dense", &[dense], Access::Whole),
        spec("table", &[rows, 2], Access::Rows),
    ];
    request.slices = vec![
        (
            0,
            Slice {
                variable: 0,
                part: 0,
                rows: 0..dense,
                width: 1,
                ps: 0,
            },
        ),
        (
            2,
            Slice {
                variable: 1,
                part: 0,
                rows: 0..rows,
                width: 2,
                ps: 0,
            },
        ),
    ];
    request
}

/// Selects slice 0 as a whole, and these rows of slice 2.
fn select(rows: &[u32]) -> Arc<Selection> {
    let row_sets = vec![rows.to_vec()];
    Arc::new(Selection {
        whole: vec![0],
        rows: vec![(2, 0)],
        row_sets,
        ..Selection::default()
    })
}

fn read_all(mut reading: Reading) -> Vec<f32> {
    let mut out = vec![0.0; reading.remaining()];
    assert_eq!(reading.read(&mut out), out.len());
    out
}

fn read(store: &Store, identity: &Identity) -> Vec<f32> {
    let pull = Pull {
        selection: select(&[2, 3]),
        ..Pull::default()
    };
    read_all(store.pull(identity, &pull).unwrap().1)
}

fn reserve(store: &Store, identity: &Identity, seq: u64) -> Ticket {
    let pull = Pull {
        seq,
        reserve_step: true,
        ..Pull::default()
    };
    store.pull(identity, &pull).unwrap().0.ticket
}

/// An asynchronous push, computed from the first values.
fn header(seq: u64, batch: BatchId) -> PushHeader {
    PushHeader {
        seq,
        batch,
        batches: 1,
        pulled_version: 0,
        micro_batch: None,
        optimizer_step: None,
        rejected: None,
    }
}

fn push_of(seq: u64, batch: BatchId, selection: Selection, gradients: &[f32]) -> Push<&[f32]> {
    Push {
        header: header(seq, batch),
        selection: Some(Arc::new(selection)),
        gradients,
    }
}

fn push(
    store: &Store,
    identity: &Identity,
    seq: u64,
    batch: BatchId,
    gradients: &[f32],
) -> Result<Pushed, Error> {
    store.push(
        identity,
        &push_of(seq, batch, Selection::clone(&select(&[3])), gradients),
    )
}

fn step(
    store: &Store,
    identity: &Identity,
    seq: u64,
    batch: BatchId,
    gradients: &[f32],
) -> Result<Pushed, Error> {
    assert_eq!(reserve(store, identity, seq), Ticket::Granted);
    push(store, identity, seq, batch, gradients)
}

#[test]
fn push_updates_whole_slices_and_rows() {
    let store = open_store(0);
    store.open_session(&worker(0, 1), &opening(0)).unwrap();
    let pushed = step(&store, &worker(0, 1), 1, batch(0, 0), &[1.0, 2.0, 3.0, 4.0]).unwrap();
    assert_eq!(
        (pushed.version, pushed.global_step, pushed.duplicate),
        (1, 1, false)
    );
    assert_eq!(
        read(&store, &worker(0, 1)),
        [-1.0, -2.0, 0.0, 0.0, -3.0, -4.0]
    );
}

/// TensorFlow's Adam on sparse gradients changes the whole table at every step.
#[test]
fn a_rule_that_moves_all_rows_moves_those_of_parts_that_a_batch_does_not_name() {
    let adam: OptimizerConfig =
        serde_json::from_str(r#"{"kind": "adam", "learning_rate": 0.1}"#).unwrap();
    let optimizers = BTreeMap::from([("sgd".to_owned(), adam)]);
    let store = open_prepared(Prepare {
        optimizers,
        ..prepare(0)
    });
    store.open_session(&worker(0, 1), &opening(0)).unwrap();
    step(&store, &worker(0, 1), 1, batch(0, 0), &[0.0, 0.0, 1.0, 1.0]).unwrap();
    let before = read(&store, &worker(0, 1));
    assert_eq!(reserve(&store, &worker(0, 1), 2), Ticket::Granted);
    let nothing = Push {
        header: PushHeader {
            pulled_version: 1,
            ..header(2, batch(0, 1))
        },
        selection: Some(Arc::default()),
        gradients: &[][..],
    };
    store.push(&worker(0, 1), &nothing).unwrap();
    let after = read(&store, &worker(0, 1));
    // Row 3 has a first moment, row 2 has none.
    assert!(
        after[4] < before[4] - 0.01 && after[5] < before[5] - 0.01,
        "{before:?} {after:?}"
    );
    assert_eq!(after[2..4], before[2..4]);
}

#[test]
fn repeated_seq_is_a_duplicate_and_changes_nothing() {
    let store = open_store(0);
    store.open_session(&worker(0, 1), &opening(0)).unwrap();
    step(&store, &worker(0, 1), 1, batch(0, 0), &[1.0; 4]).unwrap();
    let again = push(&store, &worker(0, 1), 1, batch(0, 0), &[1.0; 4]).unwrap();
    assert_eq!(
        (again.duplicate, again.version, again.global_step),
        (true, 1, 1)
    );
    assert_eq!(read(&store, &worker(0, 1))[0], -1.0);
}

#[test]
fn repeated_batch_of_another_session_is_a_duplicate() {
    let store = open_store(0);
    store.open_session(&worker(0, 1), &opening(5)).unwrap();
    step(&store, &worker(0, 1), 1, batch(5, 0), &[1.0; 4]).unwrap();
    let next = store.open_session(&worker(0, 2), &opening(5)).unwrap();
    assert_eq!(
        next.batches_applied, 1,
        "the restarted worker goes on where the data was applied"
    );
    let again = step(&store, &worker(0, 2), 1, batch(5, 0), &[1.0; 4]).unwrap();
    assert_eq!((again.duplicate, again.global_step), (true, 1));
}

#[test]
fn sessions_are_of_tasks_that_may_train() {
    let store = open_store(0);
    let of = |role, index| Identity {
        task: Task { role, index },
        ..worker(0, 1)
    };
    for identity in [of(Role::Worker, WORKERS_MAX - 1), of(Role::Chief, 0)] {
        store.open_session(&identity, &opening(0)).unwrap();
    }
    for identity in [
        of(Role::Worker, WORKERS_MAX),
        of(Role::Worker, u32::MAX as usize),
        of(Role::Chief, 1),
        of(Role::Evaluator, 0),
    ] {
        let refused = store.open_session(&identity, &opening(0));
        assert!(matches!(refused, Err(Error::BadRequest(_))), "{refused:?}");
    }
}

#[test]
fn a_request_that_names_more_than_all_slices_is_refused() {
    let store = open_store(0);
    store.open_session(&worker(0, 1), &opening(0)).unwrap();
    let pull = |whole: &[u32]| {
        let selection = Selection {
            whole: whole.to_vec(),
            ..Selection::default()
        };
        let pull = Pull {
            selection: Arc::new(selection),
            ..Pull::default()
        };
        store.pull(&worker(0, 1), &pull).map(|(pulled, _)| pulled)
    };
    pull(&[0]).unwrap();
    let refused = pull(&[0; 3]);
    assert!(matches!(refused, Err(Error::BadRequest(_))), "{refused:?}");
}

#[test]
fn lower_session_is_fenced() {
    let store = open_store(0);
    store.open_session(&worker(0, 2), &opening(0)).unwrap();
    let refused = push(&store, &worker(0, 1), 1, batch(0, 0), &[1.0; 4]);
    assert!(
        matches!(
            refused,
            Err(Error::Fenced {
                current: 2,
                given: 1,
                ..
            })
        ),
        "{refused:?}"
    );
    assert!(matches!(
        store.open_session(&worker(0, 1), &opening(0)),
        Err(Error::Fenced { .. })
    ));
    assert_eq!(read(&store, &worker(0, 2))[0], 0.0);
}

#[test]
fn closed_session_is_fenced_and_returns_its_tickets() {
    let store = open_store(1);
    store.open_session(&worker(0, 1), &opening(0)).unwrap();
    store.open_session(&worker(1, 1), &opening(1)).unwrap();
    assert_eq!(reserve(&store, &worker(0, 1), 1), Ticket::Granted);
    assert_eq!(reserve(&store, &worker(1, 1), 1), Ticket::Wait);
    store
        .close_session(
            &chief(1),
            Task {
                role: Role::Worker,
                index: 0,
            },
            1,
        )
        .unwrap();
    assert!(matches!(
        push(&store, &worker(0, 1), 1, batch(0, 0), &[1.0; 4]),
        Err(Error::Fenced { .. })
    ));
    assert_eq!(reserve(&store, &worker(1, 1), 1), Ticket::Granted);
}

#[test]
fn lower_epoch_is_refused_everywhere() {
    let store = open_store(0);
    store.open_session(&worker(0, 1), &opening(0)).unwrap();
    store
        .claim(&Claim {
            cluster_id: CLUSTER,
            epoch: 2,
        })
        .unwrap();
    let stale = Error::StaleEpoch {
        current: 2,
        given: 1,
    };
    assert_eq!(
        push(&store, &worker(0, 1), 1, batch(0, 0), &[1.0; 4]),
        Err(stale.clone())
    );
    assert_eq!(store.open(&chief(1)), Err(stale.clone()));
    assert_eq!(store.finish(&chief(1)), Err(stale.clone()));
    assert_eq!(store.prepare(&chief(1), prepare(0)), Err(stale.clone()));
    assert_eq!(
        store.snapshot(&chief(1), Basis::Whole).map(|_| ()),
        Err(stale.clone())
    );
    assert_eq!(
        store.claim(&Claim {
            cluster_id: CLUSTER,
            epoch: 1
        }),
        Err(stale)
    );
}

#[test]
fn another_cluster_is_refused() {
    let store = open_store(0);
    let stranger = Identity {
        cluster_id: 8,
        ..worker(0, 1)
    };
    let other = Error::OtherCluster {
        current: CLUSTER,
        given: 8,
    };
    assert_eq!(
        push(&store, &stranger, 1, batch(0, 0), &[1.0; 4]),
        Err(other.clone())
    );
    assert_eq!(
        store.claim(&Claim {
            cluster_id: 8,
            epoch: 9
        }),
        Err(other)
    );
}

#[test]
fn another_layout_is_refused() {
    let store = open_store(0);
    let refused = store.open_session(
        &worker(0, 1),
        &OpenSession {
            layout_fingerprint: 1,
            ..opening(0)
        },
    );
    assert_eq!(
        refused,
        Err(Error::OtherLayout {
            current: FINGERPRINT,
            given: 1
        })
    );
}

#[test]
fn sequence_gap_is_refused() {
    let store = open_store(0);
    store.open_session(&worker(0, 1), &opening(0)).unwrap();
    let refused = push(&store, &worker(0, 1), 65, batch(0, 0), &[1.0; 4]);
    assert_eq!(
        refused,
        Err(Error::SequenceGap {
            most: 64,
            given: 65
        })
    );
}

#[test]
fn a_pull_of_what_is_not_there_gives_its_ticket_back() {
    let store = open_store(1);
    store.open_session(&worker(0, 1), &opening(0)).unwrap();
    store.open_session(&worker(1, 1), &opening(1)).unwrap();
    let selection = Arc::new(Selection {
        whole: vec![9],
        ..Selection::default()
    });
    let bad = Pull {
        seq: 1,
        selection,
        reserve_step: true,
        ..Pull::default()
    };
    assert!(matches!(
        store.pull(&worker(0, 1), &bad),
        Err(Error::BadRequest(_))
    ));
    assert_eq!(
        reserve(&store, &worker(1, 1), 1),
        Ticket::Granted,
        "nobody else has the last step"
    );
}

#[test]
fn bad_rows_and_lengths_change_nothing() {
    let store = open_store(0);
    store.open_session(&worker(0, 1), &opening(0)).unwrap();
    let identity = worker(0, 1);
    reserve(&store, &identity, 1);
    let good = Selection::clone(&select(&[3]));
    let of_rows = |row_sets: &[&[u32]]| Selection {
        row_sets: row_sets.iter().map(|rows| rows.to_vec()).collect(),
        ..good.clone()
    };
    let bad = [
        (
            Selection {
                whole: vec![9],
                ..good.clone()
            },
            4,
        ),
        (
            Selection {
                rows: vec![(2, 1)],
                ..good.clone()
            },
            4,
        ),
        (of_rows(&[&[1]]), 4),
        (of_rows(&[&[4]]), 4),
        (of_rows(&[&[3, 3]]), 6),
        (good.clone(), 3),
        (good.clone(), 5),
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
    assert!(
        read(&store, &worker(0, 1))
            .iter()
            .all(|&value| value == 0.0)
    );
    let good = push_of(1, batch(0, 0), good, &[1.0; 4]);
    assert!(
        !store.push(&identity, &good).unwrap().duplicate,
        "the good push still counts"
    );
}

#[test]
fn the_last_step_is_never_overshot() {
    let store = open_store(3);
    for index in 0..3 {
        store
            .open_session(&worker(index, 1), &opening(index as u64))
            .unwrap();
    }
    step(&store, &worker(0, 1), 1, batch(0, 0), &[0.0; 4]).unwrap();
    assert_eq!(reserve(&store, &worker(0, 1), 2), Ticket::Granted);
    assert_eq!(
        reserve(&store, &worker(0, 1), 2),
        Ticket::Granted,
        "asking again is the same ticket"
    );
    assert_eq!(reserve(&store, &worker(1, 1), 1), Ticket::Granted);
    assert_eq!(reserve(&store, &worker(2, 1), 1), Ticket::Wait);
    let refused = push(&store, &worker(2, 1), 1, batch(2, 0), &[0.0; 4]);
    assert!(
        matches!(refused, Err(Error::NoTicket { .. })),
        "{refused:?}"
    );
    push(&store, &worker(0, 1), 2, batch(0, 1), &[0.0; 4]).unwrap();
    push(&store, &worker(1, 1), 1, batch(1, 0), &[0.0; 4]).unwrap();
    assert_eq!(reserve(&store, &worker(2, 1), 1), Ticket::Finished);
    assert_eq!(store.status().global_step, 3);
}

#[test]
fn nobody_trains_before_open_or_after_the_end() {
    let store = Store::new(0);
    let identity = worker(0, 1);
    let early = store.open_session(&identity, &opening(0));
    assert!(matches!(early, Err(Error::NotReady(_))), "{early:?}");
    store
        .claim(&Claim {
            cluster_id: CLUSTER,
            epoch: 1,
        })
        .unwrap();
    assert!(matches!(store.open(&chief(1)), Err(Error::NotReady(_))));
    store.prepare(&chief(1), prepare(0)).unwrap();
    assert!(matches!(
        store.open_session(&identity, &opening(0)),
        Err(Error::NotReady(_))
    ));
    store.open(&chief(1)).unwrap();
    store.open_session(&identity, &opening(0)).unwrap();
    store.finish(&chief(1)).unwrap();
    assert_eq!(
        push(&store, &worker(0, 1), 1, batch(0, 0), &[1.0; 4]),
        Err(Error::Ended)
    );
}

/// The contents of a snapshot, for comparing and restoring.
#[derive(Debug, Clone, PartialEq)]
struct Copy {
    version: u64,
    global_step: u64,
    positions: Vec<ShardPosition>,
    /// By variable.
    slices: Vec<(String, SliceValues)>,
    /// By variable, with the names of slots.
    tables: Vec<(String, Vec<&'static str>, DynamicRows)>,
}

impl Copy {
    fn of(snapshot: Snapshot) -> Self {
        let slices = snapshot.slices.into_iter();
        let slices = slices.map(|slice| (slice.variable.clone(), slice.read_all()));
        let tables = snapshot.tables.into_iter();
        let tables = tables.map(|table| {
            (
                table.variable.clone(),
                table.slot_names.clone(),
                rows_of(table),
            )
        });
        Self {
            version: snapshot.version,
            global_step: snapshot.global_step,
            positions: snapshot.positions.clone(),
            slices: slices.collect(),
            tables: tables.collect(),
        }
    }
}

/// Returns the rows of a table that is small enough to be one part.
fn rows_of(table: SnapshotTable) -> DynamicRows {
    let mut parts = Vec::new();
    let read: Result<(), ()> = table.into_rows().read(&mut |part| {
        parts.push(part);
        Ok(())
    });
    read.expect("it is all taken");
    assert_eq!(parts.len(), 1);
    parts.remove(0)
}

fn copy(store: &Store) -> Copy {
    Copy::of(store.snapshot(&chief(1), Basis::Whole).unwrap())
}

struct Copied(Copy);

impl TensorSource for Copied {
    fn read(
        &self,
        variable: &str,
        slot: Option<&str>,
        rows: std::ops::Range<usize>,
        out: &mut [f32],
    ) -> Result<(), String> {
        let (_, slice) = self
            .0
            .slices
            .iter()
            .find(|(name, _)| name == variable)
            .ok_or("no such variable")?;
        assert_eq!(slot, None, "SGD has no slots");
        assert!(!rows.is_empty());
        out.copy_from_slice(&slice.values);
        Ok(())
    }

    fn held(
        &self,
        _: &str,
        rows: std::ops::Range<usize>,
    ) -> Result<Vec<std::ops::Range<usize>>, String> {
        Ok(vec![rows])
    }

    fn read_held(
        &self,
        variable: &str,
        slot: Option<&str>,
        rows: std::ops::Range<usize>,
        out: &mut [f32],
    ) -> Result<(), String> {
        self.read(variable, slot, rows, out)
    }

    fn first_rows(&self, _: &str) -> Option<FirstRows> {
        None
    }

    fn read_dynamic<'a>(
        &'a self,
        variable: &'a str,
        slots: &'a [&'a str],
        ids: std::ops::Range<u128>,
    ) -> Result<Lots<'a>, String> {
        let found = self.0.tables.iter().find(|(name, ..)| name == variable);
        let (_, slot_names, rows) = found.ok_or("no such table")?;
        assert_eq!((slot_names.as_slice(), ids), (slots, 0..1 << 64));
        Ok(Box::new(std::iter::once(Ok(rows.clone()))))
    }
}

/// Returns a store that continues from a copy.
fn restored(from: &Copy, request: Prepare<'_>) -> Store {
    let source = Copied(from.clone());
    let positions = from.positions.clone();
    let Copy {
        version,
        global_step,
        ..
    } = *from;
    let restore = Some(Restore {
        source: &source,
        version: version_of(request.update, version),
        global_step,
        positions,
    });
    open_prepared(Prepare { restore, ..request })
}

#[test]
fn restored_store_goes_on_with_values_counters_and_data() {
    let store = open_store(0);
    store.open_session(&worker(0, 1), &opening(4)).unwrap();
    step(&store, &worker(0, 1), 1, batch(4, 0), &[1.0, 2.0, 3.0, 4.0]).unwrap();
    let snapshot = copy(&store);
    let restored = restored(&snapshot, prepare(0));
    assert_eq!(
        restored
            .open_session(&worker(0, 1), &opening(4))
            .unwrap()
            .batches_applied,
        1
    );
    assert_eq!(copy(&restored), snapshot);
    let again = step(&restored, &worker(0, 1), 1, batch(4, 0), &[1.0; 4]).unwrap();
    assert!(
        again.duplicate,
        "a batch inside the checkpoint is not applied again"
    );
}

/// Eight workers push ones to the same rows, every push twice. The sum reveals each lost or repeated update.
#[test]
fn ledger_is_exact_under_concurrent_workers_and_repeated_pushes() {
    let store = Arc::new(open_store(0));
    let workers = 8;
    let pushes = 200;
    std::thread::scope(|scope| {
        for index in 0..workers {
            let store = Arc::clone(&store);
            scope.spawn(move || {
                let shard = index as u64;
                store
                    .open_session(&worker(index, 1), &opening(shard))
                    .unwrap();
                for seq in 1..=pushes {
                    let identity = worker(index, 1);
                    step(&store, &identity, seq, batch(shard, seq - 1), &[1.0; 4]).unwrap();
                    assert!(
                        push(&store, &identity, seq, batch(shard, seq - 1), &[1.0; 4])
                            .unwrap()
                            .duplicate
                    );
                }
            });
        }
    });
    let total = -((workers as u64 * pushes) as f32);
    assert_eq!(
        read(&store, &worker(0, 1)),
        [total, total, 0.0, 0.0, total, total]
    );
    assert_eq!(store.status().global_step, workers as u64 * pushes);
}

#[test]
fn snapshot_sees_each_push_whole_or_not_at_all() {
    let store = Arc::new(open_store(0));
    store.open_session(&worker(0, 1), &opening(0)).unwrap();
    std::thread::scope(|scope| {
        let writer = Arc::clone(&store);
        scope.spawn(move || {
            for seq in 1..=500 {
                step(&writer, &worker(0, 1), seq, batch(0, seq - 1), &[1.0; 4]).unwrap();
            }
        });
        for _ in 0..50 {
            let snapshot = store.snapshot(&chief(1), Basis::Whole).unwrap();
            let expected = -(snapshot.version as f32);
            // Pushes continue between the instant of the snapshot and its reading.
            let mut slices = snapshot.slices.into_iter().map(SnapshotSlice::read_all);
            let mut next = || slices.next().expect("a slice").values;
            assert_eq!(next(), [expected; 2]);
            assert_eq!(next()[2..], [expected; 2]);
        }
    });
}

#[test]
fn a_snapshot_is_of_its_instant_and_there_is_one_at_a_time() {
    for kind in ["sgd", "adagrad", "adam"] {
        let rule = serde_json::json!({"kind": kind, "learning_rate": 1.0});
        let rule: OptimizerConfig = serde_json::from_value(rule).unwrap();
        let optimizers = BTreeMap::from([("sgd".to_owned(), rule)]);
        let store = open_prepared(Prepare {
            optimizers,
            ..prepare(0)
        });
        store.open_session(&worker(0, 1), &opening(0)).unwrap();
        step(&store, &worker(0, 1), 1, batch(0, 0), &[1.0, 2.0, 3.0, 4.0]).unwrap();
        let then = copy(&store);
        let snapshot = store.snapshot(&chief(1), Basis::Whole).unwrap();
        let refused = store.snapshot(&chief(1), Basis::Whole).map(|_| ());
        assert_eq!(
            refused,
            Err(Error::NotReady("it writes another checkpoint"))
        );
        for seq in 2..5 {
            step(&store, &worker(0, 1), seq, batch(0, seq - 1), &[1.0; 4]).unwrap();
        }
        assert_eq!(Copy::of(snapshot), then, "{kind}");
        let now = copy(&store);
        assert!(now.version == 4 && now.slices != then.slices, "{kind}");
    }
}

#[test]
fn the_store_knows_whether_its_latest_checkpoint_holds_every_push() {
    let store = open_store(0);
    assert_eq!(store.status().saved_version, None);
    store.open_session(&worker(0, 1), &opening(0)).unwrap();
    step(&store, &worker(0, 1), 1, batch(0, 0), &[1.0; 4]).unwrap();
    store.saved(1, 1);
    assert_eq!(
        store.status().saved_version,
        Some(store.status().version.count())
    );
    store.saved(1, 9);
    assert_eq!(
        store.status().saved_version,
        Some(1),
        "it has no such version"
    );
    step(&store, &worker(0, 1), 2, batch(0, 1), &[1.0; 4]).unwrap();
    assert!(store.status().saved_version < Some(store.status().version.count()));
}

#[test]
fn a_server_that_ends_behind_its_last_checkpoint_takes_no_push_in_any_more() {
    let store = open_store(0);
    store.open_session(&worker(0, 1), &opening(0)).unwrap();
    let pushed = step(&store, &worker(0, 1), 1, batch(0, 0), &[1.0; 4]).unwrap();
    assert!(!store.close_if_saved(), "nothing is saved");
    store.saved(1, 1);
    assert!(store.close_if_saved());
    let refused = step(&store, &worker(0, 1), 2, batch(0, 1), &[1.0; 4]);
    assert_eq!(refused, Err(Error::NotReady("it is about to end")));
    let again = push(&store, &worker(0, 1), 1, batch(0, 0), &[1.0; 4]).unwrap();
    assert!(
        again.duplicate && again.version == pushed.version,
        "what counts is still answered for"
    );
}
