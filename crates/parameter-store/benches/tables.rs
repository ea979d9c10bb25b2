//! Microseconds of a pull and a push of rows, by number and by id: `cargo bench -p trainyard-parameter-store`.
#![expect(
    clippy::disallowed_types,
    reason = "a benchmark measures the time of the machine"
)]

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;

use trainyard_cluster_spec::{Role, Task};
use trainyard_optimizer::OptimizerConfig;
use trainyard_parameter_store::{
    BatchId, Claim, Guard, Identity, OpenSession, Prepare, Pull, Push, PushHeader, Selection,
    Store, Update,
};
use trainyard_variable::{Access, DynamicTable, Initializer, Slice, VariableSpec};

/// Rows of the table.
const ROWS: usize = 1_000_000;
/// Rows of a batch.
const BATCH: u64 = 2_000;
/// Values of a row.
const WIDTH: usize = 16;

fn identity(role: Role) -> Identity {
    let session = u64::from(role == Role::Worker);
    Identity {
        cluster_id: 1,
        epoch: 1,
        task: Task { role, index: 0 },
        incarnation: 1,
        session,
    }
}

fn open(access: Access) -> Store {
    let store = Store::new(0);
    let spec = VariableSpec {
        name: "dnn/user_embedding/embedding_weights".into(),
        shape: vec![ROWS, WIDTH],
        access,
        initializer: Initializer::TruncatedNormal { stddev: 0.25 },
        optimizer_group: "dnn".into(),
    };
    let prepare = Prepare {
        variables: vec![spec],
        slices: vec![(
            0,
            Slice {
                variable: 0,
                part: 0,
                rows: 0..ROWS,
                width: WIDTH,
                ps: 0,
            },
        )],
        optimizers: BTreeMap::from([("dnn".to_owned(), OptimizerConfig::adagrad(0.05))]),
        seed: 1,
        layout_fingerprint: 1,
        counts_steps: true,
        global_step_max: 0,
        update: Update::Async,
        guard: Guard::default(),
        stores: 2,
        restore: None,
        first_values: None,
    };
    let chief = identity(Role::Chief);
    store
        .claim(&Claim {
            cluster_id: 1,
            epoch: 1,
        })
        .expect("claimed");
    store.prepare(&chief, prepare).expect("prepared");
    store.open(&chief).expect("open");
    let opening = OpenSession {
        seq: 0,
        layout_fingerprint: 1,
        data_shard: 0,
    };
    store
        .open_session(&identity(Role::Worker), &opening)
        .expect("a session");
    store
}

/// Returns the numbers of a batch, ascending. Rows use them directly, ids use them spread out.
fn numbers(batch: u64, all: u64) -> Vec<u64> {
    let mut numbers: Vec<u64> = (0..BATCH)
        .map(|row| hash(batch * BATCH + row) % all)
        .collect();
    numbers.sort_unstable();
    numbers.dedup();
    numbers
}

fn hash(number: u64) -> u64 {
    let mixed = (number ^ (number >> 31)).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    (mixed ^ (mixed >> 29)).wrapping_mul(0xBF58_476D_1CE4_E5B9)
}

fn main() {
    let shared = ROWS as u64;
    let forgetful = DynamicTable {
        expire_after_steps: Some(200),
        ..DynamicTable::KEEP_ALL
    };
    let picky = DynamicTable {
        admit_after: 3,
        ..DynamicTable::KEEP_ALL
    };
    for (what, access, all) in [
        ("rows by number", Access::Rows, shared),
        (
            "ids, all with room",
            Access::Dynamic(DynamicTable::KEEP_ALL),
            shared,
        ),
        (
            "ids, ten times the room",
            Access::Dynamic(DynamicTable::KEEP_ALL),
            shared * 10,
        ),
        ("ids, third sighting", Access::Dynamic(picky), shared),
        ("ids, expiring", Access::Dynamic(forgetful), shared),
    ] {
        let store = open(access);
        let steps = 1500_u64;
        let mut seconds = [0.0; 2];
        let mut values = Vec::new();
        for step in 0..steps {
            let numbers = numbers(step, all);
            let mut selection = Selection::default();
            if let Access::Dynamic(_) = access {
                let mut ids: Vec<u64> = numbers.iter().map(|number| hash(*number)).collect();
                ids.sort_unstable();
                (selection.ids, selection.id_sets) = (vec![(0, 0)], vec![ids]);
            } else {
                let rows = numbers.iter().map(|number| *number as u32).collect();
                (selection.rows, selection.row_sets) = (vec![(0, 0)], vec![rows]);
            }
            let pull = Pull {
                seq: step + 1,
                selection: Arc::new(selection),
                known: Vec::new(),
                reserve_step: true,
                ..Pull::default()
            };
            let worker = identity(Role::Worker);
            let started = Instant::now();
            let (_, mut reading) = store.pull(&worker, &pull).expect("a pull");
            values.resize(reading.remaining(), 0.0);
            reading.read(&mut values);
            let pulled = Instant::now();
            let batch = BatchId {
                pass: 0,
                shard: 0,
                batch: step,
            };
            let push = Push {
                header: PushHeader {
                    seq: step + 1,
                    batch,
                    batches: 1,
                    pulled_version: step,
                    micro_batch: None,
                    optimizer_step: None,
                    rejected: None,
                },
                selection: None,
                gradients: &values[..],
            };
            store.push(&worker, &push).expect("a push");
            // The first steps fill the table.
            if step >= 1000 {
                seconds[0] += (pulled - started).as_secs_f64();
                seconds[1] += pulled.elapsed().as_secs_f64();
            }
        }
        let [pull, push] = seconds.map(|seconds| seconds * 1e6 / (steps - 1000) as f64);
        let rows = store
            .status()
            .dynamic
            .first()
            .map_or(ROWS as u64, |table| table.rows);
        println!("{what:24} pull {pull:7.0} us, push {push:7.0} us, {rows} rows");
    }
}
