//! Networks that misbehave, in a job whose every update is counted.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rustix::process::Signal;
use trainyard_cluster_spec::{LocalCounts, Role, Task};
use trainyard_tests::{Blow, Direction, Draw, Ledger, Link, Proxy, Supervisor, metric};

use crate::end_to_end::LIMIT;

const CHIEF: Task = Task {
    role: Role::Chief,
    index: 0,
};
const WORKER: Task = Task {
    role: Role::Worker,
    index: 0,
};
const SERVERS: [Task; 2] = [
    Task {
        role: Role::Ps,
        index: 0,
    },
    Task {
        role: Role::Ps,
        index: 1,
    },
];

/// A counting job whose chief and servers are reached through proxies.
struct Net {
    ledger: Ledger,
    tasks: Supervisor,
    proxies: BTreeMap<Task, Proxy>,
    _folder: tempfile::TempDir,
}

impl Net {
    /// Starts a chief, two servers and two workers, and waits until they train.
    fn start(epochs: u64, settings: &[&str]) -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let ledger = Ledger {
            rows: 5000,
            epochs,
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
        let mut proxies = BTreeMap::new();
        for task in SERVERS.into_iter().chain([CHIEF]) {
            let proxy = Proxy::new(tasks.address(task));
            tasks.reach_through(task, proxy.address());
            proxies.insert(task, proxy);
        }
        tasks.start_all();
        let mut net = Self {
            ledger,
            tasks,
            proxies,
            _folder: folder,
        };
        let trains = |net: &mut Self| net.steps(WORKER) > 0 && net.steps(CHIEF) > 0;
        net.wait_until("they train", LIMIT, trains);
        net
    }

    /// Steps that a task has applied.
    fn steps(&self, task: Task) -> u64 {
        self.count(task, "trainyard_steps_total")
    }

    fn count(&self, task: Task, name: &str) -> u64 {
        metric(self.tasks.admin(task), name).unwrap_or(0.0) as u64
    }

    /// Waits until something holds, and returns how long it took.
    fn wait_until(
        &mut self,
        what: &str,
        limit: Duration,
        holds: impl Fn(&mut Self) -> bool,
    ) -> Duration {
        let begun = Instant::now();
        while !holds(self) {
            assert!(
                begun.elapsed() < limit,
                "not within {limit:?}: {what}; {}",
                self.tasks.last_lines()
            );
            self.tasks.look();
            assert_eq!(
                self.tasks.failed_for_good(),
                None,
                "{}",
                self.tasks.last_lines()
            );
            std::thread::sleep(Duration::from_millis(10));
        }
        begun.elapsed()
    }

    fn let_pass(&mut self, time: Duration) {
        let begun = Instant::now();
        self.wait_until("time passes", LIMIT, |_| begun.elapsed() >= time);
    }

    /// Ends the job, and fails unless each update was applied once.
    fn end(mut self) {
        self.proxies.values().for_each(Proxy::heal);
        let account = self.ledger.end(&mut self.tasks, LIMIT).expect("it ends");
        assert!(account.is_exact(), "{account}{}", self.tasks.last_lines());
    }
}

trial!(connections_that_break_at_any_byte_lose_and_repeat_nothing);
fn connections_that_break_at_any_byte_lose_and_repeat_nothing() {
    let mut draw = Draw::seeded("connections break at any byte");
    let mut net = Net::start(Ledger::ENDLESS, &["run.save_checkpoints_secs=2"]);
    let mut struck = BTreeMap::new();
    let mut places = Vec::new();
    for round in 0..60_u64 {
        // From the first bytes of a connection to some messages further on; small numbers as often as large ones.
        let bound = 8 << draw.below(16);
        let bytes = draw.below(bound);
        let task = if round % 6 == 5 {
            CHIEF
        } else {
            SERVERS[(round % 2) as usize]
        };
        let direction = if draw.below(2) == 0 {
            Direction::Requests
        } else {
            Direction::Replies
        };
        let blow = if draw.below(3) == 0 {
            Blow::HalfClose
        } else {
            Blow::Reset
        };
        net.proxies[&task].strike_after(direction, bytes, blow);
        net.wait_until("a connection breaks", LIMIT, |net| {
            net.proxies[&task].has_struck()
        });
        *struck
            .entry(format!("{task} {direction:?} {blow:?}"))
            .or_insert(0) += 1;
        places.push(bytes);
    }
    let duplicates: u64 = SERVERS
        .map(|task| net.count(task, "trainyard_ps_duplicates_total"))
        .iter()
        .sum();
    println!("{struck:#?}, behind bytes {places:?}; {duplicates} pushes came again");
    net.end();
}

trial!(replies_that_are_lost_are_asked_for_again_and_nothing_is_applied_twice);
fn replies_that_are_lost_are_asked_for_again_and_nothing_is_applied_twice() {
    let mut net = Net::start(Ledger::ENDLESS, &[]);
    let mut duplicates = 0;
    for task in SERVERS {
        // What the workers push arrives, and nobody hears of it.
        net.proxies[&task].set(Link {
            holds_replies: true,
            ..Link::default()
        });
        net.let_pass(Duration::from_millis(700));
        net.proxies[&task].reset();
        net.proxies[&task].heal();
        let before = net.steps(WORKER);
        net.wait_until("it goes on", LIMIT, |net| net.steps(WORKER) > before);
        duplicates += net.count(task, "trainyard_ps_duplicates_total");
    }
    println!("{duplicates} pushes came again and were not applied again");
    assert!(duplicates > 0, "no push was repeated");
    net.end();
}

trial!(
    a_worker_that_cannot_reach_the_servers_goes_on_when_it_can_and_the_others_never_stop,
    alone
);
fn a_worker_that_cannot_reach_the_servers_goes_on_when_it_can_and_the_others_never_stop() {
    const CUT: Duration = Duration::from_secs(10);
    let mut net = Net::start(Ledger::ENDLESS, &["strategy.chief_trains=true"]);
    let process = net.tasks.id(WORKER).expect("it runs");
    SERVERS
        .iter()
        .for_each(|task| net.proxies[task].set_for(process, Some(Link::CUT)));
    net.let_pass(Duration::from_millis(500));
    let before = net.steps(WORKER);
    let others = net.steps(CHIEF);
    net.let_pass(CUT);
    assert_eq!(net.steps(WORKER), before, "it is cut off");
    assert!(net.steps(CHIEF) > others, "the others go on");
    SERVERS
        .iter()
        .for_each(|task| net.proxies[task].set_for(process, None));
    let resumed = net.wait_until("it goes on", LIMIT, |net| net.steps(WORKER) > before);
    println!("cut for {CUT:?}; it goes on {resumed:?} after the link is good again");
    assert!(resumed < Duration::from_secs(2), "{resumed:?}");
    net.end();
}

trial!(
    a_server_that_takes_connections_and_answers_nothing_is_noticed_and_named,
    alone
);
fn a_server_that_takes_connections_and_answers_nothing_is_noticed_and_named() {
    let mut net = Net::start(Ledger::ENDLESS, &[]);
    // As a host that has gone and whose address is somebody else's now.
    net.proxies[&SERVERS[0]].set(Link {
        blackhole: true,
        ..Link::CUT
    });
    let begun = Instant::now();
    net.wait_until("the worker says that it waits", LIMIT, |net| {
        !net.tasks
            .lines(WORKER, "waiting: worker:0 for ps:0")
            .is_empty()
    });
    let told = begun.elapsed();
    let accepted = net.proxies[&SERVERS[0]].accepted();
    let detected = net.wait_until("somebody connects anew", LIMIT, |net| {
        net.proxies[&SERVERS[0]].accepted() > accepted
    });
    assert!(told < Duration::from_secs(5), "{told:?}");
    println!(
        "said after {told:?}; the dead connections were given up after {:?}",
        told + detected
    );
    // 4.5 s, and some for a machine that has other work.
    assert!(
        told + detected < Duration::from_secs(6),
        "{:?}",
        told + detected
    );
    net.proxies[&SERVERS[0]].reset();
    net.proxies[&SERVERS[0]].heal();
    let before = net.steps(WORKER);
    let resumed = net.wait_until("it goes on", LIMIT, |net| net.steps(WORKER) > before);
    println!("it goes on {resumed:?} after the link is good again");
    net.end();
}

trial!(on_a_slow_link_nobody_is_taken_for_dead);
fn on_a_slow_link_nobody_is_taken_for_dead() {
    let link = Link {
        delay: Duration::from_millis(25),
        jitter: Duration::from_millis(20),
        bytes_per_second: Some(1 << 20),
        ..Link::default()
    };
    let mut net = Net::start(Ledger::ENDLESS, &[]);
    net.proxies.values().for_each(|proxy| proxy.set(link));
    net.let_pass(Duration::from_secs(8));
    assert_eq!(net.count(CHIEF, "trainyard_leases_lost_total"), 0);
    net.end();
}

trial!(
    tasks_that_stand_still_for_three_seconds_on_a_busy_machine_keep_connections_and_leases,
    alone
);
fn tasks_that_stand_still_for_three_seconds_on_a_busy_machine_keep_connections_and_leases() {
    let mut net = Net::start(Ledger::ENDLESS, &["run.save_checkpoints_secs=2"]);
    let over = Arc::new(AtomicBool::new(false));
    let cores = std::thread::available_parallelism().map_or(2, usize::from);
    let spinners: Vec<_> = (0..2 * cores)
        .map(|_| Arc::clone(&over))
        .map(|over| std::thread::spawn(move || while !over.load(Ordering::Relaxed) {}))
        .collect();
    let connections = |net: &Net| net.proxies.values().map(Proxy::accepted).sum::<u64>();
    net.let_pass(Duration::from_secs(1));
    let before = connections(&net);
    for task in [WORKER, SERVERS[0], CHIEF] {
        net.tasks.signal(task, Signal::STOP);
        net.let_pass(Duration::from_secs(3));
        net.tasks.signal(task, Signal::CONT);
        net.let_pass(Duration::from_secs(1));
    }
    let lost = net.count(CHIEF, "trainyard_leases_lost_total");
    let more = connections(&net) - before;
    over.store(true, Ordering::Relaxed);
    spinners
        .into_iter()
        .for_each(|spinner| spinner.join().expect("a spinner does not panic"));
    assert_eq!(
        (lost, more),
        (0, 0),
        "leases lost, and connections made anew"
    );
    net.tasks.kill_all();
}

trial!(a_worker_that_is_killed_behind_a_cut_does_not_hold_the_job_up);
fn a_worker_that_is_killed_behind_a_cut_does_not_hold_the_job_up() {
    let mut net = Net::start(100, &[]);
    let process = net.tasks.id(WORKER).expect("it runs");
    SERVERS
        .iter()
        .for_each(|task| net.proxies[task].set_for(process, Some(Link::CUT)));
    net.let_pass(Duration::from_millis(500));
    net.tasks.signal(WORKER, Signal::KILL);
    // What it had sent arrives behind its death.
    net.let_pass(Duration::from_millis(300));
    net.end();
}
