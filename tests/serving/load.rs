//! The load generator against a running server.

use serde_json::Value;

use crate::serving::{LIMIT, Server, run, trained};

/// Runs `bench serve` for a second, and returns its figures.
fn measure(job: &str, server: &str, further: &[&str]) -> Value {
    let arguments = [
        "bench",
        "serve",
        job,
        "--server",
        server,
        "--seconds",
        "1",
        "--warmup",
        "0.2",
        "--rows",
        "2",
        "--format",
        "json",
    ];
    let told = run(&[&arguments[..], further].concat());
    let line = told.lines().find(|line| line.starts_with('{'));
    serde_json::from_str(line.expect("a line of JSON")).expect("figures are JSON")
}

trial!(the_load_generator_is_answered_over_every_protocol);
fn the_load_generator_is_answered_over_every_protocol() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let job = trained(folder.path(), 20);
    let mut server = Server::start(&[&job, "--listen-grpc", "127.0.0.1:0"]);
    server.wait_for_version("job", 20);
    let line = server.program.wait_for("gRPC is served", LIMIT);
    let grpc = line.rsplit_once("address=").expect("an address").1.trim();
    let http = server.address.clone();
    for (protocol, address) in [
        ("http", http.as_str()),
        ("http-json", http.as_str()),
        ("grpc", grpc),
    ] {
        let figures = measure(
            &job,
            address,
            &["--protocol", protocol, "--connections", "2"],
        );
        assert_eq!(figures["failed"], 0, "{protocol}: {figures}");
        assert!(
            figures["answered"].as_u64() > Some(10),
            "{protocol}: {figures}"
        );
    }
    let figures = measure(&job, &http, &["--rate", "50"]);
    let ends = ["answered", "refused", "failed", "unsent"];
    let all: u64 = ends.iter().filter_map(|end| figures[*end].as_u64()).sum();
    assert_eq!(all, 50, "{figures}");
    let body = r#"{"inputs":[{"name":"no","shape":[1],"datatype":"FP32","data":[1]}]}"#;
    let file = folder.path().join("requests.jsonl");
    std::fs::write(&file, format!("{body}\n")).expect("the requests are written");
    let file = file.to_string_lossy();
    let given = [
        "--protocol",
        "http-json",
        "--requests",
        &file,
        "--rate",
        "20",
    ];
    let ended = trainyard_tests::Program::start(
        "trainyard",
        &[
            &["bench", "serve", &job, "--server", &http, "--seconds", "1"][..],
            &given,
        ]
        .concat(),
        &[],
    );
    let ended = ended.wait(LIMIT);
    assert_ne!(ended.code, 0, "{}", ended.output);
    assert!(ended.output.contains("no column `no`"), "{}", ended.output);
}
