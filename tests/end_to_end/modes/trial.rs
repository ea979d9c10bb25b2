//! A job that is tried: its tasks, started with the same settings, and what it leaves behind.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use rustix::process::Signal;
use trainyard_checkpoint::{Checkpoint, latest_good};
use trainyard_tests::{Mount, Program, TestCluster, Unreadable, files_below, passes_to_go};

use crate::end_to_end::LIMIT;
use crate::end_to_end::solo::Trained;

/// Passes that no test lives to see: how fast a machine is does not matter to a job that lasts until it is told to end.
pub(super) const ENDLESS: &str = "input.train.epochs=100000000";
const BATCH_SIZE: u64 = 16;

/// A job on a cluster of its own.
pub(super) struct Trial {
    pub(super) cluster: TestCluster,
    settings: Vec<String>,
    /// Folder in memory of the servers' logs; absent = the default one.
    pub(super) memory: Option<Mount>,
    ps: usize,
    workers: usize,
    rows: u64,
}

/// The processes of a job.
pub(super) struct Tasks {
    pub(super) servers: Vec<Program>,
    pub(super) chief: Program,
    pub(super) workers: Vec<Program>,
}

impl Trial {
    pub(super) fn new(ps: usize, workers: usize, rows: usize, settings: &[&str]) -> Self {
        let cluster = TestCluster::new(ps, workers, rows, "");
        let settings = settings
            .iter()
            .map(|setting| (*setting).to_owned())
            .collect();
        Self {
            cluster,
            settings,
            memory: None,
            ps,
            workers,
            rows: rows as u64,
        }
    }

    fn arguments<'a>(&'a self, more: &[&'a str]) -> Vec<&'a str> {
        // What counts is what is left behind, on a busy machine too: a stop has the time that its checkpoint takes.
        let mut arguments = vec!["--set", "run.log_step_count_steps=10"];
        arguments.extend(["--drain-deadline", "60"]);
        arguments.extend(self.settings.iter().flat_map(|setting| ["--set", setting]));
        arguments.extend(more);
        arguments
    }

    /// The folder in memory, as an entry of the environment.
    fn environment(&self) -> Vec<(&str, &str)> {
        let memory = self.memory.iter();
        let path = memory.map(|memory| memory.path().to_str().expect("it is Unicode"));
        path.map(|path| ("TRAINYARD_SHARED_MEMORY_DIR", path))
            .collect()
    }

    pub(super) fn start_with(&self, role: &str, index: usize, more: &[&str]) -> Program {
        self.cluster
            .start_in(role, index, &self.arguments(more), &self.environment())
    }

    /// Starts a task whose calls on the files of the job fail, all of them.
    pub(super) fn start_blind(&self, role: &str, index: usize, calls: &str) -> Program {
        let mut paths = files_below(&self.cluster.model_dir());
        let logs = paths.iter().filter(|path| path.ends_with("memory"));
        let in_memory = logs.flat_map(|pointer| {
            let folder = std::fs::read_to_string(pointer).expect("the log names its memory");
            files_below(Path::new(folder.trim()))
        });
        let in_memory: Vec<_> = in_memory.collect();
        paths.extend(in_memory);
        let fault = Unreadable {
            calls,
            when: "1+",
            paths,
        };
        self.cluster.start_unreadable(
            role,
            index,
            &self.arguments(&[]),
            &self.environment(),
            &fault,
        )
    }

    pub(super) fn start(&self, role: &str, index: usize) -> Program {
        self.start_with(role, index, &[])
    }

    pub(super) fn start_all(&self) -> Tasks {
        self.start_all_with(&[])
    }

    pub(super) fn start_all_with(&self, more: &[&str]) -> Tasks {
        Tasks {
            servers: (0..self.ps)
                .map(|index| self.start_with("ps", index, more))
                .collect(),
            chief: self.start_with("chief", 0, more),
            workers: (0..self.workers)
                .map(|index| self.start_with("worker", index, more))
                .collect(),
        }
    }

    pub(super) fn global_step(&self) -> u64 {
        let state = self.cluster.job_state();
        assert_eq!(state["phase"], "done", "{state}");
        state["global_step"].as_u64().expect("a step")
    }

    pub(super) fn checkpoint(&self) -> Checkpoint {
        let found = latest_good(&self.cluster.model_dir(), &mut |warning| {
            panic!("{}", warning.render())
        });
        found
            .expect("the folder can be read")
            .expect("a checkpoint")
    }

    /// Of each variable and slot, the bits of all values of the last checkpoint.
    pub(super) fn bits(&self) -> BTreeMap<String, Vec<u32>> {
        Trained::in_checkpoint(&self.checkpoint()).parameters
    }

    /// Brings an endless job to an end: all stop, and train one pass more than any that was begun. Returns how many passes
    /// that is, and the output of the chiefs.
    pub(super) fn end(&self, tasks: Tasks) -> (u64, String) {
        let told = tasks.stop();
        let passes = passes_to_go(&self.checkpoint(), self.rows.div_ceil(BATCH_SIZE));
        let more = self
            .start_all_with(&["--set", &format!("input.train.epochs={passes}")])
            .end();
        (passes, told + &more)
    }

    /// Checks that every server has applied exactly this much of what the chief hands out.
    pub(super) fn assert_applied(&self, batches: u64) {
        let checkpoint = self.checkpoint();
        for shard in &checkpoint.manifest().shards {
            let known: Vec<_> = shard
                .positions
                .iter()
                .map(|known| (known.shard, known.batch, known.ahead.clone()))
                .collect();
            assert_eq!(known, [(0, batches, Vec::new())], "ps:{}", shard.ps);
        }
    }
}

impl Tasks {
    /// Tells all to stop, and waits until they have. Returns the output of the chief.
    pub(super) fn stop(mut self) -> String {
        // One that has only just started does not know yet how to stop.
        self.workers
            .iter_mut()
            .for_each(|worker| drop(worker.wait_for("joined", LIMIT)));
        self.workers
            .iter()
            .chain([&self.chief])
            .for_each(|program| program.signal(Signal::TERM));
        self.workers
            .into_iter()
            .for_each(|program| drop(end(program)));
        let output = end(self.chief);
        self.servers
            .iter()
            .for_each(|program| program.signal(Signal::TERM));
        for program in self.servers {
            let output = end(program);
            // One that is only a backup has nothing that a checkpoint must hold.
            let holds = output.contains("the latest checkpoint holds every update");
            // On a busy machine, the chief may save before a worker hears that it is to stop.
            let keeps = output.contains("the log has the updates since its last checkpoint");
            assert!(
                holds || keeps || output.contains("this server serves no shard"),
                "{output}"
            );
        }
        output
    }

    /// Waits until all have ended well, by themselves. Returns the output of the chief.
    pub(super) fn end(self) -> String {
        let output = end(self.chief);
        self.workers
            .into_iter()
            .chain(self.servers)
            .for_each(|program| drop(end(program)));
        output
    }
}

/// Waits until a program has ended well.
pub(super) fn end(program: Program) -> String {
    let ended = program.wait(LIMIT);
    assert_eq!(ended.code, 0, "{}", ended.output);
    let odd = |line: &&str| {
        ["WARN", "training is open", "the job is done", "joined"]
            .iter()
            .any(|word| line.contains(word))
    };
    ended
        .output
        .lines()
        .filter(odd)
        .for_each(|line| println!("{line}"));
    ended.output
}

/// Kills a program.
pub(super) fn kill(program: Program) {
    program.signal(Signal::KILL);
    assert_eq!(program.wait(LIMIT).code, 137);
}

/// Waits until a task has trained for a while.
pub(super) fn wait_until_it_trains(program: &mut Program) {
    program.wait_for("training step=", LIMIT);
}

/// A process that is stopped for a moment, again and again.
pub(super) struct Slowed {
    let_go: Arc<AtomicBool>,
    stopping: JoinHandle<Program>,
}

/// Stops a process for a moment, again and again.
pub(super) fn slow_down(program: Program, stopped: Duration, going: Duration) -> Slowed {
    let let_go = Arc::new(AtomicBool::new(false));
    let until = Arc::clone(&let_go);
    let stopping = std::thread::spawn(move || {
        while !until.load(Ordering::Relaxed) {
            program.signal(Signal::STOP);
            std::thread::sleep(stopped);
            program.signal(Signal::CONT);
            std::thread::sleep(going);
        }
        program
    });
    Slowed { let_go, stopping }
}

impl Slowed {
    /// Lets it go at its own pace.
    pub(super) fn let_go(self) -> Program {
        self.let_go.store(true, Ordering::Relaxed);
        self.stopping.join().expect("it is only slowed down")
    }
}

/// Runs trials side by side: they wait more than they compute.
pub(super) fn side_by_side(trials: &[&(dyn Fn() + Sync)]) {
    std::thread::scope(|scope| {
        let running: Vec<_> = trials.iter().map(|trial| scope.spawn(trial)).collect();
        for trial in running {
            if let Err(panic) = trial.join() {
                std::panic::resume_unwind(panic);
            }
        }
    });
}
