//! Incremental checkpoints hold the same bits as whole ones of the same instant, whatever was trained between them, and
//! restore on any number of servers.

use std::path::Path;

use trainyard_checkpoint::{Bases, Checkpoint, Manifest, ShardRecord, abandon, begin, commit};
use trainyard_cluster_spec::Role;
use trainyard_parameter_server::{LocalServer, Plan, SnapshotPurpose, SnapshotRequest};

use crate::numbers::Numbers;
use crate::reshard::{self, CLUSTER, identity, plan, servers, train, variables};
use crate::scratch::{self, block_on};

const SERVERS_MAX: usize = 4;
const CHECKPOINTS_MAX: usize = 24;

/// Writes the parts of a checkpoint, and returns its manifest.
fn write(plan: &Plan, shards: &[LocalServer], folder: &Path, step: u64, bases: &Bases) -> Manifest {
    let mut manifest = Manifest::new(format!("{CLUSTER:032x}"), 1, step, 0);
    for (ps, shard) in shards.iter().enumerate() {
        let at = SnapshotRequest {
            step: None,
            base: bases.name_for(ps),
            purpose: SnapshotPurpose::Checkpoint,
        };
        let saved = block_on(shard.save(identity(Role::Chief, 0), folder, at));
        let record: ShardRecord =
            serde_json::from_str(&saved.expect("it is written").record).expect("a record");
        manifest.shards.push(record);
    }
    (manifest.num_ps, manifest.seed) = (shards.len(), plan.seed);
    (manifest.variables, manifest.optimizers) = (plan.variables.clone(), plan.optimizers.clone());
    manifest
}

/// Returns everything that a checkpoint holds, but for seconds, which the clock of the machine gives.
fn bits(checkpoint: &Checkpoint) -> Vec<String> {
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
            assert_eq!(rows.ids.len(), checkpoint.rows_used(&spec.name));
            rows.idle.iter_mut().for_each(|idle| idle.secs = 0);
            rows.candidates.iter_mut().for_each(|id| id.idle.secs = 0);
            all.push(format!("{rows:?}"));
            continue;
        }
        let held = checkpoint
            .held(&spec.name, 0..spec.rows())
            .expect("it is there");
        for slot in std::iter::once(None).chain(names.into_iter().map(Some)) {
            let mut values = vec![0.0_f32; spec.len()];
            checkpoint
                .read_rows(&spec.name, slot, 0..spec.rows(), &mut values)
                .expect("it is there");
            let width = spec.width();
            let rows = held.iter().map(std::ops::Range::len).sum::<usize>();
            let mut dense = vec![0.0_f32; rows * width];
            checkpoint
                .read_held(&spec.name, slot, 0..spec.rows(), &mut dense)
                .expect("it is there");
            let of_rows = held
                .iter()
                .flat_map(|run| &values[run.start * width..run.end * width]);
            assert!(
                dense
                    .iter()
                    .map(|value| value.to_bits())
                    .eq(of_rows.map(|value| value.to_bits()))
            );
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

/// Trains and saves in turn: increments, whole checkpoints of the same instant, and checkpoints that are never committed.
pub fn run(data: &[u8]) {
    let mut input = Numbers(data);
    let scratch = scratch::folder();
    let model_dir = scratch.path().join("model");
    let apart = scratch.path().join("whole");
    let variables = variables(&mut input);
    let from = 1 + input.below(SERVERS_MAX);
    let to = 1 + input.below(SERVERS_MAX);
    let first = plan(&variables, from, &mut input);
    let shards = servers(&first, from);
    let mut done = vec![0; from];
    let mut bases = Bases::none_yet();
    for step in 1..=1 + input.below(CHECKPOINTS_MAX) as u64 {
        for (ps, shard) in shards.iter().enumerate() {
            if done[ps] == 0 || input.below(4) > 0 {
                done[ps] = train(&first, shard, ps, &mut input, done[ps]);
            }
        }
        let folder = begin(&model_dir, step, "fuzz", 0).expect("there is room");
        let mut manifest = write(&first, &shards, &folder, step, &bases);
        if input.below(4) == 0 {
            abandon(&folder);
            continue;
        }
        bases.link(&mut manifest, &folder).expect("there are links");
        let checkpoint = commit(&model_dir, &folder, &manifest).expect("it is whole");
        bases = bases.after(&manifest, checkpoint.path());
        let folder = begin(&apart, step, "fuzz", 0).expect("there is room");
        let whole = write(&first, &shards, &folder, step, &Bases::without_links());
        let whole = commit(&apart, &folder, &whole).expect("it is whole");
        let expected = bits(&whole);
        assert_eq!(
            bits(&checkpoint),
            expected,
            "checkpoint {step} of {from} servers"
        );
        let second = Plan {
            checkpoint: Some(checkpoint.path().to_owned()),
            ..plan(&variables, to, &mut input)
        };
        let folder = begin(&apart, step, "fuzz", 0).expect("there is room");
        let again = write(
            &second,
            &servers(&second, to),
            &folder,
            1000 + step,
            &Bases::without_links(),
        );
        let again = commit(&apart, &folder, &again).expect("it is whole");
        let is_dynamic = variables.iter().any(|spec| spec.dynamic().is_some());
        // Fewer servers may hold fewer rows of a range of ids.
        if from == to || !is_dynamic {
            let restored = reshard::bits(&again);
            assert_eq!(
                restored,
                reshard::bits(&whole),
                "restored from checkpoint {step} on {to} servers"
            );
        }
    }
}
