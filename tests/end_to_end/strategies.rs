//! Strategies of one process: `one_device`, `mirrored` and `central_storage`, against each other and against clusters.

use std::fmt::Write as _;

use rustix::process::Signal;
use trainyard_tests::{Program, TestCluster};

use crate::end_to_end::LIMIT;
use crate::end_to_end::solo::{Solo, Trained};

/// 150 batches of 16, of which the last has 8, in each of two passes.
const ROWS: usize = 2392;
const BATCHES: u64 = 150;
const MIRRORED: &str = "strategy.kind=\"mirrored\"";
const CENTRAL_STORAGE: &str = "strategy.kind=\"central_storage\"";
const ONE_DEVICE: &str = "strategy.kind=\"one_device\"";

/// Trains the same job on a cluster of a chief and so many servers and workers.
fn on_cluster(servers: usize, workers: usize, set: &[&str]) -> Trained {
    let cluster = TestCluster::new(servers, workers, ROWS, "");
    let more: Vec<&str> = set
        .iter()
        .flat_map(|assignment| ["--set", assignment])
        .collect();
    let start = |role: &'static str, count: usize| {
        (0..count)
            .map(|index| cluster.start(role, index, &more))
            .collect::<Vec<Program>>()
    };
    let tasks = [
        start("ps", servers),
        start("chief", 1),
        start("worker", workers),
    ];
    for program in tasks.into_iter().flatten() {
        let ended = program.wait(LIMIT);
        assert_eq!(ended.code, 0, "{}", ended.output);
    }
    assert_eq!(cluster.job_state()["phase"], "done");
    Trained::of(&cluster.model_dir())
}

trial!(two_replicas_end_with_the_bits_of_synchronous_servers_and_a_backup_worker);
fn two_replicas_end_with_the_bits_of_synchronous_servers_and_a_backup_worker() {
    let solo = Solo::wide_and_deep(ROWS, "");
    let served = on_cluster(
        2,
        2,
        &[
            "strategy.update=\"sync\"",
            "strategy.replicas_to_aggregate=2",
        ],
    );
    assert_eq!(served.global_step, 2 * BATCHES / 2, "two batches a step");
    let two = "strategy.replicas=2";
    solo.train("mirrored", &[MIRRORED, two])
        .assert_equals(&served, "mirrored");
    solo.train("central_storage", &[CENTRAL_STORAGE, two])
        .assert_equals(&served, "central_storage");
}

trial!(three_replicas_end_with_the_bits_of_three_workers_that_add_up_their_gradients);
fn three_replicas_end_with_the_bits_of_three_workers_that_add_up_their_gradients() {
    let solo = Solo::wide_and_deep(ROWS, "");
    let workers = on_cluster(0, 2, &["strategy.kind=\"multi_worker_mirrored\""]);
    assert_eq!(workers.global_step, 2 * BATCHES / 3, "three batches a step");
    let three = "strategy.replicas=3";
    solo.train("mirrored", &[MIRRORED, three])
        .assert_equals(&workers, "mirrored");
    solo.train("central_storage", &[CENTRAL_STORAGE, three])
        .assert_equals(&workers, "central_storage");
}

trial!(one_replica_ends_with_the_bits_of_one_device_and_of_a_server_with_one_task);
fn one_replica_ends_with_the_bits_of_one_device_and_of_a_server_with_one_task() {
    let solo = Solo::wide_and_deep(ROWS, "");
    let served = on_cluster(1, 0, &[]);
    assert_eq!(served.global_step, 2 * BATCHES, "one batch a step");
    let one = "strategy.replicas=1";
    solo.train("one_device", &[ONE_DEVICE])
        .assert_equals(&served, "one_device");
    solo.train("mirrored", &[MIRRORED, one])
        .assert_equals(&served, "mirrored");
    solo.train("central_storage", &[CENTRAL_STORAGE, one])
        .assert_equals(&served, "central_storage");
    solo.train("parameter_server", &[])
        .assert_equals(&served, "parameter_server");
}

trial!(a_step_of_replicas_that_do_not_divide_the_batches_is_made_of_those_that_are_left);
fn a_step_of_replicas_that_do_not_divide_the_batches_is_made_of_those_that_are_left() {
    let solo = Solo::wide_and_deep(ROWS, "");
    let four = "strategy.replicas=4";
    let mirrored = solo.train("mirrored", &[MIRRORED, four]);
    assert_eq!(mirrored.global_step, 2 * BATCHES.div_ceil(4));
    solo.train("central_storage", &[CENTRAL_STORAGE, four])
        .assert_equals(&mirrored, "central_storage");
}

trial!(without_a_number_of_replicas_each_core_has_one);
fn without_a_number_of_replicas_each_core_has_one() {
    let solo = Solo::wide_and_deep(ROWS, "");
    let cores = std::thread::available_parallelism().map_or(1, usize::from) as u64;
    for kind in [MIRRORED, CENTRAL_STORAGE] {
        let trained = solo.train(&kind.replace(['"', '=', '.'], "-"), &[kind]);
        assert_eq!(
            trained.global_step,
            2 * BATCHES.div_ceil(cores),
            "{kind}, {cores} cores"
        );
    }
}

trial!(a_killed_process_goes_on_to_the_bits_of_one_that_was_not);
fn a_killed_process_goes_on_to_the_bits_of_one_that_was_not() {
    let often = "run.save_checkpoints_steps=40";
    let two = "strategy.replicas=2";
    let kinds = [
        vec![ONE_DEVICE, often],
        vec![MIRRORED, two, often],
        vec![CENTRAL_STORAGE, two, often],
    ];
    for set in kinds {
        let solo = Solo::wide_and_deep(ROWS, "[train]\nmax_steps = 1_000_000_000\n");
        let mut killed = solo.start("killed", &set);
        killed.wait_for("checkpoint saved step=0", LIMIT);
        killed.wait_for_next("checkpoint saved", LIMIT);
        killed.signal(Signal::KILL);
        assert_eq!(killed.wait(LIMIT).code, 137, "{set:?}");
        let left = Trained::of(&solo.path("killed")).global_step;
        assert!(left >= 40, "{set:?}: step {left}");
        let last = format!("train.max_steps={}", left + 211);
        let to_the_last = [&set[..], &[last.as_str()]].concat();
        let undisturbed = solo.train("undisturbed", &to_the_last);
        assert_eq!(undisturbed.global_step, left + 211);
        solo.train("killed", &to_the_last)
            .assert_equals(&undisturbed, set[0]);
    }
}

trial!(a_gradient_that_is_not_finite_is_left_out_by_one_device_and_ends_replicas);
fn a_gradient_that_is_not_finite_is_left_out_by_one_device_and_ends_replicas() {
    let solo = Solo::new(
        r#"[input]
label = { column = "y" }
[input.train]
files = ["rows.csv"]
batch_size = 10
epochs = 2
[[feature]]
column = "x"
kind = "numeric"
[model]
kind = "linear_regressor"
"#,
    );
    let mut rows = "x,y\n".to_owned();
    for row in 0..400 {
        match row {
            // The gradient of this row is infinite.
            57 => rows.push_str("3e38,1000\n"),
            _ => drop(writeln!(
                rows,
                "{},{}",
                f64::from(row) / 400.0,
                f64::from(row) / 800.0
            )),
        }
    }
    solo.write("rows.csv", &rows);
    let trained = solo.train("one_device", &[ONE_DEVICE]);
    assert_eq!(
        trained.global_step,
        2 * 39,
        "one batch of 40 is left out in each pass"
    );
    let finite = |bits: &u32| f32::from_bits(*bits).is_finite();
    assert!(
        trained.parameters.values().flatten().all(finite),
        "{trained:?}"
    );
    for kind in [MIRRORED, CENTRAL_STORAGE] {
        let told = solo.run(
            &kind.replace(['"', '=', '.'], "-"),
            &[kind, "strategy.replicas=2"],
            65,
        );
        assert!(told.contains("error[E5001]"), "{kind}: {told}");
    }
}

trial!(strategies_that_need_one_process_or_a_cluster_are_refused_elsewhere);
fn strategies_that_need_one_process_or_a_cluster_are_refused_elsewhere() {
    let cluster = TestCluster::new(0, 1, 100, "");
    for kind in [CENTRAL_STORAGE, ONE_DEVICE] {
        let ended = cluster.start("chief", 0, &["--set", kind]).wait(LIMIT);
        let told = "trains in one process, a cluster was given";
        assert!(
            ended.code == 78 && ended.output.contains(told),
            "{kind}: {}",
            ended.output
        );
    }
    let solo = Solo::wide_and_deep(100, "");
    let hybrid = solo.run("hybrid", &["strategy.kind=\"hybrid\""], 78);
    assert!(
        hybrid.contains("needs parameter servers, this is one process"),
        "{hybrid}"
    );
    for kind in [ONE_DEVICE, "strategy.kind=\"parameter_server\""] {
        let replicas = solo.run("replicas", &[kind, "strategy.replicas=2"], 78);
        assert!(
            replicas.contains("error[E1006]") && replicas.contains("replicas belongs to"),
            "{replicas}"
        );
    }
}
