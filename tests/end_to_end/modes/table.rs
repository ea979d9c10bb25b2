//! The table of what survives what: each way to train, and each set of tasks that is killed at one moment, in a first run and
//! after a resume. `docs/reliability.md` shows the same table.

use std::path::Path;
use std::time::{Duration, Instant};

use trainyard_tests::{Mount, Program, Way};

use super::Trial;
use super::trial::{ENDLESS, Tasks};
use crate::end_to_end::LIMIT;
use rustix::process::Signal;

/// Batches of a pass: 8,000 rows by 16.
const BATCHES: u64 = 500;
/// A setting by which a job is changed.
const OTHER_RATE: &str = "model.dnn_optimizer.learning_rate=0.002";
/// Workers, besides the chief.
const WORKERS: usize = 2;

/// Tasks that are killed at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Killed {
    Worker,
    Server,
    Chief,
    WorkerAndServer,
    ChiefAndWorker,
    ChiefAndServer,
    All,
    /// The chief, by SIGTERM.
    StoppedChief,
    /// The chief and all workers, which start again with another learning rate.
    OfChangedJob,
    /// A server, which cannot read a file of the job when it starts again.
    BlindServer,
    /// The chief, which cannot read a file of the job when it starts again.
    BlindChief,
    /// A server, whose log finds no room in shared memory, before and after.
    ServerWithoutMemory,
}

impl Killed {
    fn name(self) -> &'static str {
        match self {
            Self::Worker => "worker",
            Self::Server => "ps",
            Self::Chief => "chief",
            Self::WorkerAndServer => "worker + ps",
            Self::ChiefAndWorker => "chief + worker",
            Self::ChiefAndServer => "chief + ps",
            Self::All => "all",
            Self::StoppedChief => "chief by SIGTERM",
            Self::OfChangedJob => "chief + workers, of a job that is then changed",
            Self::BlindServer => "ps that then cannot read",
            Self::BlindChief => "chief that then cannot read",
            Self::ServerWithoutMemory => "ps with a full shared memory",
        }
    }

    /// Whether it needs a machine on which reads can be made to fail and memory can be mounted.
    fn is_narrow(self) -> bool {
        [BlindServer, BlindChief, ServerWithoutMemory].contains(&self)
    }
}

/// What is kept beyond the count: every batch counts once in each store, and a step is a step in each store, in any case.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kept {
    /// No step is computed again.
    EveryStep,
    /// All stores may go back to the latest checkpoint, together.
    Checkpoint,
}

/// What a way to train survives.
struct Mode {
    way: Way,
    faults: &'static [(Killed, Kept)],
}

use Kept::{Checkpoint, EveryStep};
use Killed::{
    All, BlindChief, BlindServer, Chief, ChiefAndServer, ChiefAndWorker, OfChangedJob, Server,
    ServerWithoutMemory, StoppedChief, Worker, WorkerAndServer,
};

/// Where the servers hold all parameters, their logs keep every step.
const BY_LOGS: &[(Killed, Kept)] = &[
    (Worker, EveryStep),
    (Server, EveryStep),
    (Chief, EveryStep),
    (StoppedChief, EveryStep),
    (WorkerAndServer, EveryStep),
    (ChiefAndWorker, EveryStep),
    (ChiefAndServer, EveryStep),
    (All, EveryStep),
    (OfChangedJob, EveryStep),
    (BlindServer, EveryStep),
    (BlindChief, EveryStep),
    (ServerWithoutMemory, EveryStep),
];

const MODES: [Mode; 7] = [
    Mode {
        way: Way::Async,
        faults: BY_LOGS,
    },
    Mode {
        way: Way::Ssp,
        faults: BY_LOGS,
    },
    Mode {
        way: Way::Sync,
        faults: BY_LOGS,
    },
    Mode {
        way: Way::InGraph,
        faults: BY_LOGS,
    },
    Mode {
        way: Way::Mirrored,
        faults: &[
            (Worker, EveryStep),
            (Chief, EveryStep),
            (StoppedChief, EveryStep),
            (ChiefAndWorker, EveryStep),
            (BlindChief, EveryStep),
            (All, Checkpoint),
            (OfChangedJob, Checkpoint),
        ],
    },
    Mode {
        way: Way::Hybrid,
        faults: &[
            (Worker, EveryStep),
            (Server, EveryStep),
            (Chief, EveryStep),
            (StoppedChief, EveryStep),
            (WorkerAndServer, EveryStep),
            (ChiefAndWorker, EveryStep),
            (ChiefAndServer, EveryStep),
            (BlindServer, EveryStep),
            (BlindChief, EveryStep),
            (ServerWithoutMemory, EveryStep),
            (All, Checkpoint),
            (OfChangedJob, Checkpoint),
        ],
    },
    Mode {
        way: Way::Replica,
        faults: &[
            (Server, EveryStep),
            (WorkerAndServer, EveryStep),
            (ChiefAndServer, EveryStep),
            (BlindServer, EveryStep),
            (BlindChief, EveryStep),
            (ServerWithoutMemory, EveryStep),
        ],
    },
];

/// Kills tasks at one moment, and starts them again.
fn strike(trial: &Trial, mut tasks: Tasks, way: Way, killed: Killed) -> Tasks {
    let dies = |set: &[Killed]| set.contains(&killed);
    let mut dying: Vec<(&str, usize)> = Vec::new();
    if dies(&[
        Chief,
        ChiefAndWorker,
        ChiefAndServer,
        All,
        OfChangedJob,
        BlindChief,
        StoppedChief,
    ]) {
        dying.push(("chief", 0));
    }
    let workers = match killed {
        All | OfChangedJob => tasks.workers.len(),
        _ => usize::from(dies(&[Worker, WorkerAndServer, ChiefAndWorker])),
    };
    dying.extend((0..workers).map(|index| ("worker", index)));
    let servers = match killed {
        All => tasks.servers.len(),
        _ => usize::from(dies(&[
            Server,
            WorkerAndServer,
            ChiefAndServer,
            BlindServer,
            ServerWithoutMemory,
        ])),
    };
    dying.extend((0..servers).map(|index| ("ps", index)));
    fn task<'a>(tasks: &'a mut Tasks, role: &str, index: usize) -> &'a mut Program {
        match role {
            "chief" => &mut tasks.chief,
            "worker" => &mut tasks.workers[index],
            _ => &mut tasks.servers[index],
        }
    }
    let (signal, code) = match killed {
        StoppedChief => (Signal::TERM, 0),
        _ => (Signal::KILL, 137),
    };
    for (role, index) in &dying {
        task(&mut tasks, role, *index).signal(signal);
    }
    for (role, index) in dying {
        // A new process takes the port of the dead one.
        let until = Instant::now() + LIMIT;
        while task(&mut tasks, role, index).runs() {
            assert!(Instant::now() < until, "{role}:{index} is killed");
            std::thread::sleep(Duration::from_millis(5));
        }
        if dies(&[BlindServer, BlindChief]) {
            assert_told_of_blindness(trial, &mut tasks, (way, role, index));
        }
        let more: &[&str] = if killed == OfChangedJob {
            &["--set", OTHER_RATE]
        } else {
            &[]
        };
        let mut next = trial.start_with(role, index, more);
        next.wait_for("started; the admin port listens", LIMIT);
        let dead = std::mem::replace(task(&mut tasks, role, index), next);
        assert_eq!(dead.wait(LIMIT).code, code, "{role}:{index}");
    }
    tasks
}

/// Checks that a task which can open or read no file of the job ends to be started again. A server whose shard another one
/// has taken over needs no file of its own before it can follow that one, which trains on.
fn assert_told_of_blindness(
    trial: &Trial,
    tasks: &mut Tasks,
    (way, role, index): (Way, &str, usize),
) {
    for calls in ["openat", "read,pread64,mmap"] {
        let is_backup = role == "ps" && way == Way::Replica;
        let mut blind = trial.start_blind(role, index, calls);
        if is_backup {
            blind.wait_for("serving", LIMIT);
            let primary = &mut tasks.servers[1 - index];
            primary.wait_for_next("the shard has no second copy", LIMIT);
            for worker in &mut tasks.workers {
                worker.wait_for_next("training step=", LIMIT);
            }
            blind.signal(Signal::KILL);
        }
        let ended = blind.wait(LIMIT);
        let expected = if is_backup { 137 } else { 74 };
        let output = ended.output;
        assert_eq!(ended.code, expected, "{role}:{index}, {calls}: {output}");
    }
}

/// Returns the step behind a word of the output.
fn step_behind(word: &str, output: &str) -> Option<u64> {
    let (_, behind) = output.split_once(word)?;
    let digits = behind.find(|letter: char| !letter.is_ascii_digit());
    behind[..digits.unwrap_or(behind.len())].parse().ok()
}

/// Checks that a changed job has gone on from a checkpoint that was saved for it.
fn assert_saved_for_the_change(output: &str) {
    let (_, behind) = output
        .split_once("the job file has changed since")
        .expect("the change is noticed");
    let saved = step_behind("checkpoint saved step=", behind);
    let restored = step_behind("restoring step=", behind);
    assert!(saved.is_some() && saved == restored, "{output}");
}

/// Waits until a worker has trained for a while, and the chief leads: workers train on while it is absent.
fn wait_for_progress(tasks: &mut Tasks) {
    tasks.chief.wait_for("training is open", LIMIT);
    let last = tasks.workers.len() - 1;
    for _ in 0..2 {
        tasks.workers[last].wait_for_next("training step=", LIMIT);
    }
}

fn run(mode: &Mode, narrow: bool) {
    for (killed, kept) in mode.faults {
        if killed.is_narrow() != narrow {
            continue;
        }
        println!("{}: {}", mode.way.name(), killed.name());
        let settings = [
            mode.way.settings(),
            &[
                ENDLESS,
                "run.save_checkpoints_steps=40",
                "run.keep_checkpoint_max=2",
            ],
        ];
        let servers = if mode.way.has_servers() { 2 } else { 0 };
        let mut trial = Trial::new(servers, WORKERS, 8000, &settings.concat());
        if *killed == ServerWithoutMemory {
            // A part of a log takes 8 MiB.
            trial.memory = Some(Mount::of("6m"));
        }
        let struck = || {
            let mut tasks = trial.start_all();
            wait_for_progress(&mut tasks);
            if *killed == ServerWithoutMemory {
                for server in &mut tasks.servers {
                    server.wait_for("written to the disk", LIMIT);
                }
            }
            let mut tasks = strike(&trial, tasks, mode.way, *killed);
            wait_for_progress(&mut tasks);
            tasks
        };
        let first = struck().stop();
        let (passes, resumed) = trial.end(struck());
        let output = first + &resumed;
        let what = format!("{}, {} killed: {output}", mode.way.name(), killed.name());
        if *kept == EveryStep {
            assert!(
                !output.contains("restoring every parameter server"),
                "{what}"
            );
            if *killed == OfChangedJob {
                assert_saved_for_the_change(&output);
            }
        }
        let steps = passes * BATCHES.div_ceil(mode.way.lanes(WORKERS));
        assert_eq!(trial.global_step(), steps, "{what}");
        trial.assert_applied(passes * BATCHES);
        for shard in &trial.checkpoint().manifest().shards {
            // Tables of a hybrid job count batches, all other stores count steps.
            let counts_batches = mode.way == Way::Hybrid && shard.ps > 0;
            let expected = if counts_batches {
                passes * BATCHES
            } else {
                steps
            };
            assert_eq!(shard.version, expected, "store {}: {what}", shard.ps);
        }
    }
}

fn run_as(way: Way, narrow: bool) {
    let mode = MODES.iter().find(|mode| mode.way == way);
    run(mode.expect("the way is in the table"), narrow);
}

trial!(asynchronous_training_keeps_what_the_table_says);
fn asynchronous_training_keeps_what_the_table_says() {
    run_as(Way::Async, false);
}

trial!(stale_synchronous_training_keeps_what_the_table_says);
fn stale_synchronous_training_keeps_what_the_table_says() {
    run_as(Way::Ssp, false);
}

trial!(synchronous_training_keeps_what_the_table_says);
fn synchronous_training_keeps_what_the_table_says() {
    run_as(Way::Sync, false);
}

trial!(in_graph_training_keeps_what_the_table_says);
fn in_graph_training_keeps_what_the_table_says() {
    run_as(Way::InGraph, false);
}

trial!(mirrored_training_keeps_what_the_table_says);
fn mirrored_training_keeps_what_the_table_says() {
    run_as(Way::Mirrored, false);
}

trial!(hybrid_training_keeps_what_the_table_says);
fn hybrid_training_keeps_what_the_table_says() {
    run_as(Way::Hybrid, false);
}

trial!(replicated_servers_keep_what_the_table_says);
fn replicated_servers_keep_what_the_table_says() {
    run_as(Way::Replica, false);
}

trial!(asynchronous_training_without_reads_or_memory_keeps_what_the_table_says, needs Strace Mounts);
fn asynchronous_training_without_reads_or_memory_keeps_what_the_table_says() {
    run_as(Way::Async, true);
}

trial!(stale_synchronous_training_without_reads_or_memory_keeps_what_the_table_says, needs Strace Mounts);
fn stale_synchronous_training_without_reads_or_memory_keeps_what_the_table_says() {
    run_as(Way::Ssp, true);
}

trial!(synchronous_training_without_reads_or_memory_keeps_what_the_table_says, needs Strace Mounts);
fn synchronous_training_without_reads_or_memory_keeps_what_the_table_says() {
    run_as(Way::Sync, true);
}

trial!(in_graph_training_without_reads_or_memory_keeps_what_the_table_says, needs Strace Mounts);
fn in_graph_training_without_reads_or_memory_keeps_what_the_table_says() {
    run_as(Way::InGraph, true);
}

trial!(mirrored_training_without_reads_or_memory_keeps_what_the_table_says, needs Strace);
fn mirrored_training_without_reads_or_memory_keeps_what_the_table_says() {
    run_as(Way::Mirrored, true);
}

trial!(hybrid_training_without_reads_or_memory_keeps_what_the_table_says, needs Strace Mounts);
fn hybrid_training_without_reads_or_memory_keeps_what_the_table_says() {
    run_as(Way::Hybrid, true);
}

trial!(training_on_replicated_servers_without_reads_or_memory_keeps_what_the_table_says, needs Strace Mounts);
fn training_on_replicated_servers_without_reads_or_memory_keeps_what_the_table_says() {
    run_as(Way::Replica, true);
}

trial!(the_table_of_the_documentation_is_the_one_that_is_tested);
fn the_table_of_the_documentation_is_the_one_that_is_tested() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/reliability.md");
    let page = std::fs::read_to_string(page).expect("the page");
    for mode in &MODES {
        let of = |wanted: Kept| {
            let names = mode.faults.iter().filter(|(_, kept)| *kept == wanted);
            let names: Vec<&str> = names.map(|(killed, _)| killed.name()).collect();
            if names.is_empty() {
                "-".to_owned()
            } else {
                names.join("; ")
            }
        };
        let row = format!(
            "| `{}` | {} | {} |",
            mode.way.name(),
            of(EveryStep),
            of(Checkpoint)
        );
        assert!(
            page.contains(&row),
            "docs/reliability.md has no row `{row}`"
        );
    }
}
