//! Learning rates that fall when evaluations bring no gain: the trained values are those of a schedule that falls at the same
//! steps, whoever dies in between.

use rustix::process::Signal;
use serde_json::Value;

use super::Trial;
use super::trial::{ENDLESS, end, kill};
use crate::end_to_end::LIMIT;

/// Never better than the first time.
const PLATEAU: &str = "train.reduce_on_plateau={ metric = \"label/mean\", higher_is_better = true, factor = 0.5, min_factor = 0.25 }";

/// Steps after which the rates fell.
fn reductions(trial: &Trial) -> Vec<u64> {
    let path = trial.cluster.model_dir().join("learning_rate.json");
    let Ok(text) = std::fs::read_to_string(path) else {
        return Vec::new();
    };
    let made: Value = serde_json::from_str(&text).expect("JSON");
    let made = made["reductions"].as_array().expect("a list");
    let from = |one: &Value| one["from_step"].as_u64().expect("a step");
    made.iter().map(from).collect()
}

fn optimizers(rate: &str) -> [String; 2] {
    ["linear_optimizer", "dnn_optimizer"]
        .map(|part| format!("model.{part}={{ kind = \"adagrad\", learning_rate = {rate} }}"))
}

trial!(rates_that_evaluations_reduce_are_those_of_a_schedule_whoever_is_killed_in_a_synchronous_cluster);
fn rates_that_evaluations_reduce_are_those_of_a_schedule_whoever_is_killed_in_a_synchronous_cluster()
 {
    let common = [
        "strategy.update=sync",
        ENDLESS,
        "run.save_checkpoints_steps=50",
    ];
    let [linear, deep] = optimizers("0.5");
    let reduced = Trial::new(
        2,
        2,
        8000,
        &[&common[..], &[PLATEAU, &linear, &deep]].concat(),
    );
    let mut evaluator = reduced.start("evaluator", 0);
    let mut tasks = reduced.start_all();
    tasks.chief.wait_for("the learning rates fall", LIMIT);
    tasks.workers[0].wait_for_next("training step=", LIMIT);
    kill(tasks.servers.remove(1));
    tasks.servers.push(reduced.start("ps", 1));
    tasks
        .chief
        .wait_for("was restarted, and has recovered all updates", LIMIT);
    kill(tasks.chief);
    tasks.chief = reduced.start("chief", 0);
    tasks.chief.wait_for(
        "evaluations of earlier runs have reduced the learning rates",
        LIMIT,
    );
    while reductions(&reduced).len() < 2 {
        evaluator.wait_for_next("evaluated global step", LIMIT);
    }
    tasks.workers[0].wait_for_next("training step=", LIMIT);
    tasks.stop();
    evaluator.signal(Signal::TERM);
    drop(end(evaluator));
    let last = reduced.checkpoint().manifest().global_step;
    let fell = reductions(&reduced);
    assert_eq!(fell.len(), 2, "{fell:?}");
    assert!(fell[0] < fell[1] && fell[1] < last, "{fell:?} {last}");
    // A schedule counts steps from 0.
    let schedule = format!(
        "{{ kind = \"piecewise_constant\", boundaries = [{}, {}], values = [0.5, 0.25, 0.125] }}",
        fell[0] - 1,
        fell[1] - 1
    );
    let [linear, deep] = optimizers(&schedule);
    let steps = format!("train.max_steps={last}");
    let scheduled = Trial::new(
        2,
        2,
        8000,
        &[&common[..], &[&steps, &linear, &deep]].concat(),
    );
    drop(scheduled.start_all().end());
    assert_eq!(scheduled.global_step(), last);
    assert_eq!(reduced.bits(), scheduled.bits(), "{fell:?} of {last}");
}

trial!(asynchronous_clusters_reduce_rates_and_end_with_every_batch_applied_once);
fn asynchronous_clusters_reduce_rates_and_end_with_every_batch_applied_once() {
    let trial = Trial::new(
        2,
        2,
        8000,
        &["run.save_checkpoints_steps=50", ENDLESS, PLATEAU],
    );
    let mut evaluator = trial.start("evaluator", 0);
    let mut tasks = trial.start_all();
    while reductions(&trial).len() < 2 {
        evaluator.wait_for_next("evaluated global step", LIMIT);
    }
    tasks.workers[0].wait_for_next("training step=", LIMIT);
    let (passes, _) = trial.end(tasks);
    assert_eq!(trial.global_step(), passes * 500);
    trial.assert_applied(passes * 500);
    assert_eq!(reductions(&trial).len(), 2);
    drop(end(evaluator));
}
