//! `strategy.replication = "in_graph"`: the chief reads, the workers compute.

use super::Trial;
use super::trial::{ENDLESS, Tasks, kill, wait_until_it_trains};

const ABSENT: [&str; 2] = ["--set", "input.train.files=[\"nowhere/absent.csv\"]"];

trial!(workers_without_files_train_and_what_a_killed_one_had_is_handed_out_again);
fn workers_without_files_train_and_what_a_killed_one_had_is_handed_out_again() {
    let trial = Trial::new(2, 2, 8000, &["strategy.replication=in_graph", ENDLESS]);
    let mut tasks = Tasks {
        servers: vec![trial.start("ps", 0), trial.start("ps", 1)],
        chief: trial.start("chief", 0),
        workers: (0..2)
            .map(|index| trial.start_with("worker", index, &ABSENT))
            .collect(),
    };
    tasks.workers.iter_mut().for_each(wait_until_it_trains);
    kill(tasks.workers.remove(0));
    let mut back = trial.start_with("worker", 0, &ABSENT);
    wait_until_it_trains(&mut back);
    tasks.workers.push(back);
    let (passes, _) = trial.end(tasks);
    assert_eq!(trial.global_step(), passes * 500);
    trial.assert_applied(passes * 500);
}

trial!(a_job_that_is_divided_otherwise_reads_its_input_from_the_start_and_says_so);
fn a_job_that_is_divided_otherwise_reads_its_input_from_the_start_and_says_so() {
    const IN_GRAPH: &str = "strategy.replication=in_graph";
    for (first, then) in [
        (&[][..], &["--set", IN_GRAPH][..]),
        (&["--set", IN_GRAPH], &[]),
    ] {
        let trial = Trial::new(1, 1, 8000, &[ENDLESS]);
        let limit = |steps: &'static str, more: &[&'static str]| {
            let all = [&["--set", steps], more].concat();
            trial.start_all_with(&all).end()
        };
        limit("train.max_steps=130", first);
        let output = limit("train.max_steps=260", then);
        assert!(
            output.contains("the tasks read the input from its start"),
            "{output}"
        );
        let again = limit("train.max_steps=390", then);
        assert!(!again.contains("the tasks read the input"), "{again}");
    }
}
