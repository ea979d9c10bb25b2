//! Callbacks of a job in one process and in several: its steps, checkpoints and evaluations, its early end, and their failures.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Mutex};

use serde_json::Value;
use trainyard_command::{Program, run_program};
use trainyard_daemon::StopSource;
use trainyard_model::{AppliedStep, Build, Callbacks, Canned, Error, Scores, any_with_callbacks};
use trainyard_run_config::Job;
use trainyard_tests::write_job;

/// The events of a run.
#[derive(Debug, Default)]
struct Events {
    steps: Vec<u64>,
    saved: Vec<(u64, PathBuf)>,
    evaluated: Vec<(u64, String, f64)>,
}

/// Remembers the events. Ends the job, or fails, at a step.
#[derive(Debug, Clone, Default)]
struct Recorder {
    events: Arc<Mutex<Events>>,
    ends_at: Option<u64>,
    fails_at: Option<u64>,
}

impl Callbacks for Recorder {
    fn after_step(&self, step: &AppliedStep) -> Result<(), Error> {
        self.events
            .lock()
            .expect("no test panics here")
            .steps
            .push(step.global_step);
        if self.fails_at == Some(step.global_step) {
            return Err(Error::Failed {
                place: "a callback".to_owned(),
                message: "a mistake of the user".to_owned(),
                trace: String::new(),
            });
        }
        Ok(())
    }

    fn after_save(&self, global_step: u64, checkpoint: &Path) -> Result<(), Error> {
        let mut events = self.events.lock().expect("no test panics here");
        events.saved.push((global_step, checkpoint.to_owned()));
        Ok(())
    }

    fn after_evaluation(&self, global_step: u64, name: &str, scores: &Scores) -> Result<(), Error> {
        let mut events = self.events.lock().expect("no test panics here");
        let auc = scores["auc"];
        events.evaluated.push((global_step, name.to_owned(), auc));
        Ok(())
    }

    fn end(&self) -> Option<String> {
        let events = self.events.lock().expect("no test panics here");
        let reached = events.steps.last() >= self.ends_at.as_ref();
        (self.ends_at.is_some() && reached).then(|| "it has run for long enough".to_owned())
    }
}

/// Trains a job in this process, and returns its exit code.
fn train(job: &Path, recorder: &Recorder) -> u8 {
    let recorder = recorder.clone();
    let build: Build = Box::leak(Box::new(move |job: &Job| {
        let callbacks = Box::new(recorder.clone());
        any_with_callbacks(Canned::from_job(job)?, callbacks)
    }));
    let program = Program {
        arguments: vec!["train".into(), job.into()],
        ..Program::this()
    };
    run_program(&program, build, &StopSource::Signals).code
}

trial!(callbacks_receive_the_steps_checkpoints_and_evaluations_of_a_job);
fn callbacks_receive_the_steps_checkpoints_and_evaluations_of_a_job() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let recorder = Recorder::default();
    assert_eq!(train(&write_job(folder.path(), 600, ""), &recorder), 0);
    let events = recorder.events.lock().expect("no test panics here");
    let last = *events.steps.last().expect("steps");
    assert_eq!(events.steps, (1..=last).collect::<Vec<_>>());
    let (saved, checkpoint) = events.saved.last().expect("a checkpoint");
    assert_eq!(*saved, last);
    assert!(checkpoint.is_dir(), "{checkpoint:?}");
    let (evaluated, name, auc) = events.evaluated.last().expect("an evaluation");
    assert_eq!((*evaluated, name.as_str()), (last, "eval"));
    let result = folder.path().join("model/eval/result.json");
    let text = std::fs::read_to_string(result).expect("a result");
    let result: Value = serde_json::from_str(&text).expect("JSON");
    let written = result["metrics"]["auc"].as_f64().expect("a number");
    // The last bit of a number may differ after it was read.
    assert!((written - auc).abs() < 1e-12, "{written}, {auc}");
}

trial!(a_callback_ends_a_job_at_the_step_whose_callback_asks_for_it);
fn a_callback_ends_a_job_at_the_step_whose_callback_asks_for_it() {
    for strategy in [
        "pipeline_depth = 0",
        "pipeline_depth = 1",
        "pipeline_depth = 3",
        "update = \"sync\"",
        "kind = \"multi_worker_mirrored\"",
        "kind = \"mirrored\"\nreplicas = 2",
    ] {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let job = write_job(folder.path(), 600, "");
        let text = std::fs::read_to_string(&job).expect("the job");
        let text = text.replace("epochs = 2\n", "epochs = 1000\n");
        let text = text.replace("[strategy]\n", &format!("[strategy]\n{strategy}\n"));
        std::fs::write(&job, text).expect("the job is written");
        let recorder = Recorder {
            ends_at: Some(100),
            ..Recorder::default()
        };
        assert_eq!(train(&job, &recorder), 0, "{strategy}");
        let events = recorder.events.lock().expect("no test panics here");
        assert_eq!(events.steps.iter().max(), Some(&100), "{strategy}");
        let text = std::fs::read_to_string(folder.path().join("model/job_state.json"));
        let state: Value = serde_json::from_str(&text.expect("a state")).expect("JSON");
        assert_eq!(state["phase"], "done", "{strategy}");
        assert_eq!(state["global_step"], 100, "{strategy}");
        assert_eq!(
            state["reason"],
            "early stopping: it has run for long enough"
        );
    }
}

trial!(a_callback_of_the_chief_ends_a_job_of_several_processes);
fn a_callback_of_the_chief_ends_a_job_of_several_processes() {
    for update in ["async", "sync"] {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let job = write_job(folder.path(), 600, "");
        let update = format!("strategy.update=\"{update}\"");
        let report = folder.path().join("report.json");
        let ended = Command::new(env!("CARGO_BIN_EXE_ends-by-callback"))
            .arg("up")
            .arg(&job)
            .args(["--cluster", "local:ps=1,worker=2"])
            .args(["--set", "input.train.epochs=1000000", "--set", &update])
            .args(["--set", "run.save_checkpoints_steps=50", "--report"])
            .arg(&report)
            .env_remove("TF_CONFIG")
            .output()
            .expect("the program starts");
        let log = String::from_utf8_lossy(&ended.stderr);
        assert!(ended.status.success(), "{update}: {log}");
        let read = |path: &Path| -> Value {
            let text = std::fs::read_to_string(path).expect("it was written");
            serde_json::from_str(&text).expect("JSON")
        };
        let state = read(&folder.path().join("model/job_state.json"));
        assert_eq!(state["phase"], "done", "{update}: {state}");
        let reason = "early stopping: a hundred steps are enough";
        assert_eq!(state["reason"], reason, "{update}");
        assert!(
            state["global_step"].as_u64() >= Some(100),
            "{update}: {state}"
        );
        assert_eq!(
            read(&report)["ended_early"],
            "a hundred steps are enough",
            "{update}"
        );
    }
}

trial!(a_callback_of_an_evaluator_ends_a_job_by_its_evaluations);
fn a_callback_of_an_evaluator_ends_a_job_by_its_evaluations() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let job = write_job(folder.path(), 600, "");
    let ended = Command::new(env!("CARGO_BIN_EXE_ends-by-callback"))
        .arg("up")
        .arg(&job)
        .args(["--cluster", "local:ps=1,worker=1"])
        .args(["--set", "input.train.epochs=1000000"])
        .args(["--set", "run.save_checkpoints_steps=50"])
        .args(["--set", "eval.start_delay_secs=0"])
        .args(["--set", "eval.throttle_secs=0"])
        .env("BY", "evaluation")
        .env_remove("TF_CONFIG")
        .output()
        .expect("the program starts");
    let log = String::from_utf8_lossy(&ended.stderr);
    assert!(ended.status.success(), "{log}");
    let text = std::fs::read_to_string(folder.path().join("model/job_state.json"));
    let state: Value = serde_json::from_str(&text.expect("a state")).expect("JSON");
    let reason = "early stopping: a hundred steps are enough";
    assert_eq!(state["reason"], reason, "{state}");
}

trial!(a_callback_that_fails_ends_the_task_with_its_message);
fn a_callback_that_fails_ends_the_task_with_its_message() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let recorder = Recorder {
        fails_at: Some(5),
        ..Recorder::default()
    };
    assert_eq!(train(&write_job(folder.path(), 600, ""), &recorder), 65);
    let events = recorder.events.lock().expect("no test panics here");
    assert_eq!(events.steps.last(), Some(&5));
}
