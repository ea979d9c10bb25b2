//! Clients of others: Triton's, over HTTP and gRPC.

use std::io::Write as _;
use std::process::{Command, Stdio};

use serde_json::{Value, json};
use trainyard_tests::Need;

use crate::serving::client::post;
use crate::serving::{LIMIT, Server, trained};

trial!(the_clients_of_triton_get_the_same_answers_over_http_and_grpc, needs TritonClients);
fn the_clients_of_triton_get_the_same_answers_over_http_and_grpc() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let job = trained(folder.path(), 20);
    let mut server = Server::start(&[&job, "--listen-grpc", "127.0.0.1:0"]);
    server.wait_for_version("job", 20);
    let line = server.program.wait_for("gRPC is served", LIMIT);
    let grpc = line.rsplit_once("address=").expect("an address").1.trim();
    let columns =
        json!({"x": [0.5, -0.25, 3.0], "z": [-1.0, 0.125, 2.0], "word": ["w1", "w2", "ü"]});
    let body = json!({ "inputs": columns }).to_string();
    let (status, answer) = post(&server.address, "/v1/models/job:predict", &body);
    assert_eq!(status, 200, "{answer}");
    let rows = answer["outputs"]["logistic"].as_array().expect("rows");
    let logistic: Vec<Value> = rows.iter().map(|row| row[0].clone()).collect();
    let case = json!({"columns": columns, "logistic": logistic}).to_string();
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/serving/clients.py");
    let mut client = Command::new(Need::TritonClients.program())
        .args([script, &server.address, grpc, "job"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the Python starts");
    let mut input = client.stdin.take().expect("piped");
    input.write_all(case.as_bytes()).expect("it is read");
    drop(input);
    let output = client.wait_with_output().expect("it ends");
    let text = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{text}{errors}");
    assert_eq!(text.trim(), "compared 3", "{errors}");
}
