//! Jobs whose checkpoints are increments: small, independent of each other, and the same values as whole ones.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use rustix::process::Signal;
use serde_json::Value;
use trainyard_tests::Program;

use crate::end_to_end::LIMIT;
use crate::end_to_end::dynamic::{prediction, run, scores};

/// Records at the start of the input, each of an item of its own.
const ITEMS: usize = 4000;
/// Items of the records after those.
const POPULAR: usize = 20;
const BATCH: usize = 16;
/// Steps between two checkpoints. The first one is written when each item was seen.
const SAVED_EVERY: u64 = 250;

/// A job of one task that trains in the order of its file. The folder holds its data and its model.
fn write_job(folder: &Path) -> String {
    std::fs::create_dir_all(folder).expect("a folder");
    let mut text = "item,y\n".to_owned();
    for record in 0..ITEMS * 8 {
        let item = if record < ITEMS {
            record
        } else {
            record % POPULAR
        };
        let _ = writeln!(text, "i{item},{}", item % 2);
    }
    std::fs::write(folder.join("train.csv"), &text).expect("the records are written");
    let evaluated: String = text
        .lines()
        .take(1000)
        .map(|line| format!("{line}\n"))
        .collect();
    std::fs::write(folder.join("eval.csv"), evaluated).expect("the records are written");
    let job = format!(
        r#"model_dir = "{}"
[run]
seed = 3
save_checkpoints_steps = {SAVED_EVERY}
keep_checkpoint_max = 3
[strategy]
chief_trains = false
[input]
label = {{ column = "y" }}
[input.train]
files = ["{}"]
batch_size = {BATCH}
shuffle_rows = 0
[input.eval]
files = ["{}"]
[[feature]]
name = "item"
column = "item"
kind = "hashed"
buckets = 400_000
deep = {{ embedding = 16 }}
wide = false
[[feature]]
name = "item_by_id"
column = "item"
kind = "dynamic"
rows_max = 10_000
deep = {{ embedding = 16 }}
wide = false
[model]
kind = "dnn_classifier"
hidden_units = [8]
dnn_optimizer = {{ kind = "adagrad", learning_rate = 0.3 }}
[train]
max_steps = 1000
[eval]
start_delay_secs = 0
throttle_secs = 0
"#,
        folder.join("model").display(),
        folder.join("train.csv").display(),
        folder.join("eval.csv").display(),
    );
    let path = folder.join("job.toml");
    std::fs::write(&path, job).expect("the job is written");
    path.to_string_lossy().into_owned()
}

/// Trains up to a step on so many servers, and returns the output.
fn train(job: &str, servers: usize, steps: u64) -> String {
    let cluster = format!("local:ps={servers},worker=1");
    let steps = format!("train.max_steps={steps}");
    run(&["up", job, "--cluster", &cluster, "--set", &steps])
}

fn checkpoint(folder: &Path, step: u64) -> PathBuf {
    folder.join(format!("model/model.ckpt-{step}"))
}

fn manifest(folder: &Path, step: u64) -> Value {
    let file = checkpoint(folder, step).join("manifest.json");
    serde_json::from_slice(&std::fs::read(file).expect("a manifest")).expect("JSON")
}

/// Returns the steps of the checkpoints in the model folder, oldest first.
fn checkpoints(folder: &Path) -> Vec<u64> {
    let entries = std::fs::read_dir(folder.join("model")).expect("the model folder");
    let mut steps: Vec<u64> = entries
        .filter_map(|entry| {
            let name = entry.expect("an entry").file_name();
            let step = name.to_str()?.strip_prefix("model.ckpt-")?;
            step.parse().ok()
        })
        .collect();
    steps.sort_unstable();
    steps
}

/// Returns the bytes of the files that a manifest lists under a key.
fn bytes(manifest: &Value, key: &str) -> u64 {
    let files = manifest[key].as_array().map_or(&[][..], Vec::as_slice);
    files.iter().filter_map(|file| file["bytes"].as_u64()).sum()
}

/// Returns the scores of a job, and the logits of a popular item, of an item that was seen once, and of an unknown item.
fn outcome(job: &str, folder: &Path) -> (Value, Vec<Value>) {
    let logits = |item| prediction(job, folder, "item", item)["logits"].clone();
    (
        scores(job)["metrics"].clone(),
        ["i7", "i3001", "nothing"].map(logits).into(),
    )
}

/// Changes a bit in the middle of a file.
fn damage(file: &Path) {
    let mut bytes = std::fs::read(file).expect("a file of the checkpoint");
    let place = bytes.len() / 2;
    bytes[place] ^= 1;
    std::fs::write(file, bytes).expect("the file is damaged");
}

/// Returns the step of the checkpoint that was used last, because the one of step `damaged` was damaged.
fn step_used(output: &str, damaged: u64) -> u64 {
    let first = format!("checkpoint step {damaged} is damaged");
    let (_, rest) = output.split_once(&first).expect("the damage is reported");
    let step = rest.rsplit("using step ").next().unwrap_or_default();
    let digits: String = step.chars().take_while(char::is_ascii_digit).collect();
    digits.parse().expect("a step is used")
}

trial!(an_increment_holds_what_has_changed_and_outlives_the_checkpoint_of_its_base);
fn an_increment_holds_what_has_changed_and_outlives_the_checkpoint_of_its_base() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let folder = folder.path();
    let job = write_job(folder);
    train(&job, 2, 1500);
    let newest = manifest(folder, 1500);
    let (own, base) = (bytes(&newest, "shards"), bytes(&newest, "bases"));
    println!("increment {own} bytes, base {base} bytes");
    assert!(base > 500_000 && own * 10 < base, "{own} of {base} bytes");
    assert!(
        !checkpoint(folder, SAVED_EVERY).exists(),
        "the checkpoint of the base is old, and removed"
    );
    let told = run(&["inspect", &checkpoint(folder, 1500).to_string_lossy()]);
    assert!(told.contains("base"), "{told}");
}

trial!(a_job_that_resumes_from_increments_has_the_same_bits_on_any_number_of_servers);
fn a_job_that_resumes_from_increments_has_the_same_bits_on_any_number_of_servers() {
    let scratch = tempfile::tempdir().expect("a temporary folder");
    let at_once = scratch.path().join("at_once");
    let job = write_job(&at_once);
    train(&job, 2, 1900);
    let expected = outcome(&job, &at_once);
    let resumed = scratch.path().join("resumed");
    let job = write_job(&resumed);
    for (servers, steps) in [(2, 700), (3, 1300), (1, 1900)] {
        train(&job, servers, steps);
        let last = manifest(&resumed, steps);
        assert!(
            bytes(&last, "bases") > 0,
            "the last checkpoint of {servers} servers is incremental"
        );
    }
    assert_eq!(outcome(&job, &resumed), expected);
}

trial!(a_damaged_increment_costs_one_checkpoint_and_a_damaged_base_those_that_share_it);
fn a_damaged_increment_costs_one_checkpoint_and_a_damaged_base_those_that_share_it() {
    let scratch = tempfile::tempdir().expect("a temporary folder");
    let at_once = scratch.path().join("at_once");
    let job = write_job(&at_once);
    train(&job, 1, 1600);
    let expected = outcome(&job, &at_once);
    let damaged = scratch.path().join("damaged");
    let job = write_job(&damaged);
    train(&job, 1, 1000);
    let before = checkpoints(&damaged).into_iter().rev().nth(1);
    let before = before.expect("a checkpoint before the last one");
    damage(&checkpoint(&damaged, 1000).join("shard-0-of-1.safetensors"));
    let output = train(&job, 2, 1300);
    // The checkpoint before it shares the base.
    let used = step_used(&output, 1000);
    assert_eq!(used, before, "{output}");
    // The run of two servers began with a whole checkpoint. Those of the run of one server have another base.
    let last = manifest(&damaged, 1300);
    assert!(bytes(&last, "bases") > 0, "{last}");
    damage(&checkpoint(&damaged, 1300).join("base-1.safetensors"));
    let output = train(&job, 1, 1600);
    assert!(
        step_used(&output, 1300) <= used,
        "no checkpoint on the damaged base is used: {output}"
    );
    assert_eq!(outcome(&job, &damaged), expected);
}

trial!(a_job_that_is_killed_between_increments_resumes_with_the_same_bits);
fn a_job_that_is_killed_between_increments_resumes_with_the_same_bits() {
    let scratch = tempfile::tempdir().expect("a temporary folder");
    let at_once = scratch.path().join("at_once");
    let job = write_job(&at_once);
    train(&job, 1, 1900);
    let expected = outcome(&job, &at_once);
    let killed = scratch.path().join("killed");
    let job = write_job(&killed);
    // Servers, chief and worker are one process.
    let command = [
        "train",
        job.as_str(),
        "--set",
        "train.max_steps=1900",
        "--set",
        "strategy.chief_trains=true",
    ];
    let mut process = Program::start("trainyard", &command, &[]);
    process.wait_for("checkpoint saved step=750", LIMIT);
    process.signal(Signal::KILL);
    process.wait(LIMIT);
    assert!(bytes(&manifest(&killed, 750), "bases") > 0);
    train(&job, 1, 1900);
    assert_eq!(outcome(&job, &killed), expected);
}
