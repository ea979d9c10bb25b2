//! `strategy.update = "sync"`: the same bits, whoever computes the parts of a step.

use std::collections::BTreeMap;

use rustix::process::Signal;

use super::Trial;
use super::trial::{ENDLESS, Tasks, kill, side_by_side, wait_until_it_trains};
use crate::end_to_end::LIMIT;

const SYNC: [&str; 2] = ["strategy.update=sync", "strategy.replicas_to_aggregate=3"];
const ROWS: usize = 5000;

type Bits = BTreeMap<String, Vec<u32>>;

fn bits(trial: &Trial, passes: u64) -> Bits {
    // A pass is 313 batches, three a step.
    assert_eq!(trial.global_step(), passes * 105);
    trial.assert_applied(passes * 313);
    trial.bits()
}

/// Runs a job of so many passes, and returns what it has learned.
fn learned(ps: usize, workers: usize, passes: u64) -> Bits {
    let trial = Trial::new(
        ps,
        workers,
        ROWS,
        &[SYNC[0], SYNC[1], &format!("input.train.epochs={passes}")],
    );
    trial.start_all().end();
    bits(&trial, passes)
}

/// Runs a job while `disturb` does what it does, and then to an end. Returns its passes, and what it has learned.
fn disturbed(workers: usize, disturb: impl FnOnce(&Trial, Tasks) -> Tasks) -> (u64, Bits) {
    let trial = Trial::new(2, workers, ROWS, &[SYNC[0], SYNC[1], ENDLESS]);
    let (passes, _) = trial.end(disturb(&trial, trial.start_all()));
    (passes, bits(&trial, passes))
}

fn assert_same(what: &str, reference: &Bits, other: &Bits) {
    assert!(
        reference.len() > 8,
        "values and slots: {:?}",
        reference.keys()
    );
    for (name, bits) in reference {
        assert!(other[name] == *bits, "{what}: {name} differs");
    }
    assert_eq!(reference.len(), other.len(), "{what}");
}

trial!(synchronous_training_has_the_same_bits_whoever_dies_helps_or_is_missing);
fn synchronous_training_has_the_same_bits_whoever_dies_helps_or_is_missing() {
    side_by_side(&[
        &|| {
            let (passes, back) = disturbed(3, |trial, mut tasks| {
                wait_until_it_trains(&mut tasks.workers[1]);
                kill(tasks.workers.remove(1));
                let mut back = trial.start("worker", 1);
                back.wait_for("joined", LIMIT);
                tasks.chief.wait_for_next("training step=", LIMIT);
                tasks.workers.push(back);
                tasks
            });
            assert_same(
                "a worker was killed and came back",
                &learned(2, 2, passes),
                &back,
            );
        },
        &|| {
            let (passes, gone) = disturbed(3, |_, mut tasks| {
                wait_until_it_trains(&mut tasks.workers[0]);
                kill(tasks.workers.remove(0));
                (0..5).for_each(|_| drop(tasks.chief.wait_for_next("training step=", LIMIT)));
                tasks
            });
            assert_same(
                "a worker was killed and the others went on",
                &learned(2, 2, passes),
                &gone,
            );
        },
        &|| {
            let (passes, taken_over) = disturbed(2, |trial, mut tasks| {
                for _ in 0..2 {
                    tasks.workers.iter_mut().for_each(wait_until_it_trains);
                    kill(tasks.chief);
                    tasks.chief = trial.start("chief", 0);
                    tasks
                        .chief
                        .wait_for("taking over a job that is running", LIMIT);
                    tasks.chief.wait_for_next("training step=", LIMIT);
                }
                tasks
            });
            assert_same(
                "the chief was killed twice and came back",
                &learned(2, 2, passes),
                &taken_over,
            );
        },
        &|| {
            let reference = learned(2, 2, 3);
            assert_same("two backup workers", &reference, &learned(2, 4, 3));
            assert_same("another number of servers", &reference, &learned(3, 2, 3));
        },
    ]);
}

trial!(synchronous_training_in_16_bits_has_the_same_bits_whoever_dies_or_helps);
fn synchronous_training_in_16_bits_has_the_same_bits_whoever_dies_or_helps() {
    let payload = "strategy.payload=bfloat16";
    let trained = |workers: usize, passes: u64| {
        let epochs = format!("input.train.epochs={passes}");
        let trial = Trial::new(2, workers, ROWS, &[SYNC[0], SYNC[1], payload, &epochs]);
        trial.start_all().end();
        bits(&trial, passes)
    };
    let trial = Trial::new(2, 3, ROWS, &[SYNC[0], SYNC[1], payload, ENDLESS]);
    let mut tasks = trial.start_all();
    wait_until_it_trains(&mut tasks.workers[1]);
    kill(tasks.workers.remove(1));
    let mut back = trial.start("worker", 1);
    back.wait_for("joined", LIMIT);
    tasks.chief.wait_for_next("training step=", LIMIT);
    tasks.workers.push(back);
    let (passes, _) = trial.end(tasks);
    let reference = trained(2, passes);
    assert_same(
        "a worker was killed and came back",
        &reference,
        &bits(&trial, passes),
    );
    assert_same("two backup workers", &reference, &trained(4, passes));
}

trial!(steps_go_on_while_a_synchronous_worker_stands_still_and_it_comes_back);
fn steps_go_on_while_a_synchronous_worker_stands_still_and_it_comes_back() {
    let settings = [SYNC[0], SYNC[1], "train.max_steps=100000000", ENDLESS];
    let trial = Trial::new(2, 3, 2000, &settings);
    let mut tasks = trial.start_all();
    tasks.workers.iter_mut().for_each(wait_until_it_trains);
    let said = (tasks.chief.said(), tasks.workers[0].said());
    tasks.workers[0].signal(Signal::STOP);
    tasks.chief.wait_for_after(said.0, "worker:0", LIMIT);
    (0..10).for_each(|_| drop(tasks.chief.wait_for_next("training step=", LIMIT)));
    tasks.workers[0].signal(Signal::CONT);
    tasks.workers[0].wait_for_after(said.1, "joined", LIMIT);
    tasks.workers[0].wait_for_next("training step=", LIMIT);
    tasks.stop();
    let checkpoint = trial.checkpoint();
    let manifest = checkpoint.manifest();
    assert!(
        manifest
            .shards
            .iter()
            .all(|shard| shard.version == manifest.global_step),
        "one step everywhere"
    );
    let batches = manifest.global_step / 42 * 125 + manifest.global_step % 42 * 3;
    trial.assert_applied(batches);
}
