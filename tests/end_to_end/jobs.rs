//! Jobs that nothing disturbs.

use std::io::Write as _;
use std::net::TcpListener;
use std::time::{Duration, Instant};

use trainyard_tests::{Program, TestCluster, program, write_job};

use crate::end_to_end::LIMIT;

/// What a chief says whose job is to be evaluated by nobody.
const NO_EVALUATOR: &str = "no evaluator runs: the job has [input.eval]";

/// Evaluations written down, in order: (step, auc).
fn evaluations(cluster: &TestCluster) -> Vec<(u64, f64)> {
    let text = std::fs::read_to_string(cluster.model_dir().join("eval/metrics.jsonl"))
        .expect("evaluations");
    let read = text.lines().map(|line| {
        let value: serde_json::Value = serde_json::from_str(line).expect("a line is JSON");
        (
            value["global_step"].as_u64().expect("a step"),
            value["metrics"]["auc"].as_f64().expect("an auc"),
        )
    });
    read.collect()
}

trial!(a_cluster_trains_to_exactly_max_steps_and_every_task_ends);
fn a_cluster_trains_to_exactly_max_steps_and_every_task_ends() {
    let cluster = TestCluster::new(2, 2, 2000, "[train]\nmax_steps = 301\n");
    // Workers first, servers last: the order of the start does not matter.
    let workers = [
        cluster.start("worker", 0, &[]),
        cluster.start("worker", 1, &[]),
    ];
    let evaluator = cluster.start("evaluator", 0, &[]);
    let mark = cluster.model_dir().join("eval/evaluator.json");
    let started = Instant::now();
    while !mark.exists() {
        assert!(started.elapsed() < LIMIT, "the evaluator leaves no mark");
        std::thread::sleep(Duration::from_millis(10));
    }
    let chief = cluster.start("chief", 0, &[]);
    let servers = [cluster.start("ps", 1, &[]), cluster.start("ps", 0, &[])];
    for program in workers.into_iter().chain([chief, evaluator]).chain(servers) {
        let ended = program.wait(LIMIT);
        assert_eq!(ended.code, 0, "{}", ended.output);
        assert!(
            !ended.output.contains(NO_EVALUATOR),
            "there is one: {}",
            ended.output
        );
    }
    let state = cluster.job_state();
    assert_eq!(
        (state["phase"].as_str(), state["global_step"].as_u64()),
        (Some("done"), Some(301))
    );
    let (step, auc) = *evaluations(&cluster).last().expect("an evaluation");
    assert!(step == 301 && auc > 0.9, "step {step}, auc {auc}");
    assert!(cluster.model_dir().join("export/best/best.json").exists());
    assert!(
        !cluster.model_dir().join("eval/evaluator.json").exists(),
        "it has ended"
    );
    for address in &cluster.addresses {
        TcpListener::bind(address).unwrap_or_else(|error| panic!("{address} is not free: {error}"));
    }
}

trial!(bounded_input_is_applied_once_whatever_the_number_of_tasks);
fn bounded_input_is_applied_once_whatever_the_number_of_tasks() {
    // 1000 rows, two passes, three tasks with shards of 334, 333 and 333 rows: 42 batches of 16 each.
    let cluster = TestCluster::new(1, 2, 1000, "");
    let tasks = [("ps", 0), ("chief", 0), ("worker", 0), ("worker", 1)];
    let programs: Vec<Program> = tasks
        .into_iter()
        .map(|(role, index)| cluster.start_by_tf_config(role, index))
        .collect();
    for ((role, _), program) in tasks.into_iter().zip(programs) {
        let ended = program.wait(LIMIT);
        assert_eq!(ended.code, 0, "{}", ended.output);
        assert_eq!(
            ended.output.contains(NO_EVALUATOR),
            role == "chief",
            "nobody has started one: {}",
            ended.output
        );
    }
    assert_eq!(cluster.job_state()["global_step"].as_u64(), Some(3 * 42));
}

trial!(
    a_worker_that_was_given_another_job_is_refused_with_the_key_and_both_values_and_the_job_goes_on
);
fn a_worker_that_was_given_another_job_is_refused_with_the_key_and_both_values_and_the_job_goes_on()
{
    let cluster = TestCluster::new(1, 2, 1000, "[train]\nmax_steps = 300\n");
    let goes_on = [("ps", 0), ("chief", 0), ("worker", 0)]
        .map(|(role, index)| cluster.start(role, index, &[]));
    // Their models have the same variables: nothing else would tell them apart.
    let told = [
        "--set",
        "input.label.positive=\"1.0\"",
        "--set",
        "run.intra_op_parallelism_threads=1",
    ];
    let ended = cluster.start("worker", 1, &told).wait(LIMIT);
    assert_eq!(ended.code, 76, "{}", ended.output);
    for part in [
        "error[E2007]",
        "worker:1 has another job than the chief",
        "input.label.positive is \"1.0\" for worker:1 and not set for chief:0",
    ] {
        assert!(ended.output.contains(part), "{part}: {}", ended.output);
    }
    assert!(
        !ended.output.contains("parallelism"),
        "that may differ: {}",
        ended.output
    );
    for program in goes_on {
        let ended = program.wait(LIMIT);
        assert_eq!(ended.code, 0, "{}", ended.output);
    }
}

trial!(an_evaluator_that_was_given_another_label_is_refused_before_it_scores_anything);
fn an_evaluator_that_was_given_another_label_is_refused_before_it_scores_anything() {
    let cluster = TestCluster::new(1, 0, 1000, "[train]\nmax_steps = 300\n");
    let programs = [("ps", 0), ("chief", 0)].map(|(role, index)| cluster.start(role, index, &[]));
    // What only decides how it is trained may be another: a longer job goes on with the evaluator that is there.
    let told = [
        "--set",
        "input.label.positive=\"1.0\"",
        "--set",
        "train.max_steps=7",
    ];
    let ended = cluster.start("evaluator", 0, &told).wait(LIMIT);
    assert_eq!(ended.code, 76, "{}", ended.output);
    let difference = "another job than the chief: input.label.positive is \"1.0\" for the evaluator and not set for the chief";
    assert!(
        ended.output.contains("error[E2007]") && ended.output.contains(difference),
        "{}",
        ended.output
    );
    assert!(
        !ended.output.contains("max_steps") && !ended.output.contains("evaluated global step"),
        "{}",
        ended.output
    );
    for program in programs {
        let ended = program.wait(LIMIT);
        assert_eq!(ended.code, 0, "{}", ended.output);
    }
    let ended = cluster
        .start("evaluator", 0, &["--set", "train.max_steps=7"])
        .wait(LIMIT);
    assert!(
        ended.code == 0 && ended.output.contains("evaluated global step 300"),
        "{}",
        ended.output
    );
}

trial!(a_second_run_in_one_model_dir_ends_with_the_process_of_the_first_which_goes_on);
fn a_second_run_in_one_model_dir_ends_with_the_process_of_the_first_which_goes_on() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let job = write_job(folder.path(), 1000, "[train]\nmax_steps = 1000000000\n");
    let job = job.to_string_lossy();
    let mut first = Program::start("trainyard", &["train", &job], &[]);
    first.wait_for("training is open", LIMIT);
    for second in [vec!["train", &job], vec!["run", "--job", &job]] {
        let ended = Program::start("trainyard", &second, &[]).wait(LIMIT);
        assert_eq!(ended.code, 75, "{}", ended.output);
        let by = format!("is in use by another run: pid {} on ", first.id());
        assert!(
            ended.output.contains("error[E2008]") && ended.output.contains(&by),
            "{}",
            ended.output
        );
    }
    first.signal(rustix::process::Signal::TERM);
    let ended = first.wait(LIMIT);
    assert_eq!(ended.code, 0, "{}", ended.output);
    let third = Program::start(
        "trainyard",
        &["train", &job, "--set", "train.max_steps=10"],
        &[],
    )
    .wait(LIMIT);
    assert_eq!(third.code, 0, "{}", third.output);
}

trial!(the_end_of_the_terminal_ends_training_with_a_checkpoint_and_nohup_keeps_it_going);
fn the_end_of_the_terminal_ends_training_with_a_checkpoint_and_nohup_keeps_it_going() {
    use rustix::process::Signal;
    let trainyard = program("trainyard");
    let trainyard = trainyard.to_string_lossy();
    for (command, arguments) in [
        ("trainyard", vec!["train"]),
        ("trainyard", vec!["up", "--cluster", "local:ps=1,worker=1"]),
        ("nohup", vec![&*trainyard, "train"]),
    ] {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let job = write_job(folder.path(), 1000, "[train]\nmax_steps = 1000000000\n");
        let job = job.to_string_lossy();
        let arguments = [&arguments[..], &[&job]].concat();
        let mut running = Program::start(command, &arguments, &[]);
        running.wait_for_next("training step=", LIMIT);
        running.signal(Signal::HUP);
        if command == "nohup" {
            for _ in 0..2 {
                running.wait_for_next("training step=", LIMIT);
            }
            running.signal(Signal::TERM);
        }
        let ended = running.wait(LIMIT);
        assert_eq!(ended.code, 0, "{command}: {}", ended.output);
        let checkpoints = trainyard_checkpoint::list(&folder.path().join("model"));
        let mut checkpoints = checkpoints.expect("a model directory").into_iter();
        assert!(checkpoints.any(|found| found.step > 0), "{}", ended.output);
    }
}

trial!(a_task_that_is_told_to_stop_at_any_moment_of_its_start_ends);
fn a_task_that_is_told_to_stop_at_any_moment_of_its_start_ends() {
    let cluster = TestCluster::new(1, 1, 100, "");
    for delay in 0..60 {
        let evaluator = cluster.start("evaluator", 0, &[]);
        std::thread::sleep(std::time::Duration::from_millis(delay));
        evaluator.signal(rustix::process::Signal::TERM);
        let ended = evaluator.wait(LIMIT);
        // Before it can catch signals it is ended by this one.
        assert!(
            [0, 128 + 15].contains(&ended.code),
            "after {delay} ms: {} {}",
            ended.code,
            ended.output
        );
    }
}

trial!(a_task_that_is_told_to_stop_while_it_installs_its_handler_ends, needs Strace);
fn a_task_that_is_told_to_stop_while_it_installs_its_handler_ends() {
    let cluster = TestCluster::new(1, 1, 100, "");
    let evaluator = program("trainyard-evaluator");
    let job = cluster.job.to_string_lossy();
    let file = cluster.cluster.to_string_lossy();
    // The tracer is a grandchild, and holds each installation up where the system has done it and the program does not know.
    let mut task = Program::start(
        "strace",
        &[
            "--daemonize",
            "-qq",
            "--output=/dev/null",
            "--trace=rt_sigaction",
            "--inject=rt_sigaction:delay_exit=200000",
            &evaluator.to_string_lossy(),
            "--job",
            &job,
            "--cluster",
            &file,
            "--index",
            "0",
        ],
        &[],
    );
    let begun = Instant::now();
    while !catches(task.id(), rustix::process::Signal::TERM) {
        assert!(task.runs() && begun.elapsed() < LIMIT, "it catches nothing");
        std::thread::sleep(Duration::from_millis(2));
    }
    task.signal(rustix::process::Signal::TERM);
    let ended = task.wait(LIMIT);
    assert_eq!(ended.code, 0, "{}", ended.output);
}

/// Returns whether a process has a handler of a signal.
fn catches(pid: u32, signal: rustix::process::Signal) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:"));
    let caught = caught.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    caught.is_some_and(|mask| mask >> (signal.as_raw() - 1) & 1 == 1)
}

trial!(up_runs_a_whole_cluster_and_reports_it);
fn up_runs_a_whole_cluster_and_reports_it() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let job = write_job(folder.path(), 1000, "[train]\nmax_steps = 200\n");
    let report = folder.path().join("report.json");
    let arguments = [
        "up",
        &job.to_string_lossy(),
        "--cluster",
        "local:ps=2,worker=1",
        "--report",
        &report.to_string_lossy(),
    ];
    let ended = Program::start("trainyard", &arguments, &[]).wait(LIMIT);
    assert_eq!(ended.code, 0, "{}", ended.output);
    assert!(
        ended
            .output
            .contains("watch this run in a browser: http://127.0.0.1:"),
        "{}",
        ended.output
    );
    let report: serde_json::Value =
        serde_json::from_slice(&std::fs::read(&report).expect("the report"))
            .expect("the report is JSON");
    assert_eq!(report["global_step"].as_u64(), Some(200), "{report}");
    // Three passes of 1000 rows are 63 steps each, the last of 8 rows; whoever has that of the third may be behind the
    // others when step 200 is applied.
    let examples = report["examples"].as_u64();
    assert!(
        [3000 + 11 * 16, 3000 + 11 * 16 + 8]
            .map(Some)
            .contains(&examples),
        "{report}"
    );
    assert!(
        report["eval"]["auc"].as_f64().is_some_and(|auc| auc > 0.8),
        "{report}"
    );
    let exit = report["exit"].as_object().expect("exit codes");
    assert_eq!(exit.len(), 5, "{report}");
    assert!(
        exit.values().all(|code| code.as_i64() == Some(0)),
        "{report}"
    );
}

trial!(one_process_trains_predicts_exports_and_inspects);
fn one_process_trains_predicts_exports_and_inspects() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let job = write_job(folder.path(), 1000, "[train]\nmax_steps = 200\n");
    let job = job.to_string_lossy();
    let run = |arguments: &[&str]| {
        let ended = Program::start("trainyard", arguments, &[]).wait(LIMIT);
        assert_eq!(ended.code, 0, "{arguments:?}: {}", ended.output);
        ended.output
    };
    let trained = run(&["train", &job]);
    assert!(
        trained.contains("trained to step 200") && trained.contains("accuracy"),
        "{trained}"
    );
    let scores = run(&["evaluate", &job, "--format", "json"]);
    assert!(scores.contains("\"global_step\":200"), "{scores}");
    let told = run(&["predict", &job]);
    let predictions: Vec<&str> = told.lines().filter(|line| line.starts_with('{')).collect();
    assert_eq!(predictions.len(), 250);
    assert!(told.contains("predicted 250 records"), "{told}");
    let first: serde_json::Value = serde_json::from_str(predictions[0]).expect("JSON");
    assert_eq!(
        first["probabilities"].as_array().map(Vec::len),
        Some(2),
        "{first}"
    );
    let export = run(&["export", &job]);
    assert!(
        std::path::Path::new(export.trim())
            .join("model.safetensors")
            .exists(),
        "{export}"
    );
    let inspected = run(&["inspect", &folder.path().join("model").to_string_lossy()]);
    assert!(
        inspected.contains("checkpoint step 200") && inspected.contains("dnn/hiddenlayer_0/kernel"),
        "{inspected}"
    );
    let again = run(&["train", &job]);
    assert!(
        again.contains("trained to step 200: this run added no step"),
        "a job at its end trains nothing more: {again}"
    );
}

trial!(an_input_file_that_is_cut_short_is_named_with_what_to_do);
fn an_input_file_that_is_cut_short_is_named_with_what_to_do() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let job = write_job(folder.path(), 4000, "[train]\nmax_steps = 100_000\n");
    let text = std::fs::read(folder.path().join("train.csv")).expect("the rows are there");
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(&text).expect("memory takes it");
    let whole = encoder.finish().expect("memory takes it");
    std::fs::write(
        folder.path().join("train.csv.gz"),
        &whole[..whole.len() / 2],
    )
    .expect("it is written");
    let files = "input.train.files=[\"train.csv.gz\"]";
    let ended = Program::start(
        "trainyard",
        &["train", &job.to_string_lossy(), "--set", files],
        &[],
    )
    .wait(LIMIT);
    assert_eq!(ended.code, 66, "{}", ended.output);
    for words in [
        "error[E4002]",
        "train.csv.gz",
        "the gzip content is cut short",
        "copy the file again",
    ] {
        assert!(
            ended.output.contains(words),
            "`{words}` in {}",
            ended.output
        );
    }
}

trial!(clipped_gradients_move_no_weight_further_than_the_bound);
fn clipped_gradients_move_no_weight_further_than_the_bound() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    std::fs::write(folder.path().join("rows.csv"), "x,y\n1,500\n2,900\n")
        .expect("the data is written");
    let job = format!(
        "model_dir = \"{}\"\n[input]\nlabel = {{ column = \"y\" }}\ntrain = {{ files = [\"rows.csv\"], batch_size = 2 }}\n\
         eval = {{ files = [\"rows.csv\"] }}\n[[feature]]\ncolumn = \"x\"\nkind = \"numeric\"\n[model]\n\
         kind = \"linear_regressor\"\nlinear_optimizer = {{ kind = \"sgd\", learning_rate = 1.0 }}\n[train]\nmax_steps = 3\n\
         clip_gradients = {{ kind = \"value\", clip = 0.25 }}\n",
        folder.path().join("model").display()
    );
    let path = folder.path().join("job.toml");
    std::fs::write(&path, job).expect("the job is written");
    let path = path.to_string_lossy();
    let trained = Program::start("trainyard", &["train", &path], &[]).wait(LIMIT);
    assert_eq!(trained.code, 0, "{}", trained.output);
    let predicted = Program::start("trainyard", &["predict", &path], &[]).wait(LIMIT);
    // Three steps of a quarter each, for weight and bias: 0.75 x + 0.75.
    let values: Vec<f64> = predicted
        .output
        .lines()
        .filter_map(|line| {
            serde_json::from_str::<serde_json::Value>(line).ok()?["predictions"][0].as_f64()
        })
        .collect();
    assert_eq!(values, [1.5, 2.25], "{}", predicted.output);
}

trial!(steps_that_are_read_ahead_count_once_and_stop_at_the_last);
fn steps_that_are_read_ahead_count_once_and_stop_at_the_last() {
    // Long enough that all tasks are there before it ends.
    for (set, steps) in [("[train]\nmax_steps = 1201\n", 1201), ("", 3 * 500)] {
        let cluster = TestCluster::new(2, 2, 12_000, set);
        let tasks = [
            ("ps", 0),
            ("ps", 1),
            ("chief", 0),
            ("worker", 0),
            ("worker", 1),
        ];
        let ahead = ["--set", "strategy.pipeline_depth=3"];
        let programs = tasks.map(|(role, index)| cluster.start(role, index, &ahead));
        for program in programs {
            let ended = program.wait(LIMIT);
            assert_eq!(ended.code, 0, "{}", ended.output);
        }
        assert_eq!(cluster.job_state()["global_step"].as_u64(), Some(steps));
    }
}

trial!(values_of_16_bits_on_the_wire_train_as_well);
fn values_of_16_bits_on_the_wire_train_as_well() {
    for payload in ["bfloat16", "float16"] {
        let cluster = TestCluster::new(2, 1, 2000, "[train]\nmax_steps = 400\n");
        let halves = format!("strategy.payload=\"{payload}\"");
        let tasks = [
            ("evaluator", 0),
            ("ps", 0),
            ("ps", 1),
            ("chief", 0),
            ("worker", 0),
        ];
        let programs = tasks.map(|(role, index)| cluster.start(role, index, &["--set", &halves]));
        for program in programs {
            let ended = program.wait(LIMIT);
            assert_eq!(ended.code, 0, "{}", ended.output);
        }
        let (step, auc) = *evaluations(&cluster).last().expect("an evaluation");
        assert!(
            step == 400 && auc > 0.9,
            "{payload}: step {step}, auc {auc}"
        );
    }
}

trial!(a_task_that_trains_alone_has_checkpoints_of_the_very_steps_that_it_asks_for);
fn a_task_that_trains_alone_has_checkpoints_of_the_very_steps_that_it_asks_for() {
    for depth in [0, 1] {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let job = write_job(folder.path(), 400, "[train]\nmax_steps = 330\n")
            .to_string_lossy()
            .into_owned();
        let set = [
            "run.save_checkpoints_steps=100".to_owned(),
            "run.keep_checkpoint_max=10".to_owned(),
            format!("strategy.pipeline_depth={depth}"),
        ];
        let mut arguments = vec!["train", &job];
        set.iter()
            .for_each(|setting| arguments.extend(["--set", setting]));
        let ended = Program::start("trainyard", &arguments, &[]).wait(LIMIT);
        assert_eq!(ended.code, 0, "{}", ended.output);
        let found = trainyard_checkpoint::list(&folder.path().join("model")).expect("it is listed");
        let steps: Vec<u64> = found.iter().map(|found| found.step).collect();
        assert_eq!(steps, [0, 100, 200, 300, 330], "depth {depth}");
    }
}
