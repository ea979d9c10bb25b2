//! Parameter servers in pairs: whoever dies, and whatever disk is lost, the other one goes on with all that was acknowledged.

use std::time::{Duration, Instant};

use rustix::process::Signal;
use trainyard_tests::Program;

use super::Trial;
use super::trial::{Tasks, kill, wait_until_it_trains};
use crate::LIMIT;

const PAIRED: &str = "this shard has two replicas";
const TAKEN_OVER: &str = "the server of this shard is gone: its backup serves it from now on";
const REPLICA: &str = "parameter_servers.durability=replica";

/// Runs a job of pairs while `disturb` does what it does, and checks that each batch has counted once and that nobody went
/// back to a checkpoint. Returns the output of the chief.
fn exact(settings: &[&str], epochs: u64, disturb: impl FnOnce(&Trial, Tasks) -> Tasks) -> String {
    let passes = format!("input.train.epochs={epochs}");
    // No checkpoint is due for a long time: everything is in the logs and the replicas.
    let more = [REPLICA, &passes, "run.save_checkpoints_steps=1000000"];
    let trial = Trial::new(2, 2, 8000, &[&more[..], settings].concat());
    let tasks = disturb(&trial, trial.start_all());
    let output = tasks.end();
    assert!(!output.contains("restoring every parameter server"), "{output}");
    trial.assert_applied(epochs * 500);
    output
}

/// Waits until both shards have their pair again.
fn wait_until_paired(chief: &mut Program) {
    for _ in 0..2 {
        chief.wait_for_next(PAIRED, LIMIT);
    }
}

#[test]
fn servers_killed_again_and_again_with_and_without_their_disks_lose_nothing() {
    let output = exact(&[], 8, |trial, mut tasks| {
        tasks.workers.iter_mut().for_each(wait_until_it_trains);
        for time in 0..4 {
            let ps = time % 2;
            kill(tasks.servers.remove(ps));
            tasks.chief.wait_for_next("by=ps:", LIMIT);
            tasks.chief.wait_for_next("training step=", LIMIT);
            if time >= 2 {
                // The host is gone, with all that was on it.
                let logs = trial.cluster.model_dir().join("wal");
                std::fs::remove_dir_all(logs.join(format!("ps-{ps}"))).expect("removed");
                std::fs::remove_dir_all(logs.join(format!("ps-{}.backup", 1 - ps))).expect("removed");
            }
            tasks.servers.insert(ps, trial.start("ps", ps));
            wait_until_paired(&mut tasks.chief);
            tasks.chief.wait_for_next("training step=", LIMIT);
        }
        tasks
    });
    assert!(output.contains(TAKEN_OVER), "{output}");
}

#[test]
fn synchronous_training_has_the_same_bits_when_backups_take_over() {
    let run = |disturbed: bool| {
        let settings = [REPLICA, "strategy.update=sync", "input.train.epochs=4"];
        let trial = Trial::new(2, 2, 8000, &settings);
        let mut tasks = trial.start_all();
        if disturbed {
            tasks.workers.iter_mut().for_each(wait_until_it_trains);
            for ps in [0, 1] {
                kill(tasks.servers.remove(ps));
                tasks.chief.wait_for_next("by=ps:", LIMIT);
                tasks.servers.insert(ps, trial.start("ps", ps));
                wait_until_paired(&mut tasks.chief);
            }
        }
        let output = tasks.end();
        assert!(!output.contains("restoring every parameter server"), "{output}");
        assert_eq!(trial.global_step(), 4 * 500_u64.div_ceil(3));
        trial.bits()
    };
    assert!(run(false) == run(true), "values and slots");
}

#[test]
fn a_primary_that_stood_still_past_its_replacement_acknowledges_nothing_more_and_follows() {
    exact(&[], 8, |_, mut tasks| {
        tasks.workers.iter_mut().for_each(wait_until_it_trains);
        tasks.servers[0].signal(Signal::STOP);
        let begun = Instant::now();
        tasks.chief.wait_for_next(TAKEN_OVER, LIMIT);
        assert!(begun.elapsed() < Duration::from_secs(30), "it is noticed by its silence");
        tasks.chief.wait_for_next("training step=", LIMIT);
        tasks.servers[0].signal(Signal::CONT);
        let backup = tasks.servers[0].wait_for_next("role=\"backup\"", LIMIT);
        assert!(backup.contains("ps:"), "{backup}");
        wait_until_paired(&mut tasks.chief);
        tasks.chief.wait_for_next("training step=", LIMIT);
        tasks
    });
}

#[test]
fn all_daemons_killed_at_once_come_back_with_everything() {
    exact(&[], 6, |trial, mut tasks| {
        tasks.workers.iter_mut().for_each(wait_until_it_trains);
        // One shard has moved: its log lies with the other server.
        kill(tasks.servers.remove(0));
        tasks.chief.wait_for_next(TAKEN_OVER, LIMIT);
        tasks.servers.insert(0, trial.start("ps", 0));
        wait_until_paired(&mut tasks.chief);
        tasks.workers.into_iter().chain([tasks.chief]).chain(tasks.servers).for_each(kill);
        let mut tasks = trial.start_all();
        let line = tasks.chief.wait_for("taking over a job that is running", LIMIT);
        assert!(!line.contains(" step=0"), "{line}");
        tasks
    });
}

#[test]
fn a_cluster_of_one_server_cannot_have_backups() {
    let trial = Trial::new(1, 1, 800, &[REPLICA]);
    for role in ["ps", "chief", "worker"] {
        let ended = trial.start(role, 0).wait(LIMIT);
        assert_eq!(ended.code, 78, "{role}: {}", ended.output);
        assert!(
            ended.output.contains("needs two parameter servers at least, the cluster has 1"),
            "{}",
            ended.output
        );
    }
}
