//! Data that is divided among the tasks beforehand: who has read its share stays until the job is over.

use super::Trial;
use super::trial::{Tasks, kill};
use crate::end_to_end::LIMIT;

/// What a worker says when it has read its share.
const READ: &str = "this task has read all of its input";

fn trial(settings: &[&str]) -> Trial {
    let all = [
        "input.train.sharding=row",
        "input.train.epochs=2",
        "run.save_checkpoints_steps=50",
    ];
    Trial::new(2, 2, 4800, &[&all, settings].concat())
}

/// Checks that each of three tasks has had its share applied, twice, at every server.
fn assert_all_is_applied(trial: &Trial) {
    assert_eq!(trial.global_step(), 3 * 2 * 100);
    for shard in &trial.checkpoint().manifest().shards {
        let applied: Vec<_> = shard
            .positions
            .iter()
            .map(|known| (known.shard, known.batch))
            .collect();
        assert_eq!(applied, [(0, 200), (1, 200), (2, 200)], "ps:{}", shard.ps);
    }
}

/// Starts all tasks but the last worker, and waits until they have read their share.
fn all_but_one(trial: &Trial) -> Tasks {
    let mut tasks = Tasks {
        servers: vec![trial.start("ps", 0), trial.start("ps", 1)],
        chief: trial.start("chief", 0),
        workers: vec![trial.start("worker", 0)],
    };
    tasks.workers[0].wait_for(READ, LIMIT);
    tasks.chief.wait_for(READ, LIMIT);
    tasks
}

trial!(a_chief_that_is_killed_when_some_have_read_their_share_hears_it_again);
fn a_chief_that_is_killed_when_some_have_read_their_share_hears_it_again() {
    let trial = trial(&[]);
    let mut tasks = all_but_one(&trial);
    let said = tasks.workers[0].said();
    kill(tasks.chief);
    tasks.chief = trial.start("chief", 0);
    tasks
        .chief
        .wait_for("taking over a job that is running", LIMIT);
    tasks.workers[0].wait_for_after(said, READ, LIMIT);
    assert!(tasks.workers[0].runs());
    tasks.workers.push(trial.start("worker", 1));
    let output = tasks.end();
    assert!(!output.contains("is not read"), "{output}");
    assert_all_is_applied(&trial);
}

trial!(a_share_that_a_lost_server_has_forgotten_is_read_once_more);
fn a_share_that_a_lost_server_has_forgotten_is_read_once_more() {
    let trial = trial(&[
        "parameter_servers.durability=none",
        "run.save_checkpoints_steps=100000",
    ]);
    let mut tasks = all_but_one(&trial);
    let said = tasks.workers[0].said();
    kill(tasks.servers.remove(1));
    tasks.servers.push(trial.start("ps", 1));
    tasks
        .chief
        .wait_for("restoring every parameter server", LIMIT);
    tasks.workers[0].wait_for_after(said, READ, LIMIT);
    tasks.workers.push(trial.start("worker", 1));
    let output = tasks.end();
    assert!(!output.contains("is not read"), "{output}");
    assert_all_is_applied(&trial);
}
