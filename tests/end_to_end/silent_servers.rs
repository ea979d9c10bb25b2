//! A chief whose parameter servers do not answer: they hang, and their connections stay.

use std::path::Path;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use trainyard_cluster_spec::{LocalCounts, Role, Task};
use trainyard_tests::{LIMIT, Ledger, Supervisor, metric};

const CHIEF: Task = Task {
    role: Role::Chief,
    index: 0,
};

/// A counting job of a chief that trains, a worker and three servers.
fn cluster(folder: &Path) -> (Ledger, Supervisor, Vec<Task>) {
    let ledger = Ledger {
        rows: 5000,
        epochs: Ledger::ENDLESS,
        batch_size: 16,
        servers: 3,
        lanes: 1,
    };
    let job = ledger.write(folder);
    let counts = LocalCounts {
        ps: 3,
        workers: 1,
        evaluators: 0,
    };
    let program = Path::new(env!("CARGO_BIN_EXE_nemesis"));
    let tasks = Supervisor::new(program, folder, &job, counts, &[]);
    let servers = tasks.of_role(Role::Ps);
    (ledger, tasks, servers)
}

/// Tells the chief to stop, and waits until it has, for less than `drain`. Returns its exit code.
fn stop_chief(tasks: &mut Supervisor, drain: Duration) -> i32 {
    let life = tasks.id(CHIEF).expect("it runs");
    tasks.signal(CHIEF, Signal::TERM);
    let begun = Instant::now();
    tasks.wait_until("the chief ends", LIMIT, |tasks| {
        tasks.id(CHIEF) != Some(life)
    });
    let took = begun.elapsed();
    assert!(took < drain, "{took:?}; {}", tasks.last_lines());
    tasks.exit(CHIEF).expect("it has ended")
}

fn no_fault_is_told(tasks: &Supervisor) {
    let faults = tasks.lines(CHIEF, "fault in this program");
    assert_eq!(faults, Vec::<String>::new());
}

trial!(a_chief_that_stops_while_servers_are_silent_says_whose_values_its_last_checkpoint_lacks);
fn a_chief_that_stops_while_servers_are_silent_says_whose_values_its_last_checkpoint_lacks() {
    // A call to a server that does not answer fails after some seconds, or the time to stop in is over before.
    for (silent, drain_deadline) in [(1, 20), (3, 8)] {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let (ledger, mut tasks, servers) = cluster(folder.path());
        tasks.give(CHIEF, &["--drain-deadline", &drain_deadline.to_string()]);
        tasks.start_all();
        // There is something to save.
        let trains = |tasks: &Supervisor| {
            let pushes = |server: &Task| metric(tasks.admin(*server), "trainyard_ps_pushes_total");
            let mut servers = servers.iter();
            servers.all(|server| pushes(server).is_some_and(|pushes| pushes > 100.0))
        };
        tasks.wait_until("every server has applied updates", LIMIT, trains);
        let silent = &servers[servers.len() - silent..];
        for server in silent {
            tasks.signal(*server, Signal::STOP);
        }
        // The calls of the training loops wait by then.
        let until = Instant::now() + Duration::from_secs(1);
        tasks.wait_until("a second passes", LIMIT, |_| Instant::now() > until);
        let drain = Duration::from_secs(drain_deadline);
        let code = stop_chief(&mut tasks, drain);
        let told = match code {
            69 => "the checkpoint waits for a server: ",
            74 => "the last checkpoint did not become ready within ",
            code => panic!("{code}; {}", tasks.last_lines()),
        };
        let is_told = !tasks.lines(CHIEF, told).is_empty();
        assert!(is_told, "{code}; {}", tasks.last_lines());
        no_fault_is_told(&tasks);
        for server in silent {
            tasks.signal(*server, Signal::CONT);
        }
        let account = ledger.end(&mut tasks, LIMIT).expect("it ends");
        assert!(account.is_exact(), "{account}");
        no_fault_is_told(&tasks);
    }
}

trial!(a_chief_that_waits_at_its_start_for_silent_servers_stops_at_once);
fn a_chief_that_waits_at_its_start_for_silent_servers_stops_at_once() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let (ledger, mut tasks, servers) = cluster(folder.path());
    for server in &servers {
        tasks.start(*server);
    }
    let listen = |tasks: &Supervisor| {
        let mut servers = servers.iter();
        servers.all(|server| !tasks.lines(*server, "the admin port listens").is_empty())
    };
    tasks.wait_until("the servers listen", LIMIT, listen);
    for server in &servers {
        tasks.signal(*server, Signal::STOP);
    }
    tasks.start(CHIEF);
    let waits = |tasks: &Supervisor| !tasks.lines(CHIEF, "wait").is_empty();
    tasks.wait_until("the chief waits", LIMIT, waits);
    assert_eq!(
        stop_chief(&mut tasks, Duration::from_secs(10)),
        0,
        "{}",
        tasks.last_lines()
    );
    no_fault_is_told(&tasks);
    for server in &servers {
        tasks.signal(*server, Signal::CONT);
    }
    for worker in tasks.of_role(Role::Worker) {
        tasks.start(worker);
    }
    let trains = |tasks: &Supervisor| !tasks.lines(CHIEF, "training is open").is_empty();
    tasks.wait_until("training is open", LIMIT, trains);
    let account = ledger.end(&mut tasks, LIMIT).expect("it ends");
    assert!(account.is_exact(), "{account}");
}
