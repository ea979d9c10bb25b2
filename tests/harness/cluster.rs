//! A cluster of real daemons on this machine, with a small job.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use crate::{Draw, Program, free_ports};

/// Writes `rows` rows of two numbers and a word, with a label that they tell.
///
/// # Panics
/// The file cannot be written.
pub fn census_rows(path: &Path, rows: usize, seed: u64) {
    let mut text = "x,z,word,y\n".to_owned();
    let mut draw = Draw::new(seed);
    for _ in 0..rows {
        let x = draw.fraction() * 4.0 - 2.0;
        let z = draw.fraction() * 4.0 - 2.0;
        let word = draw.below(5);
        let label = u8::from(x - 0.5 * z + word as f64 - 2.0 + draw.fraction() > 0.5);
        let _ = writeln!(text, "{x:.4},{z:.4},w{word},{label}");
    }
    std::fs::write(path, text).expect("the rows are written");
}

/// Writes a small wide-and-deep job beside its data, and returns its path. `end` is added to the file.
///
/// # Panics
/// A file cannot be written.
pub fn write_job(folder: &Path, rows: usize, end: &str) -> PathBuf {
    census_rows(&folder.join("train.csv"), rows, 1);
    census_rows(&folder.join("eval.csv"), rows / 4, 2);
    let job = format!(
        r#"model_dir = "{}"
[run]
seed = 3
[input]
label = {{ column = "y" }}
[input.train]
files = ["train.csv"]
batch_size = 16
shuffle_rows = 100
EPOCHS
[input.eval]
files = ["eval.csv"]
[[feature]]
columns = ["x", "z"]
kind = "numeric"
[[feature]]
column = "word"
kind = "hashed"
buckets = 10
wide = true
deep = {{ embedding = 4 }}
[model]
kind = "dnn_linear_combined_classifier"
hidden_units = [8]
[strategy]
partitioner = {{ kind = "fixed", num_shards = 2 }}
[eval]
start_delay_secs = 0
throttle_secs = 0
[[exporter]]
kind = "best"
metric = "auc"
{end}
"#,
        folder.join("model").display()
    );
    let path = folder.join("job.toml");
    let (epochs, job) = if end.contains("max_steps") {
        ("", job)
    } else {
        ("epochs = 2", job)
    };
    std::fs::write(&path, job.replace("EPOCHS", epochs)).expect("the job is written");
    path
}

/// A job and a cluster file in a folder of their own.
#[derive(Debug)]
pub struct TestCluster {
    /// The folder; removed with this value.
    pub folder: tempfile::TempDir,
    /// The job file.
    pub job: PathBuf,
    /// The cluster file.
    pub cluster: PathBuf,
    /// Addresses: chief, workers, servers.
    pub addresses: Vec<String>,
    workers: usize,
}

impl TestCluster {
    /// Makes a job and a cluster of `ps` servers, a chief and `workers` workers.
    ///
    /// # Panics
    /// A file cannot be written.
    pub fn new(ps: usize, workers: usize, rows: usize, end: &str) -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let job = write_job(folder.path(), rows, end);
        let addresses: Vec<String> = free_ports(1 + workers + ps)
            .iter()
            .map(|port| format!("127.0.0.1:{port}"))
            .collect();
        let list = |part: &[String]| {
            part.iter()
                .map(|address| format!("\"{address}\""))
                .collect::<Vec<_>>()
                .join(", ")
        };
        let text = format!(
            "[cluster]\nchief = [{}]\nworker = [{}]\nps = [{}]\n",
            list(&addresses[..1]),
            list(&addresses[1..=workers]),
            list(&addresses[1 + workers..])
        );
        let cluster = folder.path().join("cluster.toml");
        std::fs::write(&cluster, text).expect("the cluster is written");
        Self {
            folder,
            job,
            cluster,
            addresses,
            workers,
        }
    }

    /// The folder of the model.
    pub fn model_dir(&self) -> PathBuf {
        self.folder.path().join("model")
    }

    /// Starts a daemon by its flags.
    pub fn start(&self, role: &str, index: usize, more: &[&str]) -> Program {
        self.start_in(role, index, more, &[])
    }

    /// Starts a daemon by its flags, with these variables in its environment.
    pub fn start_in(
        &self,
        role: &str,
        index: usize,
        more: &[&str],
        environment: &[(&str, &str)],
    ) -> Program {
        let job = self.job.to_string_lossy();
        let cluster = self.cluster.to_string_lossy();
        let index = index.to_string();
        let mut arguments = vec!["--job", &job, "--cluster", &cluster, "--index", &index];
        arguments.extend(more);
        Program::start(&format!("trainyard-{role}"), &arguments, environment)
    }

    /// Starts a daemon by `TF_CONFIG`.
    pub fn start_by_tf_config(&self, role: &str, index: usize) -> Program {
        let config = serde_json::json!({
            "cluster": {
                "chief": &self.addresses[..1],
                "worker": &self.addresses[1..=self.workers],
                "ps": &self.addresses[1 + self.workers..],
            },
            "task": {"type": role, "index": index},
        });
        let job = self.job.to_string_lossy();
        Program::start(
            &format!("trainyard-{role}"),
            &["--job", &job],
            &[("TF_CONFIG", &config.to_string())],
        )
    }

    /// The marker of how the job stands.
    ///
    /// # Panics
    /// There is none.
    pub fn job_state(&self) -> serde_json::Value {
        let text =
            std::fs::read(self.model_dir().join("job_state.json")).expect("the marker is there");
        serde_json::from_slice(&text).expect("the marker is JSON")
    }
}
