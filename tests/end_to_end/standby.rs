//! A chief that stands by for another.

use std::path::Path;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use trainyard_cluster_spec::{LocalCounts, Role, Task};
use trainyard_tests::{Ledger, Supervisor, metric};

use crate::end_to_end::LIMIT;

const CHIEF: Task = Task {
    role: Role::Chief,
    index: 0,
};
const SERVER: Task = Task {
    role: Role::Ps,
    index: 0,
};

/// Updates that a server has applied.
fn version(tasks: &Supervisor) -> f64 {
    metric(tasks.admin(SERVER), "trainyard_ps_pushes_total").unwrap_or(0.0)
}

/// A counting job with two chiefs.
struct Pair {
    ledger: Ledger,
    tasks: Supervisor,
    standby: Task,
    _folder: tempfile::TempDir,
}

impl Pair {
    fn start() -> Self {
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
            workers: 2,
            evaluators: 0,
        };
        let program = Path::new(env!("CARGO_BIN_EXE_nemesis"));
        let mut tasks = Supervisor::new(program, folder.path(), &job, counts, &[]);
        let standby = tasks.add_standby();
        tasks.slow_down();
        tasks.start_all_then_standbys(LIMIT);
        let mut pair = Self {
            ledger,
            tasks,
            standby,
            _folder: folder,
        };
        pair.wait_until("the second stands by", |tasks| {
            !tasks.lines(standby, "standing by").is_empty()
        });
        pair.wait_until("they train", |tasks| version(tasks) > 100.0);
        // Their reserves of data have been renewed by then.
        let begun = Instant::now();
        pair.wait_until("time passes", |_| begun.elapsed() > Duration::from_secs(3));
        pair
    }

    /// Waits until something holds, and returns how long it took.
    fn wait_until(&mut self, what: &str, holds: impl Fn(&Supervisor) -> bool) -> Duration {
        self.tasks.wait_until(what, LIMIT, holds)
    }

    /// Updates that a server has applied.
    fn version(&self) -> f64 {
        version(&self.tasks)
    }

    fn told(&self, task: Task, text: &str) -> usize {
        self.tasks.lines(task, text).len()
    }

    /// Waits until the second leads, and until updates come in that were not there when it did.
    fn taken_over(&mut self) {
        let standby = self.standby;
        let before = self.version();
        let begun = Instant::now();
        let mut last = before;
        let mut since = begun;
        let mut gap = Duration::ZERO;
        while self.told(standby, "training is open") == 0 {
            assert!(
                begun.elapsed() < LIMIT,
                "the second must lead within {LIMIT:?}"
            );
            self.tasks.look();
            if self.version() > last {
                (last, gap, since) = (self.version(), gap.max(since.elapsed()), Instant::now());
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        let led = begun.elapsed();
        let at_takeover = self.version();
        let came = at_takeover - before;
        println!(
            "the second leads after {led:?}; {came} updates came in meanwhile, {gap:?} apart at most"
        );
        assert!(
            since.elapsed() < led / 2,
            "servers and workers need no chief to train: the last came {:?} ago",
            since.elapsed()
        );
        self.wait_until("training goes on", |tasks| {
            version(tasks) > at_takeover + 100.0
        });
    }

    /// Ends the job, and checks that every update counted once.
    fn end(mut self) -> Supervisor {
        let account = self.ledger.end(&mut self.tasks, LIMIT).expect("it ends");
        assert!(account.is_exact(), "{account}");
        self.tasks
    }
}

trial!(
    a_chief_that_is_lost_is_followed_by_the_one_that_stands_by_and_no_update_is_lost_or_repeated
);
fn a_chief_that_is_lost_is_followed_by_the_one_that_stands_by_and_no_update_is_lost_or_repeated() {
    let mut pair = Pair::start();
    pair.tasks.lose(CHIEF);
    pair.taken_over();
    pair.end();
}

trial!(a_chief_that_stood_still_while_another_took_over_changes_nothing_and_stands_by);
fn a_chief_that_stood_still_while_another_took_over_changes_nothing_and_stands_by() {
    let mut pair = Pair::start();
    let standing = |tasks: &Supervisor| !tasks.lines(CHIEF, "standing by").is_empty();
    assert!(!standing(&pair.tasks));
    pair.tasks.signal(CHIEF, Signal::STOP);
    pair.taken_over();
    let life = pair.tasks.id(CHIEF);
    pair.tasks.signal(CHIEF, Signal::CONT);
    pair.wait_until("the first ends", |tasks| tasks.id(CHIEF) != life);
    assert_eq!(
        pair.tasks.exit(CHIEF),
        Some(75),
        "it says that another leads, and may be started again"
    );
    pair.wait_until("the first stands by", standing);
    let tasks = pair.end();
    assert_eq!(tasks.exit(CHIEF), Some(0), "it was not needed");
}

trial!(a_chief_that_stands_by_with_another_job_is_refused_and_the_one_that_leads_goes_on);
fn a_chief_that_stands_by_with_another_job_is_refused_and_the_one_that_leads_goes_on() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let ledger = Ledger {
        rows: 5000,
        epochs: Ledger::ENDLESS,
        batch_size: 16,
        servers: 1,
        lanes: 1,
    };
    let job = ledger.write(folder.path());
    let counts = LocalCounts {
        ps: 1,
        workers: 0,
        evaluators: 0,
    };
    let program = Path::new(env!("CARGO_BIN_EXE_nemesis"));
    let mut tasks = Supervisor::new(program, folder.path(), &job, counts, &[]);
    let standby = tasks.add_standby();
    tasks.give(standby, &["--set", "run.seed=99"]);
    tasks.start_all_then_standbys(LIMIT);
    assert!(!tasks.wait_for_end_of(standby, LIMIT));
    assert_eq!(
        tasks.exit(standby),
        Some(76),
        "{:?}",
        tasks.lines(standby, "")
    );
    let told = tasks.lines(
        standby,
        "another job than the leading chief: run.seed is 99 for this chief",
    );
    assert_eq!(told.len(), 1, "{:?}", tasks.lines(standby, ""));
    let before = version(&tasks);
    while version(&tasks) <= before {
        assert!(tasks.runs(CHIEF));
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Stops both chiefs of a job, and starts them again with another: the first answers for 3 s before it leads, and the second
/// has `own` settings. Returns once the second follows it.
fn with_another_job(pair: &mut Pair, own: &[&str]) {
    for role in [Role::Worker, Role::Chief] {
        pair.tasks.stop(role, LIMIT).expect("they stop");
    }
    pair.tasks.set("input.train.epochs=999999");
    pair.tasks.give(pair.standby, own);
    let late = ["env", "FAILPOINTS=chief.epoch.before_claim=1*sleep(3000)"]
        .map(str::to_owned)
        .to_vec();
    let before = pair.told(pair.standby, "standing by");
    pair.tasks.wrap_next(CHIEF, late);
    for task in [CHIEF, pair.standby] {
        pair.tasks.start(task);
    }
    let standby = pair.standby;
    pair.wait_until("the second follows", |tasks| {
        tasks.lines(standby, "standing by").len() > before
    });
}

trial!(
    chiefs_that_are_started_again_with_another_job_do_not_take_it_for_the_one_that_was_led_before
);
fn chiefs_that_are_started_again_with_another_job_do_not_take_it_for_the_one_that_was_led_before() {
    let mut pair = Pair::start();
    with_another_job(&mut pair, &[]);
    let opened = pair.told(CHIEF, "training is open");
    pair.tasks
        .of_role(Role::Worker)
        .into_iter()
        .for_each(|task| pair.tasks.start(task));
    pair.wait_until("they train again", |tasks| {
        tasks.lines(CHIEF, "training is open").len() > opened
    });
    assert!(
        pair.tasks.runs(pair.standby),
        "{:?}",
        pair.tasks.lines(pair.standby, "")
    );
    assert_eq!(pair.told(pair.standby, "another job"), 0);
}

trial!(a_chief_that_follows_before_the_other_leads_is_refused_with_another_job_once_it_does);
fn a_chief_that_follows_before_the_other_leads_is_refused_with_another_job_once_it_does() {
    let mut pair = Pair::start();
    with_another_job(&mut pair, &["--set", "run.seed=99"]);
    let standby = pair.standby;
    assert!(!pair.tasks.wait_for_end_of(standby, LIMIT));
    assert_eq!(
        pair.tasks.exit(standby),
        Some(76),
        "{:?}",
        pair.tasks.lines(standby, "")
    );
}
