//! Servers of predictions follow training though tasks of the cluster, and they themselves, are killed.
//!
//! The columns `a` and `b` of each record are equal, so the weights of a word in the two are equal after each push. Answers
//! whose rows come from different cuts differ in them.

use std::fmt::Write as _;
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use trainyard_cluster_spec::{LocalCounts, Role, Task};
use trainyard_tests::{Draw, Supervisor, is_ready, is_thorough, program};

use crate::serving::client::post;
use crate::serving::published::{
    ENDLESS, Last, PATH, answer, assert_answer_of_last_checkpoint, state_of, version,
};
use crate::serving::{LIMIT, Server};

const WORDS: usize = 2000;
/// A word in `a` beside one that no record has, and the same word in `b`.
const PAIR: &str = r#"{"instances": [{"a": "w7", "b": "none"}, {"a": "none", "b": "w7"}]}"#;
/// Longest time before a kill, in milliseconds. A cut is published each second.
const BEFORE_KILL_MS_MAX: u64 = 1500;

/// A process that is killed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Victim {
    Task(Role),
    Serving,
}

const VICTIMS: [Victim; 4] = [
    Victim::Task(Role::Ps),
    Victim::Task(Role::Chief),
    Victim::Task(Role::Worker),
    Victim::Serving,
];

fn write_job(folder: &Path) -> String {
    let mut text = "a,b,y\n".to_owned();
    for record in 0..WORDS * 2 {
        let word = record * 7 % WORDS;
        let _ = writeln!(text, "w{word},w{word},{}", word % 3 % 2);
    }
    let records = folder.join("train.csv");
    std::fs::write(&records, text).expect("the records are written");
    let job = format!(
        r#"model_dir = "{}"
[run]
seed = 3
save_checkpoints_secs = 5
[input]
label = {{ column = "y" }}
[input.train]
files = ["{records}"]
batch_size = 16
[input.eval]
files = ["{records}"]
[[feature]]
columns = ["a", "b"]
kind = "hashed"
buckets = 100_000
[model]
kind = "linear_classifier"
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

/// Asks a server for its version and an answer, if it has one. Asserts that the version has not gone back behind the one seen
/// before, and that the answer is of one cut. Returns the version.
fn look(server: &Server, seen: u64) -> u64 {
    let version = version(server);
    if version == 0 {
        return seen;
    }
    assert!(version >= seen, "version {version} answers after {seen}");
    let (status, answer) = post(&server.address, PATH, PAIR);
    assert_eq!(status, 200, "{answer}");
    let logits = |row: usize| answer["predictions"][row]["logits"].to_string();
    assert_eq!(logits(0), logits(1), "half a cut: {answer}");
    version
}

trial!(answers_are_of_whole_cuts_and_never_go_back_whatever_is_killed);
fn answers_are_of_whole_cuts_and_never_go_back_whatever_is_killed() {
    let mut draw = Draw::seeded("answers are of whole cuts and never go back");
    let folder = tempfile::tempdir().expect("a temporary folder");
    let job = write_job(folder.path());
    let counts = LocalCounts {
        ps: 1,
        workers: 1,
        evaluators: 0,
    };
    let mut tasks = Supervisor::new(
        &program("trainyard"),
        folder.path(),
        Path::new(&job),
        counts,
        &[],
    );
    tasks.start_all();
    let arguments = [job.as_str(), "--name", "model"];
    let mut server = Server::start(&arguments);
    let mut seen = 0;
    let kills = if is_thorough() { 60 } else { 6 };
    for kill in 0..kills {
        let before = seen;
        tasks.wait_until("later steps answer", LIMIT, |_| {
            seen = look(&server, seen);
            seen > before
        });
        let begun = Instant::now();
        let time = Duration::from_millis(draw.below(BEFORE_KILL_MS_MAX));
        tasks.wait_until("time passes", LIMIT, |_| {
            seen = look(&server, seen);
            begun.elapsed() > time
        });
        let victim = *draw.one_of(&VICTIMS).expect("there are some");
        println!("kill {kill}: {victim:?} after {time:?}, step {seen} answers");
        match victim {
            Victim::Task(role) => tasks.signal(Task { role, index: 0 }, Signal::KILL),
            Victim::Serving => {
                drop(server);
                server = Server::start(&arguments);
            }
        }
    }
    let before = seen;
    tasks.wait_until("later steps answer", LIMIT, |_| {
        seen = look(&server, seen);
        seen > before
    });
    // A cut of the chief that was killed may answer while the next one starts: told to stop before it has claimed its term, that
    // one leaves the state as the dead one wrote it.
    let chief = tasks
        .admin(Task {
            role: Role::Chief,
            index: 0,
        })
        .to_owned();
    tasks.wait_until("the chief trains", LIMIT, |_| is_ready(&chief));
    tasks.stop(Role::Worker, LIMIT).expect("the worker stops");
    tasks.stop(Role::Chief, LIMIT).expect("the chief stops");
    let model_dir = folder.path().join("model");
    let (phase, last) = state_of(&model_dir);
    assert_eq!(phase, "stopped");
    tasks.wait_until("the last step answers", LIMIT, |_| {
        seen = look(&server, seen);
        seen == last
    });
    let followed = answer(&server, PAIR);
    drop(server);
    let last = Last {
        model_dir: &model_dir,
        step: last,
        request: PAIR,
        answer: &followed,
    };
    assert_answer_of_last_checkpoint(&job, &last);
}
