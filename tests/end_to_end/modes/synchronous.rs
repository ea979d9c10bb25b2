//! `strategy.update = "sync"`: the same bits, whoever computes the parts of a step.

use std::collections::BTreeMap;

use rustix::process::Signal;

use super::Trial;
use super::trial::{Tasks, kill, side_by_side, wait_until_it_trains};
use crate::LIMIT;

const SYNC: [&str; 3] = ["strategy.update=sync", "strategy.replicas_to_aggregate=3", "input.train.epochs=3"];
const ROWS: usize = 5000;
/// Steps of three passes of 313 batches, three batches a step.
const STEPS: u64 = 3 * 105;

/// Runs a job, and returns what it has learned.
fn learned(
    ps: usize,
    workers: usize,
    disturb: impl FnOnce(&Trial, Tasks) -> Tasks,
) -> BTreeMap<String, Vec<u32>> {
    let trial = Trial::new(ps, workers, ROWS, &SYNC);
    let tasks = disturb(&trial, trial.start_all());
    tasks.end();
    assert_eq!(trial.global_step(), STEPS);
    trial.assert_applied(3 * 313);
    trial.bits()
}

#[test]
fn synchronous_training_has_the_same_bits_whoever_dies_helps_or_is_missing() {
    let reference = learned(2, 2, |_, tasks| tasks);
    assert!(reference.len() > 8, "values and slots: {:?}", reference.keys());
    let same = |what: &str, other: BTreeMap<String, Vec<u32>>| {
        for (name, bits) in &reference {
            assert!(other[name] == *bits, "{what}: {name} differs");
        }
        assert_eq!(reference.len(), other.len(), "{what}");
    };
    side_by_side(&[
        &|| {
            let back = learned(2, 3, |trial, mut tasks| {
                wait_until_it_trains(&mut tasks.workers[1]);
                kill(tasks.workers.remove(1));
                tasks.workers.push(trial.start("worker", 1));
                tasks
            });
            same("a worker was killed and came back", back);
        },
        &|| {
            let gone = learned(2, 3, |_, mut tasks| {
                wait_until_it_trains(&mut tasks.workers[0]);
                kill(tasks.workers.remove(0));
                tasks
            });
            same("a worker was killed for good", gone);
        },
        &|| same("two backup workers", learned(2, 4, |_, tasks| tasks)),
        &|| same("another number of servers", learned(3, 2, |_, tasks| tasks)),
    ]);
}

#[test]
fn steps_go_on_while_a_synchronous_worker_stands_still_and_it_comes_back() {
    let settings = [SYNC[0], SYNC[1], "train.max_steps=100000000", "input.train.epochs=100000000"];
    let trial = Trial::new(2, 3, 2000, &settings);
    let mut tasks = trial.start_all();
    tasks.workers.iter_mut().for_each(wait_until_it_trains);
    tasks.workers[0].signal(Signal::STOP);
    tasks.chief.wait_for_next("worker:0", LIMIT);
    (0..10).for_each(|_| drop(tasks.chief.wait_for_next("training step=", LIMIT)));
    tasks.workers[0].signal(Signal::CONT);
    tasks.workers[0].wait_for_next("joined", LIMIT);
    tasks.workers[0].wait_for_next("training step=", LIMIT);
    tasks.stop();
    let checkpoint = trial.checkpoint();
    let manifest = checkpoint.manifest();
    assert!(manifest.shards.iter().all(|shard| shard.version == manifest.global_step), "one step everywhere");
    let batches = manifest.global_step / 42 * 125 + manifest.global_step % 42 * 3;
    trial.assert_applied(batches);
}
