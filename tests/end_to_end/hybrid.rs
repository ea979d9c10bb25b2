//! Dense variables in the workers and tables on servers: whoever dies, each step counts once in both, and a step is a step
//! in both.

use rustix::process::Signal;
use trainyard_checkpoint::{Checkpoint, Manifest};
use trainyard_tests::{Program, TestCluster};

use crate::end_to_end::LIMIT;

/// 24,000 rows in two passes of 1,500 batches of 16; three tasks train, so that a pass is 500 steps.
const ROWS: usize = 24_000;
const BATCHES: u64 = 2 * 1_500;
const STEPS: u64 = 2 * 500;
const HYBRID: [&str; 2] = ["--set", "strategy.kind=\"hybrid\""];

/// A cluster of two servers, a chief and two workers, and the arguments of its tasks.
struct Hybrid {
    cluster: TestCluster,
    arguments: Vec<String>,
}

impl Hybrid {
    fn new(settings: &[&str]) -> Self {
        let set = settings.iter().flat_map(|set| ["--set", set]);
        let arguments = HYBRID.iter().copied().chain(set).map(str::to_owned);
        Self {
            cluster: TestCluster::new(2, 2, ROWS, ""),
            arguments: arguments.collect(),
        }
    }

    fn start(&self, role: &str, index: usize) -> Program {
        let arguments: Vec<&str> = self.arguments.iter().map(String::as_str).collect();
        self.cluster.start(role, index, &arguments)
    }

    fn servers(&self) -> [Program; 2] {
        [self.start("ps", 0), self.start("ps", 1)]
    }

    fn workers(&self) -> [Program; 2] {
        [self.start("worker", 0), self.start("worker", 1)]
    }

    /// The manifest of the last checkpoint.
    fn manifest(&self) -> Manifest {
        let step = self.cluster.job_state()["global_step"].as_u64();
        let step = step.expect("a step");
        let folder = self.cluster.model_dir().join(format!("model.ckpt-{step}"));
        let checkpoint = Checkpoint::open(&folder).expect("the last checkpoint");
        checkpoint.manifest().clone()
    }

    /// Asserts that every batch below `batches` counts once in each store, and that the dense variables have had `steps`.
    fn assert_exact(&self, steps: u64, batches: u64, output: &str) {
        let manifest = self.manifest();
        assert_eq!(manifest.global_step, steps, "{output}");
        for shard in &manifest.shards {
            let expected = if shard.ps == 0 { steps } else { batches };
            assert_eq!(shard.version, expected, "store {}: {output}", shard.ps);
            let position = shard.positions.first().expect("a position");
            assert_eq!(
                (position.batch, position.ahead.len()),
                (batches, 0),
                "store {}: {output}",
                shard.ps
            );
        }
    }
}

/// Kills a program as the kernel does.
fn kill(program: Program) {
    program.signal(Signal::KILL);
    assert_eq!(program.wait(LIMIT).code, 137);
}

/// Waits until a task has reported its progress so many times: each time after 100 of its steps.
fn wait_for_progress(task: &mut Program, times: usize) {
    for _ in 0..times {
        task.wait_for_next("training step=", LIMIT);
    }
}

/// Waits until all programs have ended well, and returns what they have written.
fn end(programs: impl IntoIterator<Item = Program>) -> String {
    let mut output = String::new();
    for program in programs {
        let ended = program.wait(LIMIT);
        output.push_str(&ended.output);
        assert_eq!(ended.code, 0, "{output}");
    }
    output
}

trial!(
    a_killed_chief_continues_with_the_dense_variables_of_the_workers_and_the_tables_of_the_servers
);
fn a_killed_chief_continues_with_the_dense_variables_of_the_workers_and_the_tables_of_the_servers()
{
    let hybrid = Hybrid::new(&[]);
    let servers = hybrid.servers();
    let workers = hybrid.workers();
    let mut chief = hybrid.start("chief", 0);
    wait_for_progress(&mut chief, 2);
    kill(chief);
    let mut chief = hybrid.start("chief", 0);
    let line = chief.wait_for("the process group is formed", LIMIT);
    // Its own copy is that of the checkpoint; one of the workers may be a step behind the other.
    assert!(!line.contains("behind=0"), "{line}");
    let output = end([chief].into_iter().chain(workers).chain(servers));
    hybrid.assert_exact(STEPS, BATCHES, &output);
    assert!(
        !output.contains("restoring every parameter server"),
        "{output}"
    );
}

trial!(when_all_that_hold_dense_variables_die_tables_and_dense_variables_go_back_together);
fn when_all_that_hold_dense_variables_die_tables_and_dense_variables_go_back_together() {
    let hybrid = Hybrid::new(&["run.save_checkpoints_steps=100"]);
    let servers = hybrid.servers();
    let [worker, other] = hybrid.workers();
    let mut chief = hybrid.start("chief", 0);
    chief.wait_for("checkpoint saved step=", LIMIT);
    wait_for_progress(&mut chief, 3);
    [chief, worker, other].into_iter().for_each(kill);
    let workers = hybrid.workers();
    let chief = hybrid.start("chief", 0);
    let output = end([chief].into_iter().chain(workers).chain(servers));
    hybrid.assert_exact(STEPS, BATCHES, &output);
    assert!(
        output.contains("no task that trains holds the dense variables that belong to the tables"),
        "{output}"
    );
}

trial!(a_worker_that_dies_with_a_server_loses_no_rows);
fn a_worker_that_dies_with_a_server_loses_no_rows() {
    let hybrid = Hybrid::new(&[]);
    let [mut server, other_server] = hybrid.servers();
    let [mut worker, other] = hybrid.workers();
    let mut chief = hybrid.start("chief", 0);
    for _ in 0..3 {
        chief.wait_for_next("training step=", LIMIT);
        server.signal(Signal::KILL);
        kill(worker);
        assert_eq!(server.wait(LIMIT).code, 137);
        server = hybrid.start("ps", 0);
        worker = hybrid.start("worker", 0);
    }
    let output = end([chief, worker, other, server, other_server]);
    hybrid.assert_exact(STEPS, BATCHES, &output);
}

trial!(servers_without_their_values_take_the_dense_variables_back_with_them);
fn servers_without_their_values_take_the_dense_variables_back_with_them() {
    let hybrid = Hybrid::new(&["parameter_servers.durability=\"none\""]);
    let [server, other_server] = hybrid.servers();
    let workers = hybrid.workers();
    let mut chief = hybrid.start("chief", 0);
    wait_for_progress(&mut chief, 2);
    kill(server);
    let server = hybrid.start("ps", 0);
    let output = end([chief]
        .into_iter()
        .chain(workers)
        .chain([server, other_server]));
    hybrid.assert_exact(STEPS, BATCHES, &output);
    assert!(
        output.contains("restoring every parameter server"),
        "{output}"
    );
}

trial!(a_resume_continues_each_store_at_its_own_version);
fn a_resume_continues_each_store_at_its_own_version() {
    let mut hybrid = Hybrid::new(&["run.save_checkpoints_steps=100"]);
    let all = |hybrid: &Hybrid| {
        let mut chief = hybrid.start("chief", 0);
        let workers = hybrid.workers();
        let servers = hybrid.servers();
        chief.wait_for("training is open", LIMIT);
        end([chief].into_iter().chain(workers).chain(servers))
    };
    let mut arguments = hybrid.arguments.clone();
    for most in [150_u64, 300, 450] {
        let set = ["--set".to_owned(), format!("train.max_steps={most}")];
        hybrid.arguments = arguments.iter().cloned().chain(set).collect();
        let output = all(&hybrid);
        hybrid.assert_exact(most, 3 * most, &output);
    }
    arguments.extend(["--set".to_owned(), "train.max_steps=600".to_owned()]);
    hybrid.arguments = arguments;
    let output = all(&hybrid);
    hybrid.assert_exact(600, 1_800, &output);
}

trial!(a_member_that_had_no_lane_for_long_takes_the_lane_of_one_that_died);
fn a_member_that_had_no_lane_for_long_takes_the_lane_of_one_that_died() {
    let hybrid = Hybrid::new(&["strategy.replicas_to_aggregate=2"]);
    let servers = hybrid.servers();
    let [worker, mut other] = hybrid.workers();
    // Of three members and two lanes, the chief, whose rank is lowest, has none.
    let chief = hybrid.start("chief", 0);
    wait_for_progress(&mut other, 2);
    kill(other);
    let output = end([chief, worker].into_iter().chain(servers));
    hybrid.assert_exact(BATCHES / 2, BATCHES, &output);
}
