//! A chief, and a parameter server, that die in the middle, in every way to train.

use super::Trial;
use super::trial::{ENDLESS, Tasks, kill, side_by_side, wait_until_it_trains};
use crate::end_to_end::LIMIT;

const WAYS: [(&[&str], u64); 4] = [
    (&["strategy.update=async"], 1),
    (&["strategy.update=sync"], 3),
    (
        &["strategy.update=ssp", "strategy.staleness_steps_max=2"],
        1,
    ),
    (&["strategy.replication=in_graph"], 1),
];

fn trial(way: &[&str]) -> Trial {
    Trial::new(
        2,
        2,
        8000,
        &[way, &[ENDLESS, "run.save_checkpoints_steps=100"]].concat(),
    )
}

fn end_and_assert_exact(trial: &Trial, tasks: Tasks, way: &[&str], lanes: u64) {
    let (passes, _) = trial.end(tasks);
    assert_eq!(
        trial.global_step(),
        passes * 500_u64.div_ceil(lanes),
        "{way:?}"
    );
    trial.assert_applied(passes * 500);
}

trial!(a_chief_that_is_killed_and_comes_back_takes_every_way_to_train_over);
fn a_chief_that_is_killed_and_comes_back_takes_every_way_to_train_over() {
    let one = |way: &[&str], lanes: u64| {
        let trial = trial(way);
        let mut tasks = trial.start_all();
        tasks.workers.iter_mut().for_each(wait_until_it_trains);
        kill(tasks.chief);
        tasks.chief = trial.start("chief", 0);
        tasks
            .chief
            .wait_for("taking over a job that is running", LIMIT);
        tasks.workers[0].wait_for_next("training step=", LIMIT);
        end_and_assert_exact(&trial, tasks, way, lanes);
    };
    let trials = WAYS.map(|(way, lanes)| move || one(way, lanes));
    let trials: Vec<&(dyn Fn() + Sync)> = trials.iter().map(|trial| trial as _).collect();
    trials.chunks(2).for_each(side_by_side);
}

trial!(a_server_without_a_log_that_is_killed_and_comes_back_is_restored_in_every_way_to_train);
fn a_server_without_a_log_that_is_killed_and_comes_back_is_restored_in_every_way_to_train() {
    let one = |way: &[&str], lanes: u64| {
        let trial = trial(&[way, &["parameter_servers.durability=none"]].concat());
        let mut tasks = trial.start_all();
        tasks.chief.wait_for("checkpoint saved step=1", LIMIT);
        kill(tasks.servers.remove(1));
        tasks.servers.push(trial.start("ps", 1));
        tasks
            .chief
            .wait_for("restoring every parameter server", LIMIT);
        tasks.workers[0].wait_for_next("training step=", LIMIT);
        end_and_assert_exact(&trial, tasks, way, lanes);
    };
    let trials = WAYS.map(|(way, lanes)| move || one(way, lanes));
    let trials: Vec<&(dyn Fn() + Sync)> = trials.iter().map(|trial| trial as _).collect();
    trials.chunks(2).for_each(side_by_side);
}

trial!(an_asynchronous_job_goes_on_synchronously);
fn an_asynchronous_job_goes_on_synchronously() {
    // Checkpoints of asynchronous training are of another version at each server.
    let trial = Trial::new(2, 2, 8000, &[ENDLESS, "run.save_checkpoints_steps=20"]);
    let mut tasks = trial.start_all();
    tasks.chief.wait_for("checkpoint saved step=1", LIMIT);
    tasks
        .workers
        .into_iter()
        .chain([tasks.chief])
        .chain(tasks.servers)
        .for_each(kill);
    let more = [
        "--set",
        "strategy.update=sync",
        "--set",
        "train.max_steps=2000",
    ];
    let start = |role, index| trial.start_with(role, index, &more);
    let tasks = Tasks {
        servers: vec![start("ps", 0), start("ps", 1)],
        chief: start("chief", 0),
        workers: vec![start("worker", 0), start("worker", 1)],
    };
    let output = tasks.end();
    assert!(
        output.contains("the division of the input has changed since the checkpoint"),
        "{output}"
    );
    // On a busy machine it may have had more steps than that before it was killed.
    let begun = output
        .split("training is open cluster_epoch=2 step=")
        .nth(1)
        .and_then(|rest| rest.split(' ').next());
    let begun: u64 = begun
        .and_then(|step| step.parse().ok())
        .expect("the step at which it goes on");
    assert_eq!(trial.global_step(), begun.max(2000));
}
