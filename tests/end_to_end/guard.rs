//! Jobs some of whose data leads to values that no server may take.

use std::path::Path;

use trainyard_tests::{Ended, Program};

use crate::end_to_end::LIMIT;

/// A row whose gradient is infinite, and one whose gradient is finite while its square is not.
const POISON: [&str; 2] = ["3e38,1000\n", "100,1e19\n"];

/// Writes rows of a number and its half. Those that `poisoned` names are not.
fn write_rows(path: &Path, rows: usize, poisoned: impl Fn(usize) -> bool) {
    let mut text = "x,y\n".to_owned();
    let mut poison = POISON.into_iter().cycle();
    for row in 0..rows {
        let x = row as f64 / rows as f64;
        if poisoned(row) {
            text.extend(poison.next());
        } else {
            text.push_str(&format!("{x},{}\n", x / 2.0));
        }
    }
    std::fs::write(path, text).expect("the rows are written");
}

const LINEAR: &str = "kind = \"linear_regressor\"";
const DENSE: &str = "kind = \"dnn_regressor\"\nhidden_units = [1500, 500]\ndnn_optimizer = { kind = \"adagrad\", learning_rate = 0.05 }";

/// Runs a job of batches of 10 rows on two servers with a chief and two workers that train.
fn up(folder: &Path, files: &str, more: &str) -> Ended {
    up_with(folder, files, LINEAR, more)
}

/// The same of another model.
fn up_with(folder: &Path, files: &str, model: &str, more: &str) -> Ended {
    write_rows(&folder.join("eval.csv"), 100, |_| false);
    let job = format!(
        r#"model_dir = "{}"
[run]
seed = 3
[input]
label = {{ column = "y" }}
[input.train]
files = {files}
batch_size = 10
[input.eval]
files = ["eval.csv"]
[[feature]]
column = "x"
kind = "numeric"
[model]
{model}
[eval]
start_delay_secs = 0
throttle_secs = 0
{more}"#,
        folder.join("model").display()
    );
    let path = folder.join("job.toml");
    std::fs::write(&path, job).expect("the job is written");
    let job = path.to_string_lossy().into_owned();
    Program::start(
        "trainyard",
        &["up", &job, "--cluster", "local:ps=2,worker=2"],
        &[],
    )
    .wait(LIMIT)
}

/// Steps applied, as the job's marker tells them, and the loss of its last evaluation.
fn result(folder: &Path) -> (u64, f64) {
    let read =
        |path: &str| std::fs::read_to_string(folder.join("model").join(path)).expect("it is there");
    let state: serde_json::Value = serde_json::from_str(&read("job_state.json")).expect("JSON");
    let scores = read("eval/metrics.jsonl");
    let last: serde_json::Value =
        serde_json::from_str(scores.lines().last().expect("scores")).expect("JSON");
    (
        state["global_step"].as_u64().expect("a step"),
        last["metrics"]["loss"].as_f64().expect("a finite loss"),
    )
}

trial!(batches_that_would_spoil_the_parameters_are_done_with_and_the_others_count);
fn batches_that_would_spoil_the_parameters_are_done_with_and_the_others_count() {
    // 40 batches a pass, 2 of them with a row of poison; of synchronous steps they are parts that count as zeros.
    let modes = [
        ("\"async\"", 2 * 38),
        ("\"ssp\"\nstaleness_steps_max = 2", 2 * 38),
        ("\"sync\"", 2 * 40_u64.div_ceil(3)),
    ];
    for (mode, expected) in modes {
        let folder = tempfile::tempdir().expect("a temporary folder");
        write_rows(&folder.path().join("train.csv"), 400, |row| {
            row == 57 || row == 343
        });
        let strategy = format!("[strategy]\nupdate = {mode}\n");
        let ended = up(folder.path(), "[\"train.csv\"]\nepochs = 2", &strategy);
        assert_eq!(ended.code, 0, "{mode}: {}", ended.output);
        let (steps, loss) = result(folder.path());
        assert_eq!(steps, expected, "{mode}: {}", ended.output);
        assert!(loss.is_finite() && loss < 0.2, "{mode}: {loss}");
        let told = ended.output.matches("batch rejected: ").count();
        assert!(told >= 2, "{mode}: {told} times in {}", ended.output);
        assert!(
            ended.output.contains("pass 1/shard 0/"),
            "{mode}: {}",
            ended.output
        );
    }
}

trial!(a_job_of_which_no_batch_updates_the_model_fails_however_it_is_started);
fn a_job_of_which_no_batch_updates_the_model_fails_however_it_is_started() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    write_rows(&folder.path().join("train.csv"), 100, |_| true);
    let told_of = |ended: &Ended| {
        assert_eq!(ended.code, 65, "{}", ended.output);
        for part in ["E5001", "no batch has updated the model", "normalizer"] {
            assert!(ended.output.contains(part), "{part}: {}", ended.output);
        }
    };
    told_of(&up(folder.path(), "[\"train.csv\"]\nepochs = 1", ""));
    let job = folder
        .path()
        .join("job.toml")
        .to_string_lossy()
        .into_owned();
    let run = |arguments: &[&str]| Program::start("trainyard", arguments, &[]).wait(LIMIT);
    // At its end, and from the start.
    told_of(&run(&["train", &job]));
    let again = folder.path().join("again").to_string_lossy().into_owned();
    told_of(&run(&["train", &job, "--model-dir", &again]));
    let checked = run(&["check", &job]);
    assert!(
        checked.output.contains("no batch has updated its model"),
        "{}",
        checked.output
    );
    let large =
        "warning[E4005]: `x` is from 100 to 3e38 in the sample, and the model reads it as it is";
    assert!(checked.output.contains(large), "{}", checked.output);
}

trial!(a_worker_that_sends_nothing_but_poison_is_quarantined_and_the_others_train);
fn a_worker_that_sends_nothing_but_poison_is_quarantined_and_the_others_train() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    write_rows(&folder.path().join("a.csv"), 100, |_| false);
    write_rows(&folder.path().join("b.csv"), 100, |_| false);
    write_rows(&folder.path().join("c.csv"), 300, |_| true);
    let ended = up(
        folder.path(),
        "[\"a.csv\", \"b.csv\", \"c.csv\"]\nsharding = \"file\"",
        "[train]\nmax_steps = 4000\n",
    );
    assert_eq!(ended.code, 0, "{}", ended.output);
    let (steps, loss) = result(folder.path());
    assert!(steps == 4000 && loss < 0.1, "{steps} {loss}");
    for text in [
        "is quarantined: ps:",
        "for their values, most recently those of batches pass ",
        ", the last one because ",
        "E5002",
    ] {
        assert!(ended.output.contains(text), "{text}: {}", ended.output);
    }
}

trial!(a_job_without_a_good_batch_fails_and_says_why);
fn a_job_without_a_good_batch_fails_and_says_why() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    write_rows(&folder.path().join("train.csv"), 2000, |_| true);
    let ended = up(
        folder.path(),
        "[\"train.csv\"]",
        "[train]\nmax_steps = 100\n",
    );
    assert_eq!(ended.code, 65, "{}", ended.output);
    let all = [
        "E5001",
        "no task is left that trains",
        "chief:0 is quarantined",
        "parameter_servers.guard",
    ];
    assert!(
        all.iter().all(|text| ended.output.contains(text)),
        "{}",
        ended.output
    );
}

trial!(a_job_that_halts_names_task_and_batch);
fn a_job_that_halts_names_task_and_batch() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    write_rows(&folder.path().join("train.csv"), 400, |row| row == 57);
    let more = "[parameter_servers.guard]\nnonfinite = \"halt\"\n[train]\nmax_steps = 100\n";
    let ended = up(folder.path(), "[\"train.csv\"]", more);
    assert_eq!(ended.code, 65, "{}", ended.output);
    let all = ["E5001", "training diverged in ", "batch pass 0/shard 0/"];
    assert!(
        all.iter().all(|text| ended.output.contains(text)),
        "{}",
        ended.output
    );
}

trial!(a_job_whose_tables_do_not_fit_the_memory_of_its_servers_opens_and_what_cannot_be_held_is_refused_with_figures);
fn a_job_whose_tables_do_not_fit_the_memory_of_its_servers_opens_and_what_cannot_be_held_is_refused_with_figures()
 {
    let folder = tempfile::tempdir().expect("a temporary folder");
    write_rows(&folder.path().join("train.csv"), 400, |_| false);
    // 200,000,000 weights with two slots each: 2.4 GB on two servers, of which 400 are changed.
    let table = |memory: u32| {
        format!(
            "[[feature]]\ncolumn = \"x\"\nname = \"text\"\nkind = \"hashed\"\nbuckets = 200_000_000\nwide = true\n\
             [parameter_servers]\nmemory_bytes_max = {memory}\n[train]\nmax_steps = 100\n"
        )
    };
    let ended = up(folder.path(), "[\"train.csv\"]", &table(8 << 20));
    assert_eq!(ended.code, 0, "{}", ended.output);
    let warned = "the tables are larger than the memory of this server";
    assert!(
        ended.output.contains(warned) && ended.output.contains("servers would hold"),
        "{}",
        ended.output
    );
    assert!(ended.output.contains("memory=8388608"), "{}", ended.output);
    // Of 6,000 rows that are changed the lists alone take more.
    let folder = tempfile::tempdir().expect("a temporary folder");
    write_rows(&folder.path().join("train.csv"), 100_000, |_| false);
    let ended = up(
        folder.path(),
        "[\"train.csv\"]",
        &table(1 << 20).replace("= 100\n", "= 9000\n"),
    );
    assert_eq!(ended.code, 73, "{}", ended.output);
    let all = [
        "E3009",
        "memory_bytes_max",
        "rows that are changed for the first time",
        "would do",
    ];
    assert!(
        all.iter().all(|text| ended.output.contains(text)),
        "{}",
        ended.output
    );
}

trial!(a_job_whose_dense_values_do_not_fit_the_memory_of_its_servers_ends_with_figures);
fn a_job_whose_dense_values_do_not_fit_the_memory_of_its_servers_ends_with_figures() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    write_rows(&folder.path().join("train.csv"), 400, |_| false);
    // 750,000 weights with a slot each: 6 MB on two servers.
    let more = "[parameter_servers]\nmemory_bytes_max = 1_048_576\n[train]\nmax_steps = 100\n";
    let ended = up_with(folder.path(), "[\"train.csv\"]", DENSE, more);
    assert_eq!(ended.code, 73, "{}", ended.output);
    let all = [
        "E3009",
        "may hold 1048576 bytes (parameter_servers.memory_bytes_max) and holds 0: ",
        "more are needed for the variables and slots of the job: ",
        "times as many servers, or as much memory, would do",
    ];
    assert!(
        all.iter().all(|text| ended.output.contains(text)),
        "{}",
        ended.output
    );
}
