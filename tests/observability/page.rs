//! The page of a run and the commands that read the same API, on a running cluster.

use std::process::Command;

use serde_json::Value;
use trainyard_tests::{Need, Program, get};

use crate::observability::LIMIT;
use crate::observability::running::Running;

/// A model folder whose name would do harm as markup.
const NAME: &str = "<img src=x onerror=document.title=1>";

fn state(run: &Value, task: &str) -> String {
    let tasks = run["tasks"].as_array().cloned().unwrap_or_default();
    let found = tasks.iter().find(|found| found["task"] == task);
    found
        .and_then(|found| found["state"].as_str())
        .unwrap_or_default()
        .to_owned()
}

trial!(the_page_and_the_commands_show_a_running_cluster);
fn the_page_and_the_commands_show_a_running_cluster() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let running = Running::start(folder.path(), NAME);
    let run = running.wait_for("/api/v1/run", |run| {
        let busy = run["steps_per_second"]
            .as_f64()
            .is_some_and(|rate| rate > 0.0);
        let loss = run["loss"].as_f64().is_some_and(|loss| loss > 0.0);
        busy && loss && state(run, "worker:0") == "training" && !run["checkpoints"][0].is_null()
    });
    assert_eq!(run["state"], "training");
    for (task, expected) in [
        ("chief:0", "training"),
        ("ps:0", "ready"),
        ("ps:1", "ready"),
        ("evaluator:0", "unknown"),
    ] {
        assert_eq!(state(&run, task), expected, "{task}: {run}");
    }
    for task in run["tasks"]
        .as_array()
        .expect("tasks")
        .iter()
        .filter(|task| task["role"] == "worker")
    {
        assert!(
            task["compute_ms"].as_f64().is_some_and(|ms| ms > 0.0),
            "{task}"
        );
        assert!(
            task["staleness_steps"]
                .as_f64()
                .is_some_and(|steps| (0.0..1000.0).contains(&steps)),
            "{task}"
        );
    }
    running.wait_for("/api/v1/evaluations", |found| {
        found["eval"].as_array().is_some_and(|all| all.len() > 1)
    });
    let history = running.wait_for("/api/v1/history", |history| {
        history["run"]["loss"]
            .as_array()
            .is_some_and(|all| all.iter().filter(|loss| loss.is_f64()).count() > 3)
    });
    let lengths = ["unix_secs", "global_step", "loss", "steps_per_second"]
        .map(|key| history["run"][key].as_array().map(Vec::len));
    assert!(
        lengths.iter().all(|length| length == &lengths[0]),
        "{lengths:?}"
    );
    assert!(history["tasks"]["worker:0"]["steps_per_second"].is_array());

    let (head, _) = get(running.chief(), "/", LIMIT).expect("a page");
    let head = head.to_lowercase();
    for header in [
        "content-security-policy: default-src 'none'; script-src 'self'",
        "cache-control: no-store",
    ] {
        assert!(head.contains(header), "{header}: {head}");
    }
    let (head, _) = get(running.chief(), "/api/v2/run", LIMIT).expect("an answer");
    assert!(head.starts_with("HTTP/1.0 404"), "{head}");

    let job = running.job.to_string_lossy().into_owned();
    for arguments in [
        vec!["status", &job],
        vec!["top", &job],
        vec!["status", running.chief()],
    ] {
        let ended = Program::start("trainyard", &arguments, &[]).wait(LIMIT);
        assert_eq!(ended.code, 0, "{}", ended.output);
        for part in [
            "TRAINING  step ",
            "worker:0 ",
            "ps:1 ",
            "checkpoint  step ",
            "evaluation  step ",
        ] {
            assert!(ended.output.contains(part), "{part}: {}", ended.output);
        }
    }
    let ended = Program::start("trainyard", &["status", &job, "--format", "json"], &[]).wait(LIMIT);
    let answer: Value = serde_json::from_str(&ended.output).expect("JSON");
    assert_eq!(answer["run"]["job"]["model"], "linear_regressor");

    running.stop();
    let ended = Program::start("trainyard", &["status", &job], &[]).wait(LIMIT);
    assert_eq!(ended.code, 0, "{}", ended.output);
    assert!(
        ended.output.starts_with("STOPPED  step "),
        "nobody answers, the folder says it: {}",
        ended.output
    );
    let ended = Program::start("trainyard", &["top", &job], &[]).wait(LIMIT);
    assert_eq!(ended.code, 69, "{}", ended.output);
    assert!(
        ended.output.contains("no chief answers at its admin port"),
        "{}",
        ended.output
    );
}

trial!(a_browser_shows_the_page_of_a_running_cluster_without_a_complaint, needs Chromium);
fn a_browser_shows_the_page_of_a_running_cluster_without_a_complaint() {
    let chromium = Need::Chromium.program();
    let folder = tempfile::tempdir().expect("a temporary folder");
    let running = Running::start(folder.path(), NAME);
    running.wait_for("/api/v1/history", |history| {
        let losses = history["run"]["loss"].as_array();
        losses.is_some_and(|all| all.iter().filter(|loss| loss.is_f64()).count() > 3)
    });
    running.wait_for("/api/v1/run", |run| state(run, "worker:0") == "training");
    let profile = tempfile::tempdir().expect("a temporary folder");
    // Where somebody is to look at it.
    let kept = std::env::var_os("TRAINYARD_SCREENSHOTS");
    for mode in ["light", "dark"] {
        let mut command = Command::new(&chromium);
        command.args([
            "--headless=new",
            "--no-sandbox",
            "--disable-gpu",
            "--hide-scrollbars",
            "--window-size=1200,2000",
        ]);
        command.args(["--virtual-time-budget=9000", "--enable-logging=stderr"]);
        command.arg(format!(
            "--user-data-dir={}",
            profile.path().join(mode).display()
        ));
        command.arg(format!(
            "--blink-settings=preferredColorScheme={}",
            u8::from(mode == "light")
        ));
        match &kept {
            Some(folder) => {
                command.arg(format!(
                    "--screenshot={}/page-{mode}.png",
                    folder.to_string_lossy()
                ));
            }
            None => {
                command.arg("--dump-dom");
            }
        }
        let output = command
            .arg(format!("http://{}/", running.chief()))
            .output()
            .expect("a browser");
        let said = String::from_utf8_lossy(&output.stderr);
        let complaints: Vec<&str> = said
            .lines()
            .filter(|line| line.contains("CONSOLE"))
            .collect();
        assert!(complaints.is_empty(), "{mode}: {complaints:?}");
        if kept.is_some() {
            continue;
        }
        let page = String::from_utf8_lossy(&output.stdout);
        for part in [
            "<td>worker:0</td>",
            "<polyline",
            ">training</span>",
            "&lt;img src=x onerror",
        ] {
            assert!(page.contains(part), "{mode}, {part}: {page}\n{said}");
        }
        assert!(!page.contains("<img"), "{page}");
    }
    running.stop();
}
