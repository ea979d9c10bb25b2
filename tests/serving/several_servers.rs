//! A server of predictions follows several parameter servers under synchronous updates: what it shows is of one step.
//!
//! Each column of every record has a word of its own, so all words have the same weight after each step, to the bit. Their rows
//! lie at both servers, in hashed and in dynamic tables. Answers whose rows come from different steps differ.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::Path;

use trainyard_cluster_spec::{LocalCounts, Role};
use trainyard_tests::{Draw, Supervisor, program};

use crate::serving::client::post;
use crate::serving::published::{
    ENDLESS, Last, PATH, answer, assert_answer_of_last_checkpoint, state_of, version,
};
use crate::serving::{LIMIT, Server};

const COLUMNS: usize = 8;
const RECORDS: usize = 2000;
/// Versions that are looked at.
const VERSIONS: usize = 5;

fn write_job(folder: &Path) -> String {
    let mut draw = Draw::new(5);
    let names = |kind: &str| -> Vec<String> {
        let columns = (0..COLUMNS).map(|column| format!("{kind}{column}"));
        columns.collect()
    };
    let mut text = format!("{},y\n", names("c").join(","));
    for _ in 0..RECORDS {
        let _ = writeln!(text, "{},{}", names("w").join(","), draw.below(2));
    }
    let records = folder.join("train.csv");
    std::fs::write(&records, text).expect("the records are written");
    let features: String = (0..COLUMNS)
        .map(|column| {
            let kind = match column % 2 {
                0 => "kind = \"hashed\"\nbuckets = 100_000",
                _ => "kind = \"dynamic\"",
            };
            format!("[[feature]]\ncolumn = \"c{column}\"\n{kind}\n")
        })
        .collect();
    let job = format!(
        r#"model_dir = "{}"
[run]
seed = 3
[input]
label = {{ column = "y" }}
[input.train]
files = ["{records}"]
batch_size = 16
[input.eval]
files = ["{records}"]
{features}[model]
kind = "linear_classifier"
[strategy]
update = "sync"
[train]
max_steps = {ENDLESS}
[publish]
every_secs = 1
"#,
        folder.join("model").display(),
        records = records.display(),
    );
    let path = folder.join("job.toml");
    std::fs::write(&path, job).expect("the job is written");
    path.to_string_lossy().into_owned()
}

/// Returns a request with a row for each column, which has the word of that column and no other known word.
fn request() -> String {
    let row = |known: usize| {
        let cells = (0..COLUMNS).map(|column| {
            let word = if column == known {
                format!("w{column}")
            } else {
                "none".to_owned()
            };
            format!("\"c{column}\": \"{word}\"")
        });
        format!("{{{}}}", cells.collect::<Vec<_>>().join(", "))
    };
    let rows: Vec<String> = (0..COLUMNS).map(row).collect();
    format!("{{\"instances\": [{}]}}", rows.join(", "))
}

/// Asserts that the answer of a server is of one step.
fn assert_is_of_one_step(server: &Server, request: &str) {
    let (status, answer) = post(&server.address, PATH, request);
    assert_eq!(status, 200, "{answer}");
    let rows = answer["predictions"].as_array().expect("predictions");
    let logits = rows.iter().map(|row| row["logits"].to_string());
    let logits: BTreeSet<String> = logits.collect();
    assert_eq!(logits.len(), 1, "weights of several steps: {answer}");
}

trial!(cuts_of_several_servers_under_synchronous_updates_are_of_one_step);
fn cuts_of_several_servers_under_synchronous_updates_are_of_one_step() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let job = write_job(folder.path());
    let counts = LocalCounts {
        ps: 2,
        workers: 1,
        evaluators: 0,
    };
    let program = program("trainyard");
    let mut tasks = Supervisor::new(&program, folder.path(), Path::new(&job), counts, &[]);
    tasks.start_all();
    let server = Server::start(&[&job, "--name", "model"]);
    let request = request();
    let mut seen = BTreeSet::new();
    tasks.wait_until("several versions", LIMIT, |_| {
        let version = version(&server);
        if version > 0 && seen.insert(version) {
            assert_is_of_one_step(&server, &request);
        }
        seen.len() >= VERSIONS
    });
    tasks.stop(Role::Worker, LIMIT).expect("the worker stops");
    tasks.stop(Role::Chief, LIMIT).expect("the chief stops");
    let model_dir = folder.path().join("model");
    let (phase, step) = state_of(&model_dir);
    assert_eq!(phase, "stopped");
    tasks.wait_until("the last step answers", LIMIT, |_| version(&server) == step);
    assert_is_of_one_step(&server, &request);
    let followed = answer(&server, &request);
    drop(server);
    let last = Last {
        model_dir: &model_dir,
        step,
        request: &request,
        answer: &followed,
    };
    assert_answer_of_last_checkpoint(&job, &last);
}
