//! Evaluations beyond the first, and values that come from elsewhere than a checkpoint of the job.

use std::path::Path;

use rustix::process::Signal;
use safetensors::SafeTensors;
use serde_json::Value;
use trainyard_tests::{Ended, Program, write_job};

use crate::end_to_end::LIMIT;

fn run(arguments: &[&str]) -> Ended {
    let ended = Program::start("trainyard", arguments, &[]).wait(LIMIT);
    assert_eq!(ended.code, 0, "{arguments:?}: {}", ended.output);
    ended
}

/// The evaluation that the command prints.
fn evaluate(job: &str, more: &[&str]) -> Value {
    let ended = run(&[&["evaluate", job, "--format", "json"], more].concat());
    let line = ended
        .output
        .lines()
        .find(|line| line.starts_with('{'))
        .expect("it prints a line of JSON");
    serde_json::from_str(line).expect("the line is JSON")
}

/// Steps, and metrics, of the evaluations in a folder of the model folder.
fn results(folder: &Path, name: &str) -> Vec<(u64, Value)> {
    let text = std::fs::read_to_string(folder.join("model").join(name).join("metrics.jsonl"))
        .expect("results");
    let read = text.lines().map(|line| {
        let mut result: Value = serde_json::from_str(line).expect("a line is JSON");
        (
            result["global_step"].as_u64().expect("a step"),
            result["metrics"].take(),
        )
    });
    read.collect()
}

/// The newest export of this name.
fn export(folder: &Path, name: &str) -> std::path::PathBuf {
    let entries = std::fs::read_dir(folder.join("model/export").join(name)).expect("exports");
    let seconds = entries.filter_map(|entry| {
        entry
            .expect("an entry")
            .file_name()
            .to_str()?
            .parse::<u64>()
            .ok()
    });
    folder
        .join("model/export")
        .join(name)
        .join(seconds.max().expect("an export").to_string())
}

trial!(every_checkpoint_is_evaluated_on_every_input_and_an_exporter_goes_by_one_of_them);
fn every_checkpoint_is_evaluated_on_every_input_and_an_exporter_goes_by_one_of_them() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let folder = folder.path();
    let job = write_job(folder, 400, "[train]\nmax_steps = 100\n")
        .to_string_lossy()
        .into_owned();
    let settings = [
        "eval={every_checkpoint=true}",
        "evaluation=[{name=\"seen\", files=[\"train.csv\"], steps=2}]",
        "exporter.0.metric=seen/auc",
        "run.save_checkpoints_steps=20",
        "run.keep_checkpoint_max=1",
    ];
    let settings = settings.map(|setting| ["--set", setting]).concat();
    run(&[&["train", &job], settings.as_slice()].concat());
    let main = results(folder, "eval");
    let seen = results(folder, "eval_seen");
    let steps =
        |results: &[(u64, Value)]| results.iter().map(|(step, _)| *step).collect::<Vec<_>>();
    assert_eq!(
        (steps(&main), steps(&seen)),
        (vec![20, 40, 60, 80, 100], vec![20, 40, 60, 80, 100])
    );
    for ((_, main), (_, seen)) in main.iter().zip(&seen) {
        assert_eq!(main["seen/auc"], seen["auc"], "the exporter saw it");
    }
    let printed = evaluate(&job, &settings);
    let (_, last) = main.last().expect("the last");
    assert_eq!(
        (&printed["metrics"]["auc"], &printed["metrics"]["seen/auc"]),
        (&last["auc"], &last["seen/auc"])
    );
    let described =
        std::fs::read(export(folder, "best").join("model.json")).expect("the export is described");
    let described: Value = serde_json::from_slice(&described).expect("it is JSON");
    let auc = |metrics: &Value| metrics["seen/auc"].as_f64().expect("it is a number");
    let best = main
        .iter()
        .map(|(_, metrics)| auc(metrics))
        .fold(0.0, f64::max);
    assert_eq!(auc(&described["metrics"]), best);
}

trial!(an_export_scores_predicts_and_starts_another_job_like_the_checkpoint_that_it_is_of);
fn an_export_scores_predicts_and_starts_another_job_like_the_checkpoint_that_it_is_of() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let folder = folder.path();
    let job = write_job(folder, 400, "[train]\nmax_steps = 60\n")
        .to_string_lossy()
        .into_owned();
    // A dynamic table too: what ids without a row read comes from the export's description.
    let dynamic = "feature.1={column=\"word\", kind=\"dynamic\", wide=true, deep={embedding=4}}";
    let job_and = |more: &[&str]| -> Vec<String> {
        [&[job.as_str(), "--set", dynamic], more]
            .concat()
            .iter()
            .map(|text| (*text).to_owned())
            .collect()
    };
    let run_with = |command: &str, more: &[&str]| {
        let arguments = job_and(more);
        run(&[
            &[command],
            arguments
                .iter()
                .map(String::as_str)
                .collect::<Vec<_>>()
                .as_slice(),
        ]
        .concat())
    };
    run_with("train", &["--no-evaluation"]);
    run_with("export", &[]);
    let exported = export(folder, "manual").to_string_lossy().into_owned();
    std::fs::write(
        folder.join("new.csv"),
        "x,z,word\n0.1,0.2,w1\n0.3,-0.4,never seen\n",
    )
    .expect("there is room");
    let records = folder.join("new.csv").to_string_lossy().into_owned();
    for from in [
        exported.clone(),
        format!("{exported}/model.safetensors"),
        format!("{exported}/.."),
    ] {
        let of_checkpoint = evaluate(&job, &["--set", dynamic]);
        assert_eq!(
            evaluate(&job, &["--set", dynamic, "--from", &from]),
            of_checkpoint,
            "{from}"
        );
        let lines = |more: &[&str]| -> Vec<String> {
            let output = run_with("predict", &[&["--input", &records], more].concat()).output;
            output
                .lines()
                .filter(|line| line.starts_with('{'))
                .map(str::to_owned)
                .collect()
        };
        assert_eq!(lines(&[]).len(), 2);
        assert_eq!(lines(&["--from", &from]), lines(&[]), "{from}");
    }
    // A job that starts from it, and trains nothing more, scores the same.
    let start = format!("train.warm_start={{from=\"{exported}\"}}");
    let other = format!("model_dir=\"{}\"", folder.join("other").display());
    let more = [
        "--set",
        &start,
        "--set",
        &other,
        "--set",
        "train.max_steps=1",
    ];
    let still = [
        "--set",
        "model.linear_optimizer={kind=\"sgd\", learning_rate=1e-30}",
        "--set",
        "model.dnn_optimizer={kind=\"sgd\", learning_rate=1e-30}",
    ];
    run_with(
        "train",
        &[more.as_slice(), &still, &["--no-evaluation"]].concat(),
    );
    let scores = evaluate(
        &job,
        &[&["--set", dynamic], more.as_slice(), &still].concat(),
    );
    assert_eq!(
        scores["metrics"],
        evaluate(&job, &["--set", dynamic])["metrics"]
    );
    let wrong =
        Program::start("trainyard", &["evaluate", &job, "--from", &exported], &[]).wait(LIMIT);
    assert_eq!(wrong.code, 65, "{}", wrong.output);
    assert!(
        wrong.output.contains("error[E3002]") && wrong.output.contains("do not fit the model"),
        "{}",
        wrong.output
    );
}

trial!(an_embedding_that_is_taken_from_an_array_of_numpy_and_not_trainable_stays_as_it_was);
fn an_embedding_that_is_taken_from_an_array_of_numpy_and_not_trainable_stays_as_it_was() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let folder = folder.path();
    let vectors: Vec<f32> = (0..40).map(|place| (place as f32 * 0.7).sin()).collect();
    let header = "{'descr': '<f4', 'fortran_order': False, 'shape': (10, 4), }";
    let header = format!("{header:<117}\n");
    let bytes = vectors.iter().flat_map(|value| value.to_le_bytes());
    let file: Vec<u8> = b"\x93NUMPY\x01\x00\x76\x00"
        .iter()
        .copied()
        .chain(header.bytes())
        .chain(bytes)
        .collect();
    std::fs::write(folder.join("words.npy"), file).expect("there is room");
    let end = "[train]\nmax_steps = 60\nwarm_start = { from = \"words.npy\", variables = \".*word_embedding.*\", rename = { \
               \"dnn/input_from_feature_columns/input_layer/word_embedding/embedding_weights\" = \"words\" } }\n";
    let job = write_job(folder, 400, end).to_string_lossy().into_owned();
    let frozen = ["--set", "feature.1.deep.trainable=false"];
    let trained = run(&[&["train", &job, "--no-evaluation"], frozen.as_slice()].concat());
    assert!(
        trained
            .output
            .contains("the initial values come from another checkpoint"),
        "{}",
        trained.output
    );
    run(&[&["export", &job], frozen.as_slice()].concat());
    let bytes =
        std::fs::read(export(folder, "manual").join("model.safetensors")).expect("an export");
    let tensors = SafeTensors::deserialize(&bytes).expect("it is read");
    let values = |part: &str| -> Vec<f32> {
        let named = tensors
            .tensors()
            .into_iter()
            .find(|(name, _)| name.contains(part))
            .expect("it is there");
        named
            .1
            .data()
            .chunks_exact(4)
            .map(|value| f32::from_le_bytes(value.try_into().expect("4 bytes")))
            .collect()
    };
    assert_eq!(values("word_embedding/embedding_weights"), vectors);
    assert!(
        values("linear_model/word/weights")
            .iter()
            .any(|value| *value != 0.0),
        "the rest was trained"
    );
}

trial!(the_job_as_it_was_run_lies_in_the_model_folder_and_is_the_same_job_from_anywhere);
fn the_job_as_it_was_run_lies_in_the_model_folder_and_is_the_same_job_from_anywhere() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let folder = folder.path();
    let job = write_job(folder, 400, "[train]\nmax_steps = 20\n")
        .to_string_lossy()
        .into_owned();
    run(&[
        "train",
        &job,
        "--no-evaluation",
        "--set",
        "model.hidden_units=[3]",
    ]);
    let as_run = folder.join("model/job.toml").to_string_lossy().into_owned();
    assert_eq!(
        evaluate(&as_run, &[]),
        evaluate(&job, &["--set", "model.hidden_units=[3]"])
    );
}

trial!(a_final_export_is_written_though_the_last_checkpoint_was_evaluated_before_the_job_was_done);
fn a_final_export_is_written_though_the_last_checkpoint_was_evaluated_before_the_job_was_done() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let folder = folder.path();
    let end = "[[exporter]]\nkind = \"final\"\n[train]\nmax_steps = 1_000_000_000\n";
    let job = write_job(folder, 400, end).to_string_lossy().into_owned();
    let mut training = Program::start("trainyard", &["train", &job, "--no-evaluation"], &[]);
    training.wait_for("training step=", LIMIT);
    training.signal(Signal::TERM);
    let stopped = training.wait(LIMIT);
    assert_eq!(stopped.code, 0, "{}", stopped.output);
    let saved = stopped
        .output
        .lines()
        .rev()
        .find_map(|line| line.split_once("checkpoint saved step="))
        .expect("a step")
        .1;
    let last: u64 = saved
        .split(' ')
        .next()
        .and_then(|step| step.parse().ok())
        .expect("a number");
    let cluster = folder.join("cluster.toml");
    std::fs::write(&cluster, "[cluster]\nchief = [\"127.0.0.1:1\"]\n").expect("there is room");
    let cluster = cluster.to_string_lossy().into_owned();
    let arguments = ["--job", &job, "--cluster", &cluster, "--index", "0"];
    let mut evaluator = Program::start("trainyard-evaluator", &arguments, &[]);
    evaluator.wait_for(&format!("evaluated global step {last}:"), LIMIT);
    assert!(!folder.join("model/export/final").exists());
    run(&[
        "train",
        &job,
        "--no-evaluation",
        "--set",
        &format!("train.max_steps={last}"),
    ]);
    let ended = evaluator.wait(LIMIT);
    assert_eq!(ended.code, 0, "{}", ended.output);
    assert!(export(folder, "final").join("model.json").exists());
}

trial!(weights_that_are_all_0_are_told_whatever_the_label_is);
fn weights_that_are_all_0_are_told_whatever_the_label_is() {
    for (head, more) in [
        ("binary", "label = { column = \"y\" }"),
        ("regression", "label = { column = \"y\" }"),
        ("poisson", "label = { column = \"y\" }"),
        (
            "multi_class",
            "label = { column = \"c\", vocabulary = [\"p\", \"q\", \"r\"] }",
        ),
        (
            "multi_label",
            "label = { column = \"c\", vocabulary = [\"p\", \"q\", \"r\"] }",
        ),
    ] {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let folder = folder.path();
        let rows: String = (0..90)
            .map(|row| format!("{},{},{row},1,0\n", row % 2, ["p", "q", "r"][row % 3]))
            .collect();
        let text = format!("y,c,x,some,none\n{rows}");
        std::fs::write(folder.join("rows.csv"), text).expect("there is room");
        let model = folder.join("model");
        let text = format!(
            "model_dir = {model:?}\n[input]\n{more}\nweight_column = \"some\"\ntrain = {{ files = [\"rows.csv\"] }}\n\
             eval = {{ files = [\"rows.csv\"] }}\n[model]\nkind = \"linear_estimator\"\nhead = \"{head}\"\n\
             [[feature]]\ncolumn = \"x\"\nkind = \"numeric\"\n[train]\nmax_steps = 3\n"
        );
        let job = folder.join("job.toml");
        std::fs::write(&job, text).expect("there is room");
        let job = job.to_string_lossy();
        let told = "all weights of the evaluation are 0, in 90 records";
        let trained = run(&["train", &job]);
        assert!(!trained.output.contains(told), "{head}: {}", trained.output);
        let arguments = ["evaluate", &job, "--set", "input.weight_column=\"none\""];
        let evaluated = Program::start("trainyard", &arguments, &[]).wait(LIMIT);
        assert!(
            evaluated.output.contains(told),
            "{head}: {}",
            evaluated.output
        );
        assert_ne!(evaluated.code, 0, "{head}: {}", evaluated.output);
        let told = "no metric of the evaluation is a number";
        assert!(
            evaluated.output.contains(told),
            "{head}: {}",
            evaluated.output
        );
    }
}

trial!(an_evaluation_of_no_record_is_never_the_best_and_fails_the_run);
fn an_evaluation_of_no_record_is_never_the_best_and_fails_the_run() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let folder = folder.path();
    let job = write_job(folder, 400, "[train]\nmax_steps = 40\n");
    let job = job.to_string_lossy();
    let header = std::fs::read_to_string(folder.join("eval.csv")).expect("readable");
    let header = header.lines().next().expect("a header").to_owned();
    let bad = header.split(',').map(|_| "?").collect::<Vec<_>>().join(",");
    std::fs::write(folder.join("bad.csv"), format!("{header}\n{bad}\n{bad}\n")).expect("room");
    let arguments = [
        "train",
        &job,
        "--set",
        "input.eval.files=[\"bad.csv\"]",
        "--set",
        "input.bad_rows=\"skip\"",
        "--set",
        "run.save_checkpoints_steps=10",
        "--set",
        "exporter=[{ kind = \"best\" }]",
        "--set",
        "train.early_stopping={ stop_at = 0.01 }",
    ];
    let ended = Program::start("trainyard", &arguments, &[]).wait(LIMIT);
    assert_ne!(ended.code, 0, "{}", ended.output);
    for told in [
        "no record of the evaluation can be used",
        "trained to step 40",
    ] {
        assert!(ended.output.contains(told), "no `{told}`: {}", ended.output);
    }
    for lie in ["best so far", "ended early", "all labels"] {
        assert!(!ended.output.contains(lie), "`{lie}`: {}", ended.output);
    }
    assert!(
        !folder.join("model/export/best").exists(),
        "{}",
        ended.output
    );
}

trial!(a_metric_that_the_model_does_not_report_ends_train_before_its_first_step);
fn a_metric_that_the_model_does_not_report_ends_train_before_its_first_step() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let job = write_job(folder.path(), 400, "[train]\nmax_steps = 40\n");
    let job = job.to_string_lossy();
    for metric in ["precision_at_k/5", "auc_group"] {
        let exporter = format!("exporter=[{{ kind = \"best\", metric = \"{metric}\" }}]");
        for command in ["train", "check"] {
            let arguments = [command, &*job, "--set", &exporter];
            let ended = Program::start("trainyard", &arguments, &[]).wait(LIMIT);
            assert_eq!(ended.code, 78, "{command} {metric}: {}", ended.output);
            assert!(ended.output.contains("E1101"), "{}", ended.output);
        }
    }
    assert!(!folder.path().join("model/checkpoint").exists());
    for (metric, setting) in [
        (
            "precision/positive_threshold_0.25",
            "model.thresholds=[0.25]",
        ),
        ("calibration/0_to_0.25/share", "model.calibration_buckets=4"),
        ("auc_group", "eval.group_auc_column=\"word\""),
        ("auc_exact", "eval.steps=1"),
    ] {
        let exporter = format!(
            "exporter=[{{ kind = \"best\", metric = \"{metric}\", higher_is_better = true }}]"
        );
        run(&["check", &job, "--set", &exporter, "--set", setting]);
    }
    let output = folder.path().join("model").to_string_lossy().into_owned();
    run(&["train", &job]);
    let ended =
        Program::start("trainyard", &["export", &job, "--output", &output], &[]).wait(LIMIT);
    assert_eq!(ended.code, 64, "{}", ended.output);
    assert!(
        ended.output.contains("holds checkpoints"),
        "{}",
        ended.output
    );
}

trial!(files_whose_columns_have_another_order_are_read_by_name_and_files_that_lack_one_are_refused);
fn files_whose_columns_have_another_order_are_read_by_name_and_files_that_lack_one_are_refused() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let at = |name: &str| folder.path().join(name).to_string_lossy().into_owned();
    let value = |row: usize| (row % 10) as f64 / 10.0;
    let name = |row: usize| ["a", "b", "c"][row % 3];
    let rows = |line: &dyn Fn(usize) -> String| (0..300).map(line).collect::<String>();
    let write = |file: &str, header: &str, line: &dyn Fn(usize) -> String| {
        std::fs::write(at(file), format!("{header}\n{}", rows(line))).expect("room");
    };
    write("one.csv", "x,c,y", &|row| {
        format!("{},{},{}\n", value(row), name(row), row % 2)
    });
    write("two.csv", "y,c,x", &|row| {
        format!("{},{},{}\n", row % 2, name(row), value(row))
    });
    write("few.csv", "x,y", &|row| {
        format!("{},{}\n", value(row), row % 2)
    });
    let (one, two, few, out) = (at("one.csv"), at("two.csv"), at("few.csv"), at("job"));
    let init = [
        "init",
        &one,
        &two,
        "--out",
        &out,
        "--label",
        "y",
        "--seconds",
        "0",
    ];
    let told = run(&init).output;
    assert!(told.contains("0 or 1"), "{told}");
    let job = format!("{out}/job.toml");
    let text = std::fs::read_to_string(&job).expect("a job");
    assert!(text.contains("\"a\", \"b\", \"c\""), "{text}");
    for files in [[&one, &few], [&few, &one]] {
        let arguments = ["init", files[0], files[1], "--out", &out, "--force"];
        let ended = Program::start("trainyard", &arguments, &[]).wait(LIMIT);
        assert_eq!(ended.code, 65, "{}", ended.output);
        assert!(ended.output.contains("`c` of"), "{}", ended.output);
    }
    let arguments = [
        "init", &one, "--eval", &few, "--out", &out, "--force", "--label", "y",
    ];
    let ended = Program::start("trainyard", &arguments, &[]).wait(LIMIT);
    assert_eq!(ended.code, 65, "{}", ended.output);
    assert!(
        ended
            .output
            .contains("`c` of the data is not in the files of --eval"),
        "{}",
        ended.output
    );
}
