//! What the workers were told is applied, against what the servers still have after all processes have died.

use std::path::Path;
use std::time::{Duration, Instant};

use trainyard_cluster_spec::{LocalCounts, Role, Task};
use trainyard_tests::{Draw, Ledger, Supervisor};

use crate::end_to_end::LIMIT;

const CHIEF: Task = Task {
    role: Role::Chief,
    index: 0,
};
const ROUNDS: usize = 6;

/// Steps that a worker says were acknowledged, in all its lives: a line for each, written when the last server has.
fn acknowledged(tasks: &Supervisor) -> usize {
    let of = |task| tasks.lines(task, " training step=").len();
    tasks.of_role(Role::Worker).into_iter().map(of).sum()
}

/// The steps at which training was opened, again and again.
fn openings(tasks: &Supervisor) -> Vec<usize> {
    let step = |line: &String| {
        let (_, rest) = line.split_once("step=").expect("the step");
        rest.split(' ')
            .next()
            .and_then(|step| step.parse().ok())
            .expect("a number")
    };
    tasks
        .lines(CHIEF, "training is open")
        .iter()
        .map(step)
        .collect()
}

trial!(servers_that_come_back_have_every_step_that_a_worker_was_told_of);
fn servers_that_come_back_have_every_step_that_a_worker_was_told_of() {
    let mut draw = Draw::seeded("servers come back with every step");
    let folder = tempfile::tempdir().expect("a temporary folder");
    let ledger = Ledger {
        rows: 5000,
        epochs: Ledger::ENDLESS,
        batch_size: 64,
        lanes: 1,
        servers: 2,
    };
    let job = ledger.write(folder.path());
    let counts = LocalCounts {
        ps: 2,
        workers: 2,
        evaluators: 0,
    };
    let settings = [
        "run.log_step_count_steps=1",
        "strategy.chief_trains=false",
        "run.save_checkpoints_secs=1",
    ];
    let settings: Vec<String> = settings.map(str::to_owned).to_vec();
    let program = Path::new(env!("CARGO_BIN_EXE_nemesis"));
    let mut tasks = Supervisor::new(program, folder.path(), &job, counts, &settings);
    tasks.start_all();
    let mut told = 0;
    for round in 1..=ROUNDS {
        let before = told;
        tasks.wait_until("the workers train", LIMIT, |tasks| {
            acknowledged(tasks) > before + 20
        });
        let begun = Instant::now();
        let time = Duration::from_millis(draw.below(700));
        tasks.wait_until("time passes", LIMIT, |_| begun.elapsed() > time);
        // All at once. The workers come back only when it is known what the servers have.
        tasks.kill_all();
        told = acknowledged(&tasks);
        tasks
            .of_role(Role::Ps)
            .into_iter()
            .chain([CHIEF])
            .for_each(|task| tasks.start(task));
        tasks.wait_until("training is open", LIMIT, |tasks| {
            openings(tasks).len() > round
        });
        let has = openings(&tasks)[round];
        println!("round {round}: the workers were told of {told} steps, the servers have {has}");
        assert!(has >= told, "acknowledged steps are lost");
        tasks
            .of_role(Role::Worker)
            .into_iter()
            .for_each(|task| tasks.start(task));
    }
    assert!(
        tasks.lines(CHIEF, "restoring").is_empty(),
        "no checkpoint was needed"
    );
    let account = ledger.end(&mut tasks, LIMIT).expect("it ends");
    assert!(account.is_exact(), "{account}");
}
