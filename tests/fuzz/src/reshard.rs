//! A checkpoint of any number of servers, restored on any other: each value, slot and row has the same bits.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use trainyard_checkpoint::{Checkpoint, Manifest, ShardRecord, begin, commit};
use trainyard_cluster_spec::{Role, Task};
use trainyard_optimizer::OptimizerConfig;
use trainyard_parameter_server::{LocalServer, Plan, Provenance, SnapshotRequest};
use trainyard_parameter_store::{
    BatchId, Claim, Guard, Identity, OpenSession, Push, PushHeader, Selection, Update,
};
use trainyard_variable::{
    Access, DynamicTable, Initializer, Layout, Partitioner, Placement, VariableSpec,
};

use crate::numbers::Numbers;
use crate::scratch::{self, block_on};

pub(crate) const CLUSTER: u128 = 7;
const SERVERS_MAX: usize = 12;

pub(crate) fn variables(input: &mut Numbers<'_>) -> Vec<VariableSpec> {
    let count = 1 + input.below(4);
    let spec = |input: &mut Numbers<'_>, place: usize| {
        let kind = input.below(3);
        let rows = 1 + input.below(40);
        let width = 1 + input.below(4);
        let (shape, access) = match kind {
            0 => (vec![rows, width], Access::Whole),
            1 => (vec![rows, width], Access::Rows),
            _ => (vec![rows, width], Access::Dynamic(DynamicTable::KEEP_ALL)),
        };
        VariableSpec {
            name: format!("v{place}"),
            shape,
            access,
            initializer: Initializer::Uniform {
                low: -1.0,
                high: 1.0,
            },
            optimizer_group: if input.below(2) == 0 {
                "sgd"
            } else {
                "adagrad"
            }
            .to_owned(),
        }
    };
    (0..count).map(|place| spec(input, place)).collect()
}

pub(crate) fn plan(variables: &[VariableSpec], servers: usize, input: &mut Numbers<'_>) -> Plan {
    let partitioner = match input.below(3) {
        0 => Partitioner::Fixed {
            num_shards: 1 + input.below(SERVERS_MAX),
        },
        1 => Partitioner::MinSize {
            min_shard_bytes: 1 + input.below(200),
            max_shards: None,
        },
        _ => Partitioner::MaxSize {
            max_shard_bytes: 4 + input.below(200),
            max_shards: None,
        },
    };
    let placement = if input.below(2) == 0 {
        Placement::Greedy
    } else {
        Placement::RoundRobin
    };
    let layout = Layout::new(variables, partitioner, placement, servers);
    Plan {
        fingerprint: layout.fingerprint(variables),
        variables: variables.to_vec(),
        layout,
        optimizers: BTreeMap::from([
            ("sgd".to_owned(), OptimizerConfig::sgd(0.5)),
            ("adagrad".to_owned(), OptimizerConfig::adagrad(0.5)),
        ]),
        seed: 3,
        global_step_max: 0,
        update: Update::Async,
        guard: Guard::default(),
        hybrid: false,
        checkpoint: None,
        warm_start: None,
        settings: 0,
        provenance: Provenance::default(),
        forget_positions: false,
    }
}

pub(crate) fn identity(role: Role, session: u64) -> Identity {
    let task = Task { role, index: 0 };
    Identity {
        cluster_id: CLUSTER,
        epoch: 1,
        task,
        incarnation: 1,
        session,
    }
}

/// Servers that hold a plan.
pub(crate) fn servers(plan: &Plan, count: usize) -> Vec<LocalServer> {
    let prepared = |ps: usize| {
        let shard = LocalServer::new(ps, count, 1, 1);
        shard
            .store()
            .claim(&Claim {
                cluster_id: CLUSTER,
                epoch: 1,
            })
            .expect("it is nobody's");
        let slices = plan
            .layout
            .of_ps(ps)
            .map(|(number, slice)| (number as u32, slice.clone()))
            .collect();
        shard
            .prepare_now(&identity(Role::Chief, 0), plan.clone(), ps, slices)
            .expect("it fits");
        shard
    };
    (0..count).map(prepared).collect()
}

/// Pushes what the input says to every slice of a server that has applied `done` pushes. Returns how many it has applied
/// then.
pub(crate) fn train(
    plan: &Plan,
    shard: &LocalServer,
    ps: usize,
    input: &mut Numbers<'_>,
    done: u64,
) -> u64 {
    let store = shard.store();
    if done == 0 {
        let opening = OpenSession {
            seq: 0,
            layout_fingerprint: plan.fingerprint,
            data_shard: 0,
        };
        store
            .open(&identity(Role::Chief, 0))
            .expect("it is prepared");
        store
            .open_session(&identity(Role::Worker, 1), &opening)
            .expect("it is open");
    }
    let last = done + 1 + input.below(3) as u64;
    for seq in done + 1..=last {
        let mut selection = Selection::default();
        let mut row_values = 0;
        let mut id_values = 0;
        let mut values = 0;
        for (number, slice) in plan.layout.of_ps(ps) {
            let number = number as u32;
            let spec = &plan.variables[slice.variable];
            match spec.access {
                Access::Whole => {
                    selection.whole.push(number);
                    values += slice.len();
                }
                Access::Rows => {
                    let rows: Vec<u32> = slice
                        .rows
                        .clone()
                        .filter(|_| input.below(2) == 0)
                        .map(|row| row as u32)
                        .collect();
                    row_values += rows.len() * slice.width;
                    selection.rows.push((number, selection.row_sets.len()));
                    selection.row_sets.push(rows);
                }
                Access::Dynamic(_) => {
                    let ids = slice.ids(spec.rows());
                    let step = ((ids.end - ids.start) / 17).max(1);
                    let named = (0..17_u128)
                        .map(|place| ids.start + place * step)
                        .filter(|id| *id < ids.end);
                    let named: Vec<u64> = named
                        .filter(|_| input.below(3) == 0)
                        .map(|id| id as u64)
                        .collect();
                    id_values += named.len() * slice.width;
                    selection.ids.push((number, selection.id_sets.len()));
                    selection.id_sets.push(named);
                }
            }
        }
        let gradients: Vec<f32> = (0..values + row_values + id_values)
            .map(|_| f32::from(input.byte()) / 64.0 - 2.0)
            .collect();
        let identity = identity(Role::Worker, 1);
        let ticket = store.reserve_again(identity.step(seq));
        ticket.expect("the session is open");
        let push = Push {
            header: PushHeader {
                seq,
                batch: BatchId {
                    pass: 0,
                    shard: 0,
                    batch: seq - 1,
                },
                batches: 1,
                pulled_version: 0,
                micro_batch: None,
                optimizer_step: None,
                rejected: None,
            },
            selection: Some(Arc::new(selection)),
            gradients: &gradients[..],
        };
        assert!(!store.push(&identity, &push).expect("it fits").duplicate);
    }
    last
}

fn save(plan: &Plan, shards: &[LocalServer], model_dir: &Path, step: u64) -> PathBuf {
    let folder = begin(model_dir, step, "fuzz", 0).expect("there is room");
    let mut manifest = Manifest::new(format!("{CLUSTER:032x}"), 1, step, 0);
    for shard in shards {
        let saved = block_on(LocalServer::save(
            shard,
            identity(Role::Chief, 0),
            &folder,
            SnapshotRequest::default(),
        ));
        let record: ShardRecord =
            serde_json::from_str(&saved.expect("it is written").record).expect("a record");
        manifest.shards.push(record);
    }
    (manifest.num_ps, manifest.seed) = (shards.len(), plan.seed);
    (manifest.variables, manifest.optimizers) = (plan.variables.clone(), plan.optimizers.clone());
    commit(model_dir, &folder, &manifest)
        .expect("it is whole")
        .path()
        .to_owned()
}

/// Everything of a checkpoint, whoever has written which part of it.
pub(crate) fn bits(checkpoint: &Checkpoint) -> Vec<String> {
    checkpoint.verify().expect("it is whole");
    let manifest = checkpoint.manifest();
    let mut all = Vec::new();
    for spec in &manifest.variables {
        let slots = manifest.optimizers[&spec.optimizer_group].slots();
        let names: Vec<&str> = slots.iter().map(|slot| slot.name).collect();
        if spec.dynamic().is_some() {
            let mut rows = checkpoint
                .read_dynamic(&spec.name, &names, 0..u128::MAX)
                .expect("it is there");
            // Which server has waited for how long is no part of it.
            rows.idle.clear();
            all.push(format!("{:?}", rows));
            continue;
        }
        for slot in std::iter::once(None).chain(names.into_iter().map(Some)) {
            let mut values = vec![0.0; spec.shape.iter().product()];
            checkpoint
                .read_rows(&spec.name, slot, 0..spec.shape[0], &mut values)
                .expect("it is there");
            all.push(format!(
                "{:?}",
                values
                    .iter()
                    .map(|value| value.to_bits())
                    .collect::<Vec<_>>()
            ));
        }
    }
    all
}

/// Trains, saves, restores on another number of servers and saves again.
pub fn run(data: &[u8]) {
    let mut input = Numbers(data);
    let scratch = scratch::folder();
    let model_dir = scratch.path().join("model");
    let variables = variables(&mut input);
    let from = 1 + input.below(SERVERS_MAX);
    let to = 1 + input.below(SERVERS_MAX);
    let first = plan(&variables, from, &mut input);
    let shards = servers(&first, from);
    shards.iter().enumerate().for_each(|(ps, shard)| {
        train(&first, shard, ps, &mut input, 0);
    });
    let path = save(&first, &shards, &model_dir, 1);
    let before = bits(&Checkpoint::open(&path).expect("it is committed"));
    let second = Plan {
        checkpoint: Some(path),
        ..plan(&variables, to, &mut input)
    };
    let again = save(&second, &servers(&second, to), &model_dir, 2);
    let after = bits(&Checkpoint::open(&again).expect("it is committed"));
    assert_eq!(before, after, "{from} servers, then {to}");
}
