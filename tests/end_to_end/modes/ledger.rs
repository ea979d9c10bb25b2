//! Data that the chief hands out: each batch counts once, whoever dies.

use std::time::Duration;

use rustix::process::Signal;
use trainyard_checkpoint::PositionRecord;
use trainyard_tests::{Draw, passes_to_go, seed};

use super::Trial;
use super::trial::{ENDLESS, kill, side_by_side, wait_until_it_trains};
use crate::end_to_end::LIMIT;

trial!(an_epoch_is_every_row_once_however_many_tasks_train_and_with_none_once_for_each);
fn an_epoch_is_every_row_once_however_many_tasks_train_and_with_none_once_for_each() {
    // 650 rows of batches of 16 are 41.
    let told = |sharding: &str| {
        let sharding = format!("input.train.sharding={sharding}");
        let trial = Trial::new(2, 4, 650, &[&sharding, "input.train.epochs=1"]);
        let output = trial.start_all().end();
        let line = output
            .lines()
            .find(|line| line.contains("one pass"))
            .expect("it says what one is");
        (trial.global_step(), line.to_owned())
    };
    let (steps, line) = told("dynamic");
    assert_eq!(steps, 41);
    assert!(
        line.contains("one pass is 650 records, 41 steps for any number of tasks"),
        "{line}"
    );
    let (steps, line) = told("none");
    assert_eq!(steps, 5 * 41);
    let meaning = "each of 5 tasks reads all 650 records: one pass of every task is 205 steps";
    assert!(line.contains(meaning), "{line}");
}

trial!(each_batch_counts_once_while_workers_die_and_come_back_at_any_moment);
fn each_batch_counts_once_while_workers_die_and_come_back_at_any_moment() {
    let seed = seed("workers die at any moment");
    let one = |seed: u64| {
        let mut draw = Draw::new(seed);
        let trial = Trial::new(2, 3, 10_000, &["input.train.epochs=3"]);
        let mut tasks = trial.start_all();
        tasks.chief.wait_for("training is open", LIMIT);
        for _ in 0..5 {
            std::thread::sleep(Duration::from_millis(draw.below(400)));
            let victim = draw.below(3) as usize;
            let fresh = trial.start("worker", victim);
            let old = std::mem::replace(&mut tasks.workers[victim], fresh);
            old.signal(Signal::KILL);
            let ended = old.wait(LIMIT);
            assert!([0, 137].contains(&ended.code), "{}", ended.output);
        }
        tasks.end();
        assert_eq!(trial.global_step(), 3 * 625);
        trial.assert_applied(3 * 625);
    };
    side_by_side(&[&|| one(seed), &|| one(seed + 1), &|| one(seed + 2)]);
}

trial!(the_data_of_a_worker_that_is_gone_for_good_is_read_by_the_others);
fn the_data_of_a_worker_that_is_gone_for_good_is_read_by_the_others() {
    // Long enough for the second worker to be seen to train, on a fast machine too.
    let trial = Trial::new(2, 3, 10_000, &["input.train.epochs=12"]);
    let mut tasks = trial.start_all();
    wait_until_it_trains(&mut tasks.workers[1]);
    kill(tasks.workers.remove(1));
    tasks.end();
    assert_eq!(trial.global_step(), 12 * 625);
    trial.assert_applied(12 * 625);
}

trial!(the_others_take_over_the_data_of_a_worker_that_stands_still_and_it_comes_back);
fn the_others_take_over_the_data_of_a_worker_that_stands_still_and_it_comes_back() {
    let trial = Trial::new(2, 2, 8000, &[ENDLESS]);
    let mut tasks = trial.start_all();
    tasks.workers.iter_mut().for_each(wait_until_it_trains);
    let said = (tasks.chief.said(), tasks.workers[0].said());
    tasks.workers[0].signal(Signal::STOP);
    tasks
        .chief
        .wait_for_after(said.0, "is silent: the chief has ended its session", LIMIT);
    tasks.chief.wait_for_next("training step=", LIMIT);
    tasks.workers[0].signal(Signal::CONT);
    tasks.workers[0].wait_for_after(said.1, "joined", LIMIT);
    tasks.workers[0].wait_for_next("training step=", LIMIT);
    tasks.stop();
    let checkpoint = trial.checkpoint();
    for shard in &checkpoint.manifest().shards {
        let ahead = |known: &PositionRecord| {
            known
                .ahead
                .iter()
                .map(|range| range.end - range.start)
                .sum::<u64>()
        };
        let applied: u64 = shard
            .positions
            .iter()
            .map(|known| known.batch + ahead(known))
            .sum();
        assert_eq!(shard.version, applied, "ps:{}", shard.ps);
    }
    // A batch that one server had and the other refused, because the session was over between the two, may still wait for
    // its turn: nothing is missing and nothing counts twice when the job has come to an end.
    let passes = passes_to_go(&checkpoint, 500);
    trial
        .start_all_with(&["--set", &format!("input.train.epochs={passes}")])
        .end();
    assert_eq!(trial.global_step(), passes * 500);
    trial.assert_applied(passes * 500);
}

trial!(every_way_to_train_stops_by_itself_at_the_last_step_and_at_the_end_of_the_data);
fn every_way_to_train_stops_by_itself_at_the_last_step_and_at_the_end_of_the_data() {
    let ways: [&[&str]; 4] = [
        &["strategy.update=async"],
        &["strategy.update=sync"],
        &["strategy.update=ssp", "strategy.staleness_steps_max=2"],
        &["strategy.replication=in_graph"],
    ];
    let one = |way: &[&str], end: &str, lanes: u64| {
        let trial = Trial::new(2, 2, 2000, &[way, &[end]].concat());
        trial.start_all().end();
        // Two passes of 125 batches.
        let steps = if end.contains("max_steps") {
            41
        } else {
            2 * 125_u64.div_ceil(lanes)
        };
        assert_eq!(trial.global_step(), steps, "{way:?} {end}");
    };
    for way in ways {
        let lanes = if way[0].ends_with("=sync") { 3 } else { 1 };
        side_by_side(&[&|| one(way, "train.max_steps=41", lanes), &|| {
            one(way, "input.train.epochs=2", lanes)
        }]);
    }
}

trial!(settings_that_cannot_be_are_refused_with_a_reason);
fn settings_that_cannot_be_are_refused_with_a_reason() {
    let cases: [(&str, &[&str], i32, &[&str]); 6] = [
        (
            "more batches than tasks",
            &["strategy.update=sync", "strategy.replicas_to_aggregate=4"],
            78,
            &["replicas_to_aggregate must be at most 2", "given 4"],
        ),
        (
            "an unknown update",
            &["strategy.update=eventual"],
            78,
            &["eventual", "async", "sync", "ssp"],
        ),
        (
            "a negative bound",
            &["strategy.update=ssp", "strategy.staleness_steps_max=-1"],
            78,
            &["staleness_steps_max", "-1"],
        ),
        (
            "no bound",
            &["strategy.update=ssp"],
            78,
            &["staleness_steps_max"],
        ),
        (
            "rows divided under sync",
            &["strategy.update=sync", "input.train.sharding=row"],
            78,
            &["input.train.sharding must be \"dynamic\"", "given \"row\""],
        ),
        (
            "in-graph without its file",
            &[
                "strategy.replication=in_graph",
                "input.train.files=[\"absent.csv\"]",
            ],
            66,
            &["absent.csv"],
        ),
    ];
    for (what, settings, code, words) in cases {
        let trial = Trial::new(1, 1, 50, settings);
        let ended = trial.start("chief", 0).wait(LIMIT);
        assert_eq!(ended.code, code, "{what}: {}", ended.output);
        for word in words {
            assert!(
                ended.output.contains(word),
                "{what}: `{word}` in {}",
                ended.output
            );
        }
    }
}
