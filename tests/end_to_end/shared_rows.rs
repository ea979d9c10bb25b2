//! Dynamic tables with a shared row: the same row on any number of servers, for all that reads a model.

use std::fmt::Write as _;
use std::path::Path;

use rustix::process::Signal;
use trainyard_checkpoint::{Checkpoint, list};
use trainyard_cluster_spec::{LocalCounts, Role, Task};
use trainyard_tests::{Draw, Program, Supervisor, program};

use crate::end_to_end::LIMIT;
use crate::end_to_end::dynamic::{prediction, run, scores};
use crate::serving::Server;
use crate::serving::client::post;
use crate::serving::published::{ENDLESS, answer, state_of, version, wait_for};

/// Users that occur often.
const FREQUENT: u64 = 30;

/// Rows of a user and a label. A frequent user decides the label. Three of ten rows are of a user of their own, and nine of
/// ten of those have the label 1. Two of ten rows are of no user, and nine of ten of those have the label 0.
fn write_rows(path: &Path, rows: u64, seed: u64) {
    let mut text = "user,y\n".to_owned();
    let mut draw = Draw::new(seed);
    for row in 0..rows {
        let rare = draw.below(10) == 0;
        let (user, label) = match draw.below(10) {
            0..3 => (format!("u{}", 1000 + seed * rows + row), !rare),
            3..5 => (String::new(), rare),
            _ => {
                let user = draw.below(FREQUENT);
                (format!("u{user}"), user.is_multiple_of(3))
            }
        };
        let _ = writeln!(text, "{user},{}", u8::from(label));
    }
    std::fs::write(path, text).expect("the rows are written");
}

/// A synchronous cluster whose steps do not depend on its servers.
const SYNCHRONOUS: &str = "update = \"sync\"\nchief_trains = false";
/// Every worker holds the parameters.
const MIRRORED: &str = "kind = \"multi_worker_mirrored\"";
/// The tables are on servers, and every worker holds the other parameters.
const HYBRID: &str = "kind = \"hybrid\"";
/// Steps of a job.
const STEPS: u64 = 300;

fn write_job(folder: &Path, strategy: &str) -> String {
    // So many that no step reads a row again.
    write_rows(&folder.join("train.csv"), 16_000, 1);
    write_rows(&folder.join("eval.csv"), 1000, 2);
    let job = format!(
        r#"model_dir = "{}"
[run]
seed = 3
save_checkpoints_steps = 100
[strategy]
{strategy}
[input]
label = {{ column = "y" }}
[input.train]
files = ["train.csv"]
batch_size = 16
[input.eval]
files = ["eval.csv"]
[[feature]]
column = "user"
kind = "dynamic"
rows_max = 6000
admit_after = 3
expire_after_steps = 100
shared_row = true
wide = true
deep = {{ embedding = 4 }}
[model]
kind = "dnn_linear_combined_classifier"
hidden_units = [8]
[model.dnn_optimizer]
kind = "adam"
lazy = true
learning_rate = 0.01
[train]
max_steps = {STEPS}
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

/// Name, ids and bits of each variable.
type Variables = Vec<(String, Vec<u64>, Vec<u32>)>;

/// The bits of every variable of the last checkpoint, with the ids of dynamic tables.
fn variables(model_dir: &Path) -> Variables {
    let found = list(model_dir).expect("the model folder is read");
    let last = found.last().expect("a checkpoint");
    let checkpoint = Checkpoint::open(&last.path).expect("the checkpoint is whole");
    let of_variable = |name: &String, is_dynamic: bool| {
        let (ids, values) = if is_dynamic {
            let rows = checkpoint.read_dynamic(name, &[], 0..1 << 64);
            let rows = rows.expect("the table is whole");
            (rows.ids, rows.values)
        } else {
            let values = checkpoint.read(name).expect("the variable is whole");
            (Vec::new(), values)
        };
        let bits = values.iter().map(|value| value.to_bits()).collect();
        (name.clone(), ids, bits)
    };
    let specs = checkpoint.manifest().variables.iter();
    specs
        .map(|spec| of_variable(&spec.name, spec.dynamic().is_some()))
        .collect()
}

/// Trains a job on clusters, one after another, each to a number of steps. Returns the variables.
fn trained_on(strategy: &str, clusters: &[(&str, u64)]) -> Variables {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let job = write_job(folder.path(), strategy);
    for (cluster, steps) in clusters {
        let steps = format!("train.max_steps={steps}");
        run(&["up", &job, "--cluster", cluster, "--set", &steps]);
    }
    variables(&folder.path().join("model"))
}

trial!(a_shared_row_has_the_same_bits_on_any_number_of_servers_and_after_a_resume);
fn a_shared_row_has_the_same_bits_on_any_number_of_servers_and_after_a_resume() {
    let whole = [("local:ps=1,worker=2", STEPS)];
    let expected = trained_on(SYNCHRONOUS, &whole);
    let shared: Vec<_> = expected
        .iter()
        .filter(|(name, ..)| name.ends_with("/shared_row"))
        .map(|(name, _, bits)| (name.as_str(), bits.len()))
        .collect();
    let scope = "dnn/input_from_feature_columns/input_layer/user_embedding/embedding_weights";
    let deep = format!("{scope}/shared_row");
    let wide = "linear/linear_model/user/weights/shared_row";
    assert_eq!(shared, [(wide, 1), (deep.as_str(), 4)]);
    let other = [("local:ps=3,worker=2", STEPS)];
    assert_eq!(trained_on(SYNCHRONOUS, &other), expected);
    let resumed = [("local:ps=2,worker=2", 100), ("local:ps=3,worker=2", STEPS)];
    assert_eq!(trained_on(SYNCHRONOUS, &resumed), expected);
}

trial!(a_server_that_dies_knows_again_which_ids_were_counted);
fn a_server_that_dies_knows_again_which_ids_were_counted() {
    let steps = 5 * STEPS;
    let expected = trained_on(SYNCHRONOUS, &[("local:ps=1,worker=2", steps)]);
    let folder = tempfile::tempdir().expect("a temporary folder");
    let job = write_job(folder.path(), SYNCHRONOUS);
    let model_dir = folder.path().join("model");
    let counts = LocalCounts {
        ps: 2,
        workers: 2,
        evaluators: 0,
    };
    let settings = [format!("train.max_steps={steps}")];
    let program = program("trainyard");
    let mut tasks = Supervisor::new(&program, folder.path(), Path::new(&job), counts, &settings);
    tasks.start_all();
    for (server, checkpoints) in [(1, 1), (0, 2)] {
        tasks.wait_until("a checkpoint", LIMIT, |_| {
            list(&model_dir).is_ok_and(|found| found.len() >= checkpoints)
        });
        let server = Task {
            role: Role::Ps,
            index: server,
        };
        let started = tasks.starts();
        tasks.signal(server, Signal::KILL);
        tasks.wait_until("the server is back", LIMIT, |tasks| {
            tasks.starts() > started && tasks.runs(server)
        });
    }
    let chief = Task {
        role: Role::Chief,
        index: 0,
    };
    assert!(
        tasks.wait_for_end_of(chief, LIMIT),
        "{}",
        tasks.last_lines()
    );
    assert_eq!(tasks.finish(LIMIT), [], "{}", tasks.last_lines());
    assert_eq!(variables(&model_dir), expected);
}

trial!(workers_that_hold_the_parameters_have_one_shared_row);
fn workers_that_hold_the_parameters_have_one_shared_row() {
    let expected = trained_on(MIRRORED, &[("local:worker=2", STEPS)]);
    let resumed = [("local:worker=2", 100), ("local:worker=2", STEPS)];
    assert_eq!(trained_on(MIRRORED, &resumed), expected);
    let hybrid = trained_on(HYBRID, &[("local:ps=2,worker=2", STEPS)]);
    for variables in [expected, hybrid] {
        for (name, ids, bits) in &variables {
            let is_shared = name.ends_with("/shared_row");
            assert!(
                !is_shared || bits.iter().all(|bits| *bits != 0),
                "{name} has not moved"
            );
            let users = ids.len();
            assert!(
                ids.is_empty() || users == FREQUENT as usize,
                "{name}: {users} users"
            );
        }
    }
}

/// Logits of users, as predictions print them.
fn logits_of(answer: &serde_json::Value) -> String {
    answer["logits"].to_string()
}

/// Asserts that each table of a SavedModel ends with its shared row, which ids without a row read there.
fn assert_ends_with_shared_rows(job: &str, variables: &Variables) {
    let export = run(&["export", job, "--format", "saved_model"]);
    let file = "variables/variables.data-00000-of-00001";
    let written = std::fs::read(Path::new(export.trim()).join(file)).expect("an export");
    for (table, ids, bits) in variables.iter().filter(|(_, ids, _)| !ids.is_empty()) {
        let name = format!("{table}/shared_row");
        let row = variables.iter().find(|(other, ..)| *other == name);
        let (_, _, row) = row.expect("a shared row");
        let expected: Vec<u8> = bits
            .iter()
            .chain(row)
            .flat_map(|bits| bits.to_le_bytes())
            .collect();
        let mut windows = written.windows(expected.len());
        assert!(
            windows.any(|window| window == expected),
            "{table} of {} ids",
            ids.len()
        );
    }
}

trial!(unknown_ids_read_the_shared_row_wherever_a_model_is_read);
fn unknown_ids_read_the_shared_row_wherever_a_model_is_read() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let job = write_job(folder.path(), "update = \"async\"");
    run(&["up", &job, "--cluster", "local:ps=2,worker=2"]);
    let logits = ["u3", "u999999", "u888888"]
        .map(|user| logits_of(&prediction(&job, folder.path(), "user", user)));
    assert_eq!(logits[1], logits[2], "all unknown users are one");
    assert_ne!(logits[0], logits[1]);
    let trained = scores(&job);
    let loss = trained["metrics"]["average_loss"].as_f64();
    let loss = loss.expect("a loss");
    let export = run(&["export", &job]);
    let export = export.trim();
    let input = folder.path().join("users.csv");
    std::fs::write(&input, "user\nu3\nu999999\n").expect("the rows are written");
    let input = input.to_string_lossy();
    let printed = run(&["predict", &job, "--from", export, "--input", &input]);
    let from_export: Vec<String> = printed
        .lines()
        .filter_map(|line| serde_json::from_str(line).ok())
        .map(|answer| logits_of(&answer))
        .collect();
    assert_eq!(from_export, logits[..2]);
    assert_ends_with_shared_rows(&job, &variables(&folder.path().join("model")));
    let mut server = Server::start(&[&job, "--name", "model"]);
    server.wait_for_version("model", STEPS);
    let request = r#"{"instances": [{"user": "u3"}, {"user": "u999999"}]}"#;
    let (status, answer) = post(&server.address, "/v1/models/model:predict", request);
    assert_eq!(status, 200, "{answer}");
    let answers = answer["predictions"].as_array().expect("predictions");
    let served: Vec<String> = answers.iter().map(logits_of).collect();
    assert_eq!(served, logits[..2]);
    drop(server);
    // Users of the evaluation that training has not met have the labels of those that it has met once, and not those of
    // records without a user.
    let alone = tempfile::tempdir().expect("a temporary folder");
    let other = write_job(alone.path(), "update = \"async\"");
    let text = std::fs::read_to_string(&other).expect("the job is read");
    let text = text.replace("shared_row = true\n", "");
    std::fs::write(&other, text).expect("the job is written");
    run(&["up", &other, "--cluster", "local:ps=2,worker=2"]);
    let without = scores(&other)["metrics"]["average_loss"].as_f64();
    let without = without.expect("a loss");
    assert!(
        loss < without - 0.05,
        "loss {loss} with a shared row, {without} without one"
    );
}

trial!(a_server_that_follows_training_answers_unknown_ids_by_the_shared_row_as_it_learns);
fn a_server_that_follows_training_answers_unknown_ids_by_the_shared_row_as_it_learns() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let job = write_job(folder.path(), "update = \"ssp\"\nstaleness_steps_max = 2");
    let steps = format!("train.max_steps={ENDLESS}");
    let cluster = "local:ps=2,worker=2";
    let settings = ["--set", &steps, "--set", "publish.every_secs=1"];
    let up = [&["up", &job, "--cluster", cluster][..], &settings].concat();
    let training = Program::start("trainyard", &up, &[]);
    let server = Server::start(&[&job, "--name", "model"]);
    let request = r#"{"instances": [{"user": "u999999"}, {"user": "u888888"}]}"#;
    wait_for("a version", || (version(&server) > 0).then_some(()));
    let first = answer(&server, request);
    wait_for("another answer", || {
        (answer(&server, request) != first).then_some(())
    });
    training.signal(Signal::TERM);
    let ended = training.wait(LIMIT);
    let (phase, step) = state_of(&folder.path().join("model"));
    assert_eq!(phase, "stopped", "{}", ended.output);
    wait_for("the last step", || (version(&server) == step).then_some(()));
    let (status, served) = post(&server.address, "/v1/models/model:predict", request);
    assert_eq!(status, 200, "{served}");
    let unknown = logits_of(&prediction(&job, folder.path(), "user", "u777777"));
    for prediction in served["predictions"].as_array().expect("predictions") {
        assert_eq!(logits_of(prediction), unknown);
    }
}
