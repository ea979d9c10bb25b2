//! What a person is told when something is wrong: one clear message, a documented exit code, nothing lost.

use std::time::Duration;

use trainyard_tests::{Program, TestCluster, write_job};

use crate::end_to_end::LIMIT;

/// Runs `trainyard check` on the small job after a change, and returns its code and output.
fn check(set: &[&str], data: Option<&str>) -> (i32, String) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let job = write_job(folder.path(), 40, "[train]\nmax_steps = 5\n");
    if let Some(data) = data {
        std::fs::write(folder.path().join("train.csv"), data).expect("the data is written");
    }
    let job = job.to_string_lossy();
    let mut arguments = vec!["check", &*job];
    for assignment in set {
        arguments.extend(["--set", assignment]);
    }
    let ended = Program::start("trainyard", &arguments, &[]).wait(LIMIT);
    (ended.code, ended.output)
}

trial!(a_good_job_passes_its_check);
fn a_good_job_passes_its_check() {
    let (code, output) = check(&[], None);
    assert_eq!(code, 0, "{output}");
    assert!(output.contains("ok  training input"), "{output}");
}

/// Changes by flag, other training data, exit code, parts of the message.
type Case = (
    &'static [&'static str],
    Option<&'static str>,
    i32,
    &'static [&'static str],
);

trial!(every_mistake_has_its_code_and_says_what_to_do);
fn every_mistake_has_its_code_and_says_what_to_do() {
    let table: [Case; 16] = [
        (
            &["exporter.0.metric=aux"],
            None,
            78,
            &["E1005", "compares the metric `aux`", "did you mean `auc`?"],
        ),
        (
            &["feature.0.kind=numberic"],
            None,
            78,
            &[
                "E1101",
                "unknown feature kind `numberic`",
                "did you mean `numeric`?",
            ],
        ),
        (
            &["train.max_stepz=1"],
            None,
            78,
            &[
                "E1001",
                "unknown key `max_stepz`",
                "did you mean `max_steps`?",
            ],
        ),
        (
            &["model.dnn_optimizer.kind=adamm"],
            None,
            78,
            &["E1101", "unknown optimizer `adamm`", "did you mean `adam`?"],
        ),
        (
            &["input.train.batch_size=many"],
            None,
            78,
            &["E1002", "batch_size must be a whole number", "flag --set"],
        ),
        (
            &["input.train.files=none.csv"],
            None,
            66,
            &["E4002", "input file `none.csv` does not exist", "looked in"],
        ),
        (
            &["input.train.files=no*.csv"],
            None,
            66,
            &["E4002", "input pattern `no*.csv` matches no file"],
        ),
        (&[], Some(""), 65, &["E4001", "the input holds no record"]),
        (
            &[],
            Some("x,z,word,y\n1,2,a,1\n1,2,a\n"),
            65,
            &["E4004", "train.csv:3", "must have 4 columns, given 3"],
        ),
        (
            &[],
            Some("x,z,word,y\nten,2,a,1\n"),
            65,
            &["E4004", "train.csv:2: column `x`: \"ten\" is not a number"],
        ),
        (
            &[],
            Some("x,z,word,y\ninf,2,a,1\n"),
            65,
            &["E4004", "column `x`: \"inf\" is not a finite number"],
        ),
        (
            &[],
            Some("x,q,word,y\n1,2,a,1\n"),
            65,
            &["E4003", "column `z` is not in", "columns: x, q, word, y"],
        ),
        (
            &[],
            Some("x_,zz,word,y\n1,2,a,1\n"),
            65,
            &[
                "E4003",
                "columns `x`, `z` are not in",
                "did you mean `x_` for `x`, `zz` for `z`?",
            ],
        ),
        (
            &[],
            Some("x,z,word,y\n1,2,a,yes\n1,2,a,no\n1,2,a,0\n"),
            65,
            &[
                "column `y`: \"yes\" is not a number",
                "2 of 3 records",
                "the label is a text",
                "input.label.positive",
            ],
        ),
        (
            &["input.columns=[\"x\", \"z\", \"word\", \"y\"]"],
            Some("x,z,word,y\n1,2,a,1\n"),
            65,
            &[
                "train.csv:1: it holds the names of the columns, and is no record",
                "remove the line, or input.columns",
            ],
        ),
        (
            &[],
            Some("x,z,word,y\na,2,a,1\nb,2,a,1\n"),
            65,
            &[
                "all 2 records of the sample have this problem",
                "correct the job",
            ],
        ),
    ];
    for (set, data, expected, parts) in table {
        let (code, output) = check(set, data);
        assert_eq!(code, expected, "{set:?} {data:?}:\n{output}");
        for part in parts {
            assert!(output.contains(part), "no `{part}` in\n{output}");
        }
    }
}

trial!(a_label_outside_its_classes_stops_training_with_the_value);
fn a_label_outside_its_classes_stops_training_with_the_value() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let job = write_job(folder.path(), 40, "[train]\nmax_steps = 500\n");
    std::fs::write(folder.path().join("train.csv"), "x,z,word,y\n1,2,a,7\n")
        .expect("the data is written");
    let ended = Program::start("trainyard", &["train", &job.to_string_lossy()], &[]).wait(LIMIT);
    assert_eq!(ended.code, 65, "{}", ended.output);
    assert!(
        ended.output.contains(
            "train.csv:2: column `y`: label must be 0 or 1, or a probability between them, given 7"
        ),
        "{}",
        ended.output
    );
}

/// Trains the small job on other data with one more feature, and returns its code and output.
fn train_with(feature: &str, data: &str) -> (i32, String) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let job = write_job(
        folder.path(),
        40,
        &format!("[train]\nmax_steps = 8\n[[feature]]\n{feature}"),
    );
    for file in ["train.csv", "eval.csv"] {
        std::fs::write(folder.path().join(file), data).expect("the data is written");
    }
    let ended = Program::start("trainyard", &["train", &job.to_string_lossy()], &[]).wait(LIMIT);
    (ended.code, ended.output)
}

trial!(a_job_in_one_process_whose_chief_does_not_train_ends_at_once);
fn a_job_in_one_process_whose_chief_does_not_train_ends_at_once() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let job = write_job(folder.path(), 400, "");
    let command = [
        "train",
        &job.to_string_lossy(),
        "--set",
        "strategy.chief_trains=false",
    ];
    let ended = Program::start("trainyard", &command, &[]).wait(LIMIT);
    assert_eq!(ended.code, 78, "{}", ended.output);
    assert!(
        ended
            .output
            .contains("no task trains: strategy.chief_trains is false"),
        "{}",
        ended.output
    );
}

trial!(an_id_out_of_range_stops_training_with_the_value);
fn an_id_out_of_range_stops_training_with_the_value() {
    let feature = "column = \"i\"\nkind = \"identity\"\nbuckets = 3\nwide = true\n";
    let (code, output) = train_with(feature, "x,z,word,y,i\n1,2,a,1,2\n1,2,a,0,7\n");
    assert_eq!(code, 65, "{output}");
    assert!(
        output.contains("train.csv:3: column `i`: id must be below 3, given 7"),
        "{output}"
    );
}

trial!(records_that_the_model_cannot_use_are_skipped_and_predicted_as_errors);
fn records_that_the_model_cannot_use_are_skipped_and_predicted_as_errors() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let feature = "column = \"i\"\nkind = \"identity\"\nbuckets = 3\nwide = true\n";
    let job = write_job(
        folder.path(),
        40,
        &format!("[train]\nmax_steps = 8\n[[feature]]\n{feature}"),
    );
    let data = "x,z,word,y,i\n1,2,a,1,2\n1,2,a,0,7\n1,2,a,5,1\n1,2,b,0,1\n";
    for file in ["train.csv", "eval.csv"] {
        std::fs::write(folder.path().join(file), data).expect("the data is written");
    }
    let job = job.to_string_lossy();
    let skip = ["--set", "input.bad_rows=\"skip\""];
    let run = |words: &[&str]| {
        let mut command = words.to_vec();
        command.extend(skip);
        Program::start("trainyard", &command, &[]).wait(LIMIT)
    };
    let ended = run(&["train", &job]);
    assert_eq!(ended.code, 0, "{}", ended.output);
    let ended = run(&["evaluate", &job]);
    assert_eq!(ended.code, 0, "{}", ended.output);
    let lines = folder.path().join("predicted.jsonl");
    let input = folder.path().join("eval.csv").display().to_string();
    let output = lines.display().to_string();
    let ended = run(&["predict", &job, "--input", &input, "--output", &output]);
    assert_eq!(ended.code, 0, "{}", ended.output);
    let lines = std::fs::read_to_string(lines).expect("the predictions are there");
    let errors: Vec<bool> = lines
        .lines()
        .map(|line| line.contains("eval.csv:3: column `i`: id must be below 3, given 7"))
        .collect();
    assert_eq!(errors, [false, true, false, false], "{lines}");
}

trial!(a_job_of_which_every_record_is_bad_ends_with_that_and_not_as_trained);
fn a_job_of_which_every_record_is_bad_ends_with_that_and_not_as_trained() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let job = write_job(folder.path(), 40, "[train]\nmax_steps = 8\n");
    let data = "x,z,word,y\n1,2,a,7\n1,2,a,8\n1,2,b,9\n";
    for file in ["train.csv", "eval.csv"] {
        std::fs::write(folder.path().join(file), data).expect("the data is written");
    }
    let job = job.to_string_lossy();
    let skip = ["--set", "input.bad_rows=\"skip\""];
    let one = ["--set", "input.train.epochs=1"];
    let command = [&["train", &job, "--no-evaluation"], &skip[..], &one[..]].concat();
    let ended = Program::start("trainyard", &command, &[]).wait(LIMIT);
    assert_eq!(ended.code, 65, "{}", ended.output);
    for part in ["E4004", "no record could be used", "dead_letter"] {
        assert!(ended.output.contains(part), "{part}: {}", ended.output);
    }
}

trial!(a_column_of_missing_values_trains_as_long_as_its_kind_has_a_word_for_them);
fn a_column_of_missing_values_trains_as_long_as_its_kind_has_a_word_for_them() {
    let data = "x,z,word,y,i\n1,2,a,1,\n-1,2,b,0,\n0.5,1,b,1,\n";
    for kind in [
        "hashed\"\nbuckets = 3",
        "identity\"\nbuckets = 3",
        "vocabulary\"\nvalues = [\"a\"]",
    ] {
        let feature =
            format!("column = \"i\"\nkind = \"{kind}\nwide = true\ndeep = {{ embedding = 2 }}\n");
        let (code, output) = train_with(&feature, data);
        assert_eq!(code, 0, "{kind}: {output}");
    }
    let (code, output) = train_with("column = \"i\"\nkind = \"numeric\"\n", data);
    assert_eq!(code, 65, "{output}");
    assert!(
        output.contains("column `i`") && output.contains("missing and has no default"),
        "{output}"
    );
}

trial!(a_taken_port_is_told_with_its_owner);
fn a_taken_port_is_told_with_its_owner() {
    let cluster = TestCluster::new(1, 0, 40, "[train]\nmax_steps = 5\n");
    let _taken = std::net::TcpListener::bind(&cluster.addresses[1]).expect("the port is free");
    let ended = cluster.start("ps", 0, &[]).wait(LIMIT);
    assert_eq!(ended.code, 73, "{}", ended.output);
    assert!(
        ended.output.contains("address already in use") && ended.output.contains("held by: pid"),
        "{}",
        ended.output
    );
}

trial!(a_task_whose_own_name_is_not_known_yet_ends_with_a_code_that_passes);
fn a_task_whose_own_name_is_not_known_yet_ends_with_a_code_that_passes() {
    let cluster = TestCluster::new(1, 0, 40, "[train]\nmax_steps = 5\n");
    // Longer than a label of a name may be: nobody is asked.
    let nowhere = format!("{}.invalid:12000", "x".repeat(64));
    for flag in ["--listen", "--admin-listen"] {
        let ended = cluster.start("ps", 0, &[flag, &nowhere]).wait(LIMIT);
        assert_eq!(ended.code, 69, "{}", ended.output);
        assert!(
            ended.output.contains("E2002") && ended.output.contains("cannot be resolved"),
            "{}",
            ended.output
        );
    }
}

trial!(an_absent_server_is_named_at_2_s_and_ends_the_wait_at_its_deadline);
fn an_absent_server_is_named_at_2_s_and_ends_the_wait_at_its_deadline() {
    let cluster = TestCluster::new(1, 0, 40, "[train]\nmax_steps = 5\n");
    let mut chief = cluster.start("chief", 0, &["--connect-deadline", "3"]);
    let notice = chief.wait_for("waiting: chief:0 for ps:0 at", LIMIT);
    assert!(notice.contains("connection refused"), "{notice}");
    let ended = chief.wait(Duration::from_secs(20));
    assert_eq!(ended.code, 69, "{}", ended.output);
    assert!(ended.output.contains("error[E2003]"), "{}", ended.output);
}

trial!(a_task_that_does_not_exist_is_answered_with_those_that_do);
fn a_task_that_does_not_exist_is_answered_with_those_that_do() {
    let cluster = TestCluster::new(2, 0, 40, "[train]\nmax_steps = 5\n");
    let ended = cluster.start("ps", 3, &[]).wait(LIMIT);
    assert_eq!(ended.code, 78, "{}", ended.output);
    assert!(
        ended
            .output
            .contains("task index 3 is out of range for role `ps`"),
        "{}",
        ended.output
    );
    assert!(
        ended.output.contains("use index 0 or 1"),
        "{}",
        ended.output
    );
}

trial!(a_checkpoint_of_another_model_is_refused_with_every_difference);
fn a_checkpoint_of_another_model_is_refused_with_every_difference() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let job = write_job(folder.path(), 200, "[train]\nmax_steps = 5\n");
    let job = job.to_string_lossy();
    let trained = Program::start("trainyard", &["train", &job], &[]).wait(LIMIT);
    assert_eq!(trained.code, 0, "{}", trained.output);
    let ended = Program::start(
        "trainyard",
        &["train", &job, "--set", "model.hidden_units=[9]"],
        &[],
    )
    .wait(LIMIT);
    assert_eq!(ended.code, 65, "{}", ended.output);
    for part in [
        "error[E3002]",
        "does not fit the model (3 differences)",
        "dnn/hiddenlayer_0/kernel",
        "f32[6, 8]",
        "f32[6, 9]",
    ] {
        assert!(
            ended.output.contains(part),
            "no `{part}` in\n{}",
            ended.output
        );
    }
}

trial!(a_changed_optimizer_is_told_how_to_begin_with_the_values_that_were_trained);
fn a_changed_optimizer_is_told_how_to_begin_with_the_values_that_were_trained() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let job = write_job(folder.path(), 40, "[train]\nmax_steps = 5\n");
    let job = job.to_string_lossy();
    let train = |more: &[&str]| {
        let arguments = [&["train", &*job], more].concat();
        Program::start("trainyard", &arguments, &[]).wait(LIMIT)
    };
    let first = train(&["--set", "model.dnn_optimizer.kind=adagrad"]);
    assert_eq!(first.code, 0, "{}", first.output);
    let changed = train(&[
        "--set",
        "model.dnn_optimizer.kind=adam",
        "--set",
        "train.max_steps=9",
    ]);
    assert_eq!(changed.code, 65, "{}", changed.output);
    for part in ["E3002", "checkpoint slots", "train.warm_start = { from ="] {
        assert!(
            changed.output.contains(part),
            "no `{part}` in\n{}",
            changed.output
        );
    }
}

trial!(a_job_that_is_over_is_looked_at_by_its_job_file_and_by_its_folder);
fn a_job_that_is_over_is_looked_at_by_its_job_file_and_by_its_folder() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let job = write_job(folder.path(), 40, "[train]\nmax_steps = 5\n");
    let [job, model_dir] =
        [job, folder.path().join("model")].map(|path| path.to_string_lossy().into_owned());
    let run = |arguments: &[&str]| Program::start("trainyard", arguments, &[]).wait(LIMIT);
    let said = |arguments: &[&str], code: i32, parts: &[&str]| {
        let ended = run(arguments);
        assert_eq!(ended.code, code, "{arguments:?}: {}", ended.output);
        for part in parts {
            assert!(
                ended.output.contains(part),
                "no `{part}` in\n{}",
                ended.output
            );
        }
    };
    said(
        &["check", &job],
        0,
        &["holds no checkpoint: training starts from the beginning"],
    );
    said(
        &["status", &job],
        69,
        &["error[E2003]", "no `trainyard up` has run"],
    );
    said(&["train", &job], 0, &["trained to step 5"]);
    for target in [&job, &model_dir] {
        said(
            &["status", target],
            0,
            &["DONE  step 5", "the latest of step 5"],
        );
        said(
            &["status", target, "--format", "json"],
            0,
            &["\"phase\":\"done\"", "\"run\":null"],
        );
        said(
            &["inspect", target],
            0,
            &["job done at step 5", "variables of step 5"],
        );
    }
    said(
        &["check", &job],
        0,
        &["the job is done: a larger train.max_steps"],
    );
    said(
        &["check", &job, "--set", "model.dnn_optimizer.kind=adagrad"],
        65,
        &["E3002", "checkpoint slots"],
    );
}
