//! A job in one process whose learning rates fall when evaluations bring no gain.

use std::path::Path;

use serde_json::{Value, json};
use trainyard_tests::write_job;

use crate::end_to_end::solo::{Trained, trainyard};

/// A job that evaluates each checkpoint by a metric which is never better than the first time.
fn job(folder: &Path, train: &str, rate: &str) -> String {
    let text = std::fs::read_to_string(write_job(folder, 600, "")).expect("the job");
    let optimizers = ["linear_optimizer", "dnn_optimizer"]
        .map(|part| format!("[model.{part}]\nkind = \"adagrad\"\nlearning_rate = {rate}\n"));
    let text = text
        .replace("epochs = 2\n", "")
        .replace("[run]", "[run]\nsave_checkpoints_steps = 20")
        .replace(
            "start_delay_secs = 0\nthrottle_secs = 0",
            "every_checkpoint = true",
        );
    let path = folder.join("job.toml");
    let text = format!(
        "{text}{}[train]\nmax_steps = 100\n{train}\n",
        optimizers.concat()
    );
    std::fs::write(&path, text).expect("the job is written");
    path.to_string_lossy().into_owned()
}

const PLATEAU: &str = "reduce_on_plateau = { metric = \"label/mean\", higher_is_better = true, factor = 0.5, patience = 2 }";

fn reductions(folder: &Path) -> Value {
    let text = std::fs::read_to_string(folder.join("model/learning_rate.json"));
    serde_json::from_str(&text.expect("the reductions are there")).expect("JSON")
}

trial!(rates_of_one_process_fall_at_the_same_steps_in_every_run_also_in_parts_and_train_what_a_schedule_does);
fn rates_of_one_process_fall_at_the_same_steps_in_every_run_also_in_parts_and_train_what_a_schedule_does()
 {
    let expected = json!({"reductions": [{"evaluated_step": 60, "from_step": 60}]});
    let folders: Vec<_> = (0..3)
        .map(|_| tempfile::tempdir().expect("a temporary folder"))
        .collect();
    let whole = job(folders[0].path(), PLATEAU, "0.5");
    let told = trainyard(&["train", &whole], 0);
    assert!(
        told.contains("the learning rates fall: label/mean is") && told.contains("factor=0.5"),
        "{told}"
    );
    // The evaluations of 80 and 100 are a plateau, too, and no step is left.
    assert_eq!(reductions(folders[0].path()), expected, "{told}");
    let parts = job(folders[1].path(), PLATEAU, "0.5");
    // Each part evaluates its last step: this one is evaluated in any case.
    trainyard(&["train", &parts, "--set", "train.max_steps=80"], 0);
    let told = trainyard(&["train", &parts], 0);
    assert!(
        told.contains("evaluations of earlier runs have reduced the learning rates"),
        "{told}"
    );
    // A schedule counts steps from 0.
    let schedule = "{ kind = \"piecewise_constant\", boundaries = [59], values = [0.5, 0.25] }";
    let scheduled = job(folders[2].path(), "", schedule);
    trainyard(&["train", &scheduled], 0);
    let trained = folders
        .iter()
        .map(|folder| Trained::of(&folder.path().join("model")));
    let trained: Vec<Trained> = trained.collect();
    assert_eq!(trained[0].global_step, 100);
    assert_eq!(trained[0].parameters, trained[2].parameters);
    assert_eq!(trained[1].parameters, trained[2].parameters);
}

trial!(a_job_that_goes_back_behind_a_reduction_undoes_it);
fn a_job_that_goes_back_behind_a_reduction_undoes_it() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let folder = folder.path();
    let job = job(folder, PLATEAU, "0.5");
    trainyard(&["train", &job], 0);
    let model_dir = folder.join("model");
    let checkpoints = std::fs::read_dir(&model_dir).expect("the folder");
    for entry in checkpoints.map(|entry| entry.expect("an entry").path()) {
        let name = entry.file_name().expect("a name").to_string_lossy();
        let step = name.strip_prefix("model.ckpt-").map(|rest| {
            let step = rest.split(['.', '-']).next().unwrap_or_default();
            step.parse::<u64>().expect("a step")
        });
        if step.is_some_and(|step| step > 40) {
            std::fs::remove_dir_all(&entry).expect("it is removed");
        }
    }
    let told = trainyard(&["train", &job, "--set", "train.max_steps=50"], 0);
    assert!(told.contains("which are undone"), "{told}");
    assert_eq!(reductions(folder), json!({"reductions": []}), "{told}");
}

trial!(reductions_are_refused_where_workers_hold_the_parameters_and_without_evaluations);
fn reductions_are_refused_where_workers_hold_the_parameters_and_without_evaluations() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let job = job(folder.path(), PLATEAU, "0.5");
    for kind in ["mirrored", "multi_worker_mirrored", "hybrid"] {
        let told = trainyard(
            &["check", &job, "--set", &format!("strategy.kind={kind}")],
            78,
        );
        assert!(
            told.contains(
                "[train.reduce_on_plateau] needs parameters that servers or one process update"
            ),
            "{told}"
        );
    }
    let text = std::fs::read_to_string(&job).expect("the job");
    let text = text.replace("[input.eval]\nfiles = [\"eval.csv\"]\n", "");
    std::fs::write(&job, text).expect("the job is written");
    let told = trainyard(&["check", &job], 78);
    assert!(
        told.contains("[train.reduce_on_plateau] goes by evaluations"),
        "{told}"
    );
}

trial!(rates_that_rise_first_fall_after_a_plateau_as_the_schedule_does_that_says_the_same);
fn rates_that_rise_first_fall_after_a_plateau_as_the_schedule_does_that_says_the_same() {
    // The fall of step 60 comes after the rise, and within it.
    for warmup_steps in [30, 90] {
        let rising = |rate: &str| {
            format!(
                "{{ kind = \"warmup\", warmup_steps = {warmup_steps}, learning_rate = {rate} }}"
            )
        };
        let trained = |train: &str, rate: &str| {
            let folder = tempfile::tempdir().expect("a temporary folder");
            trainyard(&["train", &job(folder.path(), train, rate)], 0);
            Trained::of(&folder.path().join("model")).parameters
        };
        let fallen = trained(PLATEAU, &rising("0.5"));
        assert!(fallen != trained("", &rising("0.5")), "{warmup_steps}");
        if warmup_steps == 30 {
            // What follows a rise counts steps from its end.
            let schedule =
                "{ kind = \"piecewise_constant\", boundaries = [29], values = [0.5, 0.25] }";
            assert!(fallen == trained("", &rising(schedule)), "{warmup_steps}");
        }
    }
}
