//! Secrets, which nobody is shown.

use std::path::{Path, PathBuf};
use std::time::Duration;

use trainyard_security::{Authority, KEY_FILE};
use trainyard_tests::{Program, TestCluster, get};

use super::{CHIEF, PS, WORKER};
use crate::end_to_end::LIMIT;
use crate::end_to_end::security::{DAY, secret, write_credentials};

const PAGES: [&str; 8] = [
    "/metrics",
    "/healthz",
    "/readyz",
    "/",
    "/page.js",
    "/api/v1/run",
    "/api/v1/history",
    "/api/v1/evaluations",
];

/// Every file below a folder.
fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder)
        .into_iter()
        .flatten()
        .filter_map(Result::ok);
    entries
        .flat_map(|entry| match entry.path() {
            path if path.is_dir() => files(&path),
            path => vec![path],
        })
        .collect()
}

trial!(secrets_are_in_no_log_metric_page_command_line_or_model_folder);
fn secrets_are_in_no_log_metric_page_command_line_or_model_folder() {
    let cluster = TestCluster::new(1, 1, 2000, "[train]\nmax_steps = 100000000\n");
    let folder = cluster.folder.path();
    let tokens = ["ca4a41ab", "ca4a41cd", "ca4a41ef"].map(|part| part.repeat(8));
    let all = folder.join("tokens.toml");
    secret(
        &all,
        &format!(
            "chief = \"{}\"\nworker = \"{}\"\nps = \"{}\"\n",
            tokens[0], tokens[1], tokens[2]
        ),
    );
    // A comment of the cluster file, and variables that object stores read.
    let mut canaries: Vec<String> = tokens.to_vec();
    let noted = "canary-of-the-cluster-file";
    let text = std::fs::read_to_string(&cluster.cluster).expect("a cluster file");
    std::fs::write(&cluster.cluster, format!("# {noted}\n{text}")).expect("it is written");
    let environment = [
        ("AWS_SECRET_ACCESS_KEY", "canary-of-the-object-store"),
        ("AWS_SESSION_TOKEN", "canary-of-a-session"),
        ("GOOGLE_SERVICE_ACCOUNT_KEY", "canary-of-an-account"),
    ];
    canaries.push(noted.to_owned());
    canaries.extend(environment.iter().map(|(_, value)| (*value).to_owned()));
    let authority = Authority::new().expect("random numbers");
    let mut programs = Vec::new();
    for task in [PS, CHIEF, WORKER] {
        let at = folder.join(format!("tls-{}", task.role));
        let until = std::time::SystemTime::now() + DAY;
        let at = write_credentials(&at, task, (&authority, &authority), "127.0.0.1", until);
        let key = std::fs::read_to_string(Path::new(&at).join(KEY_FILE)).expect("a key");
        canaries.extend(
            key.lines()
                .filter(|line| !line.starts_with("-----"))
                .map(str::to_owned),
        );
        let name = format!("trainyard-{}", task.role);
        let [job, cluster_file, tokens] =
            [&cluster.job, &cluster.cluster, &all].map(|path| path.to_string_lossy().into_owned());
        let arguments = [
            ["--job", &job, "--cluster", &cluster_file, "--index", "0"].as_slice(),
            &[
                "--tls-dir",
                &at,
                "--token-file",
                &tokens,
                "--log-level",
                "trace,h2=trace",
            ],
        ]
        .concat();
        programs.push(Program::start(&name, &arguments, &environment));
    }
    let mut shown = Vec::new();
    programs[1].wait_for("checkpoint saved", LIMIT);
    // A worker that is stopped before it has joined has logged next to nothing.
    programs[2].wait_for("has joined the job", LIMIT);
    for program in &mut programs {
        let address = program.admin_address(LIMIT);
        for page in PAGES {
            let (head, body) =
                get(&address, page, Duration::from_secs(5)).expect("the port answers");
            shown.push((
                format!("{page} of {address}"),
                format!("{head}{body}").into_bytes(),
            ));
        }
        let process = format!("/proc/{}/cmdline", program.id());
        shown.push((process.clone(), std::fs::read(process).expect("it runs")));
        program.signal(rustix::process::Signal::TERM);
    }
    for (program, task) in programs.into_iter().zip([PS, CHIEF, WORKER]) {
        let ended = program.wait(LIMIT);
        assert!(
            ended.output.len() > 10_000,
            "a log of all that there is: {}",
            ended.output
        );
        shown.push((format!("log of {task}"), ended.output.into_bytes()));
    }
    let written = files(&cluster.model_dir());
    assert!(written.len() > 3, "{written:?}");
    shown.extend(written.into_iter().map(|path| {
        (
            path.display().to_string(),
            std::fs::read(&path).expect("a file"),
        )
    }));
    let mut hits = Vec::new();
    for (place, bytes) in &shown {
        let text = String::from_utf8_lossy(bytes);
        for canary in canaries
            .iter()
            .filter(|canary| text.contains(canary.as_str()))
        {
            let line = text
                .lines()
                .find(|line| line.contains(canary.as_str()))
                .unwrap_or_default();
            hits.push(format!(
                "{place}: {}",
                line.chars().take(300).collect::<String>()
            ));
        }
    }
    println!(
        "{} secrets looked for in {} places",
        canaries.len(),
        shown.len()
    );
    assert!(hits.is_empty(), "{hits:#?}");
}
