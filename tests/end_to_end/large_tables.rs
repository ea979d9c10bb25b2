//! Tables of more rows than a job ever changes: what nobody has changed is computed, held by no server and in no file.

use std::fmt::Write as _;
use std::path::Path;

use trainyard_tests::Draw;

use crate::end_to_end::dynamic::{prediction, run, scores};

/// Rows of a user and a label that the user decides.
fn write_rows(path: &Path, rows: u64, seed: u64) {
    let mut text = "user,y\n".to_owned();
    let mut draw = Draw::new(seed);
    for _ in 0..rows {
        let user = draw.below(3000);
        let _ = writeln!(text, "u{user},{}", user % 2);
    }
    std::fs::write(path, text).expect("the rows are written");
}

/// A job of one task that trains, so that its steps have an order. The table would take 256 MB.
fn write_job(folder: &Path) -> String {
    std::fs::create_dir_all(folder).expect("a folder");
    write_rows(&folder.join("train.csv"), 4000, 1);
    write_rows(&folder.join("eval.csv"), 500, 2);
    let job = format!(
        r#"model_dir = "{}"
[run]
seed = 3
[strategy]
chief_trains = false
[input]
label = {{ column = "y" }}
[input.train]
files = ["train.csv"]
batch_size = 16
[input.eval]
files = ["eval.csv"]
[[feature]]
column = "user"
kind = "hashed"
buckets = 2_000_000
deep = {{ embedding = 16 }}
wide = false
[model]
kind = "dnn_classifier"
hidden_units = [8]
dnn_optimizer = {{ kind = "adagrad", learning_rate = 0.3 }}
[train]
max_steps = 240
[eval]
start_delay_secs = 0
throttle_secs = 0
"#,
        folder.join("model").display()
    );
    let path = folder.join("job.toml");
    std::fs::write(&path, job).expect("the job is written");
    path.to_string_lossy().into_owned()
}

/// Trains up to a step on so many servers.
fn train(job: &str, servers: usize, steps: u64) -> String {
    let cluster = format!("local:ps={servers},worker=1");
    run(&[
        "up",
        job,
        "--cluster",
        &cluster,
        "--set",
        &format!("train.max_steps={steps}"),
    ])
}

/// What a job has come to: its scores, and the logits of users that it has seen and has not.
fn outcome(job: &str, folder: &Path) -> (serde_json::Value, Vec<serde_json::Value>) {
    let logits = |user| prediction(job, folder, "user", user)["logits"].clone();
    (
        scores(job)["metrics"].clone(),
        ["u7", "u8", "nobody"].map(logits).into(),
    )
}

trial!(a_large_table_has_the_same_bits_on_any_number_of_servers_and_after_every_restore);
fn a_large_table_has_the_same_bits_on_any_number_of_servers_and_after_every_restore() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let at_once = folder.path().join("at_once");
    let job = write_job(&at_once);
    train(&job, 2, 240);
    let expected = outcome(&job, &at_once);
    let resumed = folder.path().join("resumed");
    let job = write_job(&resumed);
    for (servers, steps) in [(1, 80), (3, 160), (1, 240)] {
        train(&job, servers, steps);
    }
    assert_eq!(outcome(&job, &resumed), expected);
    let model = resumed.join("model").to_string_lossy().into_owned();
    let told = run(&["inspect", &model]);
    let changed = told.lines().find_map(|line| {
        line.split_once("]  ")?
            .1
            .split_once(" of 2000000 rows changed")
    });
    let changed: usize = changed
        .expect("it says how many")
        .0
        .parse()
        .expect("a number");
    assert!((1000..=3000).contains(&changed), "{told}");
    let files = std::fs::read_dir(resumed.join("model/model.ckpt-240")).expect("a checkpoint");
    let bytes: u64 = files
        .map(|file| file.expect("a file").metadata().expect("a file").len())
        .sum();
    assert!(
        bytes < 2 << 20,
        "a checkpoint of {changed} rows has {bytes} bytes"
    );
}

trial!(servers_that_restore_find_a_damaged_checkpoint_together_and_go_on_from_the_one_before);
fn servers_that_restore_find_a_damaged_checkpoint_together_and_go_on_from_the_one_before() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let at_once = folder.path().join("at_once");
    let job = write_job(&at_once);
    train(&job, 1, 120);
    let expected = outcome(&job, &at_once);
    let damaged = folder.path().join("damaged");
    let job = write_job(&damaged);
    train(&job, 2, 40);
    train(&job, 1, 80);
    // One server has written it, and each of three reads a part of the tensor.
    let shard = damaged.join("model/model.ckpt-80/shard-0-of-1.safetensors");
    let mut bytes = std::fs::read(&shard).expect("a shard");
    let place = bytes.len() * 3 / 4;
    bytes[place] ^= 1;
    std::fs::write(&shard, bytes).expect("it is damaged");
    let told = train(&job, 3, 120);
    for part in [
        "checkpoint step 80 is damaged",
        "using step 40",
        "expected",
        "damaged.model.ckpt-80",
    ] {
        assert!(told.contains(part), "{part}: {told}");
    }
    assert!(
        damaged.join("model/damaged.model.ckpt-80").is_dir(),
        "{told}"
    );
    assert_eq!(outcome(&job, &damaged), expected);
}

trial!(an_export_and_a_new_model_that_starts_from_a_large_table_have_its_rows_that_nobody_changed);
fn an_export_and_a_new_model_that_starts_from_a_large_table_have_its_rows_that_nobody_changed() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let first = folder.path().join("first");
    let job = write_job(&first);
    train(&job, 2, 40);
    let from = first.join("model").to_string_lossy().into_owned();
    let second = folder.path().join("second");
    let next = write_job(&second);
    // Another seed, and no step that counts: what it reads of rows that nobody has changed is the first model's.
    let start = format!("train.warm_start.from=\"{from}\"");
    let rate = "model.dnn_optimizer.learning_rate=1e-30";
    run(&[
        "up",
        &next,
        "--cluster",
        "local:ps=3,worker=1",
        "--set",
        "run.seed=77",
        "--set",
        &start,
        "--set",
        rate,
        "--set",
        "train.max_steps=1",
    ]);
    let (scores, logits) = outcome(&job, &first);
    assert_eq!(outcome(&next, &second), (scores, logits));
    let export = run(&["export", &job]);
    let bytes = std::fs::metadata(Path::new(export.trim()).join("model.safetensors"))
        .expect("an export")
        .len();
    assert!(
        bytes > 2_000_000 * 16 * 4,
        "every row is there, {bytes} bytes"
    );
}
