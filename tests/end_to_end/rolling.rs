//! Every task in turn is told to stop and started again, in a job whose every update is counted.

use std::path::Path;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use trainyard_checkpoint::latest_good;
use trainyard_cluster_spec::{LocalCounts, Role, Task};
use trainyard_tests::{Ledger, Supervisor, metric};

use crate::end_to_end::LIMIT;

const CHIEF: Task = Task {
    role: Role::Chief,
    index: 0,
};
const FIRST: Task = Task {
    role: Role::Ps,
    index: 0,
};
/// Time in which the job runs undisturbed, before and between restarts.
const UNDISTURBED: Duration = Duration::from_secs(3);
const BETWEEN: Duration = Duration::from_secs(1);
/// Steps a second while one task after the other is restarted, divided by those without: a job that stands still while a task
/// is away has less.
const GOODPUT_MIN: f64 = 0.2;

/// Steps applied, as the server or the chief tells that is further.
fn applied(tasks: &Supervisor) -> u64 {
    let told = |task| metric(tasks.admin(task), "trainyard_global_step").unwrap_or(0.0) as u64;
    told(FIRST).max(told(CHIEF))
}

/// A counting job under a supervisor.
struct Roll {
    tasks: Supervisor,
    /// Steps applied, as last told.
    steps: u64,
}

impl Roll {
    fn let_pass(&mut self, time: Duration) {
        let begun = Instant::now();
        self.tasks
            .wait_until("time passes", LIMIT, |_| begun.elapsed() >= time);
    }

    /// Steps applied by all, of which one server or the chief tells.
    fn steps(&mut self) -> u64 {
        self.steps = self.steps.max(applied(&self.tasks));
        self.steps
    }

    /// Has a task stop and come back, and waits until steps are applied while it is there.
    fn restart(&mut self, task: Task) {
        let begun = Instant::now();
        let life = self.tasks.id(task);
        self.tasks.signal(task, Signal::TERM);
        self.tasks
            .wait_until("it stops", LIMIT, |tasks| tasks.id(task) != life);
        let code = self.tasks.exit(task);
        let stopped = begun.elapsed();
        assert_eq!(code, Some(0), "{task} is told to stop, and does");
        self.tasks
            .wait_until("it is started again", LIMIT, |tasks| tasks.runs(task));
        // Counters of a task begin anew in each of its lives.
        let works = |tasks: &Supervisor| {
            let told = |name| metric(tasks.admin(task), name).unwrap_or(0.0);
            match task.role {
                Role::Ps => told("trainyard_ps_pushes_total") > 0.0,
                Role::Worker => told("trainyard_steps_total") > 0.0,
                Role::Chief | Role::Evaluator => told("trainyard_global_step") > 0.0,
            }
        };
        self.tasks.wait_until("it takes part", LIMIT, works);
        println!(
            "{task}: stopped after {stopped:?}, takes part again after {:?}",
            begun.elapsed()
        );
    }
}

trial!(
    every_task_is_restarted_in_turn_and_no_update_is_lost_or_repeated,
    alone
);
fn every_task_is_restarted_in_turn_and_no_update_is_lost_or_repeated() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let ledger = Ledger {
        rows: 5000,
        epochs: Ledger::ENDLESS,
        batch_size: 16,
        servers: 2,
        lanes: 1,
    };
    let job = ledger.write(folder.path());
    let counts = LocalCounts {
        ps: 2,
        workers: 3,
        evaluators: 0,
    };
    let tasks = Supervisor::new(
        Path::new(env!("CARGO_BIN_EXE_nemesis")),
        folder.path(),
        &job,
        counts,
        &[],
    );
    let mut roll = Roll { tasks, steps: 0 };
    roll.tasks.start_all();
    roll.tasks
        .wait_until("they train", LIMIT, |tasks| applied(tasks) > 100);
    let begun = Instant::now();
    let first = roll.steps();
    roll.let_pass(UNDISTURBED);
    let fault_free = (roll.steps() - first) as f64 / begun.elapsed().as_secs_f64();
    let begun = Instant::now();
    let first = roll.steps();
    for task in roll.tasks.tasks() {
        roll.restart(task);
        roll.let_pass(BETWEEN);
    }
    let goodput = (roll.steps() - first) as f64 / begun.elapsed().as_secs_f64() / fault_free;
    println!(
        "{} tasks restarted within {:?}; {fault_free:.0} steps/s without faults, goodput {:.0} %",
        roll.tasks.tasks().len(),
        begun.elapsed(),
        goodput * 100.0
    );
    assert!(goodput > GOODPUT_MIN, "the others go on: {goodput}");
    let account = ledger.end(&mut roll.tasks, LIMIT).expect("it ends");
    assert!(account.is_exact(), "{account}");
}

trial!(servers_that_are_told_to_stop_as_their_job_ends_hear_that_it_has_ended);
fn servers_that_are_told_to_stop_as_their_job_ends_hear_that_it_has_ended() {
    const STEPS: u64 = 40;
    let folder = tempfile::tempdir().expect("a temporary folder");
    let ledger = Ledger {
        rows: 5000,
        epochs: 5,
        batch_size: 16,
        servers: 2,
        lanes: 1,
    };
    let job = ledger.write(folder.path());
    let counts = LocalCounts {
        ps: 2,
        workers: 1,
        evaluators: 0,
    };
    let settings = [
        "strategy.chief_trains=false".to_owned(),
        format!("train.max_steps={STEPS}"),
    ];
    let program = Path::new(env!("CARGO_BIN_EXE_nemesis"));
    let mut tasks = Supervisor::new(program, folder.path(), &job, counts, &settings);
    let slowly = ["env", "FAILPOINTS=worker.after_ack=sleep(30)"]
        .map(str::to_owned)
        .to_vec();
    tasks.start_by(
        Task {
            role: Role::Worker,
            index: 0,
        },
        slowly,
    );
    tasks.start_all();
    let pushes = |tasks: &Supervisor, task| {
        metric(tasks.admin(task), "trainyard_ps_pushes_total").unwrap_or(0.0) as u64
    };
    // The worker has the data of more steps than these by then.
    tasks.wait_until("they train", LIMIT, |tasks| {
        pushes(tasks, FIRST) > STEPS / 2
    });
    tasks.signal(CHIEF, Signal::STOP);
    let servers = tasks.of_role(Role::Ps);
    tasks.wait_until("all is applied", LIMIT, |tasks| {
        servers.iter().all(|server| pushes(tasks, *server) == STEPS)
    });
    servers
        .iter()
        .for_each(|server| tasks.signal(*server, Signal::TERM));
    let drains = |tasks: &Supervisor, server| !tasks.lines(server, "draining").is_empty();
    tasks.wait_until("they drain", LIMIT, |tasks| {
        servers.iter().all(|server| drains(tasks, *server))
    });
    tasks.signal(CHIEF, Signal::CONT);
    assert!(
        tasks.wait_for_end_of(CHIEF, LIMIT),
        "{}",
        tasks.last_lines()
    );
    let late = tasks.finish(LIMIT);
    assert!(
        late.is_empty(),
        "{late:?} wait for a chief that never comes: {}",
        tasks.last_lines()
    );
    let found = latest_good(&folder.path().join("model"), &mut |_| ()).expect("the folder is read");
    assert_eq!(
        found.map(|checkpoint| checkpoint.manifest().global_step),
        Some(STEPS)
    );
}
