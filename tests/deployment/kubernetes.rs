//! The manifests, against the schemas of their kinds and against the program that they start; and what Kubeflow's operator
//! gives the tasks of a TFJob.

use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};
use trainyard_tests::{Need, Program, free_ports, program, write_job};

use crate::deployment::{LIMIT, deploy, said};

/// Renders a chart, and checks the manifests against the schemas and the program.
fn check_chart(folder: &Path, chart: &str, arguments: &[&str]) {
    let mut command = Command::new(Need::Helm.program());
    command.args(["template", "census"]).args(arguments);
    let (fine, text) = said(command.arg(deploy().join("kubernetes").join(chart)));
    assert!(fine, "{text}");
    let rendered = folder.join("rendered.yaml");
    fs::write(&rendered, text).expect("the manifests are written");
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("deployment/check.py");
    let mut command = Command::new(Need::KubernetesSchemas.program());
    command.arg(&script).arg(program("trainyard"));
    let (fine, text) = said(command.arg(&rendered));
    assert!(fine, "{text}");
}

trial!(the_charts_are_rendered_to_what_kubernetes_and_the_program_take, needs Helm KubernetesSchemas);
fn the_charts_are_rendered_to_what_kubernetes_and_the_program_take() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let file = |name: &str, text: &str| {
        let path = folder.path().join(name);
        fs::write(&path, text).expect("there is room");
        path.display().to_string()
    };
    let job = file("job.toml", "model_dir = \"/srv/trainyard/model\"\n");
    let job = format!("job={job}");
    let tls = "tls.secret=census-tls";
    check_chart(folder.path(), "chart", &["--set", tls, "--set-file", &job]);
    let config = file(
        "serving.toml",
        "[[model]]\nname = \"census\"\npath = \"/srv/trainyard/model\"\n",
    );
    let config = format!("config={config}");
    for more in [
        &["--set", tls][..],
        &["--set", tls, "--set", "tokens.secret=clients"][..],
        &["--set", "tls.insecure=true", "--set", "sharedClaim="][..],
    ] {
        let arguments = [more, &["--set-file", &config]].concat();
        check_chart(folder.path(), "serving", &arguments);
    }
}

trial!(manifests_are_what_kubernetes_and_the_program_take, needs KubernetesSchemas);
fn manifests_are_what_kubernetes_and_the_program_take() {
    let python = Need::KubernetesSchemas.program();
    let folder = tempfile::tempdir().expect("a temporary folder");
    let files = ["jobset.yaml", "trainjob.yaml", "tfjob.yaml"]
        .map(|name| deploy().join("kubernetes").join(name));
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("deployment/check.py");
    let mut command = Command::new(&python);
    command.arg(&script).arg(program("trainyard")).args(&files);
    let (fine, text) = said(&mut command);
    assert!(fine, "{text}");
    // A check that finds nothing finds a mistake that is put there.
    let wrong = folder.path().join("wrong.yaml");
    let text = fs::read_to_string(&files[0]).expect("a manifest");
    let text = text
        .replace("backoffLimit", "backofLimit")
        .replace("--drain-deadline", "--drain-dedline");
    fs::write(&wrong, text.replace("successPolicy", "succesPolicy")).expect("a manifest");
    let (fine, text) = said(
        Command::new(&python)
            .arg(&script)
            .arg(program("trainyard"))
            .arg(&wrong),
    );
    assert!(!fine, "{text}");
    for mistake in [
        "backofLimit",
        "--drain-dedline",
        "JobSet.spec.succesPolicy is no key",
    ] {
        assert!(text.contains(mistake), "{mistake} is found: {text}");
    }
}

/// The operator writes every replica type in lower case, the evaluator into the cluster, and `environment`.
fn tf_config(addresses: &[String], role: &str, index: usize) -> String {
    let cluster: Value = json!({
        "chief": addresses[..1], "evaluator": addresses[1..2], "ps": addresses[2..4], "worker": addresses[4..6],
    });
    json!({"cluster": cluster, "task": {"type": role, "index": index}, "environment": "cloud"})
        .to_string()
}

trial!(the_tasks_of_a_tfjob_take_their_roles_from_the_operator_and_end_with_the_job);
fn the_tasks_of_a_tfjob_take_their_roles_from_the_operator_and_end_with_the_job() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let job = write_job(folder.path(), 400, "[train]\nmax_steps = 100\n");
    let addresses: Vec<String> = free_ports(6)
        .iter()
        .map(|port| format!("127.0.0.1:{port}"))
        .collect();
    let tasks = [
        ("ps", 0),
        ("ps", 1),
        ("chief", 0),
        ("worker", 0),
        ("worker", 1),
        ("evaluator", 0),
    ];
    let start = |(role, index): (&str, usize)| {
        let config = tf_config(&addresses, role, index);
        Program::start(
            "trainyard",
            &["run", "--job", &job.to_string_lossy()],
            &[("TF_CONFIG", &config)],
        )
    };
    let running = tasks.map(start);
    for (program, (role, index)) in running.into_iter().zip(tasks) {
        let ended = program.wait(LIMIT);
        assert_eq!(ended.code, 0, "{role}:{index}: {}", ended.output);
        assert!(
            ended.output.contains(&format!("ended task={role}:{index}")),
            "{}",
            ended.output
        );
    }
    let state = fs::read_to_string(folder.path().join("model/job_state.json"))
        .expect("the marker is there");
    let state: Value = serde_json::from_str(&state).expect("the marker is JSON");
    assert_eq!(
        (&state["phase"], &state["global_step"]),
        (&json!("done"), &json!(100))
    );
    let scored =
        fs::read_to_string(folder.path().join("model/eval/result.json")).expect("it was evaluated");
    let scored: Value = serde_json::from_str(&scored).expect("the result is JSON");
    assert_eq!(
        scored["global_step"],
        json!(100),
        "the evaluator has scored the last checkpoint"
    );
}
