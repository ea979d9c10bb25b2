//! Parameters in every worker: the copies stay equal, whoever dies.

use rustix::process::Signal;
use trainyard_checkpoint::{Checkpoint, Dtype};
use trainyard_tests::{Program, TestCluster};

use crate::end_to_end::LIMIT;

/// 12,000 rows in two passes of 750 batches of 16; three tasks train, so that a pass is 250 steps.
const STEPS: u64 = 2 * 250;
const MIRRORED: [&str; 2] = ["--set", "strategy.kind=\"multi_worker_mirrored\""];

/// A chief, two workers and so many servers, with a job that lasts a moment.
fn cluster(servers: usize) -> TestCluster {
    TestCluster::new(servers, 2, 12_000, "")
}

fn start(cluster: &TestCluster, more: &[&str]) -> [Program; 3] {
    [
        cluster.start("chief", 0, more),
        cluster.start("worker", 0, more),
        cluster.start("worker", 1, more),
    ]
}

fn end(programs: impl IntoIterator<Item = Program>) {
    for program in programs {
        let ended = program.wait(LIMIT);
        assert_eq!(ended.code, 0, "{}", ended.output);
    }
}

/// Name, values and slots of every tensor of the last checkpoint, as bits.
fn last_checkpoint(cluster: &TestCluster) -> Vec<(String, Vec<u8>)> {
    let step = cluster.job_state()["global_step"].as_u64().expect("a step");
    let folder = cluster
        .folder
        .path()
        .join("model")
        .join(format!("model.ckpt-{step}"));
    let checkpoint = Checkpoint::open(&folder).expect("the last checkpoint");
    let mut tensors = Vec::new();
    for shard in &checkpoint.manifest().shards {
        // Without the lists of the rows that an increment holds.
        let floats = shard
            .tensors
            .iter()
            .filter(|tensor| tensor.dtype == Dtype::F32);
        for tensor in floats {
            let spec = checkpoint
                .manifest()
                .variables
                .iter()
                .find(|spec| spec.name == tensor.variable);
            let spec = spec.expect("the tensor is a variable's");
            let mut values = vec![0.0; spec.len()];
            let slot = tensor.slot.as_deref();
            checkpoint
                .read_rows(&tensor.variable, slot, 0..spec.rows(), &mut values)
                .expect("it is whole");
            let name = format!("{} {}", tensor.variable, slot.unwrap_or("values"));
            tensors.push((
                name,
                values
                    .iter()
                    .flat_map(|value| value.to_le_bytes())
                    .collect(),
            ));
        }
    }
    tensors.sort();
    tensors.dedup();
    assert!(tensors.len() > 6, "values and slots");
    tensors
}

/// Fails unless a job that was disturbed has learned the bits of one that was not.
fn assert_undisturbed(cluster: &TestCluster) {
    let undisturbed = self::cluster(0);
    end(start(&undisturbed, &MIRRORED));
    let one = last_checkpoint(cluster);
    let other = last_checkpoint(&undisturbed);
    assert_eq!(one.len(), other.len());
    assert!(one == other, "{}", difference(&one, &other));
}

/// Says which variables differ, and by how much.
fn difference(one: &[(String, Vec<u8>)], other: &[(String, Vec<u8>)]) -> String {
    let floats = |bytes: &[u8]| -> Vec<f32> {
        bytes
            .as_chunks()
            .0
            .iter()
            .map(|chunk| f32::from_le_bytes(*chunk))
            .collect()
    };
    let apart = one
        .iter()
        .zip(other)
        .filter(|(one, other)| one != other)
        .map(|((name, one), (_, other))| {
            let worst = floats(one)
                .into_iter()
                .zip(floats(other))
                .map(|(one, other)| (one - other).abs());
            format!("{name} differs by {}", worst.fold(0.0, f32::max))
        });
    apart.collect::<Vec<_>>().join(", ")
}

trial!(workers_that_add_up_their_gradients_end_with_the_bits_that_synchronous_servers_hold);
fn workers_that_add_up_their_gradients_end_with_the_bits_that_synchronous_servers_hold() {
    let mirrored = cluster(0);
    end(start(&mirrored, &MIRRORED));
    assert_eq!(mirrored.job_state()["global_step"].as_u64(), Some(STEPS));
    let served = cluster(2);
    let more = ["--set", "strategy.update=\"sync\""];
    let servers = [served.start("ps", 0, &more), served.start("ps", 1, &more)];
    end(start(&served, &more).into_iter().chain(servers));
    assert_eq!(served.job_state()["global_step"].as_u64(), Some(STEPS));
    let one = last_checkpoint(&mirrored);
    let other = last_checkpoint(&served);
    assert_eq!(one.len(), other.len());
    assert!(one == other, "{}", difference(&one, &other));
}

trial!(a_killed_worker_joins_again_at_a_step_and_changes_no_bit);
fn a_killed_worker_joins_again_at_a_step_and_changes_no_bit() {
    let cluster = cluster(0);
    let [mut chief, worker, other] = start(&cluster, &MIRRORED);
    chief.wait_for("training step=", LIMIT);
    worker.signal(Signal::KILL);
    assert_eq!(worker.wait(LIMIT).code, 137);
    let mut worker = cluster.start("worker", 0, &MIRRORED);
    worker.wait_for("the process group is formed", LIMIT);
    let mut told = String::new();
    for program in [worker, chief, other] {
        let ended = program.wait(LIMIT);
        assert_eq!(ended.code, 0, "{}", ended.output);
        told.push_str(&ended.output);
    }
    assert_eq!(
        cluster.job_state()["global_step"].as_u64(),
        Some(STEPS),
        "{told}"
    );
    assert_undisturbed(&cluster);
}

trial!(a_killed_chief_takes_over_where_the_workers_are_and_changes_no_bit);
fn a_killed_chief_takes_over_where_the_workers_are_and_changes_no_bit() {
    let cluster = cluster(0);
    let [mut chief, worker, other] = start(&cluster, &MIRRORED);
    chief.wait_for("training step=100", LIMIT);
    chief.signal(Signal::KILL);
    assert_eq!(chief.wait(LIMIT).code, 137);
    let mut chief = cluster.start("chief", 0, &MIRRORED);
    let line = chief.wait_for("the process group is formed", LIMIT);
    // Its own parameters are those of the checkpoint; one of the workers may be a step behind the other.
    assert!(
        line.contains("step=") && !line.contains("behind=0"),
        "{line}"
    );
    end([chief, worker, other]);
    assert_eq!(cluster.job_state()["global_step"].as_u64(), Some(STEPS));
    assert_undisturbed(&cluster);
}

trial!(workers_that_stay_away_are_made_up_for_to_the_bit);
fn workers_that_stay_away_are_made_up_for_to_the_bit() {
    let cluster = cluster(0);
    let [mut chief, worker, other] = start(&cluster, &MIRRORED);
    chief.wait_for("training step=", LIMIT);
    for program in [worker, other] {
        program.signal(Signal::KILL);
        assert_eq!(program.wait(LIMIT).code, 137);
    }
    end([chief]);
    assert_eq!(
        cluster.job_state()["global_step"].as_u64(),
        Some(STEPS),
        "one computes every lane"
    );
    assert_undisturbed(&cluster);
}

trial!(tables_on_servers_and_the_rest_in_the_workers_train_together);
fn tables_on_servers_and_the_rest_in_the_workers_train_together() {
    let cluster = cluster(2);
    let more = ["--set", "strategy.kind=\"hybrid\""];
    let servers = [cluster.start("ps", 0, &more), cluster.start("ps", 1, &more)];
    end(start(&cluster, &more).into_iter().chain(servers));
    assert_eq!(cluster.job_state()["global_step"].as_u64(), Some(STEPS));
    assert!(
        last_checkpoint(&cluster)
            .iter()
            .any(|(name, _)| name.contains("embedding"))
    );
}

trial!(a_cluster_that_does_not_fit_the_strategy_is_refused);
fn a_cluster_that_does_not_fit_the_strategy_is_refused() {
    let with_servers = cluster(1);
    let ended = with_servers.start("chief", 0, &MIRRORED).wait(LIMIT);
    assert_eq!(ended.code, 78, "{}", ended.output);
    assert!(
        ended
            .output
            .contains("keeps the parameters in the workers, the cluster has 1 ps"),
        "{}",
        ended.output
    );
    let without = cluster(0);
    for (set, text) in [
        (
            "strategy.kind=\"parameter_server\"",
            "needs at least one ps",
        ),
        ("strategy.kind=\"hybrid\"", "needs at least one ps"),
        (
            "strategy.kind=\"mirrored\"",
            "trains in one process, a cluster was given",
        ),
    ] {
        let ended = without.start("chief", 0, &["--set", set]).wait(LIMIT);
        assert!(
            ended.code == 78 && ended.output.contains(text),
            "{set}: {}",
            ended.output
        );
    }
}

trial!(a_worker_joins_again_when_the_checkpoint_of_the_resume_is_gone);
fn a_worker_joins_again_when_the_checkpoint_of_the_resume_is_gone() {
    let cluster = TestCluster::new(0, 2, 24_000, "");
    let kept = [
        "--set",
        "run.save_checkpoints_steps=50",
        "--set",
        "run.keep_checkpoint_max=2",
    ];
    let first: Vec<&str> = MIRRORED
        .into_iter()
        .chain(kept)
        .chain(["--set", "train.max_steps=100"])
        .collect();
    end(start(&cluster, &first));
    let second: Vec<&str> = MIRRORED.into_iter().chain(kept).collect();
    let [mut chief, worker, other] = start(&cluster, &second);
    chief.wait_for("checkpoint saved step=3", LIMIT);
    assert!(!cluster.model_dir().join("model.ckpt-100").exists());
    worker.signal(Signal::KILL);
    assert_eq!(worker.wait(LIMIT).code, 137);
    let mut worker = cluster.start("worker", 0, &second);
    worker.wait_for("the process group is formed", LIMIT);
    end([chief, worker, other]);
    assert_eq!(cluster.job_state()["global_step"].as_u64(), Some(2 * 500));
}
