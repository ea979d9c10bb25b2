//! A job that trains for as long as it is looked at.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::time::Instant;

use rustix::process::Signal;
use serde_json::Value;
use trainyard_cluster_spec::{ClusterSpec, Role, Task};
use trainyard_tests::{Program, census_rows, get};

use crate::observability::{LIMIT, POLL_INTERVAL};

/// A cluster of two servers, a chief, a worker and an evaluator under `trainyard up`.
pub(crate) struct Running {
    program: Option<Program>,
    pub(crate) job: PathBuf,
    pub(crate) cluster: ClusterSpec,
}

impl Running {
    /// Starts the cluster in a folder, and waits until its chief trains. `name` is that of the model folder. One row of the
    /// data leads to an infinite gradient, so that batches are rejected now and then.
    pub(crate) fn start(folder: &Path, name: &str) -> Self {
        census_rows(&folder.join("eval.csv"), 200, 2);
        census_rows(&folder.join("train.csv"), 2000, 1);
        let mut text = std::fs::read_to_string(folder.join("train.csv")).expect("rows");
        let _ = writeln!(text, "3e38,3e38,w0,1000");
        std::fs::write(folder.join("train.csv"), text).expect("written");
        let model_dir = folder.join(name);
        let job = format!(
            r#"model_dir = '{}'
[run]
save_checkpoints_secs = 2
[input]
label = {{ column = "y" }}
[input.train]
files = ["train.csv"]
batch_size = 20
[input.eval]
files = ["eval.csv"]
batch_size = 50
[[feature]]
column = "x"
kind = "numeric"
[[feature]]
column = "z"
kind = "numeric"
[model]
kind = "linear_regressor"
[train]
max_steps = 100_000_000
[eval]
start_delay_secs = 0
throttle_secs = 0
[parameter_servers]
memory_bytes_max = 1_000_000_000
[parameter_servers.guard]
quarantine_after = 0
"#,
            model_dir.display()
        );
        let path = folder.join("job.toml");
        std::fs::write(&path, job).expect("the job is written");
        let shown = path.to_string_lossy().into_owned();
        let mut program = Program::start(
            "trainyard",
            &["up", &shown, "--cluster", "local:ps=2,worker=1"],
            &[],
        );
        program.wait_for("checkpoint saved", LIMIT);
        let cluster =
            ClusterSpec::load(&model_dir.join("up/cluster.toml")).expect("a cluster file");
        Self {
            program: Some(program),
            job: path,
            cluster,
        }
    }

    /// Admin port of the chief.
    pub(crate) fn chief(&self) -> &str {
        self.cluster
            .admin
            .get(&Task {
                role: Role::Chief,
                index: 0,
            })
            .expect("the chief")
    }

    /// Asks the chief's API.
    pub(crate) fn ask(&self, path: &str) -> Option<Value> {
        let (head, body) = get(self.chief(), path, LIMIT)?;
        head.starts_with("HTTP/1.0 200")
            .then(|| serde_json::from_str(&body).expect("JSON"))
    }

    /// Asks until an answer is as it should be, and returns it.
    pub(crate) fn wait_for(&self, path: &str, holds: impl Fn(&Value) -> bool) -> Value {
        let begun = Instant::now();
        loop {
            let answer = self.ask(path);
            if let Some(answer) = answer.as_ref().filter(|answer| holds(answer)) {
                return answer.clone();
            }
            assert!(begun.elapsed() < LIMIT, "{path}: {answer:?}");
            std::thread::sleep(POLL_INTERVAL);
        }
    }

    /// Stops all tasks.
    pub(crate) fn stop(mut self) {
        if let Some(program) = self.program.take() {
            program.signal(Signal::TERM);
            let ended = program.wait(LIMIT);
            assert!(
                ended.output.contains("the job is stopped"),
                "{}",
                ended.output
            );
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // A test that has failed: the tasks end with the program that started them, if it is told.
        if let Some(program) = self.program.take() {
            program.signal(Signal::TERM);
            if !std::thread::panicking() {
                program.wait(LIMIT);
            } else {
                std::thread::sleep(10 * POLL_INTERVAL);
            }
        }
    }
}
