//! A job in a folder of its own: its file, how it is run, and how it ended.

use std::path::{Path, PathBuf};
use std::time::Duration;

use toml::{Table, Value};
use trainyard_tests::Program;

/// Longest wait for anything that takes a moment; a slow machine is no failure.
pub(crate) const LIMIT: Duration = Duration::from_secs(60);

/// The value that takes a key out of a job.
pub(crate) const ABSENT: &str = "-";

/// The job that every row begins with: `{data}` is the folder of the data, `{run}` the job's own.
pub(crate) const TINY: &str = r#"
model_dir = "{run}/model"
[run]
seed = 3
[input]
label = { column = "y" }
[input.train]
files = ["{data}/rows.csv"]
batch_size = 16
shuffle_rows = 0
epochs = 2
[input.eval]
files = ["{data}/rows.csv"]
[[feature]]
columns = ["x", "z"]
kind = "numeric"
[[feature]]
column = "word"
kind = "hashed"
buckets = 7
wide = true
deep = { embedding = 3 }
[model]
kind = "dnn_linear_combined_classifier"
hidden_units = [4]
[eval]
start_delay_secs = 0
throttle_secs = 0
"#;

/// How settings of the cluster file begin.
const CLUSTER_FILE: &str = "cluster file.";
/// Ports that settings may name.
const PORTS: usize = 8;

/// A job that ends only when it is told to.
pub(crate) const ENDLESS: [(&str, &str); 2] = [
    ("input.train.epochs", "-"),
    ("train.max_steps", "1_000_000_000"),
];

/// Keys of a job, each with its value as TOML. The later ones win.
pub(crate) type Settings = Vec<(String, String)>;

/// A job in its folder.
#[derive(Debug)]
pub(crate) struct Site {
    /// The folder.
    pub(crate) folder: PathBuf,
    /// The folder of the data that all jobs read.
    pub(crate) data: PathBuf,
    /// Free ports, which settings call `{port0}` and so on; none where none is called.
    ports: Vec<u16>,
}

/// A job that has been run.
#[derive(Debug)]
pub(crate) struct Ran {
    /// Where.
    pub(crate) folder: PathBuf,
    /// Exit code of the latest program.
    pub(crate) code: i32,
    /// Everything the programs wrote.
    pub(crate) output: String,
}

impl Site {
    /// Writes the tiny job with these settings into a new folder, and a cluster file beside it.
    pub(crate) fn new(folder: PathBuf, data: &Path, settings: &Settings) -> Self {
        std::fs::create_dir(&folder).expect("the folder is new");
        let needs_ports = settings.iter().any(|(_, value)| value.contains("{port"));
        let ports = if needs_ports {
            trainyard_tests::free_ports(PORTS)
        } else {
            Vec::new()
        };
        let site = Self {
            folder,
            data: data.to_owned(),
            ports,
        };
        let mut job: Table = site.resolve(TINY).parse().expect("the tiny job is TOML");
        let mut cluster = Table::new();
        for (path, value) in settings {
            let value = (value != ABSENT).then(|| site.value(value));
            let (file, path) = match path.strip_prefix(CLUSTER_FILE) {
                Some(path) => (&mut cluster, path),
                None => (&mut job, path.as_str()),
            };
            put(file, &path.split('.').collect::<Vec<_>>(), value);
        }
        std::fs::write(site.job(), job.to_string()).expect("the job is written");
        std::fs::write(site.cluster(), cluster.to_string()).expect("the cluster is written");
        site
    }

    fn resolve(&self, text: &str) -> String {
        let data = self.data.to_string_lossy();
        let run = self.folder.to_string_lossy();
        let text = text.replace("{data}", &data).replace("{run}", &run);
        self.port_names()
            .fold(text, |text, (name, port)| text.replace(&name, &port))
    }

    fn port_names(&self) -> impl Iterator<Item = (String, String)> {
        self.ports
            .iter()
            .enumerate()
            .map(|(place, port)| (format!("{{port{place}}}"), port.to_string()))
    }

    fn value(&self, text: &str) -> Value {
        let line = self.resolve(&format!("value = {text}"));
        let table: Table = line
            .parse()
            .unwrap_or_else(|error| panic!("{line}: {error}"));
        table["value"].clone()
    }

    /// The job file.
    pub(crate) fn job(&self) -> PathBuf {
        self.folder.join("job.toml")
    }

    /// The cluster file.
    pub(crate) fn cluster(&self) -> PathBuf {
        self.folder.join("cluster.toml")
    }

    /// The text of the job file.
    pub(crate) fn job_text(&self) -> String {
        std::fs::read_to_string(self.job()).expect("the job is there")
    }

    /// Starts `trainyard COMMAND job.toml ...`.
    pub(crate) fn start(&self, command: &str, more: &[&str]) -> Program {
        let job = self.job().to_string_lossy().into_owned();
        let arguments: Vec<&str> = [command, &job]
            .into_iter()
            .chain(more.iter().copied())
            .collect();
        Program::start("trainyard", &arguments, &[])
    }

    /// Runs `trainyard COMMAND job.toml ...` to its end.
    pub(crate) fn run(&self, command: &str, more: &[&str]) -> Ran {
        let ended = self.start(command, more).wait(LIMIT);
        self.ran(ended.code, ended.output)
    }

    /// What became of programs that were run here. In what they wrote, ports have the names that the settings give them.
    pub(crate) fn ran(&self, code: i32, output: String) -> Ran {
        let name = |text: String, (name, port): (String, String)| text.replace(&port, &name);
        let output = self.port_names().fold(output, name);
        Ran {
            folder: self.folder.clone(),
            code,
            output,
        }
    }
}

/// Puts a value at a path of tables and elements of arrays; without a value, takes what is there away.
fn put(table: &mut Table, keys: &[&str], value: Option<Value>) {
    let (first, rest) = keys.split_first().expect("a path names a key");
    if rest.is_empty() {
        match value {
            Some(value) => drop(table.insert((*first).to_owned(), value)),
            None => drop(table.remove(*first)),
        }
        return;
    }
    match table.entry(*first).or_insert_with(|| Table::new().into()) {
        Value::Table(inner) => put(inner, rest, value),
        Value::Array(items) => {
            let element = rest[0]
                .parse::<usize>()
                .ok()
                .and_then(|index| items.get_mut(index));
            match (element, &rest[1..], value) {
                (Some(element), [], Some(value)) => *element = value,
                (Some(Value::Table(inner)), keys @ [_, ..], value) => put(inner, keys, value),
                _ => panic!("no element {rest:?} of `{first}`"),
            }
        }
        other => panic!("`{first}` is {other}, it holds no {rest:?}"),
    }
}

/// A way to run a job; its name tells it from the others.
#[derive(Debug, Clone, Copy)]
pub(crate) struct How {
    pub(crate) name: &'static str,
    pub(crate) run: fn(&Site) -> Ran,
}

/// Trains to the end, and evaluates nothing.
pub(crate) const TRAIN: How = How {
    name: "train",
    run: |site| site.run("train", &["--no-evaluation"]),
};

/// Trains to the end, and evaluates the last checkpoint.
pub(crate) const EVALUATE: How = How {
    name: "evaluate",
    run: |site| site.run("train", &[]),
};

/// Trains to step 3, 6, 9 and 12, each time by a program of its own, and leaves a checkpoint of each.
pub(crate) const TRAIN_IN_PARTS: How = How {
    name: "train in parts",
    run: |site| in_parts(site, &["--no-evaluation"]),
};

/// The same, and evaluates each checkpoint.
pub(crate) const EVALUATE_IN_PARTS: How = How {
    name: "evaluate in parts",
    run: |site| in_parts(site, &[]),
};

/// Trains in a cluster of one server, and a chief and a worker that train.
pub(crate) const UP: How = How {
    name: "up",
    run: |site| up(site, "local:ps=1,worker=1"),
};

/// Trains in a cluster of two servers, and a chief and a worker that train.
pub(crate) const UP_TWO_SERVERS: How = How {
    name: "two servers",
    run: |site| up(site, "local:ps=2,worker=1"),
};

/// Trains in a cluster of one server, and a chief and two workers that train.
pub(crate) const UP_TWO_WORKERS: How = How {
    name: "two workers",
    run: |site| up(site, "local:ps=1,worker=2"),
};

/// Trains in a cluster of one server, and a chief that trains alone.
pub(crate) const UP_ALONE: How = How {
    name: "chief alone",
    run: |site| up(site, "local:ps=1,worker=0"),
};

/// Trains in the cluster of the cluster file.
pub(crate) const UP_IN_FILE: How = How {
    name: "cluster file",
    run: |site| up(site, &site.cluster().to_string_lossy()),
};

fn up(site: &Site, cluster: &str) -> Ran {
    site.run("up", &["--cluster", cluster])
}

fn in_parts(site: &Site, more: &[&str]) -> Ran {
    let mut output = String::new();
    for steps in [3, 6, 9, 12] {
        let set = format!("train.max_steps={steps}");
        let arguments: Vec<&str> = ["--set", &set]
            .into_iter()
            .chain(more.iter().copied())
            .collect();
        let ran = site.run("train", &arguments);
        output.push_str(&ran.output);
        if ran.code != 0 {
            return site.ran(ran.code, output);
        }
    }
    site.ran(0, output)
}
