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
        let evaluated = run(&["evaluate", &job, "--set", "input.weight_column=\"none\""]);
        assert!(
            evaluated.output.contains(told),
            "{head}: {}",
            evaluated.output
        );
    }
}
