//! What a server remembers of sessions, sequence numbers and batches: taken up from any file, and told again; and then asked,
//! beside a model that remembers everything.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use trainyard_cluster_spec::{Role, Task};
use trainyard_optimizer::OptimizerConfig;
use trainyard_parameter_store::{
    BatchId, Claim, Fault, Guard, Identity, OpenSession, Prepare, Push, PushHeader, RejectedPush,
    Rejection, Selection, SessionMetadata, ShardPosition, State, Store, StoreMetadata, Update,
};
use trainyard_variable::{Access, Initializer, Slice, VariableSpec};

use crate::numbers::Numbers;

const CLUSTER: u128 = 7;

fn task(index: usize) -> Task {
    Task {
        role: Role::Worker,
        index,
    }
}

fn store() -> Store {
    let store = Store::new(0);
    store
        .claim(&Claim {
            cluster_id: CLUSTER,
            epoch: 1,
        })
        .expect("it is nobody's");
    let variable = VariableSpec {
        name: "w".to_owned(),
        shape: vec![1],
        access: Access::Whole,
        initializer: Initializer::Zeros,
        optimizer_group: "sgd".to_owned(),
    };
    let prepare = Prepare {
        variables: vec![variable],
        slices: vec![(
            0,
            Slice {
                variable: 0,
                part: 0,
                rows: 0..1,
                width: 1,
                ps: 0,
            },
        )],
        optimizers: BTreeMap::from([("sgd".to_owned(), OptimizerConfig::sgd(1.0))]),
        seed: 1,
        layout_fingerprint: 9,
        counts_steps: false,
        global_step_max: 0,
        update: Update::Async,
        guard: Guard::default(),
        stores: 1,
        restore: None,
        first_values: None,
    };
    let chief = Identity {
        session: 0,
        ..identity(0, 0)
    };
    store.prepare(&chief, prepare).expect("it fits");
    store.open(&chief).expect("it is prepared");
    store
}

fn identity(index: usize, session: u64) -> Identity {
    Identity {
        cluster_id: CLUSTER,
        epoch: 1,
        task: task(index),
        incarnation: 1,
        session,
    }
}

fn metadata(input: &mut Numbers<'_>) -> StoreMetadata {
    let session = |input: &mut Numbers<'_>, index: usize| {
        let rejection = Rejection {
            fault: Fault::Norm,
            variable: None,
            position: 0,
            bits: 0,
        };
        let rejected = (0..input.below(4)).map(|_| {
            let batch = BatchId {
                pass: 0,
                shard: 0,
                batch: input.wide(),
            };
            RejectedPush {
                seq: input.wide(),
                batch,
                rejection,
            }
        });
        let rejected = rejected.collect();
        let number = input.wide();
        let open = input.below(2) == 1;
        SessionMetadata {
            task: task(index),
            number,
            open,
            highest: input.wide(),
            seen: input.wide(),
            rejected,
        }
    };
    let sessions = (0..input.below(3))
        .map(|index| session(input, index))
        .collect();
    let position = |input: &mut Numbers<'_>, shard: u64| {
        let ahead = (0..input.below(4))
            .map(|_| input.wide()..input.wide())
            .collect();
        ShardPosition {
            shard,
            pass: input.wide(),
            batch: input.wide(),
            ahead,
        }
    };
    let positions = (0..input.below(3))
        .map(|shard| position(input, shard as u64))
        .collect();
    StoreMetadata {
        version: input.wide() >> 1,
        sessions,
        positions,
        ..StoreMetadata::default()
    }
}

/// Asks for pushes, and keeps the number of every one that counted.
fn ask(store: &Store, input: &mut Numbers<'_>) {
    let mut sessions = [0_u64; 3];
    let mut applied = BTreeSet::new();
    let mut used = BTreeSet::new();
    let begun = store.status().version.count();
    let mut counted = 0;
    while !input.is_empty() {
        let index = input.below(3);
        if input.below(5) == 0 {
            let seq = input.wide();
            let next = sessions[index].saturating_add(1 + input.below(3) as u64);
            let opening = OpenSession {
                seq,
                layout_fingerprint: 9,
                data_shard: 0,
            };
            if store.open_session(&identity(index, next), &opening).is_ok() {
                sessions[index] = next;
            }
            continue;
        }
        let seq = input.wide();
        let shard = input.below(2) as u64;
        let batch = input.wide();
        let values = [if input.below(4) == 0 { f32::NAN } else { 1.0 }];
        let batch = BatchId {
            pass: 0,
            shard: 10 + shard,
            batch,
        };
        let selection = Some(Arc::new(Selection {
            whole: vec![0],
            ..Selection::default()
        }));
        let push = Push {
            header: PushHeader {
                seq,
                batch,
                batches: 1,
                pulled_version: 0,
                micro_batch: None,
                optimizer_step: None,
                rejected: None,
            },
            selection,
            gradients: &values[..],
        };
        let key = (index, sessions[index], seq);
        match store.push(&identity(index, sessions[index]), &push) {
            Ok(pushed) if !pushed.duplicate => {
                assert!(used.insert(key), "a number counts once");
                assert!(
                    applied.insert((batch.shard, batch.batch)),
                    "a batch counts once"
                );
                counted += 1;
                assert_eq!(
                    (pushed.version, pushed.rejected.is_some()),
                    (begun + counted, values[0].is_nan())
                );
            }
            Ok(pushed) => {
                used.insert(key);
                assert_eq!(
                    pushed.version,
                    begun + counted,
                    "a duplicate changes nothing"
                );
            }
            Err(_) => assert_eq!(
                store.status().version.count(),
                begun + counted,
                "a refusal changes nothing"
            ),
        }
    }
}

/// Restores a standing, or pushes at random beside the model.
pub fn run(data: &[u8]) {
    let mut input = Numbers(data);
    let first = store();
    if input.below(2) == 1 {
        let given = metadata(&mut input);
        first
            .resume(1, State::Open, &given)
            .expect("it names no slices");
        let told = first.metadata();
        // What was taken up once is told and taken up again without a change.
        let second = store();
        second
            .resume(1, State::Open, &told)
            .expect("it names no slices");
        assert_eq!(second.metadata(), told);
        let _ = first.status();
        // Sessions of a file are not the model's.
        return ask(&store(), &mut input);
    }
    ask(&first, &mut input);
}
