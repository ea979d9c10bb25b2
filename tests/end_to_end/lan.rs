//! Hosts of their own and the links between them, in a job whose every update is counted.

use std::path::Path;
use std::time::{Duration, Instant};

use trainyard_cluster_spec::{LocalCounts, Role, Task};
use trainyard_tests::{Draw, Lan, Ledger, Supervisor, metric};

use crate::end_to_end::LIMIT;

const CHIEF: Task = Task {
    role: Role::Chief,
    index: 0,
};
const WORKER: Task = Task {
    role: Role::Worker,
    index: 0,
};
const OTHER: Task = Task {
    role: Role::Worker,
    index: 1,
};
const SERVER: Task = Task {
    role: Role::Ps,
    index: 0,
};
/// Longer than a lease and than the time in which a silent connection is given up.
const LONG: Duration = Duration::from_secs(9);

/// A counting job, each of whose tasks has a host of its own.
struct Site {
    ledger: Ledger,
    // Before the hosts: tasks are ended first.
    tasks: Supervisor,
    lan: Lan,
    _folder: tempfile::TempDir,
}

/// Steps that a task has trained, in its present life.
fn steps(tasks: &Supervisor, task: Task) -> u64 {
    metric(tasks.admin(task), "trainyard_steps_total").unwrap_or(0.0) as u64
}

impl Site {
    /// Starts a chief that trains too, two servers and two workers, and waits until the workers train.
    fn start(settings: &[&str]) -> Self {
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
        let settings: Vec<String> = settings
            .iter()
            .map(|setting| (*setting).to_owned())
            .collect();
        let program = Path::new(env!("CARGO_BIN_EXE_nemesis"));
        let mut tasks = Supervisor::new(program, folder.path(), &job, counts, &settings);
        let lan = Lan::around(&mut tasks)
            .unwrap_or_else(|problem| panic!("hosts cannot be made: {problem}"));
        tasks.start_all();
        let trains =
            |tasks: &Supervisor| [WORKER, OTHER].iter().all(|task| steps(tasks, *task) > 0);
        tasks.wait_until("the workers train", LIMIT, trains);
        Self {
            ledger,
            tasks,
            lan,
            _folder: folder,
        }
    }

    fn let_pass(&mut self, time: Duration) {
        let begun = Instant::now();
        self.tasks
            .wait_until("time passes", LIMIT, |_| begun.elapsed() >= time);
    }

    /// Waits until a task has trained more than now, and returns how long it took.
    fn wait_until_it_trains(&mut self, task: Task) -> Duration {
        let begun = Instant::now();
        let before = steps(&self.tasks, task);
        self.tasks
            .wait_until(&format!("{task} trains"), LIMIT, |tasks| {
                steps(tasks, task) > before
            });
        begun.elapsed()
    }

    /// Ends the job, and fails unless each update was applied once.
    fn end(mut self) {
        let account = self.ledger.end(&mut self.tasks, LIMIT).expect("it ends");
        assert!(account.is_exact(), "{account}");
    }
}

trial!(what_is_lost_in_silence_in_one_direction_is_sent_again_and_counts_once, needs Networks);
fn what_is_lost_in_silence_in_one_direction_is_sent_again_and_counts_once() {
    let mut site = Site::start(&[]);
    for (from, to) in [(SERVER, WORKER), (WORKER, SERVER)] {
        site.lan.lose(from, to);
        site.let_pass(LONG);
        let before = steps(&site.tasks, WORKER);
        site.wait_until_it_trains(OTHER);
        assert_eq!(
            steps(&site.tasks, WORKER),
            before,
            "nothing gets from {from} to {to}"
        );
        site.lan.find(from, to);
        let resumed = site.wait_until_it_trains(WORKER);
        println!("{from} to {to} lost for {LONG:?}: trains {resumed:?} after");
    }
    site.end();
}

trial!(a_worker_whose_cable_is_pulled_past_its_lease_comes_back_and_loses_nothing, needs Networks);
fn a_worker_whose_cable_is_pulled_past_its_lease_comes_back_and_loses_nothing() {
    let mut site = Site::start(&[]);
    site.lan.plug(WORKER, false);
    site.let_pass(LONG);
    site.wait_until_it_trains(OTHER);
    site.lan.plug(WORKER, true);
    let resumed = site.wait_until_it_trains(WORKER);
    println!("cable pulled for {LONG:?}: trains {resumed:?} after");
    site.end();
}

trial!(a_chief_whose_cable_is_pulled_holds_nobody_up, needs Networks, alone);
fn a_chief_whose_cable_is_pulled_holds_nobody_up() {
    let mut site = Site::start(&["strategy.chief_trains=false"]);
    // Steps as small as these use up the largest reserve of data within seconds, where nothing holds them up.
    [WORKER, OTHER]
        .iter()
        .for_each(|task| site.lan.bound(*task, Some(10)));
    // By then the chief knows their pace, and their reserves of data are as large as they get.
    site.let_pass(LONG);
    site.lan.plug(CHIEF, false);
    site.let_pass(LONG);
    for task in [WORKER, OTHER] {
        let next = site.wait_until_it_trains(task);
        assert!(next < Duration::from_secs(1), "{task}: {next:?}");
    }
    site.lan.plug(CHIEF, true);
    site.end();
}

trial!(a_server_that_knows_no_way_to_the_others_is_found_again, needs Networks);
fn a_server_that_knows_no_way_to_the_others_is_found_again() {
    let mut site = Site::start(&[]);
    site.lan.route(SERVER, false);
    site.let_pass(LONG);
    site.lan.route(SERVER, true);
    let resumed = site.wait_until_it_trains(WORKER);
    println!("no route for {LONG:?}: trains {resumed:?} after");
    site.end();
}

trial!(links_that_fail_at_random_lose_and_repeat_nothing, needs Networks);
fn links_that_fail_at_random_lose_and_repeat_nothing() {
    let mut draw = Draw::seeded("links fail at random");
    let mut site = Site::start(&["run.save_checkpoints_secs=2"]);
    let all = site.tasks.tasks();
    let begun = Instant::now();
    let mut faults = 0;
    while begun.elapsed() < Duration::from_secs(25) {
        let victim = *draw.one_of(&all).expect("there are tasks");
        let rest: Vec<Task> = all.iter().copied().filter(|task| *task != victim).collect();
        let other = *draw.one_of(&rest).expect("there are tasks");
        let time = Duration::from_millis(100 << draw.below(6));
        let kind = draw.below(5);
        match kind {
            0 => site.lan.lose(victim, other),
            1 => rest.iter().for_each(|task| site.lan.lose(victim, *task)),
            2 => site.lan.plug(victim, false),
            3 => site.lan.route(victim, false),
            _ => site.lan.bound(victim, Some(2)),
        }
        let what = [
            "loses all to one",
            "loses all",
            "cable",
            "route",
            "2 Mbit/s",
        ][kind as usize];
        println!(
            "{:6.2} s: {victim} {what} for {time:?}",
            begun.elapsed().as_secs_f64()
        );
        let until = Instant::now() + time;
        site.tasks
            .wait_until("time passes", LIMIT, |_| Instant::now() >= until);
        match kind {
            0 | 1 => rest.iter().for_each(|task| site.lan.find(victim, *task)),
            2 => site.lan.plug(victim, true),
            3 => site.lan.route(victim, true),
            _ => site.lan.bound(victim, None),
        }
        faults += 1;
        site.let_pass(Duration::from_millis(200));
    }
    println!("{faults} faults in {:?}", begun.elapsed());
    site.end();
}
