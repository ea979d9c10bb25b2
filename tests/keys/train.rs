//! Rows of `[train]`, `[eval]` and `[[exporter]]`.

use rustix::process::Signal;

use crate::keys::row::{Row, row};
use crate::keys::see::{files, metric_names, metrics, output, steps};
use crate::keys::site::{ENDLESS, EVALUATE, EVALUATE_IN_PARTS, How, LIMIT, Ran, Site};

/// Trains another model first, from which the job may take values over.
const TRAIN_AFTER_ANOTHER: How = How {
    name: "after another",
    run: after_another,
};

fn after_another(site: &Site) -> Ran {
    let settings = [
        ("run.seed", "9"),
        ("model.hidden_units", "[4, 4]"),
        ("input.train.epochs", "5"),
    ];
    let settings = settings
        .map(|(path, value)| (path.to_owned(), value.to_owned()))
        .to_vec();
    let old = Site::new(site.folder.join("old"), &site.data, &settings);
    let trained = old.run("train", &["--no-evaluation"]);
    assert_eq!(trained.code, 0, "{}", trained.output);
    site.run("train", &["--no-evaluation"])
}

/// Trains a few steps on all records, and then on others until several checkpoints were saved by time.
pub(crate) const FORGETTING: How = How {
    name: "forgetting",
    run: forgetting,
};

fn forgetting(site: &Site) -> Ran {
    let begun = site.run("train", &["--no-evaluation", "--set", "train.max_steps=3"]);
    assert_eq!(begun.code, 0, "{}", begun.output);
    let rest = format!("input.train.files=[{:?}]", site.data.join("rest.csv"));
    let mut program = site.start("train", &["--no-evaluation", "--set", &rest]);
    program.wait_for("joined", LIMIT);
    for _ in 0..3 {
        program.wait_for_next("checkpoint saved", LIMIT);
    }
    program.signal(Signal::TERM);
    let ended = program.wait(LIMIT);
    site.ran(0, ended.output)
}

/// Trains without end and saves often, until two checkpoints are evaluated; where a delay or a pause forbids that, until
/// many are saved.
const EVALUATE_AGAIN: How = How {
    name: "evaluate again",
    run: evaluate_again,
};

fn evaluate_again(site: &Site) -> Ran {
    let job = site.job_text();
    let at_once = job.contains("start_delay_secs = 0") && job.contains("throttle_secs = 0");
    let mut program = site.start("train", &["--set", "run.save_checkpoints_steps=50"]);
    let mut evaluated = 0;
    let mut saved = 0;
    while evaluated < 2 && (at_once || saved < 20) {
        let line = program.wait_for_next("step", LIMIT);
        evaluated += usize::from(line.contains("evaluated global step"));
        saved += usize::from(line.contains("checkpoint saved"));
    }
    let exports = std::fs::read_dir(site.folder.join("model/export/e"));
    let exported = exports.is_ok_and(|exports| exports.count() > 0);
    site.ran(
        0,
        format!("evaluated again: {}, exported: {exported}", evaluated == 2),
    )
}

/// How many exports there are.
fn exports(ran: &Ran) -> String {
    files(ran)
        .iter()
        .filter(|name| *name == "model/export/e/TIME")
        .count()
        .to_string()
}

pub(crate) fn rows() -> Vec<Row> {
    let mut rows = of_training();
    rows.extend(of_early_stopping());
    rows.extend(of_reductions());
    rows.extend(of_further_evaluations());
    rows.extend(of_evaluation());
    rows.extend(of_exporters());
    rows
}

fn of_training() -> Vec<Row> {
    let mut rows = vec![
        row("train.max_steps").to("4").sees(steps).gives("6", "4"),
        row("train.clip_gradients").to("{ kind = \"global_norm\", clip = 0.05 }"),
    ];
    let kinds = ["value", "norm", "global_norm"];
    for (place, kind) in kinds.into_iter().enumerate() {
        let clipping = |kind: &str| format!("{{ kind = \"{kind}\", clip = 0.05 }}");
        let both = [("train.clip_gradients", &*clipping(kind))];
        rows.push(
            row(format!("train.clip_gradients.{kind}.clip"))
                .over(&both)
                .set("train.clip_gradients.clip", "0.02"),
        );
        let other = format!("\"{}\"", kinds[(place + 1) % 3]);
        rows.push(row("train.clip_gradients.kind").over(&both).to(&other));
    }
    let warm = |key: &str| {
        row(format!("train.warm_start.{key}"))
            .by(TRAIN_AFTER_ANOTHER)
            .over(&[("model.hidden_units", "[4, 4]")])
    };
    let from = [("train.warm_start.from", "\"{run}/old/model\"")];
    rows.extend([
        warm("from").to("\"{run}/old/model\""),
        warm("variables").over(&from).to("\"dnn/hiddenlayer.*\""),
        warm("rename")
            .over(&from)
            .to("{ \"dnn/hiddenlayer_0/bias\" = \"dnn/hiddenlayer_1/bias\" }"),
    ]);
    rows
}

fn of_early_stopping() -> Vec<Row> {
    let early = |key: &str, rule: &str| {
        row(format!("train.early_stopping.{key}"))
            .by(EVALUATE)
            .over(&ENDLESS)
            .over(&[
                ("run.save_checkpoints_steps", "20"),
                ("train.early_stopping", rule),
            ])
            .sees(why)
    };
    // A metric that is the same in every evaluation: the first one is the best.
    let same =
        |rest: &str| format!("{{ metric = \"label/mean\", higher_is_better = true, {rest} }}");
    let one = same("max_evaluations_without_improvement = 1");
    let many = same("max_evaluations_without_improvement = 20");
    let step = same("max_steps_without_improvement = 1");
    let goal = same("stop_at = 0.0");
    let plateau = "label/mean risen evaluations";
    vec![
        early("metric", &one)
            .to("\"accuracy_baseline\"")
            .gives(plateau, "accuracy_baseline risen evaluations"),
        early("higher_is_better", &one)
            .to("false")
            .gives(plateau, "label/mean fallen evaluations"),
        early("max_evaluations_without_improvement", &step)
            .to("1")
            .gives("label/mean risen steps", plateau),
        early("max_steps_without_improvement", &many)
            .to("1")
            .gives(plateau, "label/mean risen steps"),
        early("stop_at", &one)
            .to("0.0")
            .gives(plateau, "label/mean reached"),
        early("min_steps", &goal)
            .sees(|ran| (last_evaluated(ran) >= 4000).to_string())
            .to("4000")
            .gives("false", "true"),
        // The loss falls, but never by so much.
        early(
            "min_delta",
            "{ stop_at = 0.1, max_steps_without_improvement = 3000 }",
        )
        .to("1000.0")
        .gives("loss reached", "loss fallen steps"),
    ]
}

fn of_reductions() -> Vec<Row> {
    // The loss falls at each of the evaluations, and a share of labels is the same in each.
    let reduce = |key: &str, rule: &str| {
        row(format!("train.reduce_on_plateau.{key}"))
            .by(EVALUATE)
            .over(&[
                ("input.train.epochs", "-"),
                ("train.max_steps", "35"),
                ("run.save_checkpoints_steps", "5"),
                ("eval.start_delay_secs", "-"),
                ("eval.throttle_secs", "-"),
                ("eval.every_checkpoint", "true"),
                ("train.reduce_on_plateau", rule),
            ])
            .sees(reductions)
    };
    let same =
        |rest: &str| format!("{{ metric = \"label/mean\", higher_is_better = true, {rest} }}");
    let each = "10 15 20 25 30";
    let half = same("factor = 0.5");
    vec![
        reduce("factor", &half).to("0.01").gives(each, "10 15"),
        reduce("patience", &half).to("3").gives(each, "20"),
        reduce("metric", "{ factor = 0.5, higher_is_better = false }")
            .to("\"label/mean\"")
            .gives("", each),
        reduce("higher_is_better", "{ factor = 0.5 }")
            .to("true")
            .gives("", each),
        reduce("min_delta", "{ factor = 0.5 }")
            .to("1000.0")
            .gives("", each),
        reduce("cooldown", &half).to("2").gives(each, "10 25"),
        reduce("min_factor", &half)
            .to("0.2")
            .gives(each, "10 15 20"),
    ]
}

/// Steps after which evaluations have reduced the rates.
fn reductions(ran: &Ran) -> String {
    let path = ran.folder.join("model/learning_rate.json");
    let Ok(text) = std::fs::read_to_string(path) else {
        return String::new();
    };
    let made: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    let made = made["reductions"].as_array().expect("a list");
    let steps = made.iter().map(|one| one["from_step"].to_string());
    steps.collect::<Vec<_>>().join(" ")
}

/// The highest step that was evaluated. The job has gone back to its best one.
fn last_evaluated(ran: &Ran) -> u64 {
    let results =
        std::fs::read_to_string(ran.folder.join("model/eval/metrics.jsonl")).expect("results");
    let result = |line: &str| serde_json::from_str::<serde_json::Value>(line).expect("JSON");
    results
        .lines()
        .filter_map(|line| result(line)["global_step"].as_u64())
        .max()
        .unwrap_or(0)
}

/// The metric and the rule by which a job ended early.
fn why(ran: &Ran) -> String {
    let state = std::fs::read_to_string(ran.folder.join("model/job_state.json")).expect("a state");
    let state: serde_json::Value = serde_json::from_str(&state).expect("JSON");
    let reason = state["reason"].as_str().unwrap_or_default();
    let metric = reason
        .strip_prefix("early stopping: ")
        .and_then(|why| why.split(' ').next())
        .unwrap_or("?");
    let words = ["risen", "fallen", "evaluations", "steps"]
        .into_iter()
        .filter(|word| reason.contains(word));
    let words: Vec<&str> = words.collect();
    if reason.contains("stop_at") {
        format!("{metric} reached")
    } else {
        format!("{metric} {}", words.join(" "))
    }
}

fn of_evaluation() -> Vec<Row> {
    vec![
        row("eval.steps")
            .by(EVALUATE)
            .over(&[("input.eval.batch_size", "16")])
            .to("1")
            .sees(metrics),
        row("eval.start_delay_secs")
            .by(EVALUATE_AGAIN)
            .over(&ENDLESS)
            .over(&[("eval.start_delay_secs", "-")])
            .to("0")
            .sees(output)
            .gives(
                "evaluated again: false, exported: false",
                "evaluated again: true, exported: false",
            ),
        row("eval.throttle_secs")
            .by(EVALUATE_AGAIN)
            .over(&ENDLESS)
            .over(&[("eval.throttle_secs", "-")])
            .to("0")
            .sees(output)
            .gives(
                "evaluated again: false, exported: false",
                "evaluated again: true, exported: false",
            ),
        row("eval.on_training_data")
            .by(EVALUATE)
            .to("true")
            .sees(|ran| {
                files(ran)
                    .contains(&"model/eval_train/result.json".to_owned())
                    .to_string()
            })
            .gives("false", "true"),
        row("eval.every_checkpoint")
            .by(EVALUATE)
            .over(&[
                ("eval.start_delay_secs", "-"),
                ("eval.throttle_secs", "-"),
                ("run.save_checkpoints_steps", "5"),
                ("run.keep_checkpoint_max", "1"),
                ("train.max_steps", "20"),
                ("input.train.epochs", "-"),
            ])
            .to("true")
            .sees(|ran| {
                let steps = evaluated(ran, "eval")
                    .into_iter()
                    .map(|step| step.to_string());
                steps.collect::<Vec<_>>().join(" ")
            })
            .gives("20", "5 10 15 20"),
        row("eval.group_auc_column")
            .by(EVALUATE)
            .to("\"user\"")
            .sees(metric_names),
    ]
}

/// Steps that were evaluated.
fn evaluated(ran: &Ran, folder: &str) -> Vec<u64> {
    let path = ran.folder.join("model").join(folder).join("metrics.jsonl");
    let results = std::fs::read_to_string(path).unwrap_or_default();
    let result = |line: &str| serde_json::from_str::<serde_json::Value>(line).expect("JSON");
    results
        .lines()
        .filter_map(|line| result(line)["global_step"].as_u64())
        .collect()
}

fn of_further_evaluations() -> Vec<Row> {
    let more = |key: &str, text: &str| {
        let evaluation =
            format!("[{{ name = \"more\", files = [\"{{data}}/rows.csv\"], {text} }}]");
        row(format!("evaluation.{key}"))
            .by(EVALUATE)
            .over(&[("evaluation", &evaluation)])
            .sees(metrics)
    };
    let change = |row: Row, value: &str| {
        let path = row.key.replace("evaluation.", "evaluation.0.");
        row.set(path, value)
    };
    vec![
        change(more("name", ""), "\"other\"").sees(metric_names),
        change(more("files", ""), "[\"{data}/rest.csv\"]"),
        change(more("steps", "batch_size = 16"), "1"),
        change(more("batch_size", "steps = 1"), "16"),
        change(more("shuffle_rows", "steps = 1, batch_size = 16"), "64"),
        // The fourth batch is of the second pass.
        change(more("epochs", "batch_size = 16, steps = 4"), "3"),
    ]
}

fn of_exporters() -> Vec<Row> {
    let exporter = |key: &str, text: &str| {
        row(format!("exporter.{key}")).by(EVALUATE_IN_PARTS).over(&[
            ("exporter", &format!("[{{ name = \"e\", {text} }}]")),
            ("input.train.epochs", "-"),
        ])
    };
    let change = |row: Row, value: &str| {
        let path = row.key.replace("exporter.", "exporter.0.");
        row.set(path, value)
    };
    let once = |key: &str, text: &str| {
        exporter(key, text)
            .by(EVALUATE)
            .over(&[("input.train.epochs", "1")])
    };
    let folders = |ran: &Ran| {
        let names = files(ran)
            .into_iter()
            .filter(|name| name.starts_with("model/export/"));
        names.collect::<Vec<_>>().join(" ")
    };
    let numbers = [(
        "feature",
        "[{ columns = [\"x\", \"z\"], kind = \"numeric\", wide = true }]",
    )];
    let onnx = "kind = \"latest\", format = \"onnx\"";
    vec![
        // The loss falls: the first is the worst.
        change(
            exporter("kind", "kind = \"best\", higher_is_better = true").sees(exports),
            "\"latest\"",
        )
        .gives("1", "4"),
        change(
            exporter("kind", "kind = \"final\"")
                .over(&ENDLESS)
                .by(EVALUATE_AGAIN)
                .sees(output),
            "\"latest\"",
        )
        .gives(
            "evaluated again: true, exported: false",
            "evaluated again: true, exported: true",
        ),
        change(once("name", "kind = \"latest\"").sees(folders), "\"other\""),
        change(
            exporter("exports_to_keep", "kind = \"latest\"").sees(exports),
            "2",
        )
        .gives("4", "2"),
        // The share of positive labels is the same each time.
        change(
            exporter("metric", "kind = \"best\", higher_is_better = false").sees(exports),
            "\"label/mean\"",
        )
        .gives("4", "1"),
        change(
            exporter("higher_is_better", "kind = \"best\"").sees(exports),
            "true",
        )
        .gives("4", "1"),
        change(
            once("format", "kind = \"latest\"")
                .over(&numbers)
                .sees(folders),
            "\"onnx\"",
        ),
        change(
            once("format", "kind = \"latest\"")
                .over(&numbers)
                .sees(folders),
            "\"saved_model\"",
        ),
        change(once("hashed_as_ids", onnx).sees(folders), "true").fails_before("hashed_as_ids"),
    ]
}
